"""Falling noise and orders of visiting, the same for all rows."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array

# The noise that the paper ends at.
LEAST_SIGMA = 1e-4


def halving(most: float, least: float, factor: float = 0.5) -> Array:
    """Noise levels from ``most`` to ``least``, each ``factor`` times the one before; sigma."""
    n = int(np.ceil(np.log(least / most) / np.log(factor))) + 1
    return most * factor ** np.arange(n)


def precision(sigma: Array) -> Array:
    """1 / (2 sigma^2)."""
    return 0.5 / sigma**2


def orders(n_sweeps: int, n_groups: int, rng: np.random.Generator) -> Array:
    """A random order of the features for every sweep; (T, K)."""
    order = np.tile(np.arange(n_groups), (n_sweeps, 1))
    return rng.permuted(order, axis=1)
