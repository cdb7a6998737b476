"""Counts with a Gamma posterior: T(x) = (1, x), Gamma(shape = chi[1], rate = chi[0])."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Family
from partwise.likelihoods.counts import wrong_counts
from partwise.likelihoods.predictive import GammaPoisson, PlainValue, Predictive

# Keeps log lambda finite at maximum likelihood when a state has only zeros.
RATE_FLOOR = 1e-10


@dataclass(frozen=True)
class Poisson(Family):
    """Rate of a count; log x! is the base measure."""

    name: ClassVar[str] = "poisson"
    powers: ClassVar[bool] = True
    counts: ClassVar[bool] = True
    shares_or_means: ClassVar[bool] = True
    absent_zero: ClassVar[bool] = True
    explorer: ClassVar[str] = "text"

    @property
    def n_statistics(self) -> int:
        """Two: 1 and x."""
        return 2

    @classmethod
    def check(cls, values: Array) -> str | None:
        """Entries are counts."""
        return wrong_counts(cls.name, values)

    def statistics(self, values: Array) -> Array:
        """1 and x."""
        return np.stack([np.ones_like(values), values])

    def base(self, values: Array) -> Array:
        """-log x!."""
        return -special.gammaln(values + 1.0)

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Gamma with the column's mean, worth ``strength`` rows."""
        return strength * np.stack([np.ones(moments.shape[1]), moments[1]])

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Some rows, and under a prior some counts."""
        return bool(np.all((chi >= least) & (chi <= most)))

    def natural(self, chi: Array) -> Array:
        """-E[lambda] and E[log lambda]."""
        return np.stack([-chi[1] / chi[0], special.digamma(chi[1]) - np.log(chi[0])])

    def log_partition(self, chi: Array) -> Array:
        """Log normalizer of the Gamma density."""
        return special.gammaln(chi[1]) - chi[1] * np.log(chi[0])

    def predictive(self, chi: Array) -> GammaPoisson:
        """Poisson with the rate integrated out."""
        return GammaPoisson(chi[1], chi[0])

    def _point(self, sums: Array) -> Array:
        empty = sums[0] <= 0
        return np.maximum(np.where(empty, 1.0, sums[1] / np.where(empty, 1.0, sums[0])), RATE_FLOOR)

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at the state's mean count."""
        rate = self._point(sums)
        return np.stack([-rate, np.log(rate)])

    def point_predictive(self, sums: Array) -> GammaPoisson:
        """Poisson at the state's mean count."""
        rate = self._point(sums)
        return GammaPoisson(rate, np.full_like(rate, np.inf))

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """Shape and rate of the posterior."""
        assert isinstance(told, GammaPoisson)
        return {"law": "counts", "shape": told.shape, "rate": told.rate}
