"""How benchmarks measure: the best of several runs, memory above what was there before."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from partwise_papers.registry import Array


def best_ms(function: Callable[[], object], repeats: int = 7) -> float:
    """Shortest of several runs, in milliseconds."""
    shortest = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - begin)
    return 1e3 * shortest


def iteration_ms(estimator: Any, X: Array) -> float:
    """One iteration of an estimator of scikit-learn: what five more add to a fit."""

    def fit(n_iter: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            clone(estimator).set_params(max_iter=n_iter).fit(X)

    return (best_ms(partial(fit, 6), 2) - best_ms(partial(fit, 1), 2)) / 5


def peak_mb(function: Callable[[], object]) -> float:
    """Most memory that arrays made by a call take at one time, in MB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
