"""Gaussian posteriors of a few factors, for many rows at once.

Symmetric matrices (J, J) of many rows or patterns are held packed, (Q, U) with Q = J (J + 1) / 2:
entry (i, j), j <= i, stands at i (i + 1) / 2 + j. So every arithmetic step runs along rows of
memory.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from partwise._compiled import compiled
from partwise.contracts import Array

# Matrices worked on at a time, so that their factors stay in the nearest cache.
TILE = 64


def n_pairs(J: int) -> int:
    """Q."""
    return J * (J + 1) // 2


def n_vectors(Q: int) -> int:
    """J, from the number of pairs."""
    return (math.isqrt(8 * Q + 1) - 1) // 2


@cache
def pair_index(J: int) -> tuple[Array, Array]:
    """Row i and column j <= i of every packed entry."""
    return np.tril_indices(J)


def pack(matrices: Array) -> Array:
    """(..., J, J) symmetric to (..., Q)."""
    i, j = pair_index(matrices.shape[-1])
    return matrices[..., i, j]


def unpack(packed: Array, J: int) -> Array:
    """(..., Q) to (..., J, J)."""
    i, j = pair_index(J)
    out = np.empty((*packed.shape[:-1], J, J), packed.dtype)
    out[..., i, j] = packed
    out[..., j, i] = packed
    return out


def products(m: Array) -> Array:
    """m_i m_j of rows (J, n), packed; (Q, n)."""
    i, j = pair_index(len(m))
    return m[i] * m[j]


@compiled()
def _invert(A, J, cov, log_det):  # type: ignore[no-untyped-def]  # compiled
    U = A.shape[1]
    zero, eps = A.dtype.type(0), np.finfo(A.dtype).eps
    L = np.empty((J, J, TILE), A.dtype)
    inverse = np.empty((J, J, TILE), A.dtype)
    for lo in range(0, U, TILE):
        n = min(TILE, U - lo)
        for u in range(n):
            log_det[lo + u] = 0.0
        for i in range(J):
            for j in range(i + 1):
                row, source = L[i, j], A[i * (i + 1) // 2 + j]
                for u in range(n):
                    row[u] = source[lo + u]
                for k in range(j):
                    a, b = L[i, k], L[j, k]
                    for u in range(n):
                        row[u] -= a[u] * b[u]
                if i == j:
                    for u in range(n):
                        # Rounding of a matrix that is nearly singular may leave 0 or less.
                        row[u] = np.sqrt(max(row[u], eps * source[lo + u]))
                        log_det[lo + u] += 2.0 * np.log(row[u])
                else:
                    b = L[j, j]
                    for u in range(n):
                        row[u] /= b[u]
        for j in range(J):
            for u in range(n):
                inverse[j, j, u] = 1 / L[j, j, u]
            for i in range(j + 1, J):
                row = inverse[i, j]
                for u in range(n):
                    row[u] = zero
                for k in range(j, i):
                    a, b = L[i, k], inverse[k, j]
                    for u in range(n):
                        row[u] -= a[u] * b[u]
                b = L[i, i]
                for u in range(n):
                    row[u] /= b[u]
        for i in range(J):
            for j in range(i + 1):
                row = cov[i * (i + 1) // 2 + j]
                for u in range(n):
                    row[lo + u] = zero
                for k in range(i, J):
                    a, b = inverse[k, i], inverse[k, j]
                    for u in range(n):
                        row[lo + u] += a[u] * b[u]


def invert(A: Array, J: int) -> tuple[Array, Array]:
    """Inverses (Q, U) and log determinants (U,) of positive definite matrices (Q, U)."""
    A = np.ascontiguousarray(A)
    cov, log_det = np.empty_like(A), np.empty(A.shape[1])
    if J:
        _invert(A, J, cov, log_det)
    else:
        log_det[:] = 0.0
    return cov, log_det


def multiply(packed: Array, b: Array) -> Array:
    """Matrices (Q, ..., n), or one for all n (Q, ..., 1), times vectors b (J, ..., n); as b."""
    J = len(b)
    if packed.shape[-1] == 1:
        matrices = unpack(np.moveaxis(packed[..., 0], 0, -1), J)
        return np.moveaxis(matrices @ np.moveaxis(b, 0, -2), -2, 0)
    out = np.zeros(b.shape, b.dtype)
    if J and packed.shape[1:] == b.shape[1:]:
        packed = np.ascontiguousarray(packed).reshape(len(packed), -1)
        _add_multiplied(packed, np.ascontiguousarray(b).reshape(J, -1), out.reshape(J, -1))
        return out
    for q, (i, j) in enumerate(zip(*pair_index(J), strict=True)):
        out[i] += packed[q] * b[j]
        if i != j:
            out[j] += packed[q] * b[i]
    return out


@compiled(fastmath={"contract"})
def _add_multiplied(packed, b, out):  # type: ignore[no-untyped-def]  # compiled
    """Add matrices (Q, n) times vectors (J, n)."""
    for i in range(len(b)):
        for j in range(i + 1):
            matrix, left, right = packed[i * (i + 1) // 2 + j], b[i], b[j]
            one, other = out[i], out[j]
            for c in range(len(matrix)):
                one[c] += matrix[c] * right[c]
            if i != j:
                for c in range(len(matrix)):
                    other[c] += matrix[c] * left[c]
