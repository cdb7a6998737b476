"""The association of columns in the data, against scipy and loops over pairs."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from partwise.data.table import Schema
from partwise.report import association
from partwise.report.association import associations


def read(frame):
    schema = Schema.learn(frame, "auto")
    return list(schema.columns), schema.encode(frame)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    a, b = rng.integers(4, size=n), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": np.exp(b),
            "y": np.round(-b + 0.3 * rng.normal(size=n), 1),
            "z": rng.normal(size=n),
            "color": np.array(["red", "green", "blue", "gray"])[a],
            "shade": np.array(["r", "g", "b", "y"])[np.where(rng.random(n) < 0.3, 0, a)],
            "yes": np.where(a > 1, "yes", "no"),
            "size": pd.Categorical.from_codes(np.digitize(b, [-1, 1]), list("abc"), ordered=True),
            "other": np.array(list("uvw"))[rng.integers(3, size=n)],
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame["w"] = frame["z"] + 4.0 * a
    return frame


def by_pairs(frame, a, b):
    """The definition, one pair at a time."""
    both = frame[[a, b]].dropna()
    numbers = [name for name in (a, b) if name in ("x", "y", "z", "w", "size", "yes")]
    value = {
        "size": lambda v: v.cat.codes,
        "yes": lambda v: (v == "yes").astype(float),
    }
    # Ranks of two numbers are those of their common rows, of others those of all rows.
    of = both if len(numbers) == 2 else frame
    rank = {
        n: value.get(n, lambda v: v)(of[n].dropna()).rank().reindex(both.index) for n in numbers
    }
    if len(numbers) == 2:
        r = np.corrcoef(rank[a], rank[b])[0, 1]
        return abs(r) if "yes" in numbers else r
    n = len(both)
    if len(numbers) == 1:
        (name,) = numbers
        level = both[a if name == b else b]
        groups = [rank[name][level == v] for v in level.unique()]
        within = sum(((g - g.mean()) ** 2).sum() for g in groups)
        total = ((rank[name] - rank[name].mean()) ** 2).sum()
        return np.sqrt(max(0.0, 1 - within / (n - len(groups)) / (total / (n - 1))))
    counts = pd.crosstab(both[a], both[b]).to_numpy()
    v = stats.contingency.association(counts, correction=False) ** 2
    rows, columns = counts.shape
    squared = max(0.0, v * (min(counts.shape) - 1) - (rows - 1) * (columns - 1) / (n - 1))
    least = min(k - (k - 1) ** 2 / (n - 1) for k in counts.shape) - 1
    return np.sqrt(squared / least)


@pytest.mark.parametrize("indicators", [2048, 5])
def test_associations_are_those_of_single_pairs(table, indicators, monkeypatch):
    monkeypatch.setattr(association, "MAX_INDICATORS", indicators)
    found, n_rows = associations(*read(table))
    names = list(table)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j:
                assert n_rows[i, j] == table[[a, b]].notna().all(axis=1).sum()
                assert found[i, j] == pytest.approx(by_pairs(table, a, b), abs=1e-9), (a, b)
    assert np.isnan(np.diag(found)).all()
    assert found[names.index("x"), names.index("y")] < -0.85
    assert found[names.index("color"), names.index("other")] < 0.15


def test_associations_of_columns_that_say_nothing():
    frame = pd.DataFrame({"a": [1.0, 2.0] * 20, "b": np.nan, "c": [3.0] * 40})
    frame.loc[:4, "b"] = 1.0
    found, _ = associations(None, frame.to_numpy())
    assert np.isnan(found[0, 1])  # few common rows
    assert found[0, 2] == 0.0
    many = np.random.default_rng(0).normal(size=(9001, 2))
    found, n_rows = associations(None, many)
    assert abs(found[0, 1]) < 0.1
    assert 9001 <= n_rows[0, 1] <= 9003


def test_correlations_of_columns_with_many_missing_values_are_those_of_their_common_rows():
    """Not of ranks among all rows, in which common rows may be far apart."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": np.exp(rng.normal(size=300)), "z": rng.normal(size=300)})
    frame["y"] = frame["x"] + 0.5 * rng.normal(size=300)
    frame.loc[frame["x"] < 1.5, "y"] = np.nan
    columns, coded = read(frame)
    strength, _ = associations(columns, coded)
    expected = frame.corr("spearman").to_numpy()
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(strength[off], expected[off], atol=1e-9)
