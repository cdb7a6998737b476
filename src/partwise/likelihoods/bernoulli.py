"""Yes-or-no entries with a Beta posterior: T(x) = (1, x), Beta(chi[1], chi[0] - chi[1])."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Average, Decode, Family
from partwise.likelihoods.predictive import Levels, PlainValue, Predictive

# Keeps log p finite at maximum likelihood when a state has seen one answer only.
PROBABILITY_FLOOR = 1e-10


@dataclass(frozen=True)
class Bernoulli(Family):
    """Probability of a one."""

    name: ClassVar[str] = "bernoulli"
    powers: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    shares_or_means: ClassVar[bool] = True
    own_levels: ClassVar[tuple[float, ...] | None] = (0.0, 1.0)

    @property
    def n_statistics(self) -> int:
        """Two: 1 and x."""
        return 2

    @classmethod
    def check(cls, values: Array) -> str | None:
        """Entries are 0 or 1."""
        wrong = values[~np.isnan(values) & (values != 0) & (values != 1)]
        if not len(wrong):
            return None
        return (
            f'{wrong[0]:g}, but likelihood="bernoulli" needs 0, 1 or NaN; binarize the data or '
            'choose likelihood="gaussian".'
        )

    def statistics(self, values: Array) -> Array:
        """1 and x."""
        return np.stack([np.ones_like(values), values])

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Beta with the column's mean, worth ``strength`` rows."""
        return strength * np.stack([np.ones(moments.shape[1]), moments[1]])

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Some ones, and under a prior some zeros."""
        zeros = chi[0] - chi[1]
        return bool(
            np.all((chi[1] >= least) & (chi[0] <= most) & (zeros > 0 if least else zeros >= 0))
        )

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

    def likely(self, told: Predictive, average: Average, decode: Decode) -> Array:
        """The likelier of the two."""
        assert isinstance(told, Levels)
        return decode(self.likely_code(told.shares(average)))

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """Logarithms and probabilities of no and yes."""
        assert isinstance(told, Levels)
        return told.page(np.stack([natural[0], natural.sum(axis=0)]))
