"""Answers of a fitted recommender: predicted ratings, recommendations and their reasons."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NotRequired, TypedDict, cast

import numpy as np
from scipy import sparse

from partwise._warnings import warn
from partwise.answers.preferences import StateTastes, Tastes
from partwise.contracts import Array
from partwise.data.ratings import check_scale, numbers_of, plain, read_person
from partwise.models import levels as scale
from partwise.models.choice import Choice, taken

# Coverage of the interval of a recommendation.
COVERAGE = 0.8


class Recommendation(NamedTuple):
    """An item, its expected rating, and an interval with probability 0.8.

    ``choice`` is the probability that the person takes the item, ``value`` what it was ranked by.
    """

    item: Hashable
    rating: float
    lower: float
    upper: float
    choice: float
    value: float


class Effect(TypedDict):
    """A rating of a person, and its effect on the expected rating of another item."""

    item: Hashable
    rating: float
    effect: float


class Weight(TypedDict):
    """An item that a person has taken, and what it adds to the choice score of another item."""

    item: Hashable
    weight: float


class Explanation(TypedDict):
    """Reasons for a predicted rating; see `Recommender.explain`."""

    item: Hashable
    rating: float
    distribution: dict[float, float]
    part: int
    because: list[Effect]
    similar_items: list[Hashable]
    choice: float
    chosen_because: list[Weight]
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


class People(NamedTuple):
    """People to recommend to.

    ``taken`` (CSR, n x D) stores the items that they have taken, ``profiles`` (CSR, n x D) what the
    choice model predicts from: 1 for these items, or an average of similar people; ``features``
    (F, n) is what each model infers.
    """

    taken: sparse.csr_matrix
    profiles: sparse.csr_matrix
    features: list[Array]


@dataclass(frozen=True, eq=False)
class KnownUsers:
    """People of the fit: ids, and ratings (CSR) in the same order.

    ``lent`` (CSR, n x n) has, for people without ratings, weights of people with similar features.
    """

    ids: list[Hashable]
    ratings: sparse.csr_matrix
    lent: sparse.csr_matrix | None = None

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Row of every person."""
        return {user: i for i, user in enumerate(self.ids)}


@dataclass(frozen=True, eq=False)
class Catalog:
    """All that a recommender has learned: models of the same items, and facts about these items.

    ``tastes`` are the models, ``levels`` (L,) the scale, ``counts`` (D,) the ratings per item,
    ``choice`` which items people take, and ``liked`` the lowest rating that is a good one.
    ``lent`` (CSR, D x D) has, for items without ratings, weights of items with similar features.
    With ``implicit`` feedback the scale is 0 and 1: whether a person takes an item.
    """

    tastes: tuple[Tastes, ...]
    items: list[Hashable]
    levels: Array
    counts: Array
    n_users: int
    choice: Choice
    liked: float
    implicit: bool = False
    known: KnownUsers | None = None
    lent: sparse.csr_matrix | None = None

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Column of every item."""
        return {item: i for i, item in enumerate(self.items)}

    def row(self, person: Person) -> sparse.csr_matrix:
        """Ratings of one person as a row."""
        values, indptr = person.values.astype(np.float32), np.array([0, len(person.columns)])
        shape = (1, len(self.items))
        return sparse.csr_matrix((values, person.columns, indptr), shape=shape)

    def heard(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Ratings X (CSR) without those of items that nobody has rated, which say nothing."""
        kept = self.counts[X.indices] > 0
        if kept.all():
            return X
        indptr = np.append(0, np.cumsum(kept))[X.indptr]
        return sparse.csr_matrix((X.data[kept], X.indices[kept], indptr), shape=X.shape)

    def people(self, X: sparse.csr_matrix) -> People:
        """People with ratings X (CSR)."""
        heard = self.heard(X)
        return People(X, taken(heard), [taste.fold_in(heard) for taste in self.tastes])

    @cached_property
    def known_people(self) -> People:
        """All people of the fit; those without ratings borrow from people with similar features."""
        known = self.remembered()
        found = self.people(known.ratings)
        if known.lent is None:
            return found
        cold = np.flatnonzero(np.diff(known.ratings.indptr) == 0)
        lent = known.lent[cold]
        for features in found.features:
            features[:, cold] = (lent @ features.T).T
        profiles = sparse.csr_matrix(found.profiles + known.lent @ found.profiles)
        return People(found.taken, profiles, found.features)

    def remembered(self) -> KnownUsers:
        """People of the fit, or an error if they are not kept."""
        if self.known is None:
            raise ValueError(
                "This model was saved without its users; pass the person's ratings as a mapping, "
                "or save with users=True."
            )
        return self.known

    def some_people(
        self, users: Sequence[Hashable] | Array | None
    ) -> tuple[list[Hashable], People]:
        """Ids of people of the fit, all if None, and what is known about them."""
        known, everyone = self.remembered(), self.known_people
        if users is None:
            return known.ids, everyone
        ids = plain(users)
        rows = self.user_rows(ids)
        features = [each[:, rows] for each in everyone.features]
        return ids, People(everyone.taken[rows], everyone.profiles[rows], features)

    def user_rows(self, ids: Sequence[Hashable]) -> Array:
        """Rows of people of the fit; others are refused."""
        rows = numbers_of(self.remembered().place, ids)
        if np.any(rows < 0):
            what = "a list of the items taken" if self.implicit else "a mapping of items to ratings"
            raise ValueError(
                f"{ids[int(np.argmin(rows))]!r} is not a user of the fit; pass {what}, or add the "
                "user with partial_fit."
            )
        return rows

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


