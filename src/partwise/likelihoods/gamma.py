"""What a step asks of the Gamma function for a million Dirichlet counts, in one compiled walk.

The argument is moved up by 8 with Gamma(x + 8) = x (x + 1) ... (x + 7) Gamma(x), and Stirling's
series is taken there; its first omitted terms are below 1e-12. With t = x (x + 7) the product is
t (t + 6) (t + 10) (t + 12); its logarithm is taken for several levels at once. A few counts are
computed by numpy with the same formulas, since a process's first kernel takes half a second to be
ready.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compiled import compiled
from partwise.contracts import Array

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

# Up to this many counts numpy takes some hundredth of a millisecond.
FEW_COUNTS = 1024

# Counts of a level that are worked on together, while a core's cache holds what belongs to them.
CHUNK = 1 << 14

# Levels whose products are multiplied before a logarithm is taken: 6 of counts down to 1e-45, the
# least that single precision holds, are above the least number.
GROUP = 6

# Counts whose products are neither zero nor infinite. Those of data are, and files are checked.
LEAST_COUNT, MOST_COUNT = 1e-75, 1e35


def expected_logs(counts: Array) -> Array:
    """E[log p] of every level under Dirichlet counts, levels on the first axis (V, ...)."""
    return logs_and_beta(counts)[0]


def log_beta(counts: Array) -> Array:
    """Log of the multivariate Beta function, levels on the first axis (V, ...)."""
    return logs_and_beta(counts)[1]


def logs_and_beta(counts: Array) -> tuple[Array, Array]:
    """E[log p] (V, ...) and the log of the multivariate Beta function (...), in one walk."""
    if counts.ndim == 3 and counts.strides[1] < counts.strides[2]:  # walked as it lies in memory
        logs, beta = logs_and_beta(counts.transpose(0, 2, 1))
        return logs.transpose(0, 2, 1), beta.T
    flat = np.ascontiguousarray(counts, dtype=float).reshape(len(counts), -1)
    if flat.size <= FEW_COUNTS:
        total = flat.sum(axis=0)
        logs = _digamma(flat) - _digamma(total)
        beta = stirling_gammaln(flat).sum(axis=0) - stirling_gammaln(total)
    else:
        logs, beta = np.empty_like(flat), np.empty(flat.shape[1])
        for lo in range(0, flat.shape[1], CHUNK):
            at = slice(lo, lo + CHUNK)
            total = flat[:, at].sum(axis=0)
            away = np.empty_like(total)
            beta[at] = -_both(total[None], away[None])
            beta[at] += _both(flat[:, at], logs[:, at])
            logs[:, at] -= away
    return logs.reshape(counts.shape), beta.reshape(counts.shape[1:])


def _both(counts: Array, digamma: Array) -> Array:
    """Digamma of counts (V, n), in place, and the sum of their log Gamma over levels, (n,)."""
    V, n = counts.shape
    log, out, product = np.empty(n), np.zeros(n), np.ones(n)
    for v in range(V):
        # numpy takes the logarithms: four times as fast as a compiled loop.
        np.log(np.add(counts[v], 8.0, out=log), out=log)
        _add_level(counts[v], log, digamma[v], out, product)
        if (v + 1) % GROUP == 0 or v + 1 == V:
            out -= np.log(product)
            product[:] = 1.0
    return out


def stirling_gammaln(x: Array) -> Array:
    """Log of the Gamma function, in arithmetic and logarithms alone."""
    t, up = x * (x + 7.0), x + 8.0
    z = 1.0 / up
    q = z * z
    series = z * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188)))))
    product = t * (t + 6.0) * (t + 10.0) * (t + 12.0)
    return (up - 0.5) * np.log(up) - up + _HALF_LOG_2PI + series - np.log(product)


def _digamma(x: Array) -> Array:
    t = x * (x + 7.0)
    a, b = t * (t + 6.0), (t + 10.0) * (t + 12.0)
    slope = (2.0 * t + 6.0) * b + a * (2.0 * t + 22.0)  # of the product, by t
    z = 1.0 / (x + 8.0)
    q = z * z
    series = q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132)))))
    return np.asarray(np.log(x + 8.0) - 0.5 * z - series - (2.0 * x + 7.0) * slope / (a * b))


@compiled(fastmath={"contract", "reassoc"})
def _add_level(counts, log, digamma, gammaln, product):  # type: ignore[no-untyped-def]  # compiled
    """Digamma of counts (n,), and what they add to log Gamma; ``log`` is that of counts + 8.

    The product is left to be divided out, relative to (x + 8)^8. ``np.divide`` does not look for
    zeros, so that several counts are divided at once.
    """
    for i in range(len(counts)):
        x = counts[i]
        up = x + 8.0
        z = np.divide(1.0, up)
        q = z * z
        t = x * (x + 7.0)
        a, b = t * (t + 6.0), (t + 10.0) * (t + 12.0)
        slope = (2.0 * t + 6.0) * b + a * (2.0 * t + 22.0)
        away = q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132)))))
        series = z * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188)))))
        digamma[i] = log[i] - 0.5 * z - away - np.divide((2.0 * x + 7.0) * slope, a * b)
        gammaln[i] += (up - 8.5) * log[i] - up + _HALF_LOG_2PI + series
        product[i] *= (a * b) * (q * q) * (q * q)
