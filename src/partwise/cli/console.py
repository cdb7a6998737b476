"""Where the command line writes: results to standard output, all else to standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
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


def plural(number: int, singular: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {singular}{'' if number == 1 else 's'}"
