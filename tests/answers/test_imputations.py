"""Imputed values as a list, and tables whose columns come in another order."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris

from partwise import MCVQ


@pytest.fixture(scope="module")
def table():
    iris = load_iris(as_frame=True)
    species = pd.Categorical.from_codes(iris.target, iris.target_names)
    days = 90 * iris.target + np.arange(150) % 7
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")
    return iris.data.assign(species=species, day=day, large=iris.target > 1)


@pytest.fixture(scope="module")
def model(table):
    return MCVQ(1, 3, random_state=0).fit(table)


@pytest.fixture(scope="module")
def holed(table):
    missing = np.random.default_rng(0).random(table.shape) < 0.1
    missing[3] = True  # nothing is known of the part
    return table.astype({"large": "boolean"}).mask(missing)


def test_each_missing_cell_is_listed(table, model, holed):
    found = model.imputations(holed)
    assert list(found) == ["row", "column", "value", "lower", "upper", "probability", "how"]
    assert len(found) == holed.isna().sum().sum()
    imputed, (lower, upper) = model.impute(holed), model.predict_interval(holed, 0.9)
    shares = model.predict_proba_columns(holed)
    for one in found.to_dict("records"):
        at = one["row"], one["column"]
        assert one["value"] == imputed.loc[at]
        if one["column"] == "species":
            assert one["probability"] == shares["species"][one["row"]].max()
            assert one["lower"] is None
            assert one["how"].startswith("most probable level")
        elif one["column"] != "large":
            assert (one["lower"], one["upper"]) == (lower.loc[at], upper.loc[at])
            assert one["how"].startswith("expected value")
        assert ("no observed" in one["how"]) == (one["row"] == 3)


def test_lists_of_other_tables(model, holed):
    frame = pl.from_pandas(holed)
    other = MCVQ(1, 3, random_state=0).fit(frame)
    assert isinstance(other.imputations(frame), pl.DataFrame)
    X = holed.iloc[:, :4].to_numpy(dtype=float)
    numbers = MCVQ(1, 3, random_state=0).fit(X)
    assert len(numbers.imputations(X)) == np.isnan(X).sum()
    assert len(numbers.imputations(np.nan_to_num(X))) == 0


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_in_another_order_and_others_besides(model, holed, kind):
    whole = holed if kind == "pandas" else pl.from_pandas(holed)
    fitted = MCVQ(1, 3, random_state=0).fit(whole)
    names = [*list(holed)[::-1], "extra"]
    mixed = holed.assign(extra="x")[names]
    mixed = mixed if kind == "pandas" else pl.from_pandas(mixed)
    found, expected = fitted.impute(mixed), fitted.impute(whole)
    assert list(found.columns) == names
    for name in holed:
        assert list(found[name]) == list(expected[name])
        assert found[name].dtype == expected[name].dtype
    assert list(found["extra"]) == ["x"] * len(holed)
    assert (fitted.predict_states(mixed) == fitted.predict_states(whole)).all()
    assert len(fitted.imputations(mixed)) == len(fitted.imputations(whole))


def test_absent_columns_are_named(model, holed):
    with pytest.raises(ValueError, match=r"X lacks the columns 'petal width .cm.', 'species' of"):
        model.impute(holed.drop(columns=["petal width (cm)", "species"]))
