"""Recommender: questions to ask a person, and reasons of predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise import MCVQ
from partwise.answers import states
from partwise.fitted import fitted_of
from partwise.models import levels as scale_of
from partwise.models.questions import RULES
from tests.common.recommenders import (
    ALL,
    LEVELS,
    NAMES,
    PERSON,
    D,
    as_row,
    drawn_ratings,
    served,
)

# --- questions ---


@pytest.mark.parametrize("rule", RULES)
@ALL
def test_an_interview_stands_where_it_would_stand_from_scratch(kind, rule):
    model = served(kind)
    talk = model.interview({NAMES[1]: 5}, rule=rule)
    known = {NAMES[1]: 5}
    for item, rating in ((0, 1), (7, 5), (8, 1), (2, 4), (7, 1)):  # one of them twice
        talk.answer(NAMES[item], rating)
        known[NAMES[item]] = rating
        assert talk.ratings == known
        fresh = model.interview(known, rule=rule)
        gains = talk.gains()
        assert gains.keys() == fresh.gains().keys() == set(NAMES) - known.keys()
        assert_allclose(list(gains.values()), list(fresh.gains().values()), atol=1e-6)
        assert talk.next_question(NAMES) == max(gains, key=gains.get)
        # Who can answer counts, too.
        choice, rated = fitted_of(model).choice, [NAMES.index(name) for name in known]
        score = choice.weights[rated].sum(axis=0) + 0.5 * choice.share / (1 + len(rated))
        score = np.maximum(score, 1e-3 * choice.share)
        weighed = {item: gain * score[NAMES.index(item)] for item, gain in gains.items()}
        assert talk.next_question() == max(weighed, key=weighed.get)
        assert model.next_question(known, rule=rule) == fresh.next_question()
    assert min(gains.values()) >= -1e-5
    some = NAMES[4:6]
    assert talk.next_question(some) == max(some, key=gains.get)


@pytest.mark.parametrize("kind", ["categorical", "classes"])
def test_information_by_hearing_every_answer(kind):
    """Entropy of a part's states now, less that expected after the answer."""
    model = served(kind)
    taste, estimator = fitted_of(model).tastes[0], model.estimators_[0]
    gains = model.interview(PERSON, rule="information").gains()
    for item in (NAMES[1], NAMES[6]):
        d = NAMES.index(item)
        k = taste.parts[d]
        if k >= estimator.n_parts or taste.fitted.params.gates[k, d] < 1:
            continue
        span = slice(taste.core.first[k], taste.core.first[k + 1])

        def states(person, span=span):
            return taste.fold_in(fitted_of(model).row(model._person(person)))[span, 0].astype(float)

        m = states(PERSON)
        P = taste.P[span, d].astype(float)
        left = sum(
            (m @ P[:, v]) * scale_of.entropy(m * P[:, v] / (m @ P[:, v]))
            for v in range(len(LEVELS))
        )
        assert_allclose(gains[item], scale_of.entropy(m) - left, atol=1e-5)


def test_questions_help():
    """After three answers that were asked for, other ratings are known better than after none."""
    model = served("ordinal")
    users, items, values = drawn_ratings(0)
    before, after = [], []
    for user in range(30):
        own = dict(zip(np.array(NAMES)[items[users == user]], values[users == user], strict=True))
        talk = model.interview({})
        for _ in range(3):
            item = talk.next_question([i for i in own if i not in talk.ratings])
            talk.answer(item, own[item])
        rest = [i for i in own if i not in talk.ratings]
        truth = np.array([own[i] for i in rest])
        before.extend((model.predict({}, rest, point="mean") - truth) ** 2)
        after.extend((model.predict(talk.ratings, rest, point="mean") - truth) ** 2)
    assert np.mean(after) < 0.8 * np.mean(before)


def test_items_that_a_person_cannot_rate_are_not_asked_about_again():
    talk = served("categorical").interview({})
    asked = []
    for _ in range(3):
        asked.append(talk.next_question())
        talk.decline(asked[-1])
    assert len(set(asked)) == 3
    assert talk.ratings == {}
    # Without an answer, items are known as often as they are rated.
    counts, gains = served("categorical").item_counts(), talk.gains()
    weighed = {item: gains[item] * counts[NAMES.index(item)] for item in NAMES}
    assert asked == sorted(NAMES, key=weighed.get, reverse=True)[:3]


