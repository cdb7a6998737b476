"""Curved dependence of numbers: a regression of every column on all others, blended with the rest.

The regressor is the user's. It learns a column from all others, as numbers, with missing values
imputed by the blend without it. Held-out cells tell its weight, by which it shifts the predictive
distribution of a cell, and how much narrower that becomes; it is calibrated on the same cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from partwise.contracts import Array

# Candidate widths of the moved distribution, in units of its own.
SCALES = np.geomspace(0.1, 1.25, 23)


class Regressor(Protocol):
    """What is asked of a scikit-learn regressor."""

    def fit(self, X: Array, y: Array) -> object:
        """Learn a column from the others."""
        ...

    def predict(self, X: Array) -> Array:
        """Expected values."""
        ...


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression of one column on the others, numbers (n, W) at ``inputs``.

    The distribution of the blend with it has ``scale`` times the width of that without.
    """

    model: Regressor
    inputs: Array
    weight: float = 1.0
    scale: float = 1.0

    @classmethod
    def of(cls, make: Callable[[], Regressor], X: Array, y: Array, inputs: Array) -> Regression:
        """Fitted to the rows whose value ``y`` (n,) is known."""
        model, known = make(), ~np.isnan(y)
        model.fit(X[np.ix_(known, inputs)], y[known])
        return cls(model, inputs)

    def shift(self, X: Array, blended: Array) -> Array:
        """What it adds to expectations (n,) of the blend."""
        told = np.asarray(self.model.predict(X[:, self.inputs]), dtype=float)
        return self.weight * (told - blended)


def fitting_scale(below: Callable[[float], Array], weight: Array) -> float:
    """The scale with which held-out numbers are as far from the middle as they should be.

    ``below`` gives their probabilities (m,) with a scale: u of a uniform number has |2 u - 1| = 1/2
    on average, with the weights (m,) of rows.
    """
    away = [np.average(np.abs(2.0 * below(scale) - 1.0), weights=weight) for scale in SCALES]
    return float(SCALES[int(np.argmin(np.abs(np.array(away) - 0.5)))])
