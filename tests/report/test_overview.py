"""The overview of a table: columns, ties, missing values, anomalous cells, states in words."""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from partwise import (
    MCVQ,
)
from partwise.answers.tables import Feature
from partwise.plot.view import view
from partwise.report import collect, render
from partwise.report.collect import name_of_columns
from partwise.report.overview import _recorded, _say_opposites, _weak_parts
from partwise.report.render import _rarity
from partwise.report.rows import PageRows


def test_the_overview():
    """Kinds, missing values that coincide, ties in order, anomalous cells on the page."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, size=(2, 900))
    frame = pd.DataFrame(
        {
            "x": 9.0 * a + rng.normal(size=900),
            "y": 9.0 * a + rng.normal(size=900),
            "color": np.array(["red", "green", "blue"])[b],
            "shade": np.array(["r", "g", "b"])[np.where(rng.random(900) < 0.2, 0, b)],
            "note": [f"text {i}" for i in range(900)],
        }
    )
    frame.loc[rng.random(900) < 0.1, ["x", "color"]] = None
    frame.loc[500, "y"] = 9.0 * (2 - a[500]) + 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(2, 3, likelihood="auto", random_state=0).fit(frame)
        content = collect(model, frame)
    overview = content["overview"]
    lines = {line["name"]: line for line in overview["columns"]}
    assert lines["x"]["kind"] == "number"
    assert lines["color"]["kind"] == "category"
    assert lines["note"]["kind"] == "not used"
    assert [name for name, line in lines.items() if not line["used"]] == ["note"]
    assert lines["x"]["missing"] == pytest.approx(frame["x"].isna().mean())
    assert max(height for _, height in lines["x"]["bars"]) == 1.0
    names = list(frame.columns)
    strengths = [abs(tie["data"]) for tie in overview["ties"]["pairs"]]
    assert strengths == sorted(strengths, reverse=True)
    first = {(names[tie["a"]], names[tie["b"]]) for tie in overview["ties"]["pairs"][:2]}
    assert first == {("x", "y"), ("color", "shade")}
    (group,) = overview["missing"]["together"]
    assert [names[d] for d in group["columns"]] == ["x", "color"]
    assert group["n_rows"] == frame["x"].isna().sum()
    assert overview["missing"]["n_complete"] == frame["x"].notna().sum()
    cell = overview["anomalous"][0]
    assert (cell["row"], names[cell["column"]]) == ("Row 501", "y")
    # Rows on the page: a sample of the states as they are, with the anomalous ones.
    rows = content["live"]["rows"]
    assert len(rows["names"]) == 400
    assert {one["position"] for one in overview["anomalous"]} <= set(rows["positions"])
    assert rows["total"] == 900
    shares = np.bincount(model.predict_states(frame.iloc[rows["positions"]])[:, 0]) / 400
    np.testing.assert_allclose(shares, model.state_priors_[0], atol=0.05)
    # Every state has a sentence.
    assert all(state["sentence"] for part in content["parts"] for state in part["states"])


def test_ties_of_the_data_that_the_model_leaves_out_are_marked():
    rng = np.random.default_rng(0)
    state, x = rng.integers(3, size=300), rng.normal(size=300)
    frame = pd.DataFrame({f"a{i}": 6.0 * state + rng.normal(size=300) for i in range(3)})
    frame["x"], frame["y"] = x, -x + 0.1 * rng.normal(size=300)
    frame.loc[:20, "y"] = np.nan
    model = MCVQ(1, 3, likelihood="gaussian", random_state=0).fit(frame)
    assert model.parts_.tolist() == [0, 0, 0, -1, -1]
    ties = collect(model, frame)["overview"]["ties"]
    first = ties["pairs"][0]
    both = frame.dropna()
    assert (first["a"], first["b"]) == (3, 4)
    assert first["data"] == pytest.approx(both["x"].corr(both["y"], method="spearman"), abs=0.01)
    assert first["strength"] < 0.01
    assert (first["note"], ties["n_absent"]) == ("not in the model", 1)
    assert {tie["note"] for tie in ties["pairs"][1:]} == {""}
    page = render(collect(model, frame))
    assert "not in the model" in page
    assert "\u22120.99" in page
    without = collect(model)["overview"]["ties"]
    assert not without["of_data"]
    assert {tie["data"] for tie in without["pairs"]} == {None}
    assert without["weak"] == {}


def test_limits_of_the_list_of_ties_are_said(monkeypatch):
    """What is counted, where notes begin, and how many are listed."""
    rng = np.random.default_rng(0)
    state = rng.integers(3, size=60)
    frame = pd.DataFrame({f"a{i}": 6.0 * state + rng.normal(size=60) for i in range(4)})
    model = MCVQ(1, 3, likelihood="gaussian", random_state=0).fit(frame)
    whole = render(collect(model, frame))
    assert "6 pairs of columns have a strength of at least 0.1 that is also twice" in whole
    assert "strongest are listed" not in whole
    monkeypatch.setattr("partwise.report.overview.MAX_TIES", 4)
    assert "; the 4 strongest are listed here and in the file." in render(collect(model, frame))


def test_parts_with_weak_ties_in_the_data_are_doubtful():
    """The bound of a fit may join columns that hardly depend on each other."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    frame["d"] = frame["c"] + 0.3 * rng.normal(size=200)
    model = MCVQ(2, 2, likelihood="gaussian", random_state=0, max_iter=1, tol=1.0).fit(frame)
    seen = replace(view(model), parts=np.array([0, 0, 1, 1]))
    data = frame.corr(method="spearman").to_numpy()
    weak = _weak_parts(seen, data)
    assert weak == {0: {"a": 0, "b": 1, "most": pytest.approx(abs(data[0, 1]))}}
    content = collect(model, frame)
    content["overview"]["ties"]["weak"] = weak
    page = render(content)
    assert page.count("the ties of its columns are weak in the data, at most 0.0") == 2


