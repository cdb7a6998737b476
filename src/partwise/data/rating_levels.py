"""Columns of ratings that share one scale of ordered numeric levels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from partwise.contracts import Array
from partwise.data.columns import ColumnEntries, ColumnGroup
from partwise.likelihoods import Categorical
from partwise.typing import Matrix

# Above this number of distinct values the data are treated as continuous, and the scale is divided
# into FINE_LEVELS equal steps, which is finer than people rate.
MAX_LEVELS = 32
FINE_LEVELS = 64

# Largest absolute value whose square does not overflow, with a margin.
MAX_VALUE = 1e150


class ScaleGroup(ColumnGroup):
    """Columns coded by the index of the level nearest to each value.

    ``scale`` is the width of a step where continuous values were divided into levels, so that
    densities refer to the values, and 1 otherwise.
    """

    def encode(self, values: Array, columns: Array, name: str = "X") -> Array:
        """Indices of the nearest levels; NaN stays NaN."""
        levels = np.asarray(self.levels)
        between = 0.5 * (levels[1:] + levels[:-1])
        return np.where(np.isnan(values), np.nan, np.searchsorted(between, values))

    def base(self, values: Array, columns: Array) -> Array:
        """Log density of values given their step, 0 for NaN."""
        return np.where(np.isnan(values), 0.0, -self.log_scale[columns])


def learn_scale(X: Matrix, row_weight: Array) -> ScaleGroup:
    """Learn the levels of dense or CSR data, and how often each occurs in every column.

    Parameters
    ----------
    X : ndarray or CSR of shape (C, D)
        NaN, or an entry that CSR does not store, is missing.
    row_weight : ndarray of shape (C,)

    Returns
    -------
    group : ScaleGroup
        Its moments (V, D) are the levels' shares per column, with one rating of the average column
        added.
    """
    entries = ColumnEntries(X, row_weight)
    found = list(entries.each(lambda values, *_: np.unique(values[~np.isnan(values)])))
    levels, width = np.unique(np.concatenate(found)).astype(float), 1.0
    if len(levels) and max(-levels[0], levels[-1]) > MAX_VALUE:
        raise ValueError(
            f"X has the value {levels[np.abs(levels).argmax()]:g}, whose square "
            "overflows; measure X in another unit."
        )
    if len(levels) > MAX_LEVELS:
        levels = np.linspace(levels[0], levels[-1], FINE_LEVELS)
        width = float(levels[1] - levels[0])
    levels = levels if len(levels) else np.zeros(1)
    D = entries.n_columns
    nothing = np.zeros(D)
    bare = ScaleGroup(
        np.arange(D), Categorical(len(levels)), nothing, np.full(D, width), levels,
        nothing, nothing, nothing > 0, False,
    )  # fmt: skip

    def is_level(level: int, values: Array, columns: Array) -> Array:
        return bare.encode(values, columns) == level

    counts = entries.sums(*(partial(is_level, v) for v in range(len(levels))))
    weight = counts.sum(axis=0)
    average = (counts.sum(axis=1) + 1.0) / (counts.sum() + len(levels))
    moments = (counts + average[:, None]) / (weight + 1.0)
    return replace(bare, weight=weight, moments=moments, varies=(counts > 0).sum(axis=0) > 1)
