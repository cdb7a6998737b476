"""The command line: ``partwise``.

Commands parse arguments, call the library and print. What is heavy is imported when a command runs,
so that help comes at once. The application is put together when it is first asked for: packages
that provide commands import `partwise.cli.console` before that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.cli.main import app

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'partwise.cli' has no attribute {name!r}")
    from partwise.cli.main import app

    return app
