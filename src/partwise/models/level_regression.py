"""Logistic regressions of many columns with levels on all other columns at once.

The log-likelihood of the levels y of a column with V levels, given features x without those that
the column takes part in, is maximized with a ridge penalty of a quarter of that of
`partwise.models.quadratic_regression` (moments and penalty G):

    sum_n w_n log softmax(b + B^T x_n)[y_n] - tr(B^T diag(penalty) B) / 4.

Its second derivatives are at most those of 1/2 (I - 1 1^T / V) times G (Boehning 1992), which do
not change between steps and are the same for all columns and for rows whose level is missing: so
the inverse of G that serves the regressions of numbers leads here, too. Steps are along conjugate
directions of that metric, each as long as the second derivative along it says; a few suffice.

Logits of a column add to 0 over its levels, so that only V - 1 are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from partwise.contracts import Array
from partwise.models.quadratic_features import Moments

# Longest step, in units of that which the bound of the second derivatives allows.
LONGEST = 20.0

TINY = 1e-300


@dataclass(frozen=True, eq=False)
class LevelRegression:
    """Probabilities of the levels of L columns given all others.

    Parameters
    ----------
    n_levels : array of shape (L,), int
    coefficients : array of shape (P, C)
        Of the features, for the C logits of all columns: of all levels but the last of each.
    offset : array of shape (C,)
        Logits where these are 0.
    """

    n_levels: Array
    coefficients: Array
    offset: Array

    @classmethod
    def fitted_to(
        cls, moments: Moments, codes: Array, n_levels: Array, owners: Sequence[int], n_steps: int
    ) -> LevelRegression:
        """Learned from levels (n, L), numbered from 0, -1 where missing, in so many steps.

        ``owners`` (L,) are the columns of the table that these are, whose features do not count.
        """
        logits, weight = _Logits(n_levels), moments.weight
        known, true = logits.each(codes)
        total = known @ weight + 0.5 * n_levels[logits.column]
        offset = logits.of_shares((true @ weight + 0.5) / total)
        coefficients = np.zeros((len(moments.mean), len(offset)))
        return cls(n_levels, coefficients, offset).refitted(moments, codes, owners, n_steps)

    def refitted(
        self, moments: Moments, codes: Array, owners: Sequence[int], n_steps: int
    ) -> LevelRegression:
        """The regression after more steps, with other rows."""
        logits, weight = _Logits(self.n_levels), moments.weight
        known, true = logits.each(codes)
        inverses, total = moments.without(owners), weight.sum()
        penalty = 0.5 * moments.penalty
        # Logits stand on the first axis, so that sums over levels run along rows of memory.
        B, b = self.coefficients.T, self.offset + moments.mean @ self.coefficients
        features = np.ascontiguousarray(moments.centered.T)
        z = B @ features + b[:, None]
        along, along_b = np.zeros_like(B), np.zeros_like(b)
        kept = np.zeros(len(self.n_levels))  # share of the last direction
        last: tuple[Array, Array, Array] | None = None
        for _ in range(n_steps):
            p = logits.probabilities(z)
            away = np.where(known, true - p[0], 0.0)
            slope, slope_b = away @ moments.weighted - penalty * B, away @ weight
            ahead, ahead_b = 2.0 * inverses.solve(slope.T, logits.spans).T, 2.0 * slope_b / total
            gain = logits.dot(slope, ahead) + logits.dot(slope_b, ahead_b)
            if last is not None:  # Polak and Ribiere
                turned = gain - logits.dot(slope, last[0]) - logits.dot(slope_b, last[1])
                kept = np.maximum(turned, 0.0) / np.maximum(last[2], TINY)
            last = ahead, ahead_b, gain
            along = ahead + kept[logits.column, None] * along
            along_b = ahead_b + kept[logits.column] * along_b
            dz = along @ features + along_b[:, None]
            bent = logits.dot(penalty * along, along)
            bent += np.where(codes.T >= 0, logits.variance(p, dz), 0.0) @ weight
            rise = logits.dot(slope, along) + logits.dot(slope_b, along_b)
            step = np.clip(rise / np.maximum(bent, TINY), 0.0, LONGEST)[logits.column]
            B, b, z = B + step[:, None] * along, b + step * along_b, z + step[:, None] * dz
        return replace(self, coefficients=B.T.copy(), offset=b - B @ moments.mean)

    def predict(self, features: Array) -> list[Array]:
        """Probabilities of the levels of each column (n, V), from features (n, P)."""
        logits = _Logits(self.n_levels)
        z = self.coefficients.T @ features.T + self.offset[:, None]
        p, rest = logits.probabilities(z)
        return [np.vstack([p[own], rest[i]]).T for i, own in enumerate(logits.spans)]


class _Logits:
    """The C logits of L columns: V - 1 of each, from which the last one follows."""

    def __init__(self, n_levels: Array) -> None:
        stop = np.cumsum(n_levels - 1)
        self.first = stop - (n_levels - 1)
        self.spans = [slice(a, b) for a, b in zip(self.first, stop, strict=True)]
        self.column = np.repeat(np.arange(len(n_levels)), n_levels - 1)  # (C,)
        self.level = np.arange(len(self.column)) - self.first[self.column]  # (C,)
        self.n_levels = n_levels

    def each(self, codes: Array) -> tuple[Array, Array]:
        """Whether the level of a row is known, and whether it is that of the logit; (C, n)."""
        own = codes.T[self.column]
        return own >= 0, own == self.level[:, None]

    def sums(self, x: Array) -> Array:
        """Sums (L, ...) over the kept levels of each column."""
        return np.asarray(np.add.reduceat(x, self.first, axis=0))

    def of_shares(self, share: Array) -> Array:
        """Logits (C,) of shares (C,) of all levels but the last of each column."""
        found = np.log(share)
        mean = (self.sums(found) + np.log(1.0 - self.sums(share))) / self.n_levels
        return np.asarray(found - mean[self.column])

    def probabilities(self, z: Array) -> tuple[Array, Array]:
        """Of the kept levels (C, n), and of the last of each column (L, n)."""
        rest = -self.sums(z)
        top = np.maximum(np.maximum.reduceat(z, self.first, axis=0), rest)
        p, rest = np.exp(z - top[self.column]), np.exp(rest - top)
        total = self.sums(p) + rest
        return p / total[self.column], rest / total

    def dot(self, a: Array, c: Array) -> Array:
        """Sums (L,) of products over features, if given, and all V levels of each column."""
        found = self.sums(a * c) + self.sums(a) * self.sums(c)
        return np.asarray(found.sum(axis=1) if found.ndim > 1 else found)

    def variance(self, p: tuple[Array, Array], z: Array) -> Array:
        """Variance (L, n) of logits z (C, n) under probabilities."""
        rest = -self.sums(z)
        mean = self.sums(p[0] * z) + p[1] * rest
        return np.asarray(self.sums(p[0] * z**2) + p[1] * rest**2 - mean**2)
