"""Mutual information of all pairs of columns equals that of each pair by its definition."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.models.dependence import mutual_information, state_information


def reference(tables, gates, shares, classes, first, d, e):
    """Joint distribution of the bins of two columns, by summing over classes, parts and states."""
    joint = np.zeros((tables[d].shape[1], tables[e].shape[1]))
    spans = list(itertools.pairwise(first))
    for share, b in zip(classes, shares, strict=True):
        for k, (lo, hi) in enumerate(spans):
            for m, (low, high) in enumerate(spans):
                for s in range(lo, hi):
                    for t in range(low, high):
                        if k == m and s != t:
                            continue
                        p = b[s] if k == m else b[s] * b[t]
                        p *= share * gates[k, d] * gates[m, e]
                        joint += p * np.outer(tables[d][s], tables[e][t])
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    return np.sum(joint * np.log(joint / product))


@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("soft", [False, True])
def test_pairs_by_definition(n_classes, soft):
    rng = np.random.default_rng(3)
    K, J, D = 3, 2, 7
    first = np.arange(0, K * J + 1, J)
    tables = [rng.dirichlet(np.ones(rng.integers(2, 5)), K * J) for _ in range(D)]
    tables[4] = None
    gates = rng.dirichlet(np.ones(K), D).T if soft else np.eye(K)[np.arange(D) % K].T
    shares = np.concatenate([rng.dirichlet(np.ones(J), n_classes) for _ in range(K)], axis=1)
    classes = rng.dirichlet(np.ones(n_classes))
    found = mutual_information(tables, gates, shares, classes, first)
    assert_allclose(found, found.T)
    for d in range(D):
        for e in range(d):
            expected = 0.0
            if 4 not in (d, e):
                expected = reference(tables, gates, shares, classes, first, d, e)
            assert_allclose(found[d, e], expected, atol=1e-12)
    own = state_information(tables[0], gates[:, 0], classes @ shares, first)
    assert_allclose(found[0, 0], own)
