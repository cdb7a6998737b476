"""The support of a column as its observed values show it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from partwise.data.support import Support

MANY = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        (np.full(50, 2013.0), (2013, 2013)),
        (np.tile(np.arange(1.0, 13.0), 20), (1, 12)),
        (MANY.exponential(3.0, 500), (0, np.inf)),
        (-MANY.exponential(3.0, 500), (-np.inf, 0)),
        (MANY.normal(0.0, 3.0, 500), (-np.inf, np.inf)),
        (np.minimum(MANY.exponential(30.0, 500), 60.0), (0, 60)),
        (np.zeros(0), (-np.inf, np.inf)),
    ],
    ids=["constant", "months", "positive", "negative", "free", "censored", "none"],
)
def test_bounds(values, bounds):
    support = Support.of(values)
    assert (support.low, support.high) == bounds


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.arange(40.0) * 7 + 3, 1.0),
        (np.round(MANY.normal(20, 5, 200), 2), 0.01),
        (np.round(MANY.normal(20, 5, 200), 1), 0.1),
        (MANY.normal(20, 5, 200), 0.0),
        (np.array([0.5, 0.25]), 0.0),
    ],
)
def test_resolution(values, step):
    assert Support.of(values).step == pytest.approx(step, rel=1e-12)


def test_single_precision_keeps_its_decimals():
    values = np.round(MANY.normal(20, 5, 200), 2).astype(np.float32)
    assert Support.of(values.astype(float), single=True).step == pytest.approx(0.01)


def test_times_keep_days_and_minutes():
    days = np.arange(18000.0, 18200.0)
    assert Support.of(days, times=True).step == 1.0
    minutes = days + MANY.integers(0, 1440, len(days)) / 1440.0
    assert Support.of(minutes, times=True).step == 1.0 / 1440.0
    assert Support.of(days + 1e3, times=True).low == -np.inf  # dates have no zero


def test_values_are_brought_into_the_support():
    prices = Support.of(np.round(MANY.lognormal(3.0, 1.0, 400), 2))
    assert_array_equal(prices.nearest(np.array([-3.0, 19.98765, 1e9])), [0.0, 19.99, 1e9])
    sampled = prices.nearest(np.array([-3.0, 19.98765, 1e9]), sampled=True)
    assert_array_equal(sampled, [prices.smallest, 19.99, prices.largest])
    assert_array_equal(Support().nearest(np.array([np.nan, 1.23456789])), [np.nan, 1.23456789])


def test_ends_are_rounded_inward():
    rng = np.random.default_rng(0)
    support = Support(step=0.1)
    middle, width = rng.normal(size=500), rng.uniform(0.0, 0.4, 500)
    lower, upper = middle - width, middle + width
    ends = [support.nearest(end) for end in support.inward(lower, upper)]
    grid = np.round(np.arange(-60, 61) * 0.1, 1)
    for low, high, a, b in zip(lower, upper, *ends, strict=True):
        inside = grid[(low <= grid) & (grid <= high)]
        if len(inside):
            assert (a, b) == (inside[0], inside[-1])
        else:
            assert a == b == pytest.approx((low + high) / 2, abs=0.05)
    exact = support.inward(np.array([0.3]), np.array([0.7]))
    assert [float(support.nearest(end)[0]) for end in exact] == [0.3, 0.7]
    counts, large = Support(step=1.0), (np.array([20_000_001.0]), np.array([20_000_011.0]))
    assert [counts.nearest(end) for end in counts.inward(*large)] == [*large]


def test_ends_whose_difference_overflows_move_inward():
    lower, upper = np.array([-1.7e308, 2.4, 1.6e308]), np.array([1.7e308, 2.6, 1.7e308])
    largest = np.full(1, np.finfo(float).max)
    with np.errstate(over="raise"):
        found = Support(step=1.0).inward(lower, upper)
        np.testing.assert_array_equal(Support(step=1.0).inward(-largest, largest)[1], largest)
    np.testing.assert_allclose(found, [[-1.7e308, 2.5, 1.6e308], [1.7e308, 2.5, 1.7e308]])
