"""Columns of several kinds as latent Gaussian numbers (a Gaussian copula).

A number is a monotone function of its latent number, an ordered level an interval of it, and a
category the largest of several latent numbers, one for each level. `CopulaColumns` in
`partwise.data.latent_columns` has what is learned of the columns; here is the mathematics of an
entry. As the ordinal likelihood, this serves models of Gaussian numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from partwise._compiled import compiled
from partwise.contracts import Array
from partwise.likelihoods.base import Law
from partwise.likelihoods.gaussian import Gaussian
from partwise.likelihoods.ordinal import DENSITY, ROOT_HALF

# Nodes of the Gauss-Hermite rule about the mode. With 12 the moments of numbers with the same
# noise, as a model has them, are right to 1e-5 (tests/likelihoods/test_copula.py).
NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(12)
LOG_WEIGHTS = np.log(_WEIGHTS) + NODES**2

# Newton's method for the mode: most steps, and a step, in deviations, after which it stops. The
# mode is only the center of the rule.
MOST_STEPS, NEAR = 20, 0.02

# Below this, the tail of the Gaussian follows from its expansion.
FAR = -25.0

# Nodes, and most iterations, for the head starts of levels; and the change that counts as none.
START_NODES, MOST_ROUNDS, SETTLED = 64, 200, 1e-10


@dataclass(frozen=True)
class Copula(Law):
    """Entries of several kinds, each with one or several latent numbers."""

    name: ClassVar[str] = "copula"
    has_levels: ClassVar[bool] = True
    latent: ClassVar[bool] = True
    linear: ClassVar[bool] = False

    @property
    def family(self) -> Gaussian:
        """That of the latent numbers."""
        return Gaussian()


def head_starts(shares: Array) -> Array:
    """Means, (V,), at which each of V independent standard Gaussians is the largest that often.

    Their average is 0. ``shares`` are positive and add to 1.
    """
    wanted = np.log(shares)
    nodes, weights = np.polynomial.hermite_e.hermegauss(START_NODES)
    weights = weights / weights.sum()
    means = np.zeros(len(shares))
    for _ in range(MOST_ROUNDS):
        found = np.log(_largest(means, np.ones(len(shares)), nodes, weights))
        change = 0.7 * (wanted - found)
        means += change - change.mean()
        if np.abs(change - change.mean()).max() < SETTLED:
            break
    return means


def _largest(means: Array, deviations: Array, nodes: Array, weights: Array) -> Array:
    """Probability that each of V Gaussians (..., V) is the largest."""
    y = means[..., None] + deviations[..., None] * nodes  # (..., V, nodes)
    away = (y[..., None, :] - means[..., None, :, None]) / deviations[..., None, :, None]
    log_below = special.log_ndtr(away)  # (..., V, V, nodes)
    own = np.eye(means.shape[-1], dtype=bool)[:, :, None]
    total = np.where(own, 0.0, log_below).sum(axis=-2)
    out = np.exp(total) @ weights
    return np.maximum(out, 1e-300)


def largest_shares(means: Array, variances: Array) -> Array:
    """Probability of every level (n, V), that its number, of these moments (n, V), is the largest.

    Numbers are taken to be independent.
    """
    out = np.empty(means.shape)
    _shares(np.ascontiguousarray(means, dtype=float), np.sqrt(variances), out)
    return out / out.sum(axis=1, keepdims=True)


@compiled()
def _shares(means, deviations, out):  # type: ignore[no-untyped-def]  # compiled
    """Log shares by `choice_moments`, one level after the other."""
    V = means.shape[1]
    first, second = np.empty(V), np.empty(V)
    for r in range(len(means)):
        root = 1.0 / deviations[r]
        for v in range(V):
            out[r, v] = math.exp(choice_moments(v, means[r], root, first, second))


@compiled()
def _tail(a):  # type: ignore[no-untyped-def]  # compiled
    """Log of the Gaussian's share below a, and its density over that share."""
    if a < FAR:
        return -0.5 * a * a - math.log(-a / DENSITY), -a - 1.0 / a
    share = 0.5 * math.erfc(-a * ROOT_HALF)
    return math.log(share), math.exp(-0.5 * a * a) * DENSITY / share


@compiled()
def choice_moments(level, mean, root, first, second):  # type: ignore[no-untyped-def]  # compiled
    """Numbers N(mean, 1 / root^2), (V,), of which that of ``level`` is the largest.

    Returns the log probability that it is; ``first`` and ``second`` become the mean and the mean
    square of each number less its mean, times its root. Given the largest number y the others are
    independent and below y, so all is an integral over y, whose log density is concave: the rule of
    Gauss and Hermite about its mode.
    """
    V = len(mean)
    m, r = mean[level], root[level]
    y, bend = m, r * r
    for _ in range(MOST_STEPS):
        pull, bend = -r * r * (y - m), r * r
        for u in range(V):
            if u != level:
                a = (y - mean[u]) * root[u]
                ratio = _tail(a)[1]
                pull += root[u] * ratio
                bend += root[u] * root[u] * ratio * (a + ratio)
        y += pull / bend
        if abs(pull) < NEAR * math.sqrt(bend):
            break
    peak = -0.5 * (r * (y - m)) ** 2
    for u in range(V):
        if u != level:
            peak += _tail((y - mean[u]) * root[u])[0]
    width, total = math.sqrt(2.0 / bend), 0.0
    first[:] = 0.0
    second[:] = 0.0
    ratios, apart = np.empty(V), np.empty(V)
    for i in range(len(NODES)):
        at = y + width * NODES[i]
        own = r * (at - m)
        log_weight = LOG_WEIGHTS[i] - 0.5 * own * own - peak
        for u in range(V):
            if u != level:
                apart[u] = (at - mean[u]) * root[u]
                log_share, ratios[u] = _tail(apart[u])
                log_weight += log_share
        weight = math.exp(log_weight)
        total += weight
        for u in range(V):
            if u == level:
                first[u] += weight * own
                second[u] += weight * own * own
            else:
                first[u] -= weight * ratios[u]
                second[u] += weight * (1.0 - apart[u] * ratios[u])
    for u in range(V):
        first[u] /= total
        second[u] /= total
    return peak + math.log(total * width * r * DENSITY)
