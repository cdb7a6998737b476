"""Options for reading files, tables read for a saved model, and tables printed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from partwise._text import plural
from partwise.cli.completion import complete_columns
from partwise.cli.console import closest, fail, keep_inputs, need_folders, say

if TYPE_CHECKING:
    import polars as pl
    from sklearn.base import BaseEstimator

    from partwise.data.text_options import TextFormat
    from partwise.files.data import Data, Rows

Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of a text file that is not UTF-8, such as cp1252."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]
Model = Annotated[
    Path, typer.Argument(help="Model file, written by partwise fit or save().", show_default=False)
]
Table = Annotated[
    Path, typer.Argument(help="Rows, in a file that partwise fit can read.", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write: .csv, .tsv or .parquet. By default the table is printed.",
        show_default=False,
    ),
]

_T = TypeVar("_T")

_DIGITS = 5  # significant digits of a printed number
_SIGNS = {"space": " ", "blank": " ", "none": ""}


@dataclass(frozen=True)
class Reading:
    """Options for reading files; `reads_tables` adds them to a command."""

    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            metavar="TEXT",
            help="A text that means missing, such as -99; may be repeated.",
        ),
    ] = None
    keep_none: Annotated[
        bool, typer.Option("--keep-none", help="Keep the word None as a value.")
    ] = False
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column with names of the rows; not used by the model.",
            autocompletion=complete_columns,
        ),
    ] = None
    decimal: Annotated[
        list[str] | None,
        typer.Option(
            "--decimal",
            metavar="SIGN|COLUMN=SIGN",
            help="Decimal mark of all columns or of one; detected by default.",
        ),
    ] = None
    thousands: Annotated[
        list[str] | None,
        typer.Option(
            "--thousands",
            metavar="SIGN|COLUMN=SIGN",
            help="Thousands separator (or space) of all columns or of one; detected by default.",
        ),
    ] = None
    date_order: Annotated[
        list[str] | None,
        typer.Option(
            "--date-order",
            metavar="ORDER|COLUMN=ORDER",
            help="Order in dates such as 12/1/2008: dmy, mdy or ymd; detected by default.",
        ),
    ] = None
    first_year: Annotated[
        list[str] | None,
        typer.Option(
            "--first-year",
            metavar="YEAR|COLUMN=YEAR",
            help="First of the hundred years to which two-digit years belong, such as 1930; "
            "detected by default.",
        ),
    ] = None
    duration: Annotated[
        list[str] | None,
        typer.Option(
            "--duration",
            metavar="COLUMN=FORM",
            help="A column of durations, in hours and minutes (h:mm) or minutes and seconds "
            "(m:ss); times such as 3:45 are times of day by default.",
            autocompletion=complete_columns,
        ),
    ] = None
    encoding: Encoding = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line has column names; detected by default.",
        ),
    ] = None
    skip_rows: Annotated[
        int, typer.Option("--skip-rows", min=0, help="Lines of text before the table.")
    ] = 0
    resize: Annotated[
        str | None,
        typer.Option("--resize", metavar="HEIGHTxWIDTH", help="Resize all images."),
    ] = None

    def read(
        self,
        path: Path,
        texts: Collection[str] = (),
        numbers: Collection[str] = (),
        like: TextFormat | None = None,
    ) -> Data:
        """Read a file; columns in ``texts`` are text, those in ``numbers`` are numbers.

        ``like`` is the format of the rows of a model.
        """
        decimal, thousands = (
            _by_column(given, option, _sign, "one character, such as a comma")
            for given, option in ((self.decimal, "--decimal"), (self.thousands, "--thousands"))
        )
        orders = _by_column(
            self.date_order, "--date-order", _one_of("dmy", "mdy", "ymd"), "one of dmy, mdy and ymd"
        )
        years = _by_column(self.first_year, "--first-year", _year, "a year, such as 1930")
        durations = _by_column(
            self.duration, "--duration", _one_of("h:mm", "m:ss"), "COLUMN=h:mm or COLUMN=m:ss"
        )
        if "" in durations:
            fail("Error: --duration needs a column, such as --duration time=m:ss.", 2)
        shape = parse_image_shape(self.resize)
        from partwise.files import read_data

        found = read_data(
            path,
            missing=self.missing or (),
            keep_none=self.keep_none,
            texts=texts,
            numbers=numbers,
            id_column=self.id_column,
            decimal=decimal,
            thousands=thousands,
            date_order=orders,
            first_year=years,
            durations=durations,
            like=like,
            encoding=self.encoding,
            header=self.header,
            skip_rows=self.skip_rows,
            resize=shape,
        )
        if found.format is not None:
            for by_column in (decimal, thousands, orders, years, durations):
                check_names([name for name in by_column if name], list(found.format.columns))
        return found


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `Reading` to a command, which gets them as its argument ``reading``."""
    added = inspect.signature(Reading, eval_str=True).parameters
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.name != "reading"]
    kind = inspect.Parameter.KEYWORD_ONLY

    def run(**given: object) -> None:
        options = {name: given.pop(name) for name in added}
        command(**given, reading=Reading(**options))  # type: ignore[arg-type]  # typer checks them

    for one in added.values():
        one.annotation.__metadata__[0].rich_help_panel = "Reading files"
    parameters = [one.replace(kind=kind) for one in (*own, *added.values())]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    # typer reads the signature of a function, which types do not know.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _by_column(
    given: list[str] | None, option: str, convert: Callable[[str], _T | None], what: str
) -> dict[str, _T]:
    """Values by column, None of which is refused; the key "" means all columns."""
    out = dict[str, _T]()
    for text in given or []:
        name, sign, value = text.rpartition("=")
        if sign and not name:
            fail(f"Error: {option} {text!r} is not of the form VALUE or COLUMN=VALUE.", 2)
        converted = convert(value)
        if converted is None:
            fail(f"Error: {option} {text!r}: {value!r} is not {what}.", 2)
        out[name] = converted
    return out


