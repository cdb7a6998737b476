"""The aspect model of ratings as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import aspects
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.data.rating_levels import ScaleGroup, learn_scale
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitted import Fitted, restored_fields
from partwise.fitting.aspects import FittedAspects, fit_aspects
from partwise.fitting.checkpoint import Checkpoint
from partwise.likelihoods import Categorical, Prior
from partwise.models import aspect
from partwise.sampling.importance import RowLikelihood
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Matrix, PathLike, SavedState, Seed

# Pseudo-ratings per row and aspect of Prior(states=1). They are few, as a row has few ratings and
# uses few aspects.
MIXING = 0.02


class AspectModel(PartsEstimator):
    """The aspect model: each rating has its own latent aspect, from the mixture of its row.

    p(r | row, column) = sum_z p(z | row) p(r | column, z), where p(r | column, z) is a Gaussian
    truncated to the levels of the rating scale. The fit is tempered EM; temperature and number of
    iterations are selected on held-out ratings. For a new row only its mixture is inferred. Missing
    ratings (NaN, or not stored in sparse X) are ignored in fitting and scoring.

    Parameters
    ----------
    n_aspects : int, default=20
        Z, the number of aspects.
    beta : "auto" or float, default="auto"
        Inverse temperature, above 0 and at most 1 (plain EM). "auto" tries 1, 0.9,
        0.8, ... from the same start while the likelihood of a held-out tenth of the ratings rises;
        the best value is then used on all ratings, with the number of iterations that was best for
        the held-out ratings.
    prior : "conjugate", Prior or None, default="conjugate"
        Pseudo-ratings (see `partwise.Prior`): ``counts`` ratings per column and aspect, distributed
        as the column's own, and 0.02 ``states`` ratings per row and aspect. None is maximum
        likelihood.
    max_iter : int, default=200
        Maximum number of EM iterations per temperature.
    tol : float, default=1e-2
        The fit has converged when the objective rises by less than this per row; the held-out
        tenth of the ratings stops at a rise of less than a tenth of it.
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
    levels_ : ndarray of shape (V,)
        The rating scale: the values found in X or, if they are more than 32, 64 equal steps. A
        value between levels counts as the nearest.
    means_, variances_ : ndarray of shape (Z, D)
        Mean and variance of a column's ratings in each aspect, after truncation.
    beta_ : float
        Inverse temperature.
    lower_bound_ : float
        Log-likelihood at that temperature, sum of log (sum_z (p(z|row) p(r|column,z))^beta) / beta,
        plus the log density of the prior's pseudo-ratings, per row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration, and at the end.
    n_iter_ : int
        EM iterations in that trace.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    References
    ----------
    T. Hofmann, Learning What People (Don't) Want, ECML 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from partwise import AspectModel
    >>> rng = np.random.default_rng(0)
    >>> taste, kind = rng.integers(2, size=200), np.arange(30) % 2
    >>> liked = taste[:, None] == kind
    >>> stars = np.where(liked, rng.integers(4, 6, liked.shape), rng.integers(1, 3, liked.shape))
    >>> ratings = sparse.csr_array(stars * (rng.random(liked.shape) < 0.3))
    >>> model = AspectModel(n_aspects=2, random_state=0).fit(ratings)
    >>> bool(abs(model.reconstruct(ratings) - stars).mean() < 0.6)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "n_aspects": [Interval(Integral, 1, None, closed="left")],
        "beta": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="right")],
        "prior": [StrOptions({"conjugate"}), Prior, None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    _fitted: FittedAspects

    def __init__(
        self,
        n_aspects: int = 20,
        *,
        beta: float | str = "auto",
        prior: Prior | str | None = "conjugate",
        max_iter: int = 200,
        tol: float = 1e-2,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_aspects = n_aspects
        self.beta = beta
        self.prior = prior
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: Checkpoint | PathLike | None = None,
    ) -> AspectModel:
        """Fit the model to ratings.

        Parameters
        ----------
        X : array-like or sparse of shape (C, D)
            Ratings on one scale; NaN, or an entry that sparse X does not store, is missing.
        y : None
            Ignored; present for compatibility with scikit-learn.
        sample_weight : array-like of shape (C,), optional
            An integer weight w is equivalent to repeating the row w times.
        checkpoint : path or Checkpoint, optional
            File written during the fit and removed at its end. After a crash the same call resumes
            from it, with the same result as an uninterrupted fit.

        Returns
        -------
        self
        """
        rows = self._training_rows(X, sample_weight)
        group = learn_scale(rows.X, rows.weight)
        self._warn_of_missing((group,))
        ascent, core = self._ascent(rows, checkpoint), self._core(group, 1.0)
        beta = None if isinstance(self.beta, str) else float(self.beta)
        return self._finish(ascent, fit_aspects(ascent, core, group, beta))

    def _core(self, group: ScaleGroup, beta: float) -> aspect.Aspect:
        prior, levels = self._prior_strengths(), np.asarray(group.levels)
        reach = 0.5 * (levels[-1] - levels[0]) or 1.0
        nodes = (levels - 0.5 * (levels[0] + levels[-1])) / reach
        return aspect.Aspect(
            int(self.n_aspects),
            nodes,
            np.stack([nodes, nodes**2]) @ group.moments,
            aspect.LEAST_STRENGTH if prior is None else prior.counts,
            0.0 if prior is None else MIXING * prior.states,
            beta,
        )

    def _attributes(self) -> Mapping[str, object]:
        return aspects.attributes(self._fitted)

    def _absent_zero(self) -> bool:
        return False

    # --- rows ---

    @property
    def _n_features_out(self) -> int:
        return self._fitted.model.n_aspects

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: aspect0, aspect1, ...

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (Z,)
        """
        check_is_fitted(self)
        return np.asarray([f"aspect{z}" for z in range(self._n_features_out)], dtype=object)

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior shares of the aspects, p(z | row).

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        shares : ndarray of shape (n, Z)
            Rows sum to 1.
        """
        check_is_fitted(self)
        return self._shares(self._checked(X)).astype(self._fitted.dtype, copy=False)

    def _shares(self, X: Matrix) -> Array:
        return aspects.shares(self._fitted, X, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected ratings given shares of the aspects.

        Parameters
        ----------
        X : array-like of shape (n, Z)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        return aspects.expected_rows(self._fitted, self._check_transformed(X, "aspect"))

    def _reconstruct(self, X: Matrix) -> Array:
        return aspects.expected_rows(self._fitted, self._shares(X))

    def _impute(self, X: Matrix) -> Array:
        return self._reconstruct(X)

    def _interval(self, X: Matrix, tail: float) -> tuple[Array, Array]:
        return aspects.interval(self._fitted, X, tail, self.n_jobs)

    # --- densities ---

    def _cell_densities(
        self, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        return aspects.cell_densities(self._fitted, block, rows, columns, values)

    def _likelihoods(self, X: Matrix, n_draws: int) -> RowLikelihood:
        return aspects.likelihoods(self._fitted, X, n_draws, self.n_jobs)

    def _class_shares(self) -> Array:
        return np.ones(1)

    def _n_parameters(self) -> float:
        return aspects.n_parameters(self._fitted)

    def sample(self, n_samples: int = 1, *, random_state: Seed = None) -> tuple[Array, Array]:
        """Sample new rows, with shares of the aspects from the prior.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        shares : ndarray of shape (n_samples, Z)
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        return aspects.sample(self._fitted, n_samples, rng)

    # --- saving ---

    def __partwise_state__(self) -> dict[str, object]:
        fitted = self._fitted
        return {
            "eta": fitted.params.eta,
            "columns": fitted.columns[0].fields(),
            "dtype": np.dtype(fitted.dtype).name,
            "learned": self._learned("beta_"),
        }

    def __partwise_restore__(self, state: SavedState) -> None:
        columns = state["columns"]
        likelihood = Categorical(len(columns["levels"]))
        group = ScaleGroup(likelihood=likelihood, **columns)
        model = self._core(group, state["learned"]["beta_"])
        params, dtype = aspect.AspectParams(state["eta"]), np.dtype(state["dtype"])
        fields: SavedState = restored_fields(state["learned"])
        self._adopt(Fitted(model, params, (group,), dtype=dtype, **fields))
