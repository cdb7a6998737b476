"""Verbs that estimators share: densities of rows and cells, and classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.answers.rows import CLASS_DRAWS, class_probability, score_cells
from partwise.contracts import Array
from partwise.data import ObservedCells
from partwise.estimators._rows import by_rows
from partwise.fitted import AnyFitted
from partwise.fitting.weights import read_weights
from partwise.sampling.importance import RowLikelihood, mix_classes
from partwise.typing import DataLike, Matrix


def has_classes(estimator: BaseEstimator) -> bool:
    """Whether there is, or will be after fit, a class variable."""
    if getattr(estimator, "n_classes", None) is None and not hasattr(estimator, "classes_"):
        how = "set n_classes, or fit" if hasattr(estimator, "n_classes") else "fit"
        raise AttributeError(f"There are no classes; {how} with labels.")
    return True


def can(hook: str) -> Callable[[object], bool]:
    """Whether the model defines what a verb needs."""
    return lambda estimator: hasattr(type(estimator), hook)


class DensityMixin:
    """Verbs of models that answer ``_likelihoods``, ``_class_shares`` and ``_n_parameters``.

    Those of cells need ``_cell_densities``.
    """

    _fitted: AnyFitted
    n_jobs: int | None
    _checked: Callable[[DataLike], Matrix]
    _likelihoods: Callable[[Matrix, int], RowLikelihood]
    _class_shares: Callable[[], Array]
    _n_parameters: Callable[[], float]
    _cell_densities: Callable[..., Array]

    @available_if(can("_likelihoods"))
    def bic(self, X: DataLike) -> float:
        """Bayesian information criterion; lower is better.

        Counts the parameters of each column under its own part, the priors and the gates.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        bic : float
        """
        log_likelihood = np.asarray(self.score_samples(X))
        penalty = self._n_parameters() * np.log(len(log_likelihood))
        return float(penalty - 2.0 * log_likelihood.sum())

    @available_if(can("_likelihoods"))
    @by_rows
    def row_likelihood(self, X: DataLike, n_draws: int = 200) -> RowLikelihood:
        """Log-likelihood of each row with its error.

        Exact where every column has one part, or where the combinations of states are few; else by
        importance sampling of the states, the selections of parts summed out.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Draws a row where sampling is needed.

        Returns
        -------
        result : RowLikelihood
            Fields ``log_likelihood``, ``standard_error`` (0 where exact) and ``effective_draws``
            (infinite where exact), each of shape (n,).
        """
        check_is_fitted(self)
        if n_draws < 1:
            raise ValueError(f"n_draws={n_draws!r} must be at least 1.")
        found = self._likelihoods(self._checked(X), n_draws)
        return mix_classes(found, np.log(self._class_shares()))

    def score_samples(self, X: DataLike) -> Array:
        """Log-likelihood of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        log_likelihood : ndarray of shape (n,)
            See `row_likelihood` for its error where it is an estimate.
        """
        return self.row_likelihood(X).log_likelihood

    @available_if(can("_cell_densities"))
    def score_cells(
        self, X: DataLike, rows: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> Array:
        """Log predictive density of single cells, each given what X holds of its row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
            What is known; a cell asked for should be missing here.
        rows, columns : array-like of shape (n_cells,), int
            Places of the cells, in any order.
        values : array-like of shape (n_cells,)
            What stands there.

        Returns
        -------
        log_density : ndarray of shape (n_cells,)
            In nats, for the units of X; of counts and categories the log probability.
        """
        check_is_fitted(self)
        return self._score_cells(self._checked(X), rows, columns, values)

    def _score_cells(
        self, X: Matrix, rows: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> Array:
        """The same of checked rows and values as these have them."""
        cells = rows, columns, values
        return score_cells(self._fitted.columns, X, cells, self._cell_densities, self.n_jobs)

    def score(
        self, X: DataLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log-likelihood of the rows, or mean log predictive density of held-out cells.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D), or ObservedCells
            Each of `partwise.ObservedCells` that were chosen from a table is judged given its
            row's others: see `score_cells`.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; a cell has that of its row.

        Returns
        -------
        score : float
        """
        if isinstance(X, ObservedCells):
            found = self.score_cells(X.others(), X.rows, X.columns, X.values)
            weight = read_weights(sample_weight, X.n_rows)[X.rows]
        else:
            found = np.asarray(self.score_samples(X))
            weight = read_weights(sample_weight, len(found))
        return float(np.average(found, weights=weight))


class ClassMixin:
    """Verbs of models with a class variable."""

    classes_: Array
    _checked: Callable[[DataLike], Matrix]
    _likelihoods: Callable[[Matrix, int], RowLikelihood]
    _class_shares: Callable[[], Array]

    @available_if(has_classes)
    @by_rows
    def predict_proba(self, X: DataLike) -> Array:
        """Probability of every class.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, N)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._class_proba(self._checked(X))

    def _class_proba(self, X: Matrix) -> Array:
        """Probability of every class of checked rows, (n, N)."""
        return class_probability(self._likelihoods(X, CLASS_DRAWS), self._class_shares())

    @available_if(has_classes)
    @by_rows
    def predict(self, X: DataLike) -> Array:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
