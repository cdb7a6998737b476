"""Sweeps of Bayesian PCA against their bare products, and mixtures against scikit-learn's."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from partwise.contracts import Array
from partwise.data import RowSource, learn_columns
from partwise.estimators._bayesian_pca_base import begin
from partwise.estimators.bayesian_pca_mixture import BayesianPCAMixture
from partwise.likelihoods import Dirichlet
from partwise.models.bayesian_pca import BayesianPCA, Broad, Sums, Theta
from partwise.models.mcfa import column_totals
from partwise.runners import runner_for
from partwise.starts.principal import encoded_rows, isotropic
from partwise_papers.bench import register
from partwise_papers.bench._timing import best_ms
from partwise_papers.experiments.bayesian_pca import small_digits
from partwise_papers.registry import Row

N_ROWS, N_COLUMNS, N_DIRECTIONS = 20_000, 784, 50


class Sweep:
    """Bayesian PCA on data in memory, its blocks made beforehand."""

    def __init__(self, X: Array, q: int, runner: Any) -> None:
        weight = np.ones(len(X))
        (group,) = learn_columns(X, "gaussian", weight, False, None)
        self.source = RowSource(X, (isotropic(group),), weight, n_powers=2)
        self.runner = runner
        self.model = BayesianPCA(Broad(), Dirichlet(1.0), column_totals(self.source))
        Z, alone = encoded_rows(self.source), np.ones((1, len(X)))
        rng = np.random.default_rng(0)
        self.theta = begin(self.model, self.source, Z, weight, alone, q, rng)

    def sweep(self) -> Theta:
        """E-step, sums and M-step."""

        def on_block(block: Any) -> Any:
            return self.model.expect(self.theta, block, None)[1]

        stats = Sums.total(self.runner.map(on_block, self.source))
        return self.model.maximise(self.theta, stats)

    def products(self) -> None:
        """What no sweep can do without: W' t, then x x' and x t' summed over rows."""
        W = np.ascontiguousarray(self.theta.mean[0, :, :-1].T)

        def on_block(block: Any) -> Array:
            t = block.groups[0].additive().x
            x = W @ t
            return np.concatenate([x @ x.T, (x @ t.T)], axis=1)

        sum(self.runner.map(on_block, self.source))


@register("bpca_sweep")
def bpca_sweep(progress: Callable[[str], None]) -> list[Row]:
    """A sweep of Bayesian PCA (20000x784, 50 directions) against its bare matrix products."""
    rng = np.random.default_rng(0)
    progress("drawing rows")
    X = rng.standard_normal((N_ROWS, N_DIRECTIONS)) @ rng.standard_normal((N_DIRECTIONS, N_COLUMNS))
    X += rng.standard_normal(X.shape)
    with runner_for(None, 1000) as runner:
        run = Sweep(X, N_DIRECTIONS, runner)
        progress("sweeps")
        run.sweep()
        took, bare = best_ms(run.sweep), best_ms(run.products)
    return [
        {
            "rows": float(N_ROWS),
            "columns": float(N_COLUMNS),
            "directions": float(run.theta.alpha.shape[1]),
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
