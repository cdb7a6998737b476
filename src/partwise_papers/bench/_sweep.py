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
    """A model on data, whose blocks are made beforehand if they can be kept."""

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
        self.sums(self.open)  # makes the blocks, and compiles what is to be compiled

    def sums(self, theta: Theta) -> Stats:
        """E-step and sums over all blocks."""

        return self.runner.total(self.model, theta, self.source, [None] * self.source.n_blocks)

    def sweep(self, theta: Theta) -> Theta:
        """E-step, sums and M-step."""
        return self.model.maximise(theta, self.sums(theta))
