"""Recommender: what it says is what its estimators say; new items, files."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone

from partwise import MCFA, Recommender, load
from partwise.answers import factors, states
from partwise.answers.rows import source_of
from partwise.fitted import core_of, fitted_of
from partwise.models import levels as scale_of
from partwise.models.questions import RULES
from tests.common.helpers import quietly
from tests.common.recommenders import (
    ALL,
    KINDS,
    LEVELS,
    NAMES,
    PERSON,
    D,
    as_row,
    drawn_ratings,
    served,
)

# --- predictions are the estimators' ---


@ALL
def test_distributions_are_those_of_the_estimator(kind):
    """Level by level: densities of cells for levels, differences of Gaussians and t for numbers."""
    model = served(kind)
    estimator, row = model.estimators_[0], as_row(PERSON)
    found = model.predict_distribution(PERSON)
    assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert model.items_ == NAMES
    if estimator.likelihood != "gaussian":
        for v, level in enumerate(LEVELS):
            cells = np.zeros(D, int), np.arange(D), np.full(D, level)
            assert_allclose(found[:, v], np.exp(estimator.score_cells(row, *cells)), atol=2e-5)
        return
    # P(X <= cut) of the predictive mixture of parts.
    fitted = fitted_of(estimator)
    block = source_of(fitted.columns, estimator._check_rows(row, reset=False)).block(0)
    group = fitted.columns[0]
    below = [np.zeros(D)]
    for cut in (LEVELS[1:] + LEVELS[:-1]) / 2:
        z = (cut - group.shift) / group.scale
        cells = np.zeros(D, int), np.arange(D)
        below.append(estimator._family().below(fitted.model, fitted.prepared, block, 0, *cells, z))
    assert_allclose(found, np.diff([*below, np.ones(D)], axis=0).T, atol=2e-5)


@ALL
def test_points_and_intervals_are_of_the_distribution(kind):
    model = served(kind)
    shares = model.predict_distribution(PERSON)
    assert_allclose(model.predict(PERSON, point="mean"), shares @ LEVELS)
    median = [LEVELS[np.argmax(np.cumsum(p) >= 0.5 - 1e-9)] for p in shares]
    assert_array_equal(model.predict(PERSON), median)
    lower, upper = model.predict_interval(PERSON, coverage=0.8)
    inside = [p[(lo <= LEVELS) & (hi >= LEVELS)].sum()
              for p, lo, hi in zip(shares, lower, upper, strict=True)]  # fmt: skip
    assert min(inside) >= 0.8 - 1e-6
    some = [NAMES[5], NAMES[1], NAMES[5]]
    # Some items are computed by themselves, in another order of sums.
    assert_allclose(model.predict_distribution(PERSON, some), shares[[5, 1, 5]], atol=1e-6)
    assert_array_equal(model.predict_interval(PERSON, some, 0.8)[0], lower[[5, 1, 5]])
    assert model.predict(PERSON, []).shape == (0,)


@ALL
def test_folding_in_a_known_user_is_transform(kind):
    model = served(kind)
    estimator, taste = model.estimators_[0], fitted_of(model).tastes[0]
    users, items, values = drawn_ratings()
    own = users == 17
    person = {NAMES[i]: v for i, v in zip(items[own], values[own], strict=True)}
    row = sparse.csr_matrix(
        (values[own].astype(np.float32), (np.zeros(own.sum(), int), items[own])), shape=(1, D)
    )
    features = taste.fold_in(fitted_of(model).row(model._person(person)))
    if isinstance(estimator, MCFA):
        features = features[core_of(fitted_of(estimator).model, object).linear]
    found = estimator.transform(row)
    assert_allclose(features.T[:, : found.shape[1]], found, atol=1e-6)


def test_the_average_of_two():
    pair = ("categorical", "ordinal")
    both = served(*pair)
    single = [served(kind).predict_distribution(PERSON) for kind in pair]
    assert_allclose(both.predict_distribution(PERSON), np.mean(single, axis=0), atol=1e-6)
    assert_allclose(both.predict(PERSON, point="mean"), np.mean(single, axis=0) @ LEVELS, atol=1e-5)
    for rule in RULES:
        talks = [served(kind).interview(PERSON, rule=rule) for kind in pair]
        # Each in units of its largest: one counts stars, the other latent numbers.
        own = [talk._total() / max(talk.gains().values()) for talk in talks]
        assert_allclose(both.interview(PERSON, rule=rule)._total(), np.mean(own, axis=0), atol=1e-6)


@pytest.mark.parametrize("kinds", [*[(kind,) for kind in KINDS], ("states", "ordinal")])
def test_pairs_are_predicted_person_by_person(kinds):
    model = served(*kinds)
    users, items, values = drawn_ratings(3, 30)
    known = users, np.array(NAMES)[items], values
    asked = [4, 4, 29, 0, 999, 4], [NAMES[i] for i in (2, 3, 2, 11, 5, 2)]
    found = model.predict_pairs(known, *asked, point="distribution")
    for row, user, item in zip(found, *asked, strict=True):
        own = users == user
        person = {NAMES[i]: v for i, v in zip(items[own], values[own], strict=True)}
        assert_allclose(row, model.predict_distribution(person, [item])[0], atol=5e-5)
    assert_allclose(model.predict_pairs(known, *asked, point="mean"), found @ LEVELS)
    median = scale_of.quantile(found, LEVELS, 0.5)
    assert_array_equal(model.predict_pairs(known, *asked), median)
    frame = pd.DataFrame(dict(zip(("user", "item", "rating"), known, strict=True)))
    assert_array_equal(model.predict_pairs(frame, *map(np.array, asked)), median)
    assert model.predict_pairs(known, [], []).shape == (0,)


def test_predictions_follow_tastes():
    model = served("ordinal")
    users, items, values = drawn_ratings(0)
    held = np.random.default_rng(0).random(len(users)) < 0.2
    known = users[~held], np.array(NAMES)[items[~held]], values[~held]
    found = model.predict_pairs(known, users[held], np.array(NAMES)[items[held]])
    guess = np.array([np.median(values[items == i]) for i in range(D)])[items[held]]
    assert np.abs(found - values[held]).mean() < 0.8 * np.abs(guess - values[held]).mean()


# --- recommendations ---


@ALL
def test_recommendations_leave_out_what_is_rated(kind):
    model = served(kind)
    found = model.recommend(PERSON, 5, by="rating")
    ratings = model.predict(PERSON, point="mean")
    left = [i for i in range(D) if NAMES[i] not in PERSON]
    best = sorted(left, key=lambda i: -ratings[i])[:5]
    assert [r.item for r in found] == [NAMES[i] for i in best]
    assert_allclose([r.rating for r in found], ratings[best], atol=1e-6)
    lower, upper = model.predict_interval(PERSON, [r.item for r in found], 0.8)
    assert_array_equal([r.lower for r in found], lower)
    assert_array_equal([r.upper for r in found], upper)
    assert len(model.recommend(PERSON, 100)) == D - len(PERSON)
    assert len(model.recommend({}, 100)) == D
    assert model.recommend(dict.fromkeys(NAMES, 3)) == []
    assert model.recommend(dict.fromkeys(NAMES[1:], 3))[0].item == NAMES[0]


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_a_prediction_of_one_item_computes_no_other(kind, monkeypatch):
    model = served(kind)
    every = model.predict_distribution(PERSON)

    def refuse(*_):
        raise AssertionError("all items were computed")

    monkeypatch.setattr(type(fitted_of(model).tastes[0]), "shares", refuse)
    for d in (2, 8):
        assert_allclose(model.predict_distribution(PERSON, [NAMES[d]]), every[[d]], atol=1e-6)
        model.predict(PERSON, [NAMES[d]])
        model.predict_interval(PERSON, [NAMES[d]])


def test_numbers_between_cuts():
    """A Gaussian estimator's levels are what lies nearest."""
    model = served("gaussian")
    estimator = model.estimators_[0]
    d, k = 2, fitted_of(estimator).params.gates[:, 2].argmax()
    nobody = estimator._check_rows(as_row({}), reset=False)
    features = factors.features(fitted_of(estimator), nobody).astype(float)
    w, group = fitted_of(estimator).params.loadings[k], fitted_of(estimator).columns[0]
    _, linear, quadratic = core_of(fitted_of(estimator).model, object).spans()[k]
    s = np.append(features[linear, 0], 1.0)
    second = np.outer(s, s)
    second[:-1, :-1] = features[quadratic, 0].reshape(1, 1)
    variance = w.noise[d] * (1 + np.sum(w.cov[d] * second))
    variance += w.mean[d, :-1] ** 2 @ (features[quadratic, 0] - features[linear, 0] ** 2)
    law = stats.norm(
        w.mean[d] @ s * group.scale[d] + group.shift[d], np.sqrt(variance) * group.scale[d]
    )
    expected = np.diff(law.cdf([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf]))
    assert_allclose(model.predict_distribution({}, [NAMES[d]])[0], expected, atol=1e-5)


