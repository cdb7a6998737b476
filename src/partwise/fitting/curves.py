"""Regressions of every column on all others, blended with what other models say about its cells.

The regressions take all columns as numbers, their squares and their products. That of numbers is
fitted twice: with missing values as the blend without it imputes them, and then with the values
that the first regression has moved; that of levels is fitted to the latter. The weight of a
regression in each column is chosen on held-out cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from partwise.contracts import Array
from partwise.fitting.held_out import (
    LEAST_CELLS,
    LEAST_LOSS,
    POOLED_CELLS,
    WEIGHTS,
    Losses,
    best_weights,
    of_errors,
    of_probabilities,
)
from partwise.models.level_regression import LevelRegression
from partwise.models.quadratic_features import Moments, QuadraticFeatures
from partwise.models.quadratic_regression import QuadraticRegression
from partwise.typing import SavedState

# Weight of the first regression in the imputed values from which the second one is fitted.
FIRST_WEIGHT = 0.5

# Smallest factor by which the regression may narrow the distribution of a cell.
LEAST_WIDTH = 0.3

# Tables with more columns of numbers have no regression, which takes the third power of these.
MOST_COLUMNS = 1000

# Columns with more levels than this have no regression; nor has any, where logits are more.
MOST_LEVELS, MOST_LOGITS = 32, 400

# Steps of the regression of levels, and when it goes on with other imputed values.
N_STEPS, MORE_STEPS = 6, 3


class Rows(NamedTuple):
    """Complete rows (n, W) of numbers, in which the cells ``missing`` (n, D) were imputed.

    ``weight`` (n,) are the weights of rows, ``owner`` (W,) the columns of the table.
    """

    X: Array
    missing: Array
    weight: Array
    owner: Array


class Told(NamedTuple):
    """What regressions say: expected numbers {place: (n,)}, probabilities {place: (n, V)}."""

    numbers: dict[int, Array]
    shares: dict[int, Array]


@dataclass(frozen=True, eq=False)
class NumberCurves:
    """The regression of T columns of numbers.

    Parameters
    ----------
    regression : QuadraticRegression
    columns, places : arrays of shape (T,), int
        Columns of the table, and where they are among the columns of numbers.
    weight, width : arrays of shape (T,)
        A distribution of the blend is moved by ``weight`` times the difference of the regression
        and its expectation, and has ``width`` times its width.
    """

    regression: QuadraticRegression
    columns: Array
    places: Array
    weight: Array
    width: Array

    @classmethod
    def fitted_to(cls, moments: Moments, columns: Array) -> NumberCurves:
        """Learned from complete rows, not yet weighted."""
        places = np.searchsorted(moments.owner, columns)
        regression = QuadraticRegression.fitted_to(moments, places)
        first = np.full(len(columns), FIRST_WEIGHT)
        return cls(regression, columns, places, first, np.ones(len(columns)))

    def refitted(self, moments: Moments) -> NumberCurves:
        """The same weights, fitted to other rows."""
        return replace(self, regression=QuadraticRegression.fitted_to(moments, self.places))

    def moved(self, X: Array, features: Array, missing: Array) -> Array:
        """Rows (n, W) with the imputed values after the regression."""
        out, places = X.copy(), self.places
        away = self.regression.predict(features) - X[:, places]
        out[:, places] += np.where(missing[:, self.columns], self.weight * away, 0.0)
        return out

    def predict(self, features: Array) -> dict[int, Array]:
        """Expected numbers {place: (n,)}."""
        told = self.regression.predict(features)
        return {int(d): told[:, t] for t, d in enumerate(self.columns)}

    def weighed(
        self, plain: Mapping[int, Array], curved: Mapping[int, Array], weight: Mapping[int, Array],
        power: int,
    ) -> NumberCurves | None:  # fmt: skip
        """With weights and widths chosen on held-out cells; None where it helps no column.

        ``plain`` are the errors of the blend in these cells, true number less expectation, by the
        column's place; ``curved`` are those of the regression, ``weight`` the weights of the rows.
        """
        mixed = {d: own + WEIGHTS[:, None] * (curved[d] - own) for d, own in plain.items()}
        chosen = best_weights({d: of_errors(mixed[d], weight[d], power) for d in mixed})
        own = np.array([chosen.get(d, 0.0) for d in self.columns.tolist()])
        if not own.any():
            return None
        width = np.ones(len(own))
        used = np.flatnonzero(own)
        narrower, n_cells = np.zeros(len(used)), np.zeros(len(used))
        for i, t in enumerate(used):
            d = int(self.columns[t])
            both = plain[d] + own[t] * (curved[d] - plain[d])
            far, before = (np.average(np.abs(e), weights=weight[d]) for e in (both, plain[d]))
            narrower[i] = np.log(max(far, LEAST_LOSS) / max(before, LEAST_LOSS))
            n_cells[i] = weight[d].sum()
        all_alike = np.average(narrower, weights=n_cells)
        lean = (n_cells * narrower + POOLED_CELLS * all_alike) / (n_cells + POOLED_CELLS)
        width[used] = np.clip(np.exp(lean), LEAST_WIDTH, 1.0)
        return replace(self, weight=own, width=width)

    def state(self) -> SavedState:
        """What a file holds."""
        own = {name: getattr(self, name) for name in ("columns", "places", "weight", "width")}
        found = self.regression
        return {**own, "coefficients": found.coefficients, "offset": found.offset}

    @classmethod
    def restored(cls, state: SavedState, features: QuadraticFeatures) -> NumberCurves:
        """The same from what `state` gave."""
        places = state["places"]
        units = features.center[places], features.scale[places]
        regression = QuadraticRegression(state["coefficients"], state["offset"], *units)
        own = (state[name] for name in ("columns", "places", "weight", "width"))
        return cls(regression, *own)


class Codes(NamedTuple):
    """Levels (n, L) of ``columns`` (L,), numbered from 0 of ``n_levels`` (L,), -1 if missing."""

    columns: Array
    values: Array
    n_levels: Array

    def usable(self, weight: Array) -> Codes | None:
        """Those of enough known values and not too many levels, if any."""
        known = (self.values[weight > 0] >= 0).sum(axis=0)
        few = (self.n_levels >= 2) & (self.n_levels <= MOST_LEVELS)
        found = self.some((known >= LEAST_CELLS) & few)
        return found if 0 < (found.n_levels - 1).sum() <= MOST_LOGITS else None

    def some(self, which: Array) -> Codes:
        """Those of some columns."""
        return Codes(self.columns[which], self.values[:, which], self.n_levels[which])


@dataclass(frozen=True, eq=False)
class LevelCurves:
    """The regression of L columns with levels.

    Parameters
    ----------
    regression : LevelRegression
    columns : array of shape (L,), int
    weight : array of shape (L,)
        Of the probabilities of the regression; the others have the rest.
    """

    regression: LevelRegression
    columns: Array
    weight: Array

    @classmethod
    def fitted_to(cls, moments: Moments, codes: Codes) -> LevelCurves:
        """Learned from complete rows, not yet weighted."""
        columns = codes.columns.tolist()
        found = LevelRegression.fitted_to(moments, codes.values, codes.n_levels, columns, N_STEPS)
        return cls(found, codes.columns, np.zeros(len(columns)))

    def refitted(self, moments: Moments, codes: Codes) -> LevelCurves:
        """The same weights, fitted to other rows."""
        own = codes.some(np.isin(codes.columns, self.columns))
        regression = self.regression.refitted(
            moments, own.values, self.columns.tolist(), MORE_STEPS
        )
        return replace(self, regression=regression)

    def predict(self, features: Array) -> dict[int, Array]:
        """Probabilities of levels {place: (n, V)}."""
        return dict(zip(self.columns.tolist(), self.regression.predict(features), strict=True))

    def weighed(
        self, plain: Mapping[int, Array], curved: Mapping[int, Array], weight: Mapping[int, Array]
    ) -> LevelCurves | None:
        """With weights chosen on held-out cells; None where it helps no column.

        ``plain`` are probabilities by the blend of the true levels of these cells, by the column's
        place; ``curved`` are those by the regression, ``weight`` the weights of the rows.
        """
        losses = dict[int, Losses]()
        for d, own in plain.items():
            losses[d] = of_probabilities(own + WEIGHTS[:, None] * (curved[d] - own), weight[d])
        chosen = best_weights(losses)
        found = np.array([chosen.get(d, 0.0) for d in self.columns.tolist()])
        return replace(self, weight=found) if found.any() else None

    def blended(self, d: int, plain: Array, told: Array) -> Array:
        """Probabilities (m, V) of a column with the regression, from those without."""
        return plain + self.weight[self.columns == d] * (told - plain)

    def state(self) -> SavedState:
        """What a file holds."""
        return {**vars(self.regression), "columns": self.columns, "weight": self.weight}

    @classmethod
    def restored(cls, state: SavedState) -> LevelCurves:
        """The same from what `state` gave."""
        own = (state[name] for name in ("n_levels", "coefficients", "offset"))
        return cls(LevelRegression(*own), state["columns"], state["weight"])


@dataclass(frozen=True, eq=False)
class Curves:
    """The regressions of numbers and of levels, and their features."""

    features: QuadraticFeatures
    numbers: NumberCurves | None
    levels: LevelCurves | None

    @classmethod
    def fitted_to(cls, rows: Rows, numbers: Array, codes: Codes) -> Curves | None:
        """Fit to the ``numbers`` among the columns of the table, and to levels; not yet weighted.

        None where columns are too many, or none has enough values.
        """
        n_known = (~rows.missing[rows.weight > 0]).sum(axis=0)
        numbers, usable = numbers[n_known[numbers] >= LEAST_CELLS], codes.usable(rows.weight)
        if not 1 < rows.X.shape[1] <= MOST_COLUMNS or (usable is None and not len(numbers)):
            return None
        features = QuadraticFeatures.of(rows.X, rows.weight, rows.owner)
        moments = Moments(features, rows.X, rows.weight, rows.owner)
        first = NumberCurves.fitted_to(moments, numbers) if len(numbers) else None
        found = cls(features, first, None)
        if first is not None:
            moments = found._moments(rows)
            found = replace(found, numbers=first.refitted(moments))
        return (
            found
            if usable is None
            else replace(found, levels=LevelCurves.fitted_to(moments, usable))
        )

    def refitted(self, rows: Rows, codes: Codes) -> Curves:
        """The same weights, fitted again to imputed values that this regression has moved."""
        moments = self._moments(rows)
        numbers = None if self.numbers is None else self.numbers.refitted(moments)
        levels = None if self.levels is None else self.levels.refitted(moments, codes)
        return replace(self, numbers=numbers, levels=levels)

    def _moments(self, rows: Rows) -> Moments:
        """Moments of rows whose imputed numbers the regression has moved."""
        X = rows.X
        if self.numbers is not None:
            X = self.numbers.moved(X, self.features(X), rows.missing)
        return Moments(self.features, X, rows.weight, rows.owner)

    def predict(self, X: Array, missing: Array) -> Told:
        """Expected numbers, and probabilities of levels, in rows (n, W)."""
        found, numbers, levels = self.features(X), self.numbers, self.levels
        if numbers is not None:
            found = self.features(numbers.moved(X, found, missing))
        return Told(
            {} if numbers is None else numbers.predict(found),
            {} if levels is None else levels.predict(found),
        )

    def state(self) -> SavedState:
        """What a file holds."""
        found: SavedState = dict(vars(self.features))
        if self.numbers is not None:
            found["numbers"] = self.numbers.state()
        if self.levels is not None:
            found["levels"] = self.levels.state()
        return found

    @classmethod
    def restored(cls, state: SavedState) -> Curves:
        """The same from what `state` gave."""
        features = QuadraticFeatures(*(state[name] for name in ("center", "scale", "pairs")))
        numbers = levels = None
        if "numbers" in state:
            numbers = NumberCurves.restored(state["numbers"], features)
        if "levels" in state:
            levels = LevelCurves.restored(state["levels"])
        return cls(features, numbers, levels)