def test_groups_do_not_hide_opposite_states():
    """Nor the warning that a state has few rows."""
    values = {"size": [2.0, -1.0, 0.2], "other": [1.0, 1.0, 0.0]}
    told = [
        Feature(name, None, 10 + np.array(v), 10.0, np.array(v), None) for name, v in values.items()
    ]
    ill = np.array([0.8, 0.1, 0.3])
    for level, share in (("ill", ill), ("well", 1 - ill)):
        usual = float(share.mean())
        told.append(Feature("state", level, share, usual, (share - usual) / 0.5, None))
    states = [{"number": j, "weight": w} for j, w in enumerate((0.7, 0.1, 0.2))]
    said = "size very high (11.1, overall 10); other high; state mostly ill"
    groups = [{"states": [0, 1], "sentence": said, "but": []}]
    _say_opposites(told, states, groups)
    words = {"size low (9, overall 10)", "state nearly always well (90\u00a0%, overall 60\u00a0%)"}
    ((shown, phrases),) = groups[0]["but"]
    assert (shown, set(phrases.split("; "))) == (1, words)


def test_one_count_and_one_set_of_states():
    """States of one row are in all tables, and in the count of the heading."""
    rng = np.random.default_rng(1)
    state = rng.integers(2, size=400)
    frame = pd.DataFrame({f"a{i}": 8.0 * state + rng.normal(size=400) for i in range(4)})
    frame.iloc[7, :2] = 200.0
    model = MCVQ(1, 10, likelihood="gaussian", random_state=0).fit(frame)
    content = collect(model, frame)
    (part,) = content["parts"]
    listed = [one["number"] for one in part["states"]]
    assert min(one["weight"] for one in part["states"]) < 0.005
    assert [one["number"] for one in part["vectors"]] == listed
    assert {len(line["cells"]) for line in part["profile"]} == {len(listed)}
    assert content["n_vectors"] == len(listed)
    page = render(content)
    assert f"with {len(listed)} states in all" in page
    # The warning stands at a group, too.
    part["groups"] = [{"states": listed, "weight": 1.0, "sentence": "same", "but": [(2, "low")]}]
    page = render(content)
    assert "But State 2: low" in page
    small = next(one["number"] for one in part["states"] if one["is_small"])
    assert f"State {small} has only 1 row, perhaps" in page


