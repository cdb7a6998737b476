"""Weighted means, variances and medians against rows that are repeated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.models.weights import weighted_median, weighted_moments


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("most", [1, 4])
def test_an_integer_weight_is_as_many_equal_rows(n, most):
    rng = np.random.default_rng(n)
    values, times = rng.normal(size=(n, 5)), rng.integers(1, most, n, endpoint=True)
    values[1:][rng.random((n - 1, 5)) < 0.3] = np.nan
    every = np.repeat(values, times, axis=0)
    assert_allclose(weighted_median(values, times), np.nanmedian(every, axis=0), rtol=1e-15)
    mean, variance = weighted_moments(values, times)
    assert_allclose(mean, np.nanmean(every, axis=0), rtol=1e-12)
    assert_allclose(variance, np.nanvar(every, axis=0), rtol=1e-12, atol=1e-15)


def test_a_column_without_values_has_no_middle():
    values = np.array([[1.0, np.nan], [3.0, np.nan]])
    weight = np.array([3.0, 1.0])
    assert_allclose(weighted_median(values, weight), [1.0, np.nan])
    assert_allclose(weighted_moments(values, weight), [[1.5, np.nan], [0.75, np.nan]])
