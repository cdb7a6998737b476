"""One fit of a model that is not gated: its rows, limits, log and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from partwise.contracts import Array, DType, Params
from partwise.data import BlockSource
from partwise.engine import Monitor
from partwise.fitted import FitRecord
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.options import AscentOptions, Listen, TrainingRows
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Begun, ModelT, fit_best


class Known(TypedDict):
    """Fields of a `Fitted` that follow from rows and monitor."""

    n_columns: int
    dtype: DType
    record: FitRecord
    names: Array | None


@dataclass(frozen=True, eq=False)
class Ascent:
    """Rows to learn from, limits, the log that a checkpoint keeps, and callbacks.

    ``deadline`` is the value of ``time.monotonic()`` at which the fit has to end.
    """

    rows: TrainingRows
    options: AscentOptions
    log: FitLog
    listen: Listen
    deadline: float

    @property
    def n_jobs(self) -> int | None:
        """Number of threads."""
        return self.options.n_jobs

    def best(
        self,
        source: BlockSource,
        begin: Callable[[int, np.random.Generator], Begun[ModelT, Params]],
        rng: np.random.Generator,
        *,
        n_init: int | None = None,
        log: FitLog | None = None,
    ) -> tuple[Params, Monitor]:
        """Run EM from several starts and keep the best parameters and their monitor.

        ``begin(i, rng)`` returns the stages of start i and its first parameters. Steps that the log
        records as done are not repeated; a fit of several ascents passes a ``log`` for each.
        """
        options = self.options if n_init is None else replace(self.options, n_init=n_init)
        log = self.log if log is None else log
        with self.listen(self.rows.X) as listener:
            found = fit_best(source, begin, rng, options, log, listener, self.deadline)
        return found[1], found[2]

    def known(self, monitor: Monitor, *, unit: float = 1.0, shift: float = 0.0) -> Known:
        """What a `Fitted` takes from the rows and from the monitor of its ascent."""
        rows = self.rows
        record = recorded(monitor, float(rows.weight.sum()), unit=unit, shift=shift)
        return Known(n_columns=rows.X.shape[1], dtype=rows.X.dtype, record=record, names=rows.names)
