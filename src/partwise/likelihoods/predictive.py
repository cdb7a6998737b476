"""Distributions of one entry, vectorized over states and columns.

Each class holds parameter arrays of any shape and answers for values that broadcast against them.
Values are in the model's own units (standardized numbers, level codes), and densities leave out the
base measure (units, log x!), which the law and the data view know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import special

from partwise._compiled import check_sizes
from partwise.contracts import Array
from partwise.likelihoods import mixtures
from partwise.likelihoods.mixtures import LEAST_WEIGHT

_LOG_PI = float(np.log(np.pi))
_LOG_2PI = float(np.log(2 * np.pi))

# What a file or a page can hold.
PlainValue: TypeAlias = "Array | bool | int | float | str | list[PlainValue] | None"

# Bins of a column: where a state's own distribution is cut, and how many there are in all.
CUTS = np.linspace(0.0, 1.0, 18)[1:-1]
MOST_BINS = 64

# Times that samples outside the limits are repeated: half of the mass outside leaves 1e-6 of them.
MOST_REPEATS = 20

# Quantiles of mixtures of numbers are found to this, in model units.
CLOSE = 1e-9


class Predictive(ABC):
    """One entry's distribution; ``whole`` if it takes whole numbers only.

    ``probability`` has those of the levels on its first axis, None if values are no levels.
    """

    whole: ClassVar[bool] = False
    probability: Array | None = None

    @property
    @abstractmethod
    def mean(self) -> Array:
        """Expected value; for categories the code's expectation."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Variance of a new entry."""

    @property
    @abstractmethod
    def peak(self) -> Array:
        """Largest log density that any value has, its base measure included."""

    @abstractmethod
    def log_density(self, x: Array) -> Array:
        """Log density or log probability at x."""

    @abstractmethod
    def cdf(self, x: Array) -> Array:
        """P(X <= x)."""

    @abstractmethod
    def tail(self, x: Array) -> Array:
        """Probability of a value at most as likely as x, exact where it is tiny, too."""

    @abstractmethod
    def quantile(self, p: float | Array) -> Array:
        """Smallest value whose distribution function reaches p."""

    @abstractmethod
    def sample(self, rng: np.random.Generator) -> Array:
        """One sample per entry."""

    def sample_within(self, low: Array, high: Array, rng: np.random.Generator) -> Array:
        """One sample per entry from the distribution between ``low`` and ``high``, which broadcast.

        Samples outside are repeated; where the distribution has hardly any mass inside, they end
        at the nearer limit.
        """
        out = self.sample(rng)
        low, high = np.broadcast_to(low, out.shape), np.broadcast_to(high, out.shape)
        for _ in range(MOST_REPEATS):
            outside = np.nonzero((out < low) | (out > high))
            if not len(outside[0]):
                return out
            out[outside] = self.at(outside).sample(rng)
        return np.clip(out, low, high)

    @abstractmethod
    def at(self, index: tuple[Array, ...]) -> Predictive:
        """The same distribution at chosen entries."""

    def bins(self, d: int, live: Array) -> Array:
        """Probability of bins of column d's values in each state of (S, D), (S, B).

        Bins are quantiles of the states ``live`` that matter; the others have their average. If
        none matters, all do.
        """
        live = live if len(live) else np.arange(len(self.mean))
        n = len(CUTS)
        at = self.at((np.repeat(live[:, None], n, axis=1), np.full((len(live), n), d)))
        edges = np.unique(at.quantile(np.broadcast_to(CUTS, (len(live), n))))
        if len(edges) > MOST_BINS - 1:
            edges = edges[np.linspace(0, len(edges) - 1, MOST_BINS - 1).astype(int)]
        states = np.repeat(live[:, None], len(edges), axis=1)
        below = self.at((states, np.full(states.shape, d))).cdf(edges[None, :])
        own = np.diff(below, axis=1, prepend=0.0, append=1.0)
        out = np.repeat(own.mean(axis=0, keepdims=True), len(self.mean), axis=0)
        out[live] = own
        return out

    def mixture_quantile(self, m: Array, gates: Array, part_of: Array, p: Array) -> Array:
        """Quantile p (D,) of every cell's mixture of states, (n, D); self is (S, D).

        A mixture's quantile lies between the smallest and the largest of its states' own, which for
        most cells is a single state's; the rest is bisected. Of whole numbers it is the smallest
        that reaches p.
        """
        per_state = self.quantile(p)  # (S, D)
        S, D = per_state.shape
        n = m.shape[1]
        low, high = np.full((n, D), np.inf), np.full((n, D), -np.inf)
        for s in range(S):
            rows: Array = np.flatnonzero(m[s] > LEAST_WEIGHT)
            open_columns = np.flatnonzero(gates[part_of[s]] > LEAST_WEIGHT)
            if len(rows) == 0 or len(open_columns) == 0:
                continue
            at = np.ix_(rows, open_columns)
            live = m[s, rows][:, None] * gates[part_of[s], open_columns] > LEAST_WEIGHT
            value = np.broadcast_to(per_state[s, open_columns], live.shape)
            low[at] = np.where(live, np.minimum(low[at], value), low[at])
            high[at] = np.where(live, np.maximum(high[at], value), high[at])
        mixed: Array = np.argwhere(high > low)
        row, column = mixed[:, 0], mixed[:, 1]
        if len(row) == 0:
            return high
        a, b = low[row, column] - self.whole, high[row, column]  # above a, up to b
        live = np.arange(len(row))  # cells whose ends are still apart
        while len(live):
            middle = 0.5 * (a[live] + b[live])
            middle = np.floor(middle) if self.whole else middle
            reached, total = np.zeros(len(live)), np.zeros(len(live))
            for s in range(S):
                weight = m[s, row[live]] * gates[part_of[s], column[live]]
                cells = np.flatnonzero(weight > LEAST_WEIGHT)
                if len(cells):
                    here = self.at((np.full(len(cells), s), column[live[cells]]))
                    reached[cells] += weight[cells] * here.cdf(middle[cells])
                    total[cells] += weight[cells]
            short = reached < p[column[live]] * total * (1 - 1e-12)
            a[live], b[live] = np.where(short, middle, a[live]), np.where(short, b[live], middle)
            # Large numbers are no closer than a float can tell.
            size = np.maximum(1.0, np.abs(b[live]))
            close = np.maximum(1.0, np.spacing(size)) if self.whole else CLOSE * size
            live = live[b[live] - a[live] > close]
        high[row, column] = b
        return high


