"""MCFA's steps against loops, its linear maps against each other, and the bound at every step.

The reference works in the user's units and updates one group of arguments at a time; the library,
its rescaling of the factors aside, must stand where it stands after every E-step and M-step.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import partwise.data.patterns
from partwise.contracts import Layout, Packed
from partwise.data import BlockSource, learn_columns
from partwise.data.patterns import Patterns
from partwise.likelihoods import Prior
from partwise.models import factor_rows, factors
from partwise.models.gating import REFRESH_EVERY, Chooser, Standard, Tied
from partwise.models.mcfa import MCFA
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Expected
from tests.common.factors import (
    build_factors,
    drawn_factors,
    random_loadings,
    start_factors,
    stored,
    with_classes,
)
from tests.common.helpers import assert_never_falls, climb_from, random_gates, sweep
from tests.reference import mcfa as reference

C = 10
PRIOR = Prior(entries=0.3, spread=0.2, shape=1.5, states=0.7, gates=1.3)
PRIORS = pytest.mark.parametrize("prior", [PRIOR, None], ids=["relevant", "flat"])
GATINGS = {"tied": Tied(), "standard": Standard(), "factorised": Standard()}
DATA = ["complete", "holes", "sparse", "ratings", "zeros", "zero-ratings"]


def make_data(kind, D, rng):
    """X as the reference sees it, as the library does, and whether absent entries are zeros."""
    X = rng.normal(size=(C, D)) * 10.0 ** rng.uniform(-1, 1, D) + 3 * rng.normal(size=D)
    if "ratings" in kind:
        X = rng.integers(1, 6, (C, D)).astype(float)
    if "zero" in kind:
        X[rng.random(X.shape) < 0.4] = 0.0
        return X, stored(X, keep_zeros=False), True
    if kind != "complete":
        X[rng.random(X.shape) < 0.3] = np.nan
        X[:2] = np.where(np.isnan(X[:2]), 1.0, X[:2])  # every column has two entries at least
    return X, X if kind in ("complete", "holes") else stored(X), False


class Lockstep:
    """The library and the reference, begun with the same parameters."""

    def __init__(self, kind, n_factors, gating, prior, *, seed=0, empty_column=False):
        rng = np.random.default_rng(seed)
        D = 4 + len(n_factors)
        X, data, absent_zero = make_data(kind, D, rng)
        if empty_column:
            X[:, 1] = np.nan
        weight = rng.uniform(0.3, 2.0, C)
        gates = random_gates(len(n_factors), D, rng)
        by_row = gating == "factorised"
        self.core, self.source = build_factors(
            data, weight, n_factors, GATINGS[gating], prior, absent_zero, 3 if by_row else 2
        )
        relevance = [rng.uniform(0.5, 2, (2, J)) for J in n_factors]
        loadings = random_loadings(self.core, rng, prior is None)
        self.prepared = self.core.begin(start_factors(self.core, loadings, gates, relevance))
        self.model = Rowwise(self.core, Expected(), n_rounds=2) if by_row else self.core
        self.memory = [self.model.fresh_memory(0)]

        seen = ~np.isnan(X)
        total = np.maximum((weight[:, None] * seen).sum(axis=0), 1e-300)
        average = np.nansum(weight[:, None] * X, axis=0) / total
        variance = np.nansum(weight[:, None] * (X - average) ** 2, axis=0) / total
        self.scale = np.where(seen.any(axis=0), np.sqrt(variance), 1.0)
        self.shift = np.zeros(D) if absent_zero else average
        strengths = prior and reference.Prior(prior.entries, prior.spread, prior.shape, prior.gates)
        self.problem = reference.Problem(
            X, weight, n_factors, gating, strengths, self.shift, self.scale**2
        )
        g = gates.T.tolist()
        fit = reference.Fit(
            None, None, [g] * C if by_row else g, self._columns(), list(map(tuple, relevance)), None
        )
        self.fit, self.trace = reference.update_a(self.problem, fit), []
        if by_row:  # both remember the same factors, those of the columns' gates
            self.fit = reference.update_s(self.problem, self.fit)
            self.memory = [(self.core.infer(self.prepared, self.source.block(0))[0], None)]

    @property
    def theta(self):
        return self.prepared.params

    def _columns(self):
        """The library's loadings in the user's units."""
        out = []
        for d in range(len(self.scale)):
            of_column = []
            for w in self.theta.loadings:
                mean = w.mean[d] * self.scale[d]
                mean[-1] += self.shift[d]
                rate = w.rate[d] / w.shape[d] * self.scale[d] ** 2
                cov = w.cov[d] if self.problem.prior else None
                shape = w.shape[d] if self.problem.prior else 1.0
                of_column.append(reference.Column(mean, cov, shape, rate * shape))
            out.append(of_column)
        return out

    def update(self, *names):
        for name in names:
            self.fit = getattr(reference, f"update_{name}")(self.problem, self.fit)
            self.trace.append(reference.bound(self.problem, self.fit))

    def expect(self):
        """E-step of both; the library's sums."""
        self.memory, stats = sweep(self.model, self.prepared, self.source, self.memory)
        if self.problem.gating == "factorised":
            self.update("g", "s", "g", "s")
            features = self.memory[0][0]
        else:
            self.update("s")
            features, _ = self.core.infer(self.prepared, self.source.block(0))
        for k, (one, linear, quadratic) in enumerate(self.core.spans()):
            assert np.all(features[one] == 1)
            for c in range(C):
                m, V = self.fit.m[c][k], self.fit.V[c][k]
                assert_allclose(features[linear, c], m, atol=1e-8)
                second = factors.unpack(features[quadratic, c], len(m))
                assert_allclose(second, V + np.outer(m, m), atol=1e-8)
        return stats

    def maximize(self, stats):
        """M-step of both, in the library's order, with every part looked at."""
        self.prepared = self.core.open_all_gates(self.model.maximize(self.prepared, stats))
        if self.problem.gating == "factorised":
            self.update("w", "a", "alpha")
        else:
            self.update("w", "g", "a", "alpha")

    def compare(self):
        p, f, theta = self.problem, self.fit, self.theta
        tol = {"rtol": 1e-7, "atol": 1e-8}
        seen = self.core.chooser.weight > 0
        for d, of_column in enumerate(self._columns()):
            for k, found in enumerate(of_column):
                truth = f.w[d][k]
                divergence = self.prepared.divergence[k, d]
                assert_allclose(divergence, reference.kl_column(p, f, d, k), **tol)
                assert_allclose(found.mean, truth.mean, **tol)
                assert_allclose(found.tau, truth.tau, rtol=1e-7)
                if p.prior:
                    assert_allclose(found.cov, truth.cov, **tol)
                    assert_allclose(found.shape, truth.shape, rtol=1e-9)
        if p.prior:
            for found, truth in zip(theta.relevance, f.alpha, strict=True):
                assert_allclose(found, np.array(truth), rtol=1e-7)
        log_a = np.array([reference.log_gates(p, f, d) for d in p.columns]).T
        assert_allclose(theta.gate.log_a[:, seen], log_a[:, seen], **tol)
        if p.gating != "factorised":
            assert_allclose(theta.gates.T, f.g, atol=1e-8)
        elif p.prior:
            counts = np.array(f.gate_counts).T + p.prior.gates
            assert_allclose(theta.gates[:, seen], (counts / counts.sum(axis=0))[:, seen], **tol)


