"""A progress bar for long fits, on the terminal's error stream."""

from __future__ import annotations

from types import TracebackType


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
        self.visible = visible
        if visible:
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

    def update(self, step: int, value: float, title: str) -> None:
        """Show how far it is."""
        if self.visible:
            self._progress.update(
                self._task, completed=step, value=f"{value:.6g}", description=title
            )

    def __enter__(self) -> ProgressBar:
        if self.visible:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.visible:
            self._progress.stop()
