"""How benchmarks measure: the best of several runs, memory above what was there before."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable


def best_ms(function: Callable[[], object], repeats: int = 7) -> float:
    """Shortest of several runs, in milliseconds."""
    shortest = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        shortest = min(shortest, time.perf_counter() - begin)
    return 1e3 * shortest


def peak_mb() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
