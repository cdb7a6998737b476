"""Overdispersed counts: the negative binomial, its dispersion learned on a grid.

=========  ==========================  ====================================================
symbol     code                        meaning
=========  ==========================  ====================================================
r_g        SHAPES[g]                   dispersion (number of failures): variance = mean + mean^2 / r
q                                      probability of one more count; the mean is r q / (1 - q)
T(x)       1, x, log C(x + r_g - 1, x)  sufficient statistics, one of the last kind per grid point
a, b_g     chi[1], r_g chi[0] + 1      Beta posterior of q given r_g
w_g        _weights(chi)[g]            posterior probability of r_g
=========  ==========================  ====================================================

For a fixed r the negative binomial is an exponential family,

    log p(x | q, r) = log C(x + r - 1, x) + r log(1 - q) + x log q,

and with an unknown r it is none. But with r on a grid r_1 .. r_G the pair theta = (q, g) is a
parameter like any other: log p(x | theta) = T(x) . eta(theta), with

    eta(theta) = (r_g log(1 - q), log q, 1[g = 1], ..., 1[g = G]).

The binomial coefficient has moved from the base measure into T(x). So the conjugate density
exp(chi . eta(theta)) has everything in closed form. With the measure dq / q on q (which gives the
Beta its +1 in b, so that the mean of a new entry is chi[1] / chi[0] whatever r is),

    Z(chi) = sum_g exp(chi[1 + g]) B(a, b_g),

w_g is the share of its g-th term, and E[eta] = grad log Z(chi):

    E[eta_0] = sum_g w_g r_g (psi(b_g) - psi(a + b_g)),
    E[eta_1] = sum_g w_g (psi(a) - psi(a + b_g)),      E[eta_(1+g)] = w_g.

Nothing is approximated but r itself: neighbors on the grid are a factor of two apart, which costs
at most a few hundredths of a nat per entry. Every state of every column has a dispersion of its
own. The prior pseudo-sums are those of ``strength`` rows at the column's mean, and of the
coefficients what makes every r_g equally probable.

The predictive distribution is Z(chi + T(x)) / Z(chi), a mixture of beta negative binomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Family
from partwise.likelihoods.counts import CountTable, wrong_counts

# The grid of r: from far more spread than an exponential to almost Poisson.
SHAPES = 2.0 ** np.arange(-2, 9)

# Keeps log q finite at maximum likelihood when a state has only zeros.
RATE_FLOOR = 1e-10


def _on_grid(values: Array) -> Array:
    """r_g with as many axes behind it as values have, (G, 1, ...)."""
    return SHAPES.reshape(-1, *[1] * np.ndim(values))


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Counts whose variance is larger than their mean, by a factor that every state learns."""

    name: ClassVar[str] = "negative_binomial"
    counts: ClassVar[bool] = True
    absent_zero: ClassVar[bool] = True

    @property
    def n_statistics(self) -> int:
        """1, x, and one per point of the grid."""
        return 2 + len(SHAPES)

    @property
    def n_parameters(self) -> int:
        """Mean and dispersion."""
        return 2

    @classmethod
    def check(cls, values: Array) -> str | None:
        """Entries are counts."""
        return wrong_counts(cls.name, values)

    def statistics(self, values: Array) -> Array:
        """1, x and log C(x + r_g - 1, x)."""
        x, r = np.asarray(values, dtype=float), _on_grid(values)
        coefficient = special.gammaln(x + r) - special.gammaln(r) - special.gammaln(x + 1.0)
        return np.concatenate([np.ones((1, *x.shape)), x[None], coefficient])

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """The column's mean worth ``strength`` rows; every r_g equally probable."""
        count, total = np.full(moments.shape[1], strength), strength * moments[1]
        return np.concatenate(
            [count[None], total[None], -special.betaln(total, _on_grid(count) * count + 1.0)]
        )

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Some rows, and under a prior some counts."""
        return bool(np.all((chi[:2] >= least) & (np.abs(chi[:2]) <= most))) and bool(
            np.all(np.isfinite(chi))
        )

    def _terms(self, chi: Array) -> tuple[Array, Array, Array]:
        """a, b_g (G, ...), and the logarithms of the terms of Z, (G, ...)."""
        a, b = chi[1], _on_grid(chi[0]) * chi[0] + 1.0
        return a, b, chi[2:] + special.betaln(a, b)

    def _weights(self, chi: Array) -> Array:
        """Posterior probability of each r_g, (G, ...)."""
        return special.softmax(self._terms(chi)[2], axis=0)

    def natural(self, chi: Array) -> Array:
        """E[r log(1 - q)], E[log q] and the probabilities of r_g."""
        a, b, terms = self._terms(chi)
        w, total = special.softmax(terms, axis=0), special.digamma(a + b)
        none = np.sum(w * _on_grid(a) * (special.digamma(b) - total), axis=0)
        more = special.digamma(a) - np.sum(w * total, axis=0)
        return np.concatenate([none[None], more[None], w])

    def log_partition(self, chi: Array) -> Array:
        """Log of the sum over the grid."""
        return special.logsumexp(self._terms(chi)[2], axis=0)

    def predictive(self, chi: Array) -> CountTable:
        """The parameters integrated out."""
        a, b, terms = self._terms(chi)
        r, w = _on_grid(a), special.softmax(terms, axis=0)
        odds = a / (b - 1.0)  # E[q / (1 - q)], so that r odds is chi[1] / chi[0]
        # Where the variance is infinite (b <= 2) that of a slightly larger b.
        squared = odds * (a + 1.0) / np.maximum(b - 2.0, 0.1)
        spread = r * (odds + squared) + r**2 * np.maximum(squared - odds**2, 0.0)
        log_z = self.log_partition(chi)

        def log_mass(x: Array, given: tuple[Array, ...]) -> Array:
            chi, log_z = given
            return self.log_partition(chi + self.statistics(x)) - log_z

        return CountTable.of(chi[1] / chi[0], np.sum(w * spread, axis=0), log_mass, (chi, log_z))

    def _point(self, sums: Array) -> tuple[Array, Array]:
        """Mean, and the place on the grid, of maximum likelihood; empty states count one."""
        empty = sums[0] <= 0
        mean = np.where(empty, 1.0, sums[1] / np.where(empty, 1.0, sums[0]))
        mean = np.maximum(mean, RATE_FLOOR)
        r = _on_grid(mean)
        fit = (
            sums[2:]
            - sums[0] * r * np.log1p(mean / r)
            + sums[1] * (np.log(mean) - np.log(mean + r))
        )
        return mean, fit.argmax(axis=0)

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters at the mean and the best dispersion."""
        mean, best = self._point(sums)
        r = SHAPES[best]
        chosen = np.arange(len(SHAPES)).reshape(-1, *[1] * best.ndim) == best
        pair = np.stack([-r * np.log1p(mean / r), np.log(mean) - np.log(mean + r)])
        return np.concatenate([pair, chosen.astype(float)])

    def point_predictive(self, sums: Array) -> CountTable:
        """Negative binomial at maximum likelihood."""
        mean, best = self._point(sums)
        eta = self.point_natural(sums)

        def log_mass(x: Array, given: tuple[Array, ...]) -> Array:
            (eta,) = given
            return np.sum(eta * self.statistics(x), axis=0)

        return CountTable.of(mean, mean + mean**2 / SHAPES[best], log_mass, (eta,))