def is_id(person: object) -> bool:
    """Whether a person is named: text, or anything that neither maps nor lists items."""
    return isinstance(person, str) or not (hasattr(person, "items") or isinstance(person, Iterable))


def person_of(catalog: Catalog, ratings: object, unknown: str) -> Person:
    """Columns and ratings of one person, on the scale; those of the fit, if the person is named."""
    if is_id(ratings):
        row = catalog.remembered().ratings[catalog.user_rows([cast(Hashable, ratings)])]
        return Person(row.indices.astype(np.int64), row.data.astype(float))
    read = read_person(ratings, catalog.place, unknown, implicit=catalog.implicit)
    person = Person(*read)
    check_scale(person.values, catalog.levels)
    warn_unrated(catalog, person.columns)
    return person


def warn_unrated(catalog: Catalog, columns: Array) -> None:
    """Say that ratings of items of which nothing is learned do not count."""
    strange = np.unique(columns[catalog.counts[columns] == 0])
    if len(strange):
        more = f" and {len(strange) - 1} more say" if len(strange) > 1 else " says"
        warn(
            f"The rating{'s' * (len(strange) > 1)} of {catalog.items[strange[0]]!r}{more} nothing "
            "about other items, since nobody else has rated it; learn it with partial_fit."
        )


def columns_of(catalog: Catalog, items: object, unknown: str, then: str) -> Array:
    """Columns of items, -1 for others, with a warning that ends in ``then``."""
    names = plain(items)
    columns = numbers_of(catalog.place, names)
    if np.any(columns < 0):
        first = names[int(np.argmin(columns))]
        n = int(np.sum(columns < 0))
        text = f"{n} items are unknown (first: {first!r})" if n > 1 else f"Unknown item: {first!r}"
        if unknown == "raise":
            them = "them" if n > 1 else "it"
            raise ValueError(f'{text}; leave {them} out, or call set_params(unknown="warn").')
        warn(f"{text}; {'they are' if n > 1 else 'it is'} {then}.")
    return columns


def items_among(catalog: Catalog, among: Iterable[Hashable] | None, unknown: str) -> Array:
    """Mask (D,) of the given items; of all items if None."""
    if among is None:
        return np.ones(len(catalog.items), bool)
    columns = columns_of(catalog, among, unknown, "left out")
    allowed = np.zeros(len(catalog.items), bool)
    allowed[columns[columns >= 0]] = True
    return allowed


# --- predictions ---


