"""Steps of MCFA of ordered levels against loops, and its predictions against other ways to them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special, stats

from partwise.data import BlockSource, learn_columns
from partwise.likelihoods import Dirichlet, Prior
from partwise.models import factors, predict_factors
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Standard, Tied
from partwise.models.loadings import PointLoadings, Relevant
from partwise.models.mcfa import MCFA
from partwise.models.ordinal import SETTLED, SETTLING_ROUNDS, Ordinal
from tests.common.factors import (
    drawn_factors,
    random_loadings,
    start_factors,
    stored,
    with_classes,
)
from tests.common.helpers import assert_never_falls, climb_from, random_gates, sweep
from tests.reference import mcfa as factors_reference
from tests.reference import ordinal as reference

C, D = 9, 5
PRIOR = Prior(entries=0.3, spread=0.2, shape=1.5, states=0.7, gates=1.3)
PRIORS = pytest.mark.parametrize("prior", [PRIOR, None], ids=["relevant", "flat"])
GATINGS = {"tied": Tied(), "standard": Standard()}


def drawn_levels(rng, n_rows=C, width=None, n_levels=4, missing=0.3, parts=1):
    """Levels 1, 2, ... (NaN missing) of latent numbers with factors."""
    X, *_ = drawn_factors(
        rng, n_rows, (1,) * parts, width or D // parts, noise=0.6, missing=missing, units=False
    )
    cuts = np.quantile(X[~np.isnan(X)], np.arange(1, n_levels) / n_levels)
    out = 1.0 + (X[:, :, None] > cuts).sum(axis=2)
    out[np.isnan(X)] = np.nan
    return out


def build(X, weight, n_factors, gating="tied", prior=None, n_classes=1, labels=None):
    """Model and source, as the estimator makes them."""
    columns = learn_columns(X, "ordinal", weight, False, prior)
    source = BlockSource(X, columns, weight, labels=labels, n_powers=2)
    chooser = Chooser(
        GATINGS[gating], Dirichlet(prior.gates if prior else 0.0), 0.0, columns[0].weight
    )
    how = Relevant(prior.entries, prior.spread, prior.shape) if prior else PointLoadings()
    strength = prior.states if prior else 0.0
    classes = ClassVariable(n_classes, Dirichlet(strength))
    # What the start takes from the totals is how many rows there are.
    totals = np.tile(columns[0].weight, (3, 1))
    core = MCFA(tuple(n_factors), how, chooser, classes, strength, totals, X.dtype)
    return Ordinal(core, columns[0].ends, np.ones(X.shape[1], np.int64)), source


class Lockstep:
    """The library and the reference, begun with the same parameters."""

    def __init__(self, n_factors, gating, prior, storage="dense", seed=0):
        rng = np.random.default_rng(seed)
        self.X = drawn_levels(rng)
        self.X[rng.permutation(C)[:4], np.arange(4)] = [1, 2, 3, 4]  # all levels occur
        weight = rng.uniform(0.3, 2.0, C)
        data = self.X if storage == "dense" else stored(self.X)
        self.model, self.source = build(data, weight, n_factors, gating, prior)
        core = self.core = self.model.core
        gates = random_gates(len(n_factors), D, rng)
        relevance = [rng.uniform(0.5, 2, (2, J)) for J in n_factors]
        self.theta = start_factors(
            core, random_loadings(core, rng, prior is None), gates, relevance
        )
        self.codes = self.X - 1.0
        self.ends = self.model.ends
        strengths = prior and factors_reference.Prior(
            prior.entries, prior.spread, prior.shape, prior.gates
        )
        self.problem = factors_reference.Problem(
            self.codes, weight, n_factors, gating, strengths, np.zeros(D), np.ones(D)
        )
        fit = factors_reference.Fit(
            [[np.zeros(J) for J in n_factors]] * C, None, gates.T.tolist(), self._columns(),
            list(map(tuple, relevance)), None,
        )  # fmt: skip
        self.fit = factors_reference.update_a(self.problem, fit)
        self.numbers()  # of rows whose factors are unknown
        self.memory = [None]

    def _columns(self):
        flat = self.problem.prior is None if hasattr(self, "problem") else False
        flat = flat or np.all(self.theta.loadings[0].shape >= 1e299)
        out = []
        for d in range(D):
            of_column = []
            for w in self.theta.loadings:
                shape = 1.0 if flat else w.shape[d]
                rate = w.rate[d] / w.shape[d] * shape
                cov = None if flat else w.cov[d]
                of_column.append(factors_reference.Column(w.mean[d], cov, shape, rate))
            out.append(of_column)
        return out

    def numbers(self):
        first, self.second, self.entropy = reference.expected_numbers(
            self.problem, self.fit, self.codes, self.ends
        )
        self.problem = reference.with_numbers(self.problem, first)

    def expect(self):
        """E-step of both; the library's sums and the reference's bound after each update."""
        self.memory, stats = sweep(self.model, self.theta, self.source, self.memory)
        self.fit = factors_reference.update_s(self.problem, self.fit)
        between = reference.bound(self.problem, self.fit, self.second, self.entropy)
        self.numbers()
        after = reference.bound(self.problem, self.fit, self.second, self.entropy)
        return stats, between, after

    def totals(self):
        """Weighted sums of 1, x and x^2 of every column."""
        seen = ~np.isnan(self.X)
        w = self.problem.weights
        return np.stack(
            [
                w @ seen,
                w @ np.where(seen, self.problem.X, 0.0),
                w @ np.where(seen, self.second, 0.0),
            ]
        )


@PRIORS
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("n_factors", [(2,), (2, 1)], ids=["one part", "two parts"])
def test_numbers_factors_and_bound_equal_the_reference(n_factors, storage, gating, prior):
    pair = Lockstep(n_factors, gating, prior, storage, seed=len(n_factors))
    seen = ~np.isnan(pair.X)
    before = -np.inf
    for _ in range(3):
        stats, between, after = pair.expect()
        assert_allclose(pair.memory[0], pair.problem.X[seen], rtol=1e-6, atol=1e-8)
        assert_allclose(stats.sums[-1].shared[:, 0], pair.totals(), rtol=1e-6, atol=1e-8)
        assert_allclose(pair.model.bound(pair.core.begin(pair.theta), stats), after, rtol=1e-8)
        assert before <= between + 1e-9
        assert between <= after + 1e-9
        before = after


@PRIORS
@pytest.mark.parametrize("gating", GATINGS)
def test_the_step_is_that_of_the_numbers_moments(gating, prior, monkeypatch):
    """Loadings and noise see E[x^2], not E[x]^2."""
    monkeypatch.setattr(MCFA, "_rescale", lambda self, params, moments, stake: params)
    pair = Lockstep((2, 1), gating, prior, seed=5)
    stats, _, before = pair.expect()
    pair.theta = pair.model.maximize(pair.core.begin(pair.theta), stats).params
    p, columns = pair.problem, pair._columns()
    variance = pair.second - p.X**2
    for d in range(D):
        for k in p.parts:
            truth = factors_reference._learn_column(p, pair.fit, d, k)
            g = 1.0 if gating == "tied" else pair.fit.g[d][k]
            seen = [c for c in p.rows if p.seen(c, d)]
            extra = sum(p.weights[c] * g * variance[c, d] for c in seen)
            if prior is None:
                extra /= sum(p.weights[c] * g for c in seen)
            rate = truth.rate + (0.5 * extra if prior else extra)
            assert_allclose(columns[d][k].mean, truth.mean, rtol=1e-6, atol=1e-8)
            assert_allclose(columns[d][k].tau, truth.shape / rate, rtol=1e-6)
    _, stats = sweep(pair.model, pair.theta, pair.source, pair.memory)
    after = pair.model.bound(pair.core.begin(pair.theta), stats)
    assert after > before


@PRIORS
def test_settled_rows_stand_where_nothing_moves(prior):
    """`infer` of rows without memory is many rounds of the reference's two updates."""
    pair = Lockstep((1, 1), "tied", prior, seed=7)
    for _ in range(SETTLING_ROUNDS):
        pair.fit = factors_reference.update_s(pair.problem, pair.fit)
        pair.numbers()
    features, _ = pair.model.infer(pair.core.begin(pair.theta), pair.source.block(0))
    for k, (_, linear, quadratic) in enumerate(pair.core.spans()):
        for c in range(C):
            m, V = pair.fit.m[c][k], pair.fit.V[c][k]
            assert_allclose(features[linear, c], m, atol=0.1 * SETTLED)
            second = factors.unpack(features[quadratic, c], len(m))
            assert_allclose(second, V + np.outer(m, m), atol=0.1 * SETTLED)
    numbers = pair.model.settle(pair.core.begin(pair.theta), pair.source.block(0))
    assert_allclose(numbers, pair.problem.X[~np.isnan(pair.X)], atol=SETTLED)