@pytest.fixture
def unscaled(monkeypatch):
    """The factors keep their scale."""
    monkeypatch.setattr(MCFA, "_rescale", lambda self, params, moments, stake: params)


def run(pair, n_steps=3):
    for _ in range(n_steps):
        stats = pair.expect()
        truth = reference.bound(pair.problem, pair.fit)
        assert_allclose(pair.model.bound(pair.prepared, stats), truth, rtol=1e-8)
        pair.maximize(stats)
        pair.compare()


@pytest.mark.usefixtures("unscaled")
@PRIORS
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("kind", DATA)
def test_steps_equal_the_reference(kind, gating, prior):
    """Factors, loadings, relevances, gates and bound; and no update lowers the bound."""
    if gating == "factorised" and "zero" in kind:
        pytest.skip("refused: entries that are not stored would select parts")
    for n_factors in [(2, 1), (1, 2, 0)] if kind == "holes" else [(2, 1)]:
        pair = Lockstep(kind, n_factors, gating, prior, seed=len(n_factors))
        run(pair)
        assert_never_falls(pair.trace)
        assert pair.trace[-1] > pair.trace[0]


@pytest.mark.usefixtures("unscaled")
@PRIORS
@pytest.mark.parametrize("gating", GATINGS)
def test_a_column_never_observed_takes_no_part(gating, prior):
    pair = Lockstep("holes", (2, 1), gating, prior, seed=4, empty_column=True)
    gates = pair.theta.gates[:, 1].copy()
    run(pair, n_steps=2)
    assert_never_falls(pair.trace)
    assert_array_equal(pair.theta.gates[:, 1], gates)


