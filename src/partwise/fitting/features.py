"""Fit features of rows (GVQ): one unit for all columns, starts, and noisy first steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from partwise._warnings import warn
from partwise.contracts import AnyModel, Array
from partwise.data import BlockSource, ColumnGroup, RowSource, learn_columns
from partwise.fitted import FittedCodes, unit_of
from partwise.fitting.ascent import Ascent
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.restarts import Begun, Stage
from partwise.models.gvq import GVQ, GVQParams, Shaken
from partwise.models.gvq_binary import NO_ORIGIN, BinaryGVQ
from partwise.starts.ica import binary_start, feature_start

# Rows per block. The search dominates the time, and many blocks divide it evenly among threads.
BLOCK_ROWS = 1024

# Largest deviation of rows whose square is still a finite number.
LARGEST_UNIT = 1e150

# Steps after which noise is added to features, ever less, where they do not begin as independent
# components, and the share of the error that the first noise adds. Without it features of several
# values end a few per cent above the error that they can reach.
SHAKEN_STEPS = 20
SHAKEN_SHARE = 0.5


def learn_unit(X: Array | RowSource, weight: Array, binary: bool) -> tuple[ColumnGroup, ...]:
    """All columns in one unit, in which rows have a variance of 1: errors are Euclidean."""
    if binary:
        return learn_columns(X, "bernoulli", weight, False, None)
    (group,) = learn_columns(X, "gaussian", weight, False, None)
    deviation = np.where(group.varies, group.scale, 0.0)
    largest = deviation.max()
    unit = largest * np.linalg.norm(deviation / largest) if largest > 0 else 1.0
    if not 1.0 / LARGEST_UNIT < unit < LARGEST_UNIT:
        raise ValueError(
            f"The rows of X have a standard deviation of {unit:g}, whose square is beyond what "
            "numbers can hold; measure X in another unit."
        )
    return (replace(group, scale=np.full(len(deviation), unit)),)


def fit_features(
    ascent: Ascent,
    columns: tuple[ColumnGroup, ...],
    core: Callable[[int], GVQ],
    before: tuple[Array, Array] | None,
) -> FittedCodes:
    """Learn features and origins, of ``core(seed)``, from starts or those of ``before``."""
    rows, log = ascent.rows, ascent.log
    rng = log.generator()
    seed = int(rng.integers(2**31))
    model = core(seed)
    source = BlockSource(rows.X, columns, rows.weight, max_rows=BLOCK_ROWS, n_powers=2)

    def begin(i: int, child: np.random.Generator) -> Begun[GVQ, GVQParams]:
        if before is not None:
            return [Stage(model)], model.start(*_encoded(columns[0], *before))
        return _begin(model, source, log, i, child)

    n_init = None if before is None else 1
    params, monitor = ascent.best(source, begin, rng, n_init=n_init)
    if params.idle > 0:
        warn(
            f"The codes of the rows do not determine {params.idle} of {params.taken.shape[1]} "
            "directions of features and origin; the solution of least norm is used. Lower "
            "n_components or pass more rows."
        )
    known = ascent.known(monitor, unit=unit_of(columns) ** 2)
    return FittedCodes(model, params, columns, seed=seed, **known)


def _encoded(group: ColumnGroup, features: Array, origins: Array) -> tuple[Array, Array]:
    """Features and origins in model units."""
    if features.shape[2] != len(group.scale):
        raise ValueError(
            f"X has {len(group.scale)} columns, but the features of the last fit have "
            f"{features.shape[2]}; set warm_start=False."
        )
    return features / group.scale, (origins - group.shift) / group.scale


def _begin(
    model: GVQ, source: BlockSource, log: FitLog, i: int, rng: np.random.Generator
) -> Begun[GVQ, GVQParams]:
    """Stages and first parameters of start i: independent components and k-means take turns.

    Without an origin k-means gives rows of one feature each, which a penalty asks for: it is first.
    """
    sparse = model.penalty > 0 and not model.fits_origin
    independent = i % 2 == sparse and model.n_values == 2
    start = partial(_start, model, source, rng, independent)
    first = model.start(*log.once("start", rng, start))
    return [Stage(model, _shaken(model, rng, independent))], first


def _start(
    model: GVQ, source: BlockSource, rng: np.random.Generator, independent: bool
) -> tuple[Array, Array]:
    M, K, group = model.n_sets, model.n_components, source.columns[0]
    if isinstance(model, BinaryGVQ):
        nowhere = None if model.fits_origin else np.full(len(group.scale), NO_ORIGIN)
        return binary_start(source, M, K, rng, independent=independent, origin=nowhere)
    origin = None if model.fits_origin else -group.shift / group.scale
    J = model.n_values
    return feature_start(source, M, K, J, rng, independent=independent, origin=origin)


def _shaken(model: GVQ, rng: np.random.Generator, independent: bool) -> list[AnyModel]:
    """Steps with ever less noise on the features."""
    if independent or isinstance(model, BinaryGVQ) or model.n_components == 0:
        return []
    shares = SHAKEN_SHARE * (1.0 - np.arange(SHAKEN_STEPS) / SHAKEN_STEPS)
    seeds = rng.integers(2**31, size=SHAKEN_STEPS)
    return [
        cast(AnyModel, Shaken(model, float(share), int(seed)))  # takes steps, which is all it does
        for share, seed in zip(shares, seeds, strict=True)
    ]