# --- items that arrive later, groups of items, files ---


@pytest.mark.parametrize("kind", ["ordinal", "gaussian", "categorical", "states"])
def test_items_that_arrive_later_change_nothing_but_themselves(kind):
    """Two twins of items: one there from the beginning, one arriving; they end alike."""
    users, items, values = drawn_ratings(n_users=400)
    twin = items == 2
    model = quietly(Recommender(clone(KINDS[kind])), (users, items, values))
    before = model.predict_distribution({0: 5, 7: 1})
    more = tuple(np.concatenate(pair) for pair in (
        (users, users[twin]), (items, np.full(twin.sum(), 99)), (values, values[twin]),
    ))  # fmt: skip
    model.add_items(more)
    assert model.items_[-1] == 99
    after = model.predict_distribution({0: 5, 7: 1})
    assert_allclose(after[:-1], before, atol=1e-6)
    for person in ({0: 5, 1: 5}, {0: 1, 1: 1}, {6: 5, 7: 1}):
        pair = model.predict(person, [2, 99], point="mean")
        assert abs(pair[0] - pair[1]) < 0.25
    with pytest.raises(ValueError, match="no new item"):
        model.add_items(more)
    with pytest.raises(ValueError, match="not on the scale"):
        model.add_items(([0], [100], [17]))


