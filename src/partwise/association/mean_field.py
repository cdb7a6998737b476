"""Mean field: every feature's mean given the others', while the noise falls (appendix C)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.association import kernels
from partwise.association.base import Codes, Problem
from partwise.association.schedules import LEAST_SIGMA, halving, orders, precision

# Where the noise begins, as in the paper.
MOST_SIGMA = 100.0

# How far from equal shares the means begin: enough to break ties between equal features.
JITTER = 1e-3


@dataclass(frozen=True)
class MeanField:
    """Mean field association.

    Parameters
    ----------
    seed : int
        Of the orders in which features are visited.
    """

    seed: int = 0
    most_values: ClassVar[int | None] = None
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows."""
        rng = np.random.default_rng(self.seed)
        sigma = halving(MOST_SIGMA, LEAST_SIGMA)
        K, J = problem.n_groups, problem.n_values
        start = 1.0 / J + JITTER * rng.uniform(-1, 1, len(problem.features))
        visits = orders(len(sigma), K, rng)
        values = kernels.mean_field(
            problem.grams, problem.of, problem.linear, start, visits, precision(sigma), K
        )
        return Codes.unproven(problem, values)
