"""The aspect model against plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise.data import BlockSource
from partwise.data.rating_levels import learn_scale
from partwise.models.aspect import Aspect
from tests.common.helpers import assert_never_falls, climb_from, punch_holes, sweep
from tests.reference import aspect as reference

C, D, Z = 25, 6, 3


def problem(levels=(1.0, 2.0, 3.0, 5.0), strength=0.5, mixing=0.1, beta=0.8, seed=0):
    rng = np.random.default_rng(seed)
    X = punch_holes(rng.choice(levels, (C, D)), 0.3, rng)
    weight = rng.uniform(0.5, 2, C)
    group = learn_scale(X, weight)
    levels = group.levels
    nodes = (levels - levels.mean()) / 2
    moments = np.stack([nodes, nodes**2]) @ group.moments
    model = Aspect(Z, nodes, moments, strength, mixing, beta)
    theta = model.start(rng.gamma(1.0, size=(len(levels), Z, D)))
    coded = np.where(np.isnan(X), np.nan, np.searchsorted(levels, X))
    return model, theta, BlockSource(X, (group,), weight), coded, rng


@pytest.mark.parametrize(("beta", "mixing"), [(1.0, 0.1), (0.7, 0.1), (0.8, 0.0)])
def test_a_step_and_the_bound_equal_the_reference(beta, mixing):
    model, theta, source, X, rng = problem(beta=beta, mixing=mixing)
    pi = rng.dirichlet(np.ones(Z), C)
    given = (model.nodes, model.moments, model.strength, mixing, beta, source.weight)
    (after,), stats = sweep(model, theta, source, [pi])
    assert_allclose(
        model.bound(model.prepare(theta), stats), reference.bound(X, pi, theta.eta, *given)
    )
    shares, eta = reference.step(X, pi, theta.eta, *given, model.curvature)
    assert_allclose(after, shares, rtol=1e-9)
    found = model.maximize(model.prepare(theta), stats)
    # Far out the likelihood is flat in eta: laws are what is compared.
    laws = np.stack(
        [[reference.law(eta[:, d, z], model.nodes) for z in range(Z)] for d in range(D)]
    )
    assert_allclose(found.table.transpose(0, 2, 1), laws, atol=2e-5)


@pytest.mark.parametrize("strength", [1e-3, 1.0])
@pytest.mark.parametrize("beta", [1.0, 0.8, 0.5])
def test_the_bound_never_falls_at_any_temperature(beta, strength):
    model, theta, source, _, _ = problem(beta=beta, strength=strength, mixing=0.02)
    _, trace = climb_from(model, theta, source, 40)
    assert_never_falls(trace)


@pytest.mark.parametrize("levels", [(0.0, 1.0), (2.0, 2.5, 9.0)])
def test_laws_have_the_moments_they_were_asked_for(levels):
    model, theta, source, _, _ = problem(levels, strength=2.0)
    _, stats = sweep(model, theta, source)
    n, s, ss = stats.moments
    table = model.maximize(model.prepare(theta), stats).table
    mean = (s + 2.0 * model.moments[0][:, None]) / (n + 2.0)
    square = (ss + 2.0 * model.moments[1][:, None]) / (n + 2.0)
    found = np.einsum("v,dvz->dz", model.nodes, table)
    second = np.einsum("v,dvz->dz", model.nodes**2, table)
    free = np.abs(second - square) < 1e-6  # where the width met no limit
    assert_allclose(found, mean, atol=1e-6)
    assert free.mean() > 0.5
    assert_allclose(table.sum(axis=1), 1)


def test_shares_of_a_new_row_are_at_the_top_of_its_posterior():
    model, theta, source, X, rng = problem(beta=1.0, mixing=0.3)
    pi = np.concatenate([model.infer(model.prepare(theta), block) for block in source.blocks()])
    assert_allclose(pi.sum(axis=1), 1)

    def value(c, share):
        seen = np.flatnonzero(~np.isnan(X[c]))
        p = model.prepare(theta).table[seen, X[c, seen].astype(int)]
        return np.log(p @ share).sum() + 0.3 * np.log(share).sum()

    for c in range(C):
        best = value(c, pi[c])
        for _ in range(20):
            other = 0.98 * pi[c] + 0.02 * rng.dirichlet(np.ones(Z))
            assert value(c, other) <= best + 1e-9


def test_the_likelihood_of_a_row_is_the_mean_over_its_prior():
    model, theta, source, X, rng = problem(mixing=0.5)
    (block,) = source.blocks()
    found = model.row_likelihood(model.prepare(theta), block, 2000)
    drawn = rng.dirichlet(np.full(Z, 1.5), 100_000)
    for c in range(C):
        seen = np.flatnonzero(~np.isnan(X[c]))
        p = model.prepare(theta).table[seen, X[c, seen].astype(int)]
        plain = np.log(np.prod(drawn @ p.T, axis=1).mean())
        assert abs(found.log_likelihood[c] - plain) < 6 * found.standard_error[c] + 0.02
    nothing = source.with_rows(np.full((1, D), np.nan), np.ones(1))
    assert_allclose(
        model.row_likelihood(model.prepare(theta), nothing.block(0), 100).log_likelihood,
        0,
        atol=1e-9,
    )


def test_values_are_coded_by_the_nearest_level():
    X = np.array([[1.0, 2.0], [4.0, np.nan]])
    group = learn_scale(X, np.ones(2))
    assert_allclose(group.levels, [1, 2, 4])
    assert_allclose(
        group.encode(np.array([-5, 1.4, 2.9, 3.1, 9, np.nan]), None), [0, 0, 1, 2, 2, np.nan]
    )
    assert_allclose(group.moments.sum(axis=0), 1)
    assert_allclose(group.weight, [2, 1])
    many = np.random.default_rng(0).normal(size=(50, 2))
    fine = learn_scale(many, np.ones(50))
    assert len(fine.levels) == 64
    assert_allclose(fine.scale, (many.max() - many.min()) / 63)
