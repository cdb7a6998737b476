"""`PartsImputer(residual=...)`: curved dependence by a regressor that the user chooses."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import ExtraTreeRegressor

from partwise import PartsImputer
from partwise.answers.imputation import GaussianCells, moved
from partwise.estimators._residual import copies_of
from partwise.files import model as files
from partwise.fitting.held_out import WEIGHTS, best_weights, of_errors
from partwise.fitting.residual import fitting_scale

NEAREST = KNeighborsRegressor(8, weights="distance")


@pytest.fixture(scope="module")
def curved():
    """A table whose last column is a product of two others, and which of its cells are hidden."""
    rng = np.random.default_rng(0)
    n = 900
    a, b = rng.uniform(-1.0, 1.0, (2, n))
    c = np.sin(5.0 * a) * b + 0.05 * rng.standard_normal(n)
    table = pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.choice(["x", "y", "z"], n)})
    return table, rng.random(table.shape) < 0.2


@pytest.fixture(scope="module")
def fits(curved):
    """Imputers without and with a regressor."""
    table, hidden = curved
    holed = table.mask(hidden)
    plain, bent = (PartsImputer(residual=r, random_state=0).fit(holed) for r in (None, NEAREST))
    return holed, plain, bent


def test_curved_dependence_is_imputed_better(curved, fits):
    table, hidden = curved[0], curved[1][:, 2]
    holed, plain, bent = fits
    error = [
        np.sqrt(np.mean((fit.transform(holed)["c"] - table["c"])[hidden] ** 2))
        for fit in (plain, bent)
    ]
    assert error[1] < 0.9 * error[0]
    assert_array_equal(bent.transform(holed)["c"][~hidden], table["c"][~hidden])


def test_intervals_of_the_table_cover_what_they_say(curved, fits):
    table, hidden = curved
    holed, _, bent = fits
    names = ["a", "b", "c"]
    for coverage in (0.5, 0.8, 0.95):
        low, high = bent.predict_interval(holed, coverage)
        inside = (low[names] <= table[names]) & (table[names] <= high[names])
        assert abs(inside.to_numpy()[hidden[:, :3]].mean() - coverage) < 0.06


@pytest.mark.ci
def test_samples_are_of_the_same_distribution(fits):
    holed, _, bent = fits
    missing = holed["c"].isna()
    drawn = [one["c"][missing] for one in bent.impute(holed, 40, random_state=0)]
    away = np.mean(drawn, axis=0) - bent.transform(holed)["c"][missing]
    assert abs(away.mean()) < 0.05


def test_levels_do_not_change(fits):
    holed, plain, bent = fits
    other = holed.assign(d=holed["d"].where(holed.index % 5 > 0))
    for name, found in plain.predict_proba_columns(other).items():
        assert_allclose(bent.predict_proba_columns(other)[name], found)


def test_it_is_pickled_and_not_saved(fits, tmp_path):
    holed, plain, bent = fits
    again = pickle.loads(pickle.dumps(bent))
    pd.testing.assert_frame_equal(again.transform(holed), bent.transform(holed))
    with pytest.raises(ValueError, match="pickle, joblib or skops"):
        bent.save(tmp_path / "bent")
    plain.save(tmp_path / "plain")
    other = pickle.loads(pickle.dumps(bent)).set_params(residual=None)  # as fitted, nevertheless
    for save in (other.save, lambda path: files.save(other, path)):
        with pytest.raises(ValueError, match="pickle, joblib or skops"):
            save(tmp_path / "bent")
    assert not (tmp_path / "bent").exists()
    assert clone(bent).get_params()["residual__n_neighbors"] == 8


def test_the_seed_of_the_imputer_is_that_of_the_regressor():
    x = np.random.default_rng(0).uniform(-1.0, 1.0, 200)
    X = np.column_stack([x, np.where(np.arange(200) % 5, np.cos(6.0 * x), np.nan)])
    asked = make_pipeline(StandardScaler(), ExtraTreeRegressor())
    first, again, threads, plain = (
        PartsImputer(1, 2, residual=residual, n_jobs=n_jobs, random_state=0).fit_transform(X)
        for residual, n_jobs in ((asked, None), (asked, None), (asked, 2), (None, None))
    )
    assert np.abs(first - plain).max() > 0.1
    assert_array_equal(again, first)
    assert_array_equal(threads, first)
    assert asked[1].random_state is None


def test_given_seeds_of_a_regressor_stay():
    asked = BaggingRegressor(ExtraTreeRegressor(random_state=5))
    found = copies_of(asked, np.random.default_rng(0))()
    assert found.estimator.random_state == 5
    assert found.random_state is not None
    assert asked.random_state is None
    again = copies_of(NEAREST, np.random.default_rng(0))()
    assert again.get_params() == NEAREST.get_params()


def test_a_column_without_others_has_no_regression():
    X = np.random.default_rng(0).standard_normal((300, 1))
    X[::5] = np.nan
    plain, bent = (PartsImputer(residual=r, random_state=0).fit(X) for r in (None, Ridge()))
    assert_array_equal(bent.transform(X), plain.transform(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"residual": NEAREST, "n_factors": 0}, "residual needs n_factors of at least 1"),
        ({"residual": KMeans()}, "residual=KMeans() must be a scikit-learn regressor"),
        ({"residual": 3}, "residual=3 must be a scikit-learn regressor"),
    ],
)
def test_wrong_arguments(curved, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PartsImputer(**arguments).fit(curved[0])


def test_weight_is_that_of_the_least_loss():
    """One column for which the regression is right, one for which it is wrong by one."""
    m = 400
    away = {0: np.repeat(1.0 - WEIGHTS[:, None], m, axis=1), 1: np.repeat(WEIGHTS[:, None], m, 1)}
    losses = {d: of_errors(own, np.ones(m), 2) for d, own in away.items()}
    assert best_weights(losses) == {0: 1.0, 1: 0.0}


def test_scale_is_that_of_the_numbers():
    x = 0.3 * np.random.default_rng(0).standard_normal(5000)
    found = fitting_scale(lambda scale: ndtr(x / scale), np.ones(len(x)))
    assert found == pytest.approx(0.3, rel=0.1)


def test_moved_distribution():
    cells = GaussianCells(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]))
    own = moved(cells.spread(0, np.arange(2)), np.array([1.0, 2.0]), np.array([5.0, -1.0]), 0.5)
    right = GaussianCells(np.array([[6.0], [1.0]]), np.array([[0.5], [1.5]])).spread(
        0, np.arange(2)
    )
    p = np.array([0.3, 0.9])
    assert_allclose(own.quantile(p), right.quantile(p))
    assert_allclose(own.below(np.array([5.5, 2.0])), right.below(np.array([5.5, 2.0])))
