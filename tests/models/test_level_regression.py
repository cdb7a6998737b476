"""Logistic regressions of all columns with levels at once against scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from partwise.models.level_regression import LevelRegression
from partwise.models.quadratic_features import Moments, QuadraticFeatures

OWNER = np.array([0, 1, 2, 3, 3, 3])  # column 3 has three levels
COLUMNS, N_LEVELS = [3, 0, 1], np.array([3, 4, 2])


@pytest.fixture(scope="module")
def learned():
    """Moments of rows, their features, and levels of three columns, some of them missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    level = np.digitize(X[:, 2] + rng.normal(size=300), [-1.0, 1.0])
    X[:, 3:] = np.eye(3)[level]
    of_first = np.digitize(X[:, 0] + rng.normal(size=300), [-2.0, 0.0, 2.0])
    codes = np.stack([level, of_first, X[:, 1] + X[:, 2] ** 2 > 1.0], axis=1).astype(int)
    codes[rng.random(codes.shape) < 0.2] = -1
    weight = rng.integers(3, size=300).astype(float)
    features = QuadraticFeatures.of(X, weight, OWNER)
    return Moments(features, X, weight, OWNER), features(X), codes


def score(moments, found, codes):
    """Log-likelihood of the levels of each column, less the penalty."""
    total, last = np.zeros(3), 0
    features = moments.centered + moments.mean
    for i, p in enumerate(found.predict(features)):
        rows = np.flatnonzero(codes[:, i] >= 0)
        total[i] = moments.weight[rows] @ np.log(p[rows, codes[rows, i]])
        B = found.coefficients[:, last : last + N_LEVELS[i] - 1]
        last += N_LEVELS[i] - 1
        B = np.hstack([B, -B.sum(axis=1, keepdims=True)])
        total[i] -= 0.25 * moments.penalty @ (B**2).sum(axis=1)
    return total


def test_the_optimum_is_that_of_scikit_learn(learned):
    moments, features, codes = learned
    found = LevelRegression.fitted_to(moments, codes, N_LEVELS, COLUMNS, 60)
    for i, p in enumerate(found.predict(features)):
        rows, used = codes[:, i] >= 0, ~moments.of_owner(COLUMNS[i])
        # One logit of two levels is the difference of theirs, whose squares add up to half of its.
        unit = np.sqrt((2.0 if N_LEVELS[i] > 2 else 4.0) / moments.penalty[used])
        X = moments.centered[:, used] * unit
        model = LogisticRegression(max_iter=5000, tol=1e-8)
        model.fit(X[rows], codes[rows, i], sample_weight=moments.weight[rows])
        assert_allclose(p, model.predict_proba(X), atol=1e-4)
        assert_allclose(p.sum(axis=1), 1.0)


def test_every_step_is_one_up_and_few_suffice(learned):
    moments, _, codes = learned
    path = [
        score(moments, LevelRegression.fitted_to(moments, codes, N_LEVELS, COLUMNS, n), codes)
        for n in (0, 1, 2, 4, 6, 40)
    ]
    assert (np.diff(path, axis=0) > -1e-6).all()
    assert (path[-1] - path[-2] < 0.02 * (path[-1] - path[0])).all()


def test_steps_go_on_from_a_regression(learned):
    moments, features, codes = learned
    found = LevelRegression.fitted_to(moments, codes, N_LEVELS, COLUMNS, 40)
    more = found.refitted(moments, codes, COLUMNS, 3)
    for one, other in zip(found.predict(features), more.predict(features), strict=True):
        assert_allclose(one, other, atol=1e-3)


def test_weights_are_repetition(learned):
    moments, features, codes = learned
    times = moments.weight.astype(int)
    X = moments.columns * moments.features.scale + moments.features.center
    X, more = (np.repeat(one, times, axis=0) for one in (X, codes))
    again = Moments(moments.features, X, np.ones(len(X)), OWNER)
    found = LevelRegression.fitted_to(moments, codes, N_LEVELS, COLUMNS, 6)
    repeated = LevelRegression.fitted_to(again, more, N_LEVELS, COLUMNS, 6)
    for one, other in zip(found.predict(features), repeated.predict(features), strict=True):
        assert_allclose(one, other, rtol=1e-6)


def test_a_column_does_not_predict_itself(learned):
    moments, _, codes = learned
    found = LevelRegression.fitted_to(moments, codes, N_LEVELS, COLUMNS, 6)
    own = moments.of_owner(3)
    assert not found.coefficients[own, :2].any()
    assert found.coefficients[own, 2:].any()


def test_columns_that_others_decide(learned):
    """Levels that follow from the others without error keep finite logits."""
    moments, features, _ = learned
    codes = (moments.columns[:, [0]] > 0).astype(int)
    found = LevelRegression.fitted_to(moments, codes, np.array([2]), [1], 20)
    (p,) = found.predict(features)
    assert np.isfinite(found.coefficients).all()
    assert np.mean(p.argmax(axis=1) == codes[:, 0]) > 0.97
