"""Fit the aspect model of ratings: tempered EM from rows selected at random."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from partwise.data import BlockSource
from partwise.data.rating_levels import ScaleGroup
from partwise.fitted import Fitted
from partwise.fitting.ascent import Ascent
from partwise.fitting.restarts import Begun, Stage
from partwise.fitting.temperature import likeliest_temperature
from partwise.models.aspect import Aspect, AspectParams, AspectPrepared
from partwise.starts import random_start

FittedAspects: TypeAlias = Fitted[Aspect, AspectParams, AspectPrepared]


def fit_aspects(
    ascent: Ascent, core: Aspect, group: ScaleGroup, beta: float | None
) -> FittedAspects:
    """Learn the aspects; ``beta`` None selects the temperature on held-out ratings."""
    rows, log = ascent.rows, ascent.log
    rng = log.generator()
    source = BlockSource(rows.X, (group,), rows.weight)
    seed = rng.spawn(1)[0]
    first, _ = random_start(source, (core.n_aspects,), False, seed)
    params, enough = core.start(first.sums[0].shared), None
    if beta is None:
        judge = partial(
            likeliest_temperature,
            core,
            params,
            source,
            rng,
            max_iter=ascent.options.max_iter,
            tol=ascent.options.tol,
            deadline=ascent.deadline,
            n_jobs=ascent.n_jobs,
        )
        beta, enough = log.once("temperature", rng, judge)
    model = replace(core, beta=beta)

    def begin(_: int, __: np.random.Generator) -> Begun[Aspect, AspectParams]:
        return [Stage(model, enough=enough)], params

    found, monitor = ascent.best(source, begin, rng)
    return Fitted(model, found, (group,), **ascent.known(monitor))
