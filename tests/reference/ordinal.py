"""Ordered levels on MCFA by loops over rows and entries, with scipy's truncated Gaussian.

The latent number x_cd of a level lies between lo[d][level] and lo[d][level + 1]; all is in the
units of the latent numbers. The problem and its arguments are those of `tests.reference.mcfa`, of
which `Problem.X` holds E[x] (NaN where no level was seen); here stand E[x^2] and the entropies of
q(x) besides, and the terms of the bound that they change.
"""

import math
from dataclasses import replace

import numpy as np
from scipy import stats

from tests.reference import mcfa


def expected_numbers(p, f, levels, ends):
    """E[x], E[x^2] and entropy of every number, each (C, D): q(x) given factors and loadings."""
    mean, spread, low, high = (np.full(levels.shape, np.nan) for _ in range(4))
    for c in p.rows:
        for d in p.columns:
            if math.isnan(levels[c, d]):
                continue
            precision, pull = 0.0, 0.0
            for k in p.parts:
                w, g = f.w[d][k], mcfa.gate(p, f, c, d, k)
                precision += g * w.tau
                pull += g * w.tau * (w.mean @ np.append(f.m[c][k], 1.0))
            mean[c, d], spread[c, d] = pull / precision, 1 / math.sqrt(precision)
            level = int(levels[c, d])
            low[c, d], high[c, d] = ends[d, level], ends[d, level + 1]
    seen = ~np.isnan(levels)
    first, second, entropy = (np.full(levels.shape, np.nan) for _ in range(3))
    mean, spread, low, high = (field[seen] for field in (mean, spread, low, high))
    law = stats.truncnorm((low - mean) / spread, (high - mean) / spread, mean, spread)
    first[seen], variance = law.stats("mv")
    second[seen] = variance + first[seen] ** 2
    entropy[seen] = law.entropy()
    return first, second, entropy


def with_numbers(p, numbers):
    """The problem with other expected numbers as its data."""
    return replace(p, X=numbers)


def bound(p, f, second, entropy):
    """MCFA's bound of the expected numbers, less half their variance times its precision, plus
    their entropies."""
    total = mcfa.bound(p, f)
    for c in p.rows:
        for d in p.columns:
            if p.seen(c, d):
                variance = second[c, d] - p.X[c, d] ** 2
                for k in p.parts:
                    g = mcfa.gate(p, f, c, d, k)
                    total -= 0.5 * p.weights[c] * g * f.w[d][k].tau * variance
                total += p.weights[c] * entropy[c, d]
    return total
