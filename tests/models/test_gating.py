"""The entropic prior's best gates, against a search over the simplex."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.likelihoods import Dirichlet
from partwise.models.gating import Standard, Tied, entropic_shares, learn_prior
from tests.reference import mcvq as reference


def objective(shares, counts, strength):
    return np.array(
        [
            reference.entropic_objective(shares[:, d], counts[:, d], strength)
            for d in range(counts.shape[1])
        ]
    )


@pytest.mark.parametrize("strength", [0.01, 0.5, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_shares_are_the_best_point_of_the_simplex(K, strength):
    counts = np.random.default_rng(K).gamma(0.7, 2.0, (K, 8)) + 1e-3
    found = entropic_shares(counts, strength)
    assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    assert np.all(found > 0)
    best = np.array([reference.entropic_shares(tuple(n), strength) for n in counts.T]).T
    gap = objective(best, counts, strength) - objective(found, counts, strength)
    scale = 1 + np.abs(objective(best, counts, strength))
    assert np.max(gap / scale) < 1e-9
    # Where the best is unique and sharp the points agree, not only their values.
    assert_allclose(found, best, atol=1e-5)


@pytest.mark.parametrize("strength", [0.3, 3.0, 30.0])
def test_two_parts_against_a_grid(strength):
    """No search can miss here: all of the simplex is a line."""
    counts = np.array([[0.01, 0.5, 1.0, 2.0, 7.0, 20.0], [0.02, 0.49, 1.5, 0.01, 6.0, 1.0]])
    line = np.linspace(0, 1, 200_001)[1:-1]
    found = entropic_shares(counts, strength)
    for d in range(counts.shape[1]):
        a, b = counts[:, d]
        values = a * np.log(line) + b * np.log1p(-line)
        values += strength * (line * np.log(line) + (1 - line) * np.log1p(-line))
        here = reference.entropic_objective(found[:, d], counts[:, d], strength)
        assert here >= values.max() - 1e-9 * (1 + abs(here))


def test_weak_and_strong_limits():
    counts = np.array([[3.0, 1.0], [1.0, 1.5], [0.5, 0.2]])
    assert_allclose(entropic_shares(counts, 1e-9), counts / counts.sum(axis=0), atol=1e-8)
    strong = entropic_shares(counts, 1e6)
    assert np.all(strong.argmax(axis=0) == counts.argmax(axis=0))
    assert np.all(strong.max(axis=0) > 0.999)


def test_counts_of_nothing_and_equal_counts():
    """Parts that nothing chose get next to nothing; ties give a best point, if not the only one."""
    found = entropic_shares(np.array([[2.0], [0.0], [1.0]]), 1.5)
    assert found[1, 0] < 1e-12
    alone = entropic_shares(np.array([[2.0], [1.0]]), 1.5)
    assert_allclose(found[[0, 2]], alone, atol=1e-8)
    for strength in (0.5, 5.0):
        tie = np.full((2, 1), 0.6)
        found = entropic_shares(tie, strength)
        line = np.linspace(1e-6, 1 - 1e-6, 2_001)
        best = max(
            reference.entropic_objective(np.array([t, 1 - t]), tie[:, 0], strength) for t in line
        )
        assert objective(found, tie, strength)[0] >= best - 1e-9


def test_the_cost_of_an_entropic_prior_is_minus_its_log_density():
    counts = np.array([[3.0, 1.0], [1.0, 1.5]])
    for alpha in (0.0, 0.8):
        log_a, cost = learn_prior(counts, Dirichlet(alpha), 2.0)
        a = np.exp(log_a)
        assert_allclose(cost, -2.0 * np.sum(a * log_a) - alpha * np.sum(log_a), rtol=1e-10)


@pytest.mark.parametrize("gating", [Tied(), Standard()], ids=["tied", "standard"])
def test_chosen_gates_cost_least(gating):
    """No other gates give more expected log-likelihood less cost."""
    rng = np.random.default_rng(0)
    log_a = np.log(rng.dirichlet(np.ones(3), 4).T)
    gain, divergence = -rng.gamma(2, 1, (3, 4)), rng.gamma(1, 1, (3, 4))
    weight = np.array([2.0, 5.0, 0.5, 1.0])

    def value(gates):
        return np.sum(gates * gain) - gating.cost(gates, log_a, divergence, weight)

    best = value(gating.choose(log_a, gain, divergence, weight))
    for _ in range(200):
        assert value(rng.dirichlet(np.ones(3), 4).T) < best
