"""What the pieces promise each other; imports nothing of ours.

A model is two pure functions on a block of rows and a parameter tuple: ``expect`` gives a posterior
and sums, ``maximise`` turns the total of the sums into new parameters. A runner maps ``expect``
over blocks and adds. A data view answers the linear questions of the model and hides how its
entries are stored. States of all parts are numbered in one row, part after part, so that parts may
have different numbers of states.

Shapes: n rows of a block, D columns, K parts, J the largest number of states of a part, S states in
all, N classes of rows, P sufficient statistics of a likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
        own = full[:, np.maximum(states, 0), self.decided[None, :]]
        own[:, states < 0] = 0.0
        return Packed(own, full[:, :, self.undecided])

    def unpack(self, packed: Packed, onto: Array) -> Array:
        """Put packed values over a copy of ``onto`` (P, S, D)."""
        if len(self.decided) == 0:
            return packed.shared
        full = onto.copy()
        states = self.own_states
        j, h = np.nonzero(states >= 0)
        full[:, states[j, h], self.decided[h]] = packed.own[:, j, h]
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
    of each class in each state; ``sums`` one `Packed` a column group; ``gates`` (K, D) the expected
    number of entries each part explained, where rows have selections of their own, else None.
    """

    bound: float
    states: Array
    sums: tuple[Packed, ...]
    gates: Array | None = None

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            self.bound + other.bound,
            self.states + other.states,
            tuple(
                Packed(a.own + b.own, a.shared + b.shared)
                for a, b in zip(self.sums, other.sums, strict=True)
            ),
            None if self.gates is None or other.gates is None else self.gates + other.gates,
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
            for mine, others in zip(first._arrays(), stats._arrays(), strict=True):
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
        )

    def _arrays(self) -> list[Array]:
        gates = [] if self.gates is None else [self.gates]
        return [self.states, *gates, *(array for packed in self.sums for array in packed)]


class Entries(NamedTuple):
    """Observed entries row after row, encoded: row r has those from indptr[r] to indptr[r + 1]."""

    indptr: Array  # (n + 1,)
    columns: Array  # (E,)
    values: Array  # (E,)

    @property
    def rows(self) -> Array:
        """Row of each entry, (E,)."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


class Block(Protocol):
    """Some rows, and the linear maps that a model needs of them."""

    n_rows: int
    dtype: np.dtype[Any]
    weight: Array  # (n,) row weights
    base: Array  # (n,) log base measure of the observed entries
    labels: Array | None  # (n,) known classes, -1 where unknown

    def score(self, weights: Sequence[Packed], layouts: Sequence[Layout]) -> Array:
        """Sum over observed columns of T(x) . weights; (S, n)."""
        ...

    def collect(self, m: Array, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Adjoint of `score`: sums over rows of m T(x), one `Packed` a group."""
        ...

    def sweep(
        self,
        weights: Sequence[Packed],
        layouts: Sequence[Layout],
        on_part: Callable[[int, Array], Array],
    ) -> tuple[Array, tuple[Packed, ...]]:
        """`score`, a posterior made of it, and `collect`, part by part."""
        ...


Params = TypeVar("Params")
Params_contra = TypeVar("Params_contra", contravariant=True)
Params_co = TypeVar("Params_co", covariant=True)


class HasParams(Protocol[Params_co]):
    """What blocks and M-steps need of parameters, with the parameters."""

    @property
    def params(self) -> Params_co:
        """What is learned and saved."""
        ...


Prepared = TypeVar("Prepared", bound=HasParams[Any])


class Model(Protocol[Params_contra, Prepared]):
    """What the engine needs of a model; ``remembers`` if rows keep something between sweeps.

    Parameters are what is learned and saved. What blocks and M-steps need of them besides is
    prepared: a step hands on what it has found out anyway, and may leave out what is as good as
    decided until a `thorough` sweep.
    """

    @property
    def remembers(self) -> bool:
        """Whether the first result of `expect` is handed to the next sweep."""
        ...

    def prepare(self, params: Params_contra) -> Prepared:
        """Parameters to infer rows with."""
        ...

    def begin(self, params: Params_contra) -> Prepared:
        """Parameters to begin to learn with."""
        ...

    def expect(self, prepared: Prepared, block: Any, memory: Any) -> tuple[Any, Any]:
        """Posterior of the rows (the next ``memory``) and their `Stats`."""
        ...

    def maximise(self, prepared: Prepared, stats: Any) -> Prepared:
        """Parameters that raise the bound given the sums, prepared."""
        ...

    def bound(self, prepared: Prepared, stats: Any) -> float:
        """Whole lower bound of the parameters, given the sums taken with them."""
        ...

    def thorough(self, prepared: Prepared) -> Prepared | None:
        """The parameters without short cuts, or None if the step that gave them took none."""
        ...

    def fresh_memory(self, index: int) -> Any:
        """What block ``index`` remembers before the first sweep."""
        ...


class Source(Protocol):
    """A walkable sequence of blocks; boundaries never depend on the runner."""

    n_blocks: int

    def blocks(self) -> Iterable[Any]:
        """The blocks, in order."""
        ...

    def release(self, block: Any) -> None:
        """Be told that a block that a maker made is used no more."""
        ...

    def makers(self) -> Iterable[Callable[[], Any]]:
        """What makes each block, in order: rows are read here, and encoded when it is called."""
        ...


class Runner(Protocol):
    """Maps functions over the blocks of a source, wherever they are."""

    def map(
        self, function: Callable[..., Any], source: Any, *arguments: Iterable[Any]
    ) -> Iterable[Any]:
        """``function(block, *items)``, an item of each argument, in the order of the blocks."""
        ...

    def total(self, model: Any, prepared: Any, source: Any, memory: list[Any]) -> Any:
        """Sums of all blocks; what they remember is replaced in ``memory``."""
        ...