def begin(X, n_factors, gating, prior, seed=0, weight=None, **options):
    rng = np.random.default_rng(seed)
    weight = np.ones(X.shape[0]) if weight is None else weight
    model, source = build(X, weight, n_factors, gating, prior, **options)
    plain = model.core.without_classes()
    gates = random_gates(len(n_factors), X.shape[1], rng)
    loadings = random_loadings(plain, rng, prior is None, size=0.4)
    return model, source, start_factors(plain, loadings, gates), rng


@PRIORS
@pytest.mark.parametrize("classes", ["none", "found", "half"])
@pytest.mark.parametrize("gating", GATINGS)
def test_the_bound_never_falls_over_a_fit(gating, classes, prior):
    rng = np.random.default_rng(1)
    X = drawn_levels(rng, 80, 4, parts=2)
    weight = rng.uniform(0.5, 2, len(X))
    labels = np.where(rng.random(len(X)) < 0.5, (np.nanmean(X, axis=1) > 2.5).astype(int), -1)
    options = {} if classes == "none" else {"n_classes": 2}
    if classes == "half":
        options["labels"] = labels
    model, source, theta, rng = begin(X, (2, 1), gating, prior, 3, weight, **options)
    if classes != "none":
        theta = with_classes(model.core, theta, rng)
    theta, trace = climb_from(model, theta, source, 25)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_single_precision_climbs_too(storage):
    X = drawn_levels(np.random.default_rng(2), 80, 4, parts=2)
    double, source, theta, _ = begin(X, (2, 1), "tied", PRIOR, 3)
    _, trace = climb_from(double, theta, source, 10)
    single = X.astype(np.float32) if storage == "dense" else stored(X.astype(np.float32))
    model, source, theta, _ = begin(single, (2, 1), "tied", PRIOR, 3)
    _, found = climb_from(model, theta, source, 10)
    assert_allclose(found, trace, rtol=1e-4)
    assert_never_falls(found, rtol=1e-5)


