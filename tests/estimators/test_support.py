"""Imputed values, intervals and samples stay in the columns' support as observed."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from partwise import MCVQ, PartsImputer, load
from partwise.answers import states
from partwise.fitted import fitted_of
from tests.common.tables import REAL_TABLES, real_table


def bookings(n=240, seed=0):
    """A constant, whole numbers with and without bounds, decimals, waiting times, and dates."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    season = np.array([15.0, 150.0, 330.0])[kind] + rng.integers(0, 7, n)
    return pd.DataFrame(
        {
            "year": np.full(n, 2013),
            "month": rng.integers(1, 13, n).astype(float),
            "lead": np.round(rng.gamma(0.7, 20.0 + 10.0 * kind), 1),
            "grams": np.rint(rng.normal(3300.0 + 300.0 * kind, 150.0)),
            "price": np.round(rng.lognormal(3.0 + 0.5 * kind, 0.3), 2),
            "day": pd.Timestamp("2013-01-01") + pd.to_timedelta(season, unit="D"),
            "kind": np.array(["a", "b", "c"])[kind],
        }
    )


@pytest.fixture(scope="module")
def complete():
    return bookings()


@pytest.fixture(scope="module")
def holed(complete):
    rng = np.random.default_rng(1)
    out = complete.copy()
    for name in ("month", "lead", "grams", "price", "day"):
        out.loc[rng.random(len(out)) < 0.15, name] = None
    return out


@pytest.fixture(scope="module")
def model(holed):
    with pytest.warns(UserWarning, match="constant|never change"):
        return MCVQ(2, 3, likelihood="auto", random_state=0).fit(holed)


def assert_supported(rows, observed, inside):
    """Whole stays whole, decimals stay, bounds hold; ``inside`` the observed range altogether."""
    assert set(rows["year"]) == {2013}
    numbers = {name: rows[name].astype(float).to_numpy() for name in ("month", "lead", "grams")}
    for name, decimals in (("month", 0), ("lead", 1), ("grams", 0)):
        assert_array_equal(numbers[name], np.round(numbers[name], decimals), err_msg=name)
    assert_array_equal(rows["price"], np.round(rows["price"], 2))
    assert numbers["month"].min() >= 1
    assert numbers["month"].max() <= 12
    assert min(numbers[name].min() for name in ("lead", "grams")) >= 0
    assert (rows["day"] == rows["day"].dt.floor("D")).all()
    if inside:
        for name in ("lead", "grams", "price", "day"):
            assert rows[name].min() >= observed[name].min(), name
            assert rows[name].max() <= observed[name].max(), name


def test_samples(model, holed):
    rows, _ = model.sample(2000, random_state=1)
    assert_supported(rows, holed, inside=True)


def test_samples_are_not_piled_up_at_the_ends(model, holed):
    rows, _ = model.sample(2000, random_state=1)
    for name in ("lead", "grams"):
        ends = rows[name].isin([holed[name].min(), holed[name].max()])
        assert ends.mean() < 0.05, name


def test_imputed_values(model, holed):
    assert_supported(model.impute(holed), holed, inside=False)
    for rows in model.impute(holed, n_imputations=2):
        assert_supported(rows, holed, inside=True)


def test_imputer(holed):
    with pytest.warns(UserWarning, match="constant|never change"):
        imputer = PartsImputer(2, 3, n_fits=1, n_factors=2, random_state=0).fit(holed)
    assert_supported(imputer.transform(holed), holed, inside=False)


def test_intervals(model, holed):
    for end in model.predict_interval(holed, coverage=0.9):
        assert_supported(end, holed, inside=False)


def test_ends_of_intervals_are_rounded_inward(model, holed):
    """An interval covers the recorded values that lie in it, and no others."""
    coded = fitted_of(model).schema.encode(holed)
    ends = states.interval(fitted_of(model), coded, 0.05)
    found = model.predict_interval(holed, coverage=0.9)
    for name, step in (("grams", 1.0), ("lead", 0.1)):
        d = list(holed.columns).index(name)
        column = fitted_of(model).schema.columns[d]
        lower, upper = (column.as_given(end[:, d]) for end in ends)
        least, most = (end[name].astype(float).to_numpy() for end in found)
        some = upper - lower >= step
        assert some.any()
        assert (least[some] >= np.maximum(lower[some], 0.0) - 1e-9).all(), name
        assert (least[some] - step < np.maximum(lower[some], 0.0) + 1e-9).all(), name
        assert (most[some] <= upper[some] + 1e-9).all(), name
        assert (most[some] + step > upper[some] - 1e-9).all(), name


