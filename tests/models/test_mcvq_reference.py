"""The model's steps against loops, and the bound at every single update.

The reference works in the user's units and updates one group of arguments at a time; the library
must stand where it stands after every E-step and every M-step.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special

from partwise.contracts import Stats
from partwise.datasets import make_shapes
from partwise.likelihoods import Prior
from partwise.models.gating import REFRESH_EVERY, Chooser, Standard, Tied
from partwise.models.mcvq import MCVQ
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Draws, Expected
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

C = 12
PRIOR = Prior(entries=0.3, counts=0.4, spread=0.2, shape=1.5, states=0.7, gates=1.3)
LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "categorical"]
SIZES = [(3,), (2, 3), (4, 2, 2)]
GATINGS = {"tied": Tied(), "standard": Standard(), "factorised": Standard()}


class Lockstep:
    """The library and the reference, started from the same posteriors and gates."""

    def __init__(self, likelihood, n_states, gating, prior, *, gate_entropy=0.0, beta=1.0, seed=0,
                 empty_column=False):  # fmt: skip
        rng = np.random.default_rng(seed)
        D = 5 + len(n_states)
        X = punch_holes(random_entries(likelihood, (C, D), rng), 0.3, rng)
        if empty_column:
            X[:, 1] = np.nan
        weight = rng.uniform(0.3, 2.0, C)
        m = random_posteriors(n_states, C, rng)
        gates = random_gates(len(n_states), D, rng)

        gate_of = Tied(beta) if gating == "tied" else GATINGS[gating]
        self.core, self.source = build(
            X, weight, n_states, likelihood, gate_of, prior, gate_entropy
        )
        self.model = self.core
        if gating == "factorised":
            self.model = Rowwise(self.core, Expected(), n_rounds=2)
        self.memory = [self.model.fresh_memory(0)]
        self.prepared = self.core.begin(start_from(self.core, self.source, m, gates))
        self.first = self.core.first

        known = prior and {k: getattr(prior, k) for k in ("entries", "counts", "spread", "shape")}
        self.problem = reference.Problem(
            X,
            weight,
            n_states,
            reference.column_laws(X, weight, likelihood, known),
            gating,
            prior.states if prior else 0.0,
            prior.gates if prior else 0.0,
            gate_entropy,
            beta,
        )
        g = gates.T.tolist()
        if gating == "factorised":
            g = [g] * C
        fit = reference.Fit(self._nested(m), g, None, None, None)
        for update in (reference.update_parameters, reference.update_a, reference.update_b):
            fit = update(self.problem, fit)
        self.fit, self.trace = fit, []
        if gating == "factorised":  # both remember the same states, those of the columns' gates
            self.fit = reference.update_m(self.problem, fit)
            self.memory = [(self.core.infer(self.prepared, self.source.block(0))[0], None)]

    @property
    def theta(self):
        return self.prepared.params

    def _nested(self, m):
        """(S, C) as [c][k][j]."""
        bounds = list(itertools.pairwise(self.first))
        return [[m[lo:hi, c].tolist() for lo, hi in bounds] for c in range(m.shape[1])]

    def update(self, *names):
        for name in names:
            self.fit = getattr(reference, f"update_{name}")(self.problem, self.fit)
            self.trace.append(reference.bound(self.problem, self.fit))

    def expect(self):
        """E-step of both; the library's sums."""
        self.memory, stats = sweep(self.model, self.prepared, self.source, self.memory)
        if self.problem.gating == "factorised":
            self.update("g", "m", "g", "m")
            m = self.memory[0][0]
        else:
            self.update("m")
            m = self.memory[0]
        tol = 1e-5 if self.problem.gamma else 1e-8
        found = [[m[lo:hi, c] for lo, hi in itertools.pairwise(self.first)] for c in range(C)]
        for c, k in itertools.product(range(C), range(len(self.problem.n_states))):
            assert_allclose(found[c][k], self.fit.m[c][k], atol=tol)
        return stats

    def maximize(self, stats):
        """M-step of both, in the library's order, with every part looked at."""
        self.prepared = self.core.open_all_gates(self.model.maximize(self.prepared, stats))
        order = ("parameters", "g", "a", "b")
        if self.problem.gating == "factorised":
            order = ("parameters", "a", "b")
        self.update(*order)

    def compare(self):
        """Every parameter, through what it says of entries, and every cost."""
        p, f, theta = self.problem, self.fit, self.theta
        # The reference searches for the entropic prior's best point, and finds fewer digits.
        tol = 1e-5 if p.gamma else 1e-8
        (group,) = self.source.columns
        Z = group.encode(p.X, np.arange(p.X.shape[1]))
        for d, k in itertools.product(p.columns, p.parts):
            truth = reference.divergence(p, f, d, k)
            assert_allclose(self.prepared.divergence[k, d], truth, rtol=tol, atol=tol)
            for j, c in itertools.product(p.states(k), p.rows):
                if p.seen(c, d):
                    z = Z[c, d]
                    T = [1.0, z, z * z][: group.likelihood.n_statistics]
                    if group.levels is not None:
                        T = np.eye(len(group.levels))[int(z)]
                    eta = self.prepared.natural[0][:, self.first[k] + j, d]
                    base = group.base(np.array([z]), np.array([d])).item()
                    truth = p.laws[d].log(p.X[c, d], f.parameters[d][k][j])
                    assert_allclose(np.dot(T, eta) + base, truth, rtol=tol, atol=tol)
        log_a = np.array([reference.log_gates(p, f, d) for d in p.columns]).T
        seen = self.core.chooser.weight > 0
        assert_allclose(theta.gate.log_a[:, seen], log_a[:, seen], rtol=tol, atol=tol)
        log_b = np.concatenate([reference.log_choice(n, p.alpha_b) for n in f.state_counts])
        assert_allclose(theta.log_b[0], log_b, rtol=tol, atol=tol)
        if p.gating == "factorised":
            counts = np.array(f.gate_counts)[seen]
            assert_allclose(theta.gate.counts.T[seen], counts, atol=tol)
        else:
            assert_allclose(theta.gates.T, f.g, atol=tol)


