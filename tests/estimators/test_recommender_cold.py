"""Items and people without ratings, and what a person who made a mistake is told."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import partwise
from partwise import MCFA, MCVQ, Recommender
from partwise.evaluation import evaluate
from tests.common.helpers import quietly

N, D = 40, 8
KINDS = {
    "default": None,
    "factors": MCFA(2, 2, likelihood="gaussian", random_state=0, tol=0.1),
    "states": MCVQ(2, 2, likelihood="categorical", random_state=0, tol=0.1),
    "point states": MCVQ(2, 2, likelihood="categorical", prior=None, random_state=0, tol=0.1),
}
PERSON = {0: 5, 2: 5, 1: 1}


def made_matrix(seed=1):
    """Ratings of N people for D items of two kinds (CSR); a few are missing."""
    rng = np.random.default_rng(seed)
    taste = np.where(np.arange(D) % 2, 1, -1) * rng.normal(size=(N, 1))
    X = np.clip(np.rint(3 - taste + rng.normal(0, 0.7, (N, D))), 1, 5)
    return sparse.csr_matrix(np.where(rng.random((N, D)) < 0.5, X, 0))


def with_gaps(X):
    """The same with columns and rows without ratings in between, and where the others are."""
    columns, rows = np.array([0, 1, 4, 5, 6, 9, 10, 19]), 2 * np.arange(N) + 1
    entries = X.tocoo()
    place = rows[entries.row], columns[entries.col]
    return sparse.csr_matrix((entries.data, place), shape=(2 * N + 1, 22)), columns


def triples():
    entries = made_matrix().tocoo()
    return entries.row, entries.col, entries.data


def kinds_of(ids):
    return pd.DataFrame({"item": ids, "kind": [int(d) % 2 for d in ids]})


FITTED = {}


def fitted(kind="default"):
    """A model of D items with ratings, and of two with features only."""
    if kind not in FITTED:
        model = Recommender(KINDS.get(kind))
        given = triples()[:2] if kind == "implicit" else triples()
        FITTED[kind] = model.fit(given, item_features=kinds_of(range(D + 2)))
    return FITTED[kind]


# --- what nobody rated ---


@pytest.mark.parametrize("kind", [*KINDS, "implicit", "sets"])
def test_items_and_people_without_ratings_change_nothing(kind):
    few = made_matrix()
    wide, columns = with_gaps(few)
    if kind == "implicit":
        few, wide = ((*X.nonzero(),) for X in (few, wide))
        wide = pd.DataFrame({"user": wide[0], "item": wide[1]})
        features = {"item_features": kinds_of(range(22))}
        features["user_features"] = (range(2 * N + 1), np.arange(2 * N + 1) % 2)
    else:
        features = {}
    how = {"rated_set": kind == "sets"}
    alone = Recommender(KINDS.get(kind), **how).fit(few)
    beside = Recommender(KINDS.get(kind), **how).fit(wide, **features)
    person = {int(columns[d]): rating for d, rating in PERSON.items()}
    expected = alone.predict_distribution(PERSON, range(D))
    assert_allclose(beside.predict_distribution(person, columns), expected, atol=1e-6)
    one, other = (
        {found.item: found.choice for found in model.recommend(own, 30)}
        for model, own in ((alone, PERSON), (beside, person))
    )
    assert_allclose([other[columns[d]] for d in one], list(one.values()), rtol=1e-5)
    assert beside.n_users_ == alone.n_users_ == N
    assert np.isfinite(beside.predict(person)).all()


@pytest.mark.parametrize("kind", ["default", "states"])
def test_items_without_ratings_are_learned_when_they_have_some(kind, tmp_path):
    """From features first; then from ratings, as an item that is new."""
    users, items, stars = triples()
    twin = items == 2
    more = users[twin], np.full(twin.sum(), D), stars[twin]
    both = tuple(np.concatenate(pair) for pair in zip((users, items, stars), more, strict=True))
    for add, given in (("partial_fit", more), ("add_items", both)):
        cold = Recommender(KINDS[kind]).fit(triples(), item_features=kinds_of(range(D + 1)))
        new = Recommender(KINDS[kind]).fit(triples())
        getattr(cold, add)(given)
        getattr(new, add)(given)
        assert cold.items_ == new.items_
        assert_allclose(cold.predict_distribution(PERSON), new.predict_distribution(PERSON))
        assert_array_equal(cold.item_counts(), new.item_counts())
        cold.save(tmp_path / add, users=True)
        back = partwise.load(tmp_path / add)
        assert_allclose(back.predict_distribution(PERSON), cold.predict_distribution(PERSON))


@pytest.mark.parametrize("kind", ["default", "states", "implicit"])
def test_reasons_are_of_the_prediction(kind):
    model = fitted(kind)
    person = list(PERSON) if kind == "implicit" else PERSON
    for item in (3, 0, D, D + 1):
        told = model.explain(person, item, n=9)
        assert_allclose(told["rating"], model.predict(person, [item], point="mean")[0], rtol=1e-5)
        assert_allclose(
            [*told["distribution"].values()], model.predict_distribution(person, [item])[0]
        )
        # What a person said about the item itself is no reason.
        assert {reason["item"] for reason in told["because"]} == set(PERSON) - {item}
        assert not {D, D + 1, item} & set(told["similar_items"])
    even = model.explain(person, D)["similar_items"]
    assert even == model.similar_items(D, 5) != []
    if kind != "implicit":  # what is taken is at random
        assert all(item % 2 == 0 for item in even[:2])
    if kind == "implicit":
        assert told["rating"] == told["choice"]
        for found in model.recommend(person, 3):
            assert found.rating == found.choice
            assert_allclose(found.choice, model.predict(person, [found.item])[0], rtol=1e-5)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["states", "implicit"])
def test_reasons_need_memory_in_proportion_to_the_ratings(kind):
    n = 3000
    users, items = np.divmod(np.arange(4 * n), n)
    given = users, items, 1 + (items * (users + 1)) % 5
    taking = MCVQ(2, 2, likelihood="bernoulli", sparse_absent="zero", random_state=0)
    estimator = clone(KINDS.get(kind, taking)).set_params(max_iter=2)
    feedback = "implicit" if kind == "implicit" else "explicit"
    model = quietly(Recommender(estimator, feedback=feedback, max_choice_items=10), given)
    person = range(n) if kind == "implicit" else dict.fromkeys(range(n), 3)
    model.explain([0] if kind == "implicit" else {0: 3}, 5)
    tracemalloc.start()
    told = model.explain(person, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(told["because"]) == 5
    assert peak < n * n  # a byte per pair of ratings


def test_reasons_of_several_estimators_are_of_their_average():
    model = Recommender([KINDS["factors"], KINDS["states"]]).fit(triples())
    told = model.explain(PERSON, 3)
    assert_allclose(told["rating"], model.predict(PERSON, [3], point="mean")[0], rtol=1e-5)


def test_reasons_for_a_person_known_by_features_only():
    table = pd.DataFrame({"kind": np.arange(N + 1) % 2}, index=[*range(N), "ann"])
    model = Recommender(KINDS["factors"]).fit(triples(), user_features=table)
    told = model.explain("ann", 3)
    assert_allclose(told["rating"], model.predict("ann", [3], point="mean")[0], rtol=1e-5)
    assert told["because"] == []


def test_nothing_is_like_an_item_of_which_nothing_is_known():
    model = Recommender(KINDS["factors"]).fit(with_gaps(made_matrix())[0])
    assert model.similar_items(2) == []
    assert not {2, 3} & set(model.similar_items(0, 30))


def test_a_rating_that_says_nothing_is_named():
    model = fitted()
    asked = [3, 4]
    with pytest.warns(UserWarning, match="rating of 8 says nothing .* nobody else has rated it"):
        found = model.predict(PERSON | {D: 5}, asked, point="mean")
    assert_allclose(found, model.predict(PERSON, asked, point="mean"), rtol=1e-5)
    with pytest.warns(UserWarning, match="ratings of 8 and 1 more say nothing"):
        listed = model.recommend({0: 5, D: 5, D + 1: 1}, 20, min_ratings=0)
    assert not {D, D + 1} & {found.item for found in listed}
    with pytest.warns(UserWarning, match="says nothing"):
        model.predict_pairs(([1, 1], [0, D], [5, 5]), [1], [3])
    with pytest.warns(UserWarning, match="says nothing"):
        model.interview({}).answer(D, 5)


# --- features ---


def test_features_are_found_by_the_ids_of_the_ratings():
    """In the named column, a column item, or the index: where the items are."""
    users, items, stars = triples()
    frame = pd.DataFrame({"who": users, "what": [f"f{d}" for d in items], "stars": stars})
    names = {"user": "who", "item": "what", "rating": "stars"}
    ids = [f"f{d}" for d in range(D + 1)]
    kind = [d % 2 for d in range(D + 1)]
    for features in (
        pd.DataFrame({"what": ids, "kind": kind}),
        pd.DataFrame({"item": ids, "kind": kind}),
        pl.DataFrame({"item_id": ids, "kind": kind}),
        pd.DataFrame({"kind": kind}, index=ids),
        pd.DataFrame({"item": kind, "kind": kind}, index=ids),
    ):
        model = Recommender(KINDS["states"]).fit(frame, **names, item_features=features)
        assert model.items_[-1] == ids[-1]
        assert len(model.items_) == D + 1


@pytest.mark.parametrize(
    ("side", "features", "message"),
    [
        ("item", pd.DataFrame({"kind": [0, 1]}, index=["a", "b"]),
         "item_features has no row for an item of the ratings.*'a'.*0"),
        ("item", pd.DataFrame({"item": ["0", "1"], "kind": [0, 1]}), "'0' is not 0"),
        ("item", pl.DataFrame({"kind": [0, 1]}), "has no column 'item' with the ids; add it"),
        ("user", (["x"], [[1.0]]), "user_features has no row for a user of the ratings"),
    ],
)  # fmt: skip
def test_features_of_nothing_that_is_rated_are_refused(side, features, message):
    with pytest.raises(ValueError, match=message):
        Recommender(KINDS["factors"]).fit(triples(), **{f"{side}_features": features})


# --- counts of nothing ---


def test_nothing_taken_is_not_taken():
    model = fitted("implicit")
    assert_allclose(model.predict({0: 3, 2: 1, 4: 0}), model.predict([0, 2]))
    with pytest.raises(ValueError, match="must be numbers"):
        model.predict({0: "often"})
    for some in (pd.Series([5, 7]), pd.Series([5, 7], index=[1, 0]), pl.Series([5, 7])):
        assert_array_equal(model.predict(some), model.predict([5, 7]))  # a list, not counts
    for table in (pd.DataFrame([[5], [7]]), pl.DataFrame({"item": [5, 7]})):
        with pytest.raises(ValueError, match="not a DataFrame"):
            model.predict(table)
    users, items, stars = triples()
    given = [*users, 0], [*items, "never"], [*stars, 0]
    counted = Recommender(feedback="implicit").fit(given)
    assert "never" not in counted.items_
    with pytest.raises(ValueError, match="There are no ratings"):
        Recommender(feedback="implicit").fit(([1, 2], [1, 2], [0, 0]))


# --- numbers ---


def test_numbers_that_are_not_whole_are_refused():
    model = fitted("states")
    for call in (
        lambda n: model.recommend(PERSON, n),
        lambda n: model.recommend_many([1], n),
        lambda n: model.explain(PERSON, 3, n),
        lambda n: model.similar_items(3, n),
        lambda n: model.state_items(n),
        lambda n: model.profile(PERSON, n),
    ):
        for n in (2.5, "3", 0, -1, True, None):
            with pytest.raises(ValueError, match=f"n={n!r} must be a whole number of at least 1"):
                call(n)
        assert call(np.int64(2))
    with pytest.raises(ValueError, match="min_ratings='1' must be a whole number of at least 0"):
        model.recommend(PERSON, min_ratings="1")
    with pytest.raises(ValueError, match=r"max_choice_items=2\.5 must be a whole number"):
        Recommender(max_choice_items=2.5).fit(triples())
    with pytest.raises(ValueError, match="exponent='1' must be a number of at least 0"):
        model.recommend(PERSON, exponent="1")
    with pytest.raises(ValueError, match=r"coverage='0\.9' must"):
        model.predict_interval(PERSON, coverage="0.9")
    with pytest.raises(ValueError, match="utility must be 5 finite numbers"):
        model.recommend(PERSON, utility=["a"] * 5)
    with pytest.raises(ValueError, match="min_ratings=-1 must be"):
        model.state_items(min_ratings=-1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.predict(PERSON, [[1]]), "Users and items are hashable"),
        (lambda m: m.explain(PERSON, [1]), "Users and items are hashable"),
        (lambda m: m.user_ratings({}), "Users and items are hashable"),
        (lambda m: m.user_vectors([{1: 5}]), "'dict'; pass their ids"),
        (lambda m: m.predict_pairs(None, [1, 2], [1]), "There are 2 users and 1 item, but each"),
        (lambda m: m.predict({1: None}), "The rating of 1 is None; ratings must be numbers"),
        (lambda m: m.predict("ann"), "pass a mapping of items to ratings, or add the user"),
        (lambda m: m.add_items(([1], ["new"])), "cannot be mixed"),
        (lambda m: Recommender(like="4").fit(triples()), "like='4' must be a number of at most 5"),
        (lambda m: Recommender(like=6).fit(triples()), "like=6 must be a number of at most 5"),
        (lambda m: Recommender(levels=5).fit(triples()), "has 1 level"),
        (lambda m: Recommender(levels=["low", "high"]).fit(triples()), "must be numbers"),
        (lambda m: Recommender(MCVQ).fit(triples()), "give an instance of MCFA or MCVQ"),
        (lambda m: m.fit(triples(), item_features=([0, None], [1, 2])), "a row without an id"),
        (lambda m: m.fit(triples(), item_features=([0], [1], [2])), "a tuple of ids and an array"),
        (lambda m: evaluate(m, triples(), k=2.5), "k=2.5 must be a whole number"),
    ],
)
def test_mistakes_are_told_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted("states"))


def test_one_item_or_user_needs_no_list():
    model = fitted("states")
    assert_array_equal(model.predict(PERSON, 3), model.predict(PERSON, [3]))
    assert model.recommend_many(5, 2).users == [5]
    assert {found.item for found in model.recommend(PERSON, among=3)} == {3}
    scores = evaluate(model, triples(), k=2, by="choice", n_bootstrap=2)
    assert {"choice", "popularity"} <= {score.model for score in scores}


def test_a_dialog_that_ends():
    talk = fitted("states").interview(PERSON)
    for item in range(D + 2):
        talk.decline(item)
    with pytest.raises(ValueError, match="all items are unknown, rated or declined"):
        talk.next_question()
