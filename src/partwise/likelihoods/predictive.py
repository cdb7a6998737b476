"""Distributions of one entry, vectorised over states and columns.

Each class holds parameter arrays of any shape and answers for values that broadcast against them.
Values are in the model's own units (standardised numbers, level codes), and densities leave out the
base measure (units, log x!), which the data view holds.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from partwise.contracts import Array

_LOG_PI = float(np.log(np.pi))
_LOG_2PI = float(np.log(2 * np.pi))


class Predictive(Protocol):
    """One entry's distribution."""

    @property
    def mean(self) -> Array:
        """Expected value; for categories the code's expectation."""
        ...

    @property
    def variance(self) -> Array:
        """Variance of a new entry."""
        ...

    def log_density(self, x: Array) -> Array:
        """Log density or log probability at x."""
        ...

    def cdf(self, x: Array) -> Array:
        """P(X <= x)."""
        ...

    def quantile(self, p: float | Array) -> Array:
        """Smallest value whose distribution function reaches p."""
        ...

    def sample(self, rng: np.random.Generator) -> Array:
        """One draw for every entry."""
        ...

    def at(self, index: tuple[Array, ...]) -> "Predictive":
        """The same distribution at chosen entries."""
        ...


@dataclass(frozen=True)
class StudentT:
    """Location-scale Student t; ``df`` infinite is the normal distribution.

    ``constant`` is the log density at the mean, kept since it costs more than all the rest.
    """

    mean: Array
    scale: Array
    df: Array
    constant: Array

    @classmethod
    def of(cls, mean: Array, scale: Array, df: Array) -> "StudentT":
        """From location, scale and degrees of freedom."""
        if np.all(np.isinf(df)):
            return cls(mean, scale, df, -np.log(scale) - 0.5 * _LOG_2PI)
        half = 0.5 * df
        constant = special.gammaln(half + 0.5) - special.gammaln(half)
        return cls(mean, scale, df, constant - 0.5 * (_LOG_PI + np.log(df)) - np.log(scale))

    def at(self, index: tuple[Array, ...]) -> "StudentT":
        """Entries chosen by ``index``."""
        return StudentT(self.mean[index], self.scale[index], self.df[index], self.constant[index])

    @property
    def variance(self) -> Array:
        """Variance; where it is infinite (df <= 2) the squared scale of a df of 2.1."""
        df = np.maximum(self.df, 2.1)
        with np.errstate(invalid="ignore"):
            inflation = np.where(np.isinf(df), 1.0, df / (df - 2))
        return self.scale**2 * inflation

    def log_density(self, x: Array) -> Array:
        """Log density."""
        z = (x - self.mean) / self.scale
        if np.all(np.isinf(self.df)):
            return self.constant - 0.5 * z * z
        # As log1p but for an error of 1e-16 (df + 1) / 2; numpy has a vector loop for log alone.
        return self.constant - 0.5 * (self.df + 1.0) * np.log(1.0 + z * z / self.df)

    def quantile(self, p: float | Array) -> Array:
        """Value below which a share p lies."""
        if np.all(np.isinf(self.df)):
            return self.mean + self.scale * special.ndtri(p)
        return self.mean + self.scale * special.stdtrit(self.df, p)

    def cdf(self, x: Array) -> Array:
        """Distribution function."""
        z = (x - self.mean) / self.scale
        if np.all(np.isinf(self.df)):
            return special.ndtr(z)
        return special.stdtr(self.df, z)

    def sample(self, rng: np.random.Generator) -> Array:
        """One draw for every entry."""
        z = rng.standard_normal(self.mean.shape)
        finite = np.isfinite(self.df)
        if np.any(finite):
            df = np.where(finite, self.df, 1.0)
            ratio = rng.chisquare(np.broadcast_to(df, z.shape)) / df
            z = np.where(finite, z / np.sqrt(ratio), z)
        return self.mean + self.scale * z


