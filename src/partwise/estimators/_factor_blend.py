"""A table's numbers by a factor analysis of all its columns, beside what the parts' states tell.

Rows in the same states of all parts still differ, and their numbers may differ together, as points
near a plane do. So all columns of a table (unordered levels as a yes-or-no column each, other
levels by their place) are one part of an `MCFA`, and a missing number is a mean of what it and the
states say. How much each counts in a column is learned from known cells that both have to fill as
if they were missing (both were fitted with them). Columns whose logarithm is modeled are mixed in
logarithms: states tell that of the expectation, factors the expected logarithm, so that what is
filled lies between the expectation and the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.answers import factors, imputation
from partwise.answers.states import FittedStates
from partwise.contracts import Array
from partwise.estimators._gated import fit_coded
from partwise.estimators.mcfa import MCFA
from partwise.fitted import fitted_of
from partwise.fitting.options import TrainingRows

# Known cells hidden to see who tells them better: this share of those of this many rows.
HIDDEN = 0.2
MOST_ROWS = 5000


@dataclass(frozen=True, eq=False)
class NumberColumns:
    """What the columns of a table are to a factor analysis, as a model of the table tells.

    Parameters
    ----------
    levels : array of shape (D,)
        Number of levels of columns that become a column each; 0 of others, -1 of columns that are
        left out.
    numbers : array of shape (D,), bool
        Columns to fill.
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
    """What a factor analysis says of numbers, and how much it counts in each column, (D,)."""

    columns: NumberColumns
    factors: MCFA
    share: Array

    @classmethod
    def learn(
        cls,
        fits: Sequence[FittedStates],
        coded: Array,
        most: int,
        rng: np.random.Generator,
        sample_weight: Array,
        n_jobs: int | None,
    ) -> NumberFactors | None:
        """Fit at most so many factors to rows as numbers (n, D); None if there are no numbers.

        ``fits`` know what the columns are, and fill rows with holes by their states.
        """
        columns = NumberColumns.of(fits[0])
        width = int(columns.widths.sum())
        if not columns.numbers.any() or min(most, width - 1) < 1:
            return None
        factors = MCFA(1, min(most, width - 1), n_jobs=n_jobs, random_state=rng)
        kept = sample_weight > 0
        X = columns.spread(coded[kept])
        factors = fit_coded(factors, TrainingRows(X, sample_weight[kept], kept))
        alone = cls(columns, factors, columns.numbers.astype(float))
        return cls(columns, factors, alone._shares(fits, coded, sample_weight, rng, n_jobs))

    def _tell(self, coded: Array, n_jobs: int | None) -> Array:
        """What the factors expect of the numbers of rows, (n, number of numbers)."""
        columns, width = self.columns, self.columns.widths
        first = np.cumsum(width) - width
        X = columns.spread(coded)
        expected = factors.impute(fitted_of(self.factors), X, n_jobs)
        told = np.where(np.isnan(X), expected, X)[:, first[columns.numbers]]
        return np.where(columns.counts[columns.numbers], np.maximum(told, 0.0), told)

    def _shares(
        self,
        fits: Sequence[FittedStates],
        coded: Array,
        weight: Array,
        rng: np.random.Generator,
        n_jobs: int | None,
    ) -> Array:
        """Shares by weighted least squares over known cells that are filled as if missing."""
        numbers = self.columns.numbers
        rows = np.sort(rng.permutation(len(coded))[:MOST_ROWS])
        some = coded[rows]
        hidden = (rng.random(some.shape) < HIDDEN) & ~np.isnan(some) & numbers
        holed = np.where(hidden, np.nan, some)
        hidden, true = hidden[:, numbers], some[:, numbers]
        states = imputation.told(fits, holed, n_jobs).numbers[:, numbers]
        factors = self._tell(holed, n_jobs)
        # In units of the columns' own, a power of two each, which rounds nothing: squares are held.
        unit = np.exp2(
            np.frexp(np.abs(np.where(hidden, true, 0.0)).max(axis=0, initial=0.0))[1] - 1.0
        )
        states, factors, true = states / unit, factors / unit, true / unit
        gain = np.where(hidden, factors - states, 0.0)
        top = weight[rows] @ (gain * np.where(hidden, true - states, 0.0))
        bottom = weight[rows] @ gain**2
        share = np.divide(top, bottom, out=np.full(len(top), 0.5), where=bottom > 0)
        out = np.ones(len(numbers))
        out[numbers] = np.clip(share, 0.0, 1.0)
        return out

    def fill(self, coded: Array, filled: Array, n_jobs: int | None) -> Array:
        """``filled`` (n, D) by states, with the factors' share in its numbers."""
        out, numbers = filled.copy(), self.columns.numbers
        share = self.share[numbers]
        out[:, numbers] = (1.0 - share) * out[:, numbers] + share * self._tell(coded, n_jobs)
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
