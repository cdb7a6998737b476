"""Columns of a table: a blend of states, a factor analysis, a copula, and regressions.

Rows in the same states of all parts still differ, and may differ together, as points near a plane
do. So all columns (unordered levels as a yes-or-no column each, other levels by their place) are
one part of an `MCFA` of numbers; and, if asked for, one part of an `MCFA` of latent numbers (a
Gaussian copula). The weights of the three in each column are chosen on held-out cells, hidden from
the fits where rows are few: by the logarithm of the squared or absolute error of numbers, by the
log score of levels. Columns whose logarithm is modeled are blended in logarithms: states and copula
give that of the expectation, the factor analysis the expected logarithm, so that the imputed value
lies between the expectation and the median. Numbers and levels are then moved towards regressions
on all other columns (`partwise.fitting.curves`), as far as that helps with the held-out cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from partwise.answers import copula as copula_answers
from partwise.answers import imputation
from partwise.answers.imputation import Expected, GaussianCells, Spread, StatesCells
from partwise.answers.latent_cells import CellPredictive
from partwise.answers.states import FittedStates
from partwise.contracts import Array
from partwise.fitting.curves import Codes, Curves, Rows, Told
from partwise.fitting.held_out import (
    LEAST_CELLS,
    POOLED_CELLS,
    WEIGHTS,
    Losses,
    best_weights,
    of_errors,
    of_probabilities,
)
from partwise.fitting.number_columns import NumberColumns
from partwise.fitting.one_part import OnePart
from partwise.fitting.options import TrainingRows
from partwise.fitting.residual import Regression, Regressor, fitting_scale
from partwise.models import calibration
from partwise.models.calibration import Calibration, Prior, identity
from partwise.typing import SavedState

# Maximum number of rows in which cells are held out to compare the models. Of up to so many rows
# these cells are hidden from the fits, which then go on with all cells for a few EM iterations;
# where rows are more, a cell hardly changes the parameters.
MOST_COMPARED_ROWS = 5000
MORE_ITERATIONS = 3

# Most factors of the copula, and EM iterations of either: later ones hardly change what is imputed.
COPULA_FACTORS, COPULA_ITERATIONS = 8, 8
MOST_ITERATIONS = 6

# More factors than this for each free column change nothing: noise has the rest.
FACTORS_A_COLUMN = 2 / 3

# Candidate weights of states, factors and copula are multiples of this fraction.
STEPS = 8

# A mixture is wider than its parts, so its calibration leans less on what is uniform than that of
# one model; chosen on the tables `CHOSEN_ON` of the benchmark `tables_rivals`.
PRIOR = Prior(uniform=25.0, pooled=100.0, least=50.0)


CANDIDATES = np.array(
    [(STEPS - i - j, i, j) for i in range(STEPS + 1) for j in range(STEPS + 1 - i)], dtype=float
) / STEPS  # fmt: skip


@dataclass(frozen=True, eq=False)
class Blend:
    """Models of factors besides those of states, and the weights (3, D) of all in each column.

    The rows of ``weights`` are states, factors and copula.
    """

    columns: NumberColumns
    factors: OnePart | None
    copula: OnePart | None
    weights: Array
    calibration: Calibration
    curves: Curves | None = None
    regressions: Mapping[int, Regression] = field(default_factory=dict)

    @classmethod
    def of_states(cls, columns: NumberColumns) -> Blend:
        """States alone."""
        D = len(columns.levels)
        return cls(columns, None, None, np.eye(3)[:, [0] * D], identity(D))

    @classmethod
    def fitted_to(
        cls, fits: Sequence[FittedStates], rows: TrainingRows, most: int, with_copula: bool,
        rng: np.random.Generator, n_jobs: int | None,
    ) -> Blend:  # fmt: skip
        """At most so many factors fitted to coded rows (n, D), not yet weighted."""
        columns = NumberColumns.of(fits[0])
        width, D = int(columns.widths.sum()), len(columns.levels)
        factors = copula = None
        size = min(most, width - 1, math.ceil(FACTORS_A_COLUMN * columns.n_free))
        if size > 0:
            how = size, "covariance", MOST_ITERATIONS, rng.spawn(1)[0], n_jobs
            factors = OnePart.fitted_to(columns.spread_rows(rows), *how)
        latent = [g.known_levels is not None or g.likelihood.linear for g in fits[0].columns]
        with_copula = with_copula and rows.schema is not None and all(latent)
        if with_copula and min(most, D - 1) > 0:
            size = min(most, D - 1, COPULA_FACTORS)
            how = size, "dependence", COPULA_ITERATIONS, rng.spawn(1)[0], n_jobs
            copula = OnePart.fitted_to(rows, *how)
        return replace(cls.of_states(columns), factors=factors, copula=copula)

    def continued(self, rows: TrainingRows) -> Blend:
        """The same models after a few more EM iterations with these rows."""
        factors, copula = self.factors, self.copula
        if factors is not None:
            factors = factors.continued(self.columns.spread_rows(rows), MORE_ITERATIONS)
        if copula is not None:
            copula = copula.continued(rows, MORE_ITERATIONS)
        return replace(self, factors=factors, copula=copula)

    def asked(self, fits: Sequence[FittedStates], coded: Array, n_jobs: int | None) -> Answers:
        """What all models say about the missing cells of rows."""
        nothing = np.full((1, coded.shape[1]), np.nan, coded.dtype)
        rows = np.vstack([coded, nothing])  # all is missing in the last one
        expected = imputation.expected(fits, rows, n_jobs)
        shares = {d: own[:-1] for d, own in expected.shares.items()}
        states = Expected(expected.numbers[:-1], shares)
        linear, cells = None, {}
        if self.factors is not None:
            before = {d: own[-1] for d, own in expected.shares.items()}
            linear = self._linear(fits[0], rows, before, n_jobs)
        if self.copula is not None:
            missing = np.isnan(coded)
            cells = copula_answers.predictive(self.copula.fitted, coded, missing, n_jobs)
        return Answers(self, fits, coded, states, linear, cells)

    def _linear(
        self, fitted: FittedStates, rows: Array, before: Mapping[int, Array], n_jobs: int | None
    ) -> LinearCells:
        """What the factor analysis says of all but the last of the rows, in which all is missing.

        ``before`` are the shares of levels in that one.
        """
        assert self.factors is not None
        width = self.columns.widths
        start = np.cumsum(width) - width
        told = imputation.of_factors(self.factors.fitted, self.columns.spread(rows), n_jobs)
        first, shares = np.minimum(start, width.sum() - 1), {}
        for group in fitted.columns:
            for d in group.index[width[group.index] > 0].tolist():
                if d in before:
                    values = np.ones(1) if self.columns.levels[d] else group.known_levels
                    assert values is not None
                    own = told.columns(slice(start[d], start[d] + width[d]))
                    shares[d] = imputation.level_shares_of(own, before[d], values)
        mean = told.mean[:-1, first]
        mean = np.where(self.columns.counts, np.maximum(mean, 0.0), mean)
        return LinearCells(GaussianCells(mean, told.deviation[:-1, first]), shares)

    def weighted(
        self, fits: Sequence[FittedStates], coded: Array, hidden: Array, weight: Array, loss: str
    ) -> Blend:
        """The blend with weights and calibration by held-out cells of rows (n, D)."""
        answers = self.asked(fits, np.where(hidden, np.nan, coded), None)
        numbers, D = self.columns.numbers, len(self.columns.levels)
        total, own = np.zeros((2, len(CANDIDATES))), {}
        for d in range(D):
            rows = np.flatnonzero(hidden[:, d])
            told = answers.told(d, rows) if len(rows) else None
            if told is None:
                continue
            usable, true = ~np.isnan(told[:, 0].reshape(3, -1)).any(axis=1), coded[rows, d]
            allowed = (CANDIDATES[:, ~usable] == 0).all(axis=1)
            mixed = np.tensordot(CANDIDATES, np.nan_to_num(told), axes=1)  # (G, m) or (G, m, V)
            if numbers[d]:
                errors = (mixed - true) / (float(np.std(true)) or 1.0)
                summed, n_cells = of_errors(errors, weight[rows], power_of(loss))
            else:
                p = mixed[:, np.arange(len(rows)), answers.codes(d, true)]
                summed, n_cells = of_probabilities(p, weight[rows])
            total[int(numbers[d])] += np.where(allowed, summed, np.inf)
            own[d] = summed, n_cells, allowed
        counts = [sum(n for d, (_, n, _) in own.items() if numbers[d] == kind) for kind in (0, 1)]
        weights = self.weights.copy()
        for d, (summed, _, allowed) in own.items():
            kind = int(numbers[d])
            pooled = total[kind] / max(counts[kind], 1e-300)
            chosen = np.where(allowed, summed + POOLED_CELLS * np.minimum(pooled, 1e9), np.inf)
            weights[:, d] = CANDIDATES[int(chosen.argmin())]
        found = replace(
            self,
            weights=weights,
            factors=self.factors if weights[1].any() else None,
            copula=self.copula if weights[2].any() else None,
        )
        answers = answers.with_blend(found)
        found = found._curved(answers, coded, hidden, weight, loss)
        return replace(found, calibration=found.calibrated(answers, coded, hidden, weight))

    def _curved(
        self, answers: Answers, coded: Array, hidden: Array, weight: Array, loss: str
    ) -> Blend:
        """The blend with regressions on all other columns, where they help with held-out cells."""
        numbers = np.flatnonzero(self.columns.numbers)
        curves = Curves.fitted_to(answers.learnable(weight), numbers, answers.levels)
        if curves is None:
            return self
        told = curves.predict(*answers.imputed)
        plain: tuple[dict[int, Array], dict[int, Array]] = ({}, {})
        curved: tuple[dict[int, Array], dict[int, Array]] = ({}, {})
        of_rows = dict[int, Array]()
        for kind, found in enumerate(told):
            for d, own in found.items():
                rows = np.flatnonzero(hidden[:, d])
                blended = answers.plain(d, rows)
                if not len(rows) or blended is None:
                    continue
                true, of_rows[d] = coded[rows, d], weight[rows]
                if kind == 0:
                    unit = float(np.std(true)) or 1.0
                    plain[0][d], curved[0][d] = (true - blended) / unit, (true - own[rows]) / unit
                else:
                    at = np.arange(len(rows)), answers.codes(d, true)
                    plain[1][d], curved[1][d] = blended[at], own[rows][at]
        of_numbers, of_levels = curves.numbers, curves.levels
        if of_numbers is not None:
            of_numbers = of_numbers.weighed(plain[0], curved[0], of_rows, power_of(loss))
        if of_levels is not None:
            of_levels = of_levels.weighed(plain[1], curved[1], of_rows)
        if of_numbers is None and of_levels is None:
            return self
        return replace(self, curves=replace(curves, numbers=of_numbers, levels=of_levels))

    def refitted(self, answers: Answers, weight: Array) -> Blend:
        """The same with the quadratic regression fitted again, to all cells of rows."""
        if self.curves is None:
            return self
        return replace(self, curves=self.curves.refitted(answers.learnable(weight), answers.levels))

    def with_regressions(
        self,
        make: Callable[[], Regressor],
        fits: Sequence[FittedStates],
        coded: Array,
        hidden: Array,
        weight: Array,
        loss: str,
    ) -> Blend:
        """The blend with a regression of numbers, weighted by held-out cells of rows (n, D)."""
        shown = np.where(hidden, np.nan, coded)
        answers = self.asked(fits, shown, None)
        found, losses, of_rows = {}, dict[int, Losses](), {}
        for d in np.flatnonzero(self.columns.numbers & hidden.any(axis=0)).tolist():
            inputs = self.columns.others(d)
            if not len(inputs) or (~np.isnan(shown[:, d])).sum() < LEAST_CELLS:
                continue
            rows, true = np.flatnonzero(hidden[:, d]), coded[hidden[:, d], d]
            found[d] = Regression.of(make, answers.features, shown[:, d], inputs)
            blended = answers.blended(d, rows)
            assert blended is not None
            told = WEIGHTS[:, None] * found[d].shift(answers.features[rows], blended)
            errors = (blended + told - true) / (float(np.std(true)) or 1.0)
            of_rows[d] = weight[rows]
            losses[d] = of_errors(errors, of_rows[d], power_of(loss))
        chosen = best_weights(losses)
        found = {d: replace(own, weight=chosen[d]) for d, own in found.items() if chosen[d] > 0}
        for d in list(found):
            rows = np.flatnonzero(hidden[:, d])

            def below(scale: float, d: int = d, rows: Array = rows) -> Array:
                own = replace(self, regressions={d: replace(found[d], scale=scale)})
                told = replace(answers, blend=own).spread(d, rows)
                return told.below(coded[rows, d].astype(float))

            found[d] = replace(found[d], scale=fitting_scale(below, of_rows[d]))
        blend = replace(self, regressions=found)
        return replace(blend, calibration=blend.calibrated(answers, coded, hidden, weight))

    def with_refits(self, make: Callable[[], Regressor], answers: Answers) -> Blend:
        """The same with regressions fitted again, to all cells of rows."""
        X, found = answers.features, {}
        for d, old in self.regressions.items():
            new = Regression.of(make, X, answers.coded[:, d], old.inputs)
            found[d] = replace(old, model=new.model)
        return replace(self, regressions=found)

    def calibrated(
        self, answers: Answers, coded: Array, hidden: Array, weight: Array
    ) -> Calibration:
        """Corrections of probabilities by those of held-out numbers."""
        answers, pit, column, row = answers.with_blend(self), [], [], []
        for d in np.flatnonzero(self.columns.numbers & hidden.any(axis=0)):
            rows = np.flatnonzero(hidden[:, d])
            pit.append(answers.spread(int(d), rows).below(coded[rows, d].astype(float)))
            column.append(np.full(len(rows), d))
            row.append(rows)
        if not pit:
            return self.calibration
        cells = [np.concatenate(field) for field in (pit, column, row)]
        D = len(self.columns.levels)
        return calibration.learn(cells[0], cells[1], weight[cells[2]], D, PRIOR)

    def state(self) -> SavedState:
        """What a file holds."""
        columns = {name: getattr(self.columns, name) for name in ("levels", "numbers", "counts")}
        found: SavedState = {**columns, "weights": self.weights}
        found["calibration"] = {"knots": self.calibration.knots, "map_of": self.calibration.map_of}
        if self.curves is not None:
            found["curves"] = self.curves.state()
        for name, model in (("factors", self.factors), ("copula", self.copula)):
            if model is not None:
                found |= {f"n_{name}": model.n_factors, name: model.state()}
        return found

    @classmethod
    def restored(cls, state: SavedState, columns: NumberColumns) -> Blend:
        """The same from what `state` gave, of the columns of a model."""
        found: dict[str, OnePart | None] = {"factors": None, "copula": None}
        for name in found:
            if name in state:
                found[name] = OnePart.restored(state[name], int(state[f"n_{name}"]))
        weights, D = state.get("weights"), len(columns.levels)
        if weights is None:  # files of before the copula hold the factors' share in numbers
            share = np.where(columns.numbers, state["share"], 0.0)
            weights = np.stack([1.0 - share, share, np.zeros(D)])
        known = state.get("calibration")
        corrections = identity(D) if known is None else Calibration(**known)
        curves = Curves.restored(state["curves"]) if "curves" in state else None
        return cls(columns, found["factors"], found["copula"], weights, corrections, curves)


class LinearCells(NamedTuple):
    """Cells by a factor analysis: numbers (n, D), and of columns with levels {place: (n, V)}."""

    numbers: GaussianCells
    shares: dict[int, Array]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models of a blend say about the missing cells of coded rows (n, D)."""

    blend: Blend
    fits: Sequence[FittedStates]
    coded: Array
    states: Expected
    linear: LinearCells | None
    copula: Mapping[int, CellPredictive]

    def told(self, d: int, rows: Array) -> Array | None:
        """Expectations (3, m) or probabilities of levels (3, m, V) of cells; NaN of no model."""
        if d in self.states.shares:
            of_states = self.states.shares[d][rows]
        elif self.blend.columns.numbers[d]:
            of_states = self.states.numbers[rows, d]
        else:
            return None
        out = np.full((3, *of_states.shape), np.nan)
        out[0] = of_states
        if self.linear is not None and self.blend.columns.numbers[d]:
            out[1] = self.linear.numbers.mean[rows, d]
        elif self.linear is not None and d in self.linear.shares:
            out[1] = self.linear.shares[d][rows]
        cells = self._cells(d, rows)
        if cells is not None:
            out[2] = cells.probabilities() if cells.n_levels else cells.mean()
        return out

    def _cells(self, d: int, rows: Array) -> CellPredictive | None:
        """The copula's distribution, where it has the same cells."""
        cells = self.copula.get(d)
        if cells is None or not np.isin(rows, cells.rows).all():
            return None
        return cells.some(np.searchsorted(cells.rows, rows))

    def codes(self, d: int, values: Array) -> Array:
        """Numbers of levels of column d."""
        group = next(group for group in self.fits[0].columns if d in group.index)
        found = values if group.levels is None else np.searchsorted(group.levels, values)
        return found.astype(np.int64)

    def blended(self, d: int, rows: Array) -> Array | None:
        """Expectations (m,) or probabilities of levels (m, V) of the blend."""
        found = self.plain(d, rows)
        if found is None:
            return None
        found = self._moved(d, rows, found)
        own = self.blend.regressions.get(d)
        return found if own is None else found + own.shift(self.features[rows], found)

    def plain(self, d: int, rows: Array) -> Array | None:
        """The same without regressions."""
        told = self.told(d, rows)
        if told is None:
            return None
        return np.asarray(np.tensordot(self.blend.weights[:, d], np.nan_to_num(told), axes=1))

    def _moved(self, d: int, rows: Array, plain: Array) -> Array:
        """Expectations or probabilities with the regressions on other columns."""
        curves = self.blend.curves
        if curves is not None and d in self._curves.shares:
            assert curves.levels is not None
            return curves.levels.blended(d, plain, self._curves.shares[d][rows])
        if curves is not None and d in self._curves.numbers:
            assert curves.numbers is not None
            told = self._curves.numbers[d][rows]
            if self.blend.columns.counts[d]:
                told = np.maximum(told, 0.0)
            return plain + curves.numbers.weight[curves.numbers.columns == d] * (told - plain)
        return plain

    @cached_property
    def _curves(self) -> Told:
        """What the regressions on all other columns say about every row."""
        assert self.blend.curves is not None
        return self.blend.curves.predict(*self.imputed)

    @cached_property
    def levels(self) -> Codes:
        """Levels of all columns that have some."""
        columns = sorted(self.states.shares)
        values = np.full((len(self.coded), len(columns)), -1)
        for i, d in enumerate(columns):
            known = ~np.isnan(self.coded[:, d])
            values[known, i] = self.codes(d, self.coded[known, d])
        n_levels = [self.states.shares[d].shape[1] for d in columns]
        return Codes(np.array(columns, np.intp), values, np.array(n_levels, np.intp))

    def with_blend(self, blend: Blend) -> Answers:
        """The same of other weights or regressions of the same models."""
        new, known = replace(self, blend=blend), vars(self)
        # What does not depend on the change need not be computed again.
        kept = ["_posteriors", *(["features"] if blend.weights is self.blend.weights else [])]
        vars(new).update({name: known[name] for name in kept if name in known})
        return new

    @cached_property
    def features(self) -> Array:
        """All columns as numbers, imputed without regressions; (n, W)."""
        plain = self.with_blend(replace(self.blend, curves=None, regressions={}))
        known = np.where(np.isnan(self.coded), plain.values("squared"), self.coded)
        return self.blend.columns.spread(known).astype(float)

    @property
    def imputed(self) -> tuple[Array, Array]:
        """The `features`, and which cells of the table (n, D) are imputed there."""
        return self.features, np.isnan(self.coded)

    def learnable(self, weight: Array) -> Rows:
        """The same for a regression, with the weights of rows and the columns of the features."""
        return Rows(*self.imputed, weight, self.blend.columns.owner)

    @cached_property
    def _posteriors(self) -> list[StatesCells]:
        return [imputation.of_states(fitted, self.coded) for fitted in self.fits]

    def spread(self, d: int, rows: Array) -> Spread:
        """Distribution of numbers of column d."""
        weight, n = self.blend.weights[:, d], len(self.fits)
        parts = [(weight[0] / n, one.spread(d, rows)) for one in self._posteriors]
        if self.linear is not None:
            parts.append((weight[1], self.linear.numbers.spread(d, rows)))
        cells = self._cells(d, rows)
        if cells is not None and not cells.n_levels:
            parts.append((weight[2], imputation.of_cells(cells)))
        found, curves, own = imputation.mixture(parts), self.blend.curves, self.blend.regressions
        if curves is None and d not in own:
            return found
        center = self.plain(d, rows)
        assert center is not None
        if curves is not None and curves.numbers is not None and d in self._curves.numbers:
            by = self._moved(d, rows, center) - center
            width = float(curves.numbers.width[curves.numbers.columns == d][0])
            found, center = imputation.moved(found, center, by, width), center + by
        if d in own:
            by = own[d].shift(self.features[rows], center)
            found = imputation.moved(found, center, by, own[d].scale)
        return found

    def shares(self) -> dict[int, Array]:
        """Probability of levels in every row {place: (n, V)}; of observed cells those of states."""
        out = {}
        for d, own in self.states.shares.items():
            rows = np.flatnonzero(np.isnan(self.coded[:, d]))
            out[d] = own.copy()
            if len(rows):
                found = self.blended(d, rows)
                assert found is not None
                out[d][rows] = found
        return out

    def values(self, loss: str) -> Array:
        """Imputed values of every entry (n, D): as of states where nothing is missing."""
        shares = self.shares()
        found = imputation.Expected(self.states.numbers, shares)
        out = imputation.likely(self.fits[0], found)
        for d in np.flatnonzero(self.blend.columns.numbers).tolist():
            rows = np.flatnonzero(np.isnan(self.coded[:, d]))
            if len(rows) and loss == "absolute":
                out[rows, d] = self.spread(d, rows).quantile(np.full(len(rows), 0.5))
            elif len(rows):
                out[rows, d] = self.blended(d, rows)
        return out

    def quantiles(self, p: Array) -> Array:
        """Quantiles p (n, D) of missing cells, NaN elsewhere; of levels in their order."""
        out = np.full(self.coded.shape, np.nan)
        shares = self.shares()
        for d in np.flatnonzero(np.isnan(self.coded).any(axis=0)).tolist():
            rows = np.flatnonzero(np.isnan(self.coded[:, d]))
            if d in shares:
                above = np.cumsum(shares[d][rows], axis=1)
                code = (above < p[rows, d][:, None] * above[:, -1:]).sum(axis=1)
                group = next(group for group in self.fits[0].columns if d in group.index)
                code = np.minimum(code, above.shape[1] - 1)
                out[rows, d] = code if group.levels is None else group.levels[code]
            elif self.blend.columns.numbers[d]:
                out[rows, d] = self.spread(d, rows).quantile(p[rows, d])
        return out

    def interval(self, tail: float) -> tuple[Array, Array]:
        """Ends of intervals of missing cells, with probability ``tail`` beyond each, (n, D)."""
        ordered = self.blend.columns.numbers.copy()
        for group in self.fits[0].columns:
            ordered[group.index] |= group.likelihood.ordered or not group.likelihood.has_levels
        ends = []
        for p in (tail, 1.0 - tail):
            asked = np.full(len(ordered), p)
            numbers = self.blend.columns.numbers
            asked[numbers] = calibration.correct(self.blend.calibration, p)[numbers]
            found = self.quantiles(np.broadcast_to(asked, self.coded.shape))
            ends.append(np.where(ordered, found, np.nan))
        return ends[0], ends[1]

    def samples(self, generators: Sequence[np.random.Generator]) -> Iterator[Array]:
        """Missing cells (n, D) sampled from the blend, one table per generator."""
        at = imputation.uniforms(self._posteriors[0], self.coded, generators)
        return (self.quantiles(p) for p in at)


def power_of(loss: str) -> int:
    """Power of errors that a loss of numbers sums."""
    return 1 if loss == "absolute" else 2
