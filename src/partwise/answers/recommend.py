"""Answers of a fitted recommender: predicted ratings, recommendations and their reasons."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
from scipy import sparse

from partwise._warnings import warn
from partwise.answers.preferences import StateTastes, Tastes
from partwise.contracts import Array
from partwise.data.ratings import check_scale, plain, read_person
from partwise.models import levels as scale

# Coverage of the interval of a recommendation.
COVERAGE = 0.8

# Column of an unknown item.
UNKNOWN = -1


class Recommendation(NamedTuple):
    """An item, its expected rating, and an interval with probability 0.8."""

    item: Hashable
    rating: float
    lower: float
    upper: float


class Effect(TypedDict):
    """A rating of a person, and its effect on the expected rating of another item."""

    item: Hashable
    rating: float
    effect: float


class Explanation(TypedDict):
    """Reasons for a predicted rating; see `Recommender.explain`."""

    item: Hashable
    rating: float
    distribution: dict[float, float]
    part: int
    because: list[Effect]
    similar_items: list[Hashable]
    state: NotRequired[int]
    probability: NotRequired[float]


class Difference(TypedDict):
    """An item, its expected rating in a state, and the difference from the average."""

    item: Hashable
    rating: float
    difference: float


class Person(NamedTuple):
    """Ratings of one person: columns, ascending, and values."""

    columns: Array
    values: Array


@dataclass(frozen=True)
class Catalog:
    """All that a recommender has learned: models of the same items, and facts about these items.

    ``tastes`` are the models, ``levels`` (L,) the scale, and ``counts`` (D,) the ratings per item.
    """

    tastes: tuple[Tastes, ...]
    items: list[Hashable]
    levels: Array
    counts: Array
    n_users: int

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Column of every item."""
        return {item: i for i, item in enumerate(self.items)}

    def row(self, person: Person) -> sparse.csr_matrix:
        """Ratings of one person as a row."""
        values, indptr = person.values.astype(np.float32), np.array([0, len(person.columns)])
        shape = (1, len(self.items))
        return sparse.csr_matrix((values, person.columns, indptr), shape=shape)

    def states(self) -> StateTastes:
        """The first model whose parts have states."""
        for taste in self.tastes:
            if isinstance(taste, StateTastes):
                return taste
        raise ValueError(
            "No estimator here has parts with states; fit with "
            'Recommender(MCVQ(5, 12, likelihood="categorical")).'
        )


# --- people and items as users name them ---


def person_of(catalog: Catalog, ratings: object, unknown: str) -> Person:
    """Columns and ratings of one person, on the scale."""
    person = Person(*read_person(ratings, catalog.place, unknown))
    check_scale(person.values, catalog.levels)
    return person


def columns_of(catalog: Catalog, items: object, unknown: str, then: str) -> Array:
    """Columns of items, `UNKNOWN` for others, with a warning that ends in ``then``."""
    names = plain(items)
    columns = np.array([catalog.place.get(item, UNKNOWN) for item in names], np.int64)
    if np.any(columns < 0):
        first = names[int(np.argmin(columns))]
        text = f"{np.sum(columns < 0)} items are unknown (first: {first!r})"
        if unknown == "raise":
            raise ValueError(f'{text}; leave them out, or set unknown="warn".')
        warn(f"{text}; {then}.")
    return columns


def items_among(catalog: Catalog, among: Iterable[Hashable] | None, unknown: str) -> Array:
    """Mask (D,) of the given items; of all items if None."""
    if among is None:
        return np.ones(len(catalog.items), bool)
    columns = columns_of(catalog, among, unknown, "they are left out")
    allowed = np.zeros(len(catalog.items), bool)
    allowed[columns[columns >= 0]] = True
    return allowed


# --- predictions ---


def level_shares(catalog: Catalog, person: Person) -> Array:
    """Probability of every level of every item for one person, (D, L)."""
    row, unrated = catalog.row(person), catalog.counts == 0
    found = []
    for taste in catalog.tastes:
        shares = taste.shares(taste.fold_in(row))[0]
        if unrated.any():
            shares[unrated] = taste.popularity @ shares
        found.append(shares)
    return np.mean(found, axis=0)


def pair_shares(catalog: Catalog, X: sparse.csr_matrix, rows: Array, columns: Array) -> Array:
    """Probability of every level of chosen cells of people (CSR), (cells, L).

    An item without ratings, known or not (`UNKNOWN`), is predicted as the average item: the mean
    over all items, weighted by their number of ratings.
    """
    unrated = (columns < 0) | (catalog.counts[columns] == 0)
    rated, out = ~unrated, np.zeros((len(rows), len(catalog.levels)))
    for taste in catalog.tastes:
        features = taste.fold_in(X)
        out[rated] += taste.cell_shares(features, rows[rated], columns[rated])
        if unrated.any():
            people, own = np.unique(rows[unrated], return_inverse=True)
            out[unrated] += taste.average_shares(features[:, people])[own]
    return out / len(catalog.tastes)


