"""Methods that estimators share: densities of rows and cells, and classes."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
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
from partwise.typing import DataLike, Frame, Matrix


def has_classes(estimator: BaseEstimator) -> bool:
    """Whether there is, or will be after fit, a class variable."""
    will_be = (
        not hasattr(estimator, "_fitted") and getattr(estimator, "n_classes", None) is not None
    )
    if not will_be and not hasattr(estimator, "classes_"):
        how = "set n_classes, or fit" if hasattr(estimator, "n_classes") else "fit"
        raise AttributeError(f"The model has no classes; {how} with labels.")
    return True


def can(hook: str) -> Callable[[object], bool]:
    """Whether the model defines what a method needs."""
    return lambda estimator: hasattr(type(estimator), hook)


class EntryMixin:
    """Methods on entries, for models that implement ``_reconstruct`` and ``_impute``.

    Intervals need ``_interval``, anomaly scores ``_anomaly_scores``.
    """

    _fitted: AnyFitted
    _checked: Callable[[DataLike], Matrix]
    _absent_zero: Callable[[], bool]
    _as_given: Callable[[Array, DataLike], Array | Frame]
    _reconstruct: Callable[[Matrix], Array]
    _impute: Callable[[Matrix], Array]
    _interval: Callable[[Matrix, float], tuple[Array, Array]]
    _anomaly_scores: Callable[[Matrix], Array]

    @by_rows
    def reconstruct(self, X: DataLike) -> Array | Frame:
        """Expected value of every entry, observed entries included.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.reconstruct(X).shape
        (150, 4)
        """
        check_is_fitted(self)
        rows = self._reconstruct(self._checked(X))
        return self._as_given(rows.astype(self._fitted.dtype, copy=False), X)

    @by_rows
    def impute(self, X: DataLike) -> Array | Frame | list[Array | Frame]:
        """Impute missing values; observed values are unchanged.

        Numbers are imputed by their expectation, categories and booleans by the most probable
        value.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        imputed : ndarray of shape (n, D)
            Dense also for sparse X.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> X[0, 2] = float("nan")
        >>> round(float(model.impute(X)[0, 2]), 1)
        1.5
        """
        X = self._checked(X)
        filled = self._impute(X).astype(self._fitted.dtype, copy=False)
        if not sparse.issparse(X):
            return np.where(np.isnan(X), filled, X)
        stored = sparse.coo_array(X)
        filled = np.zeros_like(filled) if self._absent_zero() else filled.copy()
        seen = ~np.isnan(stored.data)
        filled[stored.row[seen], stored.col[seen]] = stored.data[seen]
        return filled

    @available_if(can("_interval"))
    @by_rows
    def predict_interval(
        self, X: DataLike, coverage: float = 0.9
    ) -> tuple[Array | Frame, Array | Frame]:
        """Interval that contains an entry with probability ``coverage``.

        For an observed cell the interval is conditional on the whole row, the cell included. For
        numbers, the model's tail probabilities are calibrated in `fit` by the frequency with which
        held-out cells fall beyond them, so that coverage holds where the distributions do not fit.
        Ends of a table's numbers are rounded inward to the column's resolution, which changes no
        coverage. Intervals of levels and counts consist of whole ones. In a table those of a column
        are as long as held-out cells need to be covered with about this probability on average; in
        an array they cover at least as much, and with few levels more.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> X[0, 2] = float("nan")
        >>> lower, upper = model.predict_interval(X, coverage=0.9)
        >>> bool(lower[0, 2] < 1.4 < upper[0, 2])
        True
        """
        check_is_fitted(self)
        check_coverage(coverage)
        ends = self._interval(self._checked(X), 0.5 * (1.0 - coverage))
        if self._fitted.schema is not None:
            ends = self._fitted.schema.inward(*ends)
        else:
            ends = ends[0].astype(self._fitted.dtype), ends[1].astype(self._fitted.dtype)
        return self._as_given(ends[0], X), self._as_given(ends[1], X)

    @available_if(can("_anomaly_scores"))
    @by_rows
    def anomaly_scores(self, X: DataLike) -> Array:
        """Anomaly score of every part of every row: minus the log-likelihood of the part's entries.

        If every column has one part and there are no classes, the scores of a row sum to minus its
        log-likelihood without the background columns.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        scores : ndarray of shape (n, K)
            In nats; the score of a part without observed entries is 0.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> X[0, 3] = 2.5  # a petal as short as before, but much wider
        >>> scores = model.anomaly_scores(X)
        >>> scores.shape, int(scores.sum(axis=1).argmax())
        ((150, 2), 0)
        """
        check_is_fitted(self)
        return self._anomaly_scores(self._checked(X))


class DensityMixin:
    """Methods of models that implement ``_likelihoods``, ``_class_shares`` and ``_n_parameters``.

    Methods on cells need ``_cell_densities``.
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

        It counts the parameters of each column in its part, the priors and the gates.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        bic : float

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=1, n_states=3, random_state=0).fit(X)
        >>> one = MCVQ(n_parts=1, n_states=1, random_state=0).fit(X)
        >>> model.bic(X) < one.bic(X)
        True
        """
        log_likelihood = np.asarray(self.score_samples(X))
        penalty = self._n_parameters() * np.log(len(log_likelihood))
        return float(penalty - 2.0 * log_likelihood.sum())

    @available_if(can("_likelihoods"))
    @by_rows
    def row_likelihood(self, X: DataLike, n_draws: int = 200) -> RowLikelihood:
        """Log-likelihood of each row with its standard error.

        Exact if every column has one part, or if there are few combinations of states; otherwise
        estimated by importance sampling of the states.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Number of samples per row, if sampling is needed.

        Returns
        -------
        result : RowLikelihood
            Fields ``log_likelihood``, ``standard_error`` (0 if exact) and ``effective_draws``
            (the effective sample size, infinite if exact), each of shape (n,).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> found = model.row_likelihood(X)
        >>> found.log_likelihood.shape, float(found.standard_error.max())
        ((150,), 0.0)
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
            See `row_likelihood` for its standard error if it is an estimate.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.score_samples(X).shape
        (150,)
        """
        return self.row_likelihood(X).log_likelihood

    @available_if(can("_cell_densities"))
    def score_cells(
        self, X: DataLike, rows: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> Array:
        """Log predictive density of single cells, each given the observed values of its row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
            Rows with observed values; the cells to score should be missing.
        rows, columns : array-like of shape (n_cells,), int
            Positions of the cells, in any order.
        values : array-like of shape (n_cells,)
            Values of the cells.

        Returns
        -------
        log_density : ndarray of shape (n_cells,)
            In nats, in the units of X; for counts and categories the log probability.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> X[0, 2] = float("nan")
        >>> likely, unlikely = model.score_cells(X, rows=[0, 0], columns=[2, 2], values=[1.4, 5.0])
        >>> bool(likely > unlikely)
        True
        """
        check_is_fitted(self)
        return self._score_cells(self._checked(X), rows, columns, values)

    def _score_cells(
        self, X: Matrix, rows: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> Array:
        """`score_cells` for checked rows and coded values."""
        cells = rows, columns, values
        fitted = self._fitted
        found = self._cell_densities
        return score_cells(fitted.columns, X, cells, found, self.n_jobs, fitted.told)

    def score(
        self, X: DataLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean log-likelihood of the rows, or mean log predictive density of held-out cells.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D), or ObservedCells
            With `partwise.ObservedCells`, each cell is scored given the other values of its row:
            see `score_cells`.
        y : None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; a cell has the weight of its row.

        Returns
        -------
        score : float

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> round(model.score(X), 1)
        -2.1
        """
        if isinstance(X, ObservedCells):
            found = self.score_cells(X.others(), X.rows, X.columns, X.values)
            weight = read_weights(sample_weight, X.n_rows)[X.rows]
        else:
            found = np.asarray(self.score_samples(X))
            weight = read_weights(sample_weight, len(found))
        return float(np.average(found, weights=weight))


class ClassMixin:
    """Methods of models with a class variable."""

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

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape
        (150, 3)
        """
        check_is_fitted(self)
        return self._class_proba(self._checked(X))

    def _class_proba(self, X: Matrix) -> Array:
        """Probability of every class of checked rows, (n, N)."""
        return class_probability(self._likelihoods(X, CLASS_DRAWS), np.log(self._class_shares()))

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

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X, y)
        >>> bool((model.predict(X) == y).mean() > 0.9)
        True
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


def check_coverage(coverage: float) -> None:
    """Raise an error for a coverage of intervals that is no probability."""
    if not isinstance(coverage, Real) or not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage!r} must be between 0 and 1, for example 0.9.")
