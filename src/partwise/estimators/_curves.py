"""Curved dependence of numbers: a quadratic regression on all other columns, blended with the rest.

The regression takes all columns as numbers. It is fitted twice: with missing values as the blend
without it imputes them, and then with the values that the first regression has moved. Its weight in
each column is chosen on held-out cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from partwise.contracts import Array
from partwise.estimators._residual import (
    LEAST_CELLS,
    LEAST_LOSS,
    POOLED_CELLS,
    WEIGHTS,
    best_weights,
)
from partwise.models.quadratic_regression import QuadraticRegression
from partwise.typing import SavedState

# Weight of the first regression in the imputed values from which the second one is fitted.
FIRST_WEIGHT = 0.5

# Smallest factor by which the regression may narrow the distribution of a cell.
LEAST_WIDTH = 0.3

# Tables with more columns of numbers have no regression, which takes the third power of these.
MOST_COLUMNS = 1000


@dataclass(frozen=True, eq=False)
class Curves:
    """The regression of columns ``targets`` (T,), its weights, and widths of distributions with it.

    Parameters
    ----------
    regression : QuadraticRegression
        Of all columns as numbers.
    targets : array of shape (T,), int
        Columns of the table.
    weight, width : arrays of shape (T,)
        A distribution of the blend is moved by ``weight`` times the difference of the regression
        and its expectation, and has ``width`` times its width.
    """

    regression: QuadraticRegression
    targets: Array
    weight: Array
    width: Array

    @classmethod
    def fitted_to(
        cls, X: Array, missing: Array, weight: Array, owner: Array, targets: Array
    ) -> Curves | None:
        """Fit to complete rows (n, W) of numbers; the cells ``missing`` (n, D) were imputed.

        None where columns are too many, or none has enough values.
        """
        targets = targets[(~missing[weight > 0][:, targets]).sum(axis=0) >= LEAST_CELLS]
        if not len(targets) or not 1 < X.shape[1] <= MOST_COLUMNS:
            return None
        places = np.searchsorted(owner, targets)
        regression = QuadraticRegression.fitted_to(X, weight, owner, places)
        first = np.full(len(targets), FIRST_WEIGHT)
        return cls(regression, targets, first, np.ones(len(targets))).refitted(
            X, missing, weight, owner
        )

    def refitted(self, X: Array, missing: Array, weight: Array, owner: Array) -> Curves:
        """The same weights, fitted again to imputed values that this regression has moved."""
        moved = self._moved(X, missing)
        places = self.regression.targets
        return replace(self, regression=QuadraticRegression.fitted_to(moved, weight, owner, places))

    def _moved(self, X: Array, missing: Array) -> Array:
        """Rows (n, W) with the imputed values after the regression."""
        out, places = X.copy(), self.regression.targets
        away = self.regression.predict(X) - X[:, places]
        out[:, places] += np.where(missing[:, self.targets], self.weight * away, 0.0)
        return out

    def predict(self, X: Array, missing: Array) -> dict[int, Array]:
        """Expected numbers of the targets' columns {place: (n,)} in rows (n, W)."""
        told = self.regression.predict(self._moved(X, missing))
        return {int(d): told[:, t] for t, d in enumerate(self.targets)}

    def weighed(
        self,
        plain: Mapping[int, Array],
        curved: Mapping[int, Array],
        weight: Mapping[int, Array],
        power: int,
    ) -> Curves | None:
        """With weights and widths chosen on held-out cells; None where it helps no column.

        ``plain`` are the errors of the blend in these cells, true number less expectation, by the
        column's place; ``curved`` are those of the regression, ``weight`` the weights of the rows.
        """
        mixed = {d: own + WEIGHTS[:, None] * (curved[d] - own) for d, own in plain.items()}
        chosen = best_weights(mixed, weight, power)
        own = np.array([chosen.get(d, 0.0) for d in self.targets.tolist()])
        if not own.any():
            return None
        width = np.ones(len(own))
        used = np.flatnonzero(own)
        narrower, n_cells = np.zeros(len(used)), np.zeros(len(used))
        for i, t in enumerate(used):
            d = int(self.targets[t])
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
        own = ("center", "scale", "pairs", "coefficients", "offset", "targets")
        found: SavedState = {name: getattr(self.regression, name) for name in own}
        return found | {"columns": self.targets, "weight": self.weight, "width": self.width}

    @classmethod
    def restored(cls, state: SavedState) -> Curves:
        """The same from what `state` gave."""
        own = ("center", "scale", "pairs", "coefficients", "offset", "targets")
        regression = QuadraticRegression(*(state[name] for name in own))
        return cls(regression, *(state[name] for name in ("columns", "weight", "width")))
