"""Splits hold out what they say; metrics are those of their definitions."""

import numpy as np
import pandas as pd
import pytest

from partwise import MCFA, Recommender
from partwise.evaluation import evaluate, leave_last_out, random_split, time_split, user_split


def ratings(seed=0, n=60, D=15):
    rng = np.random.default_rng(seed)
    popular = rng.random(D) ** 2
    users, items = np.nonzero(rng.random((n, D)) < 0.2 + 0.6 * popular)
    return users, items, rng.integers(1, 6, len(users)).astype(float)


@pytest.fixture(scope="module")
def fitted():
    users, items, stars = ratings()
    train, test = random_split(len(users), 0.25, random_state=0)
    estimator = MCFA(1, 1, likelihood="ordinal", max_iter=5, tol=1.0, random_state=0)
    model = Recommender(estimator, levels=[1, 2, 3, 4, 5], like=4)
    model.fit((users[train], items[train], stars[train]))
    return model, (users[test], items[test], stars[test])


def test_splits_divide_the_ratings():
    rng = np.random.default_rng(0)
    users, times = rng.integers(0, 20, 300), rng.integers(0, 100, 300)
    for train, test in (
        leave_last_out(users, times, 2),
        time_split(times, 0.3),
        random_split(300, 0.3, random_state=0),
        user_split(users, 0.3, random_state=0),
    ):
        assert sorted([*train, *test]) == list(range(300))
        assert 0 < len(test) < len(train)
    train, test = leave_last_out(users, times, 2)
    for user in range(20):
        own = test[users[test] == user]
        assert len(own) == 2
        assert times[own].min() >= times[train[users[train] == user]].max()
    train, test = time_split(times, 0.3)
    assert times[train].max() < times[test].min()
    train, test = user_split(users, 0.3, random_state=0)
    assert not set(users[train]) & set(users[test])
    assert len(set(users[test])) == 6
    for bad in (0, 1, -0.5):
        with pytest.raises(ValueError, match="test_share="):
            time_split(times, bad)
    with pytest.raises(ValueError, match="n=0"):
        leave_last_out(users, times, 0)


def test_metrics_of_lists_are_those_of_their_definition(fitted):
    model, (users, items, stars) = fitted
    k = 3
    scores = evaluate(model, (users, items, stars), k=k, by=("value", "rating"), n_bootstrap=50)
    found = {(score.model, score.metric): score for score in scores}
    able = sorted({u for u, s in zip(users, stars, strict=True) if s >= 4})
    counts = model.item_counts()
    for by in ("value", "rating", "popularity"):
        per_user, seen = {"ndcg": [], "recall": [], "mrr": [], "novelty": []}, set()
        for user in able:
            good = set(items[(users == user) & (stars >= 4)])
            if by == "popularity":
                rated = model.user_ratings(user)
                order = sorted(range(len(counts)), key=lambda d: (-counts[d], d))
                listed = [model.items_[d] for d in order if model.items_[d] not in rated][:k]
            else:
                listed = [r.item for r in model.recommend(model.user_ratings(user), k, by=by)]
            hits = [item in good for item in listed]
            gain = sum(h / np.log2(i + 2) for i, h in enumerate(hits))
            per_user["ndcg"].append(
                gain / sum(1 / np.log2(i + 2) for i in range(min(k, len(good))))
            )
            per_user["recall"].append(sum(hits) / len(good))
            per_user["mrr"].append(next((1 / (i + 1) for i, h in enumerate(hits) if h), 0.0))
            share = [counts[model.items_.index(item)] / model.n_users_ for item in listed]
            per_user["novelty"].append(-np.log2(share).mean())
            seen |= set(listed)
        for metric, values in per_user.items():
            score = found[by, metric]
            assert score.value == pytest.approx(np.mean(values), rel=1e-6)
            assert score.lower <= score.value <= score.upper
        assert found[by, "coverage"].value == len(seen) / len(counts)


def test_intervals_are_as_wide_as_the_standard_error(fitted):
    model, test = fitted
    score = next(s for s in evaluate(model, test, n_bootstrap=2000) if s.metric == "recall")
    users, _, stars = test
    able = {u for u, s in zip(users, stars, strict=True) if s >= 4}
    assert score.upper - score.lower < 4 / np.sqrt(len(able))
    assert score.upper > score.lower


def test_ratings_are_evaluated_too(fitted):
    model, (users, items, stars) = fitted
    scores = evaluate(model, pd.DataFrame({"user": users, "item": items, "rating": stars}))
    found = {s.metric: s for s in scores if s.model == "ratings"}
    p = model.predict_pairs(None, users, items, point="distribution")
    mean = p @ model.levels_
    assert found["rmse"].value == pytest.approx(np.sqrt(np.mean((mean - stars) ** 2)))
    true = p[np.arange(len(p)), stars.astype(int) - 1]
    assert found["log_loss"].value == pytest.approx(-np.log(true).mean())
    for score in found.values():
        assert score.lower <= score.value <= score.upper
    assert set(found) == {"nmae", "rmse", "log_loss", "calibration_error"}


def test_other_recommenders_are_compared(fitted):
    model, (users, items, stars) = fitted

    def oracle(asked, k):
        out = np.full((len(asked), k), None, dtype=object)
        for i, user in enumerate(asked):
            good = items[(users == user) & (stars >= 4)][:k]
            out[i, : len(good)] = good
        return out

    scores = evaluate(model, (users, items, stars), others={"oracle": oracle})
    assert {s.value for s in scores if s.model == "oracle" and s.metric in ("ndcg", "mrr")} == {1.0}


def test_nothing_to_evaluate_is_an_error(fitted):
    model, _ = fitted
    with pytest.raises(ValueError, match="known user and item"):
        evaluate(model, (["eve"], [1], [5]))
    with pytest.raises(ValueError, match="at least 4"):
        evaluate(model, ([1], [1], [2]))
    with pytest.raises(ValueError, match="k=0"):
        evaluate(model, ([1], [1], [5]), k=0)
