"""Top-10 recommendations among all unrated films, compared with EASE, ALS and popularity.

A fifth of the ratings is held out at random (seed 11, of which no setting has seen the result);
those of at least 4 are relevant (on EachMovie's scale of 6 levels, those of at least 5). The
penalty of EASE and the factors, regularization and confidence of ALS are tuned on a tenth of the
rest, on grids without ends: the search goes on while a step in some direction gives a better list.
All are then fitted to all of the rest. The recommender tunes its penalty by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Hashable
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from partwise import Recommender
from partwise.datasets import load_eachmovie, load_movielens
from partwise.evaluation import Recommend, evaluate, random_split
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting

# Of every option the first value and the factor of a step.
Steps: TypeAlias = tuple[tuple[float, float], ...]

MISSING = "not measured, since implicit is not installed; pip install implicit"
K = 10

# Random seed of the split.
SEED = 11

# First options of a search, and the factors of its steps. ALS: factors, regularization, confidence.
EASE = ((400.0, 2.0),)
ALS = ((64.0, 2.0), (1.0, 10.0), (2.0, 2.0))


def ease_scores(X: Any, penalty: float) -> Array:
    """Scores of EASE as published: one penalty, all people of equal weight."""
    G = (X.T @ X).toarray().astype(float)
    G[np.diag_indices_from(G)] += penalty
    P = np.linalg.inv(G)
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    return np.asarray(X @ B)


def als_scores(X: Any, factors: float, regularization: float, alpha: float) -> Array:
    """Scores of implicit's ALS on items taken."""
    kind = importlib.import_module("implicit.als").AlternatingLeastSquares
    options = {"factors": int(factors), "regularization": regularization, "alpha": alpha}
    model = kind(random_state=0, iterations=15, num_threads=1, **options)
    model.fit(sparse.csr_matrix(X, dtype=np.float32), show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T)


def top(scores: Array, X: Any, k: int) -> Array:
    """Columns of the k highest scores of items not in X, (n, k)."""
    scores = np.array(scores)
    scores[X.nonzero()] = -np.inf
    some = np.argpartition(-scores, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, some, 1), axis=1, kind="stable")
    return np.take_along_axis(some, order, 1)


def ndcg(columns: Array, relevant: Any) -> float:
    """Mean NDCG over people who have something to find."""
    wanted = relevant.toarray() > 0
    able = wanted.any(axis=1)
    hit = np.take_along_axis(wanted, columns, 1)[able]
    discount = 1.0 / np.log2(np.arange(columns.shape[1]) + 2.0)
    found = np.minimum(wanted[able].sum(axis=1), columns.shape[1])
    return float((hit @ discount / np.cumsum(discount)[found - 1]).mean())


def tuned(
    score: Callable[..., Array], steps: Steps, X: Any, relevant: Any
) -> tuple[tuple[float, ...], int]:
    """Options whose NDCG on a validation split no step improves, and the number of those tried."""
    found: dict[tuple[float, ...], float] = {}

    def gain(options: tuple[float, ...]) -> float:
        if options not in found:
            found[options] = ndcg(top(score(X, *options), X, K), relevant)
        return found[options]

    best, better = tuple(first for first, _ in steps), True
    while better:
        better = False
        for i, by in product(range(len(steps)), (1, -1)):
            other = (*best[:i], best[i] * steps[i][1] ** by, *best[i + 1 :])
            if gain(other) > gain(best):
                best, better = other, True
    return best, len(found)


def compare(
    user: Array,
    item: Array,
    rating: Array,
    progress: Callable[[str], None],
    ease: Steps = EASE,
    als: Steps = ALS,
    seed: int = SEED,
    like: float = 4.0,
) -> list[Row]:
    """NDCG, recall and MRR at 10, coverage and novelty, with intervals; users and items from 0."""
    shape = int(user.max()) + 1, int(item.max()) + 1
    train, test = random_split(len(user), 0.2, random_state=seed)
    rest, valid = (train[some] for some in random_split(len(train), 0.1, random_state=seed + 1))

    def taken(rows: Array) -> Any:
        return sparse.csr_matrix((np.ones(len(rows)), (user[rows], item[rows])), shape=shape)

    X, relevant = taken(rest), taken(valid[rating[valid] >= like])
    others: dict[str, Recommend] = {}
    notes: dict[str, str] = {}

    def enter(name: str, score: Callable[..., Array], steps: Steps) -> None:
        progress(f"{name}: tuning")
        best, tried = tuned(score, steps, X, relevant)
        columns = top(score(taken(train), *best), taken(train), K)
        notes[name] = ", ".join(f"{value:g}" for value in best) + f"; best of {tried}"

        def recommend(users: list[Hashable], k: int) -> Array:
            return columns[np.array(users), :k].astype(object)

        others[name] = recommend

    enter("EASE", ease_scores, ease)
    if importlib.util.find_spec("implicit") is not None:
        enter("implicit ALS", als_scores, als)
    progress("Recommender")
    begun = time.process_time()
    model = Recommender(like=like).fit((user[train], item[train], rating[train]))
    took = time.process_time() - begun
    begun = time.process_time()
    model.recommend_many(n=K)
    speed = model.n_users_ / (time.process_time() - begun)
    notes["value"] = f"fit {took:.0f} s, {speed:.0f} users/s"
    ways = ("value", "choice", "rating")
    scores = evaluate(model, (user[test], item[test], rating[test]), k=K, by=ways, others=others)
    rows: dict[str, Row] = {}
    for score in scores:
        name = f"Recommender, by {score.model}" if score.model in ways else score.model
        row = rows.setdefault(name, {"model": name, "tuned": notes.get(score.model, "")})
        if score.metric in ("ndcg", "recall"):
            row[score.metric] = score.value
            row[f"{score.metric} low"], row[f"{score.metric} high"] = score.lower, score.upper
        elif score.metric in ("mrr", "coverage", "novelty"):
            row[score.metric] = score.value
    rows.pop("ratings", None)
    if "implicit ALS" not in rows:
        rows["implicit ALS"] = {"model": f"implicit ALS: {MISSING}"}
    return list(rows.values())


@register("ratings_top")
def ratings_top(setting: Setting) -> list[Row]:
    """Films: NDCG and recall of ten recommendations; EASE, implicit's ALS and popularity.

    ``low`` and ``high`` are bootstrap intervals of probability 0.95 over users. ``tuned`` has the
    selected options, and for ours the time to fit and the speed of recommending to all users.
    """
    out: list[Row] = []
    films: dict[str, tuple[Callable[[], Any], float]] = {
        "MovieLens-100k": (partial(load_movielens, "100k"), 4.0),
        "MovieLens-1M": (partial(load_movielens, "1m"), 4.0),
        "EachMovie": (load_eachmovie, 5.0),
    }
    for name in setting.choose(fast=("MovieLens-100k",), full=tuple(films)):
        load, like = films[name]
        data = load()
        user = np.unique(data.row, return_inverse=True)[1]
        item = np.unique(data.column, return_inverse=True)[1]
        rows = compare(user, item, data.rating.astype(float), setting, like=like)
        out += [{"data": name, **row} for row in rows]
    return out
