"""``partwise impute`` and ``partwise sample``: imputed and synthetic tables from a saved model."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partwise._text import plural
from partwise.cli.completion import complete_column_value
from partwise.cli.console import busy, complain, fail, nameless, say
from partwise.cli.folders import impute_folder, write_folder
from partwise.cli.tables import (
    Model,
    Reading,
    Seed,
    Table,
    check_names,
    check_out,
    give,
    load_for,
    pair,
    read_like,
    reads_tables,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.contracts import Array
    from partwise.typing import Frame, Name, Value

# Default coverage of the intervals in a list of imputed values.
_COVERAGE = 0.9


@reads_tables
def impute(
    model: Model,
    data: Table,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Table to write: .csv, .tsv, .parquet or .npy; text has the format of DATA.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option(
            "--list",
            help="List the imputed values instead of the table: row, column, value, lower, upper, "
            "probability. Printed unless -o is given.",
        ),
    ] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            min=1,
            help="Write this many sampled completions instead: OUT-1.csv, OUT-2.csv, ...",
            show_default=False,
        ),
    ] = None,
    intervals: Annotated[
        float | None,
        typer.Option(
            "--intervals",
            metavar="COVERAGE",
            help="Also write OUT-lower.csv and OUT-upper.csv, the ends of intervals with this "
            "coverage, such as 0.9. With --list, the coverage of the listed intervals.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    *,
    reading: Reading,
) -> None:
    """Impute the missing values of a table; observed values are unchanged to the last digit.

    Examples:

      partwise impute survey.safetensors survey.csv -o imputed.csv

      partwise impute survey.safetensors survey.csv -o imputed.csv --intervals 0.9

      partwise impute survey.safetensors survey/ -o imputed/

      partwise impute survey.safetensors survey.csv --list --id name

      partwise impute survey.safetensors survey.csv -o completed.csv --number 5
    """
    from partwise.files.folders import is_table_folder

    if is_table_folder(data):
        if out is None or listed or number is not None or intervals is not None:
            fail("Error: a folder is imputed to a folder, named with -o, without other options.", 2)
        impute_folder(load_for(model, "impute", "impute"), data, out, reading)
        return
    check_out(out, model, data)
    if out is None and not listed:
        fail("Error: name the table to write with -o, or give --list.", 2)
    if listed and number is not None:
        fail("Error: --list is for one table; leave --number out.", 2)
    if intervals is not None and not 0 < intervals < 1:
        fail(f"Error: --intervals {intervals:g} is not between 0 and 1, such as 0.9.", 2)
    from partwise.files.frames import as_polars, with_ids, write_filled, write_table

    fitted = load_for(model, "impute", "impute")
    if number is not None and "n_imputations" not in signature(fitted.impute).parameters:
        fail(f"Error: a {type(fitted).__name__} has no multiple imputation; omit --number.", 2)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    if listed:
        from partwise.cli.imputations import imputations

        with busy("Imputing"), nameless():
            table = imputations(fitted, X, found, intervals or _COVERAGE)
        give(table, out)
        return
    assert out is not None
    with busy(f"Imputing {out}"), nameless():
        if number is None:
            made = {out: fitted.impute(X)}
        else:
            completed = fitted.impute(X, number, random_state=seed)
            made = {_with_word(out, str(i)): one for i, one in enumerate(completed, 1)}
        for path, table in made.items():
            write_filled(path, found, table)
        if intervals is not None:
            ends = zip(("lower", "upper"), fitted.predict_interval(X, intervals), strict=True)
            made |= {
                _with_word(out, word): with_ids(found, as_polars(_named(fitted, end)))
                for word, end in ends
            }
            for path in list(made)[-2:]:
                write_table(path, made[path], found)
    say(f"Wrote {', '.join(map(str, made))}: {plural(X.shape[0], 'row')}.")


@reads_tables
def sample(
    model: Model,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Table to write: .csv, .tsv, .parquet or .npy; without an ending, a folder of "
            "parquet files, for more rows than fit in memory. By default the table is printed.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of rows.")] = 100,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="COLUMN=VALUE",
            help="Value of a column in all rows; the others are sampled given it. May be repeated.",
            autocompletion=complete_column_value,
        ),
    ] = None,
    seed: Seed = 0,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like", metavar="DATA", help="File whose format of numbers, dates and so on is used."
        ),
    ] = None,
    *,
    reading: Reading,
) -> None:
    """Sample synthetic rows from a model.

    Examples:

      partwise sample survey.safetensors -n 5

      partwise sample survey.safetensors -n 1000 -o rows.csv

      partwise sample survey.safetensors -n 1000 -o rows.csv --like survey.csv

      partwise sample survey.safetensors -n 10000000 -o rows/

      partwise sample survey.safetensors -n 100 --given smoker=yes --given age=40 -o rows.csv
    """
    to_folder = out is not None and not out.suffix
    if to_folder and like is not None:
        fail("Error: --like is for one text file; name it with -o, or omit --like.", 2)
    if not to_folder:
        check_out(out, model, like)
    from partwise.files.frames import write_table

    fitted = load_for(model, "sample", "sample", inner=True)
    known = dict(pair(text, "--given", "COLUMN=VALUE") for text in given or [])
    if known and not hasattr(fitted, "summary"):
        fail(f"Error: a {type(fitted).__name__} samples whole rows only; omit --given.", 2)
    more = {"given": _values(fitted, known)} if known else {}
    if to_folder:
        assert out is not None
        write_folder("Sampling", fitted.sample, number, out, random_state=seed, **more)
        return
    form = None if like is None else read_like(fitted, like, reading)[0]
    rows, _ = fitted.sample(number, random_state=seed, **more)
    _tell_empty(fitted)
    if out is None:
        from partwise.files.frames import as_polars

        give(as_polars(_named(fitted, rows)), None, form)
        return
    write_table(out, _named(fitted, rows), form)
    say(f"Wrote {out}: {plural(number, 'row')}.")


def _tell_empty(fitted: BaseEstimator) -> None:
    """Say which columns have no values, because the model leaves them out."""
    from partwise.data.kinds import listed
    from partwise.fitted import schema_of

    schema = schema_of(fitted)
    empty = [] if schema is None else [c.name for c in schema.columns if not c.is_filled]
    if empty:
        complain(f"{listed(empty)}: left out of the model, therefore empty in the sample.")


def _with_word(path: Path, word: str) -> Path:
    """The file name with a word appended."""
    return path.with_name(f"{path.stem}-{word}{path.suffix}")


def _named(fitted: BaseEstimator, rows: Frame | Array) -> Frame | Array:
    """Rows with the names of the model's columns."""
    import polars as pl

    names = getattr(fitted, "feature_names_in_", None)
    if names is None or hasattr(rows, "columns"):
        return rows
    return pl.DataFrame({str(name): column for name, column in zip(names, rows.T, strict=True)})


