"""Options of how files are read, tables in the terms of a saved model, and tables printed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.console import fail, need_folders, plural, say

if TYPE_CHECKING:
    import polars as pl

    from partwise.files.data import Data

Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Of a text file that is not UTF-8, such as cp1252."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
Model = Annotated[
    Path, typer.Argument(help="Model, as partwise fit or save() write it.", show_default=False)
]
Table = Annotated[
    Path, typer.Argument(help="Rows, in a file as partwise fit reads it.", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write: .csv, .tsv or .parquet; else the table is printed.",
        show_default=False,
    ),
]

_DIGITS = 5  # that tell something, of a number that is printed
_SIGNS = {"space": " ", "blank": " ", "none": ""}


@dataclass(frozen=True)
class Reading:
    """How files are to be read; `reads_tables` makes options of a command of these."""

    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing", metavar="TEXT", help="A text that means missing, as -99; may be repeated."
        ),
    ] = None
    keep_none: Annotated[
        bool, typer.Option("--keep-none", help="The word None is a value; else it means missing.")
    ] = False
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column that names the rows; not used by the model."
        ),
    ] = None
    decimal: Annotated[
        list[str] | None,
        typer.Option(
            "--decimal",
            metavar="SIGN|COLUMN=SIGN",
            help="Sign before decimals, of all columns or of one; else found out.",
        ),
    ] = None
    thousands: Annotated[
        list[str] | None,
        typer.Option(
            "--thousands",
            metavar="SIGN|COLUMN=SIGN",
            help="Sign between thousands (or space), of all columns or of one; else found out.",
        ),
    ] = None
    date_order: Annotated[
        list[str] | None,
        typer.Option(
            "--date-order",
            metavar="ORDER|COLUMN=ORDER",
            help="Of dates such as 12/1/2008: dmy, mdy or ymd; else found out.",
        ),
    ] = None
    encoding: Encoding = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether the first line names the columns; else found out."
        ),
    ] = None
    skip_rows: Annotated[
        int, typer.Option("--skip-rows", min=0, help="Lines of text above the table.")
    ] = 0
    resize: Annotated[
        str | None,
        typer.Option("--resize", metavar="HEIGHTxWIDTH", help="Bring all images to this size."),
    ] = None

    def read(self, path: Path, texts: Collection[str] = (), numbers: Collection[str] = ()) -> Data:
        """Read a file; columns of texts and of numbers may be told."""
        signs = [
            _by_column(given, option)
            for given, option in ((self.decimal, "--decimal"), (self.thousands, "--thousands"))
        ]
        orders = _by_column(self.date_order, "--date-order")
        wrong = [order for order in orders.values() if order not in ("dmy", "mdy", "ymd")]
        if wrong:
            fail(f"Error: --date-order {wrong[0]!r} is none of dmy, mdy and ymd.", 2)
        shape = parse_image_shape(self.resize)
        from partwise.files import read_data

        return read_data(
            path,
            missing=self.missing or (),
            keep_none=self.keep_none,
            texts=texts,
            numbers=numbers,
            id_column=self.id_column,
            decimal=signs[0],
            thousands=signs[1],
            date_order=orders,
            encoding=self.encoding,
            header=self.header,
            skip_rows=self.skip_rows,
            resize=shape,
        )


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading`; it gets them as its argument ``reading``."""
    added = inspect.signature(Reading, eval_str=True).parameters
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.name != "reading"]
    kind = inspect.Parameter.KEYWORD_ONLY

    def run(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in added})
        command(**given, reading=reading)

    for one in added.values():
        one.annotation.__metadata__[0].rich_help_panel = "How files are read"
    parameters = [one.replace(kind=kind) for one in (*own, *added.values())]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _by_column(given: list[str] | None, option: str) -> dict[str, str]:
    """Values by column, under "" that of all columns."""
    out = {}
    for text in given or []:
        name, sign, value = text.rpartition("=")
        if sign and not name:
            fail(f"Error: {option} {text!r} is not of the form VALUE or COLUMN=VALUE.", 2)
        out[name] = _SIGNS.get(value, value)
        if option != "--date-order" and len(out[name]) > 1:
            fail(f"Error: {option} {text!r}: {value!r} is not a single sign, such as a comma.", 2)
    return out


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read a height and a width from text such as ``32x32``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x×,]\s*([1-9]\d*)\s*", text.lower())
    if found is None:
        fail(f"Error: {text!r} is not a height and a width, such as 32x32.", 2)
    return int(found[1]), int(found[2])


def pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Read what stands before and after the last equals sign."""
    name, sign, value = text.rpartition("=")
    if not sign or not name:
        fail(f"Error: {option} {text!r} is not of the form {form}.", 2)
    return name, value


def load_for(path: Path, verb: str, what: str, inner: bool = False) -> Any:
    """Load a model that has a method, or perhaps its inner model; ``what`` says what it is for."""
    from partwise import load

    fitted = load(path)
    fitted = getattr(fitted, "model_", fitted) if inner else fitted
    if not hasattr(fitted, verb):
        fail(
            f"Error: {path} holds a {type(fitted).__name__}, which cannot {what}; fit one with "
            "partwise fit.",
            1,
        )
    return fitted


def read_like(
    fitted: Any, path: Path, reading: Reading, needless: Collection[str] = ()
) -> tuple[Data, Any]:
    """Read a file as the model's rows were: all that it holds, and what the model knows of it.

    Columns that are needless may be absent.
    """
    from partwise.fitted import schema_of

    schema = schema_of(getattr(fitted, "model_", fitted))
    columns = () if schema is None else schema.columns
    texts = [
        str(column.name)
        for column in columns
        if any(isinstance(level, str) for level in column.levels)
    ]
    numbers = [str(column.name) for column in columns if column.form == "number"]
    if schema is None:
        numbers = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    found = reading.read(path, texts, numbers)
    return found, _known_columns(fitted, found.X, path, needless)


def _known_columns(fitted: Any, X: Any, path: Path, needless: Collection[str]) -> Any:
    """The columns that the model knows, in its order."""
    from partwise.fitted import schema_of

    names = getattr(fitted, "feature_names_in_", None)
    width = getattr(fitted, "n_features_in_", X.shape[1])
    if X.shape[1] != width and (names is None or not hasattr(X, "columns")):
        raise ValueError(
            f"{path} has {plural(X.shape[1], 'column')}, but the model learned from {width}; give "
            "a table like the one it learned from, or fit a model to this one."
        )
    if not hasattr(X, "columns"):
        return X
    if names is None:
        for column in X.get_columns():
            if not column.dtype.is_numeric() and schema_of(fitted) is None:
                raise ValueError(
                    f"{path}: column {column.name!r} holds {column.dtype}, but the model learned "
                    "from numbers alone; give a table like the one it learned from, or fit a model "
                    "to this one."
                )
        return X.to_numpy()
    absent = [name for name in names if name not in X.columns and name not in needless]
    if absent:
        several = len(absent) > 1
        listed = ", ".join(map(repr, absent[:5])) + (" and others" if len(absent) > 5 else "")
        raise ValueError(
            f"{path} lacks the column{'s' * several} {listed} that the model learned from; add "
            f"{'them (they' if several else 'it (it'} may be empty), or fit a model to this table."
        )
    return X.select([name for name in names if name in X.columns])


def check_names(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuse names of columns that are not there, and suggest what was meant."""
    from partwise.files.data import closest

    for name in asked:
        if name not in names:
            fail(f"Error: there is no column {name!r}{closest(name, names)}", 2)


def give(table: pl.DataFrame, out: Path | None, like: Data | None = None) -> None:
    """Write a table to a file, or print it; values are written as in a file like it."""
    if out is not None:
        from partwise.files.frames import write_table

        write_table(out, table, like)
        say(f"Wrote {out}: {plural(len(table), 'row')}.")
        return
    import polars as pl

    lines = pl.Series([""] * (len(table) + 1))
    for column in table.get_columns():
        texts = pl.concat(
            [pl.Series([column.name]), as_written(like, column).fill_null("").alias("")]
        )
        lines = lines + texts.str.pad_end(int(str(texts.str.len_chars().max()))) + "  "
    say("\n".join(lines.str.strip_chars_end(" ")))


def is_missing(column: pl.Series) -> pl.Series:
    """Which values are null or NaN."""
    nan = column.is_nan().fill_null(True) if column.dtype.is_float() else False
    return column.is_null() | nan


def as_written(data: Data | None, values: pl.Series) -> pl.Series:
    """Values of a column as the file writes them, with no more digits than tell something."""
    import numpy as np
    import polars as pl

    held = ~is_missing(values)
    known = values.filter(held)
    if known.dtype.is_float():
        digits = len(str(int(min(float(str(known.abs().max() or 0)), 1e15))))
        known = known.round(max(_DIGITS - digits, 0))
    if data is not None and data.layout is not None:
        texts = data.layout.written(values.name, known)
    elif known.dtype.is_float():
        texts = pl.Series([f"{value:.{_DIGITS}g}" for value in known], dtype=pl.String)
    else:
        texts = known.cast(pl.String)
    out = np.full(len(values), None, object)
    out[held.to_numpy()] = texts.to_numpy()
    return pl.Series(values.name, out.tolist(), pl.String)


def check_out(out: Path | None) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    need_folders(out)
    if out is not None:
        from partwise.files.frames import check_table_name

        check_table_name(out)
