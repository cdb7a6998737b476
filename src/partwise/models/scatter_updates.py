"""Complete rows of few columns: components of Bayesian PCA from their scatter matrices.

Given who explains the rows, a component asks of them no more than their number, mean and scatter.
Along the principal directions of the scatter its loadings do not meddle with each other, so that
what would take many EM iterations is a short loop over numbers: a leap to where the bound is
highest, nearly, with the rows' components held.

=========  ===========  ============  ============================================================
symbol     code         shape         meaning
=========  ===========  ============  ============================================================
S          second       (M, D, D)     sums of r t t'
lambda     values       (M, q)        largest eigenvalues of each component's covariance
|w|        length       (M, q)        length of a direction's expected loadings
Sigma      width        (M, q)        variance of its loadings, the same in all columns
c          loose        (M, q)        variance of a row's position along it
mu         mean         (M, D)        that of the rows: a broad prior moves it by nothing much
=========  ===========  ============  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import special

from partwise._compiled import compiled
from partwise.contracts import Array
from partwise.models.loadings import gamma_divergence
from partwise.models.principal_params import BayesianPCAParams, Broad

# Rounds of the loop over numbers, and relative change at which it is content.
MOST_LEAP_ROUNDS = 60
LEAP_SETTLED = 1e-5

LOG_2PI = float(np.log(2 * np.pi))

# Shares of the directions that the noise is begun without, to see which is best.
BEGIN_WITH = (0.0, 0.1, 0.25, 0.5, 0.75, 0.95)

# Least variance of the noise that is begun with, of the columns' mean variance.
LEAST_START = 1e-9

# What relevances are: those of mu's prior, given, or learned.
PLAIN, GIVEN, LEARNED = range(3)


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums over rows; they start at zero and add, and hold no prior."""

    bound: float  # log normalizers of the rows, less what only the noise decides
    entropy: float  # of the rows' components, and their log units
    counts: Array  # (M,)
    first: Array  # sums of t, (M, D)
    second: Array  # sums of t t', (M, D, D)

    def __add__(self, other: Scatter) -> Scatter:
        return Scatter(
            self.bound + other.bound,
            self.entropy + other.entropy,
            self.counts + other.counts,
            self.first + other.first,
            self.second + other.second,
        )

    @staticmethod
    def total(results: Iterable[Scatter]) -> Scatter:
        """Sum of all, in their order."""
        return reduce(add, results)

    @staticmethod
    def of(x: Array, weight: Array, bound: float = 0.0, entropy: float = 0.0) -> Scatter:
        """Sums of rows x (D, n), of which each component explains ``weight`` (M, n)."""
        second = np.empty((len(weight), len(x), len(x)))
        for own, root in zip(second, np.sqrt(weight), strict=True):
            scaled = x * root
            np.matmul(scaled, scaled.T, out=own)
        return Scatter(bound, entropy, weight.sum(axis=1), weight @ x.T, second)

    def principal(self, q: int) -> Principal:
        """The largest q directions of every component."""
        n = np.maximum(self.counts, np.finfo(float).tiny)
        mean = self.first / n[:, None]
        covariance = self.second / n[:, None, None] - mean[:, :, None] * mean[:, None, :]
        values, vectors = np.linalg.eigh(covariance)
        return Principal(
            self.counts, mean, np.maximum(values[:, : -q - 1 : -1], 0.0),
            vectors[:, :, : -q - 1 : -1],
        )  # fmt: skip


class Principal(NamedTuple):
    """Principal directions of the rows of every component, the largest first."""

    counts: Array  # (M,)
    mean: Array  # (M, D)
    values: Array  # variances along them, (M, q)
    vectors: Array  # (M, D, q)


def log_joint(params: BayesianPCAParams, x: Array) -> Array:
    """Log normalizers of complete rows (D, n) under every component, its share aside, (M, n)."""
    tau, W, mu = params.precision, params.mean[:, :, :-1], params.mean[:, :, -1]
    M, D, q = W.shape
    spread, turned = params.spread, np.swapaxes(W, 1, 2)
    L = np.linalg.cholesky(tau * (turned @ W + spread[:, :q, :q]) + np.eye(q))
    # Half the squares of y, white positions, is all that depends on W.
    half = tau * np.linalg.inv(L)
    y = (half @ turned).reshape(M * q, D) @ x
    y -= (half @ (turned @ mu[:, :, None] + spread[:, :q, q:])).reshape(M * q, 1)
    level = -0.5 * tau * ((mu**2).sum(axis=1) + spread[:, q, q])
    level -= np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    out = (tau * mu) @ x + level[:, None]
    np.square(y, out=y)
    out += 0.5 * y.reshape(M, q, -1).sum(axis=1)
    return out


