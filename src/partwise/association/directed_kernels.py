"""Compiled loops of the directed methods; messages are log ratios of on to off.

L[i, k] goes from column i to feature k; a feature's message to a column is its cost and the sum of
its other columns' messages.
"""

import numpy as np

from partwise._compiled import compiled

# Quadrature leaves errors of this size where a density is next to nothing; less is taken as this.
LEAST_DENSITY = 1e-9

# Standard deviations of F s beyond which its states are too rare to be a matter.
FAR = 3.0

# Log odds beyond which a feature is on or off for certain.
CERTAIN = 500.0


@compiled()
def _energy(F, x, shown, cost, state):
    """Squared error of a state over a row's observed columns, and the cost."""
    total = 0.0
    for k in range(len(cost)):
        if state[k]:
            total += cost[k]
    for i in range(len(F)):
        if shown[i]:
            away = x[i]
            for k in range(len(cost)):
                if state[k]:
                    away -= F[i, k]
            total += away * away
    return total


@compiled()
def _keep_better(F, x, shown, cost, total, prior, state, best, least):
    """The state that the messages speak for; kept in ``best`` if its energy is the least yet."""
    for k in range(len(cost)):
        state[k] = 1 if prior[k] + total[k] > 0 else 0
    energy = _energy(F, x, shown, cost, state)
    if energy < least:
        best[:] = state
        return energy
    return least


@compiled()
def _reach(F, x, shown, odds):
    """How far |x - F s| reaches in any column under beliefs with these log odds."""
    reach = 0.0
    for i in range(len(F)):
        if shown[i]:
            mean, variance = 0.0, 0.0
            for k in range(len(odds)):
                on = 1.0 / (1.0 + np.exp(-min(max(odds[k], -CERTAIN), CERTAIN)))
                mean += on * F[i, k]
                variance += on * (1.0 - on) * F[i, k] ** 2
            reach = max(reach, abs(x[i] - mean) + FAR * np.sqrt(variance))
    return reach


@compiled()
def propagate(F, X, shown, cost, nodes, weights, n_sweeps):
    """Directed belief propagation, (31) by (35); the best of the states met on the way.

    The noise is halved after every sweep, but not below the least that the nodes resolve: waves
    turn by |x - F s| / sigma, and sqrt(2 N) is as much as N nodes a side can follow.
    """
    n, D = X.shape
    K = F.shape[1]
    N = len(nodes)
    best = np.zeros((n, K), np.int64)
    L = np.empty((D, K))
    total = np.empty(K)
    prior = np.empty(K)
    state = np.empty(K, np.int64)
    before = np.empty((K + 1, N), np.complex128)
    factor = np.empty((K, N), np.complex128)
    turn = np.empty((K, N), np.complex128)
    for r in range(n):
        x = X[r]
        least = _energy(F, x, shown[r], cost, best[r])
        L[:] = 0.0
        total[:] = 0.0
        prior[:] = 0.0
        sigma = 4.0 * _reach(F, x, shown[r], prior) / np.sqrt(2.0 * N)
        for _ in range(n_sweeps):
            sigma = max(0.5 * sigma, _reach(F, x, shown[r], prior + total) / np.sqrt(2.0 * N))
            if sigma == 0.0:
                break
            for k in range(K):
                prior[k] = -0.5 * cost[k] / sigma**2
            for i in range(D):
                if not shown[r, i]:
                    continue
                before[0] = weights * np.exp(1j * nodes * (x[i] / sigma))
                for k in range(K):
                    if F[i, k] == 0.0:
                        before[k + 1] = before[k]
                        continue
                    odds = prior[k] + total[k] - L[i, k]
                    on = 1.0 / (1.0 + np.exp(-min(max(odds, -CERTAIN), CERTAIN)))
                    turn[k] = np.exp(-1j * nodes * (F[i, k] / sigma))
                    factor[k] = 1.0 - on + on * turn[k]
                    before[k + 1] = before[k] * factor[k]
                after = np.ones(N, np.complex128)
                for k in range(K - 1, -1, -1):
                    if F[i, k] == 0.0:
                        continue
                    off, on = 0.0, 0.0
                    for q in range(N):
                        others = before[k, q] * after[q]
                        off += others.real
                        on += (others * turn[k, q]).real
                    after *= factor[k]
                    floor = LEAST_DENSITY * max(abs(on), abs(off)) + 1e-300
                    new = np.log(max(on, floor)) - np.log(max(off, floor))
                    total[k] += new - L[i, k]
                    L[i, k] = new
            least = _keep_better(F, x, shown[r], cost, total, prior, state, best[r], least)
    return best


@compiled()
def revise(F, X, shown, cost, most_sweeps, tol):
    """Directed belief revision (36) with sigma = 1: codes, and which rows came to rest."""
    n, D = X.shape
    K = F.shape[1]
    best = np.zeros((n, K), np.int64)
    converged = np.zeros(n, np.bool_)
    L = np.empty((D, K))
    total = np.empty(K)
    prior = -0.5 * cost
    state = np.empty(K, np.int64)
    parents = np.empty(K, np.int64)
    odds = np.empty(K)
    reached = np.empty((K, 2))
    for r in range(n):
        x = X[r]
        least = _energy(F, x, shown[r], cost, best[r])
        size = max(least, 1e-300)
        L[:] = 0.0
        total[:] = 0.0
        for _ in range(most_sweeps):
            moved = 0.0
            for i in range(D):
                if not shown[r, i]:
                    continue
                p = 0
                for k in range(K):
                    if F[i, k] != 0.0:
                        parents[p] = k
                        odds[p] = prior[k] + total[k] - L[i, k]
                        reached[p, 0] = reached[p, 1] = -np.inf
                        p += 1
                for code in range(1 << p):
                    away, score = x[i], 0.0
                    for j in range(p):
                        if code >> j & 1:
                            away -= F[i, parents[j]]
                            score += odds[j]
                    score -= 0.5 * away * away
                    for j in range(p):
                        bit = code >> j & 1
                        reached[j, bit] = max(reached[j, bit], score)
                for j in range(p):
                    k = parents[j]
                    new = reached[j, 1] - odds[j] - reached[j, 0]
                    moved = max(moved, abs(new - L[i, k]))
                    total[k] += new - L[i, k]
                    L[i, k] = new
            least = _keep_better(F, x, shown[r], cost, total, prior, state, best[r], least)
            if moved <= tol * size:
                converged[r] = True
                break
    return best, converged
