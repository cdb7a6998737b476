"""Messages between features and columns: the graph of the paper's section 4.2, (31) to (37).

Directed belief propagation: (35) must read e^(-y^2/2) and e^(-i y f/sigma), with the product over
k != j. Gauss-Hermite nodes cannot follow a wave that turns more than half way between two of them,
so the noise stops falling at what they resolve; where features look alike, the marginals at that
noise say the same of all of them, and the codes are poor. Directed belief revision goes through the
states of the features that a column is connected with, and so is for sparse connections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.association import directed_kernels as kernels
from partwise.association.base import Codes, Problem
from partwise.contracts import Array

# Gauss-Hermite nodes; twice as many lower the least noise by a factor of 1.4 only.
N_NODES = 64

# Rounds of directed belief propagation, the noise falling as far as the nodes let it.
N_SWEEPS = 12

# Connections of a column whose states (2^14) can be gone through for every row and sweep.
MOST_CONNECTIONS = 14

# Rounds of directed belief revision, as few as trees of that size need and some for loops.
MOST_SWEEPS = 50

# Change of a message, in units of the row's largest square, that counts as none.
AT_REST = 1e-9


@dataclass(frozen=True)
class DirectedBeliefPropagation:
    """Association by belief propagation in the directed graph, for features on or off."""

    most_values: ClassVar[int | None] = 2
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows: of the states met after each sweep, the best."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
        half = nodes > 0  # the real part, which is all that is needed, is the same on both sides
        F = np.ascontiguousarray(problem.features.T, float)  # (D, K)
        x = np.ascontiguousarray(problem.residual.T, float)
        shown = _shown(problem)
        values = kernels.propagate(F, x, shown, problem.cost, nodes[half], weights[half], N_SWEEPS)
        return Codes.unproven(problem, values)


@dataclass(frozen=True)
class DirectedBeliefRevision:
    """Association by belief revision in the directed graph, for few connections a column."""

    most_values: ClassVar[int | None] = 2
    most_features: ClassVar[int | None] = MOST_CONNECTIONS

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows; ``converged`` where the messages came to rest."""
        F = np.ascontiguousarray(problem.features.T, float)  # (D, K)
        most = int((F != 0).sum(axis=1).max(initial=0))
        if most > MOST_CONNECTIONS:
            raise ValueError(
                f"A column is connected with {most} features, and directed belief revision goes "
                f"through all states of at most {MOST_CONNECTIONS}; choose another association."
            )
        x = np.ascontiguousarray(problem.residual.T, float)
        values, converged = kernels.revise(
            F, x, _shown(problem), problem.cost, MOST_SWEEPS, AT_REST
        )
        return Codes.unproven(problem, values, converged)


def _shown(problem: Problem) -> Array:
    """Which entries of the rows are observed; (n, D)."""
    if problem.masks is None:
        return np.ones(problem.residual.shape[::-1], bool)
    return np.ascontiguousarray((problem.masks > 0).T[problem.of])
