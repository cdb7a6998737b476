"""Mixtures of Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import components
from partwise.estimators._bayesian_pca_base import SHARED, SIZE, restored_params
from partwise.estimators._mixture_rows import MixtureRows
from partwise.fitted import NoiseLevel, fields_of
from partwise.fitting.component_classes import fit_mixture
from partwise.fitting.labels import read_labels
from partwise.models.bayesian_pca import Broad
from partwise.typing import DataLike, SavedState, Seed


class BayesianPCAMixture(MixtureRows):
    """Mixture of Bayesian PCA models, which selects its sizes: a density on a curved manifold.

    A row comes from one of M components, each a linear subspace with noise; together they follow a
    curved surface. By default all components share the relevances of directions, so they have the
    same dimension. The number of components is found by births, deaths, splits and merges that
    increase the ELBO. With labels, every class has its own mixture, and all have the same noise, at
    the level that classifies held-out rows best (see ``class_noise``). Missing values (NaN) are
    ignored in fitting and scoring.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        M, the number of components, of every class if there are classes (fewer for a class with
        fewer distinct rows). "auto" selects it by the ELBO; with classes, 8 and 16 components for
        each are tried as well, and the mixtures that classify held-out rows best are taken.
    max_dimension : int or None, default=None
        Maximum number of directions of a component; None is one less than the number of columns (or
        rows). Two or more components have fewer directions than the space of the rows.
    prior : "conjugate", float or None, default="conjugate"
        As for `BayesianPCA`. None is maximum likelihood, which cannot select ``n_components``.
    relevance : {"shared", "component", "auto"}, default="shared"
        Relevances of directions: one that all components share, so that they have the same
        dimension; one per component, so that dimensions may differ; or the one of the two with the
        higher ELBO, of every class. "component" and "auto" take longer. Without a prior there are
        none.
    class_noise : {"pooled", "best"}, default="pooled"
        Which densities give the probabilities of classes: those at the best level of noise and at
        half and twice that level (as far as they were tried), averaged after calibration, or those
        at the best level only.
        "pooled" makes fewer errors, and stores three mixtures of every class instead of one. All
        other methods use the best level. Without a prior the noise of every class is learned.
    max_iter : int, default=100
        Maximum number of EM iterations between two moves, and after the last.
    tol : float, default=1e-4
        Convergence threshold: gain of the ELBO per row and EM iteration. Between moves it is 300
        times larger.
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
    n_components_ : int
        M, the number of components of all classes together.
    effective_dimension_ : int, or ndarray of shape (N,) with classes
        Number of directions whose E|w|^2, over all components, is above 1 % of the largest.
    components_ : ndarray of shape (M, q, D)
        Directions of every component, as for `BayesianPCA`; 0 for directions its class does not
        have.
    means_ : ndarray of shape (M, D)
        Mean of every component.
    weights_ : ndarray of shape (M,)
        Proportion of every component.
    noise_variance_ : float, or ndarray of shape (N,)
        Expected variance of the noise.
    component_dimensions_ : ndarray of shape (M,)
        Number of directions of every component whose E|w|^2 is above 1 % of its largest.
    relevances_ : ndarray of shape (q,), or (N, q)
        Expected alpha of the directions; infinite for directions that a class does not have. Shape
        (M, q) if some components have relevances of their own.
    relevance_ : str, or list of str with classes
        "shared" or "component", as selected.
    n_directions_ : int
        Maximum number of directions: ``max_dimension``, or its value for None.
    component_classes_ : ndarray of shape (M,)
        Class of each component (with classes only).
    classes_, class_priors_ : ndarray of shape (N,)
        Labels of the classes, and their proportions (with classes only).
    class_noise_variances_ : ndarray of shape (L, N)
        Noise of the L levels that give the probabilities of classes, ``noise_variance_`` first
        (with classes only).
    moves_ : list of dict
        Every move of the search: ``kind``, ``components``, ``gain`` in nats, of the ELBO plus
        log M! and a term for rotations of the directions, ``accepted``, ``n_components`` after it,
        and ``class`` if there are classes.
    n_components_posterior_ : ndarray of shape (most + 1,), or (N, most + 1)
        Probability of every number of components that the search visited, 0 for others. It is
        proportional to M! times the exponential of the number's best ELBO, with a term for
        rotations of the directions.
    lower_bound_ : float
        Evidence lower bound (ELBO) per row, including the cost of the choice of the components'
        common subspace.
    lower_bounds_ : ndarray
        Its value in every EM iteration after the last move (with classes, of the first class).
    n_iter_ : int
        Number of EM iterations, ``len(lower_bounds_) - 1``.
    converged_ : bool
        Whether the fit converged within ``max_iter`` EM iterations and ``max_time``.
    n_features_in_ : int
        D, the number of columns.
    feature_names_in_ : ndarray of shape (D,)
        Column names, if X has names that are all strings.

    References
    ----------
    C. M. Bishop and J. M. Winn, Non-linear Bayesian Image Modelling. *ECCV* 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BayesianPCAMixture
    >>> rng = np.random.default_rng(0)
    >>> t = rng.uniform(-3, 3, 400)
    >>> X = np.stack([t, 2 * np.sin(t)], axis=1) + 0.1 * rng.normal(size=(400, 2))
    >>> model = BayesianPCAMixture(random_state=0).fit(X)
    >>> model.effective_dimension_, model.n_components_ > 3
    (1, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **SHARED,
        "max_dimension": SIZE,
        "n_components": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "relevance": [StrOptions({"shared", "component", "auto"})],
        "class_noise": [StrOptions({"pooled", "best"})],
    }
    _size_name = "max_dimension"
    _kept = (
        "n_directions_", "classes_", "class_priors_", "moves_", "n_components_posterior_",
    )  # fmt: skip

    def __init__(
        self,
        n_components: int | str = "auto",
        max_dimension: int | None = None,
        *,
        prior: float | str | None = "conjugate",
        relevance: str = "shared",
        class_noise: str = "pooled",
        max_iter: int = 100,
        tol: float = 1e-4,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.max_dimension = max_dimension
        self.prior = prior
        self.relevance = relevance
        self.class_noise = class_noise
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: DataLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> BayesianPCAMixture:
        """Learn the components and their number.

        Parameters
        ----------
        X : array-like of shape (C, D)
            Training rows; NaN is a missing value.
        y : array-like of shape (C,), optional
            Labels; a mixture is learned for every class. Rows labeled -1 (None, for strings) are
            ignored. Numbers that are not labels, with fractions or all different, are ignored.
        sample_weight : array-like of shape (C,), optional
            An integer weight w is equivalent to repeating the row w times.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCAMixture
        >>> X = load_iris().data
        >>> model = BayesianPCAMixture(n_components=3, random_state=0).fit(X)
        >>> model.n_components_
        3
        """
        if self.prior is None and self.n_components == "auto":
            raise ValueError(
                'n_components="auto" needs a prior, because the likelihood always increases with '
                "the number of components; pass a number of components, or a prior."
            )
        rows, group = self._read(X, sample_weight)
        names, labels = read_labels(y, None, len(rows.kept))
        if labels is None or names is None:
            labels = np.zeros(len(rows.kept), int)
        size = None if isinstance(self.n_components, str) else int(self.n_components)
        ascent = self._ascent(rows)
        options = replace(self._options(size, ascent), pools=self.class_noise == "pooled")
        prior = options.prior
        if isinstance(prior, Broad) and self.relevance != "shared":
            own = replace(prior, by_component=True)
            first = own if self.relevance == "component" else prior
            options = replace(options, prior=first, other=own if first is prior else None)
        fitted = fit_mixture(ascent, group, names, labels[rows.kept], options, self.random_state)
        return self._adopt(fitted)

    # --- what was learned ---

    def _attributes(self) -> Mapping[str, object]:
        return components.mixture_attributes(self._fitted)

    # --- saving ---

    def __partwise_state__(self) -> dict[str, object]:
        fitted = self._fitted
        teller: dict[str, object] = {"slope": fitted.slope, "offsets": fitted.offsets}
        if fitted.others:
            teller["others"] = [
                {"slope": level.slope, "theta": [fields_of(params) for params in level.params]}
                for level in fitted.others
            ]
        return {**super().__partwise_state__(), "teller": teller}

    def __partwise_restore__(self, state: SavedState) -> None:
        learned, teller = state["learned"], state["teller"]
        more = {
            "class_priors": learned.get("class_priors_"),
            "slope": teller["slope"],
            "offsets": teller["offsets"],
            "others": tuple(
                NoiseLevel(level["slope"], restored_params(level["theta"]))
                for level in teller.get("others", ())
            ),
            "moves": learned["moves_"],
            "size_posterior": learned["n_components_posterior_"],
        }
        fitted = self._restored(state, more)
        self._adopt(fitted)
