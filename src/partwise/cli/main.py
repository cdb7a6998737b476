"""The application: its commands, common options, and how errors are reported."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, TextIO

import typer
from typer.core import TyperGroup

from partwise import __version__
from partwise.cli import ask, compress, demo, drift, fill, fit, recommend, report, serve, warm_up
from partwise.cli.console import complain, fail, say

# Typer prints messages of its own errors. Their class depends on its release, but all of them have
# this method.
_PRINTED_BY_TYPER = "format_message"


class Commands(TyperGroup):
    """A group of commands whose errors are one sentence, unless ``--debug`` is given."""

    def main(self, *args: object, **kwargs: object) -> object:
        """Parse arguments and run the command."""
        with _closable_output():
            # Arguments are handed on as they came.
            return super().main(*args, **kwargs)  # type: ignore[arg-type]

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # of click or typer
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                # Shown whatever filters the interpreter was started with.
                warnings.filterwarnings("default", category=UserWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("Stopped.", 130)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # one sentence for the user; --debug shows the traceback
            if hasattr(error, _PRINTED_BY_TYPER) or ctx.params.get("debug"):
                raise
            from partwise.files.data import UnknownNameError

            fail(f"Error: {_sentence(error)}", 2 if isinstance(error, UnknownNameError) else 1)


class _Closable:
    """Standard output that ends the process with code 0 when its reader has gone.

    A reader such as ``head`` closes the pipe when it has enough. Whether a write still meets an
    open pipe is a matter of timing, so every closed pipe counts as success.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._open():
            return self._stream.write(text)
        return 0

    def writelines(self, lines: Iterable[str]) -> None:
        with self._open():
            self._stream.writelines(lines)

    def flush(self) -> None:
        with self._open():
            self._stream.flush()

    @contextmanager
    def _open(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            # The interpreter flushes once more when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise SystemExit(0) from None

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def _closable_output() -> Iterator[None]:
    """Replace standard output by `_Closable`."""
    stream = sys.stdout
    sys.stdout = _Closable(stream)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            sys.stdout = stream


def _sentence(error: Exception) -> str:
    """The message of an error on one line."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    if isinstance(error, KeyError) or not text:
        text = f"{type(error).__name__} {text}".strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    complain(f"Warning: {' '.join(str(message).split())}")


app = typer.Typer(
    name="partwise",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"partwise {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Impute missing values, find groups of columns and types of rows, detect anomalies.

    Exit codes: 0 success, 1 a problem with the data or a file, 2 wrong arguments, 130 interrupted.
    """


app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("impute")(fill.impute)
app.command("sample")(fill.sample)
app.command("states")(ask.states)
app.command("predict")(ask.predict)
app.command("odd")(ask.odd)
app.command("drift")(drift.drift)
app.command("report")(report.report)
app.command("recommend")(recommend.recommend)
app.command("serve")(serve.serve)
app.command("warm-up")(warm_up.warm_up)
app.command("compress")(compress.compress)
app.command("decompress")(compress.decompress)


def _add_papers() -> None:
    """Add the commands of `partwise_papers`; if it is not installed, they print a message."""
    if find_spec("partwise_papers") is not None:
        import_module("partwise_papers.commands").add_to(app)
        return

    def absent(ctx: typer.Context) -> None:
        """Not installed: needs the package partwise_papers."""
        fail(
            f"partwise {ctx.command.name} needs the package partwise_papers, which is not "
            "installed; reinstall Partwise, whose wheel contains both.",
            2,
        )

    any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name in ("reproduce", "bench", "convert"):
        app.command(name, context_settings=any_arguments)(absent)


_add_papers()
