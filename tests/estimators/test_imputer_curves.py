"""The quadratic regression of `PartsImputer`: curved dependence of numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import partwise
from partwise import PartsImputer
from partwise.estimators import _curves as curves
from partwise.estimators._curves import Curves
from partwise.models.quadratic_regression import QuadraticRegression


@pytest.fixture(scope="module")
def product():
    """A table with a product of two columns, the same with missing values, the fitted imputer."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1.0, 1.0, (2, 300))
    table = pd.DataFrame({"a": a, "b": b, "c": a * b + 0.05 * rng.standard_normal(300)})
    table["level"] = rng.choice(["x", "y", "z"], 300)
    holed = table.mask(rng.random(table.shape) < 0.2)
    return table, holed, PartsImputer(random_state=0).fit(holed)


def test_products_are_imputed_better(product):
    table, holed, imputer = product
    fits, blend = imputer._fitted
    rows = np.flatnonzero(holed["c"].isna() & holed[["a", "b"]].notna().all(axis=1))
    coded = np.asarray(fits[0].schema.encode(holed))
    true = table["c"].to_numpy()[rows]
    error = [
        np.sqrt(np.mean((one.asked(fits, coded, None).blended(2, rows) - true) ** 2))
        for one in (replace(blend, curves=None), blend)
    ]
    assert error[1] < 0.5 * error[0]
    assert_array_equal(blend.curves.targets, [0, 1, 2])


def test_intervals_become_narrower_and_cover(product):
    table, holed, imputer = product
    fits, blend = imputer._fitted
    missing = holed["c"].isna().to_numpy()
    coded = np.asarray(fits[0].schema.encode(holed))
    low, high = blend.asked(fits, coded, None).interval(0.1)
    inside = (low[:, 2] <= table["c"]) & (table["c"] <= high[:, 2])
    assert 0.65 < inside[missing].mean() < 0.95
    wide = replace(blend, curves=None).asked(fits, coded, None).interval(0.1)
    assert np.median((high - low)[missing, 2]) < 0.9 * np.median((wide[1] - wide[0])[missing, 2])


def test_distribution_and_value_agree(product):
    _, holed, imputer = product
    fits, blend = imputer._fitted
    answers = blend.asked(fits, np.asarray(fits[0].schema.encode(holed)), None)
    rows = np.flatnonzero(holed["c"].isna())
    spread = answers.spread(2, rows)
    at = np.linspace(-2.0, 2.0, 2001)
    below = np.stack([spread.below(np.full(len(rows), x)) for x in at])
    mean = (at[:-1, None] + 0.001 + 0 * below[:-1]) * np.diff(below, axis=0)
    assert_allclose(mean.sum(axis=0), answers.blended(2, rows), atol=0.01)


def test_files_hold_it(product, tmp_path):
    _, holed, imputer = product
    imputer.save(tmp_path / "imputer")
    again = partwise.load(tmp_path / "imputer")
    pd.testing.assert_frame_equal(again.transform(holed), imputer.transform(holed))


def fitted(X, missing):
    n, D = X.shape
    return Curves.fitted_to(X, missing, np.ones(n), np.arange(D), np.arange(D))


def test_tables_without_a_regression(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    missing = np.zeros(X.shape, bool)
    assert fitted(X, missing) is not None
    assert fitted(X[:, :1], missing[:, :1]) is None
    assert fitted(X[:19], missing[:19]) is None
    missing[19:, 0] = True
    assert_array_equal(fitted(X, missing).targets, [1, 2])
    monkeypatch.setattr(curves, "MOST_COLUMNS", 2)
    assert fitted(X, missing) is None


def test_weights_and_widths_are_those_of_held_out_cells():
    """The first column is predicted with half the error, the second not at all."""
    rng = np.random.default_rng(0)
    none = QuadraticRegression(*[np.empty(0)] * 6)
    found = Curves(none, np.array([4, 7]), np.ones(2), np.ones(2))
    plain = {d: rng.normal(size=2000) for d in (4, 7)}
    curved = {4: 0.5 * plain[4], 7: 3.0 * plain[7]}
    weight = {d: np.ones(2000) for d in (4, 7)}
    own = found.weighed(plain, curved, weight, 2)
    assert_array_equal(own.weight, [1.0, 0.0])
    assert_allclose(own.width, [0.5, 1.0])
    assert found.weighed(plain, {d: 3.0 * e for d, e in plain.items()}, weight, 2) is None
