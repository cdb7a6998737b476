"""Bayesian PCA: EM iterations against matrix products, mixtures against scikit-learn's."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from partwise import BayesianPCAMixture
from partwise_papers.bench import register
from partwise_papers.bench._sweep import of_directions, products_of_directions
from partwise_papers.bench._timing import best_ms
from partwise_papers.experiments.bayesian_pca import small_digits
from partwise_papers.registry import Array, Row

N_ROWS, N_COLUMNS, N_DIRECTIONS = 20_000, 784, 50


@register("bpca_sweep")
def bpca_sweep(progress: Callable[[str], None]) -> list[Row]:
    """An EM iteration of Bayesian PCA (20000x784, 50 directions) against its matrix products."""
    rng = np.random.default_rng(0)
    progress("drawing rows")
    X = rng.standard_normal((N_ROWS, N_DIRECTIONS)) @ rng.standard_normal((N_DIRECTIONS, N_COLUMNS))
    X += rng.standard_normal(X.shape)
    progress("sweeps")
    with of_directions(X, N_DIRECTIONS) as run:
        took = best_ms(partial(run.sweep, run.open))
        bare = best_ms(products_of_directions(run))
    return [
        {
            "rows": float(N_ROWS),
            "columns": float(N_COLUMNS),
            "directions": float(run.open.alpha.shape[1]),
            "sweep (ms)": took,
            "products (ms)": bare,
            "sweep / products": took / bare,
        }
    ]


def _seconds(make: Callable[[], Any], X: Array) -> tuple[float, Any]:
    begin_at = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make().fit(X)
    return time.process_time() - begin_at, model


@register("bpca_mixture")
def bpca_mixture(progress: Callable[[str], None]) -> list[Row]:
    """A mixture of one USPS digit (8x8) against BayesianGaussianMixture, full, 10 components.

    Processor time of the whole fit, and mean log density of the digit's test images; every digit.
    """
    X, y, T, truth = small_digits()
    _seconds(partial(BayesianPCAMixture, random_state=0), X[y == 0][:100])  # compiled loops load
    rows: list[Row] = []
    for c in range(10):
        progress(f"digit {c}")
        ours, model = _seconds(partial(BayesianPCAMixture, random_state=0), X[y == c])
        make = partial(BayesianGaussianMixture, n_components=10, random_state=0)
        theirs, peer = _seconds(make, X[y == c])
        own, others = model.score(T[truth == c]), float(peer.score(T[truth == c]))
        rows.append(
            {
                "digit": float(c),
                "fit (s)": ours,
                "BayesianGaussianMixture (s)": theirs,
                "BayesianGaussianMixture / fit": theirs / ours,
                "its sweeps": float(peer.n_iter_),
                "held-out log density": own,
                "BayesianGaussianMixture's": others,
                "components": float(model.n_components_),
            }
        )
    return rows
