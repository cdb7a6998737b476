"""Fitting a mixture of principal components to the rows of one class."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup
from partwise.engine import Monitor, climb
from partwise.fitting.component_search import Search, giving_up, orders
from partwise.fitting.component_space import (
    Ascend,
    ComponentOptions,
    Space,
    begin,
    effective_dimension,
)
from partwise.models.bayesian_pca import BayesianPCAParams, Broad
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

# Variance below this share of the strongest direction's is treated as noise.
MOST_NOISE = 0.1

# During the search, EM stops at this multiple of the final tolerance.
LOOSE = 300.0

# Most components, and the least number of rows per component.
MOST_COMPONENTS = 100
ROWS_PER_COMPONENT = 4


class ClassFit(NamedTuple):
    """The mixture of one class: its space, parameters, last EM iterations, and size search."""

    space: Space
    params: BayesianPCAParams
    monitor: Monitor
    search: Search


class Settle(Protocol):
    """Maximize the bound to a loose tolerance; stop where ``aim`` is out of reach."""

    def __call__(
        self, at: Space, params: BayesianPCAParams, aim: float = -np.inf
    ) -> tuple[BayesianPCAParams, float]:
        """Parameters and their bound."""


def fit_components(
    X: Array,
    weight: Array,
    group: ColumnGroup,
    noise: float | None,
    options: ComponentOptions,
    ascend: Ascend,
    rng: np.random.Generator,
) -> ClassFit:
    """A mixture for some rows; the noise is given or learned.

    Of two priors the one whose mixture has the higher ELBO, orders and turns counted, is taken.
    """
    if options.other is not None:
        priors = (options.prior, options.other)
        each = [replace(options, prior=prior, other=None) for prior in priors]
        both = [fit_components(X, weight, group, noise, one, ascend, rng) for one in each]
        return max(both, key=_evidence)
    source = BlockSource(X, (group,), weight, n_powers=2)
    kinds = kinds_of_rows(X)
    q = options.most_directions(X, kinds)
    whole = Space(options.model(source, q, noise), source)
    with runner_of(options.n_jobs, source) as runner:

        def settle(
            at: Space, params: BayesianPCAParams, aim: float = -np.inf
        ) -> tuple[BayesianPCAParams, float]:
            monitor = Monitor(
                options.max_iter, LOOSE * options.tol, float(weight.sum()), options.deadline,
                on_step=giving_up(aim, at.model.leaps),
            )  # fmt: skip
            params = climb(at.model, params, at.source, runner, monitor)
            return params, monitor.trace[-1]

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
        has_prior = isinstance(options.prior, Broad)
        if has_prior and options.n_components != 1 and not np.isnan(X).any():
            at, alone = _choose_frame(whole, q, start, settle, options, rng)
        search = Search(
            at.model, at.source, lambda M: start(at, M) if M > 1 or alone is None else alone,
            lambda params, aim: settle(at, params, aim),
            lambda: time.monotonic() > options.deadline,
            max(min(int(weight.sum()) // ROWS_PER_COMPONENT, MOST_COMPONENTS), 1),
        )  # fmt: skip
        if options.n_components is None:
            params = search.run()
        else:
            params, bound = settle(at, start(at, options.n_components))
            search.bounds[len(params.counts)] = bound
    params, monitor = ascend(at.source, at.model, params)
    return ClassFit(at, params, monitor, search)


def _evidence(found: ClassFit) -> float:
    """What mixtures of different sizes and priors are compared by."""
    model, params = found.space.model, found.params
    turns = model.turns(params) - model.counted_turns(params)
    return found.monitor.trace[-1] + turns + orders(len(params.counts))


def _choose_frame(
    whole: Space,
    q: int,
    start: Callable[[Space, int], BayesianPCAParams],
    settle: Settle,
    options: ComponentOptions,
    rng: np.random.Generator,
) -> tuple[Space, BayesianPCAParams]:
    """The subspace of the components, outside of which there is only noise, and one component.

    Bayesian PCA of all rows finds the directions. Its bound, less the cost of choosing the
    subspace, selects between all directions that were not switched off and the effective ones.
    All columns are kept only if no direction was switched off, or if the noise is large: rows on
    a sphere have equal variance in all directions.
    """
    source = whole.source
    params, _ = settle(whole, start(whole, 1))
    left = params.n_directions
    known = (params.mean[:, :, :-1] ** 2).sum(axis=(0, 1))
    strongest = known.max() + 1.0 / params.precision
    if left == q or 1.0 / params.precision > MOST_NOISE * strongest:
        return whole, params
    best, bound = (whole, params), -np.inf
    Z, weight, D = encoded_rows(source), source.weight, source.X.shape[1]
    rows = float(weight.sum())
    alone = np.ones((1, len(Z)))
    _, (center,), (values,), (vectors,) = principal_groups(Z, weight, alone, left, rng)
    away = Z - center
    for n in sorted({effective_dimension(params), left}):
        directions = vectors[:, :n]
        inside = away @ directions
        columns = (plain_columns(source.columns[0], n),)
        inner = BlockSource(inside, columns, weight, n_powers=2)
        squares = max(float(weight @ (away**2).sum(axis=1)) - rows * values[:n].sum(), 0.0)
        outside = (rows * (D - n), squares)
        # Densities are of the user's units, here as elsewhere.
        units = rows * float(source.columns[0].log_scale.sum())
        totals = column_totals(inner)
        place = subspace_cost(values[:n], D, rows, 1.0 / params.precision)
        place += (D - n) * whole.model.prior.cost_of_mean(rows * params.precision)
        model = replace(
            whole.model, totals=totals, outside=outside,
            units=units + place,
            leaps=options.may_leap(totals, weight),
        )  # fmt: skip
        at = Space(model, inner, (center, directions))
        one, reached = settle(at, start(at, 1), bound)
        if reached > bound:
            best, bound = (at, one), reached
    return best


def gone_on(
    found: ClassFit, source: BlockSource, options: ComponentOptions, ascend: Ascend
) -> ClassFit:
    """A mixture that was learned from some rows of a class, fitted further to all of them."""
    begun = found.space.model
    core = replace(options, prior=begun.prior).model(source, begun.directions or 1)
    at = Space(replace(core, holds=begun.holds), source, forgets=False)
    params, monitor = ascend(source, at.model, found.space.in_columns(found.params))
    return ClassFit(at, params, monitor, found.search)
