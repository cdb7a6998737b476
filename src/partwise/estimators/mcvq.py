"""Multiple Cause Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BiclusterMixin
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions
from partwise.answers import states as answers
from partwise.answers import tables
from partwise.contracts import Array
from partwise.data.columns import Kind
from partwise.data.table import Schema
from partwise.estimators._gated import CONSTRAINTS, SIZE
from partwise.estimators._rows import by_rows
from partwise.estimators._tables import TableEstimator
from partwise.fitting.family import Family
from partwise.fitting.options import SizeOptions
from partwise.fitting.states import States
from partwise.fitting.stream import StreamingOptions
from partwise.likelihoods import LAWS, ORDERED, Prior, zero_if_absent
from partwise.sampling.randomness import as_generator
from partwise.typing import (
    Classes,
    DataLike,
    Frame,
    Given,
    Hybrid,
    Likelihoods,
    Seed,
)

# Variance to within which entries are known where sizes are sought, in units of the column's.
# States without noise would otherwise be the better the fewer they are; a third of it still finds
# the states of noiseless shapes.
RESOLUTION = 0.01


class MCVQ(BiclusterMixin, TableEstimator):
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
        Distribution of an entry given its state: "gaussian", "bernoulli", "poisson",
        "negative_binomial" (counts that vary more than Poisson), "zero_inflated" (counts with many
        zeros), "categorical", "ordinal" (categories with an order) or "circular" (angles in
        radians) for a matrix of one kind. "auto" finds out what each column of a table is (see
        ``kinds_`` and docs/tables.md), a mapping of column names to kinds says so for some, a
        sequence for all; a kind may then also be "lognormal" or "ignored".
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
        ("poisson", "negative_binomial", "zero_inflated") and unobserved otherwise.
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
    sizes : SizeOptions or None, default=None
        How "auto" selects sizes: on how many cells, and up to how many states (see
        `partwise.SizeOptions`).
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

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **CONSTRAINTS,
        "n_states": SIZE,
        "likelihood": [StrOptions({*LAWS, "auto"}), dict, list, tuple],
        "inference": [StrOptions({"variational", "gibbs"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "init": [StrOptions(set(States.starts))],
    }

    def __init__(
        self,
        n_parts: int | str = 4,
        n_states: int | str | Sequence[int] = 8,
        *,
        likelihood: Likelihoods = "gaussian",
        gating: str = "annealed",
        inference: str = "variational",
        n_classes: int | str | None = None,
        prior: str | Prior | None = "conjugate",
        gate_entropy: float = 0.0,
        sparse_absent: str = "auto",
        init: str = "dependence",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
        warm_start: bool = False,
        sizes: SizeOptions | None = None,
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
        self.sizes = sizes
        self.streaming = streaming

    # --- fitting ---

    _kind: ClassVar[type[Family]] = States

    @property
    def _usual_prior(self) -> Prior:
        sought = isinstance(self.n_parts, str) or isinstance(self.n_states, str)
        return Prior(resolution=RESOLUTION) if sought else Prior()

    def _absent_zero(self) -> bool:
        if self.sparse_absent == "auto":
            return zero_if_absent(self.likelihood)
        return self.sparse_absent == "zero"

    def _law(self, schema: Schema | None) -> str | tuple[Kind, ...]:
        if schema is not None:
            return schema.kinds
        if not isinstance(self.likelihood, str):
            raise TypeError("The kinds of a table's columns need its schema.")
        # A model of states has no latent numbers: it sees their levels.
        latent = not self._is_table and LAWS[self.likelihood].latent
        return ORDERED if latent else self.likelihood

    def _attributes(self) -> Mapping[str, object]:
        own = {} if self._fitted.schema is None else tables.attributes(self._fitted)
        return {**super()._attributes(), **own}

    # --- what was learned ---

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
        sizes = enumerate(self.n_states_)
        return np.stack([self.row_labels_[:, k] == j for k, J in sizes for j in range(J)])

    @property
    def columns_(self) -> Array:
        """Columns of each state's part, (S, D)."""
        check_is_fitted(self)
        part_of = np.repeat(np.arange(self.n_parts_), self.n_states_)
        return part_of[:, None] == self.parts_

    # --- rows ---

    @by_rows
    def transform(self, X: DataLike) -> Array:
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
        return answers.transform(self._fitted, self._checked(X), self.n_jobs)

    @by_rows
    def predict_states(self, X: DataLike) -> Array:
        """Most probable state of each part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        states : ndarray of shape (n, K)
        """
        coded = self._checked(X)
        return answers.predict_states(self._fitted, coded, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array | Frame:
        """Expected row given posteriors over states, sum over parts and states of g m mean.

        Parameters
        ----------
        X : array-like of shape (n, S)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        m = self._check_transformed(X, "state", self._fitted.dtype)
        return self._as_given(answers.inverse_transform(self._fitted, m))

    def impute(
        self, X: DataLike, n_imputations: int | None = None, *, random_state: Seed = None
    ) -> Array | Frame | list[Array | Frame]:
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
        if n_imputations is None and self._fitted.schema is None:
            return super().impute(X)
        coded = self._checked(X)
        if n_imputations is None:
            return tables.fill(self._fitted, X, coded, self._impute(coded))
        if not isinstance(n_imputations, Integral) or n_imputations < 1 or sparse.issparse(coded):
            raise ValueError(
                f"impute(n_imputations={n_imputations!r}) needs a whole number of at least 1, and "
                "dense X."
            )
        rng = as_generator(self.random_state if random_state is None else random_state)
        drawn = tables.draw(self._fitted, coded, rng.spawn(int(n_imputations)), self.n_jobs)
        return [tables.fill(self._fitted, X, coded, values) for values in drawn]

    # --- one row, and new rows ---

    def explain(self, x: Given, n_columns: int = 5) -> list[dict[str, object]]:
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
        return answers.explain(self._fitted, self._one_row(x), n_columns, self.n_jobs)

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: ArrayLike | None = None,
        classes: Classes | None = None,
        hybrid: Hybrid | None = None,
        given: Given | None = None,
        random_state: Seed = None,
    ) -> tuple[Array | Frame, Array]:
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
        rows, told = self._draw(n_samples, states, classes, hybrid, random_state)
        return self._as_given(rows), told
