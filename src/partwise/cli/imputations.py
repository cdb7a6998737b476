"""A table of imputed values: one row per missing cell, with interval and probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from partwise.answers.imputations import FIELDS, ImputedColumn, level_probability, tidy
from partwise.cli.tables import as_written, is_missing
from partwise.files.frames import as_polars
from partwise.fitted import feature_names

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.contracts import Array
    from partwise.files.data import Data, Rows
    from partwise.typing import Frame


def imputations(model: BaseEstimator, X: Rows, data: Data, coverage: float = 0.9) -> pl.DataFrame:
    """List the imputed values of a table.

    Parameters
    ----------
    model : estimator
        Fitted, with `impute` and `predict_interval`.
    X : polars DataFrame or array of shape (n, D)
        The model's columns.
    data : Data
        The file that X is from: names of rows, and the format of values.
    coverage : float
        Coverage of the intervals.

    Returns
    -------
    imputed : polars DataFrame
        Columns row, column, value, lower, upper and probability. The ends are null for unordered
        levels, the probability of the value is null for numbers.
    """
    names = X.columns if isinstance(X, pl.DataFrame) else feature_names(model, X.shape[1])
    given, filled, *ends = (
        _frame(table, names) for table in (X, model.impute(X), *model.predict_interval(X, coverage))
    )
    has_levels = getattr(getattr(model, "model_", model), "column_levels_", {})  # of an imputer
    shares = model.predict_proba_columns(X) if has_levels else {}
    pieces = []
    for d, name in enumerate(names):
        imputed = is_missing(given[name]) & ~is_missing(filled[name])
        rows = np.flatnonzero(imputed.to_numpy())
        value, lower, upper = (table[name].gather(rows) for table in (filled, *ends))
        key = name if name in has_levels else d
        probability = np.full(len(rows), np.nan)
        if key in has_levels and key in shares:
            probability = level_probability(has_levels[key], shares[key][rows], value.to_list())
        written = [as_written(data, values).to_list() for values in (value, lower, upper)]
        fields = ([name] * len(rows), *written, np.round(probability, 4).tolist())
        pieces.append(ImputedColumn(rows, dict(zip(_TYPES, fields, strict=True))))
    table = tidy(pieces, list(_TYPES))
    labels = pl.Series("row", data.row_names, pl.String).gather(table.pop("row"))
    return pl.DataFrame(
        [labels, *(pl.Series(name, table[name].tolist(), kind) for name, kind in _TYPES.items())]
    )


# Fields of an imputed cell, with their types in the written table.
_TYPES = {name: pl.String for name in FIELDS if name != "how"} | {"probability": pl.Float64}


def _frame(table: Rows | Frame | Array, names: list[str]) -> pl.DataFrame:
    frame = as_polars(table)
    frame.columns = names
    return frame
