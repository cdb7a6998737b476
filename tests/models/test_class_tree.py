"""Classes of groups of parts against enumeration of all classes and states."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from partwise.data import BlockSource
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.class_tree import ClassTree, LinkedTree, Links, TreePrior
from partwise.models.class_variable import ClassVariable
from partwise.starts.class_tree import dependent_parts, information
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

C, T, N = 7, 2, 3
GROUPS = np.array([0, 1, 0])
N_STATES = (2, 3, 2)
S = sum(N_STATES)
PRIOR = Prior(entries=0.3, counts=0.4, spread=0.2, shape=1.5, states=0.7, gates=1.3)
PRIORS = pytest.mark.parametrize("prior", [PRIOR, None], ids=["prior", "flat"])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.25])


def problem(prior, rng, missing=0.2, blocks=None, labels=None, weight=WEIGHT):
    """A model with a tree of classes, its source and parameters."""
    X = punch_holes(random_entries("gaussian", (C, 6), rng), missing, rng)
    tree = ClassTree(T, Dirichlet(prior.states if prior else 0.0), 2, N)
    core, source = build(X, weight, N_STATES, prior=prior, classes=tree)
    params = start_from(core.without_classes(), source, random_posteriors(N_STATES, C, rng),
                        random_gates(3, 6, rng))  # fmt: skip
    counts = 3.0 * rng.random((2, T, N))
    counts[1] *= counts[0].sum(axis=1, keepdims=True) / counts[1].sum(axis=1, keepdims=True)
    params = core.parameters(
        params.chi, params.gate, 3.0 * rng.random((N, S)), Links(GROUPS, counts)
    )
    source = BlockSource(source.X, source.columns, weight, labels=labels, max_rows=blocks)
    return core, source, params


def enumerated(core, params, score, labels=None):
    """Log normalizer, posteriors of states (S, n) and sums of pairs, configuration by one."""
    first, links = core.first, core.linked(params.links).logarithms
    n = score.shape[1]
    states = list(itertools.product(*[range(a, b) for a, b in itertools.pairwise(first)]))
    found = []
    for t in range(T):
        for z in itertools.product(range(N), repeat=2):
            for s in states:
                value = params.log_beta[t] + sum(links[g, t, z[g]] for g in range(2))
                value += sum(params.log_b[z[GROUPS[k]], s[k]] for k in range(3))
                total = value + sum(score[s[k]] for k in range(3))
                if labels is not None:
                    total = np.where((labels >= 0) & (labels != t), -np.inf, total)
                found.append((t, z, s, total))
    joint = np.stack([total for *_, total in found])
    log_z = special.logsumexp(joint, axis=0)
    counts, pairs = np.zeros((N, S, n)), np.zeros((2, T, N, n))
    for (t, z, s, _), p in zip(found, np.exp(joint - log_z), strict=True):
        for k in range(3):
            counts[z[GROUPS[k]], s[k]] += p
        for g in range(2):
            pairs[g, t, z[g]] += p
    return log_z, counts, pairs


@PRIORS
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("labels", [None, np.array([-1, 0, 1, -1, -1, 1, 0])])
def test_sums_equal_enumeration(prior, missing, labels):
    core, source, params = problem(prior, np.random.default_rng(0), missing, labels=labels)
    ready = core.begin(params)
    (block,) = source.blocks()
    log_z, counts, pairs = enumerated(core, params, core.evidence(ready, block), labels)
    m, stats = core.expect(ready, block, None)
    assert_allclose(stats.bound, WEIGHT @ (log_z + block.base))
    assert_allclose(m, counts.sum(axis=0), atol=1e-12)
    own, links = core.linked(params.links).split(stats.states)
    assert_allclose(own, counts @ WEIGHT, atol=1e-12)
    assert_allclose(links.counts, pairs @ WEIGHT, atol=1e-12)
    # States that are proposed in a class are those of rows that are known to be of it.
    for t in range(T):
        known = block.with_labels(np.full(C, t))
        assert_allclose(core.propose(ready, block)[t], core.infer(ready, known)[0], atol=1e-12)


def test_classes_of_groups_follow_those_of_rows():
    core, source, params = problem(PRIOR, np.random.default_rng(0))
    (block,), known = source.blocks(), np.arange(C) % T
    score = core.evidence(core.begin(params), block)
    found = core.weigh(params, score.copy(), None).with_classes(np.eye(T)[:, known])
    wanted = core.weigh(params, score.copy(), known)
    for k in range(len(N_STATES)):
        assert_allclose(found.z_of(k), wanted.z_of(k))


@PRIORS
def test_bound_never_falls(prior):
    core, source, params = problem(prior, np.random.default_rng(1))
    after, trace = climb_from(core, params, source, 25)
    assert_never_falls(trace)
    total = after.links.counts.sum(axis=2)
    assert_allclose(total[0], total[1])
    assert_allclose(total[0].sum(), WEIGHT.sum())


def test_blocks_and_labels_change_what_they_should():
    labels = np.array([-1, 0, 1, -1, -1, 1, 0])
    traces = []
    for blocks in (None, 2):
        core, source, params = problem(
            PRIOR, np.random.default_rng(2), blocks=blocks, labels=labels
        )
        traces.append(climb_from(core, params, source, 6)[1])
    assert source.n_blocks == 4
    assert_allclose(traces[0], traces[1], rtol=1e-9)
    assert_never_falls(traces[0])


def test_weights_are_repetitions():
    core, source, params = problem(PRIOR, np.random.default_rng(3), weight=np.arange(1.0, C + 1))
    again = BlockSource(
        np.repeat(source.X, np.arange(1, C + 1), axis=0), source.columns, np.ones(C * (C + 1) // 2)
    )
    one, other = (sweep(core, params, rows)[1] for rows in (source, again))
    assert_allclose(one.bound, other.bound)
    assert_allclose(one.states, other.states)


def test_one_group_with_identity_is_the_model_of_one_class():
    core, source, params = problem(None, np.random.default_rng(4))
    tree = replace(core.classes, n_groups=1, n_group_classes=T)
    shares = np.array([2.0, 5.0])
    links = Links(np.zeros(3, np.int64), np.diag(shares)[None])
    counts = params.state_counts[:T]
    with_tree = core.with_classes(tree)
    own = with_tree.parameters(params.chi, params.gate, counts, links)
    plain = core.with_classes(ClassVariable(T, Dirichlet(0.0)))
    same = replace(plain.parameters(params.chi, params.gate, counts), log_beta=own.log_beta)
    mine, theirs = (sweep(*pair, source)[1] for pair in ((with_tree, own), (plain, same)))
    assert_allclose(mine.bound, theirs.bound)
    assert_allclose(mine.states[:, :S], theirs.states)
    own = with_tree.maximize(with_tree.begin(own), mine).params
    same = plain.maximize(plain.begin(same), theirs).params
    assert_allclose(own.log_b, same.log_b)
    assert_allclose(own.log_beta, same.log_beta)


def test_rows_that_no_class_allows_have_one():
    tree = ClassTree(2, Dirichlet(0.0), 2, 2)
    links = Links(np.array([0, 1]), np.array([np.eye(2), np.eye(2)]))
    prior = TreePrior(links.groups, LinkedTree(tree, links).logarithms, np.log(np.eye(2) + 1e-300))
    density = prior.likelihood(np.array([[[0.0], [-800.0]], [[-800.0], [0.0]]]))
    assert np.all(np.isfinite(density))
    assert_allclose(density[0], density[1])


def test_joint_prior_of_states_sums_to_one_and_has_the_marginals():
    rng = np.random.default_rng(5)
    first = np.array([0, 2, 5, 7])
    log_b = np.log(np.concatenate([rng.dirichlet(np.ones(J), N) for J in N_STATES], axis=1))
    prior = TreePrior(GROUPS, np.log(rng.dirichlet(np.ones(N), (2, T))), log_b)
    marginal = prior.marginal(first)
    combinations = np.array(list(itertools.product(*[range(a, b) for a, b in
                                                     itertools.pairwise(first)])))  # fmt: skip
    for t in range(T):
        more = prior.dependence(t, marginal[t], combinations)
        p = np.exp(more + marginal[t][combinations].sum(axis=1))
        assert_allclose(p.sum(), 1.0)
        for s in range(S):
            assert_allclose(p[(combinations == s).any(axis=1)].sum(), np.exp(marginal[t, s]))


def test_groups_of_dependent_parts_are_found():
    rng = np.random.default_rng(6)
    z = rng.integers(2, size=(2, 400))
    states = np.stack([z[k % 2] ^ (rng.random(400) < 0.1) for k in range(6)])
    m = np.concatenate([np.stack([s == 0, s == 1]) for s in states] + [np.ones((1, 400))])
    first = np.append(np.arange(0, 13, 2), 13)
    between = information(m.astype(float), np.ones(400), first)
    assert between[0, 2] > 0.2 > 0.05 > between[0, 1]
    assert_array_equal(dependent_parts(m.astype(float), np.ones(400), first, 2, rng),
                       [0, 1, 0, 1, 0, 1, 0])  # fmt: skip
    assert_array_equal(dependent_parts(m.astype(float), np.ones(400), first, 6, rng),
                       [0, 1, 2, 3, 4, 5, 0])  # fmt: skip
