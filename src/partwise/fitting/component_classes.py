"""Fit Bayesian PCA of all rows, or a mixture for every class of rows."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, RowSource
from partwise.engine import Monitor, climb
from partwise.fitted import FitRecord, FittedComponents, NoiseLevel
from partwise.fitting.ascent import Ascent
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.class_calibration import Asked, LeftOut, Level
from partwise.fitting.component_fit import ClassFit, fit_components, gone_on
from partwise.fitting.component_search import size_posterior
from partwise.fitting.component_space import (
    MOST_BEGUN,
    Ascend,
    ComponentOptions,
    Space,
    begin,
    calibrated,
)
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Begun, Stage
from partwise.models.bayesian_pca import BayesianPCA, BayesianPCAParams, PointValues
from partwise.runners import runner_of
from partwise.sampling.randomness import as_generator
from partwise.starts.principal import encoded_rows, likely_dimension
from partwise.starts.rows import some_rows
from partwise.typing import Seed


def fit_directions(
    ascent: Ascent, group: ColumnGroup, options: ComponentOptions
) -> FittedComponents:
    """One component for all rows; directions that the data do not support are removed."""
    X, weight, log = ascent.rows.X, ascent.rows.weight, ascent.log
    q = options.most_directions(X)
    source = BlockSource(X, (group,), weight, n_powers=2)
    model = options.model(source, q)

    def start(child: np.random.Generator) -> BayesianPCAParams:
        some = source.sample(MOST_BEGUN, child)
        Z, alone = encoded_rows(some), np.ones((1, some.X.shape[0]))
        stands = some.weight * (weight.sum() / some.weight.sum())
        n = likely_dimension(Z, stands, q) if model.prior.relevance else q
        return begin(model, source, Z, stands, alone, n, child)

    def first(_: int, child: np.random.Generator) -> Begun[BayesianPCA, BayesianPCAParams]:
        return [Stage(model)], log.once("start", child, partial(start, child))

    rng = log.generator()
    params, monitor = ascent.best(source, first, rng)
    everyone, fits = [np.arange(X.shape[0])], [(Space(model, source), params)]
    return FittedComponents(
        model,
        (params,),
        (group,),
        calibration=calibrated(fits, group, X, weight, everyone, rng.spawn(1)[0]),
        n_directions=q,
        **ascent.known(monitor, shift=model.counted_turns(params)),
    )


def fit_mixture(
    ascent: Ascent,
    group: ColumnGroup,
    names: Array | None,
    labels: Array,
    options: ComponentOptions,
    seed: Seed,
) -> FittedComponents:
    """A mixture for every class of ``names``, or one for all rows; ``labels`` are -1 if unknown."""
    rows, whole = ascent.rows, labels
    X, weight = rows.X, rows.weight
    rng = as_generator(seed)
    q = options.most_directions(X)
    if isinstance(X, RowSource):
        some = some_rows(weight, max(MOST_BEGUN // X.shape[1], 1), rng)
        X, weight, labels = X[some], weight[some], labels[some]
    parts = [np.flatnonzero(labels == c) for c in range(1 if names is None else len(names))]
    _check_parts(parts, names, options.n_components)
    class_priors = None
    if names is not None:
        known = whole >= 0
        counts = np.bincount(whole[known], rows.weight[known], len(names))
        class_priors = counts / counts.sum()
    shares = np.ones(1) if class_priors is None else class_priors
    left_out = LeftOut(partial(_source, group), X, weight, parts, shares).cut(rng.spawn(1)[0])

    def ascend(
        source: BlockSource, model: BayesianPCA, params: BayesianPCAParams
    ) -> tuple[BayesianPCAParams, Monitor]:
        begun = [Stage[BayesianPCA, BayesianPCAParams](model)], params
        return ascent.best(source, lambda *_: begun, rng, log=FitLog(seed))

    def quietly(
        source: BlockSource, model: BayesianPCA, params: BayesianPCAParams
    ) -> tuple[BayesianPCAParams, Monitor]:
        # Fits without the held-out rows need not converge.
        total = float(source.weight.sum())
        monitor = Monitor(options.max_iter, options.tol, total, options.deadline)
        with runner_of(options.n_jobs, source) as runner:
            return climb(model, params, source, runner, monitor), monitor

    def fit_all(how: Ascend, level: Level, parts: list[Array]) -> list[ClassFit]:
        size = level.n_components or options.n_components
        sized = replace(options, n_components=size)
        return [
            fit_components(X[rows], weight[rows], group, level.noise, sized, how, rng)
            for rows in parts
        ]

    learned, free = isinstance(options.prior, PointValues), options.n_components is None
    asked = Asked(learned, free, options.pools)
    pool = left_out.choose(partial(fit_all, quietly), asked, ascent.deadline)
    levels = [fit_all(ascend, level, parts) for level in pool.levels]
    if isinstance(rows.X, RowSource) and X.shape[0] < rows.X.shape[0]:
        # Parameters learned from some rows are refined with all of them.
        for c in range(len(parts)):
            own = whole == c
            source = BlockSource(rows.X.some(own), (group,), rows.weight[own], n_powers=2)
            for level in levels:
                level[c] = gone_on(level[c], source, options, ascend)
    found = levels[0]
    fits = [(one.space, one.params) for one in found]
    calibration = calibrated(fits, group, X, weight, parts, rng.spawn(1)[0])
    others = zip(pool.slopes[1:], levels[1:], strict=True)
    return FittedComponents(
        fits[0][0].model,
        _in_columns(found),
        (group,),
        rows.X.shape[1],
        X.dtype,
        _recorded(found, float(rows.weight.sum())),
        rows.names,
        calibration=calibration,
        classes=names,
        n_directions=q,
        class_priors=class_priors,
        slope=float(pool.slopes[0]),
        offsets=pool.offsets,
        others=tuple(NoiseLevel(float(slope), _in_columns(level)) for slope, level in others),
        moves=_moves(found, names),
        size_posterior=_sizes(found, names),
    )


def _in_columns(found: list[ClassFit]) -> tuple[BayesianPCAParams, ...]:
    return tuple(one.space.in_columns(one.params) for one in found)


def _source(group: ColumnGroup, X: Array) -> BlockSource:
    return BlockSource(X, (group,), np.ones(X.shape[0]), keep=False)


def _check_parts(parts: list[Array], names: Array | None, n_components: int | None) -> None:
    """Raise an error for too few rows, or too few of a class."""
    for c, rows in enumerate(parts):
        what = "X" if names is None else f"class {names[c]!s}"
        if len(rows) == 0:
            raise ValueError(
                f"All rows of {what} have weight 0; drop them from X and y, or set their "
                "sample_weight."
            )
    n_rows = sum(len(rows) for rows in parts)
    if n_components is not None and n_rows < n_components:
        raise ValueError(f"n_components={n_components} exceeds n_samples={n_rows}; lower it.")


def _recorded(found: list[ClassFit], weight: float) -> FitRecord:
    """The record of the first class's last EM iterations, with the ELBO of all classes."""
    turns = [one.space.model.counted_turns(one.params) for one in found]
    record = recorded(found[0].monitor, weight, shift=turns[0])
    reached = [one.monitor.trace[-1] - own for one, own in zip(found, turns, strict=True)]
    return replace(record, bound=sum(reached) / weight)


def _moves(found: list[ClassFit], names: Array | None) -> list[dict[str, object]]:
    """Every move of the search, with its class if there are classes."""
    moves: list[dict[str, object]] = []
    for c, one in enumerate(found):
        which = {} if names is None else {"class": names.tolist()[c]}
        moves += [{**asdict(move), **which} for move in one.search.moves]
    return moves


def _sizes(found: list[ClassFit], names: Array | None) -> Array:
    """Probability of every number of components that the search visited."""
    posteriors = [size_posterior(one.search.bounds) for one in found]
    longest = max(len(p) for p in posteriors)
    table = np.stack([np.pad(p, (0, longest - len(p))) for p in posteriors])
    return table[0] if names is None else table