def both_tails(below: Array, above: Array) -> Array:
    """Twice the smaller one of P(X <= x) and P(X >= x), at most one."""
    return np.minimum(2.0 * np.minimum(below, above), 1.0)


@dataclass(frozen=True)
class StudentT(Predictive):
    """Location-scale Student t; ``df`` infinite is the normal distribution.

    ``constant`` is the log density at the mean, kept since it costs more than all the rest.
    """

    location: Array
    scale: Array
    df: Array
    constant: Array

    @property
    def mean(self) -> Array:
        """The location."""
        return self.location

    @property
    def peak(self) -> Array:
        """Log density at the mean."""
        return self.constant

    @classmethod
    def of(cls, mean: Array, scale: Array, df: Array) -> StudentT:
        """From location, scale and degrees of freedom."""
        if np.all(np.isinf(df)):
            return cls(mean, scale, df, -np.log(scale) - 0.5 * _LOG_2PI)
        half = 0.5 * df
        constant = special.gammaln(half + 0.5) - special.gammaln(half)
        return cls(mean, scale, df, constant - 0.5 * (_LOG_PI + np.log(df)) - np.log(scale))

    def at(self, index: tuple[Array, ...]) -> StudentT:
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

    def mixture_quantile(self, m: Array, gates: Array, part_of: Array, p: Array) -> Array:
        """As for all, compiled."""
        first = np.searchsorted(part_of, np.arange(len(gates) + 1))
        arrays = (m, gates, self.mean, self.scale, self.df, self.quantile(p))
        rows, by_part, mean, scale, df, own = (
            np.ascontiguousarray(values.T, dtype=float) for values in arrays
        )
        out = np.empty((gates.shape[1], m.shape[1]))
        check_sizes(states=(int(first[-1]), rows.shape[1], mean.shape[1]))
        check_sizes(columns=(len(by_part), len(mean), len(p)), parts=(len(first) - 1, len(gates)))
        mixtures.state_quantiles(rows, by_part, mean, scale, df, own, first, p, out)
        return out.T

    def cdf(self, x: Array) -> Array:
        """Distribution function."""
        z = (x - self.mean) / self.scale
        if np.all(np.isinf(self.df)):
            return special.ndtr(z)
        return special.stdtr(self.df, z)

    def tail(self, x: Array) -> Array:
        """Probability of a value at least as far from the mean."""
        return 2.0 * self.cdf(self.mean - np.abs(x - self.mean))

    def sample(self, rng: np.random.Generator) -> Array:
        """One sample per entry."""
        z = rng.standard_normal(self.mean.shape)
        finite = np.isfinite(self.df)
        if np.any(finite):
            df = np.where(finite, self.df, 1.0)
            ratio = rng.chisquare(np.broadcast_to(df, z.shape)) / df
            z = np.where(finite, z / np.sqrt(ratio), z)
        return self.mean + self.scale * z


