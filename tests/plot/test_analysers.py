"""Displays of Bayesian PCA and its mixtures."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise import CVQ, BayesianPCA, BayesianPCAMixture, make_shapes
from partwise.plot import ComponentsDisplay, DensityRocDisplay, HintonDisplay, SamplesDisplay
from tests.common.manifolds import gaussian, near_curve, near_sphere


@pytest.fixture(scope="module")
def mixture():
    X = near_curve(200, np.random.default_rng(0))
    return X, BayesianPCAMixture(5, random_state=0).fit(X)


def test_directions_that_were_switched_off_are_empty():
    model = BayesianPCA().fit(gaussian(np.random.default_rng(0)))
    display = HintonDisplay.from_estimator(model)
    (W,) = display.loadings
    assert_array_equal(W[:, :3], model.components_.T)
    assert not W[:, 3:].any()
    assert_allclose(display.variances[:3], 1 / model.relevances_)
    assert len(display.axes_) == 2


def test_largest_components_are_shown(mixture):
    _, model = mixture
    display = HintonDisplay.from_estimator(model)
    assert len(display.loadings) == 4
    assert "component" in display.titles[0]
    share = [float(title.partition(": ")[2].rstrip("%")) for title in display.titles]
    assert share == sorted(share, reverse=True)


def test_components_over_rows(mixture):
    X, model = mixture
    display = ComponentsDisplay.from_estimator(model, X)
    assert display.directions.shape == (5, 1, 2)
    assert "5 components of dimension 1" in display.ax_.get_title()
    solid = near_sphere(120, np.random.default_rng(0))
    three = BayesianPCAMixture(4, random_state=0).fit(solid)
    assert ComponentsDisplay.from_estimator(three, solid).ax_.name == "3d"


def test_new_rows_of_each_class():
    X = near_curve(60, np.random.default_rng(0))
    y = np.repeat(["a", "b"], 30)
    model = BayesianPCAMixture(1, random_state=0).fit(X, y)
    display = SamplesDisplay.from_estimator(model, n_samples=3)
    assert display.samples.shape == (2, 3, 2)
    assert display.labels == ["a", "b"]
    with pytest.raises(ValueError, match="no parts"):
        SamplesDisplay.from_estimator(model, hybrid={0: "a"})
    shapes = make_shapes()
    model = BayesianPCA(5).fit(shapes.data[:200])
    display = SamplesDisplay.from_estimator(model, n_samples=2, image_shape=shapes.image_shape)
    assert display.samples.shape == (1, 2, 121)


def test_roc():
    scores = {"right": [2.0, 3.0, 0.0, 1.0], "even": [0.0, 3.0, 1.0, 2.0]}
    display = DensityRocDisplay.from_scores(scores, [True, True, False, False])
    assert display.areas == {"right": 1.0, "even": 0.5}
    assert len(display.ax_.lines) == 3


def test_displays_say_what_they_are_for(mixture):
    X, model = mixture
    cvq = CVQ(2, 2, random_state=0).fit(X)
    with pytest.raises(TypeError, match="HintonDisplay is for BayesianPCA"):
        HintonDisplay.from_estimator(cvq)
    with pytest.raises(TypeError, match="ComponentsDisplay is for BayesianPCAMixture"):
        ComponentsDisplay.from_estimator(BayesianPCA().fit(X), X)
    with pytest.raises(ValueError, match="two or three columns"):
        ComponentsDisplay.from_estimator(model, X[:, :1])
