"""Evaluation of recommendations: splits of ratings, and metrics with bootstrap intervals.

Metrics of lists are means over users of the first k recommendations. Relevant items are those held
out that a user rated at least ``like_`` or, with implicit feedback, took. Popular items are always
evaluated too, as a baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length

from partwise.contracts import Array
from partwise.data.ratings import check_whole, plain, read_ratings
from partwise.estimators.recommender import Recommender
from partwise.metrics import calibration_error, chance_error
from partwise.sampling.randomness import as_generator
from partwise.typing import RatingsLike, Seed

__all__ = [
    "Recommend", "Score", "evaluate", "leave_last_out", "random_split", "time_split", "user_split",
]  # fmt: skip

# Recommends k items to each of some users: (users, k) -> items, (n, k), None where there are fewer.
Recommend: TypeAlias = Callable[[list[Hashable], int], Array]


class Score(NamedTuple):
    """A metric of a recommender, with a bootstrap interval of probability 0.95 over users."""

    model: str
    metric: str
    value: float
    lower: float
    upper: float


# --- splits ---


def leave_last_out(users: ArrayLike, timestamps: ArrayLike, n: int = 1) -> tuple[Array, Array]:
    """Hold out the last n ratings of every user who has more.

    Parameters
    ----------
    users, timestamps : array-like of shape (R,)
        User and time of each rating; of equal times the later row is the last.
    n : int, default=1

    Returns
    -------
    train, test : ndarray of int
        Rows, ascending.

    Examples
    --------
    >>> from partwise.evaluation import leave_last_out
    >>> train, test = leave_last_out([1, 1, 1, 2], [30, 10, 20, 5])
    >>> train.tolist(), test.tolist()
    ([1, 2, 3], [0])
    """
    user, time = np.unique(np.asarray(users), return_inverse=True)[1], np.asarray(timestamps)
    check_consistent_length(user, time)
    check_whole("n", n)
    order = np.lexsort((np.arange(len(user)), time, user))
    count = np.bincount(user)
    from_end = np.cumsum(count)[user[order]] - np.arange(len(user))  # 1 for the last
    held = np.zeros(len(user), bool)
    held[order] = (from_end <= n) & (count[user[order]] > n)
    return np.flatnonzero(~held), np.flatnonzero(held)


def time_split(timestamps: ArrayLike, test_share: float = 0.2) -> tuple[Array, Array]:
    """Hold out the last ratings of all users together.

    Parameters
    ----------
    timestamps : array-like of shape (R,)
    test_share : float, default=0.2
        Ratings at the same time as the first of the test set are in the test set.

    Returns
    -------
    train, test : ndarray of int

    Examples
    --------
    >>> from partwise.evaluation import time_split
    >>> [rows.tolist() for rows in time_split([5, 1, 4, 2, 3], test_share=0.4)]
    [[1, 3, 4], [0, 2]]
    """
    time = np.asarray(timestamps)
    _check_share(test_share)
    begin = np.sort(time)[int(np.ceil((1.0 - test_share) * len(time) - 1e-9))]
    return np.flatnonzero(time < begin), np.flatnonzero(time >= begin)


def random_split(
    n_ratings: int, test_share: float = 0.2, *, random_state: Seed = None
) -> tuple[Array, Array]:
    """Hold out ratings at random.

    Parameters
    ----------
    n_ratings : int
    test_share : float, default=0.2
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    train, test : ndarray of int

    Examples
    --------
    >>> from partwise.evaluation import random_split
    >>> [len(rows) for rows in random_split(10, random_state=0)]
    [8, 2]
    """
    _check_share(test_share)
    order = as_generator(random_state).permutation(n_ratings)
    n = round(test_share * n_ratings)
    return np.sort(order[n:]), np.sort(order[:n])


def user_split(
    users: ArrayLike, test_share: float = 0.2, *, random_state: Seed = None
) -> tuple[Array, Array]:
    """Hold out all ratings of some users.

    Give a part of these ratings to `Recommender.partial_fit` before evaluation: they are what
    is known about a new user.

    Parameters
    ----------
    users : array-like of shape (R,)
    test_share : float, default=0.2
        Share of the users.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    train, test : ndarray of int

    Examples
    --------
    >>> from partwise.evaluation import user_split
    >>> train, test = user_split([1, 1, 2, 3, 4, 5], random_state=0)
    >>> len(train) + len(test)
    6
    """
    _check_share(test_share)
    found, user = np.unique(np.asarray(users), return_inverse=True)
    chosen = as_generator(random_state).permutation(len(found))[: round(test_share * len(found))]
    held = np.isin(user, chosen)
    return np.flatnonzero(~held), np.flatnonzero(held)


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"test_share={share!r} must be above 0 and below 1, such as 0.2.")


# --- metrics ---


def evaluate(
    model: Recommender,
    test: RatingsLike,
    *,
    k: int = 10,
    by: Sequence[str] = ("value",),
    others: Mapping[str, Recommend] | None = None,
    n_bootstrap: int = 500,
    random_state: Seed = 0,
) -> list[Score]:
    """Evaluate a fitted recommender on held-out ratings of its users.

    Parameters
    ----------
    model : Recommender
        Fitted to the training ratings, and with its users.
    test : DataFrame, tuple of three or two arrays
        Held-out ratings; users and items that the model does not know are left out.
    k : int, default=10
        Length of the lists.
    by : sequence of {"value", "rating", "choice"}, default=("value",)
        Rankings of the model to evaluate.
    others : mapping of names to functions, optional
        Further recommenders: a function of a list of users and k that returns an array of items of
        shape (n_users, k), such as another library's.
    n_bootstrap : int, default=500
        Number of samples of users for the intervals.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    scores : list of Score
        Of every list: "ndcg", "recall" and "mrr" at k, "coverage", the share of items that are
        recommended to a user, and "novelty", the mean of -log2 of the share of users who took a
        recommended item. Of the predicted ratings, if there are any: "nmae", "rmse", "log_loss" and
        "calibration_error" of the probability of every level.

    Examples
    --------
    >>> from partwise import Recommender
    >>> from partwise.evaluation import evaluate, random_split
    >>> users, items = [1, 1, 2, 2, 3, 3, 3, 4, 4], [*"abababcbc"]
    >>> model = Recommender().fit((users, items))
    >>> scores = evaluate(model, ([1, 2], ["c", "c"]), k=1)
    >>> sorted({score.model for score in scores})
    ['popularity', 'value']
    """
    check_whole("k", k)
    check_whole("n_bootstrap", n_bootstrap)
    held = _held_out(model, test)
    if not len(held.user):
        raise ValueError("No held-out rating is of a known user and item; check the split.")
    rng = as_generator(random_state)
    relevant = held.rating >= model.like_ if held.rating is not None else np.ones(len(held.user))
    wanted = np.zeros((len(held.users), len(model.items_)), bool)
    wanted[held.user, held.item] = relevant.astype(bool)
    able = np.flatnonzero(wanted.any(axis=1))
    if not len(able):
        raise ValueError(f"No held-out rating is at least {model.like_:g}; set like lower.")
    users, wanted = [held.users[i] for i in able], wanted[able]
    rankings = {name: _lists(model, name) for name in ([by] if isinstance(by, str) else by)}
    rankings["popularity"] = _popularity(model)
    share = np.maximum(model.item_counts(), 1) / model.n_users_
    place = {item: i for i, item in enumerate(model.items_)}
    out: list[Score] = []
    for name, recommend in {**rankings, **(others or {})}.items():
        items = np.asarray(recommend(users, k), dtype=object)
        columns = np.array([[place.get(item, -1) for item in row] for row in items.tolist()])
        out += _list_scores(name, columns, wanted, share, n_bootstrap, rng)
    if held.rating is not None:
        out += _rating_scores("ratings", model, held, n_bootstrap, rng)
    return out


class _Held(NamedTuple):
    """Held-out ratings: distinct users, and of every rating its user, item and value."""

    users: list[Hashable]
    user: Array
    item: Array
    rating: Array | None


def _held_out(model: Recommender, test: RatingsLike) -> _Held:
    """Held-out ratings of known users and items."""
    read = read_ratings(test, implicit=model.levels_.tolist() == [0.0, 1.0])
    place = {item: i for i, item in enumerate(model.items_)}
    known = set(model.known_users())
    entries = read.matrix.tocoo()
    columns = np.array([place.get(item, -1) for item in read.items])[entries.col]
    kept = np.array([user in known for user in read.users])[entries.row] & (columns >= 0)
    rows, user = np.unique(entries.row[kept], return_inverse=True)
    rating = None if read.implicit else entries.data[kept]
    return _Held([read.users[i] for i in rows], user, columns[kept], rating)


def _lists(model: Recommender, by: str) -> Recommend:
    def recommend(users: list[Hashable], k: int) -> Array:
        return model.recommend_many(users, k, by=by).items

    return recommend


def _popularity(model: Recommender) -> Recommend:
    """The items with most ratings that a user has not rated."""
    order = np.argsort(-model.item_counts(), kind="stable").tolist()

    def recommend(users: list[Hashable], k: int) -> Array:
        out = np.full((len(users), k), None, dtype=object)
        for i, user in enumerate(users):
            rated = model.user_ratings(user)
            best = (model.items_[d] for d in order if model.items_[d] not in rated)
            some = [item for item, _ in zip(best, range(k), strict=False)]
            out[i, : len(some)] = some
        return out

    return recommend


def _list_scores(
    name: str, columns: Array, wanted: Array, share: Array, n: int, rng: np.random.Generator
) -> list[Score]:
    """Metrics of lists (users, k) of columns, -1 for none."""
    k = columns.shape[1]
    listed = columns >= 0
    hit = np.take_along_axis(wanted, np.maximum(columns, 0), 1) & listed
    count = wanted.sum(axis=1)
    discount = 1.0 / np.log2(np.arange(k) + 2.0)
    ideal = np.cumsum(discount)[np.minimum(count, k) - 1]
    first = np.where(hit.any(axis=1), 1.0 / (hit.argmax(axis=1) + 1.0), 0.0)
    surprise = np.where(listed, -np.log2(share[columns]), 0.0)
    per_user = {
        "ndcg": hit @ discount / ideal,
        "recall": hit.sum(axis=1) / count,
        "mrr": first,
        "novelty": surprise.sum(axis=1) / np.maximum(listed.sum(axis=1), 1),
    }
    picks = rng.integers(len(columns), size=(n, len(columns)))
    out = [
        _scored(name, metric, float(found.mean()), found[picks].mean(axis=1))
        for metric, found in per_user.items()
    ]

    def coverage(rows: Array) -> float:
        return len(np.unique(columns[rows][listed[rows]])) / wanted.shape[1]

    # Resampled users are fewer different ones, so coverage has the interval of subsamples of half.
    halves = [rng.permutation(len(columns))[: max(len(columns) // 2, 1)] for _ in range(min(n, 50))]
    all_of_it = coverage(np.arange(len(columns)))
    samples = np.array([coverage(rows) for rows in halves])
    shifted = all_of_it + (samples - samples.mean()) / np.sqrt(2.0)
    return [*out, _scored(name, "coverage", all_of_it, shifted)]


def _rating_scores(
    name: str, model: Recommender, held: _Held, n: int, rng: np.random.Generator
) -> list[Score]:
    """Metrics of predicted ratings."""
    assert held.rating is not None
    users = plain([held.users[i] for i in held.user])
    items = [model.items_[d] for d in held.item]
    p = model.predict_pairs(None, users, items, point="distribution")
    median = model.predict_pairs(None, users, items)
    levels = model.levels_
    level = np.abs(held.rating[:, None] - levels).argmin(axis=1)
    hit = level[:, None] == np.arange(len(levels))
    per_pair = {
        "nmae": np.abs(median - held.rating) / chance_error(levels),
        "rmse": (p @ levels - held.rating) ** 2,
        "log_loss": -np.log(np.maximum(p[np.arange(len(p)), level], 1e-300)),
    }
    weight = rng.multinomial(len(held.users), np.full(len(held.users), 1 / len(held.users)), n)
    size = np.bincount(held.user)
    out = []
    for metric, found in per_pair.items():
        total = np.bincount(held.user, found)
        value, samples = found.mean(), weight @ total / (weight @ size)
        if metric == "rmse":
            value, samples = np.sqrt(value), np.sqrt(samples)
        out.append(_scored(name, metric, float(value), samples))
    # Resampling adds to this error, so the spread of the samples is put around the error itself.
    error = calibration_error(p.ravel(), hit.ravel())
    errors = []
    for one in weight[: min(n, 100)]:
        kept = np.repeat(np.arange(len(p)), one[held.user])
        errors.append(calibration_error(p[kept].ravel(), hit[kept].ravel()))
    spread = np.array(errors) - np.mean(errors)
    return [*out, _scored(name, "calibration_error", error, np.maximum(error + spread, 0.0))]


def _scored(name: str, metric: str, value: float, samples: Array) -> Score:
    lower, upper = np.quantile(samples, [0.025, 0.975])
    return Score(name, metric, value, float(lower), float(upper))
