"""Output of the command line: results to standard output, all else to standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table


def output() -> Console:
    """Make a console on standard output."""
    from rich.console import Console

    return Console(highlight=False)


def errors() -> Console:
    """Make a console on standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_table(table: Table) -> None:
    """Print a table; to a file or pipe, as wide as it needs to be."""
    from rich.console import Console

    console = output()
    if not console.is_terminal:
        needed = Console(width=10_000).measure(table).maximum
        console = Console(highlight=False, width=max(needed, 80))
    console.print(table)


def say(text: str) -> None:
    """Print text without wrapping or markup."""
    output().print(text, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """Print text to standard error, without wrapping or markup."""
    errors().print(text, markup=False, soft_wrap=True)


def fail(text: str, code: int) -> NoReturn:
    """Print what is wrong in one sentence, and exit with a code; 2 is for wrong arguments."""
    complain(text)
    raise typer.Exit(code)


def closest(name: str, names: Sequence[str], kind: str = "column") -> str:
    """The end of a message about an unknown name: the closest known name, or a list."""
    from partwise.files.data import closest

    return closest(name, names, kind)


def check_choice(value: str, choices: Sequence[str], option: str) -> None:
    """Refuse a value that is not among the choices of an option."""
    if value not in choices:
        fail(f"Error: {option} {value!r} is unknown{closest(value, choices, 'choice')}", 2)


def need_folders(*files: Path | None) -> None:
    """Refuse files that cannot be written, before any work is done."""
    for file in files:
        if file is not None and not file.resolve().parent.is_dir():
            fail(f"Error: there is no folder {file.parent} to write {file.name} to.", 2)
        if file is not None and file.is_dir():
            fail(f"Error: {file} is a folder; name a file in it.", 2)


def keep_inputs(out: Path | None, *inputs: Path | None) -> None:
    """Refuse to write over a file that is read: its missing values would be lost."""
    for path in inputs:
        if out is not None and path is not None and out.resolve() == path.resolve():
            fail(f"Error: {out} is read by this command; name another file to write.", 2)


@contextmanager
def nameless() -> Iterator[None]:
    """Accept columns without names, since some files have none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


@contextmanager
def busy(text: str, seconds: float | None = None) -> Iterator[None]:
    """Show progress, and the remaining time if there is a limit."""
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Spent(BarColumn):
        """Elapsed time, as a fraction of the limit if there is one."""

        def render(self, task: Task) -> object:  # type: ignore[override]  # any renderable is shown
            if task.total is not None:
                task.completed = min(task.elapsed or 0.0, task.total)
            return super().render(task)

    class Left(TextColumn):
        """Remaining time until the limit."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text()
            left = max(round(task.total - (task.elapsed or 0.0)), 0)
            return Text(f"at most {left // 60}:{left % 60:02d} left; Ctrl-C keeps the best so far")

    console = errors()
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}", markup=False), Spent(20), TimeElapsedColumn())
    with Progress(*columns, Left(""), console=console, transient=True) as bar:
        bar.add_task(text, total=seconds)
        yield
