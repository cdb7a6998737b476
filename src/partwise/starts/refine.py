"""Better row clusters by their evidence: merge states that are one, split states that are two.

k-means spends centres on rows that differ only in which entries are missing, and joins kinds of
rows elsewhere. The evidence of Gaussian clusters, parameters integrated out, sees both, and merges
and splits need no more than the clusters' sums.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods import Conjugate, Gaussian, Prior
from partwise.starts.kmeans import masked_kmeans

# More trust in small variances than a fit's default: few rows of one kind must not look like one
# kind with their neighbours.
JUDGE = Prior(shape=10.0)


def split_and_merge(
    labels: Array, Z: Array, J: int, weight: Array, rng: np.random.Generator
) -> Array:
    """Labels (n,) with at most J values and no less evidence than the ones given.

    Z (n, D) is standardised, NaN where missing; weight is (n,).
    """
    judge = _Judge(Z, weight)
    clusters = [np.flatnonzero(labels == j) for j in np.unique(labels)]
    clusters = _merge(clusters, judge)
    clusters = _split(clusters, J, Z, weight, judge, rng)
    out = np.empty_like(labels)
    for j, rows in enumerate(clusters):
        out[rows] = j
    return out


class _Judge:
    """Evidence of clusters from their sums (3, ..., D) and of their sizes."""

    def __init__(self, Z: Array, weight: Array) -> None:
        observed = ~np.isnan(Z)
        z = np.where(observed, Z, 0).astype(float)
        self._statistics = np.stack([observed.astype(float), z, z * z])  # (3, n, D)
        self._weight = weight
        self._prior = JUDGE
        gaussian = Gaussian(self._prior.shape, self._prior.spread)
        chi0 = gaussian.pseudo_sums(np.zeros((3, Z.shape[1])), self._prior.entries)
        self._entries = Conjugate(gaussian, chi0)

    def sums(self, rows: Array) -> Array:
        """Weighted statistics of some rows, (3, D)."""
        return np.einsum("n,pnd->pd", self._weight[rows], self._statistics[:, rows])

    def size(self, rows: Array) -> float:
        """Their weight."""
        return float(self._weight[rows].sum())

    def evidence(self, sums: Array, size: Array) -> Array:
        """Log evidence of clusters with these sums (3, N, D) and sizes (N,), up to a constant."""
        likelihood = self._entries.likelihood
        gain = likelihood.log_partition(self._entries.posterior(sums))
        gain = gain - likelihood.log_partition(self._entries.chi0)
        return gain.sum(axis=-1) + special.gammaln(size + self._prior.states)


def _merge(clusters: list[Array], judge: _Judge) -> list[Array]:
    """Join the pair that gains most, again and again, while any gains."""
    sums = np.stack([judge.sums(rows) for rows in clusters], axis=1)  # (3, J, D)
    sizes = np.array([judge.size(rows) for rows in clusters])
    alone = judge.evidence(sums, sizes)
    gains = np.full((len(clusters),) * 2, -np.inf)
    for i in range(len(clusters) - 1):
        gains[i, i + 1 :] = _pair_gains(i, slice(i + 1, None), sums, sizes, alone, judge)
    while len(clusters) > 1 and gains.max() > 0:
        i, j = (int(v) for v in np.unravel_index(np.argmax(gains), gains.shape))
        clusters[i] = np.concatenate([clusters[i], clusters[j]])
        sums[:, i] += sums[:, j]
        sizes[i] += sizes[j]
        alone[i] = judge.evidence(sums[:, i : i + 1], sizes[i : i + 1])[0]
        clusters.pop(j)
        kept = np.arange(len(sizes)) != j
        sums, sizes, alone = sums[:, kept], sizes[kept], alone[kept]
        gains = gains[np.ix_(kept, kept)]
        renewed = _pair_gains(i, slice(None), sums, sizes, alone, judge)
        gains[:i, i], gains[i, i + 1 :] = renewed[:i], renewed[i + 1 :]
    return clusters


def _pair_gains(
    i: int, others: slice, sums: Array, sizes: Array, alone: Array, judge: _Judge
) -> Array:
    joint = judge.evidence(sums[:, i : i + 1] + sums[:, others], sizes[i] + sizes[others])
    return joint - alone[i] - alone[others]


def _split(
    clusters: list[Array], J: int, Z: Array, weight: Array, judge: _Judge, rng: np.random.Generator
) -> list[Array]:
    """Cut the cluster that gains most in two, again and again, while states are free."""

    def attempt(rows: Array) -> tuple[float, list[Array]]:
        own = Z[rows]
        own = own[:, ~np.isnan(own).all(axis=0)]
        if len(rows) < 2 or own.shape[1] == 0:
            return -np.inf, []
        side = masked_kmeans(own, 2, weight[rows], rng, n_init=2)
        halves = [rows[side == 0], rows[side == 1]]
        if min(len(half) for half in halves) == 0:
            return -np.inf, []
        sums = np.stack([judge.sums(half) for half in [*halves, rows]], axis=1)
        value = judge.evidence(sums, np.array([judge.size(h) for h in [*halves, rows]]))
        return float(value[0] + value[1] - value[2]), halves

    if len(clusters) >= J:
        return clusters
    attempts = [attempt(rows) for rows in clusters]
    while len(clusters) < J:
        best = int(np.argmax([gain for gain, _ in attempts]))
        gain, halves = attempts[best]
        if gain <= 0:
            break
        clusters[best : best + 1] = halves
        attempts[best : best + 1] = [attempt(half) for half in halves]
    return clusters
