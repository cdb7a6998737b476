"""A large table of five kinds of columns with missing values: time and memory to fit and impute."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ
from partwise.datasets import make_survey
from partwise_papers.bench import register
from partwise_papers.registry import Row

N_ROWS, N_PARTS, N_STATES = 1_000_000, 5, 6


def _memory(name: str) -> float:
    """Gigabytes of this process, by the kernel's name for them; NaN where it tells nothing."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1e6


def _forget_peak() -> None:
    """Let the kernel count the peak from here on, where it can."""
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")


@register("table_big")
def table_big(progress: Callable[[str], None]) -> list[Row]:
    """A synthetic survey of 1M rows and 50 columns of five kinds, a fifth missing: fit, impute."""
    progress("make the survey")
    survey = make_survey(N_ROWS, n_parts=N_PARTS, missing=0.2, random_state=0)
    table, parts = survey.frame, survey.parts
    del survey
    gc.collect()
    rows: list[Row] = []
    model = MCVQ(N_PARTS, N_STATES, likelihood="auto", random_state=0)
    steps: dict[str, Callable[[], Any]] = {
        "fit": lambda: model.fit(table),
        "fill": lambda: model.impute(table),
    }
    for name, run in steps.items():
        progress(name)
        _forget_peak()
        begun, used = time.perf_counter(), time.process_time()
        done = run()
        rows.append(
            {
                "step": name,
                "seconds": time.perf_counter() - begun,
                "CPU seconds": time.process_time() - used,
                "peak GB, table included": _memory("VmHWM"),
            }
        )
        del done
    rows[0]["adjusted Rand"] = adjusted_rand_score(parts, model.parts_)
    rows[0]["sweeps"] = model.n_iter_
    return rows
