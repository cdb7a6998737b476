"""Rows that a start draws from, told so that equal data give equal draws."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.data.source import MemorySource

# Sorting rows costs more than it is worth beyond this many numbers.
MOST_CELLS = 2_000_000


def distinct_rows(source: MemorySource) -> tuple[Array, Array]:
    """One row of each kind, in an order that depends on their values alone, and summed weights.

    So a row given twice draws as one of weight two, and neither the order of rows nor how they are
    stored is any matter. Large data are taken as they are.
    """
    X, weight = source.X, source.weight
    if X.shape[0] * X.shape[1] > MOST_CELLS:
        return np.arange(X.shape[0]), weight
    if sparse.issparse(X):
        stored = X.tocoo()
        X = np.full(X.shape, 0.0 if source.columns[0].absent_zero else np.nan, X.dtype)
        X[stored.row, stored.col] = stored.data
    filled = np.where(np.isnan(X), np.inf, X)  # NaN is not equal to itself; X has no infinity
    _, first, inverse = np.unique(filled, axis=0, return_index=True, return_inverse=True)
    return first, np.bincount(inverse.ravel(), weight, minlength=len(first))


def some_rows(weight: Array, most: int, rng: np.random.Generator) -> Array:
    """Positions of rows with weight, a random sample if there are more than ``most``."""
    found = np.flatnonzero(weight > 0)
    if len(found) > most:
        found = np.sort(rng.choice(found, most, replace=False))
    return found
