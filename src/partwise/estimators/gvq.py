"""Generative Vector Quantisation as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise._warnings import warn
from partwise.association import METHODS, MOST_NODES, Certificate, Exact, make_association, refusal
from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, RowBlock, RowSource, learn_columns
from partwise.engine.randomness import as_generator
from partwise.estimators._base import PartsEstimator
from partwise.estimators._rows import by_rows
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.restarts import Stage
from partwise.likelihoods import Bernoulli, Gaussian
from partwise.models import gvq
from partwise.models.gvq_binary import BinaryGVQ
from partwise.starts.ica import binary_start, feature_start

# Rows of a block. Searching takes far longer than adding up, and many blocks share it evenly.
BLOCK_ROWS = 1024

# Deviations of rows whose squares, in the user's units, are still ordinary numbers.
FARTHEST_UNIT = 1e150

# Steps after which features are shaken, ever less, where they do not begin as independent
# components, and the share of the error that the first of them adds. Without them features of
# several values end a few per cent above the error that they can reach.
SHAKEN_STEPS = 20
SHAKEN_SHARE = 0.5


class GVQ(PartsEstimator):
    """Generative Vector Quantisation: a row is an origin and those of a few features that are on.

    x = origin + sum of the features whose bit is 1 (+ error): n features make a codebook of 2^n
    rows, and a row's code says what it is made of. Codes are exact: each comes with a certificate
    that no other code is nearer to the row, or with a bound of how much nearer one could be.
    Missing entries (NaN) take part in nothing.

    Parameters
    ----------
    n_components : int, default=8
        Features of a set, the origin not counted. 0 makes a set its origin alone, and several such
        sets k-means.
    n_sets : int, default=1
        Sets of features, each with its own origin. A row takes the set that it is nearest with.
    n_values : int, default=2
        Values of a feature: on and off, or off and one of several vectors to add (the code space of
        `CVQ`).
    association : str, default="exact"
        How codes are found: "exact", or one of the paper's approximations "mean_field", "gibbs",
        "belief_propagation", "belief_revision" (where it does not converge, mean field),
        "directed_belief_propagation" and "directed_belief_revision" (at most 14 features).
        Features with more than two values take the first three.
    penalty : float, default=0.0
        Squared error, in the units of X, that a feature has to save to be on.
    binary : bool, default=False
        X holds 0 and 1, and so, nearly, do features and what they make (Eq. 10); exact only. With
        more than 16 features codes are found by coordinate descent, mostly without proof.
    beta : float, default=4.5
        Steepness of the squashing with ``binary``.
    max_nodes : int, default=100_000
        Codes, or beginnings of codes, that the exact search looks at for a row and set before it
        returns the best one found with a lower bound.
    n_init : int, default=1
        Number of starts; the least error is kept. They take turns: the first begins with
        independent components, the next with k-means of what is left after each feature.
    max_iter : int, default=100
        Most steps of a start.
    tol : float, default=1e-6
        A fit has converged when a step lowers the error by less than this share of the variance.
    max_time : float or None, default=None
        Seconds after which the best parameters so far are kept, with a warning.
    n_jobs : int or None, default=None
        Threads; None takes as many as BLAS would use.
    random_state : int, Generator, RandomState or None, default=None
    verbose : int, default=0
        Above 0 a progress bar is shown.
    warm_start : bool, default=False
        Begin with the features of the last fit, if they have the same shape.

    Attributes
    ----------
    features_ : ndarray of shape (n_sets, n_components, D)
        What each feature adds; with more than two values (n_sets, n_components, n_values - 1, D).
        With ``binary``, between 0 and 1 before their sum is squashed.
    origins_ : ndarray of shape (n_sets, D)
        What is always there.
    certificate_ : Certificate
        Of the training rows with weight: ``proven``, ``gap``, ``error``, ``lower_bound``.
    noise_variance_ : float
        Mean squared error of an entry.
    lower_bound_ : float
        Minus the squared error, with the penalty, a row.
    lower_bounds_ : ndarray of shape (n_iter + 1,)
        Its trace, which never falls with exact association.
    n_iter_ : int
        EM iterations in that trace. Callbacks hear those of every start, in order.
    converged_ : bool
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    References
    ----------
    M. Westerdijk, D. Barber and W. Wiegerinck, Deterministic Generative Models for Fast Feature
    Discovery, Data Mining and Knowledge Discovery 5, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import GVQ
    >>> rng = np.random.default_rng(0)
    >>> bits, features = rng.integers(2, size=(500, 6)), rng.normal(size=(6, 15))
    >>> X = bits @ features + 0.1 * rng.normal(size=(500, 15))
    >>> model = GVQ(n_components=6, random_state=0).fit(X)
    >>> model.encode(X).shape, bool(model.certify(X).proven.all())
    ((500, 6), True)
    >>> bool(np.abs(model.reconstruct(X) - bits @ features).max() < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "n_sets": [Interval(Integral, 1, None, closed="left")],
        "n_values": [Interval(Integral, 2, None, closed="left")],
        "association": [StrOptions(set(METHODS))],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "binary": ["boolean"],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "max_nodes": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
        "warm_start": ["boolean"],
    }

    _dense_since = "every feature adds to every entry"

    def __init__(
        self,
        n_components: int = 8,
        *,
        n_sets: int = 1,
        n_values: int = 2,
        association: str = "exact",
        penalty: float = 0.0,
        binary: bool = False,
        beta: float = 4.5,
        max_nodes: int = MOST_NODES,
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.n_components = n_components
        self.n_sets = n_sets
        self.n_values = n_values
        self.association = association
        self.penalty = penalty
        self.binary = binary
        self.beta = beta
        self.max_nodes = max_nodes
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
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> GVQ:
        """Learn features and origins.

        Parameters
        ----------
        X : array-like of shape (C, D)
            NaN is missing; 0, 1 or NaN with ``binary``.
        y : ignored
        sample_weight : array-like of shape (C,), optional
            A weight of 2 is the row given twice.
        checkpoint : path or Checkpoint, optional
            File that is written while the fit goes on and removed when it ends. After a crash the
            same call goes on from there and gives what it would have given.

        Returns
        -------
        self
        """
        self._check_form()
        X, weight, _ = self._check_fit_rows(X, sample_weight)
        if X.shape[0] < self.n_sets:
            raise ValueError(
                f"n_sets={self.n_sets} is more than n_samples={X.shape[0]}, the rows with weight; "
                "lower n_sets or give more rows."
            )
        before = self._kept_features()
        columns = self._learn_columns(X, weight)
        self._warn_of_holes(columns)
        log = FitLog(self, checkpoint, X, weight)
        rng = log.generator()
        seed = int(rng.integers(2**31))
        self._dtype, self._columns, self._seed = X.dtype, columns, seed
        model = self._core()
        source = BlockSource(X, columns, weight, max_rows=BLOCK_ROWS, n_powers=2)

        def begin(i: int, child: np.random.Generator) -> tuple[list[Stage], Any]:
            if before is not None:
                return [Stage(model)], model.start(*self._encoded(*before))
            independent = i % 2 == 0 and model.n_values == 2
            start = partial(self._start, source, child, independent)
            first = model.start(*log.once("start", child, start))
            return [Stage(model, self._stages(model, child, independent))], first

        n_init = 1 if before is not None else self.n_init
        _, theta, monitor = self._climb_best(source, begin, rng, X, n_init, log=log)
        self._keep(model, theta)
        self._warn_of_freedom(theta)
        self.lower_bounds_ = np.asarray(monitor.trace) * self._unit**2 / float(weight.sum())
        self.lower_bound_ = float(self.lower_bounds_[-1])
        self.n_iter_ = monitor.n_iter
        self.converged_ = monitor.converged
        found = self._codes(X)
        self._keep(model, theta._replace(taken=model.count(found, weight)))
        cells = max(float(columns[0].weight.sum()), np.finfo(float).tiny)
        cost = model.penalty * (found.values > 0).sum(axis=1)
        squares = float(weight @ np.maximum(found.error - cost, 0.0))
        self.noise_variance_ = squares * self._unit**2 / cells
        self.certificate_ = self._certify(X, found)
        self._describe()
        log.finish()
        return self

    def _check_form(self) -> None:
        """Refuse an association that cannot be asked for such codes, before any work."""
        n, J = int(self.n_components), int(self.n_values)
        if self.binary and J > 2:
            raise ValueError(
                f"binary=True takes features that are on or off, n_values=2, not n_values={J}."
            )
        able = [m for m in METHODS if refusal(make_association(m), n, J) is None]
        able = ["exact"] if self.binary else able
        if self.association in able:
            return
        why = refusal(make_association(self.association), n, J) or "binary=True"
        raise ValueError(
            f"association={self.association!r} does not support {why}; choose one of "
            f"{', '.join(able)}."
        )

    def _learn_columns(self, X: Any, weight: Array) -> tuple[ColumnGroup, ...]:
        """All columns in one unit, in which rows have a variance of 1: errors are Euclidean."""
        if self.binary:
            return learn_columns(X, "bernoulli", weight, False, None)
        (group,) = learn_columns(X, "gaussian", weight, False, None)
        deviation = np.where(group.varies, group.scale, 0.0)
        largest = deviation.max()
        unit = largest * np.linalg.norm(deviation / largest) if largest > 0 else 1.0
        if not 1.0 / FARTHEST_UNIT < unit < FARTHEST_UNIT:
            raise ValueError(
                f"The rows of X have a standard deviation of {unit:g}, whose square is beyond what "
                "numbers can hold; measure X in another unit."
            )
        return (replace(group, scale=np.full(len(deviation), unit)),)

    @property
    def _unit(self) -> float:
        """What a model unit is in the user's."""
        return float(self._columns[0].scale[0])

    def _start(self, source: BlockSource, rng: np.random.Generator, independent: bool) -> Any:
        M, K, J = int(self.n_sets), int(self.n_components), int(self.n_values)
        if self.binary:
            return binary_start(source, M, K, rng, independent=independent)
        return feature_start(source, M, K, J, rng, independent=independent)

    def _stages(
        self, model: gvq.GVQ, rng: np.random.Generator, independent: bool
    ) -> list[gvq.Shaken]:
        """Steps with ever less noise on the features."""
        if independent or self.binary or model.n_components == 0:
            return []
        shares = SHAKEN_SHARE * (1.0 - np.arange(SHAKEN_STEPS) / SHAKEN_STEPS)
        seeds = rng.integers(2**31, size=SHAKEN_STEPS)
        return [
            gvq.Shaken(model, float(share), int(seed))
            for share, seed in zip(shares, seeds, strict=True)
        ]

    def _kept_features(self) -> tuple[Array, Array] | None:
        """Features and origins of the last fit in the user's units, if they are to be used."""
        if not self.warm_start or not hasattr(self, "_theta"):
            return None
        shape = (self.n_sets, self.n_components * (self.n_values - 1))
        if self._theta.features.shape[:2] != shape or isinstance(self._model, BinaryGVQ) != bool(
            self.binary
        ):
            return None
        (group,) = self._columns
        return self._theta.features * group.scale, group.decode(self._theta.origins)

    def _encoded(self, features: Array, origins: Array) -> tuple[Array, Array]:
        """Features and origins in model units."""
        (group,) = self._columns
        if features.shape[2] != len(group.scale):
            raise ValueError(
                f"X has {len(group.scale)} columns and the features of the last fit "
                f"{features.shape[2]}; set warm_start=False."
            )
        return features / group.scale, (origins - group.shift) / group.scale

    def _core(self) -> gvq.GVQ:
        sizes = int(self.n_sets), int(self.n_components), int(self.n_values)
        penalty = float(self.penalty) / self._unit**2
        method = make_association(self.association, self._seed, int(self.max_nodes))
        if self.binary:
            return BinaryGVQ(*sizes, penalty, method, float(self.beta))
        return gvq.GVQ(*sizes, penalty, method)

    def _warn_of_freedom(self, theta: Any) -> None:
        if theta.idle > 0:
            warn(
                f"The codes of the rows leave {theta.idle} of {theta.taken.shape[1]} directions of "
                "features and origin undetermined; of the equally good answers the one of least "
                "norm is taken. Lower n_components or give more rows."
            )

    def _describe(self) -> None:
        """Set the learned attributes from the parameters, in the user's units."""
        (group,), theta, model = self._columns, self._theta, self._model
        if isinstance(model, BinaryGVQ):
            pairs = [model.squashed(theta, m) for m in range(model.n_sets)]
            features, origins = (np.stack(of) for of in zip(*pairs, strict=True))
        else:
            features, origins = theta.features * group.scale, group.decode(theta.origins)
        if model.n_values > 2:
            shape = (model.n_sets, model.n_components, model.n_values - 1, features.shape[2])
            features = features.reshape(shape)
        self.features_ = features.astype(self._dtype)
        self.origins_ = origins.astype(self._dtype)

    # --- names ---

    @property
    def _n_features_out(self) -> int:
        per_set = self._model.n_atoms + (self._model.n_sets > 1)
        return int(self._model.n_sets * per_set)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: feature0, feature1, ...

        With several values feature0_value1, ...; with several sets set0_feature0, ..., and
        set0_origin after the features of each set.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (n_columns,)
        """
        check_is_fitted(self)
        J, several = self._model.n_values, self._model.n_sets > 1
        names = [f"feature{k}" for k in range(self._model.n_components)]
        if J > 2:
            names = [f"{name}_value{v}" for name in names for v in range(1, J)]
        if several:
            names = [f"set{m}_{n}" for m in range(self._model.n_sets) for n in [*names, "origin"]]
        return np.asarray(names, dtype=object)

    # --- codes ---

    def _check_rows(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Any:
        X = super()._check_rows(X, reset=reset)
        if self.binary and not isinstance(
            X, RowSource
        ):  # which are checked as their columns are learned
            odd = X[~(np.isnan(X) | (X == 0) | (X == 1))]
            if odd.size:
                raise ValueError(
                    f"X has the value {odd[0]:g}, but binary=True needs 0, 1 or NaN; binarise the "
                    "data or set binary=False."
                )
        return X

    def _source(self, X: Any, max_rows: int | None = None) -> BlockSource:
        rows = BLOCK_ROWS if max_rows is None else max_rows
        weight = np.ones(X.shape[0])
        return BlockSource(X, self._columns, weight, keep=False, max_rows=rows, n_powers=2)

    def _codes(self, X: Any, model: Any = None) -> gvq.RowCodes:
        """Codes of checked rows."""
        model = self._model if model is None else model

        def on_block(block: RowBlock, _: int) -> gvq.RowCodes:
            return model.codes(self._prepared, block)

        fields = zip(*self._map_rows(X, on_block), strict=True)
        return gvq.RowCodes(*(np.concatenate(field) for field in fields))

    @by_rows
    def encode(self, X: Any) -> Array:
        """Code of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, n_components), int
            Value of each feature, 0 for off. With several sets a column more, the first: the set.
        """
        check_is_fitted(self)
        found = self._codes(self._check_rows(X, reset=False))
        if self._model.n_sets == 1:
            return found.values
        return np.column_stack([found.sets, found.values])

    def decode(self, S: Any) -> Array:
        """Rows that codes stand for.

        Parameters
        ----------
        S : array-like of shape (n, n_components)
            As `encode` gives them.

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        return self._decode(self._check_codes(S))

    def _decode(self, found: gvq.RowCodes) -> Array:
        rows = self._model.decode(self._theta, found)
        return self._columns[0].decode(rows).astype(self._dtype, copy=False)

    def _check_codes(self, S: Any) -> gvq.RowCodes:
        S, model = np.asarray(S), self._model
        several = model.n_sets > 1
        width = model.n_components + several
        if S.ndim != 2 or S.shape[1] != width or S.dtype.kind not in "biuf":
            raise ValueError(
                f"S has shape {S.shape} and type {S.dtype}, but decode needs numbers (n, {width}), "
                "as encode gives."
            )
        limits = [model.n_sets] * several + [model.n_values] * model.n_components
        if np.any(np.rint(S) != S) or np.any(S < 0) or np.any(np.array(limits) <= S):
            raise ValueError(
                f"S must hold whole numbers from 0 and below {model.n_values} (a set in the first "
                f"column: below {model.n_sets})."
                if several
                else f"S must hold whole numbers from 0 and below {model.n_values}."
            )
        S = S.astype(np.int64)
        sets = S[:, 0] if several else np.zeros(len(S), np.int64)
        nothing = np.zeros(len(S))
        return gvq.RowCodes(sets, S[:, several:], nothing, nothing, nothing > 0)

    @by_rows
    def certify(self, X: Any) -> Certificate:
        """How good the code of each row is: proven the best, or how far from it at most.

        With an approximate association its codes are held against the exact search.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        certificate : Certificate
            Fields ``proven``, ``gap``, ``error`` and ``lower_bound``, each of shape (n,); errors
            are squared and with the penalty, in the units of X. Proofs hold up to rounding.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        return self._certify(X, self._codes(X))

    def _certify(self, X: Any, found: gvq.RowCodes) -> Certificate:
        """The certificate of codes of checked rows."""
        error, lower, proven = found.error, found.lower, found.proven
        if self.association != "exact":
            exact = replace(self._model, association=Exact(int(self.max_nodes)))
            best = self._codes(X, exact)
            lower = np.minimum(best.lower, error)
            # Codes may differ and be equally good, up to rounding.
            proven = best.proven & (error - best.error <= 1e-9 * (1.0 + best.error))
            lower = np.where(proven, error, lower)
        squared = self._unit**2
        return Certificate(proven, (error - lower) * squared, error * squared, lower * squared)

    @by_rows
    def transform(self, X: Any) -> Array:
        """Codes as numbers: 1 where a feature is on.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        codes : ndarray of shape (n, n_columns)
            A column for every feature, or for every value but the first; with several sets for
            those of every set, followed by one for its origin.
        """
        check_is_fitted(self)
        return self._transform(self._check_rows(X, reset=False))

    def _transform(self, X: Any) -> Array:
        found = self._codes(X)
        S = self._model.design(found.values).T
        if self._model.n_sets == 1:
            return S[:, :-1].astype(self._dtype)
        taken = found.sets[:, None] == np.arange(self._model.n_sets)
        return (taken[:, :, None] * S[:, None, :]).reshape(len(S), -1).astype(self._dtype)

    def inverse_transform(self, X: Any) -> Array:
        """Rows that codes stand for, also where they lie between 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            As `transform` gives them.

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        S, model = self._check_transformed(X, "number"), self._model
        if model.n_sets == 1:
            S = np.column_stack([S, np.ones(len(S))])
        S = S.reshape(len(S), model.n_sets, model.n_atoms + 1)
        rows = self._columns[0].decode(model.mix(self._theta, S))
        return rows.astype(self._dtype, copy=False)

    # --- rows ---

    def _reconstruct(self, X: Any) -> Array:
        return self._decode(self._codes(X))

    def _impute(self, X: Any) -> Array:
        rows = self._reconstruct(X)
        return np.rint(rows) if self.binary else rows

    def _absent_zero(self) -> bool:
        return False

    @by_rows
    def score_samples(self, X: Any) -> Array:
        """Minus the squared error of each row, over its observed entries, without penalty.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        score : ndarray of shape (n,)
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        with np.errstate(over="ignore"):  # of numbers whose squares are beyond all
            return -np.nansum((X - self._reconstruct(X)).astype(float) ** 2, axis=1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the mean squared error of the rows.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : ignored
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        score : float
        """
        return super().score(X, y, sample_weight)

    def explain(self, x: Any) -> dict[str, Any]:
        """What one row is made of.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values

        Returns
        -------
        explanation : dict
            ``set``; ``features``, those that are on with their value and how much the squared error
            would rise without them, those that matter most first; ``error``; ``gap``, at most how
            far the error is above the least possible.
        """
        row = self._one_row(x)
        found = self._codes(row)
        certificate = self._certify(row, found)
        on = np.flatnonzero(found.values[0])
        without = np.repeat(found.values, len(on), axis=0)
        without[np.arange(len(on)), on] = 0
        fields = [np.repeat(field, len(on), axis=0) for field in found]
        rows = self._decode(gvq.RowCodes(*fields)._replace(values=without))
        with np.errstate(over="ignore", invalid="ignore"):
            now = np.nansum((row - self._decode(found)) ** 2)
            saved = np.nansum((row - rows) ** 2, axis=1) - now
        return {
            "set": int(found.sets[0]),
            "features": [
                {
                    "feature": int(on[i]),
                    "value": int(found.values[0, on[i]]),
                    "saves": float(saved[i]),
                }
                for i in np.argsort(-saved, kind="stable")
            ],
            "error": float(certificate.error[0]),
            "gap": float(certificate.gap[0]),
        }

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[Array, Array]:
        """Draw new rows: sets and features as often as in the training rows, and noise.

        Features are drawn independently of each other.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None, default=None
            The estimator's own if None.

        Returns
        -------
        rows : ndarray of shape (n_samples, D)
        codes : ndarray of shape (n_samples, n_components)
            As `encode` gives them.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        model, taken = self._model, self._theta.taken
        sets = rng.choice(model.n_sets, n_samples, p=taken[:, -1] / taken[:, -1].sum())
        share = taken[:, :-1] / np.maximum(taken[:, -1:], np.finfo(float).tiny)
        above = share.reshape(model.n_sets, model.n_components, model.n_values - 1)
        above = np.cumsum(above[:, :, ::-1], axis=2)[sets]  # (n, K, J - 1): this value or higher
        values = (rng.random((n_samples, model.n_components, 1)) < above).sum(axis=2)
        codes = np.column_stack([sets, values]) if model.n_sets > 1 else values
        rows = self.decode(codes).astype(float)
        if self.binary:
            rows = (rng.random(rows.shape) < rows).astype(float)
        else:
            rows += np.sqrt(self.noise_variance_) * rng.normal(size=rows.shape)
        return rows.astype(self._dtype), codes

    # --- saving, and what scikit-learn asks ---

    def _state(self) -> dict[str, Any]:
        return {
            "theta": self._theta._asdict(),
            "columns": self._columns[0].fields(),
            "dtype": np.dtype(self._dtype).name,
            "seed": self._seed,
            "certificate": self.certificate_._asdict(),
            "learned": self._learned("noise_variance_"),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        likelihood = Bernoulli() if self.binary else Gaussian()
        self._columns = (ColumnGroup(likelihood=likelihood, **state["columns"]),)
        self._dtype, self._seed = np.dtype(state["dtype"]), int(state["seed"])
        kept = dict(state["theta"])
        kept.pop("thorough", None)  # of files before the first release
        self._keep(self._core(), gvq.GVQParams(**kept))
        self.certificate_ = Certificate(**state["certificate"])
        # Files of before the first release have the variance by another name.
        for name, value in state["learned"].items():
            setattr(self, "noise_variance_" if name == "noise_" else name, value)
        self._describe()
