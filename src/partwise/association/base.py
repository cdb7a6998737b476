"""What association methods are asked, and what they answer.

A row is a sum of features that are on or off (or take one of J values, the first of which adds
nothing). Which of them? The squared error of a code s, up to the row's own square, is
E(s) = s'Gs + h's with G = F'F and h = cost - 2 F'x, the paper's (7) with the diagonal of w/2 in G.
Every method gets a `Problem` for some rows and returns `Codes`. A method's random numbers are
sampled once and shared by all rows, so that a row's code does not depend on its company.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from partwise._compiled import check_sizes
from partwise.association import kernels
from partwise.contracts import Array, SumView


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows that are to be made of features.

    Parameters
    ----------
    features : ndarray of shape (A, D)
        What each feature, or each value but the first of each feature, adds; A = K (J - 1).
    residual : ndarray of shape (D, n)
        The rows without what is always there, 0 where missing.
    cost : ndarray of shape (A,)
        What it costs to take each.
    n_values : int
        J.
    masks : ndarray of shape (D, U) or None
        Patterns of missing entries, 1 where observed; None if nothing is missing (U = 1).
    pattern_of : ndarray of shape (n,) or None
        Each row's pattern; None if rows and patterns are the same, or if there is one pattern.
    incumbent : ndarray of shape (n, K) or None
        Codes that are known, to be bettered; only the exact search makes use of them.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.association import Problem, make_association
    >>> features = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> rows = np.array([[1.1, 0.1], [0.9, 2.2]])
    >>> make_association("exact").associate(Problem.complete(features, rows)).values
    array([[1, 0],
           [1, 1]])
    """

    features: Array
    residual: Array
    cost: Array
    n_values: int = 2
    masks: Array | None = None
    pattern_of: Array | None = None
    incumbent: Array | None = None

    @classmethod
    def complete(
        cls, features: Array, rows: Array, penalty: float = 0.0, n_values: int = 2
    ) -> Problem:
        """The problem of rows (n, D) without missing values, every feature costing the same."""
        return cls(features, rows.T, np.full(len(features), penalty), n_values)

    @classmethod
    def posed(
        cls,
        view: SumView,
        features: Array,
        origin: Array,
        cost: Array,
        n_values: int,
        scale: Array | None = None,
        incumbent: Array | None = None,
    ) -> Problem:
        """The problem of a view's rows, columns in units of ``scale``; values may be missing."""
        scale = np.ones(len(origin)) if scale is None else scale
        patterns = view.patterns
        masks = view.shown if patterns.pattern_of is None else patterns.masks
        residual = view.residual(origin, scale)
        return cls(
            features / scale, residual, cost, n_values, masks, patterns.pattern_of, incumbent
        )

    @property
    def squares(self) -> Array:
        """Squared error of rows with no feature on; (n,)."""
        return np.einsum("dn,dn->n", self.residual, self.residual)

    @property
    def n_rows(self) -> int:
        """n."""
        return self.residual.shape[1]

    @property
    def n_groups(self) -> int:
        """K, the number of features, each with its own values."""
        return len(self.features) // (self.n_values - 1)

    @cached_property
    def grams(self) -> Array:
        """G of every pattern; (U, A, A)."""
        F = self.features
        if self.masks is None:
            return (F @ F.T)[None]
        i, j = np.triu_indices(len(F))
        pairs = self.masks.T @ (F[i] * F[j]).T
        out = np.empty((self.masks.shape[1], len(F), len(F)))
        out[:, i, j] = out[:, j, i] = pairs
        return out

    @cached_property
    def of(self) -> Array:
        """Number of each row's pattern; (n,)."""
        if self.pattern_of is not None:
            return self.pattern_of
        if self.masks is None:
            return np.zeros(self.n_rows, np.int64)
        return np.arange(self.n_rows)

    @cached_property
    def linear(self) -> Array:
        """h; (n, A)."""
        return self.cost - 2.0 * (self.residual.T @ self.features.T)

    def energy(self, values: Array) -> Array:
        """E of a code for every row, (n, K) to (n,)."""
        check_sizes(features=(self.n_groups, values.shape[1]), rows=(self.n_rows, len(values)))
        if values.size and not 0 <= values.min() <= values.max() < self.n_values:
            raise ValueError(f"A code has a value outside 0 to {self.n_values - 1}.")
        return kernels.energies(self.grams, self.of, self.linear, values)

    @property
    def rounding(self) -> Array:
        """Energies nearer to each other than this are the same number; (n,)."""
        size = np.abs(self.linear).sum(axis=1) + np.abs(self.grams).sum(axis=(1, 2))[self.of]
        return 1e-12 * size


class Codes(NamedTuple):
    """Codes of rows, and how far they can be trusted."""

    values: Array  # value of each feature, (n, K)
    energy: Array  # E of the code, (n,)
    lower: Array  # no code has less, -inf where nothing is known, (n,)
    converged: Array  # whether the method came to its own end, (n,)

    @classmethod
    def unproven(cls, problem: Problem, values: Array, converged: Array | None = None) -> Codes:
        """Codes of a method that proves nothing."""
        n = problem.n_rows
        converged = np.ones(n, bool) if converged is None else converged
        return cls(values, problem.energy(values), np.full(n, -np.inf), converged)

    @classmethod
    def single(cls, problem: Problem, n_groups: int) -> Codes:
        """The only codes there are where no feature has a choice."""
        n = problem.n_rows
        return cls(np.zeros((n, n_groups), np.int64), np.zeros(n), np.zeros(n), np.ones(n, bool))


class Certificate(NamedTuple):
    """Errors of the codes of rows and their proven bounds, in the data's units."""

    proven: Array  # whether no code is better, up to rounding, (n,)
    gap: Array  # at most so far above the best, 0 where proven, (n,)
    error: Array  # squared error and penalty of the code, (n,)
    lower_bound: Array  # no code has less, (n,)


class Association(Protocol):
    """A way to find codes; ``most_values`` and ``most_features`` say what it can be asked."""

    most_values: ClassVar[int | None]
    most_features: ClassVar[int | None]

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows of a problem."""
        ...
