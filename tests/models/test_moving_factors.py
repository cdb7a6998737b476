"""Factors of rows under unknown transformations, against enumeration and the model in place."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from partwise import MCFA, IndexMaps, Translations, load
from partwise.data.moved import MovingSource
from partwise.fitted import fitted_of
from partwise.models import factors
from tests.common.helpers import assert_never_falls, punch_holes, sweep
from tests.reference import moving as reference

MOVES = {
    "translations": Translations((3, 4), max_shift=1),
    "wrapped": IndexMaps([[(d + s) % 12 for d in range(12)] for s in range(3)]),
}


def case(moves="translations", missing=0.0, closed=False, n=6):
    """A model with random gates, its parameters, and rows with weights."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(n, 12)), rng.uniform(0.5, 2.0, n)
    X = punch_holes(X, missing, rng) if missing else X
    estimator = MCFA(2, [1, 2], transformations=MOVES[moves], max_iter=2, tol=0, random_state=0)
    with pytest.warns(Warning, match="max_iter"):
        estimator.fit(X, sample_weight=weight)
    fitted = fitted_of(estimator)
    model, canvas = fitted.model, fitted.params.canvas
    K, D = canvas.gates.shape
    g = rng.dirichlet(np.ones(K), D).T
    if closed:
        g = (np.arange(K)[:, None] == rng.integers(K, size=D)).astype(float)
    canvas = replace(canvas, gate=model.canvas.chooser.learn(g))
    params = model.parameters(canvas, rng.uniform(1, 5, len(model.maps)))
    return model, params, MovingSource(X, fitted.columns, weight, model.maps)


def total_of(model, prepared, source):
    return sweep(model, prepared, source)[1]


def loops(model, params, source):
    (group,) = source.columns
    Z = group.encode(source.X, np.arange(source.X.shape[1]))
    prior = model.canvas.prior
    parts = [(w.mean, w.outer, w.precision, prior.log_precision(w)) for w in params.canvas.loadings]
    of = params.gates, parts, params.log_rho, model.maps
    bound, *rest = reference.factor_sums(Z, source.weight, *of)
    base = group.base(Z, np.arange(Z.shape[1])).sum(axis=1)
    return bound + float(source.weight @ base), *rest


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sums_equal_enumeration(moves, missing):
    model, params, source = case(moves, missing)
    bound, counts, s, ss, sx, totals = loops(model, params, source)
    stats = total_of(model, model.begin(params), source)
    assert_allclose(stats.bound, bound, rtol=1e-7)
    assert_allclose(stats.counts, counts, atol=1e-6)
    linear, pairs, found = stats.sums
    assert_allclose(linear.shared[0].T, np.hstack(s), atol=1e-6)
    assert_allclose(linear.shared[1].T, np.hstack(sx), atol=1e-6)
    assert_allclose(pairs.shared[0].T, np.hstack([factors.pack(own) for own in ss]), atol=1e-6)
    assert_allclose(found.shared[:, 0], totals, atol=1e-6)


@pytest.mark.ci
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_closed_gates_give_the_same(missing):
    model, params, source = case(missing=missing, closed=True)
    bound, counts, *_, totals = loops(model, params, source)
    prepared = model.prepare(params)
    assert len(prepared.canvas.layouts[0].decided) == model.n_columns
    stats = total_of(model, prepared, source)
    assert_allclose(stats.bound, bound, rtol=1e-7)
    assert_allclose(stats.counts, counts, atol=1e-6)
    assert_allclose(stats.sums[2].shared[:, 0], totals, atol=1e-6)


def test_bound_never_falls():
    model, params, source = case(n=40, missing=0.1)
    prepared, trace, memory = model.begin(params), [], None
    for _ in range(14):
        memory, stats = sweep(model, prepared, source, memory)
        trace.append(model.bound(prepared, stats))
        prepared = model.maximize(prepared, stats)
    assert_never_falls(trace)


def waves(n, seed=0, missing=0.0):
    """Windows of a scene of two parts, each of a brightness of its own; their shifts."""
    rng = np.random.default_rng(seed)
    scene = np.zeros((2, 10, 10))
    scene[0, 2:5, 2:5] = [[1, 2, 1], [0, 3, 0], [1, 1, 2]]
    scene[1, 6:8, 3:8] = [[2, 1, 1, 2, 1], [1, 3, 1, 1, 2]]
    bright, shift = 2.0 + rng.normal(size=(n, 2)), rng.integers(-1, 2, size=(n, 2))
    images = np.einsum("nk,kyx->nyx", bright, scene)
    windows = [
        image[1 + y : 9 + y, 1 + x : 9 + x].ravel()
        for image, (y, x) in zip(images, shift, strict=True)
    ]
    X = np.stack(windows) + 0.2 * rng.normal(size=(n, 64))
    return (punch_holes(X, missing, rng) if missing else X), shift, bright


