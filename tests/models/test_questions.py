"""Expected gains of questions, by going through answers or drawing them."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.models import levels, questions

SCALE = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def states(seed=0, J=4, D=7, sharpness=1.0):
    """m, P and M of a part, and weights of its items."""
    rng = np.random.default_rng(seed)
    m = rng.dirichlet(np.full(J, 1.5))
    P = rng.dirichlet(np.full(len(SCALE), 1 / sharpness), (J, D))
    return m, P, P @ SCALE, rng.random(D)


def answers(m, P, d):
    """Probability of each answer about item d, and the states after it."""
    for level in range(P.shape[2]):
        joint = [m[j] * P[j, d, level] for j in range(len(m))]
        yield sum(joint), np.array(joint) / sum(joint)


@pytest.mark.parametrize("seed", range(3))
def test_information_about_states(seed):
    m, P, _, _ = states(seed, sharpness=3.0)
    found = questions.state_information(m, P, levels.entropy(P))
    for d in range(P.shape[1]):
        left = sum(p * levels.entropy(after) for p, after in answers(m, P, d))
        assert_allclose(found[d], levels.entropy(m) - left, atol=1e-12)
    assert np.all(found >= 0)


@pytest.mark.parametrize("seed", range(3))
def test_fall_of_squared_error_with_states(seed):
    """Bayes' risk of predicting all items by their expectation, before and after the answer."""
    m, P, M, weight = states(seed)

    def risk(q):
        expected = q @ M
        return sum(
            weight[d] * q[j] * P[j, d, v] * (SCALE[v] - expected[d]) ** 2
            for j, d, v in itertools.product(*map(range, P.shape))
        )

    found = questions.state_error(m, P, (M * weight) @ M.T)
    for d in range(P.shape[1]):
        after = sum(p * risk(q) for p, q in answers(m, P, d))
        assert_allclose(found[d], risk(m) - after, atol=1e-12)
    assert np.all(found >= 0)


@pytest.mark.parametrize("rival", [-np.inf, 2.0, 3.05, 3.4, 6.0])
@pytest.mark.parametrize("seed", range(4))
def test_rise_of_the_best_rating_with_states(seed, rival):
    m, P, M, _ = states(seed, sharpness=2.0)
    found = questions.state_value(m, P, M, rival)
    now = max((m @ M).max(), rival)
    for d in range(P.shape[1]):
        then = sum(p * max((q @ M).max(), rival) for p, q in answers(m, P, d))
        assert_allclose(found[d], then - now, atol=1e-12)
    assert np.all(found >= -1e-12)


def test_states_in_pieces(monkeypatch):
    m, P, M, _ = states(5)
    whole = questions.state_value(m, P, M, 3.0)
    monkeypatch.setattr(questions, "_CHUNK", 1)
    assert_allclose(questions.state_value(m, P, M, 3.0), whole, rtol=1e-14)


def test_a_known_state_needs_no_question():
    _, P, M, weight = states(1)
    m = np.array([0.0, 1.0, 0.0, 0.0])
    assert_allclose(questions.state_information(m, P, levels.entropy(P)), 0, atol=1e-12)
    assert_allclose(questions.state_error(m, P, (M * weight) @ M.T), 0, atol=1e-12)
    assert_allclose(questions.state_value(m, P, M, -np.inf), 0, atol=1e-12)


# --- factors ---


