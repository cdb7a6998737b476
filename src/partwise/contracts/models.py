"""What the engine needs of a model, and both need of the source of blocks and of the runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from partwise.contracts.blocks import AnyBlock, AnyView, Block
from partwise.contracts.values import Array

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
