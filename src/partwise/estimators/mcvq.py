"""Multiple Cause Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BiclusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import tables
from partwise.contracts import Array, Runner
from partwise.data import BlockSource, ColumnGroup, ObservedCells, RowBlock, RowSource, by_column
from partwise.data.frames import as_table, frame_of, index_of, with_columns, with_own_names
from partwise.data.rows import out_of_memory
from partwise.data.table import Schema
from partwise.engine.randomness import as_generator
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting import course
from partwise.fitting.state_search import Search
from partwise.fitting.stream import StreamingOptions, can_stream, learn_block
from partwise.fitting.weights import read_weights
from partwise.likelihoods import LAWS, ORDERED, Dirichlet, Prior, zero_if_absent
from partwise.likelihoods.base import Average
from partwise.likelihoods.predictive import Predictive
from partwise.models import calibration, mcvq, predict
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Gates
from partwise.models.selection import Expected
from partwise.runners import runner_of
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
    likelihood : str, mapping or sequence, default="gaussian"
        Law of an entry given its state: "gaussian", "bernoulli", "poisson", "categorical" or
        "ordinal" (categories with an order) for a matrix of one kind. "auto" finds out what each
        column of a table is (see ``kinds_`` and docs/tables.md), a mapping of column names to kinds
        says so for some, a sequence for all; a kind may then also be "lognormal" or "ignored".
    gating : {"annealed", "tied", "standard", "factorised"}, default="annealed"
        How columns choose parts. "tied": one choice for all rows. "annealed": the same, reached by
        lowering a temperature. "standard": a choice for every row with one posterior for all.
        "factorised": a posterior for every entry; begun from a tied solution if
        ``init="dependence"``. Variational inference only.
    inference : {"variational", "gibbs"}, default="variational"
        "gibbs" is Monte Carlo EM: states and the parts of all entries are drawn.
    n_classes : int, "auto" or None, default=None
        N, classes of rows upon which the states depend. Without y the classes are found, with y
        they are its labels, and rows labelled -1 (None, for strings) are sorted into them. None:
        as many as y has labels, and no class variable without labels. "auto": without labels, as
        many as have the highest bound over the states of a fit without classes, which comes first.
    prior : "conjugate", Prior or None, default="conjugate"
        Strengths of the conjugate priors (see `partwise.Prior`); None is maximum likelihood. Where
        a size is "auto", "conjugate" is ``Prior(resolution=0.01)``.
    gate_entropy : float, default=0.0
        Strength of an entropic prior that favours gates of low entropy.
    sparse_absent : {"auto", "unobserved", "zero"}, default="auto"
        What an entry not stored in a sparse matrix means; "auto" is zero for counts
        (``likelihood="poisson"``) and unobserved otherwise.
    init : {"dependence", "random"}, default="dependence"
        Where the fit begins: columns grouped by their dependence and rows clustered in each group,
        or as in the papers: states at randomly selected rows, gates uniform, and the rows of a
        factorised posterior wherever these gates put them (else at likely states).
    n_init : int, default=1
        Number of starts; the best bound is kept.
    max_iter : int, default=200
        Most EM iterations of an ascent; those of annealing are not counted.
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
    streaming : StreamingOptions or None, default=None
        How `partial_fit` learns (see `partwise.StreamingOptions`).

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
    kinds_ : ndarray of shape (D,)
        What each column of a table was taken for (``likelihood="auto"``, a mapping or a sequence).
        There ``means_`` has shape (K, J, D) whatever the kinds: of categories it is the mean of
        their numbers, of "lognormal" columns that of the logarithm; see ``level_shares_`` and
        `summary` for what they mean.
    level_shares_ : dict
        Of a table: probability of each level in each state, (K, J, V), by the column's name.
    lower_bound_ : float
        Lower bound of the log evidence (of the log-likelihood if ``prior=None``), a row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its trace; annealing is over where it begins. With ``inference="gibbs"`` the trace is the
        log joint density of rows and drawn states, no bound; ``lower_bound_`` is one.
    n_iter_ : int
        EM iterations of the ascent that gave the parameters, ``len(lower_bounds_) - 1``. Callbacks
        hear every iteration of every ascent, in order: of each start, and of a second ascent where
        EM without annealing reached more.
    converged_ : bool
    n_samples_seen_ : int
        Rows learned from, with those of `partial_fit`.
    weight_seen_ : float
        Summed weight of the rows that the parameters rest on, those forgotten taken off.
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
    >>> model.predict_states(shapes.data).shape
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
        "likelihood": [StrOptions({*LAWS, "auto"}), dict, list, tuple],
        "gating": [StrOptions({"annealed", "tied", "standard", "factorised"})],
        "inference": [StrOptions({"variational", "gibbs"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "prior": [StrOptions({"conjugate"}), Prior, None],
        "gate_entropy": [Interval(Real, 0, None, closed="left")],
        "sparse_absent": [StrOptions({"auto", "unobserved", "zero"})],
        "init": [StrOptions(set(STARTS))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
        "streaming": [StreamingOptions, None],
    }

    def __init__(
        self,
        n_parts: int | str = 4,
        n_states: int | str | Sequence[int] = 8,
        *,
        likelihood: Any = "gaussian",
        gating: str = "annealed",
        inference: str = "variational",
        n_classes: int | str | None = None,
        prior: Any = "conjugate",
        gate_entropy: float = 0.0,
        sparse_absent: str = "auto",
        init: str = "dependence",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        streaming: StreamingOptions | None = None,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.likelihood = likelihood
        self.gating = gating
        self.inference = inference
        self.n_classes = n_classes
        self.prior = prior
        self.gate_entropy = gate_entropy
        self.sparse_absent = sparse_absent
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.streaming = streaming

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> MCVQ:
        """Learn parts and states.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or sparse array of shape (C, D)
            NaN is missing; for sparse input see ``sparse_absent``, for tables of several kinds
            ``likelihood``.
        y : array-like of shape (C,), optional
            Labels of the rows' classes; -1 (None, for strings) where unknown. Without
            ``n_classes``, numbers with fractions and labels that hardly repeat are ignored.
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.
        checkpoint : path or Checkpoint, optional
            File that is written while the fit goes on and removed when it ends. After a crash the
            same call goes on from there and gives what it would have given.

        Returns
        -------
        self
        """
        return course.fit_gated(self, X, y, sample_weight, checkpoint)

    @available_if(can_stream)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None
    ) -> MCVQ:
        """Learn from some more rows, of a stream or of data too large to be held.

        Goes on from the rows before, be they those of `fit`; how is for ``streaming`` to say. Not
        with ``gating="factorised"``, Gibbs sampling.

        Parameters
        ----------
        X : array-like, sparse matrix or sparse array of shape (n, D)
            With the columns of the first call, and its categories.
        y : array-like of shape (n,), optional
            Labels of the rows' classes; -1 (None, for strings) where unknown.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is the row given twice.
        classes : array-like, optional
            All labels there will be, in the first call if its rows do not have them all.

        Returns
        -------
        self
        """
        return learn_block(self, X, y, sample_weight, classes)

    # What the course of fitting asks of this model.
    _background = 1  # a part of one state: its columns do not change with anything
    _probe = 3  # plain steps that tell whether annealing lost what the start knew
    _n_powers = None  # as many as the likelihood has
    _sums_without_prior = True  # parameters are shares of the sums, whose weight is known
    _size_name = "n_states"

    _schema: Schema | None = None  # what the columns of a table are

    @property
    def _likelihood(self) -> Any:
        if self._schema is not None:
            return self._schema.kinds
        # A model of states has no latent numbers: it sees their levels.
        latent = not self._is_table and LAWS[self.likelihood].latent
        return ORDERED if latent else self.likelihood

    @property
    def _is_table(self) -> bool:
        """Whether columns may be of several kinds."""
        return not isinstance(self.likelihood, str) or self.likelihood == "auto"

    def _check_rows(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Any:
        """As for other models; a table is turned into numbers."""
        if not self._is_table:
            if reset:
                self._schema = None
            return super()._check_rows(X, reset=reset)
        if isinstance(X, ObservedCells):
            X = X.table()
        if sparse.issparse(X):
            raise ValueError(
                "Sparse X has no columns of several kinds; choose one likelihood by name, or pass "
                "a DataFrame or X.toarray()."
            )
        X = np.asarray(X) if isinstance(X, np.memmap) else X  # a table is read whole
        if isinstance(out_of_memory(X), RowSource):
            raise ValueError(
                "Rows that are not in memory have columns of one kind; choose one likelihood by "
                "name, or pass a DataFrame."
            )
        X = as_table(X)
        validate_data(self, with_own_names(X), reset=reset, skip_check_array=True)
        known = self._schema is not None
        if reset and not (known and self.warm_start and hasattr(self, "_theta")):
            used = read_weights(sample_weight, X.shape[0]) > 0
            self._schema, known = Schema.learn(X, self.likelihood, used), False
        assert self._schema is not None
        coded = self._schema.encode(X, tell=known)
        return coded if reset else coded.astype(self._dtype, copy=False)

    def _warn_of_holes(self, columns: tuple[ColumnGroup, ...]) -> None:
        if self._schema is None:  # else it has told
            super()._warn_of_holes(columns)

    def _as_given(self, values: Array, X: Any = None) -> Any:
        if self._schema is None:
            return super()._as_given(values, X)
        return self._schema.decode(values, index_of(X))

    @property
    def _inference(self) -> str:
        return self.inference

    @property
    def _sought(self) -> bool:
        """Whether some size is left to the evidence."""
        return course.is_sought(self)

    @property
    def _usual_prior(self) -> Prior:
        return Prior(resolution=RESOLUTION) if self._sought else Prior()

    def _sizes(self, n_rows: int) -> tuple[int, ...] | None:
        if self._sought:
            course.check_sought(self, self.n_states, "n_states")
        if isinstance(self.n_states, str):
            return None
        n_parts = 1 if isinstance(self.n_parts, str) else self.n_parts
        n_states = course.sizes_of(self.n_states, n_parts, "n_states")
        if max(n_states) > n_rows:
            raise ValueError(
                f"n_states={max(n_states)} is more than n_samples={n_rows}, the rows with weight; "
                "lower n_states or give more rows."
            )
        return None if self._sought else n_states

    def _absent_zero(self) -> bool:
        if self.sparse_absent == "auto":
            return zero_if_absent(self.likelihood)
        return self.sparse_absent == "zero"

    def _core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_states: tuple[int, ...],
        classes: ClassVariable,
        totals: Any = None,
    ) -> mcvq.MCVQ:
        prior, chooser = course.prior_of(self), course.chooser(self, columns)
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

    def _totals(self, source: BlockSource) -> None:
        """Sums over columns are taken anew in every sweep."""

    def _start(
        self, core: mcvq.MCVQ, source: BlockSource, background: bool, rng: np.random.Generator
    ) -> mcvq.MCVQParams:
        return core.start(*STARTS[self.init](source, core.n_states, background, rng))

    def _search(
        self,
        core: mcvq.MCVQ,
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
    ) -> tuple[mcvq.MCVQParams, list[dict[str, Any]]]:
        """Parameters of the sizes that the evidence wants, and the way there."""
        sizes = course.given(self.n_parts), course.given(self.n_states)
        search = Search(core, source, runner, rng, *sizes, late, self.tol)
        parts = search.run()
        n_states = (*(part.n_states for part in parts), self._background)
        own = self._core(source.columns, n_states, core.classes)
        return search.parameters(own, parts), search.path

    def _sizes_in(self, theta: mcvq.MCVQParams) -> tuple[int, ...]:
        """Numbers of states that parameters are for, the background's with them."""
        return theta.n_states

    def _below(
        self,
        prepared: mcvq.MCVQPrepared,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Probability that a cell lies below a value, in model units."""
        core = self._mcvq
        params = prepared.params
        law, gates = core.priors[g].predictive(params.chi[g]), params.gates[:, core.columns[g]]
        m = self._model.infer(prepared, block)[0]
        return predict.probability_below(law, m, gates, core.part_of, rows, columns, values)

    def _cell_densities(
        self, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        core, gates = self._mcvq, self._theta.gates[:, self._mcvq.columns[g]]
        m = self._model.infer(self._prepared, block)[0]
        law = self._laws()[g]
        return predict.log_density(law, m, gates, core.part_of, rows, columns, values)

    def _label_rows(self, source: BlockSource, kept: Array) -> None:
        """Set ``row_labels_`` from the training rows."""

        def on_block(block: RowBlock) -> Array:
            return self._states_of(self._model.infer(self._prepared, block)[0].T)

        self.row_labels_ = np.full((len(kept), self.n_parts_), -1)
        rows = np.flatnonzero(kept)
        with runner_of(self.n_jobs, source) as runner:
            for (lo, hi), found in zip(source.bounds, runner.map(on_block, source), strict=True):
                self.row_labels_[rows[lo:hi]] = found

    # --- what was learned, in the user's units ---

    @property
    def _mcvq(self) -> mcvq.MCVQ:
        """The fitted model's core."""
        return course.core_of(self._model)

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
        theta, groups, laws = self._theta, self._columns, self._laws()
        self.n_states_ = np.array(self._own_states())
        self.gates_ = theta.gates[: self.n_parts_].T.astype(self._dtype)
        chosen = theta.gates.argmax(axis=0)
        varies = self._by_column([group.varies for group in groups])
        self.parts_ = np.where(varies & (chosen < self.n_parts_), chosen, -1)
        self.column_labels_ = self.parts_
        shares = [self._by_part(b, 0.0) for b in self._state_shares()]
        self.state_priors_ = shares[0]
        if hasattr(self, "classes_"):
            self.class_priors_ = self._class_shares().astype(self._dtype)
            self.state_priors_ = np.stack(shares)
        of_levels = laws[0].probability
        if self._schema is None and groups[0].levels is not None and of_levels is not None:
            self.levels_ = groups[0].levels
            self.means_ = self._by_part(np.moveaxis(of_levels, 0, -1), np.nan)
        else:
            means = [g.decode_mean(law.mean) for g, law in zip(groups, laws, strict=True)]
            self.means_ = self._by_part(self._by_column(means), np.nan)
        with np.errstate(over="ignore"):
            spread = [law.variance * g.scale**2 for g, law in zip(groups, laws, strict=True)]
            self.variances_ = self._by_part(self._by_column(spread), np.nan)
        if self._schema is not None:
            tables.describe(self)

    def _by_column(self, values: Sequence[Array], other: float = 0.0) -> Array:
        """Values (..., D_g) of the groups in their columns' places, (..., D)."""
        n_columns = max(self.n_features_in_, len(self._columns[0].index))
        return by_column(self._columns, values, n_columns, other)

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
        pieces = self._map_rows(X, lambda block, _: self._model.infer(self._prepared, block)[0])
        return np.concatenate([piece.T for piece in pieces])

    @by_rows
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

    @by_rows
    def predict_states(self, X: Any) -> Array:
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
        return self._as_given(self._expected_rows(m))

    def _expected_rows(self, m: Array) -> Array:
        """Expected entries given posteriors (n, S), background included."""
        if self._schema is not None:
            return self._likely_rows(m)
        rows = self._columns[0].expected(self._laws()[0], self._average(m, slice(None)))
        return rows.astype(self._dtype, copy=False)

    def _average(self, m: Array, columns: Any) -> Average:
        """Mixture of states' values in some columns, given posteriors (n, S)."""
        gates = self._theta.gates[:, columns]
        return partial(predict.expectation, m=m.T, gates=gates, part_of=self._part_of)

    def _likely_rows(self, m: Array) -> Array:
        """What to put in the place of entries, given posteriors (n, S), background included.

        Numbers get their expectation, categories and yes-or-no entries the likeliest value, ordered
        levels the median.
        """
        out = [
            group.likely(law, self._average(m, group.index))
            for group, law in zip(self._columns, self._laws(), strict=True)
        ]
        return self._by_column(out).astype(self._dtype, copy=False)

    def _rows_by_block(self, X: Any, function: Any) -> Array:
        """``function`` of every block's posteriors (n, S), one below the other."""

        def on_block(block: RowBlock, _: int) -> Array:
            return function(self._model.infer(self._prepared, block)[0].T)

        return np.concatenate(self._map_rows(X, on_block))

    def _reconstruct(self, X: Any) -> Array:
        return self._rows_by_block(X, self._expected_rows)

    def _impute(self, X: Any) -> Array:
        return self._rows_by_block(X, self._likely_rows)

    def impute(self, X: Any, n_imputations: int | None = None, *, random_state: Any = None) -> Any:
        """Fill missing entries; observed ones stay as they are.

        Numbers get their expectation, categories and yes-or-no entries the most probable value,
        ordered levels the median.

        Parameters
        ----------
        X : array-like, DataFrame or sparse of shape (n, D)
        n_imputations : int, optional
            How many completed tables to draw, for multiple imputation: in each, a row's states are
            drawn given its observed entries, and its missing entries given these states.
        random_state : int, Generator, RandomState or None, default=None
            Of the draws; the estimator's own if None.

        Returns
        -------
        filled : ndarray or DataFrame of shape (n, D), or a list of ``n_imputations`` of these
            Of a table, the same kind of DataFrame, with its index, categories and types.
        """
        check_is_fitted(self)
        if n_imputations is None and self._schema is None:
            return super().impute(X)
        coded = self._check_rows(X, reset=False)
        if n_imputations is None:
            return tables.fill(self, X, coded, self._impute(coded))
        if not isinstance(n_imputations, Integral) or n_imputations < 1 or sparse.issparse(coded):
            raise ValueError(
                f"impute(n_imputations={n_imputations!r}) needs a whole number of at least 1, and "
                "dense X."
            )
        rng = as_generator(self.random_state if random_state is None else random_state)
        drawn = tables.draw(self, coded, rng.spawn(int(n_imputations)))
        return [tables.fill(self, X, coded, values) for values in drawn]

    def _interval(self, X: Any, tail: float) -> tuple[Array, Array]:
        asked = [calibration.correct(self._calibration, p) for p in (tail, 1.0 - tail)]
        laws = self._laws()

        def on_block(block: RowBlock, _: int) -> list[Array]:
            m = self._model.infer(self._prepared, block)[0].astype(float)
            ends = []
            for p in asked:
                found = []
                for group, law in zip(self._columns, laws, strict=True):
                    gates, own = self._theta.gates[:, group.index], p[group.index]
                    unordered = law.probability is not None and not group.likelihood.ordered
                    if self._schema is not None and unordered:
                        found.append(np.full((m.shape[1], len(own)), np.nan))
                        continue
                    end = predict.quantile(law, m, gates, self._part_of, own)
                    found.append(group.decode(end))
                ends.append(self._by_column(found, np.nan))
            return ends

        lower, upper = zip(*self._map_rows(X, on_block), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    # --- densities ---

    def _likelihoods(self, X: Any, n_draws: int) -> RowLikelihood:
        """Likelihood of checked rows under every class, fields (N, n)."""
        laws, core = self._laws(), self._mcvq
        log_prior = np.log(np.maximum(self._state_shares(), 1e-300))

        draws = predict.needs_draws(self._theta.gates, core.first)

        def on_block(block: RowBlock, _: int) -> RowLikelihood:
            proposal = self._model.propose(self._prepared, block) if draws else None
            return predict.row_likelihood(
                block, proposal, laws, core.columns, self._theta.gates, log_prior, core.first,
                n_draws,
            )  # fmt: skip

        n_open = int(np.sum(self._theta.gates.max(axis=0) < 1.0))
        max_rows = max(MOST_DENSITIES // max(n_open * log_prior.shape[1], 1), 16)
        return self._likelihood_of_rows(X, on_block, max_rows)

    def _n_parameters(self) -> float:
        """Parameters of each column under its own part, state priors and gates."""
        core = self._mcvq
        n_states, N = np.asarray(core.n_states), core.classes.n_classes
        entries = sum(
            group.likelihood.family.n_parameters
            * float(n_states @ self._theta.gates[:, group.index].sum(axis=1))
            for group in self._columns
        )
        choices = N * float((n_states - 1).sum()) + N - 1
        return entries + choices + (len(n_states) - 1) * self.n_features_in_

    def _anomaly_scores(self, X: Any) -> Array:
        laws, core = self._laws(), self._mcvq
        log_prior = self._log_marginal()
        parts = self._theta.gates.argmax(axis=0)

        def on_block(block: RowBlock, _: int) -> Array:
            own = predict.part_densities(block, laws, core.columns, parts, core.first)
            density = predict.part_likelihoods(own, log_prior, core.first)[:, : self.n_parts_]
            return -density - self._base_by_part(block, parts)

        return np.concatenate(self._map_rows(X, on_block))

    def _base_by_part(self, block: RowBlock, parts: Array) -> Array:
        """Base measure of a row's entries, part by part; (n, K)."""
        out = np.zeros((block.n_rows, self.n_parts_))
        for group, view in zip(self._columns, block.groups, strict=True):
            absent = group.absent_base() if view.zero_value is not None else None
            for k in range(self.n_parts_):
                mine = np.flatnonzero(parts[group.index] == k)
                entries = view.entries(mine)
                base = group.base(entries.values.astype(float), entries.columns)
                out[:, k] += np.bincount(entries.rows, base, minlength=block.n_rows)
                if absent is not None:
                    stored = absent[entries.columns]
                    stored = np.bincount(entries.rows, stored, minlength=block.n_rows)
                    out[:, k] += absent[mine].sum() - stored
        return out

    # --- tables ---

    def score_cells(self, X: Any, rows: Any, columns: Any, values: Any) -> Array:
        """Log predictive density of single cells, each given what X holds of its row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse of shape (n, D)
            What is known; a cell asked for should be missing here.
        rows, columns : array-like of shape (n_cells,)
            Places of the cells, in any order; columns of a table also by name.
        values : array-like of shape (n_cells,)
            What stands there, in the user's own terms.

        Returns
        -------
        log_density : ndarray of shape (n_cells,)
            In nats, for the units of X; of counts and categories the log probability.
        """
        if self._schema is None:
            return super().score_cells(X, rows, columns, values)
        check_is_fitted(self)
        places = np.array([self._schema.place(name) for name in columns], dtype=np.int64)
        coded = self._schema.encode_cells(places, values)
        return self._score_cells(self._check_rows(X, reset=False), rows, places, coded)

    def predict_proba_columns(self, X: Any, columns: Any = None) -> dict[Any, Array]:
        """Probability of every level of yes-or-no, categorical and ordered columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
            Of an observed cell it is what the model expects from the row's other cells and itself.
        columns : list of names or places, optional
            All that have levels, if not given.

        Returns
        -------
        probabilities : dict
            For each column, by name, an array of shape (n, V); its levels are in the order of
            ``column_levels_``.
        """
        check_is_fitted(self)
        coded = self._check_rows(X, reset=False)
        names = range(self.n_features_in_) if columns is None else columns
        places = [tables.place_of(self, name) for name in names]
        found = tables.predict_proba_columns(self, coded, places)
        return {self._name_of(d): values for d, values in found.items()}

    def _name_of(self, d: int) -> Any:
        return self._column_name(d) if self._schema is None else self._schema.names[d]

    def dependence(self, *, as_frame: bool = True) -> Any:
        """How much columns tell of each other under the model: mutual information in nats.

        Parameters
        ----------
        as_frame : bool, default=True
            Of a DataFrame's columns give a DataFrame.

        Returns
        -------
        information : ndarray or DataFrame of shape (D, D)
            On the diagonal, what the state of its part tells of a column.
        """
        check_is_fitted(self)
        found = tables.dependence(self)
        if not as_frame or self._schema is None or self._schema.frame == "array":
            return found
        names = [str(name) for name in self._schema.names]
        if self._schema.frame == "polars":
            return tables.table_of(self, {"column": names, **dict(zip(names, found, strict=True))})
        import pandas as pd

        return pd.DataFrame(found, index=names, columns=names)

    def summary(self, n_columns: int = 5) -> Any:
        """Each part with its columns and its states, and what is typical of these, in words.

        Parameters
        ----------
        n_columns : int, default=5
            Columns to name in a profile.

        Returns
        -------
        parts : DataFrame, or dict of lists where no DataFrame was fitted
            One row a state: ``part``, its ``columns`` (the most telling first), ``state``, its
            ``share`` of the rows, and ``profile``. The last row lists the columns of no part.
        """
        check_is_fitted(self)
        return tables.summary(self, n_columns)

    def state_profiles(self, part: int) -> dict[str, Any]:
        """What the states of a part are like, in numbers: what `ProfilesDisplay` draws.

        Parameters
        ----------
        part : int

        Returns
        -------
        profiles : dict
            ``state`` and ``share`` of the n states that rows are in, the commonest first; ``name``
            of the m things told: numbers by their column's name, levels as "column = level";
            ``away`` (n, m), by how many standard deviations each differs from what is usual, and
            ``text`` (n, m), the value itself.
        """
        check_is_fitted(self)
        if part not in range(len(self._own_states())):
            raise ValueError(
                f"There is no part {part!r}; parts are 0 to {len(self._own_states()) - 1}."
            )
        return tables.state_profiles(self, int(part))

    def anomalous_cells(self, X: Any, n_cells: int = 20) -> Any:
        """The most surprising cells, and what would have been expected in their place.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        n_cells : int, default=20

        Returns
        -------
        cells : DataFrame, or dict of lists where no DataFrame was fitted
            ``row`` (its label), ``column``, ``value``, ``expected`` from the row's other cells,
            ``surprise`` (by how many nats the value is less likely than the likeliest), ``part``,
            and the ``state`` that the part's other cells speak for, with its ``probability``.
        """
        check_is_fitted(self)
        if not isinstance(n_cells, Integral) or n_cells < 1:
            raise ValueError(f"n_cells={n_cells!r} must be a whole number of at least 1.")
        coded = self._check_rows(X, reset=False)
        if sparse.issparse(coded):
            raise ValueError(
                "anomalous_cells needs dense X; pass X.toarray() with NaN where missing."
            )
        return tables.anomalous_cells(self, X, coded, int(n_cells))

    def add_states(self, X: Any, onto: Any = None) -> Any:
        """The table with the row's state of every part, and its class if there are classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        onto : array-like or DataFrame of n rows, optional
            Table to append the columns to, X if not given.

        Returns
        -------
        table : ndarray or DataFrame of shape (n, D + K), with classes (n, D + K + 1)
            New columns are called part0, part1, ... and class.
        """
        check_is_fitted(self)
        table, coded = X if onto is None else onto, self._check_rows(X, reset=False)
        return with_columns(table, tables.state_columns(self, coded, frame_of(table)))

    def predict_columns(self, X: Any = None, columns: Any = None, *, given: Any = None) -> Any:
        """Predict some columns from the others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D), optional
            Rows; a DataFrame may lack some of the columns.
        columns : str, int or sequence of these
            Names (or places) of the columns to predict. What X holds of them is not used.
        given : mapping or DataFrame, optional
            Instead of X: one row as a mapping of columns to values, or rows.

        Returns
        -------
        predicted : ndarray or DataFrame of shape (n, len(columns))
            Numbers get their expectation, categories the most probable, ordered levels the median.
        """
        check_is_fitted(self)
        if (X is None) == (given is None) or columns is None:
            raise ValueError(
                "predict_columns needs the columns to predict and either X or given, as in "
                "predict_columns(X, ['age']) or predict_columns(given={'height': 180}, "
                "columns=['age'])."
            )
        asked = [columns] if isinstance(columns, str | Integral) else list(columns)
        places = [tables.place_of(self, name) for name in asked]
        coded, index = tables.read_given(self, given if X is None else X)
        coded[:, places] = np.nan
        filled = self._impute(coded)
        if self._schema is None:
            return filled[:, places]
        return self._schema.decode(filled, index, places)

    # --- one row, and new rows ---

    def explain(self, x: Any, n_columns: int = 5) -> list[dict[str, Any]]:
        """What the model sees in one row.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), row of a table, or mapping of columns to values
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
        laws = self._laws()
        m = self._posteriors(row)[0]
        shares = -self._anomaly_scores(row)[0]
        log_prior = self._log_marginal()
        parts = self._theta.gates.argmax(axis=0)
        block = self._source(row).block(0)
        out = []
        for k in range(self.n_parts_):
            lo, hi = int(self._first[k]), int(self._first[k + 1])
            best = lo + int(m[lo:hi].argmax())
            columns, expected, evidence = [], [], []
            for group, law, view in zip(self._columns, laws, block.groups, strict=True):
                entries = view.entries(np.flatnonzero((parts[group.index] == k) & group.varies))
                d = entries.columns
                density = np.stack(
                    [
                        law.at((np.full(len(d), s), d)).log_density(entries.values)
                        for s in range(lo, hi)
                    ]
                )
                average = np.logaddexp.reduce(density + log_prior[lo:hi, None], axis=0)
                evidence.append(density[best - lo] - average)
                expected.append(self._expected_in_state(group, law, best)[d])
                columns.append(group.index[d])
            d, values, loud = (np.concatenate(v) for v in (columns, expected, evidence))
            told = self._telling(row, d, values, loud, n_columns)
            out.append(
                {
                    "part": k,
                    "state": best - lo,
                    "probability": float(m[best]),
                    "log_likelihood": float(shares[k]),
                    "columns": told,
                }
            )
        return out

    def _one_row(self, x: Any) -> Any:
        if self._schema is None:
            return super()._one_row(x)
        check_is_fitted(self)
        if getattr(x, "ndim", 2) == 1 and hasattr(x, "to_dict"):  # a row of a DataFrame
            x = x.to_dict()
        elif not hasattr(x, "columns") and not isinstance(x, Mapping):
            x = np.atleast_2d(np.asarray(x, dtype=object))
        row, _ = tables.read_given(self, x)
        if len(row) != 1:
            raise ValueError(f"x must be one row, but has {len(row)}; call explain(X.iloc[i]).")
        return row

    def _expected_in_state(self, group: ColumnGroup, law: Predictive, s: int) -> Array:
        """What is expected of a group's columns in one state, in X's units; (D_g,)."""
        if self._schema is None or law.probability is None:
            return group.decode_mean(law.mean[s])
        return group.decode(law.probability[:, s].argmax(axis=0).astype(float))

    def _telling(
        self, row: Any, columns: Array, expected: Array, evidence: Array, most: int
    ) -> list[dict[str, Any]]:
        told = super()._telling(row, columns, expected, evidence, most)
        if self._schema is not None:
            order = np.argsort(-evidence, kind="stable")[:most]
            for entry, d in zip(told, columns[order], strict=True):
                for name in ("value", "expected"):
                    entry[name] = self._schema.columns[d].value(entry[name])
        return told

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: Any = None,
        classes: Any = None,
        hybrid: Any = None,
        given: Any = None,
        random_state: Any = None,
    ) -> tuple[Any, Array]:
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
        given : mapping or DataFrame, optional
            What is known of the rows: a mapping of columns to values or a table of one row, for all
            of them, or a table of ``n_samples`` rows. The other entries are drawn given these.
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray or DataFrame of shape (n_samples, D)
        states_or_classes : ndarray of shape (n_samples, K) or (n_samples,)
            The rows' states; with a class variable their classes, unless states or a hybrid of
            classes were asked for.
        """
        check_is_fitted(self)
        if given is not None:
            if states is not None or classes is not None or hybrid is not None:
                raise ValueError("Give either known cells, or states, classes and hybrids.")
            return self._sample_given(n_samples, given, random_state)
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
        drawn = []
        for group, law in zip(self._columns, self._laws(), strict=True):
            s = number[:, group.index]
            d = np.broadcast_to(np.arange(s.shape[1]), s.shape)
            drawn.append(group.decode(law.at((s, d)).sample(rng)))
        rows = self._by_column(drawn).astype(self._dtype, copy=False)
        return self._as_given(rows), (self.classes_[labels] if by_class else states)

    def _sample_given(self, n_samples: int, given: Any, random_state: Any) -> tuple[Any, Array]:
        """Rows with known cells, the others drawn; and the states that their cells speak for."""
        coded, index = tables.read_given(self, given)
        if len(coded) not in (1, n_samples):
            raise ValueError(
                f"given has {len(coded)} rows; give one, or n_samples={n_samples} of them."
            )
        if len(coded) < n_samples:
            coded, index = np.repeat(coded, n_samples, axis=0), None
        rng = as_generator(self.random_state if random_state is None else random_state)
        (rows,) = tables.draw(self, coded, [rng])
        states = self._states_of(self._posteriors(rows))
        return (rows if self._schema is None else self._schema.decode(rows, index)), states

    # --- saving, and what scikit-learn asks ---

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self._is_table:
            tags.input_tags.sparse = False
            tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        theta = self._theta
        return {
            "theta": {"chi": theta.chi, "state_counts": theta.state_counts},
            "gate": theta.gate._asdict(),
            "columns": course.column_state(self._columns),
            "schema": None if self._schema is None else self._schema.state(),
            "n_states": list(self._mcvq.n_states),
            "calibration": self._calibration._asdict(),
            "dtype": np.dtype(self._dtype).name,
            "learned": self._learned("classes_", "row_labels_", "n_parts_", "size_path_"),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        course.restore(self, state)
        self._schema = None if state["schema"] is None else Schema.restore(state["schema"])
        kept = state["theta"]
        classes = course.class_variable(self, len(kept["state_counts"]))
        core = self._core(self._columns, tuple(state["n_states"]), classes)
        params = core.parameters(kept["chi"], Gates(**state["gate"]), kept["state_counts"])
        selects = course.selects_by_row(self)
        self._keep(course.rowwise(self, core, Expected()) if selects else core, params)
        self._describe()