def same(a, b, order=slice(None)):
    (theta, trace), (other, other_trace) = a, b
    assert_allclose(other_trace, trace, rtol=1e-9)
    assert_allclose(other.gates[:, order], theta.gates, atol=1e-7)
    for w, found in zip(theta.loadings, other.loadings, strict=True):
        found = found.at(order)
        assert_allclose(found.noise, w.noise, rtol=1e-5)
        assert_allclose(found.mean[:, -1], w.mean[:, -1], atol=1e-5)
        outer = w.mean[:, :-1] @ w.mean[:, :-1].T
        assert_allclose(found.mean[:, :-1] @ found.mean[:, :-1].T, outer, atol=1e-5)


@PRIORS
def test_a_weight_is_a_repetition(prior):
    rng = np.random.default_rng(3)
    X = drawn_levels(rng, 40, 4, parts=2)
    times = rng.integers(0, 4, 40)
    weighted, source, theta, _ = begin(X, (2, 1), "tied", prior, 4, times.astype(float))
    a = climb_from(weighted, theta, source, 6)
    repeated, source, theta, _ = begin(X.repeat(times, axis=0), (2, 1), "tied", prior, 4)
    assert_allclose(repeated.ends, weighted.ends)
    same(a, climb_from(repeated, theta, source, 6))


def test_order_of_rows_and_columns_means_nothing():
    rng = np.random.default_rng(4)
    X = drawn_levels(rng, 40, 4, parts=2)
    model, source, theta, _ = begin(X, (2, 1), "standard", PRIOR, 5)
    a = climb_from(model, theta, source, 6)
    rows, columns = rng.permutation(40), rng.permutation(8)
    model, source, _, _ = begin(X[rows][:, columns], (2, 1), "standard", PRIOR, 5)
    moved = start_factors(
        model.core, [w.at(columns) for w in theta.loadings], theta.gates[:, columns]
    )
    same(a, climb_from(model, moved, source, 6), np.argsort(columns))