def test_rare_cells_claim_no_more_than_the_rows_can_tell():
    assert _rarity(math.log(1700), 569) == "1 in 1,700"
    assert _rarity(50.0, 569) == _rarity(math.log(10_001), 569) == "rarer than 1 in 10,000"


def test_anomalous_values_are_written_as_recorded():
    values = 5.004, 5.0, 0.07404, 1234567.25, 3360, "a", np.float32(0.1)
    written = ["5.004", "5", "0.07404", "1234567.25", "3,360", "a", "0.1"]
    assert [_recorded(None, 0, value) for value in values] == written


def test_the_usual_kind_of_row_is_not_called_low():
    """A few large values shift the mean away from what most rows have."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(18, 0.5, size=200), "size": rng.normal(size=200)})
    frame.iloc[:20] = rng.normal([40, 3], 1, size=(20, 2))
    model = MCVQ(1, 2, likelihood="gaussian", random_state=0).fit(frame)
    assert "age slightly low" in str(model.summary()["profile"][0])
    (part,) = collect(model, frame)["parts"]
    first, second = (one["sentence"] for one in part["states"])
    assert first.startswith("the usual kind of row: age 18 (overall 20")
    assert "age very high" in second


def test_states_of_few_rows_are_marked_and_their_rows_named():
    rng = np.random.default_rng(1)
    state = rng.integers(2, size=80)
    frame = pd.DataFrame({f"a{i}": 8.0 * state + rng.normal(size=80) for i in range(4)})
    frame.index = [f"person {i}" for i in range(80)]
    frame.iloc[7, :2] = 200.0
    model = MCVQ(1, 3, likelihood="gaussian", random_state=0).fit(frame)
    content = collect(model, frame)
    (part,) = content["parts"]
    assert part["states"][0]["weight"] >= part["states"][1]["weight"] >= part["states"][2]["weight"]
    assert [one["is_small"] for one in part["states"]] == [False, False, True]
    assert part["states"][2]["rows"] == [("person 7", 7)]
    states = model.predict_states(frame)[:, 0]
    for one in part["states"][:2]:
        assert len(one["rows"]) == 3
        assert {states[at] for _, at in one["rows"]} == {one["number"]}
    page = render(content)
    assert "Part 0: a" in page.replace('<span data-part="0">', "")
    for one in part["states"]:  # the numbers of `predict_states` and of the command line
        assert f"<strong>State {one['number']}</strong> {one['sentence'][:9]}" in page
    (live,) = content["live"]["parts"]
    said = live["sentences"][part["states"][2]["number"]]
    assert said.endswith("Only 1 row is in this state, perhaps for wrong values.")
    page = render(content)
    assert "Only 1 row, perhaps wrong values" in page
    assert "person 7" in page


def test_rows_are_named_as_a_file_counts_them():
    frame = pd.DataFrame({"a": np.arange(6.0), "b": np.arange(6.0)})
    model = MCVQ(1, 1, likelihood="gaussian", random_state=0).fit(frame)

    def first(frame, names=None):
        rows = PageRows(model, frame, names)
        return rows.name(0), rows.are_counted, rows.have_names

    assert first(frame) == ("Row 1", True, False)
    assert first(frame.to_numpy()) == ("Row 1", True, False)
    assert first(frame.set_axis(range(10, 16))) == ("index 10", False, False)
    assert first(frame.set_axis(pd.RangeIndex(10, 16, name="id"))) == ("id 10", False, False)
    assert first(frame.set_axis(list("uvwxyz"))) == ("u", False, True)
    assert first(frame, list("uvwxyz")) == ("u", False, True)
    assert first(frame, [f"Row {i}" for i in range(1, 7)]) == ("Row 1", True, False)


def test_parts_are_named_by_words_that_their_columns_share():
    every = ["Min.Price", "Price", "max_price", "Weight", "Length", "Width", "Horsepower", "RPM"]
    assert name_of_columns(["Min.Price", "Price", "Max.Price", "Make"], every) == "Price"
    assert name_of_columns(["Weight", "Length"], every) == "Weight, Length"
    assert name_of_columns(every[2:], every) == "max_price, Weight …"
    # A word would hide that the strongest columns are others.
    columns = ["Age", "Weight", "Min.Price", "Price", "Max.Price"]
    assert name_of_columns(columns, [*columns, "RPM"]) == "Age, Weight …"


def test_missing_values_that_coincide_by_chance_are_not_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 120))
    X[rng.random(X.shape) < 0.05] = np.nan
    model = MCVQ(2, 2, random_state=0, max_iter=3, tol=1.0).fit(X)
    assert collect(model, X)["overview"]["missing"]["together"] == []


def test_times_and_many_ordered_numbers_are_drawn_as_what_they_are():
    """A time of day is no date, and no bar says "7 more"."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "released": pd.to_timedelta(rng.integers(600, 900, size=300), "min"),
            "day": 1 + np.arange(300) % 31,
            "amount": 100 * rng.integers(2, 60, size=300),
        }
    )
    kinds = {"released": "gaussian", "day": "ordinal", "amount": "ordinal"}
    model = MCVQ(1, 1, likelihood=kinds, random_state=0).fit(frame)
    content = collect(model, frame)
    released, day, amount = content["overview"]["columns"]
    assert (released["kind"], released["why"]) == ("time of day or duration", "normal distribution")
    assert (len(day["bars"]), day["low"], day["high"]) == (31, "1", "31")
    assert len(amount["bars"]) == 12
    assert (amount["low"], amount["high"]) == ("200", "5,900")
    assert content["live"]["terms"][0] == {"span": True}


