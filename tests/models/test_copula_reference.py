"""Steps of MCFA of mixed tables against loops; plain MCFA and repetition as special cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.data import BlockSource, learn_columns
from partwise.data.columns import Kind
from partwise.data.latent_columns import learn_latents
from partwise.likelihoods import Dirichlet, Prior
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Standard, Tied
from partwise.models.loadings import Relevant
from partwise.models.mcfa import MCFA
from partwise.models.ordinal import Ordinal
from tests.common.factors import random_loadings, start_factors
from tests.common.helpers import assert_never_falls, climb_from, random_gates, sweep
from tests.reference import copula as reference
from tests.reference import mcfa as factors_reference
from tests.reference import ordinal as ordinal_reference

PRIOR = Prior(entries=0.3, spread=0.2, shape=1.5, states=0.7, gates=1.3)
GATINGS = {"tied": Tied(), "standard": Standard()}
# Two numbers, an ordered column, a category and a yes-or-no column.
KINDS = (
    Kind("gaussian"), Kind("gaussian"), Kind("ordered", 4), Kind("categorical", 3),
    Kind("bernoulli"),
)  # fmt: skip
D = 7  # latent numbers


def mixed_rows(rng, n=9, missing=0.25):
    """Coded rows that share a factor; every level occurs."""
    s = rng.normal(size=n)
    e = rng.normal(size=(n, 6))
    X = np.stack(
        [
            np.exp(0.8 * s + 0.4 * e[:, 0]),
            s - e[:, 1],
            np.digitize(s + e[:, 2], [-1.0, 0.0, 1.0]),
            np.digitize(s + e[:, 3], [-0.5, 0.5]),
            s + e[:, 4] > 0,
        ],
        axis=1,
    ).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    X[:4, 2], X[:3, 3], X[:2, 4] = range(4), range(3), range(2)
    X[:2, :2] = [[1.0, 0.0], [2.0, 1.0]]
    return X


def build(X, weight, n_factors, gating="tied", how=None):
    """Model and source, as the estimator makes them."""
    groups = learn_columns(X, KINDS, weight, False, PRIOR)
    group = learn_latents(X, weight, groups)
    source = BlockSource(X, (group,), weight, n_powers=2)
    chooser = Chooser(GATINGS[gating], Dirichlet(PRIOR.gates), 0.0, group.weight)
    how = how or Relevant(PRIOR.entries, PRIOR.spread, PRIOR.shape)
    totals = np.tile(group.weight, (3, 1))
    core = MCFA(tuple(n_factors), how, chooser, ClassVariable(), 0.7, totals, X.dtype)
    return Ordinal(core, group.ends, group.widths), source


def begin(model, n_factors, seed):
    rng = np.random.default_rng(seed)
    gates = random_gates(len(n_factors), D, rng)
    relevance = [rng.uniform(0.5, 2, (2, J)) for J in n_factors]
    return start_factors(
        model.core, random_loadings(model.core, rng, False), gates, relevance
    ), gates, relevance  # fmt: skip


@pytest.mark.parametrize("gating", GATINGS)
def test_numbers_and_bound_equal_the_reference(gating):
    rng, n_factors = np.random.default_rng(0), (2, 1)
    X, weight = mixed_rows(rng, 7), rng.uniform(0.3, 2.0, 7)
    model, source = build(X, weight, n_factors, gating)
    (group,) = source.columns
    theta, gates, relevance = begin(model, n_factors, 1)
    kinds = []
    for j, d in group.place.items():
        V = int(group.n_levels[d])
        if V == 0:
            kinds.append(("number", d, None))
        elif group.widths[d] == 1:
            kinds.append(("level", d, group.edges[d, : V + 1]))
        else:
            kinds.append(("category", d, group.edges[d : d + V, 0]))
        assert j == len(kinds) - 1
    coded = X.copy()
    for j in range(2):
        coded[:, j] = group.marginals[j].to_z(X[:, j])
    problem = factors_reference.Problem(
        group.scored(X), weight, n_factors, gating,
        factors_reference.Prior(PRIOR.entries, PRIOR.spread, PRIOR.shape, PRIOR.gates),
        np.zeros(D), np.ones(D),
    )  # fmt: skip
    columns = [
        [
            factors_reference.Column(w.mean[d], w.cov[d], w.shape[d], w.rate[d])
            for w in theta.loadings
        ]
        for d in range(D)
    ]
    fit = factors_reference.Fit(
        [[np.zeros(J) for J in n_factors]] * 7, None, gates.T.tolist(), columns,
        list(map(tuple, relevance)), None,
    )  # fmt: skip
    fit = factors_reference.update_a(problem, fit)
    jacobian = weight @ source.block(0).base

    def numbers(problem):
        first, second, entropy = reference.expected_numbers(problem, fit, coded, kinds)
        return ordinal_reference.with_numbers(problem, first), second, entropy

    problem, second, entropy = numbers(problem)
    memory, before = [None], -np.inf
    for _ in range(2):
        memory, stats = sweep(model, theta, source, memory)
        fit = factors_reference.update_s(problem, fit)
        between = ordinal_reference.bound(problem, fit, second, entropy)
        problem, second, entropy = numbers(problem)
        after = ordinal_reference.bound(problem, fit, second, entropy)
        seen = ~np.isnan(problem.X)
        assert_allclose(memory[0], problem.X[seen], atol=2e-5)
        totals = np.stack(
            [weight @ np.where(seen, x, 0.0) for x in (np.ones_like(second), problem.X, second)]
        )
        assert_allclose(stats.sums[-1].shared[:, 0], totals, rtol=1e-5, atol=1e-4)
        assert_allclose(model.bound(model.begin(theta), stats), after + jacobian, rtol=1e-6)
        assert before <= between + 1e-9 <= after + 2e-9
        before = after


@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("n_factors", [(3,), (2, 1, 0)], ids=["one part", "three parts"])
def test_the_bound_never_falls(n_factors, gating):
    X = mixed_rows(np.random.default_rng(2), 60)
    per_column = Relevant(0.1, np.linspace(0.1, 0.5, D), np.array([2.0, 2, 10, 1e6, 1e6, 1e6, 1e6]))
    model, source = build(X, np.ones(60), n_factors, gating, per_column)
    theta = begin(model, n_factors, 3)[0]
    _, trace = climb_from(model, theta, source, 40)
    assert_never_falls(trace)


def test_priors_of_columns_are_their_own():
    X = mixed_rows(np.random.default_rng(4), 30)
    same = Relevant(0.1, np.full(D, 0.2), np.full(D, 3.0))
    found = []
    for how in (same, Relevant(0.1, 0.2, 3.0)):
        model, source = build(X, np.ones(30), (2, 1), "tied", how)
        found.append(climb_from(model, begin(model, (2, 1), 5)[0], source, 5)[1])
    assert_allclose(*found, rtol=1e-12)


def test_an_integer_weight_is_repetition_and_blocks_change_nothing():
    rng = np.random.default_rng(6)
    X, times = mixed_rows(rng, 150), rng.integers(1, 3, 150)
    again = np.repeat(X, times, axis=0)
    totals = []
    for rows, weight in ((X, times.astype(float)), (again, np.ones(len(again)))):
        model, source = build(rows, weight, (2, 1))
        for max_rows in (None, 64):
            cut = BlockSource(rows, source.columns, weight, n_powers=2, max_rows=max_rows)
            memory, stats = sweep(model, begin(model, (2, 1), 7)[0], cut)
            assert len(memory) == cut.n_blocks == (1 if max_rows is None else -(-len(rows) // 64))
            totals.append((stats.bound, stats.states, *(s.shared for s in stats.sums)))
    for other in totals[1:]:
        for a, b in zip(totals[0], other, strict=True):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_a_column_that_says_nothing_costs_nothing():
    """Rows without any entry, and a column without levels to tell apart."""
    X = mixed_rows(np.random.default_rng(8), 20)
    X[5] = np.nan
    model, source = build(X, np.ones(20), (2,))
    features, bound = model.infer(model.begin(begin(model, (2,), 9)[0]), source.block(0))
    assert_array_equal(features[1:3, 5], 0.0)
    assert bound[5] == 0.0
