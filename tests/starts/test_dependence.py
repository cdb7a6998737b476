"""Groups of columns by their dependence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from partwise.starts import dependence, kmeans
from partwise.starts.dependence import depends, group_columns, squared_correlations


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_weight_is_repetition(share):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    X[:, 1] += X[:, 0]
    X[rng.random(X.shape) < share] = np.nan
    weight = rng.integers(1, 6, 60)
    weighted = squared_correlations(X, weight.astype(float))
    repeated = squared_correlations(np.repeat(X, weight, axis=0), np.ones(weight.sum()))
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


def test_correlations_are_taken_over_rows_that_show_both():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 2))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    X[rng.random(X.shape) < 0.3] = np.nan
    both = ~np.isnan(X).any(axis=1)
    n = both.sum()
    expected = np.corrcoef(X[both].T)[0, 1] ** 2 - 1 / n
    found = squared_correlations(X, np.ones(400))[0, 1]
    np.testing.assert_allclose(found, expected * n / (n + 10.0), rtol=1e-10)


def test_columns_are_grouped_and_noise_is_told_apart():
    rng = np.random.default_rng(2)
    hidden = rng.standard_normal((500, 3))
    tied = np.repeat(hidden, 8, axis=1) + rng.standard_normal((500, 24))
    X = np.hstack([tied, rng.standard_normal((500, 50))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    affinity = squared_correlations(X, np.ones(500))
    found = depends(affinity, 500.0)
    assert found[:24].all()
    assert found[24:].mean() < 0.15
    labels = group_columns(affinity[:24, :24], 3, rng)
    assert adjusted_rand_score(np.repeat(np.arange(3), 8), labels) == 1.0


def test_sparse_and_dense_sums_of_pairs_agree(monkeypatch):
    """Where most is missing, sums go over observed pairs alone, and clusters are the same."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=200)
    sample = rng.normal(size=(3, 30))[kind] * 3 + rng.normal(size=(200, 30))
    sample[rng.random(sample.shape) < 0.8] = np.nan
    weight = rng.gamma(2.0, size=200)
    found = []
    for share in (0.25, 0.0):
        monkeypatch.setattr(dependence, "SPARSE", share)
        monkeypatch.setattr(kmeans, "SPARSE", share)
        labels = kmeans.masked_kmeans(sample, 3, weight, np.random.default_rng(0))
        found.append((dependence.squared_correlations(sample, weight), labels))
    assert_allclose(found[0][0], found[1][0], atol=1e-12)
    assert_array_equal(found[0][1], found[1][1])


def test_k_means_of_sparse_rows_is_the_same_with_and_without_kernels(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 40)) + 3.0 * rng.integers(3, size=300)[:, None]
    X[rng.random(X.shape) < 0.8] = np.nan
    weight = rng.integers(1, 4, 300).astype(float)
    found = []
    for few in (False, True):
        monkeypatch.setattr(kmeans, "is_few", lambda n, few=few: few)
        found.append(kmeans.masked_kmeans(X, 3, weight, np.random.default_rng(0)))
    assert_array_equal(*found)