@dataclass(frozen=True)
class NegativeBinomial:
    """Poisson with rate Gamma(shape, rate); ``rate`` infinite is Poisson with mean ``shape``."""

    shape: Array
    rate: Array

    def at(self, index: tuple[Array, ...]) -> "NegativeBinomial":
        """Entries chosen by ``index``."""
        return NegativeBinomial(self.shape[index], self.rate[index])

    @property
    def mean(self) -> Array:
        """Expected count."""
        return np.where(np.isinf(self.rate), self.shape, self.shape / self.rate)

    @property
    def variance(self) -> Array:
        """Variance of the count."""
        return self.mean * np.where(np.isinf(self.rate), 1.0, 1.0 + 1.0 / self.rate)

    def log_density(self, x: Array) -> Array:
        """Log probability of a count, log x! left out."""
        if np.all(np.isinf(self.rate)):
            return special.xlogy(x, self.shape) - self.shape
        r, rate = self.shape, self.rate
        out = special.gammaln(x + r) - special.gammaln(r)
        return out - r * np.log1p(1.0 / rate) - x * np.log1p(rate)

    def quantile(self, p: float | Array) -> Array:
        """Smallest count whose distribution function reaches p."""
        # Normal guess, then doubled or halved until it brackets, then bisected.
        low = np.full(np.shape(self.mean), -1.0)
        high = np.ceil(self.mean + 4.0 * np.sqrt(self.variance) + 4.0)
        while np.any(short := self.cdf(high) < p):
            high = np.where(short, 2.0 * high, high)
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            short = self.cdf(middle) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return high

    def cdf(self, x: Array) -> Array:
        """P(X <= x)."""
        floor = np.floor(x)
        safe = np.maximum(floor, 0.0)
        if np.all(np.isinf(self.rate)):
            inside = special.pdtr(safe, self.shape)
        else:
            inside = special.betainc(self.shape, safe + 1.0, self.rate / (1.0 + self.rate))
        return np.where(floor < 0, 0.0, inside)

    def sample(self, rng: np.random.Generator) -> Array:
        """One draw for every entry."""
        finite = np.isfinite(self.rate)
        spread = rng.standard_gamma(self.shape) / np.where(finite, self.rate, 1.0)
        return rng.poisson(np.where(finite, spread, self.shape)).astype(float)


@dataclass(frozen=True)
class Levels:
    """Categorical over codes 0..V-1; ``probability`` has the level on its first axis."""

    probability: Array

    def at(self, index: tuple[Array, ...]) -> "Levels":
        """Entries chosen by ``index``."""
        return Levels(np.stack([p[index] for p in self.probability]))

    def _codes(self) -> Array:
        v = np.arange(len(self.probability), dtype=float)
        return v.reshape(-1, *[1] * (self.probability.ndim - 1))

    @property
    def mean(self) -> Array:
        """Expected code."""
        return np.sum(self._codes() * self.probability, axis=0)

    @property
    def variance(self) -> Array:
        """Variance of the code."""
        return np.sum(self._codes() ** 2 * self.probability, axis=0) - self.mean**2

    def log_density(self, x: Array) -> Array:
        """Log probability of a code."""
        code, *_ = np.broadcast_arrays(x, self.probability[0])
        p = np.broadcast_to(self.probability, (len(self.probability), *code.shape))
        return np.log(np.take_along_axis(p, code[None].astype(np.int64), axis=0)[0])

    def cdf(self, x: Array) -> Array:
        """P(code <= x)."""
        total = np.zeros(np.broadcast_shapes(np.shape(x), self.probability.shape[1:]))
        for v, p in enumerate(self.probability):
            total += np.where(x >= v, p, 0.0)
        return total

    def quantile(self, p: float | Array) -> Array:
        """Smallest code whose distribution function reaches p."""
        short = np.cumsum(self.probability, axis=0) < p * (1 - 1e-12)
        return np.minimum(short.sum(axis=0), len(self.probability) - 1).astype(float)

    def sample(self, rng: np.random.Generator) -> Array:
        """One code for every entry."""
        u = rng.random(self.probability.shape[1:])
        above = np.cumsum(self.probability, axis=0) < u
        return np.minimum(above.sum(axis=0), len(self.probability) - 1).astype(float)
