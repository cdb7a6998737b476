"""Regressions of all columns at once against one at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.models import quadratic_features as ours
from partwise.models.quadratic_features import Moments, QuadraticFeatures
from partwise.models.quadratic_regression import QuadraticRegression

OWNER = np.array([0, 1, 2, 2, 2, 3])  # column 2 has three levels
TARGETS = np.array([0, 1, 5])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6)) + 5.0
    X[:, 2:5] = rng.multinomial(1, [0.2, 0.3, 0.5], size=80)
    return X, rng.integers(3, size=80).astype(float)


def predicted(X, weight, to=None, owner=OWNER, targets=TARGETS):
    """Expected values of rows ``to`` (n, T), learned from rows X."""
    found = QuadraticFeatures.of(X, weight, owner)
    regression = QuadraticRegression.fitted_to(Moments(found, X, weight, owner), targets)
    return regression.predict(found(X if to is None else to))


def one_at_a_time(X, weight, d):
    """Ridge regression of a column on all features in which it takes no part."""
    center = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=weight))
    Z = (X - center) / scale
    near = np.clip(Z, -ours.FARTHEST, ours.FARTHEST)
    features = [Z[:, i] for i in range(6) if OWNER[i] != OWNER[d]]
    penalty = [ours.OF_COLUMNS] * len(features)
    for i in range(6):
        for j in range(i, 6):
            level = i == j and np.sum(OWNER[i] == OWNER) > 1
            if level or (i < j and OWNER[i] == OWNER[j]) or OWNER[d] in (OWNER[i], OWNER[j]):
                continue
            features.append(0.5 * near[:, i] * near[:, j])
            penalty.append(ours.OF_PRODUCTS)
    F = np.stack(features, axis=1)
    F -= np.average(F, axis=0, weights=weight)
    beta = np.linalg.solve((F.T * weight) @ F + np.diag(penalty), (F.T * weight) @ Z[:, d])
    return center[d] + scale[d] * (F @ beta)


def test_as_one_regression_at_a_time(rows):
    X, weight = rows
    wanted = np.stack([one_at_a_time(X, weight, d) for d in TARGETS], axis=1)
    assert_allclose(predicted(X, weight), wanted, rtol=1e-8)


def test_weights_are_repetition(rows):
    X, weight = rows
    again = np.repeat(X, weight.astype(int), axis=0)
    repeated = predicted(again, np.ones(len(again)), X)
    assert_allclose(predicted(X, weight), repeated, rtol=1e-8)


def test_a_column_does_not_predict_itself(rows):
    X, weight = rows
    told = predicted(X, weight)
    for t, d in enumerate(TARGETS):
        other = X.copy()
        other[:, d] = 100.0
        assert_allclose(predicted(X, weight, other)[:, t], told[:, t])


def test_products_are_of_the_columns_that_correlate_most(rows, monkeypatch):
    X, weight = rows
    X[:, 0] = X[:, 1] + 0.01 * X[:, 0]
    monkeypatch.setattr(ours, "MOST_PRODUCTS", 3)
    assert_array_equal(QuadraticFeatures.of(X, weight, OWNER).pairs, [[0, 0, 1], [0, 1, 1]])


def test_constant_columns_tell_nothing():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[:, 1] = 1e8 / 3.0
    told = predicted(X, np.ones(30), owner=np.arange(3), targets=np.arange(3))
    assert np.isfinite(told).all()
    assert_allclose(told[:, 1], X[:, 1])


@pytest.mark.parametrize("power", [-900, 900])
def test_units_change_nothing(rows, power):
    X, weight = rows
    unit = np.ldexp(1.0, power)
    assert_allclose(predicted(X * unit, weight) / unit, predicted(X, weight), rtol=1e-12)