def test_numbers_of_a_narrow_range_have_the_digits_that_differ():
    """A longitude of -121.5151 was expected to be -121."""
    rng = np.random.default_rng(0)
    where = rng.integers(2, size=200)
    frame = pd.DataFrame(
        {
            "longitude": -121.5 + 0.2 * where + 0.01 * rng.normal(size=200),
            "latitude": 38.6 + 0.2 * where + 0.01 * rng.normal(size=200),
            "age": rng.integers(18, 98, size=200),
        }
    )
    frame.loc[3, "longitude"] = -121.0
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)
    content = collect(model, frame)
    table = content["overview"]
    line = next(one for one in table["columns"] if one["name"] == "longitude")
    assert re.fullmatch(r"-121\.\d{3}", line["typical"])
    assert re.fullmatch(r"-121\.\d{3}", table["anomalous"][0]["expected"])
    terms = content["live"]["terms"]
    assert (terms[0]["decimals"], terms[2]) == (3, {"step": 1.0})


@pytest.fixture(scope="module")
def patients():
    """Measurements of two thirds of the rows, outliers among them, and columns not in the model."""
    rng = np.random.default_rng(2)
    n = 180
    kind = rng.integers(2, size=n)
    frame = pd.DataFrame({f"cells_{i}": 9.0 * kind + rng.normal(size=n) for i in range(15)})
    frame.loc[120:] = np.nan
    frame.loc[:2, ["cells_0", "cells_1"]] = 300.0
    frame.loc[3:4, ["cells_2", "cells_3"]] = -300.0
    frame["sex"] = np.where(rng.random(n) < 0.8, "f", "m")
    frame["note"] = [f"text {i}" if i % 4 else None for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MCVQ(1, 6, likelihood="auto", random_state=0).fit(frame)
        return model, frame, collect(model, frame)


def test_missing_values_of_columns_that_are_not_used_are_shown_apart(patients):
    _, _, content = patients
    lines = {line["name"]: line for line in content["overview"]["columns"]}
    assert lines["note"]["missing"] == 0.25
    page = render(content)
    assert "the model does not use this column: note (25\u00a0%)" in page
    assert "most often in note" not in page
    assert lines["sex"]["typical"].startswith("f (")


def test_all_columns_that_are_missing_together_can_be_seen(patients):
    _, _, content = patients
    (group,) = content["overview"]["missing"]["together"]
    assert len(group["columns"]) == 15
    section = render(content).split("Missing together")[1].split("</section>")[0]
    assert section.count("<li>cells_") >= 15
    assert "<summary>3 more</summary>" in section


def test_rows_without_values_are_examples_of_no_state(patients):
    """And a state of many rows is a kind of row, however small its share of a large table."""
    model, frame, content = patients
    (part,) = (part for part in content["parts"] if part["n_columns"] == 15)
    states = model.predict_states(frame)[:120, part["number"]]
    for state in part["states"]:
        assert state["n_rows"] == (states == state["number"]).sum()
        assert all(position < 120 for _, position in state["rows"])
        assert state["is_small"] == (state["n_rows"] <= 2.4)


def test_few_rows_of_several_states_are_told_at_once(patients):
    model, frame, _ = patients
    content = collect(model, frame)
    (part,) = (part for part in content["parts"] if part["n_columns"] == 15)
    for state in part["states"]:
        state["is_small"], state["rows"] = state["number"] in (0, 1), [("Row 1", 0)]
    rows = {state["number"]: state["n_rows"] for state in part["states"]}
    listed = [state["number"] for state in part["states"]]
    part["groups"] = [{"states": listed, "weight": 1.0, "sentence": "same", "but": []}]
    found = [f"{j} ({rows[j]} row{'s' * (rows[j] != 1)})" for j in listed if j in (0, 1)]
    said = f"States {found[0]} and {found[1]} have few rows, perhaps wrong values"
    assert render(content).count(said) == 1


def test_doubtful_parts_are_listed_in_one_sentence():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    model = MCVQ(2, 2, random_state=0, max_iter=2, tol=1.0).fit(frame)
    content = collect(model, frame)
    content["overview"]["ties"]["weak"] = {k: {"a": 0, "b": 1, "most": 0.2} for k in (0, 1)}
    text = re.sub(r"<[^>]*>", "", render(content))
    names = [part["name"] for part in content["parts"]]
    said = "2 parts are doubtful, since the ties of their columns are weak in the data: "
    assert f"{said}Part 0 ({names[0]}) and Part 1 ({names[1]})." in text


def test_long_names_break_where_words_end(patients):
    model, frame, _ = patients
    names = [*frame.columns[:15], "sex<b>_at.birth", "note"]
    page = render(collect(model, frame, column_names=names))
    assert "sex&lt;b&gt;_<wbr>at.<wbr>birth" in page
    assert "<b>" not in page


def test_a_table_of_one_column_has_no_parts_to_show():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"only": rng.uniform(size=80).round(2)})
    model = MCVQ(1, 1, likelihood="auto", random_state=0).fit(frame)
    assert model.parts_.tolist() == [-1]
    page = render(collect(model, frame))
    text = " ".join(re.sub(r"<[^>]*>", "", page.split("<script")[0]).split())
    assert "80 rows, 1 column. " in text
    assert "No columns depend on each other: each is described by itself." in text
    assert "No column belongs to part 0." in text
    assert "0 columns" not in text


