"""How benchmarks measure: the best of several runs, memory above what was there before."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable


def best_ms(function: Callable[[], object], repeats: int = 7) -> float:
    """Shortest of several runs, in milliseconds."""
    shortest = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - begin)
    return 1e3 * shortest


def peak_mb(function: Callable[[], object]) -> float:
    """Most memory that arrays made by a call take at one time, in MB."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
