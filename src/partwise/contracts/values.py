"""Values that pieces exchange: where states and columns stand, sums over rows, and entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DType: TypeAlias = np.dtype[Any]
Span: TypeAlias = "slice[int, int, None]"  # of rows, states or columns


@dataclass(frozen=True, eq=False)
class Layout:
    """How the columns of a group are divided among parts, as far as that is decided.

    Parameters
    ----------
    parts : ndarray of shape (D,)
        Part of each decided column, -1 where several parts still share it.
    n_states : tuple of K int
        Number of states of each part.
    """

    parts: Array
    n_states: tuple[int, ...]

    def divided(self, parts: Array) -> Layout:
        """The same columns and states for other parts of the columns (D,)."""
        return self if np.array_equal(self.parts, parts) else Layout(parts, self.n_states)

    @cached_property
    def first(self) -> Array:
        """Number of the first state of each part, then S; shape (K + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_states)]).astype(np.int64)

    @cached_property
    def order(self) -> Array:
        """Columns sorted by part, undecided ones last; shape (D,)."""
        key = np.where(self.parts < 0, len(self.n_states), self.parts)
        return np.argsort(key, kind="stable")

    @cached_property
    def bounds(self) -> Array:
        """Where each part's columns begin in ``order``, then the undecided; shape (K + 2,)."""
        counts = np.bincount(
            np.where(self.parts < 0, len(self.n_states), self.parts),
            minlength=len(self.n_states) + 1,
        )
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def own_states(self) -> Array:
        """Number of state j of each decided column's part, -1 if it has fewer; shape (J, H)."""
        own = self.parts[self.decided]
        j = np.arange(max(self.n_states))[:, None]
        numbers = self.first[own][None, :] + j
        return np.where(j < np.asarray(self.n_states)[own][None, :], numbers, -1)

    @cached_property
    def decided(self) -> Array:
        """Decided columns in the order of ``order``; shape (H,)."""
        return self.order[: self.bounds[-2]]

    @cached_property
    def undecided(self) -> Array:
        """Undecided columns; shape (U,)."""
        return self.order[self.bounds[-2] :]

    def pack(self, full: Array) -> Packed:
        """Take from (P, S, D) what this layout needs; missing states become 0."""
        if len(self.decided) == 0:
            return Packed(np.zeros((len(full), max(self.n_states), 0)), full)
        states = self.own_states
        if full.strides[1] < full.strides[2]:  # the order of entries' sums: (P, D, S) in memory
            memory = full.transpose(0, 2, 1)
            at = self.decided[:, None] * memory.shape[2] + np.maximum(states.T, 0)
            own = memory.reshape(len(full), -1).take(at, axis=1).transpose(0, 2, 1)
            shared = memory.take(self.undecided, axis=1).transpose(0, 2, 1)
        else:
            at = np.maximum(states, 0) * full.shape[2] + self.decided
            own = full.reshape(len(full), -1).take(at, axis=1)
            shared = full.take(self.undecided, axis=2)
        own[:, states < 0] = 0.0
        return Packed(own, shared)

    def no_sums(self, n_statistics: int) -> Packed:
        """Sums of no rows."""
        own = n_statistics, max(self.n_states), len(self.decided)
        shared = n_statistics, self.first[-1], len(self.undecided)
        return Packed(np.zeros(own), np.zeros(shared))

    def unpack(self, packed: Packed, onto: Array) -> Array:
        """Put packed values over a copy of ``onto`` (P, S, D)."""
        if len(self.decided) == 0:
            return packed.shared
        full = onto.copy(order="K")
        h, j = np.nonzero(self.own_states.T >= 0)
        at = self.own_states[j, h], self.decided[h]
        for values, own in zip(full, packed.own, strict=True):
            values[at] = own[j, h]
        full[:, :, self.undecided] = packed.shared
        return full


class Packed(NamedTuple):
    """Values per statistic, state and column, without those of decided columns' other parts."""

    own: Array  # (P, J, H): decided columns, states of their own part
    shared: Array  # (P, S, U): undecided columns, all states


@dataclass(frozen=True, eq=False)
class Stats:
    """Sums over rows; they start at zero and add, and hold no prior.

    ``bound`` is the rows' share of the lower bound; ``states`` (N, S) the expected number of rows
    of each class in each state; ``sums`` one `Packed` per column group; ``gates`` (K, D) the
    expected number of entries each part explained, where rows select parts, else None;
    ``chain`` (N + 1, N) that of sequences begun in each class, then of transitions between classes,
    where rows follow each other, else None.
    """

    bound: float
    states: Array
    sums: tuple[Packed, ...]
    gates: Array | None = None
    chain: Array | None = None

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.bound + other.bound,
            self.states + other.states,
            tuple(
                Packed(a.own + b.own, a.shared + b.shared)
                for a, b in zip(self.sums, other.sums, strict=True)
            ),
            None if self.gates is None or other.gates is None else self.gates + other.gates,
            None if self.chain is None or other.chain is None else self.chain + other.chain,
        )

    @staticmethod
    def total(results: Iterable[Stats]) -> Stats:
        """Sum of all, in their order; the arrays of the first are used up to hold it."""
        bound, first = 0.0, None
        for stats in results:
            bound += stats.bound
            if first is None:
                first = stats
                continue
            for mine, others in zip(first.arrays(), stats.arrays(), strict=True):
                np.add(mine, others, out=mine)
        if first is None:
            raise ValueError("There are no blocks to sum over.")
        return replace(first, bound=bound)

    def scaled(self, factor: float) -> Stats:
        """All sums times a number."""
        return Stats(
            self.bound * factor,
            self.states * factor,
            tuple(Packed(p.own * factor, p.shared * factor) for p in self.sums),
            None if self.gates is None else self.gates * factor,
            None if self.chain is None else self.chain * factor,
        )

    def arrays(self) -> list[Array]:
        """All sums."""
        own = [array for array in (self.gates, self.chain) if array is not None]
        return [self.states, *own, *(array for packed in self.sums for array in packed)]


class EntryList(NamedTuple):
    """Observed entries row after row, encoded: row r has those from indptr[r] to indptr[r + 1]."""

    indptr: Array  # (n + 1,)
    columns: Array  # (E,)
    values: Array  # (E,)

    @property
    def rows(self) -> Array:
        """Row of each entry, (E,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
