"""Recommendations by choice and rating, for many people, from implicit feedback and features."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import partwise
from partwise import MCFA, MCVQ, Recommender
from partwise.fitted import fitted_of
from partwise.models.choice import taken

N, D = 80, 20


def made_ratings(seed=0):
    """Users, items and ratings: two groups of items, taken and liked by two groups of people."""
    rng = np.random.default_rng(seed)
    group, kind = rng.random((N, 1)) < 0.5, np.arange(D) % 2 == 0
    likes = group == kind
    users, items = np.nonzero(rng.random((N, D)) < np.where(likes, 0.6, 0.15))
    stars = np.clip(np.round(3 + 1.2 * np.where(likes, 1, -1) + rng.normal(0, 0.7, (N, D))), 1, 5)
    return users, items, stars[users, items]


KINDS = {
    "factors": MCFA(1, 2, likelihood="ordinal", random_state=0, tol=0.1),
    "states": MCVQ(2, 2, likelihood="categorical", random_state=0, tol=0.1),
}
FITTED = {}


def fitted(kind="factors"):
    if kind not in FITTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "implicit":
                FITTED[kind] = Recommender().fit(made_ratings()[:2])
            else:
                FITTED[kind] = Recommender(KINDS[kind], levels=[1, 2, 3, 4, 5]).fit(made_ratings())
    return FITTED[kind]


def everything(model, user):
    """Probability of taking and distribution of ratings of all items."""
    catalog = fitted_of(model)
    row = catalog.remembered().ratings[catalog.remembered().place[user]]
    take = catalog.choice.probability(catalog.choice.scores(taken(row)))[0]
    return take, model.predict_distribution(model.user_ratings(user))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5])
def test_the_shortlist_misses_no_item(kind, n, monkeypatch):
    """The best by value of all items, though ratings are predicted for a few of them."""
    monkeypatch.setattr("partwise.answers.ranking.LEAST_SHORTLIST", 2)
    monkeypatch.setattr("partwise.answers.ranking.SHORTLIST", 1)
    model = fitted(kind)
    for settings in ({}, {"exponent": 0.3}, {"utility": [0, 0, 1, 4, 9], "exponent": 2.0}):
        many = model.recommend_many(n=n, **settings)
        utility = np.asarray(settings.get("utility", [0, 0, 0, 1, 1]))
        for i in (0, 7, 33):
            take, shares = everything(model, many.users[i])
            value = take ** settings.get("exponent", 1.0) * (shares @ utility)
            open_ = [d for d in range(D) if d not in model.user_ratings(many.users[i])]
            best = sorted(open_, key=lambda d: -value[d])[:n]
            assert_allclose(many.value[i], value[best], rtol=1e-4)
            assert many.items[i].tolist() == best


@pytest.mark.parametrize("by", ["value", "rating", "choice"])
@pytest.mark.parametrize("kind", [*KINDS, "implicit"])
def test_many_are_as_each(kind, by):
    model = fitted(kind)
    many = model.recommend_many([5, 3, 5], n=4, by=by)
    assert many.users == [5, 3, 5]
    assert_array_equal(many.items[0], many.items[2])
    for i, user in enumerate(many.users):
        person = model.user_ratings(user)
        one = model.recommend(list(person) if kind == "implicit" else person, 4, by=by)
        assert [found.item for found in one] == many.items[i].tolist()
        for name in ("value", "choice", "rating", "lower", "upper"):
            alone = [getattr(found, name) for found in one]
            assert_allclose(getattr(many, name)[i], alone, rtol=1e-4)
        assert not set(many.items[i]) & set(person)
        assert [found.item for found in model.recommend(user, 4, by=by)] == many.items[i].tolist()


@pytest.mark.parametrize("kind", [*KINDS, "implicit"])
def test_a_person_of_the_fit_is_an_id(kind):
    model = fitted(kind)
    person, items = model.user_ratings(5), [1, 2]
    for user in (5, np.int64(5)):
        assert_allclose(model.predict(user, items), model.predict(person, items))
        assert model.explain(user, 1)["rating"] == model.explain(person, 1)["rating"]
        assert model.next_question(user) == model.next_question(person)
    with pytest.raises(ValueError, match="'nobody' is not a user of the fit; pass a"):
        model.recommend("nobody")
    if kind != "implicit":
        with pytest.raises(ValueError, match="or the id of a user of the fit, not a list"):
            model.recommend([1, 2])


def test_values_take_both_into_account():
    model = fitted()
    person = model.user_ratings(5)
    take, shares = everything(model, 5)
    by = {name: model.recommend(person, 100, by=name) for name in ("value", "rating", "choice")}
    assert {len(found) for found in by.values()} == {D - len(person)}
    for found in by["choice"]:
        assert_allclose(found.choice, take[found.item], rtol=1e-5)
        assert found.value == found.choice
    for found in by["rating"]:
        assert_allclose(found.rating, shares[found.item] @ model.levels_, rtol=1e-5)
    for found in by["value"]:
        like = shares[found.item, model.levels_ >= model.like_].sum()
        assert_allclose(found.value, take[found.item] * like, rtol=1e-4)
    for found in by.values():
        assert all(a.value >= b.value for a, b in pairwise(found))
    assert [one.item for one in model.recommend(person, 3, exponent=50.0)] == [
        one.item for one in by["choice"][:3]
    ]


def test_people_without_ratings_get_what_is_popular():
    model = fitted()
    assert model.recommend({}, 1, by="choice")[0].item == int(np.argmax(fitted_of(model).counts))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "luck"}, "by='luck' must be one of value, rating, choice"),
        ({"exponent": -1}, "exponent=-1 must be a number of at least 0"),
        ({"utility": [1, 2]}, "utility must be 5 finite numbers"),
        ({"utility": [1, 2, 3, 4, -5]}, "at least 0, one per level"),
        ({"n": 0}, "n=0 must be a whole number of at least 1"),
    ],
)
def test_bad_rankings_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fitted().recommend({}, **given)


def test_unknown_users_are_refused():
    with pytest.raises(ValueError, match="'eve' is not a user of the fit"):
        fitted().recommend_many(["eve"])
    with pytest.raises(ValueError, match="must be 'auto', 'explicit' or 'implicit'"):
        Recommender(feedback="loud").fit(made_ratings())
    with pytest.raises(ValueError, match="There are no ratings"):
        Recommender(feedback="explicit").fit(made_ratings()[:2])
    with pytest.raises(ValueError, match="cannot learn implicit feedback"):
        Recommender(MCFA(1, 2)).fit(made_ratings()[:2])


# --- forms of input ---


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_have_any_names(frame):
    users, items, stars = made_ratings()
    expected = fitted().recommend_many([3], 3)
    names = {"who": users, "what": items, "stars": stars, "when": np.arange(len(users))}
    model = Recommender(KINDS["factors"], levels=[1, 2, 3, 4, 5])
    model.fit(frame(names), user="who", item="what", rating="stars")
    assert_array_equal(model.recommend_many([3], 3).items, expected.items)
    usual = frame({"userId": users, "movieId": items, "rating": stars, "timestamp": users})
    assert_array_equal(model.fit(usual).recommend_many([3], 3).items, expected.items)
    with pytest.raises(ValueError, match="no column 'stars'; pass rating="):
        model.fit(usual, rating="stars")


def test_the_last_rating_by_time_counts():
    users, items, stars = made_ratings()
    old = pd.DataFrame({"user": users, "item": items, "rating": 6 - stars, "time": 0})
    new = old.assign(rating=stars, time=1)
    with pytest.warns(UserWarning, match="the last rating of each"):
        model = Recommender(KINDS["factors"]).fit(pd.concat([new, old]), timestamp="time")
    assert model.user_ratings(3) == fitted().user_ratings(3)


def test_implicit_feedback_needs_no_ratings():
    users, items, _ = made_ratings()
    model = fitted("implicit")
    assert model.levels_.tolist() == [0, 1]
    assert isinstance(model.estimators_[0], MCVQ)
    frame = pd.DataFrame({"user": [*users, *users], "item": [*items, *items]})  # all twice
    same = Recommender().fit(frame)
    counts = pd.DataFrame({"user": users, "item": items, "rating": 7})
    ignored = Recommender(feedback="implicit").fit(counts)
    for other in (same, ignored):
        assert other.recommend([1, 3], 3) == model.recommend({1: 1, 3: 1}, 3)
    # What goes together is recommended, and predicted as more probable.
    found = [one.item for one in model.recommend([0, 2, 4], 5)]
    assert sum(item % 2 == 0 for item in found) >= 4
    for by in ("value", "choice"):
        listed = model.recommend([0, 2, 4], D, by=by)
        assert_allclose([one.value for one in listed], [one.choice for one in listed])
        assert all(a.choice >= b.choice for a, b in pairwise(listed))
    p = model.predict([0, 2, 4])
    assert p.shape == (D,)
    assert p[6::2].mean() > 1.5 * p[7::2].mean()
    assert {"part", "choice", "chosen_because"} <= model.explain([0, 2], 4).keys()
    assert model.next_question([0]) in range(D)


def test_effects_of_items_taken_are_predictions_without_them():
    features = pd.DataFrame({"item": range(D + 2), "kind": np.arange(D + 2) % 2})
    few = Recommender(max_choice_items=8).fit(made_ratings()[:2], item_features=features)
    for model in (fitted("implicit"), few):
        for item in model.items_:
            for person in ([0, 1, 2, 5, 9], [2]):
                told = model.explain(person, item, n=9)["because"]
                assert {reason["item"] for reason in told} == set(person) - {item}
                whole = model.predict(person, [item])[0]
                for reason in told:
                    rest = [i for i in person if i != reason["item"]]
                    left = model.predict(rest, [item])[0]
                    assert_allclose(reason["effect"], whole - left, rtol=1e-4, atol=1e-6)


# --- people, items and ratings that arrive later ---


@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit_learns_people_items_and_ratings(kind):
    users, items, stars = made_ratings()
    first = users < 60
    model = Recommender(KINDS[kind], levels=[1, 2, 3, 4, 5])
    first &= items != 4
    model.fit((users[first], items[first], stars[first]))
    penalty = fitted_of(model).choice.penalty
    model.partial_fit((users[~first], items[~first], stars[~first]))
    whole = Recommender(KINDS[kind], levels=[1, 2, 3, 4, 5]).fit((users, items, stars))
    assert set(model.items_) == set(range(D))
    assert model.n_users_ == N
    assert model.user_ratings(70) == whole.user_ratings(70)
    order = [model.items_.index(item) for item in range(D)]
    if fitted_of(whole).choice.penalty == penalty:
        weights = fitted_of(model).choice.weights[np.ix_(order, order)]
        assert_allclose(weights, fitted_of(whole).choice.weights, atol=1e-5)
    # The new item is predicted about as a fit to all ratings does.
    found = [m.predict_pairs(None, range(N), [4] * N, point="mean") for m in (model, whole)]
    assert np.corrcoef(found)[0, 1] > 0.8
    again = model.partial_fit(([70], [4], [1]))
    assert again.user_ratings(70)[4] == 1
    assert Recommender(KINDS[kind]).partial_fit(made_ratings()).n_users_ == N
    with pytest.raises(ValueError, match="cannot be mixed"):
        model.partial_fit(([1], [2]))


def test_new_items_by_add_items_are_recommended():
    users, items, stars = made_ratings()
    old = items != 4
    model = Recommender(KINDS["factors"], levels=[1, 2, 3, 4, 5])
    model.fit((users[old], items[old], stars[old]))
    model.add_items((users, items, stars))
    assert model.items_[-1] == 4
    assert 4 in [found.item for found in model.recommend({0: 5}, D)]
    assert model.recommend_many([3], 3).items.shape == (1, 3)


# --- files and vectors ---


@pytest.mark.parametrize("kind", [*KINDS, "implicit"])
def test_files_keep_choices_and_if_asked_users(kind, tmp_path):
    model = fitted(kind)
    model.save(tmp_path / "with", users=True)
    model.save(tmp_path / "without")
    both = partwise.load(tmp_path / "with"), partwise.load(tmp_path / "without")
    person = dict.fromkeys([0, 3], 1.0) if kind == "implicit" else {0: 5, 3: 1}
    for loaded in both:
        assert loaded.recommend(person, 5) == model.recommend(person, 5)
        assert loaded.like_ == model.like_
    assert_array_equal(both[0].recommend_many(n=3).items, model.recommend_many(n=3).items)
    assert b"ratings" not in (tmp_path / "without").read_bytes()[:4000]
    for call in (lambda: both[1].recommend_many(), lambda: both[1].user_vectors()):
        with pytest.raises(ValueError, match="saved without its users"):
            call()


def test_products_of_vectors_are_expected_ratings():
    model = fitted("states")
    products = model.user_vectors([3, 9]) @ model.item_vectors().T
    for row, user in zip(products, [3, 9], strict=True):
        assert_allclose(row, model.predict(model.user_ratings(user), point="mean"), atol=1e-4)
    model = fitted("factors")
    products = model.user_vectors() @ model.item_vectors().T
    expected = [model.predict(model.user_ratings(u), point="mean") for u in range(0, N, 8)]
    ranks = [np.corrcoef(a, b)[0, 1] for a, b in zip(products[::8], expected, strict=True)]
    assert min(ranks) > 0.9


# --- features ---


def genres(frame=pd.DataFrame):
    """Features of items and people that tell their groups, with missing values and noise."""
    rng = np.random.default_rng(1)
    kind = ["even" if d % 2 == 0 else "odd" for d in range(D + 2)]
    length = rng.normal(100, 10, D + 2)
    length[3] = np.nan
    return frame({"item": np.arange(D + 2), "kind": kind, "length": length})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", KINDS)
def test_an_item_without_ratings_is_predicted_from_its_features(kind, frame):
    model = Recommender(KINDS[kind], levels=[1, 2, 3, 4, 5])
    model.fit(made_ratings(), item_features=genres(frame))
    assert model.items_[-2:] == [D, D + 1]
    likes_even = {0: 5, 2: 5, 4: 5, 1: 1, 3: 1}
    even, odd = model.predict(likes_even, [D, D + 1], point="mean")
    assert even > odd + 1
    everything = model.predict(likes_even, point="mean")
    assert_allclose(everything[-2:], [even, odd], rtol=1e-4)
    assert np.isfinite(everything).all()
    shares = model.predict_distribution(likes_even, [D, D + 1])
    assert_allclose(shares.sum(axis=1), 1, atol=1e-4)
    with pytest.warns(UserWarning, match="average item"):
        unknown = model.predict(likes_even, ["nothing"], point="mean")
    assert odd < unknown[0] < even
    takes_even = dict.fromkeys([0, 2, 4, 6, 8], 5)
    found = {one.item: one for one in model.recommend(takes_even, D + 2, min_ratings=0)}
    assert found[D].choice > found[D + 1].choice
    assert D not in [one.item for one in model.recommend(likes_even, D + 2)]


def test_a_person_without_ratings_is_predicted_from_features(tmp_path):
    users, items, stars = made_ratings()
    rng = np.random.default_rng(0)
    group = (rng.random((N, 1)) < 0.5)[:, 0]  # as made_ratings has it
    ids = [*range(N), "ann", "bob"]
    table = pd.DataFrame({"likes": [*np.where(group, "even", "odd"), "even", "odd"]}, index=ids)
    model = Recommender(KINDS["factors"], levels=[1, 2, 3, 4, 5])
    model.fit((users, items, stars), user_features=table, item_features=genres())
    model.save(tmp_path / "model", users=True)
    for served in (model, partwise.load(tmp_path / "model")):
        pairs = ["ann", "ann", "bob", "bob"], [0, 1, 0, 1]
        ann_even, ann_odd, bob_even, bob_odd = served.predict_pairs(None, *pairs, point="mean")
        assert ann_even > ann_odd + 0.5
        assert bob_odd > bob_even + 0.5
        many = served.recommend_many(["ann", "bob"], 3)
        assert all(item % 2 == 0 for item in many.items[0])
        assert all(item % 2 == 1 for item in many.items[1])
    other = model.predict_pairs(None, [3], [0], point="mean")
    assert_allclose(other, model.predict(model.user_ratings(3), [0], point="mean"), rtol=1e-4)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (pd.DataFrame({"item": [1, 1], "x": [2, 3]}), "two rows for the same item"),
        (([1, 2], [[1.0], [2.0], [3.0]]), "one row per id"),
        ([1, 2], "must be a DataFrame, or a tuple"),
        (pl.DataFrame({"x": [1.0]}), "no column 'item' with the ids"),
        (pd.DataFrame({"item": [1], "x": [[1, 2]]}), "neither numbers nor text"),
    ],
)
def test_bad_features_are_refused(features, message):
    with pytest.raises(ValueError, match=message):
        Recommender(KINDS["factors"]).fit(made_ratings(), item_features=features)