# Evidence, precision, lengths, widths, rates, and which directions are left; see `_settle`.
Settled: TypeAlias = tuple[float, float, Array, Array, Array, Array]


class Leap(NamedTuple):
    """Where a leap ends."""

    mean: Array  # of (W, mu), (M, D, p)
    variances: Array  # of the same, in every column, (M, p)
    tau: Array  # (2,)
    alpha: Array  # (2, q)
    worth: float  # what the bound has of these and their turns, the components' prior aside


def leap(
    prior: Broad, rows: Principal, alpha: Array | None, tau: Array | None,
    noise: float | None, entries: tuple[float, float],
) -> Leap:  # fmt: skip
    """Nearly the best posterior of W, mu, tau and alpha, given the rows' components.

    Parameters
    ----------
    prior : Broad
    rows : Principal
        With as many directions as there may be.
    alpha : ndarray of shape (2, q) or None
        Relevances; None if they are learned.
    tau : ndarray of shape (2,) or None
        Precision of the noise; None if it is learned.
    noise : float or None
        Variance of the noise that the loop begins with; None tries what several numbers of
        directions would leave.
    entries : tuple of two float
        Number of observed entries, and the sum of their squares.
    """
    (M, D), q = rows.mean.shape, rows.values.shape[1]
    n, strength = np.maximum(rows.counts, np.finfo(float).tiny), float(prior.strength)
    mean, values, vectors = rows.mean, np.ascontiguousarray(rows.values), rows.vectors
    about = (mean**2).sum(axis=1)
    squares = entries[1] - n @ about  # about the components' means
    kind = PLAIN if not prior.relevance else LEARNED if alpha is None else GIVEN
    shape = strength + 0.5 * M * D if alpha is None else float(alpha[0, 0])
    rates = np.ones(q) if alpha is None else alpha[1]
    noise_shape = strength + 0.5 * entries[0] if tau is None else 0.0
    flat = np.array([[shape], [1.0]])
    constants = (
        strength, shape, float(special.digamma(shape)),
        float(gamma_divergence(flat, strength, strength)[0]) - shape * strength, noise_shape,
    )  # fmt: skip
    best: tuple[float, Settled, Array] | None = None
    if tau is not None:
        noise = float(tau[1] / tau[0])
    if noise is not None:
        starts = [noise]
    else:
        js = np.unique((np.array(BEGIN_WITH) * q).astype(int))
        left = squares - np.append(0.0, np.cumsum(n @ values))[js]
        starts = list(np.maximum(left / (entries[0] - n.sum() * js), LEAST_START))
    for start in starts:
        found = _settle(values, n, squares, D, kind, rates, 1.0 / float(start), *constants)
        precision = tau if tau is not None else np.array([noise_shape, noise_shape / found[1]])
        worth = found[0] + 0.5 * entries[0] * (prior.log_tau(precision) - LOG_2PI)
        worth -= float(gamma_divergence(precision, strength, strength))
        if best is None or worth > best[0]:
            best = worth, found, precision
    assert best is not None
    worth, (_, t, length, width, rates, on), tau = best
    length, width, vectors = length[:, on], width[:, on], vectors[:, :, on]
    # A direction and its opposite are equally good; the largest entry shall be positive.
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None, :], axis=1)
    W = vectors * (np.where(largest < 0, -1.0, 1.0) * length[:, None, :])
    wide = 1.0 / (strength + t * n)  # of mu
    if kind == GIVEN and alpha is not None:
        worth -= float(gamma_divergence(alpha, strength, strength).sum())
    worth -= 0.5 * (strength * about.sum() - D * (np.log(strength * wide)).sum())
    mean = np.concatenate([W, mean[:, :, None]], axis=2)
    alpha = np.stack([np.full(len(rates[on]), shape), rates[on]])
    return Leap(mean, np.column_stack([width, wide]), tau, alpha, worth)


