"""The choice model is the constrained least squares it claims to be; its scores leave one out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse, special

from partwise.fitting.choice_fit import fit_choice, leave_one_out_gain
from partwise.models.choice import Choice, gram, log_score, logistic_curve, person_weight, solve


def taken_items(seed=0, n=60, D=9, share=0.4):
    """Items of two groups, which people take together."""
    rng = np.random.default_rng(seed)
    own = rng.random((n, 2))[:, np.arange(D) % 2]
    X = sparse.csr_matrix((rng.random((n, D)) < 2 * share * own).astype(np.float32))
    X.eliminate_zeros()
    return X


def test_weights_minimize_the_penalized_error_without_a_diagonal():
    X, penalty = taken_items(), 3.0
    G = gram(X)
    dense, weight = X.toarray(), person_weight(X)
    assert_allclose(G, (dense * weight[:, None]).T @ dense, rtol=1e-5)
    B, own = solve(G, penalty), np.diag(G)
    for d in range(X.shape[1]):  # ridge regression of an item on the others
        rest = np.delete(np.arange(X.shape[1]), d)
        A = G[np.ix_(rest, rest)] + np.diag(own[rest] + penalty * own.mean())
        assert_allclose(B[rest, d], np.linalg.solve(A, G[rest, d]), atol=1e-5)
        assert B[d, d] == 0


def test_the_gram_matrix_of_sparse_rows_is_that_of_dense_blocks():
    dense = taken_items()
    wide = sparse.hstack([dense, sparse.csr_matrix((60, 4000))], format="csr")  # below 1 %
    assert_allclose(gram(wide)[:9, :9], gram(dense), rtol=1e-5)


def test_the_logistic_curve_is_the_most_likely():
    rng = np.random.default_rng(0)
    score = rng.gamma(2.0, 0.1, 5000)
    took = (rng.random(5000) < special.expit(1.5 * np.log(score) + 0.5)).astype(float)

    def loss(beta):
        z = beta[0] * log_score(score) + beta[1]
        return np.sum(np.logaddexp(0, z) - took * z) + 0.5 * (beta[0] - 1) ** 2

    slope, intercept = logistic_curve(score, took)
    assert_allclose([slope, intercept], optimize.minimize(loss, [1, 0]).x, atol=1e-3)
    assert slope == pytest.approx(1.5, abs=0.2)
    assert np.isfinite(logistic_curve(np.array([0.1, 0.9]), np.array([0.0, 1.0]))).all()


def test_scores_that_say_nothing_give_the_share():
    rng = np.random.default_rng(0)
    score = rng.gamma(2.0, 0.1, 4000)
    took = (rng.random(4000) < 0.3 / (1 + 5 * score)).astype(float)  # a falling curve
    slope, intercept = logistic_curve(score, took)
    p = special.expit(intercept + slope * log_score(score))
    assert slope > 0
    assert_allclose(p.mean(), took.mean(), rtol=1e-3)
    assert np.ptp(p) < 0.01


def test_an_item_taken_does_not_predict_itself():
    X = taken_items()
    model = fit_choice(X, max_items=100, rng=np.random.default_rng(0))
    dense = X.toarray()
    assert dense[0].sum() > 1
    d = int(np.flatnonzero(dense[0])[0])
    less = dense[:1].copy()
    less[0, d] = 0
    base = lambda n: 0.5 / (1 + n) * model.share[d]  # noqa: E731
    n = dense[0].sum()
    full, without = (model.scores(sparse.csr_matrix(row))[0, d] for row in (dense[:1], less))
    assert_allclose(full - base(n), without - base(n - 1), atol=1e-6)
    assert_allclose(model.reasons(np.flatnonzero(less[0]), d).sum() + base(n - 1), without, 1e-5)


def test_probabilities_are_calibrated_on_new_people():
    X = taken_items(n=4000, D=20)
    model = fit_choice(X[:3000], max_items=100, rng=np.random.default_rng(0))
    p, took = model.probability(model.scores(X[3000:])), X[3000:].toarray()
    for low, high in ((0.1, 0.3), (0.3, 0.5), (0.5, 0.7)):
        inside = (p > low) & (p < high)
        assert abs(took[inside].mean() - p[inside].mean()) < 0.06


def test_few_items_are_modeled_and_the_others_have_their_popularity():
    X = taken_items()
    counts = np.bincount(X.indices, minlength=9)
    model = fit_choice(X, max_items=4, rng=np.random.default_rng(0))
    assert model.weights.shape == (4, 4)
    assert set(model.modeled) == set(np.argsort(-counts, kind="stable")[:4])
    others = np.setdiff1d(np.arange(9), model.modeled)
    n = np.diff(X.indptr)[:, None]
    assert_allclose(model.scores(X)[:, others], 0.5 / (1 + n) * counts[others] / 60, rtol=1e-5)
    nothing = fit_choice(X, max_items=0, rng=np.random.default_rng(0))
    scores = nothing.scores(sparse.csr_matrix((1, 9), dtype=np.float32))[0]
    assert np.argmax(scores) == np.argmax(counts)


def test_the_gain_is_one_for_perfect_scores():
    X = sparse.csr_matrix(np.kron(np.eye(2), np.ones((5, 3), np.float32)))
    weights = np.kron(np.eye(2), np.ones((3, 3), np.float32)) - np.eye(6, dtype=np.float32)
    perfect = Choice(weights, np.arange(6), np.full(6, 0.5), 1.0, 0.0, 1.0)
    assert leave_one_out_gain(perfect, X) == 1.0
    worst = Choice(-weights, np.arange(6), np.full(6, 0.5), 1.0, 0.0, 1.0)
    assert leave_one_out_gain(worst, X) == pytest.approx(1 / np.log2(5))  # rank 4 of 4


def test_scores_of_many_people_are_those_of_each():
    """Products by panels are the plain ones, with items beyond the first panel, and averages."""
    X = taken_items(n=150, D=75)
    weights = np.random.default_rng(0).normal(size=(75, 75)).astype(np.float32)
    share = np.linspace(0.1, 0.9, 75)
    choice = Choice(weights, np.arange(75), share, 1.0, 0.0, 1.0)
    profiles = sparse.csr_matrix(0.3 * X + 0.7 * X[::-1])
    expected = profiles.toarray() @ weights
    expected += np.outer(0.5 / (1.0 + profiles.toarray().sum(axis=1)), share)
    assert_allclose(choice.scores(profiles), expected, rtol=1e-4, atol=1e-5)
    assert_allclose(choice.scores(profiles[:3]), expected[:3], rtol=1e-4, atol=1e-5)
