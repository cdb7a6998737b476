"""What the pieces promise each other; imports nothing of ours.

A model is two pure functions on a block of rows and prepared parameters: ``expect`` gives a
posterior and sums, ``maximize`` turns the total of the sums into new parameters. A runner maps
``expect`` over blocks and adds. A block answers the linear questions of the model and hides how its
entries are stored; what else the views of its column groups can do are capabilities (`Pairs`,
`Selections`, `Additive`, `Entries`, `Latent`), of which a model names those it ``needs``. States of
all parts are numbered in one row, part after part, so that parts may have different numbers of
states.

Shapes: n rows of a block, D columns, K parts, J the largest number of states of a part, S states in
all, N classes of rows, P sufficient statistics of a likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

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
    of each class in each state; ``sums`` one `Packed` a column group; ``gates`` (K, D) the expected
    number of entries each part explained, where rows have selections of their own, else None;
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


# --- blocks and what the views of their column groups can do ---

# A view of a column group. Which capabilities it has hangs on how rows are stored, so this is
# checked when a fit begins (`check_needs`), not by types.
AnyView: TypeAlias = Any
# A block of a source, as a function that is mapped over them takes it.
AnyBlock: TypeAlias = Any

View_co = TypeVar("View_co", covariant=True)


class Block(Protocol[View_co]):
    """Some rows, the linear maps that every model needs of them, and a view per column group."""

    n_rows: int
    dtype: DType
    weight: Array  # (n,) row weights
    base: Array  # (n,) log base measure of the observed entries
    labels: Array | None  # (n,) known classes, -1 where unknown; or (n, N), see ClassVariable

    @property
    def groups(self) -> Sequence[View_co]:
        """Views of the column groups."""
        ...

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

    def with_values(self, values: Array) -> Self:
        """The same entries of one `Latent` group with other values, (nnz,)."""
        ...


class MissingPatterns(Protocol):
    """Which rows miss the same entries, in U patterns."""

    @property
    def n_patterns(self) -> int:
        """U."""
        ...

    @property
    def pattern_of(self) -> Array | None:
        """Pattern of each row, (n,); None if every row is its own."""
        ...

    @property
    def masks(self) -> Array | None:
        """1 where a pattern shows a column, (D, U)."""
        ...

    def spread(self, values: Array) -> Array:
        """Values of patterns (Q, U) at their rows, (Q, n), or (Q, 1) if there is one pattern."""
        ...

    def gather(self, values: Array) -> Array:
        """Sums over the rows of each pattern, (Q, n) to (Q, U)."""
        ...


class Pairs(Protocol):
    """Quadratic maps, for models with factors."""

    @property
    def patterns(self) -> MissingPatterns:
        """Which rows miss the same entries."""
        ...

    def pair_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over observed columns of weights (1, Q, D), for every pattern; (Q, U)."""
        ...

    def pair_sums(self, values: Array, layout: Layout) -> Packed:
        """Adjoint of `pair_score`."""
        ...

    def totals(self, weight: Array) -> Array:
        """Weighted sums of 1, x and x^2 over observed entries; (3, D)."""
        ...


class Selections(Protocol):
    """Maps of rows whose entries each select a part; E are a group's entries, as it stores them."""

    def spread(self, values: Array) -> Array:
        """Per-column values (K, D) at the entries, (K, E) or broadcastable to it."""
        ...

    def observed(self) -> Array:
        """1 where an entry is observed, broadcastable to (E,)."""
        ...

    def expected(self, m: Array, natural: Array, first: Array) -> Array:
        """Expected log density of every entry under each part's posterior; (K, E)."""
        ...

    def densities(self, natural: Array) -> Array:
        """T(x) . natural of every entry, for one state's natural parameters (P, D); (E,)."""
        ...

    def score_selected(self, natural: Array, G: Array, first: Array) -> Array:
        """As `Block.score`, every entry counted with its own weight in each part; (S, n)."""
        ...

    def collect_selected(self, m: Array, G: Array, first: Array) -> Packed:
        """Adjoint of `score_selected`, all columns undecided."""
        ...

    def sum_selected(self, G: Array, weight: Array) -> Array:
        """Weighted column sums of G (K, E); (K, D)."""
        ...

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (E,) over each row's observed entries; (n,)."""
        ...


