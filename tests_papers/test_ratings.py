"""Protocols of held-out ratings, and the experiments on them in small."""

import numpy as np
import pytest
from scipy import sparse

from partwise import MCFA, MCVQ, AspectModel
from partwise_papers.experiments import (
    _ratings,
    _surprise,
    ratings_active,
    ratings_given,
    ratings_nmae,
    ratings_parts,
    ratings_table2,
    ratings_top,
)

LEVELS = np.arange(1.0, 6.0)


def quiet(text):
    assert text


@pytest.fixture(scope="module", name="X")
def drawn_ratings():
    """Two kinds of people, two kinds of items, half of the cells rated."""
    rng = np.random.default_rng(0)
    like = rng.integers(2, size=80)[:, None] == np.arange(24) % 2
    stars = np.where(like, rng.integers(4, 6, like.shape), rng.integers(1, 4, like.shape))
    return sparse.csr_array(stars * (rng.random(like.shape) < 0.5) * 1.0)


@pytest.fixture(scope="module")
def states():
    return MCVQ(2, 2, likelihood="categorical", random_state=0)


@pytest.fixture(scope="module")
def factors():
    return MCFA(1, 2, likelihood="ordinal", max_iter=5, random_state=0)


def test_one_rating_of_everybody_is_held_out(X):
    rest, held = _ratings.hold_out(X, np.random.default_rng(0))
    np.testing.assert_array_equal(held.row, np.arange(80))
    np.testing.assert_array_equal(np.diff(rest.indptr), np.diff(X.indptr) - 1)
    back = sparse.csr_matrix((held.value, (held.row, held.column)), X.shape)
    np.testing.assert_array_equal((rest + back).toarray(), X.toarray())


def test_all_but_a_few_ratings_are_held_out(X):
    rest, held = _ratings.hold_out(X, np.random.default_rng(0), 3)
    assert (np.diff(rest.indptr) == 3).all()
    assert len(held.row) == X.nnz - 3 * 80


def test_any_rating_may_be_the_one_held_out(X):
    first = [_ratings.hold_out(X, np.random.default_rng(s))[1].column[0] for s in range(200)]
    assert set(first) == set(X.indices[: X.indptr[1]])


def test_people_are_learned_from_or_met_later(X):
    split = _ratings.marlin(X, 50, 3)
    assert split.train.shape[0] == len(split.weak.row) == 50
    assert split.known.shape[0] == len(split.strong.row) == 30
    assert split.train.nnz + split.known.nnz == X.nnz - 80
    held_out = split.train.toarray()[split.weak.row, split.weak.column]
    assert (held_out == 0).all()


def test_folds_meet_everybody_once_with_the_same_held_out_ratings(X):
    splits = list(_ratings.user_folds(X, 3, 0))
    assert sum(split.known.shape[0] for split in splits) == 80
    weak = sum(split.weak.value.sum() for split in splits)
    strong = sum(split.strong.value.sum() for split in splits)
    assert weak == pytest.approx(2 * strong)


def test_summary_is_mean_and_standard_error():
    row = _ratings.summary("x", [1.0, 2.0, 3.0])
    assert row == {"x": 2.0, "x se": pytest.approx(1 / np.sqrt(3))}
    assert _ratings.summary("x", [1.0]) == {"x": 1.0}


def test_standard_errors_take_people_as_units():
    error, person = np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])
    mean, se = ratings_given.by_person(error, person)
    assert mean == 2.0
    assert se == pytest.approx(np.sqrt(4 + 4) / 4)


def test_models_their_average_and_no_peers(X, states, factors):
    models = {"states": states, "factors": factors, "Gaussian": MCFA(1, 2, max_iter=5)}
    rows = ratings_nmae.compare(X, LEVELS, 60, 2, models, {}, quiet)
    sets = ratings_nmae.SETS
    names = ["states", "factors", f"factors{sets}", "Gaussian", f"Gaussian{sets}"]
    averages = ["average of the last 2", f"average of the last 2{sets}"]
    assert [row["model"] for row in rows] == [*names, *averages]
    for row in rows:
        assert 0 < row["weak"] < 0.7
        assert 0 < row["strong"] < 0.7
    assert rows[1]["weak above single"] == 0


