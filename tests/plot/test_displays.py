"""What the Displays draw, and from what."""

import subprocess
import sys
from copy import copy

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy import sparse
from sklearn.exceptions import NotFittedError

from partwise import CVQ, MCFA, MCVQ, make_shapes
from partwise.plot import (
    BoundDisplay,
    ClassPriorsDisplay,
    ClassTableDisplay,
    GatesDisplay,
    LoadingsDisplay,
    ReconstructionDisplay,
    SamplesDisplay,
    StatesDisplay,
)
from partwise.plot._draw import MISSING
from partwise.plot.view import as_shown, percent, shades, take_rows, view


@pytest.fixture(scope="module")
def shapes():
    return make_shapes()


@pytest.fixture(scope="module")
def model(shapes):
    return MCVQ(n_parts=3, n_states=(9, 4, 9), random_state=0).fit(shapes.data)


@pytest.fixture(scope="module")
def table():
    """Two groups of columns with two and three clear states, a constant column, and holes."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(2, size=200), rng.integers(3, size=200)
    left = 10.0 * first[:, None] + rng.normal(size=(200, 3))
    right = 0.1 * second[:, None] + 0.01 * rng.normal(size=(200, 4))
    data = np.column_stack([right, left, np.ones(200)])
    data[3, 0] = data[5, 4] = np.nan
    names = ["r1", "r2", "a $10 name that goes on and on", "r4", "l1", "l2", "l3", "same"]
    return pd.DataFrame(data, columns=names)


@pytest.fixture(scope="module")
def table_model(table):
    return MCVQ(n_parts=2, n_states=(3, 3), random_state=0).fit(table)


@pytest.fixture(scope="module")
def labels(shapes):
    """Two classes: the first part of a row is high up, or low down, as a rule."""
    return np.where(np.arange(729) // 81 < 4, "high", "low")


@pytest.fixture(scope="module")
def class_model(shapes, labels):
    return MCVQ(n_parts=3, n_states=9, random_state=0).fit(shapes.data, labels)


@pytest.fixture(scope="module")
def factor_model(shapes, labels):
    """Parts with different numbers of factors, and classes."""
    return MCFA(n_parts=3, n_factors=(2, 3, 4), tol=0.1, random_state=0).fit(shapes.data, labels)


@pytest.fixture(scope="module")
def factor_table(table):
    return MCFA(n_parts=2, n_factors=2, random_state=0).fit(table)


def drawn(display):
    """Render, so that errors which wait until then come out; warnings are errors."""
    display.figure_.canvas.draw()
    return display


def image_of(ax):
    return np.ma.getdata(ax.images[0].get_array())


@pytest.mark.ci
def test_matplotlib_waits_until_something_is_drawn():
    code = "import partwise.plot, sys; print('matplotlib' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "False"


def test_gates_as_images(model, shapes):
    display = drawn(GatesDisplay.from_estimator(model, image_shape=shapes.image_shape))
    assert len(display.axes_) == 3
    for k, ax in enumerate(display.axes_):
        np.testing.assert_array_equal(image_of(ax), model.gates_[:, k].reshape(11, 11))
        assert f"part {k}" in ax.get_title()
        assert f"{(model.parts_ == k).sum()} pixels" in ax.get_title()


def test_gates_as_table(table_model):
    display = drawn(GatesDisplay.from_estimator(table_model))
    (ax,) = display.axes_
    labels = [label.get_text().replace(r"\$", "$") for label in ax.get_yticklabels()]
    assert len(labels) == 8
    assert labels[-1] == "same"  # background last
    names = [name[:23] + "…" if len(name) > 24 else name for name in table_model.feature_names_in_]
    order = [names.index(label) for label in labels]
    np.testing.assert_array_equal(image_of(ax), table_model.gates_[order])
    assert list(table_model.parts_[order]) == [*sorted(table_model.parts_[order[:-1]]), -1]


def test_many_columns_go_without_names():
    rng = np.random.default_rng(0)
    fitted = MCVQ(n_parts=2, n_states=2, random_state=0).fit(rng.normal(size=(50, 80)))
    ax = drawn(GatesDisplay.from_estimator(fitted)).axes_[0]
    assert len(ax.get_yticks()) == 0
    assert "80 columns" in ax.get_ylabel()


def test_states_as_images(model, shapes):
    display = drawn(
        StatesDisplay.from_estimator(model, image_shape=shapes.image_shape, min_prior=0)
    )
    assert [len(states) for states in display.numbers] == [9, 4, 9]
    assert display.axes_.shape == (3, 10)
    neutral = sum(display.limits) / 2
    for k, row in enumerate(display.axes_):
        priors = display.shares[k]
        assert (np.diff(priors) <= 0).all()
        np.testing.assert_array_equal(priors, model.state_priors_[k, display.numbers[k]])
        np.testing.assert_array_equal(image_of(row[0]), model.gates_[:, k].reshape(11, 11))
        for i, j in enumerate(display.numbers[k]):
            # Seen from the neutral gray it is the papers' product of gate and mean.
            product = model.gates_[:, k] * (model.means_[k, j] - neutral)
            np.testing.assert_allclose(image_of(row[1 + i]).ravel() - neutral, product, atol=1e-12)
            assert row[1 + i].get_title() == f"state {j}: {percent(priors[i])}"
    assert not display.axes_[1, 5].axison  # the part with four states


def test_states_where_the_gate_is_closed_are_mid_gray(model, shapes):
    display = StatesDisplay.from_estimator(model, image_shape=shapes.image_shape)
    low, high = display.limits
    closed = model.gates_[:, 0] < 1e-9
    assert closed.any()
    np.testing.assert_allclose(display.pictures[0][:, closed], (low + high) / 2, atol=1e-6)


def test_rare_states_are_left_out_unless_asked_for(model):
    shown = StatesDisplay.from_estimator(model, max_columns=5)
    everything = StatesDisplay.from_estimator(model, max_columns=5, min_prior=0)
    assert all((priors >= 0.005).all() for priors in shown.shares)
    assert sum(map(len, everything.numbers)) == 22


def test_states_as_table(table_model, table):
    display = drawn(StatesDisplay.from_estimator(table_model, max_columns=2))
    assert len(display.axes_) == 2
    for k, ax in enumerate(display.axes_):
        own = np.flatnonzero(table_model.parts_ == k)
        assert display.n_columns[k] == len(own)
        assert set(display.columns[k]) <= set(own)
        assert len(display.columns[k]) == 2
        assert "the 2 most informative" in ax.get_title()
        # In standard deviations: the states of a part average to nothing, weighted by priors.
        np.testing.assert_allclose(display.shares[k] @ display.pictures[k], 0, atol=0.05)
        assert np.abs(display.pictures[k]).max() > 0.8


def test_a_single_bound_is_no_curve():
    display = BoundDisplay(lower_bounds=np.array([-3.25])).plot()
    assert not display.ax_.lines
    assert "-3.25" in display.ax_.texts[0].get_text()


def test_bound(shapes):
    # From random parameters, so that there are many iterations to draw.
    model = MCVQ(3, 9, gating="tied", init="random", random_state=0).fit(shapes.data)
    display = drawn(BoundDisplay.from_estimator(model, color="black"))
    (line,) = display.ax_.lines
    np.testing.assert_array_equal(line.get_ydata(), model.lower_bounds_)
    assert line.get_color() == "black"
    assert display.ax_.get_xlabel() == "EM iteration"
    assert display.ax_.get_title().endswith("converged")
    assert display.figure_ is display.ax_.figure


def test_bound_says_when_a_fit_was_cut_short():
    display = BoundDisplay(lower_bounds=np.array([1.0, 2.0]), converged=False).plot()
    assert "before converging" in display.ax_.get_title()


def test_reconstruction_as_images(model, shapes):
    rows = shapes.data[[5, 400]].copy()
    rows[1, :30] = np.nan
    display = drawn(
        ReconstructionDisplay.from_estimator(model, rows, image_shape=shapes.image_shape)
    )
    assert display.axes_.shape == (2, 5)
    states = model.predict_states(rows)
    neutral = sum(display.limits) / 2
    for i, row in enumerate(display.axes_):
        np.testing.assert_array_equal(image_of(row[1]), model.reconstruct(rows)[i].reshape(11, 11))
        for k, ax in enumerate(row[2:]):
            assert ax.get_xlabel() == f"state {states[i, k]}"
            product = model.gates_[:, k] * (model.means_[k, states[i, k]] - neutral)
            np.testing.assert_allclose(image_of(ax).ravel() - neutral, product, atol=1e-12)
    original = display.axes_[1, 0].images[0]
    colors = original.cmap(original.norm(original.get_array()))
    np.testing.assert_allclose(colors.reshape(-1, 4)[:30], [to_rgba(MISSING)] * 30)
    assert not (colors.reshape(-1, 4)[30:] == to_rgba(MISSING)).all(axis=1).any()
    assert display.figure_.legends


def test_reconstruction_without_holes_needs_no_legend(model, shapes):
    display = ReconstructionDisplay.from_estimator(
        model, shapes.data, rows=[7], image_shape=shapes.image_shape
    )
    assert not display.figure_.legends
    assert display.axes_[0, 0].get_ylabel() == "row 7"


def test_reconstruction_as_table(table_model, table):
    display = drawn(ReconstructionDisplay.from_estimator(table_model, table, rows=6))
    assert display.originals.shape == (6, 8)
    shown = [text.get_text() for text in display.axes_[1].texts]
    states = table_model.predict_states(table[:6])
    assert shown == [f"state {j}" for k in range(2) for j in states[:, k]]
    assert np.ma.getmaskarray(display.axes_[0].images[0].get_array()).sum() == 2


def test_reconstruction_needs_rows(table_model, table):
    with pytest.raises(ValueError, match="no rows"):
        ReconstructionDisplay.from_estimator(table_model, table, rows=0)


def test_loadings_as_images(factor_model, shapes):
    display = drawn(LoadingsDisplay.from_estimator(factor_model, image_shape=shapes.image_shape))
    low, high = display.limits
    assert low == -high
    for k, row in enumerate(display.axes_):
        assert len(display.numbers[k]) == factor_model.n_factors_[k] <= (2, 3, 4)[k]
        assert (np.diff(display.shares[k]) <= 0).all()
        assert 0 < display.shares[k].sum() <= 1
        for ax, j in zip(row[1:], display.numbers[k], strict=False):
            product = factor_model.gates_[:, k] * factor_model.loadings_[k, :, j]
            np.testing.assert_allclose(image_of(ax).ravel(), product, atol=1e-12)
            assert ax.get_title().startswith(f"factor {j}: ")


def test_loadings_as_table(factor_table, table):
    display = drawn(LoadingsDisplay.from_estimator(factor_table, max_columns=3))
    factors = factor_table.transform(table)
    for k, ax in enumerate(display.axes_):
        own = np.flatnonzero(factor_table.parts_ == k)
        assert f"part {k}: {len(own)} columns" in ax.get_title()
        for i, d in enumerate(display.columns[k]):
            s, x = factors[:, 2 * k + display.numbers[k][0]], table.iloc[:, d]
            known = x.notna()
            seen = np.corrcoef(s[known], x[known])[0, 1]
            assert display.pictures[k][0, i] == pytest.approx(seen, abs=0.1)


def test_gates_and_reconstructions_of_factors(factor_model, factor_table, shapes, table):
    gates = drawn(GatesDisplay.from_estimator(factor_model, image_shape=shapes.image_shape))
    np.testing.assert_array_equal(image_of(gates.axes_[1]).ravel(), factor_model.gates_[:, 1])
    display = drawn(
        ReconstructionDisplay.from_estimator(
            factor_model, shapes.data, rows=[3, 500], image_shape=shapes.image_shape
        )
    )
    # Seen from the neutral gray, the parts add up to the reconstruction, background aside.
    neutral = sum(display.limits) / 2
    own = factor_model.gates_.sum(axis=1) > 1 - 1e-9
    total = neutral + (display.pictures - neutral).sum(axis=1)
    np.testing.assert_allclose(total[:, own], display.reconstructions[:, own], atol=1e-6)
    in_words = display.labels[0][0]
    assert len(in_words.split(", ")) == factor_model.n_factors_[0]
    assert "-0.0" not in in_words
    drawn(ReconstructionDisplay.from_estimator(factor_table, table))


def test_class_priors_as_images(class_model, shapes):
    display = drawn(
        ClassPriorsDisplay.from_estimator(
            class_model, 1, image_shape=shapes.image_shape, min_prior=0
        )
    )
    assert display.axes_.shape == (2, 9)
    assert display.classes == ["high", "low"]
    np.testing.assert_allclose(display.priors.sum(axis=1), 1)
    for i, (state, bars) in enumerate(display.axes_.T):
        assert state.get_title() == f"state {display.numbers[i]}"
        heights = [bar.get_height() for bar in bars.patches]
        np.testing.assert_array_equal(heights, class_model.state_priors_[:, 1, display.numbers[i]])
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["high", "low"]


def test_class_priors_as_table(table):
    labels = np.where(np.arange(200) % 2, "odd", "$even")
    fitted = MCVQ(n_parts=2, n_states=3, random_state=0).fit(table, labels)
    display = drawn(ClassPriorsDisplay.from_estimator(fitted, 0, max_columns=2))
    np.testing.assert_array_equal(
        [image_of(ax).ravel() for ax in display.axes_[0]], display.pictures
    )
    assert len(display.columns) == 2


def test_class_priors_need_a_part_and_classes(class_model, factor_model, model):
    with pytest.raises(ValueError, match="from 0 to 2"):
        ClassPriorsDisplay.from_estimator(class_model, 3)
    with pytest.raises(ValueError, match="no classes"):
        ClassPriorsDisplay.from_estimator(model, 0)
    with pytest.raises(TypeError, match="no states"):
        ClassPriorsDisplay.from_estimator(factor_model, 0)


def test_samples_are_of_their_class(class_model, shapes):
    display = drawn(
        SamplesDisplay.from_estimator(
            class_model, n_samples=5, random_state=0, image_shape=shapes.image_shape,
            hybrid={0: "high", 1: {"high": 1, "low": 3}, 2: "low"},
        )
    )  # fmt: skip
    assert display.axes_.shape == (3, 5)
    assert display.labels == ["high", "low", "hybrid"]
    for label, rows in zip(["high", "low"], display.samples, strict=False):
        # Without noise a row is what its states say; most give away their class.
        np.testing.assert_allclose(class_model.reconstruct(rows), rows, atol=0.02)
        assert (class_model.predict(rows) == label).sum() >= 4
    again = SamplesDisplay.from_estimator(class_model, n_samples=5, random_state=0, classes=["low"])
    assert again.samples.shape == (1, 5, 121)
    with pytest.raises(ValueError, match="knows only"):
        SamplesDisplay.from_estimator(class_model, classes=["middle"])


def test_samples_of_factors_and_without_classes(factor_model, factor_table, model, shapes):
    display = SamplesDisplay.from_estimator(factor_model, n_samples=3, hybrid={0: "low"})
    assert display.samples.shape == (3, 3, 121)
    np.testing.assert_allclose(
        factor_model.inverse_transform(factor_model.transform(display.samples[0])),
        display.samples[0], atol=0.3,
    )  # fmt: skip
    plain = drawn(SamplesDisplay.from_estimator(model, image_shape=shapes.image_shape))
    assert plain.labels == [""]
    assert plain.axes_.shape == (1, 8)
    table = drawn(SamplesDisplay.from_estimator(factor_table, n_samples=4))
    assert table.samples.shape == (1, 4, 8)


def test_class_table(class_model, shapes, labels):
    rows, truth = shapes.data[::9], labels[::9]
    display = drawn(ClassTableDisplay.from_estimator(class_model, rows, truth))
    predicted = class_model.predict(rows)
    for i, label in enumerate(display.labels):
        for j, name in enumerate(display.classes):
            assert display.counts[i, j] == np.sum((truth == label) & (predicted == name))
    assert [text.get_text() for text in display.ax_.texts] == [str(n) for n in display.counts.flat]
    assert str(display).splitlines()[-1].split() == [
        "total", *map(str, display.counts.sum(axis=0)), str(len(rows)),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="81 rows"):
        ClassTableDisplay.from_estimator(class_model, rows, truth[:5])


def test_class_table_keeps_empty_clusters(class_model, shapes, labels):
    rows = shapes.data[labels == "low"][-20:]
    display = ClassTableDisplay.from_estimator(class_model, rows, np.arange(20) % 3)
    assert display.counts.shape == (3, 2)
    assert display.labels == ["0", "1", "2"]
    some = ClassTableDisplay.from_predictions(np.array(["a", None, "b"]), [0, 0, 1])
    np.testing.assert_array_equal(some.counts, [[1, 0], [0, 1]])


def test_displays_say_which_models_they_are_for(model, factor_model, shapes):
    with pytest.raises(TypeError, match="LoadingsDisplay"):
        StatesDisplay.from_estimator(factor_model)
    with pytest.raises(TypeError, match="StatesDisplay"):
        LoadingsDisplay.from_estimator(model)
    added = CVQ(n_parts=2, n_states=2, max_iter=500, tol=0.1, random_state=0).fit(shapes.data)
    with pytest.raises(TypeError, match="CVQ has no gates"):
        GatesDisplay.from_estimator(added)


@pytest.mark.parametrize("display_class", [GatesDisplay, StatesDisplay, SamplesDisplay])
def test_draws_where_it_is_told(model, shapes, display_class):
    figure = Figure(figsize=(6, 3))
    left, right = figure.subfigures(1, 2)
    display = display_class.from_estimator(model, image_shape=shapes.image_shape, figure=left)
    assert display.figure_ is left
    assert display.plot(figure=right, cmap="viridis") is display
    assert display.figure_ is right
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "display_class", [GatesDisplay, StatesDisplay, LoadingsDisplay, SamplesDisplay, BoundDisplay]
)
def test_not_fitted(display_class):
    with pytest.raises(NotFittedError):
        display_class.from_estimator(MCVQ())


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [((10, 11), "110 pixels.*121 columns"), ((121,), "two positive"), ((-11, -11), "two positive")],
)
def test_image_shape_that_does_not_fit(model, shape, complaint):
    with pytest.raises(ValueError, match=complaint):
        GatesDisplay.from_estimator(model, image_shape=shape)


def test_categories_are_shown_by_the_likeliest():
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=300)
    data = np.where(rng.random((300, 4)) < 0.9, 3.0 + 4.0 * state[:, None], 5.0)
    fitted = MCVQ(n_parts=1, n_states=2, likelihood="categorical", random_state=0).fit(data)
    means = view(fitted).vectors
    assert means.shape == (1, 2, 4)
    assert set(np.unique(means)) == {3.0, 7.0}
    drawn(StatesDisplay.from_estimator(fitted))


def test_sparse_rows_show_what_is_missing():
    stored = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 2.0]]))
    ratings, counts = MCVQ(), MCVQ(likelihood="poisson")
    np.testing.assert_array_equal(as_shown(stored, ratings), [[1, np.nan], [np.nan, 2]])
    np.testing.assert_array_equal(as_shown(stored, counts), [[1, 0], [0, 2]])
    np.testing.assert_array_equal(as_shown(stored, MCVQ(sparse_absent="zero")), [[1, 0], [0, 2]])
    rows, index = take_rows(stored, [1])
    assert rows.shape == (1, 2)
    assert list(index) == [1]


def test_class_priors_average_the_priors_of_states(model):
    with_classes = copy(model)
    first, second = np.roll(model.state_priors_, 1, axis=0), model.state_priors_
    with_classes.state_priors_ = np.stack([first, second])
    with_classes.class_priors_ = np.array([0.25, 0.75])
    np.testing.assert_allclose(view(with_classes).weights, 0.25 * first + 0.75 * second)


def test_shades_leave_out_the_extremes_of_noise():
    noisy = np.linspace(0, 1, 1001)
    noisy[0], noisy[-1] = -50, 50
    low, high = shades(noisy, np.array([0.2, 0.999]))
    assert low == pytest.approx(0.01)
    assert high == pytest.approx(0.999)
    assert shades(np.full(3, np.nan), np.full(3, 2.0)) == (1.5, 2.5)


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.004, "<1 %"), (0.126, "13 %"), (1, "100 %")]
)
def test_percent(share, text):
    assert percent(share) == text


def test_factors_of_units_whose_squares_overflow_are_viewed_without_a_warning():
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = MCFA(1, 1, random_state=0).fit(X)
    model.loadings_ = model.loadings_ * 1e200
    with np.errstate(over="raise"):
        view(model)
