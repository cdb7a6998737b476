"""Compiled kernels, kept between processes.

numba keeps what it compiled beside the source or, where that cannot be written, in the user's
cache folder (``NUMBA_CACHE_DIR`` names another). Where none can be written, kernels are compiled in
every process, and one warning says so. numba itself is imported when the first kernel is called:
its import and the first kernel take half a second, and small data need neither.

Kernels index without checks. Every index is therefore a loop over the shape of an array, or
rests on three facts: columns of stored entries are below D (`partwise.data` checks sparse input),
codes of levels are below their number (`ColumnGroup.encode` makes them), and arrays of parameters
have the shapes of the columns (model files are checked when read). Where arrays of parameters and
of data meet, the caller states the sizes that must agree with `check_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from partwise._warnings import warn

if TYPE_CHECKING:
    from numba.core.types import Dispatcher

Function = TypeVar("Function", bound=Callable[..., object])

_LOCK = RLock()

# Up to this many cells numpy takes less than a millisecond.
FEW_CELLS = 1 << 14


def compiled(*, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function of arrays when it is first called; ``fastmath`` as in numba.njit."""

    def decorate(function: Function) -> Function:
        return cast(Function, Kernel(function, fastmath))

    return decorate


def is_few(n_cells: int) -> bool:
    """Whether numpy should do a kernel's work, for a process that has used no kernel so far."""
    return n_cells <= FEW_CELLS and not Kernel.used


class Kernel:
    """A function that numba compiles when it is first called, by Python or by another kernel."""

    used: ClassVar[bool] = False  # any kernel, in this process

    def __init__(self, function: Callable[..., object], fastmath: bool | set[str]) -> None:
        update_wrapper(self, function)
        self._function, self._fastmath = function, fastmath
        self._dispatcher: Callable[..., object] | None = None

    def __call__(self, *args: object, **kwargs: object) -> object:
        return (self._dispatcher or self._dispatch())(*args, **kwargs)

    @property
    def is_used(self) -> bool:
        """Whether it was compiled, or read from the cache, for some types."""
        return bool(getattr(self._dispatcher, "signatures", ()))

    @property
    def _numba_type_(self) -> Dispatcher:
        """Asked by numba where one kernel calls another."""
        return self._dispatch()._numba_type_  # type: ignore[attr-defined]  # numba's own protocol

    def _dispatch(self) -> Callable[..., object]:
        """What numba made of the function; threads must not make it twice."""
        with _LOCK:
            if self._dispatcher is None:
                import numba

                Kernel.used = True

                try:
                    made = numba.njit(nogil=True, cache=True, fastmath=self._fastmath)
                    self._dispatcher = made(self._function)
                except RuntimeError:  # there is no folder to keep it in
                    _tell_once()
                    made = numba.njit(nogil=True, fastmath=self._fastmath)
                    self._dispatcher = made(self._function)
            return self._dispatcher

    def __reduce__(self) -> str:
        return self._function.__qualname__  # found again in its module


def check_sizes(**sizes: tuple[int, ...]) -> None:
    """Refuse arrays for a kernel that disagree about a size; a kernel checks no index itself.

    Parameters
    ----------
    **sizes : tuple of int
        By the name of what is counted: its number according to each of the arrays.

    Examples
    --------
    >>> from partwise._compiled import check_sizes
    >>> check_sizes(aspects=(3, 3, 3))
    >>> check_sizes(aspects=(3, 4))
    Traceback (most recent call last):
    ...
    ValueError: Arrays disagree about the number of aspects: 3, 4.
    """
    for name, found in sizes.items():
        if len(set(found)) > 1:
            shown = ", ".join(str(size) for size in dict.fromkeys(found))
            raise ValueError(f"Arrays disagree about the number of {name}: {shown}.")


@cache
def _tell_once() -> None:
    warn(
        "Compiled code cannot be kept: neither the package's folder nor the user's cache folder "
        "can be written, so every process compiles it again; set NUMBA_CACHE_DIR to a folder that "
        "can."
    )
