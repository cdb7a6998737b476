"""Multiple Cause Factor Analysis as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from types import ModuleType
from typing import ClassVar

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions
from partwise.answers import factors as answers
from partwise.contracts import Array
from partwise.estimators._gated import CONSTRAINTS, SIZE, GatedEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting.factors import Factors
from partwise.fitting.family import Family
from partwise.fitting.options import SizeOptions
from partwise.fitting.stream import StreamingOptions
from partwise.likelihoods import Prior
from partwise.typing import Classes, DataLike, Given, Hybrid, Seed

# Latent numbers of ordered levels share one unit over all columns, so a column's offset leans to
# the common mean and its noise to half of the variance: one of few entries is like the others.
LEVELS_PRIOR = Prior(entries=2.0, spread=0.5, shape=10.0)


class MCFA(GatedEstimator):
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
    sizes : SizeOptions or None, default=None
        How "auto" selects sizes: on how many cells, and up to how many states (see
        `partwise.SizeOptions`).
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

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **CONSTRAINTS,
        "n_factors": SIZE,
        "likelihood": [StrOptions({"gaussian", "ordinal"})],
        "n_classes": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions(set(Factors.starts))],
    }

    def __init__(
        self,
        n_parts: int | str = 4,
        n_factors: int | str | Sequence[int] = 4,
        *,
        likelihood: str = "gaussian",
        gating: str = "annealed",
        n_classes: int | None = None,
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
        self.sizes = sizes
        self.streaming = streaming

    # --- fitting ---

    _kind: ClassVar[type[Family]] = Factors
    _answers: ClassVar[ModuleType] = answers

    @property
    def _usual_prior(self) -> Prior:
        return LEVELS_PRIOR if self.likelihood == "ordinal" else Prior()

    def _absent_zero(self) -> bool:
        return self.sparse_absent == "zero"

    # --- rows ---

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
        """
        check_is_fitted(self)
        return answers.transform(self._fitted, self._checked(X), self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected row given factors.

        Parameters
        ----------
        X : array-like of shape (n, J of all parts)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        s = self._check_transformed(X, "factor", self._fitted.dtype)
        return answers.inverse_transform(self._fitted, s)

    # --- one row, and new rows ---

    def explain(self, x: Given, n_columns: int = 5) -> list[dict[str, object]]:
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
        return answers.explain(self._fitted, self._one_row(x), n_columns, self.n_jobs)

    def sample(
        self,
        n_samples: int = 1,
        *,
        states: ArrayLike | None = None,
        classes: Classes | None = None,
        hybrid: Hybrid | None = None,
        random_state: Seed = None,
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
        return self._draw(n_samples, states, classes, hybrid, random_state)