def test_cells_that_are_as_expected_are_no_anomalies():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(2, size=60), "b": rng.integers(2, size=60)})
    model = MCVQ(1, 1, likelihood="auto", random_state=0).fit(frame.astype(str))
    content = collect(model, frame.astype(str))
    assert content["overview"]["anomalous"] == []
    page = render(content)
    assert "No value is rarer in a row like its own than 1 in 20." in page
    assert "No cell is" in page
    assert collect(model)["overview"]["anomalous"] is None


def test_columns_of_many_levels_leave_room_for_others():
    """In the table of a part's states, which says how many columns it has."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=400)
    frame = pd.DataFrame({f"a{i}": 9.0 * state + rng.normal(size=400) for i in range(3)})
    level = np.where(rng.random(400) < 0.5, state, rng.integers(30, size=400))
    frame["town"] = [f"town {one}" for one in level]
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)
    content = collect(model, frame)
    (part,) = content["parts"]
    assert part["n_profiled"] == part["n_columns"] == 4
    lines = [line for line in part["profile"] if line["name"].startswith("town")]
    assert len(lines) == 9
    assert lines[-1]["name"] == "town = one of 22 others"
    for j in range(2):
        assert sum(line["cells"][j]["value"] for line in lines) == pytest.approx(1.0)
    part["n_profiled"] = 3
    assert "The 3 columns that the states explain best, of 4." in render(content)
