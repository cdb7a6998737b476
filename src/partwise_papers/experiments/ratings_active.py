"""Active learning: what a few well chosen questions are worth with people met for the first time.

Either a random half of a new person's ratings may be asked for and the other half is predicted, the
same ratings whatever was asked; or all may be asked for and the rest is predicted, which is a
larger choice, but another rest for every way of asking; or any film may be asked about, a question
about a film outside of the half is not answered, and the other half is predicted. All ways serve
the same model from the same beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from partwise import MCFA, MCVQ, Prior, Recommender
from partwise.datasets import load_movielens
from partwise.metrics import chance_error
from partwise_papers.experiments import _ratings, register
from partwise_papers.registry import Array, Row, Setting

N_TRAIN, N_PEOPLE = 5000, 300

# Ratings known when the questions begin, and numbers of questions.
STARTS = (0, 3)
N_QUESTIONS = (5, 10)


class Protocol(NamedTuple):
    """Share of a person's ratings that are answers, and whether other films may be asked about."""

    name: str
    share: float
    any_film: bool


PROTOCOLS = (
    Protocol("half of the rated", 0.5, False),
    Protocol("all rated", 1.0, False),
    Protocol("any film", 0.5, True),
)

# People with fewer ratings have few questions to choose from.
LEAST_RATINGS = 60

Answers: TypeAlias = dict[int, float]

# Chooses items in order, from what is known and the answers a person could give. If any film may be
# asked about, None stands for a question without an answer.
Asker: TypeAlias = Callable[[Answers, Answers], list[int | None]]


class Entry(NamedTuple):
    """A model that asks, and by which rules."""

    estimator: Any
    rules: tuple[str, ...]


def models() -> dict[str, Entry]:
    """Models that ask.

    The rule "value" looks for what would be recommended, not for small errors; over one part with
    all films it takes long.
    """
    factors = MCFA(1, 16, likelihood="ordinal", max_iter=15, random_state=0)
    states = MCVQ(5, 12, likelihood="categorical", prior=Prior(counts=3.0), random_state=0)
    return {
        "MCFA 1x16": Entry(factors, ("error", "information")),
        "MCVQ 5x12": Entry(states, _ratings.RULES),
    }


def askers(
    model: Recommender, rules: Iterable[str], popularity: Array, any_film: bool = False
) -> dict[str, Asker]:
    """Ways of asking; the first two are those to beat."""
    rng = np.random.default_rng(1)

    def by_rule(rule: str) -> Asker:
        def ask(known: Answers, answers: Answers) -> list[int | None]:
            interview = model.interview(known, rule=rule)
            asked: list[int | None] = []
            for _ in range(max(N_QUESTIONS)):
                item: Any = interview.next_question(None if any_film else answers)
                if item in answers:
                    interview.answer(item, answers[item])
                else:
                    interview.decline(item)
                asked.append(item if item in answers else None)
            return asked

        return ask

    def in_order(order: Callable[[list[int]], list[int]]) -> Asker:
        def ask(known: Answers, answers: Answers) -> list[int | None]:
            films = range(len(popularity)) if any_film else answers
            asked = order([d for d in films if d not in known])[: max(N_QUESTIONS)]
            return [d if d in answers else None for d in asked]

        return ask

    return {
        "random": in_order(lambda films: rng.permutation(films).tolist()),
        "popular": in_order(lambda films: sorted(films, key=lambda d: -popularity[d])),
    } | {f"rule {rule}": by_rule(rule) for rule in rules}


def deal(X: Any, share: float, rng: np.random.Generator) -> list[list[int]]:
    """A random share of everybody's items, in random order."""
    out = []
    for lo, hi in pairwise(X.indptr):
        order = lo + rng.permutation(hi - lo)
        out.append(X.indices[order[: int(share * (hi - lo))]].tolist())
    return out


def _mark(lists: list[list[int]], shape: tuple[int, int]) -> Any:
    """1 at everybody's listed items (CSR)."""
    person = np.repeat(np.arange(len(lists)), [len(own) for own in lists])
    item = np.array([d for own in lists for d in own], dtype=int)
    return sparse.csr_matrix((np.ones(len(item)), (person, item)), shape)


