"""Dense sweeps and fits of MCVQ against bare matrix products and scikit-learn's GaussianMixture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture

from partwise import MCVQ
from partwise_papers.bench import register
from partwise_papers.bench._sweep import of_states
from partwise_papers.bench._timing import best_ms, iteration_ms, peak_mb
from partwise_papers.registry import Array, Row

N_ROWS, N_COLUMNS, N_PARTS, N_STATES = 20_000, 784, 6, 10


def planted(n_rows: int, dtype: Any) -> tuple[Array, Array]:
    """Rows sampled from an MCVQ with deviation 0.7 about states N(0, 1), and the columns' parts."""
    rng = np.random.default_rng(0)
    parts = np.arange(N_COLUMNS) % N_PARTS
    means = rng.standard_normal((N_PARTS, N_STATES, N_COLUMNS)).astype(dtype)
    states = rng.integers(N_STATES, size=(n_rows, N_PARTS))
    X = rng.standard_normal((n_rows, N_COLUMNS), dtype=dtype)
    X *= dtype(0.7)
    for k in range(N_PARTS):
        own = np.flatnonzero(parts == k)
        X[:, own] += means[k][:, own][states[:, k]]
    return X, parts


def _four_products(X: Array, n_states: int) -> Callable[[], object]:
    """Score and collect of x and x^2 with nothing around them."""
    squares = X * X
    W = np.ones((n_states, X.shape[1]), X.dtype)
    m = np.ones((X.shape[0], n_states), X.dtype)
    return lambda: (X @ W.T, squares @ W.T, m.T @ X, m.T @ squares)


def _mixture_ms(X: Array, n_states: int) -> float:
    """E and M step of a diagonal GaussianMixture, k-means left out."""
    mixture = GaussianMixture(
        n_states, covariance_type="diag", tol=0.0, init_params="random_from_data", random_state=0,
        reg_covar=1e-3,
    )  # fmt: skip
    return iteration_ms(mixture, X)


@register("mcvq_dense")
def mcvq_dense(progress: Callable[[str], None]) -> list[Row]:
    """An EM iteration of MCVQ (20000x784, 6x10) against its four products and GaussianMixture."""
    rows: list[Row] = []
    n_states = (N_STATES,) * N_PARTS
    for dtype in (np.float32, np.float64):
        progress(f"{np.dtype(dtype).name}: products and mixture")
        X, parts = planted(N_ROWS, dtype)
        products = best_ms(_four_products(X, sum(n_states)))
        mixture = _mixture_ms(X, sum(n_states))
        progress(f"{np.dtype(dtype).name}: sweeps")
        with of_states(X, "gaussian", n_states, parts) as run:
            for gates, theta in (("open", run.open), ("closed", run.closed)):
                run.sweep(theta)
                took = best_ms(partial(run.sweep, theta))
                rows.append(
                    {
                        "dtype": np.dtype(dtype).name,
                        "gates": gates,
                        "sweep (ms)": took,
                        "four products (ms)": products,
                        "sweep / products": took / products,
                        "mixture sweep (ms)": mixture,
                        "mixture / sweep": mixture / took,
                    }
                )
    return rows


@register("mcvq_dense_rows")
def mcvq_dense_rows(progress: Callable[[str], None]) -> list[Row]:
    """Cost of an EM iteration by number of rows, gates undecided and one-hot."""
    n_states = (N_STATES,) * N_PARTS
    rows: list[Row] = []
    for n_rows in (5_000, 20_000, 80_000):
        progress(f"{n_rows} rows")
        X, parts = planted(n_rows, np.float32)
        with of_states(X, "gaussian", n_states, parts) as run:
            row: Row = {"rows": n_rows}
            for gates, theta in (("open", run.open), ("closed", run.closed)):
                run.sweep(theta)
                took = best_ms(partial(run.sums, theta), 5)
                row[f"{gates} (us a row)"] = 1e3 * took / n_rows
        rows.append(row)
    return rows


@register("mcvq_dense_fit")
def mcvq_dense_fit(progress: Callable[[str], None]) -> list[Row]:
    """A whole default fit, start included, against GaussianMixture's with 60 components."""
    rows: list[Row] = []
    for dtype in (np.float32, np.float64):
        X, _ = planted(N_ROWS, dtype)
        MCVQ(2, 2, random_state=0, max_iter=2, tol=1e9).fit(X[:200, :20])  # loads what is lazy
        progress(f"{np.dtype(dtype).name}: MCVQ")
        fit = partial(MCVQ(N_PARTS, N_STATES, random_state=0).fit, X)
        took = best_ms(fit, 1)
        progress(f"{np.dtype(dtype).name}: MCVQ again, for its memory")
        memory = peak_mb(fit)
        progress(f"{np.dtype(dtype).name}: GaussianMixture")
        mixture = GaussianMixture(N_PARTS * N_STATES, covariance_type="diag", random_state=0)
        peer = best_ms(partial(mixture.fit, X), 1)
        rows.append(
            {
                "dtype": np.dtype(dtype).name,
                "fit (s)": took / 1e3,
                "GaussianMixture (s)": peer / 1e3,
                "GaussianMixture / fit": peer / took,
                "memory beyond data (MB)": memory,
            }
        )
    return rows
