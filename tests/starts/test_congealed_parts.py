"""Groups of pixels that move as one, and pixels that a mask does without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise import Translations
from partwise.models.moving_parts import Assignment, MovingParts, PartRows, PartsParams
from partwise.starts import congealed_parts as start
from partwise.starts.part_search import Search
from partwise.starts.recurring import patches_reach

MOVES = Translations((6, 6), max_shift=1, by="part")


def heights(shifts):
    """Highest at the shifts (n, 2) of rows."""
    return -4.0 * np.abs(MOVES.values[None] - shifts[:, None]).sum(axis=2)


def test_shifts_are_tied_if_they_agree_up_to_a_constant():
    rng = np.random.default_rng(0)
    shifts = rng.integers(-1, 1, (200, 2))  # leaves room for a constant
    pairs, others = start._pairs(MOVES.values), rng.permutation(200)
    own, weight = heights(shifts), np.ones(200)
    for same in (own, heights(shifts + np.array([1, 0]))):
        saved, cost = start._tie(own, same, weight, pairs, others)
        assert_allclose(saved, cost - 1.0)  # one shift costs nothing
        assert saved > start.LEAST_TIE * cost
    saved, cost = start._tie(own, heights(rng.integers(-1, 2, (200, 2))), weight, pairs, others)
    assert saved < start.LEAST_TIE * cost
    saved, cost = start._tie(
        own, np.zeros_like(own), weight, pairs, others
    )  # says nothing of shifts
    assert saved == 0.0


def test_pairs_of_shifts_differ_by_one_shift():
    for step, (t, u) in zip(MOVES.values, start._pairs(MOVES.values), strict=True):
        assert_array_equal(MOVES.values[t] + step, MOVES.values[u])
        assert len(t) == np.prod(3 - np.abs(step))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_masks_lose_the_pixels_that_the_background_explains(missing):
    rng = np.random.default_rng(0)
    n, own = 100, np.zeros((8, 8), bool)
    own[2:4, 2:6] = True  # of the canvas
    mean = np.where(own, 2.0, 0.0).reshape(1, 1, -1)
    odds = np.zeros((1, 64))
    odds[0, np.flatnonzero(np.pad(np.ones((4, 6)), ((1, 3), (1, 1))))] = 2.0  # with a rim
    flat = -np.log(9) * np.ones((1, 9))
    params = PartsParams(
        odds, mean, np.full((1, 1, 64), 0.01), flat, np.zeros((1, 1, 1)), np.zeros(1),
        np.zeros(36), np.full(36, 0.01), 0.05,
    )  # fmt: skip
    model = MovingParts(1, 1, MOVES, 0.01)
    t = rng.integers(9, size=(n, 1))
    x = mean[0, 0][MOVES.maps[t[:, 0]]] + 0.1 * rng.normal(size=(n, 36))
    seen = (rng.random(x.shape) >= missing).astype(float)
    search = Search(model, params, Assignment(t, np.zeros_like(t)))
    closed = search.closed(PartRows(x * seen, seen), np.ones(n)).params.odds[0]
    assert_array_equal(closed == 2.0, own.ravel())
    assert_array_equal(closed > 0, odds[0] > 0)  # a part may take them back


def test_patches_are_sought_where_shifts_take_them_to_every_pixel():
    assert patches_reach(Translations((16, 16), max_shift=8).values, (16, 16))
    assert not patches_reach(Translations((32, 32), max_shift=2).values, (32, 32))
