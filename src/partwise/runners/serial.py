"""One block after another in the calling thread."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar, cast

from partwise.contracts import (
    AnyView,
    Block,
    Memory,
    Model,
    OnBlock,
    Prepared,
    Result,
    Source,
    Total,
)

Params = TypeVar("Params")
View = TypeVar("View")


def work(
    function: OnBlock[Result],
    source: Source,
    make: Callable[[], Block[AnyView]],
    *items: object,
) -> Result:
    """``function`` of a block that is made for it alone."""
    block = make()
    found = function(block, *items)
    source.release(block)
    return found


class Serial:
    """Blocks in turn; matrix products use the threads that BLAS has."""

    def map(
        self, function: OnBlock[Result], source: Source, *arguments: Iterable[object]
    ) -> Iterator[Result]:
        """``function(block, *items)`` in order."""
        for make, *items in zip(source.makers(), *arguments, strict=True):
            yield work(function, source, make, *items)

    def total(
        self,
        model: Model[Params, Prepared, View, Memory, Total],
        prepared: Prepared,
        source: Source,
        memory: list[Memory],
    ) -> Total:
        """Sums of all blocks, added in their order; what they remember is replaced."""

        def on_block(block: Block[View], kept: Memory) -> tuple[Memory, Total]:
            return model.expect(prepared, block, kept)

        def results() -> Iterator[Total]:
            for i, (kept, stats) in enumerate(self.map(on_block, source, memory)):
                if model.remembers:
                    memory[i] = kept
                yield stats

        found = results()
        first = next(found)
        return cast(Total, type(first).total(chain([first], found)))

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *error: object) -> None:
        return None
