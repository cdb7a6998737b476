"""Predictive distributions of missing cells: several models of the same table, blended.

Every model gives the distribution of a cell given the observed cells of its row; the blend of a
column is their mixture, so that values, probabilities, intervals and samples come from one
distribution. All is in the units of encoded rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.answers import factors
from partwise.answers.factors import FittedFactors
from partwise.answers.latent_cells import CellPredictive, LevelCells
from partwise.answers.rows import in_columns, map_rows
from partwise.answers.states import FittedStates, average, core, laws
from partwise.answers.tables import draw, level_shares, likely_level
from partwise.contracts import Array, Span
from partwise.data import ColumnGroup, RowBlock
from partwise.likelihoods.predictive import Predictive
from partwise.models import predict_factors

# Quantiles of mixtures are found to this fraction of the range in which they are sought, within so
# many evaluations: steps of whole numbers are halved to it, smooth functions need about ten.
CLOSE = 1e-14
MOST_EVALUATIONS = 60

# States of less probability do not change a cell's distribution function.
LEAST_WEIGHT = 1e-9


class Expected(NamedTuple):
    """Expected entries of rows: numbers (n, D), and of columns with levels {place: (n, V)}."""

    numbers: Array  # 0 in columns with levels
    shares: dict[int, Array]


def expected(fits: Sequence[FittedStates], X: Array, n_jobs: int | None = None) -> Expected:
    """Expected entries of rows, averaged over the fits; each fit infers the rows once."""
    found = [_expected(fitted, X, n_jobs) for fitted in fits]
    numbers = np.mean([one.numbers for one in found], axis=0)
    for group in fits[0].columns:
        own = np.stack([one.numbers[:, group.index] for one in found])
        numbers[:, group.index] = group.likelihood.family.joined(own, group.shift)
    places = found[0].shares
    return Expected(numbers, {d: np.mean([one.shares[d] for one in found], axis=0) for d in places})


def _expected(fitted: FittedStates, X: Array, n_jobs: int | None) -> Expected:
    pairs = list(zip(fitted.columns, laws(fitted), strict=True))

    def on_block(block: RowBlock) -> tuple[Array, list[Array]]:
        m = fitted.model.infer(fitted.prepared, block)[0].T
        numbers, shares = [], []
        for group, law in pairs:
            if law.probability is None:
                numbers.append(group.likely(law, average(fitted, m, group.index)))
            else:
                numbers.append(np.zeros((len(m), len(group.index))))
                shares.append(level_shares(fitted, m, group.index, law.probability))
        return in_columns(fitted, numbers).astype(fitted.dtype, copy=False), shares

    numbers, by_block = zip(*map_rows(fitted.columns, X, on_block, n_jobs), strict=True)
    shares: dict[int, Array] = {}
    groups = (group for group, law in pairs if law.probability is not None)
    for group, pieces in zip(groups, zip(*by_block, strict=True), strict=True):
        joined = np.concatenate(pieces)  # (n, D_g, V)
        shares |= {int(d): joined[:, i] for i, d in enumerate(group.index)}
    return Expected(np.concatenate(numbers), shares)


def likely(fitted: FittedStates, found: Expected) -> Array:
    """Values to impute for every entry, (n, D): numbers, and the likeliest levels."""
    out = found.numbers.copy()
    for d, shares in found.shares.items():
        out[:, d] = likely_level(fitted, d, shares)
    return out


# --- numbers by distribution functions ---


class Spread:
    """Distribution functions of m numbers, with ends between which quantiles lie."""

    def __init__(
        self, below: Callable[[Array], Array], ends: Callable[[Array], tuple[Array, Array]]
    ) -> None:
        self.below, self.ends = below, ends

    def quantile(self, p: Array) -> Array:
        """Smallest numbers whose distribution functions reach p (m,)."""
        low, high = (end.astype(float) for end in self.ends(p))
        return smallest_reaching(self.below, p, low, high)


def smallest_reaching(below: Callable[[Array], Array], p: Array, low: Array, high: Array) -> Array:
    """Smallest x (m,) between ``low`` and ``high`` at which increasing functions reach p (m,).

    Inverse quadratic interpolation through the last three points where these are nearly on a line,
    halving elsewhere, as at steps (Chandrupatla 1997). The last point and ``other`` always enclose
    the answer.
    """
    size = np.maximum(np.abs(low), np.abs(high))
    close = np.maximum(CLOSE * (high - low), 2.0 * np.spacing(size))
    x, other = low, high
    at_x, at_other = below(x) - p, below(other) - p
    live, share = (at_x < 0.0) & (at_other >= 0.0), np.full(len(p), 0.5)
    for _ in range(MOST_EVALUATIONS):
        if not live.any():
            break
        new = np.where(live, x + share * (other - x), x)
        at_new = below(new) - p
        same = ~live | ((at_new >= 0.0) == (at_x >= 0.0))
        last, at_last = np.where(same, x, other), np.where(same, at_x, at_other)
        other, at_other = np.where(same, other, x), np.where(same, at_other, at_x)
        x, at_x = new, at_new
        with np.errstate(all="ignore"):  # of cells that are done, and of three points in one place
            least = close / np.abs(other - x)
            place, height = (x - other) / (last - other), (at_x - at_other) / (at_last - at_other)
            on_line = (height**2 < place) & ((1.0 - height) ** 2 < 1.0 - place)
            share = at_x / (at_other - at_x) * at_last / (at_other - at_last)
            share += (
                (last - x) / (other - x)
                * at_x / (at_last - at_x)
                * at_other / (at_last - at_other)
            )  # fmt: skip
            live &= least <= 0.5
        share = np.clip(np.where(on_line, share, 0.5), least, 1.0 - least)
    return np.where(at_x >= 0.0, x, other)


def of_states(fitted: FittedStates, X: Array, n_jobs: int | None = None) -> StatesCells:
    """Distributions of cells under a model of states; rows are inferred once."""
    blocks = map_rows(
        fitted.columns, X, lambda block: fitted.model.infer(fitted.prepared, block)[0].T, n_jobs
    )
    return StatesCells(fitted, np.concatenate(blocks).astype(float))


@dataclass(frozen=True, eq=False)
class StatesCells:
    """A model of states, and the posteriors (n, S) of rows."""

    fitted: FittedStates
    m: Array

    @cached_property
    def shares(self) -> dict[int, Array]:
        """Probability of levels in every row {place: (n, V)}."""
        out: dict[int, Array] = {}
        for group, law in zip(self.fitted.columns, laws(self.fitted), strict=True):
            if law.probability is not None:
                found = level_shares(self.fitted, self.m, group.index, law.probability)
                out |= {int(d): found[:, i] for i, d in enumerate(group.index)}
        return out

    def _of(self, d: int, rows: Array) -> tuple[ColumnGroup, int, Predictive, Array]:
        """Group of a column, its place, the group's law (S, D_g), and states' weights (m, S)."""
        for group, law in zip(self.fitted.columns, laws(self.fitted), strict=True):
            place = np.flatnonzero(group.index == d)
            if len(place):
                weight = self.m[rows] * self.fitted.params.gates[core(self.fitted).part_of, d]
                weight /= weight.sum(axis=1, keepdims=True)
                weight[weight < LEAST_WEIGHT] = 0.0
                return group, int(place[0]), law, weight / weight.sum(axis=1, keepdims=True)
        raise ValueError(f"Column {d} has no distribution.")

    def spread(self, d: int, rows: Array) -> Spread:
        """Distribution of numbers of column d in some rows."""
        group, i, law, weight = self._of(d, rows)
        cell, state = np.nonzero(weight)  # pairs that matter, cell by cell
        own, w = law.at((state, np.full(len(state), i))), weight[cell, state]
        first = np.searchsorted(cell, np.arange(len(rows)))

        def below(x: Array) -> Array:
            inside = (x - group.shift[i]) / group.scale[i]
            return np.add.reduceat(w * own.cdf(inside[cell]), first)

        def ends(p: Array) -> tuple[Array, Array]:
            at = own.quantile(p[cell]) * group.scale[i] + group.shift[i]
            # Whole numbers lie on the steps of the function.
            low = np.minimum.reduceat(at, first) - (1e-6 + law.whole) * group.scale[i]
            return low, np.maximum.reduceat(at, first)

        return Spread(below, ends)


@dataclass(frozen=True, eq=False)
class GaussianCells:
    """Means and standard deviations (n, D) of cells."""

    mean: Array
    deviation: Array

    def columns(self, which: Span) -> GaussianCells:
        """The cells of some columns."""
        return GaussianCells(self.mean[:, which], self.deviation[:, which])

    def spread(self, d: int, rows: Array) -> Spread:
        """Distribution of numbers of column d in some rows."""
        mean, deviation = self.mean[rows, d], self.deviation[rows, d]

        def ends(p: Array) -> tuple[Array, Array]:
            found = mean + deviation * special.ndtri(p)
            return found, found

        return Spread(lambda x: special.ndtr((x - mean) / deviation), ends)


def of_factors(fitted: FittedFactors, X: Array, n_jobs: int | None = None) -> GaussianCells:
    """Distributions of cells under a factor analysis with one part, in the units of X."""
    group = fitted.columns[0]

    def on_block(block: RowBlock) -> tuple[Array, Array]:
        found = fitted.model.infer(fitted.prepared, block)[0]
        mean, variance = predict_factors.part_moments(factors.core(fitted), fitted.params, found)
        return mean[0], variance[0]

    mean, variance = (
        np.concatenate(field)
        for field in zip(*map_rows(fitted.columns, X, on_block, n_jobs), strict=True)
    )
    with np.errstate(over="ignore"):
        deviation = np.sqrt(np.maximum(variance, 1e-12)) * group.scale
    return GaussianCells(group.decode(mean), np.minimum(deviation, np.finfo(float).max))


def level_shares_of(told: GaussianCells, before: Array, values: Array) -> Array:
    """Probability of levels (n, V) by Gaussian distributions of the numbers that stand for them.

    The probability of a level is its share ``before`` (V,) where the whole row is missing, times
    the ratio of the density of its number in a row to that in the last of the n + 1 rows, which is
    such a row. Either ``told`` is of one number, with a value for each level, ``values``
    (V,); or of a yes-or-no number for each level, ``values`` (1,) being that of a yes. These always
    add to 1, so that one of V follows from the others; each counts (V - 1) / V.
    """
    mean, deviation = told.mean.astype(float), told.deviation.astype(float)

    def log_ratio(x: Array) -> Array:
        with np.errstate(over="ignore"):  # deviations may be tiny; squares must not overflow
            away = np.clip((x - mean) / deviation, -1e150, 1e150)
        return 0.5 * (away[-1:] ** 2 - away[:-1] ** 2)

    gain = log_ratio(values)
    if len(values) == 1:
        gain = (gain - log_ratio(np.zeros(1))) * (1.0 - 1.0 / len(before))
    return np.asarray(special.softmax(np.log(np.maximum(before, 1e-12)) + gain, axis=1))


def of_cells(cells: CellPredictive) -> Spread:
    """Distribution of numbers that are given by their own class."""

    def ends(p: Array) -> tuple[Array, Array]:
        found = cells.quantile(p)
        return found, found

    return Spread(cells.below, ends)


def mixture(parts: Sequence[tuple[float, Spread]]) -> Spread:
    """Weighted mixture of distributions of the same cells."""
    used = [(w, part) for w, part in parts if w > 0]

    def below(x: Array) -> Array:
        return np.asarray(sum(w * part.below(x) for w, part in used))

    def ends(p: Array) -> tuple[Array, Array]:
        lows, highs = zip(*(part.ends(p) for _, part in used), strict=True)
        return np.min(lows, axis=0), np.max(highs, axis=0)

    return Spread(below, ends)


def moved(spread: Spread, center: Array, by: Array | float, scale: float) -> Spread:
    """Distributions of ``scale`` times the width, with ``center`` (m,) moved by so much (m,)."""

    def ends(p: Array) -> tuple[Array, Array]:
        low, high = (center + by + scale * (end - center) for end in spread.ends(p))
        return low, high

    return Spread(lambda x: spread.below(center + (x - center - by) / scale), ends)


def uniforms(
    states: StatesCells, coded: Array, generators: Sequence[np.random.Generator]
) -> Iterator[Array]:
    """Probabilities (n, D) at which to sample missing cells, dependent within rows, per generator.

    A row is sampled from the model of states, and each value is replaced by its probability below
    under that model, at random within the probability of a level or of a whole number. The
    quantiles of any other distributions at these probabilities depend on each other as states do.
    """
    for rng, drawn in zip(generators, draw(states.fitted, coded, generators), strict=True):
        out = np.full(coded.shape, np.nan)
        for group in states.fitted.columns:
            for d in group.index.tolist():
                rows = np.flatnonzero(np.isnan(coded[:, d]))
                if not len(rows):
                    continue
                x = drawn[rows, d]
                if d in states.shares:
                    x = x if group.levels is None else np.searchsorted(group.levels, x)
                    cells = LevelCells(rows, states.shares[d][rows], True)
                    ends = cells.below(x - 1), cells.below(x)
                else:
                    below = states.spread(d, rows).below
                    ends = below(x - 1e-9 * np.maximum(np.abs(x), 1.0)), below(x)
                out[rows, d] = ends[0] + rng.random(len(rows)) * (ends[1] - ends[0])
        yield np.clip(out, 1e-9, 1 - 1e-9)