def test_questions_come_to_an_end():
    model = served("categorical")
    talk = model.interview(dict.fromkeys(NAMES[1:], 3))
    assert talk.next_question() == NAMES[0]
    with pytest.raises(ValueError, match="no item left to ask about"):
        talk.next_question([NAMES[1]])
    talk.answer(NAMES[0], 3)
    with pytest.raises(ValueError, match="no item left"):
        talk.next_question()
    with pytest.raises(ValueError, match=r"rule='luck' must be one of error, information, value"):
        model.interview({}, rule="luck")
    with pytest.raises(ValueError, match="rule="):
        model.next_question({}, rule="luck")
    talk = model.interview({})
    with pytest.warns(UserWarning, match="Unknown item"):
        talk.answer("nothing", 3)
    assert talk.ratings == {}
    with pytest.raises(ValueError, match="not on the scale"):
        talk.answer(NAMES[0], 7)


# --- reasons ---


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "states", "classes"])
def test_effects_are_predictions_with_a_rating_left_out(kind):
    model = served(kind)
    for item in (NAMES[1], NAMES[0]):  # one not rated, one rated
        told = model.explain(PERSON, item)
        whole = model.predict(PERSON, [item], point="mean")[0]
        assert_allclose(told["rating"], whole, atol=1e-5)
        assert_allclose(
            list(told["distribution"].values()), model.predict_distribution(PERSON, [item])[0],
            atol=1e-5,
        )  # fmt: skip
        assert {reason["item"] for reason in told["because"]} == PERSON.keys() - {item}
        effects = []
        for reason in told["because"]:
            rest = {i: v for i, v in PERSON.items() if i != reason["item"]}
            left = model.predict(rest, [item], point="mean")[0]
            assert reason["rating"] == PERSON[reason["item"]]
            assert_allclose(reason["effect"], whole - left, atol=1e-4)
            effects.append(abs(reason["effect"]))
        assert (np.diff(effects) <= 1e-6).all()  # ranked as far as the digits are certain


@pytest.mark.parametrize("kind", ["ordinal", "open", "factor classes"])
def test_effects_on_ordered_levels_nearly_so(kind):
    """The latent numbers of the other ratings stay as they are."""
    model = served(kind)
    told = model.explain(PERSON, NAMES[1])
    whole = model.predict(PERSON, [NAMES[1]], point="mean")[0]
    assert_allclose(told["rating"], whole, atol=1e-4)
    largest = max(abs(reason["effect"]) for reason in told["because"])
    for reason in told["because"]:
        rest = {i: v for i, v in PERSON.items() if i != reason["item"]}
        left = model.predict(rest, [NAMES[1]], point="mean")[0]
        assert abs(reason["effect"] - (whole - left)) < 0.5 * largest + 1e-3


@ALL
def test_reasons_name_parts_states_and_neighbours(kind):
    model = served(kind)
    estimator = model.estimators_[0]
    for d, item in enumerate(NAMES):
        told = model.explain(PERSON, item, n=2)
        assert told["part"] == estimator.parts_[d]
        assert len(told["because"]) == 2
        assert told["similar_items"] == model.similar_items(item, 2)
        assert item not in told["similar_items"]
        for other in model.similar_items(item):
            assert (
                fitted_of(model).tastes[0].parts[NAMES.index(other)]
                == fitted_of(model).tastes[0].parts[d]
            )
        if isinstance(estimator, MCVQ) and told["part"] >= 0:
            m = estimator.transform(as_row(PERSON))[0]
            sizes = np.cumsum([0, *estimator.n_states_])
            own = m[sizes[told["part"]] : sizes[told["part"] + 1]]
            assert told["state"] == own.argmax()
            assert_allclose(told["probability"], own.max(), atol=1e-5)
    assert model.explain({}, NAMES[0])["because"] == []
    with pytest.raises(ValueError, match="'nothing' is not a known item"):
        model.explain(PERSON, "nothing")
    with pytest.raises(ValueError, match="'nothing' is not a known item"):
        model.similar_items("nothing")


def test_neighbours_are_rated_alike():
    """Nearest first: of loadings the cosine, of states the correlation of expected ratings."""
    for kind in ("ordinal", "categorical"):
        model = served(kind)
        taste = fitted_of(model).tastes[0]
        found = model.similar_items(NAMES[0])
        same = [i for i in range(1, D) if taste.parts[i] == taste.parts[0]]
        assert {NAMES.index(i) for i in found} == set(same)
        if kind == "categorical":
            k = taste.parts[0]
            span = slice(taste.core.first[k], taste.core.first[k + 1])
            share = states.state_shares(taste.fitted)[0, span]
            centered = taste.M[span] - share @ taste.M[span]
            size = np.sqrt(share @ centered**2)
            alike = [share @ (centered[:, i] * centered[:, 0]) / size[i] for i in same]
            assert [NAMES.index(i) for i in found] == [same[i] for i in np.argsort(alike)[::-1]]
