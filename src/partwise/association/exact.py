"""The best code of every row, with a proof.

Few codes are gone through by one matrix product. Many are searched as a sphere decoder does:
(s - 1/2)^2 is 1/4 for a bit whatever it is, so t (s - 1/2)^2 may be added to the error without
effect on which code is best. With it the error is |y - R s|^2 up to a constant, R triangular and
of full rank whatever the features; its squares are summed from the last feature to the first, and
a branch that has reached the best square known is left with all codes behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import linalg

from partwise.association import kernels
from partwise.association.base import Codes, Problem
from partwise.contracts import Array

# Nodes a row before the search gives up its proof.
MOST_NODES = 100_000

# Up to so many codes one product with all of them takes the search's place; its cost doubles with
# every feature, that of the search does not.
MOST_CODES = 256

# t in units of the features' mean square. Where features outnumber columns, less leaves the first
# that are decided without a square to tell their values apart by; more drowns what the data say.
MAX_COUNT = 2**62  # nodes of a search, whatever was asked for
RIDGE = 0.03


@dataclass(frozen=True)
class Exact:
    """Exact association.

    Parameters
    ----------
    max_nodes : int
        Nodes a row after which the best code so far is returned, with a lower bound.
    """

    max_nodes: int = MOST_NODES
    most_values: ClassVar[int | None] = None
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows; ``converged`` where they are proven."""
        K, n = problem.n_groups, problem.n_rows
        if K == 0 or n == 0:
            return Codes.single(problem, K)
        if len(problem.grams) == 1 and problem.n_values**K <= MOST_CODES:
            values = _enumerate(problem)
            energy = problem.energy(values)
            return Codes(values, energy, energy, np.ones(n, bool))
        return self._search(problem)

    def _search(self, problem: Problem) -> Codes:
        values = np.zeros((problem.n_rows, problem.n_groups), np.int64)
        if problem.incumbent is not None:
            values[:] = problem.incumbent
        # No feature saves more than the square of the row. Where the least cost exceeds it, no
        # feature is on, which squares of a large cost, as the search has them, would not tell.
        bare = problem.squares < problem.cost.min()
        values[bare] = 0
        energy, lower = problem.energy(values), np.full(problem.n_rows, np.inf)
        by_pattern = np.argsort(problem.of, kind="stable")
        ends = np.searchsorted(problem.of[by_pattern], np.arange(len(problem.grams) + 1))
        alone = _meets_none(problem)
        for u in range(len(problem.grams)):
            rows = by_pattern[ends[u] : ends[u + 1]]
            rows = rows[~bare[rows]]
            if len(rows):
                values[rows], lower[rows] = self._search_pattern(
                    problem, u, rows, values[rows], energy[rows], alone[u]
                )
        energy = problem.energy(values)
        proven = np.isinf(lower)
        lower = np.minimum(np.where(proven, energy, lower - problem.rounding), energy)
        return Codes(values, energy, lower, proven)

    def _search_pattern(
        self, problem: Problem, u: int, rows: Array, values: Array, energy: Array, alone: Array
    ) -> tuple[Array, Array]:
        """Codes of rows with one pattern, and a lower bound of their energy, inf where proven."""
        G, h, Q = problem.grams[u], problem.linear[rows], problem.n_values - 1
        met, rest = np.flatnonzero(~alone), 0.0
        if len(met) < len(alone):
            cost = _with_off((h + np.diag(G)).reshape(len(rows), -1, Q)[:, alone])
            before = np.take_along_axis(cost, values[:, alone][:, :, None], 2)
            energy = energy - before.sum(axis=(1, 2))  # of the features that meet others
            values[:, alone] = cost.argmin(axis=2)
            rest = cost.min(axis=2).sum(axis=1)
        if len(met) == 0:
            return values, np.full(len(rows), np.inf)
        atoms = (met[:, None] * Q + np.arange(Q)).ravel()
        t = RIDGE * np.diag(G)[atoms].mean()
        R, order = kernels.factorise(G[np.ix_(atoms, atoms)], t, Q)
        met = met[order]
        atoms = (met[:, None] * Q + np.arange(Q)).ravel()
        right = 0.5 * (t - h[:, atoms])
        Y = np.ascontiguousarray(linalg.solve_triangular(R, right.T, trans="T").T)
        square = np.einsum("na,na->n", Y, Y)
        code, best = np.ascontiguousarray(values[:, met]), energy + square
        # With fewer nodes than features no code would be reached; the kernel counts in 64 bits.
        n_nodes = min(max(self.max_nodes, len(met)), MAX_COUNT)
        bound, _ = kernels.search(R, Y, code, best, Q + 1, n_nodes)
        values[:, met] = code
        return values, np.where(bound < best, bound - square + rest, np.inf)


def _meets_none(problem: Problem) -> Array:
    """Features that overlap with no other, as one of nothing but zeros; by pattern, (U, K)."""
    K, Q = problem.n_groups, problem.n_values - 1
    blocks = (problem.grams != 0).reshape(-1, K, Q, K, Q).any(axis=(2, 4))
    blocks[:, np.arange(K), np.arange(K)] = False
    return ~blocks.any(axis=2)


def _with_off(cost: Array) -> Array:
    """Costs of all values of features, (n, K, Q) to (n, K, Q + 1): the first adds nothing."""
    return np.concatenate([np.zeros((*cost.shape[:2], 1)), cost], axis=2)


def all_codes(n_groups: int, n_values: int) -> Array:
    """Every code, the last feature changing fastest; (n_values^n_groups, n_groups)."""
    return np.indices((n_values,) * n_groups).reshape(n_groups, n_values**n_groups).T


def one_hot(values: Array, n_values: int) -> Array:
    """Which atoms codes (T, K) take, as numbers; (T, K (J - 1))."""
    taken = values[:, :, None] == np.arange(1, n_values)
    return taken.reshape(len(values), values.shape[1] * (n_values - 1)).astype(float)


def _enumerate(problem: Problem) -> Array:
    codes = all_codes(problem.n_groups, problem.n_values)
    atoms = one_hot(codes, problem.n_values)
    alone = np.einsum("ta,ta->t", atoms @ problem.grams[0], atoms)
    return codes[(problem.linear @ atoms.T + alone).argmin(axis=1)]