def _values(fitted: BaseEstimator, known: dict[str, str]) -> dict[Name, Value]:
    """Given values as the model's columns have them: numbers, dates or levels."""
    from partwise.fitted import schema_of

    schema, out = schema_of(fitted), dict["Name", "Value"]()
    for name, text in known.items():
        # Unnamed columns have numbers from 0, and names x0, x1, ...
        unnamed = re.fullmatch(r"x?(\d+)", name)
        place: Name = name
        if unnamed and not hasattr(fitted, "feature_names_in_"):
            place = int(unnamed[1])
        if place == name and hasattr(fitted, "feature_names_in_"):
            check_names([name], list(map(str, fitted.feature_names_in_)))
        column = None if schema is None else schema.columns[schema.place(place)]
        if column is not None and column.form == "level":
            by_text = {str(level): level for level in column.levels}
            out[place] = by_text.get(text, text)
            continue
        is_date = column is not None and column.form == "date"
        value = _read_value(fitted, name, text, is_date)
        if value is None:
            what = "date; write it like 2026-01-31" if is_date else "number; write it like 1.5"
            fail(f"Error: --given {name}={text}: {text!r} is not a {what}.", 2)
        out[place] = value
    return out


def _read_value(fitted: BaseEstimator, name: str, text: str, is_date: bool) -> Value | None:
    """A number or a date, in the format of the model's text file or a plain one; else None."""
    import numpy as np
    import polars as pl

    from partwise.data.decide import read_columns
    from partwise.data.text_options import TextOptions
    from partwise.files.model import TEXT_FORMAT

    form = getattr(fitted, TEXT_FORMAT, None)
    options = TextOptions(
        numbers=frozenset() if is_date else frozenset({name}),
        like={} if form is None else form.columns,
    )
    try:
        (read,) = read_columns([pl.Series(name, [text], pl.String)], [name], "", options).values
    except ValueError as error:
        fail(f"Error: --given {name}={text}: {error}", 2)
    if is_date:
        return np.datetime64(read[0]) if read.dtype.is_temporal() else None
    return float(read[0]) if read.dtype.is_numeric() else None
