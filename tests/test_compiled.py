"""Kernels are kept between processes where that is possible, and work where it is not."""

import pickle
import subprocess
import sys

import numba
import pytest

from partwise import _compiled
from partwise.data import kernels


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
    kernels = [_compiled.compiled()(double) for _ in range(2)]
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR") as told:
        assert [kernel(3) for kernel in kernels] == [6, 6]
    assert len(told) == 1


def test_a_kernel_that_is_sent_is_found_again():
    assert pickle.loads(pickle.dumps(kernels.encode_numbers)) is kernels.encode_numbers


@pytest.mark.ci
def test_answers_to_few_rows_need_no_compiler(tmp_path):
    """A fresh interpreter, since this one has long imported everything."""
    import numpy as np

    from partwise import MCVQ

    path = tmp_path / "model.safetensors"
    X = np.random.default_rng(0).normal(size=(60, 4))
    MCVQ(2, 2, max_iter=3, random_state=0).fit(X).save(path)
    code = (
        "import sys, numpy as np, partwise; model = partwise.load(sys.argv[1]); "
        "model.impute(np.full((3, 4), np.nan)); "
        "print(*[m for m in ('numba', 'sklearn.cluster', 'sklearn.model_selection', 'matplotlib') "
        "if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []


def test_arrays_that_disagree_about_a_size_reach_no_kernel():
    _compiled.check_sizes(states=(3, 3), columns=(4, 4, 4))
    with pytest.raises(ValueError, match=r"^Arrays disagree about the number of columns: 4, 5\.$"):
        _compiled.check_sizes(states=(3, 3), columns=(4, 4, 5))


@pytest.mark.slow
def test_warm_up_needs_no_optional_package():
    """As in a container, whose image is built with it."""
    code = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "pandas" else find(name, *more)

from partwise.cli import app

app(["warm-up"])
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr
    assert "kernels of all estimators are compiled" in run.stdout
