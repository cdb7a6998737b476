"""Methods of models whose rows may have undergone unknown transformations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from partwise.answers import moving
from partwise.contracts import Array
from partwise.data.table import Schema
from partwise.estimators._rows import by_rows
from partwise.estimators._state_rows import StateRows
from partwise.fitting.family import Family
from partwise.fitting.moving_states import MovingStates
from partwise.models.transformations import Transformations


def _moves(estimator: MovingEstimator) -> bool:
    if estimator.transformations is None:
        raise AttributeError(
            "Rows have no transformations; set transformations, such as Translations(image_shape)."
        )
    return True


class MovingEstimator(StateRows):
    """A model of parts with states, of rows that may have been transformed."""

    transformations: Transformations | None

    def _family(self, schema: Schema | None = None) -> Family[Any, Any]:
        family = super()._family(schema)
        if self.transformations is None:
            return family
        moves = self.transformations
        return MovingStates(replace(family.options, transformations=moves, calibrated=False))

    def _score_cells(self, X: Any, rows: Any, columns: Any, values: Any) -> Array:
        if self.transformations is None:
            return super()._score_cells(X, rows, columns, values)
        return np.asarray(
            self._asked.score_cells(self._fitted, X, (rows, columns, values), self.n_jobs)
        )

    @available_if(_moves)
    @by_rows
    def shifts(self, X: Any) -> Array:
        """Most probable transformation of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        shifts : ndarray of shape (n, q)
            Of `Translations` the shift in pixels, rows then columns, of `Rotations` the angle, of
            `Scalings` the factor. One common shift of all rows is not identified; the fit
            begins with a mean shift of about 0.
        """
        found = moving.best(self._fitted, self._checked(X), self.n_jobs)
        return self.transformations.values[found]  # type: ignore[union-attr]  # available_if

    @available_if(_moves)
    @by_rows
    def shift_proba(self, X: Any) -> Array:
        """Posterior probability of every transformation of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, T)
            In the order of ``transformations.values``.
        """
        return moving.posterior(self._fitted, self._checked(X), self.n_jobs)

    @available_if(_moves)
    @by_rows
    def align(self, X: Any) -> Array:
        """Rows on the canvas, under their most probable transformations.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        rows : ndarray of shape (n, D of the canvas)
            NaN where the row shows nothing; reshape to ``canvas_shape_`` for images.
        """
        return moving.aligned(self._fitted, self._checked(X), self.n_jobs)
