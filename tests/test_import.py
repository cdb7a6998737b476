"""`import partwise` is light, and its public names are there."""

import subprocess
import sys

import pytest

import partwise

HEAVY = ("sklearn", "numba", "matplotlib", "scipy")


def test_import_is_light():
    """A fresh interpreter, since this one has long imported everything."""
    code = f"import partwise, sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == []


@pytest.mark.parametrize("name", partwise.__all__)
def test_public_name_resolves(name):
    assert getattr(partwise, name) is not None
    assert name in dir(partwise)


def test_all_names_differ():
    assert len(set(partwise.__all__)) == len(partwise.__all__)


def test_unknown_name_is_the_usual_error():
    assert not hasattr(partwise, "no_such_name")
