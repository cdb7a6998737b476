"""Multiple Cause Factor Analysis as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions
from partwise.answers import copula, tables
from partwise.answers import factors as answers
from partwise.answers.moving import MovedAnswers
from partwise.answers.moving_parts import PartsAnswers
from partwise.answers.results import Explanation
from partwise.contracts import Array
from partwise.data.columns import Kind
from partwise.data.table import Likelihood, Schema
from partwise.estimators._gated import CONSTRAINTS, SIZE
from partwise.estimators._moving import TransformedRows
from partwise.estimators._rows import by_rows
from partwise.estimators._sequences import in_sequence
from partwise.estimators._table_verbs import TableVerbs
from partwise.fitting.factors import Factors
from partwise.fitting.family import Family
from partwise.fitting.moving_states import MovingFactors
from partwise.fitting.options import Annealing, SizeOptions
from partwise.fitting.stream import StreamingOptions
from partwise.likelihoods import Prior
from partwise.models.transformations import Transformations
from partwise.typing import (
    Classes,
    DataLike,
    Frame,
    Given,
    Hybrid,
    Likelihoods,
    PartNames,
    Seed,
)

# Latent numbers of ordered levels share one unit over all columns. The prior guess of a column's
# offset is therefore the common mean and that of its noise half of the variance, so that a column
# with few entries is like the others.
LEVELS_PRIOR = Prior(entries=2.0, spread=0.5, shape=10.0)


class MCFA(TransformedRows, TableVerbs):
    """Multiple Cause Factor Analysis: parts of columns, each with a few continuous factors.

    Every column belongs to one part, every row has separate factors for each part, and an entry is
    a linear function of the factors of its column's part, plus noise. With one part the model is
    factor analysis with missing data. Missing values (NaN) are ignored in fitting and scoring.

    Parameters
    ----------
    n_parts : int or "auto", default=4
        K, the number of parts. "auto" selects it by the ELBO (docs/sizes.md).
    n_factors : int, "auto" or sequence of int, default=4
        J, the number of factors of every part, or one number per part. With a prior it is a
        maximum: factors that the data do not support shrink to 0 (see ``n_factors_``). "auto"
        selects a number for each part by the ELBO.
    likelihood : {"gaussian", "ordinal", "auto"}, dict or list, default="gaussian"
        "ordinal": entries are ordered levels (ratings, grades), each an interval of a latent number
        that follows the model; the intervals follow from the frequencies of the levels. "auto": a
        table with columns of several kinds, each with latent numbers (a Gaussian copula): numbers
        through a learned monotone map, levels as intervals, categories as the largest of several
        numbers. Kinds can be given by column, as for `MCVQ`.
    gating : {"annealed", "tied", "standard", "factorised"} or Annealing, default="annealed"
        How columns are assigned to parts. "tied": one part per column for all rows. "annealed": the
        same, with deterministic annealing (`partwise.Annealing` for another schedule). "standard":
        every row assigns columns to parts, with one posterior for all rows. "factorised": a
        posterior for every entry, initialized by a tied solution if ``init="dependence"``.
    inference : {"variational", "gibbs"}, default="variational"
        "gibbs" is Monte Carlo EM, which samples the factors of rows and the parts of all entries.
        Not with ``gating="tied"``.
    n_classes : int or None, default=None
        N, the number of classes of rows; each has its own Gaussian prior of every part's factors.
        With y, the classes are its labels, and rows labeled -1 (None, for strings) are classified;
        without y, classes are found. None: as many as y has labels, and no class variable without
        y.
    class_chain : bool, default=False
        Whether rows follow each other, in one sequence or several (``lengths`` of `fit`): their
        classes are then a Markov chain, as in a hidden Markov model (docs/classes.md).
    prior : "conjugate", Prior or None, default="conjugate"
        With a prior, loadings have a posterior and each factor a relevance, which columns with few
        observations need. Fields of `partwise.Prior`: ``entries`` is the weight, in rows, of the
        column's mean as its offset; ``spread`` is the prior guess of the noise variance and
        ``shape`` its weight in rows; ``states`` is the weight in rows of the standard Gaussian in a
        class. For ordinal entries the prior guess of the offset is the mean of all columns, by
        default with 2 rows, and that of the noise half of the variance, with 10. None is maximum
        likelihood.
    gate_entropy : float, default=0.0
        Strength of an entropic prior that favors gates of low entropy.
    sparse_absent : {"auto", "unobserved", "zero"}, default="auto"
        Meaning of entries that a sparse matrix does not store; "auto" is unobserved.
    init : {"dependence", "covariance", "random"}, default="dependence"
        Initialization. "dependence" groups columns by their dependence and takes the principal
        directions of each group. "covariance" is for one part with up to 200 columns and at least
        twice as many rows (else it is "dependence"): a factor analysis of their covariance, which
        finds small factors of columns with hardly any noise. "random" follows the papers: loadings
        at randomly selected rows and uniform gates.
    n_init : int, default=1
        Number of initializations; the fit with the highest ELBO is kept.
    max_iter : int, default=200
        Maximum number of EM iterations, without those of annealing.
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
        Start from the parameters of the last fit, which may have had another gating.
    sizes : SizeOptions or None, default=None
        Options of "auto": the number of cells it uses, and the largest number of states (see
        `partwise.SizeOptions`).
    streaming : StreamingOptions or None, default=None
        Options of `partial_fit` (see `partwise.StreamingOptions`).
    transformations : Transformations or None, default=None
        What rows may have undergone, such as ``Translations(image_shape, max_shift=3)``: each row
        is then seen under an unknown one, and parts, loadings and all attributes of columns are
        those of a canvas (docs/moving.md). For dense X with "gaussian" likelihood and "annealed" or
        "tied" gating.
    part_names : sequence of str, mapping of int to str, or None, default=None
        Names of all or some parts, used in results instead of part0, part1, ... They can be set
        after the fit: ``model.set_params(part_names={0: "size"})``.

    Attributes
    ----------
    n_parts_ : int
        Number of parts, without the background.
    part_names_ : list of K str
        Names of the parts: those of ``part_names``, or part0, part1, ...
    size_path_ : list of dict
        If a size is "auto", the moves of the search, as in `MCVQ`; ``n_factors`` has the number of
        factors of every part after the move.
    gates_ : ndarray of shape (D, K)
        Probability that a column belongs to a part; the remainder is the background's.
    parts_ : ndarray of shape (D,)
        Most probable part of each column. -1 marks background columns: constant columns and, with
        "annealed" and "tied" gating, columns that no factor explains.
    loadings_ : ndarray of shape (K, D, J)
        Change of an entry with each factor; 0 for factors that a part does not have.
    offsets_ : ndarray of shape (K, D)
        Expected entry if all factors are 0.
    noise_variance_ : ndarray of shape (K, D)
        Variance of the noise.
    n_factors_ : ndarray of shape (K,)
        Number of factors of each part whose expected squared loadings are above 1 % of the part's
        largest.
    kinds_, column_levels_ : ndarray of shape (D,) and dict
        Kind of each column, and levels by name (tables only).
    latent_columns_ : ndarray of shape (number of latent numbers,)
        Column of each latent number (tables only); loadings, offsets and noise are then those of
        latent numbers, of which a category has one per level.
    factor_means_, factor_covariances_ : ndarray of shape (N, K, J) and (N, K, J, J)
        Prior of the factors in each class (with classes only).
    levels_ : ndarray of shape (L,)
        The observed levels (``likelihood="ordinal"`` only); loadings, offsets and noise are then
        those of the latent numbers, whose standard Gaussian distribution is divided into intervals
        by the frequencies of the levels.
    transformation_priors_ : ndarray of shape (T,)
        Probability of each of the transformations (with ``transformations`` only).
    canvas_shape_ : tuple of int
        Shape of the canvas that the D columns stand for (with ``transformations`` only).
    class_priors_ : ndarray of shape (N,)
        Proportion of every class (with classes only).
    class_start_, class_transitions_ : ndarray of shape (N,) and (N, N)
        Probability of the first row's class, and of each class after each other (with
        ``class_chain`` only).
    classes_ : ndarray of shape (N,)
        Labels of the classes, or their numbers (with classes only).
    column_labels_ : ndarray of shape (D,)
        The same as ``parts_``, under scikit-learn's name for biclusters.
    lower_bound_ : float
        Evidence lower bound (ELBO) per row; of the log-likelihood if ``prior=None``.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its value before every EM iteration after annealing, and at the end.
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

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **CONSTRAINTS,
        "n_factors": SIZE,
        "likelihood": [StrOptions({"gaussian", "ordinal", "auto"}), dict, list, tuple],
        "inference": [StrOptions({"variational", "gibbs"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions(set(Factors.starts))],
        "transformations": [Transformations, None],
    }

    def __init__(
        self,
        n_parts: int | str = 4,
        n_factors: int | str | Sequence[int] = 4,
        *,
        likelihood: Likelihoods = "gaussian",
        gating: str | Annealing = "annealed",
        inference: str = "variational",
        n_classes: int | None = None,
        class_chain: bool = False,
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
        self.n_factors = n_factors
        self.likelihood = likelihood
        self.gating = gating
        self.inference = inference
        self.n_classes = n_classes
        self.class_chain = class_chain
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

    _kind: ClassVar[type[Family]] = Factors
    _moving_kind: ClassVar[type[Family]] = MovingFactors
    _answers: ClassVar[ModuleType] = answers

    @property
    def _usual_prior(self) -> Prior:
        return LEVELS_PRIOR if self.likelihood == "ordinal" else Prior()

    def _check_form(self) -> None:
        plain = self.n_parts == 1 and self.transformations is None
        if self.init == "covariance" and not plain:
            raise ValueError('init="covariance" needs n_parts=1, transformations=None; omit init.')

    def _reads_table(self, X: DataLike) -> bool:
        return not isinstance(self.likelihood, str) or self.likelihood == "auto"

    def _suited(self, schema: Schema, asked: Likelihood) -> Schema:
        return schema.without_angles(asked)

    def _law(self, schema: Schema | None) -> str | tuple[Kind, ...]:
        if schema is not None:
            return schema.kinds
        return self.likelihood if isinstance(self.likelihood, str) else "auto"

    @property
    def _asked(self) -> ModuleType | MovedAnswers | PartsAnswers:
        mixed = hasattr(self, "_fitted") and copula.is_mixed(self._fitted)
        return copula if mixed else super()._asked

    def _level_probabilities(self, coded: Array, places: Sequence[int]) -> dict[int, Array]:
        answers_of = copula if copula.is_mixed(self._fitted) else answers
        return answers_of.predict_proba_columns(self._fitted, coded, places, self.n_jobs)

    def _drawn(self, coded: Array, generators: Sequence[np.random.Generator]) -> Iterator[Array]:
        if not copula.is_mixed(self._fitted):
            raise ValueError(
                'n_imputations needs MCFA(likelihood="auto"); MCVQ has it for all likelihoods.'
            )
        return copula.draw(self._fitted, coded, generators, self.n_jobs)

    # --- rows ---

    @in_sequence
    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Posterior mean of every factor of every part.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        factors : ndarray of shape (n, J of all parts)
            Columns named part0_factor0, ...

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCFA
        >>> X = load_iris().data
        >>> model = MCFA(n_parts=1, n_factors=2, random_state=0).fit(X)
        >>> model.transform(X).shape
        (150, 2)
        """
        check_is_fitted(self)
        return self._asked.transform(self._fitted, self._checked(X), self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array | Frame:
        """Expected rows given factors.

        Parameters
        ----------
        X : array-like of shape (n, J of all parts)

        Returns
        -------
        rows : ndarray or DataFrame of shape (n, D)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCFA
        >>> X = load_iris().data
        >>> model = MCFA(n_parts=1, n_factors=2, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        check_is_fitted(self)
        s = self._check_transformed(X, "factor", self._fitted.dtype)
        return self._as_given(self._asked.inverse_transform(self._fitted, s))

    # --- one row, and new rows ---

    def explain(self, x: Given, n_columns: int = 5) -> Explanation:
        """Explain one row: the factors of every part, and the columns that support them.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values
        n_columns : int, default=5
            Maximum number of columns per part.

        Returns
        -------
        parts : Explanation, a list of K dict
            ``part``, ``factors`` (their posterior means), ``log_likelihood`` of the part's entries,
            and ``columns``: the columns with the most evidence for the factors, each with
            ``column``, ``value``, ``expected`` at these factors, and ``evidence``, the
            log-likelihood ratio in nats of the value at these factors and in the whole part.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCFA
        >>> X = load_iris().data
        >>> model = MCFA(n_parts=1, n_factors=2, random_state=0).fit(X)
        >>> len(model.explain(X[0])[0]["factors"])
        2
        """
        found = self._asked.explain(self._fitted, self._one_row(x), n_columns, self.n_jobs)
        return Explanation(found, tables.frame_kind(self._fitted), self.part_names_)

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: ArrayLike | None = None,
        classes: Classes | None = None,
        hybrid: Hybrid | None = None,
        random_state: Seed = None,
    ) -> tuple[Array | Frame, Array]:
        """Sample new rows.

        Parameters
        ----------
        n_samples : int, default=1
        states : array-like of shape (n_samples, J of all parts), optional
            Factors of the rows; by default sampled from their priors.
        classes : label or array-like of shape (n_samples,), optional
            Classes of the rows; by default sampled by their proportions.
        hybrid : dict, optional
            For some parts, the class whose prior to use instead, or a mapping of classes to weights
            for a mixture of several: ``{part: class or {class: weight}}``.
        random_state : int, Generator, RandomState or None, default=None
            Random seed; None uses the ``random_state`` of the estimator.

        Returns
        -------
        rows : ndarray or DataFrame of shape (n_samples, D)
        factors_or_classes : ndarray of shape (n_samples, J of all parts) or (n_samples,)
            The factors of the rows; with a class variable their classes, unless ``states`` or
            ``hybrid`` is given.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCFA
        >>> X = load_iris().data
        >>> model = MCFA(n_parts=1, n_factors=2, random_state=0).fit(X)
        >>> rows, factors = model.sample(5, random_state=0)
        >>> rows.shape, factors.shape
        ((5, 4), (5, 2))
        """
        rows, told = self._draw(n_samples, states, classes, hybrid, random_state)
        return self._as_given(rows, sampled=True), told
