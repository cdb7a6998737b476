"""The reference has every public name, and names nothing that is not there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.common.helpers import assert_never_falls

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.rst"


def listed():
    """What the reference lists, as objects."""
    found, module = [], None
    for line in REFERENCE.read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = import_module(line.split()[-1])
        elif line.startswith("   ") and not line.strip().startswith(":"):
            found.append(getattr(module, line.strip()))
    return found


@pytest.mark.parametrize("name", ["partwise", "partwise.datasets", "partwise.plot"])
def test_reference_is_complete(name):
    module, known = import_module(name), listed()
    absent = [public for public in module.__all__ if getattr(module, public) not in known]
    assert absent == (["__version__"] if name == "partwise" else [])


def test_the_model_of_the_page_on_models_can_be_fitted():
    page = (REFERENCE.parent / "add_a_model.md").read_text("utf-8")
    there = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]:
        exec(code, there)
    assert_never_falls(there["monitor"].trace)
    assert there["params"].chi.shape == (3, 9, 121)
