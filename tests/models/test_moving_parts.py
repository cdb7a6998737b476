"""Parts that move on their own, against loops and enumeration on images of 4x4."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise import MCVQ, Translations
from partwise.models.moving_parts import Assignment, MovingParts, PartsParams
from tests.common.helpers import assert_never_falls

SIDE, K, J, N = 4, 2, 2, 6


def case(missing=0.0, seed=0):
    """A model with random parameters and templates of 3x3, and rows."""
    rng = np.random.default_rng(seed)
    moves = Translations((SIDE, SIDE), max_shift=1, by="part")
    model = MovingParts(K, J, moves, 0.1)
    odds = np.zeros((K, 6, 6))
    odds[:, 1:4, 2:5] = rng.uniform(0.1, 5.0, (K, 3, 3))
    params = PartsParams(
        odds.reshape(K, -1),
        rng.normal(size=(K, J, 36)),
        rng.uniform(0.1, 0.5, (K, J, 36)),
        np.log(rng.dirichlet(np.ones(9), K)),
        np.log(rng.dirichlet(np.ones(J), K)),
        rng.normal(size=16),
        rng.uniform(0.1, 0.5, 16),
        0.1,
    )
    seen = (rng.random((N, 16)) >= missing).astype(float)
    return model, params, rng.normal(size=(N, 16)) * seen, seen


def normal(x, mean, variance):
    return math.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)


def joint(model, params, x, seen, t, s):
    """log p(x, t, s) of one row, pixel by pixel."""
    total = sum(params.log_rho[k][t[k]] + params.log_b[k][s[k]] for k in range(K))
    for d in range(16):
        if not seen[d]:
            continue
        own = normal(x[d], params.back_mean[d], params.back_var[d])
        density = (1 - params.outlier) * own + params.outlier * normal(x[d], 0.0, 2.0)
        mass = 1.0
        for k in range(K):
            u = model.maps[t[k], d]
            a = params.odds[k, u]
            density += a * normal(x[d], params.mean[k, s[k], u], params.var[k, s[k], u])
            mass += a
        total += math.log(density / mass)
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_bounds_and_gains_equal_loops(missing):
    model, params, x, seen = case(missing)
    rng = np.random.default_rng(1)
    found = Assignment(rng.integers(9, size=(N, K)), rng.integers(J, size=(N, K)))
    wanted = [joint(model, params, x[i], seen[i], found.t[i], found.s[i]) for i in range(N)]
    assert_allclose(model.row_bounds(params, x, seen, found, range(K)), wanted, rtol=1e-10)
    rest, Z = model.explained(params, x, found, [1])
    gains = model.gains(params, x, seen, 0, rest, Z)
    best = gains.reshape(N, -1).argmax(axis=1)
    for i in range(2):
        every = [
            joint(model, params, x[i], seen[i], (t, found.t[i, 1]), (s, found.s[i, 1]))
            for t in range(9)
            for s in range(J)
        ]
        assert int(np.argmax(every)) == best[i]
        assert_allclose(gains[i].ravel() - gains[i].max(), np.array(every) - max(every), atol=1e-9)


def test_assignments_are_bounds_that_enumeration_confirms():
    model, params, x, seen = case(0.2)
    found = model.begun(params, x, seen)
    bounds = model.row_bounds(params, x, seen, found, range(K))
    for i in range(2):
        every = [
            joint(model, params, x[i], seen[i], t, s)
            for t in itertools.product(range(9), repeat=K)
            for s in itertools.product(range(J), repeat=K)
        ]
        assert bounds[i] <= max(every) + 1e-9
        assert bounds[i] <= np.logaddexp.reduce(every)
        assert bounds[i] >= max(every) - 1.0  # coordinate steps from several orders


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_no_step_lowers_the_bound(missing):
    model, params, x, seen = case(missing)
    weight, trace, memory = np.linspace(0.5, 2.0, N), [], None
    for _ in range(12):
        memory = model.assign(params, x, seen, memory)
        stats = model.sums(params, x, seen, weight, memory)
        trace.append(model.bound(params, stats))
        params = model.maximize(params, stats)
        trace.append(model.bound(params, model.sums(params, x, seen, weight, memory)))
    assert_never_falls(trace)


def test_weights_are_repetition_and_sums_add():
    model, params, x, seen = case(0.2)
    found, times = model.begun(params, x, seen), np.arange(N) % 3 + 1
    one = model.sums(params, x, seen, times.astype(float), found)
    again = [np.repeat(values, times, axis=0) for values in (x, seen, *found)]
    other = model.sums(params, *again[:2], np.ones(times.sum()), Assignment(*again[2:]))
    assert_allclose(one.sums, other.sums, atol=1e-10)
    assert math.isclose(one.bound, other.bound, rel_tol=1e-12)
    assert_allclose((one + one).mass, 2 * one.mass)
    assert replace(one, bound=0.0).outliers == one.outliers


def moving_shapes(n, seed, side=9):
    """A bar and a square, each anywhere; their places."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, side - 2, size=(n, 2, 2))
    ink = np.zeros((n, side, side))
    for i, ((y, x), (v, z)) in enumerate(places):
        ink[i, y : y + 3, x] = 1
        ink[i, v : v + 2, z : z + 3] = 1
    return ink.reshape(n, -1) + 0.1 * rng.normal(size=(n, side * side)), places


def test_estimator_finds_parts_that_move():
    X, _ = moving_shapes(120, 0)
    moves = Translations((9, 9), max_shift=5, by="part")
    model = MCVQ(2, 1, transformations=moves, random_state=0, max_iter=20, tol=1e-2).fit(X)
    new, new_places = moving_shapes(60, 1)
    found = -model.shifts(new)
    assert found.shape == (60, 2, 2)
    right = np.zeros((2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        apart = found[:, a] - new_places[:, b]
        right[a, b] = np.mean((apart == np.median(apart, axis=0)).all(axis=1))
    assert max(min(right[0, 0], right[1, 1]), min(right[0, 1], right[1, 0])) > 0.9
    assert_never_falls(model.lower_bounds_)
    assert np.sqrt(np.mean((model.reconstruct(new) - new) ** 2)) < 0.2
    gaps = np.where(np.random.default_rng(2).random(new.shape) < 0.2, np.nan, new)
    assert np.sqrt(np.mean((model.impute(gaps) - new) ** 2)) < 0.2
    assert model.score(new) > MCVQ(2, 4, random_state=0).fit(X).score(new)
    assert model.transform(new).shape == (60, 2)
    assert model.masks_.shape == (2, 19 * 19)


def test_what_moving_parts_lack_is_said(tmp_path):
    X, _ = moving_shapes(40, 0)
    moves = Translations((9, 9), max_shift=3, by="part")
    with pytest.raises(ValueError, match="rows without classes"):
        MCVQ(2, 1, transformations=moves).fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r'by=.* must be "row" or "part"'):
        Translations((9, 9), by="pixel")
    model = MCVQ(1, 1, transformations=moves, random_state=0, max_iter=3, tol=10).fit(X)
    assert not hasattr(model, "align")
    with pytest.raises(ValueError, match="anomaly_scores is not available"):
        model.anomaly_scores(X)
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(tmp_path / "m")
