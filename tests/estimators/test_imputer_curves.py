"""The regressions of `PartsImputer` on all other columns: curved dependence."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import partwise
from partwise import PartsImputer
from partwise.fitting import curves
from partwise.fitting.curves import Codes, Curves, LevelCurves, NumberCurves, Rows
from partwise.models.level_regression import LevelRegression
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
    assert_array_equal(blend.curves.numbers.columns, [0, 1, 2])


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


@pytest.fixture(scope="module")
def parity():
    """Levels that follow the product of two columns, and both of which a third one follows."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1.0, 1.0, (2, 400))
    level = np.where(a * b + 0.02 * rng.standard_normal(400) > 0, "up", "down")
    level[np.hypot(a, b) < 0.4] = "middle"
    table = pd.DataFrame({"a": a, "b": b, "level": level})
    table["order"] = np.digitize(a + b + 0.1 * rng.standard_normal(400), [-0.7, 0.0, 0.7])
    holed = table.mask(rng.random(table.shape) < 0.2)
    return table, holed, PartsImputer(random_state=0).fit(holed)


def test_levels_that_follow_products(parity):
    table, holed, imputer = parity
    fits, blend = imputer._fitted
    coded = np.asarray(fits[0].schema.encode(holed))
    rows = np.flatnonzero(holed["level"].isna() & holed[["a", "b"]].notna().all(axis=1))
    true = np.searchsorted(imputer.model_.column_levels_["level"], table["level"].to_numpy()[rows])
    score = [
        np.log(one.asked(fits, coded, None).shares()[2][rows, true]).mean()
        for one in (replace(blend, curves=None), blend)
    ]
    assert score[1] > score[0] + 0.1
    assert 2 in blend.curves.levels.columns


@pytest.mark.ci
def test_all_answers_about_levels_are_of_one_distribution(parity, tmp_path):
    _, holed, imputer = parity
    shares = imputer.predict_proba_columns(holed)
    drawn = imputer.impute(holed, n_imputations=100, random_state=0)
    for name in ("level", "order"):
        rows = np.flatnonzero(holed[name].isna())
        own, levels = shares[name][rows], imputer.model_.column_levels_[name]
        assert_allclose(own.sum(axis=1), 1.0)
        often = np.mean([[one[name].iloc[rows] == v for v in levels] for one in drawn], axis=0).T
        assert np.abs(often - own).max() < 0.25
        assert np.abs((often - own).mean(axis=0)).max() < 0.03
    lower, upper = imputer.predict_interval(holed, 0.8)
    above = np.cumsum(own, axis=1)
    levels = np.array(levels)
    assert_array_equal(lower["order"].iloc[rows], levels[(above < 0.1).sum(axis=1)])
    assert_array_equal(upper["order"].iloc[rows], levels[(above < 0.9).sum(axis=1)])
    imputer.save(tmp_path / "imputer")
    again = partwise.load(tmp_path / "imputer")
    for one in (again, pickle.loads(pickle.dumps(imputer))):
        for name, own in one.predict_proba_columns(holed).items():
            assert_allclose(own, shares[name])


@pytest.mark.ci
def test_weights_of_levels_ignore_rows_without_weight(parity):
    _, holed, _ = parity
    noise = holed.assign(level=np.random.default_rng(0).permutation(holed["level"]))
    both, weight = pd.concat([holed, noise], ignore_index=True), np.repeat([1.0, 0.0], 400)
    blend = PartsImputer(random_state=0).fit(both, sample_weight=weight)._fitted.blend
    assert blend.curves.levels.weight[blend.curves.levels.columns == 2] > 0


NO_LEVELS = Codes(np.empty(0, int), np.empty((60, 0), int), np.empty(0, int))


def fitted(X, missing, codes=NO_LEVELS):
    (n, D), codes = X.shape, codes._replace(values=codes.values[: len(X)])
    rows = Rows(X, missing, np.ones(n), np.arange(D))
    return Curves.fitted_to(rows, np.arange(D), codes)


def test_tables_without_a_regression(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 3))
    missing = np.zeros(X.shape, bool)
    assert fitted(X, missing).levels is None
    assert fitted(X[:, :1], missing[:, :1]) is None
    assert fitted(X[:19], missing[:19]) is None
    missing[19:, 0] = True
    assert_array_equal(fitted(X, missing).numbers.columns, [1, 2])
    monkeypatch.setattr(curves, "MOST_COLUMNS", 2)
    assert fitted(X, missing) is None


def test_columns_with_a_regression_of_levels(monkeypatch):
    values = np.random.default_rng(0).integers(2, size=(60, 3))
    values[19:, 0] = -1
    codes = Codes(np.array([1, 4, 5]), values, np.array([2, 40, 2]))
    X, missing = np.random.default_rng(1).normal(size=(60, 6)), np.zeros((60, 6), bool)
    assert_array_equal(fitted(X, missing, codes).levels.columns, [5])
    monkeypatch.setattr(curves, "MOST_LEVELS", 40)
    assert_array_equal(fitted(X, missing, codes).levels.columns, [4, 5])
    monkeypatch.setattr(curves, "MOST_LOGITS", 39)
    assert fitted(X, missing, codes).levels is None


def test_weights_and_widths_are_those_of_held_out_cells():
    """The first column is predicted with half the error, the second not at all."""
    rng = np.random.default_rng(0)
    none = QuadraticRegression(*[np.empty(0)] * 4)
    found = NumberCurves(none, np.array([4, 7]), np.arange(2), np.ones(2), np.ones(2))
    plain = {d: rng.normal(size=2000) for d in (4, 7)}
    curved = {4: 0.5 * plain[4], 7: 3.0 * plain[7]}
    weight = {d: np.ones(2000) for d in (4, 7)}
    own = found.weighed(plain, curved, weight, 2)
    assert_array_equal(own.weight, [1.0, 0.0])
    assert_allclose(own.width, [0.5, 1.0])
    assert found.weighed(plain, {d: 3.0 * e for d, e in plain.items()}, weight, 2) is None


def test_weights_of_levels_are_those_of_held_out_cells():
    """The first column is predicted better, the second worse."""
    none = LevelRegression(np.array([2, 3]), np.empty((0, 3)), np.zeros(3))
    found = LevelCurves(none, np.array([4, 7]), np.zeros(2))
    plain = {d: np.full(2000, 0.5) for d in (4, 7)}
    curved = {4: np.full(2000, 0.9), 7: np.full(2000, 0.1)}
    weight = {d: np.ones(2000) for d in (4, 7)}
    assert_array_equal(found.weighed(plain, curved, weight).weight, [1.0, 0.0])
    assert found.weighed(plain, {d: 0.1 * p for d, p in plain.items()}, weight) is None
