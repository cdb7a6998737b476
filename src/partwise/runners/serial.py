"""One block after another in the calling thread."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from partwise.contracts import Source


def work(function: Callable[..., Any], source: Source, make: Callable[[], Any], *items: Any) -> Any:
    """``function`` of a block that is made for it alone."""
    block = make()
    found = function(block, *items)
    source.release(block)
    return found


class Serial:
    """Blocks in turn; matrix products use the threads that BLAS has."""

    def map(
        self, function: Callable[..., Any], source: Source, *arguments: Iterable[Any]
    ) -> Iterator[Any]:
        """``function(block, *items)`` in order."""
        for make, *items in zip(source.makers(), *arguments, strict=True):
            yield work(function, source, make, *items)

    def total(self, model: Any, prepared: Any, source: Source, memory: list[Any]) -> Any:
        """Sums of all blocks, added in their order; what they remember is replaced."""

        def on_block(block: Any, kept: Any) -> tuple[Any, Any]:
            return model.expect(prepared, block, kept)

        def results() -> Iterator[Any]:
            for i, (kept, stats) in enumerate(self.map(on_block, source, memory)):
                memory[i] = kept if model.remembers else None
                yield stats

        found = results()
        first = next(found)
        return type(first).total(chain([first], found))

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *error: object) -> None:
        return None
