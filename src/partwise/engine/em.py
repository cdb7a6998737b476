"""The only EM loop."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar, cast

from partwise.contracts import (
    Memory,
    Model,
    Params,
    Prepared,
    Runner,
    Source,
    Total,
    check_needs,
)
from partwise.engine.monitor import Monitor

View = TypeVar("View")

# Where a climb may be: steps to be held against, warm-up stages, the climb from these, and the
# climb from the steps if they reached more.
PROBE, STAGES, RISE, RISE_PLAIN = range(4)


class Place(NamedTuple):
    """Where a climb stands before a sweep; all that comes after follows from it."""

    phase: int
    step: int  # steps of the phase that are done, while they are counted
    prepared: object  # parameters to sweep with next
    plain: object  # what the steps to be held against reached
    memory: tuple[object, ...]  # what the rows of each block remember
    remembered: tuple[object, ...]  # the same with the plain parameters
    trace: tuple[float, ...]


class Log(Protocol):
    """Keeps places of a climb, so that another process may go on from the last one."""

    @property
    def place(self) -> Place | None:
        """Where to go on; None begins."""
        ...

    def note(self, place: Place) -> None:
        """Called before every sweep but the first."""
        ...


def climb(
    model: Model[Params, Prepared, View, Memory, Total],
    params: Params,
    source: Source,
    runner: Runner,
    monitor: Monitor,
    stages: Sequence[Model[Params, Prepared, View, Memory, Total]] = (),
    probe: int = 3,
    log: Log | None = None,
) -> Params:
    """Raise the bound until the monitor is content.

    ``stages`` are models to take one step with each before the trace begins, annealing for one:
    their bounds are others than the model's. Stages may lose what the start knew, so what is
    reached after them is held against ``probe`` plain steps from the start. If those steps reached
    more, by ``tol`` at least, a second ascent goes on from them and is the one returned; less than
    ``tol`` is no rise to the monitor either, and rounding would decide. Without stages there is
    one ascent.

    The monitor is told every bound of every ascent in order, so callbacks hear both ascents where
    there are two. ``monitor.trace``, and with it ``n_iter``, is the trace of the ascent that gave
    the parameters returned, and ``max_iter`` limits each ascent. A monitor that is spent ends the
    climb: the second ascent is not begun. Probe and stages have no bound and are not told.

    The loop stops before a step, so that the last bound of the trace belongs to the parameters
    returned; and it goes on if the last step took a short cut, after a sweep of the same parameters
    without one. With a ``log`` every place is noted, and a climb that it knows goes on where it
    was.
    """

    check_needs(model, model.needs, source.views)

    def fresh() -> list[Memory]:
        return [model.fresh_memory(i) for i in range(source.n_blocks)]

    def sweep(model: Model[Params, Prepared, View, Memory, Total], prepared: Prepared) -> Total:
        return runner.total(model, prepared, source, memory)

    def note(phase: int, step: int, prepared: Prepared) -> None:
        if log is not None:
            held = (tuple(memory), tuple(remembered))
            log.note(Place(phase, step, prepared, plain, *held, tuple(monitor.trace)))

    def rise(phase: int, prepared: Prepared) -> Params:
        while True:
            stats = sweep(model, prepared)
            if monitor.stop(model.bound(prepared, stats)):
                thorough = None if monitor.spent else model.thorough(prepared)
                if thorough is None:
                    return cast(Params, prepared.params)
                prepared, stats = thorough, sweep(model, thorough)
            prepared = model.maximize(prepared, stats)
            note(phase, 0, prepared)

    place = None if log is None else log.place
    phase, done, prepared = PROBE if stages else RISE, 0, model.begin(params)
    plain = prepared
    memory, remembered = fresh(), list[Memory]()
    if place is not None:  # as this model noted it
        phase, done = place[:2]
        prepared, plain = cast(Prepared, place.prepared), cast(Prepared, place.plain)
        memory, remembered = (
            cast(list[Memory], list(kept)) for kept in (place.memory, place.remembered)
        )
        monitor.trace[:] = place.trace
    if phase == PROBE:
        for step in range(done, probe):
            plain = model.maximize(plain, sweep(model, plain))
            note(PROBE, step + 1, prepared)
        # What rows remember belongs to the parameters it was found with.
        phase, done, remembered, memory = STAGES, 0, memory, fresh()
    if phase == STAGES:
        for step, stage in enumerate(stages[done:], done):
            prepared = stage.maximize(prepared, sweep(stage, prepared))
            note(STAGES, step + 1, prepared)
            if monitor.late:
                break
        phase = RISE
    if phase == RISE:
        params = rise(RISE, prepared)
        # If the plain steps reached more, they go on instead.
        memory = remembered
        if not stages or monitor.spent:
            return params
        gain = model.bound(plain, sweep(model, plain)) - monitor.trace[-1]
        if gain <= max(monitor.tol, 0.0) * monitor.weight:
            return params
        monitor.begin_anew()
        prepared = plain
    return rise(RISE_PLAIN, prepared)