@compiled()
def turns(length, width, A, on):  # type: ignore[no-untyped-def]  # compiled
    """Nats that the bound lacks of each direction, since it knows one turn of them, (q,).

    Two directions of a component turned into each other explain the rows as before. The posterior
    of the loadings knows turns within its widths; all that tells turns is the prior, with
    relevances A (q,), and that they are turns in a space of so many directions. The ratio of the
    two ranges is what the bound lacks; a direction's sign adds log 2.
    """
    M, q = length.shape
    free = np.zeros(q)
    for m in range(M):
        rank = 0
        for i in range(q):
            if not on[i]:
                continue
            rank += 1
            w, s, ratio = length[m, i] ** 2, width[m, i], 4.0
            for j in range(i):
                if on[j]:
                    v = length[m, j] ** 2
                    told = max((v - w) * (A[i] - A[j]), 0.0) + rank / np.e
                    ratio *= max((v / s + w / width[m, j]) / told, 1.0)
                    if ratio > 1e200:
                        free[i] += 0.5 * np.log(ratio)
                        ratio = 1.0
            free[i] += 0.5 * np.log(ratio)
    return free


@compiled()
def _settle(  # type: ignore[no-untyped-def]  # compiled
    values, n, squares, D, kind, rates, t, strength, shape, digamma, divergence, noise_shape
):
    """Lengths, widths, noise and relevances in turn, until they settle.

    A direction that lowers the bound, its turns counted, is left out. The first of the answers is
    what the bound has of directions and squared errors, turns of learned ones counted.
    """
    M, q = values.shape
    length, width, on = np.empty((M, q)), np.empty((M, q)), np.ones(q, np.bool_)
    rates, worth = rates.copy(), np.zeros(q)
    for m in range(M):
        for i in range(q):
            length[m, i] = np.sqrt(max(values[m, i] - 1.0 / t, 1e-3 / t))
            width[m, i] = 1.0 / (t * max(n[m], 1.0))
    if kind == LEARNED:
        for i in range(q):
            rates[i] = strength + 0.5 * (np.sum(length[:, i] ** 2) + D * np.sum(width[:, i]))
    for _ in range(MOST_LEAP_ROUNDS):
        before, moved, explained = t, 0.0, 0.0
        for i in range(q):
            if not on[i]:
                continue
            A = strength if kind == PLAIN else shape / rates[i]
            energy = 0.0
            for m in range(M):
                w = length[m, i]
                loose = 1.0 / (1.0 + t * (w * w + D * width[m, i]))
                pull = t * loose * w
                V = loose + pull * pull * values[m, i]
                s = 1.0 / (A + t * n[m] * V)
                w = t * s * n[m] * pull * values[m, i]
                explained += n[m] * (2.0 * w * pull * values[m, i] - (w * w + D * s) * V)
                w, s = w * np.sqrt(V), s * V  # positions of variance 1
                moved = max(moved, abs(w - length[m, i]))
                length[m, i], width[m, i] = w, s
                energy += w * w + D * s
            if kind == LEARNED:
                rates[i] = strength + 0.5 * energy
        if noise_shape > 0.0:
            error = squares - explained
            for m in range(M):
                error += n[m] * D / (strength + before * n[m])
            t = noise_shape / (strength + 0.5 * max(error, 0.0))
        best, dropped, doubtful = -1, False, False
        for i in range(q):
            if on[i]:
                A = strength if kind == PLAIN else shape / rates[i]
                log_A = np.log(strength) if kind == PLAIN else digamma - np.log(rates[i])
                worth[i] = 0.0
                for m in range(M):
                    w, s = length[m, i], width[m, i]
                    energy = w * w + D * s
                    loose = 1.0 / (1.0 + t * energy)
                    worth[i] += 0.5 * n[m] * (np.log(loose) + t * t * w * w * loose * values[m, i])
                    worth[i] -= 0.5 * (energy * A - D * (np.log(s) + log_A + 1.0))
                if kind == LEARNED:
                    worth[i] -= divergence + strength * np.log(rates[i])
                    worth[i] -= shape * strength / rates[i]
                doubtful |= worth[i] <= 0.0
                if best < 0 or worth[i] > worth[best]:
                    best = i
        if kind == LEARNED and doubtful:
            free = turns(length, width, shape / rates, on)
            for i in range(q):
                if on[i] and i != best and worth[i] + free[i] <= 0.0:
                    on[i], dropped, worth[i] = False, True, 0.0
        longest = 0.0
        for i in range(q):
            if on[i]:
                longest = max(longest, np.max(length[:, i]))
        if not dropped and abs(t - before) < LEAP_SETTLED * t and moved < LEAP_SETTLED * longest:
            break
    total = np.sum(worth) - 0.5 * t * squares
    if kind == LEARNED:
        total += np.sum(turns(length, width, shape / rates, on))
    return total, t, length, width, rates, on
