"""Rows under unknown transformations against enumeration of transformations and states."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise import MCVQ, IndexMaps, Rotations, Scalings, Translations
from partwise.answers import moving as answers
from partwise.answers import states as plain_answers
from partwise.data.moved import MovingSource
from partwise.fitted import fitted_of
from partwise.models.moving import NEGLIGIBLE
from tests.common.helpers import assert_never_falls, punch_holes, sweep
from tests.reference import moving as reference

MOVES = {
    "translations": Translations((3, 4), max_shift=1),
    "rotations": Rotations((3, 4), max_angle=40, n_steps=1),
    "scalings": Scalings((3, 4), max_factor=1.5, n_steps=1),
    "wrapped": IndexMaps([[(d + s) % 12 for d in range(12)] for s in range(3)]),
}


def rows_of(likelihood, n, rng, missing=0.0):
    """Rows of 12 columns."""
    X = rng.normal(size=(n, 12))
    X = (X > 0).astype(float) if likelihood == "bernoulli" else X
    return punch_holes(X, missing, rng) if missing else X


def case(moves="translations", likelihood="gaussian", missing=0.0, closed=False, seed=0, n=7):
    """A model with random parameters, its source, and rows with weights."""
    rng = np.random.default_rng(seed)
    X, weight = rows_of(likelihood, n, rng, missing), rng.uniform(0.5, 2.0, n)
    estimator = MCVQ(2, [2, 3], likelihood=likelihood, transformations=MOVES[moves],
                     prior="conjugate", max_iter=2, tol=0, random_state=0)  # fmt: skip
    with pytest.warns(Warning, match="max_iter"):
        estimator.fit(X, sample_weight=weight)
    fitted = fitted_of(estimator)
    model, params = fitted.model, fitted.params
    K, D = params.gates.shape
    g = rng.dirichlet(np.ones(K), D).T
    if closed:
        g = (np.arange(K)[:, None] == rng.integers(K, size=D)).astype(float)
    chi = params.canvas.chi[0].copy()
    noise = rng.uniform(0.5, 2.0, chi[0].shape)
    canvas = model.canvas.parameters(
        (chi * noise,), model.canvas.chooser.learn(g), rng.uniform(1, 5, (1, chi.shape[1]))
    )
    params = model.parameters(canvas, rng.uniform(1, 5, len(model.maps)))
    source = MovingSource(X, fitted.columns, weight, model.maps)
    return model, params, source, fitted


def total_of(model, prepared, source):
    return sweep(model, prepared, source)[1]


def loops(model, params, source):
    """What the reference finds, in model units."""
    prepared = model.begin(params)
    (group,) = source.columns
    Z = group.encode(source.X, np.arange(source.X.shape[1]))
    of = prepared.natural[0], params.gates, params.canvas.log_b[0], model.first, params.log_rho
    bound, *rest = reference.sums(Z, source.weight, *of, model.maps)
    base = group.base(Z, np.arange(Z.shape[1])).sum(axis=1)
    return bound + float(source.weight @ base), *rest


def full_sums(model, stats, prepared):
    (layout,), (packed,) = prepared.canvas.layouts, stats.sums
    return layout.unpack(packed, np.zeros_like(prepared.natural[0]))


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_sums_equal_enumeration(moves, missing, likelihood):
    model, params, source, _ = case(moves, likelihood, missing)
    bound, states, counts, sums = loops(model, params, source)
    prepared = model.begin(params)
    stats = total_of(model, prepared, source)
    assert_allclose(stats.bound, bound, rtol=1e-7)
    assert_allclose(stats.states[0], states, atol=1e-6)
    assert_allclose(stats.counts, counts, atol=1e-6)
    assert_allclose(full_sums(model, stats, prepared), sums, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_closed_gates_cost_their_part_alone_and_give_the_same(missing):
    model, params, source, _ = case(missing=missing, closed=True)
    bound, _, counts, sums = loops(model, params, source)
    prepared = model.prepare(params)
    assert len(prepared.canvas.layouts[0].decided) == model.n_columns
    stats = total_of(model, prepared, source)
    assert_allclose(stats.bound, bound, rtol=1e-7)
    assert_allclose(stats.counts, counts, atol=1e-6)
    own = full_sums(model, stats, prepared)
    kept = params.gates[model.canvas.part_of] > 0  # others are not looked at
    assert_allclose(own[:, kept], sums[:, kept], atol=1e-6)


@pytest.mark.parametrize("moves", ["translations", "scalings"])
def test_likelihood_of_rows_equals_enumeration(moves):
    model, params, source, fitted = case(moves, missing=0.2, closed=True)
    fitted = replace(fitted, model=model, params=params)
    fitted.__dict__.pop("prepared", None)
    (group,), canvas = fitted.columns, answers.plain(fitted)
    law = plain_answers.laws(canvas)[0]
    shares = plain_answers.state_shares(canvas)[0]
    own = source.columns[0]
    Z = own.encode(source.X, np.arange(12))

    def log_density(s, d, value):
        at = law.at((np.array([s]), np.array([d])))
        return float(at.log_density(np.array([value]))[0]) - float(group.log_scale[d])

    wanted = [
        reference.log_likelihood(
            x, log_density, shares, model.first, params.gates.argmax(axis=0),
            answers.shares(fitted), model.maps,
        )
        for x in Z
    ]  # fmt: skip
    found = answers.MovedAnswers(plain_answers).likelihoods(fitted, source.X, 10)
    assert_allclose(found.log_likelihood[0], wanted, rtol=1e-8)
    assert not found.standard_error.any()


def test_bound_never_falls_and_steps_with_few_transformations_are_bounds():
    model, params, source, _ = case(n=40, missing=0.1)
    prepared, trace, memory = model.begin(params), [], None
    looked_at = []
    for _ in range(14):
        memory, stats = sweep(model, prepared, source, memory)
        trace.append(model.bound(prepared, stats))
        looked_at.append(prepared.full)
        everything = total_of(model, replace(prepared, full=True), source)
        assert stats.bound <= everything.bound + 1e-9 * abs(everything.bound)
        if prepared.full:
            lost = len(model.maps) * NEGLIGIBLE * source.weight.sum()
            assert stats.bound >= everything.bound - lost
        prepared = model.maximize(prepared, stats)
    assert_never_falls(trace)
    assert any(looked_at[1:])
    assert not all(looked_at)


def test_weights_are_repetition_and_blocks_add():
    model, params, source, _ = case(n=9, missing=0.2)
    prepared = model.begin(params)
    times = np.arange(9) % 3 + 1
    weighted = MovingSource(source.X, source.canvas, times.astype(float), model.maps)
    repeated = MovingSource(
        np.repeat(source.X, times, axis=0), source.canvas, np.ones(times.sum()), model.maps,
        max_rows=4,
    )  # fmt: skip
    assert repeated.n_blocks > 1
    one, other = (total_of(model, prepared, of) for of in (weighted, repeated))
    assert math.isclose(one.bound, other.bound, rel_tol=1e-10)
    assert_allclose(one.counts, other.counts, atol=1e-9)
    assert_allclose(one.sums[0].shared, other.sums[0].shared, atol=1e-9)
    assert_allclose(one.scaled(2.0).counts, (one + one).counts)


def test_maps_place_every_column_once_per_transformation():
    for moves in MOVES.values():
        assert moves.maps.shape == (len(moves), 12)
        assert moves.maps.min() >= 0
        assert moves.maps.max() < moves.n_canvas
        assert len(moves.values) == len(moves)
    shifts = Translations((3, 4), max_shift=(0, 1))
    assert shifts.canvas_shape == (3, 6)
    assert shifts.values.tolist() == [[0, -1], [0, 0], [0, 1]]
    quarter = Rotations((3, 3), max_angle=90, n_steps=1).maps[2].reshape(3, 3)  # clockwise
    assert quarter.tolist() == np.rot90(np.arange(9).reshape(3, 3), -1).tolist()
