"""Distinct rows that a start samples from, so that equal data give equal samples."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array
from partwise.data.indices import is_csr
from partwise.data.rows import in_memory, is_sparse, map_rows
from partwise.data.source import BlockSource

# Beyond this many numbers rows are sorted by a hash of theirs; few are compared number by number.
MOST_CELLS = 2_000_000

# Of more rows not even hashes are sorted, and each is of its own kind.
HASHED_ROWS = 20_000_000


def distinct_rows(source: BlockSource) -> tuple[Array, Array]:
    """One row of each kind, in an order that depends on their values alone, and summed weights.

    So a row that occurs twice is sampled as one of weight two, and neither the order of rows nor
    their storage matters. Large sparse data are taken as they are.
    """
    X, weight = source.X, source.weight
    if X.shape[0] * X.shape[1] > MOST_CELLS:
        if is_sparse(X) or X.shape[0] > HASHED_ROWS:
            return np.arange(X.shape[0]), weight
        return _distinct(np.concatenate(list(map_rows(X, _hashes))), weight)
    X = in_memory(X)
    if is_csr(X):
        stored = X.tocoo()
        X = np.full(X.shape, 0.0 if source.columns[0].absent_zero else np.nan, X.dtype)
        X[stored.row, stored.col] = stored.data
    filled = np.where(np.isnan(X), np.inf, X)  # NaN is not equal to itself; X has no infinity
    _, first, inverse = np.unique(filled, axis=0, return_index=True, return_inverse=True)
    return first, np.bincount(inverse.ravel(), weight, minlength=len(first))


def _distinct(hashes: Array, weight: Array) -> tuple[Array, Array]:
    """First place of each hash, in their order, and summed weights; with few long arrays."""
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    starts = np.concatenate([[True], hashes[1:] != hashes[:-1]])
    del hashes
    if starts.all():
        return order, weight[order]
    kind = np.cumsum(starts)
    return order[starts], np.bincount(kind - 1, weight[order])


def _hashes(rows: Array) -> Array:
    """A number of 64 bits for every row: equal rows have equal ones, and hardly any others do."""
    multipliers = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) | 1
    bits = (np.nan_to_num(rows.astype(np.float64), nan=np.inf) + 0.0).view(np.uint64)  # no -0
    return ((bits ^ (bits >> np.uint64(29))) * multipliers).sum(axis=1)


def some_rows(weight: Array, most: int, rng: np.random.Generator) -> Array:
    """Positions of rows with weight, a random sample if there are more than ``most``."""
    found = np.flatnonzero(weight > 0)
    if len(found) > most:
        found = np.sort(rng.choice(found, most, replace=False))
    return found
