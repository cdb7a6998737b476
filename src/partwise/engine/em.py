"""The only EM loop."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from partwise.contracts import Model, Params, Prepared, Runner, Source
from partwise.engine.monitor import Monitor

# Where a climb may be: steps to be held against, warm-up stages, the climb from these, and the
# climb from the steps if they reached more.
PROBE, STAGES, RISE, RISE_PLAIN = range(4)


class Place(NamedTuple):
    """Where a climb stands before a sweep; all that comes after follows from it."""

    phase: int
    step: int  # steps of the phase that are done, while they are counted
    prepared: Any  # parameters to sweep with next
    plain: Any  # what the steps to be held against reached
    memory: tuple[Any, ...]  # what the rows of each block remember
    remembered: tuple[Any, ...]  # the same with the plain parameters
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
    model: Model[Params, Prepared],
    params: Params,
    source: Source,
    runner: Runner,
    monitor: Monitor,
    stages: Sequence[Model[Params, Prepared]] = (),
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

    def fresh() -> list[Any]:
        return [model.fresh_memory(i) for i in range(source.n_blocks)]

    def sweep(model: Model[Params, Prepared], prepared: Prepared) -> Any:
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
                    return prepared.params
                prepared, stats = thorough, sweep(model, thorough)
            prepared = model.maximise(prepared, stats)
            note(phase, 0, prepared)

    place = None if log is None else log.place
    phase, done, prepared = PROBE if stages else RISE, 0, model.begin(params)
    plain = prepared
    memory, remembered = fresh(), list[Any]()
    if place is not None:
        phase, done, prepared, plain = place[:4]
        memory, remembered = list(place.memory), list(place.remembered)
        monitor.trace[:] = place.trace
    if phase == PROBE:
        for step in range(done, probe):
            plain = model.maximise(plain, sweep(model, plain))
            note(PROBE, step + 1, prepared)
        # What rows remember belongs to the parameters it was found with.
        phase, done, remembered, memory = STAGES, 0, memory, fresh()
    if phase == STAGES:
        for step, stage in enumerate(stages[done:], done):
            prepared = stage.maximise(prepared, sweep(stage, prepared))
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
