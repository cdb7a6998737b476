"""Active learning: what a few well chosen questions are worth with people met for the first time.

A random half of a new person's ratings may be asked for, the other half is predicted: the same
ratings whatever was asked. All ways of asking serve the same model from the same beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.datasets import load_movielens
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.estimators.recommender import Recommender
from partwise.experiments import _ratings, register
from partwise.experiments.registry import Row
from partwise.likelihoods import Prior
from partwise.metrics import chance_error
from partwise.models.questions import RULES

N_TRAIN, N_PEOPLE = 5000, 300

# Ratings known when the questions begin, and numbers of questions.
STARTS = (0, 3)
N_QUESTIONS = (5, 10)

# People with fewer ratings have few questions to choose from.
LEAST_RATINGS = 60

Answers: TypeAlias = dict[int, float]

# Chooses items in order, from what is known and the answers a person could give.
Asker: TypeAlias = Callable[[Answers, Answers], list[int]]


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
        "MCVQ 5x12": Entry(states, RULES),
    }


def askers(model: Recommender, rules: Iterable[str], popularity: Array) -> dict[str, Asker]:
    """Ways of asking; the first two are those to beat."""
    rng = np.random.default_rng(1)

    def by_rule(rule: str) -> Asker:
        def ask(known: Answers, answers: Answers) -> list[int]:
            interview = model.interview(known, rule=rule)
            asked: list[Any] = []
            for _ in range(max(N_QUESTIONS)):
                asked.append(interview.next_question(answers))
                interview.answer(asked[-1], answers[asked[-1]])
            return asked

        return ask

    return {
        "random": lambda known, answers: rng.permutation(list(answers)).tolist(),
        "popular": lambda known, answers: sorted(answers, key=lambda d: -popularity[d]),
    } | {f"rule {rule}": by_rule(rule) for rule in rules}


def halves(X: Any, rng: np.random.Generator) -> tuple[list[list[int]], _ratings.Held]:
    """A random half of everybody's items, in random order, and the other half held out."""
    open_, rows = [], []
    for lo, hi in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        order = lo + rng.permutation(hi - lo)
        open_.append(X.indices[order[: (hi - lo) // 2]].tolist())
        rows.append(np.sort(order[(hi - lo) // 2 :]))
    person = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    held = np.concatenate(rows)
    return open_, _ratings.Held(person, X.indices[held].astype(np.int64), X.data[held])


def errors_given(
    model: Recommender, X: Any, known: list[list[int]], held: _ratings.Held, levels: Array
) -> Array:
    """NMAE of every person's held-out ratings, given their ratings of some items."""
    person = np.repeat(np.arange(len(known)), [len(own) for own in known])
    item = np.array([d for own in known for d in own], dtype=int)
    wanted = sparse.csr_matrix((np.ones(len(item)), (person, item)), X.shape)
    shown = X.multiply(wanted).tocsr()
    median, _ = _ratings.points(_ratings.shares(model, shown, held), levels)
    total = np.bincount(held.row, np.abs(median - held.value))
    return total / np.bincount(held.row) / chance_error(levels)


def ask_all(ask: Asker, X: Any, can_ask: list[list[int]], start: int) -> list[list[int]]:
    """What is known and what is asked, of everybody, in order."""
    out = []
    for i, items in enumerate(can_ask):
        row = slice(X.indptr[i], X.indptr[i + 1])
        rating = dict(zip(X.indices[row].tolist(), X.data[row].tolist(), strict=True))
        known, answers = items[:start], items[start:]
        chosen = ask({d: rating[d] for d in known}, {d: rating[d] for d in answers})
        out.append(known + chosen)
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
    can_ask, held = halves(X, rng)
    rows: list[Row] = []
    for name, entry in entries.items():
        progress(f"{name}: fit")
        model = _ratings.fitted(entry.estimator, train, levels)
        for start in STARTS:
            found: dict[str, list[Array]] = {}  # errors of everybody, by number of questions
            for way, ask in askers(model, entry.rules, popularity).items():
                progress(f"{name}, {start} ratings known: {way}")
                known = ask_all(ask, X, can_ask, start)
                found[way] = [
                    errors_given(model, X, [own[: start + n] for own in known], held, levels)
                    for n in (0, *N_QUESTIONS)
                ]
            told: Row = {"model": name, "known": start, "people": len(can_ask)}
            rows += [told | {"questions": way} | _gains(found, way) for way in found]
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
def ratings_active(progress: Callable[[str], None]) -> list[Row]:
    """NMAE of 300 new people after 5 and 10 questions, MovieLens-1M, by way of asking.

    Questions are about films that the person did rate. Standard errors are over people, those of
    gains paired. About ten minutes.
    """
    data = load_movielens("1m")
    levels = np.unique(data.rating)
    return ask_people(data.data, levels, models(), N_TRAIN, N_PEOPLE, progress)
