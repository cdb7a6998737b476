"""Methods of a mixture of Bayesian PCA models on rows and their components."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.answers import components
from partwise.contracts import Array
from partwise.estimators._bayesian_pca_base import ComponentEstimator
from partwise.estimators._rows import by_rows
from partwise.estimators._verbs import has_classes
from partwise.fitting.labels import classes_of_rows
from partwise.typing import Classes, DataLike, Seed


class MixtureRows(ComponentEstimator):
    """Methods of a fitted `BayesianPCAMixture`; the subclass fits."""

    @available_if(has_classes)
    @by_rows
    def predict_proba(self, X: DataLike) -> Array:
        """Probability of every class.

        Log densities in high dimension are overconfident, so they are calibrated with rows that
        were held out during the fit.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, N)
            Columns in the order of ``classes_``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianPCAMixture(n_components=1, random_state=0).fit(X, y)
        >>> model.predict_proba(X).shape
        (150, 3)
        """
        X = self._checked(X)
        return components.class_weights(self._fitted, X, self.n_jobs).T

    @property
    def _n_features_out(self) -> int:
        return sum(t.mean.shape[0] * t.mean.shape[2] for t in self._fitted.params)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: component0_factor0, ..., component0, ...

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (n_features_out,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> model.get_feature_names_out()[0]
        'component0_factor0'
        """
        check_is_fitted(self)
        return np.asarray(components.mixture_names_out(self._fitted), dtype=object)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Probability of every component, and the position in it times that probability.

        The expected row is linear in these numbers (see `inverse_transform`).

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, M (q + 1)), with q of the component's class
            Columns named component0_factor0, ..., component0, ...

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> model.transform(X).shape[0]
        150
        """
        X = self._checked(X)
        codes = components.codes(self._fitted, X, self.n_jobs)
        return codes.astype(self._fitted.dtype, copy=False)

    @by_rows
    def responsibilities(self, X: DataLike) -> Array:
        """Probability of every component.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, M)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> model.responsibilities(X).shape
        (150, 3)
        """
        X = self._checked(X)
        return components.responsibilities(self._fitted, X, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected rows of given codes.

        Parameters
        ----------
        X : array-like of shape (n, n_features_out)
            As `transform` returns.

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        check_is_fitted(self)
        code = self._check_transformed(X, "number")
        rows = components.expected_rows(self._fitted, code)
        return rows.astype(self._fitted.dtype, copy=False)

    def sample(
        self, n_samples: int = 1, *, classes: Classes | None = None, random_state: Seed = None
    ) -> tuple[Array, Array]:
        """Sample new rows.

        Parameters
        ----------
        n_samples : int, default=1
        classes : label or array-like of shape (n_samples,), optional
            Classes of the rows; by default sampled by their proportions.
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        components_or_classes : ndarray of shape (n_samples,)
            Components of the rows, or labels of their classes if there are classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> rows, components = model.sample(5, random_state=0)
        >>> rows.shape, components.shape
        ((5, 4), (5,))
        """
        rng = self._draw(n_samples, random_state)
        if classes is not None and not hasattr(self, "classes_"):
            raise ValueError("The model has no classes; fit it with labels.")
        shares = self._class_shares()
        if classes is None:
            chosen = rng.choice(len(shares), n_samples, p=shares)
        else:
            chosen = classes_of_rows(classes, self.classes_, n_samples)
        rows = np.empty((n_samples, self.n_features_in_), self._fitted.dtype)
        which = np.empty(n_samples, int)
        for c in range(len(shares)):
            own = np.flatnonzero(chosen == c)
            which[own] = components.draw_components(self._fitted, c, len(own), rng)
            rows[own], _ = components.draw_rows(self._fitted, c, which[own], rng)
        return rows, (self.classes_[chosen] if hasattr(self, "classes_") else which)
