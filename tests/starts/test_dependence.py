"""Groups of columns by their dependence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import adjusted_rand_score

from partwise.data import BlockSource, learn_columns
from partwise.starts import dependence, kmeans
from partwise.starts.dependence import (
    dependence_start,
    depends,
    group_columns,
    squared_correlations,
)
from partwise.starts.subspaces import correlations, told_groups, told_shares


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


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_k_means_of_few_rows_is_the_same_without_matrix_products(share, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3)) + 4.0 * rng.integers(4, size=200)[:, None]
    X[rng.random(X.shape) < share] = np.nan
    weight = rng.gamma(2.0, size=200)
    found = []
    for most in (0, 1 << 20):
        monkeypatch.setattr(kmeans, "FEW_PRODUCTS", most)
        found.append(kmeans.masked_kmeans(X, 4, weight, np.random.default_rng(0)))
    assert_array_equal(*found)


def test_k_means_uses_fewer_centers_where_fewer_rows_differ():
    X = np.repeat([[0.0, 1.0], [2.0, np.nan]], 5, axis=0)
    labels = kmeans.masked_kmeans(X, 6, np.ones(10), np.random.default_rng(0))
    assert len(np.unique(labels)) == 2


def hidden_groups(rng, n=400):
    """Columns that depend on two hidden numbers of their group each, and the groups."""
    hidden = rng.standard_normal((n, 3, 2))
    mixed = np.einsum("nkq,kqd->nkd", hidden, rng.standard_normal((3, 2, 20))).reshape(n, 60)
    return mixed + 0.3 * rng.standard_normal((n, 60)), np.repeat(np.arange(3), 20)


def test_told_groups_are_those_of_hidden_numbers():
    rng = np.random.default_rng(0)
    X, groups = hidden_groups(rng)
    R = correlations((X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X)))
    assert_allclose(R, np.corrcoef(X.T), atol=1e-12)
    begun = rng.integers(3, size=60)
    begun[0] = -1
    found = told_groups(R, len(X), begun, (6, 6, 6), rng)
    assert found[0] == -1
    assert adjusted_rand_score(groups[1:], found[1:]) == 1.0


def test_told_shares_spend_the_capacity():
    """Errors are equal where something is told, and no score of more variance is left out."""
    variance = np.array([[9.0, 4.0, 0.5, 0.1], [1.0, 1.0, 1.0, 1.0], [5.0, 1e-9, 0.0, 0.0]])
    capacity = np.log([[10.0], [4.0], [1.0]])
    share = told_shares(variance, capacity)
    error = variance * (1 - share)
    assert_allclose(-0.5 * np.log1p(-share).sum(axis=1), capacity[:, 0], atol=1e-12)
    assert_allclose(error[0], [error[0, 0]] * 2 + [0.5, 0.1])
    assert error[0, 0] > 0.5
    assert_allclose(error[1], 0.5)
    assert_allclose(share[2], 0.0, atol=1e-12)


@pytest.mark.parametrize("gain", [1.0, -1.0, 0.001])
def test_other_groups_are_taken_where_they_are_clearly_better(gain, monkeypatch):
    rng = np.random.default_rng(1)
    X, _ = hidden_groups(rng)
    other = np.arange(60) % 3
    monkeypatch.setattr(dependence, "told_groups", lambda *given: other)
    weight = np.ones(len(X))
    source = BlockSource(X, learn_columns(X, "gaussian", weight, False, None), weight)
    seen = []

    def judge(rows, stats, gates):
        seen.append(gates)
        return gain * X.shape[1] * len(seen)

    _, gates = dependence_start(source, (4, 4, 4), False, np.random.default_rng(0), judge=judge)
    assert len(seen) == 2
    assert_array_equal(seen[1].argmax(axis=0), other)
    assert_array_equal(gates, seen[int(gain == 1.0)])