class Entries(Protocol):
    """Entries one by one."""

    @property
    def zero_value(self) -> float | None:
        """Model units of an entry that is not stored, None if such entries are missing."""
        ...

    def entries(self, columns: Array, absent: bool = False) -> EntryList:
        """Observed entries of some columns; with ``absent`` also zeros that are not stored."""
        ...


class Latent(Pairs, Protocol):
    """Entries that tell where a latent number lies; `Block.with_values` puts numbers in place."""

    def codes(self) -> EntryList:
        """All observed entries, by the codes of their levels."""
        ...

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (E,) over each row's observed entries; (n,)."""
        ...


class Field(Protocol):
    """How the other parts' means weigh on a part's states, while posteriors change in place."""

    def field(self, part: Span) -> Array:
        """Sum over the other parts' states, for those of ``part``; (J, n). `changed` follows."""
        ...

    def changed(self, part: Span) -> None:
        """The posterior of ``part`` has changed, or has been looked at."""
        ...


class SumView(Protocol):
    """Rows as sums of what parts add: ``x`` (D, n), 0 where missing, ``shown`` 1 where not."""

    x: Array
    shown: Array | None

    @property
    def patterns(self) -> MissingPatterns:
        """Which rows miss the same entries."""
        ...

    def pieces(self, n_states: int) -> Iterable[tuple[Span, SumView]]:
        """Views of so many rows at a time that their `grams` need little memory."""
        ...

    def rows(self, rows: Span) -> SumView:
        """The view of some of the rows."""
        ...

    def residual(self, mean: Array, scale: Array) -> Array:
        """Rows less ``mean``, over ``scale``, both (D,), 0 where missing; (D, n)."""
        ...

    def project(self, linear: Array, constant: Array) -> Array:
        """Sum over observed columns of x linear + constant, both (S, D); (S, n)."""
        ...

    def squares(self, constant: Array, precision: Array) -> Array:
        """Sum over observed columns of constant + x^2 precision, both (D,); (n,)."""
        ...

    def couple(self, mu: Array, precision: Array, m: Array) -> Field:
        """How the other parts' means, averaged by m (S, n), weigh on a part's states."""
        ...

    def grams(self, mu: Array, precision: Array) -> Array:
        """Sum over observed columns of mu[s] precision mu[t]; (n, S, S), or (1, S, S) for all."""
        ...

    def second_moments(self, mean: Array, cov: Array, precision: Array, wide: Array) -> Array:
        """Sum over observed columns of precision mean mean' + wide cov per pattern; (U, p, p)."""
        ...

    def collect(self, m: Array, weight: Array) -> tuple[Array, Array]:
        """Sums over rows of weight m x, (S, D), and of weight m[s] m[t], (D or 1, S, S)."""
        ...

    def collect_moments(self, m: Array, weight: Array, cov: Array) -> Array:
        """Adjoint of `second_moments`; (D or 1, p, p)."""
        ...

    def collect_squares(self, weight: Array) -> tuple[Array, Array]:
        """Sums over observed rows of weight and of weight x^2; each (D,)."""
        ...


class Additive(Protocol):
    """The maps of models whose parts add up."""

    def additive(self) -> SumView:
        """Numbers as they are, and which of them are observed."""
        ...


# --- models ---

Params = TypeVar("Params")
Params_co = TypeVar("Params_co", covariant=True)
Params_contra = TypeVar("Params_contra", contravariant=True)
View_contra = TypeVar("View_contra", contravariant=True)
Memory = TypeVar("Memory")


class HasParams(Protocol[Params_co]):
    """What blocks and M-steps need of parameters, with the parameters."""

    @property
    def params(self) -> Params_co:
        """What is learned and saved."""
        ...


class Summable(Protocol):
    """Sums over rows; they start at zero and add, and hold no prior."""

    def __add__(self, other: Self) -> Self: ...

    @staticmethod
    def total(results: Iterable[Any]) -> Any:  # of its own kind, which no type can say here
        """Sum of all, in their order."""
        ...


Prepared = TypeVar("Prepared", bound=HasParams[object])
Total = TypeVar("Total", bound=Summable)


