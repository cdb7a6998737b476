"""Which rows of a block miss the same entries, so that work on what is missing can be shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partwise.contracts import Array

# Patterns are worth telling apart only where at least so many rows share one, on average.
ROWS_A_PATTERN = 2


@dataclass(frozen=True, eq=False)
class Patterns:
    """Patterns of missing entries of a block's rows.

    ``pattern_of`` (n,) numbers each row's pattern, None if every row is its own (U = n); ``masks``
    (D, U) is 1 where a pattern shows a column, None if every row is its own or nothing is missing.
    """

    n_patterns: int
    pattern_of: Array | None
    masks: Array | None

    @classmethod
    def of(cls, mask: Array | None, n_rows: int) -> Patterns:
        """From a mask (D, n), None if nothing is missing."""
        if mask is None:
            return cls(1, np.zeros(n_rows, np.int64), None)
        bits = np.packbits(mask.T > 0, axis=1)
        rows = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
        _, first, pattern_of = np.unique(rows, return_index=True, return_inverse=True)
        if len(first) * ROWS_A_PATTERN > n_rows:
            return cls(n_rows, None, None)
        return cls(len(first), pattern_of, np.ascontiguousarray(mask[:, first]))

    def spread(self, values: Array) -> Array:
        """Values of patterns (Q, U) at their rows, (Q, n), or (Q, 1) if there is one pattern."""
        if self.pattern_of is None or self.n_patterns == 1:
            return values
        return values.take(self.pattern_of, axis=1)

    def gather(self, values: Array) -> Array:
        """Sums over the rows of each pattern, (Q, n) to (Q, U)."""
        if self.pattern_of is None:
            return values
        if self.n_patterns == 1:
            return values.sum(axis=1, keepdims=True, dtype=float).astype(values.dtype)
        order, starts = self._sorted
        return np.add.reduceat(values[:, order], starts, axis=1)

    @cached_property
    def _sorted(self) -> tuple[Array, Array]:
        """Rows by their pattern, (n,), and where each pattern's begin, (U,)."""
        assert self.pattern_of is not None
        order = np.argsort(self.pattern_of, kind="stable")
        return order, np.searchsorted(self.pattern_of[order], np.arange(self.n_patterns))
