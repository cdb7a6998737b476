"""Marginal distributions of numbers: smooth monotone maps between a column and a standard Gaussian.

A column is x = Q(z) of a standard Gaussian z, where Q follows the observed values: skewed,
heavy-tailed and bounded columns need no transformation. Q is learned once, from the values alone,
before any model.

=====  ======  =====================================================================================
knots  (z, x)  each the mean of neighboring values, and of the Gaussian quantiles of their ranks
                (of equal values the middle rank): the bins have about the same width in z, and at
                least `LEAST_ROWS` rows
slope  dx/dz   at the knots: the weighted geometric mean of the slopes on both sides
=====  ======  =====================================================================================

Between knots Q is a rational quadratic spline (Gregory & Delbourgo 1982), which is monotone,
continuously differentiable and inverted in closed form. Beyond the outer knots it is linear, so the
tails are those of a Gaussian with the slope there: no less than `LEAST_SLOPE` of the column's
deviation, or values somewhat beyond the observed range of a bounded column would be impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data.rows import Rows, map_rows

# A bin has at least this many rows, so that no single value makes a tail.
LEAST_ROWS = 5.0

# Number of knots: twice the rows to this power (31 for 1000 rows), and no more than the last.
KNOT_POWER, MOST_KNOTS = 0.4, 64

# Least slope beyond the outer knots, in deviations of the column per unit of z.
LEAST_SLOPE = 0.05

# Distinct values of a column that are held; of more, neighbors are joined.
MOST_VALUES = 1 << 16


class Marginal(NamedTuple):
    """A monotone map; ``slope`` is dx/dz at the M knots.

    Knots and slopes are in a unit, about the deviation of the column, and from an origin.
    """

    z: Array  # (M,)
    x: Array  # (M,)
    slope: Array  # (M,)
    low: float  # slopes beyond the knots
    high: float
    origin: float = 0.0
    unit: float = 1.0

    @classmethod
    def affine(cls, shift: float, scale: float) -> Marginal:
        """x = shift + scale z."""
        ends = np.array([-1.0, 1.0])
        return cls(ends, ends, np.ones(2), 1.0, 1.0, shift, scale)

    @classmethod
    def learn(cls, values: Array, weight: Array) -> Marginal:
        """The map of distinct sorted values (V,) with their weights.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise.data.marginals import Marginal
        >>> values = np.sort(np.random.default_rng(0).exponential(size=1000))
        >>> marginal = Marginal.learn(values, np.ones(1000))
        >>> bool(np.isclose(marginal.from_z(np.zeros(1)), np.log(2), atol=0.1)[0])
        True
        """
        total = float(weight.sum())
        if len(values) < 2 or not total > 0:
            return cls.affine(float(values[0]) if len(values) else 0.0, 1.0)
        below = np.cumsum(weight) - 0.5 * weight
        ranks = special.ndtri(below / total)
        size = float(np.exp2(np.frexp(np.abs(values).max())[1] - 1.0))  # a power rounds nothing
        mean = float(weight @ (values / size)) / total * size
        deviation = float(np.sqrt(weight @ ((values - mean) / size) ** 2 / total)) * size
        if not deviation > 0:
            return cls.affine(mean, 1.0)
        values = (values - mean) / deviation
        n_knots = int(np.clip(2.0 * total**KNOT_POWER, 2, MOST_KNOTS))
        group = np.arange(len(values))
        if len(values) > n_knots:
            group = _bins(ranks, weight, n_knots)
        held = np.bincount(group, weight)
        z, x = (np.bincount(group, weight * of) / held for of in (ranks, values))
        if len(x) < 2 or not (np.diff(x) > 0).all() or not (np.diff(z) > 0).all():
            return cls.affine(mean, deviation)
        steep, width = np.diff(x) / np.diff(z), np.diff(z)
        share = width[1:] / (width[:-1] + width[1:])
        inner = steep[:-1] ** share * steep[1:] ** (1.0 - share)
        slope = np.concatenate([steep[:1], inner, steep[-1:]])
        low, high = (max(float(end), LEAST_SLOPE) for end in (slope[0], slope[-1]))
        return cls(z, x, slope, low, high, mean, deviation)

    def to_z(self, x: Array) -> Array:
        """Gaussian numbers of values; NaN stays NaN."""
        x = (x - self.origin) / self.unit
        k, left, _, steep, bend = self._pieces(np.searchsorted(self.x, x, side="right"))
        away = x - self.x[k]
        rise = self.x[k + 1] - self.x[k]
        a = rise * (steep - left) + away * bend
        b = rise * left - away * bend
        c = -steep * away
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
            share = np.clip(2.0 * c / (-b - root), 0.0, 1.0)
            inside = self.z[k] + share * (self.z[k + 1] - self.z[k])
        below, above = (x - self.x[0]) / self.low, (x - self.x[-1]) / self.high
        out = np.where(x < self.x[0], self.z[0] + below, inside)
        out = np.where(x > self.x[-1], self.z[-1] + above, out)
        return np.where(np.isnan(x), np.nan, out)

    def from_z(self, z: Array) -> Array:
        """Values of Gaussian numbers."""
        k, left, _, steep, bend = self._pieces(np.searchsorted(self.z, z, side="right"))
        share = np.clip((z - self.z[k]) / (self.z[k + 1] - self.z[k]), 0.0, 1.0)
        both = share * (1.0 - share)
        rise = self.x[k + 1] - self.x[k]
        inside = self.x[k] + rise * (steep * share**2 + left * both) / (steep + bend * both)
        out = np.where(z < self.z[0], self.x[0] + (z - self.z[0]) * self.low, inside)
        out = np.where(z > self.z[-1], self.x[-1] + (z - self.z[-1]) * self.high, out)
        return self.origin + self.unit * out

    def log_slope(self, z: Array) -> Array:
        """log dx/dz at Gaussian numbers."""
        k, left, right, steep, bend = self._pieces(np.searchsorted(self.z, z, side="right"))
        share = np.clip((z - self.z[k]) / (self.z[k + 1] - self.z[k]), 0.0, 1.0)
        both = share * (1.0 - share)
        top = steep**2 * (right * share**2 + 2.0 * steep * both + left * (1.0 - share) ** 2)
        out = np.log(top) - 2.0 * np.log(steep + bend * both)
        out = np.where(z < self.z[0], np.log(self.low), out)
        return np.where(z > self.z[-1], np.log(self.high), out) + np.log(self.unit)

    def _pieces(self, at: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Pieces of the spline: number, slopes at both ends, slope of the chord, bend."""
        k = np.clip(at - 1, 0, len(self.z) - 2)
        left, right = self.slope[k], self.slope[k + 1]
        steep = (self.x[k + 1] - self.x[k]) / (self.z[k + 1] - self.z[k])
        return k, left, right, steep, left + right - 2.0 * steep