def test_expected_values_of_anomalous_cells(model, holed):
    new = holed.head(50).copy()
    new.loc[new.index[0], "grams"] = -40.5  # impossible, and shown as it is
    found = model.anomalous_cells(new, n_cells=40)
    grams = found[found["column"] == "grams"]
    assert -40.5 in set(grams["value"])
    expected = grams["expected"].astype(float)
    assert_array_equal(expected, np.rint(expected))


def test_given_cells_stay_as_given(model):
    rows, _ = model.sample(20, given={"grams": -1.5, "month": 3}, random_state=0)
    assert set(rows["grams"]) == {-1.5}
    assert set(rows["month"]) == {3}
    assert rows["lead"].min() >= 0


def test_a_saved_model_keeps_the_support(model, tmp_path):
    model.save(tmp_path / "bookings.safetensors")
    rows, _ = load(tmp_path / "bookings.safetensors").sample(50, random_state=1)
    again, _ = model.sample(50, random_state=1)
    pd.testing.assert_frame_equal(rows, again)


@pytest.mark.ci
def test_automatic_sizes_keep_narrow_seasons_narrow():
    """Dates in three seasons of seven days: neither intervals nor samples fill the year."""
    frame = bookings(300)[["grams", "price", "day", "kind"]]
    model = MCVQ("auto", "auto", likelihood="auto", random_state=0).fit(frame)
    lower, upper = model.predict_interval(frame, coverage=0.9)
    assert (upper["day"] - lower["day"]).dt.days.median() <= 14
    rows, _ = model.sample(1000, random_state=0)
    day = (rows["day"] - pd.Timestamp("2013-01-01")).dt.days.to_numpy()
    away = np.abs(day[:, None] - np.array([18, 153, 333])).min(axis=1)
    assert np.mean(away <= 10) > 0.9


def answers_about_hidden_cells(table, seed):
    """Of columns with an order: cells within intervals, and bad samples."""
    hidden = np.random.default_rng(seed).random(table.shape) < 0.15
    holed = table.mask(hidden)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about constant and near-duplicate columns
        model = MCVQ("auto", "auto", likelihood="auto", random_state=seed).fit(holed)
    lower, upper = model.predict_interval(holed, coverage=0.9)
    rows, _ = model.sample(2000, random_state=seed)
    for d, name in enumerate(table):
        if model.kinds_[d] in ("bernoulli", "categorical", "ignored"):
            continue
        own = hidden[:, d] & table[name].notna().to_numpy()
        true, low, high = (each[name].to_numpy(float)[own] for each in (table, lower, upper))
        inside = (low - 1e-9 <= true) & (true <= high + 1e-9)
        seen, made = holed[name].dropna().to_numpy(float), rows[name].to_numpy(float)
        wrong = ~((seen.min() - 1e-9 <= made) & (made <= seen.max() + 1e-9))
        if np.all(seen == np.rint(seen)):
            wrong |= made != np.rint(made)
        yield name, inside, int(wrong.sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_TABLES)
def test_real_tables_keep_their_support_and_the_coverage(name):
    """Of 90 % intervals, of numbers and ordered levels alike."""
    by_column = {}
    for seed in range(4):
        for column, inside, n_wrong in answers_about_hidden_cells(real_table(name), seed):
            assert n_wrong == 0, column
            by_column.setdefault(column, []).extend(inside)
    cells = np.concatenate(list(by_column.values()))
    # Three standard errors of a share beyond the bounds are chance.
    assert np.mean(cells) >= 0.87 - 3 * np.sqrt(0.87 * 0.13 / len(cells))
    assert np.mean(cells) <= 0.93 + 3 * np.sqrt(0.93 * 0.07 / len(cells))
    for column, inside in by_column.items():
        assert np.mean(inside) >= 0.8 - 3 * np.sqrt(0.8 * 0.2 / len(inside)), column
