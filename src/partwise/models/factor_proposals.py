"""Proposals for the likelihood of a row whose columns have no one part: Gaussians at a mode.

Given the selections of parts a row's factors are Gaussian, given the factors the selections of its
entries are independent. So EM over the selections leads to a mode of

    log p(s) + sum_d log sum_k a[d, k] N(x_d; Lambda_k s_k + rho_k, Psi_k),

where the curvature is that of the Gaussians less what the selections leave open: it correlates the
factors of parts that compete for columns, which the variational posterior cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, EntryList

# Steps to a mode at most, and the change of a factor that counts as none.
MOST_STEPS = 50
SETTLED = 1e-3

# Least precision of a factor, whose prior has about 1: where selections leave much open, the
# curvature at a mode says nothing about its surroundings.
LEAST_PRECISION = 0.3

# Degrees of freedom of the samples: tails heavier than Gaussian keep the weights bounded.
FREEDOM = 10.0


class OpenColumns(NamedTuple):
    """Columns that several parts share, in every part."""

    slope: Array  # loadings padded to the largest part, (K, D, J)
    offset: Array  # (K, D)
    precision: Array  # (K, D)
    constant: Array  # log a + log of the Gaussian's normalizer, (K, D)


@compiled(fastmath={"contract", "reassoc"})
def _select(d, value, s, slope, offset, precision, constant, start, away, shares):  # type: ignore[no-untyped-def]  # compiled
    """How far a value of column d is from what each part expects, and the parts' posterior."""
    K, top, total = len(constant), -np.inf, 0.0
    for k in range(K):
        away[k] = value - offset[k, d]
        for j in range(start[k + 1] - start[k]):
            away[k] -= slope[k, d, j] * s[start[k] + j]
        shares[k] = constant[k, d] - 0.5 * precision[k, d] * away[k] * away[k]
        top = max(top, shares[k])
    for k in range(K):
        shares[k] = np.exp(shares[k] - top)
        total += shares[k]
    for k in range(K):
        shares[k] /= total


@compiled(fastmath={"contract", "reassoc"})
def _climb(  # type: ignore[no-untyped-def]  # compiled
    indptr, columns, values, slope, offset, precision, constant, start, prior, pull, s, curvature
):
    """Modes in place of ``s`` (n, F), and the curvature there, (n, F, F)."""
    K = len(constant)
    shares, away = np.empty(K), np.empty(K)
    for r in range(len(s)):
        for step in range(MOST_STEPS + 1):
            A, b = prior[r].copy(), pull[r].copy()  # (K, J, J), (K, J)
            last = step == MOST_STEPS
            for e in range(indptr[r], indptr[r + 1]):
                d = columns[e]
                _select(d, values[e], s[r], slope, offset, precision, constant, start, away, shares)
                for k in range(K):
                    weight = shares[k] * precision[k, d]
                    if weight > 1e-12:
                        target = values[e] - offset[k, d]
                        for i in range(start[k + 1] - start[k]):
                            b[k, i] += weight * target * slope[k, d, i]
                            for j in range(i + 1):
                                A[k, i, j] += weight * slope[k, d, i] * slope[k, d, j]
            change = 0.0
            for k in range(K):
                n = start[k + 1] - start[k]
                for i in range(n):
                    for j in range(i):
                        A[k, j, i] = A[k, i, j]
                if n > 0 and not last:
                    new = np.linalg.solve(A[k, :n, :n].copy(), b[k, :n].copy())
                    for i in range(n):
                        change = max(change, abs(new[i] - s[r, start[k] + i]))
                        s[r, start[k] + i] = new[i]
            if change < SETTLED:
                break
        # The curvature at the mode.
        H = curvature[r]
        u = np.empty(len(H))
        for k in range(K):
            for i in range(start[k + 1] - start[k]):
                for j in range(start[k + 1] - start[k]):
                    H[start[k] + i, start[k] + j] = prior[r, k, i, j]
        for e in range(indptr[r], indptr[r + 1]):
            d = columns[e]
            _select(d, values[e], s[r], slope, offset, precision, constant, start, away, shares)
            for k in range(K):
                share, tau = shares[k], precision[k, d]
                bend = share * (tau - tau * tau * away[k] * away[k])
                for i in range(start[k + 1] - start[k]):
                    u[start[k] + i] = share * tau * away[k] * slope[k, d, i]
                    for j in range(start[k + 1] - start[k]):
                        H[start[k] + i, start[k] + j] += bend * slope[k, d, i] * slope[k, d, j]
            for i in range(len(H)):
                if u[i] != 0.0:
                    for j in range(len(H)):
                        H[i, j] += u[i] * u[j]


def propose(
    entries: EntryList,
    open_columns: OpenColumns,
    start: Array,
    prior: Array,
    pull: Array,
    begin: Array,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Factors sampled around a mode of each row, (n, T, F), and their log density, (n, T).

    Parameters
    ----------
    entries : EntryList
        Entries of the open columns, numbered as these.
    open_columns : OpenColumns
    start : ndarray of shape (K + 1,)
        Number of each part's first factor, then F.
    prior, pull : ndarray of shape (n, K, J, J) and (n, K, J)
        Precision of each part's factors by their prior and the other columns, and that times their
        mean.
    begin : ndarray of shape (n, F)
        Factors to begin with.
    n_draws : int
    rng : Generator
    """
    F, n = int(start[-1]), len(begin)
    check_sizes(rows=(n, len(prior), len(pull), len(entries.indptr) - 1))
    check_sizes(factors=(F, begin.shape[1]), parts=(len(start) - 1, prior.shape[1]))
    mode, curvature = np.array(begin, dtype=float, order="C"), np.zeros((n, F, F))
    _climb(*entries, *open_columns, start, prior, pull, mode, curvature)
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, LEAST_PRECISION)
    z = rng.standard_normal((n_draws, F))
    stretch = FREEDOM / rng.chisquare(FREEDOM, n_draws)
    wide = z * np.sqrt(stretch)[:, None]
    draws = mode[:, None] + np.einsum("nij,nj,tj->nti", vectors, values**-0.5, wide)
    half = 0.5 * (FREEDOM + F)
    constant = special.gammaln(half) - special.gammaln(0.5 * FREEDOM)
    constant -= 0.5 * F * np.log(np.pi * FREEDOM)
    tail = half * np.log1p((wide**2).sum(axis=1) / FREEDOM)
    return draws, constant + 0.5 * np.log(values).sum(axis=1)[:, None] - tail
