"""Measures of predicted ratings, against scikit-learn's where it has them and plain loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss, ndcg_score

from partwise.metrics import chance_error, log_loss_of_levels, ndcg_at, nmae, recall_at


@pytest.mark.parametrize(
    ("levels", "error"),
    [(range(1, 6), 1.6), (range(1, 7), 35 / 18), (np.arange(0.5, 5.1, 0.5), 1.65), ([0, 1], 0.5)],
    ids=["five stars", "six levels", "half stars", "two"],
)
def test_chance_error_of_known_scales(levels, error):
    assert_allclose(chance_error(list(levels)), error)
    assert_allclose(chance_error(list(levels)[::-1]), error)


def test_chance_error_of_uneven_levels_is_the_mean_over_all_pairs():
    levels = np.array([-3.0, 0.5, 0.75, 10.0])
    assert_allclose(chance_error(levels), np.abs(levels[:, None] - levels).mean())


def test_random_ratings_have_an_nmae_of_one():
    rng = np.random.default_rng(0)
    true, predicted = rng.integers(1, 6, (2, 100_000))
    assert_allclose(nmae(true, predicted, range(1, 6)), 1, atol=0.01)
    weight = rng.random(len(true))
    by_hand = np.average(np.abs(true - predicted), weights=weight) / 1.6
    assert_allclose(nmae(true, predicted, range(1, 6), sample_weight=weight), by_hand)


def test_log_loss_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    p, weight = rng.dirichlet(np.ones(5), 40), rng.random(40)
    level = rng.integers(5, size=40)
    expected = log_loss(level, p, labels=np.arange(5), sample_weight=weight)
    assert_allclose(log_loss_of_levels(p, level, sample_weight=weight), expected)
    assert log_loss_of_levels([[1.0, 0.0]], [1]) == np.inf


@pytest.mark.parametrize("ties", [False, True])
def test_ranks_of_ragged_users_equal_those_of_each_user_alone(ties):
    rng = np.random.default_rng(ties)
    user = rng.permutation(np.repeat(["a", "b", "c", "d", "e"], [2, 7, 12, 30, 3]))
    score = rng.integers(4, size=len(user)).astype(float) if ties else rng.normal(size=len(user))
    gain = rng.integers(4, size=len(user)) * (user != "e")  # who has nothing to find
    for n in (1, 5, 20):
        expected, recall = [], []
        for one in "abcd":
            s, g = score[user == one], gain[user == one]
            expected.append(ndcg_score(g[None], s[None], k=n))
            # Over random orders of ties: an item is in if its place is below n.
            above = (s > s[:, None]).sum(axis=1)
            equal = (s == s[:, None]).sum(axis=1)
            recall.append(g @ np.clip((n - above) / equal, 0, 1) / g.sum())
        assert_allclose(ndcg_at(gain, score, users=user, k=n), expected)
        assert_allclose(recall_at(gain, score, users=user, k=n), recall)


def test_what_they_refuse():
    with pytest.raises(ValueError, match="two different finite values"):
        chance_error([3])
    with pytest.raises(ValueError, match="two different finite values"):
        chance_error([1, 1, 2])
    with pytest.raises(ValueError, match="sum to 1"):
        log_loss_of_levels([[0.5, 0.2]], [0])
    with pytest.raises(ValueError, match="from 0 to 1"):
        log_loss_of_levels([[0.5, 0.5]], [2])
    with pytest.raises(ValueError, match="from 0 to 1"):
        log_loss_of_levels([[0.5, 0.5]], [1.0])
    with pytest.raises(ValueError, match="k=0"):
        ndcg_at([1], [1], users=[1], k=0)
    with pytest.raises(ValueError, match="not contain NaN"):
        recall_at([1], [np.nan], users=[1])
    with pytest.raises(ValueError, match="values below 0"):
        ndcg_at([-1], [1], users=[1])
    with pytest.raises(ValueError, match="inconsistent"):
        ndcg_at([1], [1], users=[1, 2])
