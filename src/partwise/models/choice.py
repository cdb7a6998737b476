"""Which items a person takes: an item-item linear model in closed form.

========  ========  ======  ========================================================================
symbol    code      shape   meaning
========  ========  ======  ========================================================================
x         X         (n, D)  1 where a person has taken (rated, bought, clicked) an item, else 0
omega     weight    (n,)    weight of a person, ``n_taken ** -0.5``
G         gram      (D, D)  sum over people of omega x x'
Lambda    penalty   (D,)    ridge penalty of an item, lambda + G_dd
B         weights   (D, D)  an item's score is the sum of its weights over the items taken; B_dd = 0
========  ========  ======  ========================================================================

B minimizes ``sum_u omega_u |x_u - x_u B|^2 + sum_jd Lambda_j B_jd^2`` with a zero diagonal, so that
no item predicts itself: with ``P = (G + diag(Lambda))^-1`` the solution is ``B_jd = -P_jd /
P_dd`` for j != d (Steck, Embarrassingly shallow autoencoders for sparse data, WWW 2019). The term
G_dd of the penalty is that of dropout with probability 1/2 (Steck, Autoencoders that don't overfit
towards the identity, NeurIPS 2020). The weights of people are ours: without them the few who have
taken most items dominate G, as each counts by the square of their number.

Because of the zero diagonal the score of an item taken is a leave-one-out score, so scores of items
taken and not taken can be compared, and a logistic curve makes probabilities of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse, special

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, Span

# Numbers of a dense block of people.
_BLOCK = 1 << 22

# Above this share of stored entries, products of dense blocks are faster than sparse ones.
_DENSE = 0.01

# Columns of the weights that are read together: those of 4,000 items stay in a core's cache. Below
# this number of people, the copy that this takes is not worth it.
_PANEL, _FEW = 64, 64

# Popularity counts as this score, divided by one more than the number of items taken: it ranks the
# items for a person who has taken none, and matters less with each item taken.
_BASE = 0.5

# Below this score the logistic curve continues along its tangent; the logarithm would end at 0.
_LEAST_SCORE = 1e-3

# Least slope of the logistic curve.
_LEAST_SLOPE = 1e-3

# Newton steps of the two parameters of the curve; it converges in fewer than ten.
_STEPS = 30


@dataclass(frozen=True, eq=False)
class Choice:
    """A fitted choice model.

    Parameters
    ----------
    weights : ndarray of shape (M, M)
        B, of the modeled items.
    modeled : ndarray of shape (M,), int
        Their columns, ascending; other items are ranked by their popularity alone.
    share : ndarray of shape (D,)
        Share of people who have taken each item.
    slope, intercept : float
        The probability of an item of score s is ``expit(intercept + slope log s)``.
    penalty : float
        lambda, in units of the mean of G_dd.
    """

    weights: Array
    modeled: Array
    share: Array
    slope: float
    intercept: float
    penalty: float

    def scores(self, X: sparse.csr_matrix) -> Array:
        """Scores of all items for people whose items X (CSR), 1 where taken, are known, (n, D).

        Rows may be averages of several people.
        """
        n_taken = np.asarray(X.sum(axis=1)).ravel()
        base = (_BASE / (1.0 + n_taken)).astype(np.float32)
        out = np.outer(base, self.share.astype(np.float32))
        if len(self.modeled) == 0:
            return out
        some = X if len(self.modeled) == X.shape[1] else X[:, self.modeled]
        found = some @ self.weights if X.shape[0] < _FEW else _product(some, self.weights)
        if len(self.modeled) == X.shape[1]:
            out += found
        else:
            out[:, self.modeled] += found
        return out

    def probability(self, scores: Array) -> Array:
        """Probability of taking items with these scores, of the same shape."""
        return special.expit(self.intercept + self.slope * log_score(scores))

    def reasons(self, columns: Array, d: int) -> Array:
        """What each of some items taken adds to the score of item d, (items,)."""
        place = np.full(len(self.share), -1)
        place[self.modeled] = np.arange(len(self.modeled))
        if place[d] < 0:
            return np.zeros(len(columns))
        return np.where(place[columns] >= 0, self.weights[place[columns], place[d]], 0.0)

    def leave_out(self, columns: Array, d: int) -> Array:
        """Score of item d for a person with these items, then without each, (1 + items,)."""
        added, n = self.reasons(columns, d).astype(float), len(columns)
        n_taken = np.append(n, np.full(n, n - 1))
        return _BASE / (1.0 + n_taken) * self.share[d] + added.sum() - np.append(0.0, added)


def popularity_alone(share: Array) -> Choice:
    """A model without weights: the probability of an item is its share of people who took it.

    This holds for a person who has taken nothing; for others the odds are lower, in the same order.
    """
    nothing = np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
    return Choice(*nothing, share, 1.0, -float(np.log(_BASE)), 1.0)


def taken(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """1 where a sparse matrix stores an entry."""
    ones = np.ones(len(X.indices), np.float32)
    return sparse.csr_matrix((ones, X.indices, X.indptr), shape=X.shape)


def log_score(scores: Array) -> Array:
    """Logarithm of scores, continued along its tangent below `_LEAST_SCORE`."""
    low = np.minimum(scores, _LEAST_SCORE) / _LEAST_SCORE - 1.0
    return np.log(np.maximum(scores, _LEAST_SCORE)) + low


def _product(X: sparse.csr_matrix, weights: Array) -> Array:
    """The same as ``X @ weights``, for many rows."""
    out = np.zeros((X.shape[0], weights.shape[1]), np.float32)
    check_sizes(items=(X.shape[1], len(weights)))
    _add_rows(X.indptr, X.indices, X.data.astype(np.float32), weights, out)
    return out


@compiled(fastmath={"contract", "reassoc"})
def _add_rows(indptr, indices, values, weights, out):  # type: ignore[no-untyped-def]  # compiled
    """out += X @ weights, in panels of columns that stay in the cache."""
    M, D = weights.shape
    panel, total = np.zeros((M, _PANEL), np.float32), np.zeros(_PANEL, np.float32)
    for left in range(0, D, _PANEL):
        width = min(_PANEL, D - left)
        for j in range(M):
            for c in range(width):
                panel[j, c] = weights[j, left + c]
        for i in range(len(indptr) - 1):
            e, end = indptr[i], indptr[i + 1]
            total[:] = 0.0
            while e + 4 <= end:
                a, b, c, d = values[e], values[e + 1], values[e + 2], values[e + 3]
                p, q = panel[indices[e]], panel[indices[e + 1]]
                r, s = panel[indices[e + 2]], panel[indices[e + 3]]
                for k in range(_PANEL):
                    total[k] += a * p[k] + b * q[k] + c * r[k] + d * s[k]
                e += 4
            while e < end:
                a, p = values[e], panel[indices[e]]
                for k in range(_PANEL):
                    total[k] += a * p[k]
                e += 1
            for k in range(width):
                out[i, left + k] += total[k]


def blocks(X: sparse.csr_matrix) -> Iterator[Span]:
    """Spans of people whose dense rows fit in a block."""
    step = max(_BLOCK // max(X.shape[1], 1), 1)
    for i in range(0, X.shape[0], step):
        yield slice(i, min(i + step, X.shape[0]))


def gram(X: sparse.csr_matrix) -> Array:
    """G, (D, D), of the items taken."""
    Y = taken(X)
    Y.data = np.repeat(person_weight(X) ** 0.5, np.diff(X.indptr)).astype(np.float32)
    if X.nnz < _DENSE * X.shape[0] * X.shape[1]:
        return np.asarray((Y.T @ Y).toarray(), dtype=float)
    out = np.zeros((X.shape[1], X.shape[1]))
    for some in blocks(X):
        dense = Y[some].toarray()
        out += dense.T @ dense
    return out


def person_weight(X: sparse.csr_matrix) -> Array:
    """omega, (n,)."""
    return np.maximum(np.diff(X.indptr), 1) ** -0.5


def solve(G: Array, penalty: float) -> Array:
    """B, (D, D) in single precision, from G; ``penalty`` is in units of the mean of G_dd."""
    own = np.diag(G)
    A = G.copy()
    A[np.diag_indices_from(A)] += penalty * max(own.mean(), 1e-12) + own
    upper = linalg.cholesky(A, overwrite_a=True, check_finite=False)
    P, failed = linalg.lapack.dpotri(upper, overwrite_c=1)
    assert failed == 0
    P = np.triu(P) + np.triu(P, 1).T
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    return B.astype(np.float32)


def logistic_curve(score: Array, took: Array) -> tuple[float, float]:
    """Slope and intercept of the most likely curve, by Newton's method."""
    z = log_score(score.astype(float))
    Z = np.stack([z, np.ones_like(z)])
    beta = np.array([1.0, 0.0])
    for _ in range(_STEPS):
        p = special.expit(beta @ Z)
        # A weak prior N(1, 1) of the slope keeps it finite where scores separate the items.
        pull = Z @ (took - p) - np.array([beta[0] - 1.0, 0.0])
        curvature = (Z * (p * (1.0 - p))) @ Z.T + np.diag([1.0, 1e-9])
        step = np.linalg.solve(curvature, pull)
        beta += step * min(1.0, 4.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    if beta[0] >= _LEAST_SLOPE:
        return float(beta[0]), float(beta[1])
    # The order is that of the scores, so the curve must rise; where they say nothing, slightly.
    mean = np.clip(took.mean(), 1e-9, 1.0 - 1e-9)
    return _LEAST_SLOPE, float(special.logit(mean) - _LEAST_SLOPE * z.mean())