def take_scores(catalog: Catalog, profiles: sparse.csr_matrix) -> Array:
    """Scores of the choice model for all items, (n, D)."""
    scores = catalog.choice.scores(profiles)
    if catalog.lent is not None:
        scores += (catalog.lent @ scores.T).T
    return scores


def all_shares(catalog: Catalog, features: list[Array]) -> Array:
    """Probability of every level of every item for some people, (n, D, L)."""
    tastes = zip(catalog.tastes, features, strict=True)
    return _averaged(catalog, [taste.shares(own) for taste, own in tastes])


def expected_ratings(catalog: Catalog, features: list[Array]) -> Array:
    """Expected rating of every item for some people, (n, D)."""
    tastes = zip(catalog.tastes, features, strict=True)
    return _averaged(catalog, [taste.means(own) for taste, own in tastes])


def _averaged(catalog: Catalog, found: list[Array]) -> Array:
    """Mean of what the models predict, (n, D, ...); items without ratings get that of others."""
    unrated, lent = np.flatnonzero(catalog.counts == 0), catalog.lent
    out = found[0] if len(found) == 1 else np.mean(found, axis=0)
    if len(unrated) and lent is None:
        popularity = catalog.counts / catalog.counts.sum()
        out[:, unrated] = np.tensordot(out, popularity, (1, 0))[:, None]
    elif lent is not None:
        for person in out:
            person[unrated] = lent[unrated] @ person
    return out


def pair_shares(catalog: Catalog, features: list[Array], rows: Array, columns: Array) -> Array:
    """Probability of every level of chosen cells of people, (cells, L).

    An item without ratings, known or not (column -1), is predicted from items with similar
    features, or else as the average item: the mean over all items, weighted by their number of
    ratings.
    """
    unrated = (columns < 0) | (catalog.counts[columns] == 0)
    out = np.zeros((len(rows), len(catalog.levels)))
    lent = unrated & (columns >= 0) if catalog.lent is not None else np.zeros(len(rows), bool)
    average = unrated & ~lent
    for taste, own in zip(catalog.tastes, features, strict=True):
        out[~unrated] += taste.cell_shares(own, rows[~unrated], columns[~unrated])
        if lent.any():
            out[lent] += _lent_shares(catalog, taste, own, rows[lent], columns[lent])
        if average.any():
            people, which = np.unique(rows[average], return_inverse=True)
            out[average] += taste.average_shares(own[:, people])[which]
    return out / len(catalog.tastes)


def _lent_shares(
    catalog: Catalog, taste: Tastes, features: Array, rows: Array, columns: Array
) -> Array:
    """Shares (cells, L) of items without ratings: a mixture of those of similar items."""
    assert catalog.lent is not None
    lent = catalog.lent[columns]
    people = np.repeat(rows, np.diff(lent.indptr))
    mixture = sparse.csr_matrix((lent.data, np.arange(lent.nnz), lent.indptr))
    return np.asarray(mixture @ taste.cell_shares(features, people, lent.indices))


def cells_of(catalog: Catalog, people: People, rows: Array, columns: Array) -> Array:
    """Predicted probability of every level of chosen cells of people, (cells, L)."""
    if not catalog.implicit:
        return pair_shares(catalog, people.features, rows, columns)
    p = catalog.choice.probability(take_scores(catalog, people.profiles))
    average = p @ (catalog.counts / catalog.counts.sum())
    found = np.where(columns < 0, average[rows], p[rows, columns])
    return np.stack([1.0 - found, found], axis=1)


def everything_of(catalog: Catalog, person: People) -> Array:
    """Predicted probability of every level of every item for one person, (D, L)."""
    if not catalog.implicit:
        return np.asarray(all_shares(catalog, person.features)[0])
    columns = np.arange(len(catalog.items))
    return cells_of(catalog, person, np.zeros_like(columns), columns)


def point_of(shares: Array, levels: Array, point: str) -> Array:
    """Median or mean of distributions."""
    if point == "mean":
        return scale.mean(shares, levels)
    return scale.quantile(shares, levels, 0.5)