def some_shares(catalog: Catalog, person: Person, columns: Array) -> Array:
    """Probability of every level of chosen items for one person, (items, L)."""
    return pair_shares(catalog, catalog.row(person), np.zeros(len(columns), int), columns)


def point_of(shares: Array, levels: Array, point: str) -> Array:
    """Median or mean of distributions."""
    if point == "mean":
        return scale.mean(shares, levels)
    return scale.quantile(shares, levels, 0.5)


def interval_of(shares: Array, levels: Array, coverage: float) -> tuple[Array, Array]:
    """Intervals of levels with at least this probability."""
    tail = 0.5 * (1.0 - coverage)
    return scale.quantile(shares, levels, tail), scale.quantile(shares, levels, 1.0 - tail)


def recommend(catalog: Catalog, person: Person, allowed: Array, n: int) -> list[Recommendation]:
    """The n items of those ``allowed`` (D,) with the highest expected rating."""
    shares = level_shares(catalog, person)
    rating = np.where(allowed, scale.mean(shares, catalog.levels), -np.inf)
    best = _top(rating, min(n, int(allowed.sum())))
    lower, upper = interval_of(shares[best], catalog.levels, COVERAGE)
    numbers = zip(best, rating[best], lower, upper, strict=True)
    return [
        Recommendation(catalog.items[i], float(r), float(lo), float(hi)) for i, r, lo, hi in numbers
    ]


# --- reasons ---


def explain(catalog: Catalog, person: Person, d: int, n: int) -> Explanation:
    """Explain the first model's prediction of item d."""
    taste, levels = catalog.tastes[0], catalog.levels
    part = int(taste.own_parts[d])
    features = taste.fold_in(catalog.row(person))
    shares = taste.cell_shares(features, np.zeros(1, int), np.array([d]))[0]
    out: Explanation = {
        "item": catalog.items[d],
        "rating": float(scale.mean(shares, levels)),
        "distribution": {float(v): float(p) for v, p in zip(levels, shares, strict=True)},
        "part": part,
        "because": _effects(catalog, person, d, n),
        "similar_items": similar_items(catalog, d, n),
    }
    if isinstance(taste, StateTastes) and part >= 0:
        m = features[taste.span(part), 0]
        out["state"], out["probability"] = int(m.argmax()), float(m.max())
    return out


def _effects(catalog: Catalog, person: Person, d: int, n: int) -> list[Effect]:
    """The person's ratings with the largest effect on the prediction of item d."""
    if not len(person.columns):
        return []
    taste = catalog.tastes[0]
    found = taste.leave_out(*person)  # with all ratings, then without each
    every = np.arange(len(person.columns) + 1)
    shares = taste.cell_shares(found, every, np.full_like(every, d))
    means = scale.mean(shares, catalog.levels)
    effect = means[0] - means[1:]
    # Ratings of other parts have no effect; rounding must not rank them.
    return [
        Effect(
            item=catalog.items[person.columns[i]],
            rating=float(person.values[i]),
            effect=float(effect[i]),
        )
        for i in _top(np.abs(effect).round(6), min(n, len(effect)))
    ]


def similar_items(catalog: Catalog, d: int, n: int) -> list[Hashable]:
    """The n items of the same part whose ratings are most similar to those of item d."""
    similarity = catalog.tastes[0].similarity(d)
    similarity[d] = -np.inf
    best = _top(similarity, min(n, int(np.isfinite(similarity).sum())))
    return [catalog.items[i] for i in best]


def state_items(catalog: Catalog, n: int, min_ratings: int) -> list[dict[str, object]]:
    """Items that people in each state rate higher and lower than others do."""
    taste = catalog.states()
    share, out = taste.state_shares(), []
    for k in range(taste.n_parts):
        columns = taste.columns[k]
        columns = columns[catalog.counts[columns] >= min_ratings]
        own, b = taste.M[taste.span(k)][:, columns], share[taste.span(k)]
        everybody = b @ own
        for j, rating in enumerate(own):
            away = rating - everybody
            sides = {
                side: [
                    Difference(
                        item=catalog.items[columns[i]],
                        rating=float(rating[i]),
                        difference=float(away[i]),
                    )
                    for i in _top(sign * away, min(n, len(away)))
                    if sign * away[i] > 0
                ]
                for side, sign in (("high", 1.0), ("low", -1.0))
            }
            out.append({"part": k, "state": j, "share": float(b[j]), **sides})
    return out


def profile(catalog: Catalog, person: Person, n: int, min_ratings: int) -> list[dict[str, object]]:
    """The most probable state of each part of a person, with its items."""
    taste = catalog.states()
    m = taste.fold_in(catalog.row(person))[:, 0]
    kinds = {(one["part"], one["state"]): one for one in state_items(catalog, n, min_ratings)}
    out = []
    for k in range(taste.n_parts):
        own = m[taste.span(k)]
        out.append(kinds[k, int(own.argmax())] | {"probability": float(own.max())})
    return out


def _top(values: Array, n: int) -> Array:
    """Positions of the n largest, largest first."""
    some = np.argpartition(-values, n - 1)[:n] if n < len(values) else np.arange(len(values))
    return some[np.argsort(-values[some], kind="stable")][:n]
