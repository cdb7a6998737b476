"""k-means on rows with missing values, with greedy seeding, for the start of a part's states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from partwise._compiled import compiled, is_few
from partwise.contracts import Array

# Below this share of observed entries, sparse products are faster.
SPARSE = 0.25

# Rows times columns times centers up to which a compiled loop is faster than matrix products.
FEW_PRODUCTS = 1 << 17


class _Rows(NamedTuple):
    """Rows (n, D) with 0 where missing, what is observed, and the squared length of rows, (n,).

    Both are sparse matrices if most is missing; ``given`` has NaN where missing.
    """

    Z: Array | sparse.csr_matrix
    shown: Array | sparse.csr_matrix
    squares: Array
    complete: bool
    given: Array

    @classmethod
    def of(cls, Z: Array) -> _Rows:
        observed = ~np.isnan(Z)
        shown, filled = observed.astype(Z.dtype), np.where(observed, Z, Z.dtype.type(0))
        squares = (filled * filled).sum(axis=1)
        if observed.mean() < SPARSE:
            where = sparse.csr_matrix(shown)
            entries = Z[observed], where.indices, where.indptr
            return cls(sparse.csr_matrix(entries, Z.shape), where, squares, False, Z)
        return cls(filled, shown, squares, bool(observed.all()), Z)

    def take(self, rows: Array | list[int]) -> Array:
        """Some rows, dense."""
        found = self.given[rows]
        return np.where(np.isnan(found), found.dtype.type(0), found)

    def products(self, centers: Array) -> tuple[Array, Array]:
        """Of rows with centers (J, D), and the observed part of the centers' squares; (n, J)."""
        if isinstance(self.Z, np.ndarray) or is_few(self.Z.nnz):
            squares = centers * centers
            other = squares.sum(axis=1) if self.complete else self.shown @ squares.T
            return self.Z @ centers.T, other
        out = np.zeros((2, self.Z.shape[0], len(centers)), centers.dtype)
        entries = self.Z.indptr, self.Z.indices, self.Z.data
        _add_products(*entries, np.ascontiguousarray(centers.T), *out)
        return out[0], out[1]

    def sums(self, labels: Array, weight: Array, J: int) -> tuple[Array, Array]:
        """Weights of the observed entries of each label, and their weighted sums; (J, D)."""
        n, D = self.Z.shape
        if isinstance(self.Z, np.ndarray) or is_few(self.Z.nnz):
            indicator = np.zeros((J, n), self.Z.dtype)
            indicator[labels, np.arange(n)] = weight
            return indicator @ self.shown, indicator @ self.Z
        out = np.zeros((2, J, D), self.Z.dtype)
        entries = self.Z.indptr, self.Z.indices, self.Z.data
        _add_sums(*entries, labels, weight.astype(out.dtype), *out)
        return out[0], out[1]


@compiled()
def _add_products(indptr, columns, values, centers, inner, squares):  # type: ignore[no-untyped-def]  # compiled
    """inner[r] += z c[d] and squares[r] += c[d]^2 for every entry z of row r and column d."""
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            z, center = values[e], centers[columns[e]]
            for j in range(len(center)):
                inner[r, j] += z * center[j]
                squares[r, j] += center[j] * center[j]


@compiled()
def _add_sums(indptr, columns, values, labels, weight, count, total):  # type: ignore[no-untyped-def]  # compiled
    """count[label, d] += w and total[label, d] += w z for every entry z of column d."""
    for r in range(len(indptr) - 1):
        j, w = labels[r], weight[r]
        for e in range(indptr[r], indptr[r + 1]):
            count[j, columns[e]] += w
            total[j, columns[e]] += w * values[e]


def masked_kmeans(
    Z: Array, J: int, weight: Array, rng: np.random.Generator, *, n_init: int = 8, n_steps: int = 30
) -> Array:
    """Best labels of several runs.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        NaN is missing; a distance is taken over the observed entries.
    J : int
        Number of centers; fewer are used if fewer rows differ.
    weight : ndarray of shape (n,)
    rng : Generator
    n_init : int
        Runs from different seeds.
    n_steps : int
        Most Lloyd steps of a run.

    Returns
    -------
    labels : ndarray of shape (n,)
    """
    best, labels = np.inf, np.zeros(len(Z), np.intp)
    run = _run_few if Z.size * J <= FEW_PRODUCTS else _run
    rows = _Rows.of(Z)
    for _ in range(n_init):
        now, loss = run(rows, J, weight, rng, n_steps)
        if loss < best * (1 - 1e-9):
            best, labels = loss, now
    return labels


def _run(
    rows: _Rows, J: int, weight: Array, rng: np.random.Generator, n_steps: int
) -> tuple[Array, float]:
    """Labels of one run, and their weighted squared distances."""
    centers = _seed(rows, J, weight, rng)
    for _ in range(n_steps):
        distance = _distances(rows, centers)
        now = distance.argmin(axis=1)
        count, total = rows.sums(now, weight, len(centers))
        moved = np.where(count > 0, total / np.where(count > 0, count, 1), centers)
        if np.abs(moved - centers).max() <= 1e-6:
            break
        centers = moved
    return now, float(weight @ np.maximum(distance[np.arange(len(now)), now], 0))


