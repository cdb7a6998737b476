"""EM iterations of MCFA on dense data, complete or not, against scikit-learn's FactorAnalysis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import FactorAnalysis

from partwise_papers.bench import register
from partwise_papers.bench._sweep import of_factors
from partwise_papers.bench._timing import best_ms, iteration_ms
from partwise_papers.registry import Array, Row

N_ROWS, N_COLUMNS, N_PARTS, N_FACTORS = 20_000, 784, 6, 4


def planted(dtype: Any) -> tuple[Array, Array]:
    """Rows sampled from an MCFA with unit noise, and the columns' parts."""
    rng = np.random.default_rng(0)
    parts = np.arange(N_COLUMNS) % N_PARTS
    X = rng.standard_normal((N_ROWS, N_COLUMNS), dtype=dtype)
    for k in range(N_PARTS):
        own = np.flatnonzero(parts == k)
        loadings = rng.standard_normal((N_FACTORS, len(own)), dtype=dtype)
        X[:, own] += rng.standard_normal((N_ROWS, N_FACTORS), dtype=dtype) @ loadings
    return X, parts


@register("mcfa_dense")
def mcfa_dense(progress: Callable[[str], None]) -> list[Row]:
    """An EM iteration of MCFA (20000x784, 6x4) against FactorAnalysis with 24 factors."""
    rows: list[Row] = []
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        X, parts = planted(dtype)
        progress(f"{name}: FactorAnalysis")
        peer = iteration_ms(FactorAnalysis(N_PARTS * N_FACTORS, tol=1e-30, random_state=0), X)
        holed = X.copy()
        holed[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        whole: dict[str, float] = {}
        for kind, data in (("complete", X), ("20 % missing", holed)):
            progress(f"{name}: sweeps, {kind}")
            with of_factors(data, (N_FACTORS,) * N_PARTS, parts) as run:
                for gates, theta in (("open", run.open), ("closed", run.closed)):
                    run.sweep(theta)
                    took = best_ms(partial(run.sweep, theta))
                    whole.setdefault(gates, took)
                    rows.append(
                        {
                            "dtype": name,
                            "data": kind,
                            "gates": gates,
                            "sweep (ms)": took,
                            "FactorAnalysis (ms)": peer,
                            "FactorAnalysis / sweep": peer / took,
                            "sweep / complete": took / whole[gates],
                        }
                    )
    return rows