def interval_of(shares: Array, levels: Array, coverage: float) -> tuple[Array, Array]:
    """Intervals of levels with at least this probability."""
    tail = 0.5 * (1.0 - coverage)
    return scale.quantile(shares, levels, tail), scale.quantile(shares, levels, 1.0 - tail)


# --- reasons ---


def explain(catalog: Catalog, people: People, person: Person, d: int, n: int) -> Explanation:
    """Explain the prediction of item d for one person, whose ratings may be none."""
    taste, levels = catalog.tastes[0], catalog.levels
    part = int(taste.own_parts[d])
    shares = cells_of(catalog, people, np.zeros(1, np.int64), np.array([d]))[0]
    choice = catalog.choice.probability(take_scores(catalog, people.profiles)[0, d])
    out: Explanation = {
        "item": catalog.items[d],
        "rating": float(scale.mean(shares, levels)),
        "distribution": {float(v): float(p) for v, p in zip(levels, shares, strict=True)},
        "part": part,
        "because": _effects(catalog, person, d, n),
        "similar_items": similar_items(catalog, d, n),
        "choice": float(choice),
        "chosen_because": _weights(catalog, person, d, n),
    }
    if isinstance(taste, StateTastes) and part >= 0:
        m = people.features[0][taste.span(part), 0]
        out["state"], out["probability"] = int(m.argmax()), float(m.max())
    return out


def _weights(catalog: Catalog, person: Person, d: int, n: int) -> list[Weight]:
    """The items taken that add most to the choice score of item d, or take most from it."""
    weight = catalog.choice.reasons(person.columns, d)
    return [
        Weight(item=catalog.items[person.columns[i]], weight=float(weight[i]))
        for i in _top(np.abs(weight).round(6), min(n, len(weight)))
        if weight[i] != 0
    ]


def _effects(catalog: Catalog, person: Person, d: int, n: int) -> list[Effect]:
    """The person's ratings of other items with the largest effect on the prediction of item d."""
    heard = catalog.counts[person.columns] > 0
    person = Person(person.columns[heard], person.values[heard])
    if not len(person.columns):
        return []
    means = _without_each(catalog, person, d)
    effect = means[0] - means[1:]
    others = np.flatnonzero(person.columns != d)
    # Ratings of other parts have no effect; rounding must not rank them.
    return [
        Effect(
            item=catalog.items[person.columns[i]],
            rating=float(person.values[i]),
            effect=float(effect[i]),
        )
        for i in others[_top(np.abs(effect[others]).round(6), min(n, len(others)))]
    ]


def _without_each(catalog: Catalog, person: Person, d: int) -> Array:
    """Expected rating of item d by the person, then without each of the ratings, (1 + ratings,)."""
    if catalog.implicit:
        scores = catalog.choice.leave_out(person.columns, d)
        if catalog.lent is not None:
            lent = catalog.lent[[d]]
            for j, weight in zip(lent.indices, lent.data, strict=True):
                scores += weight * catalog.choice.leave_out(person.columns, j)
        return catalog.choice.probability(scores)
    features = [taste.leave_out(*person) for taste in catalog.tastes]
    rows = np.arange(len(person.columns) + 1)
    return scale.mean(pair_shares(catalog, features, rows, np.full_like(rows, d)), catalog.levels)


def similar_items(catalog: Catalog, d: int, n: int) -> list[Hashable]:
    """The n items of the same part whose ratings are most similar to those of item d.

    Those of an item without ratings are the items that it is predicted from.
    """
    if catalog.counts[d] > 0:
        similarity = np.where(catalog.counts > 0, catalog.tastes[0].similarity(d), -np.inf)
    elif catalog.lent is not None:
        similarity = catalog.lent[[d]].toarray()[0]
        similarity[similarity == 0] = -np.inf
    else:
        return []
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


def profile(catalog: Catalog, person: People, n: int, min_ratings: int) -> list[dict[str, object]]:
    """The most probable state of each part of a person, with its items."""
    taste = catalog.states()
    m = person.features[catalog.tastes.index(taste)][:, 0]
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
