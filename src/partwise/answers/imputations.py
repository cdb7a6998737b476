"""Imputed values as a tidy list: one row per missing cell, with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from partwise.answers.results import make_table
from partwise.answers.rows import parts_of
from partwise.answers.states import FittedStates
from partwise.answers.tables import frame_kind, given_cells
from partwise.contracts import Array
from partwise.data.frames import index_of, is_missing
from partwise.typing import DataLike, Frame, Value

# How values of a column are imputed, by the kind of its levels.
LEVELS = {False: "most probable level", True: "median level"}
NUMBERS = "expected value"
MEDIANS = "median"
# Appended where no observed value of the row bears on the cell.
ALONE = ", no observed value in its part"
ALL_MISSING = ", no observed value in its row"
# Instead, where an observed near-duplicate decides.
COPIED = "from a near-duplicate column"

FIELDS = ("column", "value", "lower", "upper", "probability", "how")


class ImputedColumn(NamedTuple):
    """Imputed cells of one column: their rows, and by field one entry per cell."""

    rows: Array
    fields: Mapping[str, Sequence[object]]


def tidy(found: Sequence[ImputedColumn], names: Sequence[str]) -> dict[str, Array]:
    """All cells row by row, columns of a row in their order; ``row`` first, then the fields."""
    rows = np.concatenate([np.empty(0, np.int64), *(one.rows for one in found)])
    order = np.argsort(rows, kind="stable")
    out = {"row": rows[order]}
    for name in names:
        values = [None if is_missing(v) else v for one in found for v in one.fields[name]]
        told = np.empty(len(values), dtype=object)
        told[:] = values
        out[name] = told[order]
    return out


def level_probability(levels: Sequence[Value], shares: Array, values: Sequence[Value]) -> Array:
    """Probability of the level in each cell, from those of all levels (m, V)."""
    place = {level: i for i, level in enumerate(levels)}
    at = np.array([place.get(value, -1) for value in values], dtype=np.int64)
    return np.where(at < 0, shares.max(axis=1), shares[np.arange(len(at)), at])


def _words(fitted: FittedStates, shares: Mapping[int, Array], numbers: str) -> dict[int, str]:
    """How values of each column are imputed, by its place."""
    ordered = {int(d): group.likelihood.ordered for group in fitted.columns for d in group.index}
    return {d: LEVELS[ordered[d]] if d in shares else numbers for d in sorted(ordered)}


def how_by_states(
    fitted: FittedStates, coded: Array, shares: Mapping[int, Array]
) -> dict[int, Array]:
    """How cells of coded rows are imputed by a model of states: {place: (n,)}."""
    observed, parts, out = ~np.isnan(coded), parts_of(fitted), {}
    copied = None if fitted.schema is None else fitted.schema.told_by_twins(coded)
    for d, word in _words(fitted, shares, NUMBERS).items():
        out[d] = np.full(len(coded), word, dtype=object)
        informed = observed[:, parts == parts[d]].any(axis=1) & (parts[d] >= 0)
        out[d][~informed] += ALONE
        if copied is not None:
            out[d][~np.isnan(copied[0][:, d])] = COPIED
    return out


def how_by_row(
    fitted: FittedStates, coded: Array, shares: Mapping[int, Array], numbers: str
) -> dict[int, Array]:
    """The same where every observed value of the row bears on the cell."""
    alone, out = np.isnan(coded).all(axis=1), {}
    for d, word in _words(fitted, shares, numbers).items():
        out[d] = np.where(alone, word + ALL_MISSING, word).astype(object)
    return out


def imputations(
    fitted: FittedStates,
    X: DataLike,
    coded: Array,
    found: tuple[DataLike, DataLike, DataLike],
    shares: Mapping[int, Array],
    how: Mapping[int, Array],
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
    how : mapping
        By the position of a column, how its cells are imputed, (n,).

    Returns
    -------
    table : DataFrame
        ``row`` (its label), ``column``, ``value``, ``lower``, ``upper``, ``probability`` and
        ``how``. Ends are missing for levels without order, probabilities for numbers.
    """
    listed = []
    for d, words in how.items():
        rows = np.flatnonzero(np.isnan(coded[:, d]))
        given, value, lower, upper = (
            given_cells(fitted, table, coded, rows, np.full(len(rows), d)) for table in (X, *found)
        )
        probability = np.full(len(rows), np.nan)
        if d in shares:
            levels = () if fitted.schema is None else fitted.schema.columns[d].levels
            probability = level_probability(levels, shares[d][rows], value)
        # Neither a level that fit did not see, nor a column without a model.
        imputed = [i for i in range(len(rows)) if is_missing(given[i]) and not is_missing(value[i])]
        told = value, lower, upper, probability.tolist(), words[rows].tolist()
        fields = ([each[i] for i in imputed] for each in told)
        name = [fitted.column_name(d)] * len(imputed)
        listed.append(ImputedColumn(rows[imputed], dict(zip(FIELDS, (name, *fields), strict=True))))
    table, index = tidy(listed, FIELDS), index_of(X)
    if index is not None:
        table["row"] = index.to_numpy()[table["row"]]
    return make_table(table, frame_kind(fitted))
