"""Mixtures of Bayesian PCA as a scikit-learn estimator."""

from __future__ import annotations

import time
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import special
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, RowSource
from partwise.engine import Monitor, climb
from partwise.engine.randomness import as_generator
from partwise.estimators._base import has_classes
from partwise.estimators._bayesian_pca_base import (
    MOST_BEGUN,
    SHARED,
    SIZE,
    Analysers,
    Space,
    begin,
    effective_dimension,
    in_units,
)
from partwise.estimators._class_calibration import LeftOut
from partwise.estimators._rows import by_rows
from partwise.fitting.component_search import Search, giving_up, size_posterior
from partwise.fitting.labels import classes_of_rows, read_labels
from partwise.fitting.restarts import Stage
from partwise.models.bayesian_pca import BayesianPCAParams
from partwise.models.mcfa import column_totals
from partwise.runners import runner_of
from partwise.starts.principal import (
    encoded_rows,
    grouped_rows,
    kinds_of_rows,
    likely_dimension,
    plain_columns,
    principal_groups,
    subspace_cost,
)
from partwise.starts.rows import some_rows

# Noise of less than this share of the strongest direction's variance is taken for noise.
MOST_NOISE = 0.1

# While moves are looked for, a climb ends at this many times the tolerance of the last one.
LOOSE = 300.0

