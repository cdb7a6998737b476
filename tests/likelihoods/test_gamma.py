"""Functions of Dirichlet counts, few and many."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from partwise.likelihoods import Prior, gamma
from partwise.likelihoods.categorical import Categorical


@pytest.mark.parametrize("n", [3, gamma.FEW_COUNTS])
def test_expected_logs_and_log_beta_are_those_of_scipy(n):
    counts = np.random.default_rng(0).gamma(0.5, 20.0, size=(4, n, 2)) + 1e-6
    total = counts.sum(axis=0)
    logs = special.digamma(counts) - special.digamma(total)
    assert_allclose(gamma.expected_logs(counts), logs, rtol=1e-10, atol=1e-10)
    log_beta = special.gammaln(counts).sum(axis=0) - special.gammaln(total)
    assert_allclose(gamma.log_beta(counts), log_beta, rtol=1e-10, atol=1e-10)
    swapped = np.ascontiguousarray(counts.transpose(0, 2, 1)).transpose(0, 2, 1)
    assert_allclose(gamma.expected_logs(swapped), logs, rtol=1e-10, atol=1e-10)
    assert_allclose(gamma.log_beta(swapped), log_beta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-40, 1e-6, 1.0, 1e6, 1e30])
@pytest.mark.parametrize("levels", [1, 5, 6, 40])
def test_many_levels_of_any_size_neither_overflow_nor_vanish(scale, levels):
    counts = scale * np.random.default_rng(1).gamma(1.0, size=(levels, gamma.CHUNK + 3))
    total = counts.sum(axis=0)
    logs, beta = gamma.logs_and_beta(counts)
    assert_allclose(logs, special.digamma(counts) - special.digamma(total), rtol=1e-10, atol=1e-10)
    each = special.gammaln(counts)
    room = 1e-12 * (np.abs(each).sum(axis=0) + np.abs(special.gammaln(total)) + 1.0)
    assert np.all(np.abs(beta - each.sum(axis=0) + special.gammaln(total)) <= room)


@pytest.mark.parametrize("strength", [1e-31, 1e31])
def test_priors_beyond_what_counts_may_be_are_refused(strength):
    with pytest.raises(ValueError, match=r"counts=.* must be between 1e-30 and 1e\+30\.$"):
        Prior(counts=strength)


@pytest.mark.parametrize("n", [3, gamma.FEW_COUNTS])
@pytest.mark.parametrize("count", [gamma.LEAST_COUNT, gamma.MOST_COUNT])
def test_counts_that_files_may_have(n, count):
    counts = np.full((4, n), count)
    logs = special.digamma(counts) - special.digamma(counts.sum(axis=0))
    assert_allclose(gamma.expected_logs(counts), logs, rtol=1e-10)
    assert np.isfinite(gamma.log_beta(counts)).all()
    law = Categorical(4)
    assert law.is_proper(counts, 1e-300, 1e150)
    assert not law.is_proper(counts * (1e-9 if count < 1 else 1e9), 1e-300, 1e150)
