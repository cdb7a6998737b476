"""The class variable against enumeration of classes and states, and Gaussian integrals."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from scipy.stats import multivariate_normal

from partwise import MCFA, MCVQ
from partwise.data import BlockSource
from partwise.likelihoods import Dirichlet, Prior
from partwise.models import factors, predict, predict_factors
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Standard, Tied
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Draws, Expected
from partwise.starts import classes
from tests.common.factors import (
    build_factors,
    random_loadings,
    start_factors,
    with_classes,
)
from tests.common.helpers import (
    assert_never_falls,
    build,
    climb_from,
    punch_holes,
    random_entries,
    random_gates,
    random_posteriors,
    start_from,
    sweep,
)
from tests.reference import mcvq as reference

C, N = 8, 3
PRIOR = Prior(entries=0.3, counts=0.4, spread=0.2, shape=1.5, states=0.7, gates=1.3)
PRIORS = pytest.mark.parametrize("prior", [PRIOR, None], ids=["prior", "flat"])
GATINGS = {"tied": Tied(), "standard": Standard(), "factorised": Standard()}
LABELS = {
    "unknown": None,
    "free": np.full(C, -1),
    "some": np.array([0, -1, 2, -1, -1, 1, 1, -1]),
    "all": np.array([0, 1, 2, 2, 0, 1, 1, 0]),
}


# --- the component itself ---


def test_posterior_is_bayes_rule():
    rng = np.random.default_rng(0)
    evidence = 300 * rng.normal(size=(N, C))
    z, log_z = ClassVariable(N).posterior(evidence, None)
    assert_allclose(log_z, special.logsumexp(evidence, axis=0))
    assert_allclose(z, special.softmax(evidence, axis=0))
    labels = LABELS["some"]
    z, log_z = ClassVariable(N).posterior(evidence, labels)
    free = labels < 0
    assert_allclose(z[:, free], special.softmax(evidence, axis=0)[:, free])
    assert_array_equal(z[:, ~free], np.eye(N)[labels[~free]].T)
    assert_allclose(log_z[~free], evidence[labels[~free], np.flatnonzero(~free)])


def test_shares_of_classes_have_a_dirichlet_posterior():
    counts = np.array([3.0, 0.5, 6.0])
    classes = ClassVariable(3, Dirichlet(0.7))
    alpha = counts + 0.7
    assert_allclose(classes.learn(counts), special.digamma(alpha) - special.digamma(alpha.sum()))
    assert_allclose(
        classes.cost(counts), reference.dirichlet_divergence(list(alpha), [0.7] * 3), rtol=1e-12
    )
    assert_allclose(ClassVariable(3).learn(counts), np.log(counts / counts.sum()))
    assert ClassVariable(3).cost(counts) == 0


# --- MCVQ: enumeration of classes and states ---


def mcvq_case(likelihood="gaussian", prior=PRIOR, gating="standard", labels=None, closed=False,
              seed=0, n_classes=N):  # fmt: skip
    """A small model with classes whose state priors differ, and its rows."""
    rng = np.random.default_rng(seed)
    n_states, D = (2, 3), 5
    X = punch_holes(random_entries(likelihood, (C, D), rng), 0.3, rng)
    weight = rng.uniform(0.3, 2, C)
    classes = ClassVariable(n_classes, Dirichlet(prior.states if prior else 0.0))
    core, source = build(X, weight, n_states, likelihood, GATINGS[gating], prior, classes=classes)
    source = BlockSource(X, source.columns, weight, labels=labels)
    gates = random_gates(2, D, rng)
    if closed:
        gates = np.eye(2)[rng.integers(2, size=D)].T
    theta = start_from(core.without_classes(), source, random_posteriors(n_states, C, rng), gates)
    share = rng.dirichlet(np.full(n_classes, 3.0))[:, None]
    counts = 9 * share * random_posteriors(n_states, n_classes, rng).T
    return core, source, core.learn_states(theta, counts)


def enumerate_rows(score, log_b, log_beta, labels, first):
    """z, log normalizer, m_n z (N, S, C) from scores (S, C), by going through everything."""
    n_classes, n = len(log_beta), score.shape[1]
    z, log_z = np.zeros((n_classes, n)), np.zeros(n)
    joint = np.zeros((n_classes, score.shape[0], n))
    for c in range(n):
        terms = {}
        for y in range(n_classes):
            if labels is not None and labels[c] not in (-1, y):
                continue
            for states in itertools.product(*(range(a, b) for a, b in itertools.pairwise(first))):
                terms[y, states] = log_beta[y] + sum(log_b[y, s] + score[s, c] for s in states)
        log_z[c] = special.logsumexp(list(terms.values()))
        for (y, states), value in terms.items():
            z[y, c] += np.exp(value - log_z[c])
            joint[y, list(states), c] += np.exp(value - log_z[c])
    return z, log_z, joint


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_mcvq_equals_enumeration(likelihood, labels):
    core, source, theta = mcvq_case(likelihood, labels=LABELS[labels])
    prepared = core.begin(theta)
    block = source.block(0)
    (group,) = source.columns
    Z = group.encode(source.X, np.arange(5))
    score = np.zeros((5, C))
    for s, d, c in itertools.product(range(5), range(5), range(C)):
        if not np.isnan(Z[c, d]):
            z = Z[c, d]
            T = [1, z, z * z] if group.levels is None else np.eye(len(group.levels))[int(z)]
            score[s, c] += theta.gates[core.part_of[s], d] * (T @ prepared.natural[0][:, s, d])
    z, log_z, joint = enumerate_rows(score, theta.log_b, theta.log_beta, LABELS[labels], core.first)
    found = core.weigh(theta, core.evidence(prepared, block), block.labels)
    assert_allclose(found.z, z, atol=1e-10)
    assert_allclose(found.log_z, log_z, rtol=1e-10)
    m, sums = core.expect(prepared, block, None)
    assert_allclose(m, joint.sum(axis=0), atol=1e-10)
    assert_allclose(sums.states, joint @ block.weight, atol=1e-10)
    assert_allclose(sums.bound, block.weight @ (log_z + block.base), rtol=1e-10)


# --- MCFA: Gaussian integrals ---


def mcfa_case(closed, labels=None, gating="standard", prior=None, n_factors=(2, 1), seed=0,
              n_classes=N, D=6, holes=0.3):  # fmt: skip
    """A small model with classes whose factors differ, and its rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(C, D)) * 10.0 ** rng.uniform(-1, 1, D) + rng.normal(size=D)
    X[rng.random(X.shape) < holes] = np.nan
    X[:2] = np.where(np.isnan(X[:2]), 1.0, X[:2])
    weight = rng.uniform(0.3, 2, C)
    core, source = build_factors(
        X, weight, n_factors, GATINGS[gating], prior, n_powers=3, n_classes=n_classes,
        labels=labels,
    )  # fmt: skip
    K = len(n_factors)
    gates = random_gates(K, D, rng)
    shut = {"closed": slice(None), "open": slice(0, 0), "mixed": slice(0, D // 2)}[closed]
    gates[:, shut] = np.eye(K)[rng.integers(K, size=D)].T[:, shut]
    loadings = random_loadings(core, rng, prior is None)
    theta = start_factors(core.without_classes(), loadings, gates)
    return core, source, with_classes(core, theta, rng, spread=1.0)


def part_integral(z, w, g, eta, sigma):
    """log of the integral of N(s; eta, Sigma) prod_d N(z_d; w . (s, 1), Psi_d)^g_d over s, and the
    mean and covariance of s under it; columns with gate 0 left out by the caller.

    N^g is N of variance Psi / g, but for a factor.
    """
    Lambda, rho, psi = w.mean[:, :-1], w.mean[:, -1], w.rate / w.shape
    powered = -0.5 * g * np.log(2 * np.pi * psi) + 0.5 * np.log(2 * np.pi * psi / g)
    if len(z) == 0:
        return 0.0, eta, sigma
    cov = Lambda @ sigma @ Lambda.T + np.diag(psi / g)
    mean = Lambda @ eta + rho
    log_p = multivariate_normal(mean, cov).logpdf(z) + powered.sum()
    K = sigma @ Lambda.T @ np.linalg.inv(cov)
    return log_p, eta + K @ (z - mean), sigma - K @ Lambda @ sigma


def integrate_rows(core, source, theta):
    """Log density of rows in every class (N, C), and means and covariances of their factors."""
    (group,) = source.columns
    Z = group.encode(source.X, np.arange(core.n_columns))
    log_p = np.zeros((len(theta.log_beta), C))
    moments = {}
    for n, c, k in itertools.product(range(len(log_p)), range(C), range(len(core.n_factors))):
        used = np.flatnonzero(~np.isnan(Z[c]) & (theta.gates[k] > 0))
        value, mean, cov = part_integral(
            Z[c, used], theta.loadings[k].at(used), theta.gates[k, used], theta.eta[k][n],
            theta.sigma[k][n],
        )  # fmt: skip
        log_p[n, c] += value
        moments[n, c, k] = mean, cov
    return log_p, moments


@pytest.mark.parametrize("holes", [0.3, 0.0])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("closed", ["closed", "open", "mixed"])
def test_mcfa_equals_gaussian_integrals(closed, labels, holes):
    core, source, theta = mcfa_case(closed, labels=LABELS[labels], holes=holes)
    prepared = core.begin(theta)
    block = source.block(0)
    log_p, moments = integrate_rows(core, source, theta)
    joint = log_p + theta.log_beta[:, None]
    if LABELS[labels] is not None:
        known = LABELS[labels] >= 0
        joint[:, known] = np.where(
            np.arange(N)[:, None] == LABELS[labels][known], joint[:, known], -np.inf
        )
    z, log_z = special.softmax(joint, axis=0), special.logsumexp(joint, axis=0)

    found = core.weigh(theta, core.evidence(prepared, block), block.labels)
    assert_allclose(found.z, z, atol=1e-9)
    features, found_log_z = core.infer(prepared, block)
    _, sums = core.expect(prepared, block, None)
    assert_allclose(sums.bound, block.weight @ (found_log_z + block.base), rtol=1e-10)
    for k, (one, linear, quadratic) in enumerate(core.spans()):
        J = core.n_factors[k]
        assert_allclose(sums.states[:, one], z @ block.weight, atol=1e-9)
        for n in range(N):
            means = np.array([moments[n, c, k][0] for c in range(C)])
            seconds = np.array([moments[n, c, k][1] for c in range(C)])
            seconds = seconds + means[:, :, None] * means[:, None, :]
            wz = block.weight * z[n]
            assert_allclose(sums.states[n, linear], wz @ means, atol=1e-8)
            second = factors.unpack(sums.states[n, quadratic], J)
            assert_allclose(second, np.einsum("c,cij->ij", wz, seconds), atol=1e-8)
        mixed = [sum(z[n, c] * moments[n, c, k][0] for n in range(N)) for c in range(C)]
        assert_allclose(features[linear].T, mixed, atol=1e-8)
    # The whole bound: rows, less what gates, classes and their priors cost.
    cost = core.chooser.cost(theta.gate, prepared.divergence) + core.choice_cost(theta)
    truth = block.weight @ (log_z + block.base) - cost
    assert_allclose(core.bound(prepared, sums), truth, rtol=1e-9)


# --- what one class, or none, or labels for all mean ---


def cases(gating, labels, prior=PRIOR, n_classes=N):
    if gating != "factorised":
        yield mcvq_case(gating=gating, labels=labels, prior=prior, n_classes=n_classes)
        yield mcfa_case("open", labels, gating, prior, n_classes=n_classes)
        return
    for core, source, theta in cases("standard", labels, prior, n_classes):
        yield Rowwise(core, Expected()), source, theta


def core_of(model):
    return getattr(model, "core", model)


def counts_of_classes(core, states):
    return states[:, 0] if hasattr(core, "n_factors") else core.class_counts(states)


@pytest.mark.parametrize("gating", GATINGS)
def test_labelled_rows_fix_their_class_and_others_are_free(gating):
    of_labels = {}
    for name, labels in LABELS.items():
        for i, (model, source, theta) in enumerate(cases(gating, labels)):
            core, weight = core_of(model), source.weight
            _, sums = sweep(model, theta, source)
            counts = counts_of_classes(core, sums.states)
            of_labels[name, i] = counts, sums.bound
            assert_allclose(counts.sum(), weight.sum())
            if labels is not None:
                least = np.array([weight[labels == n].sum() for n in range(N)])
                if name == "all":
                    assert_allclose(counts, least, rtol=1e-12)
                elif name == "some":
                    assert np.all(counts >= least - 1e-9)
                    assert np.all(counts > least + 1e-6)
    for i in range(2):
        assert_array_equal(of_labels["free", i][0], of_labels["unknown", i][0])
        assert of_labels["free", i][1] == of_labels["unknown", i][1]


@PRIORS
@pytest.mark.parametrize("gating", GATINGS)
def test_classes_that_are_all_alike_are_no_classes(gating, prior):
    for (one, source, theta), (many, other, _) in zip(
        cases(gating, None, prior, 1), cases(gating, None, prior, N), strict=True
    ):
        core, full = core_of(one), core_of(many)
        if hasattr(core, "n_factors"):
            theta = core.learn_states(theta, np.full((1, core.first[-1]), 5.0))
            alike = {
                "eta": tuple(np.repeat(v, N, axis=0) for v in theta.eta),
                "sigma": tuple(np.repeat(v, N, axis=0) for v in theta.sigma),
            }
        else:
            theta = replace(theta, log_beta=np.zeros(1))
            alike = {"log_b": np.repeat(theta.log_b, N, axis=0)}
        theta = replace(theta, log_beta=np.zeros(1))
        repeated = replace(theta, log_beta=np.log([0.5, 0.2, 0.3]), **alike)
        _, sums = sweep(one, theta, source)
        _, same = sweep(many, repeated, other)
        assert_allclose(same.bound, sums.bound, rtol=1e-10)
        assert_allclose(same.states.sum(axis=0), sums.states[0], rtol=1e-8, atol=1e-10)
        shares = counts_of_classes(full, same.states) / source.weight.sum()
        assert_allclose(shares, [0.5, 0.2, 0.3], rtol=1e-9)
        for a, b in zip(sums.sums, same.sums, strict=True):
            assert_allclose(b.shared, a.shared, rtol=1e-7, atol=1e-9)


@PRIORS
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("gating", GATINGS)
def test_the_bound_never_falls_with_classes(gating, labels, prior):
    for model, source, theta in cases(gating, LABELS[labels], prior):
        _, trace = climb_from(model, theta, source, 12)
        assert_never_falls(trace)
        assert trace[-1] > trace[0]


# --- likelihood of rows in every class ---


@PRIORS
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_mcvq_likelihood_by_class_equals_enumeration(likelihood, closed, prior):
    core, source, theta = mcvq_case(likelihood, prior, closed=closed, seed=3)
    block = source.block(0)
    law = core.priors[0].predictive(theta.chi[0])
    log_prior = np.stack(
        [
            np.concatenate([special.log_softmax(b) for b in np.split(row, core.first[1:-1])])
            for row in theta.log_b
        ]
    )
    proposal = core.propose(core.begin(theta), block)
    found = predict.row_likelihood(
        block, proposal, [law], core.columns, theta.gates, log_prior, core.first, 10
    )
    assert found.log_likelihood.shape == (N, C)
    assert np.all(found.standard_error == 0)
    Z = source.columns[0].encode(source.X, np.arange(5))
    for n, c in itertools.product(range(N), range(C)):
        seen = np.flatnonzero(~np.isnan(Z[c]))
        density = [
            [
                [float(law.at((np.array(s), np.array(d))).log_density(Z[c, d])) for s in span]
                for span in (range(2), range(2, 5))
            ]
            for d in seen
        ]
        shares = [np.exp(log_prior[n, :2]), np.exp(log_prior[n, 2:])]
        truth = reference.row_log_likelihood(density, theta.gates.T[seen], shares)
        assert_allclose(found.log_likelihood[n, c], truth + block.base[c], rtol=1e-9)


def point_noise(theta, k):
    """Noise of predictions: uncertain loadings, given factors of the prior, are more of it."""
    w = theta.loadings[k]
    noise = w.rate / (w.shape - 1) if w.cov.any() else w.rate / w.shape
    second = 0.0
    for share, eta, sigma in zip(
        theta.class_counts / theta.class_counts.sum(), theta.eta[k], theta.sigma[k], strict=True
    ):
        s = np.append(eta, 1.0)
        second = second + share * (np.outer(s, s) + np.pad(sigma, ((0, 1), (0, 1))))
    return noise * (1 + np.trace(w.cov @ second, axis1=1, axis2=2))


@PRIORS
def test_mcfa_likelihood_by_class_equals_the_gaussian(prior):
    """Gates closed: one Gaussian of covariance Lambda Sigma_n Lambda' + Psi a part."""
    core, source, theta = mcfa_case("closed", prior=prior, seed=4)
    block = source.block(0)
    proposal = core.propose(core.begin(theta), block)
    found = predict_factors.row_likelihood(core, theta, block, proposal, 10)
    assert found.log_likelihood.shape == (N, C)
    assert np.all(found.standard_error == 0)
    assert np.all(np.isinf(found.effective_draws))
    (group,) = source.columns
    own = theta.gates.argmax(axis=0)
    for n, c in itertools.product(range(N), range(C)):
        truth = 0.0
        for k, w in enumerate(theta.loadings):
            d = np.flatnonzero(~np.isnan(source.X[c]) & (own == k))
            if len(d) == 0:
                continue
            Lambda = w.mean[d, :-1] * group.scale[d, None]
            mean = w.mean[d, -1] * group.scale[d] + group.shift[d] + Lambda @ theta.eta[k][n]
            noise = point_noise(theta, k)[d] * group.scale[d] ** 2
            cov = Lambda @ theta.sigma[k][n] @ Lambda.T + np.diag(noise)
            truth += multivariate_normal(mean, cov).logpdf(source.X[c, d])
        assert_allclose(found.log_likelihood[n, c], truth, rtol=1e-9)


@pytest.mark.parametrize("from_prior", [False, True], ids=["mode", "prior"])
@pytest.mark.parametrize("closed", ["open", "mixed"])
def test_mcfa_likelihood_with_open_gates_equals_a_fine_grid(closed, from_prior):
    """Drawn, within its own error; the selections of parts summed out in both."""
    core, source, theta = mcfa_case(closed, n_factors=(1, 1), n_classes=2, seed=5, D=5)
    block = source.block(0)
    proposal = core.propose(core.begin(theta), block)
    found = predict_factors.row_likelihood(
        core, theta, block, proposal, 3000, seed=1, from_prior=from_prior
    )
    Z = source.columns[0].encode(source.X, np.arange(5))
    grid = np.linspace(-7, 7, 301)
    cell = (grid[1] - grid[0]) ** 2
    truth = np.empty((2, C))
    for c in range(C):
        log_p = np.zeros((len(grid), len(grid)))
        for d in np.flatnonzero(~np.isnan(Z[c])):
            of_parts = []
            for k, w in enumerate(theta.loadings):
                mean = w.mean[d, 0] * grid + w.mean[d, 1]
                log_n = stats.norm.logpdf(Z[c, d], mean, np.sqrt(w.rate[d] / w.shape[d]))
                with np.errstate(divide="ignore"):
                    log_n = log_n + np.log(theta.gates[k, d])
                of_parts.append(log_n[:, None] if k == 0 else log_n[None, :])
            log_p += np.logaddexp(*of_parts)
        for n in range(2):
            a, b = (
                stats.norm.logpdf(grid, eta[n, 0], np.sqrt(sigma[n, 0, 0]))
                for eta, sigma in zip(theta.eta, theta.sigma, strict=True)
            )
            truth[n, c] = special.logsumexp(log_p + a[:, None] + b) + np.log(cell)
    truth += block.base
    away = (found.log_likelihood - truth) / found.standard_error
    assert np.all(np.abs(away) < 4.5)
    assert np.sqrt(np.mean(away**2)) < 1.6
    assert np.all(found.standard_error > 0)
    assert np.median(found.standard_error) < 0.06
    assert np.all(found.effective_draws <= 3000)


# --- fitted models: Bayes' rule on what they say they learned ---


def labelled_rows(rng, n_rows=90):
    """Rows in two parts of columns that depend on the class: X, y."""
    y = rng.choice(["a", "b", "c"], n_rows, p=[0.5, 0.3, 0.2])
    level = np.array([{"a": -1.5, "b": 0.0, "c": 2.0}[label] for label in y])
    s = np.stack([level + rng.normal(size=n_rows), 0.7 * level + rng.normal(size=n_rows)], axis=1)
    X = np.repeat(s, 4, axis=1) * rng.uniform(0.5, 2, 8) + 0.4 * rng.normal(size=(n_rows, 8))
    X[rng.random(X.shape) < 0.15] = np.nan
    return X * 10.0 ** rng.uniform(-1, 1, 8) + 3, y


@pytest.fixture(scope="module")
def fitted():
    X, y = labelled_rows(np.random.default_rng(6))
    how = {"prior": None, "gating": "tied", "max_iter": 30, "tol": 1e-2, "random_state": 0}
    vq = MCVQ(2, (3, 2), **how).fit(X, y)
    fa = MCFA(2, (2, 1), **how).fit(X, y)
    return X, y, vq, fa


def mcvq_by_class(model, x):
    """log p(x | class) from the learned attributes, closed gates."""
    assert np.all(model.gates_.max(axis=1) == 1)
    out = []
    for b in model.state_priors_:
        total = 0.0
        for k, J in enumerate(model.n_states):
            d = np.flatnonzero(~np.isnan(x) & (model.parts_ == k))
            terms = [
                np.log(max(b[k, j], 1e-300))
                + stats.norm.logpdf(
                    x[d], model.means_[k, j, d], np.sqrt(model.variances_[k, j, d])
                ).sum()
                for j in range(J)
            ]
            total += special.logsumexp(terms)
        out.append(total)
    return np.array(out)


def mcfa_by_class(model, x):
    """The same of factor analysers."""
    assert np.all(model.gates_.max(axis=1) == 1)
    out = []
    for eta, sigma in zip(model.factor_means_, model.factor_covariances_, strict=True):
        total = 0.0
        for k in range(model.n_parts):
            d = np.flatnonzero(~np.isnan(x) & (model.parts_ == k))
            if len(d) == 0:
                continue
            Lambda = model.loadings_[k, d]
            cov = Lambda @ sigma[k] @ Lambda.T + np.diag(model.noise_variance_[k, d])
            mean = model.offsets_[k, d] + Lambda @ eta[k]
            total += multivariate_normal(mean, cov).logpdf(x[d])
        out.append(total)
    return np.array(out)


@pytest.mark.parametrize("name", ["mcvq", "mcfa"])
def test_predictions_follow_bayes_rule(name, fitted):
    X, y, vq, fa = fitted
    model, by_class = (vq, mcvq_by_class) if name == "mcvq" else (fa, mcfa_by_class)
    assert_array_equal(model.classes_, ["a", "b", "c"])
    assert_allclose(model.class_priors_, [np.mean(y == label) for label in "abc"])
    X = np.vstack([X[:10], np.full(8, np.nan)])
    joint = np.array([by_class(model, x) for x in X]) + np.log(model.class_priors_)
    found = model.predict_proba(X)
    assert_allclose(found, special.softmax(joint, axis=1), rtol=1e-6, atol=1e-9)
    total = special.logsumexp(joint, axis=1)
    assert_allclose(model.score_samples(X), total, rtol=1e-8, atol=1e-12)
    assert_array_equal(model.predict(X), np.array(["a", "b", "c"])[joint.argmax(axis=1)])
    assert_allclose(found[-1], model.class_priors_)  # nothing seen, nothing learned
    assert np.mean(model.predict(fitted[0]) == y) > 0.7


def test_open_gates_predict_by_bayes_rule_too():
    X, y = labelled_rows(np.random.default_rng(7))
    how = {"gating": "standard", "prior": None, "init": "random", "tol": 1e-2, "random_state": 0}
    model = MCVQ(2, 2, **how).fit(X, y)
    assert np.any(model.gates_.max(axis=1) < 0.99)
    truth = []
    for x in X[:6]:
        d = np.flatnonzero(~np.isnan(x))
        density = stats.norm.logpdf(x[d], model.means_[:, :, d], np.sqrt(model.variances_[:, :, d]))
        by_column = np.moveaxis(density, 2, 0)
        truth.append(
            [
                reference.row_log_likelihood(by_column, model.gates_[d], b)
                for b in np.maximum(model.state_priors_, 1e-300)
            ]
        )
    joint = np.array(truth) + np.log(model.class_priors_)
    assert_allclose(model.predict_proba(X[:6]), special.softmax(joint, axis=1), atol=1e-8)
    assert_allclose(model.score_samples(X[:6]), special.logsumexp(joint, axis=1), rtol=1e-8)
    model = MCFA(2, 1, **how).fit(X, y)
    assert np.all(model.gates_.max(axis=1) < 1)
    found, by_class = model.predict_proba(X), model._likelihoods(X, 200).log_likelihood.T
    assert_allclose(found, special.softmax(by_class + np.log(model.class_priors_), axis=1))
    assert np.mean(model.predict(X) == y) > 0.6


def test_classes_given_a_state_follow_bayes_rule(fitted):
    _, _, model, _ = fitted
    found = model.class_given_state_
    assert found.shape == (3, 2, 3)
    assert np.all(np.isnan(found[:, 1, 2]))  # part 1 has two states
    joint = np.einsum(
        "n,ni,nj->nij", model.class_priors_, model.state_priors_[:, 0], model.state_priors_[:, 1]
    )
    assert_allclose(found[:, 0], joint.sum(axis=2) / joint.sum(axis=(0, 2)), rtol=1e-9)
    second = joint.sum(axis=1)[:, :2] / joint.sum(axis=(0, 1))[:2]
    assert_allclose(found[:, 1, :2], second, rtol=1e-9)


# --- sampling ---

DRAWS = 20_000


def assert_frequencies(states, shares, n_states):
    for j in range(n_states):
        error = 4.5 * np.sqrt(shares[j] * (1 - shares[j]) / len(states)) + 1e-9
        assert abs(np.mean(states == j) - shares[j]) < error


def test_hybrids_of_mcvq_have_the_asked_priors(fitted):
    _, _, model, _ = fitted
    b, beta = model.state_priors_, model.class_priors_
    _, states = model.sample(DRAWS, hybrid={0: "c", 1: {"a": 1, "b": 3}}, random_state=0)
    assert_frequencies(states[:, 0], b[2, 0], 3)
    assert_frequencies(states[:, 1], 0.25 * b[0, 1] + 0.75 * b[1, 1], 2)
    _, states = model.sample(DRAWS, classes="b", hybrid={1: "c"}, random_state=1)
    assert_frequencies(states[:, 0], b[1, 0], 3)
    assert_frequencies(states[:, 1], b[2, 1], 2)
    rows, labels = model.sample(DRAWS, random_state=2)
    assert labels.shape == (DRAWS,)
    for n, label in enumerate("abc"):
        assert abs(np.mean(labels == label) - beta[n]) < 4.5 * np.sqrt(0.25 / DRAWS)
        mean = np.einsum("kj,kjd,dk->d", b[n], np.nan_to_num(model.means_), model.gates_)
        mine = rows[labels == label]
        assert_allclose(mine.mean(axis=0), mean, atol=5 * mine.std(axis=0).max() / np.sqrt(3000))


def assert_moments(s, mean, cov):
    error = 5 / np.sqrt(len(s))
    root = np.sqrt(np.diag(cov))
    assert_allclose((s.mean(axis=0) - mean) / root, 0, atol=error)
    assert_allclose(
        (np.cov(s.T).reshape(cov.shape) - cov) / np.outer(root, root), 0, atol=2 * error
    )


def test_hybrids_of_mcfa_have_the_asked_priors(fitted):
    *_, model = fitted
    eta, sigma = model.factor_means_, model.factor_covariances_
    _, s = model.sample(DRAWS, hybrid={0: "c", 1: {"a": 1, "b": 3}}, random_state=0)
    assert s.shape == (DRAWS, 3)
    assert_moments(s[:, :2], eta[2, 0], sigma[2, 0])
    share = np.array([0.25, 0.75])
    mean = share @ eta[:2, 1, :1]
    second = share @ (sigma[:2, 1, 0, 0] + eta[:2, 1, 0] ** 2) - mean**2
    assert_moments(s[:, 2:], mean, second.reshape(1, 1))
    _, s = model.sample(DRAWS, classes="b", hybrid={1: "c"}, random_state=1)
    assert_moments(s[:, :2], eta[1, 0], sigma[1, 0])
    assert_moments(s[:, 2:], eta[2, 1, :1], sigma[2, 1, :1, :1])
    # Factors drawn apart: part 1's do not follow part 0's.
    assert abs(np.corrcoef(s[:, 0], s[:, 2])[0, 1]) < 5 / np.sqrt(DRAWS)
    rows, labels = model.sample(DRAWS, random_state=2)
    for n, label in enumerate("abc"):
        mine = rows[labels == label]
        own = model.parts_
        mean = model.offsets_[own, np.arange(8)] + np.einsum(
            "dj,dj->d", model.loadings_[own, np.arange(8)], eta[n, own]
        )
        atol = 5 * mine.std(axis=0) / np.sqrt(len(mine))
        assert np.all(np.abs(mine.mean(axis=0) - mean) < atol)


def test_the_factors_of_all_classes_together_are_standard(fitted):
    """Else loadings and class means could trade places."""
    *_, model = fitted
    beta = model.class_priors_
    for k, J in enumerate(model.n_factors):
        eta, sigma = model.factor_means_[:, k, :J], model.factor_covariances_[:, k, :J, :J]
        assert_allclose(beta @ eta, 0, atol=1e-6)
        second = np.einsum("n,nij->ij", beta, sigma) + np.einsum("n,ni,nj->ij", beta, eta, eta)
        assert_allclose(second, np.eye(J), atol=1e-6)


# --- fits with labels for all, some, and none ---


@pytest.mark.ci
@pytest.mark.parametrize("Estimator", [MCVQ, MCFA])
def test_unknown_labels_are_free(Estimator, monkeypatch):
    monkeypatch.setattr(classes, "N_STARTS", 5)
    X, y = labelled_rows(np.random.default_rng(8))
    how = {"n_parts": 2, "random_state": 0, "tol": 1e-2}
    size = {"n_states": 2} if Estimator is MCVQ else {"n_factors": 1}
    found = Estimator(n_classes=3, **how, **size).fit(X)
    free = Estimator(n_classes=3, **how, **size).fit(X, np.full(len(X), -1))
    assert_array_equal(found.lower_bounds_, free.lower_bounds_)
    assert_array_equal(found.predict_proba(X), free.predict_proba(X))
    number = np.searchsorted(["a", "b", "c"], y)
    half = np.where(np.arange(len(X)) % 2, number, -1)
    some = Estimator(**how, **size).fit(X, half)
    assert_array_equal(some.classes_, [0, 1, 2])
    assert np.mean(some.predict(X)[half < 0] == number[half < 0]) > 0.65
    named = np.where(half < 0, None, y)  # the same, by names
    other = Estimator(**how, **size).fit(X, named)
    assert_array_equal(other.classes_, ["a", "b", "c"])
    assert_array_equal(other.predict_proba(X), some.predict_proba(X))


@pytest.mark.parametrize("Estimator", [MCVQ, MCFA])
def test_one_class_is_no_class(Estimator):
    X, _ = labelled_rows(np.random.default_rng(9))
    plain = Estimator(2, 2, random_state=0, tol=1e-2).fit(X)
    one = Estimator(2, 2, n_classes=1, random_state=0, tol=1e-2).fit(X)
    assert_array_equal(one.lower_bounds_, plain.lower_bounds_)
    assert_array_equal(one.transform(X), plain.transform(X))
    assert_allclose(one.score_samples(X), plain.score_samples(X), rtol=1e-12)
    assert_array_equal(one.predict_proba(X), np.ones((len(X), 1)))
    assert not hasattr(plain, "predict_proba")
    assert not hasattr(plain, "classes_")


@pytest.mark.parametrize("gating", ["annealed", "tied", "standard", "factorised"])
@pytest.mark.parametrize("Estimator", [MCVQ, MCFA])
def test_the_bound_of_labelled_fits_never_falls(Estimator, gating):
    X, y = labelled_rows(np.random.default_rng(10))
    model = Estimator(2, 2, gating=gating, random_state=0, tol=1e-2, max_iter=60).fit(X, y)
    assert_never_falls(model.lower_bounds_)
    assert np.mean(model.predict(X) == y) > 0.6


@pytest.mark.ci
def test_drawn_classes_follow_their_posterior():
    """Monte Carlo EM: rounds of draws give classes and states their exact probabilities."""
    core, source, theta = mcvq_case(prior=None, closed=True, labels=LABELS["some"], seed=12)
    block = source.block(0)
    score = core.evidence(core.begin(theta), block)  # closed gates: exact
    _, _, joint = enumerate_rows(score, theta.log_b, theta.log_beta, LABELS["some"], core.first)
    n_rounds = 3000
    _, sums = sweep(Rowwise(core, Draws(seed=1), n_rounds), theta, source)
    error = 12 * np.sqrt((block.weight**2).sum() / n_rounds)
    assert_allclose(sums.states, joint @ block.weight, atol=error)