# --- whole fits: with rescaling ---


def begin(X, n_factors, gating, prior, *, seed=0, weight=None, **options):
    """Model, source and random first parameters."""
    rng = np.random.default_rng(seed)
    weight = np.ones(X.shape[0]) if weight is None else weight
    by_row = gating == "factorised"
    core, source = build_factors(
        X, weight, n_factors, GATINGS[gating], prior, n_powers=3 if by_row else 2, **options
    )
    plain = core.without_classes()
    gates = random_gates(len(n_factors), X.shape[1], rng)
    theta = start_factors(plain, random_loadings(plain, rng, prior is None), gates)
    return core, source, theta, rng


@PRIORS
@pytest.mark.parametrize("classes", ["none", "found", "labeled", "half"])
@pytest.mark.parametrize("gating", GATINGS)
def test_the_bound_never_falls_over_a_fit(gating, classes, prior):
    rng = np.random.default_rng(1)
    X, _, drawn = drawn_factors(rng, 80, (2, 2), 4, missing=0.2)
    weight = rng.uniform(0.5, 2, len(X))
    truth = (drawn[0][:, 0] > 0.3).astype(int)
    labels = {"labeled": truth, "half": np.where(rng.random(len(X)) < 0.5, truth, -1)}
    options = {"n_classes": 1 if classes == "none" else 2, "labels": labels.get(classes)}
    n_factors = (3, 2)
    core, source, theta, rng = begin(X, n_factors, gating, prior, seed=3, weight=weight, **options)
    model = Rowwise(core, Expected()) if gating == "factorised" else core
    if classes != "none":
        theta = with_classes(core, theta, rng)
    theta, trace = climb_from(model, theta, source, 25)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1


@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_rescaling_gains(gating, monkeypatch):
    """It leaves factors of mean 0 and covariance I, and a fit that is further after few steps."""
    X, *_ = drawn_factors(np.random.default_rng(1), 80, (2, 2), 4, missing=0.2)
    core, source, theta, _ = begin(X, (2, 2), gating, PRIOR, seed=3)
    after, trace = climb_from(core, theta, source, 8)
    _, stats = sweep(core, after, source)
    for (_, linear, quadratic), moments in zip(core.spans(), [stats.states[0]] * 2, strict=True):
        mean = moments[linear] / len(X)
        second = factors.unpack(moments[quadratic], 2) / len(X)
        assert_allclose(mean, 0, atol=0.1)
        assert_allclose(second, np.eye(2), atol=0.15)
    monkeypatch.setattr(MCFA, "_rescale", lambda self, params, moments, stake: params)
    _, slower = climb_from(core, theta, source, 8)
    assert trace[-1] > slower[-1]


@PRIORS
@pytest.mark.parametrize("n_classes", [1, 3])
def test_rescaling_alone_never_costs(n_classes, prior):
    """Loadings, offsets and classes move with the factors: entries keep their densities."""
    X, *_ = drawn_factors(np.random.default_rng(2), 60, (2, 2), 4, missing=0.2)
    core, source, theta, rng = begin(X, (2, 1), "tied", prior, seed=2, n_classes=n_classes)
    if n_classes > 1:
        theta = with_classes(core, theta, rng, spread=1.0)
    _, stats = sweep(core, theta, source)
    stake = core.chooser.gating.stake(theta.gates)
    theta = core._learn_rest(theta, stats, stake)
    before = core.bound(core.begin(theta), sweep(core, theta, source)[1])
    moved = core._rescale(theta, stats.states, stake)
    assert not np.allclose(moved.loadings[0].mean, theta.loadings[0].mean)
    assert not np.allclose(moved.loadings[0].mean[:, -1], theta.loadings[0].mean[:, -1], atol=1e-3)
    after = core.bound(core.begin(moved), sweep(core, moved, source)[1])
    assert after >= before - 1e-9 * abs(before)
    if n_classes > 1 and prior is None:  # the classes' Gaussians take all of it up
        assert_allclose(after, before, rtol=1e-9)


