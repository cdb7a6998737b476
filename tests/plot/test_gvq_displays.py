"""Displays of features and codes hold what they show, and draw it."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from partwise import GVQ, make_shapes
from partwise.plot import AssociationDisplay, CodebookDisplay, CodesDisplay, FeaturesDisplay


@pytest.fixture(scope="module", params=[{}, {"n_sets": 3}, {"n_values": 3, "n_sets": 2}], ids=str)
def model(request):
    return GVQ(3, random_state=0, tol=0.1, **request.param).fit(make_shapes().data)


def test_features(model):
    shapes = make_shapes()
    display = FeaturesDisplay.from_estimator(model, image_shape=shapes.image_shape)
    M, atoms = model.n_sets, 3 * (model.n_values - 1)
    assert display.axes_.shape == (M, atoms + 1)
    assert_allclose(display.pictures[-1][-1], model.origins_[-1])
    assert_allclose(display.pictures[0][0], model.features_.reshape(M, atoms, -1)[0, 0])
    assert FeaturesDisplay.from_estimator(model).axes_.shape == (M,)
    with pytest.raises(ValueError, match="image_shape"):
        FeaturesDisplay.from_estimator(model, image_shape=(3, 3))
    with pytest.raises(NotFittedError):
        FeaturesDisplay.from_estimator(GVQ())


def test_most_representative_codes(model):
    X = make_shapes().data
    display = CodesDisplay.from_estimator(model, X, n_codes=7, image_shape=(11, 11))
    codes = model.encode(X)
    for code, share in zip(display.codes, display.shares, strict=True):
        assert_allclose(share, np.mean((codes == code).all(axis=1)))
    rarest = [np.mean((codes == c).all(axis=1)) for c in np.unique(codes, axis=0)]
    assert_allclose(np.sort(display.shares), np.sort(rarest)[-7:])
    assert_allclose(np.vstack(display.pictures), model.decode(display.codes))
    assert CodesDisplay.from_estimator(model, X, n_codes=4).plot(figure=Figure()).figure_


@pytest.mark.parametrize("D", [1, 2, 5])
def test_codebook_in_the_plane(D):
    X = np.random.default_rng(0).normal(size=(60, D))
    model = GVQ(3, n_sets=2, random_state=0, tol=0.1).fit(X)
    display = CodebookDisplay.from_estimator(model, X)
    assert [book.shape for book in display.codebook] == [(8, 2)] * 2
    for book, origin, features in zip(
        display.codebook, display.origins, display.features, strict=True
    ):
        assert_allclose(book[0], origin, atol=1e-9)
        assert_allclose(book[-1], origin + features.sum(axis=0), atol=1e-9)
    if D == 2:
        assert_allclose(display.rows, X)
    ax = Figure().subplots()
    assert display.plot(ax).ax_ is ax


def test_codebook_that_is_too_large():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = GVQ(13, random_state=0, max_iter=200, tol=0.5).fit(X)
    with pytest.raises(ValueError, match="8,192 codes"):
        CodebookDisplay.from_estimator(model, X)


def test_association_curves():
    errors = {"exact": np.ones((3, 10)), "mean field": np.random.default_rng(0).random((3, 10))}
    display = AssociationDisplay.from_errors([2, 4, 6], errors, what="connections")
    assert_allclose(display.mean["exact"], 1.0)
    assert_allclose(display.spread["exact"], 0.0)
    assert display.ax_.get_xlabel() == "connections"
    assert len(display.ax_.get_legend().get_texts()) == 2
