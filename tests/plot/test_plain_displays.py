"""Displays of numbers that come from anywhere: groups of pictures, and bars."""

import numpy as np
import pytest

from partwise import make_shapes
from partwise.plot import BarsDisplay, PicturesDisplay, save_picture


def test_pictures_share_their_shades_and_have_titles():
    data = make_shapes().data
    groups = {"one": data[:3], "two": data[3:5] / 2}
    display = PicturesDisplay.from_groups(
        groups, titles={"two": ["a", "b"]}, image_shape=(11, 11), size=0.5
    )
    assert display.limits == (-1.0, 1.0)
    assert display.axes_.shape == (2, 3)
    assert [ax.get_title() for ax in display.axes_[1, :2]] == ["a", "b"]
    assert display.axes_[0, 0].get_ylabel() == "one"
    np.testing.assert_array_equal(
        display.axes_[1, 0].images[0].get_array(), data[3].reshape(11, 11) / 2
    )


def test_pictures_of_a_shape_that_does_not_fit():
    with pytest.raises(ValueError, match="121"):
        PicturesDisplay.from_groups({"one": make_shapes().data[:2]}, image_shape=(3, 3))


def test_bars_have_one_scale():
    display = BarsDisplay.from_values({"a": [1.0, -2.0], "b": [0.1, 0.2]}, ["x", "y"], what="score")
    assert display.axes_[0].get_xlim() == display.axes_[1].get_xlim()
    assert [bar.get_width() for bar in display.axes_[0].patches] == [1.0, -2.0]
    assert [text.get_text() for text in display.axes_[0].get_yticklabels()] == ["x", "y"]


def test_a_picture_is_saved_and_its_figure_closed(tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    save_picture(BarsDisplay.from_values({"a": [1.0]}, ["x"]), tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    assert plt.get_fignums() == before
