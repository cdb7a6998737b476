"""Belief revision: the messages of belief propagation without noise (appendix B).

Messages start from min over s_j of (s_i w_ij s_j + h_j s_j); the paper prints h_i s_i.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from partwise.association import kernels
from partwise.association.base import Association, Codes, Problem
from partwise.association.mean_field import MeanField
from partwise.association.schedules import orders

# Sweeps after which messages that still move are taken to go round in circles.
MOST_SWEEPS = 100

# Change of a message, in units of the row's largest field, that counts as none.
AT_REST = 1e-9


@dataclass(frozen=True)
class BeliefRevision:
    """Association by belief revision, for features that are on or off.

    Parameters
    ----------
    seed : int
        Of the orders in which features are visited.
    fall_back : Association or None
        What to ask for rows whose messages do not come to rest; the better code is kept. None
        takes the best state that belief revision met.
    """

    seed: int = 0
    fall_back: Association | None = field(default_factory=MeanField)
    most_values: ClassVar[int | None] = 2
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows; ``converged`` where the messages came to rest."""
        visits = orders(MOST_SWEEPS, problem.n_groups, np.random.default_rng(self.seed))
        values, converged = kernels.revise(
            problem.grams, problem.of, problem.linear, visits, AT_REST
        )
        found = Codes.unproven(problem, values, converged)
        if self.fall_back is None or converged.all():
            return found
        other = self.fall_back.associate(problem)
        better = ~converged & (other.energy < found.energy)
        values = np.where(better[:, None], other.values, found.values)
        energy = np.where(better, other.energy, found.energy)
        return Codes(values, energy, found.lower, converged)
