"""Fit rows that are sums of one state of every part (CVQ): starts, then cooling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from partwise.data import BlockSource, ColumnGroup
from partwise.fitted import Fitted
from partwise.fitting.ascent import Ascent
from partwise.fitting.restarts import Begun, Stage
from partwise.models.cvq import CVQ, CVQParams, CVQPrepared
from partwise.starts.cvq_start import residual_start, separate_start

FittedSums: TypeAlias = Fitted[CVQ, CVQParams, CVQPrepared]

# Number of annealing steps, and the inverse temperature of the first.
COOLING_SWEEPS = 30
WARMEST = 0.05

# Starts, which take turns.
STARTS = (separate_start, residual_start)


def fit_sums(ascent: Ascent, model: CVQ, columns: tuple[ColumnGroup, ...]) -> FittedSums:
    """Learn the states, begun from groups of columns and from clusters of rows in turn."""
    rows, log = ascent.rows, ascent.log
    source = BlockSource(rows.X, columns, rows.weight)
    betas = np.geomspace(WARMEST, 1.0, COOLING_SWEEPS, endpoint=False)
    cooling = [replace(model, beta=float(beta)) for beta in betas]

    def begin(i: int, child: np.random.Generator) -> Begun[CVQ, CVQParams]:
        way = STARTS[i % len(STARTS)]
        start = partial(way, source, model.n_parts, model.n_states, child)
        return [Stage(model, cooling)], model.start(*log.once("start", child, start))

    params, monitor = ascent.best(source, begin, log.generator())
    return Fitted(model, params, columns, **ascent.known(monitor))
