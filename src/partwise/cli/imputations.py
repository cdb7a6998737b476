"""A tidy list of imputed values: one row per missing cell, with what is known about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from partwise.cli.tables import as_written, is_missing
from partwise.files.frames import as_polars

if TYPE_CHECKING:
    from partwise.files.data import Data


def imputations(model: Any, X: Any, data: Data, coverage: float = 0.9) -> pl.DataFrame:
    """List the imputed values of a table.

    Parameters
    ----------
    model : estimator
        Fitted; it imputes and predicts intervals.
    X : polars DataFrame or array of shape (n, D)
        The model's columns.
    data : Data
        The file that they are from: it names the rows, and values are written as it does.
    coverage : float
        Share of the values that lower and upper ends hold.

    Returns
    -------
    imputed : polars DataFrame
        Columns row, column, value, lower, upper and probability. Ends are null where levels have no
        order; the probability is that of the value, null of numbers.
    """
    names = X.columns if isinstance(X, pl.DataFrame) else _names(model, X.shape[1])
    given, filled, *ends = (
        _frame(table, names) for table in (X, model.impute(X), *model.predict_interval(X, coverage))
    )
    has_levels = getattr(model, "column_levels_", {})
    shares = model.predict_proba_columns(X) if has_levels else {}
    pieces = []
    for d, name in enumerate(names):
        holes = is_missing(given[name]) & ~is_missing(filled[name])
        rows = np.flatnonzero(holes.to_numpy())
        if not len(rows):
            continue
        value = filled[name].gather(rows)
        key = name if name in has_levels else d
        probability = np.full(len(rows), np.nan)
        if key in has_levels and key in shares:
            place = {level: i for i, level in enumerate(has_levels[key])}
            own = shares[key][rows]
            probability = own[np.arange(len(rows)), [place[level] for level in value.to_list()]]
        pieces.append(
            pl.DataFrame(
                {
                    "row": rows,
                    "column": [name] * len(rows),
                    "value": as_written(data, value),
                    **{
                        word: as_written(data, end[name].gather(rows))
                        for word, end in zip(("lower", "upper"), ends, strict=True)
                    },
                    "probability": pl.Series(probability).fill_nan(None),
                }
            )
        )
    table = pl.concat(pieces).sort("row", maintain_order=True) if pieces else _EMPTY
    return table.with_columns(pl.Series("row", data.row_names, pl.String).gather(table["row"]))


_EMPTY = pl.DataFrame(
    schema={
        "row": pl.Int64, "column": pl.String, "value": pl.String, "lower": pl.String,
        "upper": pl.String, "probability": pl.Float64,
    }
)  # fmt: skip


def _names(model: Any, width: int) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return [f"column {i + 1}" for i in range(width)] if names is None else list(map(str, names))


def _frame(table: Any, names: list[str]) -> pl.DataFrame:
    frame = as_polars(table)
    frame.columns = names
    return frame
