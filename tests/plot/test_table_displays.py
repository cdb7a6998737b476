"""Displays of tables with several kinds of columns."""

import matplotlib

matplotlib.use("Agg")

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise import MCVQ, make_survey
from partwise.plot import (
    DependenceDisplay,
    ProfilesDisplay,
    ReconstructionDisplay,
    SamplesDisplay,
    TableDisplay,
)
from partwise.report.collect import collect
from partwise.report.render import render


@pytest.fixture(scope="module")
def survey():
    return make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0)


@pytest.fixture(scope="module")
def model(survey):
    return MCVQ(2, 4, likelihood="auto", random_state=0).fit(survey.frame)


def test_rows_stand_by_their_states_with_holes(survey, model):
    display = TableDisplay.from_estimator(model, survey.frame, max_rows=120)
    assert display.values.shape == (120, 10)
    every = np.unique(np.linspace(0, 299, 120).astype(int))
    assert np.isnan(display.values).sum() == survey.hidden[every].sum()
    # Rows of one state of the first part stand together.
    states = model.predict_states(survey.frame)[every]
    counts = np.bincount(model.parts_[model.parts_ >= 0], minlength=2)
    main = states[:, np.argsort(counts, kind="stable")[-1]]
    number = model._fitted.schema.encode(survey.frame)[every, 0]
    first = np.nan_to_num(display.values[:, 0]) * np.nanstd(
        model._fitted.schema.encode(survey.frame)[:, 0]
    ) + np.nanmean(model._fitted.schema.encode(survey.frame)[:, 0])
    sizes = np.bincount(main)
    start = 0
    for j, n in enumerate(sizes):
        expected = np.sort(number[(main == j) & ~np.isnan(number)])
        shown = display.values[start : start + n, 0]
        assert_allclose(np.sort(first[start : start + n][~np.isnan(shown)]), expected, atol=1e-6)
        start += n
    images = [image.get_array() for image in display.ax_.images]
    assert [image.shape for image in images] == [(120, 10)] * 3
    # Every observed cell is in one of the images: numbers, ordered levels, categories.
    seen = sum((~np.ma.getmaskarray(np.ma.masked_invalid(image))).astype(int) for image in images)
    order = np.argsort(np.where(model.parts_ < 0, 99, model.parts_), kind="stable")
    assert_array_equal(seen == 1, ~np.isnan(display.values[:, order]))
    assert set(display.kinds) == {"number", "ordered", "category"}
    ranks = display.values[:, display.kinds == "category"]
    assert np.nanmax(ranks) < 9
    ordered = display.values[:, display.kinds == "ordered"]
    assert np.nanmin(ordered) == 0
    assert np.nanmax(ordered) == 1
    assert f"part {np.argsort(counts, kind='stable')[-1]}" in display.ax_.get_ylabel()


def test_names_of_parts_are_used(survey, model):
    named = copy(model).set_params(part_names=["habits", "$views"])
    assert TableDisplay.from_estimator(named, survey.frame).sorted_by in named.part_names_
    assert ProfilesDisplay.from_estimator(named, 1).ax_.get_title() == r"\$views"
    shown = [text.get_text() for text in DependenceDisplay.from_estimator(named).ax_.texts]
    assert shown == ["habits", r"\$views"]
    parts = collect(named, survey.frame)["parts"]
    assert [part["name"] for part in parts] == ["habits", "$views"]
    assert all(part["states"] for part in parts)


def test_profiles_of_many_levels_keep_the_most_informative(model):
    every = ProfilesDisplay.from_estimator(model, 0)
    some = ProfilesDisplay.from_estimator(model, 0, max_columns=3)
    between = every.shares @ every.away**2
    assert len(some.names) == 3
    assert set(some.names) == {every.names[i] for i in np.argsort(-between)[:3]}


def test_ties_are_correlations_in_part_order(model):
    display = DependenceDisplay.from_estimator(model)
    found = model.dependence(as_frame=False)
    assert_allclose(display.correlation, np.sqrt(1 - np.exp(-2 * found)), atol=1e-7)
    order = np.argsort(np.where(model.parts_ < 0, 99, model.parts_), kind="stable")
    drawn = display.ax_.images[0].get_array()
    assert_allclose(drawn, display.correlation[np.ix_(order, order)])


def test_profiles_say_what_the_states_are(survey, model):
    display = ProfilesDisplay.from_estimator(model, 0)
    told = model.state_profiles(0)
    assert_array_equal(display.away, told["away"])
    assert np.all(np.diff(display.shares) <= 0)
    j = int(told["state"][0])
    column = next(n for n in survey.frame if "number" in n and f"{n}" in told["name"])
    d = list(survey.frame).index(column)
    assert told["text"][0][told["name"].index(column)] == f"{model.means_[0, j, d]:.3g}"
    yes = next(name for name in told["name"] if name.startswith("answer"))
    assert yes.endswith("= True")
    share = model.level_shares_[yes.split(" = ")[0]][0, j, 1]
    assert told["text"][0][told["name"].index(yes)] == f"{share:.0%}"
    with pytest.raises(ValueError, match="no part 7"):
        model.state_profiles(7)


def test_other_displays_and_the_report_take_tables(survey, model):
    rows = survey.frame.iloc[:3]
    drawn = ReconstructionDisplay.from_estimator(model, rows)
    assert_array_equal(np.isnan(drawn.originals), survey.hidden[:3])
    assert SamplesDisplay.from_estimator(model, random_state=0).samples.dtype == float
    page = render(collect(model, survey.frame))
    assert all(str(level) in page for levels in model.column_levels_.values() for level in levels)


def test_a_matrix_is_no_table():
    model = MCVQ(1, 2, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 3)))
    with pytest.raises(ValueError, match="fitted to a table"):
        TableDisplay.from_estimator(model, np.zeros((3, 3)))
