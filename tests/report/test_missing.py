"""What the page says about missing values."""

import numpy as np
import pandas as pd
import pytest

from partwise import MCVQ
from partwise.report import collect
from partwise.report.render import render

N = 240


@pytest.fixture(scope="module")
def frame():
    """Cigarettes of smokers only, a measurement begun in 2005, and values lost by chance."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "smokes": rng.choice(["no", "yes"], size=N, p=[0.7, 0.3]),
            "year": 2000 + np.arange(N) % 10,
            "region": rng.choice(list("abcdefg"), size=N),
            "weekdays": rng.normal(20, 5, size=N).round(1),
            "weekends": rng.normal(20, 5, size=N).round(1),
            "pulse": rng.normal(70, 9, size=N).round(1),
            "height": rng.normal(170, 9, size=N).round(1),
        }
    )
    frame.loc[frame.smokes == "no", ["weekdays", "weekends"]] = np.nan
    frame.loc[frame.year < 2005, "pulse"] = np.nan
    frame.loc[rng.random(N) < 0.2, "height"] = np.nan
    return frame


@pytest.fixture(scope="module")
def content(frame):
    model = MCVQ(1, 2, likelihood="auto", tol=1e3, random_state=0).fit(frame)
    return collect(model, frame)


def test_other_columns_tell_where_values_are_missing(content, frame):
    where = content["overview"]["missing"]["where"]
    names = list(frame)
    said = [([names[d] for d in one["columns"]], one["words"]) for one in where]
    assert said == [
        (["weekdays", "weekends"], "smokes is no"),
        (["pulse"], "year is at most 2004"),
    ]
    assert {(one["inside"], one["outside"]) for one in where} == {("all", "none")}
    page = render(content)
    said = (
        "weekdays, weekends are missing in all rows where smokes is no, and in none of the others"
    )
    assert page.count(said) == 2  # in the summary and in its section
    assert "pulse is missing in all rows where year is at most 2004" in page


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (lambda f: f.year.isin([2003, 2004]), "year is 2003 to 2004"),
        (lambda f: ~f.year.isin([2003, 2004]), "year is below 2003 or above 2004"),
        (lambda f: f.year == 2003, "year is 2003"),
        (lambda f: f.year > 2006, "year is at least 2007"),
        (lambda f: f.region.isin(["b", "f"]), "region is b or f"),
        (lambda f: ~f.region.isin(["b", "f"]), "region is not b or f"),
    ],
)
def test_values_are_named_shortly(frame, rows, said):
    table = frame[["year", "region", "height"]].assign(height=np.arange(N) / 7)
    table.loc[rows(table), "height"] = np.nan
    model = MCVQ(1, 2, likelihood="auto", tol=1e3, random_state=0).fit(table)
    (one,) = collect(model, table)["overview"]["missing"]["where"]
    assert (one["words"], one["inside"], one["outside"]) == (said, "all", "none")


def test_plain_arrays_say_it_too():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[X[:, 0] > 1, 2] = np.nan
    model = MCVQ(1, 2, tol=1e3, random_state=0).fit(X)
    (one,) = collect(model, X)["overview"]["missing"]["where"]
    assert one["columns"] == [2]
    assert one["other"] == 0
    assert "is at least" in one["words"]


def test_columns_of_one_value_tell_nothing():
    X = np.where(np.random.default_rng(0).random((40, 2)) < 0.3, np.nan, 1.0)
    assert collect(MCVQ(1, 1, random_state=0).fit(X), X)["overview"]["missing"]["where"] == []
