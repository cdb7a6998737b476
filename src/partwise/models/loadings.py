"""What the entries of one column say about its loadings, offset and noise in one part.

=======  ==========  ===============  ==============================================================
symbol   code        shape            meaning
=======  ==========  ===============  ==============================================================
w        mean, cov   (..., J + 1)     (Lambda_d, rho_d): loadings, then the offset
1/Psi    shape,rate  (...)            precision tau of the noise, Gamma
s~       -           (J + 1,)         (s, 1)
alpha    relevance   (2, J)           precision of a direction's loadings, Gamma (shape, rate)
=======  ==========  ===============  ==============================================================

Regression of x on s~ with w | tau ~ N(0, (tau A)^-1), A = diag(alpha, kappa), and tau ~ Gamma. The
sums are Sss = sum o <s~ s~'>, Ssx = sum o <s~> x, Sxx = sum o x^2 and n = sum o. ``cov`` is in
units of the noise variance. `PointLoadings` is maximum likelihood: no covariance, nothing to pay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.contracts import Array

# Shape and rate of the Gamma prior of relevances: broad, as in Bishop & Winn (2000).
RELEVANCE = 1e-3

# Shape of a Gamma posterior without width: its mean is the shape over the rate, both of which a
# double holds, and its divergences are never asked for.
SURE_SHAPE = 1e300

# Least noise variance at maximum likelihood, of the column's own, as for states.
VARIANCE_FLOOR = 1e-6


def gamma_divergence(posterior: Array, shape0: float | Array, rate0: float | Array) -> Array:
    """KL of Gamma posteriors, shape and rate on the first axis, from their prior."""
    shape, rate = posterior
    kl = (shape - shape0) * special.digamma(shape) - special.gammaln(shape)
    kl += special.gammaln(shape0) + shape0 * np.log(rate / rate0)
    return kl + shape * (rate0 / rate - 1.0)


@dataclass(frozen=True, eq=False)
class Loadings:
    """Posterior of some columns' parameters in one part."""

    mean: Array  # (D, J + 1)
    cov: Array  # (D, J + 1, J + 1)
    log_det: Array  # of cov, (D,); 0 without width
    shape: Array  # (D,)
    rate: Array  # (D,)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All fields, each with a first axis of columns."""
        return self.mean, self.cov, self.log_det, self.shape, self.rate

    def at(self, columns: Array) -> Loadings:
        """Those of some columns."""
        return Loadings(*(field[columns] for field in self.arrays))

    def put(self, columns: Array, new: Loadings) -> Loadings:
        """A copy with some columns replaced."""
        fields = [field.copy() for field in self.arrays]
        for field, value in zip(fields, new.arrays, strict=True):
            field[columns] = value
        return Loadings(*fields)

    @property
    def precision(self) -> Array:
        """E[tau], (D,)."""
        return self.shape / self.rate

    @property
    def outer(self) -> Array:
        """E[tau w w'], (D, J + 1, J + 1)."""
        square = self.mean[:, :, None] * self.mean[:, None, :]
        return self.precision[:, None, None] * square + self.cov

    @property
    def noise(self) -> Array:
        """Variance of the noise, E[1 / tau], (D,).

        It does not exist for a shape up to 1; below a shape of 2, twice the inverse of E[tau].
        """
        return self.rate / np.maximum(self.shape - 1.0, 0.5 * self.shape)

    @classmethod
    def sure(cls, mean: Array, variance: Array) -> Loadings:
        """Values without width: a shape without limit makes tau what it is."""
        D, p = mean.shape
        shape = np.full(D, SURE_SHAPE) / np.where(
            variance < 1e7, 1.0, variance
        )  # rate: no overflow
        return cls(mean, np.zeros((D, p, p)), np.zeros(D), shape, shape * variance)

    def moved(self, T: Array) -> Loadings:
        """The same with w replaced by T w."""
        wide = np.any(self.cov, axis=(1, 2))
        log_det = np.where(wide, self.log_det + 2.0 * np.linalg.slogdet(T)[1], 0.0)
        return Loadings(self.mean @ T.T, T @ self.cov @ T.T, log_det, self.shape, self.rate)


class RegressionSums(NamedTuple):
    """Sums of some columns over rows."""

    ss: Array  # (D, J + 1, J + 1)
    sx: Array  # (D, J + 1)
    xx: Array  # (D,)
    n: Array  # (D,)

    def scaled(self, share: Array) -> RegressionSums:
        """Sums times a number for each column, (D,)."""
        return RegressionSums(
            self.ss * share[:, None, None],
            self.sx * share[:, None],
            self.xx * share,
            self.n * share,
        )


