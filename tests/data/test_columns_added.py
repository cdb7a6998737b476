"""Columns are added to tables only."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from partwise import MCVQ


def test_states_are_not_added_to_sparse_rows():
    X = np.random.default_rng(0).integers(1, 4, (8, 3)).astype(float)
    model = MCVQ(1, 2, likelihood="categorical", max_iter=2, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X)
    with pytest.raises(ValueError, match="not to a csr_array; pass such a table as onto"):
        model.add_states(sparse.csr_array(X))
    assert model.add_states(sparse.csr_array(X), onto=X).shape == (8, 4)


def test_a_sparse_row_of_zeros_only_is_scored_as_a_dense_one():
    X = np.random.default_rng(0).poisson(1.0, (20, 4)).astype(float)
    with warnings.catch_warnings(action="ignore"):
        model = MCVQ(1, 2, likelihood="poisson", max_iter=2, random_state=0).fit(X)
        sparsely = MCVQ(1, 2, likelihood="poisson", max_iter=2, random_state=0)
        sparsely.fit(sparse.csr_array(X))
    zeros = np.zeros((1, 4))
    found = sparsely.score_samples(sparse.csr_array(zeros))
    np.testing.assert_allclose(found, sparsely.score_samples(zeros))
    assert np.isfinite(model.score_samples(zeros)).all()
