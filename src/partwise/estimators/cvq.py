"""Cooperative Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import summed_states
from partwise.data import ColumnGroup, learn_columns
from partwise.estimators._summed_rows import SummedRows
from partwise.fitted import Fitted, fields_of, restored_fields
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.sums import fit_sums
from partwise.likelihoods import Dirichlet, Gaussian, Prior
from partwise.models import cvq
from partwise.models.cvq import CVQParams
from partwise.typing import DataLike, PathLike, SavedState, Seed

# The ridge of maximum likelihood, in rows: states without rows stay at the columns' means.
LEAST_RIDGE = 1e-8


class CVQ(SummedRows):
    """Cooperative Vector Quantization: a row is a sum of one state of every part, plus noise.

    x = mu[0, s_0] + ... + mu[K - 1, s_(K - 1)] + noise. The noise is Gaussian and independent, with
    one variance per column, so columns may have different units. Unlike in `MCVQ`, every part adds
    to every column. Missing values (NaN) are ignored in fitting and scoring. The posterior over
    a row's states is a product over parts (mean field).

    Parameters
    ----------
    n_parts : int, default=4
        K, the number of parts.
    n_states : int, default=8
        J, the number of states of every part.
    prior : "conjugate", Prior or None, default="conjugate"
        Pseudo-rows (see `partwise.Prior`): ``entries`` rows at the columns' means in every state
        (a ridge penalty), ``shape`` rows with a noise of ``spread`` times the column's variance,
        and ``states`` rows in every state. None is maximum likelihood, with a noise of at least
        1e-6 times the column's variance.
    n_init : int, default=2
        Number of initializations; the fit with the highest ELBO is kept. Initializations alternate
        between groups of dependent columns and clusters of the rows, then of the residuals, part by
        part.
    max_iter : int, default=200
        Maximum number of EM iterations per initialization, without those of annealing.
    tol : float, default=1e-3
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
    means_ : ndarray of shape (K, J, D)
        Vector that each state adds to a row. Constants can be moved between parts without effect;
        here every part has the same average over its states.
    noise_variance_ : ndarray of shape (D,)
        Variance of the noise.
    state_priors_ : ndarray of shape (K, J)
        Probability of each state.
    lower_bound_ : float
        Lower bound of the log-likelihood plus the log density of the prior's pseudo-rows, per row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration after annealing, and at the end.
    n_iter_ : int
        Number of EM iterations, ``len(lower_bounds_) - 1``. Callbacks are called in every iteration
        of every initialization.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    References
    ----------
    G. E. Hinton and R. S. Zemel, Autoencoders, Minimum Description Length and Helmholtz Free
    Energy, NIPS 1993. Z. Ghahramani, Factorial Learning and the EM Algorithm, NIPS 1994.

    Examples
    --------
    >>> from partwise import CVQ, make_shapes
    >>> shapes = make_shapes()
    >>> model = CVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> model.predict_states(shapes.data).shape
    (729, 3)
    >>> bool(abs(model.reconstruct(shapes.data) - shapes.data).max() < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "n_parts": [Interval(Integral, 1, None, closed="left")],
        "n_states": [Interval(Integral, 1, None, closed="left")],
        "prior": [StrOptions({"conjugate"}), Prior, None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_parts: int = 4,
        n_states: int = 8,
        *,
        prior: str | Prior | None = "conjugate",
        n_init: int = 2,
        max_iter: int = 200,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.prior = prior
        self.n_init = n_init
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
        checkpoint: PathLike | Checkpoint | None = None,
    ) -> CVQ:
        """Learn the vectors of the states and the noise.

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
        >>> from partwise import CVQ
        >>> X = load_iris().data
        >>> model = CVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.means_.shape
        (2, 3, 4)
        """
        rows = self._training_rows(X, sample_weight)
        if rows.X.shape[0] < self.n_states:
            raise ValueError(
                f"n_states={self.n_states} exceeds n_samples={rows.X.shape[0]}, the rows of "
                "positive weight; lower n_states or pass more rows."
            )
        columns = learn_columns(rows.X, "gaussian", rows.weight, False, self._prior_strengths())
        self._warn_of_missing(columns)
        ascent = self._ascent(rows, checkpoint)
        return self._finish(ascent, fit_sums(ascent, self._core(), columns))

    def _core(self) -> cvq.CVQ:
        prior, sizes = self._prior_strengths(), (int(self.n_parts), int(self.n_states))
        if prior is None:
            return cvq.CVQ(*sizes, LEAST_RIDGE, 0.0, 0.0, Dirichlet(0.0))
        return cvq.CVQ(*sizes, prior.entries, prior.shape, prior.spread, Dirichlet(prior.states))

    def _attributes(self) -> Mapping[str, object]:
        return summed_states.attributes(self._fitted)

    # --- files ---

    def __partwise_state__(self) -> dict[str, object]:
        fitted = self._fitted
        return {
            "theta": fields_of(fitted.params),
            "columns": fitted.columns[0].fields(),
            "dtype": np.dtype(fitted.dtype).name,
            "learned": self._learned(),
        }

    def __partwise_restore__(self, state: SavedState) -> None:
        columns = (ColumnGroup(likelihood=Gaussian(), **state["columns"]),)
        params = CVQParams(
            **{field.name: state["theta"][field.name] for field in fields(CVQParams)}
        )
        dtype = np.dtype(state["dtype"])
        known: SavedState = restored_fields(state["learned"])
        self._adopt(Fitted(self._core(), params, columns, dtype=dtype, **known))
