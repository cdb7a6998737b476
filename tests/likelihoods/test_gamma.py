"""Functions of Dirichlet counts, few and many."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from partwise.likelihoods import gamma


@pytest.mark.parametrize("n", [3, gamma.FEW_COUNTS])
def test_expected_logs_and_log_beta_are_those_of_scipy(n):
    counts = np.random.default_rng(0).gamma(0.5, 20.0, size=(4, n, 2)) + 1e-6
    total = counts.sum(axis=0)
    logs = special.digamma(counts) - special.digamma(total)
    assert_allclose(gamma.expected_logs(counts), logs, rtol=1e-10, atol=1e-10)
    log_beta = special.gammaln(counts).sum(axis=0) - special.gammaln(total)
    assert_allclose(gamma.log_beta(counts), log_beta, rtol=1e-10, atol=1e-10)
