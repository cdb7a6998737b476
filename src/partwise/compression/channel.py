"""Codes for noisy channels: indices of codebook vectors whose errors in transmission cost little.

======  ========  ==============  ============================================================
symbol  code      shape           meaning
======  ========  ==============  ============================================================
v       vectors   (N, D)          codebook
p       shares    (N,)            how often each vector is sent
pi      indices   (N,)            the b bits that stand for each vector
eps     rate      number          probability that the channel flips a bit
======  ========  ==============  ============================================================

A received index differs in h of its b bits with probability eps^h (1 - eps)^(b - h), so that the
expected squared error is sum_i p_i sum_j P(pi_j | pi_i) |v_i - v_j|^2: the index assignment problem
of section 7.3 of the GVQ paper, a quadratic assignment. Exchanges of two indices are made while
they lower it, from several starts. An index that stands for no vector is decoded as the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from partwise._compiled import compiled
from partwise.contracts import Array
from partwise.sampling.randomness import as_generator
from partwise.typing import Seed

# Most vectors: the table of their distances has its square of entries.
MOST_VECTORS = 4096

# Exchanges gain at least this share of the error; less is rounding.
LEAST_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class ChannelCode:
    """Indices of codebook vectors for a binary symmetric channel; see `channel_code`.

    Attributes
    ----------
    indices : ndarray of shape (N,), int
        Index that is sent for each vector.
    n_bits : int
        Bits of an index.
    table : ndarray of shape (2 ** n_bits, D)
        Vector that each received index is decoded as; the mean where none was assigned.
    shares : ndarray of shape (N,)
        How often each vector is sent.
    """

    indices: Array
    n_bits: int
    table: Array
    shares: Array

    def encode(self, labels: ArrayLike) -> Array:
        """Indices to send for the numbers of vectors."""
        numbers = np.asarray(labels)
        if numbers.dtype.kind not in "iu" or np.any((numbers < 0) | (numbers >= len(self.indices))):
            raise ValueError(
                f"labels must be integers from 0 to {len(self.indices) - 1}, the numbers of "
                "codebook vectors."
            )
        return self.indices[numbers]

    def decode(self, received: ArrayLike) -> Array:
        """Vectors of received indices."""
        return self.table[_checked(received, self.n_bits)]

    def distortion(self, error_rate: float) -> float:
        """Expected squared error that a channel with this rate of flipped bits causes."""
        _check_rate(error_rate)
        sent = self.table[self.indices]
        apart = _squares(sent, self.table)
        flips = _transitions(self.n_bits, error_rate)[self.indices]
        return float(self.shares @ (flips * apart).sum(axis=1))


def channel_code(
    vectors: ArrayLike,
    shares: ArrayLike | None = None,
    *,
    error_rate: float = 0.01,
    n_init: int = 4,
    random_state: Seed = 0,
) -> ChannelCode:
    """Assign indices to codebook vectors so that flipped bits cause small errors.

    Parameters
    ----------
    vectors : array-like of shape (N, D)
        Codebook: k-means centers, or ``model.decode`` of all codes of a `GVQ`.
    shares : array-like of shape (N,), optional
        How often each vector is sent, in any unit; None is equally often.
    error_rate : float, default=0.01
        Probability that the channel flips a bit, above 0 and below one half. The assignment depends
        little on it.
    n_init : int, default=4
        Number of starts of the exchanges: first halves along principal directions, then random
        ones.
    random_state : int, Generator, RandomState or None, default=0

    Returns
    -------
    code : ChannelCode
        With ``indices``, and methods ``encode``, ``decode`` and ``distortion``.

    References
    ----------
    S. W. McLaughlin, D. L. Neuhoff and J. J. Ashley, Optimal binary index assignments for a class
    of equiprobable scalar and vector quantizers. IEEE Transactions on Information Theory 41, 1995.

    P. Knagenhjelm and E. Agrell, The Hadamard transform - a tool for index assignment. IEEE
    Transactions on Information Theory 42, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.compression import channel_code, flip_bits
    >>> levels = np.array([[0.0], [3.0], [1.0], [2.0]])
    >>> code = channel_code(levels, error_rate=0.01)
    >>> received = flip_bits(code.encode([0, 1, 2, 3] * 1000), code.n_bits, 0.01, random_state=0)
    >>> code.decode(received).shape, round(code.distortion(0.01), 4)
    ((4000, 1), 0.05)
    """
    V = np.asarray(vectors, float)
    if V.ndim != 2 or not 1 <= len(V) <= MOST_VECTORS or not np.isfinite(V).all():
        raise ValueError(
            f"vectors must be finite numbers of shape (N, D) with N from 1 to {MOST_VECTORS}, got "
            f"shape {V.shape}."
        )
    p = np.ones(len(V)) if shares is None else np.asarray(shares, float)
    if p.shape != (len(V),) or not np.isfinite(p).all() or p.min() < 0 or p.sum() <= 0:
        raise ValueError(
            f"shares must be {len(V)} numbers of at least 0, one per vector, not all 0."
        )
    _check_rate(error_rate)
    if error_rate in (0.0, 0.5) or n_init < 1:
        raise ValueError(
            f"channel_code needs 0 < error_rate < 0.5 and n_init of at least 1, got "
            f"{error_rate:g} and {n_init}."
        )
    p = p / p.sum()
    n_bits = max((len(V) - 1).bit_length(), 1)
    mean = p @ V
    every = np.vstack([V, np.tile(mean, (2**n_bits - len(V), 1))])
    weight = np.append(p, np.zeros(len(every) - len(V)))
    cost = (weight[:, None] + weight) * _squares(every, every)
    flips = _transitions(n_bits, error_rate)
    rng = as_generator(random_state)
    best, least = np.arange(len(every)), np.inf
    for i in range(n_init):
        begin = _halves(every) if i == 0 else rng.permutation(len(every))
        found, error = _exchange(begin.astype(np.int64), cost, flips, LEAST_GAIN)
        if error < least:
            best, least = found, error
    table = np.empty_like(every)
    table[best] = every
    return ChannelCode(best[: len(V)], n_bits, table, p)


def flip_bits(
    indices: ArrayLike, n_bits: int, error_rate: float, *, random_state: Seed = None
) -> Array:
    """Indices as a binary symmetric channel delivers them: every bit flipped with a probability.

    Parameters
    ----------
    indices : array-like of int
    n_bits : int
        Bits of an index.
    error_rate : float
        Probability that a bit is flipped, at most one half.
    random_state : int, Generator, RandomState or None, default=None

    Returns
    -------
    received : ndarray of the same shape

    Examples
    --------
    >>> from partwise.compression import flip_bits
    >>> flip_bits([0, 1, 2, 3], 2, 0.0)
    array([0, 1, 2, 3])
    """
    sent = _checked(indices, n_bits)
    _check_rate(error_rate)
    flipped = as_generator(random_state).random((*sent.shape, n_bits)) < error_rate
    return sent ^ (flipped @ (1 << np.arange(n_bits)))


def _checked(indices: ArrayLike, n_bits: int) -> Array:
    numbers = np.asarray(indices)
    if numbers.dtype.kind not in "iu" or np.any((numbers < 0) | (numbers >= 1 << n_bits)):
        raise ValueError(f"indices must be integers of {n_bits} bits, 0 to {(1 << n_bits) - 1}.")
    return numbers.astype(np.int64)


def _check_rate(error_rate: float) -> None:
    if not 0.0 <= error_rate <= 0.5:
        raise ValueError(f"error_rate={error_rate!r} must be a probability of at most 0.5.")


def _squares(a: Array, b: Array) -> Array:
    """Squared distances, (len(a), len(b))."""
    center = b.mean(axis=0)
    a, b = a - center, b - center
    return np.maximum((a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T, 0.0)


def _transitions(n_bits: int, error_rate: float) -> Array:
    """Probability that an index is received as another; (2^b, 2^b)."""
    one = np.array([[1.0 - error_rate, error_rate], [error_rate, 1.0 - error_rate]])
    out = np.ones((1, 1))
    for _ in range(n_bits):
        out = np.kron(out, one)
    return out


def _halves(vectors: Array) -> Array:
    """Indices by halves: each bit cuts what the bits before leave together across its principal
    direction, the two sides of a cut being numbered in the same order.
    """  # fmt: skip
    indices = np.zeros(len(vectors), np.int64)
    groups = [np.arange(len(vectors))]
    while len(groups[0]) > 1:
        cut, toward = [], None
        for rows in groups:
            centered = vectors[rows] - vectors[rows].mean(axis=0)
            direction = np.linalg.svd(centered, full_matrices=False)[2][0]
            if toward is not None and toward @ direction < 0:
                direction = -direction
            toward = direction
            order = rows[np.argsort(centered @ direction, kind="stable")]
            cut += [order[: len(rows) // 2], order[len(rows) // 2 :]]
        indices *= 2
        for rows in cut[1::2]:
            indices[rows] += 1
        groups = cut
    return indices


@compiled()
def _exchange(indices, cost, flips, least_gain):  # type: ignore[no-untyped-def]  # compiled
    """Exchange the indices of two vectors while that lowers sum_{i<j} cost_ij flips; and that."""
    n = len(indices)
    pi = indices.copy()
    total = 0.0
    for i in range(n):
        for j in range(i):
            total += cost[i, j] * flips[pi[i], pi[j]]
    improved = True
    while improved:
        improved = False
        for i in range(n):
            for j in range(i):
                gain = 0.0
                for k in range(n):
                    if k != i and k != j:
                        gain += (cost[i, k] - cost[j, k]) * (
                            flips[pi[i], pi[k]] - flips[pi[j], pi[k]]
                        )
                if gain > least_gain * total:
                    pi[i], pi[j] = pi[j], pi[i]
                    total -= gain
                    improved = True
    return pi, total
