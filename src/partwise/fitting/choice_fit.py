"""Fit the choice model: which items are modeled, how strong the penalty is, and probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.models.choice import (
    Choice,
    blocks,
    gram,
    logistic_curve,
    popularity_alone,
    solve,
    taken,
)

# Largest share of people, and largest number, left out of the weights to select the penalty; and
# the most items with which it is selected.
JUDGE_SHARE, MAX_JUDGES, MAX_JUDGED_ITEMS = 0.2, 1000, 2000

# First, least and largest penalties that are tried, in units of the mean of G_dd; steps are factors
# of 2. Ranks of single items left out prefer smaller penalties than lists of ten of several items
# held out, for which 4 to 8 was best on MovieLens-100k and 1M.
FIRST_PENALTY, LEAST_PENALTY, LARGEST_PENALTY = 8.0, 4.0, 256.0

# Pairs of person and item at most from which the probability curve is estimated.
MAX_PAIRS = 1_000_000


def fit_choice(
    X: sparse.csr_matrix, *, max_items: int, rng: np.random.Generator, penalty: float | None = None
) -> Choice:
    """Fit to the items taken: the entries that X stores.

    Weights are a dense matrix of ``max_items`` squared single-precision numbers at most: 400 MB for
    10,000 items. The most popular items are modeled; others keep their popularity alone. All people
    have taken something.

    Parameters
    ----------
    X : CSR of shape (n, D)
    max_items : int
    rng : Generator
        Selects the people whose items are predicted from the weights of the others.
    penalty : float, optional
        In units of the mean of G_dd; selected if not given.

    Returns
    -------
    choice : Choice
    """
    X, counts = taken(X), np.bincount(X.indices, minlength=X.shape[1])
    share = counts / X.shape[0]
    modeled = _most(counts, max_items)
    if len(modeled) < 2:
        return popularity_alone(share)
    Y = X[:, modeled]
    judged = _most(counts, min(max_items, MAX_JUDGED_ITEMS))
    judges = _judges(X, rng)
    rest = np.setdiff1d(np.arange(X.shape[0]), judges)
    if len(judges) == 0:
        penalty = penalty or FIRST_PENALTY
        return Choice(solve(gram(Y), penalty), modeled, share, 1.0, 0.0, penalty)
    G = gram(X[rest][:, judged])
    known = X[judges][:, judged]
    found: dict[float, tuple[float, Choice]] = {}

    def gain(penalty: float) -> float:
        if penalty not in found:
            one = Choice(
                solve(G, penalty), np.arange(len(judged)), share[judged], 1.0, 0.0, penalty
            )
            found[penalty] = leave_one_out_gain(one, known), one
        return found[penalty][0]

    if penalty is None:
        penalty = _best_penalty(gain)
    gain(penalty)
    slope, intercept = _curve(found[penalty][1], known, rng)
    return Choice(solve(gram(Y), penalty), modeled, share, slope, intercept, penalty)


def _most(counts: Array, n: int) -> Array:
    """Columns of the n items with the largest counts, ascending, without those of count 0."""
    most = np.sort(np.argsort(-counts, kind="stable")[: max(n, 0)])
    return most[counts[most] > 0]


def _judges(X: sparse.csr_matrix, rng: np.random.Generator) -> Array:
    """People with at least two items, left out to select the penalty."""
    able = np.flatnonzero(np.diff(X.indptr) >= 2)
    n = min(int(JUDGE_SHARE * X.shape[0]), MAX_JUDGES, len(able))
    return np.sort(rng.choice(able, n, replace=False))


def _best_penalty(gain: Callable[[float], float]) -> float:
    """The best penalty, sought upwards, then downwards from the first."""
    best = FIRST_PENALTY
    for factor in (2.0, 0.5):
        while LEAST_PENALTY < best < LARGEST_PENALTY and gain(best * factor) > gain(best):
            best *= factor
    return best


def leave_one_out_gain(choice: Choice, X: sparse.csr_matrix) -> float:
    """Mean of 1 / log2(1 + rank) of items taken among items not taken, each scored by the others.

    People count equally; the rank is 1 for an item whose score is above all of those not taken.
    """
    total, people = 0.0, 0
    for some in blocks(X):
        own = X[some]
        scores = choice.scores(own)
        for i in range(own.shape[0]):
            mine = own.indices[own.indptr[i] : own.indptr[i + 1]]
            if len(mine) == 0 or len(mine) == own.shape[1]:
                continue
            others = np.sort(np.delete(scores[i], mine))
            rank = len(others) - np.searchsorted(others, scores[i, mine]) + 1
            total += float(np.mean(1.0 / np.log2(1.0 + rank)))
            people += 1
    return total / max(people, 1)


def _curve(choice: Choice, X: sparse.csr_matrix, rng: np.random.Generator) -> tuple[float, float]:
    """Slope and intercept from a sample of the people's pairs."""
    rows = rng.permutation(X.shape[0])[: max(MAX_PAIRS // X.shape[1], 1)]
    own = X[rows]
    return logistic_curve(choice.scores(own).ravel(), own.toarray().ravel())
