"""Yes-or-no entries with a Beta posterior: T(x) = (1, x), Beta(chi[1], chi[0] - chi[1])."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.predictive import Levels

# Keeps log p finite at maximum likelihood when a state has seen one answer only.
PROBABILITY_FLOOR = 1e-10


@dataclass(frozen=True)
class Bernoulli:
    """Probability of a one."""

    name: ClassVar[str] = "bernoulli"

    @property
    def n_statistics(self) -> int:
        """Two: 1 and x."""
        return 2

    @property
    def powers(self) -> bool:
        """T is made of powers of x."""
        return True

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Beta with the column's mean, worth ``strength`` rows."""
        return strength * np.stack([np.ones(moments.shape[1]), moments[1]])

    def natural(self, chi: Array) -> Array:
        """E[log(1 - p)] and E[log p - log(1 - p)]."""
        total = special.digamma(chi[0])
        no = special.digamma(chi[0] - chi[1]) - total
        return np.stack([no, special.digamma(chi[1]) - total - no])

    def log_partition(self, chi: Array) -> Array:
        """Log of the Beta function."""
        return special.betaln(chi[1], chi[0] - chi[1])

    def predictive(self, chi: Array) -> Levels:
        """Bernoulli at the posterior mean."""
        p = chi[1] / chi[0]
        return Levels(np.stack([1.0 - p, p]))

    def _point(self, sums: Array) -> Array:
        empty = sums[0] <= 0
        p = np.where(empty, 0.5, sums[1] / np.where(empty, 1.0, sums[0]))
        return np.clip(p, PROBABILITY_FLOOR, 1.0 - PROBABILITY_FLOOR)

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at the state's share of ones."""
        p = self._point(sums)
        return np.stack([np.log1p(-p), np.log(p) - np.log1p(-p)])

    def point_predictive(self, sums: Array) -> Levels:
        """Bernoulli at the state's share of ones."""
        p = self._point(sums)
        return Levels(np.stack([1.0 - p, p]))
