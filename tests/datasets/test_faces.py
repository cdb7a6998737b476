"""Drawn faces: parts, states and conditions are what they are said to be."""

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

from partwise.datasets import make_faces

CONDITIONS = ["anger", "neutral", "scream", "smile", "sunglasses"]
PARTS = ["hair", "brows", "eyes", "nose", "mouth"]


@pytest.fixture(scope="module")
def faces():
    return make_faces(1000, random_state=0)


def joint_over_expression(faces):
    """P(condition, brows, eyes, mouth), from the tables."""
    brows, eyes, mouth = (faces.state_tables[k] for k in (1, 2, 4))
    return np.einsum("c,ca,cb,cd->cabd", faces.condition_priors, brows, eyes, mouth)


def test_fields(faces):
    assert faces.data.shape == (1000, 1024)
    assert faces.data.dtype == np.float64
    assert faces.image_shape == (32, 32)
    assert faces.target_names == CONDITIONS
    assert faces.part_names == PARTS
    assert faces.states.shape == (1000, 5)
    assert set(np.unique(faces.target)) == set(range(5))
    assert "occluded" not in faces
    assert "lighting" not in faces


def test_without_noise_a_face_is_the_sum_of_its_parts():
    faces = make_faces(300, noise_std=0.0, random_state=1)
    expected = faces.background + sum(
        appearance[state]
        for appearance, state in zip(faces.appearances, faces.states.T, strict=True)
    )
    np.testing.assert_array_equal(faces.data, expected)
    assert faces.data.min() >= 0
    assert faces.data.max() <= 1


def test_parts_are_disjoint_and_every_pixel_of_a_part_varies(faces):
    assert set(np.unique(faces.masks)) == set(range(-1, 5))
    assert (faces.background[faces.masks >= 0] == 0).all()
    for k, appearance in enumerate(faces.appearances):
        assert (appearance[:, faces.masks != k] == 0).all()
        assert np.ptp(appearance[:, faces.masks == k], axis=0).min() > 0.1
    clean = make_faces(1000, noise_std=0.0, random_state=0).data
    assert (np.ptp(clean[:, faces.masks < 0], axis=0) == 0).all()


def test_states_stand_out_of_the_noise(faces):
    for appearance in faces.appearances:
        distance = np.linalg.norm(appearance[:, None] - appearance, axis=2)
        other = ~np.eye(len(appearance), dtype=bool)
        assert distance[other].min() > 10 * 0.1
    for k, appearance in enumerate(faces.appearances):
        own = faces.masks == k
        gap = faces.data[:, None, own] - appearance[:, own]
        assert ((gap**2).sum(axis=2).argmin(axis=1) == faces.states[:, k]).mean() > 0.999


def test_noise_has_the_size_asked_for(faces):
    clean = make_faces(1000, noise_std=0.0, random_state=0)
    np.testing.assert_array_equal(clean.states, faces.states)
    rest = faces.data - clean.data
    assert abs(rest.mean()) < 0.001
    np.testing.assert_allclose(rest.std(), 0.1, rtol=0.01)
    assert faces.noise_std == 0.1


def test_tables_are_probabilities_and_faces_follow_them():
    faces = make_faces(20000, noise_std=0.0, random_state=2)
    np.testing.assert_allclose(faces.condition_priors, 0.2)
    for k, table in enumerate(faces.state_tables):
        assert table.shape == (5, len(faces.appearances[k])) == (5, len(faces.state_names[k]))
        np.testing.assert_allclose(table.sum(axis=1), 1)
        for condition in range(5):
            rows = faces.states[faces.target == condition, k]
            share = np.bincount(rows, minlength=table.shape[1]) / len(rows)
            np.testing.assert_allclose(share, table[condition], atol=0.035)


def test_only_brows_eyes_and_mouth_depend_on_the_condition(faces):
    for name, table in zip(PARTS, faces.state_tables, strict=True):
        same = np.ptp(table, axis=0).max() == 0
        assert same == (name in ("hair", "nose"))


def test_parts_together_tell_the_condition_but_no_part_alone(faces):
    joint = joint_over_expression(faces)
    assert joint.max(axis=0).sum() >= 0.985
    for k in (1, 2, 4):
        alone = (faces.condition_priors[:, None] * faces.state_tables[k]).max(axis=0).sum()
        assert alone < 0.8


def test_best_classifier_reaches_its_promise_on_drawn_faces():
    faces = make_faces(5000, noise_std=0.0, random_state=3)
    best = joint_over_expression(faces).argmax(axis=0)
    brows, eyes, mouth = faces.states[:, [1, 2, 4]].T
    accuracy = (best[brows, eyes, mouth] == faces.target).mean()
    np.testing.assert_allclose(accuracy, joint_over_expression(faces).max(axis=0).sum(), atol=0.006)


def test_parts_vary_within_every_condition(faces):
    for table in faces.state_tables:
        assert table.shape[1] >= 6
        entropy = -np.sum(table * np.log2(np.where(table > 0, table, 1)), axis=1)
        assert entropy.min() >= 1.2  # bits
        assert table.max() <= 0.5


