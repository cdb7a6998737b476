"""Cooperative Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import summed_states
from partwise.answers.summed_states import FittedSums
from partwise.association import Certificate
from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, learn_columns
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitted import Fitted, fields_of, restored_fields
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Begun, Stage
from partwise.likelihoods import Dirichlet, Gaussian, Prior
from partwise.models import cvq
from partwise.models.cvq import CVQParams
from partwise.sampling.importance import RowLikelihood
from partwise.sampling.randomness import as_generator
from partwise.starts.cvq_start import residual_start, separate_start
from partwise.typing import DataLike, Matrix, PathLike, Seed, State

# Sweeps in which rows' posteriors cool before the climb, and the inverse temperature they begin at.
COOLING_SWEEPS = 30
WARMEST = 0.05

# The ridge of maximum likelihood, in rows: states that no row takes stay where the columns are.
LEAST_RIDGE = 1e-8


class CVQ(PartsEstimator):
    """Cooperative Vector Quantization: a row is a sum of one state of every part, and noise.

    x = mu[0, s_0] + ... + mu[K - 1, s_(K - 1)] + noise, the noise Gaussian and independent in every
    column with a variance of its own, so that columns may have different units. Unlike in `MCVQ`,
    every part adds to every column. Missing entries (NaN) take part in nothing. The posterior over
    a row's states is a product over parts (mean field).

    Parameters
    ----------
    n_parts : int, default=4
        K, the number of parts.
    n_states : int, default=8
        J, the number of states of every part.
    prior : "conjugate", Prior or None, default="conjugate"
        Pseudo-rows (see `partwise.Prior`): ``entries`` rows at the columns' means in every state
        (a ridge), ``shape`` rows with a noise of ``spread`` times the column's variance, and
        ``states`` rows in every state. None is maximum likelihood, with a noise of no less than
        1e-6 times the column's variance.
    n_init : int, default=2
        Number of starts; the best bound is kept. They take turns: the first groups columns by their
        dependence, the next clusters rows, then what is left of them, part after part.
    max_iter : int, default=200
        Most sweeps of a start, after cooling.
    tol : float, default=1e-3
        A fit has converged when the bound rises by less than this a row.
    max_time : float or None, default=None
        Seconds after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS would use.
    random_state : int, Generator, RandomState or None, default=None
    verbose : int, default=0
        Above 0 a progress bar is shown.

    Attributes
    ----------
    means_ : ndarray of shape (K, J, D)
        What each state adds to a row. A constant may be moved from one part to another without
        effect; here every part has the same average over its states.
    noise_variance_ : ndarray of shape (D,)
        Variance of the noise.
    state_priors_ : ndarray of shape (K, J)
        Probability of each state.
    lower_bound_ : float
        Lower bound of the log-likelihood, plus the log density of the prior's pseudo-rows, a row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its trace; cooling is over where it begins.
    n_iter_ : int
        EM iterations in that trace. Callbacks hear those of every start, in order.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

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

    _fitted: FittedSums
    _dense_since = "every part adds to every entry"

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
        """Learn what the states add, and the noise.

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
        X, weight, _ = self._check_fit_rows(X, sample_weight)
        K, J = int(self.n_parts), int(self.n_states)
        if X.shape[0] < J:
            raise ValueError(
                f"n_states={J} is more than n_samples={X.shape[0]}, the rows with weight; "
                "lower n_states or give more rows."
            )
        columns = learn_columns(X, "gaussian", weight, False, self._prior_strengths())
        self._warn_of_missing(columns)
        model = self._core()
        source = BlockSource(X, columns, weight)
        ways = (separate_start, residual_start)
        betas = np.geomspace(WARMEST, 1.0, COOLING_SWEEPS, endpoint=False)
        stages = [replace(model, beta=float(beta)) for beta in betas]

        log = self._log(checkpoint, X, weight)

        def begin(i: int, child: np.random.Generator) -> Begun[cvq.CVQ, CVQParams]:
            start = partial(ways[i % len(ways)], source, K, J, child)
            return [Stage(model, stages)], model.start(*log.once("start", child, start))

        rng = log.generator()
        theta, monitor = self._best_ascent(source, begin, rng, X, self.n_init, log=log)
        fitted: FittedSums = Fitted(
            model,
            theta,
            columns,
            self.n_features_in_,
            X.dtype,
            recorded(monitor, float(weight.sum())),
            getattr(self, "feature_names_in_", None),
        )
        self._adopt(fitted)
        log.finish()
        return self

    def _core(self) -> cvq.CVQ:
        prior, sizes = self._prior_strengths(), (int(self.n_parts), int(self.n_states))
        if prior is None:
            return cvq.CVQ(*sizes, LEAST_RIDGE, 0.0, 0.0, Dirichlet(0.0))
        return cvq.CVQ(*sizes, prior.entries, prior.shape, prior.spread, Dirichlet(prior.states))

    def _attributes(self) -> Mapping[str, object]:
        return summed_states.attributes(self._fitted)

    @property
    def _n_features_out(self) -> int:
        return len(self._fitted.params.mu)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: part0_state0, part0_state1, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (K * J,)
        """
        check_is_fitted(self)
        return np.asarray(summed_states.names_out(self._fitted), dtype=object)

    # --- rows ---

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
        """
        m = np.asarray(self.transform(X))
        return m.reshape(len(m), self._fitted.model.n_parts, -1).argmax(axis=2)

    @by_rows
    def encode(self, X: DataLike) -> Array:
        """Most probable combination of states of each row, by exact search.

        Unlike `states`, which are the most probable ones of each part under the mean-field
        posterior, these are the most probable together.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, K), int
        """
        X = self._checked(X)
        return summed_states.best_states(self._fitted, X, self.n_jobs).values

    def decode(self, S: ArrayLike) -> Array:
        """Rows that combinations of states stand for.

        Parameters
        ----------
        S : array-like of shape (n, K)
            As `encode` gives them.

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        S, model = np.asarray(S), self._fitted.model
        K, J = model.n_parts, model.n_states
        if S.ndim != 2 or S.shape[1] != K or not np.isin(S, np.arange(J)).all():
            raise ValueError(
                f"S has shape {S.shape}, but decode needs (n, {K}), whole numbers from 0 and below "
                f"{J}, as encode gives."
            )
        return summed_states.decode(self._fitted, S.astype(np.int64))

    @by_rows
    def certify(self, X: DataLike) -> Certificate:
        """How good the code of each row is: proven the most probable, or how far from it at most.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        certificate : Certificate
            Fields ``proven``, ``gap``, ``error`` and ``lower_bound``, each of shape (n,); the error
            of a code is minus the log density of the row together with it.
        """
        X = self._checked(X)
        return summed_states.certify(self._fitted, X, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected row given posteriors over states.

        Parameters
        ----------
        X : array-like of shape (n, K * J)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        return summed_states.expected_rows(self._fitted, self._check_transformed(X, "state"))

    def _reconstruct(self, X: Matrix) -> Array:
        return summed_states.expected_rows(self._fitted, self._posteriors(X))

    def _impute(self, X: Matrix) -> Array:
        return self._reconstruct(X)

    def _absent_zero(self) -> bool:
        return False

    # --- densities ---

    def _likelihoods(self, X: Matrix, n_draws: int) -> RowLikelihood:
        return summed_states.likelihoods(self._fitted, X, n_draws, self.n_jobs)

    def _class_shares(self) -> Array:
        return np.ones(1)

    def _n_parameters(self) -> float:
        return summed_states.n_parameters(self._fitted)

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
        states : ndarray of shape (n_samples, K)
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        return summed_states.sample(self._fitted, n_samples, rng)

    # --- saving, and what scikit-learn asks ---

    def __partwise_state__(self) -> dict[str, object]:
        fitted = self._fitted
        return {
            "theta": fields_of(fitted.params),
            "columns": fitted.columns[0].fields(),
            "dtype": np.dtype(fitted.dtype).name,
            "learned": self._learned(),
        }

    def __partwise_restore__(self, state: State) -> None:
        columns = (ColumnGroup(likelihood=Gaussian(), **state["columns"]),)
        params = CVQParams(
            **{field.name: state["theta"][field.name] for field in fields(CVQParams)}
        )
        dtype = np.dtype(state["dtype"])
        known: State = restored_fields(state["learned"])
        self._adopt(Fitted(self._core(), params, columns, dtype=dtype, **known))
