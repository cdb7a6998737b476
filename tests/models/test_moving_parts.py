"""Parts that move on their own, against loops and enumeration on images of 4x4."""

import itertools
import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.base import clone

from partwise import MCVQ, Checkpoint, Translations, load
from partwise.files.contents import check_contents
from partwise.files.schema import MisfitError
from partwise.fitted import fitted_of
from partwise.models.moving_parts import Assignment, MovingParts, PartRows, PartsParams
from partwise.models.predict_parts import class_bounds, components
from partwise.plot import ShiftsDisplay
from tests.common.helpers import assert_never_falls

SIDE, K, J, N = 4, 2, 2, 6


def case(missing=0.0, seed=0, n_classes=1):
    """A model with random parameters and templates of 3x3, and rows."""
    rng = np.random.default_rng(seed)
    moves = Translations((SIDE, SIDE), max_shift=1, by="part")
    model = MovingParts(K, J, moves, 0.1)
    odds = np.zeros((K, 6, 6))
    odds[:, 1:4, 2:5] = rng.uniform(0.1, 5.0, (K, 3, 3))
    params = PartsParams(
        odds.reshape(K, -1),
        rng.normal(size=(K, J, 36)),
        rng.uniform(0.1, 0.5, (K, J, 36)),
        np.log(rng.dirichlet(np.ones(9), K)),
        np.log(rng.dirichlet(np.ones(J), (n_classes, K))),
        np.log(rng.dirichlet(np.ones(n_classes))),
        rng.normal(size=16),
        rng.uniform(0.1, 0.5, 16),
        0.1,
    )
    seen = (rng.random((N, 16)) >= missing).astype(float)
    labels = None if n_classes == 1 else rng.integers(-1, n_classes, N)
    return model, params, PartRows(rng.normal(size=(N, 16)) * seen, seen, labels)


