"""Recommender: what it says is what its estimators say; questions, reasons and bad input."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from partwise import CVQ, MCFA, MCVQ, ObservedCells, Recommender, load
from partwise.answers import factors, states
from partwise.answers.rows import source_of
from partwise.fitted import core_of
from partwise.models import levels as scale_of
from partwise.models.questions import RULES
from tests.common.helpers import quietly

D, LEVELS = 12, np.array([1.0, 2.0, 3.0, 4.0, 5.0])
NAMES = [f"film {i:02d}" for i in range(D)]


def drawn_ratings(seed=0, n_users=120, levels=LEVELS, share=0.6):
    """Users, items and ratings of two kinds of films, each with a taste of its own."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n_users, 2))
    own = np.repeat([0, 1], D // 2)
    Z = taste[:, own] * rng.choice([1.0, 1.0, -0.8], D) + 0.5 * rng.normal(size=(n_users, D))
    Z += 0.5 * rng.normal(size=D)
    cuts = np.quantile(Z, np.arange(1, len(levels)) / len(levels))
    table = np.asarray(levels)[(Z[:, :, None] > cuts).sum(axis=2)]
    users, items = np.nonzero(rng.random(Z.shape) < share)
    return users, items, table[users, items]


KINDS = {
    "ordinal": MCFA(2, 1, likelihood="ordinal", random_state=0, tol=0.05),
    "gaussian": MCFA(2, 1, random_state=0, tol=0.05),
    "categorical": MCVQ(2, 3, likelihood="categorical", random_state=0, tol=0.05),
    "states": MCVQ(2, 3, random_state=0, tol=0.05),
    "open": MCFA(2, 1, likelihood="ordinal", gating="standard", random_state=0, tol=0.05),
    "selecting": MCVQ(2, 2, likelihood="categorical", gating="factorised", random_state=0, tol=0.1),
    "classes": MCVQ(2, 3, likelihood="categorical", n_classes=2, random_state=0, tol=0.05),
    "factor classes": MCFA(2, 1, likelihood="ordinal", n_classes=2, random_state=0, tol=0.05),
}
FITTED = {}
PERSON = {NAMES[0]: 5, NAMES[3]: 1, NAMES[7]: 4, NAMES[9]: 2}


def served(*kinds):
    if kinds not in FITTED:
        members = [KINDS[kind] for kind in kinds]
        users, items, values = drawn_ratings()
        ratings = (users, np.array(NAMES)[items], values)
        FITTED[kinds] = quietly(Recommender(members if len(kinds) > 1 else members[0]), ratings)
    return FITTED[kinds]


def as_row(person):
    row = np.full((1, D), np.nan, np.float32)
    for item, value in person.items():
        row[0, NAMES.index(item)] = value
    return row


ALL = pytest.mark.parametrize("kind", KINDS)


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
    fitted = estimator._fitted
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
    estimator, taste = model.estimators_[0], model._fitted.tastes[0]
    users, items, values = drawn_ratings()
    own = users == 17
    person = {NAMES[i]: v for i, v in zip(items[own], values[own], strict=True)}
    row = sparse.csr_matrix(
        (values[own].astype(np.float32), (np.zeros(own.sum(), int), items[own])), shape=(1, D)
    )
    features = taste.fold_in(model._fitted.row(model._person(person)))
    if isinstance(estimator, MCFA):
        features = features[core_of(estimator._fitted.model, object).linear]
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
        choice, rated = model._fitted.choice, [NAMES.index(name) for name in known]
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
    taste, estimator = model._fitted.tastes[0], model.estimators_[0]
    gains = model.interview(PERSON, rule="information").gains()
    for item in (NAMES[1], NAMES[6]):
        d = NAMES.index(item)
        k = taste.parts[d]
        if k >= estimator.n_parts or taste.fitted.params.gates[k, d] < 1:
            continue
        span = slice(taste.core.first[k], taste.core.first[k + 1])

        def states(person, span=span):
            return taste.fold_in(model._fitted.row(model._person(person)))[span, 0].astype(float)

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
                model._fitted.tastes[0].parts[NAMES.index(other)]
                == model._fitted.tastes[0].parts[d]
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
        taste = model._fitted.tastes[0]
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


# --- bad input ---


def test_unknown_items_are_left_out_or_refused():
    model = served("ordinal")
    with pytest.warns(UserWarning, match="Unknown item: 'nothing'; ignored"):
        found = model.predict(PERSON | {"nothing": 3})
    assert_array_equal(found, model.predict(PERSON))
    then = r"2 items are unknown \(first: 'x'\); they are predicted as the average item"
    with pytest.warns(UserWarning, match=then):
        found = model.predict(PERSON, [NAMES[2], "x", "y"], point="mean")
    counts = model._fitted.counts
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


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_a_prediction_of_one_item_computes_no_other(kind, monkeypatch):
    model = served(kind)
    every = model.predict_distribution(PERSON)

    def refuse(*_):
        raise AssertionError("all items were computed")

    monkeypatch.setattr(type(model._fitted.tastes[0]), "shares", refuse)
    for d in (2, 8):
        assert_allclose(model.predict_distribution(PERSON, [NAMES[d]]), every[[d]], atol=1e-6)
        model.predict(PERSON, [NAMES[d]])
        model.predict_interval(PERSON, [NAMES[d]])


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


def test_numbers_between_cuts():
    """A Gaussian estimator's levels are what lies nearest."""
    model = served("gaussian")
    estimator = model.estimators_[0]
    d, k = 2, estimator._fitted.params.gates[:, 2].argmax()
    nobody = estimator._check_rows(as_row({}), reset=False)
    features = factors.features(estimator._fitted, nobody).astype(float)
    w, group = estimator._fitted.params.loadings[k], estimator._fitted.columns[0]
    _, linear, quadratic = core_of(estimator._fitted.model, object).spans()[k]
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
    taste = model._fitted.tastes[0]
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
    row = model._fitted.row(model._person(PERSON))
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
    floor = int(np.sort(model._fitted.counts)[-2])
    often = {NAMES[d] for d in np.flatnonzero(model._fitted.counts >= floor)}
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
