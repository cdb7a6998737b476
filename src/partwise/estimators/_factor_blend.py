"""A table's numbers by a factor analysis of all its columns, beside what the parts' states tell.

Rows in the same states of all parts still differ, and their numbers may differ together, as points
near a plane do. So all columns of a table (unordered levels as a yes-or-no column each, other
levels by their place) are one part of an `MCFA`, and a missing number is a mean of what it and the
states say. How much each counts in a column is learned from known cells that both have to fill as
if they were missing (both were fitted with them). Columns whose logarithm is modelled are mixed in
logarithms: states tell that of the expectation, factors the expected logarithm, so that what is
filled lies between the expectation and the median.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.contracts import Array
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of, schema_of

# Known cells hidden to see who tells them better: this share of those of this many rows.
HIDDEN = 0.2
MOST_ROWS = 5000


class NumberFactors:
    """What a factor analysis says of numbers, and how much it counts in each column.

    Parameters
    ----------
    levels : array of shape (D,)
        Number of levels of columns that become a column each; 0 of others, -1 of columns that are
        left out.
    numbers : array of shape (D,), bool
        Columns to fill.
    counts : array of shape (D,), bool
        Of these, columns that are never negative.
    factors : MCFA
    share : array of shape (D,)
        How much the factors count.
    """

    def __init__(
        self, levels: Array, numbers: Array, counts: Array, factors: MCFA, share: Array
    ) -> None:
        self.levels = levels
        self.numbers = numbers
        self.counts = counts
        self.factors = factors
        self.share = share

    @classmethod
    def learn(
        cls,
        model: MCVQ,
        by_states: Callable[[Array], Array],
        coded: Array,
        most: int,
        rng: np.random.Generator,
        sample_weight: Array,
    ) -> NumberFactors | None:
        """Fit at most so many factors to rows as numbers (n, D); None if there are no numbers.

        ``model`` knows what the columns are, and ``by_states`` fills rows with holes.
        """
        D = coded.shape[1]
        numbers, counts = np.zeros(D, bool), np.zeros(D, bool)
        levels = np.full(D, -1)
        for group in fitted_of(model).columns:
            law, known = group.likelihood, group.known_levels
            numbers[group.index], counts[group.index] = law.linear, law.counts
            if law.linear or known is not None:
                unordered = schema_of(model) is not None and law.has_levels and not law.ordered
                levels[group.index] = len(known) if unordered and known is not None else 0
        width = int(_widths(levels).sum())
        if not numbers.any() or min(most, width - 1) < 1:
            return None
        factors = MCFA(1, min(most, width - 1), n_jobs=model.n_jobs, random_state=rng)
        found = cls(levels, numbers, counts, factors, np.ones(D))
        factors.fit(found._spread(coded), sample_weight=sample_weight)
        found._weigh(by_states, coded, sample_weight, rng)
        return found

    def _spread(self, coded: Array) -> Array:
        """All columns as numbers: a yes-or-no column for each level that has no order."""
        blocks = []
        for d, n_levels in enumerate(self.levels):
            values = coded[:, d : d + 1]
            if n_levels > 0:
                values = np.where(np.isnan(values), np.nan, values == np.arange(n_levels))
            if n_levels >= 0:
                blocks.append(values)
        return np.hstack(blocks)

    def _tell(self, coded: Array) -> Array:
        """What the factors expect of the numbers of rows, (n, number of numbers)."""
        width = _widths(self.levels)
        first = np.cumsum(width) - width
        told = self.factors.impute(self._spread(coded))[:, first[self.numbers]]
        return np.where(self.counts[self.numbers], np.maximum(told, 0.0), told)

    def _weigh(
        self,
        by_states: Callable[[Array], Array],
        coded: Array,
        weight: Array,
        rng: np.random.Generator,
    ) -> None:
        """Learn shares by weighted least squares over known cells that are filled as if missing."""
        rows = np.sort(rng.permutation(len(coded))[:MOST_ROWS])
        some = coded[rows]
        hidden = (rng.random(some.shape) < HIDDEN) & ~np.isnan(some) & self.numbers
        holed = np.where(hidden, np.nan, some)
        hidden, true = hidden[:, self.numbers], some[:, self.numbers]
        states, factors = by_states(holed)[:, self.numbers], self._tell(holed)
        # In units of the columns' own, a power of two each, which rounds nothing: squares are held.
        unit = np.exp2(
            np.frexp(np.abs(np.where(hidden, true, 0.0)).max(axis=0, initial=0.0))[1] - 1.0
        )
        states, factors, true = states / unit, factors / unit, true / unit
        gain = np.where(hidden, factors - states, 0.0)
        top = weight[rows] @ (gain * np.where(hidden, true - states, 0.0))
        bottom = weight[rows] @ gain**2
        share = np.divide(top, bottom, out=np.full(len(top), 0.5), where=bottom > 0)
        self.share[self.numbers] = np.clip(share, 0.0, 1.0)

    def fill(self, coded: Array, filled: Array) -> Array:
        """``filled`` (n, D) by states, with the factors' share in its numbers."""
        out = filled.copy()
        share = self.share[self.numbers]
        out[:, self.numbers] = (1.0 - share) * out[:, self.numbers] + share * self._tell(coded)
        return out

    def state(self) -> dict[str, Any]:
        """All that is learned, as plain values; `restored` reads them."""
        plain = {name: getattr(self, name) for name in ("levels", "numbers", "counts", "share")}
        return {
            **plain,
            "n_factors": self.factors.n_factors,
            "factors": self.factors.__partwise_state__(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> NumberFactors:
        """The same from what `state` made of it."""
        factors = MCFA(1, int(state["n_factors"]))
        factors.__partwise_restore__(state["factors"])
        return cls(
            state["levels"], state["numbers"].astype(bool), state["counts"].astype(bool), factors,
            state["share"],
        )  # fmt: skip


def _widths(levels: Array) -> Array:
    """How many columns of numbers each column of a table becomes, (D,)."""
    return np.where(levels == 0, 1, np.maximum(levels, 0))
