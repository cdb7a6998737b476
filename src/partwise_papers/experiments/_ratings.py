"""Held-out ratings: protocols of Marlin (2004) and of the papers, and measures of predictions.

*Weak* generalization predicts a held-out rating of people who were learned from, *strong* one of
people who were not, given their other ratings.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error

from partwise import AspectModel, Recommender
from partwise.metrics import nmae
from partwise_papers.registry import Array, Row

# What a question may be chosen by, as `Recommender.next_question` calls it.
RULES = ("error", "information", "value")


class Held(NamedTuple):
    """Ratings held out of a matrix of people and items."""

    row: Array
    column: Array
    value: Array

    def of(self, rows: Array) -> Held:
        """Those of some people, renumbered in the order given."""
        order = np.argsort(self.row, kind="stable")
        sorted_row = self.row[order]
        lo, hi = (np.searchsorted(sorted_row, rows, side) for side in ("left", "right"))
        own = np.concatenate([order[a:b] for a, b in zip(lo, hi, strict=True)])
        return Held(np.repeat(np.arange(len(rows)), hi - lo), self.column[own], self.value[own])


class Split(NamedTuple):
    """People to learn from, people to meet later, and held-out ratings of both."""

    train: Any  # CSR, without what is held out
    weak: Held
    known: Any  # CSR, the other ratings of people who are not learned from
    strong: Held


def hold_out(X: Any, rng: np.random.Generator, kept: int | None = None) -> tuple[Any, Held]:
    """Hold out one random rating of everybody, or all but ``kept`` random ones."""
    X = sparse.csr_matrix(X)
    count = np.diff(X.indptr)
    row = np.repeat(np.arange(X.shape[0]), count)
    order = np.lexsort((rng.random(X.nnz), row))
    place = np.arange(X.nnz) - np.repeat(X.indptr[:-1], count)
    held = np.zeros(X.nnz, bool)
    held[order[place < 1 if kept is None else place >= kept]] = True
    indptr = np.concatenate([[0], np.cumsum(~held)])[X.indptr]
    rest = sparse.csr_matrix((X.data[~held], X.indices[~held], indptr), shape=X.shape)
    return rest, Held(row[held], X.indices[held].astype(np.int64), X.data[held])


def marlin(X: Any, n_train: int, seed: int) -> Split:
    """Some people at random to learn from, the others to meet; one rating of each is held out."""
    rng = np.random.default_rng(seed)
    rest, held = hold_out(X, rng)
    people = rng.permutation(X.shape[0])
    return _split(rest, held, np.sort(people[:n_train]), np.sort(people[n_train:]))


def user_folds(X: Any, n_folds: int, seed: int) -> Iterator[Split]:
    """Folds over people; everybody's one held-out rating is the same in all."""
    rng = np.random.default_rng(seed)
    rest, held = hold_out(X, rng)
    fold = rng.permutation(X.shape[0]) % n_folds
    for i in range(n_folds):
        yield _split(rest, held, np.flatnonzero(fold != i), np.flatnonzero(fold == i))


def _split(rest: Any, held: Held, train: Array, test: Array) -> Split:
    return Split(rest[train], held.of(train), rest[test], held.of(test))


def fitted(estimator: Any, train: Any, levels: Array, **options: Any) -> Any:
    """A model learned from ratings; the number of iterations is part of its settings."""
    served = Recommender(estimator, levels=levels, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ columns have no observed value")
        # The aspect model predicts ratings by itself.
        return (clone(estimator) if isinstance(estimator, AspectModel) else served).fit(train)


def shares(model: Any, known: Any, held: Held) -> Array:
    """Probability of every level of held-out ratings, given people's other ratings."""
    if isinstance(model, AspectModel):
        return level_shares(model, known, held.row, held.column)
    return np.asarray(model.predict_pairs(known, held.row, held.column, point="distribution"))


def level_shares(model: AspectModel, known: Any, row: Array, column: Array) -> Array:
    """Probability of every level of some cells, (n, L), under a model of levels."""
    levels = model.levels_
    places = (np.tile(place, len(levels)) for place in (row, column))
    found = model.score_cells(known, *places, np.repeat(levels, len(row)))
    return np.exp(found).reshape(len(levels), -1).T


def points(p: Array, levels: Array) -> tuple[Array, Array]:
    """Median and mean of distributions of levels."""
    # A level is reached if next to nothing is missing, so that rounding moves no median.
    below = np.cumsum(p[..., :-1], axis=-1) < 0.5 - 1e-9
    return levels[below.sum(axis=-1)], p @ levels


class Errors(NamedTuple):
    """Errors of held-out ratings."""

    nmae: float  # of the median, or of the prediction rounded to a level
    raw: float  # NMAE of the mean, or of the prediction itself
    rmse: float  # of the same


def errors(median: Array, mean: Array, true: Array, levels: Array) -> Errors:
    """Errors of two predictions of each rating."""
    return Errors(
        nmae(true, median, levels), nmae(true, mean, levels), root_mean_squared_error(true, mean)
    )


def judge(model: Any, known: Any, held: Held, levels: Array) -> Errors:
    """Errors of a fitted model."""
    return errors(*points(shares(model, known, held), levels), held.value, levels)


def summary(name: str, found: Any) -> Row:
    """Mean and standard error, over splits, of one measure."""
    found = np.asarray(found, dtype=float)
    row: Row = {name: float(found.mean())}
    if len(found) > 1:
        row[f"{name} se"] = float(found.std(ddof=1) / np.sqrt(len(found)))
    return row
