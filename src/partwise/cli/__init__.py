"""The command line: ``partwise``.

Commands parse arguments, call the library and print. What is heavy is imported when a command runs,
so that help comes at once.
"""

from partwise.cli.main import app

__all__ = ["app"]
