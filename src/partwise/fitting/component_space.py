"""Spaces, starts and calibration for mixtures of principal components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup
from partwise.engine import Monitor
from partwise.fitting.options import Rows
from partwise.likelihoods import Dirichlet
from partwise.models import calibration
from partwise.models.bayesian_pca import (
    BayesianPCA,
    BayesianPCAParams,
    Broad,
    PointValues,
    pieces,
    total,
)
from partwise.models.calibration import Calibration
from partwise.models.mcfa import column_totals
from partwise.models.scatter_updates import Principal, Scatter
from partwise.starts.principal import kinds_of_rows, principal_groups, principal_start

# Dirichlet count of every component: all shares are equally likely.
SHARES = 1.0

# A direction counts if its loadings carry this share of the largest's.
DIRECTION_SHARE = 0.01

# Folds of cross-validation, and EM iterations without the held-out rows. With more cells than this,
# single rows matter little and the fit to all rows is used.
FOLDS = 5
FORGETTING_STEPS = 2
MOST_CELLS = 4_000_000

# Cells that are enough to calibrate intervals.
ENOUGH_CELLS = 16_000

# Cells of the rows whose principal directions are the beginning.
MOST_BEGUN = 20_000_000

# Most columns for which scatter matrices are used: beyond, EM iterations on the rows cost less.
WIDEST_LEAP = 400

# Maximizes the bound on a source to convergence.
Ascend: TypeAlias = Callable[
    [BlockSource, BayesianPCA, BayesianPCAParams], tuple[BayesianPCAParams, Monitor]
]


@dataclass(frozen=True)
class ComponentOptions:
    """What is asked of a fit of components.

    ``n_components`` None selects their number by the ELBO; ``max_directions`` None is one less than
    there are columns. Of ``prior`` and ``other``, if given, the one with the higher ELBO is taken.
    ``pools`` says whether class probabilities come from several levels of noise.
    """

    prior: Broad | PointValues
    n_components: int | None
    max_directions: int | None
    max_iter: int
    tol: float
    deadline: float
    n_jobs: int | None
    other: Broad | None = None
    pools: bool = True

    @property
    def shares(self) -> Dirichlet:
        """Prior of the components' shares."""
        return shares_prior(self.prior)

    def model(self, source: BlockSource, q: int, noise: float | None = None) -> BayesianPCA:
        """The model of a source's rows, with at most q directions and perhaps a given noise."""
        holds = frozenset[str]() if noise is None else frozenset(["noise"])
        totals = column_totals(source)
        leaps = self.may_leap(totals, source.weight)
        return BayesianPCA(self.prior, self.shares, totals, holds=holds, directions=q, leaps=leaps)

    def may_leap(self, totals: Array, weight: Array) -> bool:
        """Whether scatter matrices will do, given the columns' totals and the rows' weights."""
        few = totals.shape[1] <= min(WIDEST_LEAP, len(weight))
        leaps = isinstance(self.prior, Broad) and not self.prior.by_component
        return few and leaps and is_complete(totals, weight)

    def most_directions(self, X: Rows, kinds: tuple[Array, Array] | None = None) -> int:
        """As many as asked for, but fewer than columns, and than rows that differ."""
        most = X.shape[1] - 1 if self.max_directions is None else self.max_directions
        first, _ = kinds_of_rows(X) if kinds is None else kinds
        return max(min(most, len(first) - 1), 1)


def shares_prior(prior: Broad | PointValues) -> Dirichlet:
    """Prior of the components' shares, none where there is no prior."""
    return Dirichlet(SHARES if isinstance(prior, Broad) else 0.0)