def _run_few(
    rows: _Rows, J: int, weight: Array, rng: np.random.Generator, n_steps: int
) -> tuple[Array, float]:
    """The same without matrix products."""
    seen = ~np.isnan(rows.given.T)
    Z, labels = np.where(seen, rows.given.T, 0.0), np.empty(seen.shape[1], np.intp)
    mass = np.cumsum(weight)
    first = min(int(np.searchsorted(mass, rng.random() * mass[-1], "right")), len(mass) - 1)
    draws = rng.random((J - 1, _n_trials(J)))
    return labels, _cluster(Z, seen.astype(float), weight, first, draws, n_steps, labels)


@compiled(fastmath={"contract", "reassoc"})
def _cluster(Z, seen, weight, first, draws, n_steps, labels):  # type: ignore[no-untyped-def]  # compiled
    """Labels of one run, and their weighted squared distances, without matrix products.

    Z (D, n) is 0 where ``seen`` is. Row ``first`` is the first center, ``draws`` (J - 1, trials)
    are uniform numbers for the others.
    """
    D, n = Z.shape
    centers, J = np.zeros((len(draws) + 1, D)), 1
    centers[0] = Z[:, first]
    closest, reached, best = np.empty(n), np.empty(n), np.empty(n)
    _measure(Z, seen, centers[0], closest)
    for trials in draws:
        total = 0.0
        for r in range(n):
            total += closest[r] * weight[r]
        if total <= 0.0:
            break  # no two rows differ any more
        least = np.inf
        for u in trials:
            row, mass = 0, closest[0] * weight[0]
            while row < n - 1 and mass < u * total:
                row += 1
                mass += closest[row] * weight[row]
            _measure(Z, seen, Z[:, row], reached)
            loss = 0.0
            for r in range(n):
                reached[r] = min(reached[r], closest[r])
                loss += weight[r] * reached[r]
            if loss < least:
                least = loss
                centers[J] = Z[:, row]
                best[:] = reached
        closest[:] = best
        J += 1
    count, mean, loss = np.empty((J, D)), np.empty((J, D)), 0.0
    for _ in range(n_steps):
        closest[:] = np.inf
        for j in range(J):
            _measure(Z, seen, centers[j], reached)
            for r in range(n):
                labels[r] = j if reached[r] < closest[r] else labels[r]
                closest[r] = min(reached[r], closest[r])
        count[:], mean[:], loss = 0.0, 0.0, 0.0
        for d in range(D):
            for r in range(n):
                count[labels[r], d] += weight[r] * seen[d, r]
                mean[labels[r], d] += weight[r] * Z[d, r]
        for r in range(n):
            loss += weight[r] * closest[r]
        moved = 0.0
        for j in range(J):
            for d in range(D):
                center = mean[j, d] / count[j, d] if count[j, d] > 0.0 else centers[j, d]
                moved = max(moved, abs(center - centers[j, d]))
                mean[j, d] = center
        if moved <= 1e-6:
            break
        centers[:J] = mean
    return loss


@compiled(fastmath={"contract", "reassoc"})
def _measure(Z, seen, center, out):  # type: ignore[no-untyped-def]  # compiled
    """Squared distances of rows from a center over observed entries, (n,)."""
    out[:] = 0.0
    for d in range(len(Z)):
        for r in range(len(out)):
            away = Z[d, r] - center[d]
            out[r] += seen[d, r] * away * away


def _distances(rows: _Rows, centers: Array) -> Array:
    """Squared distances over observed entries, identical up to rounding; (n, J)."""
    inner, squares = rows.products(centers)
    return rows.squares[:, None] - 2 * inner + squares


def _seed(rows: _Rows, J: int, weight: Array, rng: np.random.Generator) -> Array:
    """Greedy k-means++: of a few rows sampled far from the centers, keep the one that helps most.

    A row stands in for a center with its missing entries at 0, the column's average.
    """
    n_trials = _n_trials(J)
    first = int(rng.choice(len(weight), p=weight / weight.sum()))
    chosen = [first]
    closest = np.maximum(_distances(rows, rows.take([first]))[:, 0], 0)
    for _ in range(J - 1):
        mass = closest * weight
        total = mass.sum()
        if total <= 0:
            break  # no two rows differ any more
        trials = np.searchsorted(np.cumsum(mass), rng.random(n_trials) * total)
        trials = np.minimum(trials, len(weight) - 1)
        reached = np.maximum(_distances(rows, rows.take(trials)), 0)
        reached = np.minimum(reached, closest[:, None])
        pick = int(np.argmin(weight @ reached))
        chosen.append(int(trials[pick]))
        closest = reached[:, pick]
    return rows.take(chosen)


def _n_trials(J: int) -> int:
    """Rows that are tried for each of J centers."""
    return 2 + int(np.log(J))