def normal(x, mean, variance):
    return math.exp(-0.5 * (x - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)


def joint(model, params, rows, i, t, s):
    """log p(x, t, s) of row i, and of its class if it is known, pixel by pixel."""
    x, seen, label = rows.x[i], rows.seen[i], -1 if rows.labels is None else rows.labels[i]
    classes = range(len(params.log_beta)) if label < 0 else [label]
    total = math.log(
        sum(
            math.exp(params.log_beta[z] + sum(params.log_b[z, k, s[k]] for k in range(K)))
            for z in classes
        )
    )
    total += sum(params.log_rho[k][t[k]] for k in range(K))
    for d in range(16):
        if not seen[d]:
            continue
        own = normal(x[d], params.back_mean[d], params.back_var[d])
        density = (1 - params.outlier) * own + params.outlier * normal(x[d], 0.0, 2.0)
        mass = 1.0
        for k in range(K):
            u = model.maps[t[k], d]
            a = params.odds[k, u]
            density += a * normal(x[d], params.mean[k, s[k], u], params.var[k, s[k], u])
            mass += a
        total += math.log(density / mass)
    return total


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_bounds_and_gains_equal_loops(missing, n_classes):
    model, params, rows = case(missing, n_classes=n_classes)
    rng = np.random.default_rng(1)
    found = Assignment(rng.integers(9, size=(N, K)), rng.integers(J, size=(N, K)))
    wanted = [joint(model, params, rows, i, found.t[i], found.s[i]) for i in range(N)]
    assert_allclose(model.row_bounds(params, rows, found, range(K)), wanted, rtol=1e-10)
    gains = model.gains(params, rows, 0, found, [1])
    best = gains.reshape(N, -1).argmax(axis=1)
    for i in range(2):
        every = [
            joint(model, params, rows, i, (t, found.t[i, 1]), (s, found.s[i, 1]))
            for t in range(9)
            for s in range(J)
        ]
        assert int(np.argmax(every)) == best[i]
        assert_allclose(gains[i].ravel() - gains[i].max(), np.array(every) - max(every), atol=1e-9)


@pytest.mark.parametrize(("missing", "n_classes"), [(0.0, 1), (0.3, 1), (0.3, 3)])
def test_shifts_below_a_ceiling_are_left_out_and_change_no_assignment(missing, n_classes):
    n_left_out = 0
    for seed in range(5):
        model, params, rows = case(missing, seed, n_classes)
        # Two parts are where templates put them, so that most places are far from the best.
        rng, none = np.random.default_rng(seed), np.zeros((N, K), int)
        t = rng.integers(9, size=(N, K))
        means = components(model, params, Assignment(t, none)).expected
        rows = rows._replace(x=means * rows.seen)
        ceilings = [model.ceiling(params, rows, k) for k in range(K)]
        for k, others in itertools.product(range(K), ([], [0], [1])):
            found = Assignment(rng.integers(9, size=(N, K)), rng.integers(J, size=(N, K)))
            apart = [j for j in others if j != k]
            every = model.gains(params, rows, k, found, apart)
            assert np.all(every <= ceilings[k][:, :, None] + 1e-9)
            some = model.gains(params, rows, k, found, apart, ceilings[k])
            kept = some > -np.inf
            assert_allclose(some[kept], every[kept])
            assert_array_equal(some.reshape(N, -1).argmax(1), every.reshape(N, -1).argmax(1))
            n_left_out += int((~kept).sum())
        for placed in ((), range(K)):
            with_ceilings = model.improved(params, rows, found, range(K), placed, ceilings)
            without = model.improved(params, rows, found, range(K), placed)
            assert_array_equal(np.stack(with_ceilings), np.stack(without))
    assert n_left_out > 0


def test_assignments_are_bounds_that_enumeration_confirms():
    model, params, rows = case(0.2)
    found = model.begun(params, rows)
    bounds = model.row_bounds(params, rows, found, range(K))
    for i in range(2):
        every = [
            joint(model, params, rows, i, t, s)
            for t in itertools.product(range(9), repeat=K)
            for s in itertools.product(range(J), repeat=K)
        ]
        assert bounds[i] <= max(every) + 1e-9
        assert bounds[i] <= np.logaddexp.reduce(every)
        assert bounds[i] >= max(every) - 1.0  # coordinate steps from several orders


def test_classes_are_bounded_one_by_one_and_densities_are_those_of_the_mixture():
    model, params, rows = case(0.2, n_classes=3)
    rows = rows._replace(labels=None)
    found = model.begun(params, rows)
    bounds = class_bounds(model, params, rows, found)
    for i, z in itertools.product(range(1), range(3)):
        own = rows.of_class(z)
        every = [
            joint(model, params, own, i, t, s) - params.log_beta[z]
            for t in itertools.product(range(9), repeat=K)
            for s in itertools.product(range(J), repeat=K)
        ]
        assert max(every) - 1.0 <= bounds[z, i] <= max(every) + 1e-9
    own = components(model, params, found)
    total = (own.log_density(rows.x) * rows.seen).sum(axis=1)
    total += np.take_along_axis(params.log_rho, found.t.T, axis=1).sum(axis=0)
    evidence = model.class_evidence(params, rows, found, range(K))
    total += np.logaddexp.reduce(evidence)
    assert_allclose(total, model.row_bounds(params, rows, found, range(K)), rtol=1e-10)
    median = own.quantile(0.5)
    spread = (median - own.mean) / np.sqrt(own.var)
    assert_allclose((own.weight * special.ndtr(spread)).sum(axis=0), 0.5, atol=1e-3)
    drawn = np.stack([own.draw(np.random.default_rng(i)) for i in range(400)])
    inside = np.mean(drawn <= median, axis=0)
    assert_allclose(inside, 0.5, atol=0.15)


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_no_step_lowers_the_bound(missing, n_classes):
    model, params, rows = case(missing, n_classes=n_classes)
    weight, trace, memory = np.linspace(0.5, 2.0, N), [], None
    for _ in range(12):
        memory = model.assign(params, rows, memory)
        stats = model.sums(params, rows, weight, memory)
        trace.append(model.bound(params, stats))
        params = model.maximize(params, stats)
        trace.append(model.bound(params, model.sums(params, rows, weight, memory)))
    assert_never_falls(trace)


def test_weights_are_repetition_and_sums_add():
    model, params, rows = case(0.2, n_classes=2)
    found, times = model.begun(params, rows), np.arange(N) % 3 + 1
    one = model.sums(params, rows, times.astype(float), found)
    every = np.repeat(np.arange(N), times)
    other = model.sums(params, rows.take(every), np.ones(len(every)), found.take(every))
    assert_allclose(one.sums, other.sums, atol=1e-10)
    assert_allclose(one.states, other.states, atol=1e-10)
    assert math.isclose(one.bound, other.bound, rel_tol=1e-12)
    assert_allclose((one + one).mass, 2 * one.mass)
    assert replace(one, bound=0.0).outliers == one.outliers


def moving_shapes(n, seed, side=9):
    """A bar and a square, each anywhere; their places."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, side - 2, size=(n, 2, 2))
    ink = np.zeros((n, side, side))
    for i, ((y, x), (v, z)) in enumerate(places):
        ink[i, y : y + 3, x] = 1
        ink[i, v : v + 2, z : z + 3] = 1
    return ink.reshape(n, -1) + 0.1 * rng.normal(size=(n, side * side)), places


@pytest.mark.ci
def test_estimator_finds_parts_that_move():
    X, _ = moving_shapes(100, 0)
    moves = Translations((9, 9), max_shift=5, by="part")
    model = MCVQ(2, 1, transformations=moves, random_state=0, max_iter=20, tol=1e-1).fit(X)
    new, new_places = moving_shapes(60, 1)
    found = -model.shifts(new)
    assert found.shape == (60, 2, 2)
    right = np.zeros((2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        apart = found[:, a] - new_places[:, b]
        right[a, b] = np.mean((apart == np.median(apart, axis=0)).all(axis=1))
    assert max(min(right[0, 0], right[1, 1]), min(right[0, 1], right[1, 0])) > 0.9
    assert_never_falls(model.lower_bounds_)
    assert np.sqrt(np.mean((model.reconstruct(new) - new) ** 2)) < 0.2
    gaps = np.where(np.random.default_rng(2).random(new.shape) < 0.2, np.nan, new)
    assert np.sqrt(np.mean((model.impute(gaps) - new) ** 2)) < 0.2
    assert model.score(new) > MCVQ(2, 4, random_state=0).fit(X).score(new)
    assert model.transform(new).shape == (60, 2)
    assert model.masks_.shape == (2, 19 * 19)


@pytest.mark.ci
@pytest.mark.parametrize("n_states", [1, 2])
def test_an_integer_weight_is_as_many_equal_rows(n_states):
    X, _ = moving_shapes(40, 5)
    X[::4, ::5] = np.nan
    times = np.arange(40) % 3 + 1
    moves = Translations((9, 9), max_shift=2, by="part")
    model = MCVQ(2, n_states, transformations=moves, random_state=0, max_iter=5, tol=1.0)
    weighted = clone(model).fit(X, sample_weight=times)
    repeated = clone(model).fit(np.repeat(X, times, axis=0))
    assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-9)
    assert_array_equal(weighted.shifts(X), repeated.shifts(X))


@pytest.fixture(scope="module")
def labeled():
    """A bar and a square, whose states (bright or dim) depend on a class; a model of them."""
    X, _ = moving_shapes(60, 3)
    y = np.array(["dim", "bright"])[np.arange(60) % 2]
    X = np.where(X > 0.5, X - 0.5 * (y == "dim")[:, None], X)
    X[::5, ::7] = np.nan
    moves = Translations((9, 9), max_shift=3, by="part")
    model = MCVQ(2, 2, transformations=moves, random_state=0, max_iter=5, tol=1e-1)
    return X, y, model.fit(X, np.where(np.arange(60) < 50, y, None))


@pytest.mark.ci
def test_verbs_of_moving_parts(labeled):
    X, y, model = labeled
    assert_never_falls(model.lower_bounds_)
    assert model.state_priors_.shape == (2, 2, 2)
    assert np.mean(model.predict(X[50:]) == y[50:]) >= 0.8
    few = X[:12]
    assert_allclose(model.predict_proba(few).sum(axis=1), 1.0)
    m = model.transform(few)
    assert_allclose(m[:, :2].sum(axis=1), 1.0)
    assert_array_equal(model.predict_states(few)[:, 0], m[:, :2].argmax(axis=1))
    shares = model.shift_proba(few)
    assert shares.shape == (12, 2, 49)
    assert_allclose(shares.sum(axis=2), 1.0)
    aligned = model.align(few)
    assert aligned.shape == (12, 2, 15 * 15)
    assert_array_equal((~np.isnan(aligned[:, 0])).sum(axis=1), (~np.isnan(few)).sum(axis=1))
    lower, upper = model.predict_interval(few)
    inside = (lower <= few) & (few <= upper)
    assert inside[~np.isnan(few)].mean() > 0.8
    assert model.anomaly_scores(few).shape == (12, 2)
    hidden = np.argwhere(~np.isnan(few))[::9]
    cells = model.score_cells(few, *hidden.T, few[tuple(hidden.T)])
    assert cells.mean() > -2.0
    told = model.explain(few[0])
    assert [part["part"] for part in told] == [0, 1]
    assert told[1]["transformation"] == model.shifts(few[:1])[0, 1].tolist()
    assert 0.0 < told[0]["probability"] <= 1.0 + 1e-12
    rows, classes = model.sample(6, classes="dim", random_state=0)
    assert rows.shape == (6, 81)
    assert set(classes) == {"dim"}
    assert model.sample(3, states=np.ones((3, 2), int), random_state=0)[1].tolist() == [[1, 1]] * 3
    assert np.isfinite(model.bic(X))
    assert model.get_feature_names_out()[3] == "part1_state1"


def test_shifts_are_plotted(labeled):
    display = ShiftsDisplay.from_estimator(labeled[2])
    assert display.shares.shape == (2, 7, 7)
    assert len(display.axes_) == 2
    with pytest.raises(ValueError, match="set transformations=Translations"):
        ShiftsDisplay.from_estimator(MCVQ(1, 1, random_state=0).fit(moving_shapes(10, 0)[0]))
    plt.close(display.figure_)


@pytest.mark.ci
def test_files_threads_and_checkpoints_change_nothing(labeled, tmp_path):
    X, y, model = labeled
    given = np.where(np.arange(60) < 50, y, None)
    two = clone(model).set_params(n_jobs=2)
    two.fit(X, given, checkpoint=Checkpoint(tmp_path / "fit", every=0))
    assert_allclose(two.lower_bounds_, model.lower_bounds_, rtol=1e-12)
    model.save(tmp_path / "parts")
    again = load(tmp_path / "parts")
    assert again.transformations == model.transformations
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.predict(X), model.predict(X))
    warm = clone(model).set_params(warm_start=True, tol=10.0)
    warm._adopt(fitted_of(model)).fit(X, given)
    assert warm.lower_bound_ >= model.lower_bound_ - 1e-9


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("odds", lambda a: a[:, :-1]),
        ("odds", lambda a: -a - 1.0),
        ("log_rho", lambda a: a - 1.0),
        ("log_rho", lambda a: a[:, :-1] - np.log(np.exp(a[:, :-1]).sum())),
        ("log_beta", lambda a: np.zeros(1)),
        ("var", lambda a: 0.0 * a),
        ("back_mean", lambda a: np.full_like(a, np.nan)),
    ],
)
def test_files_of_moving_parts_are_checked(labeled, name, change):
    _, _, model = labeled
    arguments, state = model.get_params(deep=False), model.__partwise_state__()
    check_contents("MCVQ", arguments, state)
    bad = {**state["templates"], name: change(state["templates"][name])}
    with pytest.raises(MisfitError):
        check_contents("MCVQ", arguments, {**state, "templates": bad})


@pytest.mark.parametrize(
    ("arguments", "X", "told"),
    [
        ({}, np.zeros((20, 49)), "columns, but X has 49; give the image_shape"),
        ({"likelihood": "bernoulli"}, None, 'likelihood="gaussian"'),
        ({"prior": None}, None, "and a prior"),
        ({"n_states": [1, 2]}, None, "one number n_states for all parts"),
        ({"n_classes": 2}, None, "labels y of the classes"),
        ({"likelihood": "auto"}, None, "columns of one kind"),
        ({}, sparse.csr_matrix(np.eye(81)), "dense X"),
    ],
)
def test_what_moving_parts_do_not_take_is_said(arguments, X, told):
    moves = Translations((9, 9), max_shift=3, by="part")
    model = MCVQ(**{"n_parts": 2, "n_states": 1, **arguments}, transformations=moves)
    X = moving_shapes(20, 0)[0] if X is None else X
    X = (X > 0.5).astype(float) if arguments.get("likelihood") == "bernoulli" else X
    with pytest.raises(ValueError, match=told):
        model.fit(X)


def test_what_moving_parts_lack_is_said(labeled):
    X, _, model = labeled
    with pytest.raises(ValueError, match=r'by=.* must be "row" or "part"'):
        Translations((9, 9), by="pixel")
    assert not hasattr(model, "canvas_model")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match=r"use reconstruct\(X\) or sample\(states=\)"):
        model.inverse_transform(np.zeros((1, 4)))
    for refused in (
        lambda: model.summary(),
        lambda: model.state_tree(0),
        lambda: model.imputations(X),
        lambda: model.impute(X, n_imputations=2),
        lambda: model.sample(2, given={"0": 1.0}),
    ):
        with pytest.raises(ValueError, match="not available for parts that move on their own"):
            refused()


@pytest.mark.slow
def test_parts_of_several_states_that_move_a_little_are_found():
    rng = np.random.default_rng(0)
    looks = rng.normal(size=(2, 3, 4, 9))  # of two bands of a picture, in three states
    states, shift = rng.integers(3, size=(250, 2)), rng.integers(-1, 2, size=(250, 2, 2))
    images = np.zeros((250, 14, 13))
    for i, k in itertools.product(range(250), range(2)):
        top, left = 2 + 6 * k + shift[i, k, 0], 2 + shift[i, k, 1]
        images[i, top : top + 4, left : left + 9] = looks[k, states[i, k]]
    X = images.reshape(250, -1) + 0.1 * rng.normal(size=(250, 182))
    moves = Translations((14, 13), max_shift=1, by="part")
    model = MCVQ(2, 3, transformations=moves, random_state=0, tol=0.1).fit(X)
    found = -model.shifts(X)
    right = np.zeros((2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        apart = found[:, a] - shift[:, b]
        right[a, b] = np.mean((apart == np.median(apart, axis=0)).all(axis=1))
    assert max(min(right[0, 0], right[1, 1]), min(right[0, 1], right[1, 0])) > 0.9


def test_dask_arrays_give_the_same_model():
    da = pytest.importorskip("dask.array")
    X = moving_shapes(20, 0)[0]
    moves = Translations((9, 9), max_shift=1, by="part")
    model = MCVQ(1, 1, transformations=moves, tol=100.0, random_state=0).fit(X)
    lazy = da.from_array(X, chunks=(10, 81))
    assert_allclose(clone(model).fit(lazy).masks_, model.masks_)
    assert_array_equal(np.asarray(model.shifts(lazy)), model.shifts(X))