def _bins(ranks: Array, weight: Array, n_knots: int) -> Array:
    """Numbers of bins of about equal width in z, none of fewer than `LEAST_ROWS` rows; (V,)."""
    first, last = ranks[0], ranks[-1]
    bins = np.minimum(((ranks - first) * (n_knots / (last - first))).astype(np.int64), n_knots - 1)
    size = np.bincount(bins, weight, minlength=n_knots)
    # Bins join the next until they hold enough, from both ends to the middle.
    middle, place = n_knots // 2, np.arange(n_knots)
    for order in (range(middle), range(n_knots - 1, middle, -1)):
        step = 1 if order.step > 0 else -1
        for i in order:
            if size[i] < LEAST_ROWS:
                size[i + step] += size[i]
                place[place == i] = i + step
    return np.unique(place[bins], return_inverse=True)[1]


def learn_marginals(X: Rows, row_weight: Array, columns: Array) -> list[Marginal]:
    """Maps of some columns of numbers, from one pass over rows (NaN missing)."""
    found: list[list[tuple[Array, Array]]] = [[] for _ in columns]

    def on_rows(rows: Array, weight: Array) -> list[tuple[Array, Array]]:
        return [_distinct(np.asarray(rows[:, d], dtype=float), weight) for d in columns]

    for block in map_rows(X, on_rows, row_weight):
        for own, new in zip(found, block, strict=True):
            own.append(new)
            if sum(len(values) for values, _ in own) > 2 * MOST_VALUES:
                own[:] = [_joined(own)]
    return [Marginal.learn(*(own[0] if len(own) == 1 else _joined(own))) for own in found]


def _distinct(values: Array, weight: Array) -> tuple[Array, Array]:
    """Sorted distinct values, without missing ones, and their weights."""
    seen = ~np.isnan(values)
    order = np.argsort(values[seen])
    values, weight = values[seen][order], weight[seen][order]
    if not len(values):
        return values, weight
    new = np.concatenate([[True], values[1:] > values[:-1]])
    return values[new], np.bincount(np.cumsum(new) - 1, weight)


def _joined(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """All values of some parts; of very many, neighbors become their mean, the ends staying."""
    values, weight = _distinct(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    if len(values) <= MOST_VALUES:
        return values, weight
    share = np.cumsum(weight) / weight.sum()
    group = np.minimum((share * MOST_VALUES).astype(np.int64), MOST_VALUES - 1) + 1
    group[0], group[-1] = 0, MOST_VALUES + 1
    group = np.unique(group, return_inverse=True)[1]
    size = np.bincount(group, weight)
    return np.bincount(group, weight * values) / size, size
