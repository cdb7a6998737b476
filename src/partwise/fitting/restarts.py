"""Stages of a fit, and the best of several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from partwise.contracts import AnyModel, Params
from partwise.data import BlockSource
from partwise.engine import Monitor, climb
from partwise.engine.progress import ProgressBar
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.options import AscentOptions, Listener
from partwise.runners import runner_of

ModelT = TypeVar("ModelT", bound=AnyModel)


@dataclass(frozen=True, eq=False)
class Stage(Generic[ModelT, Params]):
    """One stage of a fit: its model, annealing, the monitor's window, and how it begins.

    ``annealing`` are the models to take one step with each before the trace begins. What they reach
    is compared with ``probe`` plain EM iterations. The stage ends after ``enough`` EM iterations,
    where something else than the bound has determined how many are needed. ``enter`` turns the
    parameters of the stage before into those that this one begins with. An ``optional`` stage is
    left out if the one before has run out of iterations or time.
    """

    model: ModelT
    annealing: Sequence[AnyModel] = ()
    window: int = 1
    probe: int = 3
    enter: Callable[[Params], Params] | None = None
    enough: int | None = None
    optional: bool = False


# Stages of a start, and the parameters that the first of them begins with.
Begun: TypeAlias = tuple[Sequence[Stage[ModelT, Params]], Params]


def fit_best(
    source: BlockSource,
    begin: Callable[[int, np.random.Generator], Begun[ModelT, Params]],
    rng: np.random.Generator,
    options: AscentOptions,
    log: FitLog,
    listener: Listener,
    deadline: float,
) -> tuple[ModelT, Params, Monitor]:
    """Fit from ``n_init`` starts and keep the best: its last model, parameters and monitor.

    ``begin(i, rng)`` gives the stages of start i and its first parameters; a later stage goes on
    from the one before. What the ``log`` records as done is not done again.
    """
    weight, n_init = float(source.weight.sum()), options.n_init
    best = log.best(partial(Monitor, options.max_iter, options.tol, weight))
    with (
        ProgressBar(options.name, options.max_iter, options.verbose) as bar,
        runner_of(options.n_jobs, source) as runner,
    ):
        for i, child in log.starts(rng.spawn(n_init)):
            stages, params = begin(i, child)

            def on_step(n_iter: int, bound: float, i: int = i) -> bool:
                bar.update(n_iter, bound, f"{options.name} start {i + 1}/{n_init}")
                return listener.on_step(n_iter, bound)

            monitor = None
            for stage, begun in log.stages(stages):
                if stage.optional and monitor is not None and monitor.spent:
                    continue
                params = params if stage.enter is None or begun else stage.enter(params)
                monitor = Monitor(
                    options.max_iter,
                    options.tol,
                    weight,
                    deadline,
                    stage.window,
                    on_step,
                    enough=stage.enough,
                    halted=listener.halted,
                )
                warm_up = stage.annealing, stage.probe
                params = climb(stage.model, params, source, runner, monitor, *warm_up, log)
            assert monitor is not None
            if best is None or monitor.trace[-1] > best[1].trace[-1]:
                best = params, monitor
                log.note_best(*best)
            if monitor.out_of_time or monitor.interrupted:
                break
    assert best is not None
    listener.on_end(best[1])
    return stage.model, *best
