"""Multiple Cause Factor Analysis as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.contracts import Array, Runner
from partwise.data import BlockSource, ColumnGroup, RowBlock, RowSource
from partwise.estimators._base import CLASS_DRAWS, PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting import course
from partwise.fitting.factor_search import FactorSearch, needed_factors
from partwise.fitting.stream import StreamingOptions, can_stream, learn_block
from partwise.likelihoods import Prior
from partwise.models import calibration, factors, levels, loadings, mcfa, ordinal
from partwise.models import predict_factors as predict
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Gates
from partwise.models.selection import Expected
from partwise.sampling.importance import RowLikelihood
from partwise.starts.factors import dependence_loadings, random_loadings

STARTS = {"dependence": dependence_loadings, "random": random_loadings}

# Latent numbers of ordered levels share one unit over all columns, so a column's offset leans to
# the common mean and its noise to half of the variance: one of few entries is like the others.
LEVELS_PRIOR = Prior(entries=2.0, spread=0.5, shape=10.0)

# Rows that a given noise weighs: hardly any data move it.
GIVEN_ROWS = 1e6

# Densities of open entries, draws and parts worked on at a time.
MOST_DRAWS = 2_000_000


class MCFA(PartsEstimator):
    """Multiple Cause Factor Analysis: parts of columns, each varying along a few factors.

    Every column belongs to a part, every part of a row has factors of its own, and an entry is a
    linear function of the factors of its column's part, plus noise. With one part it is factor
    analysis, for data with holes. Missing entries (NaN) take part in nothing.

    Parameters
    ----------
    n_parts : int or "auto", default=4
        K, the number of parts; "auto" finds it by the evidence (docs/sizes.md).
    n_factors : int, "auto" or sequence of int, default=4
        J, the number of factors of every part, or one number a part. With a prior it is the most:
        directions that the data do not need shrink to nothing (see ``n_factors_``). "auto" finds a
        number for each part.
    likelihood : {"gaussian", "ordinal"}, default="gaussian"
        "ordinal": entries are ordered levels (ratings, grades), each an interval of a latent number
        to which all else applies; intervals follow from how often the levels occur.
    gating : {"annealed", "tied", "standard", "factorised"}, default="annealed"
        How columns choose parts. "tied": one choice for all rows. "annealed": the same, reached by
        lowering a temperature. "standard": a choice for every row with one posterior for all.
        "factorised": a posterior for every entry; begun from a tied solution if
        ``init="dependence"``.
    n_classes : int or None, default=None
        N, classes of rows: each has its own Gaussian prior of every part's factors. Without y the
        classes are found, with y they are its labels, and rows labelled -1 (None, for strings) are
        sorted into them. None: as many as y has labels, and no class variable without labels.
    prior : "conjugate", Prior or None, default="conjugate"
        With a prior, loadings have a posterior and each direction a relevance, which columns with
        few observations need; of `partwise.Prior`, ``entries`` is how many rows the column's mean
        weighs as its offset, ``spread`` and ``shape`` the guess of the noise's variance and how
        many rows it weighs, ``states`` how many rows the standard Gaussian weighs in a class. For
        ordered levels the offset leans to the mean of all columns, by default with 2 rows, and the
        noise to half of the variance with 10. None is maximum likelihood.
    gate_entropy : float, default=0.0
        Strength of an entropic prior that favours gates of low entropy.
    sparse_absent : {"auto", "unobserved", "zero"}, default="auto"
        What an entry not stored in a sparse matrix means; "auto" is unobserved.
    init : {"dependence", "random"}, default="dependence"
        Where the fit begins: columns grouped by their dependence and principal directions of each
        group, or as in the papers: loadings at randomly selected rows, gates uniform.
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
        Begin from the parameters of the last fit, which may have had another gating.
    streaming : StreamingOptions or None, default=None
        How `partial_fit` learns (see `partwise.StreamingOptions`).

    Attributes
    ----------
    n_parts_ : int
        Number of parts, the background aside.
    size_path_ : list of dict
        Where a size is "auto", the moves that were tried, as in `MCVQ`; ``n_factors`` has the
        factors of every part after it.
    gates_ : ndarray of shape (D, K)
        Probability that a part explains a column; what is left is the background's.
    parts_ : ndarray of shape (D,)
        Most probable part of each column, -1 for background: columns that never change or that, by
        their evidence, depend on no factor (the latter with "annealed" and "tied" gating only).
    loadings_ : ndarray of shape (K, D, J)
        Change of an entry with each factor; 0 where a part has fewer than J.
    offsets_ : ndarray of shape (K, D)
        Entry at factors 0.
    noise_variance_ : ndarray of shape (K, D)
        Variance of the noise.
    n_factors_ : ndarray of shape (K,)
        Directions of each part whose expected squared loadings are above 1 % of its largest.
    factor_means_, factor_covariances_ : ndarray of shape (N, K, J) and (N, K, J, J)
        The factors' prior in each class (with classes only).
    levels_ : ndarray of shape (L,)
        The levels seen (``likelihood="ordinal"`` only); loadings, offsets and noise are then those
        of the latent numbers, whose standard Gaussian the levels divide as they occur.
    class_priors_ : ndarray of shape (N,)
        Share of every class (with classes only).
    classes_ : ndarray of shape (N,)
        Labels of the classes, or their numbers (with classes only).
    column_labels_ : ndarray of shape (D,)
        The same as ``parts_``, by the name that scikit-learn's biclustering has for it.
    lower_bound_ : float
        Lower bound of the log evidence (of the log-likelihood if ``prior=None``), a row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its trace; annealing is over where it begins.
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

    References
    ----------
    D. A. Ross and R. S. Zemel, Learning Parts-Based Representations of Data, JMLR 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCFA
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=(300, 2))  # one factor for each of two parts
    >>> X = np.hstack([s[:, :1] * [1, 2, 3], s[:, 1:] * [1, -1, 2]])
    >>> X += 0.1 * rng.normal(size=X.shape)
    >>> model = MCFA(n_parts=2, n_factors=1, random_state=0).fit(X)
    >>> sorted(map(sorted, (np.flatnonzero(model.parts_ == k).tolist() for k in range(2))))
    [[0, 1, 2], [3, 4, 5]]
    >>> X[0, 1] = np.nan
    >>> bool(abs(model.impute(X)[0, 1] - 2 * s[0, 0]) < 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_parts": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_factors": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            list,
            tuple,
            np.ndarray,
        ],
        "likelihood": [StrOptions({"gaussian", "ordinal"})],
        "gating": [StrOptions({"annealed", "tied", "standard", "factorised"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), None],
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
        n_factors: int | str | Sequence[int] = 4,
        *,
        likelihood: str = "gaussian",
        gating: str = "annealed",
        n_classes: int | None = None,
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
        self.n_factors = n_factors
        self.likelihood = likelihood
        self.gating = gating
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
    ) -> MCFA:
        """Learn parts and their factors.

        Parameters
        ----------
        X : array-like, sparse matrix or sparse array of shape (C, D)
            NaN is missing; for sparse input see ``sparse_absent``.
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
    ) -> MCFA:
        """Learn from some more rows, of a stream or of data too large to be held.

        Goes on from the rows before, be they those of `fit`; how is for ``streaming`` to say. Not
        with ``gating="factorised"`` and ordered levels.

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
    _background = 0  # a part without factors: its columns do not change with anything
    _probe = 12  # plain steps that tell whether annealing lost what the start knew
    _sums_without_prior = False
    _size_name = "n_factors"
    _inference = "variational"

    @property
    def _likelihood(self) -> str:
        return self.likelihood

    @property
    def _usual_prior(self) -> Prior:
        return LEVELS_PRIOR if self.likelihood == "ordinal" else Prior()

    def _modelled(self, core: mcfa.MCFA, columns: tuple[ColumnGroup, ...]) -> Any:
        if self.likelihood == "gaussian":
            return core
        return ordinal.Ordinal(core, columns[0].ends)

    @property
    def _n_powers(self) -> int:
        """Squares of entries are needed only where rows select parts for themselves."""
        return 3 if course.selects_by_row(self) else 2

    def _sizes(self, n_rows: int) -> tuple[int, ...] | None:
        sought = course.is_sought(self)
        if sought:
            course.check_sought(self, self.n_factors, "n_factors")
        if isinstance(self.n_factors, str):
            return None
        n_parts = 1 if isinstance(self.n_parts, str) else self.n_parts
        sizes = course.sizes_of(self.n_factors, n_parts, "n_factors")
        if max(sizes) > self.n_features_in_:
            raise ValueError(
                f"n_factors={max(sizes)} is more than n_features={self.n_features_in_} of X; lower "
                "n_factors."
            )
        return None if sought else sizes

    def _absent_zero(self) -> bool:
        return self.sparse_absent == "zero"

    def _core(
        self,
        columns: tuple[ColumnGroup, ...],
        n_factors: tuple[int, ...],
        classes: ClassVariable,
        totals: Array,
    ) -> mcfa.MCFA:
        prior = course.prior_of(self)
        how: Any = loadings.PointLoadings()
        if prior is not None:
            # Of two levels the unit of the latent number cannot be told, so its noise is given.
            levels_of = columns[0].levels
            shape = prior.shape if levels_of is None or len(levels_of) > 2 else GIVEN_ROWS
            how = loadings.Relevant(prior.entries, prior.spread, shape)
        strength = prior.states if prior else 0.0
        chooser = course.chooser(self, columns)
        return mcfa.MCFA(n_factors, how, chooser, classes, strength, totals, self._dtype)

    def _totals(self, source: BlockSource) -> Array:
        return mcfa.column_totals(source)

    def _start(
        self, core: mcfa.MCFA, source: BlockSource, background: bool, rng: np.random.Generator
    ) -> mcfa.MCFAParams:
        return core.start(*STARTS[self.init](source, core.n_factors, background, rng))

    def _search(
        self,
        core: mcfa.MCFA,
        source: BlockSource,
        runner: Runner,
        rng: np.random.Generator,
        late: Callable[[], bool],
    ) -> tuple[mcfa.MCFAParams, list[dict[str, Any]]]:
        """Parameters of the sizes that the evidence wants, and the way there."""
        if isinstance(source.X, RowSource):
            raise ValueError(
                'n_parts="auto" and n_factors="auto" look at columns by themselves, which rows '
                "outside of memory do not allow; seek the sizes of some rows in memory, and give "
                "them for all."
            )

        def make(some: BlockSource, sizes: tuple[int, ...]) -> tuple[mcfa.MCFA, Any]:
            own = self._core(some.columns, sizes, ClassVariable(), mcfa.column_totals(some))
            chooser = replace(own.chooser, weight=some.columns[0].weight)  # of these columns alone
            own = replace(own, chooser=chooser)
            return own, self._modelled(own, some.columns)

        sizes = course.given(self.n_parts), course.given(self.n_factors)
        search = FactorSearch(make, source, runner, rng, *sizes, late, self.tol)
        n_factors, first, gates = search.run()
        return replace(core, n_factors=n_factors).start(first, gates), search.path

    def _sizes_in(self, theta: mcfa.MCFAParams) -> tuple[int, ...]:
        """Numbers of factors that parameters are for, the background's with them."""
        return tuple(w.mean.shape[1] - 1 for w in theta.loadings)

    def _below(
        self,
        prepared: mcfa.MCFAPrepared,
        block: RowBlock,
        g: int,
        rows: Array,
        columns: Array,
        values: Array,
    ) -> Array:
        """Probability that a cell lies below a value, in model units."""
        params, features = prepared.params, self._model.infer(prepared, block)[0]
        return predict.probability_below(self._mcfa, params, features, rows, columns, values)

    def _cell_densities(
        self, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        features = self._model.infer(self._prepared, block)[0]
        if self.likelihood == "ordinal":
            ends, at = self._columns[0].ends, (rows, columns)
            shares = predict.cell_level_shares(self._mcfa, self._theta, features, *at, ends)
            return np.log(shares[np.arange(len(rows)), values.astype(int)] + 1e-300)
        return predict.log_density(self._mcfa, self._theta, features, rows, columns, values)

    def _label_rows(self, source: BlockSource, kept: Array) -> None:
        """Rows have no labels here: factors are numbers."""

    # --- what was learned, in the user's units ---

    @property
    def _mcfa(self) -> mcfa.MCFA:
        """The fitted model's core."""
        return course.core_of(self._model)

    def _padded(self, values: Sequence[Array], axes: tuple[int, ...]) -> Array:
        """Arrays of every part, padded with 0 along axes of factors; the background left out."""
        J = max(self._mcfa.n_factors)
        out = []
        for value in values[: self.n_parts_]:
            widths = [(0, J - n if axis in axes else 0) for axis, n in enumerate(value.shape)]
            out.append(np.pad(value, widths))
        return np.stack(out)

    def _describe(self) -> None:
        """Set the learned attributes from the parameters."""
        theta, group = self._theta, self._columns[0]
        self.gates_ = theta.gates[: self.n_parts_].T.astype(self._dtype)
        chosen = theta.gates.argmax(axis=0)
        self.parts_ = np.where(group.varies & (chosen < self.n_parts_), chosen, -1)
        self.column_labels_ = self.parts_
        own = theta.loadings[: self.n_parts_]
        scale = group.scale
        Lambda = self._padded([w.mean[:, :-1] for w in own], (1,)) * scale[:, None]
        self.loadings_ = Lambda.astype(self._dtype)
        rho = np.stack([w.mean[:, -1] for w in own])
        self.offsets_ = (rho * scale + group.shift).astype(self._dtype)
        with np.errstate(over="ignore"):
            self.noise_variance_ = (np.stack([w.noise for w in own]) * scale**2).astype(self._dtype)
        self.n_factors_ = needed_factors(theta)[: self.n_parts_]
        if group.levels is not None:
            self.levels_ = group.levels
        if hasattr(self, "classes_"):
            self.class_priors_ = self._class_shares().astype(self._dtype)
            means = self._padded(theta.eta, (1,))
            self.factor_means_ = np.moveaxis(means, 0, 1).astype(self._dtype)
            covariances = self._padded(theta.sigma, (1, 2))
            self.factor_covariances_ = np.moveaxis(covariances, 0, 1).astype(self._dtype)

    def _class_shares(self) -> Array:
        """Posterior mean of the classes' shares, (N,)."""
        return self._mcfa.classes.prior.mean(self._theta.class_counts)

    @property
    def _n_features_out(self) -> int:
        return int(sum(self._mcfa.n_factors))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: part0_factor0, part0_factor1, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (J of all parts,)
        """
        check_is_fitted(self)
        sizes = enumerate(self._mcfa.n_factors)
        names = [f"part{k}_factor{j}" for k, J in sizes for j in range(J)]
        return np.asarray(names, dtype=object)

    # --- rows ---

    def _features(self, X: Any) -> Array:
        """Features of checked rows' factors, (F, n)."""
        pieces = self._map_rows(X, lambda block, _: self._model.infer(self._prepared, block)[0])
        return np.concatenate(pieces, axis=1)

    @by_rows
    def transform(self, X: Any) -> Array:
        """Posterior mean of every factor of every part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        factors : ndarray of shape (n, J of all parts)
            Columns named part0_factor0, ...
        """
        check_is_fitted(self)
        features = self._features(self._check_rows(X, reset=False))
        return np.ascontiguousarray(features[self._mcfa.linear].T)

    def inverse_transform(self, X: Any) -> Array:
        """Expected row given factors.

        Parameters
        ----------
        X : array-like of shape (n, J of all parts)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        s = self._check_transformed(X, "factor", self._dtype)
        if self.likelihood == "ordinal":
            rows = self._levels_at(s.T.astype(float))
        else:
            rows = self._columns[0].decode(predict.expectation(self._mcfa, self._theta, s.T))
        return rows.astype(self._dtype, copy=False)

    def _levels_at(self, m: Array) -> Array:
        """Expected levels (n, D) given factors (J of all parts, n), as if they were known."""
        core, first = self._mcfa, 0
        features = np.ones((core.first[-1], m.shape[1]))
        for J, (_, linear, quadratic) in zip(core.n_factors, core.spans(), strict=True):
            own = m[first : first + J]
            features[linear], features[quadratic] = own, factors.products(own)
            first += J
        shares = predict.level_shares(
            *predict.part_moments(core, self._theta, features),
            self._theta.gates,
            self._columns[0].ends,
        )
        return levels.mean(shares, self.levels_)

    def _reconstruct(self, X: Any) -> Array:
        if self.likelihood == "ordinal":
            return self._of_levels(X, lambda shares: levels.mean(shares, self.levels_))
        m = self._features(X)[self._mcfa.linear]
        return self._columns[0].decode(predict.expectation(self._mcfa, self._theta, m))

    def _impute(self, X: Any) -> Array:
        """Numbers get their expectation, ordered levels their median."""
        if self.likelihood == "ordinal":
            return self._of_levels(X, lambda shares: levels.quantile(shares, self.levels_, 0.5))
        return self._reconstruct(X)

    def _of_levels(self, X: Any, summary: Callable[[Array], Array]) -> Array:
        """A summary (n, D) of the levels' probabilities (n, D, L)."""
        core, theta, ends = self._mcfa, self._theta, self._columns[0].ends

        def on_block(block: RowBlock, _: int) -> Array:
            features = self._model.infer(self._prepared, block)[0]
            mean, variance = predict.part_moments(core, theta, features)
            return summary(predict.level_shares(mean, variance, theta.gates, ends))

        max_rows = max(MOST_DRAWS // ends.size, 16)
        return np.concatenate(self._map_rows(X, on_block, max_rows))

    def _interval(self, X: Any, tail: float) -> tuple[Array, Array]:
        if self.likelihood == "ordinal":

            def both(shares: Array) -> Array:
                tails = (tail, 1.0 - tail)
                ends = [levels.quantile(shares, self.levels_, p) for p in tails]
                return np.stack(ends, axis=2)

            found = self._of_levels(X, both)
            return found[:, :, 0], found[:, :, 1]
        group = self._columns[0]
        asked = [calibration.correct(self._calibration, p) for p in (tail, 1.0 - tail)]

        def on_block(block: RowBlock, _: int) -> tuple[Array, Array]:
            features = self._model.infer(self._prepared, block)[0]
            ends = predict.quantiles(self._mcfa, self._theta, features, asked)
            lower, upper = (group.decode(end) for end in ends)
            return lower, upper

        lower, upper = zip(*self._map_rows(X, on_block), strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    # --- densities ---

    def _likelihoods(self, X: Any, n_draws: int) -> RowLikelihood:
        """Likelihood of checked rows under every class, fields (N, n).

        Where a column has one part for all rows, it is given to its likeliest: the factors are then
        summed out exactly. Not so with ordered levels, where factors are drawn.
        """
        if self.likelihood == "ordinal":
            return self._level_likelihoods(X, n_draws)
        tied = self.gating in ("annealed", "tied")
        theta = predict.hardened(self._theta) if tied else self._theta
        exact = np.all(theta.gates.max(axis=0) >= 1.0)

        def on_block(block: RowBlock, _: int) -> RowLikelihood:
            proposal = None if exact else self._model.propose(self._prepared, block)
            return predict.row_likelihood(self._mcfa, theta, block, proposal, n_draws)

        max_rows = None if exact else max(MOST_DRAWS // (n_draws * self._n_features_out), 16)
        return self._likelihood_of_rows(X, on_block, max_rows)

    def _level_likelihoods(self, X: Any, n_draws: int, part: int | None = None) -> RowLikelihood:
        core, theta, ends = self._mcfa, self._theta, self._columns[0].ends

        def on_block(block: RowBlock, _: int) -> RowLikelihood:
            proposal = self._model.propose(self._prepared, block)
            return predict.level_likelihood(core, theta, block, ends, proposal, n_draws, part)

        max_rows = max(MOST_DRAWS // (n_draws * self._n_features_out), 16)
        return self._likelihood_of_rows(X, on_block, max_rows)

    def _n_parameters(self) -> float:
        """Loadings, offset and noise of each column in its own part, class priors and gates."""
        J, N = np.asarray(self._mcfa.n_factors), self._mcfa.classes.n_classes
        entries = float((J + 2) @ self._theta.gates.sum(axis=1)) - float((J * (J - 1) / 2).sum())
        choices = (N - 1) * (1.0 + float((J + J * (J + 1) / 2).sum()))
        return entries + choices + (len(J) - 1) * self.n_features_in_

    def _anomaly_scores(self, X: Any) -> Array:
        log_shares = np.log(self._class_shares())
        if self.likelihood == "ordinal":
            found = [
                self._level_likelihoods(X, CLASS_DRAWS, k).log_likelihood
                for k in range(self.n_parts_)
            ]
            density = np.logaddexp.reduce(np.stack(found) + log_shares[:, None], axis=1)
            return -density.T
        parts, log_scale = self._theta.gates.argmax(axis=0), self._columns[0].log_scale

        def on_block(block: RowBlock, _: int) -> Array:
            found = predict.part_likelihoods(self._mcfa, self._theta, block)  # (N, K, n)
            density = np.logaddexp.reduce(found + log_shares[:, None, None], axis=0)
            out = -density[: self.n_parts_].T
            for k in range(self.n_parts_):
                entries = block.groups[0].entries(np.flatnonzero(parts == k), absent=True)
                out[:, k] += np.bincount(
                    entries.rows, log_scale[entries.columns], minlength=block.n_rows
                )
            return out

        return np.concatenate(self._map_rows(X, on_block))

    # --- one row, and new rows ---

    def explain(self, x: Any, n_columns: int = 5) -> list[dict[str, Any]]:
        """What the model sees in one row.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values
        n_columns : int, default=5
            Columns to name for each part.

        Returns
        -------
        parts : list of K dict
            ``part``, ``factors`` (their posterior means), ``log_likelihood`` of the part's entries,
            and ``columns``: those that decided it, each with ``column``, ``value``, ``expected`` at
            these factors, and ``evidence``, by how many nats the entry speaks for these factors
            against the part's average.
        """
        row = self._one_row(x)
        group, theta, core = self._columns[0], self._theta, self._mcfa
        features = self._features(row).astype(float)
        shares = -self._anomaly_scores(row)[0]
        parts = theta.gates.argmax(axis=0)
        view = self._source(row).block(0).groups[0]
        out = []
        for k, (_, linear, _) in enumerate(core.spans()[: self.n_parts_]):
            entries = view.entries(np.flatnonzero((parts == k) & group.varies))
            d, w, s = entries.columns, theta.loadings[k], features[linear, 0]
            Lambda, rho, noise = w.mean[d, :-1], w.mean[d, -1], w.noise[d]
            expected = Lambda @ s + rho
            broad = noise + (Lambda**2).sum(axis=1)
            if self.likelihood == "ordinal":
                shown, evidence = self._told_by_levels(
                    d, entries.values, expected, noise, rho, broad
                )
            else:
                evidence = 0.5 * (np.log(broad / noise) - (entries.values - expected) ** 2 / noise)
                evidence += 0.5 * (entries.values - rho) ** 2 / broad
                shown = expected * group.scale[d] + group.shift[d]
            out.append(
                {
                    "part": k,
                    "factors": [float(value) for value in s],
                    "log_likelihood": float(shares[k]),
                    "columns": self._telling(row, d, shown, evidence, n_columns),
                }
            )
        return out

    def _told_by_levels(
        self, d: Array, codes: Array, expected: Array, noise: Array, rho: Array, broad: Array
    ) -> tuple[Array, Array]:
        """Expected levels of some columns, and evidence of their levels for the factors."""
        group, one = self._columns[0], np.ones((1, len(d)))
        near, far = (
            predict.level_shares(mean[None, None], variance[None, None], one, group.ends[d])[0]
            for mean, variance in ((expected, noise), (rho, broad))
        )
        at = np.arange(len(d)), codes.astype(int)
        return near @ group.levels, np.log(near[at] + 1e-300) - np.log(far[at] + 1e-300)

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
        states : array-like of shape (n_samples, J of all parts), optional
            Factors to draw entries from; drawn from their priors if not given.
        classes : label or array-like of shape (n_samples,), optional
            Classes whose priors the factors are drawn from; drawn by their shares if not given.
        hybrid : dict, optional
            For some parts the class whose prior to take instead, or a mapping of classes to weights
            for a mixture of several: ``{part: class or {class: weight}}``.
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        factors_or_classes : ndarray of shape (n_samples, J of all parts) or (n_samples,)
            The rows' factors; with a class variable their classes, unless states or a hybrid of
            classes were asked for.
        """
        check_is_fitted(self)
        by_class = hasattr(self, "classes_") and states is None and hybrid is None
        labels, sources, rng = self._draw_classes(n_samples, states, classes, hybrid, random_state)
        theta, core = self._theta, self._mcfa
        if states is None:
            drawn = []
            for k, J in enumerate(core.n_factors[: self.n_parts_]):
                root = np.linalg.cholesky(theta.sigma[k])[sources[:, k]]
                z = rng.standard_normal((n_samples, J))
                drawn.append(theta.eta[k][sources[:, k]] + np.einsum("nij,nj->ni", root, z))
            states = np.hstack(drawn)
        states = np.asarray(states, dtype=float)
        if states.shape != (n_samples, self._n_features_out) or not np.isfinite(states).all():
            raise ValueError(
                f"states must have shape ({n_samples}, {self._n_features_out}), a number for every "
                "factor."
            )
        part = self._draw_parts(n_samples, rng)
        rows = rng.standard_normal(part.shape)
        start = 0
        for k, (J, w) in enumerate(zip(core.n_factors, theta.loadings, strict=True)):
            mean = states[:, start : start + J] @ w.mean[:, :-1].T + w.mean[:, -1]
            rows = np.where(part == k, mean + rows * np.sqrt(w.noise), rows)
            start += J
        group = self._columns[0]
        if self.likelihood == "ordinal":
            rows = (rows[:, :, None] >= group.ends[:, 1:-1]).sum(axis=2)
        rows = group.decode(rows).astype(self._dtype, copy=False)
        return rows, (self.classes_[labels] if by_class else states.astype(self._dtype))

    # --- saving ---

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        theta = self._theta
        return {
            "loadings": [w._asdict() for w in theta.loadings],
            "theta": {
                name: getattr(theta, name)
                for name in ("relevance", "class_counts", "log_beta", "eta", "sigma")
            },
            "gate": theta.gate._asdict(),
            "columns": course.column_state(self._columns),
            "n_factors": list(self._mcfa.n_factors),
            "totals": self._mcfa.totals,
            "calibration": self._calibration._asdict(),
            "dtype": np.dtype(self._dtype).name,
            "learned": self._learned("classes_", "n_parts_", "size_path_"),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        course.restore(self, state)
        kept = state["theta"]
        classes = course.class_variable(self, len(kept["class_counts"]))
        core = self._core(self._columns, tuple(state["n_factors"]), classes, state["totals"])
        params = mcfa.MCFAParams(
            loadings=tuple(loadings.Loadings(**w) for w in state["loadings"]),
            gate=Gates(**state["gate"]),
            **kept,
        )
        selects = course.selects_by_row(self)
        model = course.rowwise(self, core, Expected()) if selects else None
        self._keep(model or self._modelled(core, self._columns), params)
        self._describe()
