"""The papers' box, triangle and cross."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

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


def test_gray_shapes_are_solid_and_blurred():
    shapes = make_shapes(drawing="gray")
    row = np.flatnonzero((shapes.states == [0, 4, 8]).all(axis=1))
    image = shapes.data[row].reshape(11, 11)
    solid = np.zeros((13, 13))  # a margin of one pixel, where the blur leaves the image
    solid[1:4, 1:4] = 1.0
    solid[5:8, 5:8] = [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    solid[9:12, 9:12] = [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]
    weight = np.exp(-0.5 * np.array([-1.0, 0.0, 1.0]) ** 2 / 0.42**2)
    kernel = np.outer(weight, weight) / weight.sum() ** 2
    expected = [
        [(kernel * solid[r : r + 3, c : c + 3]).sum() for c in range(11)] for r in range(11)
    ]
    # Two pixels away the blur's weight is 1e-5.
    np.testing.assert_allclose(image, 2.0 * np.array(expected) - 1.0, atol=1e-4)
    assert shapes.data.min() == -1.0
    assert shapes.data.max() == 1.0
    assert len(np.unique(shapes.data, axis=0)) == 729
    outline = make_shapes()
    np.testing.assert_array_equal(shapes.states, outline.states)


def test_pca_has_the_thesis_error_on_gray_shapes():
    shapes = make_shapes(drawing="gray")
    allowed = np.flatnonzero(~(shapes.states < 3).all(axis=1))
    chosen = np.random.default_rng(0).choice(allowed, 100, replace=False)
    train, test = shapes.data[chosen], np.delete(shapes.data, chosen, axis=0)
    pca = PCA(12).fit(train)
    away = pca.inverse_transform(pca.transform(test)) - test
    assert np.sqrt((away**2).mean(axis=1)).mean() == pytest.approx(0.22, abs=0.05)


def test_unknown_drawings_are_refused():
    with pytest.raises(ValueError, match="outline, gray"):
        make_shapes(drawing="gouache")


@pytest.mark.parametrize("n_samples", [0, 730])
def test_impossible_numbers_are_refused(n_samples):
    with pytest.raises(ValueError, match="between 1 and 729"):
        make_shapes(n_samples)
