"""Quantiles of mixtures, against bisection."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from partwise import MCFA
from partwise.answers.imputation import (
    MOST_EVALUATIONS,
    Spread,
    mixture,
    of_factors,
    smallest_reaching,
)
from partwise.fitted import fitted_of

m = 300


def bisected(below, p, low, high):
    """The slow, obvious way."""
    for _ in range(80):
        middle = 0.5 * (low + high)
        reached = below(middle) >= p
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def students(rng, narrow):
    """Distribution functions of mixtures of six Student t, and ends of their quantiles."""
    weight = rng.dirichlet(np.full(6, 0.3), m)
    mean = 3.0 * rng.standard_normal((m, 6))
    scale = np.exp(rng.standard_normal((m, 6)) - narrow)

    def below(x):
        return (weight * special.stdtr(5.0, (x[:, None] - mean) / scale)).sum(axis=1)

    def ends(p):
        own = mean + scale * special.stdtrit(5.0, p[:, None])
        return own.min(axis=1) - 1e-6, own.max(axis=1)

    return below, ends


def poissons(rng):
    """The same of Poisson: steps at whole numbers."""
    weight, rate = rng.dirichlet(np.full(3, 0.5), m), np.exp(rng.standard_normal((m, 3)) + 1.0)

    def below(x):
        whole = np.floor(x)[:, None]
        return (weight * np.where(whole < 0, 0.0, special.pdtr(np.maximum(whole, 0), rate))).sum(1)

    return below, lambda p: (np.full(m, -1.0), np.full(m, 400.0))


@pytest.mark.parametrize("narrow", [0.0, 4.0])
def test_smooth_mixtures_take_few_evaluations(narrow):
    rng = np.random.default_rng(0)
    below, ends = students(rng, narrow)
    p, calls = rng.uniform(0.001, 0.999, m), []

    def counted(x):
        calls.append(len(x))
        return below(x)

    found = smallest_reaching(counted, p, *ends(p))
    assert_allclose(found, bisected(below, p, *ends(p)), rtol=1e-7, atol=1e-8)
    assert len(calls) < MOST_EVALUATIONS // 2


def test_steps_are_found_from_above():
    rng = np.random.default_rng(0)
    below, ends = poissons(rng)
    p = rng.uniform(0.001, 0.999, m)
    found = smallest_reaching(below, p, *ends(p))
    assert_allclose(found, bisected(below, p, *ends(p)), rtol=0, atol=1e-10)
    assert np.all(below(found) >= p)


def test_mixtures_of_both_and_ends_that_agree():
    rng = np.random.default_rng(1)
    parts = [Spread(*students(rng, 0.0)), Spread(*poissons(rng))]
    both, p = mixture([(0.4, parts[0]), (0.6, parts[1])]), rng.uniform(0.01, 0.99, m)
    found = both.quantile(p)
    assert_allclose(found, bisected(both.below, p, *both.ends(p)), rtol=0, atol=1e-7)
    one = np.zeros(m)  # a point: nothing lies between the ends
    assert_allclose(smallest_reaching(lambda x: (x >= 0.0) * 1.0, p, one, one), 0.0)


def test_deviations_in_units_near_the_largest_number_are_finite():
    X = np.random.default_rng(0).normal(size=(20, 3))
    fitted = fitted_of(MCFA(1, 1, random_state=0).fit(X))
    (group,) = fitted.columns
    wide = replace(fitted, columns=(replace(group, scale=np.full(3, 1.7e308)),))
    X[:, 0] = np.nan
    with np.errstate(over="raise"):
        found = of_factors(wide, np.where(np.isnan(X), X, 0.0))
    assert np.isfinite(found.deviation).all()
