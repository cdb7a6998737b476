"""Predictive distributions of cells of tables whose columns have latent Gaussian numbers.

All is in the units of encoded rows: numbers (logarithms in columns of that kind), codes of levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data.latent_columns import CopulaColumns
from partwise.data.marginals import Marginal
from partwise.likelihoods.copula import largest_shares
from partwise.models import levels

# Expectations of functions of a Gaussian: a rule exact for polynomials of degree 17.
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

LEAST_SHARE = 1e-300


class CellPredictive(Protocol):
    """Predictive distribution of m cells of one column."""

    @property
    def rows(self) -> Array:
        """Rows of the cells, (m,)."""
        ...

    @property
    def n_levels(self) -> int:
        """Levels of the column, 0 of numbers."""
        ...

    def mean(self) -> Array:
        """Expectation, (m,); of logarithms the logarithm of the user's expected value."""
        ...

    def likely(self) -> Array:
        """Imputed values: the expectation, the median of ordered levels, or the likeliest level."""
        ...

    def quantile(self, p: float | Array) -> Array:
        """Quantile, (m,); NaN of categories, which have no order."""
        ...

    def probabilities(self) -> Array:
        """Probability of every level, (m, V)."""
        ...

    def below(self, x: Array | float) -> Array:
        """P(X <= x), (m,)."""
        ...

    def log_density(self, x: Array) -> Array:
        """Log density, or log probability of a level, (m,)."""
        ...

    def draw(self, rng: np.random.Generator) -> Array:
        """A sample of every cell, (m,)."""
        ...

    def some(self, which: Array) -> CellPredictive:
        """Some of the cells."""
        ...


@dataclass(frozen=True, eq=False)
class NumberCells:
    """Numbers: a Gaussian through the column's monotone map."""

    rows: Array
    z_mean: Array
    z_variance: Array
    marginal: Marginal
    logs: bool = False
    n_levels: int = 0

    def some(self, which: Array) -> NumberCells:
        """Some of the cells."""
        z = self.z_mean[which], self.z_variance[which]
        return NumberCells(self.rows[which], *z, self.marginal, self.logs)

    @property
    def _deviation(self) -> Array:
        return np.sqrt(self.z_variance)

    def mean(self) -> Array:
        """Expectation, (m,); of logarithms the logarithm of the user's expected value."""
        z = self.z_mean[:, None] + self._deviation[:, None] * NODES
        x = self.marginal.from_z(z)
        return special.logsumexp(x, axis=1, b=WEIGHTS) if self.logs else x @ WEIGHTS

    def likely(self) -> Array:
        """The expectation."""
        return self.mean()

    def quantile(self, p: float | Array) -> Array:
        """Quantile, (m,)."""
        return self.marginal.from_z(self.z_mean + self._deviation * special.ndtri(p))

    def probabilities(self) -> Array:
        """Numbers have no levels."""
        raise ValueError("Numbers have no levels.")

    def below(self, x: Array | float) -> Array:
        """P(X <= x), (m,)."""
        z = self.marginal.to_z(np.asarray(x, dtype=float))
        return special.ndtr((z - self.z_mean) / self._deviation)

    def log_density(self, x: Array) -> Array:
        """Log density, (m,)."""
        z = self.marginal.to_z(np.asarray(x, dtype=float))
        away = (z - self.z_mean) / self._deviation
        log_slope = self.marginal.log_slope(z)
        return -0.5 * (away**2 + np.log(2.0 * np.pi * self.z_variance)) - log_slope

    def draw(self, rng: np.random.Generator) -> Array:
        """A sample of every cell, (m,)."""
        z = self.z_mean + self._deviation * rng.standard_normal(len(self.rows))
        return self.marginal.from_z(z)


@dataclass(frozen=True, eq=False)
class LevelCells:
    """Levels with their probabilities, (m, V)."""

    rows: Array
    shares: Array
    ordered: bool

    def some(self, which: Array) -> LevelCells:
        """Some of the cells."""
        return LevelCells(self.rows[which], self.shares[which], self.ordered)

    @property
    def n_levels(self) -> int:
        """V."""
        return self.shares.shape[1]

    def mean(self) -> Array:
        """Expected code, (m,)."""
        return self.shares @ np.arange(self.n_levels)

    def likely(self) -> Array:
        """The median of ordered levels, the likeliest of others, (m,)."""
        return self.quantile(0.5) if self.ordered else self.shares.argmax(axis=1).astype(float)

    def quantile(self, p: float | Array) -> Array:
        """Code of the quantile, (m,); NaN of categories, which have no order."""
        if not self.ordered:
            return np.full(len(self.rows), np.nan)
        return levels.quantile(self.shares, np.arange(float(self.n_levels)), float(p))

    def probabilities(self) -> Array:
        """Probability of every level, (m, V)."""
        return self.shares

    def below(self, x: Array | float) -> Array:
        """P(X <= x), (m,)."""
        reached = np.arange(self.n_levels) <= np.reshape(x, (-1, 1))
        return (self.shares * reached).sum(axis=1)

    def log_density(self, x: Array) -> Array:
        """Log probability of a level, (m,)."""
        code = np.broadcast_to(np.asarray(x, dtype=np.int64), len(self.rows))
        return np.log(np.maximum(self.shares[np.arange(len(self.rows)), code], LEAST_SHARE))

    def draw(self, rng: np.random.Generator) -> Array:
        """A sample of every cell, (m,)."""
        above = np.cumsum(self.shares, axis=1)
        u = rng.random((len(self.rows), 1)) * above[:, -1:]
        return np.minimum((above <= u).sum(axis=1), self.n_levels - 1).astype(float)


def cells_of(
    group: CopulaColumns, d: int, rows: Array, mean: Array, variance: Array
) -> CellPredictive:
    """The distribution of cells of the column whose first latent number is d.

    ``mean`` and ``variance`` (m, V) are those of its V latent numbers.
    """
    if d in group.marginals:
        z = mean[:, 0], variance[:, 0]
        return NumberCells(rows, *z, group.marginals[d], bool(group.logs[d]))
    V = int(group.n_levels[d])
    if group.widths[d] == 1:
        ends = group.edges[d, 1:V]
        below = special.ndtr((ends - mean) / np.sqrt(variance))
        return LevelCells(rows, np.diff(below, axis=1, prepend=0.0, append=1.0), True)
    starts = group.edges[d : d + V, 0]
    return LevelCells(rows, largest_shares(mean + starts, variance), False)