def _sign(text: str) -> str | None:
    sign = _SIGNS.get(text, text)
    return sign if len(sign) <= 1 else None


def _year(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[12]\d\d\d", text) else None


def _one_of(*choices: str) -> Callable[[str], str | None]:
    return lambda text: text if text in choices else None


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read a height and a width from text such as ``32x32``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([1-9]\d*)\s*[x×,]\s*([1-9]\d*)\s*", text.lower())
    if found is None:
        fail(f"Error: {text!r} is not a height and a width, such as 32x32.", 2)
    return int(found[1]), int(found[2])


def pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Split a text at its last equals sign."""
    name, sign, value = text.rpartition("=")
    if not sign or not name:
        fail(f"Error: {option} {text!r} is not of the form {form}.", 2)
    return name, value


def load_for(path: Path, method: str, what: str, inner: bool = False) -> BaseEstimator:
    """Load a model that has a method, or its inner model; ``what`` describes the method."""
    from partwise import load
    from partwise.files.model import TEXT_FORMAT

    fitted = load(path)
    if inner and hasattr(fitted, "model_"):
        form = getattr(fitted, TEXT_FORMAT, None)
        fitted = fitted.model_
        if form is not None:
            setattr(fitted, TEXT_FORMAT, form)
    if not hasattr(fitted, method):
        fail(
            f"Error: {path} contains a model of type {type(fitted).__name__}, which cannot {what}; "
            "fit another model with partwise fit.",
            1,
        )
    return fitted


def read_for(fitted: BaseEstimator, path: Path, reading: Reading) -> Data:
    """Read a file with the types of the model's columns, and as the file of its fit was written."""
    from partwise.files.model import TEXT_FORMAT
    from partwise.fitted import schema_of

    schema = schema_of(getattr(fitted, "model_", fitted))
    columns = () if schema is None else schema.columns
    texts = [
        str(column.name)
        for column in columns
        if any(isinstance(level, str) for level in column.levels)
        or (column.kind == "ignored" and column.form == "level")  # as left out of the fit
    ]
    numbers = [str(column.name) for column in columns if column.form == "number"]
    if schema is None:
        numbers = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    return reading.read(path, texts, numbers, getattr(fitted, TEXT_FORMAT, None))


def read_like(
    fitted: BaseEstimator, path: Path, reading: Reading, optional: Collection[str] = ()
) -> tuple[Data, Rows]:
    """Read a file for a model: all columns, and those of the model.

    Columns in ``optional`` may be absent.
    """
    import polars as pl

    known = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    if reading.id_column not in known:
        found = read_for(fitted, path, reading)
        return found, _known_columns(fitted, found.X, path, optional)
    # The fit had the column, too: it names the rows and stays in the table.
    found = read_for(fitted, path, replace(reading, id_column=None))
    X = _known_columns(fitted, found.X, path, optional)
    names = found.X[reading.id_column] if isinstance(found.X, pl.DataFrame) else None
    return replace(found, ids=names), X


def _known_columns(fitted: BaseEstimator, X: Rows, path: Path, optional: Collection[str]) -> Rows:
    """The model's columns, in its order."""
    import polars as pl

    from partwise.fitted import schema_of

    names = getattr(fitted, "feature_names_in_", None)
    width = getattr(fitted, "n_features_in_", X.shape[1])
    is_frame = isinstance(X, pl.DataFrame)
    if X.shape[1] != width and (names is None or not is_frame):
        raise ValueError(
            f"{path} has {plural(X.shape[1], 'column')}, but the model was fitted to {width}; use "
            "a table with the same columns, or fit a model to this one."
        )
    if not isinstance(X, pl.DataFrame):
        return X
    if names is None:
        for column in X.get_columns():
            if not column.dtype.is_numeric() and schema_of(fitted) is None:
                raise ValueError(
                    f"{path}: column {column.name!r} holds {column.dtype}, but the model was "
                    "fitted to numbers only; use a table with the same columns, or fit a model to "
                    "this one."
                )
        return X.to_numpy()
    absent = [name for name in names if name not in X.columns and name not in optional]
    if absent:
        several = len(absent) > 1
        listed = ", ".join(map(repr, absent[:5])) + (" and others" if len(absent) > 5 else "")
        raise ValueError(
            f"{path} lacks the column{'s' * several} {listed} of the model; add "
            f"{'them (they' if several else 'it (it'} may be empty), or fit a model to this table."
        )
    return X.select([name for name in names if name in X.columns])


def check_names(asked: Sequence[str], names: Sequence[str]) -> None:
    """Refuse unknown names of columns, with a suggestion."""
    for name in asked:
        if name not in names:
            fail(f"Error: there is no column {name!r}{closest(name, names)}", 2)


def give(table: pl.DataFrame, out: Path | None, like: Data | None = None) -> None:
    """Write a table to a file, or print it; ``like`` sets the format of values."""
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
    """Values of a column in the file's format, otherwise with significant digits only."""
    import numpy as np
    import polars as pl

    held = ~is_missing(values)
    known = values.filter(held)
    layout = None if data is None else data.layout
    if layout is not None and values.name in layout.forms:
        texts = layout.written(values.name, known)
    elif known.dtype.is_float():
        digits = len(str(int(min(float(str(known.abs().max() or 0)), 1e15))))
        known = known.round(max(_DIGITS - digits, 0))
        texts = pl.Series([f"{value:.{max(_DIGITS, digits)}g}" for value in known], dtype=pl.String)
    else:
        texts = known.cast(pl.String)
    out = np.full(len(values), None, object)
    out[held.to_numpy()] = texts.to_numpy()
    return pl.Series(values.name, out.tolist(), pl.String)


def check_out(out: Path | None, *inputs: Path | None) -> None:
    """Refuse a file that cannot be written or is read, before any work is done."""
    need_folders(out)
    keep_inputs(out, *inputs)
    if out is not None:
        from partwise.files.frames import check_table_name

        try:
            check_table_name(out)
        except ValueError as error:
            fail(f"Error: {error}", 2)
