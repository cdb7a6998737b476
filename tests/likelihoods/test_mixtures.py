"""Compiled mixtures of Student t distributions against scipy and brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special
from scipy.optimize import brentq

from partwise.likelihoods import mixtures
from partwise.likelihoods.predictive import StudentT
from partwise.models import predict


@pytest.mark.parametrize(
    ("df", "within"),
    [(0.7, 1e-12), (1, 1e-12), (2.1, 1e-12), (4.99, 1e-12), (5, 2e-7), (10, 1e-9), (30, 1e-11),
     (1e3, 1e-13), (1e6, 1e-11), (np.inf, 1e-15)],
)  # fmt: skip
def test_student_distribution_function(df, within):
    z = np.concatenate([np.linspace(-50, 50, 4001), [-1e8, 0.0, 1e8, -1e100, 1e100]])
    found = np.array([mixtures.student_cdf(x, df) for x in z])
    truth = special.stdtr(df, z) if np.isfinite(df) else special.ndtr(z)
    assert_allclose(found, truth, atol=within, rtol=0)


def law_and_rows(rng, S=7, D=5, n=40, df=None):
    df = rng.choice([2.5, 4, 6, 30, 300], size=(S, D)) if df is None else np.full((S, D), df)
    law = StudentT.of(rng.normal(size=(S, D)), rng.uniform(0.01, 2, (S, D)), df)
    m = np.concatenate([rng.dirichlet(np.full(k, 0.3), n).T for k in (4, 3)])
    gates = rng.dirichlet([0.5, 0.5], D).T
    gates[:, 0] = [1.0, 0.0]
    m[:, 0] = 0
    m[[1, 5], 0] = 1.0  # one row that is sure of its states
    return law, m, gates, np.repeat([0, 1], [4, 3])


def cdf(law, weight, d, x):
    z = (x - law.mean[:, d]) / law.scale[:, d]
    each = special.stdtr(law.df[:, d], z) if np.isfinite(law.df).all() else special.ndtr(z)
    return weight @ each / weight.sum()


@pytest.mark.parametrize("df", [None, np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_quantiles_equal_brute_force(seed, df):
    rng = np.random.default_rng(seed)
    law, m, gates, part_of = law_and_rows(rng, df=df)
    p = rng.choice([1e-3, 0.05, 0.5, 0.9, 0.999], size=5)
    found = predict.quantile(law, m, gates, part_of, p)
    assert found.shape == (40, 5)
    for r in range(40):
        for d in range(5):
            weight = m[:, r] * gates[part_of, d]
            weight = np.where(weight > mixtures.LEAST_WEIGHT, weight, 0.0)

            def beyond(x, weight=weight, d=d):
                return cdf(law, weight, d, x) - p[d]

            truth = brentq(beyond, -1e4, 1e4, xtol=1e-12)
            assert_allclose(found[r, d], truth, rtol=1e-5, atol=1e-5)
            assert_allclose(cdf(law, weight, d, found[r, d]), p[d], atol=2e-6)


def test_probabilities_below_equal_brute_force():
    rng = np.random.default_rng(0)
    law, m, gates, part_of = law_and_rows(rng)
    rows, columns = rng.integers(40, size=200), rng.integers(5, size=200)
    values = rng.normal(0, 2, size=200)
    found = predict.probability_below(law, m, gates, part_of, rows, columns, values)
    truth = [
        cdf(law, m[:, r] * gates[part_of, d], d, x)
        for r, d, x in zip(rows, columns, values, strict=True)
    ]
    assert_allclose(found, truth, atol=1e-3)  # states of weight 1e-4 are left out
    back = predict.quantile(law, m, gates, part_of, 0.3)
    again = predict.probability_below(law, m, gates, part_of, rows, columns, back[rows, columns])
    assert_allclose(again, 0.3, atol=1e-5)


def test_many_states_of_little_weight():
    """No state has the weight below which states are left out, and yet there is a quantile."""
    S = 20_001
    law = StudentT.of(np.zeros((S, 1)), np.ones((S, 1)), np.full((S, 1), np.inf))
    m = np.full((S, 2), 1 / S)
    found = predict.quantile(law, m, np.ones((1, 1)), np.zeros(S, int), 0.9)
    assert_allclose(found, special.ndtri(0.9), atol=1e-5)


def test_states_far_apart():
    """Between two narrow states the distribution function is flat; the search ends all the same."""
    law = StudentT.of(np.array([[-100.0], [100.0]]), np.full((2, 1), 1e-3), np.full((2, 1), 50.0))
    m = np.array([[0.5, 0.9], [0.5, 0.1]])
    for p in (0.01, 0.3, 0.5, 0.899, 0.95):
        found = predict.quantile(law, m, np.ones((1, 1)), np.zeros(2, int), p)[:, 0]
        reached = predict.probability_below(
            law, m, np.ones((1, 1)), np.zeros(2, int), np.arange(2), np.zeros(2, int), found
        )
        assert_allclose(reached, p, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_one_normal_distribution_a_part(seed):
    rng = np.random.default_rng(seed)
    K, n, D = 3, 20, 6
    gates = rng.dirichlet(np.full(K, 0.5), D)
    gates[0] = [0, 1, 0]
    mean, scale = rng.normal(size=(K, n, D)), rng.uniform(0.1, 1, size=(K, n, D))
    p = rng.uniform(0.01, 0.99, size=D)
    found = np.empty((n, D))
    mixtures.part_quantiles(gates, mean, scale, special.ndtri(p), p, found)
    truth = np.einsum("dk,knd->nd", gates, special.ndtr((found - mean) / scale))
    assert_allclose(truth, np.broadcast_to(p, truth.shape), atol=2e-4)  # weights below 1e-4
