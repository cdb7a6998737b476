"""Gibbs sampling of an MCFA's factors and selections, against closed forms and enumeration."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

from partwise import MCFA, load
from partwise.models import factors
from partwise.models.gating import Standard
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Draws
from tests.common.factors import (
    build_factors,
    drawn_factors,
    random_loadings,
    start_factors,
    with_classes,
)
from tests.common.helpers import random_gates

COPIES = 4000


def case(rng, row, n_factors=(1, 1), n_classes=1):
    """Copies of one row, and a model with point parameters."""
    X = np.tile(row, (COPIES, 1))
    X[0] += 1.0  # columns shall vary
    core, source = build_factors(
        X, np.ones(COPIES), n_factors, gating=Standard(), n_powers=3, n_classes=n_classes
    )
    D = len(row)
    loadings = random_loadings(core, rng, flat=True)
    theta = start_factors(core.without_classes(), loadings, random_gates(len(n_factors), D, rng))
    return core, source, with_classes(core, theta, rng) if n_classes > 1 else theta


def test_samples_of_factors_have_the_moments_of_their_posterior():
    rng = np.random.default_rng(0)
    core, source, theta = case(rng, rng.normal(size=5), (2, 1), n_classes=2)
    block = source.block(0)
    found = core.weigh(theta, core.evidence(core.begin(theta), block), None)
    draws = Draws(0)
    z = draws.classes(found.z, draws.generator(0))
    found = found.with_classes(z)
    features = np.empty((core.first[-1], block.n_rows))
    m = core.sampled(features, found, draws.generator(1))
    own = z[1].astype(bool)
    own[0] = False
    for k, (one, linear, quadratic) in enumerate(core.spans()):
        s = m[linear][:, own]
        assert np.all(m[one] == 1.0)
        assert_allclose(m[quadratic], factors.products(m[linear]))
        truth = found.means[k][1][:, 1]
        cov = factors.unpack(
            np.broadcast_to(found.covs[k][1], (len(m[quadratic]), COPIES))[:, 1], len(s)
        )
        spread = np.sqrt(np.diag(cov))
        assert np.all(np.abs(s.mean(axis=1) - truth) < 5 * spread / np.sqrt(own.sum()))
        assert_allclose(
            np.cov(s).reshape(cov.shape), cov, atol=6 * spread.max() ** 2 / np.sqrt(own.sum())
        )


def test_prior_of_samples_is_the_mixture_of_the_classes():
    rng = np.random.default_rng(1)
    core, _, theta = case(rng, rng.normal(size=4), (2, 1), n_classes=2)
    m = rng.normal(size=(core.first[-1], 3))
    truth = []
    for c in range(3):
        terms = [
            theta.log_beta[n]
            + sum(
                multivariate_normal(theta.eta[k][n], theta.sigma[k][n]).logpdf(m[linear, c])
                for k, (_, linear, _) in enumerate(core.spans())
            )
            for n in range(2)
        ]
        truth.append(np.logaddexp(*terms))
    assert_allclose(core.state_density(theta, m, None), truth)


@pytest.mark.parametrize("missing", [False, True])
def test_selections_settle_at_their_posterior(missing):
    """All selections enumerated, the factors integrated out; copies of a row are chains."""
    rng = np.random.default_rng(2)
    row = np.array([0.5, -0.8, 0.3])
    core, source, theta = case(rng, row)
    if missing:
        X = source.X.copy()
        X[:, 2] = np.nan
        source = source.with_rows(X, source.weight)
    (group,) = source.columns
    x = group.encode(source.X[1:2], np.arange(3))[0]
    seen = [d for d in range(3) if not np.isnan(x[d])]
    log_joint, combos = [], list(itertools.product(range(2), repeat=len(seen)))
    for parts in combos:
        total = 0.0
        for k, w in enumerate(theta.loadings):
            d = [d for d, part in zip(seen, parts, strict=True) if part == k]
            total += np.log(theta.gates[k, d]).sum()
            if d:
                cov = np.outer(w.mean[d, 0], w.mean[d, 0]) + np.diag((w.rate / w.shape)[d])
                total += multivariate_normal(w.mean[d, 1], cov).logpdf(x[d])
        log_joint.append(total)
    truth = np.exp(np.array(log_joint) - np.logaddexp.reduce(log_joint))
    marginal = [
        sum(p for p, parts in zip(truth, combos, strict=True) if parts[i] == 0)
        for i in range(len(seen))
    ]
    model = Rowwise(core, Draws(0), 40)
    share = np.zeros(len(seen))
    memory, ready, n = (
        [model.fresh_memory(i) for i in range(source.n_blocks)],
        model.begin(theta),
        0,
    )
    for _ in range(2):  # the first sweep forgets where the chains began
        share[:], n = 0.0, 0
        for i, block in enumerate(source.blocks()):
            memory[i], stats = model.expect(ready, block, memory[i])
            share += stats.gates[0, seen]
            n += block.n_rows
    assert_allclose(share / n, marginal, atol=0.02)


@pytest.mark.ci
def test_an_estimator_learns_by_sampling(tmp_path):
    X, parts, _ = drawn_factors(np.random.default_rng(3), 150, (1, 1), 4, noise=0.2, missing=0.05)
    model = MCFA(2, 1, inference="gibbs", gating="standard", max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # samples may go on
        model.fit(X)
        again = MCFA(**model.get_params()).fit(X)
    assert again.lower_bound_ == model.lower_bound_
    own = model.parts_
    assert len(set(own[parts == 0])) == len(set(own[parts == 1])) == 1
    model.save(tmp_path / "model")
    assert_allclose(load(tmp_path / "model").transform(X), model.transform(X), atol=1e-12)
    with pytest.raises(ValueError, match="choose another gating for factors"):
        MCFA(2, 1, inference="gibbs", gating="tied").fit(X)
    with pytest.raises(ValueError, match='does not support inference="gibbs"'):
        MCFA(2, 1, likelihood="ordinal", inference="gibbs").fit(np.abs(X).round())
