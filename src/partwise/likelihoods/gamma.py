"""What a step asks of the Gamma function for a million Dirichlet counts, in one compiled walk.

The argument is moved up by 8 with Gamma(x + 8) = x (x + 1) ... (x + 7) Gamma(x), and Stirling's
series is taken there; its first omitted terms are below 1e-12. With t = x (x + 7) the product is
t (t + 6) (t + 10) (t + 12). A few counts are computed by numpy with the same formulas, since a
process's first kernel takes half a second to be ready.
"""

from __future__ import annotations

import math
from inspect import unwrap

import numpy as np

from partwise._compiled import compiled
from partwise.contracts import Array

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

# Up to this many counts numpy takes some hundredth of a millisecond.
FEW_COUNTS = 1024


def expected_logs(counts: Array) -> Array:
    """E[log p] of every level under Dirichlet counts, levels on the first axis (V, ...)."""
    flat = np.ascontiguousarray(counts, dtype=float).reshape(len(counts), -1)
    if flat.size <= FEW_COUNTS:
        digamma = unwrap(_digamma)
        return (digamma(flat) - digamma(flat.sum(axis=0))).reshape(counts.shape)
    out = np.empty_like(flat)
    _expected_logs(flat, out)
    return out.reshape(counts.shape)


def log_beta(counts: Array) -> Array:
    """Log of the multivariate Beta function, levels on the first axis (V, ...)."""
    flat = np.ascontiguousarray(counts, dtype=float).reshape(len(counts), -1)
    if flat.size <= FEW_COUNTS:
        logs = stirling_gammaln(flat).sum(axis=0) - stirling_gammaln(flat.sum(axis=0))
        return logs.reshape(counts.shape[1:])
    out = np.empty(flat.shape[1])
    _log_beta(flat, out)
    return out.reshape(counts.shape[1:])


def stirling_gammaln(x: Array) -> Array:
    """Log of the Gamma function, in arithmetic and logarithms alone."""
    return unwrap(_gammaln)(x)


@compiled(fastmath={"contract", "reassoc"})
def _digamma(x):  # type: ignore[no-untyped-def]  # compiled
    t = x * (x + 7.0)
    a, b = t * (t + 6.0), (t + 10.0) * (t + 12.0)
    slope = (2.0 * t + 6.0) * b + a * (2.0 * t + 22.0)  # of the product, by t
    z = 1.0 / (x + 8.0)
    q = z * z
    series = q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132)))))
    return np.log(x + 8.0) - 0.5 * z - series - (2.0 * x + 7.0) * slope / (a * b)


@compiled(fastmath={"contract", "reassoc"})
def _gammaln(x):  # type: ignore[no-untyped-def]  # compiled
    t, up = x * (x + 7.0), x + 8.0
    z = 1.0 / up
    q = z * z
    series = z * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188)))))
    product = t * (t + 6.0) * (t + 10.0) * (t + 12.0)
    return (up - 0.5) * np.log(up) - up + _HALF_LOG_2PI + series - np.log(product)


@compiled()
def _expected_logs(counts, out):  # type: ignore[no-untyped-def]  # compiled
    V, n = counts.shape
    for i in range(n):
        total = 0.0
        for v in range(V):
            total += counts[v, i]
        away = _digamma(total)
        for v in range(V):
            out[v, i] = _digamma(counts[v, i]) - away


@compiled()
def _log_beta(counts, out):  # type: ignore[no-untyped-def]  # compiled
    V, n = counts.shape
    for i in range(n):
        total, logs = 0.0, 0.0
        for v in range(V):
            total += counts[v, i]
            logs += _gammaln(counts[v, i])
        out[i] = logs - _gammaln(total)
