"""A progress bar for long fits: on the terminal's error stream, or as a line in a notebook."""

from __future__ import annotations

import time
from html import escape
from types import TracebackType
from typing import Protocol

# Seconds between updates of a notebook's line.
NOTEBOOK_INTERVAL = 0.2


class _Bar(Protocol):
    def update(self, step: int, value: str, title: str) -> None: ...
    def stop(self) -> None: ...


class ProgressBar:
    """Shows steps and a measure, as sweeps and the bound of a fit; nothing unless ``visible``."""

    def __init__(
        self,
        title: str,
        n_steps: int,
        visible: bool,
        unit: str = "sweeps",
        measure: str = "bound",
    ) -> None:
        self._bar: _Bar | None = None
        if visible:
            from rich.console import Console

            console = Console(stderr=True)
            make = _NotebookBar if console.is_jupyter else _TerminalBar
            self._bar = make(title, n_steps, unit, measure)

    def update(self, step: int, value: float, title: str) -> None:
        """Show how far it is."""
        if self._bar is not None:
            self._bar.update(step, f"{value:.6g}", title)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class _TerminalBar:
    def __init__(self, title: str, n_steps: int, unit: str, measure: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(f"{{task.completed}}/{{task.total}} {unit}"),
            TextColumn(measure + " {task.fields[value]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=n_steps, value="-")
        self._progress.start()

    def update(self, step: int, value: str, title: str) -> None:
        self._progress.update(self._task, completed=step, value=value, description=title)

    def stop(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """A line of HTML that is updated in place; rich would need ipywidgets, and warn without it."""

    def __init__(self, title: str, n_steps: int, unit: str, measure: str) -> None:
        from IPython.display import HTML, display

        self._html, self._n_steps, self._unit, self._measure = HTML, n_steps, unit, measure
        self._start = time.monotonic()
        self._last = 0.0
        self._line = self._text(0, "-", title)
        self._handle = display(HTML(self._line), display_id=True)

    def _text(self, step: int, value: str, title: str) -> str:
        seconds = time.monotonic() - self._start
        counted = f"{step}/{self._n_steps} {self._unit}, {self._measure} {value}, {seconds:.1f} s"
        bar = f'<progress value="{step}" max="{max(self._n_steps, 1)}"></progress>'
        return f"{bar} {escape(title)}: {escape(counted)}"

    def update(self, step: int, value: str, title: str) -> None:
        self._line = self._text(step, value, title)
        if time.monotonic() - self._last >= NOTEBOOK_INTERVAL:
            self._last = time.monotonic()
            self._handle.update(self._html(self._line))

    def stop(self) -> None:
        self._handle.update(self._html(self._line))
