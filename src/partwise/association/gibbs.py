"""Gibbs sampling while the noise falls; the best code met on the way is kept (appendix C.0.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.association import kernels
from partwise.association.base import Codes, Problem
from partwise.association.mean_field import MOST_SIGMA
from partwise.association.schedules import LEAST_SIGMA, halving, orders, precision

# Sweeps at each noise level: samples differ, means would repeat themselves.
SWEEPS_A_LEVEL = 4


@dataclass(frozen=True)
class Gibbs:
    """Association by Gibbs sampling.

    Parameters
    ----------
    seed : int
        Of the random numbers, which all rows share.
    """

    seed: int = 0
    most_values: ClassVar[int | None] = None
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows."""
        rng = np.random.default_rng(self.seed)
        sigma = np.repeat(halving(MOST_SIGMA, LEAST_SIGMA), SWEEPS_A_LEVEL)
        K, J = problem.n_groups, problem.n_values
        start = rng.integers(J, size=K)
        visits, uniforms = orders(len(sigma), K, rng), rng.random((len(sigma), K))
        values = kernels.gibbs(
            problem.grams, problem.of, problem.linear, start, visits, uniforms, precision(sigma)
        )
        return Codes.unproven(problem, values)
