"""Where the command line writes: results to standard output, all else to standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
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
    """Print a table; where no one watches, as wide as it needs to be."""
    from rich.console import Console

    console = output()
    if not console.is_terminal:
        needed = Console(width=10_000).measure(table).maximum
        console = Console(highlight=False, width=max(needed, 80))
    console.print(table)


def say(text: str) -> None:
    """Print text as it is, without wrapping or markup."""
    output().print(text, markup=False, soft_wrap=True)


def complain(text: str) -> None:
    """Print text as it is to standard error."""
    errors().print(text, markup=False, soft_wrap=True)


def fail(text: str, code: int) -> NoReturn:
    """Say in one sentence what is wrong, and leave with a code: 2 for what was typed."""
    complain(text)
    raise typer.Exit(code)


def need_folders(*files: Path | None) -> None:
    """Refuse files that could not be written, before any work is done for them."""
    for file in files:
        if file is not None and not file.resolve().parent.is_dir():
            fail(f"Error: there is no folder {file.parent} to write {file.name} to.", 2)
        if file is not None and file.is_dir():
            fail(f"Error: {file} is a folder; name a file in it.", 2)


def plural(number: int, singular: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


@contextmanager
def nameless() -> Iterator[None]:
    """Let columns be told by their order alone: that is all that some files have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


@contextmanager
def busy(text: str, seconds: float | None = None) -> Iterator[None]:
    """Show that something is going on, and how much of the time it may take is left."""
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Spent(BarColumn):
        """How much of the time is over; without an end to it, that time goes by."""

        def render(self, task: Task) -> object:  # type: ignore[override]  # any renderable serves
            if task.total is not None:
                task.completed = min(task.elapsed or 0.0, task.total)
            return super().render(task)

    class Left(TextColumn):
        """The time that is left at most."""

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
