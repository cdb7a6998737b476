"""Multiple Cause Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.contracts import Array
from partwise.data import ColumnGroup, MemorySource, RowBlock, learn_columns
from partwise.engine.randomness import as_generator
from partwise.estimators._base import PartsEstimator
from partwise.estimators._calibrate import calibrate
from partwise.likelihoods import LIKELIHOODS, Categorical, Dirichlet, Prior
from partwise.likelihoods.predictive import Levels, Predictive
from partwise.models import calibration, mcvq, predict
from partwise.models.calibration import Calibration
from partwise.models.gating import Gating, Standard, Tied
from partwise.models.selection import Draws, Expected, Selection
from partwise.sampling.importance import RowLikelihood
from partwise.starts import dependence_start, random_start

STARTS = {"dependence": dependence_start, "random": random_start}

# Annealing: sweeps in which the temperature falls from the mean number of a column's observations
# (at which a column weighs its evidence per observation, as the standard gating does) to 1. The
# papers lower it linearly; a constant factor spends its sweeps where gates begin to close.
ANNEALING_SWEEPS = 40

# Gibbs: rounds over a block averaged in one EM step, and EM steps averaged before the log joint
# density is compared with what it was.
GIBBS_ROUNDS = 4
GIBBS_WINDOW = 10

# Densities of entries and states held at a time where columns have no one part.
MOST_DENSITIES = 4_000_000


class MCVQ(PartsEstimator):
    """Multiple Cause Vector Quantization: parts of columns, each with a few states.

    Every column belongs to a part, every row is in one state of each part, and an entry depends on
    the state of its column's part alone. Missing entries (NaN) take part in nothing.

    Parameters
    ----------
    n_parts : int, default=4
        K, the number of parts.
    n_states : int or sequence of int, default=8
        J, the number of states of every part, or one number a part.
    likelihood : {"gaussian", "bernoulli", "poisson", "categorical"}, default="gaussian"
        Law of an entry given its state.
    gating : {"annealed", "tied", "standard", "factorised"}, default="annealed"
        How columns choose parts. "tied": one choice for all rows. "annealed": the same, reached by
        lowering a temperature. "standard": a choice for every row with one posterior for all.
        "factorised": a posterior for every entry; begun from a tied solution if
        ``init="dependence"``. Variational inference only.
    inference : {"variational", "gibbs"}, default="variational"
        "gibbs" is Monte Carlo EM: states and the parts of all entries are drawn.
    prior : "conjugate", Prior or None, default="conjugate"
        Strengths of the conjugate priors (see `partwise.Prior`); None is maximum likelihood.
    entropic : float, default=0.0
        Strength of an entropic prior that favours gates of low entropy.
    absent : {"auto", "unobserved", "zero"}, default="auto"
        What an entry not stored in a sparse matrix means; "auto" is zero for counts
        (``likelihood="poisson"``) and unobserved otherwise.
    init : {"dependence", "random"}, default="dependence"
        Where the fit begins: columns grouped by their dependence and rows clustered in each group,
        or as in the papers: states at randomly selected rows, gates uniform, and the rows of a
        factorised posterior wherever these gates put them (else at likely states).
    n_init : int, default=1
        Number of starts; the best bound is kept.
    max_iter : int, default=200
        Most sweeps of a start, after annealing.
    tol : float, default=1e-3
        A fit has converged when the bound rises by less than this a row.
    max_time : float or None, default=None
        Seconds after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS would use.
    random_state : int, Generator, RandomState or None, default=None
    verbose : int, default=0
        Above 0 a progress bar is shown.
    warm_start : bool, default=False
        Begin from the parameters of the last fit, which may have had another gating.

    Attributes
    ----------
    gates_ : ndarray of shape (D, K)
        Probability that a part explains a column; what is left is the background's.
    parts_ : ndarray of shape (D,)
        Most probable part of each column, -1 for background: columns that never change or that, by
        their evidence, depend on no part (the latter with "annealed" and "tied" gating only).
    means_ : ndarray of shape (K, J, D), categorical: (K, J, D, V)
        Expected entry in each state (categorical: probability of each level); NaN where a part has
        fewer than J states.
    variances_ : ndarray of shape (K, J, D)
        Variance of an entry in each state (of the level's number, if categorical).
    state_priors_ : ndarray of shape (K, J)
        Probability of each state, 0 where a part has fewer than J.
    levels_ : ndarray of shape (V,)
        Categories in the order of the last axis of ``means_`` (categorical only).
    lower_bound_ : float
        Lower bound of the log evidence (of the log-likelihood if ``prior=None``), a row.
    lower_bounds_ : ndarray of shape (n_iter_ + 1,)
        Its trace; annealing is over where it begins. With ``inference="gibbs"`` the trace is the
        log joint density of rows and drawn states, no bound; ``lower_bound_`` is one.
    n_iter_ : int
        Sweeps taken.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    References
    ----------
    D. A. Ross and R. S. Zemel, Multiple Cause Vector Quantization, NIPS 2002; Learning Parts-Based
    Representations of Data, JMLR 7, 2006.

    Examples
    --------
    >>> from partwise import MCVQ, make_shapes
    >>> shapes = make_shapes()
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data)
    >>> model.states(shapes.data).shape
    (729, 3)
    >>> bool(abs(model.reconstruct(shapes.data) - shapes.data).max() < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_parts": [Interval(Integral, 1, None, closed="left")],
        "n_states": [Interval(Integral, 1, None, closed="left"), list, tuple, np.ndarray],
        "likelihood": [StrOptions(set(LIKELIHOODS))],
        "gating": [StrOptions({"annealed", "tied", "standard", "factorised"})],
        "inference": [StrOptions({"variational", "gibbs"})],
        "prior": [StrOptions({"conjugate"}), Prior, None],
        "entropic": [Interval(Real, 0, None, closed="left")],
        "absent": [StrOptions({"auto", "unobserved", "zero"})],
        "init": [StrOptions(set(STARTS))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        n_parts: int = 4,
        n_states: int | Sequence[int] = 8,
        *,
        likelihood: str = "gaussian",
        gating: str = "annealed",
        inference: str = "variational",
        prior: Any = "conjugate",
        entropic: float = 0.0,
        absent: str = "auto",
        init: str = "dependence",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.likelihood = likelihood
        self.gating = gating
        self.inference = inference
        self.prior = prior
        self.entropic = entropic
        self.absent = absent
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MCVQ:
        """Learn parts and states.

        Parameters
        ----------
        X : array-like, sparse matrix or sparse array of shape (C, D)
            NaN is missing; for sparse input see ``absent``.
        y : ignored
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.

        Returns
        -------
        self
        """
        X, weight = self._check_fit_rows(X, sample_weight)
        n_states = self._sizes(X.shape[0])
        absent_zero = self._absent_zero()
        again = self.warm_start and hasattr(self, "_theta")
        columns = learn_columns(X, self.likelihood, weight, absent_zero, self._prior())
        self._warn_of_holes(columns)
        if again:
            n_states = self._same_shape(columns, n_states)
            # Units and levels stay, or the parameters would mean something else.
            columns = tuple(
                replace(old, weight=new.weight, likelihood=new.likelihood)
                for old, new in zip(self._columns, columns, strict=True)
            )
        elif self._wants_background:
            n_states = (*n_states, 1)
        background = len(n_states) > self.n_parts
        rng = as_generator(self.random_state)
        self._check_pairing(sparse.issparse(X) and absent_zero)
        self._dtype = X.dtype
        core = self._core(columns, n_states)
        source = MemorySource(X, columns, weight)

        def begin(child: np.random.Generator) -> tuple[list[tuple[Any, Any, int]], Any]:
            if again:
                theta = core.undecide(core.rebuild(self._theta))
            else:
                theta = core.start(*STARTS[self.init](source, n_states, background, child))
            return self._legs(core, theta, child, again), theta

        model, theta, monitor = self._climb_best(source, begin, rng, X, 1 if again else self.n_init)
        self._model, self._theta, self._columns = model, core.rebuild(theta), columns
        total = float(weight.sum())
        self.lower_bounds_ = np.asarray(monitor.trace) / total
        self.lower_bound_ = float(self.lower_bounds_[-1])
        if self.inference == "gibbs":
            self._model = self._rowwise(core, Expected())
            self.lower_bound_ = self._bound_of_draws(source) / total
        self.n_iter_ = monitor.n_iter
        self.converged_ = monitor.converged
        self._calibration = calibrate(
            self._model, self._theta, source, self._below, rng.spawn(1)[0], self.n_jobs
        )
        self._describe()
        return self

    def _below(
        self, theta: mcvq.Theta, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        """P(X <= value) of chosen cells of a column group, given the rest of their rows."""
        core = self._core_of(self._model)
        law, gates = core.priors[g].predictive(theta.chi[g]), theta.gates[:, core.columns[g]]
        m = self._model.infer(theta, block)[0]
        return predict.probability_below(law, m, gates, core.part_of, rows, columns, values)

    def _sizes(self, n_rows: int) -> tuple[int, ...]:
        if isinstance(self.n_states, Integral):
            n_states = (int(self.n_states),) * int(self.n_parts)
        else:
            n_states = tuple(int(j) for j in np.atleast_1d(self.n_states))
            if len(n_states) != self.n_parts or min(n_states, default=0) < 1:
                raise ValueError(
                    f"n_states={self.n_states!r} must be a number, or {self.n_parts} positive "
                    "numbers, one a part (n_parts)."
                )
        if max(n_states) > n_rows:
            raise ValueError(
                f"n_states={max(n_states)} is more than n_samples={n_rows}, the rows with weight; "
                "lower n_states or give more rows."
            )
        return n_states

    @property
    def _wants_background(self) -> bool:
        """Whether a part of one state shall take the columns that no other part explains.

        Its evidence can win only where parameters have a prior and a column chooses once.
        """
        tied = self.gating in ("annealed", "tied") and self.inference == "variational"
        return tied and self.prior is not None

    def _prior(self) -> Prior | None:
        return Prior() if isinstance(self.prior, str) else self.prior

    def _absent_zero(self) -> bool:
        return self.likelihood == "poisson" if self.absent == "auto" else self.absent == "zero"

    def _check_pairing(self, absent_zero: bool) -> None:
        rowwise = self.inference == "gibbs" or self.gating == "factorised"
        if rowwise and absent_zero:
            which = 'inference="gibbs"' if self.inference == "gibbs" else 'gating="factorised"'
            raise ValueError(
                f"{which} selects a part for every entry, which sparse X with absent zeros does "
                'not store; pass X.toarray(), or choose gating="annealed", "tied" or "standard" '
                'with inference="variational".'
            )

    def _same_shape(
        self, columns: tuple[ColumnGroup, ...], n_states: tuple[int, ...]
    ) -> tuple[int, ...]:
        """States of the last fit, a background included if it had one."""
        old = self._core_of(self._model).n_states
        same = all(
            a.likelihood.name == b.likelihood.name and len(a.index) == len(b.index)
            for a, b in zip(self._columns, columns, strict=True)
        )
        if old[: self.n_parts] != n_states or len(old) > self.n_parts + 1 or not same:
            raise ValueError(
                "warm_start=True needs the columns, n_parts, n_states and likelihood of the last "
                "fit; set warm_start=False to begin anew."
            )
        return old

    def _core(self, columns: tuple[ColumnGroup, ...], n_states: tuple[int, ...]) -> mcvq.MCVQ:
        prior = self._prior()
        gating: Gating = Tied() if self.gating in ("annealed", "tied") else Standard()
        return mcvq.MCVQ(
            n_states,
            tuple(group.entry_prior(prior) for group in columns),
            tuple(group.index for group in columns),
            np.concatenate([group.weight for group in columns]),
            gating,
            Dirichlet(prior.states if prior else 0.0),
            Dirichlet(prior.gates if prior else 0.0),
            float(self.entropic),
            self._dtype,
        )

    def _legs(
        self,
        core: mcvq.MCVQ,
        theta: mcvq.Theta,
        rng: np.random.Generator,
        again: bool,
    ) -> list[tuple[Any, Any, int]]:
        """Models to climb with one after the other, each with its warm-up and monitor window."""
        if self.inference == "gibbs":
            draws = Draws(int(rng.integers(2**63 - 1)))
            return [(self._rowwise(core, draws, GIBBS_ROUNDS), (), GIBBS_WINDOW)]
        if self.gating == "factorised":
            legs: list[tuple[Any, Any, int]] = [(self._rowwise(core, Expected()), (), 1)]
            if self.init == "dependence" and not again:
                legs.insert(0, (replace(core, gating=Tied()), (), 1))
            return legs
        if self.gating == "annealed" and not again:
            temperatures = np.geomspace(
                max(core.weight.mean(), 1.0), 1.0, ANNEALING_SWEEPS, endpoint=False
            )
            barred = self._barred(theta) if len(core.n_states) > self.n_parts else None
            stages = [replace(core, gating=Tied(1.0 / t), barred=barred) for t in temperatures]
            return [(core, stages, 1)]
        return [(core, (), 1)]

    def _rowwise(self, core: mcvq.MCVQ, select: Selection, n_rounds: int = 2) -> Any:
        """The model with selections of rows' own, begun as ``init`` says."""
        return mcvq.RowwiseMCVQ(core, select, n_rounds, from_gates=self.init == "random")

    def _barred(self, theta: mcvq.Theta) -> Array:
        """Between background and parts no column changes sides while the temperature falls.

        Until the states have formed, one state for all rows looks better than it is.
        """
        is_background = np.arange(len(theta.gates))[:, None] == self.n_parts
        return is_background != (theta.gates.argmax(axis=0) == self.n_parts)

    @staticmethod
    def _core_of(model: Any) -> mcvq.MCVQ:
        return model.core if isinstance(model, mcvq.RowwiseMCVQ) else model

    def _bound_of_draws(self, source: MemorySource) -> float:
        """Factorised lower bound of parameters learned by drawing."""
        cost = float(self._theta.divergence.sum()) + self._theta.gate_cost
        cost += self._core_of(self._model).state_cost(self._theta)
        rows = [
            float(block.weight @ (self._model.infer(self._theta, block)[1] + block.base))
            for block in source.blocks()
        ]
        return sum(rows) - cost

    # --- what was learned, in the user's units ---

    @property
    def _first(self) -> Array:
        return self._core_of(self._model).first

    @property
    def _part_of(self) -> Array:
        return self._core_of(self._model).part_of

    def _laws(self) -> list[Predictive]:
        """Predictive distribution of entries in every state, (S, D_g) a group."""
        priors = self._core_of(self._model).priors
        return [p.predictive(chi) for p, chi in zip(priors, self._theta.chi, strict=True)]

    def _own_states(self) -> tuple[int, ...]:
        """Number of states of every part, the background left out."""
        return self._core_of(self._model).n_states[: self.n_parts]

    def _state_shares(self) -> Array:
        """Posterior mean of the state priors, background included; (S,)."""
        core, counts = self._core_of(self._model), self._theta.state_counts
        return np.concatenate(
            [core.state_prior.mean(counts[lo:hi]) for lo, hi in pairwise(core.first)]
        )

    def _by_part(self, values: Array, fill: float) -> Array:
        """(S, ...) as (K, J, ...), padded; the background left out."""
        n_states = self._own_states()
        out = np.full((len(n_states), max(n_states), *values.shape[1:]), fill, self._dtype)
        for k, J in enumerate(n_states):
            out[k, :J] = values[self._first[k] : self._first[k + 1]]
        return out

    def _describe(self) -> None:
        """Set the learned attributes from the parameters."""
        theta = self._theta
        group, law = self._columns[0], self._laws()[0]
        self.gates_ = theta.gates[: self.n_parts].T.astype(self._dtype)
        chosen = theta.gates.argmax(axis=0)
        self.parts_ = np.where(group.varies & (chosen < self.n_parts), chosen, -1)
        self.state_priors_ = self._by_part(self._state_shares(), 0.0)
        if group.levels is not None and isinstance(law, Levels):
            self.levels_ = group.levels
            self.means_ = self._by_part(np.moveaxis(law.probability, 0, -1), np.nan)
        else:
            self.means_ = self._by_part(group.decode_mean(law.mean), np.nan)
        with np.errstate(over="ignore"):
            self.variances_ = self._by_part(law.variance * group.scale**2, np.nan)

    @property
    def _n_features_out(self) -> int:
        return int(self._first[self.n_parts])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: part0_state0, part0_state1, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (S,)
        """
        check_is_fitted(self)
        n_states = self._own_states()
        names = [f"part{k}_state{j}" for k, J in enumerate(n_states) for j in range(J)]
        return np.asarray(names, dtype=object)

    # --- rows ---

    def _posteriors(self, X: Any) -> Array:
        """m of checked rows, (n, S)."""
        pieces = self._map_rows(X, lambda block, _: self._model.infer(self._theta, block)[0])
        return np.concatenate([piece.T for piece in pieces])

    def transform(self, X: Any) -> Array:
        """Posterior probability of every state of every part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        posteriors : ndarray of shape (n, S)
            Columns named part0_state0, ...; those of one part sum to 1.
        """
        check_is_fitted(self)
        m = self._posteriors(self._check_rows(X, reset=False))
        return m[:, : self._n_features_out]

    def states(self, X: Any) -> Array:
        """Most probable state of each part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        states : ndarray of shape (n, K)
        """
        check_is_fitted(self)
        m = self._posteriors(self._check_rows(X, reset=False))
        bounds = pairwise(self._first[: self.n_parts + 1])
        return np.stack([m[:, lo:hi].argmax(axis=1) for lo, hi in bounds], axis=1)

    def inverse_transform(self, X: Any) -> Array:
        """Expected row given posteriors over states, sum over parts and states of g m mean.

        Parameters
        ----------
        X : array-like of shape (n, S)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        m = np.asarray(X, dtype=self._dtype)
        if m.ndim != 2 or m.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has shape {m.shape}, but inverse_transform needs (n, {self._n_features_out}), "
                "a column for every state, as transform gives."
            )
        if len(self._first) > self.n_parts + 1:  # the background has one state, always taken
            m = np.hstack([m, np.ones((len(m), 1), self._dtype)])
        return self._expected_rows(m)

    def _expected_rows(self, m: Array) -> Array:
        """Expected entries given posteriors (n, S), background included."""
        means = self._columns[0].decode_mean(self._laws()[0].mean)
        rows = predict.expectation(means, m.T, self._theta.gates, self._part_of)
        return rows.astype(self._dtype, copy=False)

    def reconstruct(self, X: Any) -> Array:
        """What the model expects of each row, observed entries included.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        return self._expected_rows(self._posteriors(self._check_rows(X, reset=False)))

    def impute(self, X: Any) -> Array:
        """Fill missing entries; observed ones stay as they are.

        Numbers get their expectation, categories and yes-or-no entries the most probable value.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        filled : ndarray of shape (n, D)
            Dense also for sparse X.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        m = self._posteriors(X)
        group, law = self._columns[0], self._laws()[0]
        if isinstance(law, Levels):
            shares = [
                predict.expectation(p, m.T, self._theta.gates, self._part_of)
                for p in law.probability
            ]
            filled = group.decode(np.argmax(shares, axis=0).astype(float))
        else:
            filled = self._expected_rows(m)
        return _fill(X, filled.astype(self._dtype, copy=False), self._absent_zero())

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Interval that should hold an entry with probability ``coverage``.

        For an observed cell it is what the model expects from the row's other cells and itself.
        Numbers: the model's tail probabilities are corrected by how often cells hidden from it in
        `fit` lay beyond them, so that intervals hold where its distributions do not.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r} must lie between 0 and 1, as 0.9.")
        X = self._check_rows(X, reset=False)
        group, law = self._columns[0], self._laws()[0]
        tail = 0.5 * (1.0 - coverage)
        asked = [calibration.correct(self._calibration, p) for p in (tail, 1.0 - tail)]

        def on_block(block: RowBlock, _: int) -> tuple[Array, Array]:
            m = self._model.infer(self._theta, block)[0].astype(float)
            ends = [predict.quantile(law, m, self._theta.gates, self._part_of, p) for p in asked]
            lower, upper = (group.decode(end).astype(self._dtype, copy=False) for end in ends)
            return lower, upper

        lower, upper = zip(*self._map_rows(X, on_block), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    # --- densities ---

    def row_likelihood(self, X: Any, n_draws: int = 200) -> RowLikelihood:
        """Log-likelihood of each row with its error.

        Exact where every column has one part, or where the combinations of states are few; else by
        importance sampling of the states, the selections of parts summed out.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Draws a row where sampling is needed.

        Returns
        -------
        result : RowLikelihood
            Fields ``log_likelihood``, ``standard_error`` (0 where exact) and ``effective_draws``
            (infinite where exact), each of shape (n,).
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        laws, core = self._laws(), self._core_of(self._model)
        log_prior = np.log(np.maximum(self._state_shares(), 1e-300))

        def on_block(block: RowBlock, _: int) -> RowLikelihood:
            m = self._model.propose(self._theta, block)
            return predict.row_likelihood(
                block, m, laws, core.columns, self._theta.gates, log_prior, core.first, n_draws,
                np.random.default_rng(0),
            )  # fmt: skip

        n_open = int(np.sum(self._theta.gates.max(axis=0) < 1.0))
        most_rows = max(MOST_DENSITIES // max(n_open * len(log_prior), 1), 16)
        pieces = self._map_rows(X, on_block, most_rows)
        return RowLikelihood(*(np.concatenate(field) for field in zip(*pieces, strict=True)))

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        log_likelihood : ndarray of shape (n,)
            See `row_likelihood` for its error where it is an estimate.
        """
        return self.row_likelihood(X).log_likelihood

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        y : ignored

        Returns
        -------
        score : float
        """
        return float(np.mean(self.score_samples(X)))

    def bic(self, X: Any) -> float:
        """Bayesian information criterion; lower is better.

        Counts the parameters of each column under its own part, the state priors and the gates.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        bic : float
        """
        log_likelihood = self.score_samples(X)
        core = self._core_of(self._model)
        per_entry = self._columns[0].likelihood.n_statistics - 1
        n_states = np.asarray(core.n_states)
        entries = per_entry * float(n_states @ self._theta.gates.sum(axis=1))
        choices = float((n_states - 1).sum()) + (len(n_states) - 1) * self.n_features_in_
        penalty = (entries + choices) * np.log(len(log_likelihood))
        return float(penalty - 2.0 * log_likelihood.sum())

    def anomaly_scores(self, X: Any) -> Array:
        """How odd each part of each row is: minus the log-likelihood of the part's entries.

        Where every column has one part the scores of a row sum to minus its log-likelihood, that of
        background columns aside.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        scores : ndarray of shape (n, K)
            In nats; a part without observed entries scores 0.
        """
        check_is_fitted(self)
        return self._anomaly_scores(self._check_rows(X, reset=False))

    def _anomaly_scores(self, X: Any) -> Array:
        """The same for checked rows."""
        laws, core = self._laws(), self._core_of(self._model)
        log_prior = np.log(np.maximum(self._state_shares(), 1e-300))
        parts = self._theta.gates.argmax(axis=0)
        log_scale = np.concatenate([group.log_scale for group in self._columns])
        poisson = self._columns[0].likelihood.name == "poisson"

        def on_block(block: RowBlock, _: int) -> Array:
            own = predict.part_densities(block, laws, core.columns, parts, core.first) + log_prior
            bounds = pairwise(core.first[: self.n_parts + 1])
            density = np.stack(
                [np.logaddexp.reduce(own[:, lo:hi], axis=1) for lo, hi in bounds], axis=1
            )
            return -density - self._base_by_part(block, parts, log_scale, poisson)

        return np.concatenate(self._map_rows(X, on_block))

    def _base_by_part(
        self, block: RowBlock, parts: Array, log_scale: Array, poisson: bool
    ) -> Array:
        """Base measure of a row's entries, part by part; (n, K)."""
        out = np.zeros((block.n_rows, self.n_parts))
        group = self._columns[0]
        for k in range(self.n_parts):
            mine = np.flatnonzero(parts == k)
            entries = block.groups[0].entries(mine)
            base = group.base(entries.values.astype(float), entries.columns)
            out[:, k] = np.bincount(entries.rows, base, minlength=block.n_rows)
            if block.groups[0].zero_value is not None and not poisson:
                stored = np.bincount(
                    entries.rows, log_scale[entries.columns], minlength=block.n_rows
                )
                out[:, k] -= log_scale[mine].sum() - stored
        return out

    # --- one row, and new rows ---

    def explain(self, x: Any, n_columns: int = 5) -> list[dict[str, Any]]:
        """What the model sees in one row.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D)
        n_columns : int, default=5
            Columns to name for each part.

        Returns
        -------
        parts : list of K dict
            ``part``, ``state``, ``probability`` of that state, ``log_likelihood`` of the part's
            entries, and ``columns``: those that decided it, each with ``column``, ``value``,
            ``expected`` in this state, and ``evidence``, by how many nats the entry speaks for this
            state against the part's average.
        """
        check_is_fitted(self)
        row = x if sparse.issparse(x) else np.atleast_2d(np.asarray(x, dtype=self._dtype))
        with warnings.catch_warnings():
            # A single row has lost its column names; their order is all there is to go by.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            row = self._check_rows(row, reset=False)
        if row.shape[0] != 1:
            raise ValueError(f"x must be one row, but has {row.shape[0]}; call explain(X[i]).")
        group, law = self._columns[0], self._laws()[0]
        m = self._posteriors(row)[0]
        shares = -self._anomaly_scores(row)[0]
        log_prior = np.log(np.maximum(self._state_shares(), 1e-300))
        parts = self._theta.gates.argmax(axis=0)
        view = self._source(row).block(0).groups[0]
        expected = group.decode_mean(law.mean)
        out = []
        for k in range(self.n_parts):
            lo, hi = int(self._first[k]), int(self._first[k + 1])
            best = lo + int(m[lo:hi].argmax())
            entries = view.entries(np.flatnonzero((parts == k) & group.varies))
            d = entries.columns
            density = np.stack(
                [law.at((np.full(len(d), s), d)).log_density(entries.values) for s in range(lo, hi)]
            )
            average = np.logaddexp.reduce(density + log_prior[lo:hi, None], axis=0)
            evidence = density[best - lo] - average
            top = np.argsort(-evidence, kind="stable")[:n_columns]
            values = row.toarray()[0] if sparse.issparse(row) else row[0]
            out.append(
                {
                    "part": k,
                    "state": best - lo,
                    "probability": float(m[best]),
                    "log_likelihood": float(shares[k]),
                    "columns": [
                        {
                            "column": self._column_name(int(d[i])),
                            "value": float(values[d[i]]),
                            "expected": float(expected[best, d[i]]),
                            "evidence": float(evidence[i]),
                        }
                        for i in top
                    ],
                }
            )
        return out

    def sample(
        self, n_samples: int = 1, *, states: Any = None, random_state: Any = None
    ) -> tuple[Array, Array]:
        """Draw new rows.

        Parameters
        ----------
        n_samples : int, default=1
        states : array-like of shape (n_samples, K), optional
            States to draw entries from; drawn from their priors if not given.
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
        n_states = self._own_states()
        if states is None:
            shares = self._state_shares()
            priors = [shares[lo:hi] for lo, hi in pairwise(self._first[: self.n_parts + 1])]
            drawn = [rng.choice(len(p), n_samples, p=p / p.sum()) for p in priors]
            states = np.stack(drawn, axis=1)
        states = np.asarray(states, dtype=np.int64)
        if states.shape != (n_samples, len(n_states)) or np.any(
            (states < 0) | (states >= np.asarray(n_states))
        ):
            raise ValueError(
                f"states must have shape ({n_samples}, {len(n_states)}) and numbers from 0 to "
                f"the part's number of states {n_states} less one."
            )
        gates = np.cumsum(self._theta.gates, axis=0)
        u = rng.random((n_samples, gates.shape[1])) * gates[-1]
        part = np.minimum((gates[:, None, :] <= u).sum(axis=0), len(gates) - 1)
        every = np.pad(states, ((0, 0), (0, len(gates) - len(n_states))))
        number = self._first[part] + np.take_along_axis(every, part, axis=1)
        group, law = self._columns[0], self._laws()[0]
        d = np.broadcast_to(np.arange(number.shape[1]), number.shape)
        rows = group.decode(law.at((number, d)).sample(rng))
        return rows.astype(self._dtype, copy=False), states

    # --- saving, and what scikit-learn asks ---

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        theta, core = self._theta, self._core_of(self._model)
        arrays = ("chi", "gates", "gate_counts", "log_a", "gate_cost", "state_counts", "log_b")
        group = self._columns[0]
        fields = ("index", "shift", "scale", "levels", "weight", "moments", "varies", "absent_zero")
        learned = ("lower_bound_", "lower_bounds_", "n_iter_", "converged_", "n_features_in_")
        names = getattr(self, "feature_names_in_", None)
        return {
            "theta": {name: getattr(theta, name) for name in arrays},
            "columns": {name: getattr(group, name) for name in fields},
            "n_states": list(core.n_states),
            "calibration": self._calibration._asdict(),
            "dtype": np.dtype(self._dtype).name,
            "learned": {name: getattr(self, name) for name in learned},
            "feature_names": None if names is None else [str(name) for name in names],
        }

    def _restore(self, state: dict[str, Any]) -> None:
        prior = self._prior()
        fields = state["columns"]
        levels = fields["levels"]
        if self.likelihood == "categorical":
            likelihood: Any = Categorical(len(levels))
        elif self.likelihood == "gaussian" and prior is not None:
            likelihood = LIKELIHOODS["gaussian"](prior.shape, prior.spread)
        else:
            likelihood = LIKELIHOODS[self.likelihood]()
        self._columns = (ColumnGroup(likelihood=likelihood, **fields),)
        self._dtype = np.dtype(state["dtype"])
        core = self._core(self._columns, tuple(state["n_states"]))
        kept = state["theta"]
        theta = mcvq.Theta(
            **kept, divergence=np.empty(0), natural=(), layouts=(), weights=(), age=0
        )
        self._theta = core.rebuild(theta)
        rowwise = self.inference == "gibbs" or self.gating == "factorised"
        self._model = self._rowwise(core, Expected()) if rowwise else core
        self._calibration = Calibration(**state["calibration"])
        for name, value in state["learned"].items():
            setattr(self, name, value)
        if state["feature_names"] is not None:
            self.feature_names_in_ = np.asarray(state["feature_names"], dtype=object)
        self._describe()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_theta")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _fill(X: Any, filled: Array, absent_zero: bool) -> Array:
    """Observed entries of X over ``filled``."""
    if sparse.issparse(X):
        X = X.tocoo()
        if absent_zero:
            filled = np.zeros_like(filled)
        seen = ~np.isnan(X.data)
        filled = filled.copy()
        filled[X.row[seen], X.col[seen]] = X.data[seen]
        return filled
    return np.where(np.isnan(X), filled, X)
