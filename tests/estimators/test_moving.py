"""Estimators of rows that have undergone unknown transformations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from partwise import MCVQ, Checkpoint, IndexMaps, Rotations, Scalings, Translations, load
from partwise.fitted import fitted_of
from partwise.report import collect
from tests.common.helpers import assert_never_falls


def shifted(n=200, seed=0, side=8, most=2, noise=0.15):
    """Windows of a scene with two parts of two states, their shifts and states."""
    rng = np.random.default_rng(seed)
    big = side + 2 * most
    scenes = np.zeros((2, 2, big, big))
    scenes[0, 0, 3:6, 3:6] = 1
    scenes[0, 1, 3:6, 4] = scenes[0, 1, 4, 3:6] = 1
    scenes[1, 0, 7:9, 5:9] = 1
    scenes[1, 1, 6:9, 7] = 1
    states = rng.integers(2, size=(n, 2))
    shift = rng.integers(-most, most + 1, size=(n, 2))
    X = np.empty((n, side * side))
    for i, ((a, b), (y, x)) in enumerate(zip(states, shift, strict=True)):
        scene = scenes[0, a] + scenes[1, b]
        X[i] = scene[most + y : most + y + side, most + x : most + x + side].ravel()
    return X + noise * rng.normal(size=X.shape), shift, states


def right(found, true, within=0):
    """Share of shifts that are right, but for one common shift."""
    apart = found - true
    common = np.rint(np.median(apart, axis=0))
    return np.mean(np.abs(apart - common).max(axis=1) <= within)


@pytest.fixture(scope="module")
def scene():
    X, shift, _ = shifted()
    model = MCVQ(2, 2, random_state=0, transformations=Translations((8, 8), max_shift=2)).fit(X)
    return X, shift, model


def test_shifts_and_states_are_found(scene):
    X, shift, model = scene
    assert right(model.shifts(X), shift) > 0.97
    new, new_shift, _ = shifted(seed=1)
    assert right(model.shifts(new), new_shift) > 0.95
    static = MCVQ(2, 2, random_state=0).fit(X)
    assert model.score(new) > static.score(new) + 5
    assert_never_falls(model.lower_bounds_)
    assert model.canvas_shape_ == (12, 12)
    assert model.gates_.shape == (144, 2)
    assert_allclose(model.transformation_priors_.sum(), 1.0)


def test_verbs_answer_for_rows(scene):
    X, _, model = scene
    posterior = model.transform(X)
    assert_allclose(posterior[:, :2].sum(axis=1), 1.0)
    assert model.predict_states(X).shape == (len(X), 2)
    assert_allclose(model.shift_proba(X).sum(axis=1), 1.0)
    rebuilt = model.reconstruct(X)
    assert np.sqrt(np.mean((rebuilt - X) ** 2)) < 0.25
    aligned = model.align(X)
    assert aligned.shape == (len(X), 144)
    assert_array_equal((~np.isnan(aligned)).sum(axis=1), 64)
    gaps = X.copy()
    hidden = np.random.default_rng(2).random(X.shape) < 0.2
    gaps[hidden] = np.nan
    filled = model.impute(gaps)
    assert_array_equal(filled[~hidden], X[~hidden])
    assert np.sqrt(np.mean((filled - X)[hidden] ** 2)) < 0.3
    lower, upper = model.predict_interval(X[:20])
    assert np.mean((lower <= X[:20]) & (X[:20] <= upper)) > 0.8
    assert model.anomaly_scores(X[:5]).shape == (5, 2)
    cells = model.score_cells(gaps, *np.nonzero(hidden), X[hidden])
    assert np.mean(cells) > -1.0
    told = model.explain(X[0])
    assert [part["part"] for part in told] == [0, 1]
    assert told[0]["transformation"] == model.shifts(X[:1])[0].tolist()
    names = {fitted_of(model).column_name(d) for d in range(64)}
    assert all(column["column"] in names for column in told[0]["columns"])
    rows, drawn = model.sample(7, random_state=0)
    assert rows.shape == (7, 64)
    assert drawn.shape == (7, 2)
    assert model.inverse_transform(posterior).shape == (len(X), 144)
    assert np.isfinite(model.bic(X))


def test_no_shift_equals_the_plain_model():
    X, _, _ = shifted(120)
    X[::7, ::5] = np.nan
    plain = MCVQ(3, 3, random_state=0).fit(X)
    still = clone(plain).set_params(transformations=Translations((8, 8), max_shift=0)).fit(X)
    assert_allclose(still.lower_bounds_, plain.lower_bounds_, rtol=1e-10)
    assert_allclose(still.gates_, plain.gates_, atol=1e-8)
    assert_allclose(still.means_, plain.means_, atol=1e-8)
    assert_allclose(still.score_samples(X), plain.score_samples(X), rtol=1e-9)
    assert_allclose(still.impute(X), plain.impute(X), atol=1e-8)
    assert_allclose(still.transform(X), plain.transform(X), atol=1e-8)
    assert_array_equal(still.shifts(X), 0)


@pytest.mark.ci
def test_threads_change_nothing_and_files_keep_all(scene, tmp_path):
    X, _, model = scene
    two = clone(model).set_params(n_jobs=2).fit(X)
    assert_allclose(two.lower_bounds_, model.lower_bounds_, rtol=1e-12)
    model.save(tmp_path / "moving.safetensors")
    again = load(tmp_path / "moving.safetensors")
    assert again.transformations == model.transformations
    assert_allclose(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.shifts(X), model.shifts(X))


@pytest.mark.ci
def test_classes_of_shifted_rows():
    X, _, states = shifted(240)
    moves = Translations((8, 8), max_shift=2)
    model = MCVQ(2, 2, random_state=0, transformations=moves).fit(X, states[:, 0])
    new, _, new_states = shifted(100, seed=1)
    assert np.mean(model.predict(new) == new_states[:, 0]) > 0.9


@pytest.mark.ci
def test_other_maps_and_likelihoods_go_through():
    rng = np.random.default_rng(0)
    series = np.stack(
        [np.roll(np.r_[np.ones(4), np.zeros(8)], s) for s in rng.integers(12, size=90)]
    )
    wrapped = IndexMaps([[(d + s) % 12 for d in range(12)] for s in range(12)])
    for likelihood in ("bernoulli", "poisson"):
        model = MCVQ(1, 1, likelihood=likelihood, transformations=wrapped, random_state=0)
        model.fit(series)
        assert np.abs(model.impute(series) - series).max() <= 0.5
    X, _, _ = shifted(60)
    for moves in (Rotations((8, 8)), Scalings((8, 8))):
        model = MCVQ(2, 2, transformations=moves, random_state=0, max_iter=500).fit(X)
        assert_never_falls(model.lower_bounds_)
        assert np.isfinite(model.score(X))


@pytest.mark.ci
def test_checkpoint_of_a_moving_fit(tmp_path):
    X, _, _ = shifted(80)
    model = MCVQ(2, 2, random_state=0, transformations=Translations((8, 8), max_shift=1))
    plain = clone(model).fit(X)
    again = clone(model).fit(X, checkpoint=Checkpoint(tmp_path / "fit", every=0))
    assert_allclose(again.lower_bounds_, plain.lower_bounds_)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Translations((8, 8), max_shift=8), "is not smaller than the image of 8 x 8"),
        (lambda: Translations((8, 8), max_shift=-1), "must be a whole number"),
        (lambda: Translations((8,)), "two positive whole numbers"),
        (lambda: Rotations((8, 8), max_angle=200), "from 0 to 180"),
        (lambda: Scalings((8, 8), max_factor=0.5), "from 1 to 4"),
        (lambda: IndexMaps([[0, 1], [1]]), "inhomogeneous|same length"),
        (lambda: IndexMaps([[0, -1]]), "column numbers from 0"),
    ],
)
def test_impossible_transformations_are_refused(make, told):
    with pytest.raises(ValueError, match=told):
        make()


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        ({}, np.zeros((20, 49)), "columns, but X has 49; give the image_shape"),
        ({"gating": "factorised"}, None, 'gating="annealed"'),
        ({"inference": "gibbs"}, None, 'inference="variational"'),
        ({"n_parts": "auto"}, None, "numbers of parts and states"),
        ({"likelihood": "categorical"}, None, "same in every column"),
        ({"likelihood": "auto"}, None, "columns of one kind"),
        ({}, "sparse", "dense X"),
    ],
)
def test_what_does_not_go_with_transformations_is_said(arguments, data, told):
    X = shifted(20)[0] if data is None or isinstance(data, str) else data
    X = np.rint(np.abs(X)) if arguments.get("likelihood") == "categorical" else X
    if isinstance(data, str):
        X = sparse.csr_matrix(X)
    model = MCVQ(**{"n_parts": 2, "n_states": 2, **arguments}, random_state=0)
    model.set_params(transformations=Translations((8, 8), max_shift=1))
    with pytest.raises(ValueError, match=told):
        model.fit(X)


def test_what_describes_columns_is_asked_of_the_canvas(scene):
    X, _, model = scene
    canvas, aligned = model.canvas_model(), model.align(X)
    assert canvas.transformations is None
    assert canvas.predict_states(aligned).shape == (len(X), 2)
    assert canvas.summary() is not None
    for refused in (
        lambda: model.summary(),
        lambda: model.anomalous_cells(X),
        lambda: model.sample(2, given={"0": 1.0}),
    ):
        with pytest.raises(ValueError, match="canvas_model"):
            refused()


def test_the_page_is_that_of_the_canvas(scene):
    X, _, model = scene
    found = collect(model, X[:10])
    aligned, shape = model.align(X[:10]), model.canvas_shape_
    expected = collect(model.canvas_model(), aligned, image_shape=shape)
    assert found["call"] == repr(model)
    for name in ("parts", "live", "data"):
        assert found[name] == expected[name], name
    assert found["kind"] == "image"


@pytest.mark.ci
def test_imputations_sample_the_shift_of_a_row(scene):
    X, _, model = scene
    few = X[:3].copy()
    few[:, ::3] = np.nan
    drawn = np.stack(model.impute(few, n_imputations=400, random_state=0))
    again = np.stack(model.impute(few, n_imputations=400, random_state=0))
    assert_array_equal(drawn, again)
    missing = np.isnan(few)
    assert_array_equal(drawn[:, ~missing], np.broadcast_to(few[~missing], (400, (~missing).sum())))
    error = drawn.std(axis=0)[missing] / np.sqrt(400)
    assert np.all(np.abs(drawn.mean(axis=0) - model.impute(few))[missing] < 5 * error + 1e-6)


def test_verbs_of_transformations_need_some():
    model = MCVQ(2, 2, random_state=0)
    assert not hasattr(model, "shifts")
    with pytest.raises(AttributeError) as raised:
        model.align([[0.0]])
    assert "set transformations" in str(raised.value.__cause__)
    moving = MCVQ(2, 2, transformations=Translations((8, 8)))
    assert not hasattr(moving, "partial_fit")


@pytest.mark.parametrize(
    ("shape", "most", "text"), [(64, 1, "image_shape=64"), ((8, 8), 1.5, "max_shift=1.5")]
)
def test_shapes_and_shifts_that_are_no_numbers_of_pixels(shape, most, text):
    with pytest.raises(ValueError, match=text):
        Translations(shape, max_shift=most)