# --- what a fit says ---


def known(n_factors, gating="tied", seed=0, n_classes=1, hard=False):
    """A model with random parameters, its source, and its parameters."""
    rng = np.random.default_rng(seed)
    X = drawn_levels(rng, 12, 4, parts=1)
    model, source, theta, rng = begin(X, n_factors, gating, PRIOR, seed, n_classes=n_classes)
    if n_classes > 1:
        theta = with_classes(model.core, theta, rng)
    if hard:
        theta = predict_factors.hardened(theta)
    return model, source, theta, rng


@pytest.mark.parametrize("n_factors", [(2,), (2, 1)], ids=["one part", "two parts"])
def test_predicted_levels_are_those_of_drawn_rows(n_factors):
    """Factors, loadings and noise drawn from their posterior give the predicted shares.

    The predictive distribution is taken as a Gaussian of the right mean and variance, so draws are
    of Gaussian factors with loadings at their mean and the noise that stands for the rest.
    """
    model, source, theta, rng = known(n_factors)
    core, n = model.core, 200_000
    sure = predict_factors.point(core, theta, core.all_undecided, theta.gates)
    # Loadings without width: what is left is exact.
    theta = replace(theta, loadings=sure.params.loadings)
    features = model.infer(model.begin(theta), source.block(0))[0]
    mean, variance = predict_factors.part_moments(core, theta, features)
    shares = predict_factors.level_shares(mean, variance, theta.gates, model.ends)
    assert_allclose(shares.sum(axis=2), 1)
    row, L = 3, model.ends.shape[1] - 1
    part = (rng.random((n, core.n_columns)) > theta.gates[0]).astype(int)
    drawn = np.empty((n, core.n_columns))
    for k, (_, linear, quadratic) in enumerate(core.spans()):
        m = features[linear, row]
        cov = factors.unpack(features[quadratic, row], len(m)) - np.outer(m, m)
        s = rng.multivariate_normal(m, cov, n)
        w = theta.loadings[k]
        x = s @ w.mean[:, :-1].T + w.mean[:, -1]
        x += np.sqrt(w.noise) * rng.normal(size=x.shape)
        drawn = np.where(part == k, x, drawn)
    for d in range(core.n_columns):
        counts = np.histogram(drawn[:, d], model.ends[d])[0]
        assert_allclose(shares[row, d], counts / n, atol=5e-3)
    cells = np.repeat(np.arange(12), core.n_columns), np.tile(np.arange(core.n_columns), 12)
    chosen = predict_factors.cell_level_shares(core, theta, features, *cells, model.ends)
    assert_allclose(chosen.reshape(12, -1, L), shares, atol=1e-9)


def test_widths_of_loadings_widen_the_levels():
    """Mean and variance of an entry against draws of everything the posterior leaves open."""
    model, source, theta, rng = known((2,))
    core, n, row = model.core, 400_000, 2
    w = replace(
        theta.loadings[0],  # noise with a narrow posterior, so that its mean is its own
        shape=np.full(core.n_columns, 50.0),
        rate=np.full(core.n_columns, 49.0 * 0.4),
    )
    theta = replace(theta, loadings=(w,))
    features = model.infer(model.begin(theta), source.block(0))[0]
    mean, variance = predict_factors.part_moments(core, theta, features)
    _, linear, quadratic = core.spans()[0]
    m = features[linear, row]
    cov = factors.unpack(features[quadratic, row], 2) - np.outer(m, m)
    s = np.hstack([rng.multivariate_normal(m, cov, n), np.ones((n, 1))])
    for d in range(core.n_columns):
        tau = rng.gamma(50.0, 1 / w.rate[d], n)
        root = np.linalg.cholesky(w.cov[d])
        drawn_w = w.mean[d] + (rng.normal(size=(n, 3)) @ root.T) / np.sqrt(tau)[:, None]
        x = (drawn_w * s).sum(axis=1) + rng.normal(size=n) / np.sqrt(tau)
        assert_allclose(mean[0, row, d], x.mean(), atol=0.02)
        assert_allclose(variance[0, row, d], x.var(), rtol=0.02)


