"""``partwise impute`` and ``partwise sample``: a saved model put to use on tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from partwise.cli.console import busy, fail, nameless, plural, say
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

# Share of values that the ends in a list of imputed values hold.
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
            help="Table to write: .csv, .tsv, .parquet or .npy; a text is written as DATA is.",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Instead of the table, list the imputed values: row, column, value, lower, upper, "
            "probability. Printed unless -o is given.",
        ),
    ] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            min=1,
            help="Draw so many completed tables instead, as FILLED-1.csv, FILLED-2.csv, ...",
            show_default=False,
        ),
    ] = None,
    intervals: Annotated[
        float | None,
        typer.Option(
            "--intervals",
            metavar="COVERAGE",
            help="Also write FILLED-lower.csv and FILLED-upper.csv: ends that hold this share of "
            "the values, as 0.9. With --list the coverage of its ends.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    *,
    reading: Reading,
) -> None:
    """Impute the missing values of a table; what is known stays as it is, to the last digit.

    Examples:

      partwise impute survey.safetensors survey.csv -o filled.csv

      partwise impute survey.safetensors survey.csv -o filled.csv --intervals 0.9

      partwise impute survey.safetensors survey.csv --list --id name

      partwise impute survey.safetensors survey.csv -o draw.csv --number 5
    """
    check_out(out)
    if out is None and not listed:
        fail("Error: name the table to write with -o, or give --list.", 2)
    if listed and number is not None:
        fail("Error: --list tells of one table; leave --number out.", 2)
    from partwise.files.frames import write_filled, write_table

    fitted = load_for(model, "impute", "impute")
    if number is not None and not hasattr(fitted, "summary"):
        fail(f"Error: a {type(fitted).__name__} fills holes once; leave --number out.", 2)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    if listed:
        from partwise.cli.imputations import imputations

        with busy("Imputing"), nameless():
            table = imputations(fitted, X, found, intervals or _COVERAGE)
        give(table, out)
        return
    assert out is not None
    with busy(f"Filling {out}"), nameless():
        if number is None:
            made = {out: fitted.impute(X)}
        else:
            drawn = fitted.impute(X, number, random_state=seed)
            made = {_beside(out, str(i)): one for i, one in enumerate(drawn, 1)}
        for path, table in made.items():
            write_filled(path, found, table)
        if intervals is not None:
            ends = zip(("lower", "upper"), fitted.predict_interval(X, intervals), strict=True)
            made |= {_beside(out, word): _named(fitted, end) for word, end in ends}
            for path in list(made)[-2:]:
                write_table(path, made[path], found)
    say(f"Wrote {', '.join(map(str, made))}: {plural(X.shape[0], 'row')}.")


@reads_tables
def sample(
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Table to write: .csv, .tsv, .parquet or .npy.", show_default=False
        ),
    ],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many rows.")] = 100,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given",
            metavar="COLUMN=VALUE",
            help="What all rows have; the rest is drawn given this. May be repeated.",
        ),
    ] = None,
    seed: Seed = 0,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like", metavar="DATA", help="Write numbers, dates and so on as this text does."
        ),
    ] = None,
    *,
    reading: Reading,
) -> None:
    """Draw new rows from a model.

    Examples:

      partwise sample survey.safetensors -n 1000 -o rows.csv

      partwise sample survey.safetensors -n 1000 -o rows.csv --like survey.csv

      partwise sample survey.safetensors -n 100 --given smoker=yes --given age=40 -o rows.csv
    """
    check_out(out)
    from partwise.files.frames import write_table

    fitted = load_for(model, "sample", "sample", inner=True)
    known = dict(pair(text, "--given", "COLUMN=VALUE") for text in given or [])
    if known and not hasattr(fitted, "summary"):
        fail(f"Error: a {type(fitted).__name__} draws whole rows only; leave --given out.", 2)
    more = {"given": _values(fitted, known)} if known else {}
    form = None if like is None else read_like(fitted, like, reading)[0]
    rows, _ = fitted.sample(number, random_state=seed, **more)
    write_table(out, _named(fitted, rows), form)
    say(f"Wrote {out}: {plural(number, 'row')}.")


def _beside(path: Path, word: str) -> Path:
    """The same name with a word after it."""
    return path.with_name(f"{path.stem}-{word}{path.suffix}")


def _named(fitted: Any, rows: Any) -> Any:
    """Rows with the names of the model's columns."""
    import polars as pl

    names = getattr(fitted, "feature_names_in_", None)
    if names is None or hasattr(rows, "columns"):
        return rows
    return pl.DataFrame({str(name): column for name, column in zip(names, rows.T, strict=True)})


def _values(fitted: Any, known: dict[str, str]) -> dict[Any, Any]:
    """Known cells in the terms of the model's columns: numbers, dates or the levels themselves."""
    import numpy as np

    from partwise.fitted import schema_of

    schema, out = schema_of(fitted), dict[Any, Any]()
    for name, text in known.items():
        # Columns of arrays are told by their numbers from 0, and written as column 1, column 2, ...
        unnamed = re.fullmatch(r"(column )?(\d+)", name)
        place: Any = name
        if unnamed and not hasattr(fitted, "feature_names_in_"):
            place = int(unnamed[2]) - bool(unnamed[1])
        if place == name and hasattr(fitted, "feature_names_in_"):
            check_names([name], list(map(str, fitted.feature_names_in_)))
        column = None if schema is None else schema.columns[schema.place(place)]
        if column is not None and column.form == "level":
            by_text = {str(level): level for level in column.levels}
            out[place] = by_text.get(text, text)
            continue
        try:
            is_date = column is not None and column.form == "date"
            out[place] = np.datetime64(text) if is_date else float(text)
        except ValueError:
            fail(f"Error: --given {name}={text}: {text!r} is not a value of that column.", 2)
    return out
