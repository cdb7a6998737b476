"""``partwise states``, ``predict`` and ``odd``: answers of a saved model about rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from partwise.cli.completion import complete_columns
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

    from partwise.contracts import Array
    from partwise.files.data import Data


@reads_tables
def states(model: Model, data: Table, out: Out = None, *, reading: Reading) -> None:
    """List the most probable state of every part, per row.

    Rows are numbered from 1, or named by --id. partwise fit describes the states.

    Examples:

      partwise states survey.safetensors survey.csv --id name

      partwise states survey.safetensors survey.csv -o states.csv
    """
    check_out(out, model, data)
    fitted = load_for(model, "predict_states", "predict states", inner=True)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    with nameless():
        states = fitted.predict_states(X)
    give(_rows(found, reading, {f"part{k}": states[:, k] for k in range(states.shape[1])}), out)


@reads_tables
def predict(
    model: Model,
    data: Table,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,...",
            help="Columns to predict from the others; DATA may lack them. Without it, the class is "
            "predicted, of a model with classes.",
            show_default=False,
            autocompletion=complete_columns,
        ),
    ] = None,
    out: Out = None,
    *,
    reading: Reading,
) -> None:
    """Predict some columns of a table from the others, or the class of each row.

    Values of these columns in the table are ignored.

    Examples:

      partwise predict survey.safetensors new.csv --columns smoker,weight

      partwise predict survey.safetensors new.csv --columns smoker -o smoker.csv
    """
    check_out(out, model, data)
    method = "predict_states" if columns is None else "predict_columns"
    fitted = load_for(model, method, "predict columns or classes", inner=True)
    if columns is None and not hasattr(fitted, "predict"):
        fail(f"Error: the model in {model} has no classes; name columns with --columns.", 2)
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
            fail("Error: --columns needs a model whose columns have names.", 2)
        from partwise.files.frames import as_polars

        predicted = as_polars(fitted.predict_columns(X, asked))
    predicted.columns = asked
    give(_rows(found, reading, predicted.to_dict()), out, found)


@reads_tables
def odd(
    model: Model,
    data: Table,
    number: Annotated[
        int, typer.Option("--number", "-n", min=1, help="Maximum number of cells.")
    ] = 20,
    out: Out = None,
    *,
    reading: Reading,
) -> None:
    """List the anomalous cells of a table: values far from what the model expects.

    Surprise is minus the logarithm of the probability of a value as unlikely, in a row like this:
    7 is one in a thousand, 14 one in a million.

    Examples:

      partwise odd survey.safetensors survey.csv

      partwise odd survey.safetensors survey.csv -n 100 --id name -o anomalous.csv
    """
    import numpy as np
    import polars as pl

    from partwise.answers.anomalous import anomalous_cells
    from partwise.fitted import fitted_of, schema_of

    check_out(out, model, data)
    fitted = load_for(model, "anomalous_cells", "find anomalous cells", inner=True)
    with busy(f"Reading {data}"):
        found, X = read_like(fitted, data, reading)
    schema = schema_of(fitted)
    with nameless():
        if schema is not None and isinstance(X, pl.DataFrame):  # values keep their types
            cells = anomalous_cells(fitted_of(fitted), X, schema.encode(X), number)
        else:
            cells = fitted.anomalous_cells(X, number)
    rows = [int(row) for row in np.asarray(cells["row"])]
    names = [str(name) for name in cells["column"]]
    values = {
        word: [
            as_written(found, pl.Series(name, [value]))[0]
            for name, value in zip(names, cells[word], strict=True)
        ]
        for word in ("value", "expected")
    }
    surprise = np.round(np.asarray(cells["surprise"], dtype=float), 2)
    more = {"surprise": surprise, "part": np.asarray(cells["part"])}
    give(_rows(found, reading, {"column": names, **values, **more}, rows), out)


def _rows(
    found: Data,
    reading: Reading,
    columns: Mapping[str, Sequence[object] | Array | pl.Series],
    rows: list[int] | None = None,
) -> pl.DataFrame:
    """A table whose first column has the names of all rows, or of some."""
    import polars as pl

    names = found.row_names
    names = names if rows is None else [names[row] for row in rows]
    return pl.DataFrame({reading.id_column or "row": names, **columns}, strict=False)
