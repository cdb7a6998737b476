"""Methods of GVQ on rows and their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise.answers import codes
from partwise.association import Certificate
from partwise.contracts import Array
from partwise.data import RowSource
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitted import FittedCodes
from partwise.fitting.options import Rows
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Given, Matrix, Seed


class CodedRows(PartsEstimator):
    """Methods of a fitted `GVQ`; the subclass fits."""

    _fitted: FittedCodes
    _dense_since = "every feature adds to every entry"

    binary: bool
    max_nodes: int
    n_jobs: int | None
    random_state: Seed

    # --- names ---

    @property
    def _n_features_out(self) -> int:
        return codes.n_outputs(self._fitted)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: feature0, feature1, ...

        If ``n_values > 2`` they are feature0_value1, ...; with several sets set0_feature0, ..., and
        set0_origin after the features of each set.

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (n_columns,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.get_feature_names_out()
        array(['feature0', 'feature1', 'feature2'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray(codes.names_out(self._fitted), dtype=object)

    # --- codes ---

    def _check_rows(self, X: DataLike, *, reset: bool) -> Rows:
        X = super()._check_rows(X, reset=reset)
        if self.binary and not isinstance(X, RowSource):  # a source is checked when it is read
            other = X[~(np.isnan(X) | (X == 0) | (X == 1))]
            if other.size:
                raise ValueError(
                    f"X contains {other[0]:g}, but binary=True needs 0, 1 or NaN; binarize X "
                    "or set binary=False."
                )
        return X

    @by_rows
    def encode(self, X: DataLike) -> Array:
        """Code of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, n_components), int
            Value of each feature, 0 for off. With several sets, the first of n_components + 1
            columns is the set.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.encode(X).shape
        (150, 3)
        """
        check_is_fitted(self)
        found = codes.codes(self._fitted, self._checked(X), self.n_jobs)
        return codes.as_table(self._fitted, found)

    def decode(self, S: ArrayLike) -> Array:
        """Rows of given codes.

        Parameters
        ----------
        S : array-like of shape (n, n_components)
            As `encode` returns.

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.decode([[0, 0, 0], [1, 0, 1]]).shape
        (2, 4)
        """
        check_is_fitted(self)
        return codes.decode(self._fitted, codes.from_table(self._fitted, np.asarray(S)))

    @by_rows
    def certify(self, X: DataLike) -> Certificate:
        """Certificate of the code of each row: proven optimal, or a bound on its distance from it.

        Codes of an approximate association are compared with those of the exact search.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        certificate : Certificate
            Fields ``proven``, ``gap``, ``error`` and ``lower_bound``, each of shape (n,). Errors
            are squared, include the penalty, and are in the units of X. Proofs hold up to rounding.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> bool(model.certify(X).proven.all())
        True
        """
        X = self._checked(X)
        found = codes.codes(self._fitted, X, self.n_jobs)
        return codes.certify(self._fitted, X, found, int(self.max_nodes), self.n_jobs)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Codes as indicators: 1 where a feature is on.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, n_columns)
            A column for every feature, or for every value except 0; with several sets, those of
            every set, followed by one for its origin.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.transform(X).shape
        (150, 3)
        """
        check_is_fitted(self)
        return codes.transform(self._fitted, self._checked(X), self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Rows of given codes, which may be between 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            As `transform` returns.

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.inverse_transform([[0.5, 0, 0]]).shape
        (1, 4)
        """
        check_is_fitted(self)
        return codes.inverse_transform(self._fitted, self._check_transformed(X, "number"))

    # --- rows ---

    def _reconstruct(self, X: Matrix) -> Array:
        return codes.reconstruct(self._fitted, X, self.n_jobs)

    def _impute(self, X: Matrix) -> Array:
        rows = self._reconstruct(X)
        return np.rint(rows) if self.binary else rows

    def _absent_zero(self) -> bool:
        return False

    @by_rows
    def score_samples(self, X: DataLike) -> Array:
        """Minus the squared error of each row over its observed entries, without the penalty.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        score : ndarray of shape (n,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.score_samples(X).shape
        (150,)
        """
        X = self._checked(X)
        with np.errstate(over="ignore"):  # squares of huge numbers are infinite
            return -np.nansum((X - self._reconstruct(X)).astype(float) ** 2, axis=1)

    def score(
        self, X: DataLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Minus the mean squared error of the rows.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        score : float

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> model.score(X) > GVQ(n_components=0, random_state=0).fit(X).score(X)
        True
        """
        return super().score(X, y, sample_weight)

    def explain(self, x: Given) -> dict[str, object]:
        """Explain one row: the features it consists of.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values

        Returns
        -------
        explanation : dict
            ``set``; ``features``, those that are on, most important first, each with ``feature``,
            ``value``, and ``saves``, the increase of the squared error without it; ``error``; and
            ``gap``, an upper bound on the error's distance from the optimum.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> sorted(model.explain(X[0]))
        ['error', 'features', 'gap', 'set']
        """
        row = self._one_row(x)
        return codes.explain(self._fitted, row, int(self.max_nodes), self.n_jobs)

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> tuple[Array, Array]:
        """Sample new rows, with the frequencies of sets and features in the training rows.

        Features are sampled independently of each other, and noise is added.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        codes : ndarray of shape (n_samples, n_components)
            As `encode` returns.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import GVQ
        >>> X = load_iris().data
        >>> model = GVQ(n_components=3, random_state=0).fit(X)
        >>> rows, codes = model.sample(5, random_state=0)
        >>> rows.shape, codes.shape
        ((5, 4), (5, 3))
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        return codes.sample(self._fitted, n_samples, rng)
