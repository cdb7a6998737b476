"""The command line: ``partwise``.

Commands parse arguments, call the library and print. Heavy modules are imported when a command
runs, so that help is fast. The application is built on first access, so that packages that provide
commands can import `partwise.cli.console` before.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from partwise.cli.main import app

__all__ = ["app"]


def __getattr__(name: str) -> "typer.Typer":
    if name != "app":
        raise AttributeError(f"module 'partwise.cli' has no attribute {name!r}")
    from partwise.cli.main import app

    return app
