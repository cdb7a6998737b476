"""One sweep outside of a fit: the only module of this package that goes below the public names.

No estimator offers a single sweep, and the difference of two fits is too coarse to show that a
change costs a few per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from partwise.contracts import Packed, Stats
from partwise.data import BlockSource, learn_columns
from partwise.data.moved import MovingSource, canvas_columns
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.bayesian_pca import BayesianPCA, Broad, total
from partwise.models.canvas import StateCanvas
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.models.loadings import Relevant
from partwise.models.mcfa import MCFA, column_totals
from partwise.models.mcvq import MCVQ
from partwise.models.moving import REFRESH_EVERY, Moving
from partwise.models.transformations import Transformations
from partwise.runners import placed, runner_of
from partwise.starts import random_start
from partwise.starts.factors import random_loadings
from partwise.starts.principal import encoded_rows, isotropic, principal_start
from partwise_papers.registry import Array

__all__ = ["REFRESH_EVERY", "Sweep"]


class Sweep:
    """A model on rows, to be used as a context; blocks are made beforehand if they can be kept.

    Parameters
    ----------
    model : Model
    source : BlockSource
    params : tuple
        Parameters; of gated parts those with open gates.
    closed : tuple, default=None
        The same parameters with closed gates, where there are gates.
    """

    def __init__(self, model: Any, source: BlockSource, params: Any, closed: Any = None) -> None:
        self.model, self.source, self.open = model, source, model.begin(params)
        self.closed = None if closed is None else model.prepare(closed)
        self.runner = runner_of(None, source)

    def __enter__(self) -> Sweep:
        self.runner.__enter__()
        self.sums(self.open)  # makes the blocks, and compiles what is to be compiled
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.__exit__(*error)

    def sums(self, prepared: Any) -> Any:
        """E-step and sums over all blocks."""
        return self.runner.total(self.model, prepared, self.source, [None] * self.source.n_blocks)

    def sweep(self, prepared: Any) -> Any:
        """E-step, sums and M-step."""
        return self.model.maximize(prepared, self.sums(prepared))


def of_states(X: Any, likelihood: str, n_states: tuple[int, ...], parts: Array) -> Sweep:
    """MCVQ from a random start, its columns in the given parts; on the cluster in use, if any."""
    X, prior, weight = placed(X), Prior(), np.ones(X.shape[0])
    columns = learn_columns(X, likelihood, weight, False, prior)
    source = BlockSource(X, columns, weight)
    model = MCVQ(
        n_states,
        tuple(group.entry_prior(prior) for group in columns),
        tuple(group.index for group in columns),
        Chooser(Tied(), Dirichlet(prior.gates), 0.0, columns[0].weight),
        Dirichlet(prior.states),
        ClassVariable(),
        X.dtype,
    )
    stats, gates = random_start(source, n_states, False, np.random.default_rng(0))
    gates = _nearly(parts, gates)
    params = model.start(stats, gates)
    return Sweep(model, source, params, _closed(params, gates))


def of_moving(X: Array, moves: Transformations, means: Array, parts: Array) -> Sweep:
    """MCVQ of a canvas with these states' means (K, J, D), its columns in the given parts."""
    prior, weight = Prior(), np.ones(len(X))
    (group,) = learn_columns(X, "gaussian", weight, False, prior)
    group = canvas_columns(group, X, weight, moves.maps, moves.n_canvas)
    source = MovingSource(X, (group,), weight, moves.maps)
    K, J, D = means.shape
    canvas = MCVQ(
        (J,) * K,
        (group.entry_prior(prior),),
        (group.index,),
        Chooser(Tied(), Dirichlet(prior.gates), 0.0, group.weight),
        Dirichlet(prior.states),
        ClassVariable(),
        X.dtype,
    )
    model = Moving(StateCanvas.of(canvas), moves, Dirichlet(prior.states))
    z = ((means.reshape(K * J, D) - group.shift) / group.scale).astype(float)
    rows = len(X) / J  # in every state
    sums = rows * np.stack([np.ones_like(z), z, z**2 + (0.7 / group.scale) ** 2])
    stats = Stats(0.0, np.full((1, K * J), rows), (Packed(np.zeros((3, J, 0)), sums),))
    gates = _nearly(parts, np.full((K, D), 1.0 / K))
    params = model.parameters(canvas.start(stats, gates), np.full(len(moves), len(X) / len(moves)))
    return Sweep(model, source, params, replace(params, canvas=_closed(params.canvas, gates)))


def of_factors(X: Array, n_factors: tuple[int, ...], parts: Array) -> Sweep:
    """MCFA from a random start, its columns in the given parts."""
    prior, weight = Prior(), np.ones(len(X))
    columns = learn_columns(X, "gaussian", weight, False, prior)
    source = BlockSource(X, columns, weight, n_powers=2)
    model = MCFA(
        n_factors,
        Relevant(prior.entries, prior.spread, prior.shape),
        Chooser(Tied(), Dirichlet(prior.gates), 0.0, columns[0].weight),
        ClassVariable(),
        prior.states,
        column_totals(source),
        X.dtype,
    )
    loadings, gates = random_loadings(source, n_factors, False, np.random.default_rng(0))
    gates = _nearly(parts, gates)
    params = model.start(loadings, gates)
    return Sweep(model, source, params, _closed(params, gates))


def of_directions(X: Array, n_directions: int) -> Sweep:
    """Bayesian PCA, begun from the principal directions."""
    weight = np.ones(len(X))
    (group,) = learn_columns(X, "gaussian", weight, False, None)
    source = BlockSource(X, (isotropic(group),), weight, n_powers=2)
    model = BayesianPCA(Broad(), Dirichlet(1.0), column_totals(source))
    one, rng = np.ones((1, len(X))), np.random.default_rng(0)
    mean, noise = principal_start(encoded_rows(source), weight, one, n_directions, rng)
    theta = model.start(mean, noise, one @ weight)
    return Sweep(model, source, model.maximize(theta, total(model, theta, source)))


def products_of_directions(run: Sweep) -> Callable[[], object]:
    """What every EM iteration of Bayesian PCA needs: W' t, then x x' and x t' summed over rows."""
    W = np.ascontiguousarray(run.open.mean[0, :, :-1].T)

    def on_block(block: Any) -> Array:
        t = block.groups[0].additive().x
        x = W @ t
        return np.concatenate([x @ x.T, (x @ t.T)], axis=1)

    return lambda: sum(run.runner.map(on_block, run.source))


def _nearly(parts: Array, gates: Array) -> Array:
    """Gates that have nearly decided for the given parts."""
    return 0.9 * (parts == np.arange(len(gates))[:, None]) + 0.1 * gates


def _closed(params: Any, gates: Array) -> Any:
    return replace(params, gate=replace(params.gate, g=np.rint(gates)))
