"""Better row clusters by their evidence: merge states that are one, split states that are two.

k-means spends centers on rows that differ only in which entries are missing, and joins kinds of
rows elsewhere. The evidence of Gaussian clusters, parameters integrated out, sees both, and merges
and splits need no more than the clusters' sums.
"""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods import Conjugate, Dirichlet, Gaussian, Prior
from partwise.models.sizes import Judge, Part
from partwise.starts.kmeans import masked_kmeans

# More trust in small variances than a fit's default: few rows of one kind must not look like one
# kind with their neighbors.
JUDGE = Prior(shape=10.0)


def split_and_merge(
    labels: Array, Z: Array, J: int, weight: Array, rng: np.random.Generator
) -> Array:
    """Labels (n,) with at most J values and no less evidence than the ones given.

    Z (n, D) is standardized, NaN where missing; weight is (n,).
    """
    rows = _Rows(Z, weight)
    clusters = [np.flatnonzero(labels == j) for j in np.unique(labels)]
    groups = rows.judge.groups(rows.part(clusters))
    clusters = [np.concatenate([clusters[j] for j in group]) for group in groups]
    clusters = _split(clusters, J, Z, weight, rows, rng)
    out = np.empty_like(labels)
    for j, own in enumerate(clusters):
        out[own] = j
    return out


class _Rows:
    """Sums of clusters of rows, and the evidence they have as states of a part."""

    def __init__(self, Z: Array, weight: Array) -> None:
        observed = ~np.isnan(Z)
        z = np.where(observed, Z, 0).astype(float)
        self._statistics = np.stack([observed, z, z * z]) * weight[:, None]  # (3, n, D)
        self._weight = weight
        gaussian = Gaussian(JUDGE.shape, JUDGE.spread)
        chi0 = gaussian.pseudo_sums(np.zeros((3, Z.shape[1])), JUDGE.entries)
        self.judge = Judge((Conjugate(gaussian, chi0),), Dirichlet(JUDGE.states))

    def part(self, clusters: list[Array]) -> Part:
        """Clusters as states whose rows are known."""
        rows = np.concatenate(clusters)
        first = np.cumsum([0, *(len(own) for own in clusters[:-1])], dtype=np.intp)
        sums = np.add.reduceat(self._statistics[:, rows], first, axis=1)
        counts = np.add.reduceat(self._weight[rows], first)
        columns = np.arange(sums.shape[2])
        return Part(columns, (sums,), counts, np.zeros((len(counts),) * 2))

    def gains(self, halves: list[list[Array]]) -> list[float]:
        """What two states have more evidence than one, for each two clusters."""
        if not halves:
            return []
        both = [np.concatenate(two) for two in halves]
        part, n = self.part([own for two in halves for own in two] + both), len(halves)
        entries, one = self.judge.entries(part.sums), slice(2 * n, None)
        told = entries[: 2 * n].reshape(n, 2).sum(axis=1) - entries[one]
        counts, choice = part.counts[: 2 * n].reshape(n, 2), self.judge.states.evidence
        chosen = [choice(two) - choice(two.sum(keepdims=True)) for two in counts]
        return (told + chosen).tolist()


def _split(
    clusters: list[Array], J: int, Z: Array, weight: Array, rows: _Rows, rng: np.random.Generator
) -> list[Array]:
    """Cut the cluster that gains most in two, again and again, while states are free."""

    def attempts(some: list[Array]) -> list[tuple[float, list[Array]]]:
        """Halves of clusters, none where they do not differ, and what each cut gains."""
        halves = [_halves(own, Z, weight, rng) for own in some]
        gains = iter(rows.gains([two for two in halves if two]))
        return [(next(gains) if two else -np.inf, two) for two in halves]

    if len(clusters) >= J:
        return clusters
    tried = attempts(clusters)
    while len(clusters) < J:
        best = int(np.argmax([gain for gain, _ in tried]))
        gain, halves = tried[best]
        if gain <= 0:
            break
        clusters[best : best + 1] = halves
        tried[best : best + 1] = attempts(halves)
    return clusters


def _halves(own: Array, Z: Array, weight: Array, rng: np.random.Generator) -> list[Array]:
    """Two clusters of some rows, none where the rows do not differ."""
    seen = Z[own]
    seen = seen[:, ~np.isnan(seen).all(axis=0)]
    if len(own) < 2 or seen.shape[1] == 0:
        return []
    side = masked_kmeans(seen, 2, weight[own], rng, n_init=2)
    halves = [own[side == 0], own[side == 1]]
    return halves if all(len(half) for half in halves) else []
