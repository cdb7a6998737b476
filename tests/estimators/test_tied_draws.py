"""Monte Carlo EM with one part per column: conditionals against enumeration, moves, recovery."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import MCVQ, RowSource, make_shapes
from partwise.data import BlockSource, learn_columns
from partwise.fitting.tied_draws import TiedSampler
from partwise.likelihoods import Dirichlet, Prior
from partwise.models import mcvq
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.runners import Serial
from partwise.starts import random_start

SHAPES = make_shapes().data


def sampler_of(X, n_states, likelihood="gaussian"):
    weight, prior = np.ones(len(X)), Prior()
    (group,) = learn_columns(X, likelihood, weight, False, prior)
    chooser = Chooser(Tied(), Dirichlet(prior.gates), 0.0, group.weight)
    own = (group.entry_prior(prior),), (group.index,), chooser, Dirichlet(prior.states)
    core = mcvq.MCVQ(n_states, *own, ClassVariable(), X.dtype)
    return TiedSampler(core, BlockSource(X, (group,), weight), Serial())


def random_states(sampler, rng):
    """One-hot states (S, C) of every part."""
    C = sampler.source.X.shape[0]
    return np.concatenate([np.eye(J)[:, rng.integers(J, size=C)] for J in sampler.core.n_states])


def with_missing(X, rng):
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
def test_parts_of_columns_have_their_enumerated_distribution(likelihood):
    rng = np.random.default_rng(0)
    X = with_missing(rng.integers(2, size=(6, 4)).astype(float), rng)
    sampler = sampler_of(X, (2, 3), likelihood)
    state = sampler.state_of(np.zeros(4, int), random_states(sampler, rng))
    joint = {}
    for parts in itertools.product(range(2), repeat=4):
        told = sampler.state_of(np.array(parts), state.states)
        joint[parts] = told.joint(sampler.core)
    total = special.logsumexp(list(joint.values()))
    shares = special.softmax(state.evidence, axis=0)
    for parts, density in joint.items():
        assert_allclose(np.exp(density - total), shares[list(parts), range(4)].prod())


def test_states_are_as_probable_as_their_predictive_product_says():
    rng = np.random.default_rng(1)
    X = rng.integers(2, size=(5, 2)).astype(float)
    sampler = sampler_of(X, (2,), "bernoulli")
    states = random_states(sampler, rng)
    state = sampler.state_of(np.zeros(2, int), states)
    group, alpha = sampler.source.columns[0], Prior().states
    (prior,) = sampler.core.priors
    told, kinds = 0.0, states.argmax(axis=0)
    for c, j in enumerate(kinds):  # one row after the other, given those before
        before = kinds[:c] == j
        told += np.log((before.sum() + alpha) / (c + 2 * alpha))
        for d in range(2):
            sums = np.array([before.sum(), X[:c][before, d].sum()])[:, None, None]
            own = prior.take(np.array([d]))
            law = own.predictive(own.posterior(sums))
            told += float(law.log_density(np.full((1, 1), X[c, d]))[0, 0])
    told += float(group.base(X, np.arange(2)).sum())
    base = sum(float(block.weight @ block.base) for block in sampler.source.blocks())
    assert_allclose(state.joint(sampler.core) + base, told)


def test_a_move_changes_the_joint_density_by_what_it_was_judged_by():
    rng = np.random.default_rng(2)
    X = with_missing(SHAPES[::9], rng)
    sampler = sampler_of(X, (4, 4, 4))
    params = sampler.core.start(*random_start(sampler.source, (4, 4, 4), False, rng))
    state = sampler.sweep(params, rng)
    gains = []
    for _ in range(6):
        after, gain = sampler.propose(state, rng)
        again = sampler.state_of(after.parts, after.states)
        assert_allclose(after.joint(sampler.core), again.joint(sampler.core))
        assert_array_equal(after.states.sum(axis=0), 3)
        change = after.joint(sampler.core) - state.joint(sampler.core)
        assert_allclose(change, gain, rtol=1e-6, atol=1e-8)
        gains.append(gain)
        state = after
    # From a random start the first splits by dependence gain by far more than rounding could take.
    assert max(gains) > 100.0


@pytest.mark.ci
def test_shapes_are_found_from_random_starts():
    truth = MCVQ(3, 9, random_state=0).fit(SHAPES).parts_
    known = truth >= 0
    model = MCVQ(
        3, 9, gating="tied", inference="gibbs", init="random", max_iter=30, random_state=1
    ).fit(SHAPES[::5])
    assert adjusted_rand_score(truth[known], model.parts_[known]) > 0.9
    together = model.co_assignment_
    assert_allclose(together, together.T)
    assert_allclose(np.diag(together), 1.0)
    pairs = together[np.ix_(known, known)]
    same = truth[known][:, None] == truth[known]
    assert pairs[same].mean() > 0.9 > 0.1 > pairs[~same].mean()
    assert model.n_iter_ == 30
    assert len(model.lower_bounds_) == 31
    assert np.isfinite(model.score(SHAPES))


@pytest.mark.slow
def test_shapes_are_found_from_most_seeds():
    truth = MCVQ(3, 9, random_state=0).fit(SHAPES).parts_
    known, found = truth >= 0, 0
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(len(SHAPES))[:100]
        model = MCVQ(
            3, 9, gating="tied", inference="gibbs", init="random", max_iter=40, random_state=seed
        ).fit(SHAPES[rows])
        found += adjusted_rand_score(truth[known], model.parts_[known]) >= 0.9
    assert found >= 15


def test_a_file_keeps_it(tmp_path):
    X = SHAPES[::9]
    model = MCVQ(2, 3, gating="tied", inference="gibbs", max_iter=4, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert_allclose(again.transform(X), model.transform(X))
    assert_array_equal(again.co_assignment_, model.co_assignment_)


@pytest.mark.ci
def test_threads_change_nothing():
    fits = [
        MCVQ(
            2, 3, gating="tied", inference="gibbs", max_iter=4, n_jobs=n, random_state=0
        ).fit(SHAPES)
        for n in (1, 2)
    ]  # fmt: skip
    assert_array_equal(fits[0].means_, fits[1].means_)
    assert_array_equal(fits[0].co_assignment_, fits[1].co_assignment_)


@pytest.mark.parametrize(
    ("options", "X", "y", "message"),
    [
        ({"prior": None}, SHAPES, None, "a prior"),
        ({"n_classes": 2}, SHAPES, None, "without classes"),
        ({}, SHAPES, np.arange(729) % 3, "without classes"),
        ({}, RowSource([SHAPES]), None, "in memory"),
    ],
)
def test_what_it_does_not_support(options, X, y, message):
    with pytest.raises(ValueError, match=f'gating="tied" needs .*{message}'):
        MCVQ(2, 3, gating="tied", inference="gibbs", **options).fit(X, y)
