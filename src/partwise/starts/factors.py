"""Where a factor model begins: at principal directions of grouped columns, or at random rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils.extmath import randomized_svd

from partwise.contracts import Array
from partwise.data.source import BlockSource
from partwise.starts.dependence import grouped_columns, slices
from partwise.starts.random import picked_rows
from partwise.starts.rows import distinct_rows


def dependence_loadings(
    source: BlockSource, n_factors: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Loadings (D, J) of every part, in model units, and gates (K, D).

    Principal directions of a part's own columns in a sample of rows, missing entries at their
    column's mean; the loadings of all other columns are their regressions on these directions.
    """
    found = grouped_columns(source, len(n_factors), background, rng)
    D = source.X.shape[1]
    loadings = []
    for k, J in enumerate(n_factors):
        Lambda = np.zeros((D, J))
        own = found.labels == k
        Lambda[found.columns] = principal_loadings(found.sample, found.weight, own, J, rng)
        loadings.append(_bounded(Lambda, rng))
    return loadings, found.gates


def principal_loadings(
    sample: Array, weight: Array, own: Array, J: int, rng: np.random.Generator
) -> Array:
    """Loadings (D, J) of a sample's columns on principal directions of some, ``own`` (D,)."""
    filled = np.nan_to_num(sample).astype(float, copy=False)
    filled *= np.sqrt(weight)[:, None]
    rank = min(J, len(filled), int(own.sum()))
    Lambda = np.zeros((sample.shape[1], J))
    if rank > 0:
        U, *_ = randomized_svd(filled[:, own], rank, random_state=int(rng.integers(2**31 - 1)))
        # What missing values take away from a column's covariances, on average.
        columns = slices(sample.shape[1], len(sample))
        counts = np.concatenate([weight @ ~np.isnan(sample[:, at]) for at in columns])
        shown = np.maximum(counts / weight.sum(), 1e-3)
        Lambda[:, :rank] = filled.T @ U / (shown[:, None] * np.sqrt(weight.sum()))
    return Lambda


def random_loadings(
    source: BlockSource, n_factors: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Randomly selected rows as loadings, and equal gates, as in the papers."""
    K, D = len(n_factors), source.X.shape[1]
    kinds, weight = distinct_rows(source)
    rows = kinds[rng.choice(len(kinds), sum(n_factors), p=weight / weight.sum())]
    (picked,) = picked_rows(source, rows)  # T(x), (P, rows, D)
    cuts = np.cumsum(n_factors)[:-1]
    loadings = [_bounded(rows.T, rng) for rows in np.split(picked[1], cuts)]
    return loadings, np.full((K, D), 1.0 / K)


def _bounded(Lambda: Array, rng: np.random.Generator) -> Array:
    """Loadings that explain at most most of a column, and no direction wholly without."""
    Lambda = Lambda + 1e-3 * rng.standard_normal(Lambda.shape)
    size = np.sqrt((Lambda**2).sum(axis=1, keepdims=True))
    return Lambda * np.minimum(1.0, 0.9 / np.maximum(size, 1e-300))
