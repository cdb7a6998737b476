"""Counts with more zeros than a Poisson has: the hurdle form of the zero-inflated Poisson.

=========  ================  ====================================================
symbol     code              meaning
=========  ================  ====================================================
pi                           probability of a count above zero
lambda     e^u               rate of the Poisson whose zeros are left out
T(x)       1, 1[x > 0], x    sufficient statistics
c, s       chi[1], chi[2]    entries above zero, and their sum
=========  ================  ====================================================

A zero-inflated Poisson is zero with probability p, else Poisson, whose zeros look the same as
the others: it is no exponential family. The same distributions are written as a hurdle (Mullahy
1986): zero with probability 1 - pi, else a Poisson without its zeros,

    log p(x) = log(1 - pi) + 1[x > 0] (log pi - log(1 - pi) - log(e^lambda - 1)) + x log(lambda)
               - log x!,

with pi = (1 - p) (1 - e^-lambda). It is an exponential family, holds the Poisson and every
zero-inflated Poisson, and also counts with *fewer* zeros. pi and lambda are independent under the
conjugate density: pi is Beta(c, chi[0] - c), and with the measure d lambda

    Z(c, s) = integral of lambda^s (e^lambda - 1)^-c d lambda
            = integral of exp((s + 1) u - c L(u)) du,    u = log lambda,  L(u) = log(e^(e^u) - 1).

The integrand is log-concave in u (L is a cumulant function) and falls off at least as e^u on the
left and doubly exponentially on the right. The trapezoid rule between the points where it has
fallen by e^-34 is exact to about 1e-12, since it is exponential for analytic functions. The same
nodes give E[log lambda] and E[L], and so E[eta] = grad log Z.

J. Mullahy, Specification and testing of some modified count data models, Journal of Econometrics
33, 1986.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Family
from partwise.likelihoods.counts import CountTable, wrong_counts

# Points of the trapezoid rule, and how far the logarithm of the integrand falls at its ends.
NODES = 72
DEPTH = 34.0

# Keep logarithms finite at maximum likelihood.
SHARE_FLOOR = 1e-10
RATE_FLOOR = 1e-6


def _log_expm1(rate: Array) -> Array:
    """log(e^lambda - 1)."""
    return rate + np.log(-np.expm1(-rate))


def _positive_mean(rate: Array) -> Array:
    """Mean of a Poisson without zeros."""
    return rate / -np.expm1(-rate)


def _rate_of(mean: Array) -> Array:
    """Rate of a Poisson without zeros that has this mean, above 1."""
    # Newton's steps for log lambda; the mean lies between lambda and 1 + lambda.
    u = np.log(np.maximum(mean - 1.0, 0.5 * mean * np.minimum(mean - 1.0, 1.0)))
    u = np.maximum(u, np.log(RATE_FLOOR))
    for _ in range(40):
        rate = np.exp(u)
        reached = _positive_mean(rate)
        slope = reached * (1.0 + rate - reached)  # d mean / d log lambda
        u = np.maximum(u - np.clip((reached - mean) / np.maximum(slope, 1e-300), -2.0, 2.0), -40.0)
    return np.exp(u)


@dataclass(frozen=True)
class _Nodes:
    """The density of log lambda at the points of the trapezoid rule, (NODES, ...)."""

    u: Array
    share: Array  # of each point; they sum to one
    log_z: Array  # (...)

    @classmethod
    def of(cls, c: Array, s: Array) -> _Nodes:
        """The conjugate density with c entries above zero and their sum s."""

        def log_f(u: Array) -> Array:
            return (s + 1.0) * u - c * _log_expm1(np.exp(u))

        mode = np.log(_rate_of((s + 1.0) / c))
        aim = log_f(mode) - DEPTH
        ends = []
        for sign in (-1.0, 1.0):
            near, far = mode, mode + sign
            # Log-concave: once below the aim it stays there. Doubled until it is, then bisected.
            while np.any(short := log_f(far) > aim):
                far = np.where(short, mode + 2.0 * (far - mode), far)
            for _ in range(12):
                middle = 0.5 * (near + far)
                below = log_f(middle) < aim
                near, far = np.where(below, near, middle), np.where(below, middle, far)
            ends.append(far)
        width = (ends[1] - ends[0]) / (NODES - 1)
        u = ends[0] + np.arange(NODES).reshape(-1, *[1] * np.ndim(c)) * width
        logs = log_f(u)
        log_sum = special.logsumexp(logs, axis=0)
        return cls(u, np.exp(logs - log_sum), log_sum + np.log(width))

    def expect(self, values: Array) -> Array:
        """Expectation of what has these values at the points."""
        return np.sum(self.share * values, axis=0)


@dataclass(frozen=True)
class ZeroInflated(Family):
    """Zero or not, and a Poisson without zeros; log x! is the base measure."""

    name: ClassVar[str] = "zero_inflated"
    counts: ClassVar[bool] = True
    shares_or_means: ClassVar[bool] = True
    absent_zero: ClassVar[bool] = True

    @property
    def n_statistics(self) -> int:
        """Three: 1, 1[x > 0], x."""
        return 3

    @classmethod
    def check(cls, values: Array) -> str | None:
        """Entries are counts."""
        return wrong_counts(cls.name, values)

    def start_scores(self, values: Array, levels: Array | None) -> Array:
        """Zero or not, and how many if not."""
        some = values > 0
        usual = values[some].mean() if some.any() else 0.0
        return np.stack([some, np.where(some, values, usual)], axis=1)

    def statistics(self, values: Array) -> Array:
        """1, 1[x > 0] and x."""
        return np.stack([np.ones_like(values), (values > 0).astype(values.dtype), values])

    def base(self, values: Array) -> Array:
        """-log x!."""
        return -special.gammaln(values + 1.0)

    def smoothed(self, sums: Array) -> Array:
        """With one entry that is half a zero and half a one."""
        return (sums + np.array([1.0, 0.5, 0.5])[:, None]) / (sums[0] + 1.0)

    def constant(self, moments: Array, weight: Array) -> Array:
        """The count of columns that never change."""
        total = moments[2] * (weight + 1.0) - 0.5
        return np.rint(total / np.maximum(weight, np.finfo(float).tiny))

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """The column's share and mean of counts above zero, worth ``strength`` rows."""
        return strength * np.stack([np.ones(moments.shape[1]), moments[1], moments[2]])

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Zeros and others, under a prior some of each; a count above zero is at least one."""
        zeros = chi[0] - chi[1]
        proper = (chi[1] >= least) & (zeros > 0 if least else zeros >= 0) & (chi[0] <= most)
        return bool(np.all(proper & (chi[2] >= chi[1] * (1.0 - 1e-6)) & (chi[2] <= most)))

    def natural(self, chi: Array) -> Array:
        """E[log(1 - pi)], E[log pi - log(1 - pi)] - E[log(e^lambda - 1)] and E[log lambda]."""
        total = special.digamma(chi[0])
        none = special.digamma(chi[0] - chi[1]) - total
        nodes = _Nodes.of(chi[1], chi[2])
        some = special.digamma(chi[1]) - total - none
        some = some - nodes.expect(_log_expm1(np.exp(nodes.u)))
        return np.stack([none, some, nodes.expect(nodes.u)])

    def log_partition(self, chi: Array) -> Array:
        """Log of the Beta function and of the integral over lambda."""
        return special.betaln(chi[1], chi[0] - chi[1]) + _Nodes.of(chi[1], chi[2]).log_z

    def predictive(self, chi: Array) -> CountTable:
        """The parameters integrated out."""
        nodes, share = _Nodes.of(chi[1], chi[2]), chi[1] / chi[0]
        rate = np.exp(nodes.u)
        mean = share * nodes.expect(_positive_mean(rate))
        square = share * nodes.expect(_positive_mean(rate) * (1.0 + rate))

        def log_mass(x: Array, given: tuple[Array, ...]) -> Array:
            share, c, s, log_z = given
            out = np.log1p(-share)
            some = x > 0
            grown = _Nodes.of(c[some] + 1.0, s[some] + x[some]).log_z
            out[some] = np.log(share[some]) + grown - log_z[some]
            return out

        given = (share, chi[1], chi[2], nodes.log_z)
        return CountTable.of(mean, square - mean**2, log_mass, given, self.base)

    def _point(self, sums: Array) -> tuple[Array, Array]:
        """Share of counts above zero, and rate, of maximum likelihood; empty states have both."""
        empty, none = sums[0] <= 0, sums[1] <= 0
        share = np.where(empty, 0.5, sums[1] / np.where(empty, 1.0, sums[0]))
        mean = np.where(none, 1.0, sums[2] / np.where(none, 1.0, sums[1]))
        rate = np.maximum(_rate_of(np.maximum(mean, 1.0 + 0.5 * RATE_FLOOR)), RATE_FLOOR)
        return np.clip(share, SHARE_FLOOR, 1.0 - SHARE_FLOOR), rate

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at the state's share and rate."""
        share, rate = self._point(sums)
        none = np.log1p(-share)
        return np.stack([none, np.log(share) - none - _log_expm1(rate), np.log(rate)])

    def point_predictive(self, sums: Array) -> CountTable:
        """The hurdle at the state's share and rate."""
        share, rate = self._point(sums)
        mean = share * _positive_mean(rate)
        eta = self.point_natural(sums)

        def log_mass(x: Array, given: tuple[Array, ...]) -> Array:
            (eta,) = given
            return np.sum(eta * self.statistics(x), axis=0)

        return CountTable.of(mean, mean * (1.0 + rate) - mean**2, log_mass, (eta,), self.base)
