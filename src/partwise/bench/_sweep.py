"""One sweep of MCVQ outside of a fit, with gates open or closed."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.contracts import Array, Stats
from partwise.data import RowSource, learn_columns
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.models.mcvq import MCVQ, Theta
from partwise.starts import random_start


class Sweep:
    """A model on data in memory, its blocks made beforehand."""

    def __init__(
        self, X: Any, likelihood: str, n_states: tuple[int, ...], parts: Array, runner: Any
    ) -> None:
        prior, weight = Prior(), np.ones(X.shape[0])
        columns = learn_columns(X, likelihood, weight, False, prior)
        self.source = RowSource(X, columns, weight)
        self.runner = runner
        self.model = MCVQ(
            n_states,
            tuple(group.entry_prior(prior) for group in columns),
            tuple(group.index for group in columns),
            Chooser(Tied(), Dirichlet(prior.gates), 0.0, columns[0].weight),
            Dirichlet(prior.states),
            ClassVariable(),
            X.dtype,
        )
        stats, gates = random_start(self.source, n_states, False, np.random.default_rng(0))
        gates = 0.9 * (parts == np.arange(len(n_states))[:, None]) + 0.1 * gates
        undecided = np.full(X.shape[1], -1)
        self.open: Theta = self.model.dress(self.model.start(stats, gates), undecided)
        closed = self.open._replace(gate=self.open.gate._replace(g=np.rint(gates)))
        self.closed: Theta = self.model.dress(closed, parts)
        for block in self.source.blocks():
            block.collect(np.zeros((sum(n_states), block.n_rows), X.dtype), self.open.layouts)

    def sums(self, theta: Theta) -> Stats:
        """E-step and sums over all blocks."""

        def on_block(block: Any) -> Stats:
            return self.model.expect(theta, block, None)[1]

        return Stats.total(self.runner.map(on_block, self.source))

    def sweep(self, theta: Theta) -> Theta:
        """E-step, sums and M-step."""
        return self.model.maximise(theta, self.sums(theta))
