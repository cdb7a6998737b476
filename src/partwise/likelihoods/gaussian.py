"""Gaussian entries with a Normal-Gamma posterior.

=========  ==============================  ==========================================
symbol     code                            meaning
=========  ==============================  ==========================================
T(x)       (1, x, x^2)                     sufficient statistics
kappa      chi[0]                          pseudo-count of the mean
m          chi[1] / chi[0]                 posterior mean of mu
alpha      (chi[0] + offset) / 2           shape of the precision
beta       (chi[2] - chi[1]^2/chi[0]) / 2  rate of the precision
=========  ==============================  ==========================================

Columns arrive scaled to variance 1, so the default prior is the same for each of them: the column's
mean worth ``strength`` rows, and a precision whose scale is a fraction of the column's variance.
The log density keeps its 2 pi, which the papers drop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Family
from partwise.likelihoods.predictive import PlainValue, Predictive, StudentT

if TYPE_CHECKING:
    from partwise.likelihoods.prior import Prior

_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))

# Smallest variance of maximum likelihood, of the column's own: a state of equal rows has density
# without limit, and this keeps its logarithm finite without touching any state that varies.
VARIANCE_FLOOR = 1e-6


@dataclass(frozen=True)
class Gaussian(Family):
    """Normal density of standardized entries.

    ``offset`` ties the shape of the precision to the count of the mean; ``spread`` is the prior
    guess of a state's variance in units of the column's. An entry is known to within a variance of
    ``resolution``: its x^2 counts as its expectation x^2 + resolution.
    """

    offset: float = 2.0
    spread: float = 0.03
    resolution: float = 0.0
    name: ClassVar[str] = "gaussian"
    powers: ClassVar[bool] = True
    scaled: ClassVar[bool] = True
    has_units: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True

    @property
    def n_statistics(self) -> int:
        """Three: 1, x, x^2."""
        return 3

    @classmethod
    def make(cls, prior: Prior | None, n_levels: int) -> Gaussian:
        """With the prior's guess of the precision."""
        return cls() if prior is None else cls(prior.shape, prior.spread, prior.resolution)

    def state(self) -> dict[str, PlainValue]:
        """The resolution."""
        return {"resolution": self.resolution}

    @classmethod
    def restore(
        cls, state: Mapping[str, PlainValue], prior: Prior | None, n_levels: int
    ) -> Gaussian:
        """The law that `state` describes; files of before the first release have no resolution."""
        law = cls.make(prior, n_levels)
        found = state.get("resolution", law.resolution)
        assert isinstance(found, float | int)
        return law.coarse(float(found))

    def coarse(self, resolution: float) -> Gaussian:
        """The same with that ``resolution``."""
        return replace(self, resolution=resolution)

    def statistics(self, values: Array) -> Array:
        """1, x and x^2."""
        return np.stack([np.ones_like(values), values, values * values])

    def constant(self, moments: Array, weight: Array) -> Array:
        """The mean."""
        return moments[1]

    @staticmethod
    def strength(prior: Prior) -> float:
        """Rows that the column's mean weighs."""
        return prior.entries

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """The column's mean with count ``strength``; precision with alpha/beta = 1/spread."""
        alpha = 0.5 * (strength + self.offset)
        count = np.full(moments.shape[1], strength)
        squares = strength * moments[1] ** 2 + 2.0 * alpha * self.spread
        return np.stack([count, strength * moments[1], squares])

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Some rows, with means and squares within reach."""
        count, some = chi[0], np.maximum(chi[0], max(least, np.finfo(float).tiny))
        proper = (count >= least) & (count <= most) & (np.abs(chi[1]) <= most * some)
        return bool(np.all(proper & (chi[2] >= 0.0) & (chi[2] <= most**2)))

    def _posterior(self, chi: Array) -> tuple[Array, Array, Array, Array]:
        kappa = chi[0]
        m = chi[1] / kappa
        # The prior alone gives this much; sums of single precision may cancel to less.
        beta = 0.5 * np.maximum(chi[2] - chi[1] * m, self.offset * self.spread)
        return kappa, m, 0.5 * (kappa + self.offset), beta + 0.5 * self.resolution * kappa

    def natural(self, chi: Array) -> Array:
        """E[log-normalizer and 2 pi], E[tau mu], -E[tau]/2."""
        kappa, m, alpha, beta = self._posterior(chi)
        tau = alpha / beta
        log_tau = special.digamma(alpha) - np.log(beta)
        constant = 0.5 * (log_tau - (m * m + self.resolution) * tau - 1.0 / kappa) - _HALF_LOG_2PI
        return np.stack([constant, m * tau, -0.5 * tau])

    def log_partition(self, chi: Array) -> Array:
        """Log normalizer of the Normal-Gamma, 2 pi of the entries taken out."""
        kappa, _, alpha, beta = self._posterior(chi)
        out = special.gammaln(alpha) - alpha * np.log(beta) - 0.5 * np.log(kappa)
        return out - kappa * _HALF_LOG_2PI

    def predictive(self, chi: Array) -> StudentT:
        """Student t with 2 alpha degrees of freedom."""
        kappa, m, alpha, beta = self._posterior(chi)
        return StudentT.of(m, np.sqrt(beta * (kappa + 1.0) / (alpha * kappa)), 2.0 * alpha)

    def _point(self, sums: Array) -> tuple[Array, Array]:
        """Mean and variance; a state without rows takes the column's, 0 and 1."""
        empty = sums[0] <= 0
        count = np.where(empty, 1.0, sums[0])
        mean = np.where(empty, 0.0, sums[1] / count)
        variance = np.where(empty, 1.0, sums[2] / count - mean * mean)
        return mean, np.maximum(variance, VARIANCE_FLOOR)

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at the mean and variance of the state."""
        mean, variance = self._point(sums)
        constant = -0.5 * (np.log(variance) + mean * mean / variance) - _HALF_LOG_2PI
        return np.stack([constant, mean / variance, -0.5 / variance])

    def point_predictive(self, sums: Array) -> StudentT:
        """Normal density at maximum likelihood."""
        mean, variance = self._point(sums)
        return StudentT.of(mean, np.sqrt(variance), np.full_like(mean, np.inf))

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """Means, precisions, and the Student t of a new entry."""
        assert isinstance(told, StudentT)
        half = 0.5 * natural[1] * told.mean  # mean of both laws
        return {
            "law": "numbers",
            "mean": told.mean,
            "precision": -2.0 * natural[2],
            "constant": natural[0] + half,
            "spread": told.scale,
            "df": told.df,
        }
