"""Models and pages that several files of tests of the explorer open."""

import numpy as np
import pytest

from partwise import MCVQ, make_faces
from partwise.report import write_report
from tests.common.browser import chromium


@pytest.fixture(scope="module")
def browser():
    """Not for longer than a file: its event loop would be in the way of other tests."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def faces():
    return make_faces(400, random_state=0)


@pytest.fixture(scope="session")
def face_model(faces):
    labels = np.array(faces.target_names)[faces.target]
    return MCVQ(5, 12, random_state=0).fit(faces.data[:350], labels[:350])


@pytest.fixture(scope="session")
def face_page(face_model, faces, tmp_path_factory):
    path = tmp_path_factory.mktemp("faces") / "faces.html"
    write_report(face_model, path, faces.data[350:], faces.image_shape)
    return path


@pytest.fixture(scope="session")
def table():
    """Three groups of columns, each in one of three states; with holes."""
    rng = np.random.default_rng(0)
    X = 4.0 * rng.integers(3, size=(120, 3)).repeat(3, axis=1) + rng.normal(size=(120, 9))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[0] = np.nan
    X[1, :3] = [0.0, 9.0, -5.0]
    return X


@pytest.fixture(scope="session")
def ratings():
    rng = np.random.default_rng(0)
    U, D = 200, 24
    taste, liked = rng.integers(2, size=(U, 2)), rng.integers(2, size=D)
    true = 3 + 1.3 * (2 * (taste[:, np.arange(D) % 2] == liked) - 1)
    true = np.clip(np.rint(true + 0.7 * rng.normal(size=(U, D))), 1, 5)
    user, item = np.nonzero(rng.random((U, D)) < np.linspace(0.7, 0.2, D))
    return user, [f"item {i}" for i in item], true[user, item]
