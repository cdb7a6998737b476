"""Statistics of columns merge: the schema does not depend on the cut or the order of the rows."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from partwise.data import survey as surveys
from partwise.data.frame_passes import survey_table
from partwise.data.survey import ColumnSurvey, Spread, merge_tables
from partwise.data.table import Schema


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "town": rng.choice(["Ulm", "Rome", "Oslo"], n),
            "yes": rng.random(n) < 0.5,
            "height": rng.normal(size=n),
            "income": np.where(rng.random(n) < 0.1, 0.0, np.exp(rng.normal(8, 2, size=n))),
            "price": np.exp(rng.normal(2, 1.5, size=n)),
            "kids": rng.poisson(1.5, size=n),
            "day": np.datetime64("2020-01-01") + rng.integers(900, size=n).astype("m8[D]"),
            "answer": rng.integers(1, 6, size=n),
            "number": np.arange(n),
            "customer_id": rng.permutation(10 * n)[:n],
            "note": [f"text {i}" for i in range(n)],
            "nothing": [None] * n,
            "constant": np.full(n, 3.5),
        }
    )
    whole = {"number", "customer_id"}
    missing = {name: pl.Series(rng.random(n) < 0.2) for name in frame.columns if name not in whole}
    return frame.with_columns(
        pl.when(hidden).then(None).otherwise(pl.col(name)).alias(name)
        for name, hidden in missing.items()
    )


def schema_of(frames, frame="polars"):
    total = survey_table(frames[0])
    for other in frames[1:]:
        total = merge_tables(total, survey_table(other))
    names = list(frames[0].columns)
    with pytest.warns(UserWarning, match="Column") as caught:
        schema = Schema.of(total, "auto", names, frame)
    assert any("'constant': constant" in str(one.message) for one in caught)
    return schema


@pytest.mark.parametrize("limit", [40, 1 << 16])
@pytest.mark.parametrize("pandas", [False, True])
def test_any_cut_and_order_gives_the_same_schema(limit, pandas, monkeypatch):
    monkeypatch.setattr(surveys, "MAX_DISTINCT", limit)
    whole = table().to_pandas() if pandas else table()
    rows = (lambda lo, hi: whole.iloc[lo:hi]) if pandas else (lambda lo, hi: whole[lo:hi])
    frame = "pandas" if pandas else "polars"
    expected = schema_of([whole], frame).state()
    cuts = ([0, 300], [0, 1, 2, 150, 299, 300], [0, 90, 180, 300])
    for cut in cuts:
        parts = [rows(lo, hi) for lo, hi in pairwise(cut)]
        # pandas reads a part without values as another type.
        for order in (parts, parts[::-1]):
            found = schema_of(order, frame).state()
            assert found == expected


def test_kinds_are_the_same_beyond_the_limit(monkeypatch):
    exact = schema_of([table()])
    monkeypatch.setattr(surveys, "MAX_DISTINCT", 40)
    bounded = schema_of([table()])
    kinds = {a.name: (a.kind, b.kind) for a, b in zip(exact.columns, bounded.columns, strict=True)}
    assert {name for name, (a, b) in kinds.items() if a != b} == set()
    assert kinds["number"] == ("ignored", "ignored")
    offsets = [next(c.offset for c in s.columns if c.name == "income") for s in (exact, bounded)]
    assert offsets[1] == pytest.approx(offsets[0], rel=0.1)


def test_a_progression_is_recognized_by_its_checksum():
    ones = np.ones(1000, np.int64)
    numbers = 7.0 + 3.0 * np.arange(1000)
    halves = Spread.of(numbers[:400], ones[:400]).merged(Spread.of(numbers[400:], ones[400:]))
    assert halves.is_progression(1000)
    other = np.sort(np.append(numbers[:-2], [10.0, numbers[-1]]))  # one of them twice
    assert not Spread.of(*np.unique(other, return_counts=True)).is_progression(1000)
    assert not Spread.of(numbers + 0.5, ones).is_progression(1000)


def test_types_that_do_not_agree_are_refused():
    text, numbers = (survey_table(pl.DataFrame({"x": x})) for x in (["a", "b"], [1, 2]))
    with pytest.raises(ValueError, match=r"column 'x' has numbers \(Int64\), but text .* before"):
        merge_tables(text, numbers)
    empty = survey_table(pl.DataFrame({"x": [None, None]}))
    assert merge_tables(empty, text)[0].form == merge_tables(text, empty)[0].form == "level"
    floats = survey_table(pl.DataFrame({"x": [0.5]}))
    assert merge_tables(numbers, floats)[0].dtype == "Float64"


def test_too_many_levels_are_refused_by_name():
    many = pl.DataFrame({"x": [f"t{i}" for i in range(surveys.MAX_DISTINCT + 1)]})
    (found,) = survey_table(many)
    assert found.levels is None
    with pytest.raises(ValueError, match="'x' has more than 65536 levels, above 256"):
        Schema.of([found], "categorical", ["x"], "polars")


def test_categories_keep_their_order():
    kind = pd.CategoricalDtype(["low", "high"], ordered=True)
    parts = [pd.DataFrame({"x": pd.Series(x, dtype=kind)}) for x in (["high"] * 3, ["low"] * 3)]
    total = merge_tables(*map(survey_table, parts))
    assert total[0].levels == {"low": 3, "high": 3}
    assert isinstance(total[0], ColumnSurvey)
    assert total[0].ordered
