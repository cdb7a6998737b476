"""Fit features of rows (GVQ): one unit for all columns, starts, and noisy first steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from partwise.contracts import AnyModel, Array
from partwise.data import BlockSource, ColumnGroup, RowSource, learn_columns
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.restarts import Begun, Stage
from partwise.models.gvq import GVQ, GVQParams, Shaken
from partwise.models.gvq_binary import BinaryGVQ
from partwise.starts.ica import binary_start, feature_start

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


def begin(
    model: GVQ, source: BlockSource, log: FitLog, i: int, rng: np.random.Generator
) -> Begun[GVQ, GVQParams]:
    """Stages and first parameters of start i: independent components and k-means take turns."""
    independent = i % 2 == 0 and model.n_values == 2
    start = partial(_start, model, source, rng, independent)
    first = model.start(*log.once("start", rng, start))
    return [Stage(model, _shaken(model, rng, independent))], first


def _start(
    model: GVQ, source: BlockSource, rng: np.random.Generator, independent: bool
) -> tuple[Array, Array]:
    M, K = model.n_sets, model.n_components
    if isinstance(model, BinaryGVQ):
        return binary_start(source, M, K, rng, independent=independent)
    return feature_start(source, M, K, model.n_values, rng, independent=independent)


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
