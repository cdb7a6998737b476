"""The columns of a table as numbers, as a factor analysis and regressions see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.answers.states import FittedStates
from partwise.contracts import Array
from partwise.data import RowSource
from partwise.data.rows import Rows
from partwise.fitting.options import TrainingRows


@dataclass(frozen=True, eq=False)
class NumberColumns:
    """Which columns of a table become which columns of numbers.

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

    @property
    def owner(self) -> Array:
        """Which column of the table each column of numbers is, or is a level of."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @property
    def n_free(self) -> int:
        """Number of these that the others do not determine: of V levels V - 1."""
        return int(np.where(self.levels == 0, 1, np.maximum(self.levels - 1, 0)).sum())

    def others(self, d: int) -> Array:
        """Places of the columns of numbers that are not those of column d."""
        return np.flatnonzero(self.owner != d)

    def spread_rows(self, rows: TrainingRows) -> TrainingRows:
        """The rows with all columns as numbers."""
        if isinstance(rows.X, RowSource):
            width = int(self.widths.sum())
            X: Rows = rows.X.mapped(lambda some: self.spread(np.asarray(some)), width)
        else:
            X = self.spread(np.asarray(rows.X))
        return TrainingRows(X, rows.weight, rows.kept)

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
