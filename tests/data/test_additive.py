"""Maps of models whose parts add up, against loops; without holes both ways agree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.data.additive import AdditiveRows


@pytest.mark.parametrize("holes", [False, True])
def test_maps_are_sums_over_observed_entries(holes):
    rng = np.random.default_rng(0)
    S, D, n = 4, 5, 7
    shown = (rng.random((D, n)) < (0.6 if holes else 2.0)).astype(float)
    x, mu, other = shown * rng.normal(size=(D, n)), rng.normal(size=(S, D)), rng.normal(size=(S, D))
    psi, m, w = rng.uniform(1, 2, D), rng.random((S, n)), rng.random(n)
    view = AdditiveRows(x, shown if holes else None)
    assert_allclose(view.project(mu, other), mu @ x + other @ shown)
    assert_allclose(view.squares(mu[0], psi), mu[0] @ shown + psi @ x**2)
    away = (x - mu[0][:, None]) / psi[:, None]
    assert_allclose(view.residual(mu[0], psi), away * shown)
    gram = np.einsum("dn,sd,d,td->nst", shown, mu, psi, mu)
    assert_allclose(np.broadcast_to(view.grams(mu, psi), gram.shape), gram)
    linear, pairs = view.collect(m, w)
    assert_allclose(linear, np.einsum("n,sn,dn->sd", w, m, x))
    expected = np.einsum("n,dn,sn,tn->dst", w, shown, m, m)
    assert_allclose(np.broadcast_to(pairs, expected.shape), expected)
    count, squares = view.collect_squares(w)
    assert_allclose(count, shown @ w)
    assert_allclose(squares, x**2 @ w)
    coupling = view.couple(mu, psi, m)
    for part, rest in ((slice(0, 2), slice(2, 4)), (slice(2, 4), slice(0, 2))):
        assert_allclose(coupling.field(part), np.einsum("nst,tn->sn", gram[:, part, rest], m[rest]))
        m[part] = rng.random((2, n))
        coupling.changed(part)