def as_fields(theta):
    """All that was learned, flat."""
    arrays = [theta.gates, *theta.relevance, *theta.eta, *theta.sigma]
    arrays += [field for w in theta.loadings for field in (w.mean, w.cov, w.rate / w.shape)]
    return np.concatenate([array.ravel() for array in arrays])


@PRIORS
@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_patterns_shared_by_rows_equal_a_pattern_each(gating, n_classes, prior, monkeypatch):
    rng = np.random.default_rng(4)
    X, *_ = drawn_factors(rng, 60, (2, 1), 4)
    holes = rng.random((5, X.shape[1])) < 0.3
    X[holes[rng.integers(5, size=60)]] = np.nan
    found = []
    for rows_a_pattern, expected in ((2, 5), (1000, 60)):
        monkeypatch.setattr(partwise.data.patterns, "ROWS_A_PATTERN", rows_a_pattern)
        core, source, theta, child = begin(
            X, (2, 1), gating, prior, seed=5, weight=np.linspace(0.5, 2, 60), n_classes=n_classes
        )
        assert source.block(0).groups[0].patterns.n_patterns == expected
        if n_classes > 1:
            theta = with_classes(core, theta, child)
        found.append(climb_from(core, theta, source, 6))
    (a, trace), (b, other) = found
    assert_allclose(other, trace, rtol=1e-10)
    assert_allclose(as_fields(b), as_fields(a), rtol=1e-6, atol=1e-8)


@PRIORS
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_parts_worked_on_together_equal_one_at_a_time(missing, prior, monkeypatch):
    rng = np.random.default_rng(8)
    X, *_ = drawn_factors(rng, 30, (2, 1, 2), 4, missing=missing)
    called = []
    real = factor_rows.gaussians
    monkeypatch.setattr(
        factor_rows, "gaussians", lambda *of: called.append(len(of[0])) or real(*of)
    )
    found = []
    for most in (0, 1 << 15):
        monkeypatch.setattr(factor_rows, "MOST_TOGETHER", most)
        core, source, theta, child = begin(X, (2, 1, 2, 0), "tied", prior, seed=9, n_classes=3)
        found.append(climb_from(core, with_classes(core, theta, child), source, 6))
        assert set(called) == ({1} if most == 0 else {1, 2})
        called.clear()
    (a, trace), (b, other) = found
    assert_allclose(other, trace, rtol=1e-10)
    assert_allclose(as_fields(b), as_fields(a), rtol=1e-6, atol=1e-8)


@PRIORS
def test_a_full_mask_is_no_mask(prior):
    """A row of holes without weight turns complete rows into masked ones."""
    X, *_ = drawn_factors(np.random.default_rng(6), 40, (2, 1), 3)
    longer = np.vstack([X, np.full(X.shape[1], np.nan)])
    found = []
    for data, weight in ((X, np.ones(40)), (longer, np.append(np.ones(40), 0.0))):
        core, source, theta, _ = begin(data, (2, 1), "tied", prior, seed=7, weight=weight)
        found.append(climb_from(core, theta, source, 5))
    assert_allclose(found[1][1], found[0][1], rtol=1e-10)
    assert_allclose(as_fields(found[1][0]), as_fields(found[0][0]), rtol=1e-6, atol=1e-9)


# --- decided columns ---


def storage_of(X, kind):
    """X held in one of the ways there are, and whether what is absent is zero."""
    if kind == "zeros":
        X = np.where(np.nanmedian(X, axis=0) < X, X, 0.0)
        return stored(X, keep_zeros=False), True
    if kind in ("masked", "few patterns", "sparse"):
        rng = np.random.default_rng(8)
        holes = rng.random(X.shape) < 0.3
        if kind == "few patterns":
            holes = holes[rng.integers(4, size=len(X))]
        X = np.where(holes, np.nan, X)
    return (stored(X), False) if kind == "sparse" else (X, False)


STORAGES = ["dense", "masked", "few patterns", "sparse", "zeros"]


