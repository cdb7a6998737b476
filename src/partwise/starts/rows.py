"""Rows that a start draws from, told so that equal data give equal draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from partwise.contracts import Array

# Sorting rows costs more than it is worth beyond this many numbers.
MOST_CELLS = 2_000_000


def distinct_rows(X: Any, weight: Array) -> tuple[Array, Array]:
    """One row of each kind, in an order that depends on their values alone, and summed weights.

    So a row given twice draws as one of weight two, and the order of rows is no matter. Large data
    are taken as they are.
    """
    if X.shape[0] * X.shape[1] > MOST_CELLS:
        return np.arange(X.shape[0]), weight
    dense = X.toarray() if sparse.issparse(X) else X
    filled = np.where(np.isnan(dense), np.inf, dense)  # NaN is not equal to itself; X has no inf
    _, first, inverse = np.unique(filled, axis=0, return_index=True, return_inverse=True)
    return first, np.bincount(inverse.ravel(), weight, minlength=len(first))


def some_rows(weight: Array, most: int, rng: np.random.Generator) -> Array:
    """Positions of rows with weight, a random sample if there are more than ``most``."""
    found = np.flatnonzero(weight > 0)
    if len(found) > most:
        found = np.sort(rng.choice(found, most, replace=False))
    return found
