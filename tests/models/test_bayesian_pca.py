"""Bayesian PCA's updates and bound against loops, quadrature and simulation."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from partwise.data import BlockSource, learn_columns
from partwise.data.additive import AdditiveRows
from partwise.likelihoods import Dirichlet
from partwise.models.bayesian_pca import (
    BayesianPCA,
    BayesianPCASums,
    Broad,
    PointValues,
    _inverses,
    pieces,
)
from partwise.models.bayesian_pca import total as model_total
from partwise.models.loadings import gamma_divergence
from partwise.models.mcfa import column_totals
from partwise.models.scatter_updates import log_joint, turns
from partwise.starts.principal import encoded_rows, principal_start, subspace_cost
from tests.common.helpers import assert_never_falls, climb_from, punch_holes
from tests.reference import bayesian_pca as slow

C, D, M, Q = 25, 4, 2, 2
STRENGTH, U = 0.3, 0.7


def problem(holes=0.0, prior=None, seed=0, n_rows=C, max_rows=None, M=M, q=Q, patterns=False):
    """Model, source and parameters with width."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, q)) @ rng.normal(size=(q, D)) + 0.5 * rng.normal(size=(n_rows, D))
    if patterns:  # few kinds of holes
        X[: n_rows // 2, 1] = np.nan
    elif holes:
        X = punch_holes(X, holes, rng)
    weight = rng.uniform(0.3, 2.0, n_rows)
    (group,) = learn_columns(X, "gaussian", weight, False, None)
    group = replace(group, scale=np.full(D, group.scale.mean()))
    source = BlockSource(X, (group,), weight, max_rows=max_rows, n_powers=2)
    prior = Broad(STRENGTH) if prior is None else prior
    model = BayesianPCA(prior, Dirichlet(U), column_totals(source))
    shares = rng.dirichlet(np.ones(M), n_rows).T
    mean, noise = principal_start(encoded_rows(source), weight, shares, q, rng)
    theta = model.start(mean + 0.3 * rng.normal(size=mean.shape), noise, shares @ weight)
    if isinstance(prior, Broad):
        theta = replace(theta, tau=np.array([30.0, 11.0]))
    return model, source, model.learn_loadings(theta, total(model, theta, source))


def total(model, theta, source):
    return BayesianPCASums.total(model.expect(theta, block, None)[1] for block in source.blocks())


def told(model, source, theta):
    """The slow version's arguments: rows, weights, q(x), q(s), and parameters by column."""
    Z = source.columns[0].encode(source.X, np.arange(D))
    cov = np.broadcast_to(theta.cov, (len(theta.mean), D, *theta.cov.shape[2:]))
    log_pi = model.shares.expected_log(theta.counts)
    rows = slow.rows_given(Z, theta.mean, cov, theta.precision, log_pi)
    return Z, source.weight, *rows[:3], theta.mean, cov, rows[3]


CASES = [{}, {"holes": 0.3}, {"patterns": True}]
KINDS = pytest.mark.parametrize("kind", CASES, ids=["complete", "holes", "patterns"])


BOTH = pytest.mark.parametrize("own", [False, True], ids=["shared", "by component"])


def in_three_blocks(source):
    """The same rows in blocks of very different lengths."""
    parts = source.with_rows(source.X, source.weight)
    parts.bounds = [(0, 70), (70, 71), (71, len(source.weight))]
    parts.n_blocks, parts._kept = 3, [None] * 3
    return parts


@KINDS
def test_the_e_step_is_that_of_the_loops(kind):
    model, source, theta = problem(**kind, max_rows=64)
    Z, weight, positions, covs, r, _, _, log_z = told(model, source, theta)
    (block,) = source.blocks()
    for rows, view in pieces(theta, block):
        found = model.infer(theta, view)
        assert_allclose(found.r, r[:, rows], rtol=1e-9, atol=1e-12)
        assert_allclose(found.log_z, log_z[rows], rtol=1e-9)
    sums = total(model, theta, source)
    for m in range(M):
        for d in range(D):
            seen = [n for n in range(C) if not np.isnan(Z[n, d])]
            second = sum(
                weight[n] * r[m, n] * slow.moment(positions[n][m], covs[n][m]) for n in seen
            )
            got = sums.second[m, d if sums.second.shape[1] > 1 else 0]
            assert_allclose(got, second, rtol=1e-9, atol=1e-12)
    everything = sum(
        weight[n] * r[1, n] * slow.moment(positions[n][1], covs[n][1]) for n in range(C)
    )
    assert_allclose(sums.moments[1], everything, rtol=1e-9, atol=1e-12)


@BOTH
@KINDS
def test_the_updates_are_those_of_the_loops(kind, own):
    model, source, theta = problem(**kind, prior=Broad(STRENGTH, by_component=own))
    Z, weight, positions, covs, r, *_ = told(model, source, theta)
    sums = total(model, theta, source)
    new = model.learn_loadings(theta, sums)
    A = np.broadcast_to(theta.alpha[0] / theta.alpha[1], (M, Q))
    cov = np.broadcast_to(new.cov, (M, D, Q + 1, Q + 1))
    for m in range(M):
        for d in range(D):
            precisions = np.append(A[m], STRENGTH)
            args = (Z, weight, positions, covs, r, m, d, theta.precision, precisions)
            mean, spread = slow.column_given(*args)
            assert_allclose(new.mean[m, d], mean, rtol=1e-8, atol=1e-12)
            assert_allclose(cov[m, d], spread, rtol=1e-8, atol=1e-12)
    new = model.learn_noise(new, sums)
    entries, error = slow.squared_error(Z, weight, positions, covs, r, new.mean, cov)
    assert_allclose(new.tau, [STRENGTH + entries / 2, STRENGTH + error / 2], rtol=1e-9)
    energy = np.array(
        [
            [sum(new.mean[m, d, i] ** 2 + cov[m, d, i, i] for d in range(D)) for i in range(Q)]
            for m in range(M)
        ]
    )
    alpha = model.learn_relevances(new).alpha
    assert alpha.shape == ((2, M, Q) if own else (2, Q))
    assert_allclose(alpha[0], STRENGTH + (1 if own else M) * D / 2)
    assert_allclose(alpha[1], STRENGTH + (energy if own else energy.sum(axis=0)) / 2, rtol=1e-9)


@BOTH
@KINDS
def test_the_bound_is_that_of_the_loops(kind, own):
    model, source, theta = problem(**kind, prior=Broad(STRENGTH, by_component=own))
    sums = total(model, theta, source)
    Z, weight, positions, covs, r, mean, cov, _ = told(model, source, theta)
    rows = (Z, weight, positions, covs, r)
    base = sum(block.weight @ block.base for block in source.blocks())
    parameters = (theta.tau, theta.alpha, theta.counts, STRENGTH, U)
    expected = slow.bound(*rows, mean, cov, *parameters)
    assert_allclose(model.bound(theta, sums) - base, expected, rtol=1e-10)
    # With the rows' posteriors held, `expected` follows the bound of any parameters.
    new = model.learn_noise(model.learn_loadings(theta, sums), sums)
    new_cov = np.broadcast_to(new.cov, cov.shape)
    parameters = (new.tau, new.alpha, new.counts, STRENGTH, U)
    after = slow.bound(*rows, new.mean, new_cov, *parameters)
    gain = model.expected(new, sums) - model.expected(theta, sums)
    assert_allclose(gain, after - expected, rtol=1e-7)


@BOTH
@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_no_single_update_lowers_the_bound(kind, seed, own):
    prior = Broad(STRENGTH, by_component=own)
    model, source, theta = problem(**kind, prior=prior, seed=seed, n_rows=60)
    for _ in range(12):
        sums = total(model, theta, source)
        base = model.bound(theta, sums) - model.expected(theta, sums)
        trace = [model.bound(theta, sums)]
        theta = replace(theta, counts=sums.counts)
        trace.append(base + model.expected(theta, sums))
        for step in (model.learn_loadings, model.learn_noise):
            theta = step(theta, sums)
            trace.append(base + model.expected(theta, sums))
        theta = model.learn_relevances(theta)
        trace.append(base + model.expected(theta, sums))
        theta, fewer = model.shed(theta, sums)
        trace.append(base + model.expected(theta, fewer))
        theta = model.rescale(theta, fewer)
        trace.append(model.bound(theta, total(model, theta, source)))
        assert_never_falls(trace)


@pytest.mark.parametrize(
    "prior", [Broad(), Broad(by_component=True), Broad(relevance=False), PointValues()]
)
@KINDS
def test_the_trace_never_falls(kind, prior):
    model, source, theta = problem(**kind, prior=prior, n_rows=80, q=3)
    _, trace = climb_from(model, theta, source, 30)
    assert_never_falls(trace)


def test_divergences_match_quadrature():
    a, b, a0, b0 = 3.2, 1.7, 0.6, 0.4
    own, prior = stats.gamma(a, scale=1 / b), stats.gamma(a0, scale=1 / b0)
    expected, _ = integrate.quad(
        lambda x: own.pdf(x) * (own.logpdf(x) - prior.logpdf(x)), 0, np.inf, limit=200
    )
    assert_allclose(gamma_divergence(np.array([a, b]), a0, b0), expected, rtol=1e-6)
    log_tau, _ = integrate.quad(lambda x: own.pdf(x) * np.log(x), 0, np.inf, limit=200)
    assert_allclose(Broad().log_tau(np.array([a, b])), log_tau, rtol=1e-6)


def test_expectations_match_simulation():
    """The expected log joint density less log q, by draws of all that is unknown."""
    model, source, theta = problem(holes=0.2, n_rows=6, q=1, M=2)
    sums = total(model, theta, source)
    Z, weight, positions, covs, r, mean, cov, _ = told(model, source, theta)
    rng = np.random.default_rng(0)
    T, S = 200_000, np.zeros(200_000)
    tau = rng.gamma(theta.tau[0], 1 / theta.tau[1], T)
    own = stats.gamma(theta.tau[0], scale=1 / theta.tau[1])
    flat = stats.gamma(STRENGTH, scale=1 / STRENGTH)
    S += flat.logpdf(tau) - own.logpdf(tau)
    alpha = rng.gamma(theta.alpha[0, 0], 1 / theta.alpha[1, 0], T)
    own = stats.gamma(theta.alpha[0, 0], scale=1 / theta.alpha[1, 0])
    S += flat.logpdf(alpha) - own.logpdf(alpha)
    post = theta.counts + U
    pi = rng.dirichlet(post, T)
    S += stats.dirichlet([U, U]).logpdf(pi.T) - stats.dirichlet(post).logpdf(pi.T)
    w = np.empty((2, D, T, 2))
    for m in range(2):
        for d in range(D):
            law = stats.multivariate_normal(mean[m, d], cov[m, d])
            w[m, d] = law.rvs(T, random_state=rng)
            S -= law.logpdf(w[m, d])
            S += stats.norm.logpdf(w[m, d, :, 0], 0, alpha**-0.5)
            S += stats.norm.logpdf(w[m, d, :, 1], 0, STRENGTH**-0.5)
    for n in range(6):
        s = (rng.random(T) < r[1, n]).astype(int)
        at = np.arange(T)
        log_row = np.log(pi[at, s]) - np.log(r[s, n])
        m_x = np.array([positions[n][m][0] for m in range(2)])[s]
        sd = np.sqrt([covs[n][m][0, 0] for m in range(2)])[s]
        x = m_x + sd * rng.standard_normal(T)
        log_row += stats.norm.logpdf(x) - stats.norm.logpdf(x, m_x, sd)
        for d in np.flatnonzero(~np.isnan(Z[n])):
            own_w = w[s, d, at]
            log_row += stats.norm.logpdf(Z[n, d], own_w[:, 0] * x + own_w[:, 1], tau**-0.5)
        S += weight[n] * log_row
    base = sum(block.weight @ block.base for block in source.blocks())
    error = S.std() / np.sqrt(T)
    assert abs(S.mean() - (model.bound(theta, sums) - base)) < 5 * error
    assert error < 0.1


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_any_split_into_blocks_gives_the_same_sums(holes):
    model, source, theta = problem(holes=holes, n_rows=200)
    whole = total(model, theta, source)
    parts = in_three_blocks(source)
    for a, b in zip(astuple(whole), astuple(total(model, theta, parts)), strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_views_agree_on_second_moments():
    """A mask that shows everything is no mask; patterns are the same as rows of their own."""
    rng = np.random.default_rng(0)
    x, mean = rng.normal(size=(D, 9)), rng.normal(size=(D, 3))
    half = rng.normal(size=(D, 3, 3))
    cov, precision, wide = half @ half.transpose(0, 2, 1), rng.random(D), rng.random(D)
    plain, shown = AdditiveRows(x, None), AdditiveRows(x, np.ones((D, 9)))
    args = (mean, cov, precision, wide)
    assert_allclose(shown.second_moments(*args), plain.second_moments(*args))
    mask = (np.arange(9) % 2 == np.arange(D)[:, None] % 2).astype(float)
    view = AdditiveRows(x, mask)
    found = view.patterns.spread(view.second_moments(*args).reshape(2, 9).T)
    for n in range(9):
        own = sum(
            precision[d] * np.outer(mean[d], mean[d]) + wide[d] * cov[d]
            for d in np.flatnonzero(mask[:, n])
        )
        assert_allclose(found[:, n].reshape(3, 3), own)
    # One is the adjoint of the other.
    m, weight = rng.normal(size=(3, 9)), rng.random(9)
    flat = np.zeros((2, 3, 3))
    collected = view.collect_moments(m, weight, flat)
    left = sum(weight[n] * m[:, n] @ found[:, n].reshape(3, 3) @ m[:, n] for n in range(9))
    right = sum(np.sum((np.outer(w, w) * p + c * h) * s) for w, p, c, h, s in
                zip(mean, precision, cov, wide, collected, strict=True))  # fmt: skip
    assert_allclose(left, right)


def test_a_frame_changes_nothing_about_rows_inside_it():
    """Components told in a subspace and told of all columns give rows the same posterior."""
    rng = np.random.default_rng(1)
    frame = np.linalg.qr(rng.normal(size=(D, 3)))[0]
    model, _, theta = problem()
    inside = replace(
        theta.take([0, 1]), mean=theta.mean[:, :3], leverage=np.ones(3), cov=theta.cov[:, :1]
    )
    rows = rng.normal(size=(5, D))
    small = model.infer(inside, AdditiveRows((rows @ frame).T, None))
    large = model.infer(inside.of_columns(frame), AdditiveRows(rows.T, None))
    assert_allclose(small.r, large.r, rtol=1e-10)
    assert_allclose(small.m, large.m, rtol=1e-9)
    assert_allclose(small.log_z, large.log_z, rtol=1e-10)


# --- leaps ---


def leaping(prior, M, holds=(), seed=0):
    model, source, theta = problem(prior=prior, n_rows=120, M=M, q=3, seed=seed)
    return replace(model, leaps=True, directions=3, holds=frozenset(holds)), model, source, theta


PRIORS = pytest.mark.parametrize("prior", [Broad(), Broad(STRENGTH), Broad(relevance=False)])
HOLDS = pytest.mark.parametrize("holds", [(), ("noise",), ("noise", "relevances")])


@PRIORS
@HOLDS
@pytest.mark.parametrize("M", [1, 3])
def test_a_leap_is_worth_what_the_bound_says(prior, holds, M):
    """With the rows' components held, the loop over numbers knows the bound exactly."""
    model, plain, source, theta = leaping(prior, M, holds)
    scatter = model_total(model, theta, source)
    single = plain.bound(theta, total(plain, theta, source))
    assert_allclose(model.bound(theta, scatter), single + model.turns(theta), rtol=1e-12)
    r = np.concatenate(
        [plain.infer(theta, view).r for b in source.blocks() for _, view in pieces(theta, b)], 1
    )
    claimed, new = model.from_shares(r, source, theta)
    (block,) = source.blocks()
    log_r = log_joint(new, block.groups[0].additive().x)
    log_r += model.shares.expected_log(new.counts)[:, None]
    rows = (r * (log_r - np.log(r))).sum(axis=0) + block.base
    held = replace(scatter, bound=float(block.weight @ rows))
    assert_allclose(claimed, model.bound(new, held), rtol=1e-10)
    assert claimed >= model.bound(theta, scatter)


@PRIORS
@HOLDS
def test_leaps_never_lower_the_bound(prior, holds):
    model, _, source, theta = leaping(prior, 3, holds)
    _, trace = climb_from(model, theta, source, 25)
    assert_never_falls(trace)
    assert trace[-1] > trace[0]


def test_one_component_leaps_to_where_sweeps_end():
    model, plain, source, theta = leaping(Broad(), 1)
    leapt = model.maximize(theta, model_total(model, theta, source))
    swept, trace = climb_from(plain, theta, source, 300)
    reached = plain.bound(leapt, total(plain, leapt, source))
    assert_allclose(reached, trace[-1], rtol=1e-6)
    assert leapt.alpha.shape == swept.alpha.shape


def evidence_and_turns(A):
    """Log evidence given noise and relevances A, less its bound; and what turns should have of it.

    The evidence is simulated: loadings are drawn from the posterior, widened, and turned.
    """
    model, source, theta = problem(prior=Broad(STRENGTH), n_rows=200, M=1, q=2)
    held = replace(model, holds=frozenset(["noise", "relevances"]))
    sure, noise = 1e7, 0.2  # Gammas of this shape are next to points
    alpha = np.stack([np.full(2, sure), sure / A])
    theta = replace(theta, tau=np.array([sure, noise * sure]), alpha=alpha)
    for _ in range(100):
        theta = held.maximize(theta, total(held, theta, source))
        theta = replace(held.rescale(theta, total(held, theta, source)), alpha=alpha)
    known = gamma_divergence(np.column_stack([theta.tau, alpha]), STRENGTH, STRENGTH).sum()
    bound = held.bound(theta, total(held, theta, source)) + known
    length = np.sqrt((theta.mean[:, :, :-1] ** 2).sum(axis=1))
    width = np.diagonal(theta.cov[:, 0], axis1=1, axis2=2)[:, :-1].copy()
    lacks = turns(length, width, A, np.ones(2, bool)).sum()

    rng, n, wider = np.random.default_rng(0), 2000, 1.3
    angle = np.linspace(0, 2 * np.pi, 128, endpoint=False)
    c, s = np.cos(angle), np.sin(angle)
    R = np.zeros((256, 3, 3))  # turns, and turns of the mirrored
    R[:, :2, :2] = np.concatenate([[[c, -s], [s, c]], [[c, s], [s, -c]]], axis=2).transpose(2, 0, 1)
    R[:, 2, 2] = 1.0
    L = wider * np.linalg.cholesky(theta.cov[0, 0])
    W = (theta.mean[0] + rng.standard_normal((n, D, 3)) @ L.T) @ R[rng.integers(0, 256, n)]
    back = np.linalg.inv(L).T
    log_q = np.stack([((((W @ r.T) - theta.mean[0]) @ back) ** 2).sum(axis=(1, 2)) for r in R])
    log_q = special.logsumexp(-0.5 * log_q, axis=0) - np.log(256)
    log_q -= D * np.log(np.diagonal(L)).sum()
    precision = np.append(A, STRENGTH)
    log_p = -0.5 * (W**2 @ precision).sum(axis=1) + 0.5 * D * np.log(precision).sum()
    S = W[:, :, :2] @ W[:, :, :2].swapaxes(1, 2) + noise * np.eye(D)
    K, Z, weight = np.linalg.inv(S), encoded_rows(source), source.weight
    away = Z - W[:, None, :, 2]
    squares = np.einsum("knd,kde,kne,n->k", away, K, away, weight, optimize=True)
    log_p -= 0.5 * (squares + weight.sum() * np.linalg.slogdet(2 * np.pi * S)[1])
    evidence = special.logsumexp(log_p - log_q) - np.log(n)
    evidence += sum(float(block.weight @ block.base) for block in source.blocks())
    return evidence - bound, lacks


def test_turns_are_what_the_bound_lacks_of_the_evidence():
    rest = []
    for relevances in ([1.0, 1.0], [1.0, 4.0]):
        gap, lacks = evidence_and_turns(np.array(relevances))
        assert 0.5 * gap < lacks < gap  # with turns the bound is closer, and still one
        rest.append(gap - lacks)
    # How much the prior tells turns changes nothing of what else is lacking.
    assert_allclose(rest[0], rest[1], atol=0.3)


def test_any_split_into_blocks_gives_the_same_scatter():
    model, _, source, theta = leaping(Broad(), 2)
    whole = model_total(model, theta, source)
    parts = in_three_blocks(source)
    for a, b in zip(astuple(whole), astuple(model_total(model, theta, parts)), strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_cost_of_a_subspace_is_its_share_of_all():
    """Minus the log of the mean of exp(-h u / 2), directions being drawn at random."""
    rng = np.random.default_rng(0)
    value, noise, weight, n_columns = 1.5, 1.0, 60.0, 5
    x = rng.normal(size=(400_000, n_columns))
    u = 1.0 - x[:, 0] ** 2 / (x**2).sum(axis=1)
    h = weight * (value - noise) ** 2 / (noise * value)
    drawn = -np.log(np.exp(-0.5 * h * u).mean())
    cost = subspace_cost(np.array([value]), n_columns, weight, noise)
    assert_allclose(cost, drawn, atol=0.2)
    assert subspace_cost(np.array([4.0, 3.0]), 2, weight, noise) == 0.0


def test_a_precision_that_rounding_made_singular_has_a_finite_inverse():
    precision = np.array([[[1e9, 1e9], [1e9, 1e9 - 1.0]], np.eye(2)])
    inverse, log_det = _inverses(precision)
    assert np.isfinite(inverse).all()
    np.testing.assert_allclose(inverse[1], np.eye(2))
    np.testing.assert_allclose(log_det[1], 0.0, atol=1e-12)
