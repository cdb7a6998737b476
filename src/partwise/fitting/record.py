"""The record of one fit."""

from __future__ import annotations

import numpy as np

from partwise.engine import Monitor
from partwise.fitted import FitRecord


def recorded(
    monitor: Monitor, weight: float, *, unit: float = 1.0, shift: float = 0.0
) -> FitRecord:
    """The record of EM iterations: ``unit`` times its trace, less ``shift``, per unit of weight."""
    trace = (np.asarray(monitor.trace) - shift) * unit / weight
    return FitRecord(trace, float(trace[-1]), monitor.n_iter, monitor.converged)
