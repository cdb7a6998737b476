"""Completion of names in the shell: columns of the file or model on the command line.

Errors are silent here: a shell that completes nothing is better than one that prints a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Parsed(Protocol):
    """The command line so far; click's or typer's context."""

    @property
    def args(self) -> Sequence[str]:
        """Arguments that are not parsed yet."""

    @property
    def params(self) -> Mapping[str, object]:
        """Values of options and arguments by name."""


def complete_columns(ctx: Parsed, incomplete: str) -> list[str]:
    """Names of columns that continue what was typed, also after a comma."""
    before, comma, start = incomplete.rpartition(",")
    given = before.split(",") if comma else []
    found = (name for name in _columns(ctx) if name.startswith(start) and name not in given)
    return [f"{before}{comma}{name}" for name in found]


def complete_column_value(ctx: Parsed, incomplete: str) -> list[str]:
    """Names of columns followed by an equals sign."""
    return [f"{name}=" for name in _columns(ctx) if name.startswith(incomplete)]


def _columns(ctx: Parsed) -> list[str]:
    """Names of the columns of the first file on the command line that has some."""
    # An option without a value ends the parsing: arguments are then in `args`, unnamed.
    for path in (*ctx.args, ctx.params.get("model"), ctx.params.get("data")):
        if isinstance(path, str | Path) and Path(path).is_file():
            with suppress(Exception):  # a damaged file suggests nothing
                is_model = Path(path).suffix == ".safetensors"
                return _of_model(Path(path)) if is_model else _of_table(Path(path))
    return []


def _of_model(path: Path) -> list[str]:
    from partwise.files.encoded_values import decode
    from partwise.files.model import read_file

    header, arrays = read_file(path)
    state = decode(header["state"], arrays)
    state = state["models"][0] if "models" in state else state
    return [str(name) for name in state["learned"]["feature_names_in_"]]


def _of_table(path: Path) -> list[str]:
    import polars as pl

    from partwise.data.records import FIRST_LINES, decode, records, separator_of
    from partwise.data.stores import panics_as_errors
    from partwise.files.parquet_check import impossible

    if path.suffix.lower() == ".parquet":
        if impossible(path) is not None:
            return []
        with panics_as_errors():
            return list(pl.read_parquet_schema(path))
    text = "".join(decode(path).text.splitlines(keepends=True)[:FIRST_LINES])
    _, first = next(records(path, text, separator_of(path, text)))
    return [name.strip() for name in first]