def run(pair, n_steps=3):
    pair.compare()
    for _ in range(n_steps):
        stats = pair.expect()
        truth = reference.bound(pair.problem, pair.fit)
        assert_allclose(pair.model.bound(pair.prepared, stats), truth, rtol=1e-8)
        pair.maximize(stats)
        pair.compare()


@pytest.mark.parametrize("prior", [PRIOR, None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_steps_equal_the_reference(likelihood, gating, prior):
    """Posteriors, parameters, gates and bound, step by step; and no update lowers the bound."""
    for n_states in SIZES[:2] if gating == "factorised" else SIZES:
        pair = Lockstep(likelihood, n_states, gating, prior, seed=len(n_states))
        run(pair, n_steps=2)
        assert_never_falls(pair.trace)
        assert pair.trace[-1] > pair.trace[0]


@pytest.mark.parametrize("prior", [PRIOR, None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
def test_a_column_never_observed_takes_no_part(gating, prior):
    pair = Lockstep("gaussian", (2, 3), gating, prior, seed=11, empty_column=True)
    gates = pair.theta.gates[:, 1].copy()
    run(pair, n_steps=2)
    assert_never_falls(pair.trace)
    assert_array_equal(pair.theta.gates[:, 1], gates)


@pytest.mark.parametrize("gate_entropy", [0.4, pytest.param(20.0, marks=pytest.mark.ci)])
@pytest.mark.parametrize("prior", [PRIOR, None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
def test_steps_with_an_entropic_prior(gating, prior, gate_entropy):
    pair = Lockstep("gaussian", (2, 2, 2), gating, prior, gate_entropy=gate_entropy, seed=4)
    run(pair, n_steps=2)
    assert_never_falls(pair.trace)


def test_an_entropic_prior_reaches_the_gates_of_new_rows():
    """Factorised: new rows select parts by a, which under this prior is a point."""
    pair = Lockstep("gaussian", (2, 2, 2), "factorised", PRIOR, gate_entropy=3.0, seed=4)
    pair.maximize(pair.expect())
    assert_allclose(pair.theta.gates, np.exp(pair.theta.gate.log_a), atol=1e-9)


@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize("prior", [PRIOR, None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_annealed_gates(likelihood, prior, beta):
    """At a temperature the gates, and through them all else, are the reference's."""
    pair = Lockstep(likelihood, (2, 3), "tied", prior, beta=beta, seed=6)
    for _ in range(3):
        pair.maximize(pair.expect())
        pair.compare()
    cold = replace(pair.problem, beta=1.0)
    other = reference.update_g(cold, pair.fit)
    assert not np.allclose(other.g, pair.fit.g, atol=1e-3), "beta made no difference"


# --- the bound over whole fits ---


def parts_data(likelihood, rng, n_rows=120, n_states=(3, 2, 3), width=5, missing=0.2):
    """Rows drawn from a model with sharp states; holes and weights besides."""
    K = len(n_states)
    D = width * K
    X = np.empty((n_rows, D))
    for k, J in enumerate(n_states):
        level = rng.integers(4, size=(J, width))
        s = rng.integers(J, size=n_rows)
        center = level[s]
        mine = slice(width * k, width * (k + 1))
        if likelihood == "gaussian":
            X[:, mine] = center + 0.2 * rng.normal(size=center.shape)
        elif likelihood == "bernoulli":
            X[:, mine] = rng.random(center.shape) < np.array([0.05, 0.3, 0.7, 0.95])[center]
        elif likelihood == "poisson":
            X[:, mine] = rng.poisson(np.array([0.2, 2.0, 6.0, 15.0])[center])
        else:
            noise = rng.random(center.shape) < 0.1
            X[:, mine] = np.where(noise, rng.integers(4, size=center.shape), center)
    return punch_holes(X, missing, rng), rng.uniform(0.5, 2.0, n_rows)


@pytest.mark.parametrize("gate_entropy", [0.0, 2.0])
@pytest.mark.parametrize("prior", [Prior(), None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_bound_never_falls_over_a_fit(likelihood, gating, prior, gate_entropy):
    rng = np.random.default_rng(2)
    X, weight = parts_data(likelihood, rng)
    n_states = (4, 3, 3)
    core, source = build(X, weight, n_states, likelihood, GATINGS[gating], prior, gate_entropy)
    model = core if gating != "factorised" else Rowwise(core, Expected())
    theta = start_from(
        core, source, random_posteriors(n_states, len(X), rng, 3), random_gates(3, 15, rng)
    )
    _, trace = climb_from(model, theta, source, 25)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1


@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_a_fit_takes_and_undoes_short_cuts(gating):
    """The fits above do reach decided columns, and refreshes that look at all parts again."""
    rng = np.random.default_rng(2)
    X, weight = parts_data("gaussian", rng)
    core, source = build(X, weight, (4, 3, 3), "gaussian", GATINGS[gating], Prior())
    first = start_from(
        core, source, random_posteriors((4, 3, 3), len(X), rng, 3), random_gates(3, 15, rng)
    )
    prepared = core.begin(first)
    ages, n_decided = [], []
    for _ in range(40):
        _, stats = sweep(core, prepared, source)
        prepared = core.maximize(prepared, stats)
        ages.append(prepared.age)
        n_decided.append(len(prepared.layouts[0].decided))
    assert max(n_decided) > 5
    assert max(ages) == REFRESH_EVERY
    assert 0 in ages[ages.index(max(ages)) :], "no refresh followed"


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("prior", [Prior(), None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_decided_sweeps_equal_full_sweeps(gating, prior, storage):
    """Given closed gates, leaving out the other parts changes nothing that counts."""
    rng = np.random.default_rng(3)
    n_states = (2, 3)
    X, weight = parts_data("gaussian", rng, n_rows=40, n_states=n_states)
    if storage == "sparse":
        rows, columns = np.nonzero(~np.isnan(X))
        X = sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
    core, source = build(X, weight, n_states, "gaussian", GATINGS[gating], prior)
    gates = random_gates(2, 10, rng)
    gates[:, :7] = np.eye(2)[[0, 0, 1, 0, 1, 1, 0]].T
    params = start_from(core, source, random_posteriors(n_states, 40, rng), gates)
    full, short = core.begin(params), core.prepare(params)
    assert_array_equal(short.layouts[0].parts[:7], [0, 0, 1, 0, 1, 1, 0])
    assert np.all(short.layouts[0].parts[7:] == -1)

    (m_full,), all_sums = sweep(core, full, source)
    (m_short,), own_sums = sweep(core, short, source)
    assert_allclose(m_short, m_full, atol=1e-10)
    assert_allclose(core.bound(short, own_sums), core.bound(full, all_sums), rtol=1e-12)
    after_full, after_short = core.maximize(full, all_sums), core.maximize(short, own_sums)
    own = gates[core.part_of][:, :7] == 1
    a, b = after_full.natural[0][:, :, :7][:, own], after_short.natural[0][:, :, :7][:, own]
    assert_allclose(b, a, rtol=1e-9)
    assert_allclose(after_short.natural[0][:, :, 7:], after_full.natural[0][:, :, 7:], rtol=1e-9)
    a, b = after_full.params, after_short.params
    assert_allclose(b.gates[:, 7:], a.gates[:, 7:], atol=1e-10)
    assert_allclose(b.log_b, a.log_b, rtol=1e-10)


@pytest.mark.parametrize("gating", ["tied", "standard"])
def test_a_fit_with_short_cuts_ends_where_a_full_fit_does(gating, monkeypatch):
    rng = np.random.default_rng(5)
    n_states = (3, 2, 3)
    X, weight = parts_data("gaussian", rng, n_states=n_states)
    core, source = build(X, weight, n_states, "gaussian", GATINGS[gating], Prior())
    first = start_from(
        core, source, random_posteriors(n_states, len(X), rng, 3), random_gates(3, 15, rng)
    )
    theta, trace = climb_from(core, first, source, 300, tol=1e-7)
    monkeypatch.setattr(Chooser, "decided", lambda self, gate, age: np.full(15, -1))
    full, full_trace = climb_from(core, first, source, 300, tol=1e-7)
    assert_allclose(trace[-1], full_trace[-1], rtol=1e-7)
    assert_allclose(theta.gates, full.gates, atol=1e-6)


def test_no_fit_is_called_converged_before_all_parts_were_looked_at(monkeypatch):
    """A column closed on the wrong part finds the right one before the climb ends."""
    rng = np.random.default_rng(8)
    s = rng.integers(2, size=(60, 2))
    X = np.repeat(s, 4, axis=1) * 4.0 + 0.1 * rng.normal(size=(60, 8))
    core, source = build(X, np.ones(60), (2, 2), "gaussian", Tied(), Prior())
    m = np.concatenate([s[:, 0] == [[0], [1]], s[:, 1] == [[0], [1]]]).astype(float)
    gates = np.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]].T.copy()
    gates[:, 2] = [0.0, 1.0]  # wrong
    theta = start_from(core, source, m, gates)
    assert len(core.prepare(theta).layouts[0].decided) == 8
    monkeypatch.setattr(MCVQ, "begin", MCVQ.prepare)  # with closed gates
    theta, trace = climb_from(core, theta, source, 200, tol=1e-3)
    assert_array_equal(theta.gates.argmax(axis=0), [0, 0, 0, 0, 1, 1, 1, 1])
    assert_never_falls(trace)


# --- Monte Carlo EM ---


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_rows_that_remember_nothing_begin_at_a_likely_state(likelihood):
    """No change of a single part's state raises the joint density of row and states."""
    pair = Lockstep(likelihood, (2, 3), "factorised", Prior(), seed=4)
    prepared, core = pair.prepared, pair.core
    for _ in range(2):
        prepared = pair.model.maximize(prepared, sweep(pair.model, prepared, pair.source)[1])
    start = pair.core.likely_rows(prepared, pair.source.block(0))
    block, natural, theta = pair.source.block(0), prepared.natural[0], prepared.params

    def joint(m):
        logits = block.groups[0].expected(m, natural, core.first) + block.groups[0].spread(
            theta.gate.log_a
        )
        return block.groups[0].row_sums(special.logsumexp(logits, axis=0)) + theta.log_b[0] @ m

    best = joint(start)
    for lo, hi in itertools.pairwise(core.first):
        for s in range(lo, hi):
            changed = start.copy()
            changed[lo:hi] = 0
            changed[s] = 1
            assert np.all(joint(changed) <= best + 1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_are_inferred_anew_as_well_as_a_fit_knew_them(seed):
    """Where noise is little, most beginnings lead nowhere near what the fit reached."""
    rng = np.random.default_rng(seed)
    X = make_shapes().data[::2]
    core, source = build(X, np.ones(len(X)), (9, 9, 9))
    start = random_posteriors((9, 9, 9), len(X), rng)
    first = start_from(core, source, start, random_gates(3, X.shape[1], rng))
    model = Rowwise(core, Expected(), from_gates=True)
    params, trace = climb_from(model, first, source, 60, tol=1e-3)
    prepared, block = model.prepare(params), source.block(0)
    _, row_bound = model.infer(prepared, block)
    rows = float(block.weight @ (row_bound + block.base))
    assert model.bound(prepared, Stats(rows, np.empty(0), ())) >= trace[-1]


@pytest.mark.ci
def test_draws_follow_the_exact_posterior():
    """Averaged over many rounds, drawn states and parts have their exact probabilities."""
    pair = Lockstep("gaussian", (2, 3), "factorised", None, seed=2)
    pair.maximize(pair.expect())
    p, f = pair.problem, pair.fit
    log_b = [reference.log_choice(n, 0.0) for n in f.state_counts]
    states = np.zeros(5)
    gates = np.zeros((2, p.X.shape[1]))
    for c in p.rows:
        combinations = list(itertools.product(range(2), range(3)))
        logits, parts = [], []
        for combination in combinations:
            total = sum(log_b[k][j] for k, j in enumerate(combination))
            responsibility = np.zeros_like(gates)
            for d in p.columns:
                if p.seen(c, d):
                    log_a = reference.log_gates(p, f, d)
                    choices = np.array([
                        log_a[k] + p.laws[d].log(p.X[c, d], f.parameters[d][k][j])
                        for k, j in enumerate(combination)
                    ])  # fmt: skip
                    total += special.logsumexp(choices)
                    responsibility[:, d] = special.softmax(choices)
            logits.append(total)
            parts.append(responsibility)
        for q, (i, j), r in zip(special.softmax(logits), combinations, parts, strict=True):
            states[[i, 2 + j]] += p.weights[c] * q
            gates += p.weights[c] * q * r
    n_rounds = 2000
    model = Rowwise(pair.core, Draws(seed=1), n_rounds)
    _, stats = sweep(model, pair.prepared, pair.source)
    # Four standard errors of independent draws, and three times that, since they are a chain.
    error = 12 * math.sqrt((p.weights**2).sum() / n_rounds)
    assert_allclose(stats.states[0], states, atol=error)
    assert_allclose(stats.gates, gates, atol=error)
