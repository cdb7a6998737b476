"""Multiple Cause Vector Quantization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import ClassVar

import numpy as np
from sklearn.base import BiclusterMixin

from partwise._compat import Interval, StrOptions
from partwise.answers import tables
from partwise.data.columns import Kind
from partwise.data.table import Schema
from partwise.estimators._gated import CONSTRAINTS, SIZE
from partwise.estimators._moving import MovingEstimator
from partwise.fitting.family import Family
from partwise.fitting.options import Annealing, SizeOptions
from partwise.fitting.states import States
from partwise.fitting.stream import StreamingOptions
from partwise.likelihoods import LAWS, ORDERED, Prior
from partwise.models.transformations import Transformations
from partwise.typing import Likelihoods, PartNames, Seed


class MCVQ(BiclusterMixin, MovingEstimator):
    """Multiple Cause Vector Quantization: parts of columns, each with a few discrete states.

    Every column belongs to one part, and every row is in one state of each part. Given the states,
    an entry depends only on the state of its column's part. With one part the model is latent class
    analysis (a mixture model); with several it is a multi-view clustering, in which each group of
    columns clusters the rows in its own way. Missing values (NaN) are ignored in fitting and
    scoring.

    Parameters
    ----------
    n_parts : int or "auto", default=4
        K, the number of parts. "auto" selects it by the ELBO, see Notes.
    n_states : int, sequence of int or "auto", default=8
        J, the number of states of every part, or one number per part. "auto" selects a number for
        each part by the ELBO.
    likelihood : str, mapping or sequence, default="gaussian"
        Distribution of an entry given its state. For a matrix of one kind: "gaussian", "bernoulli",
        "poisson", "negative_binomial" (overdispersed counts), "zero_inflated" (counts with many
        zeros), "categorical", "ordinal" (ordered categories), "circular" (angles in
        radians) or "degrees".
        For a table with columns of several kinds: "auto" detects the kind of each column (see
        ``kinds_``), a mapping of column names to kinds sets some of them, a
        sequence sets all; a kind may then also be "lognormal" or "ignored".
    gating : {"annealed", "tied", "standard", "factorised"} or Annealing, default="annealed"
        How columns are assigned to parts. "tied": one part per column for all rows. "annealed": the
        same, with deterministic annealing (`partwise.Annealing` for another schedule). "standard":
        every row assigns columns to parts, with one posterior for all rows. "factorised": a
        posterior for every entry, initialized by a tied solution if ``init="dependence"``.
    inference : {"variational", "gibbs"}, default="variational"
        "gibbs" is Monte Carlo EM, which samples the states and the parts of all entries; with
        ``gating="tied"`` one part per column, with moves that split pairs of parts again, for
        ``max_iter`` iterations, of which the second half counts. It then needs a prior, and rows of
        one kind in memory, without classes.
    n_classes : int, "auto" or None, default=None
        N, the number of classes of rows, on which the states depend. With y, the classes are its
        labels, and rows labeled -1 (None, for strings) are classified; without y, classes are
        found. None: as many as y has labels, and no class variable without y. "auto": without y,
        the number with the highest ELBO over the states of a first fit without classes.
    class_chain : bool, default=False
        Whether rows follow each other, in one sequence or several (``lengths`` of `fit`): their
        classes are then a Markov chain, as in a hidden Markov model (docs/classes.md).
    part_groups : int, sequence of int or None, default=None
        Number of groups of parts, or the number of each part's group (from 0), for parts as an
        earlier fit with the same arguments and seed has numbered them. Every group then has its
        own class, on which the states of its parts depend, and which depends on the class of the
        row (docs/classes.md). None: the states depend on the class of the row.
    n_group_classes : int or None, default=None
        Number of classes of every group; None: as many as rows have.
    prior : "conjugate", Prior or None, default="conjugate"
        Strengths of the conjugate priors (see `partwise.Prior`); None is maximum likelihood.
        "conjugate" is ``Prior()``; while an "auto" size is selected, entries count as known to a
        hundredth of their column's variance.
    gate_entropy : float, default=0.0
        Strength of an entropic prior that favors gates of low entropy.
    sparse_absent : {"auto", "unobserved", "zero"}, default="auto"
        Meaning of entries that a sparse matrix does not store; "auto" is zero for counts
        ("poisson", "negative_binomial", "zero_inflated") and unobserved otherwise.
    init : {"dependence", "random"}, default="dependence"
        Initialization. "dependence" groups columns by their dependence and clusters the rows in
        each group. "random" follows the papers: states at randomly selected rows and uniform
        gates.
    n_init : int, default=1
        Number of initializations; the fit with the highest ELBO is kept.
    max_iter : int, default=200
        Maximum number of EM iterations, without those of annealing and of the revision of states
        after it. With less than 9, states are not revised.
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
    warm_start : bool, default=False
        Start from the parameters of the last fit, which may have had another gating; sizes that
        were selected automatically are kept.
    sizes : SizeOptions or None, default=None
        Options of "auto": the number of cells it uses, and the largest number of states (see
        `partwise.SizeOptions`).
    streaming : StreamingOptions or None, default=None
        Options of `partial_fit` (see `partwise.StreamingOptions`).
    transformations : Transformations or None, default=None
        What rows may have undergone, such as ``Translations(image_shape, max_shift=3)``: each row
        is then seen under an unknown one, and parts, states and all attributes of columns are those
        of a canvas (docs/moving.md). For dense X with "gaussian", "bernoulli" or "poisson"
        likelihood, "annealed" or "tied" gating.
    part_names : sequence of str, mapping of int to str, or None, default=None
        Names of all or some parts, used in results instead of part0, part1, ... They can be set
        after the fit: ``model.set_params(part_names={0: "size"})``.

    Attributes
    ----------
    n_parts_ : int
        Number of parts, without the background.
    part_names_ : list of K str
        Names of the parts: those of ``part_names``, or part0, part1, ...
    n_states_ : ndarray of shape (K,)
        Number of states of every part.
    size_path_ : list of dict
        If a size is "auto", the moves of the search: ``kind``, the ``parts`` it changes (numbered
        as at that time), its ``gain`` in nats, whether it was ``accepted``, and ``n_parts``,
        ``n_states`` and ``evidence`` (the ELBO) after it. A last move of kind "uncertain" stands
        for another division of the columns that is nearly as good.
    gates_ : ndarray of shape (D, K)
        Probability that a column belongs to a part; the remainder is the background's.
    parts_ : ndarray of shape (D,)
        Most probable part of each column. -1 marks background columns: constant columns and, with
        "annealed" and "tied" gating, columns that no part explains.
    means_ : ndarray of shape (K, J, D), categorical: (K, J, D, V)
        Expected entry in each state (categorical: probability of each level); NaN for states that
        a part does not have.
    variances_ : ndarray of shape (K, J, D)
        Variance of an entry in each state (categorical: of the level's number).
    state_priors_ : ndarray of shape (K, J), with classes (N, K, J)
        Probability of each state (in each class), 0 for states that a part does not have.
    class_priors_ : ndarray of shape (N,)
        Proportion of every class (with classes only).
    class_given_state_ : ndarray of shape (N, K, J)
        Probability of every class given the state of one part, by Bayes' rule (with classes only).
    class_start_, class_transitions_ : ndarray of shape (N,) and (N, N)
        Probability of the first row's class, and of each class after each other (with
        ``class_chain`` only).
    part_groups_ : ndarray of shape (K,)
        Group of every part (with ``part_groups`` only).
    group_class_priors_ : ndarray of shape (G, N, M)
        Probability of the M classes of each group given the class of the row (with ``part_groups``
        only).
    group_state_priors_ : ndarray of shape (M, K, J)
        Probability of each state in the classes of its part's group (with ``part_groups`` only).
    classes_ : ndarray of shape (N,)
        Labels of the classes, or their numbers (with classes only).
    co_assignment_ : ndarray of shape (D, D)
        Share of the samples in which two columns had the same part (``gating="tied"`` with
        ``inference="gibbs"`` only, of at most 2,000 columns).
    row_labels_ : ndarray of shape (C, K)
        State of every part in every row of the training data, -1 for rows of weight 0.
    column_labels_ : ndarray of shape (D,)
        The same as ``parts_``, under scikit-learn's name for biclusters.
    rows_, columns_ : ndarray of bool of shape (S, C) and (S, D)
        Biclusters, one per state: the rows in that state and the columns of its part, with
        scikit-learn's ``biclusters_``, ``get_indices``, ``get_shape`` and ``get_submatrix``.
    levels_ : ndarray of shape (V,)
        Categories in the order of the last axis of ``means_`` (categorical only).
    kinds_ : ndarray of shape (D,)
        Kind of each column of a table (``likelihood="auto"``, a mapping or a sequence). For tables
        ``means_`` always has shape (K, J, D): for categories it is the mean of their numbers, for
        "lognormal" columns the mean of the logarithm. See ``level_shares_`` and `summary`.
    level_shares_ : dict
        For tables, by column name: probability of each level in each state, of shape (K, J, V).
    transformation_priors_ : ndarray of shape (T,)
        Probability of each of the transformations (with ``transformations`` only).
    canvas_shape_ : tuple of int
        Shape of the canvas that the D columns stand for (with ``transformations`` only).
    lower_bound_ : float
        Evidence lower bound (ELBO) per row; of the log-likelihood if ``prior=None``.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration after annealing (and after states have been split and
        merged, where that follows; docs/mcvq.md), and at the end. With ``inference="gibbs"`` these
        are log joint densities of rows and sampled states, while ``lower_bound_`` is a bound.
    n_iter_ : int
        Number of EM iterations that led to the parameters, ``len(lower_bounds_) - 1``. Callbacks
        are called in every iteration of every initialization.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_samples_seen_ : int
        Number of training rows, including those of `partial_fit`.
    weight_seen_ : float
        Total weight of the training rows, without rows that streaming has discounted.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    Notes
    -----
    Automatic sizes maximize the ELBO, so "auto" needs a prior, "annealed" or "tied" gating, and
    variational inference. If no column depends on another, the model has one part with one state
    and no columns, and a warning says so.

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
        "part_groups": [Interval(Integral, 1, None, closed="left"), list, tuple, np.ndarray, None],
        "n_group_classes": [Interval(Integral, 2, None, closed="left"), None],
        "init": [StrOptions(set(States.starts))],
        "transformations": [Transformations, None],
    }

    def __init__(
        self,
        n_parts: int | str = 4,
        n_states: int | str | Sequence[int] = 8,
        *,
        likelihood: Likelihoods = "gaussian",
        gating: str | Annealing = "annealed",
        inference: str = "variational",
        n_classes: int | str | None = None,
        class_chain: bool = False,
        part_groups: int | Sequence[int] | None = None,
        n_group_classes: int | None = None,
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
        transformations: Transformations | None = None,
        part_names: PartNames | None = None,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.likelihood = likelihood
        self.gating = gating
        self.inference = inference
        self.n_classes = n_classes
        self.class_chain = class_chain
        self.part_groups = part_groups
        self.n_group_classes = n_group_classes
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
        self.transformations = transformations
        self.part_names = part_names

    # --- fitting ---

    _kind: ClassVar[type[Family]] = States

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
