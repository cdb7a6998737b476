"""Classes in sequence against enumeration of all class paths."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from partwise.data import BlockSource
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.class_chain import Chained, ClassChain, draw_chain, smooth, with_labels
from partwise.models.class_variable import ClassVariable
from tests.common.factors import build_factors, random_loadings, start_factors, with_classes
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

N, BOUNDS = 3, np.array([0, 4, 5, 9])
C = int(BOUNDS[-1])
PRIOR = Prior(entries=0.3, counts=0.4, spread=0.2, shape=1.5, states=0.7, gates=1.3)
PRIORS = pytest.mark.parametrize("prior", [PRIOR, None], ids=["prior", "flat"])


def enumerated(evidence, log_start, log_transition, bounds):
    """Log-likelihood, posterior (n, N) and counts (N + 1, N), path by path."""
    n, N = evidence.shape
    total, z, counts = 0.0, np.zeros((n, N)), np.zeros((N + 1, N))
    for lo, hi in itertools.pairwise(bounds):
        paths = list(itertools.product(range(N), repeat=hi - lo))
        joint = np.array(
            [
                log_start[path[0]]
                + sum(log_transition[i, j] for i, j in itertools.pairwise(path))
                + sum(evidence[lo + t, n] for t, n in enumerate(path))
                for path in paths
            ]
        )
        log_p = special.logsumexp(joint)
        total += log_p
        for path, weight in zip(paths, np.exp(joint - log_p), strict=True):
            counts[0, path[0]] += weight
            for t, n in enumerate(path):
                z[lo + t, n] += weight
            for i, j in itertools.pairwise(path):
                counts[i + 1, j] += weight
    return total, z, counts


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_messages_equal_enumeration(scale):
    rng = np.random.default_rng(0)
    evidence = scale * rng.normal(size=(C, N))
    evidence = with_labels(evidence, np.array([-1, 2, -1, -1, 0, -1, -1, 1, -1]))
    # Expected logarithms do not sum to 1, and some transitions are all but impossible.
    log_start, log_transition = np.log(rng.random(N)), np.log(rng.random((N, N)))
    log_transition[0, 1] = -500.0
    found = smooth(evidence, log_start, log_transition, BOUNDS)
    total, z, counts = enumerated(evidence, log_start, log_transition, BOUNDS)
    assert_allclose(found.log_z.sum(), total)
    assert_allclose(found.posterior(evidence), z, atol=1e-12)
    assert_allclose(found.counts, counts, atol=1e-12)
    # What a row's normalizer says is its density given the rows before.
    first = smooth(evidence[:2], log_start, log_transition, np.array([0, 2]))
    assert first.posterior(evidence[:2]).sum(axis=1) == pytest.approx(1.0)
    plain = smooth(evidence[:1], log_start, log_transition, np.array([0, 1]))
    assert_allclose(found.log_z[0], plain.log_z[0])


def test_a_row_without_evidence_is_told_by_its_neighbors():
    transition = np.array([[0.9, 0.1], [0.2, 0.8]])
    evidence = np.log([[0.99, 0.01], [1.0, 1.0], [0.99, 0.01]])
    found = smooth(evidence, np.log([0.5, 0.5]), np.log(transition), np.array([0, 3]))
    assert found.posterior(evidence)[1, 0] > 0.95
    assert_allclose(found.log_z[1], 0.0, atol=1e-12)


def test_sequences_are_drawn_by_their_transitions():
    start, transition = np.array([0.0, 1.0]), np.array([[0.9, 0.1], [0.3, 0.7]])
    path = draw_chain(start, transition, 40_000, np.random.default_rng(0))
    counts = np.zeros((2, 2))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    assert path[0] == 1
    assert_allclose(counts / counts.sum(axis=1, keepdims=True), transition, atol=0.01)


def states(prior, rng, missing=0.2, blocks=None):
    """An MCVQ with a chain of classes, its source and parameters."""
    X = punch_holes(random_entries("gaussian", (C, 5), rng), missing, rng)
    variable = ClassChain(N, Dirichlet(prior.states if prior else 0.0))
    core, source = build(X, np.ones(C), (2, 3), prior=prior, classes=variable)
    if blocks is not None:
        source = BlockSource(source.X, source.columns, source.weight, max_rows=blocks)
    params = start_from(core, source, random_posteriors((2, 3), C, rng), random_gates(2, 5, rng))
    counts = 3.0 * rng.random((N, 5))
    params = core.learn_states(params, counts)
    return Chained(core, variable, BOUNDS), source, params


def factors(prior, rng, missing=0.2, blocks=None):
    """The same of an MCFA."""
    X = punch_holes(rng.normal(size=(C, 5)), missing, rng)
    core, source = build_factors(X, np.ones(C), (1, 2), prior=prior, n_classes=N)
    variable = ClassChain(N, core.classes.prior)
    if blocks is not None:
        source = BlockSource(source.X, source.columns, source.weight, max_rows=blocks, n_powers=2)
    core = core.with_classes(variable)
    loadings = random_loadings(core, rng, prior is None)
    params = start_factors(core.without_classes(), loadings, random_gates(2, 5, rng))
    return Chained(core, variable, BOUNDS), source, with_classes(core, params, rng)


MODELS = pytest.mark.parametrize("make", [states, factors])


def linked(model, prepared, source):
    """A sweep, rows being linked first."""
    prepared = model.link(prepared, [model.look(prepared, block) for block in source.blocks()])
    return sweep(model, prepared, source)[1]


def by_row(model, prepared, source):
    """Evidence of the rows' classes (C, N), from one block for each row."""
    core, params = model.core, prepared.params
    out = []
    for block in source.blocks():
        for n in range(N):  # the bound of a row that is known to be of a class
            known = block.with_labels(np.full(block.n_rows, n))
            out.append(core.infer(prepared.row, known)[1] - params.log_beta[n])
    return np.stack(out, axis=1)


