"""Stages of a fit, and the best of several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a fit: its model, annealing, the monitor's window, and how it begins.

    ``annealing`` are the models to take one step with each before the trace begins. What they reach
    is compared with ``probe`` plain EM iterations. The stage ends after ``enough`` sweeps, where
    something else than the bound has determined how many are needed. ``enter`` turns the parameters
    of the stage before into those that this one begins with.
    """

    model: Any
    annealing: Sequence[Any] = ()
    window: int = 1
    probe: int = 3
    enter: Callable[[Any], Any] | None = None
    enough: int | None = None
