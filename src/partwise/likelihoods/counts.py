"""What laws of counts share: which values they take, and distributions known by their mass alone.

Some distributions of counts have no closed form but that of their mass. `CountTable` sums it: count
by count up to ``EXACT``, and beyond by Gauss-Legendre quadrature between knots that are a fixed
ratio apart, where the mass is smooth. What is left above the last knot falls as a power of the
count, with the slope that the mass has there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods.predictive import Predictive, both_tails

# Counts up to here are summed one by one; knots beyond are this ratio apart.
EXACT = 128
RATIO = 1.03

# Deviations above the largest mean at which the last knot stands.
REACH = 12.0

# Upper tails below FAR are summed from their count on: NEAR counts one by one, then ranges that
# grow by WIDER, until one adds less than ENOUGH of the sum.
FAR = 1e-4
NEAR = 16
WIDER = 1.4
ENOUGH = 1e-7
MOST_RANGES = 100

# Masses computed at a time.
MOST_MASSES = 1 << 16

# log_mass(x, given): log mass of counts, base measure left out; the given arrays' last axis is that
# of x.
LogMass: TypeAlias = Callable[[Array, tuple[Array, ...]], Array]

# Numbers beyond are not told from their neighbors when summed.
LARGEST_COUNT = 1e15


def wrong_counts(name: str, values: Array) -> str | None:
    """`Law.check` of counts."""
    seen = values[~np.isnan(values)]
    wrong = seen[(seen < 0) | (seen != np.rint(seen))]
    if len(wrong):
        return (
            f'{wrong[0]:g}, but likelihood="{name}" needs counts 0, 1, 2, ... or NaN; round the '
            'data or choose likelihood="gaussian".'
        )
    if seen.max(initial=0.0) > LARGEST_COUNT:
        return (
            f'{seen.max():g}, but likelihood="{name}" takes counts up to {LARGEST_COUNT:g}; choose '
            'likelihood="lognormal" or "gaussian".'
        )
    return None


def _no_base(values: Array) -> Array:
    return np.zeros(np.shape(values))


@dataclass(frozen=True, eq=False)
class _Masses:
    """Several distributions, (C,), tabulated when first needed."""

    mean: Array
    variance: Array
    log_mass: LogMass
    given: tuple[Array, ...]  # (..., C) each
    base: Callable[[Array], Array]

    def at(self, x: Array, place: Array) -> Array:
        """Log mass of counts x in distributions ``place``, both (M,)."""
        out = np.empty(len(x))
        for lo in range(0, len(x), MOST_MASSES):
            some = place[lo : lo + MOST_MASSES]
            own = tuple(array[..., some] for array in self.given)
            out[lo : lo + MOST_MASSES] = self.log_mass(x[lo : lo + MOST_MASSES], own)
        return out

    def table(self, x: Array) -> Array:
        """Log mass of counts (V,) in all distributions, (V, C)."""
        C = len(self.mean)
        return self.at(np.repeat(x, C), np.tile(np.arange(C), len(x))).reshape(len(x), C)

    @cached_property
    def first(self) -> Array:
        """Log mass of 0, 1, ..., (EXACT + 1, C), base measure left out."""
        return self.table(np.arange(EXACT + 1.0))

    @cached_property
    def knots(self) -> Array:
        """Counts at which the distribution function is tabulated, (V,)."""
        top = float(np.max(self.mean + REACH * np.sqrt(self.variance), initial=0.0))
        n = max(np.log(max(top, 1.0) / EXACT) / np.log(RATIO), 0.0)
        far = np.rint(EXACT * RATIO ** np.arange(1.0, n + 2.0))
        return np.concatenate([np.arange(EXACT + 1.0), np.unique(far)])

    @cached_property
    def mass(self) -> Array:
        """Probability of the counts above the knot before and up to each knot, (V, C)."""
        near = np.exp(self.first + self.base(np.arange(EXACT + 1.0))[:, None])
        low, high = self.knots[EXACT:-1] + 0.5, self.knots[EXACT + 1 :] + 0.5
        nodes, weights = np.polynomial.legendre.leggauss(3)
        half = 0.5 * (high - low)
        x = (low + half)[:, None] + half[:, None] * nodes  # (V', 3)
        density = np.exp(self.table(x.ravel()) + self.base(x.ravel())[:, None])
        far = np.einsum("vnc,n->vc", density.reshape(len(x), 3, -1), weights) * half[:, None]
        return np.concatenate([near, far])

    @cached_property
    def below(self) -> Array:
        """P(X <= knot), (V, C)."""
        return np.minimum(np.cumsum(self.mass, axis=0), 1.0)

    def above(self, x: Array, place: Array) -> Array:
        """P(X >= x) of counts x far above the means of distributions ``place``, both (M,)."""

        def mass(live: Array, offsets: Array) -> Array:
            counts = (x[live, None] + offsets).ravel()
            own = self.at(counts, np.repeat(place[live], len(offsets))) + self.base(counts)
            return np.exp(own).reshape(len(live), len(offsets))

        live, low = np.arange(len(x)), NEAR - 0.5
        out = mass(live, np.arange(float(NEAR))).sum(axis=1)
        nodes, weights = np.polynomial.legendre.leggauss(3)
        for _ in range(MOST_RANGES):
            half = 0.5 * (WIDER - 1.0) * (low + 0.5)
            more = mass(live, low + half * (1.0 + nodes)) @ (half * weights)
            out[live] += more
            live, low = live[more > ENOUGH * out[live]], low + 2.0 * half
            if not len(live):
                break
        return out

    @cached_property
    def slope(self) -> Array:
        """Power with which the tail falls above the last knot, (C,)."""
        width = self.knots[-1] - self.knots[-2]
        tail = np.maximum(1.0 - self.below[-1], 1e-300)
        return np.clip((self.knots[-1] + 1.0) * self.mass[-1] / width / tail, 0.1, 1e3)

    @cached_property
    def peak(self) -> Array:
        """Largest log mass at any knot, base measure included; (C,)."""
        near = self.first + self.base(np.arange(EXACT + 1.0))[:, None]
        far = self.knots[EXACT + 1 :]
        return np.maximum(near.max(axis=0), (self.table(far) + self.base(far)[:, None]).max(axis=0))


@dataclass(frozen=True, eq=False)
class CountTable(Predictive):
    """Counts whose mass is a function; ``place`` says which of the distributions stand where."""

    masses: _Masses
    place: Array
    whole: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        mean: Array,
        variance: Array,
        log_mass: LogMass,
        given: tuple[Array, ...],
        base: Callable[[Array], Array] = _no_base,
    ) -> CountTable:
        """From moments, and a mass that depends on arrays that end in the shape of ``mean``."""
        flat = [array.reshape(*array.shape[: array.ndim - mean.ndim], mean.size) for array in given]
        masses = _Masses(mean.ravel(), variance.ravel(), log_mass, tuple(flat), base)
        return cls(masses, np.arange(mean.size).reshape(mean.shape))

    def at(self, index: tuple[Array, ...]) -> CountTable:
        """Entries chosen by ``index``."""
        return CountTable(self.masses, self.place[index])

    @property
    def mean(self) -> Array:
        """Expected count."""
        return self.masses.mean[self.place]

    @property
    def variance(self) -> Array:
        """Variance of the count."""
        return self.masses.variance[self.place]

    @property
    def peak(self) -> Array:
        """Log probability of the mode."""
        return self.masses.peak[self.place]

    def log_density(self, x: Array) -> Array:
        """Log probability of a count, base measure left out."""
        x, place = np.broadcast_arrays(np.asarray(x, dtype=float), self.place)
        near = (x <= EXACT) & (x == np.rint(x))
        out = np.empty(x.shape)
        out[near] = self.masses.first[x[near].astype(np.int64), place[near]]
        out[~near] = self.masses.at(x[~near], place[~near])
        return out

    def cdf(self, x: Array) -> Array:
        """P(X <= x)."""
        x, place = np.broadcast_arrays(np.floor(np.asarray(x, dtype=float)), self.place)
        masses, last = self.masses, len(self.masses.knots) - 1
        i = np.clip(np.searchsorted(masses.knots, x, side="right") - 1, 0, last)
        after = np.minimum(i + 1, last)
        gap = np.maximum(masses.knots[after] - masses.knots[i], 1.0)
        share = np.clip((x - masses.knots[i]) / gap, 0.0, 1.0)
        out = masses.below[i, place]
        out = out + share * (masses.below[after, place] - out)
        top = masses.knots[-1]
        far = np.maximum((top + 1.0) / (np.maximum(x, top) + 1.0), 0.0) ** masses.slope[place]
        out = np.where(x > top, 1.0 - (1.0 - masses.below[-1, place]) * far, out)
        return np.where(x < 0, 0.0, out)

    def tail(self, x: Array) -> Array:
        """Both tails taken as equal."""
        x, place = np.broadcast_arrays(np.asarray(x, dtype=float), self.place)
        above = 1.0 - self.cdf(x - 1.0)
        far = np.nonzero(above < FAR)
        above[far] = self.masses.above(x[far], place[far])
        return both_tails(self.cdf(x), above)

    def quantile(self, p: float | Array) -> Array:
        """Smallest count whose distribution function reaches p."""
        p, place = np.broadcast_arrays(np.asarray(p, dtype=float), self.place)
        masses, last = self.masses, len(self.masses.knots) - 1
        low, high = np.full(p.shape, -1), np.full(p.shape, last)  # knots: above low, up to high
        while np.any(apart := high - low > 1):
            middle = (low + high) // 2
            short = masses.below[middle, place] < p
            low = np.where(apart & short, middle, low)
            high = np.where(apart & ~short, middle, high)
        before = np.maximum(high - 1, 0)
        start = np.where(high > 0, masses.below[before, place], 0.0)
        gap = np.where(high > 0, masses.knots[high] - masses.knots[before], 1.0)
        share = (p - start) / np.maximum(masses.below[high, place] - start, 1e-300)
        inside = masses.knots[high] - gap + np.ceil(np.clip(share, 0.0, 1.0) * gap)
        inside = np.where(gap > 1, inside, masses.knots[high])
        top, tail = masses.knots[-1], 1.0 - masses.below[-1, place]
        ratio = np.maximum(tail, 0.0) / np.maximum(1.0 - p, 1e-15)
        far = np.ceil((top + 1.0) * np.maximum(ratio, 1.0) ** (1.0 / masses.slope[place]) - 1.0)
        return np.where(p > masses.below[-1, place], far, inside)

    def sample(self, rng: np.random.Generator) -> Array:
        """One sample per entry."""
        return self.quantile(rng.random(self.place.shape))
