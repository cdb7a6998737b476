"""Starts of models whose parts add up: what each state adds, the noise, and counts of the states.

Two ways, each blind where the other sees. Parts that own columns show in which columns depend on
each other; parts spread over all columns show in the residuals of the parts before.
"""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array
from partwise.data.source import BlockSource
from partwise.starts.dependence import dependence_start
from partwise.starts.kmeans import masked_kmeans
from partwise.starts.rows import distinct_rows, some_rows

# Rows that are clustered, and runs of k-means.
CLUSTERED_ROWS = 2000
N_RUNS = 4

# Least noise of a column at the start, of its variance: rows must be able to change their states.
LEAST_NOISE = 1e-3

Start = tuple[Array, Array, Array]  # mu (S, D), psi (D,), counts (S,); in model units


def separate_start(source: BlockSource, K: int, J: int, rng: np.random.Generator) -> Start:
    """Columns grouped by their dependence; each part's states add to the part's own columns."""
    stats, gates = dependence_start(source, (J,) * K, False, rng)
    count, total, squares = stats.sums[0].shared  # each (S, D)
    safe = np.maximum(count, np.finfo(float).tiny)
    own = gates.argmax(axis=0) == np.repeat(np.arange(K), J)[:, None]  # (S, D)
    mean = total / safe
    inside = np.where(own, squares - mean * total, 0.0).sum(axis=0)
    rows = np.maximum(np.where(own, count, 0.0).sum(axis=0), np.finfo(float).tiny)
    return mean * own, np.maximum(inside / rows, LEAST_NOISE), stats.states


def residual_start(source: BlockSource, K: int, J: int, rng: np.random.Generator) -> Start:
    """k-means of the rows, then of the residuals of each part in turn."""
    kinds, weight = distinct_rows(source)
    some = some_rows(weight, CLUSTERED_ROWS, rng)
    rows, weight = kinds[some], weight[some]
    X = source.X[rows].astype(float)
    left = source.columns[0].encode(X, np.arange(X.shape[1]))
    shown = (~np.isnan(left)).astype(float)
    mu, counts = np.zeros((K, J, X.shape[1])), np.zeros((K, J))
    for k in range(K):
        labels = masked_kmeans(left, J, weight, rng, n_init=N_RUNS)
        member = weight * (labels == np.arange(J)[:, None])  # (J, n)
        seen = member @ shown
        mu[k] = (member @ np.nan_to_num(left)) / np.where(seen > 0, seen, 1.0)
        counts[k] = member.sum(axis=1)
        left = left - mu[k, labels]
    psi = (weight @ np.nan_to_num(left) ** 2) / np.maximum(weight @ shown, np.finfo(float).tiny)
    scale = source.weight.sum() / weight.sum()
    return mu.reshape(K * J, -1), np.maximum(psi, LEAST_NOISE), counts.ravel() * scale
