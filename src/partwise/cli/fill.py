"""``partwise impute`` and ``partwise sample``: a saved model put to use on tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from partwise.cli.console import busy, fail, nameless, need_folders, plural, say
from partwise.cli.tables import (
    Encoding,
    Header,
    Missing,
    Resize,
    Seed,
    pair,
    parse_image_shape,
    read_like,
    schema_of,
)

_Model = Annotated[
    Path, typer.Argument(help="Model, as partwise fit or save() write it.", show_default=False)
]
_Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Table to write: .csv, .tsv, .parquet or .npy.", show_default=False
    ),
]


def impute(
    model: _Model,
    data: Annotated[
        Path, typer.Argument(help="Rows with holes, as partwise fit reads.", show_default=False)
    ],
    out: _Out,
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
            "the values, as 0.9.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = 0,
    missing: Missing = None,
    encoding: Encoding = None,
    header: Header = None,
    resize: Resize = None,
) -> None:
    """Fill the holes of a table; what is known stays as it is.

    Examples:

      partwise impute survey.safetensors survey.csv -o filled.csv

      partwise impute survey.safetensors survey.csv -o filled.csv --intervals 0.9

      partwise impute survey.safetensors survey.csv -o draw.csv --number 5
    """
    need_folders(out)
    shape = parse_image_shape(resize)
    from partwise.files.frames import check_table_name, write_table

    check_table_name(out)
    fitted = _load(model, "impute")
    if number is not None and not hasattr(fitted, "summary"):
        fail(f"Error: a {type(fitted).__name__} fills holes once; leave --number out.", 2)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, missing, encoding, header, shape)
    with busy(f"Filling {out}"), nameless():
        if number is None:
            made = {out: _filled(found.X, fitted.impute(X))}
        else:
            drawn = fitted.impute(X, number, random_state=seed)
            made = {_beside(out, str(i)): _filled(found.X, one) for i, one in enumerate(drawn, 1)}
        if intervals is not None:
            lower, upper = fitted.predict_interval(X, intervals)
            ends = {_beside(out, "lower"): lower, _beside(out, "upper"): upper}
            made |= {path: _named(fitted, end) for path, end in ends.items()}
        for path, table in made.items():
            write_table(path, table)
    say(f"Wrote {', '.join(map(str, made))}: {plural(X.shape[0], 'row')}.")


def sample(
    model: _Model,
    out: _Out,
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
) -> None:
    """Draw new rows from a model.

    Examples:

      partwise sample survey.safetensors -n 1000 -o rows.csv

      partwise sample survey.safetensors -n 100 --given smoker=yes --given age=40 -o rows.csv
    """
    need_folders(out)
    from partwise.files.frames import check_table_name, write_table

    check_table_name(out)
    fitted = _load(model, "sample")
    known = dict(pair(text, "--given", "COLUMN=VALUE") for text in given or [])
    if known and not hasattr(fitted, "summary"):
        fail(f"Error: a {type(fitted).__name__} draws whole rows only; leave --given out.", 2)
    more = {"given": _values(fitted, known)} if known else {}
    rows, _ = fitted.sample(number, random_state=seed, **more)
    write_table(out, _named(fitted, rows))
    say(f"Wrote {out}: {plural(number, 'row')}.")


def _load(path: Path, verb: str) -> Any:
    """A model that can do something."""
    from partwise import load

    fitted = load(path)
    fitted = getattr(fitted, "model_", fitted) if verb == "sample" else fitted
    if not hasattr(fitted, verb):
        fail(
            f"Error: {path} holds a {type(fitted).__name__}, which cannot {verb}; fit one with "
            "partwise fit.",
            1,
        )
    return fitted


def _beside(path: Path, word: str) -> Path:
    """The same name with a word after it."""
    return path.with_name(f"{path.stem}-{word}{path.suffix}")


def _filled(found: Any, filled: Any) -> Any:
    """The table as it was read, holes filled; values new to the model stay, too."""
    import polars as pl

    if not hasattr(found, "columns"):
        return filled
    if not hasattr(filled, "columns"):
        return pl.DataFrame(dict(zip(found.columns, filled.T, strict=True)))
    for new in filled.get_columns():
        old = found[new.name]
        hole = old.is_null() | (old.is_nan() if old.dtype.is_float() else False)
        found = found.with_columns(new.zip_with(hole, old.cast(new.dtype)))
    return found


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

    schema, out = schema_of(fitted), dict[Any, Any]()
    for name, text in known.items():
        # Columns of arrays are told by their numbers from 0, and written as column 1, column 2, ...
        unnamed = re.fullmatch(r"(column )?(\d+)", name)
        place: Any = name
        if unnamed and not hasattr(fitted, "feature_names_in_"):
            place = int(unnamed[2]) - bool(unnamed[1])
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