@MODELS
@PRIORS
def test_sums_and_bound_equal_enumeration(make, prior):
    rng = np.random.default_rng(1)
    model, source, params = make(prior, rng)
    ready = model.begin(replace(params, chain=9.0 * rng.random((N + 1, N))))
    evidence = by_row(model, ready, source)
    total, z, counts = enumerated(evidence, *model.classes.logarithms(ready.params.chain), BOUNDS)
    stats = linked(model, ready, source)
    base = sum(block.base.sum() for block in source.blocks())
    assert_allclose(stats.bound, total + base)
    assert_allclose(stats.chain, counts, atol=1e-12)
    one = model.core.first[1] if hasattr(model.core, "n_states") else 1
    assert_allclose(stats.states[:, :one].sum(axis=1), z.sum(axis=0), atol=1e-10)
    # The sums of entries are those of rows whose classes have these probabilities.
    with np.errstate(divide="ignore"):
        offsets = np.log(z) - (evidence + ready.params.log_beta)
    (block,) = source.blocks()
    told = model.core.expect(ready.row, block.with_labels(offsets), None)[1]
    assert_allclose(stats.states, told.states, atol=1e-9)
    for mine, theirs in zip(stats.sums, told.sums, strict=True):
        assert_allclose(mine.shared, theirs.shared, atol=1e-8)


@MODELS
@PRIORS
def test_bound_never_falls(make, prior):
    model, source, params = make(prior, np.random.default_rng(2))
    _, trace = climb_from(model, params, source, 25)
    assert_never_falls(trace)


@MODELS
def test_blocks_change_nothing(make):
    found = [make(PRIOR, np.random.default_rng(3), blocks=blocks) for blocks in (None, 2)]
    (_, trace), (_, other) = (climb_from(model, p, source, 6) for model, source, p in found)
    assert found[1][1].n_blocks == 5
    assert_allclose(trace, other, rtol=1e-9)


@MODELS
def test_equal_transitions_are_independent_rows(make):
    rng = np.random.default_rng(4)
    model, source, params = make(None, rng)
    stats = linked(model, model.begin(params), source)  # begins with the shares
    plain = model.core.with_classes(ClassVariable(N, Dirichlet(0.0)))
    log_beta = params.log_beta - special.logsumexp(params.log_beta)
    told = sweep(plain, replace(params, log_beta=log_beta), source)[1]
    assert_allclose(stats.bound, told.bound)
    assert_allclose(stats.states, told.states, atol=1e-10)


@MODELS
def test_known_classes_stay(make):
    rng = np.random.default_rng(5)
    model, source, params = make(PRIOR, rng)
    labels = np.array([0, -1, 1, 2, -1, 2, 2, -1, 0])
    labeled = BlockSource(
        source.X, source.columns, source.weight, labels=labels, n_powers=source.n_powers
    )
    ready = model.begin(params)
    stats = linked(model, ready, labeled)
    evidence = with_labels(by_row(model, ready, source), labels)
    counts = enumerated(evidence, *model.classes.logarithms(ready.params.chain), BOUNDS)[2]
    assert_allclose(stats.chain, counts, atol=1e-12)
    assert_never_falls(climb_from(model, params, labeled, 10)[1])
