"""Methods of CVQ on rows and their states."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise.answers import summed_states
from partwise.answers.summed_states import FittedSums
from partwise.association import Certificate
from partwise.contracts import Array
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.sampling.importance import RowLikelihood
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Matrix, Seed


class SummedRows(PartsEstimator):
    """Methods of a fitted `CVQ`; the subclass fits."""

    _fitted: FittedSums
    _dense_since = "every part adds to every entry"

    @property
    def _n_features_out(self) -> int:
        return len(self._fitted.params.mu)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: part0_state0, part0_state1, ...

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (K * J,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.get_feature_names_out()[:2]
        array(['part0_state0', 'part0_state1'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray(summed_states.names_out(self._fitted), dtype=object)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior probability of every state of every part.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        posteriors : ndarray of shape (n, K * J)
            Columns named part0_state0, ...; those of one part sum to 1.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.transform(X).shape
        (150, 6)
        """
        check_is_fitted(self)
        return self._posteriors(self._checked(X))

    def _posteriors(self, X: Matrix) -> Array:
        return summed_states.posteriors(self._fitted, X, self.n_jobs)

    @by_rows
    def predict_states(self, X: DataLike) -> Array:
        """Most probable state of each part.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        states : ndarray of shape (n, K)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.predict_states(X).shape
        (150, 2)
        """
        m = np.asarray(self.transform(X))
        return m.reshape(len(m), self._fitted.model.n_parts, -1).argmax(axis=2)

    @by_rows
    def encode(self, X: DataLike) -> Array:
        """Most probable combination of states of each row, by exact search.

        `predict_states` returns the most probable state of each part under the mean-field
        posterior; `encode` returns the states that are jointly most probable.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, K), int

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.encode(X).shape
        (150, 2)
        """
        X = self._checked(X)
        return summed_states.best_states(self._fitted, X, self.n_jobs).values

    def decode(self, S: ArrayLike) -> Array:
        """Rows of given combinations of states.

        Parameters
        ----------
        S : array-like of shape (n, K)
            As `encode` returns.

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.decode([[0, 0], [1, 2]]).shape
        (2, 4)
        """
        check_is_fitted(self)
        S, model = np.asarray(S), self._fitted.model
        K, J = model.n_parts, model.n_states
        if S.ndim != 2 or S.shape[1] != K or not np.isin(S, np.arange(J)).all():
            raise ValueError(
                f"S has shape {S.shape}, but decode needs (n, {K}), integers from 0 to {J - 1}, as "
                "encode returns."
            )
        return summed_states.decode(self._fitted, S.astype(np.int64))

    @by_rows
    def certify(self, X: DataLike) -> Certificate:
        """Certificate of the code of each row: proven most probable, or a bound on its distance.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        certificate : Certificate
            Fields ``proven``, ``gap``, ``error`` and ``lower_bound``, each of shape (n,). The error
            of a code is minus the joint log density of row and code.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> bool(model.certify(X).proven.all())
        True
        """
        X = self._checked(X)
        return summed_states.certify(self._fitted, X, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected rows given posterior probabilities of states.

        Parameters
        ----------
        X : array-like of shape (n, K * J)

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        check_is_fitted(self)
        return summed_states.expected_rows(self._fitted, self._check_transformed(X, "state"))

    def _reconstruct(self, X: Matrix) -> Array:
        return summed_states.expected_rows(self._fitted, self._posteriors(X))

    def _impute(self, X: Matrix) -> Array:
        return self._reconstruct(X)

    def _absent_zero(self) -> bool:
        return False

    def _likelihoods(self, X: Matrix, n_draws: int) -> RowLikelihood:
        return summed_states.likelihoods(self._fitted, X, n_draws, self.n_jobs)

    def _class_shares(self) -> Array:
        return np.ones(1)

    def _n_parameters(self) -> float:
        return summed_states.n_parameters(self._fitted)

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> tuple[Array, Array]:
        """Sample new rows.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        states : ndarray of shape (n_samples, K)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> rows, states = model.sample(5, random_state=0)
        >>> rows.shape, states.shape
        ((5, 4), (5, 2))
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        return summed_states.sample(self._fitted, n_samples, rng)
