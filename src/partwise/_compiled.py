"""Compiled kernels, kept between processes.

numba keeps what it compiled beside the source or, where that cannot be written, in the user's
cache folder (``NUMBA_CACHE_DIR`` names another). Where none can be written, kernels are compiled in
every process, and one warning says so.
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


@cache
def _tell_once() -> None:
    warn(
        "Compiled code cannot be kept: neither the package's folder nor the user's cache folder "
        "can be written, so every process compiles it again; set NUMBA_CACHE_DIR to a folder that "
        "can."
    )
