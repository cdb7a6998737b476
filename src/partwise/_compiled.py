"""Compiled kernels, kept between processes.

numba keeps what it compiled beside the source or, where that cannot be written, in the user's
cache folder (``NUMBA_CACHE_DIR`` names another). Where none can be written, kernels are compiled in
every process, and one warning says so.

Kernels index without checks. Every index is therefore a loop over the shape of an array, or
rests on three facts: columns of stored entries are below D (`partwise.data` checks sparse input),
codes of levels are below their number (`ColumnGroup.encode` makes them), and arrays of parameters
have the shapes of the columns (model files are checked when read). Where arrays of parameters and
of data meet, the caller states the sizes that must agree with `check_sizes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

import numba

from partwise._warnings import warn

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(*, fastmath: bool | set[str] = False) -> Callable[[Function], Function]:
    """Compile a function of arrays when it is first called; ``fastmath`` as in numba.njit."""

    def decorate(function: Function) -> Function:
        try:
            kernel = numba.njit(nogil=True, cache=True, fastmath=fastmath)(function)
        except RuntimeError:  # there is no folder to keep it in
            _tell_once()
            kernel = numba.njit(nogil=True, fastmath=fastmath)(function)
        return cast(Function, kernel)

    return decorate


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