def test_no_shift_equals_the_plain_model():
    X, _, _ = waves(80, missing=0.1)
    plain = MCFA(2, 1, random_state=0).fit(X)
    still = clone(plain).set_params(transformations=Translations((8, 8), max_shift=0)).fit(X)
    assert_allclose(still.lower_bounds_, plain.lower_bounds_, rtol=1e-10)
    assert_allclose(still.loadings_, plain.loadings_, atol=1e-8)
    assert_allclose(still.score_samples(X), plain.score_samples(X), rtol=1e-9)
    assert_allclose(still.impute(X), plain.impute(X), atol=1e-8)
    assert_allclose(still.transform(X), plain.transform(X), atol=1e-8)
    assert_array_equal(still.shifts(X), 0)


@pytest.mark.ci
def test_verbs_of_moving_factors(tmp_path):
    X, shift, bright = waves(150, missing=0.05)
    moves = Translations((8, 8), max_shift=1)
    model = MCFA(2, 1, transformations=moves, random_state=0).fit(X)
    assert_never_falls(model.lower_bounds_)
    apart = model.shifts(X) - shift
    assert np.mean((apart == np.median(apart, axis=0)).all(axis=1)) > 0.9
    related = np.abs(np.corrcoef(model.transform(X).T, bright.T)[:2, 2:])
    assert related.max(axis=0).min() > 0.9
    assert model.score(waves(60, 1)[0]) > MCFA(2, 1, random_state=0).fit(X).score(waves(60, 1)[0])
    gaps = np.isnan(X)
    assert np.sqrt(np.mean((model.reconstruct(X) - X)[~gaps] ** 2)) < 0.4
    few = X[:6]
    assert model.align(few).shape == (6, 100)
    lower, upper = model.predict_interval(few)
    assert np.mean(((lower <= few) & (few <= upper))[~np.isnan(few)]) > 0.8
    assert model.anomaly_scores(few).shape == (6, 2)
    told = model.explain(few[0])
    assert told[0]["transformation"] == model.shifts(few[:1])[0].tolist()
    assert model.sample(4, random_state=0)[0].shape == (4, 64)
    assert model.inverse_transform(model.transform(few)).shape == (6, 100)
    cells = model.score_cells(few, [0, 1], [20, 21], few[[0, 1], [20, 21]] + 0.1)
    assert np.isfinite(cells).all()
    assert model.canvas_model().transform(model.align(few)).shape == (6, 2)
    model.save(tmp_path / "factors")
    again = load(tmp_path / "factors")
    assert_allclose(again.score_samples(few), model.score_samples(few))
    assert_allclose(again.transform(few), model.transform(few))


@pytest.mark.slow
def test_classes_and_threads_of_moving_factors():
    X, _, bright = waves(120)
    y = (bright[:, 0] > 2.0).astype(int)
    moves = Translations((8, 8), max_shift=1)
    model = MCFA(2, 1, transformations=moves, random_state=0, max_iter=10, tol=1e-2).fit(X, y)
    new, _, new_bright = waves(80, 1)
    assert np.mean(model.predict(new) == (new_bright[:, 0] > 2.0)) > 0.9
    two = clone(model).set_params(n_jobs=2).fit(X, y)
    assert_allclose(two.lower_bounds_, model.lower_bounds_, rtol=1e-10)


def test_what_moving_factors_do_not_take_is_said():
    X, _, _ = waves(20)
    by_part = Translations((8, 8), max_shift=1, by="part")
    with pytest.raises(ValueError, match="needs parts with states; use MCVQ"):
        MCFA(2, 1, transformations=by_part).fit(X)
    moves = Translations((8, 8), max_shift=1)
    with pytest.raises(ValueError, match="same in every column"):
        MCFA(2, 1, likelihood="ordinal", transformations=moves).fit(np.rint(np.abs(X)))
    with pytest.raises(ValueError, match="columns, but X has 63"):
        MCFA(2, 1, transformations=moves).fit(X[:, 1:])
