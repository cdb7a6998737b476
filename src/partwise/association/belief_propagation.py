"""Belief propagation among features, while the noise falls (appendix A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.association import kernels
from partwise.association.base import Codes, Problem
from partwise.association.schedules import LEAST_SIGMA, halving, orders, precision

# Where the noise begins, as in the paper; its variance is halved after every sweep.
MOST_SIGMA = 0.1


@dataclass(frozen=True)
class BeliefPropagation:
    """Association by belief propagation, for features that are on or off.

    Parameters
    ----------
    seed : int
        Of the orders in which features are visited.
    """

    seed: int = 0
    most_values: ClassVar[int | None] = 2
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows: of the states met after each sweep, the best."""
        rng = np.random.default_rng(self.seed)
        sigma = halving(MOST_SIGMA, LEAST_SIGMA, np.sqrt(0.5))
        visits = orders(len(sigma), problem.n_groups, rng)
        values = kernels.propagate(
            problem.grams, problem.of, problem.linear, visits, precision(sigma)
        )
        return Codes.unproven(problem, values)
