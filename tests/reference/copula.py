"""Latent numbers of a mixed table on MCFA, by loops over rows and columns.

A column is a list of latent numbers. ``kind`` of it is "number" (the number is observed), "level"
(it lies between ends) or "category" (of several, each plus its head start, the observed level's is
the largest). The problem and its arguments are those of `tests.reference.mcfa`; E[x], E[x^2] and
entropies are used as in `tests.reference.ordinal`.
"""

import math

import numpy as np
from scipy import stats

from tests.reference import mcfa


def gaussian(p, f, c, d):
    """Mean and deviation of a latent number given the factors, all parts together."""
    precision, pull = 0.0, 0.0
    for k in p.parts:
        w, g = f.w[d][k], mcfa.gate(p, f, c, d, k)
        precision += g * w.tau
        pull += g * w.tau * (w.mean @ np.append(f.m[c][k], 1.0))
    return pull / precision, 1.0 / math.sqrt(precision)


def expected_numbers(p, f, X, kinds):
    """E[x], E[x^2] and entropy of every latent number; a category's entropy stands at its first.

    ``kinds`` has, of every column of X, its kind, its first latent number, and its ends or starts.
    """
    first, second, entropy = (np.full(p.X.shape, np.nan) for _ in range(3))
    for c in p.rows:
        for j, (kind, d, ends) in enumerate(kinds):
            if math.isnan(X[c, j]):
                continue
            if kind == "number":
                first[c, d], second[c, d], entropy[c, d] = X[c, j], X[c, j] ** 2, 0.0
            elif kind == "level":
                mean, spread = gaussian(p, f, c, d)
                low, high = ends[int(X[c, j])], ends[int(X[c, j]) + 1]
                law = stats.truncnorm((low - mean) / spread, (high - mean) / spread, mean, spread)
                first[c, d] = law.mean()
                second[c, d] = law.var() + law.mean() ** 2
                entropy[c, d] = law.entropy()
            else:
                found = category(p, f, c, d, int(X[c, j]), ends)
                for u, (one, two) in enumerate(found[1]):
                    first[c, d + u], second[c, d + u], entropy[c, d + u] = one, two, 0.0
                entropy[c, d] = found[0]
    return first, second, entropy


def category(p, f, c, d, level, starts):
    """Entropy and moments of the numbers of a category, by sums over a grid of the largest."""
    moments = [gaussian(p, f, c, d + u) for u in range(len(starts))]
    mean = np.array([mean for mean, _ in moments]) + starts
    spread = np.array([spread for _, spread in moments])
    y = np.linspace(mean.min() - 14 * spread.max(), mean.max() + 14 * spread.max(), 20_001)
    away = (y - mean[:, None]) / spread[:, None]
    below = stats.norm.cdf(away)
    density = stats.norm.pdf(away[level]) / spread[level]
    for u in range(len(mean)):
        density = density * (below[u] if u != level else 1.0)
    share = density.sum() * (y[1] - y[0])
    density /= density.sum()
    out, entropy = [], math.log(share)
    for u in range(len(mean)):
        one, two = y, y**2
        if u != level:  # a Gaussian cut off above at y
            ratio = stats.norm.pdf(away[u]) / np.maximum(below[u], 1e-300)
            one = mean[u] - spread[u] * ratio
            variance = spread[u] ** 2 * (1.0 - away[u] * ratio - ratio**2)
            two = variance + one**2
        one, two = one @ density, two @ density
        square = (two - 2.0 * one * mean[u] + mean[u] ** 2) / spread[u] ** 2
        entropy += 0.5 * (math.log(2.0 * math.pi * spread[u] ** 2) + square)
        out.append((one - starts[u], two - 2.0 * starts[u] * one + starts[u] ** 2))
    return entropy, out
