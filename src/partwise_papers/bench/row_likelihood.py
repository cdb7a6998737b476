"""Row likelihoods by importance sampling against a plain loop over the samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special
from sklearn.exceptions import ConvergenceWarning

from partwise import MCFA, MCVQ
from partwise_papers.bench import register
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Array, Row

N_ROWS, N_COLUMNS, N_DRAWS = 2000, 361, 100


def _rows() -> Array:
    """Numbers of which many columns stay between parts: what CBCL faces are in size."""
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((N_ROWS, 12)) @ rng.standard_normal((12, N_COLUMNS))
    return parts + rng.standard_normal((N_ROWS, N_COLUMNS))


def _loop_states(model: MCVQ, X: Array) -> Array:
    """Sample states from their posterior and weight them, one sample after another."""
    rng = np.random.default_rng(0)
    m, n_rows = model.transform(X), np.arange(len(X))
    log_a = np.log(np.maximum(model.gates_.T, 1e-300))  # (K, D)
    first = np.concatenate([[0], np.cumsum((model.state_priors_ > 0).sum(axis=1))])
    weights = []
    for _ in range(N_DRAWS):
        terms, log_weight = [], np.zeros(len(X))
        for k, (lo, hi) in enumerate(pairwise(first)):
            own = m[:, lo:hi]
            s = (own.cumsum(axis=1) < rng.random((len(X), 1))).sum(axis=1).clip(max=hi - lo - 1)
            log_weight += np.log(model.state_priors_[k, s]) - np.log(own[n_rows, s])
            mean, variance = model.means_[k, s], model.variances_[k, s]  # (n, D)
            density = -0.5 * (np.log(2 * np.pi * variance) + (X - mean) ** 2 / variance)
            terms.append(log_a[k] + density)
        weights.append(log_weight + special.logsumexp(terms, axis=0).sum(axis=1))
    return special.logsumexp(weights, axis=0) - np.log(N_DRAWS)


def _loop_factors(model: MCFA, X: Array) -> Array:
    """The same for factors, sampled around their posterior mean with a deviation of 0.3."""
    rng = np.random.default_rng(0)
    m = model.transform(X)
    K, _, J = model.loadings_.shape
    log_a = np.log(np.maximum(model.gates_.T, 1e-300))
    weights = []
    for _ in range(N_DRAWS):
        z = rng.standard_normal(m.shape)
        s = m + 0.3 * z
        log_weight = 0.5 * (z**2 - s**2).sum(axis=1) + m.shape[1] * np.log(0.3)
        terms = []
        for k in range(K):
            mean = s[:, k * J : (k + 1) * J] @ model.loadings_[k].T + model.offsets_[k]
            variance = model.noise_variance_[k]
            density = -0.5 * (np.log(2 * np.pi * variance) + (X - mean) ** 2 / variance)
            terms.append(log_a[k] + density)
        weights.append(log_weight + special.logsumexp(terms, axis=0).sum(axis=1))
    return special.logsumexp(weights, axis=0) - np.log(N_DRAWS)


@register("row_likelihood")
def row_likelihood(progress: Callable[[str], None]) -> list[Row]:
    """Likelihood of 2000 rows of 361 columns by 100 samples each, against a plain loop."""
    X = _rows()
    how: dict[str, Any] = {"gating": "standard", "init": "random", "max_iter": 5, "random_state": 0}
    rows: list[Row] = []
    pairs: list[tuple[Any, Callable[..., Array]]] = [
        (MCVQ(6, 10, **how), _loop_states),
        (MCFA(6, 4, **how), _loop_factors),
    ]
    for model, loop in pairs:
        name = type(model).__name__
        progress(f"{name}: fit")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X)
        model.row_likelihood(X[:50], n_draws=2)  # compiles what is compiled
        progress(f"{name}: samples")
        took = best_ms(partial(model.row_likelihood, X, N_DRAWS), 3)
        progress(f"{name}: loop over the samples")
        peer = best_ms(partial(loop, model, X), 1)
        n_open = int(np.sum(model.gates_.max(axis=1) < 1.0))
        rows.append(
            {
                "model": name,
                "open columns": n_open,
                "ours (ms)": took,
                "loop (ms)": peer,
                "loop / ours": peer / took,
            }
        )
    return rows