def test_what_is_conspicuous_is_what_states_say():
    model = served("categorical")
    taste = fitted_of(model).tastes[0]
    share = states.state_shares(taste.fitted)[0]
    kinds = model.state_items(2, min_ratings=1)
    assert len(kinds) == sum(model.estimators_[0].n_states_)
    for kind in kinds:
        k, j = kind["part"], kind["state"]
        lo, hi = taste.core.first[k], taste.core.first[k + 1]
        away = taste.M[lo + j] - share[lo:hi] @ taste.M[lo:hi]
        own = {NAMES[d]: away[d] for d in taste.columns[k]}
        for side, sign in (("high", 1), ("low", -1)):
            best = sorted(own, key=lambda item: -sign * own[item])[:2]
            expected = [item for item in best if sign * own[item] > 0]
            assert [found["item"] for found in kind[side]] == expected
    parts = model.profile(PERSON, min_ratings=1)
    found = [(part["part"], part["state"]) for part in parts]
    row = fitted_of(model).row(model._person(PERSON))
    assert found == list(enumerate(model.estimators_[0].predict_states(row)[0]))
    assert model.state_items(min_ratings=10**6)[0]["high"] == []
    with pytest.raises(ValueError, match="has parts with states"):
        served("ordinal").state_items()


def test_recommend_among_and_with_enough_ratings():
    model = served("ordinal")
    stock = NAMES[3:6]
    with pytest.warns(UserWarning, match="'x'.*left out"):
        assert {found.item for found in model.recommend({}, 9, among=[*stock, "x"])} == set(stock)
    assert [found.item for found in model.recommend({}, 9, among=NAMES[3])] == [NAMES[3]]
    floor = int(np.sort(fitted_of(model).counts)[-2])
    often = {NAMES[d] for d in np.flatnonzero(fitted_of(model).counts >= floor)}
    assert {found.item for found in model.recommend({}, 10, min_ratings=floor)} == often
    assert model.recommend({}, 5, among=[]) == []


@pytest.mark.parametrize("kinds", [("ordinal",), ("categorical", "ordinal")])
def test_there_and_back(kinds, tmp_path):
    model = served(*kinds)
    model.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert back.items_ == model.items_
    assert_array_equal(back.predict_distribution(PERSON), model.predict_distribution(PERSON))
    assert back.next_question(PERSON) == model.next_question(PERSON)
    assert back.recommend(PERSON) == model.recommend(PERSON)


def test_ids_that_files_cannot_hold_are_named(tmp_path):
    users, items, values = drawn_ratings(n_users=60)
    pairs = [("film", int(item)) for item in items]
    model = quietly(Recommender(clone(KINDS["states"])), (users, pairs, values))
    with pytest.raises(TypeError, match=r"learned state of Recommender, at 'items', is a tuple"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
