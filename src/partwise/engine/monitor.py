"""Trace of the bound and the decision to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Monitor:
    """Follows one fit.

    Parameters
    ----------
    max_iter : int
        Most M-steps of an ascent.
    tol : float
        Stop when the bound rises by less than this per unit of row weight.
    weight : float
        Sum of the row weights.
    deadline : float
        Value of ``time.monotonic()`` after which no further step is taken.
    window : int
        Bounds averaged before they are compared; above 1 for noisy traces.
    on_step : callable, optional
        Called as ``on_step(n_iter, bound)`` with every bound of every ascent, in order; true ends
        the fit.
    enough : int, optional
        M-steps after which the fit counts as converged, whatever the bound does.
    halted : callable
        True once the fit should end.
    """

    max_iter: int
    tol: float
    weight: float
    deadline: float = float("inf")
    window: int = 1
    on_step: Callable[[int, float], bool | None] | None = None
    enough: int | None = None
    halted: Callable[[], bool] = bool
    trace: list[float] = field(default_factory=list)
    converged: bool = False
    out_of_time: bool = False
    interrupted: bool = False

    @property
    def n_iter(self) -> int:
        """M-steps taken since the trace began."""
        return max(len(self.trace) - 1, 0)

    @property
    def spent(self) -> bool:
        """Whether steps or time have run out, whatever the bound does."""
        return self.out_of_time or self.interrupted or self.n_iter >= self.max_iter

    @property
    def late(self) -> bool:
        """Whether time has run out, or an end was requested."""
        return self.halted() or time.monotonic() > self.deadline

    def restart(self) -> None:
        """Clear the trace for another ascent."""
        self.trace.clear()
        self.converged = False

    def stop(self, bound: float) -> bool:
        """Note a bound; say whether to stop."""
        self.trace.append(float(bound))
        if not np.isfinite(bound):
            raise FloatingPointError(
                "The lower bound is not finite; rescale the data or use the default prior."
            )
        if self.on_step is not None and self.on_step(self.n_iter, bound):
            self.interrupted = True
        self.interrupted |= self.halted()
        self.out_of_time = self.late and not self.interrupted
        w = self.window
        if len(self.trace) >= 2 * w:
            recent = np.mean(self.trace[-w:])
            before = np.mean(self.trace[-2 * w : -w])
            self.converged = bool(recent - before < self.tol * self.weight * w)
        if self.enough is not None and self.n_iter >= self.enough:
            self.converged = True
        return self.converged or self.spent
