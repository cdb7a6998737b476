"""EM iterations of rows under unknown shifts, against those of rows that stay in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from partwise import Translations
from partwise_papers.bench import register
from partwise_papers.bench._sweep import REFRESH_EVERY, of_moving, of_states
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Row

N_ROWS, SIDE, MOST_SHIFT, N_PARTS, N_STATES = 20_000, 28, 3, 6, 10


@register("moving_sweep")
def moving_sweep(progress: Callable[[str], None]) -> list[Row]:
    """An EM iteration of MCVQ 6x10 with 49 shifts of 20000 images of 28x28, against none."""
    moves = Translations((SIDE, SIDE), max_shift=MOST_SHIFT)
    rng = np.random.default_rng(0)
    (height, width), D = moves.canvas_shape, moves.n_canvas
    parts = (np.arange(D) // width) * N_PARTS // height  # bands
    means = rng.standard_normal((N_PARTS, N_STATES, D)).astype(np.float32)
    X = rng.standard_normal((N_ROWS, D), dtype=np.float32) * np.float32(0.7)
    for k in range(N_PARTS):
        own = np.flatnonzero(parts == k)
        X[:, own] += means[k][:, own][rng.integers(N_STATES, size=N_ROWS)]
    X = np.take_along_axis(X, moves.maps[rng.integers(len(moves), size=N_ROWS)], axis=1)
    n_states = (N_STATES,) * N_PARTS
    rows: list[Row] = []
    for gates in ("open", "closed"):
        progress(f"{gates} gates: rows in place")
        still = parts[moves.maps[len(moves) // 2]]
        with of_states(X, "gaussian", n_states, still) as run:
            prepared = run.open if gates == "open" else run.closed
            plain = best_ms(partial(run.sweep, prepared), 3)
        progress(f"{gates} gates: shifts")
        with of_moving(X, moves, means, parts) as run:
            prepared = run.open if gates == "open" else run.closed
            full = best_ms(partial(run.sums, prepared), 1)
            memory: list[object] = [None] * run.source.n_blocks
            run.runner.total(run.model, prepared, run.source, memory)
            assert prepared is not None
            few = replace(prepared, full=False)
            some = best_ms(partial(run.runner.total, run.model, few, run.source, memory), 1)
        cycle = (full + REFRESH_EVERY * some) / (1 + REFRESH_EVERY)
        rows.append(
            {
                "gates": gates,
                "in place (ms)": plain,
                "all shifts (ms)": full,
                "shifts that matter (ms)": some,
                "mean of an EM iteration (ms)": cycle,
                "mean / in place": cycle / plain,
            }
        )
    return rows
