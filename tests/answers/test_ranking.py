"""The best columns of rows, and what predictions of chosen cells share with those of all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.answers.ranking import _best
from partwise.models import predict
from partwise.models.predict_factors import level_means, level_shares


@pytest.mark.parametrize("m", [1, 7, 29, 30])
def test_the_best_columns_are_those_of_a_stable_sort(m, monkeypatch):
    monkeypatch.setattr("partwise.answers.ranking.is_few", lambda n_cells: False)
    rng = np.random.default_rng(0)
    score = rng.integers(0, 12, (40, 30)).astype(np.float32)  # many ties
    score[rng.random(score.shape) < 0.3] = -np.inf
    score[3] = -np.inf
    assert_array_equal(_best(score, m), np.argsort(-score, axis=1, kind="stable")[:, :m])


def test_expected_levels_are_those_of_the_distribution():
    rng = np.random.default_rng(1)
    levels = np.array([0.5, 1.0, 3.0, 3.5])
    ends = np.column_stack([np.full(6, -1e6), np.sort(rng.normal(size=(6, 3)), axis=1), [1e6] * 6])
    mean, variance = 4 * rng.normal(size=(2, 5, 6)), rng.gamma(1.0, size=(2, 5, 6))
    gates = np.array([[1.0, 0.3, 0.0, 1e-9, 0.5, 0.9], [0.0, 0.7, 1.0, 1.0, 0.5, 0.1]])
    shares = level_shares(mean, variance, gates, ends)
    found = level_means(mean, variance, gates, ends, levels)
    assert_allclose(found, shares @ levels, atol=2e-6)


def test_mixtures_of_chosen_cells_are_those_of_all():
    rng = np.random.default_rng(2)
    first, gates = np.array([0, 2, 5]), np.array([[1.0, 0.0, 0.4], [0.0, 1.0, 0.6]])
    m, table = rng.random((4, 5)), rng.random((5, 3, 2)) * np.repeat(gates, [2, 3], 0)[:, :, None]
    rows, columns = np.array([3, 0, 0, 2]), np.array([2, 0, 1, 2])
    expected = np.einsum("ns,sdl->ndl", m, table)[rows, columns]
    assert_allclose(predict.mix_cells(m, table, gates, first, (rows, columns)), expected)


def test_means_of_levels_of_numbers_that_are_not_known():
    mean = np.array([[[np.nan], [1.0], [np.inf]]])
    ends = np.array([[-np.inf, 0.0, np.inf, np.inf]])
    found = level_means(mean, np.ones(mean.shape), np.ones((1, 1)), ends, np.arange(3.0))
    assert np.isnan(found[[0, 2]]).all()
    assert np.isfinite(found[1]).all()