def log_share(low, high):
    return np.log(max(special.ndtr(high) - special.ndtr(low), 1e-300))


def by_quadrature(model, sure, theta, X, row, n, parts=(0,)):
    """Log-likelihood of a row of one factor in class n."""
    (w,) = (sure.params.loadings[k] for k in parts)
    seen = np.flatnonzero(~np.isnan(X[row]))
    prior = stats.norm(theta.eta[0][n, 0], np.sqrt(theta.sigma[0][n, 0, 0]))

    def joint(s):
        total = prior.logpdf(s)
        for d in seen:
            level, root = int(X[row, d]) - 1, np.sqrt(w.precision[d])
            low, high = (model.ends[d, level : level + 2] - w.mean[d] @ [s, 1.0]) * root
            total += log_share(low, high)
        return np.exp(total)

    return np.log(integrate.quad(joint, -12, 12, epsrel=1e-8, limit=400)[0])


@pytest.mark.parametrize("n_classes", [1, 2])
def test_likelihood_of_rows_by_quadrature(n_classes):
    model, source, theta, _ = known((1,), n_classes=n_classes)
    core, block = model.core, source.block(0)
    sure = predict_factors.point(core, theta, core.all_undecided, theta.gates)
    proposal = model.propose(model.begin(theta), block)
    found = predict_factors.level_likelihood(
        core, theta, block, model.ends, model.widths, proposal, 4000
    )
    assert found.log_likelihood.shape == (n_classes, 12)
    assert np.all(found.effective_draws > 400)
    for n in range(n_classes):
        truth = [by_quadrature(model, sure, theta, source.X, r, n) for r in range(12)]
        error = found.log_likelihood[n] - truth
        assert np.all(np.abs(error) < 5 * found.standard_error[n] + 1e-3)
        assert np.abs(error).max() < 0.2


@pytest.mark.ci
def test_likelihood_of_two_parts_by_quadrature():
    """With open gates the parts depend on each other; with closed ones they do not."""
    for hard in (False, True):
        model, source, theta, _ = known((1, 1), seed=2, hard=hard)
        core, block, X = model.core, source.block(0), source.X
        sure = predict_factors.point(core, theta, core.all_undecided, theta.gates)
        proposal = model.propose(model.begin(theta), block)
        found = predict_factors.level_likelihood(
            core, theta, block, model.ends, model.widths, proposal, 20_000
        )
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        weights = weights / weights.sum()
        s = np.stack(np.meshgrid(nodes, nodes, indexing="ij"))
        for row in range(0, 12, 3):
            total = np.zeros(s.shape[1:])
            for d in np.flatnonzero(~np.isnan(X[row])):
                level, share = int(X[row, d]) - 1, 0.0
                for k in range(2):
                    w = sure.params.loadings[k]
                    mean = w.mean[d, 0] * s[k] + w.mean[d, 1]
                    low, high = (
                        (model.ends[d, level + i] - mean) * np.sqrt(w.precision[d]) for i in (0, 1)
                    )
                    share = share + theta.gates[k, d] * (special.ndtr(high) - special.ndtr(low))
                total += np.log(np.maximum(share, 1e-300))
            truth = np.log(weights @ np.exp(total) @ weights)
            error = abs(found.log_likelihood[0, row] - truth)
            assert error < 5 * found.standard_error[0, row] + 2e-3
        if hard:
            parts = [
                predict_factors.level_likelihood(
                    core, theta, block, model.ends, model.widths, proposal, 20_000, part=k
                ).log_likelihood
                for k in range(2)
            ]
            assert_allclose(sum(parts), found.log_likelihood, atol=0.05)


def test_rows_without_entries_say_nothing():
    model, source, theta, _ = known((2, 1))
    empty = source.with_rows(np.full((2, 4), np.nan), np.ones(2))
    features, log_z = model.infer(model.begin(theta), empty.block(0))
    assert_array_equal(features[model.core.linear], 0)
    assert_allclose(log_z, 0, atol=1e-12)
