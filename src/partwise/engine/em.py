"""The only EM loop."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol, Self, TypeVar, cast

from partwise.contracts import (
    Linked,
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

# Phases of a fit: probe, annealing stages, ascent, ascent from the probe if it reached more.
PROBE, STAGES, RISE, RISE_PLAIN = range(4)


class Place(NamedTuple):
    """State of a fit before a sweep; it determines all that follows."""

    phase: int
    step: int  # steps of the phase that are done, while they are counted
    prepared: object  # parameters to sweep with next
    plain: object  # what the probe reached
    memory: tuple[object, ...]  # what the rows of each block remember
    remembered: tuple[object, ...]  # the same with the plain parameters
    trace: tuple[float, ...]

    def with_memory(self, memory: tuple[object, ...], remembered: tuple[object, ...]) -> Self:
        """The same state with other copies of what the rows remember."""
        return self._replace(memory=memory, remembered=remembered)


class Log(Protocol):
    """Keeps places of a fit, so that another process can resume from the last one."""

    @property
    def place(self) -> Place | None:
        """Where to resume; None starts."""
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
    """Run EM until the monitor stops it.

    ``stages`` are models, such as those of annealing, that take one step each before the trace
    begins; their bounds differ from the model's. Stages may lose information of the start, so the
    result is compared with ``probe`` plain steps from the start. If those steps reached a higher
    bound, by at least ``tol``, a second ascent continues from them and is returned; the monitor
    ignores a rise below ``tol`` as well, and rounding would decide. Without stages there is one
    ascent.

    The monitor receives every bound of every ascent in order, so callbacks receive both ascents
    where there are two. ``monitor.trace``, and with it ``n_iter``, is the trace of the ascent that
    gave the returned parameters, and ``max_iter`` limits each ascent. If the monitor is spent, the
    second ascent is not started. Probe and stages have no bound and are not reported.

    The loop stops before a step, so that the last bound of the trace is that of the returned
    parameters; it continues if the last step took a short cut, after another E-step of the same
    parameters without one. With a ``log`` every place is noted, and a known fit is resumed.
    """

    check_needs(model, model.needs, source.views)

    def fresh() -> list[Memory]:
        return [model.fresh_memory(i) for i in range(source.n_blocks)]

    def sweep(model: Model[Params, Prepared, View, Memory, Total], prepared: Prepared) -> Total:
        if hasattr(model, "link"):  # isinstance asks a protocol for all of its names every time
            linked = cast(Linked, model)
            look = partial(linked.look, prepared)
            prepared = cast(Prepared, linked.link(prepared, runner.map(look, source)))
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
        monitor.restart()
        prepared = plain
    return rise(RISE_PLAIN, prepared)
