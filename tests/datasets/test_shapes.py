"""The papers' box, triangle and cross."""

import numpy as np
import pytest

from partwise.datasets import make_shapes


def test_all_images_once():
    shapes = make_shapes()
    assert shapes.data.shape == (729, 121)
    assert shapes.data.dtype == np.float64
    assert shapes.image_shape == (11, 11)
    assert set(np.unique(shapes.data)) == {-1.0, 1.0}
    assert len(np.unique(shapes.data, axis=0)) == 729
    assert len(np.unique(shapes.states, axis=0)) == 729
    assert shapes.states.min() == 0
    assert shapes.states.max() == 8


def test_box_triangle_cross():
    shapes = make_shapes()
    row = np.flatnonzero((shapes.states == [0, 4, 8]).all(axis=1))
    image = shapes.data[row].reshape(11, 11)
    drawn = ["".join("#" if pixel > 0 else "." for pixel in line) for line in image]
    assert drawn == [
        "###........",
        "#.#........",
        "###........",
        "...........",
        ".....#.....",
        "....#.#....",
        "....###....",
        "...........",
        ".........#.",
        "........###",
        ".........#.",
    ]


def test_masks_are_the_strips():
    shapes = make_shapes()
    ink = shapes.data > 0
    np.testing.assert_array_equal(shapes.masks >= 0, ink.any(axis=0))
    column = np.tile(np.arange(11), 11)
    inked = shapes.masks >= 0
    np.testing.assert_array_equal(shapes.masks[inked], column[inked] // 4)
    assert not inked[np.isin(column, [3, 7])].any()


def test_a_pixel_depends_on_its_own_shape_only():
    shapes = make_shapes()
    for k in range(3):
        own = shapes.data[:, shapes.masks == k]
        for height in range(9):
            same = own[shapes.states[:, k] == height]
            assert (same == same[0]).all()
        assert own.std(axis=0).min() > 0


def test_subset_without_replacement():
    shapes = make_shapes(100, random_state=3)
    assert shapes.data.shape == (100, 121)
    assert len(np.unique(shapes.states, axis=0)) == 100
    np.testing.assert_array_equal(make_shapes(100, random_state=3).data, shapes.data)
    assert (make_shapes(100, random_state=4).data != shapes.data).any()
    # the row that goes with a state is the same as in the full set
    whole = make_shapes()
    place = shapes.states @ [81, 9, 1]
    np.testing.assert_array_equal(whole.data[place], shapes.data)


@pytest.mark.parametrize(
    "make_source",
    [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)],
    ids=["int", "Generator", "RandomState"],
)
def test_any_source_of_randomness_repeats(make_source):
    first = make_shapes(20, random_state=make_source())
    second = make_shapes(20, random_state=make_source())
    np.testing.assert_array_equal(first.states, second.states)


@pytest.mark.parametrize("n_samples", [0, 730])
def test_impossible_numbers_are_refused(n_samples):
    with pytest.raises(ValueError, match="between 1 and 729"):
        make_shapes(n_samples)
