"""``partwise states``, ``predict`` and ``odd``: what a saved model says of the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.console import busy, fail, nameless
from partwise.cli.tables import (
    Model,
    Out,
    Reading,
    Table,
    as_written,
    check_names,
    check_out,
    give,
    load_for,
    read_like,
    reads_tables,
)

if TYPE_CHECKING:
    import polars as pl

    from partwise.files.data import Data


@reads_tables
def states(model: Model, data: Table, out: Out = None, *, reading: Reading) -> None:
    """Tell the most probable state of every part, row by row.

    Rows are numbered from 1, or named by --id. What the states are, partwise fit says.

    Examples:

      partwise states survey.safetensors survey.csv --id name

      partwise states survey.safetensors survey.csv -o states.csv
    """
    check_out(out)
    fitted = load_for(model, "predict_states", "tell states", inner=True)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    with nameless():
        told = fitted.predict_states(X)
    give(_rows(found, reading, {f"part{k}": told[:, k] for k in range(told.shape[1])}), out)


@reads_tables
def predict(
    model: Model,
    data: Table,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,...",
            help="Columns to predict from the others; DATA may lack them. Without it: the class.",
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    *,
    reading: Reading,
) -> None:
    """Predict some columns of a table from the others, or the class of each row.

    What the table holds of these columns is not used.

    Examples:

      partwise predict survey.safetensors new.csv --columns smoker,weight

      partwise predict survey.safetensors new.csv --columns smoker -o smoker.csv
    """
    check_out(out)
    verb = "predict" if columns is None else "predict_columns"
    fitted = load_for(model, verb, "predict" if columns else "predict classes", inner=True)
    asked = [] if columns is None else [name.strip() for name in columns.split(",")]
    if asked:
        check_names(asked, list(map(str, getattr(fitted, "feature_names_in_", asked))))
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading, asked)
    with nameless():
        if not asked:
            give(_rows(found, reading, {"class": fitted.predict(X)}), out)
            return
        if not hasattr(fitted, "feature_names_in_"):
            fail("Error: --columns needs a model of columns with names.", 2)
        from partwise.files.frames import as_polars

        predicted = fitted.predict_columns(X, asked)
    told = as_polars(predicted)
    told.columns = asked
    give(_rows(found, reading, told.to_dict()), out, found)


@reads_tables
def odd(
    model: Model,
    data: Table,
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="How many cells at most.")
    ] = 20,
    out: Out = None,
    *,
    reading: Reading,
) -> None:
    """List the anomalous cells of a table: values far from what the model expects there.

    Surprise is in nats: 0 for the likeliest value, 7 for one a thousand times less likely.

    Examples:

      partwise odd survey.safetensors survey.csv

      partwise odd survey.safetensors survey.csv -n 100 --id name -o odd.csv
    """
    import polars as pl

    check_out(out)
    fitted = load_for(model, "anomalous_cells", "find anomalous cells", inner=True)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    with nameless():
        cells = fitted.anomalous_cells(X, number)
    table = cells if isinstance(cells, dict) else cells.to_dict(as_series=False)
    rows = [int(row) for row in table["row"]]
    told: dict[str, Any] = {"column": [str(name) for name in table["column"]]}
    for word in ("value", "expected"):
        told[word] = [
            as_written(found, pl.Series(name, [value]))[0]
            for name, value in zip(told["column"], table[word], strict=True)
        ]
    told["surprise"] = [round(float(value), 2) for value in table["surprise"]]
    told["part"] = [int(part) for part in table["part"]]
    give(_rows(found, reading, told, rows), out)


def _rows(
    found: Data, reading: Reading, columns: dict[str, Any], rows: list[int] | None = None
) -> pl.DataFrame:
    """A table whose first column names rows: all, or some by number."""
    import polars as pl

    names = found.row_names
    names = names if rows is None else [names[row] for row in rows]
    return pl.DataFrame({reading.id_column or "row": names, **columns}, strict=False)
