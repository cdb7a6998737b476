"""Entries of V levels with a Dirichlet posterior: T(x) is one-hot, chi are the counts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods.gamma import expected_logs, log_beta
from partwise.likelihoods.predictive import Levels

# Keeps log p finite at maximum likelihood for levels a state has not seen.
PROBABILITY_FLOOR = 1e-10


@dataclass(frozen=True)
class Categorical:
    """Probabilities of ``n_levels`` levels.

    Whether they are ``ordered`` changes no probability, only what is said of a whole distribution:
    its median and intervals instead of the likeliest level.
    """

    n_levels: int
    ordered: bool = False
    name: ClassVar[str] = "categorical"

    @property
    def n_statistics(self) -> int:
        """One a level."""
        return self.n_levels

    @property
    def powers(self) -> bool:
        """T is one-hot, so entries are stored as codes."""
        return False

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Dirichlet with the column's shares, worth ``strength`` rows a level."""
        return strength * self.n_levels * moments

    def natural(self, chi: Array) -> Array:
        """E[log p] of each level."""
        return expected_logs(chi)

    def log_partition(self, chi: Array) -> Array:
        """Log of the multivariate Beta function."""
        return log_beta(chi)

    def predictive(self, chi: Array) -> Levels:
        """Posterior mean of the probabilities."""
        return Levels(chi / chi.sum(axis=0))

    def _point(self, sums: Array) -> Array:
        total = sums.sum(axis=0)
        empty = total <= 0
        p = np.where(empty, 1.0 / self.n_levels, sums / np.where(empty, 1.0, total))
        p = np.maximum(p, PROBABILITY_FLOOR)
        return p / p.sum(axis=0)

    def point_natural(self, sums: Array) -> Array:
        """Log shares of the levels in the state."""
        return np.log(self._point(sums))

    def point_predictive(self, sums: Array) -> Levels:
        """Shares of the levels in the state."""
        return Levels(self._point(sums))
