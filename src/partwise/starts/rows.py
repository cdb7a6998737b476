"""Rows that a start draws from, told so that equal data give equal draws."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.data.source import MemorySource

# Beyond this many numbers rows are sorted by a hash of theirs; few are compared number by number.
MOST_CELLS = 2_000_000

# Numbers hashed at a time, so that no copy of the data is made.
CHUNK_CELLS = 1 << 20


def distinct_rows(source: MemorySource) -> tuple[Array, Array]:
    """One row of each kind, in an order that depends on their values alone, and summed weights.

    So a row given twice draws as one of weight two, and neither the order of rows nor how they are
    stored is any matter. Large sparse data are taken as they are.
    """
    X, weight = source.X, source.weight
    if X.shape[0] * X.shape[1] > MOST_CELLS:
        if sparse.issparse(X):
            return np.arange(X.shape[0]), weight
        _, first, inverse = np.unique(_hashes(X), return_index=True, return_inverse=True)
        return first, np.bincount(inverse, weight, minlength=len(first))
    if sparse.issparse(X):
        stored = X.tocoo()
        X = np.full(X.shape, 0.0 if source.columns[0].absent_zero else np.nan, X.dtype)
        X[stored.row, stored.col] = stored.data
    filled = np.where(np.isnan(X), np.inf, X)  # NaN is not equal to itself; X has no infinity
    _, first, inverse = np.unique(filled, axis=0, return_index=True, return_inverse=True)
    return first, np.bincount(inverse.ravel(), weight, minlength=len(first))


def _hashes(X: Array) -> Array:
    """A number of 64 bits for every row: equal rows have equal ones, and hardly any others do."""
    multipliers = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64) | 1
    out = np.empty(len(X), np.uint64)
    step = max(CHUNK_CELLS // max(X.shape[1], 1), 1)
    for i in range(0, len(X), step):
        rows = np.nan_to_num(X[i : i + step].astype(np.float64), nan=np.inf) + 0.0  # no -0
        bits = rows.view(np.uint64)
        out[i : i + step] = ((bits ^ (bits >> np.uint64(29))) * multipliers).sum(axis=1)
    return out


def some_rows(weight: Array, most: int, rng: np.random.Generator) -> Array:
    """Positions of rows with weight, a random sample if there are more than ``most``."""
    found = np.flatnonzero(weight > 0)
    if len(found) > most:
        found = np.sort(rng.choice(found, most, replace=False))
    return found