# Most components that are looked for, and rows that each should have at least.
MOST_COMPONENTS = 100
ROWS_A_COMPONENT = 4


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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        prior: Any = "conjugate",
        max_iter: int = 100,
        tol: float = 1e-4,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
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
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianPCAMixture:
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
        X, weight, kept, q, group = self._read(X, sample_weight)
        names, labels = read_labels(y, None, len(kept))
        labels = np.zeros(len(weight), int) if labels is None or names is None else labels[kept]
        whole = X, weight, labels
        rng, deadline = as_generator(self.random_state), self._deadline()
        if isinstance(X, RowSource):
            some = some_rows(weight, max(MOST_BEGUN // X.shape[1], 1), rng)
            X, weight, labels = X[some], weight[some], labels[some]
        parts = [np.flatnonzero(labels == c) for c in range(1 if names is None else len(names))]
        self._check_parts(parts, names)
        self._columns = (group,)
        self.__dict__.pop("classes_", None)  # of a fit before
        self.__dict__.pop("class_priors_", None)
        if names is not None:
            counts = np.bincount(whole[2][whole[2] >= 0], whole[1][whole[2] >= 0], len(names))
            self.classes_, self.class_priors_ = names, counts / counts.sum()
        left_out = LeftOut(self._source, X, weight, parts, self._class_shares())
        left_out.cut(rng.spawn(1)[0])

        def fit_all(noise: float | None) -> list[Any]:
            return [
                self._fit_rows(X[rows], weight[rows], group, noise, rng, deadline) for rows in parts
            ]

        learned = left_out.fold is None or self.prior is None
        found = fit_all(None) if learned else left_out.choose_noise(fit_all, deadline)
        if X.shape[0] < len(whole[1]):  # what some rows told goes on with all
            found = [self._go_on(*whole, c, one, rng, deadline) for c, one in enumerate(found)]
        fits = [(space, theta) for space, theta, *_ in found]
        self.moves_, posteriors = [], []
        for c, (_, _, _, search) in enumerate(found):
            which = {} if names is None else {"class": names.tolist()[c]}
            self.moves_ += [{**move._asdict(), **which} for move in search.moves]
            posteriors.append(size_posterior(search.bounds))
        total = float(whole[1].sum())
        at, theta, monitor, _ = found[0]
        self._tell_fit(at.model, theta, monitor, total)
        reached = [one.trace[-1] - at.model.counted_turns(theta) for at, theta, one, _ in found]
        self.lower_bound_ = sum(reached) / total
        longest = max(len(p) for p in posteriors)
        table = np.stack([np.pad(p, (0, longest - len(p))) for p in posteriors])
        self.n_components_posterior_ = table[0] if names is None else table
        self._model = fits[0][0].model
        self._theta = tuple(space.told(theta) for space, theta in fits)
        self.n_directions_ = q
        self._calibration = self._calibrate(fits, X, parts, rng.spawn(1)[0])
        _, slope, offsets = left_out.tell(fits)
        self._teller: dict[str, Any] = {"slope": slope, "offsets": offsets}
        self._describe()
        return self

    def _go_on(
        self, X: RowSource, weight: Array, labels: Array, c: int,
        found: tuple[Space, BayesianPCAParams, Monitor, Search], rng: np.random.Generator,
        deadline: float,
    ) -> tuple[Space, BayesianPCAParams, Monitor, Search]:  # fmt: skip
        """A class's mixture, learned from some of its rows, climbed on with all of them."""
        own = labels == c
        source = BlockSource(X.some(own), self._columns, weight[own], n_powers=2)
        begun = found[0].model
        core = self._core(source, begun.directions or 1)
        at = Space(replace(core, holds=begun.holds), source, forgets=False)
        start = found[0].told(found[1])
        _, theta, monitor = self._climb_best(
            source, lambda *_: ([Stage(at.model)], start), rng, X, 1, deadline
        )
        return at, theta, monitor, found[3]

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

    def _fit_rows(
        self, X: Array, weight: Array, group: ColumnGroup, noise: float | None,
        rng: np.random.Generator, deadline: float,
    ) -> tuple[Space, BayesianPCAParams, Monitor, Search]:  # fmt: skip
        """A mixture of some rows, with a given noise or one that is learned."""
        source = BlockSource(X, (group,), weight, n_powers=2)
        kinds = kinds_of_rows(X)
        q = self._most_directions(X, kinds)
        whole = Space(self._core(source, q, noise), source)
        with runner_of(self.n_jobs, source) as runner:

            def settle(
                at: Space, theta: BayesianPCAParams, aim: float = -np.inf
            ) -> tuple[BayesianPCAParams, float]:
                monitor = Monitor(
                    self.max_iter, LOOSE * self.tol, float(weight.sum()), deadline,
                    on_step=giving_up(aim, at.model.leaps),
                )  # fmt: skip
                theta = climb(at.model, theta, at.source, runner, monitor)
                return theta, monitor.trace[-1]

            def start(at: Space, M: int) -> BayesianPCAParams:
                Z = encoded_rows(at.source)
                holed = np.where(np.isnan(X), np.nan, Z) if at.frame is None else Z
                shares = np.ones((1, len(Z)))
                if M > 1:
                    shares = grouped_rows(holed, weight, M, kinds, rng)
                widest = min(q, Z.shape[1] if len(shares) == 1 else Z.shape[1] - 1)
                if at.frame is None and at.model.prior.relevance:
                    widest = likely_dimension(Z, weight, widest)
                return begin(at.model, at.source, Z, weight, shares, max(widest, 1), rng, noise)

            at, alone = whole, None
            if self.prior is not None and self.n_components != 1 and not np.isnan(X).any():
                at, alone = self._choose_frame(whole, q, start, settle, rng)
            search = Search(
                at.model, at.source, lambda M: start(at, M) if M > 1 or alone is None else alone,
                lambda theta, aim: settle(at, theta, aim),
                lambda: time.monotonic() > deadline,
                max(min(int(weight.sum()) // ROWS_A_COMPONENT, MOST_COMPONENTS), 1),
            )  # fmt: skip
            if self.n_components == "auto":
                theta = search.run()
            else:
                theta, bound = settle(at, start(at, int(self.n_components)))
                search.bounds[len(theta.counts)] = bound
        _, theta, monitor = self._climb_best(
            at.source, lambda *_: ([Stage(at.model)], theta), rng, X, 1, deadline
        )
        return at, theta, monitor, search

    def _choose_frame(
        self, whole: Space, q: int, start: Any, settle: Any, rng: np.random.Generator
    ) -> tuple[Space, BayesianPCAParams]:
        """The subspace that components lie in, and one component: outside there is noise alone.

        One analyser of all rows says which directions there are. Its bound, less what the choice
        of the subspace costs, says whether to keep all that were not switched off, or those that
        count. With the former, one component is the analyser of all columns told otherwise: that
        is no rival, and taken only if nothing was switched off, or if what looks like noise is
        large: rows on a sphere, too, have equal variance in all directions.
        """
        source = whole.source
        theta, _ = settle(whole, start(whole, 1))
        left = theta.alpha.shape[1]
        known = (theta.mean[:, :, :-1] ** 2).sum(axis=(0, 1))
        strongest = known.max() + 1.0 / theta.precision
        if left == q or 1.0 / theta.precision > MOST_NOISE * strongest:
            return whole, theta
        best, bound = (whole, theta), -np.inf
        Z, weight, D = encoded_rows(source), source.weight, source.X.shape[1]
        rows = float(weight.sum())
        alone = np.ones((1, len(Z)))
        _, (centre,), (values,), (vectors,) = principal_groups(Z, weight, alone, left, rng)
        away = Z - centre
        for n in sorted({effective_dimension(theta), left}):
            directions = vectors[:, :n]
            inside = away @ directions
            columns = (plain_columns(source.columns[0], n),)
            inner = BlockSource(inside, columns, weight, n_powers=2)
            squares = max(float(weight @ (away**2).sum(axis=1)) - rows * values[:n].sum(), 0.0)
            outside = (rows * (D - n), squares)
            # Densities are of the user's units, here as elsewhere.
            units = rows * float(source.columns[0].log_scale.sum())
            totals = column_totals(inner)
            place = subspace_cost(values[:n], D, rows, 1.0 / theta.precision)
            place += (D - n) * whole.model.prior.cost_of_mean(rows * theta.precision)
            model = replace(
                whole.model, totals=totals, outside=outside,
                units=units + place,
                leaps=self._may_leap(totals, weight),
            )  # fmt: skip
            at = Space(model, inner, (centre, directions))
            one, reached = settle(at, start(at, 1), bound)
            if reached > bound:
                best, bound = (at, one), reached
        return best

    # --- classes ---

    @available_if(has_classes)
    @by_rows
    def predict_proba(self, X: Any) -> Array:
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
        check_is_fitted(self)
        return self._class_weights(self._check_rows(X, reset=False)).T

    def _class_weights(self, X: Any) -> Array:
        if len(self._theta) == 1:
            return np.ones((1, X.shape[0]))
        density = self._component_densities(X)
        joint = self._teller["slope"] * density + np.log(self.class_priors_)[:, None]
        return special.softmax(joint + self._teller["offsets"][:, None], axis=0)

    def _class_shares(self) -> Array:
        return self.class_priors_ if hasattr(self, "classes_") else np.ones(1)

    # --- what was learned ---

    def _describe(self) -> None:
        """Set the learned attributes from the parameters, in the user's units."""
        (group,), thetas = self._columns, self._theta
        unit = float(group.scale[0])
        q = max(theta.alpha.shape[1] for theta in thetas)
        sizes = [len(theta.counts) for theta in thetas]
        self.n_components_ = sum(sizes)

        def padded(values: Array, fill: float = 0.0) -> Array:
            widths = [(0, 0)] * (values.ndim - 1) + [(0, q - values.shape[-1])]
            return np.pad(values, widths, constant_values=fill)

        W = np.concatenate([padded(theta.mean[:, :, :-1]) for theta in thetas])
        self.components_ = (np.swapaxes(W, 1, 2) * unit).astype(self._dtype)
        means = np.concatenate([theta.mean[:, :, -1] for theta in thetas])
        self.means_ = group.decode(means).astype(self._dtype)
        shares = zip(self._class_shares(), thetas, strict=True)
        weights = [share * self._model.shares.mean(theta.counts) for share, theta in shares]
        self.weights_ = np.concatenate(weights).astype(self._dtype)
        told = [in_units(theta, unit) for theta in thetas]
        noise = np.array([variance for variance, _ in told])
        alpha = np.stack([padded(relevances, np.inf) for _, relevances in told])
        alpha = alpha.astype(self._dtype)
        dimension = np.array([effective_dimension(theta) for theta in thetas])
        self.__dict__.pop("component_classes_", None)  # of a fit before
        by_class = hasattr(self, "classes_")
        if by_class:
            self.component_classes_ = np.repeat(self.classes_, sizes)
        self.noise_variance_ = noise if by_class else float(noise[0])
        self.relevances_ = alpha if by_class else alpha[0]
        self.effective_dimension_ = dimension if by_class else int(dimension[0])

    @property
    def _n_features_out(self) -> int:
        return sum(theta.mean.shape[0] * theta.mean.shape[2] for theta in self._theta)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: component0_factor0, ..., component0, ...

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (n_features_out,)
        """
        check_is_fitted(self)
        names, m = [], 0
        for theta in self._theta:
            for _ in theta.counts:
                names += [f"component{m}_factor{i}" for i in range(theta.alpha.shape[1])]
                names.append(f"component{m}")
                m += 1
        return np.asarray(names, dtype=object)

    # --- rows ---

    @by_rows
    def transform(self, X: Any) -> Array:
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
        check_is_fitted(self)
        codes = self._codes(self._check_rows(X, reset=False))
        return codes.astype(self._dtype, copy=False)

    @by_rows
    def responsibilities(self, X: Any) -> Array:
        """Probability of every component.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, M)
        """
        check_is_fitted(self)
        ends = np.cumsum([t.mean.shape[2] for t in self._theta for _ in t.counts]) - 1
        return np.asarray(self._codes(self._check_rows(X, reset=False))[:, ends])

    def inverse_transform(self, X: Any) -> Array:
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
        rows = self._check_transformed(X, "number") @ self._loadings()
        return self._columns[0].decode(rows).astype(self._dtype, copy=False)

    def sample(
        self, n_samples: int = 1, *, classes: Any = None, random_state: Any = None
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
        rows = np.empty((n_samples, self.n_features_in_), self._dtype)
        components = np.empty(n_samples, int)
        for c, theta in enumerate(self._theta):
            own = np.flatnonzero(chosen == c)
            share = self._model.shares.mean(theta.counts)
            components[own] = rng.choice(len(share), len(own), p=share)
            x = rng.standard_normal((len(own), theta.alpha.shape[1]))
            rows[own] = self._rows_of(theta, components[own], x, rng)
        return rows, (self.classes_[chosen] if hasattr(self, "classes_") else components)

    # --- saving ---

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "teller": self._teller}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._teller = state["teller"]
