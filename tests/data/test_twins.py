"""Near-duplicate columns: found, named, kept in files, and sampled together."""

import numpy as np
import pandas as pd
import pytest

import partwise
from partwise import MCVQ
from partwise.answers import states as answers
from partwise.answers.imputations import COPIED
from partwise.data.table import Schema
from partwise.data.twins import _correlations, _line
from partwise.files.pieces import TABLE
from partwise.files.schema import MisfitError, Scope
from partwise.fitted import fitted_of


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    celsius = rng.normal(10, 8, n).round(1)
    code = rng.integers(3, size=n)
    frame = pd.DataFrame(
        {
            "celsius": celsius,
            "wind": rng.normal(size=n),
            "fahrenheit": (32 + 1.8 * celsius + rng.normal(0, 0.3, n)).round(1),
            "country": np.array(["Denmark", "Spain", "Chile"])[code],
            "iso": np.array(["DK", "ES", "CL"])[code],
            "other": np.array(["a", "b", "c"])[rng.integers(3, size=n)],
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.1)


@pytest.fixture(scope="module")
def model():
    return MCVQ(2, 3, likelihood="auto", random_state=0).fit(table())


def test_copies_are_found_and_named(model):
    found = model.summary().near_duplicates
    assert [(one.column, one.other) for one in found] == [
        ("fahrenheit", "celsius"),
        ("iso", "country"),
    ]
    assert all(one.strength > 0.99 for one in found)
    assert "Near-duplicate columns: fahrenheit of celsius (" in str(model.summary())
    assert "Near-duplicate" in model.summary()._repr_html_()


def test_copies_are_sampled_together(model, tmp_path):
    iso = {"Denmark": "DK", "Spain": "ES", "Chile": "CL"}
    model.save(tmp_path / "m.safetensors")
    for one in (model, partwise.load(tmp_path / "m.safetensors")):
        rows, _ = one.sample(300, random_state=0)
        assert (rows["country"].map(iso) == rows["iso"]).all()
        assert (rows["fahrenheit"] - 32 - 1.8 * rows["celsius"]).std() < 0.6
        assert rows.equals(one.sample(300, random_state=0)[0])


def test_what_is_given_leads(model):
    rows, _ = model.sample(50, given={"iso": "ES", "fahrenheit": 50.0}, random_state=0)
    assert set(rows["country"]) == {"Spain"}
    assert (rows["celsius"] - 10).abs().max() < 0.2
    assert set(rows["fahrenheit"]) == {50.0}


def test_missing_values_are_those_of_observed_copies(model):
    rows, rng = table(seed=1), np.random.default_rng(2)
    hidden = rng.random(len(rows)) < 0.5
    given = rows.copy()
    given.loc[hidden, ["fahrenheit", "iso"]] = None
    given.loc[~hidden, ["celsius", "country"]] = None
    schema = fitted_of(model).schema
    filled, coded = model.impute(given), schema.encode(given)
    own = answers.by_block(
        fitted_of(model), coded, lambda m: answers.likely_rows(fitted_of(model), m)
    )
    told = schema.encode(filled)
    copies = {"celsius": "fahrenheit", "country": "iso"}
    for name, copy in (copies | {b: a for a, b in copies.items()}).items():
        d = rows.columns.get_loc(name)
        cells = (given[name].isna() & rows[name].notna() & given[copy].notna()).to_numpy()
        true = schema.encode(rows)[cells, d]
        if name in ("country", "iso"):
            assert (told[cells, d] == true).all()
        else:
            error = np.abs(told[cells, d] - true).mean()
            assert error < 0.2 * np.abs(own[cells, d] - true).mean()
    (drawn,) = model.impute(given, n_imputations=1, random_state=0)
    both = given["fahrenheit"].notna() | given["celsius"].notna()
    assert (drawn["fahrenheit"] - 32 - 1.8 * drawn["celsius"])[both].abs().max() < 2
    listed = model.imputations(given).set_index(["row", "column"])["how"]
    copied = given["celsius"].isna() & given["fahrenheit"].notna()
    assert (
        (listed.xs("celsius", level="column") == COPIED) == copied[given["celsius"].isna()]
    ).all()
    lower, upper = model.predict_interval(given, 0.9)
    cells = given["celsius"].isna() & given["fahrenheit"].notna() & rows["celsius"].notna()
    inside = (lower["celsius"] <= rows["celsius"]) & (rows["celsius"] <= upper["celsius"])
    assert 0.8 < inside[cells].mean() < 0.98
    assert (upper["celsius"] - lower["celsius"])[cells].max() < 1.0


def test_copies_of_a_copy_follow_it():
    """Of three copies the leader may be missing: the others still tell each other."""
    x = np.random.default_rng(0).normal(size=60).round(3)
    frame = pd.DataFrame({"a": x, "b": 2 * x + 1, "c": 5 - 3 * x})
    schema = Schema.learn(frame, "auto")
    schema = schema.with_twins(schema.encode(frame))
    value, deviation = schema.told_by_twins(np.array([[np.nan, 7.0, np.nan], [1.0, np.nan, 2.0]]))
    np.testing.assert_allclose(value[0], [3.0, np.nan, -4.0])
    np.testing.assert_allclose(value[1], [np.nan, 3.0, np.nan])
    assert np.isnan(deviation[0, 1])
    assert np.nanmax(deviation) < 1e-6


def test_columns_that_merely_depend_are_no_copies():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    frame = pd.DataFrame(
        {
            "x": x,
            "near": x + 0.3 * rng.normal(size=300),
            "rare": np.where(np.arange(300) < 3, "yes", "no"),
            "other rare": np.where(np.arange(300) > 297, "yes", "no"),
            "constant": 1.0,
            "few": np.where(np.arange(300) < 20, x, np.nan),
        }
    )
    with pytest.warns(UserWarning, match="constant"):
        schema = Schema.learn(frame, "auto")
    schema = schema.with_twins(schema.encode(frame))
    assert [column.twin for column in schema.columns] == [None] * 6


@pytest.mark.parametrize(
    "wrong", [{"leader": 2}, {"leader": 9}, {"to": [1.0]}, {"to": [1.0, 0.0]}, {"spread": None}]
)
def test_files_with_impossible_copies_are_refused(model, wrong):
    state = Schema.learn(table(), "auto").with_twins(np.empty((0, 6))).state()
    schema = fitted_of(model).schema.state()
    TABLE(schema, Scope())
    TABLE(state, Scope())
    assert "twin" in schema["columns"][2]
    schema["columns"][2]["twin"] |= wrong
    with pytest.raises(MisfitError):
        TABLE(schema, Scope())


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_correlations_of_numbers_near_the_largest(size):
    x = np.random.default_rng(0).normal(size=(50, 2))
    x[:, 1] = 0.5 * x[:, 0]
    with np.errstate(over="raise", invalid="raise"):
        found = _correlations(size * x)
    np.testing.assert_allclose(found, 1.0)


@pytest.mark.parametrize("sizes", [(1e-300, 1e-300), (1.0, 3.0), (1e300, 1e300), (1e150, 1e-150)])
def test_a_line_through_numbers_near_the_largest(sizes):
    x, noise = np.random.default_rng(0).normal(size=(2, 50))
    X = np.column_stack([x, 1.0 + 0.5 * x + 1e-4 * noise])
    with np.errstate(over="raise", invalid="raise"):
        plain, found = _line(X, 0, 1), _line(X * sizes, 0, 1)
    assert plain is not None
    assert found is not None
    assert found.strength == pytest.approx(plain.strength)
    np.testing.assert_allclose(found.to[0], plain.to[0] * sizes[1])
    np.testing.assert_allclose(found.to[1], plain.to[1] * (sizes[1] / sizes[0]))
    np.testing.assert_allclose(found.spread, plain.spread * sizes[1])


def test_no_line_beyond_the_largest_number():
    x = np.random.default_rng(0).normal(size=50)
    assert _line(np.column_stack([1e-300 * x, 1e300 * x]), 0, 1) is None
