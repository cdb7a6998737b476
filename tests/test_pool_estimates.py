"""Rubin's rules, written out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from partwise.metrics import pool_estimates


def test_by_hand():
    rng = np.random.default_rng(0)
    Q, U = rng.normal(size=(5, 2, 3)), rng.exponential(size=(5, 2, 3))
    pooled = pool_estimates(Q, U, coverage=0.9)
    for at in np.ndindex(2, 3):
        q = [float(Q[i][at]) for i in range(5)]
        mean, within = sum(q) / 5, sum(float(U[i][at]) for i in range(5)) / 5
        between = sum((x - mean) ** 2 for x in q) / 4
        total = within + (1 + 1 / 5) * between
        freedom = 4 * (1 + within / ((1 + 1 / 5) * between)) ** 2
        reach = stats.t.ppf(0.95, freedom) * math.sqrt(total)
        expected = mean, math.sqrt(total), mean - reach, mean + reach, freedom
        assert_allclose([field[at] for field in pooled], expected)


def test_equal_tables_are_one():
    pooled = pool_estimates([2.0, 2.0], [0.25, 0.25])
    assert np.isinf(pooled.degrees_of_freedom)
    assert_allclose([pooled.lower, pooled.upper], 2.0 + 0.5 * stats.norm.ppf([0.025, 0.975]))


@pytest.mark.parametrize("given", [([1.0], [1.0]), ([1.0, 2.0], [1.0]), (1.0, 1.0)])
def test_too_few_or_other_shapes(given):
    with pytest.raises(ValueError, match="same shape, with at least two tables"):
        pool_estimates(*given)
