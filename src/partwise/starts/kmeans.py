"""k-means on rows with missing values, with greedy seeding, for the start of a part's states."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array


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
    observed = ~np.isnan(Z)
    shown = observed.astype(Z.dtype)
    Z = np.where(observed, Z, Z.dtype.type(0))
    best, labels = np.inf, np.zeros(len(Z), np.intp)
    complete = bool(observed.all())
    for _ in range(n_init):
        centers = _seed(Z, shown, J, weight, rng)
        for _ in range(n_steps):
            distance = _distances(Z, shown, centers, complete)
            now = distance.argmin(axis=1)
            indicator = np.zeros((len(centers), len(Z)), Z.dtype)
            indicator[now, np.arange(len(Z))] = weight
            count = indicator @ shown
            moved = np.where(count > 0, (indicator @ Z) / np.where(count > 0, count, 1), centers)
            if np.abs(moved - centers).max() <= 1e-6:
                break
            centers = moved
        loss = float(weight @ np.maximum(distance[np.arange(len(Z)), now], 0))
        if loss < best * (1 - 1e-9):
            best, labels = loss, now
    return labels


def _distances(Z: Array, shown: Array, centers: Array, complete: bool) -> Array:
    """Squared distances over observed entries, identical up to rounding; (n, J)."""
    own = (Z * Z).sum(axis=1)
    squares = centers * centers
    other = squares.sum(axis=1) if complete else shown @ squares.T
    return own[:, None] - 2 * (Z @ centers.T) + other


def _seed(Z: Array, shown: Array, J: int, weight: Array, rng: np.random.Generator) -> Array:
    """Greedy k-means++: of a few rows sampled far from the centers, keep the one that helps most.

    A row stands in for a center with its missing entries at 0, the column's average.
    """
    n_trials = 2 + int(np.log(J))
    complete = bool(shown.all())
    first = rng.choice(len(Z), p=weight / weight.sum())
    chosen = [first]
    closest = np.maximum(_distances(Z, shown, Z[[first]], complete)[:, 0], 0)
    for _ in range(J - 1):
        mass = closest * weight
        total = mass.sum()
        if total <= 0:
            break  # no two rows differ any more
        trials = np.searchsorted(np.cumsum(mass), rng.random(n_trials) * total)
        trials = np.minimum(trials, len(Z) - 1)
        reached = np.minimum(
            np.maximum(_distances(Z, shown, Z[trials], complete), 0), closest[:, None]
        )
        pick = int(np.argmin(weight @ reached))
        chosen.append(int(trials[pick]))
        closest = reached[:, pick]
    return Z[chosen]
