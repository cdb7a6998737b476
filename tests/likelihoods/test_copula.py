"""The largest of several Gaussian numbers, against integration on a fine grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from partwise.likelihoods.copula import choice_moments, head_starts, largest_shares


def on_a_grid(level, mean, root):
    """Log share and standardized moments, by summing over the largest number."""
    y = np.linspace(-40.0, 40.0, 40_001)
    away = (y - mean[:, None]) * root[:, None]
    log_below = stats.norm.logcdf(away)
    ratio = np.exp(stats.norm.logpdf(away) - log_below)
    log_joint = stats.norm.logpdf(y, mean[level], 1.0 / root[level])
    log_joint = log_joint + log_below.sum(axis=0) - log_below[level]
    weight = np.exp(log_joint - log_joint.max())
    log_share = log_joint.max() + np.log(weight.sum() * (y[1] - y[0]))
    weight /= weight.sum()
    first, second = -(ratio @ weight), (1.0 - away * ratio) @ weight
    first[level], second[level] = away[level] @ weight, away[level] ** 2 @ weight
    return log_share, first, second


@pytest.mark.parametrize("spread", [1.0, 3.0, 8.0])
def test_moments_equal_those_on_a_grid(spread):
    rng = np.random.default_rng(int(spread))
    for _ in range(8):
        V = int(rng.integers(2, 7))
        mean, root = spread * rng.normal(size=V), np.full(V, rng.uniform(0.5, 2.0))
        level, first, second = int(rng.integers(V)), np.empty(V), np.empty(V)
        log_share = choice_moments(level, mean, root, first, second)
        truth = on_a_grid(level, mean, root)
        assert_allclose(log_share, truth[0], atol=2e-5)
        assert_allclose(first, truth[1], atol=5e-5)
        assert_allclose(second, truth[2], atol=2e-4)


def test_of_two_numbers_the_share_is_that_of_their_difference():
    mean, root = np.array([[0.3, -0.9]]), np.array([1.0, 1.0])
    found = largest_shares(mean, root[None] ** -2)
    expected = stats.norm.cdf(1.2 / np.sqrt(2.0))
    assert_allclose(found, [[expected, 1.0 - expected]], atol=1e-6)


def test_head_starts_give_the_levels_their_shares():
    shares = np.array([0.55, 0.3, 0.1, 0.045, 0.005])
    starts = head_starts(shares)
    assert_allclose(starts.mean(), 0.0, atol=1e-12)
    assert_allclose(largest_shares(starts[None], np.ones((1, 5)))[0], shares, rtol=1e-4)
    assert_allclose(head_starts(np.full(4, 0.25)), 0.0, atol=1e-9)
