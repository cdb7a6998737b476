"""Mixtures of Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers import components
from partwise.answers.components import FittedComponents
from partwise.answers.rows import source_of
from partwise.contracts import Array
from partwise.data import BlockSource, RowSource
from partwise.estimators._bayesian_pca_base import SHARED, SIZE, Analysers
from partwise.estimators._rows import by_rows
from partwise.estimators._verbs import has_classes
from partwise.fitted import FitRecord
from partwise.fitting.class_calibration import LeftOut
from partwise.fitting.component_fit import ClassFit, fit_components, gone_on
from partwise.fitting.component_search import size_posterior
from partwise.fitting.component_space import MOST_BEGUN, calibrated
from partwise.fitting.labels import classes_of_rows, read_labels
from partwise.fitting.record import recorded
from partwise.sampling.randomness import as_generator
from partwise.starts.rows import some_rows
from partwise.typing import Classes, DataLike, Seed, State


class BayesianPCAMixture(Analysers):
    """Mixture of Bayesian principal component analysers that finds its own sizes.

    A row comes from one of M components, each a linear subspace with noise; together they follow a
    curved surface. Relevances of directions are shared by all components, so that these have one
    dimension, and the number of components is found by births, deaths, splits and merges that raise
    the lower bound of the evidence. Missing entries (NaN) take part in nothing. With labels, every
    class has a mixture of its own; all have the same noise, at a level at which rows that were left
    out of the fit are told best.

    Parameters
    ----------
    n_components : "auto" or int, default="auto"
        M, of every class if there are classes (fewer where a class has fewer rows that differ);
        "auto" lets the bound decide.
    max_dimension : int or None, default=None
        Most directions of a component; None is one less than the columns (or rows). Two components
        or more have fewer directions than the space that the rows lie in.
    prior : "conjugate", float or None, default="conjugate"
        As for `BayesianPCA`. None is maximum likelihood, which cannot choose ``n_components``.
    max_iter : int, default=100
        Most sweeps of a climb.
    tol : float, default=1e-4
        The last climb has converged when the bound rises by less than this a row; climbs between
        moves end at 300 times this.
    max_time : float or None, default=None
        Seconds after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS would use.
    random_state : int, Generator, RandomState or None, default=None
    verbose : int, default=0
        Above 0 a progress bar is shown.

    Attributes
    ----------
    n_components_ : int
        M, of all classes together.
    effective_dimension_ : int, or ndarray of shape (N,) with classes
        Directions whose E|w|^2, over all components, is above 1 % of the largest.
    components_ : ndarray of shape (M, q, D)
        Directions of every component, as for `BayesianPCA`; 0 beyond those of its class.
    means_ : ndarray of shape (M, D)
    weights_ : ndarray of shape (M,)
        Share of the rows.
    noise_variance_ : float, or ndarray of shape (N,)
        Expected variance of the noise.
    relevances_ : ndarray of shape (q,), or (N, q)
        Expected alpha of the directions; infinite beyond those of its class.
    n_directions_ : int
        Most directions: ``max_dimension``, or what None stands for.
    component_classes_ : ndarray of shape (M,)
        Class of each component (with classes only).
    classes_, class_priors_ : ndarray of shape (N,)
        Labels of the classes, and their shares (with classes only).
    moves_ : list of dict
        Every move that was tried: ``kind``, ``components``, ``gain`` in nats of bound plus log M!,
        turns of directions counted, ``accepted``, ``n_components`` with it, and ``class`` if there
        are classes.
    n_components_posterior_ : ndarray of shape (most + 1,), or (N, most + 1)
        Probability of every number of components that was looked at, 0 for the others:
        proportional to M! times the exponential of its best bound, turns of directions counted.
    lower_bound_ : float
        Lower bound of the log evidence, a row; the choice of the subspace that components lie in is
        paid for.
    lower_bounds_ : ndarray
        Its trace after the last move (the first class's, with classes).
    n_iter_ : int
        Sweeps in that trace.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    References
    ----------
    C. M. Bishop and J. M. Winn, Non-linear Bayesian Image Modelling, ECCV 2000.

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
        """Learn components, and how many there are.

        Parameters
        ----------
        X : array-like of shape (C, D)
            NaN is missing.
        y : array-like of shape (C,), optional
            Labels: a mixture is learned of every class. Rows labelled -1 (None, for strings) take
            no part. Numbers that are no labels, being fractions or all different, are ignored.
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.

        Returns
        -------
        self
        """
        if self.prior is None and self.n_components == "auto":
            raise ValueError(
                'n_components="auto" needs a prior, since likelihood alone always wants more '
                "components; give their number, or leave prior as it is."
            )
        X, weight, kept, group = self._read(X, sample_weight)
        names, labels = read_labels(y, None, len(kept))
        labels = np.zeros(len(weight), int) if labels is None or names is None else labels[kept]
        whole = X, weight, labels
        rng, deadline = as_generator(self.random_state), self._deadline()
        size = None if isinstance(self.n_components, str) else int(self.n_components)
        options, ascend = self._options(size, deadline), self._ascend(rng, deadline)
        q = options.most_directions(X)
        if isinstance(X, RowSource):
            some = some_rows(weight, max(MOST_BEGUN // X.shape[1], 1), rng)
            X, weight, labels = X[some], weight[some], labels[some]
        parts = [np.flatnonzero(labels == c) for c in range(1 if names is None else len(names))]
        self._check_parts(parts, names)
        class_priors, of_rows = None, partial(source_of, (group,))
        if names is not None:
            counts = np.bincount(whole[2][whole[2] >= 0], whole[1][whole[2] >= 0], len(names))
            class_priors = counts / counts.sum()
        shares = np.ones(1) if class_priors is None else class_priors
        left_out = LeftOut(of_rows, X, weight, parts, shares).cut(rng.spawn(1)[0])

        def fit_all(noise: float | None) -> list[ClassFit]:
            return [
                fit_components(X[rows], weight[rows], group, noise, options, ascend, rng)
                for rows in parts
            ]

        learned = left_out.fold is None or self.prior is None
        found = fit_all(None) if learned else left_out.choose_noise(fit_all, deadline)
        if isinstance(whole[0], RowSource) and X.shape[0] < whole[0].shape[0]:
            # Parameters learned from some rows are refined with all of them.
            for c, one in enumerate(found):
                own = whole[2] == c
                source = BlockSource(whole[0].some(own), (group,), whole[1][own], n_powers=2)
                found[c] = gone_on(one, source, whole[0], options, ascend)
        fits = [(one.space, one.params) for one in found]
        calibration = calibrated(fits, of_rows, X, parts, rng.spawn(1)[0])
        _, slope, offsets = left_out.calibrate(fits)
        fitted = FittedComponents(
            fits[0][0].model,
            tuple(space.in_columns(params) for space, params in fits),
            (group,),
            self.n_features_in_,
            X.dtype,
            _recorded(found, float(whole[1].sum())),
            getattr(self, "feature_names_in_", None),
            calibration=calibration,
            classes=names,
            n_directions=q,
            class_priors=class_priors,
            slope=slope,
            offsets=offsets,
            moves=_moves(found, names),
            size_posterior=_sizes(found, names),
        )
        return self._adopt(fitted)

    def _check_parts(self, parts: list[Array], names: Array | None) -> None:
        """Refuse classes, or all rows, that are too few."""
        for c, rows in enumerate(parts):
            what = "X" if names is None else f"class {names[c]!s}"
            if len(rows) == 0:
                raise ValueError(
                    f"No row of {what} has weight; drop its rows from X and y, or give them "
                    "sample_weight."
                )
        n_rows = sum(len(rows) for rows in parts)
        if not isinstance(self.n_components, str) and n_rows < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} is more than n_samples={n_rows}; lower it."
            )

    # --- classes ---

    @available_if(has_classes)
    @by_rows
    def predict_proba(self, X: DataLike) -> Array:
        """Probability of every class.

        Log densities of high dimension are far too sure of themselves. What they say is therefore
        scaled by what they were worth on rows left out of the fit.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, N)
            Columns in the order of ``classes_``.
        """
        X = self._checked(X)
        return components.class_weights(self._fitted, X, self.n_jobs).T

    # --- what was learned ---

    def _attributes(self) -> Mapping[str, object]:
        return components.mixture_attributes(self._fitted)

    @property
    def _n_features_out(self) -> int:
        return sum(t.mean.shape[0] * t.mean.shape[2] for t in self._fitted.params)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: component0_factor0, ..., component0, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (n_features_out,)
        """
        check_is_fitted(self)
        return np.asarray(components.mixture_names_out(self._fitted), dtype=object)

    # --- rows ---

    @by_rows
    def transform(self, X: DataLike) -> Array:
        """Probability of every component, and position in it times that probability.

        A row's expectation is linear in these numbers (see `inverse_transform`).

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, M (q + 1)), q that of the component's class
            Columns named component0_factor0, ..., component0, ...
        """
        X = self._checked(X)
        codes = components.codes(self._fitted, X, self.n_jobs)
        return codes.astype(self._fitted.dtype, copy=False)

    @by_rows
    def responsibilities(self, X: DataLike) -> Array:
        """Probability of every component.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, M)
        """
        X = self._checked(X)
        return components.responsibilities(self._fitted, X, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Expected row of given codes.

        Parameters
        ----------
        X : array-like of shape (n, n_features_out)
            As `transform` gives.

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        code = self._check_transformed(X, "number")
        rows = components.expected_rows(self._fitted, code)
        return rows.astype(self._fitted.dtype, copy=False)

    def sample(
        self, n_samples: int = 1, *, classes: Classes | None = None, random_state: Seed = None
    ) -> tuple[Array, Array]:
        """Draw new rows.

        Parameters
        ----------
        n_samples : int, default=1
        classes : label or array-like of shape (n_samples,), optional
            Classes to draw from; drawn by their shares if not given.
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        components_or_classes : ndarray of shape (n_samples,)
            Numbers of the rows' components, or labels of their classes if there are classes.
        """
        rng = self._draw(n_samples, random_state)
        if classes is not None and not hasattr(self, "classes_"):
            raise ValueError("There are no classes to draw from; fit with labels.")
        shares = self._class_shares()
        if classes is None:
            chosen = rng.choice(len(shares), n_samples, p=shares)
        else:
            chosen = classes_of_rows(classes, self.classes_, n_samples)
        rows = np.empty((n_samples, self.n_features_in_), self._fitted.dtype)
        which = np.empty(n_samples, int)
        for c in range(len(shares)):
            own = np.flatnonzero(chosen == c)
            which[own] = components.draw_components(self._fitted, c, len(own), rng)
            rows[own], _ = components.draw_rows(self._fitted, c, which[own], rng)
        return rows, (self.classes_[chosen] if hasattr(self, "classes_") else which)

    # --- saving ---

    def __partwise_state__(self) -> dict[str, object]:
        teller = {"slope": self._fitted.slope, "offsets": self._fitted.offsets}
        return {**super().__partwise_state__(), "teller": teller}

    def __partwise_restore__(self, state: State) -> None:
        learned, teller = state["learned"], state["teller"]
        more = {
            "class_priors": learned.get("class_priors_"),
            "slope": teller["slope"],
            "offsets": teller["offsets"],
            "moves": learned["moves_"],
            "size_posterior": learned["n_components_posterior_"],
        }
        fitted = self._restored(state, more)
        self._adopt(fitted)


def _recorded(found: list[ClassFit], weight: float) -> FitRecord:
    """The record of the first class's last climb, with the bound of all classes."""
    turns = [one.space.model.counted_turns(one.params) for one in found]
    record = recorded(found[0].monitor, weight, shift=turns[0])
    reached = [one.monitor.trace[-1] - own for one, own in zip(found, turns, strict=True)]
    return replace(record, bound=sum(reached) / weight)


def _moves(found: list[ClassFit], names: Array | None) -> list[dict[str, object]]:
    """Every move that was tried, with its class if there are classes."""
    moves: list[dict[str, object]] = []
    for c, one in enumerate(found):
        which = {} if names is None else {"class": names.tolist()[c]}
        moves += [{**move._asdict(), **which} for move in one.search.moves]
    return moves


def _sizes(found: list[ClassFit], names: Array | None) -> Array:
    """Probability of every number of components that was looked at."""
    posteriors = [size_posterior(one.search.bounds) for one in found]
    longest = max(len(p) for p in posteriors)
    table = np.stack([np.pad(p, (0, longest - len(p))) for p in posteriors])
    return table[0] if names is None else table
