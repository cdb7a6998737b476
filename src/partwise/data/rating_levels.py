"""Columns that are all rated on one scale, whose levels are numbers in order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from partwise.contracts import Array
from partwise.data.columns import ColumnEntries, ColumnGroup
from partwise.likelihoods import Categorical

# With more different values than this they are numbers rather than levels, and the scale is cut
# into so many equal steps: finer than anybody rates.
MOST_VALUES = 32
FINE_LEVELS = 64

# Largest value whose square numbers can hold, with some room.
FARTHEST = 1e150


class ScaleGroup(ColumnGroup):
    """Columns coded by the number of the level that is nearest to a value.

    ``scale`` is the width of a step where numbers were cut into levels, so that densities are those
    of numbers, and else 1.
    """

    def encode(self, values: Array, columns: Array, name: str = "X") -> Array:
        """Numbers of the nearest levels; NaN stays NaN."""
        levels = np.asarray(self.levels)
        between = 0.5 * (levels[1:] + levels[:-1])
        return np.where(np.isnan(values), np.nan, np.searchsorted(between, values))

    def base(self, values: Array, columns: Array) -> Array:
        """Log density of a step's values given the step, 0 where they are NaN."""
        return np.where(np.isnan(values), 0.0, -self.log_scale[columns])


def learn_scale(X: Any, row_weight: Array) -> ScaleGroup:
    """Learn the levels of dense (NaN missing) or CSR data, and how often each stands where.

    Parameters
    ----------
    X : ndarray or CSR of shape (C, D)
        What CSR does not store is missing.
    row_weight : ndarray of shape (C,)

    Returns
    -------
    group : ScaleGroup
        Its moments (V, D) are the levels' shares in every column, one rating of the average column
        added.
    """
    entries = ColumnEntries(X, row_weight)
    found = list(entries.each(lambda values, *_: np.unique(values[~np.isnan(values)])))
    levels, width = np.unique(np.concatenate(found)).astype(float), 1.0
    if len(levels) and max(-levels[0], levels[-1]) > FARTHEST:
        raise ValueError(
            f"X has the value {levels[np.abs(levels).argmax()]:g}, whose square is beyond what "
            "numbers can hold; measure X in another unit."
        )
    if len(levels) > MOST_VALUES:
        levels = np.linspace(levels[0], levels[-1], FINE_LEVELS)
        width = float(levels[1] - levels[0])
    levels = levels if len(levels) else np.zeros(1)
    D = entries.n_columns
    nothing = np.zeros(D)
    bare = ScaleGroup(
        np.arange(D), Categorical(len(levels)), nothing, np.full(D, width), levels,
        nothing, nothing, nothing > 0, False,
    )  # fmt: skip

    def stands_at(level: int, values: Array, columns: Array) -> Array:
        return bare.encode(values, columns) == level

    counts = entries.sums(*(partial(stands_at, v) for v in range(len(levels))))
    weight = counts.sum(axis=0)
    average = (counts.sum(axis=1) + 1.0) / (counts.sum() + len(levels))
    moments = (counts + average[:, None]) / (weight + 1.0)
    return replace(bare, weight=weight, moments=moments, varies=(counts > 0).sum(axis=0) > 1)