@pytest.mark.skipif(not _surprise.is_installed(), reason="Surprise is not installed")
def test_peers_see_the_same_split(X, states, factors):
    models = {"states": states, "factors": factors}
    rows = ratings_nmae.compare(X, LEVELS, 60, 2, models, {"SVD": 1}, quiet)
    assert rows[-1]["model"] == "Surprise SVD"
    assert rows[-1]["draws"] == 1


def test_table_over_folds(X, states):
    entries = {
        "MCVQ": states,
        "mean rating": MCVQ(1, 1, likelihood="categorical"),
        "aspect model": AspectModel(2, beta=0.9, random_state=0),
    }
    rows = ratings_table2.table(X, LEVELS, entries, quiet)
    assert all(len(row["weak, mean"]) == 3 for row in rows)
    assert sum(rows[0]["weak, mean"]) < sum(rows[1]["weak, mean"])
    assert sum(rows[2]["strong, mean"]) < sum(rows[1]["strong, mean"])


def test_more_known_ratings_make_smaller_errors(X, states, factors):
    rows = ratings_given.curve(X, LEVELS, {"states": states, "factors": factors}, 20, (0, 6), quiet)
    assert rows[1]["states"] < rows[0]["states"]
    assert rows[0]["people"] == 20
    gain = rows[0]["states"] - rows[0]["factors"]
    assert rows[0]["factors gains"] == pytest.approx(gain)


@pytest.mark.ci
def test_ways_of_asking_begin_at_the_same_place(X, factors, monkeypatch):
    monkeypatch.setattr(ratings_active, "LEAST_RATINGS", 10)
    monkeypatch.setattr(ratings_active, "N_QUESTIONS", (1, 2))
    entries = {"factors": ratings_active.Entry(factors, ("error", "value"))}
    rows = ratings_active.ask_people(X, LEVELS, entries, 60, 10, quiet)
    assert len(rows) == 3 * 2 * 4
    for begin in range(0, len(rows), 4):
        own = rows[begin : begin + 4]
        assert len({row["before"] for row in own}) == 1
        assert own[0]["1: % below random"] == 0
    assert all(row["after 2"] <= row["before"] for row in rows[:4])


def test_what_is_predicted_is_hidden_from_questions(X):
    can_ask = ratings_active.deal(X, 0.5, np.random.default_rng(0))
    for i, items in enumerate(can_ask):
        own = X.indices[X.indptr[i] : X.indptr[i + 1]]
        assert set(items) <= set(own)
        assert len(items) == len(own) // 2


def test_parts_and_series(X):
    titles = ["Star Trek" if d % 2 else f"Other {d}" for d in range(24)]
    model = MCVQ(2, 2, likelihood="categorical", random_state=0)
    fitted = _ratings.fitted(model, X, LEVELS).estimators_[0]
    rows = ratings_parts.describe(X, titles, LEVELS, fitted)
    what = {row["what"]: row for row in rows}
    assert 0 <= what["gates, bits"]["ours"] <= np.log2(3)
    assert what["series: Star Trek"]["films"] == 12
    assert what["all series"]["in one part"] == what["series: Star Trek"]["in one part"]


def test_entropy_of_gates_counts_the_background():
    gates = np.array([[1, 0], [0.5, 0.5], [0.5, 0]], np.float32)
    np.testing.assert_allclose(ratings_parts.bits(gates), [0, 1, 1])


def test_lists_of_ten_are_compared(X):
    user, item = X.nonzero()
    rating = np.asarray(X[user, item]).ravel()
    als = ((2.0, 2.0), (1.0, 4.0), (1.0, 4.0))
    rows = ratings_top.compare(user, item, rating, quiet, ((100.0, 10.0),), als)
    found = {row["model"]: row for row in rows}
    assert {"Recommender, by value", "Recommender, by choice", "EASE", "popularity"} <= set(found)
    value = found["Recommender, by value"]
    assert value["ndcg low"] <= value["ndcg"] <= value["ndcg high"]
    penalty, tried = found["EASE"]["tuned"].split("; best of ")
    assert float(penalty) in (1.0, 10.0, 100.0, 1000.0, 10000.0)
    assert int(tried) >= 3  # a step either way
