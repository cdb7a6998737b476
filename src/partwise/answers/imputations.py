"""Imputed values as a tidy list: one row per missing cell, with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partwise.answers.results import make_table
from partwise.answers.rows import parts_of
from partwise.answers.states import FittedStates
from partwise.answers.tables import frame_kind, given_cells
from partwise.contracts import Array
from partwise.data.frames import index_of, is_missing
from partwise.typing import DataLike, Frame

# How values of a column are imputed, by the kind of its levels.
LEVELS = {False: "most probable level", True: "median level"}
NUMBERS = "expected value"
# Appended where no observed value of the row bears on the cell.
ALONE = ", no observed value in its part"


def imputations(
    fitted: FittedStates,
    X: DataLike,
    coded: Array,
    found: tuple[DataLike, DataLike, DataLike],
    shares: Mapping[int, Array],
) -> Frame:
    """List the missing cells of rows with their imputed values.

    Parameters
    ----------
    fitted : Fitted
    X : table of shape (n, D)
        Rows as the user gave them.
    coded : ndarray of shape (n, D)
        The same as numbers.
    found : three tables of shape (n, D)
        Imputed rows, and lower and upper ends of their intervals.
    shares : mapping
        By the position of a column with levels, the probability of its levels, (n, V).

    Returns
    -------
    table : DataFrame
        ``row`` (its label), ``column``, ``value``, ``lower``, ``upper``, ``probability`` and
        ``how``. Ends are missing for levels without order, probabilities for numbers.
    """
    rows, columns = np.nonzero(np.isnan(coded))
    given = given_cells(fitted, X, coded, rows, columns)
    value, lower, upper = (given_cells(fitted, table, coded, rows, columns) for table in found)
    index, parts = index_of(X), parts_of(fitted)
    observed = ~np.isnan(coded)
    ordered = {int(d): group.likelihood.ordered for group in fitted.columns for d in group.index}
    listed: dict[str, list[object]] = {
        name: [] for name in ("row", "column", "value", "lower", "upper", "probability", "how")
    }
    for i, (r, d) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        if not is_missing(given[i]) or is_missing(value[i]) or d not in ordered:
            continue  # a level that fit did not see, or a column without a model
        how = LEVELS[ordered[d]] if d in shares else NUMBERS
        informed = parts[d] >= 0 and observed[r, parts == parts[d]].any()
        level = float(shares[d][r].max()) if d in shares else None
        if d in shares and fitted.schema is not None:
            levels = list(fitted.schema.columns[d].levels)
            level = float(shares[d][r, levels.index(value[i])]) if value[i] in levels else level
        label = r if index is None else index[r]
        told = (label, fitted.column_name(d), value[i], lower[i], upper[i], level)
        for name, one in zip(listed, (*told, how if informed else how + ALONE), strict=True):
            listed[name].append(None if is_missing(one) else one)
    frame = frame_kind(fitted)
    return make_table({n: np.array([*v, None], object)[:-1] for n, v in listed.items()}, frame)
