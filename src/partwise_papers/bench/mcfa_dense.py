"""Dense sweeps of MCFA, complete and with holes, against scikit-learn's FactorAnalysis."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from partwise.contracts import Array, Stats
from partwise.data import RowSource, learn_columns
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.models.loadings import Relevant
from partwise.models.mcfa import MCFA, Theta, column_totals
from partwise.runners import runner_for
from partwise.starts.factors import random_loadings
from partwise_papers.bench import register
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Row

N_ROWS, N_COLUMNS, N_PARTS, N_FACTORS = 20_000, 784, 6, 4


def planted(dtype: Any) -> tuple[Array, Array]:
    """Rows drawn from an MCFA with unit noise, and the columns' parts."""
    rng = np.random.default_rng(0)
    parts = np.arange(N_COLUMNS) % N_PARTS
    X = rng.standard_normal((N_ROWS, N_COLUMNS), dtype=dtype)
    for k in range(N_PARTS):
        own = np.flatnonzero(parts == k)
        loadings = rng.standard_normal((N_FACTORS, len(own)), dtype=dtype)
        X[:, own] += rng.standard_normal((N_ROWS, N_FACTORS), dtype=dtype) @ loadings
    return X, parts


class Sweep:
    """MCFA on data in memory, its blocks made beforehand, gates open and closed."""

    def __init__(self, X: Array, parts: Array, runner: Any) -> None:
        prior, weight = Prior(), np.ones(len(X))
        columns = learn_columns(X, "gaussian", weight, False, prior)
        self.source = RowSource(X, columns, weight, n_powers=2)
        self.runner = runner
        self.model = MCFA(
            (N_FACTORS,) * N_PARTS,
            Relevant(prior.entries, prior.spread, prior.shape),
            Chooser(Tied(), Dirichlet(prior.gates), 0.0, columns[0].weight),
            ClassVariable(),
            prior.states,
            column_totals(self.source),
            X.dtype,
        )
        rng = np.random.default_rng(0)
        loadings, gates = random_loadings(self.source, self.model.n_factors, False, rng)
        gates = 0.9 * (parts == np.arange(N_PARTS)[:, None]) + 0.1 * gates
        self.open = self.model.start(loadings, gates)
        closed = self.open._replace(gate=self.open.gate._replace(g=np.rint(gates)))
        self.closed = self.model.dress(closed, parts)

    def sweep(self, theta: Theta) -> Theta:
        """E-step, sums and M-step."""

        def on_block(block: Any) -> Stats:
            return self.model.expect(theta, block, None)[1]

        stats = Stats.total(self.runner.map(on_block, self.source))
        return self.model.maximise(theta, stats)


def _iteration_ms(X: Array, n_factors: int) -> float:
    """One iteration of FactorAnalysis: what five more add to a fit."""

    def fit(n_iter: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            FactorAnalysis(n_factors, max_iter=n_iter, tol=1e-30, random_state=0).fit(X)

    return (best_ms(partial(fit, 6), 2) - best_ms(partial(fit, 1), 2)) / 5


@register("mcfa_dense")
def mcfa_dense(progress: Callable[[str], None]) -> list[Row]:
    """A sweep of MCFA (20000x784, 6x4) against an iteration of FactorAnalysis with 24 factors."""
    rows: list[Row] = []
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        X, parts = planted(dtype)
        progress(f"{name}: FactorAnalysis")
        peer = _iteration_ms(X, N_PARTS * N_FACTORS)
        holed = X.copy()
        holed[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
        whole: dict[str, float] = {}
        for kind, data in (("complete", X), ("20 % missing", holed)):
            with runner_for(None, 1000) as runner:
                progress(f"{name}: sweeps, {kind}")
                run = Sweep(data, parts, runner)
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
