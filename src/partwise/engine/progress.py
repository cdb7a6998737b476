"""A progress bar for long fits, on the terminal's error stream."""

from __future__ import annotations

from types import TracebackType


class ProgressBar:
    """Shows sweeps and the bound while a fit runs; does nothing unless ``visible``."""

    def __init__(self, title: str, n_steps: int, visible: bool) -> None:
        self.visible = visible
        if visible:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total} sweeps"),
                TextColumn("bound {task.fields[bound]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._task = self._progress.add_task(title, total=n_steps, bound="-")

    def update(self, step: int, bound: float, title: str) -> None:
        """Show where the fit is."""
        if self.visible:
            self._progress.update(
                self._task, completed=step, bound=f"{bound:.6g}", description=title
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
