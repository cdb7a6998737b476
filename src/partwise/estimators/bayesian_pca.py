"""Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import fit_context
from partwise.answers import components
from partwise.contracts import Array
from partwise.estimators._bayesian_pca_base import SHARED, SIZE, ComponentEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.component_classes import fit_directions
from partwise.typing import DataLike, PathLike, Seed


class BayesianPCA(ComponentEstimator):
    """Bayesian principal component analysis, which selects the number of components.

    t = W x + mu + noise, with standard normal positions x and noise of the same variance in all
    columns. W, mu and the noise have posterior distributions. Every direction has a relevance, and
    directions that the data do not support are removed. Columns should have comparable units.
    Missing values (NaN) are ignored in fitting and scoring.

    Parameters
    ----------
    max_components : int or None, default=None
        Maximum number of directions; None is one less than the number of columns (or rows).
        Directions that a rough criterion rules out are removed before the first EM iteration.
    relevance : bool, default=True
        Whether each direction has a relevance. Otherwise all have the broad prior of mu, and all
        are kept.
    prior : "conjugate", float or None, default="conjugate"
        Shape and rate of the Gamma priors of noise and relevances, and precision of mu's prior, in
        units of the columns' mean variance; "conjugate" is the paper's 1e-3. None is maximum
        likelihood, which keeps all ``max_components`` directions.
    max_iter : int, default=500
        Maximum number of EM iterations.
    tol : float, default=1e-4
        Convergence threshold: gain of the ELBO per row and EM iteration.
    max_time : float or None, default=None
        Time limit in seconds, after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Number of threads; None uses as many as BLAS.
    random_state : int, Generator, RandomState or None, default=None
        Random seed. With a fixed seed the model is the same for any ``n_jobs``.
    verbose : int, default=0
        A value above 0 shows a progress bar.

    Attributes
    ----------
    effective_dimension_ : int
        Number of directions whose E|w|^2 is above 1 % of the largest.
    components_ : ndarray of shape (q, D)
        Posterior mean of the directions that are kept, the strongest first. The length of each is
        the standard deviation that it explains.
    mean_ : ndarray of shape (D,)
        Posterior mean of mu.
    noise_variance_ : float
        Expected variance of the noise.
    relevances_ : ndarray of shape (q,)
        Expected alpha, the inverse variance of the loadings.
    n_directions_ : int
        Maximum number of directions: ``max_components``, or its value for None.
    lower_bound_ : float
        Evidence lower bound (ELBO) per row; of the log-likelihood if ``prior=None``.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration, and at the end.
    n_iter_ : int
        Number of EM iterations, ``len(lower_bounds_) - 1``.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    See Also
    --------
    BayesianPCAMixture : Mixture of such models, for data on a curved surface.

    References
    ----------
    C. M. Bishop and J. M. Winn, Non-linear Bayesian Image Modelling. *ECCV* 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BayesianPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 10)) * np.repeat([1.0, 0.5], [3, 7])
    >>> model = BayesianPCA().fit(X)
    >>> model.effective_dimension_
    3
    >>> model.transform(X).shape
    (300, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **SHARED,
        "max_components": SIZE,
        "relevance": ["boolean"],
    }
    _size_name = "max_components"
    _kept = ("n_directions_",)

    def __init__(
        self,
        max_components: int | None = None,
        relevance: bool = True,
        *,
        prior: float | str | None = "conjugate",
        max_iter: int = 500,
        tol: float = 1e-4,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.max_components = max_components
        self.relevance = relevance
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: PathLike | Checkpoint | None = None,
    ) -> BayesianPCA:
        """Learn directions, mean and noise.

        Parameters
        ----------
        X : array-like of shape (C, D)
            Training rows; NaN is a missing value.
        y : None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (C,), optional
            An integer weight w is equivalent to repeating the row w times.
        checkpoint : path or Checkpoint, optional
            File that is written during the fit and removed at its end. After a crash, the same call
            continues from the file and returns the same result.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> model.effective_dimension_
        3
        """
        rows, group = self._read(X, sample_weight)
        ascent = self._ascent(rows, checkpoint)
        return self._finish(ascent, fit_directions(ascent, group, self._options(1, ascent)))

    def _attributes(self) -> Mapping[str, object]:
        return components.pca_attributes(self._fitted)

    @property
    def _n_features_out(self) -> int:
        return self._fitted.params[0].mean.shape[2] - 1

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: factor0, factor1, ...

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (q,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> model.get_feature_names_out()[:2]
        array(['factor0', 'factor1'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray([f"factor{i}" for i in range(self._n_features_out)], dtype=object)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior mean of the positions of rows.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        factors : ndarray of shape (n, q)
            Columns named factor0, ...

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> model.transform(X).shape[0]
        150
        """
        X = self._checked(X)
        codes = components.codes(self._fitted, X, self.n_jobs)
        return codes[:, :-1].astype(self._fitted.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected rows at given positions.

        Parameters
        ----------
        X : array-like of shape (n, q)

        Returns
        -------
        rows : ndarray of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        check_is_fitted(self)
        x = self._check_transformed(X, "factor")
        rows = components.expected_rows(self._fitted, np.hstack([x, np.ones((len(x), 1))]))
        return rows.astype(self._fitted.dtype, copy=False)

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
        factors : ndarray of shape (n_samples, q)
            Positions of the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> rows, factors = model.sample(5, random_state=0)
        >>> rows.shape
        (5, 4)
        """
        rng = self._draw(n_samples, random_state)
        alone = np.zeros(n_samples, int)
        rows, x = components.draw_rows(self._fitted, 0, alone, rng)
        return rows, x.astype(self._fitted.dtype)
