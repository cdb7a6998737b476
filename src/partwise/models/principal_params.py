"""Parameters, sums and priors of Bayesian PCA; symbols as in `partwise.models.bayesian_pca`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import ClassVar

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.models.loadings import SURE_SHAPE, gamma_divergence

# Least noise variance at maximum likelihood, of the columns' mean variance: without it, as many
# directions as rows would have density without limit.
LEAST_NOISE = 1e-6


@dataclass(frozen=True, eq=False)
class BayesianPCAParams:
    """Posterior of all that rows share."""

    mean: Array  # (M, D, p)
    cov: Array  # (M, D or 1, p, p)
    log_det: Array  # of cov, (M, D or 1); 0 without width
    leverage: Array  # times which a covariance for all columns is that of each, (D,)
    tau: Array  # (2,)
    alpha: Array  # (2, q), or (2, M, q) where every component has its own
    counts: Array  # (M,)

    @property
    def params(self) -> BayesianPCAParams:
        """Blocks take them as they are."""
        return self

    @property
    def n_directions(self) -> int:
        """q."""
        return self.mean.shape[2] - 1

    @property
    def precision(self) -> float:
        """E[tau]."""
        return float(self.tau[0] / self.tau[1])

    @property
    def squares(self) -> Array:
        """E|w_mi|^2 of every component and direction, (M, q)."""
        return ((self.mean**2).sum(axis=1) + np.diagonal(self.spread, axis1=1, axis2=2))[:, :-1]

    @property
    def spread(self) -> Array:
        """Covariance of (W, mu) summed over columns, (M, p, p)."""
        if self.cov.shape[1] == 1:
            return self.leverage.sum() * self.cov[:, 0]
        return self.cov.sum(axis=1)

    def of_columns(self, U: Array) -> BayesianPCAParams:
        """The same told of the columns that an orthonormal frame U (D, D') stands for."""
        return replace(self, mean=U @ self.mean, leverage=(U**2).sum(axis=1))

    def take(self, components: Sequence[int] | Array) -> BayesianPCAParams:
        """The same with some components, in this order."""
        alpha = self.alpha if self.alpha.ndim == 2 else self.alpha[:, components]
        return replace(self, mean=self.mean[components], cov=self.cov[components],
            log_det=self.log_det[components], counts=self.counts[components], alpha=alpha,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BayesianPCASums:
    """Sums over rows; they start at zero and add, and hold no prior."""

    bound: float  # log normalizers of the rows, less what only the noise decides
    moments: Array  # <x~ x~'> of each component's rows, (M, p, p)
    second: Array  # the same by column, of rows that show it, (M, D or 1, p, p)
    first: Array  # <x~> t, (M, D, p)

    def __add__(self, other: BayesianPCASums) -> BayesianPCASums:
        return BayesianPCASums(
            self.bound + other.bound,
            self.moments + other.moments,
            self.second + other.second,
            self.first + other.first,
        )

    def scaled(self, factor: float) -> BayesianPCASums:
        """All sums times a number."""
        return BayesianPCASums(
            self.bound * factor, self.moments * factor, self.second * factor, self.first * factor
        )

    @staticmethod
    def total(results: Iterable[BayesianPCASums]) -> BayesianPCASums:
        """Sum of all, in their order."""
        return reduce(add, results)

    @property
    def counts(self) -> Array:
        """Expected rows of each component, (M,)."""
        return self.moments[:, -1, -1]


@dataclass(frozen=True)
class Broad:
    """The paper's priors: Gammas of this shape and rate, and mu ~ N(0, 1/strength).

    Without ``relevance`` the directions have mu's prior instead of relevances of their own. With
    ``by_component`` a direction's relevance is its component's own, as (25) and (35) of the paper
    print it, instead of one that all components share.
    """

    strength: float = 1e-3
    relevance: bool = True
    by_component: bool = False

    def loadings(
        self, second: Array, first: Array, params: BayesianPCAParams
    ) -> tuple[Array, Array, Array]:
        """Mean (M, D, p), covariance and its log determinant, given the sums."""
        tau = params.precision
        A = self._precisions(params)[0][:, None, :, None] * np.eye(params.mean.shape[2])
        cov = np.linalg.inv(A + tau * second)
        cov = 0.5 * (cov + np.swapaxes(cov, 2, 3))
        return tau * _by_column(first, cov), cov, np.linalg.slogdet(cov)[1]

    def _precisions(self, params: BayesianPCAParams) -> tuple[Array, Array]:
        """Expected precision of w~'s prior, and its expected logarithm, each (M or 1, p)."""
        if not self.relevance:
            A = np.full((1, params.n_directions + 1), self.strength)
            return A, np.log(A)
        a, b = params.alpha.reshape(2, -1, params.n_directions)
        mu = np.full((len(a), 1), self.strength)
        return np.hstack([a / b, mu]), np.hstack([special.digamma(a) - np.log(b), np.log(mu)])

    def cost_of_mean(self, precision: float) -> float:
        """What a column's mean costs that rows of this summed precision tell, being 0."""
        return float(0.5 * np.log1p(precision / self.strength))

    def noise(self, n: float, error: float) -> Array:
        """Posterior of tau from the number of entries and their expected squared error."""
        return np.array([self.strength + 0.5 * n, self.strength + 0.5 * max(error, 0.0)])

    def log_tau(self, tau: Array) -> float:
        """E[log tau]."""
        return float(special.digamma(tau[0]) - np.log(tau[1]))

    def relevances(self, params: BayesianPCAParams) -> Array:
        """Posterior of alpha, (2, q) or (2, M, q)."""
        M, D, _ = params.mean.shape
        squares = params.squares if self.by_component else params.squares.sum(axis=0)
        loadings = D if self.by_component else M * D
        rate = self.strength + 0.5 * squares
        return np.stack([np.full(rate.shape, self.strength + 0.5 * loadings), rate])

    def cost(self, params: BayesianPCAParams) -> float:
        """KL of the posterior of W, mu, alpha and tau from their prior."""
        A, log_A = self._precisions(params)
        D = params.mean.shape[1]
        times = D / params.cov.shape[1]
        center = (params.mean[:, :, -1] ** 2).sum(axis=1) + params.spread[:, -1, -1]
        squares = np.column_stack([params.squares, center])
        log_A = np.broadcast_to(log_A, squares.shape)
        kl = 0.5 * ((squares * A).sum() - times * params.log_det.sum() - D * (log_A + 1.0).sum())
        s = self.strength
        kl += float(gamma_divergence(params.tau, s, s))
        if self.relevance:
            kl += gamma_divergence(params.alpha, s, s).sum()
        return float(kl)


@dataclass(frozen=True)
class PointValues:
    """Maximum likelihood: point values told as posteriors without width, nothing to pay."""

    relevance: ClassVar[bool] = False
    by_component: ClassVar[bool] = False

    def loadings(
        self, second: Array, first: Array, params: BayesianPCAParams
    ) -> tuple[Array, Array, Array]:
        """Least squares, directions that the rows do not identify left at zero."""
        inverse = np.linalg.pinv(second, hermitian=True)
        mean = _by_column(first, inverse)
        return mean, np.zeros((len(mean), 1, *second.shape[2:])), np.zeros((len(mean), 1))

    def cost_of_mean(self, precision: float) -> float:
        """Nothing."""
        return 0.0

    def noise(self, n: float, error: float) -> Array:
        """The mean squared error: a shape without limit makes tau what it is."""
        return sure_noise(error / n)

    def log_tau(self, tau: Array) -> float:
        """Log tau."""
        return float(np.log(tau[0] / tau[1]))

    def relevances(self, params: BayesianPCAParams) -> Array:
        """Nothing is learned about directions."""
        return params.alpha

    def cost(self, params: BayesianPCAParams) -> float:
        """Nothing."""
        return 0.0


def sure_noise(noise: float) -> Array:
    """Posterior of tau without width, from a variance."""
    return np.array([SURE_SHAPE, SURE_SHAPE * max(noise, LEAST_NOISE)])


def _by_column(vectors: Array, matrices: Array) -> Array:
    """Vectors (M, D, p) times matrices (M, D, p, p), or (M, 1, p, p) for all columns."""
    if matrices.shape[1] == 1:
        return vectors @ matrices[:, 0]
    return (vectors[:, :, None, :] @ matrices)[:, :, 0]