def errors_given(
    model: Recommender, X: Any, known: list[list[int]], hidden: list[list[int]], levels: Array
) -> Array:
    """NMAE of everybody's ratings outside of ``hidden``, given those of ``known`` items."""
    rest = sparse.coo_matrix(X - X.multiply(_mark(hidden, X.shape)))
    rest.eliminate_zeros()
    held = _ratings.Held(rest.row, rest.col, rest.data)
    shown = X.multiply(_mark(known, X.shape)).tocsr()
    median, _ = _ratings.points(_ratings.shares(model, shown, held), levels)
    total = np.bincount(held.row, np.abs(median - held.value))
    return total / np.bincount(held.row) / chance_error(levels)


def ask_all(ask: Asker, X: Any, can_ask: list[list[int]], start: int) -> list[list[int | None]]:
    """What is known and what is asked, of everybody, in order."""
    out = []
    for i, items in enumerate(can_ask):
        row = slice(X.indptr[i], X.indptr[i + 1])
        rating = dict(zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True))
        known, answers = items[:start], items[start:]
        chosen = ask({d: rating[d] for d in known}, {d: rating[d] for d in answers})
        out.append([*known, *chosen])
    return out


def ask_people(
    X: Any,
    levels: Array,
    entries: Mapping[str, Entry],
    n_train: int,
    n_people: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Errors after questions, and by how much less they are than of the two simple ways."""
    rng = np.random.default_rng(0)
    people = rng.permutation(X.shape[0])
    train = sparse.csr_matrix(X[np.sort(people[:n_train])])
    new = people[n_train:]
    new = new[np.diff(X.indptr)[new] >= LEAST_RATINGS][:n_people]
    X = sparse.csr_matrix(X[new])
    popularity = np.bincount(train.indices, minlength=X.shape[1])
    rows: list[Row] = []
    for name, entry in entries.items():
        progress(f"{name}: fit")
        model = _ratings.fitted(entry.estimator, train, levels)
        for protocol, start in product(PROTOCOLS, STARTS):
            can_ask = deal(X, protocol.share, np.random.default_rng(1))
            found: dict[str, list[Array]] = {}  # errors of everybody, by number of questions
            answered: dict[str, float] = {}
            for way, ask in askers(model, entry.rules, popularity, protocol.any_film).items():
                progress(f"{name}, questions about {protocol.name}, {start} known: {way}")
                asked = ask_all(ask, X, can_ask, start)
                found[way] = []
                for n in (0, *N_QUESTIONS):
                    known = [[d for d in own[: start + n] if d is not None] for own in asked]
                    hidden = can_ask if protocol.share < 1 else known
                    found[way].append(errors_given(model, X, known, hidden, levels))
                answered[way] = float(np.mean([len(own) - start for own in known]))
            told: Row = {"model": name, "questions about": protocol.name, "known": start}
            told["people"] = len(can_ask)
            rows += [
                told | {"questions": way, "answered": answered[way]} | _gains(found, way)
                for way in found
            ]
    return rows


def _gains(found: dict[str, list[Array]], way: str) -> Row:
    """Errors of one way of asking, and by what share they are below those of the simple ways."""
    before, *after = found[way]
    row: Row = {"before": float(before.mean())}
    for i, (n, errors) in enumerate(zip(N_QUESTIONS, after, strict=True), 1):
        row |= _ratings.summary(f"after {n}", errors)
        for other in ("random", "popular"):
            rival = found[other][i]
            row |= _ratings.summary(f"{n}: % below {other}", 100 * (rival - errors) / rival.mean())
    return row


@register("ratings_active")
def ratings_active(setting: Setting) -> list[Row]:
    """NMAE of 300 new users after 5 and 10 questions, MovieLens-1M, by question strategy.

    Questions are about films that the person did rate, or about any film; ``answered`` is the mean
    number of answers after ten questions. Standard errors are over people, those of gains paired.
    Minutes.
    """
    data = load_movielens("1m")
    levels = np.unique(data.rating)
    entries = models()
    if setting.fast:
        entries = {"MCVQ 5x12": Entry(entries["MCVQ 5x12"].estimator, ("error",))}
    n_train, n_people = setting.choose(fast=(1500, 50), full=(N_TRAIN, N_PEOPLE))
    return ask_people(data.data, levels, entries, n_train, n_people, setting)
