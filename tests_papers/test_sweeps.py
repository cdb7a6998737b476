"""Single sweeps, which benchmarks time: they are those that a fit would take."""

import numpy as np
import pytest

from partwise_papers.bench import _sweep

N_ROWS, N_COLUMNS, PARTS = 60, 8, np.arange(8) % 2


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))


def states(X):
    return _sweep.of_states(X, "gaussian", (2, 3), PARTS)


def factors(X):
    return _sweep.of_factors(X, (1, 2), PARTS)


def directions(X):
    return _sweep.of_directions(X, 3)


@pytest.mark.parametrize("make", [states, factors, directions])
def test_sweeps_raise_the_bound(rows, make):
    with make(rows) as run:
        theta = run.open
        bounds = []
        for _ in range(4):
            bounds.append(run.model.bound(theta, run.sums(theta)))
            theta = run.sweep(theta)
    assert np.all(np.diff(bounds) >= -1e-9 * np.abs(bounds[0]))


@pytest.mark.parametrize("make", [states, factors])
def test_closed_gates_are_those_of_the_parts(rows, make):
    with make(rows) as run:
        assert run.open.params.gate.g.max() < 1.0
        np.testing.assert_array_equal(run.closed.params.gate.g.argmax(axis=0), PARTS)
        assert run.closed.params.gate.g.max(axis=0).min() == 1.0
        run.sweep(run.closed)


def test_bare_products_are_of_all_rows(rows):
    with directions(rows) as run:
        found = _sweep.products_of_directions(run)()
    q = run.open.alpha.shape[1]  # directions that the start has kept
    assert found.shape == (q, q + N_COLUMNS)
