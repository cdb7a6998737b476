"""Methods on rows that may follow each other, their classes being a Markov chain."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.answers.classes import chain_of, smoothed
from partwise.answers.rows import CLASS_DRAWS
from partwise.contracts import Array
from partwise.data import ObservedCells
from partwise.data.dask import is_dask
from partwise.data.frame_sources import frames_of
from partwise.data.rows import RowSource, out_of_memory
from partwise.estimators._base import PartsEstimator
from partwise.estimators._verbs import has_classes
from partwise.fitting.sequences import read_lengths
from partwise.fitting.weights import read_weights
from partwise.sampling.importance import RowLikelihood
from partwise.typing import DataLike


class SequenceRows(PartsEstimator):
    """Likelihoods and classes of rows: one by one or, with ``class_chain``, in sequence."""

    def _in_sequence(
        self, X: DataLike, lengths: ArrayLike | None, n_draws: int
    ) -> tuple[RowLikelihood, Array] | None:
        """What `smoothed` says of rows in sequence; None for rows one by one."""
        check_is_fitted(self)
        chained = chain_of(self._fitted) is not None
        if not chained:
            read_lengths(lengths, 0, chained=False)  # refuses them
            return None
        elsewhere = is_dask(X) or isinstance(out_of_memory(X), RowSource)
        if elsewhere or (getattr(self, "_is_table", False) and frames_of(X) is not None):
            raise ValueError(
                "Rows in sequence (class_chain=True) must be in memory; pass an array, a sparse "
                "matrix or a DataFrame, sequence by sequence if they are many."
            )
        checked = self._checked(X)
        bounds = read_lengths(lengths, checked.shape[0], chained=True)
        assert bounds is not None
        return smoothed(self._fitted, self._likelihoods(checked, n_draws), bounds)

    def row_likelihood(
        self, X: DataLike, n_draws: int = 200, *, lengths: ArrayLike | None = None
    ) -> RowLikelihood:
        """Log-likelihood of each row with its standard error.

        Exact if every column has one part, or if there are few combinations of states; otherwise
        estimated by importance sampling of the states. With ``class_chain`` it is that of a row
        given the rows before it in its sequence; their sum is that of the sequence.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Number of samples per row, if sampling is needed.
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one.

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
        >>> result = model.row_likelihood(X)
        >>> result.log_likelihood.shape, float(result.standard_error.max())
        ((150,), 0.0)
        """
        found = self._in_sequence(X, lengths, n_draws) if n_draws >= 1 else None
        return super().row_likelihood(X, n_draws) if found is None else found[0]

    def score_samples(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        """Log-likelihood of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one. A
            row's likelihood is then that given the rows before it.

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
        return self.row_likelihood(X, lengths=lengths).log_likelihood

    def score(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
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
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one.

        Returns
        -------
        score : float

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> round(model.score(X), 1) == round(float(model.score_samples(X).mean()), 1)
        True
        """
        if lengths is None or isinstance(X, ObservedCells):
            return super().score(X, y, sample_weight)
        found = self.score_samples(X, lengths=lengths)
        return float(np.average(found, weights=read_weights(sample_weight, len(found))))

    @available_if(has_classes)
    def predict_proba(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        """Probability of every class.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one. The
            probabilities are then those given the whole sequence.

        Returns
        -------
        probability : ndarray of shape (n, N)
            Columns in the order of ``classes_``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X, y = load_iris(return_X_y=True)
        >>> MCVQ(n_parts=2, n_states=3, random_state=0).fit(X, y).predict_proba(X).shape
        (150, 3)
        """
        found = self._in_sequence(X, lengths, CLASS_DRAWS)
        return super().predict_proba(X) if found is None else found[1]

    @available_if(has_classes)
    def predict(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one.

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
        if lengths is None and chain_of(self._fitted) is None:
            return super().predict(X)
        return self.classes_[self.predict_proba(X, lengths=lengths).argmax(axis=1)]
