"""Quantiles of mixtures of Student t distributions, one mixture for every cell of a table.

Compiled, since a table has many cells and each its own mixture. ``df`` infinite is the normal
distribution. The distribution function of Student's t follows Hill (1970, Algorithm 396): a normal
deviate with the same tail, within 2e-7 of the truth from 5 degrees of freedom on and 1e-9 from 10;
below, the incomplete beta function is summed as a continued fraction, to 1e-13.

`mixture_quantile` takes one cell's components and can be called from other compiled loops.
`state_quantiles` goes through the cells of a model whose components are states, each with the
weight of the state times the gate of its part; `part_quantiles` through those of a model in which
every row has one normal distribution for each part.

G. W. Hill, Algorithm 395: Student's t-distribution, and Algorithm 396: Student's t-quantiles,
Communications of the ACM 13, 1970.
"""

import math

import numpy as np

from partwise._compiled import compiled

# Components of less weight than this do not change a quantile measurably.
LEAST_WEIGHT = 1e-4

# Quantiles are found to this, in units of the column's deviation.
CLOSE = 1e-6

# Degrees of freedom from which on Hill's expansion is used.
LEAST_DF = 5.0

_SQRT_HALF = math.sqrt(0.5)
_LOG_2PI = math.log(2.0 * math.pi)


@compiled()
def _incomplete_beta(a, b, x):
    """Regularized incomplete beta function for x below (a + 1) / (a + b + 2), by Lentz' method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    h = d
    for i in range(1, 300):
        for odd in range(2):
            if odd:
                t = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1.0))
            else:
                t = i * (b - i) * x / ((a + 2 * i - 1.0) * (a + 2 * i))
            d = 1.0 + t * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + t / c
            c = c if abs(c) > tiny else tiny
            h *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return h * math.exp(front + a * math.log(x) + b * math.log1p(-x)) / a


@compiled()
def student_cdf(z, df):
    """P(T <= z) of Student's t, scalar."""
    if df == np.inf:
        return 0.5 * math.erfc(-z * _SQRT_HALF)
    if df >= LEAST_DF:
        a = df - 0.5
        b = 48.0 * a * a
        y = a * math.log1p(z * z / df)
        t = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b)
        t = math.sqrt(y) * ((t + y + 3.0) / b + 1.0)
        return 0.5 * math.erfc(-math.copysign(t, z) * _SQRT_HALF)
    if z == 0.0:
        return 0.5
    x = df / (df + z * z)
    if x < (0.5 * df + 1.0) / (0.5 * df + 2.5):
        tail = 0.5 * _incomplete_beta(0.5 * df, 0.5, x)
    else:
        tail = 0.5 - 0.5 * _incomplete_beta(0.5, 0.5 * df, z * z / (df + z * z))
    return tail if z < 0.0 else 1.0 - tail


@compiled()
def _density(z, df):
    """Density of Student's t to a few digits: it only steers the search for a quantile."""
    if df == np.inf:
        return math.exp(-0.5 * (z * z + _LOG_2PI))
    # The logarithm of the constant by Stirling's series.
    constant = -0.25 / df + 1.0 / (24.0 * df * df * df)
    return math.exp(constant - 0.5 * (_LOG_2PI + (df + 1.0) * math.log1p(z * z / df)))


@compiled()
def mixture_quantile(weight, mean, scale, df, n, p, low, high):
    """x with P(X <= x) = p under the first ``n`` components.

    ``low`` and ``high`` enclose it: the least and the largest of the components' own quantiles do.
    Newton's steps on the log odds, in which tails are nearly straight; the enclosure is halved
    where a step leaves it or gains too little.
    """
    total = 0.0
    for i in range(n):
        total += weight[i]
    aim = math.log(p / (1.0 - p))
    x, before = 0.5 * (low + high), high - low
    while before > 0.5 * CLOSE:
        reached, slope = 0.0, 0.0
        for i in range(n):
            z = (x - mean[i]) / scale[i]
            reached += weight[i] / total * student_cdf(z, df[i])
            slope += weight[i] / total / scale[i] * _density(z, df[i])
        if reached < p:
            low = x
        else:
            high = x
        step = np.inf
        if 0.0 < reached < 1.0 and slope > 0.0:
            odds = reached / (1.0 - reached)
            step = (aim - math.log(odds)) * reached * (1.0 - reached) / slope
        if not (low < x + step < high) or abs(step) > 0.5 * before:
            step = 0.5 * (low + high) - x
        x += step
        before = abs(step)
    return x


@compiled()
def _live_states(m, first, live, count):
    """States of each part that have weight in a row: ``live`` (n, S), first ``count`` (n, K)."""
    least = min(LEAST_WEIGHT, 0.5 / m.shape[1])
    for r in range(len(m)):
        for k in range(len(first) - 1):
            n = 0
            for s in range(first[k], first[k + 1]):
                if m[r, s] > least:
                    live[r, first[k] + n] = s
                    n += 1
            count[r, k] = n


@compiled()
def state_quantiles(m, gates, mean, scale, df, own, first, p, out):
    """Quantile ``p[d]`` of every cell (r, d).

    ``m`` (n, S), ``gates`` (D, K), ``mean``, ``scale``, ``df`` and the states' own quantiles
    ``own`` (D, S); ``out`` (D, n).
    """
    (n_rows, S), (D, K) = m.shape, gates.shape
    least = min(LEAST_WEIGHT, 0.5 / S)
    live, count = np.empty((n_rows, S), np.int32), np.empty((n_rows, K), np.int32)
    _live_states(m, first, live, count)
    weight, here, parts = np.empty(S), np.empty((3, S)), np.empty(K, np.int64)
    for d in range(D):
        n_parts = 0
        for k in range(K):
            if gates[d, k] > least:
                parts[n_parts] = k
                n_parts += 1
        for r in range(n_rows):
            if n_parts == 1 and count[r, parts[0]] == 1:
                out[d, r] = own[d, live[r, first[parts[0]]]]
                continue
            n, low, high = np.int64(0), np.inf, -np.inf
            for i in range(n_parts):
                k = parts[i]
                for j in range(first[k], first[k] + count[r, k]):
                    s = live[r, j]
                    w = m[r, s] * gates[d, k]
                    if w > least:
                        weight[n] = w
                        here[0, n], here[1, n], here[2, n] = mean[d, s], scale[d, s], df[d, s]
                        low, high = min(low, own[d, s]), max(high, own[d, s])
                        n += 1
            out[d, r] = mixture_quantile(weight, here[0], here[1], here[2], n, p[d], low, high)


@compiled()
def part_quantiles(gates, mean, scale, own, p, out):
    """Quantile ``p[d]`` of every cell (r, d), a mixture of one normal distribution a part.

    ``gates`` (D, K), ``mean`` and ``scale`` (K, n, D), ``own`` (D,) the standard normal's own
    quantile; ``out`` (n, D).
    """
    K, rows, D = mean.shape
    weight, here = np.empty(K), np.empty((3, K))
    here[2], least = np.inf, min(LEAST_WEIGHT, 0.5 / K)
    for r in range(rows):
        for d in range(D):
            n, low, high = np.int64(0), np.inf, -np.inf
            for k in range(K):
                if gates[d, k] > least:
                    weight[n] = gates[d, k]
                    here[0, n], here[1, n] = mean[k, r, d], scale[k, r, d]
                    x = mean[k, r, d] + scale[k, r, d] * own[d]
                    low, high = min(low, x), max(high, x)
                    n += 1
            out[r, d] = mixture_quantile(weight, here[0], here[1], here[2], n, p[d], low, high)
