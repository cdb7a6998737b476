"""Kernels are kept between processes where that is possible, and work where it is not."""

import numba
import pytest

from partwise import _compiled


def double(x):
    return 2 * x


def test_kernels_are_kept():
    assert _compiled.compiled()(double)(3) == 6


def test_where_no_folder_can_be_written_kernels_work_and_that_is_said_once(monkeypatch):
    njit = numba.njit

    def nowhere(*, cache=False, **options):
        def decorate(function):
            if cache:  # as numba says it
                raise RuntimeError("cannot cache function 'double': no locator available")
            return njit(**options)(function)

        return decorate

    monkeypatch.setattr(numba, "njit", nowhere)
    _compiled._tell_once.cache_clear()
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR") as told:
        kernels = [_compiled.compiled()(double) for _ in range(2)]
    assert len(told) == 1
    assert [kernel(3) for kernel in kernels] == [6, 6]


def test_arrays_that_disagree_about_a_size_reach_no_kernel():
    _compiled.check_sizes(states=(3, 3), columns=(4, 4, 4))
    with pytest.raises(ValueError, match=r"^Arrays disagree about the number of columns: 4, 5\.$"):
        _compiled.check_sizes(states=(3, 3), columns=(4, 4, 5))
