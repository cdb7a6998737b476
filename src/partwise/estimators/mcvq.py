"""Multiple Cause Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BiclusterMixin
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.contracts import Array, Runner
from partwise.data import ColumnGroup, MemorySource, RowBlock
from partwise.estimators import _gated
from partwise.estimators._base import PartsEstimator
from partwise.estimators._sizes import Search
from partwise.likelihoods import LIKELIHOODS, Dirichlet, Prior
from partwise.likelihoods.predictive import Levels, Predictive
from partwise.models import calibration, mcvq, predict
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Gates
from partwise.models.selection import Expected
from partwise.sampling.importance import RowLikelihood
from partwise.starts import dependence_start, random_start

STARTS = {"dependence": dependence_start, "random": random_start}

# Variance to within which entries are known where sizes are sought, in units of the column's.
# States without noise would otherwise be the better the fewer they are; a third of it still finds
# the states of noiseless shapes.
RESOLUTION = 0.01

# Densities of entries and states held at a time where columns have no one part.
MOST_DENSITIES = 4_000_000


class MCVQ(BiclusterMixin, PartsEstimator):
    """Multiple Cause Vector Quantization: parts of columns, each with a few states.

    Every column belongs to a part, every row is in one state of each part, and an entry depends on
    the state of its column's part alone. Missing entries (NaN) take part in nothing.

    Parameters
    ----------
    n_parts : int or "auto", default=4
        K, the number of parts. "auto": as many as the evidence wants, see Notes.
    n_states : int, sequence of int or "auto", default=8
        J, the number of states of every part, or one number a part. "auto": as many in each part as
        the evidence wants.
    likelihood : {"gaussian", "bernoulli", "poisson", "categorical"}, default="gaussian"
        Law of an entry given its state.
    gating : {"annealed", "tied", "standard", "factorised"}, default="annealed"
        How columns choose parts. "tied": one choice for all rows. "annealed": the same, reached by
        lowering a temperature. "standard": a choice for every row with one posterior for all.
        "factorised": a posterior for every entry; begun from a tied solution if
        ``init="dependence"``. Variational inference only.
    inference : {"variational", "gibbs"}, default="variational"
        "gibbs" is Monte Carlo EM: states and the parts of all entries are drawn.
    n_classes : int or None, default=None
        N, classes of rows upon which the states depend. Without y the classes are found, with y
        they are its labels, and rows labelled -1 (None, for strings) are sorted into them. None:
        as many as y has labels, and no class variable without labels.
    prior : "conjugate", Prior or None, default="conjugate"
        Strengths of the conjugate priors (see `partwise.Prior`); None is maximum likelihood. Where
        a size is "auto", "conjugate" is ``Prior(resolution=0.01)``.
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
        Begin from the parameters of the last fit, which may have had another gating; sizes that
        were sought stay as they were found.

    Attributes
    ----------
    n_parts_ : int
        Number of parts, the background aside.
    n_states_ : ndarray of shape (K,)
        Number of states of every part.
    size_path_ : list of dict
        Where a size is "auto", the moves that were tried: ``kind``, the ``parts`` concerned by
        their numbers at that time, ``gain`` of the evidence in nats, whether it was ``accepted``,
        and ``n_parts``, ``n_states`` and ``evidence`` after it.
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
    state_priors_ : ndarray of shape (K, J), with classes (N, K, J)
        Probability of each state (in each class), 0 where a part has fewer than J.
    class_priors_ : ndarray of shape (N,)
        Share of every class (with classes only).
    class_given_state_ : ndarray of shape (N, K, J)
        Probability of every class given the state of one part, by Bayes' rule (with classes only).
    classes_ : ndarray of shape (N,)
        Labels of the classes, or their numbers (with classes only).
    row_labels_ : ndarray of shape (C, K)
        State of every part in every row of the training data (-1 for rows without weight): each
        part sorts the rows in its own way.
    column_labels_ : ndarray of shape (D,)
        The same as ``parts_``, by the name that scikit-learn's biclustering has for it.
    rows_, columns_ : ndarray of bool of shape (S, C) and (S, D)
        Biclusters, one a state: the rows in that state and the columns of its part, with
        scikit-learn's ``biclusters_``, ``get_indices``, ``get_shape`` and ``get_submatrix``.
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

    Notes
    -----
    Sizes are judged by the lower bound of the evidence alone, so "auto" needs a prior, "annealed"
    or "tied" gating and variational inference. Data in which no column depends on another have one
    part, of one state and without columns, and a warning says so.

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
        "n_parts": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_states": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            list,
            tuple,
            np.ndarray,
        ],
        "likelihood": [StrOptions(set(LIKELIHOODS))],
        "gating": [StrOptions({"annealed", "tied", "standard", "factorised"})],
        "inference": [StrOptions({"variational", "gibbs"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), None],
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
        n_parts: int | str = 4,
        n_states: int | str | Sequence[int] = 8,
        *,
        likelihood: str = "gaussian",
        gating: str = "annealed",
        inference: str = "variational",
        n_classes: int | None = None,
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
        self.n_classes = n_classes
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
        y : array-like of shape (C,), optional
            Labels of the rows' classes; -1 (None, for strings) where unknown. Without
            ``n_classes``, numbers with fractions and labels that hardly repeat are ignored.
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.

        Returns
        -------
        self
        """
        return _gated.fit_gated(self, X, y, sample_weight)

    # What the course of fitting asks of this model.
    _background = 1  # a part of one state: its columns do not change with anything
    _probe = 3  # plain steps that tell whether annealing lost what the start knew
    _n_powers = None  # as many as the likelihood has
    _size_name = "n_states"

    @property
    def _likelihood(self) -> str:
        return self.likelihood

    @property
    def _inference(self) -> str:
        return self.inference

    @property
    def _sought(self) -> bool:
        """Whether some size is left to the evidence."""
        return _gated.is_sought(self)

    @property
    def _usual_prior(self) -> Prior:
        return Prior(resolution=RESOLUTION) if self._sought else Prior()

    def _sizes(self, n_rows: int) -> tuple[int, ...] | None:
        if self._sought:
            _gated.check_sought(self, self.n_states, "n_states")
        if isinstance(self.n_states, str):
            return None
        n_parts = 1 if isinstance(self.n_parts, str) else self.n_parts
        n_states = _gated.sizes_of(self.n_states, n_parts, "n_states")
        if max(n_states) > n_rows:
            raise ValueError(
                f"n_states={max(n_states)} is more than n_samples={n_rows}, the rows with weight; "
                "lower n_states or give more rows."
            )
        return None if self._sought else n_states

    def _absent_zero(self) -> bool:
        return self.likelihood == "poisson" if self.absent == "auto" else self.absent == "zero"

    def _core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_states: tuple[int, ...],
        classes: ClassVariable,
        totals: Any = None,
    ) -> mcvq.MCVQ:
        prior, chooser = _gated.prior_of(self), _gated.chooser(self, columns)
        if self._sought:  # a part of one state has nothing that the background lacks
            idle = np.append(np.asarray(n_states[:-1]) == 1, False)
            chooser = replace(chooser, barred=np.repeat(idle[:, None], len(chooser.weight), 1))
        return mcvq.MCVQ(
            n_states,
            tuple(group.entry_prior(prior) for group in columns),
            tuple(group.index for group in columns),
            chooser,
            Dirichlet(prior.states if prior else 0.0),
            classes,
            self._dtype,
        )

    def _totals(self, source: MemorySource) -> None:
        """Sums over columns are taken anew in every sweep."""

    def _start(
        self, core: mcvq.MCVQ, source: MemorySource, background: bool, rng: np.random.Generator
    ) -> mcvq.Theta:
        return core.start(*STARTS[self.init](source, core.n_states, background, rng))

    def _search(
        self,
        core: mcvq.MCVQ,
        source: MemorySource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
    ) -> tuple[mcvq.MCVQ, mcvq.Theta, list[dict[str, Any]]]:
        """A model of the sizes that the evidence wants, its parameters, and the way there."""
        sizes = _gated.given(self.n_parts), _gated.given(self.n_states)
        search = Search(core, source, runner, rng, *sizes, late, self.tol)
        parts = search.run()
        n_states = (*(part.n_states for part in parts), self._background)
        own = self._core(source.columns, n_states, core.classes)
        return own, search.parameters(own, parts), search.path

    def _below(
        self, theta: mcvq.Theta, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        """Probability that a cell lies below a value, in model units."""
        core = self._mcvq
        law, gates = core.priors[g].predictive(theta.chi[g]), theta.gates[:, core.columns[g]]
        m = self._model.infer(theta, block)[0]
        return predict.probability_below(law, m, gates, core.part_of, rows, columns, values)

    def _cell_densities(
        self, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        core, gates = self._mcvq, self._theta.gates[:, self._mcvq.columns[g]]
        m = self._model.infer(self._theta, block)[0]
        law = self._laws()[g]
        return predict.log_density(law, m, gates, core.part_of, rows, columns, values)

    def _label_rows(self, source: MemorySource, kept: Array) -> None:
        """Set ``row_labels_`` from the training rows."""
        found = [self._states_of(self._model.infer(self._theta, b)[0].T) for b in source.blocks()]
        self.row_labels_ = np.full((len(kept), self.n_parts_), -1)
        self.row_labels_[kept] = np.concatenate(found)

    # --- what was learned, in the user's units ---

    @property
    def _mcvq(self) -> mcvq.MCVQ:
        """The fitted model's core."""
        return _gated.core_of(self._model)

    @property
    def _first(self) -> Array:
        return self._mcvq.first

    @property
    def _part_of(self) -> Array:
        return self._mcvq.part_of

    def _laws(self) -> list[Predictive]:
        """Predictive distribution of entries in every state, (S, D_g) a group."""
        priors = self._mcvq.priors
        return [p.predictive(chi) for p, chi in zip(priors, self._theta.chi, strict=True)]

    def _own_states(self) -> tuple[int, ...]:
        """Number of states of every part, the background left out."""
        return self._mcvq.n_states[: self.n_parts_]

    def _state_shares(self) -> Array:
        """Posterior mean of the state priors of each class, background included; (N, S)."""
        parts = self._mcvq.parts_of(self._theta.state_counts)
        means = [prior.mean(counts.T).T for prior, counts in parts]
        return np.concatenate(means, axis=1)

    def _class_shares(self) -> Array:
        """Posterior mean of the classes' shares, (N,)."""
        core = self._mcvq
        return core.classes.prior.mean(core.class_counts(self._theta.state_counts))

    def _log_marginal(self) -> Array:
        """Log probability of every state, whatever the class; (S,)."""
        return np.log(np.maximum(self._class_shares() @ self._state_shares(), 1e-300))

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
        self.n_states_ = np.array(self._own_states())
        group, law = self._columns[0], self._laws()[0]
        self.gates_ = theta.gates[: self.n_parts_].T.astype(self._dtype)
        chosen = theta.gates.argmax(axis=0)
        self.parts_ = np.where(group.varies & (chosen < self.n_parts_), chosen, -1)
        self.column_labels_ = self.parts_
        shares = [self._by_part(b, 0.0) for b in self._state_shares()]
        self.state_priors_ = shares[0]
        if hasattr(self, "classes_"):
            self.class_priors_ = self._class_shares().astype(self._dtype)
            self.state_priors_ = np.stack(shares)
        if group.levels is not None and isinstance(law, Levels):
            self.levels_ = group.levels
            self.means_ = self._by_part(np.moveaxis(law.probability, 0, -1), np.nan)
        else:
            self.means_ = self._by_part(group.decode_mean(law.mean), np.nan)
        with np.errstate(over="ignore"):
            self.variances_ = self._by_part(law.variance * group.scale**2, np.nan)

    @property
    def class_given_state_(self) -> Array:
        """Probability of every class given the state of one part, (N, K, J)."""
        check_is_fitted(self)
        if not hasattr(self, "classes_"):
            raise AttributeError("There are no classes; set n_classes, or fit with labels.")
        joint = self.class_priors_[:, None, None] * self.state_priors_
        with np.errstate(invalid="ignore"):
            return joint / joint.sum(axis=0)

    @property
    def rows_(self) -> Array:
        """Rows of the training data in each state, (S, C)."""
        check_is_fitted(self)
        sizes = enumerate(self._own_states())
        return np.stack([self.row_labels_[:, k] == j for k, J in sizes for j in range(J)])

    @property
    def columns_(self) -> Array:
        """Columns of each state's part, (S, D)."""
        check_is_fitted(self)
        return self._part_of[: self._n_features_out, None] == self.parts_

    @property
    def _n_features_out(self) -> int:
        return int(self._first[self.n_parts_])

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
        return self._states_of(self._posteriors(self._check_rows(X, reset=False)))

    def _states_of(self, m: Array) -> Array:
        """Most probable states (n, K) of posteriors (n, S)."""
        bounds = pairwise(self._first[: self.n_parts_ + 1])
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
        m = self._check_transformed(X, "state", self._dtype)
        if len(self._first) > self.n_parts_ + 1:  # the background has one state, always taken
            m = np.hstack([m, np.ones((len(m), 1), self._dtype)])
        return self._expected_rows(m)

    def _expected_rows(self, m: Array) -> Array:
        """Expected entries given posteriors (n, S), background included."""
        means = self._columns[0].decode_mean(self._laws()[0].mean)
        rows = predict.expectation(means, m.T, self._theta.gates, self._part_of)
        return rows.astype(self._dtype, copy=False)

    def _reconstruct(self, X: Any) -> Array:
        return self._expected_rows(self._posteriors(X))

    def _impute(self, X: Any) -> Array:
        """Numbers get their expectation, categories and yes-or-no entries the likeliest value."""
        m, group, law = self._posteriors(X), self._columns[0], self._laws()[0]
        if not isinstance(law, Levels):
            return self._expected_rows(m)
        shares = [
            predict.expectation(p, m.T, self._theta.gates, self._part_of) for p in law.probability
        ]
        return group.decode(np.argmax(shares, axis=0).astype(float))

    def _interval(self, X: Any, tail: float) -> tuple[Array, Array]:
        group, law = self._columns[0], self._laws()[0]
        asked = [calibration.correct(self._calibration, p) for p in (tail, 1.0 - tail)]

        def on_block(block: RowBlock, _: int) -> tuple[Array, Array]:
            m = self._model.infer(self._theta, block)[0].astype(float)
            gates = self._theta.gates
            ends = [predict.quantile(law, m, gates, self._part_of, p) for p in asked]
            lower, upper = (group.decode(end) for end in ends)
            return lower, upper

        lower, upper = zip(*self._map_rows(X, on_block), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    # --- densities ---

    def _likelihoods(self, X: Any, n_draws: int) -> RowLikelihood:
        """Likelihood of checked rows under every class, fields (N, n)."""
        laws, core = self._laws(), self._mcvq
        log_prior = np.log(np.maximum(self._state_shares(), 1e-300))

        draws = predict.needs_draws(self._theta.gates, core.first)

        def on_block(block: RowBlock, _: int) -> RowLikelihood:
            proposal = self._model.propose(self._theta, block) if draws else None
            return predict.row_likelihood(
                block, proposal, laws, core.columns, self._theta.gates, log_prior, core.first,
                n_draws,
            )  # fmt: skip

        n_open = int(np.sum(self._theta.gates.max(axis=0) < 1.0))
        most_rows = max(MOST_DENSITIES // max(n_open * log_prior.shape[1], 1), 16)
        return self._likelihood_of_rows(X, on_block, most_rows)

    def _n_parameters(self) -> float:
        """Parameters of each column under its own part, state priors and gates."""
        core = self._mcvq
        per_entry = self._columns[0].likelihood.n_statistics - 1
        n_states, N = np.asarray(core.n_states), core.classes.n_classes
        entries = per_entry * float(n_states @ self._theta.gates.sum(axis=1))
        choices = N * float((n_states - 1).sum()) + N - 1
        return entries + choices + (len(n_states) - 1) * self.n_features_in_

    def _anomaly_scores(self, X: Any) -> Array:
        laws, core = self._laws(), self._mcvq
        log_prior = self._log_marginal()
        parts = self._theta.gates.argmax(axis=0)
        log_scale = np.concatenate([group.log_scale for group in self._columns])
        poisson = self._columns[0].likelihood.name == "poisson"

        def on_block(block: RowBlock, _: int) -> Array:
            own = predict.part_densities(block, laws, core.columns, parts, core.first)
            density = predict.part_likelihoods(own, log_prior, core.first)[:, : self.n_parts_]
            return -density - self._base_by_part(block, parts, log_scale, poisson)

        return np.concatenate(self._map_rows(X, on_block))

    def _base_by_part(
        self, block: RowBlock, parts: Array, log_scale: Array, poisson: bool
    ) -> Array:
        """Base measure of a row's entries, part by part; (n, K)."""
        out = np.zeros((block.n_rows, self.n_parts_))
        group = self._columns[0]
        for k in range(self.n_parts_):
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
        row = self._one_row(x)
        group, law = self._columns[0], self._laws()[0]
        m = self._posteriors(row)[0]
        shares = -self._anomaly_scores(row)[0]
        log_prior = self._log_marginal()
        parts = self._theta.gates.argmax(axis=0)
        view = self._source(row).block(0).groups[0]
        expected = group.decode_mean(law.mean)
        out = []
        for k in range(self.n_parts_):
            lo, hi = int(self._first[k]), int(self._first[k + 1])
            best = lo + int(m[lo:hi].argmax())
            entries = view.entries(np.flatnonzero((parts == k) & group.varies))
            d = entries.columns
            density = np.stack(
                [law.at((np.full(len(d), s), d)).log_density(entries.values) for s in range(lo, hi)]
            )
            average = np.logaddexp.reduce(density + log_prior[lo:hi, None], axis=0)
            evidence = density[best - lo] - average
            out.append(
                {
                    "part": k,
                    "state": best - lo,
                    "probability": float(m[best]),
                    "log_likelihood": float(shares[k]),
                    "columns": self._telling(row, d, expected[best, d], evidence, n_columns),
                }
            )
        return out

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: Any = None,
        classes: Any = None,
        hybrid: Any = None,
        random_state: Any = None,
    ) -> tuple[Array, Array]:
        """Draw new rows.

        Parameters
        ----------
        n_samples : int, default=1
        states : array-like of shape (n_samples, K), optional
            States to draw entries from; drawn from their priors if not given.
        classes : label or array-like of shape (n_samples,), optional
            Classes whose priors the states are drawn from; drawn by their shares if not given.
        hybrid : dict, optional
            For some parts the class whose prior to take instead, or a mapping of classes to weights
            for a weighted mean of several: ``{part: class or {class: weight}}``.
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        states_or_classes : ndarray of shape (n_samples, K) or (n_samples,)
            The rows' states; with a class variable their classes, unless states or a hybrid of
            classes were asked for.
        """
        check_is_fitted(self)
        by_class = hasattr(self, "classes_") and states is None and hybrid is None
        labels, sources, rng = self._draw_classes(n_samples, states, classes, hybrid, random_state)
        n_states = self._own_states()
        if states is None:
            shares = self._state_shares()
            states = np.empty((n_samples, self.n_parts_), np.int64)
            for k, (lo, hi) in enumerate(pairwise(self._first[: self.n_parts_ + 1])):
                above = np.cumsum(shares[sources[:, k], lo:hi], axis=1)
                u = rng.random((n_samples, 1)) * above[:, -1:]
                states[:, k] = np.minimum((above <= u).sum(axis=1), hi - lo - 1)
        asked, states = np.asarray(states), np.asarray(states, dtype=np.int64)
        if (
            np.any(states != asked)
            or states.shape != (n_samples, len(n_states))
            or np.any((states < 0) | (states >= np.asarray(n_states)))
        ):
            raise ValueError(
                f"states must have shape ({n_samples}, {len(n_states)}) and numbers from 0 to "
                f"the part's number of states {n_states} less one."
            )
        part = self._draw_parts(n_samples, rng)
        every = np.pad(states, ((0, 0), (0, len(self._first) - 1 - len(n_states))))
        number = self._first[part] + np.take_along_axis(every, part, axis=1)
        group, law = self._columns[0], self._laws()[0]
        d = np.broadcast_to(np.arange(number.shape[1]), number.shape)
        rows = group.decode(law.at((number, d)).sample(rng))
        rows = rows.astype(self._dtype, copy=False)
        return rows, (self.classes_[labels] if by_class else states)

    # --- saving, and what scikit-learn asks ---

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        theta, group = self._theta, self._columns[0]
        return {
            "theta": {"chi": theta.chi, "state_counts": theta.state_counts},
            "gate": theta.gate._asdict(),
            "columns": group.fields(),
            "n_states": list(self._mcvq.n_states),
            "calibration": self._calibration._asdict(),
            "dtype": np.dtype(self._dtype).name,
            "learned": self._learned("classes_", "row_labels_", "n_parts_", "size_path_"),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        _gated.restore(self, state)
        kept = state["theta"]
        classes = _gated.class_variable(self, len(kept["state_counts"]))
        core = self._core(self._columns, tuple(state["n_states"]), classes)
        nothing = np.empty(0)
        theta = mcvq.Theta(
            kept["chi"], Gates(**state["gate"]), nothing, nothing, nothing, nothing, (), (), (), 0
        )
        self._theta = core.rebuild(core.learn_states(theta, kept["state_counts"]))
        self._model = core
        if _gated.selects_by_row(self):
            self._model = _gated.rowwise(self, core, Expected())
        self._describe()