class Space(NamedTuple):
    """Rows to fit a mixture to, perhaps in a frame: a center (D,) and directions (D, D').

    ``forgets`` says whether `without` fits again; where rows are many, single ones matter little.
    """

    model: BayesianPCA
    source: BlockSource
    frame: tuple[Array, Array] | None = None
    forgets: bool = True

    def in_columns(self, params: BayesianPCAParams) -> BayesianPCAParams:
        """Parameters in terms of the columns."""
        if self.frame is None:
            return params
        center, directions = self.frame
        params = params.of_columns(directions)
        params.mean[:, :, -1] += center
        return params

    def without(self, params: BayesianPCAParams, rows: Array) -> BayesianPCAParams:
        """Parameters in terms of the columns, fitted without some of the rows."""
        rest = np.setdiff1d(np.arange(self.source.X.shape[0]), rows)
        if len(rest) and self.forgets and self.source.X.size <= MOST_CELLS:
            some = self.source.of_rows(rest)
            n, squares = self.model.outside
            share = some.weight.sum() / self.source.weight.sum()
            outside = (n * share, squares * share)
            model = replace(self.model, totals=column_totals(some), outside=outside)
            for _ in range(FORGETTING_STEPS):
                params = model.maximize(params, total(model, params, some))
        return self.in_columns(params)


def begin(
    model: BayesianPCA, source: BlockSource, Z: Array, weight: Array, shares: Array, q: int,
    rng: np.random.Generator, noise: float | None = None,
) -> BayesianPCAParams:  # fmt: skip
    """First parameters, from principal directions of groups of rows (M, n), noise given or not.

    ``Z`` are rows of the source, or some of them that stand for all by their ``weight``.
    """
    # Where components have relevances of their own, one may need directions that others do not.
    shared = isinstance(model.prior, Broad) and not model.prior.by_component
    if shared and is_complete(model.totals, weight):
        tau = None if noise is None else model.noise_of(noise)
        if model.leaps:
            rows = Scatter.of(Z.T, shares * weight).principal(q)
        else:
            rows = Principal(*principal_groups(Z, weight, shares, q, rng))
        return model.leap(rows, tau)[0]
    mean, left = principal_start(Z, weight, shares, q, rng)
    params = model.start(mean, left if noise is None else noise, shares @ weight)
    if noise is not None:
        params = model.with_noise(params, noise)
    return model.maximize(params, total(model, params, source))


def is_complete(totals: Array, weight: Array) -> bool:
    """Whether every column is observed in rows of all this weight."""
    return bool(totals[0].min() >= weight.sum() * (1.0 - 1e-9))


def effective_dimension(params: BayesianPCAParams) -> int:
    """Directions whose E|w|^2, over all components, is above 1 % of the largest."""
    squares = params.squares.sum(axis=0)
    return int(np.sum(squares > DIRECTION_SHARE * squares.max(initial=0.0)))


def dimensions(params: BayesianPCAParams) -> Array:
    """The same of every component by itself, (M,)."""
    squares = params.squares
    largest = squares.max(axis=1, initial=0.0, keepdims=True)
    return np.sum(squares > DIRECTION_SHARE * largest, axis=1)


def calibrated(
    fits: list[tuple[Space, BayesianPCAParams]],
    group: ColumnGroup,
    X: Rows,
    weight: Array,
    parts: list[Array],
    rng: np.random.Generator,
) -> Calibration:
    """Calibration of intervals from the probability below each entry of held-out rows."""
    D = X.shape[1]
    pit, weights, enough = [], [], ENOUGH_CELLS / len(fits)
    for (space, fitted), rows in zip(fits, parts, strict=True):
        fold = rng.permutation(len(rows)) % min(FOLDS, len(rows))
        n_cells = 0.0
        for f in range(fold.max() + 1):
            params = space.without(fitted, np.flatnonzero(fold == f))
            some = rows[np.flatnonzero(fold == f)[: int(np.ceil(enough / D))]]
            for block in BlockSource(X[some], (group,), weight[some], keep=False).blocks():
                for span, view in pieces(params, block):
                    shown = slice(None) if view.shown is None else view.shown > 0
                    below = space.model.below(params, view)
                    pit.append(below[shown].ravel())
                    weights.append(np.broadcast_to(block.weight[span], below.shape)[shown].ravel())
                    n_cells += len(pit[-1])
            if n_cells >= enough:
                break
    u = np.concatenate(pit)
    return calibration.learn(u, np.zeros(len(u), int), np.concatenate(weights), 1)