def factors(seed=0, J=2, D=6):
    """Posterior of a part's factors; loadings, noise and expectation of its items; weights."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(J, J + 1))
    return (
        half @ half.T / (J + 1), rng.normal(size=(D, J)), rng.uniform(0.2, 1.0, D),
        rng.normal(size=D), rng.random(D),
    )  # fmt: skip


def after_answer(cov, w, noise, d):
    """Covariance of the factors when the answer about item d is known."""
    return np.linalg.inv(np.linalg.inv(cov) + np.outer(w[d], w[d]) / noise[d])


@pytest.mark.parametrize("seed", range(3))
def test_information_about_factors(seed):
    cov, w, noise, *_ = factors(seed)
    found = questions.factor_information(cov, w, noise)
    for d in range(len(w)):
        left = np.linalg.slogdet(after_answer(cov, w, noise, d))[1]
        assert_allclose(found[d], 0.5 * (np.linalg.slogdet(cov)[1] - left))
    assert np.all(found >= 0)


@pytest.mark.parametrize("seed", range(3))
def test_fall_of_squared_error_with_factors(seed):
    cov, w, noise, _, weight = factors(seed)
    found = questions.factor_error(cov, w, noise, (w * weight[:, None]).T @ w)

    def risk(V):
        return sum(weight[i] * w[i] @ V @ w[i] for i in range(len(w)))

    for d in range(len(w)):
        assert_allclose(found[d], risk(cov) - risk(after_answer(cov, w, noise, d)))
    assert np.all(found >= 0)


def moved_expectations(cov, w, noise, expected, d, deviates):
    """Expectations of all items after an answer so many deviations above what it was expected."""
    heard = w[d] @ cov @ w[d] + noise[d]
    gain = cov @ w[d] / heard  # Kalman's
    return expected + np.outer(deviates * np.sqrt(heard), w @ gain)


@pytest.mark.parametrize("rival", [-np.inf, 0.5, 1.5, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_rise_of_the_best_expectation_with_factors(seed, rival):
    """The rule's few nodes against a fine grid, and to the digit against the same nodes.

    Seven nodes leave an error of some percent of how far an answer can move the best.
    """
    cov, w, noise, expected, _ = factors(seed)
    found = questions.factor_value(cov, w, noise, w, expected, rival)
    grid = np.linspace(-8, 8, 40_001)
    weights = np.exp(-0.5 * grid**2)
    weights /= weights.sum()
    now = max(expected.max(), rival)
    for d in range(len(w)):
        best = moved_expectations(cov, w, noise, expected, d, grid).max(axis=1)
        truth = weights @ np.maximum(best, rival) - now
        moves = np.sqrt(np.max(w @ cov * w).clip(0) + 1e-9)
        assert abs(found[d] - truth) < 0.08 * moves + 0.05 * truth
        nodes = moved_expectations(cov, w, noise, expected, d, questions._NODES).max(axis=1)
        at_nodes = questions._WEIGHTS @ np.maximum(nodes, rival) - now
        assert_allclose(found[d], at_nodes, atol=1e-12)
    assert np.all(found >= -1e-12)


def test_leaving_hopeless_items_out_changes_nothing():
    """An item that only the most extreme answers bring to the top is still counted."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        cov, w, noise, expected, _ = factors(int(rng.integers(1 << 30)), D=8)
        expected = 4.0 * expected  # far apart, so that many are left out
        rival = rng.choice([-np.inf, expected.max() - 1.0, expected.max() + 1.0])
        found = questions.factor_value(cov, w, noise, w, expected, rival)
        now = max(expected.max(), rival)
        for d in range(len(w)):
            nodes = moved_expectations(cov, w, noise, expected, d, questions._NODES).max(axis=1)
            plain = questions._WEIGHTS @ np.maximum(nodes, rival) - now
            assert_allclose(found[d], plain, atol=1e-12)


def test_factors_in_pieces(monkeypatch):
    cov, w, noise, expected, _ = factors(7)
    whole = questions.factor_value(cov, w, noise, w, expected, 0.3)
    monkeypatch.setattr(questions, "_CHUNK", 1)
    assert_allclose(questions.factor_value(cov, w, noise, w, expected, 0.3), whole, rtol=1e-13)


def test_factors_by_drawing():
    """Information, error and value from joint draws of factors and answers."""
    cov, w, noise, expected, weight = factors(9)
    rng = np.random.default_rng(0)
    n, d = 400_000, 2
    s = rng.multivariate_normal(np.zeros(2), cov, n)
    answer = s @ w[d] + np.sqrt(noise[d]) * rng.normal(size=n)
    slope = (answer @ s) / (answer @ answer)  # regression of the factors on the answer
    guess = np.outer(answer, slope)
    before = ((s @ w.T) ** 2).mean(axis=0) @ weight
    after = (((s - guess) @ w.T) ** 2).mean(axis=0) @ weight
    found = questions.factor_error(cov, w, noise, (w * weight[:, None]).T @ w)[d]
    assert_allclose(found, before - after, rtol=0.02)
    best = (expected + guess @ w.T).max(axis=1)
    value = questions.factor_value(cov, w, noise, w, expected, -np.inf)[d]
    assert_allclose(value, best.mean() - expected.max(), rtol=0.15)  # seven nodes
    correlation = np.corrcoef(answer, s @ w[d])[0, 1]
    information = questions.factor_information(cov, w, noise)[d]
    assert_allclose(information, -0.5 * np.log(1 - correlation**2), rtol=0.02)


# --- levels ---


def test_summaries_of_levels():
    shares = np.array([[0.5, 0.5, 0.0], [0.2, 0.29, 0.51], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]])
    scale = np.array([0.5, 1.0, 4.0])
    assert_allclose(levels.quantile(shares, scale, 0.5), [0.5, 4.0, 4.0, 1.0])
    assert_allclose(levels.quantile(shares, scale, 0.999999), [1.0, 4.0, 4.0, 4.0])
    assert_allclose(levels.mean(shares, scale), [0.75, 2.43, 4.0, 5.5 / 3])
    for row, variance in zip(shares, shares @ scale**2 - (shares @ scale) ** 2, strict=True):
        assert_allclose(variance, sum(row * (scale - row @ scale) ** 2), atol=1e-12)
    assert_allclose(levels.entropy(shares), [np.log(2), 1.0246, 0, np.log(3)], atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entropy_of_the_impossible(dtype):
    assert_allclose(levels.entropy(np.array([[1, 0, 0], [0.5, 0, 0.5]], dtype)), [0, np.log(2)])


def test_the_median_makes_absolute_errors_least():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(5), 50)
    median = levels.quantile(shares, SCALE, 0.5)
    loss = shares @ np.abs(SCALE[:, None] - SCALE)
    assert_allclose(loss[np.arange(50), np.searchsorted(SCALE, median)], loss.min(axis=1))
