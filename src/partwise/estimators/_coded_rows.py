"""Rows as codes: the verbs of GVQ."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise.answers import codes
from partwise.answers.codes import FittedCodes
from partwise.association import Certificate
from partwise.contracts import Array
from partwise.data import RowSource
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting.options import Rows
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Given, Matrix, Seed


class CodedRows(PartsEstimator):
    """What a fitted `GVQ` says of rows; the child learns."""

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

        With several values feature0_value1, ...; with several sets set0_feature0, ..., and
        set0_origin after the features of each set.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (n_columns,)
        """
        check_is_fitted(self)
        return np.asarray(codes.names_out(self._fitted), dtype=object)

    # --- codes ---

    def _check_rows(self, X: DataLike, *, reset: bool) -> Rows:
        X = super()._check_rows(X, reset=reset)
        if self.binary and not isinstance(
            X, RowSource
        ):  # which are checked as their columns are learned
            odd = X[~(np.isnan(X) | (X == 0) | (X == 1))]
            if odd.size:
                raise ValueError(
                    f"X has the value {odd[0]:g}, but binary=True needs 0, 1 or NaN; binarise the "
                    "data or set binary=False."
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
            Value of each feature, 0 for off. With several sets a column more, the first: the set.
        """
        check_is_fitted(self)
        found = codes.codes(self._fitted, self._checked(X), self.n_jobs)
        return codes.as_table(self._fitted, found)

    def decode(self, S: ArrayLike) -> Array:
        """Rows that codes stand for.

        Parameters
        ----------
        S : array-like of shape (n, n_components)
            As `encode` gives them.

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        return codes.decode(self._fitted, codes.from_table(self._fitted, np.asarray(S)))

    @by_rows
    def certify(self, X: DataLike) -> Certificate:
        """How good the code of each row is: proven the best, or how far from it at most.

        With an approximate association its codes are held against the exact search.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        certificate : Certificate
            Fields ``proven``, ``gap``, ``error`` and ``lower_bound``, each of shape (n,); errors
            are squared and with the penalty, in the units of X. Proofs hold up to rounding.
        """
        X = self._checked(X)
        found = codes.codes(self._fitted, X, self.n_jobs)
        return codes.certify(self._fitted, X, found, int(self.max_nodes), self.n_jobs)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Codes as numbers: 1 where a feature is on.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, n_columns)
            A column for every feature, or for every value but the first; with several sets for
            those of every set, followed by one for its origin.
        """
        check_is_fitted(self)
        return codes.transform(self._fitted, self._checked(X), self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Rows that codes stand for, also where they lie between 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            As `transform` gives them.

        Returns
        -------
        rows : ndarray of shape (n, D)
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
        """Minus the squared error of each row, over its observed entries, without penalty.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        score : ndarray of shape (n,)
        """
        X = self._checked(X)
        with np.errstate(over="ignore"):  # of numbers whose squares are beyond all
            return -np.nansum((X - self._reconstruct(X)).astype(float) ** 2, axis=1)

    def score(
        self, X: DataLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Minus the mean squared error of the rows.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : ignored
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        score : float
        """
        return super().score(X, y, sample_weight)

    def explain(self, x: Given) -> dict[str, object]:
        """What one row is made of.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values

        Returns
        -------
        explanation : dict
            ``set``; ``features``, those that are on with their value and how much the squared error
            would rise without them, those that matter most first; ``error``; ``gap``, at most how
            far the error is above the least possible.
        """
        row = self._one_row(x)
        return codes.explain(self._fitted, row, int(self.max_nodes), self.n_jobs)

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> tuple[Array, Array]:
        """Draw new rows: sets and features as often as in the training rows, and noise.

        Features are drawn independently of each other.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        codes : ndarray of shape (n_samples, n_components)
            As `encode` gives them.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        return codes.sample(self._fitted, n_samples, rng)
