"""The number of classes that states tell of."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ
from partwise.starts import classes


@pytest.fixture(autouse=True)
def few_beginnings(monkeypatch):
    monkeypatch.setattr(classes, "N_STARTS", 8)
    monkeypatch.setattr(classes, "N_BEST", 2)


def planted(n_classes, n_rows, rng):
    """Six parts of three columns, whose three states depend on the class."""
    z = rng.integers(n_classes, size=n_rows)
    columns = []
    for _ in range(6):
        favourite = rng.integers(3, size=n_classes)
        state = np.where(rng.random(n_rows) < 0.9, favourite[z], rng.integers(3, size=n_rows))
        means = 2.0 * rng.permutation(3)[:, None] + rng.normal(size=(3, 3))
        columns.append(means[state] + 0.3 * rng.normal(size=(n_rows, 3)))
    return np.hstack(columns), z


@pytest.fixture(scope="module")
def rows():
    return planted(3, 400, np.random.default_rng(0))


@pytest.mark.ci
def test_their_number_is_found(rows):
    X, z = rows
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    model = MCVQ(6, 3, n_classes="auto", random_state=0).fit(X)
    assert_array_equal(model.classes_, [0, 1, 2])
    assert adjusted_rand_score(z, model.predict(X)) > 0.9
    told = MCVQ(6, 3, n_classes=3, random_state=0).fit(X)
    assert_array_equal(model.lower_bounds_, told.lower_bounds_)


def test_one_class_where_parts_are_on_their_own():
    X, _ = planted(1, 400, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for k in range(6):  # the parts of different rows
        X[:, 3 * k : 3 * k + 3] = X[rng.permutation(400), 3 * k : 3 * k + 3]
    model = MCVQ(6, 3, n_classes="auto", random_state=0).fit(X)
    assert_array_equal(model.classes_, [0])
    assert_array_equal(model.predict(X), np.zeros(400))


def test_labels_are_classes(rows):
    X, z = rows
    names = np.array(["a", "b", "c"])[z]
    model = MCVQ(6, 3, n_classes="auto", random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["a", "b", "c"])


@pytest.mark.ci
def test_blocks_and_threads_find_the_same(rows):
    fits = [
        MCVQ(6, 3, n_classes="auto", n_jobs=n_jobs, random_state=0).fit(rows[0])
        for n_jobs in (1, 2)
    ]
    assert_array_equal(fits[0].class_priors_, fits[1].class_priors_)


def test_what_cannot_be(rows):
    with pytest.raises(ValueError, match="needs a prior"):
        MCVQ(2, 2, n_classes="auto", prior=None, gating="standard").fit(rows[0])
    with pytest.raises(ValueError, match="give partial_fit a number"):
        MCVQ(2, 2, n_classes="auto", gating="tied").partial_fit(rows[0])


@pytest.mark.ci
def test_going_on_keeps_the_classes(rows):
    model = MCVQ(6, 3, n_classes="auto", warm_start=True, random_state=0).fit(rows[0])
    bound = model.lower_bound_
    model.fit(rows[0])
    assert len(model.classes_) == 3
    assert model.lower_bound_ >= bound - 1e-9
