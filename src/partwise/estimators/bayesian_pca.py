"""Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import fit_context
from partwise.answers import components
from partwise.answers.components import FittedComponents
from partwise.answers.rows import source_of
from partwise.contracts import Array
from partwise.data import BlockSource
from partwise.estimators._bayesian_pca_base import SHARED, SIZE, Analysers
from partwise.estimators._rows import by_rows
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.component_space import MOST_BEGUN, Space, begin, calibrated
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Stage
from partwise.models.bayesian_pca import BayesianPCAParams
from partwise.starts.principal import encoded_rows, likely_dimension
from partwise.typing import DataLike, PathLike, Seed


class BayesianPCA(Analysers):
    """Principal component analysis that finds its own dimension.

    t = W x + mu + noise, the positions x standard normal and the noise of one variance in all
    columns. All of W, mu and the noise have posteriors; every direction has a relevance, and
    directions that the data do not need are switched off. Columns should have comparable units.
    Missing entries (NaN) take part in nothing.

    Parameters
    ----------
    max_components : int or None, default=None
        Most directions; None is one less than there are columns (or rows). Those that not even a
        rough criterion asks for are switched off before the first sweep.
    relevance : bool, default=True
        Whether each direction has a relevance. Otherwise all have the broad prior that mu has, and
        all are kept.
    prior : "conjugate", float or None, default="conjugate"
        Shape and rate of the Gamma priors of noise and relevances, and precision of mu's prior, in
        units of the columns' mean variance; "conjugate" is the paper's 1e-3. None is maximum
        likelihood: all ``max_components`` directions are kept, whatever ``relevance``.
    max_iter : int, default=500
        Most sweeps.
    tol : float, default=1e-4
        The fit has converged when the bound rises by less than this a row.
    max_time : float or None, default=None
        Seconds after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS would use.
    random_state : int, Generator, RandomState or None, default=None
    verbose : int, default=0
        Above 0 a progress bar is shown.

    Attributes
    ----------
    effective_dimension_ : int
        Directions whose E|w|^2 is above 1 % of the largest.
    components_ : ndarray of shape (q, D)
        Posterior mean of the directions that are left, the strongest first, each as long as the
        deviation that it explains.
    mean_ : ndarray of shape (D,)
        Posterior mean of mu.
    noise_variance_ : float
        Expected variance of the noise.
    relevances_ : ndarray of shape (q,)
        Expected alpha, an inverse variance of the loadings.
    n_directions_ : int
        Most directions: ``max_components``, or what None stands for.
    lower_bound_ : float
        Lower bound of the log evidence (log-likelihood if ``prior=None``), a row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its trace.
    n_iter_ : int
        EM iterations in that trace.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    See Also
    --------
    BayesianPCAMixture : Several of them, for data on a curved surface.

    References
    ----------
    C. M. Bishop and J. M. Winn, Non-linear Bayesian Image Modelling, ECCV 2000.

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
            NaN is missing.
        y : ignored
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.
        checkpoint : path or Checkpoint, optional
            File that is written while the fit goes on and removed when it ends. After a crash the
            same call goes on from there and gives what it would have given.

        Returns
        -------
        self
        """
        X, weight, _, group = self._read(X, sample_weight)
        deadline = self._deadline()
        options = self._options(1, deadline)
        q = options.most_directions(X)
        source = BlockSource(X, (group,), weight, n_powers=2)
        model = options.model(source, q)

        log = self._log(checkpoint, X, weight)

        def start(child: np.random.Generator) -> BayesianPCAParams:
            some = source.sample(MOST_BEGUN, child)
            Z, alone = encoded_rows(some), np.ones((1, some.X.shape[0]))
            stands = some.weight * (weight.sum() / some.weight.sum())
            n = likely_dimension(Z, stands, q) if model.prior.relevance else q
            return begin(model, source, Z, stands, alone, n, child)

        def first(_: int, child: np.random.Generator) -> tuple[list[Stage], BayesianPCAParams]:
            return [Stage(model)], log.once("start", child, partial(start, child))

        rng = log.generator()
        params, monitor = self._best_ascent(source, first, rng, X, 1, deadline, log)
        everyone, fits = [np.arange(X.shape[0])], [(Space(model, source), params)]
        of_rows = partial(source_of, (group,))
        fitted = FittedComponents(
            model,
            (params,),
            (group,),
            self.n_features_in_,
            X.dtype,
            recorded(monitor, float(weight.sum()), shift=model.counted_turns(params)),
            getattr(self, "feature_names_in_", None),
            calibration=calibrated(fits, of_rows, X, everyone, rng.spawn(1)[0]),
            n_directions=q,
        )
        self._adopt(fitted)
        log.finish()
        return self

    def _attributes(self) -> Mapping[str, object]:
        return components.pca_attributes(self._fitted)

    @property
    def _n_features_out(self) -> int:
        return self._fitted.params[0].mean.shape[2] - 1

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: factor0, factor1, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (q,)
        """
        check_is_fitted(self)
        return np.asarray([f"factor{i}" for i in range(self._n_features_out)], dtype=object)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior mean of the rows' positions.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        factors : ndarray of shape (n, q)
            Columns named factor0, ...
        """
        X = self._checked(X)
        codes = components.codes(self._fitted, X, self.n_jobs)
        return codes[:, :-1].astype(self._fitted.dtype, copy=False)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected row at given positions.

        Parameters
        ----------
        X : array-like of shape (n, q)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        x = self._check_transformed(X, "factor")
        rows = components.expected_rows(self._fitted, np.hstack([x, np.ones((len(x), 1))]))
        return rows.astype(self._fitted.dtype, copy=False)

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> tuple[Array, Array]:
        """Draw new rows.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        factors : ndarray of shape (n_samples, q)
            Their positions.
        """
        rng = self._draw(n_samples, random_state)
        alone = np.zeros(n_samples, int)
        rows, x = components.draw_rows(self._fitted, 0, alone, rng)
        return rows, x.astype(self._fitted.dtype)
