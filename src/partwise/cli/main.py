"""The application, its options and how it fails."""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from partwise import __version__
from partwise.cli import ask, compress, demo, fill, fit, recommend, report, serve, warm_up
from partwise.cli.console import complain, fail, say

# Of the command line's own errors typer writes the message; which class they have depends on its
# release, but all of them can be written by this method.
_WRITES_ITSELF = "format_message"


class Polite(TyperGroup):
    """A group of commands whose errors are one sentence, unless ``--debug`` is given."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                # Shown to the user whatever filters the interpreter was started with.
                warnings.filterwarnings("default", category=UserWarning)
                return super().invoke(ctx)
        except KeyboardInterrupt:
            fail("Stopped.", 130)
        except BrokenPipeError:  # whoever read, as head does, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # one sentence for the user; --debug shows the rest
            if hasattr(error, _WRITES_ITSELF) or ctx.params.get("debug"):
                raise
            fail(f"Error: {_sentence(error)}", 1)


def _sentence(error: Exception) -> str:
    """Say an error on one line."""
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
    cls=Polite,
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
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Find the parts that data is made of."""


app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("impute")(fill.impute)
app.command("sample")(fill.sample)
app.command("states")(ask.states)
app.command("predict")(ask.predict)
app.command("odd")(ask.odd)
app.command("report")(report.report)
app.command("recommend")(recommend.recommend)
app.command("serve")(serve.serve)
app.command("warm-up")(warm_up.warm_up)
app.command("compress")(compress.compress)
app.command("decompress")(compress.decompress)


def _add_papers() -> None:
    """Add the commands that `partwise_papers` provides; where it is absent, they say so."""
    if find_spec("partwise_papers") is not None:
        import_module("partwise_papers.commands").add_to(app)
        return

    def absent(ctx: typer.Context) -> None:
        """Not installed: needs the package partwise_papers."""
        fail(
            f"partwise {ctx.command.name} needs the package partwise_papers, which is not "
            "installed; install Partwise anew: its wheel holds both.",
            2,
        )

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name in ("reproduce", "bench"):
        app.command(name, context_settings=anything)(absent)


_add_papers()