@pytest.mark.parametrize("seed", range(3))
def test_dependence_between_pixels_shows_the_parts(seed):
    faces = make_faces(1000, random_state=seed)
    own = faces.masks >= 0
    affinity = np.corrcoef(faces.data[:, own].T) ** 2
    found = SpectralClustering(5, affinity="precomputed", random_state=seed).fit_predict(affinity)
    assert adjusted_rand_score(faces.masks[own], found) >= 0.9


@pytest.mark.parametrize("conditions", [["smile", "anger"], [3, 0], ["anger", 3], np.array([0, 3])])
def test_conditions_by_name_or_label(conditions):
    faces = make_faces(200, conditions=conditions, random_state=0)
    assert set(faces.target) == {0, 3}
    assert faces.target_names == CONDITIONS
    np.testing.assert_array_equal(faces.condition_priors, [0.5, 0, 0, 0.5, 0])


def test_one_name_is_one_condition():
    assert set(make_faces(20, conditions="scream", random_state=0).target) == {2}


def test_light_is_a_smooth_factor():
    plain = make_faces(50, noise_std=0.0, random_state=4)
    lit = make_faces(50, noise_std=0.0, light=0.6, random_state=4)
    factor = (lit.data / plain.data).reshape(50, 32, 32)
    np.testing.assert_allclose(np.diff(factor, n=2, axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(np.diff(factor, n=2, axis=2), 0, atol=1e-9)
    np.testing.assert_allclose(factor[:, 0, -1] - factor[:, 0, 0], lit.lighting[:, 0])
    np.testing.assert_allclose(factor[:, -1, 0] - factor[:, 0, 0], lit.lighting[:, 1])
    assert factor.min() >= 0.4
    assert factor.max() <= 1.6
    assert np.abs(lit.lighting).max() > 0.5


def test_occlusion_replaces_a_rectangle_by_matching_noise():
    plain = make_faces(400, random_state=5)
    faces = make_faces(400, occlusion=0.5, random_state=5)
    hidden = faces.occluded.reshape(400, 32, 32)
    rows = hidden.any(axis=(1, 2))
    assert rows.sum() == 200
    np.testing.assert_array_equal(faces.data[~faces.occluded], plain.data[~faces.occluded])
    share = faces.occluded[rows].mean(axis=1)
    assert share.min() >= 0.25
    assert share.max() <= 0.5
    for mask in hidden[rows]:
        down, across = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box = mask[down[0] : down[-1] + 1, across[0] : across[-1] + 1]
        assert box.all()
    mean, std = plain.data.mean(axis=1), plain.data.std(axis=1)
    scaled = (faces.data - mean[:, None]) / std[:, None]
    assert abs(scaled[faces.occluded].mean()) < 0.02
    np.testing.assert_allclose(scaled[faces.occluded].std(), 1, atol=0.02)
    # rectangles reach all four edges
    assert hidden.any(axis=(0, 1)).all()
    assert hidden.any(axis=(0, 2)).all()


def test_same_seed_same_faces_and_no_shared_arrays():
    first, second = make_faces(30, random_state=6), make_faces(30, random_state=6)
    np.testing.assert_array_equal(first.data, second.data)
    first.appearances[0][:] = 0
    first.masks[:] = 0
    np.testing.assert_array_equal(make_faces(30, random_state=6).data, second.data)
    source = np.random.default_rng(6)
    assert (
        make_faces(30, random_state=source).states != make_faces(30, random_state=source).states
    ).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"noise_std": -0.1}, "noise_std"),
        ({"light": 1.5}, "light"),
        ({"occlusion": -0.5}, "occlusion"),
        ({"conditions": ["joy"]}, "unknown condition 'joy'"),
        ({"conditions": [5]}, "unknown condition 5"),
        ({"conditions": []}, "no condition"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_faces(**arguments)


def test_displaced_parts_lie_where_they_are_said_to():
    still = make_faces(20, noise_std=0, random_state=3)
    moved = make_faces(20, noise_std=0, displacement=2, random_state=3)
    assert (moved.states == still.states).all()
    assert np.abs(moved.displacements).max() == 2
    assert "displacements" not in still
    top = len(moved.part_names) - 1  # nothing lies on the last part
    y, x = np.divmod(np.flatnonzero(still.masks == top), 32)
    for i, (down, right) in enumerate(moved.displacements[:, top]):
        v, z = y + down, x + right
        inside = (v < 32) & (v >= 0) & (z < 32) & (z >= 0)
        found = moved.data[i].reshape(32, 32)[v[inside], z[inside]]
        assert np.allclose(found, still.data[i].reshape(32, 32)[y[inside], x[inside]])


@pytest.mark.parametrize("displacement", [-1, 32, 0.5])
def test_impossible_displacements_are_refused(displacement):
    with pytest.raises(ValueError, match="whole number of pixels"):
        make_faces(2, displacement=displacement)


def test_a_sequence_is_a_chain_of_conditions():
    faces = make_faces(5000, conditions=["anger", "smile", "scream"], sequence=True, random_state=0)
    transitions = faces.condition_transitions
    np.testing.assert_allclose(transitions.sum(axis=1), 1.0)
    counts = np.zeros((5, 5))
    np.add.at(counts, (faces.target[:-1], faces.target[1:]), 1)
    shown = np.array([0, 2, 3])
    assert set(faces.target) == set(shown)
    share = counts[shown] / counts[shown].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(share, transitions[shown], atol=0.02)
    assert "condition_transitions" not in make_faces(5, random_state=0)
