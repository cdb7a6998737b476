"""Helpers of the experiments on GVQ, on few trials."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise_papers.bench import BENCHES
from partwise_papers.experiments import gvq_association, gvq_image, gvq_planted, gvq_sets


def test_trials_compare_all_methods():
    names = list(gvq_association.METHODS)
    trials = gvq_association.run_trials(names, 6, 4, 3, 2.0, 0, n_trials=5)
    assert all(found.shape == (5,) for found in trials.absolute.values())
    for found in trials.squared.values():
        assert np.all(found >= trials.squared["exact"] - 1e-9)
    row = gvq_association.describe(trials)
    assert row["trials where exact is beaten"] == 0
    assert row["of these right"] == row["BR at rest"]
    assert "±" in row["MF"]


def test_columns_have_so_many_connections(monkeypatch):
    seen = []

    class Spy:
        def associate(self, problem):
            seen.append((problem.features != 0).sum(axis=0))
            return gvq_association.Exact().associate(problem)

    monkeypatch.setitem(gvq_association.METHODS, "exact", Spy())
    gvq_association.run_trials(["exact"], 8, 4, 3, 2.0, 0, n_trials=3)
    assert np.all(np.array(seen) == 3)


def test_bits_by_the_papers_count():
    assert_allclose(gvq_image.counted_bits(9, 9), 55.9, atol=0.05)
    assert_allclose(gvq_image.counted_bits(16, 4), 74.0, atol=0.05)


def test_drawn_data():
    assert gvq_planted.planted(3, 5, 20, 0).shape == (20, 5)
    X = gvq_sets.ten_clusters(0)
    assert X.shape == (300, 2)
    assert np.array_equal(X, gvq_sets.ten_clusters(0))


def test_faiss_is_skipped_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    (row,) = BENCHES["gvq_faiss"](pytest.fail)
    assert "pip install faiss-cpu" in row["skipped"]
