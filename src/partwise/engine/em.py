"""The only EM loop."""

from collections.abc import Sequence
from typing import Any, TypeVar

from partwise.contracts import Model, Runner, Source
from partwise.engine.monitor import Monitor

Theta = TypeVar("Theta")


def climb(
    model: Model[Theta],
    theta: Theta,
    source: Source,
    runner: Runner,
    monitor: Monitor,
    stages: Sequence[Model[Theta]] = (),
    probe: int = 3,
) -> Theta:
    """Raise the bound until the monitor is content.

    ``stages`` are models to take one step with each before the trace begins, annealing for one:
    their bounds are others than the model's. Stages may lose what the start knew, so their end is
    held against ``probe`` plain steps from the start. The loop stops before a step, so that the
    last bound of the trace belongs to the parameters returned; and it goes on if the last step took
    a short cut, after a sweep of the same parameters without one.
    """
    memory = [model.fresh_memory(i) for i in range(source.n_blocks)]

    def sweep(model: Model[Theta], theta: Theta) -> Any:
        return runner.total(model, theta, source, memory)

    def rise(theta: Theta) -> Theta:
        while True:
            stats = sweep(model, theta)
            if monitor.stop(model.bound(theta, stats)):
                thorough = None if monitor.spent else model.refresh(theta)
                if thorough is None:
                    return theta
                theta, stats = thorough, sweep(model, thorough)
            theta = model.maximise(theta, stats)

    if not stages:
        return rise(theta)
    plain = theta
    for _ in range(probe):
        plain = model.maximise(plain, sweep(model, plain))
    # What rows remember belongs to the parameters it was found with.
    remembered = list(memory)
    memory[:] = [model.fresh_memory(i) for i in range(source.n_blocks)]
    for stage in stages:
        theta = stage.maximise(theta, sweep(stage, theta))
        if monitor.late:
            break
    theta = rise(theta)
    # If the plain steps reached more, they go on instead.
    memory[:] = remembered
    if not monitor.spent and monitor.trace[-1] < model.bound(plain, sweep(model, plain)):
        monitor.begin_anew()
        theta = rise(plain)
    return theta
