"""Columns grouped so that a few hidden numbers of each group explain most of its variance.

The states of a part are a code of its columns, and J states tell at most log J nats. If columns
were normal, the best code of a group would tell its leading principal scores t_q, of variances v_q,
up to an error theta that is the same in all of them (reverse water-filling, Shannon's
rate-distortion function):

    sum_q log(v_q / theta) / 2 = log J  over the scores with v_q > theta

    r2_d = sum_q (1 - theta / v_q) corr(x_d, t_q)^2,    gain_d = -log(1 - r2_d) / 2

so a division of the columns is judged by the correlations alone, far faster than by fitting states.
Columns choose among groups with probabilities proportional to exp(beta gain) while beta rises to
the number of rows, as the temperature falls in annealing; scores follow by one step of power
iteration each. Several runs begin with random scores of the groups that are given; the one of most
gain is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from partwise.contracts import Array

# Steps of a run, and the first beta.
STEPS, FIRST_BETA = 60, 3.0

# Most runs, and products summed in all of them: where columns are many, fewer runs.
MOST_RUNS, MOST_PRODUCTS = 8, 2_000_000_000

# The most of a column's variance that counts as told.
MOST_TOLD = 0.98

# Added to sums of squares, as a share of them: scores of a group may depend on each other.
RIDGE = 1e-6


def correlations(sample: Array, weight: Array) -> Array:
    """Correlations (D, D) of the columns of a sample; missing entries count as the mean."""
    Z = np.nan_to_num(sample) * np.sqrt(weight / weight.sum())[:, None].astype(sample.dtype)
    found = Z.T @ Z
    scale = np.sqrt(np.maximum(np.diag(found), np.finfo(found.dtype).tiny))
    found /= scale * scale[:, None]
    return found


def told_groups(
    R: Array, n_rows: float, labels: Array, n_states: Sequence[int], rng: np.random.Generator
) -> Array:
    """Groups (D,) of columns with correlations R (D, D), a group for every number of states.

    Runs begin with the groups ``labels``; columns of no group, -1, stay out.
    """
    out, inside = labels.copy(), np.flatnonzero(labels >= 0)
    R, K, D = R[np.ix_(inside, inside)], len(n_states), len(inside)
    n_scores = max(int(np.ceil(np.log2(max(n_states)))), 1)
    size = D * D * K * n_scores * STEPS
    n_runs = int(np.clip(MOST_PRODUCTS // max(size, 1), 1, MOST_RUNS))
    capacity = np.tile(np.log(np.asarray(n_states, float)), n_runs)[:, None]
    begun = np.arange(K)[:, None] == labels[inside]
    first = rng.standard_normal((n_runs, K, n_scores, D)) * begun[:, None]
    A = first.reshape(-1, n_scores, D).astype(R.dtype)
    g = np.full((len(A), D), 1.0 / K, R.dtype)
    gain = np.zeros((n_runs, K, D), R.dtype)
    for beta in np.geomspace(FIRST_BETA, max(n_rows, FIRST_BETA), STEPS):
        shown, share = _principal(A, (A.reshape(-1, D) @ R).reshape(A.shape), g, capacity)
        r2 = np.minimum((share[:, None] @ shown**2)[:, 0], MOST_TOLD)
        gain = -0.5 * np.log1p(-r2).reshape(gain.shape)
        g = special.softmax(beta * gain, axis=1).reshape(g.shape).astype(R.dtype)
        A = (g / (1.0 - r2))[:, None] * shown
    best = int(gain.max(axis=1).sum(axis=1).argmax())
    out[inside] = gain[best].argmax(axis=0)
    return out


def _principal(A: Array, M: Array, g: Array, capacity: Array) -> tuple[Array, Array]:
    """Correlations (B, q, D) of principal scores with the columns, and how far each is told.

    Scores of B groups are sums of columns with the weights A (B, q, D), and have the products M
    with the columns; g (B, D) says how much a column counts, ``capacity`` (B, 1) how many nats are
    told.
    """
    square = A @ M.transpose(0, 2, 1)
    ridge = RIDGE * np.trace(square, axis1=1, axis2=2) + np.finfo(A.dtype).tiny
    square = square + ridge[:, None, None] * np.eye(A.shape[1], dtype=A.dtype)
    unit = np.linalg.inv(np.linalg.cholesky(0.5 * (square + square.transpose(0, 2, 1)))) @ M
    variance, turn = np.linalg.eigh((unit * g[:, None]) @ unit.transpose(0, 2, 1))
    shown = turn[:, :, ::-1].transpose(0, 2, 1) @ unit
    return shown, told_shares(variance[:, ::-1], capacity).astype(A.dtype)


def told_shares(variance: Array, capacity: Array) -> Array:
    """Share of each score's variance that is told, (B, q); variances fall, capacities are (B, 1).

    Reverse water-filling: error theta in the scores of more variance, the others are not told.
    """
    logs = np.log(np.maximum(variance, np.finfo(variance.dtype).tiny))
    number = np.arange(1, variance.shape[1] + 1)
    theta = (np.cumsum(logs, axis=1) - 2.0 * capacity) / number  # log, by how many are told
    n_told = np.where(theta < logs, number, 1).max(axis=1, keepdims=True)
    theta = np.take_along_axis(theta, n_told - 1, axis=1)
    return np.where(number <= n_told, -np.expm1(np.minimum(theta - logs, 0.0)), 0.0)