@pytest.mark.usefixtures("unscaled")
@PRIORS
@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_decided_sweeps_equal_full_sweeps(gating, storage, n_classes, prior):
    """Given closed gates, leaving out the other parts changes nothing that counts."""
    X, *_ = drawn_factors(np.random.default_rng(9), 40, (2, 1), 5)
    data, absent_zero = storage_of(X, storage)
    core, source, theta, rng = begin(
        data, (2, 3, 0), gating, prior, seed=9, n_classes=n_classes, absent_zero=absent_zero
    )
    own = np.array([0, 2, 1, 0, 1, 2, 0])
    gates = theta.gates.copy()
    gates[:, :7] = np.eye(3)[own].T
    theta = replace(theta, gate=core.chooser.learn(gates))
    if n_classes > 1:
        theta = with_classes(core, theta, rng)
    full, short = core.begin(theta), core.prepare(theta)
    assert_array_equal(short.layouts[0].parts, [*own, -1, -1, -1])

    features, log_z = core.infer(full, source.block(0))
    same_features, same_log_z = core.infer(short, source.block(0))
    assert_allclose(same_features, features, atol=1e-10)
    assert_allclose(same_log_z, log_z, atol=1e-10)
    _, all_sums = sweep(core, full, source)
    _, own_sums = sweep(core, short, source)
    assert_allclose(own_sums.states, all_sums.states, atol=1e-9)
    assert_allclose(core.bound(short, own_sums), core.bound(full, all_sums), rtol=1e-12)
    after_full, after_short = (
        core.maximize(*pair).params for pair in ((full, all_sums), (short, own_sums))
    )
    for k in range(3):
        mine = np.append(np.flatnonzero(own == k), [7, 8, 9])
        a, b = after_full.loadings[k], after_short.loadings[k]
        for x, y in zip(a.at(mine).arrays, b.at(mine).arrays, strict=True):
            assert_allclose(y, x, rtol=1e-8, atol=1e-9)
        assert_allclose(after_short.eta[k], after_full.eta[k], atol=1e-9)
        assert_allclose(after_short.sigma[k], after_full.sigma[k], atol=1e-9)
    assert_allclose(after_short.gates[:, 7:], after_full.gates[:, 7:], atol=1e-10)
    assert_array_equal(after_short.gates[:, :7], gates[:, :7])


@pytest.mark.ci
@pytest.mark.parametrize("storage", ["masked", "sparse"])
def test_a_fit_with_short_cuts_ends_where_a_full_fit_does(storage, monkeypatch):
    X, *_ = drawn_factors(np.random.default_rng(10), 120, (1, 1), 4, noise=0.2)
    data, _ = storage_of(X, storage)
    core, source, first, _ = begin(data, (1, 1), "tied", PRIOR, seed=11)
    theta, trace = climb_from(core, first, source, 200, tol=1e-8)
    assert_never_falls(trace)
    assert len(core.prepare(theta).layouts[0].decided) == 8, "no column was decided"
    assert len(trace) > REFRESH_EVERY
    monkeypatch.setattr(Chooser, "decided", lambda self, gate, age: np.full(8, -1))
    full, full_trace = climb_from(core, first, source, 200, tol=1e-8)
    assert_allclose(trace[-1], full_trace[-1], rtol=1e-7)
    assert_allclose(theta.gates, full.gates, atol=1e-6)


