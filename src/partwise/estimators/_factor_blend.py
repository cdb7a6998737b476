"""Numeric columns of a table: a blend of the state model and a factor analysis of all columns.

Rows in the same states of all parts still differ, and their numbers may differ together, as points
near a plane do. So all columns of a table (unordered levels as a yes-or-no column each, other
levels by their place) are one part of an `MCFA`, and a missing number is a weighted mean of its
expectation and that of the states. The weight of each column is estimated on observed cells that
both models impute as if they were missing (both were fitted with them). Columns whose logarithm is
modeled are blended in logarithms: states give that of the expectation, factors the expected
logarithm, so that the imputed value lies between the expectation and the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.answers import factors, imputation
from partwise.answers.states import FittedStates
from partwise.contracts import Array
from partwise.data import RowSource
from partwise.data.rows import Rows
from partwise.estimators._gated import fit_coded
from partwise.estimators.mcfa import MCFA
from partwise.fitted import fitted_of
from partwise.fitting.options import TrainingRows

# Fraction of observed cells, and maximum number of rows, held out to compare the two models.
HELD_OUT = 0.2
MOST_COMPARED_ROWS = 5000

# EM iterations of the factors: later ones hardly change what is imputed.
MOST_ITERATIONS = 25


@dataclass(frozen=True, eq=False)
class NumberColumns:
    """The columns of a table as a factor analysis sees them.

    Parameters
    ----------
    levels : array of shape (D,)
        Number of levels of columns that become a column each; 0 of others, -1 of columns that are
        left out.
    numbers : array of shape (D,), bool
        Columns to impute.
    counts : array of shape (D,), bool
        Of these, columns that are never negative.
    """

    levels: Array
    numbers: Array
    counts: Array

    @classmethod
    def of(cls, fitted: FittedStates) -> NumberColumns:
        """The columns of a fitted model."""
        D = fitted.n_columns
        numbers, counts, levels = np.zeros(D, bool), np.zeros(D, bool), np.full(D, -1)
        for group in fitted.columns:
            law, known = group.likelihood, group.known_levels
            numbers[group.index], counts[group.index] = law.linear, law.counts
            if law.linear or known is not None:
                unordered = fitted.schema is not None and law.has_levels and not law.ordered
                levels[group.index] = len(known) if unordered and known is not None else 0
        return cls(levels, numbers, counts)

    @property
    def widths(self) -> Array:
        """How many columns of numbers each column of the table becomes, (D,)."""
        return np.where(self.levels == 0, 1, np.maximum(self.levels, 0))

    def spread(self, coded: Array) -> Array:
        """All columns as numbers: a yes-or-no column for each level that has no order."""
        blocks = []
        for d, n_levels in enumerate(self.levels):
            values = coded[:, d : d + 1]
            if n_levels > 0:
                values = np.where(np.isnan(values), np.nan, values == np.arange(n_levels))
            if n_levels >= 0:
                blocks.append(values)
        return np.hstack(blocks)


@dataclass(frozen=True, eq=False)
class NumberFactors:
    """A factor analysis of the columns, and its weight in each numeric column, (D,)."""

    columns: NumberColumns
    factors: MCFA
    share: Array

    @classmethod
    def learn(
        cls,
        fits: Sequence[FittedStates],
        rows: TrainingRows,
        most: int,
        rng: np.random.Generator,
        n_jobs: int | None,
    ) -> NumberFactors | None:
        """Fit at most so many factors to coded rows (n, D); None if there are no numbers.

        ``fits`` know the columns, and impute rows by their states.
        """
        columns = NumberColumns.of(fits[0])
        width = int(columns.widths.sum())
        if not columns.numbers.any() or min(most, width - 1) < 1:
            return None
        factors = MCFA(
            1, min(most, width - 1), max_iter=MOST_ITERATIONS, n_jobs=n_jobs, random_state=rng
        )
        if isinstance(rows.X, RowSource):
            X: Rows = rows.X.mapped(lambda some: columns.spread(np.asarray(some)), width)
        else:
            X = columns.spread(np.asarray(rows.X))
        factors = fit_coded(factors, TrainingRows(X, rows.weight, rows.kept))
        alone = cls(columns, factors, columns.numbers.astype(float))
        return cls(columns, factors, alone.held_out_shares(fits, rows, rng, n_jobs))

    def _expected(self, coded: Array, n_jobs: int | None) -> Array:
        """Numbers that the factors expect of rows, (n, number of numeric columns)."""
        columns, width = self.columns, self.columns.widths
        first = np.cumsum(width) - width
        X = columns.spread(coded)
        expected = factors.impute(fitted_of(self.factors), X, n_jobs)
        told = np.where(np.isnan(X), expected, X)[:, first[columns.numbers]]
        return np.where(columns.counts[columns.numbers], np.maximum(told, 0.0), told)

    def held_out_shares(
        self,
        fits: Sequence[FittedStates],
        rows: TrainingRows,
        rng: np.random.Generator,
        n_jobs: int | None,
    ) -> Array:
        """Shares by weighted least squares over held-out cells."""
        numbers = self.columns.numbers
        which = np.sort(rng.permutation(len(rows.weight))[:MOST_COMPARED_ROWS])
        some, weight = np.asarray(rows.X[which]), rows.weight[which]
        hidden = (rng.random(some.shape) < HELD_OUT) & ~np.isnan(some) & numbers
        holed = np.where(hidden, np.nan, some)
        hidden, true = hidden[:, numbers], some[:, numbers]
        states = imputation.expected(fits, holed, n_jobs).numbers[:, numbers]
        factors = self._expected(holed, n_jobs)
        # In units of the columns' own, a power of two each, which rounds nothing: squares are held.
        unit = np.exp2(
            np.frexp(np.abs(np.where(hidden, true, 0.0)).max(axis=0, initial=0.0))[1] - 1.0
        )
        states, factors, true = states / unit, factors / unit, true / unit
        gain = np.where(hidden, factors - states, 0.0)
        top = weight @ (gain * np.where(hidden, true - states, 0.0))
        bottom = weight @ gain**2
        share = np.divide(top, bottom, out=np.full(len(top), 0.5), where=bottom > 0)
        out = np.ones(len(numbers))
        out[numbers] = np.clip(share, 0.0, 1.0)
        return out

    def blend(self, coded: Array, filled: Array, n_jobs: int | None) -> Array:
        """``filled`` (n, D), imputed by states, with the factors' share in its numbers."""
        out, numbers = filled.copy(), self.columns.numbers
        share = self.share[numbers]
        out[:, numbers] = (1.0 - share) * out[:, numbers] + share * self._expected(coded, n_jobs)
        return out

    def state(self) -> dict[str, Any]:
        """What a file holds; the columns too, as files did before."""
        columns = {name: getattr(self.columns, name) for name in ("levels", "numbers", "counts")}
        size = {"n_factors": self.factors.n_factors, "factors": self.factors.__partwise_state__()}
        return {**columns, "share": self.share, **size}

    @classmethod
    def restored(cls, state: dict[str, Any], columns: NumberColumns) -> NumberFactors:
        """The same from what `state` gave, of the columns of a model."""
        factors = MCFA(1, int(state["n_factors"]))
        factors.__partwise_restore__(state["factors"])
        return cls(columns, factors, state["share"])
