"""Evidence of a sizing by the chain rule: every row is predicted from the rows before it.

States of the rows are given. A state's next entry has a Student t density, a row's next state the
share of an urn, a column's part one chance in as many as there are.
"""

import math

import numpy as np
from scipy import stats


def entries(xs, mean, scale, prior):
    """Log density of one column's entries in one state, NaN left out."""
    mu, kappa = 0.0, prior.entries
    alpha = 0.5 * (prior.entries + prior.shape)
    beta = alpha * prior.spread
    total = 0.0
    for x in xs:
        if math.isnan(x):
            continue
        z = (x - mean) / scale
        width = math.sqrt(beta * (kappa + 1.0) / (alpha * kappa))
        total += stats.t.logpdf(z, 2.0 * alpha, mu, width) - math.log(scale)
        beta += 0.5 * kappa * (z - mu) ** 2 / (kappa + 1.0)
        mu = (kappa * mu + z) / (kappa + 1.0)
        kappa, alpha = kappa + 1.0, alpha + 0.5
    return total


def choices(states, J, concentration):
    """Log probability of the rows' states."""
    seen = np.zeros(J)
    total = 0.0
    for state in states:
        total += math.log((seen[state] + concentration) / (seen.sum() + J * concentration))
        seen[state] += 1.0
    return total


def evidence(X, parts, states, n_states, prior):
    """Log evidence of the rows; parts (D,) is -1 for background, states (n, K)."""
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    K, D = len(n_states), X.shape[1]
    total = sum(choices(states[:, k], n_states[k], prior.states) for k in range(K))
    for d in range(D):
        of_row = np.zeros(len(X), int) if parts[d] < 0 else states[:, parts[d]]
        for j in np.unique(of_row):
            total += entries(X[of_row == j, d], mean[d], scale[d], prior)
    return total - D * math.log(K + 1)
