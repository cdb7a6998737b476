"""What Bayesian PCA and its mixtures share: rows in and out, and what a fit needs besides moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions
from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, RowBlock, learn_columns
from partwise.engine import Monitor
from partwise.engine.randomness import as_generator
from partwise.estimators._base import PartsEstimator
from partwise.likelihoods import Dirichlet, Gaussian, mixtures
from partwise.models import calibration
from partwise.models.bayesian_pca import (
    BayesianPCA,
    BayesianPCAParams,
    Broad,
    Flat,
    Found,
    pieces,
    total,
)
from partwise.models.calibration import Calibration
from partwise.models.mcfa import column_totals
from partwise.models.scatter_updates import Principal, Scatter
from partwise.sampling.importance import RowLikelihood
from partwise.starts.principal import isotropic, kinds_of_rows, principal_groups, principal_start

# Shape and rate of the Gammas and precision of the means, as in the paper.
STRENGTH = 1e-3

# Dirichlet count of every component: all shares are equally likely.
SHARES = 1.0

# A direction counts if its loadings carry this share of the largest's.
DIRECTION_SHARE = 0.01

# Rows are left out in so many parts to see how well new ones are told, and so many steps without
# them make the parameters forget them. With more cells than this, there is little to forget.
FOLDS = 5
FORGETTING_STEPS = 2
MOST_CELLS = 4_000_000

# Components of less probability are not told of when a row is explained.
LEAST_PROBABLE = 0.01

# Cells that are enough to calibrate intervals.
ENOUGH_CELLS = 16_000

# Cells of the rows whose principal directions are the beginning.
MOST_BEGUN = 20_000_000

# Most columns whose scatter matrices are worked with: beyond, sweeps over the rows are cheaper.
WIDEST_LEAP = 400

SIZE = [Interval(Integral, 1, None, closed="left"), None]

SHARED: dict[str, list[Any]] = {
    "prior": [StrOptions({"conjugate"}), Interval(Real, 0, None, closed="neither"), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose"],
}


class Space(NamedTuple):
    """Rows to fit a mixture to, perhaps in a frame: a centre (D,) and directions (D, D').

    Where rows are so many that one matters little (not ``forgets``), none is ever forgotten.
    """

    model: BayesianPCA
    source: BlockSource
    frame: tuple[Array, Array] | None = None
    forgets: bool = True

    def told(self, theta: BayesianPCAParams) -> BayesianPCAParams:
        """Parameters in terms of the columns."""
        if self.frame is None:
            return theta
        centre, directions = self.frame
        theta = theta.of_columns(directions)
        theta.mean[:, :, -1] += centre
        return theta

    def without(self, theta: BayesianPCAParams, rows: Array) -> BayesianPCAParams:
        """Parameters in terms of the columns that have forgotten some of the rows."""
        rest = np.setdiff1d(np.arange(self.source.X.shape[0]), rows)
        if len(rest) and self.forgets and self.source.X.size <= MOST_CELLS:
            some = self.source.of_rows(rest)
            n, squares = self.model.outside
            share = some.weight.sum() / self.source.weight.sum()
            outside = (n * share, squares * share)
            model = replace(self.model, totals=column_totals(some), outside=outside)
            for _ in range(FORGETTING_STEPS):
                theta = model.maximise(theta, total(model, theta, some))
        return self.told(theta)


def begin(
    model: BayesianPCA, source: BlockSource, Z: Array, weight: Array, shares: Array, q: int,
    rng: np.random.Generator, noise: float | None = None,
) -> BayesianPCAParams:  # fmt: skip
    """First parameters, from principal directions of groups of rows (M, n), noise given or not.

    ``Z`` are rows of the source, or some of them that stand for all by their ``weight``.
    """
    if isinstance(model.prior, Broad) and is_complete(model.totals, weight):
        tau = None if noise is None else model.noise_of(noise)
        if model.leaps:
            rows = Scatter.of(Z.T, shares * weight).principal(q)
        else:
            rows = Principal(*principal_groups(Z, weight, shares, q, rng))
        return model.leap(rows, tau)[0]
    mean, left = principal_start(Z, weight, shares, q, rng)
    theta = model.start(mean, left if noise is None else noise, shares @ weight)
    if noise is not None:
        theta = model.with_noise(theta, noise)
    return model.maximise(theta, total(model, theta, source))


def is_complete(totals: Array, weight: Array) -> bool:
    """Whether every column is observed in rows of all this weight."""
    return bool(totals[0].min() >= weight.sum() * (1.0 - 1e-9))


def effective_dimension(theta: BayesianPCAParams) -> int:
    """Directions whose E|w|^2, over all components, is above 1 % of the largest."""
    squares = theta.squares.sum(axis=0)
    return int(np.sum(squares > DIRECTION_SHARE * squares.max(initial=0.0)))


def in_units(theta: BayesianPCAParams, unit: float) -> tuple[float, Array]:
    """Variance of the noise and relevances (q,) in the user's units.

    Squares of units beyond 1e154 or below 1e-154 are infinite or zero.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        square = np.square(unit)
        return float(square / theta.precision), theta.alpha[0] / theta.alpha[1] / square


class Analysers(PartsEstimator):
    """Base of Bayesian PCA and its mixtures.

    ``_theta`` has one mixture for each class, or one in all; ``_model`` what they share.
    """

    _theta: tuple[BayesianPCAParams, ...]
    _size_name: ClassVar[str]  # argument that limits the number of directions

    # --- input ---

    _dense_since = "every direction adds to every entry"

    def _check_size(self, X: Array) -> int:
        """Largest number of directions."""
        n_rows, n_columns = X.shape
        if n_rows < 2:
            raise ValueError(f"n_samples={n_rows}: {type(self).__name__} needs at least 2 rows.")
        if n_columns < 2:
            raise ValueError(
                f"n_features={n_columns}: {type(self).__name__} needs at least 2 columns, since a "
                "direction is one of fewer dimensions than there are columns."
            )
        asked = getattr(self, self._size_name)
        if asked is not None and asked >= n_columns:
            raise ValueError(
                f"{self._size_name}={asked} must be at most {n_columns - 1}, one less "
                "than the number of columns."
            )
        return self._most_directions(X)

    def _most_directions(self, X: Array, kinds: tuple[Array, Array] | None = None) -> int:
        """As many as asked for, but fewer than columns, and than rows that differ."""
        asked = getattr(self, self._size_name)
        most = X.shape[1] - 1 if asked is None else int(asked)
        first, _ = kinds_of_rows(X) if kinds is None else kinds
        return max(min(most, len(first) - 1), 1)

    def _read(self, X: Any, sample_weight: Any) -> tuple[Any, Array, Array, int, ColumnGroup]:
        """Checked rows, their weights, which they are, most directions, and the columns."""
        X, weight, kept = self._check_fit_rows(X, sample_weight)
        q = self._check_size(X)
        columns = learn_columns(X, "gaussian", weight, False, None)
        if not columns[0].weight.any():
            raise ValueError("X has no observed entry: all are NaN; give rows with some values.")
        self._warn_of_holes(columns)
        self._dtype = X.dtype
        return X, weight, kept, q, isotropic(columns[0])

    def _prior(self) -> Broad | Flat:
        if self.prior is None:
            return Flat()
        strength = STRENGTH if isinstance(self.prior, str) else float(self.prior)
        return Broad(strength, bool(getattr(self, "relevance", True)))

    def _core(self, source: BlockSource, q: int, noise: float | None = None) -> BayesianPCA:
        shares = Dirichlet(0.0 if self.prior is None else SHARES)
        holds = frozenset[str]() if noise is None else frozenset(["noise"])
        totals = column_totals(source)
        return BayesianPCA(
            self._prior(), shares, totals, holds=holds, directions=q,
            leaps=self._may_leap(totals, source.weight),
        )  # fmt: skip

    def _may_leap(self, totals: Array, weight: Array) -> bool:
        """Whether scatter matrices will do, given the columns' totals and the rows' weights."""
        few = totals.shape[1] <= min(WIDEST_LEAP, len(weight))
        return few and self.prior is not None and is_complete(totals, weight)

    def _absent_zero(self) -> bool:
        return False

    def _tell_fit(
        self, model: BayesianPCA, theta: BayesianPCAParams, monitor: Monitor, weight: float
    ) -> None:
        """Set what is told of a climb; its last bound is that of one turn of directions."""
        self.lower_bounds_ = (np.asarray(monitor.trace) - model.counted_turns(theta)) / weight
        self.lower_bound_ = float(self.lower_bounds_[-1])
        self.n_iter_, self.converged_ = monitor.n_iter, monitor.converged

    # --- what was learned ---

    def _calibrate(
        self, fits: list[tuple[Space, BayesianPCAParams]], X: Any, parts: list[Array], rng: Any
    ) -> Calibration:
        """How often entries lie below what the model says, where it has not seen their rows."""
        D = X.shape[1]
        pit, enough = [], ENOUGH_CELLS / len(fits)
        for (space, fitted), rows in zip(fits, parts, strict=True):
            fold = rng.permutation(len(rows)) % min(FOLDS, len(rows))
            n_cells = 0.0
            for f in range(fold.max() + 1):
                theta = space.without(fitted, np.flatnonzero(fold == f))
                some = np.flatnonzero(fold == f)[: int(np.ceil(enough / D))]
                for block in self._source(X[rows[some]]).blocks():
                    for _, view in pieces(theta, block):
                        shown = slice(None) if view.shown is None else view.shown > 0
                        below = space.model.below(theta, view)[shown].ravel()
                        pit.append(below)
                        n_cells += len(below)
                if n_cells >= enough:
                    break
        u = np.concatenate(pit)
        return calibration.learn(u, np.zeros(len(u), int), np.ones(len(u)), 1)

    def _found(
        self, X: Any, function: Callable[[BayesianPCAParams, Any, Found], Any]
    ) -> list[list[Any]]:
        """``function(theta, view, posterior)`` of checked rows, a list for every mixture."""

        def on_block(block: RowBlock, _: int) -> list[list[Any]]:
            return [
                [function(theta, view, self._model.infer(theta, view))
                 for _, view in pieces(theta, block)]
                for theta in self._theta
            ]  # fmt: skip

        found = self._map_rows(X, on_block)
        return [[one for block in found for one in block[c]] for c in range(len(self._theta))]

    def _class_weights(self, X: Any) -> Array:
        """Probability of every class of checked rows, (N, n)."""
        return np.ones((1, X.shape[0]))

    def _codes(self, X: Any) -> Array:
        """r (x, 1) of every component of every class, (n, sum of p)."""

        def code(theta: BayesianPCAParams, view: Any, found: Found) -> Array:
            rows = [
                np.vstack([m, np.ones_like(m[:1])]) * r
                for m, r in zip(found.m, found.r, strict=True)
            ]
            return np.concatenate(rows)

        found = self._found(X, code)
        weights = self._class_weights(X)
        pieces_of = [np.concatenate(c, axis=1) * w for c, w in zip(found, weights, strict=True)]
        return np.concatenate(pieces_of).T

    def _loadings(self) -> Array:
        """What `_codes` are multiplied with, (sum of p, D)."""
        return np.concatenate([np.swapaxes(theta.mean, 1, 2).reshape(-1, theta.mean.shape[1])
                               for theta in self._theta])  # fmt: skip

    def _reconstruct(self, X: Any) -> Array:
        return self._columns[0].decode(self._codes(X) @ self._loadings())

    def _impute(self, X: Any) -> Array:
        return self._reconstruct(X)

    def _interval(self, X: Any, tail: float) -> tuple[Array, Array]:
        asked = [calibration.correct(self._calibration, p)[0] for p in (tail, 1.0 - tail)]
        weights = self._class_weights(X)
        found = self._found(
            X, lambda theta, view, found: (found.r, *self._model.entries(theta, view, found))
        )
        # A row's components, of all classes, are the parts of its entries' mixtures.
        r, mean, variance = (
            np.concatenate([np.concatenate([one[i] for one in c], axis=-1) for c in found])
            for i in range(3)
        )
        sizes = [len(theta.counts) for theta in self._theta]
        r = r * np.repeat(weights, sizes, axis=0)
        ends = []
        for p in asked:
            out, n = np.empty(mean.shape[1:]), mean.shape[2]
            deviate = np.full(n, special.ndtri(p))
            gates = np.ascontiguousarray(r.T)
            mixtures.part_quantiles(gates, mean, np.sqrt(variance), deviate, np.full(n, p), out)
            ends.append(self._columns[0].decode(out.T))
        return ends[0], ends[1]

    def _anomaly_scores(self, X: Any) -> Array:
        """All columns are one part, (n, 1)."""
        return -np.asarray(self.score_samples(X))[:, None]

    def explain(self, x: Any, n_columns: int = 5) -> list[dict[str, Any]]:
        """What the model sees in one row.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values
        n_columns : int, default=5
            Columns to name for each component.

        Returns
        -------
        components : list of dict
            Of every component that may explain the row (one, for `BayesianPCA`), the most probable
            first: ``component``, ``class`` if there are classes, its ``probability``, the row's
            ``factors`` in it, and ``columns``: those that decided where the row lies, each with
            ``column``, ``value``, ``expected`` at these factors, and ``evidence``, by how many nats
            the entry speaks for these factors against the component's average.
        """
        row = self._one_row(x)
        (group,), weights = self._columns, self._class_weights(row)[:, 0]
        z = group.encode(row, np.arange(row.shape[1]))[0]
        shown = np.flatnonzero(~np.isnan(z) & group.varies)
        found = self._found(row, lambda theta, view, found: found)
        out, m = [], 0
        for c, (theta, (rows,)) in enumerate(zip(self._theta, found, strict=True)):
            for k, x_k in enumerate(rows.m):
                W, mu = theta.mean[k, :, :-1], theta.mean[k, :, -1]
                noise, factors = 1.0 / theta.precision, x_k[:, 0]
                expected, broad = mu + W @ factors, noise + (W**2).sum(axis=1)
                evidence = 0.5 * (np.log(broad / noise) - (z - expected) ** 2 / noise)
                evidence += 0.5 * (z - mu) ** 2 / broad
                told = group.decode(expected)
                which = {"class": self.classes_[c]} if hasattr(self, "classes_") else {}
                out.append({
                    "component": m, **which, "probability": float(weights[c] * rows.r[k, 0]),
                    "factors": factors,
                    "columns": self._telling(row, shown, told[shown], evidence[shown], n_columns),
                })  # fmt: skip
                m += 1
        likely = [one for one in out if one["probability"] >= LEAST_PROBABLE]
        return sorted(likely, key=lambda one: -one["probability"])

    # --- densities ---

    def _likelihoods(self, X: Any, n_draws: int) -> RowLikelihood:
        """Likelihood of checked rows under every class, exact, fields (N, n)."""
        value = self._densities(X, self._model.log_density)
        return RowLikelihood(value, np.zeros_like(value), np.full_like(value, np.inf))

    def _component_densities(self, X: Any) -> Array:
        """Log density of checked rows under the components of every class alone, (N, n)."""
        return self._densities(X, lambda theta, view: self._model.predictive(theta, view)[0].log_z)

    def _densities(self, X: Any, function: Callable[[BayesianPCAParams, Any], Array]) -> Array:
        """``function(theta, view)`` of checked rows under every class, in the user's units."""

        def on_block(block: RowBlock, _: int) -> Array:
            of_class = [
                [function(theta, view) for _, view in pieces(theta, block)] for theta in self._theta
            ]
            return np.stack([np.concatenate(c) for c in of_class]) + block.base

        return np.concatenate(self._map_rows(X, on_block), axis=1)

    def _class_shares(self) -> Array:
        return np.ones(1)

    def _n_parameters(self) -> float:
        """Loadings up to rotations, means, shares and noise."""
        count = 0.0
        for theta in self._theta:
            M, D, p = theta.mean.shape
            q = p - 1
            count += M * (D * q - q * (q - 1) / 2 + D) + M - 1 + 1
        return count + len(self._theta) - 1

    def _draw(self, n_samples: int, random_state: Any) -> np.random.Generator:
        """Generator for new rows, whose number is checked."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number of at least 1.")
        return as_generator(self.random_state if random_state is None else random_state)

    def _rows_of(
        self, theta: BayesianPCAParams, components: Array, factors: Array, rng: np.random.Generator
    ) -> Array:
        """New rows in the user's units, given their components (n,) and factors (n, q)."""
        mean = theta.mean[components]
        rows = np.einsum("ndi,ni->nd", mean[:, :, :-1], factors) + mean[:, :, -1]
        rows += rng.standard_normal(rows.shape) / np.sqrt(theta.precision)
        return self._columns[0].decode(rows).astype(self._dtype, copy=False)

    # --- saving, and what scikit-learn asks ---

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "theta": [theta._asdict() for theta in self._theta],
            "columns": self._columns[0].fields(),
            "calibration": self._calibration._asdict(),
            "dtype": np.dtype(self._dtype).name,
            "learned": self._learned(*self._kept),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._columns = (ColumnGroup(likelihood=Gaussian(), **state["columns"]),)
        self._dtype = np.dtype(state["dtype"])
        self._calibration = Calibration(**state["calibration"])
        self._theta = tuple(BayesianPCAParams(**theta) for theta in state["theta"])
        shares = Dirichlet(0.0 if self.prior is None else SHARES)
        self._model = BayesianPCA(self._prior(), shares, np.zeros((3, 1)))
        for name, value in state["learned"].items():
            setattr(self, name, value)
        self._describe()