class Model(Protocol[Params_contra, Prepared, View_contra, Memory, Total]):
    """What the engine needs of a model.

    Parameters are what is learned and saved. What blocks and M-steps need of them besides is
    prepared: a step hands on what it has found out anyway, and may leave out what is as good as
    decided until a `thorough` sweep. ``needs`` are the capabilities of the blocks' views,
    ``remembers`` whether the first result of `expect` is handed to the next sweep.
    """

    needs: ClassVar[tuple[type, ...]]
    remembers: ClassVar[bool]

    def prepare(self, params: Params_contra) -> Prepared:
        """Parameters to infer rows with."""
        ...

    def begin(self, params: Params_contra) -> Prepared:
        """Parameters to begin to learn with."""
        ...

    def expect(
        self, prepared: Prepared, block: Block[View_contra], memory: Memory
    ) -> tuple[Memory, Total]:
        """Posterior of the rows (the next ``memory``) and their sums."""
        ...

    def maximize(self, prepared: Prepared, stats: Total) -> Prepared:
        """Parameters that raise the bound given the sums, prepared."""
        ...

    def bound(self, prepared: Prepared, stats: Total) -> float:
        """Whole lower bound of the parameters, given the sums taken with them."""
        ...

    def thorough(self, prepared: Prepared) -> Prepared | None:
        """The parameters without short cuts, or None if the step that gave them took none."""
        ...

    def fresh_memory(self, index: int) -> Memory:
        """What block ``index`` remembers before the first sweep."""
        ...


# A model of which it does not matter what it prepares, needs of blocks, remembers and sums.
AnyModel: TypeAlias = Model[Any, Any, Any, Any, Any]
AnyParams: TypeAlias = Any


@runtime_checkable
class Linked(Protocol):
    """A model whose rows depend on rows of other blocks, too: all are looked at before a sweep."""

    def look(self, prepared: AnyParams, block: AnyBlock) -> AnyParams:
        """What a block says to the others."""
        ...

    def link(self, prepared: AnyParams, looks: Iterable[AnyParams]) -> AnyParams:
        """The prepared parameters with what the blocks, in order, have said."""
        ...


Result = TypeVar("Result")


# ``function(block, *items)``
OnBlock: TypeAlias = Callable[..., Result]


class Source(Protocol):
    """A walkable sequence of blocks; boundaries never depend on the runner."""

    n_blocks: int

    @property
    def views(self) -> Sequence[type]:
        """Classes of the column groups' views, whose capabilities models may need."""
        ...

    def blocks(self) -> Iterable[Block[AnyView]]:
        """The blocks, in order."""
        ...

    def each(self, function: Callable[[AnyBlock], Result]) -> Iterable[Result]:
        """``function(block)`` of every block, in order, wherever they are."""
        ...

    def column_weight(self) -> Array:
        """Summed weight of the observed entries of every column, (D,)."""
        ...

    def release(self, block: AnyBlock) -> None:
        """Release a block after use, if one of `makers` made it."""
        ...

    def makers(self) -> Iterable[Callable[[], Block[AnyView]]]:
        """What makes each block, in order: rows are read here, and encoded when it is called."""
        ...


class Runner(Protocol):
    """Maps functions over the blocks of a source, wherever they are."""

    def map(
        self, function: OnBlock[Result], source: Source, *arguments: Iterable[object]
    ) -> Iterable[Result]:
        """``function(block, *items)``, an item of each argument, in the order of the blocks."""
        ...

    def total(
        self,
        model: Model[AnyParams, Prepared, AnyView, Memory, Total],
        prepared: Prepared,
        source: Source,
        memory: list[Memory],
    ) -> Total:
        """Sums of all blocks; what they remember is replaced in ``memory``."""
        ...


def check_needs(model: object, needs: Sequence[type], views: Sequence[type]) -> None:
    """Refuse blocks whose views lack what a model needs of them, and say what."""
    for view in views:
        for capability in needs:
            lacking = sorted(name for name in members(capability) if not hasattr(view, name))
            if lacking:
                raise TypeError(
                    f"{type(model).__name__} needs the capability {capability.__name__} of blocks, "
                    f"but {view.__name__} has no {', no '.join(lacking)}; store the rows in "
                    "another form, or choose another model."
                )


def members(capability: type) -> set[str]:
    """Names that a capability asks for."""
    protocols = [base for base in capability.__mro__ if getattr(base, "_is_protocol", False)]
    own = [name for base in protocols for name in (*vars(base), *base.__annotations__)]
    return {name for name in own if not name.startswith("_")}
