"""Warnings of our own fail a test; those of dependencies only where `-W error` asks for it."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

DEPENDENCY = """
import warnings

def change(category):
    warnings.warn("a dependency changes", category, stacklevel=2)  # ascribed to its caller

def inside(category):
    warnings.warn("a dependency warns", category, stacklevel=1)
"""

TESTS = """
import warnings

import dependency
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning


class Announcement(DeprecationWarning):  # as many libraries have one
    pass


changes = [
    DeprecationWarning,
    Announcement,
    PendingDeprecationWarning,
    FutureWarning,
    np.exceptions.VisibleDeprecationWarning,
]


@pytest.mark.parametrize("category", changes)
def test_dependency_change(category):
    dependency.change(category)


@pytest.mark.parametrize("category", [*changes, UserWarning, RuntimeWarning, ImportWarning])
def test_dependency_inside(category):
    dependency.inside(category)


def test_dependency_unclosed():
    warnings.warn_explicit("unclosed", ResourceWarning, "f.py", 1, module="partwise.files.model")


@pytest.mark.parametrize("module", ["partwise.files.model", "partwise_papers.pages", __name__])
@pytest.mark.parametrize("category", [UserWarning, RuntimeWarning, ConvergenceWarning])
def test_own(module, category):
    warnings.warn_explicit("ours", category, "ours.py", 1, module=module)


def test_own_fit_in_a_pipeline():
    warnings.warn_explicit("ours", ConvergenceWarning, "theirs.py", 1, module="sklearn.pipeline")


def test_own_overflow():
    np.float64(1e300) * np.float64(1e300)
"""


@pytest.mark.parametrize("options", ["", pytest.param("-W error", marks=pytest.mark.slow)])
@pytest.mark.ci
def test_own_warnings_fail_and_those_of_dependencies_where_asked_for(tmp_path, options):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "dependency.py").write_text(DEPENDENCY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "--junitxml=results.xml", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": options},
        capture_output=True,
        text=True,
    )
    cases = ET.parse(tmp_path / "results.xml").findall(".//testcase")
    assert len(cases) > 20, run.stdout
    for case in cases:
        fails = case.attrib["name"].startswith("test_own") or options != ""
        assert (case.find("failure") is not None) == fails, f"{case.attrib['name']}\n{run.stdout}"
        assert case.find("error") is None, run.stdout