# --- packed matrices ---


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("J", [0, 1, 2, 3, 6])
def test_packed_matrices(J, n, dtype):
    rng = np.random.default_rng(J)
    half = rng.normal(size=(n, J, J + 2))
    A = half @ half.transpose(0, 2, 1) + 0.5 * np.eye(J)
    b = rng.normal(size=(J, n))
    packed = np.ascontiguousarray(factors.pack(A).T.astype(dtype))
    assert packed.shape == (factors.n_pairs(J), n)
    assert_array_equal(factors.unpack(packed.T, J), A.astype(dtype))
    i, j = factors.pair_index(J)
    for q in range(len(packed)):
        assert q == i[q] * (i[q] + 1) // 2 + j[q]
        assert_array_equal(packed[q], A[:, i[q], j[q]].astype(dtype))
    rtol = 1e-9 if dtype == np.float64 else 2e-3
    cov, log_det = factors.invert(packed, J)
    assert cov.dtype == dtype
    assert_allclose(factors.unpack(cov.T, J), np.linalg.inv(A), rtol=rtol, atol=rtol)
    assert_allclose(log_det, np.linalg.slogdet(A)[1], rtol=rtol, atol=rtol)
    product = factors.multiply(packed, b.astype(dtype))
    assert_allclose(product, np.einsum("nij,jn->in", A, b), rtol=rtol, atol=10 * rtol)
    one = factors.multiply(packed[:, :1], b.astype(dtype))
    assert_allclose(one, A[0] @ b, rtol=rtol, atol=10 * rtol)
    outer = factors.unpack(factors.products(b).T, J)
    assert_allclose(outer, np.einsum("in,jn->nij", b, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_that_rounding_made_singular_has_a_finite_inverse(dtype):
    """Noise of 1e-18 leaves nothing of the factors' own precision."""
    w = np.array([3.0, 1.0], dtype) * dtype(1e9)
    packed = factors.pack(np.eye(2, dtype=dtype) + np.outer(w, w))[:, None]
    cov, log_det = factors.invert(packed, 2)
    assert np.isfinite(cov).all()
    assert np.isfinite(log_det).all()


# --- the views' quadratic maps ---


def inner(a, b):
    return float(np.sum(a.own * b.own) + np.sum(a.shared * b.shared))


@pytest.mark.parametrize("decided", ["none", "some", "all"])
@pytest.mark.parametrize("storage", STORAGES)
def test_pair_maps_are_adjoint_and_count_observed_columns(storage, decided):
    X, *_ = drawn_factors(np.random.default_rng(12), 30, (2, 1), 4)
    data, absent_zero = storage_of(X, storage)
    weight = np.ones(30)
    columns = learn_columns(data, "gaussian", weight, absent_zero, None)
    view = BlockSource(data, columns, weight, n_powers=2).block(0).groups[0]
    rng = np.random.default_rng(13)
    sizes, D = (3, 1, 0), X.shape[1]
    parts = rng.integers(3, size=D)
    parts[{"none": slice(None), "some": slice(4, None), "all": slice(0, 0)}[decided]] = -1
    full = rng.normal(size=(1, sum(sizes), D))
    part_of = np.repeat(np.arange(3), sizes)
    full[0, (parts >= 0) & (parts != part_of[:, None])] = 0.0  # other parts' are left out
    seen = np.ones(X.shape)
    if not absent_zero:
        seen = (data.toarray() != 0 if storage == "sparse" else ~np.isnan(data)).astype(float)

    layout = Layout(parts, sizes)
    weights = layout.pack(full)
    score = view.pair_score(weights, layout)
    patterns = view.patterns
    assert score.shape == (sum(sizes), patterns.n_patterns)
    expected = full[0] @ seen.T
    assert_allclose(np.broadcast_to(patterns.spread(score), expected.shape), expected, atol=1e-10)

    values = rng.normal(size=score.shape)
    sums = view.pair_sums(values, layout)
    mask = layout.pack(np.ones_like(full)).own != 0
    sums = Packed(np.where(mask, sums.own, 0.0), sums.shared)
    assert_allclose(inner(weights, sums), np.sum(score * values), rtol=1e-10, atol=1e-10)

    by_row = rng.normal(size=(sum(sizes), 30))
    gathered = patterns.gather(by_row)
    spread = np.broadcast_to(patterns.spread(values), by_row.shape)
    assert_allclose(np.sum(gathered * values), np.sum(by_row * spread), rtol=1e-10)
    collected = view.pair_sums(gathered, layout).shared[0]
    assert_allclose(collected, (by_row @ seen)[:, layout.undecided], atol=1e-10)


def test_patterns_tell_rows_apart():
    rng = np.random.default_rng(14)
    kinds = rng.random((3, 20)) < 0.5  # more columns than bits of two bytes
    kinds[1, :19] = kinds[0, :19]
    kinds[1, 19] = ~kinds[0, 19]  # two patterns differ in the last column only
    of = rng.permutation(np.repeat([0, 1, 2], 5))
    mask = kinds[of].T.astype(float)
    found = Patterns.of(mask, 15)
    assert found.n_patterns == 3
    assert_array_equal(found.masks[:, found.pattern_of], mask)
    for a, b in itertools.combinations(range(15), 2):
        assert (found.pattern_of[a] == found.pattern_of[b]) == (of[a] == of[b])
