"""The reference has every public name, and names nothing that is not there."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris

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


@pytest.fixture(scope="module")
def page_on_models():
    page = (REFERENCE.parent / "add_a_model.md").read_text("utf-8")
    there = {"__name__": "page"}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, there)
    return there


def test_the_model_of_the_page_on_models_can_be_fitted(page_on_models):
    assert_never_falls(page_on_models["monitor"].trace)
    assert page_on_models["params"].chi.shape == (3, 9, 121)


def test_the_estimator_of_the_page_on_models_works(page_on_models, tmp_path):
    X = load_iris().data
    X[::7, 2] = np.nan
    made = page_on_models["MixtureModel"](3, random_state=0)
    model = made.fit(X, checkpoint=tmp_path / "fit.checkpoint")
    assert_never_falls(model.lower_bounds_)
    assert not list(tmp_path.iterdir())
    assert_allclose(model.transform(X).sum(axis=1), 1.0)
    assert np.isfinite(model.impute(X)).all()
    assert model.bic(X) < made.set_params(n_states=1).fit(X).bic(X)
    again = clone(made)
    again.__partwise_restore__(made.__partwise_state__())
    assert_allclose(again.score_samples(X), made.score_samples(X))
    assert set(made.set_output(transform="pandas").transform(X).columns) == {"state0"}
