"""Pictures of the search for sizes, and of how sure the parts are."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from partwise import MCVQ, make_shapes, part_stability
from partwise.plot import SizePathDisplay, StabilityDisplay
from partwise.plot.sizes import MAX_LABELS
from partwise.stability import PartStability

PATH = [
    {"kind": "start", "gain": 0.0, "accepted": True, "n_parts": 1, "n_states": (2,),
     "evidence": -100.0},
    {"kind": "split", "gain": 30.0, "accepted": True, "n_parts": 2, "n_states": (2, 3),
     "evidence": -70.0},
    {"kind": "merge", "gain": -500.0, "accepted": False, "n_parts": 2, "n_states": (2, 3),
     "evidence": -70.0},
    {"kind": "split", "gain": 5.0, "accepted": True, "n_parts": 2, "n_states": (3, 3),
     "evidence": -65.0},
]  # fmt: skip


@pytest.fixture
def stability():
    """Two parts, one sure, one not; the last column is background."""
    parts = np.array([0, 0, 1, 1, 1, -1])
    refits = np.array([[0, 0, 1, 1, 1, -1], [1, 1, 0, 2, -1, -1]])
    agreements = np.array([[1.0, 1.0, np.nan], [1.0, 0.2, np.nan]])
    columns = np.array([1.0, 1.0, 0.5, 0.5, 0.5, 1.0])
    return PartStability(
        parts, agreements.mean(axis=0), agreements, columns, refits, np.array([2, 3])
    )


def labels(ax):
    return [text.get_text() for text in ax.texts]


def test_moves_made_are_a_line_and_refused_ones_crosses():
    display = SizePathDisplay(path=PATH).plot()
    made, refused = display.ax_.lines
    np.testing.assert_array_equal(made.get_xydata(), [[0, -100], [1, -70], [3, -65]])
    np.testing.assert_array_equal(refused.get_xydata(), [[2, -570]])
    assert labels(display.ax_) == ["1×2", "2×2–3", "2×3"]
    low, high = display.ax_.get_ylim()
    assert low > -570  # what was refused does not squeeze the rest
    assert high > -65
    assert "3 of 4 moves" in display.ax_.get_title(loc="left")
    display.figure_.canvas.draw()


def test_paths_short_and_long():
    for path in ([], PATH[2:3], [PATH[1] | {"evidence": float(i)} for i in range(100)]):
        display = SizePathDisplay(path=path).plot()
        display.figure_.canvas.draw()
        assert len(labels(display.ax_)) <= MAX_LABELS


def test_it_draws_on_axes_given():
    ax = Figure().subplots()
    display = SizePathDisplay(path=PATH).plot(ax=ax, color="red")
    assert display.ax_ is ax
    assert ax.lines[0].get_color() == "red"


def test_sizes_that_were_given_have_no_path():
    with pytest.raises(NotFittedError):
        SizePathDisplay.from_estimator(MCVQ())
    model = MCVQ(2, 2, random_state=0).fit(make_shapes().data[::9])
    with pytest.raises(ValueError, match="were given; n_parts"):
        SizePathDisplay.from_estimator(model)


def test_stability_as_images(stability):
    display = StabilityDisplay.from_stability(stability, image_shape=(2, 3))
    assert [ax.get_title() for ax in display.axes_] == [
        "part 0\nagreement 1.00",
        "part 1\nagreement 0.60",
        "part 2\nno columns",
    ]
    np.testing.assert_array_equal(
        display.axes_[1].images[0].get_array(), [[0, 0, 0.5], [0.5, 0.5, 0]]
    )
    display.figure_.canvas.draw()


def test_stability_as_table(stability):
    display = StabilityDisplay.from_stability(stability)
    (ax,) = display.axes_
    assert [bar.get_width() for bar in ax.patches] == [1.0, 0.6, 0.0]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), stability.column_agreement[:5])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["part 0", "part 1", "part 2"]
    display.figure_.canvas.draw()


@pytest.mark.ci
def test_stability_of_an_estimator_is_computed():
    X = make_shapes().data[::3]
    model = MCVQ(3, 9, random_state=0).fit(X)
    how = {"n_fits": 2, "resample": "seeds", "random_state": 0}
    display = StabilityDisplay.from_estimator(model, X, image_shape=(11, 11), **how)
    np.testing.assert_array_equal(display.stability.refits, part_stability(model, X, **how).refits)
