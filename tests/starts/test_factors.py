"""Where one part of factors begins: the covariance of all columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise import MCFA, Translations
from partwise.starts.factors import factor_loadings, missing_covariance


def noiseless(seed=0, n=200, D=11, noise=0.01):
    """Rows of four factors, the last one small, and cells to hide."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, 4)) * [3.0, 1.0, 0.5, 0.2]
    scores[:, 0] = np.linspace(-6.0, 6.0, n)
    X = scores @ rng.standard_normal((4, D))
    X = (X - X.mean(axis=0)) / X.std(axis=0) + noise * rng.standard_normal((n, D))
    return X, rng.random(X.shape) < 0.2


def test_covariance_of_complete_rows_is_their_own():
    X, _ = noiseless(noise=0.5)
    weight = np.linspace(0.5, 2.0, len(X))
    mean = np.average(X, axis=0, weights=weight)
    own = (X - mean).T @ ((X - mean) * weight[:, None]) / weight.sum()
    assert_allclose(missing_covariance(X, weight), own, atol=2e-3)


def test_covariance_of_rows_with_holes_is_near_that_of_all():
    X, hidden = noiseless(n=2000, noise=0.3)
    found = missing_covariance(np.where(hidden, np.nan, X), np.ones(len(X)))
    assert_allclose(found, np.cov(X.T, bias=True), atol=0.05)


def test_weight_of_a_row_is_how_often_it_stands_there():
    X, hidden = noiseless(n=60)
    X = np.where(hidden, np.nan, X)
    times = np.arange(len(X)) % 3 + 1
    assert_allclose(
        missing_covariance(X, times.astype(float)),
        missing_covariance(np.repeat(X, times, axis=0), np.ones(times.sum())),
        atol=1e-10,
    )


def test_loadings_explain_the_covariance_they_made():
    rng = np.random.default_rng(0)
    Lambda = rng.standard_normal((9, 2))
    covariance = Lambda @ Lambda.T + np.diag(rng.uniform(0.1, 1.0, 9))
    size = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(size, size)
    found = factor_loadings(covariance, 2)
    explained = found @ found.T
    np.fill_diagonal(explained, 1.0)
    assert_allclose(explained, correlation, atol=0.02)


def test_small_factors_of_columns_without_noise_are_found():
    """From principal directions of rows filled with means, the smallest factor would be pruned."""
    X, hidden = noiseless()
    holed = np.where(hidden, np.nan, X)
    fits = {
        init: MCFA(1, 6, init=init, max_iter=50, random_state=0).fit(holed)
        for init in ("dependence", "covariance")
    }
    error = {
        init: np.sqrt(np.mean((fit.impute(holed) - X)[hidden] ** 2)) for init, fit in fits.items()
    }
    assert fits["covariance"].lower_bound_ > fits["dependence"].lower_bound_ + 1.0
    assert error["covariance"] < 0.4 * error["dependence"]


def test_wide_tables_begin_with_principal_directions():
    X = np.random.default_rng(0).standard_normal((30, 20))
    fits = [MCFA(1, 2, init=i, random_state=0).fit(X) for i in ("dependence", "covariance")]
    assert fits[0].lower_bound_ == fits[1].lower_bound_


@pytest.mark.parametrize("likelihood", ["gaussian", "auto"])
@pytest.mark.parametrize("n_parts", [2, "auto"])
def test_several_parts_are_refused_before_rows_are_read(n_parts, likelihood):
    with pytest.raises(ValueError, match="n_parts=1"):
        MCFA(n_parts, 2, likelihood=likelihood, init="covariance").fit(object())


def test_several_parts_are_refused_in_blocks():
    with pytest.raises(ValueError, match="n_parts=1"):
        MCFA(2, 2, init="covariance").partial_fit(object())


def test_transformations_are_refused():
    moved = MCFA(1, 2, init="covariance", transformations=Translations((2, 2), max_shift=1))
    with pytest.raises(ValueError, match="transformations=None"):
        moved.fit(np.zeros((9, 4)))
