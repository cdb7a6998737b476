"""Recommender: forms of input, other scales, and bad input."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from partwise import CVQ, MCFA, MCVQ, ObservedCells, Recommender
from partwise.fitted import fitted_of
from tests.common.helpers import quietly
from tests.common.recommenders import (
    KINDS,
    LEVELS,
    NAMES,
    PERSON,
    D,
    drawn_ratings,
    served,
)

# --- forms of input ---


def test_frames_arrays_and_matrices_are_alike():
    users, items, values = drawn_ratings()
    matrix = sparse.csr_matrix((values, (users, items)))
    frame = pd.DataFrame({"item": items, "rating": values, "user": users})
    forms = [(users, items, values), frame, matrix, matrix.tocoo(), sparse.csr_array(matrix)]
    found = []
    for form in forms:
        model = quietly(Recommender(clone(KINDS["ordinal"])), form)
        assert model.n_users_ == 120
        found.append(model.predict_distribution({0: 5, 7: 1}))
    for other in found[1:]:
        assert_array_equal(other, found[0])


@pytest.mark.parametrize(
    "name",
    [lambda i: -i, lambda i: ("film", i), lambda i: f"{i}", lambda i: i if i % 2 else f"{i}"],
    ids=["negative", "tuple", "str", "mixed"],
)  # fmt: skip
def test_names_of_items_mean_nothing(name):
    users, items, values = drawn_ratings()
    named = [name(int(i)) for i in items]
    model = quietly(Recommender(clone(KINDS["categorical"])), (users, named, values))
    plain = quietly(Recommender(clone(KINDS["categorical"])), (users, items, values))
    person = {0: 5, 3: 1}
    found = model.predict({name(i): v for i, v in person.items()}, [name(i) for i in range(D)])
    agree = found == plain.predict(person, range(D))
    assert agree.mean() > 0.9  # columns may stand in another order, and the start with them
    told = model.recommend({name(0): 5}, 3)
    assert {r.item for r in told} <= {name(i) for i in range(D)}
    assert model.next_question({name(0): 5}) in {name(i) for i in range(1, D)}


@pytest.mark.parametrize("kind", ["ordinal", "gaussian", "categorical", "states"])
@pytest.mark.parametrize(
    "levels", [np.arange(1, 11) / 2, np.arange(1, 8) / 10, np.array([-2.0, 0.0, 1.0, 3.0]), [0, 1]],
    ids=["half stars", "tenths", "gaps", "two"],
)  # fmt: skip
def test_other_scales(kind, levels):
    """Also numbers that single precision rounds."""
    users, items, values = drawn_ratings(levels=levels)
    model = quietly(Recommender(clone(KINDS[kind])), (users, items, values))
    assert_array_equal(model.levels_, levels)
    spread = np.std(values)
    means = np.array([values[items == i].mean() for i in range(D)])
    assert_allclose(model.predict({}, point="mean"), means, atol=0.35 * spread)
    assert set(model.predict({0: levels[-1]})) <= set(np.asarray(levels, float))
    liked, disliked = (model.predict({0: v}, [0], point="mean")[0] for v in (levels[-1], levels[0]))
    if kind != "ordinal" or len(levels) > 2:  # two levels leave the spread of numbers open
        assert liked > disliked
    explained = model.explain({0: levels[0], 1: levels[1]}, 2)
    assert_allclose(list(explained["distribution"]), levels)


@pytest.mark.parametrize("kind", ["ordinal", "gaussian", "categorical", "states"])
def test_levels_that_nobody_gave(kind):
    """They are predicted hardly or not at all, and heard as the nearest level (or as numbers)."""
    users, items, values = drawn_ratings()
    plain = quietly(Recommender(clone(KINDS[kind])), (users, items, values))
    wide = quietly(
        Recommender(clone(KINDS[kind]), levels=[0, 1, 2, 2.5, 3, 4, 5, 6]), (users, items, values)
    )
    shares = wide.predict_distribution({0: 4})
    assert shares.shape == (D, 8)
    assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    if kind in ("ordinal", "categorical"):
        assert_allclose(shares[:, [0, 3, 7]], 0, atol=1e-12)
        assert_allclose(shares[:, [1, 2, 4, 5, 6]], plain.predict_distribution({0: 4}), atol=1e-6)
        for heard, seen in ((6, 5), (0, 1)):
            assert_array_equal(
                wide.predict_distribution({0: heard, 1: 3}),
                wide.predict_distribution({0: seen, 1: 3}),
            )
            assert len(wide.explain({0: heard, 1: 3}, 4)["because"]) == 2
    assert np.isfinite(wide.predict_distribution({0: 6, 1: 0, 2: 2.5})).all()


def test_ratings_of_yes_and_no():
    users, items, values = drawn_ratings()
    member = MCVQ(2, 2, likelihood="bernoulli", random_state=0, tol=0.05)
    model = quietly(Recommender(member), (users, items, (values > 3).astype(int)))
    row = np.full((1, D), np.nan)
    row[0, 0] = 1
    cells = np.zeros(D, int), np.arange(D), np.ones(D)
    expected = np.exp(model.estimators_[0].score_cells(row, *cells))
    assert_allclose(model.predict_distribution({0: 1})[:, 1], expected, atol=1e-5)


# --- bad input ---


def test_unknown_items_are_left_out_or_refused():
    model = served("ordinal")
    with pytest.warns(UserWarning, match="Unknown item: 'nothing'; ignored"):
        found = model.predict(PERSON | {"nothing": 3})
    assert_array_equal(found, model.predict(PERSON))
    then = r"2 items are unknown \(first: 'x'\); they are predicted as the average item"
    with pytest.warns(UserWarning, match=then):
        found = model.predict(PERSON, [NAMES[2], "x", "y"], point="mean")
    counts = fitted_of(model).counts
    average = counts @ model.predict(PERSON, point="mean") / counts.sum()
    assert_allclose(found[1:], average, rtol=1e-6)
    assert_allclose(found[0], model.predict(PERSON, NAMES[2:3], point="mean")[0], rtol=1e-6)
    with pytest.warns(UserWarning, match="as the average item"):
        assert np.isfinite(model.predict_interval(PERSON, ["x"])).all()
    known = ([1, 1], NAMES[:2], [3, 4])
    with pytest.warns(UserWarning, match="as the average item"):
        found = model.predict_pairs(known, [1, 1, 2], [NAMES[3], "x", "x"], point="mean")
    for i, person in enumerate(({NAMES[0]: 3, NAMES[1]: 4}, {})):
        expected = counts @ model.predict(person, point="mean") / counts.sum()
        assert_allclose(found[1 + i], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="'x' is not a known item"):
        model.predict_pairs(([1], ["x"], [3]), [1], [NAMES[0]])
    strict = clone(model).set_params(unknown="raise")
    strict.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_") or k[0] == "_"})
    for call in (
        lambda: strict.predict({"nothing": 3}), lambda: strict.predict({}, ["x"]),
        lambda: strict.recommend({"nothing": 3}), lambda: strict.explain({"nothing": 3}, NAMES[0]),
        lambda: strict.interview({}).answer("nothing", 3),
        lambda: strict.predict_pairs(known, [1], ["x"]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"not known|unknown"):
            call()


BAD_FITS = [
    (Recommender([]), {}, "estimator is an empty list"),
    (Recommender(CVQ()), {}, "estimator=CVQ cannot predict ratings"),
    (Recommender([MCVQ(), 3]), {}, "estimator=int cannot predict"),
    (Recommender(unknown="ask"), {}, "unknown='ask' must be 'warn' or 'raise'"),
    (Recommender(levels=[1, 2, 3, 4]), {}, "The rating 5 is not on the scale 1, 2, 3, 4"),
    (Recommender(levels=[3]), {}, "has 1 level"),
    (Recommender(levels=[1, np.nan]), {}, "scale"),
    (Recommender(MCVQ(likelihood="poisson")), {}, "treats unrated entries as zeros"),
    (Recommender(MCFA(sparse_absent="zero")), {}, 'set sparse_absent="unobserved"'),
]


@pytest.mark.parametrize(("model", "more", "message"), BAD_FITS)
def test_bad_recommenders_are_refused(model, more, message):
    with pytest.raises(ValueError, match=message):
        model.fit(drawn_ratings(), **more)


def test_too_few_ratings_are_refused():
    model = Recommender(MCVQ(1, 2, likelihood="categorical"))
    with pytest.raises(ValueError, match="ratings of 1 users for 3 items; at least two of each"):
        model.fit(([7, 7, 7], [1, 2, 3], [1, 2, 3]))
    with pytest.raises(ValueError, match="ratings of 3 users for 1 items; at least two of each"):
        model.fit(([1, 2, 3], [7, 7, 7], [1, 2, 3]))
    with pytest.raises(ValueError, match="level"):
        model.fit(([1, 2], [1, 2], [3, 3]))
    with pytest.raises(ValueError, match="There are no ratings"):
        model.fit(([], [], []))
    with pytest.raises(NotFittedError):
        model.predict({})
    with pytest.raises(NotFittedError):
        model.similar_items(1)


def test_bad_questions_are_refused():
    model = served("ordinal")
    for call, message in (
        (lambda: model.predict({NAMES[0]: 7}), "The rating 7 is not on the scale 1, 2, 3, 4, 5"),
        (lambda: model.predict({NAMES[0]: np.nan}), "is nan"),
        (lambda: model.predict({NAMES[0]: "good"}), "must be numbers"),
        (lambda: model.predict([NAMES[0]]), "a mapping of items to ratings"),
        (lambda: model.predict({}, point="mode"), "point='mode' must be 'median' or 'mean'"),
        (lambda: model.predict_interval({}, coverage=1.0), "coverage=1.0 must lie"),
        (lambda: model.recommend({}, 0), "n=0 must be a whole number of at least 1"),
        (lambda: model.predict_pairs(([1], NAMES[:1], [9]), [1], NAMES[:1]), "not on the scale"),
        (lambda: model.predict_pairs(([1], NAMES[:1], [3]), [1], NAMES[:1], point="x"), "point="),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_empty_person_and_the_empty_item():
    users, items, values = drawn_ratings()
    matrix = sparse.csr_matrix((values, (users, items)), shape=(120, D + 1))  # nobody rated one
    model = quietly(Recommender(clone(KINDS["ordinal"])), matrix)
    assert np.isfinite(model.predict({})).all()
    with pytest.warns(UserWarning, match="says nothing about other items"):
        assert np.isfinite(model.predict_distribution({D: 5})).all()
    assert model.next_question({}) in range(D + 1)
    empty = sparse.csr_matrix((2, D + 1))
    assert_allclose(
        model.predict_pairs(empty, [0, 1], [3, 4], point="mean"),
        model.predict({}, [3, 4], point="mean"), atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["ordinal", "gaussian", "categorical", "states"])
def test_an_item_that_nobody_rated_is_predicted_as_the_average_one(kind):
    users, items, values = drawn_ratings()
    matrix = sparse.csr_matrix((values, (users, items)), shape=(120, D + 1))
    model = quietly(Recommender(clone(KINDS[kind])), matrix)
    person = {0: 5, 3: 1, 7: 4}
    counts, shares = np.bincount(items, minlength=D + 1), model.predict_distribution(person)
    assert_allclose(shares[D], counts @ shares / counts.sum(), rtol=1e-5)
    assert_allclose(model.predict_distribution(person, [D])[0], shares[D], rtol=1e-5)
    best = {one.item: one.rating for one in model.recommend(person, D, min_ratings=0)}
    assert_allclose(best[D], shares[D] @ LEVELS, rtol=1e-5)


def test_the_default_serves_and_arguments_stay_what_they_were():
    users, items, values = drawn_ratings(n_users=60)
    items = np.concatenate([items, items + D])  # the default has sixteen factors
    users, values = np.tile(users, 2), np.tile(values, 2)
    model = quietly(Recommender(), (users, items, values))
    assert model.estimator is None
    assert model.estimators_[0].likelihood == "ordinal"
    member = MCVQ(2, 2, likelihood="categorical", random_state=0)
    model = quietly(Recommender([member, member]), (users, items, values))
    assert not hasattr(member, "means_")
    assert clone(model).get_params()["estimator"] is not model.estimator


def test_ratings_as_cells_are_told_to_come_otherwise():
    """Cells serve the estimators' searches; a recommender has users and items."""
    users, items, values = drawn_ratings()
    with pytest.raises(ValueError, match="or a sparse matrix"):
        Recommender().fit(ObservedCells(sparse.csr_matrix((values, (users, items)))))