@dataclass(frozen=True)
class GammaPoisson(Predictive):
    """Poisson with rate Gamma(shape, rate); ``rate`` infinite is Poisson with mean ``shape``."""

    shape: Array
    rate: Array
    whole: ClassVar[bool] = True

    @property
    def peak(self) -> Array:
        """Log probability of the mode."""
        mode = np.floor(np.maximum(self.mean - np.where(np.isinf(self.rate), 0, 1 / self.rate), 0))
        return self.log_density(mode) - special.gammaln(mode + 1.0)

    def at(self, index: tuple[Array, ...]) -> GammaPoisson:
        """Entries chosen by ``index``."""
        return GammaPoisson(self.shape[index], self.rate[index])

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
        while np.any(high - low > np.maximum(1.0, np.spacing(high))):
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

    def tail(self, x: Array) -> Array:
        """Both tails taken as equal; that above is 1 - cdf without its cancellation."""
        safe = np.maximum(x, 1.0)
        if np.all(np.isinf(self.rate)):
            above = special.gammainc(safe, self.shape)
        else:
            above = special.betainc(safe, self.shape, 1.0 / (1.0 + self.rate))
        return both_tails(self.cdf(x), np.where(x <= 0, 1.0, above))

    def sample(self, rng: np.random.Generator) -> Array:
        """One sample per entry."""
        finite = np.isfinite(self.rate)
        spread = rng.standard_gamma(self.shape) / np.where(finite, self.rate, 1.0)
        return rng.poisson(np.where(finite, spread, self.shape)).astype(float)


@dataclass(frozen=True)
class Levels(Predictive):
    """Categorical over codes 0..V-1; ``probability`` has the level on its first axis."""

    probability: Array
    ordered: bool = False
    whole: ClassVar[bool] = True

    @property
    def peak(self) -> Array:
        """Log probability of the likeliest level."""
        return np.log(self.probability.max(axis=0))

    def bins(self, d: int, live: Array) -> Array:
        """The levels themselves."""
        return self.probability[:, :, d].T

    def shares(self, average: Callable[[Array], Array]) -> Array:
        """Probability of every level in a mixture of states; (V, n, D)."""
        return np.stack([average(p) for p in self.probability])

    def page(self, logs: Array) -> dict[str, PlainValue]:
        """What the page needs: expected logarithms ``logs`` (V, J, n) and probabilities."""
        J, n = logs.shape[1:]
        return {
            "law": "levels",
            "logs": np.moveaxis(logs, 0, -1).reshape(J, -1),
            "probability": np.moveaxis(self.probability, 0, -1).reshape(J, -1),
            "n": n,
        }

    def at(self, index: tuple[Array, ...]) -> Levels:
        """Entries chosen by ``index``."""
        return replace(self, probability=np.stack([p[index] for p in self.probability]))

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
        V, *own = self.probability.shape
        p = self.probability.reshape(V, *[1] * (code.ndim - len(own)), *own)
        p = np.broadcast_to(p, (V, *code.shape))
        return np.log(np.take_along_axis(p, code[None].astype(np.int64), axis=0)[0])

    def tail(self, x: Array) -> Array:
        """Probability of all levels that are at most as likely as x; of ordered ones, both tails.

        A number that few people report (9 cigarettes a day) is not anomalous between two that many
        people report.
        """
        if self.ordered:
            return both_tails(self.cdf(x), 1.0 - self.cdf(np.asarray(x) - 1.0))
        own = np.exp(self.log_density(x)) * (1 + 1e-9)
        return np.sum(np.where(self.probability <= own, self.probability, 0.0), axis=0)

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
