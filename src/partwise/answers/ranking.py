"""Which items to recommend to people: by what they would take, how they would rate it, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from partwise._compiled import compiled, is_few
from partwise.answers.recommend import (
    COVERAGE,
    Catalog,
    People,
    expected_ratings,
    interval_of,
    pair_shares,
    take_scores,
)
from partwise.contracts import Array
from partwise.models import levels as scale
from partwise.models.choice import blocks

RANKINGS = ("value", "rating", "choice")

# Items per person, in multiples of those wanted and at least, whose ratings are predicted first.
SHORTLIST, LEAST_SHORTLIST = 4, 48


@dataclass(frozen=True)
class Ranking:
    """What items are ranked by.

    The value of an item is its probability of being taken to the power ``exponent``, times its
    expected utility; ``utility`` (L,) is that of each level of the scale.
    """

    by: str
    exponent: float
    utility: Array


@dataclass(frozen=True, eq=False)
class Ranked:
    """The best items of n people, best first, padded with column -1 if a person has too few.

    ``columns``, ``value``, ``choice``, ``rating``, ``lower`` and ``upper`` are (n, k): columns,
    what the items were ranked by, the probability of taking them, the expected rating and an
    interval of probability 0.8.
    """

    columns: Array
    value: Array
    choice: Array
    rating: Array
    lower: Array
    upper: Array


def ranking_of(
    catalog: Catalog, by: str, exponent: float, utility: ArrayLike | Sequence[float] | None
) -> Ranking:
    """Checked arguments of a ranking."""
    if by not in RANKINGS:
        raise ValueError(f"by={by!r} must be one of {', '.join(RANKINGS)}.")
    if catalog.implicit:  # taking an item is all that is known
        by = "choice"
    if not isinstance(exponent, Real) or not 0 <= exponent < np.inf:
        raise ValueError(f"exponent={exponent!r} must be a number of at least 0, such as 1.")
    if utility is None:
        return Ranking(by, float(exponent), (catalog.levels >= catalog.liked).astype(float))
    values = np.asarray(utility)
    fits = values.shape == catalog.levels.shape and values.dtype.kind in "iufb"
    if not fits or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(
            f"utility must be {len(catalog.levels)} finite numbers of at least 0, one per level of "
            "the scale (levels_)."
        )
    return Ranking(by, float(exponent), values.astype(float))


def rank(
    catalog: Catalog,
    people: People,
    allowed: Array,
    n: int,
    ranking: Ranking,
) -> Ranked:
    """The n best of the ``allowed`` (D,) items that each of some people has not taken."""
    found = []
    for some in blocks(people.taken):
        score = take_scores(catalog, people.profiles[some])
        score[:, ~allowed] = -np.inf
        score[people.taken[some].nonzero()] = -np.inf
        features = [each[:, some] for each in people.features]
        found.append(_rank_block(catalog, features, score, min(n, score.shape[1]), ranking))
    return Ranked(*(np.concatenate(field) for field in zip(*found, strict=True)))


def _rank_block(
    catalog: Catalog, features: list[Array], score: Array, n: int, ranking: Ranking
) -> tuple[Array, ...]:
    """Fields of `Ranked` of people whose scores are -inf where an item may not be recommended."""
    people, D = score.shape
    columns, value = np.empty((people, n), np.int64), np.empty((people, n))
    todo = np.arange(people)
    if ranking.by == "rating":
        worth = np.where(score == -np.inf, -np.inf, expected_ratings(catalog, features))
        columns, todo = _best(worth, n), todo[:0]
        value = np.take_along_axis(worth, columns, 1).astype(float)
    # No item outside a shortlist has a larger value than its probability of being taken allows.
    m = min(max(SHORTLIST * n, LEAST_SHORTLIST), D) if ranking.by == "value" else n
    while len(todo):
        listed = _best(score[todo], m)
        worth, bound = _worth(catalog, features, score, todo, listed, ranking)
        order = np.argsort(-worth, axis=1, kind="stable")[:, :n]
        columns[todo] = np.take_along_axis(listed, order, 1)
        value[todo] = np.take_along_axis(worth, order, 1)
        todo = todo[value[todo, -1] < bound] if m < D else todo[:0]
        m = min(4 * m, D)
    empty = value == -np.inf
    rows = np.repeat(np.arange(people), n)
    choice = catalog.choice.probability(np.take_along_axis(score, columns, 1))
    if catalog.implicit:
        shares = np.stack([1.0 - choice.ravel(), choice.ravel()], axis=1)
    else:
        shares = pair_shares(catalog, features, rows, columns.ravel())
    ends = interval_of(shares, catalog.levels, COVERAGE)
    numbers = [choice, scale.mean(shares, catalog.levels), *ends]
    numbers = [np.where(empty, np.nan, each.reshape(people, n)) for each in numbers]
    return np.where(empty, -1, columns), np.where(empty, np.nan, value), *numbers


def _worth(
    catalog: Catalog,
    features: list[Array],
    score: Array,
    people: Array,
    listed: Array,
    ranking: Ranking,
) -> tuple[Array, Array]:
    """What listed items (p, m) are ranked by; and what others cannot exceed, (p,)."""
    own = np.take_along_axis(score[people], listed, 1)
    barred = own == -np.inf
    take = catalog.choice.probability(np.where(barred, 0.0, own))
    if ranking.by == "choice":
        return np.where(barred, -np.inf, take), np.full(len(people), -np.inf)
    shares = pair_shares(catalog, features, np.repeat(people, listed.shape[1]), listed.ravel())
    worth = (shares @ ranking.utility).reshape(listed.shape) * take**ranking.exponent
    bound = np.where(barred, 0.0, take**ranking.exponent).min(axis=1) * ranking.utility.max()
    return np.where(barred, -np.inf, worth), bound


def _best(score: Array, m: int) -> Array:
    """Columns of the m highest scores per row, (p, m), highest first."""
    if m == score.shape[1] or is_few(score.size):
        return np.argsort(-score, axis=1, kind="stable")[:, :m]
    out = np.empty((len(score), m), np.int64)
    _select(score, out)
    return out


@compiled()
def _select(score, out):  # type: ignore[no-untyped-def]  # compiled
    """Fill rows of ``out`` with the columns of the largest scores, largest first, ties by column.

    The best so far are a heap with the worst of them on top, which few of many columns enter.
    """
    m = out.shape[1]
    for i in range(len(score)):
        own, heap = score[i], out[i]
        for d in range(m):  # the first m columns, into place from the bottom
            at, heap[d] = d, d
            while at > 0 and _worse(own, d, heap[(at - 1) // 2]):
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = d
        for d in range(m, len(own)):
            if own[d] > own[heap[0]]:
                _sink(own, heap, d, m)
        for size in range(m - 1, 0, -1):  # the worst goes to the end
            last, heap[size] = heap[size], heap[0]
            _sink(own, heap, last, size)


@compiled()
def _sink(own, heap, d, size):  # type: ignore[no-untyped-def]  # compiled
    """Put column d at the top of a heap and let it sink to its place."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and _worse(own, heap[below + 1], heap[below]):
            below += 1
        if not _worse(own, heap[below], d):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = d


@compiled()
def _worse(own, a, b):  # type: ignore[no-untyped-def]  # compiled
    """Whether column a has a lower score than b, or the same and comes later."""
    return own[a] < own[b] or (own[a] == own[b] and a > b)
