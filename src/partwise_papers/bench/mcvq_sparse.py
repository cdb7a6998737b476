"""Sparse EM iterations of a categorical MCVQ against the same sums by scipy's sparse products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from partwise_papers.bench import register
from partwise_papers.bench._sweep import of_states
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Row

N_USERS, N_ITEMS, N_RATINGS, N_LEVELS = 6040, 3706, 1_000_000, 5
N_STATES = (12,) * 5


def ratings(n_ratings: int, n_users: int, dtype: Any) -> sparse.csr_array:
    """Ratings 1 to 5 at random cells, items popular by a power law as in MovieLens."""
    rng = np.random.default_rng(0)
    popularity = 1.0 / np.arange(10, 10 + N_ITEMS)
    item = rng.choice(N_ITEMS, int(1.35 * n_ratings), p=popularity / popularity.sum())
    cell = np.unique(rng.integers(n_users, size=len(item)) * N_ITEMS + item)
    cell = np.sort(rng.permutation(cell)[:n_ratings])
    value = rng.integers(1, N_LEVELS + 1, size=len(cell)).astype(dtype)
    return sparse.csr_array((value, (cell // N_ITEMS, cell % N_ITEMS)), (n_users, N_ITEMS))


def _scipy_sums(X: sparse.csr_array, n_states: int) -> tuple[Callable[[], object], ...]:
    """Score and collect as products with the indicator of (item, level)."""
    coo = X.tocoo()
    key = coo.col * N_LEVELS + coo.data.astype(int) - 1
    shape = (X.shape[0], X.shape[1] * N_LEVELS)
    indicator = sparse.csr_array((np.ones(X.nnz, X.dtype), (coo.row, key)), shape)
    transposed = sparse.csr_array(indicator.T)
    table = np.ones((shape[1], n_states), X.dtype)
    m = np.ones((X.shape[0], n_states), X.dtype)
    return lambda: indicator @ table, lambda: transposed @ m


@register("mcvq_sparse")
def mcvq_sparse(progress: Callable[[str], None]) -> list[Row]:
    """Sums of an EM iteration on 1M categorical ratings (6040x3706, 5x12) against scipy.

    Ours hold the softmax too; the M-step, which both would need, is shown beside.
    """
    rows: list[Row] = []
    parts = np.arange(N_ITEMS) % len(N_STATES)
    for dtype in (np.float32, np.float64):
        progress(np.dtype(dtype).name)
        X = ratings(N_RATINGS, N_USERS, dtype)
        score, collect = _scipy_sums(X, sum(N_STATES))
        peer = best_ms(score) + best_ms(collect)
        with of_states(X, "categorical", N_STATES, parts) as run:
            for gates, theta in (("open", run.open), ("closed", run.closed)):
                stats = run.sums(theta)
                took = best_ms(partial(run.sums, theta))
                step = best_ms(partial(run.model.maximize, theta, stats), 3)
                rows.append(
                    {
                        "dtype": np.dtype(dtype).name,
                        "gates": gates,
                        "ratings": float(X.nnz),
                        "sums (ms)": took,
                        "scipy sums (ms)": peer,
                        "scipy / ours": peer / took,
                        "M-step (ms)": step,
                    }
                )
    return rows


@register("mcvq_sparse_entries")
def mcvq_sparse_entries(progress: Callable[[str], None]) -> list[Row]:
    """Cost of the sums of an EM iteration by number of ratings."""
    rows: list[Row] = []
    parts = np.arange(N_ITEMS) % len(N_STATES)
    for times in (1, 2, 4):
        progress(f"{times} million ratings")
        X = ratings(N_RATINGS * times, N_USERS * times, np.float32)
        with of_states(X, "categorical", N_STATES, parts) as run:
            row: Row = {"ratings": float(X.nnz)}
            for gates, theta in (("open", run.open), ("closed", run.closed)):
                run.sums(theta)
                took = best_ms(partial(run.sums, theta), 5)
                row[f"{gates} (ns a rating)"] = 1e6 * took / X.nnz
        rows.append(row)
    return rows
