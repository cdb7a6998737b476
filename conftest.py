"""What holds for every test and every example in a docstring."""

import os
import sys
from pathlib import Path

import pytest

TESTS = [Path(__file__).parent / name for name in ("tests", "tests_papers")]

# Set before numpy is imported: test workers share the cores, so BLAS keeps to one thread each.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def pytest_configure(config):
    """Add the filters of warnings whose categories load numpy, which has to wait for the above."""
    # A fit in a worker thread has no line of ours to warn at.
    config.addinivalue_line("filterwarnings", "error::sklearn.exceptions.ConvergenceWarning")
    # A UserWarning by its class, a deprecation by its meaning.
    config.addinivalue_line("filterwarnings", "default::numpy.exceptions.VisibleDeprecationWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples in docstrings where there are some: not in the tests themselves."""
    found = yield
    if any(folder in file_path.parents for folder in TESTS):
        # By its name: pytest does not export the class.
        return [each for each in found if type(each).__name__ != "DoctestModule"]
    return found


@pytest.fixture(autouse=True)
def _close_figures():
    """Close what was drawn: pyplot keeps all figures, and warns of twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