@dataclass(frozen=True, eq=False)
class Relevant:
    """Normal-Gamma posteriors with a relevance for every direction.

    The offset has the precision ``kappa`` (in rows), the noise a guess of its variance, ``spread``,
    worth ``strength`` rows; of these two, columns may have one each (D,).
    """

    kappa: float
    spread: float | Array
    strength: float | Array

    def at(self, columns: Array) -> Relevant:
        """The prior of some columns."""
        if not isinstance(self.strength, np.ndarray):
            return self
        return Relevant(self.kappa, np.asarray(self.spread)[columns], self.strength[columns])

    def start(self, J: int) -> Array:
        """Relevances before anything is known: loadings of the noise's size, (2, J)."""
        return np.ones((2, J))

    def _prior(self, relevance: Array) -> tuple[Array, float | Array, float | Array]:
        a0 = 0.5 * self.strength
        return np.append(relevance[0] / relevance[1], self.kappa), a0, a0 * self.spread

    def posterior(self, sums: RegressionSums, relevance: Array) -> Loadings:
        """Posterior given the sums."""
        A, a0, b0 = self._prior(relevance)
        precision = sums.ss + np.diag(A)
        cov = np.linalg.inv(precision)
        log_det = -np.linalg.slogdet(precision)[1]
        cov = 0.5 * (cov + cov.transpose(0, 2, 1))
        mean = np.einsum("dij,dj->di", cov, sums.sx)
        left = sums.xx - np.einsum("di,di->d", mean, sums.sx)
        shape = a0 + 0.5 * sums.n
        # The prior alone gives b0; sums of single precision may cancel to less.
        return Loadings(mean, cov, log_det, shape, b0 + 0.5 * np.maximum(left, 0.0))

    def sums(self, loadings: Loadings, relevance: Array) -> RegressionSums:
        """Sums that give a posterior."""
        A, a0, b0 = self._prior(relevance)
        precision = np.linalg.inv(loadings.cov)
        sx = np.einsum("dij,dj->di", precision, loadings.mean)
        xx = 2.0 * (loadings.rate - b0) + np.einsum("di,di->d", loadings.mean, sx)
        return RegressionSums(precision - np.diag(A), sx, xx, 2.0 * (loadings.shape - a0))

    def log_precision(self, loadings: Loadings) -> Array:
        """E[log tau]."""
        return special.digamma(loadings.shape) - np.log(loadings.rate)

    def divergence(self, loadings: Loadings, relevance: Array) -> Array:
        """KL of the posterior from the prior, expected over the relevance; (D,)."""
        A, a0, b0 = self._prior(relevance)
        log_A = np.append(special.digamma(relevance[0]) - np.log(relevance[1]), np.log(self.kappa))
        a, b = loadings.shape, loadings.rate
        squares = self.squares(loadings)  # E[tau w_i^2]
        kl = 0.5 * (squares @ A - loadings.log_det - log_A.sum() - len(A))
        return kl + gamma_divergence(np.stack([a, b]), a0, b0)

    @staticmethod
    def squares(loadings: Loadings) -> Array:
        """E[tau w_i^2], (D, J + 1)."""
        variance = np.diagonal(loadings.cov, axis1=1, axis2=2)
        return loadings.precision[:, None] * loadings.mean**2 + variance

    def relevance(self, loadings: Loadings, stake: Array) -> Array:
        """Posterior of the directions' relevance, columns counted by ``stake`` (D,); (2, J)."""
        total = stake @ self.squares(loadings)[:, :-1]
        shape = np.full(len(total), RELEVANCE + 0.5 * stake.sum())
        return np.stack([shape, RELEVANCE + 0.5 * total])

    def relevance_cost(self, relevance: Array) -> float:
        """KL of the relevances' posterior from their prior."""
        return float(np.sum(gamma_divergence(relevance, RELEVANCE, RELEVANCE)))


@dataclass(frozen=True)
class PointLoadings:
    """Maximum likelihood: point values told as posteriors without width."""

    def at(self, columns: Array) -> PointLoadings:
        """The same for some columns."""
        return self

    def start(self, J: int) -> Array:
        """Nothing is learned about directions."""
        return np.ones((2, J))

    def posterior(self, sums: RegressionSums, relevance: Array) -> Loadings:
        """Least squares, directions that the rows do not identify left at zero."""
        mean = np.einsum("dij,dj->di", np.linalg.pinv(sums.ss, hermitian=True), sums.sx)
        count = np.where(sums.n > 0, sums.n, 1.0)
        left = sums.xx - 2.0 * np.einsum("di,di->d", mean, sums.sx)
        left += np.einsum("di,dij,dj->d", mean, sums.ss, mean)
        variance = np.where(sums.n > 0, left / count, 1.0)
        variance = np.maximum(variance, VARIANCE_FLOOR)
        return Loadings.sure(mean, variance)

    def sums(self, loadings: Loadings, relevance: Array) -> RegressionSums:
        """Never asked for: sure values do not say how many rows there were."""
        raise NotImplementedError("Loadings without width do not determine their sums.")

    def log_precision(self, loadings: Loadings) -> Array:
        """Log tau."""
        return np.log(loadings.precision)

    def divergence(self, loadings: Loadings, relevance: Array) -> Array:
        """Nothing."""
        return np.zeros(len(loadings.mean))

    def relevance(self, loadings: Loadings, stake: Array) -> Array:
        """Nothing is learned about directions."""
        return self.start(loadings.mean.shape[1] - 1)

    def relevance_cost(self, relevance: Array) -> float:
        """Nothing."""
        return 0.0
