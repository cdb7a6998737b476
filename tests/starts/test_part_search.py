"""Masks and states of parts that move, given where they are."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from partwise import Translations
from partwise.models.moving_parts import Assignment, MovingParts, PartRows, PartsParams
from partwise.starts.congeal import displaced
from partwise.starts.part_search import NEAR_ODDS, Search

MOVES = Translations((8, 8), max_shift=2, by="part")
OWN = np.pad(np.ones((4, 5), bool), ((4, 4), (3, 4))).ravel()  # of the canvas, 12 x 12


def looks(n_states):
    """Appearances of a part, (1, J, D_c)."""
    shades = np.random.default_rng(1).choice([-3.0, 3.0], size=(n_states, 20))
    out = np.zeros((1, n_states, 144))
    out[0, :, OWN] = shades.T
    return out


def search_of(mean, t, s, odds=None):
    J = mean.shape[1]
    odds = np.where(OWN, 2.0, NEAR_ODDS)[None] if odds is None else odds
    flat = np.full((1, len(MOVES)), -np.log(len(MOVES)))
    params = PartsParams(
        odds, mean, np.full(mean.shape, 0.01), flat, np.full((1, 1, J), -np.log(J)), np.zeros(1),
        np.zeros(64), np.full(64, 0.01), 0.05,
    )  # fmt: skip
    return Search(MovingParts(1, J, MOVES, 0.01), params, Assignment(t[:, None], s[:, None]))


def rows_of(mean, t, s, missing, rng):
    x = mean[0][s[:, None], MOVES.maps[t]] + 0.1 * rng.normal(size=(len(t), 64))
    seen = (rng.random(x.shape) >= missing).astype(float)
    return PartRows(x * seen, seen), np.ones(len(t))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_masks_grow_over_what_moves_with_them(missing):
    rng = np.random.default_rng(0)
    mean, t, s = looks(2), rng.integers(25, size=120), rng.integers(2, size=120)
    rows, weight = rows_of(mean, t, s, missing, rng)
    half = OWN & (np.arange(144) % 2 == 0)
    partial = search_of(np.where(half, mean, 0.0), t, s, np.where(half, 2.0, NEAR_ODDS)[None])
    grown = partial.regrown(rows, weight)
    assert_array_equal(grown.params.odds[0] > 1, OWN)
    assert np.abs(grown.params.mean - mean)[..., OWN].max() < 0.2
    assert grown.height(rows, weight) > partial.height(rows, weight)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_state_beside_its_place_is_put_right(missing):
    rng = np.random.default_rng(0)
    mean, s = looks(3), rng.integers(3, size=120)
    places = rng.integers(-1, 2, size=(120, 2))  # all can be seen from one pixel further on
    where = {tuple(value): i for i, value in enumerate(MOVES.values)}
    t = np.array([where[tuple(place)] for place in places])
    rows, weight = rows_of(mean, t, s, missing, rng)
    step = np.array([0, 1])
    off, moved = mean.copy(), t.copy()
    off[0, 1] = displaced(mean[0, 1], (0, 1), MOVES.canvas_shape)
    moved[s == 1] = [where[tuple(place - step)] for place in places[s == 1]]
    wrong = search_of(off, moved, s)
    assert_array_equal(off[0][s[:, None], MOVES.maps[moved]], mean[0][s[:, None], MOVES.maps[t]])
    right = wrong.realigned(rows, weight)
    assert_array_equal(right.found.t[:, 0], t)
    assert_array_equal(right.params.mean, mean)
    assert right.height(rows, weight) > wrong.height(rows, weight)
    again = right.realigned(rows, weight)
    assert_array_equal(again.params.mean, mean)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_states_of_several_kinds_are_split(missing):
    rng = np.random.default_rng(0)
    mean, t, kind = looks(4), rng.integers(25, size=200), rng.integers(4, size=200)
    rows, weight = rows_of(mean, t, kind, missing, rng)
    blurred = search_of(np.repeat(mean.mean(axis=1, keepdims=True), 6, axis=1), t, kind // 3)
    found = blurred.divided(rows, weight, rng).found.s[:, 0]
    pairs = np.unique(np.stack([found, kind]), axis=1)
    assert pairs.shape[1] == 4  # one state for every kind


def test_refining_raises_the_bound():
    rng = np.random.default_rng(0)
    mean, t, s = looks(3), rng.integers(25, size=150), rng.integers(3, size=150)
    rows, weight = rows_of(mean, t, s, 0.0, rng)
    first = search_of(mean, t, np.zeros_like(s))
    refined = first.refined(rows, weight, rng)
    assert refined.height(rows, weight) > first.height(rows, weight)
    assert len(np.unique(np.stack([refined.found.s[:, 0], s]), axis=1).T) == 3
