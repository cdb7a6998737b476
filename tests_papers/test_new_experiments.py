"""Helpers of the experiments on digits and on occluded faces; the runs themselves are too long."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.svm import SVC

from partwise import MCFA, MCVQ, make_faces
from partwise_papers.experiments import faces_parts, occlusion, usps_features
from partwise_papers.experiments.bayesian_pca import PrincipalMixture


@pytest.fixture(scope="module")
def faces():
    return make_faces(150, random_state=0)


@pytest.fixture(scope="module")
def mcfa(faces):
    return MCFA(3, [2, 3, 1], random_state=0, tol=0.5).fit(faces.data)


@pytest.fixture(scope="module")
def mcvq(faces):
    return MCVQ(3, [4, 2, 3], random_state=0).fit(faces.data)


def test_weights_give_factors_the_size_of_their_pixels(faces, mcfa):
    weights = usps_features.factor_weights(mcfa)
    assert weights.shape == mcfa.get_feature_names_out().shape
    # One factor moved by 1 moves the row by that factor's weight. Gates are all but 0 or 1.
    factors = np.zeros((1 + len(weights), len(weights)))
    factors[1:] = np.eye(len(weights))
    rows = mcfa.inverse_transform(factors)
    np.testing.assert_allclose(np.linalg.norm(rows[1:] - rows[0], axis=1), weights, rtol=0.01)


def test_distances_to_states_are_those_of_own_columns(faces, mcvq):
    found = usps_features.state_distances(faces.data, mcvq)
    names = mcvq.get_feature_names_out()
    assert found.shape == (150, len(names))
    own = mcvq.parts_ == 2
    column = list(names).index("part2_state1")
    away = faces.data[7, own] - mcvq.means_[2, 1, own]
    assert found[7, column] == pytest.approx(np.sqrt(np.sum(away**2)))


def test_pipelines_keep_labels_from_the_models(faces, mcfa, mcvq):
    found = usps_features.pipelines({"MCFA": mcfa}, {"MCVQ": mcvq})
    assert len(found) == 4
    for pipeline in found.values():
        pipeline = clone(pipeline).fit(faces.data, faces.target)  # searches clone as well
        assert isinstance(pipeline[-1], SVC)
        assert pipeline.predict(faces.data).shape == (150,)
    assert not hasattr(mcfa, "classes_")
    assert not hasattr(mcvq, "classes_")


def test_covers_are_rectangles_over_a_quarter_to_a_half():
    covered = occlusion.cover(500, (19, 12), np.random.default_rng(0))
    share = covered.mean(axis=1)
    assert share.min() >= 0.25
    assert share.max() <= 0.5
    images = covered.reshape(-1, 19, 12)
    boxes = images.any(axis=2).sum(axis=1) * images.any(axis=1).sum(axis=1)
    np.testing.assert_array_equal(boxes, covered.sum(axis=1))
    assert covered.any(axis=0).all()


def test_noise_has_the_moments_of_its_image(faces):
    covered = occlusion.cover(150, faces.image_shape, np.random.default_rng(0))
    noisy = occlusion.with_noise(faces.data, covered, np.random.default_rng(1))
    np.testing.assert_array_equal(noisy[~covered], faces.data[~covered])
    mean, deviation = faces.data.mean(axis=1, keepdims=True), faces.data.std(axis=1, keepdims=True)
    standard = ((noisy - mean) / deviation)[covered]
    assert abs(standard.mean()) < 0.02
    assert abs(standard.std() - 1) < 0.02


def test_training_sets_hold_the_same_faces(faces):
    problem = occlusion.Problem(faces.data, None, faces.data[:5], faces.image_shape, 5, 4, 2)
    sets = occlusion.training_sets(problem, 0)
    assert [len(X) for X in sets.values()] == [150, 300, 300, 300, 150, 150]
    for name, noisy, holed in (
        ("half", sets["half noisy"], sets["half NaN"]),
        ("twice", sets["each twice, one noisy"], sets["each twice, one NaN"]),
    ):
        clean = faces.data if name == "half" else np.vstack([faces.data] * 2)
        seen = ~np.isnan(holed)
        assert np.mean(~seen.all(axis=1)) == 0.5
        np.testing.assert_array_equal(holed[seen], clean[seen])
        np.testing.assert_array_equal(noisy == clean, seen)


def test_the_rival_of_digits_is_probabilistic_pca_with_a_least_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * np.array([5.0, 4.0, 3.0, 1.0, 0.5, 0.5])
    pca = PCA(3).fit(X)
    # Variances of maximum likelihood: n in place of n - 1.
    pca.explained_variance_ = pca.explained_variance_ * 199 / 200
    pca.noise_variance_ = pca.noise_variance_ * 199 / 200
    assert_allclose(PrincipalMixture(1, 3, 0.0).fit(X).score_samples(X), pca.score_samples(X))
    pca.noise_variance_ = 2.0
    assert_allclose(PrincipalMixture(1, 3, 2.0).fit(X).score_samples(X), pca.score_samples(X))


def test_fits_that_differ_by_row_have_a_range_though_equally_good():
    rng, n_rows = np.random.default_rng(0), 400
    rows = rng.normal(-300, 50, n_rows)
    # As far apart as they like, fits whose rows all differ by as much are not told apart by rows.
    assert_allclose(faces_parts.range_if_equal(rows + np.array([[0.0], [7.0]]), rng), 0, atol=1e-9)
    # Rows differ by 1 or -1: the mean of n is nearly normal, of variance 1 / n.
    differing = np.stack([rows, rows + np.tile([1.0, -1.0], n_rows // 2)])
    expected = np.sqrt(2 / (np.pi * n_rows))
    assert_allclose(faces_parts.range_if_equal(differing, rng), expected, rtol=0.1)
