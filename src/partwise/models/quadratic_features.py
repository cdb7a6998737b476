"""Columns, their squares and their products as features of regressions, with shared moments.

Regressions of several columns on all others share their features, but for those that a column takes
part in. So one inverse of the moments of all features serves every column: with H that inverse, A
the features without those of a column, E the latter and g a vector over A,

    ((H^-1)_AA)^-1 g = H_AA g - H_AE H_EE^-1 H_EA g.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partwise.contracts import Array, Span

# Most products of two columns among the features, and how far from the mean (in deviations) a
# column still counts in them.
MOST_PRODUCTS = 120
FARTHEST = 4.0

# Ridge penalties of columns and of their products, in rows.
OF_COLUMNS, OF_PRODUCTS = 0.1, 20.0


@dataclass(frozen=True, eq=False)
class QuadraticFeatures:
    """P features of W columns: the standardized columns, and M products of these.

    Parameters
    ----------
    center, scale : arrays of shape (W,)
        Columns are standardized by these.
    pairs : array of shape (2, M), int
        Columns of each product; equal ones are a square.
    """

    center: Array
    scale: Array
    pairs: Array

    @classmethod
    def of(cls, X: Array, weight: Array, owner: Array) -> QuadraticFeatures:
        """Those of rows (n, W) with weights (n,).

        ``owner`` (W,) is the column of the table that each belongs to. Columns of the same owner,
        the levels of a category, are not multiplied; only single ones are squared.
        """
        share = weight / weight.sum()
        # Powers of two, by which division is exact: squares of large numbers would overflow.
        size = np.ldexp(1.0, np.frexp(np.abs(X).max(axis=0))[1] - 1)
        X = X / size
        center = share @ X
        scale = np.sqrt(share @ (X - center) ** 2)
        scale[scale <= 1e-12 * np.abs(center)] = 1.0
        return cls(center * size, scale * size, _pairs((X - center) / scale, share, owner))

    def __call__(self, X: Array) -> Array:
        """Features of rows (n, W), (n, P)."""
        Z = (X - self.center) / self.scale
        near = np.clip(Z, -FARTHEST, FARTHEST)
        return np.hstack([Z, 0.5 * near[:, self.pairs[0]] * near[:, self.pairs[1]]])


def _pairs(Z: Array, share: Array, owner: Array) -> Array:
    """Products to take, (2, M): those of columns that correlate most with all others."""
    i, j = np.triu_indices(Z.shape[1])
    alone = np.bincount(owner, minlength=owner.max() + 1)[owner] == 1
    kept = np.where(i == j, alone[i], owner[i] != owner[j])
    i, j = i[kept], j[kept]
    if len(i) > MOST_PRODUCTS:
        related = (((Z * share[:, None]).T @ Z) ** 2).sum(axis=0)
        best = np.argsort(-(related[i] + related[j]), kind="stable")[:MOST_PRODUCTS]
        i, j = i[np.sort(best)], j[np.sort(best)]
    return np.stack([i, j])


class Moments:
    """Features of rows, and the inverse of their penalized moments.

    Parameters
    ----------
    features : QuadraticFeatures
    X : array of shape (n, W)
    weight : array of shape (n,)
    owner : array of shape (W,), int
        Column of the table that each column belongs to.

    Attributes
    ----------
    mean : array of shape (P,)
        Of the features.
    centered, weighted : arrays of shape (n, P)
        Features without their means, and times the weights.
    columns : array of shape (n, W)
        The standardized columns.
    penalty : array of shape (P,)
    inverse : array of shape (P, P)
        Of the sums of products of the features with the penalty.
    """

    def __init__(self, features: QuadraticFeatures, X: Array, weight: Array, owner: Array) -> None:
        self.features, self.weight, self.owner = features, weight, owner
        found, W = features(X), X.shape[1]
        self.columns = found[:, :W]
        self.mean = weight @ found / weight.sum()
        self.centered = found - self.mean
        self.weighted = self.centered * weight[:, None]
        n_products = features.pairs.shape[1]
        self.penalty = np.repeat([OF_COLUMNS, OF_PRODUCTS], [W, n_products])
        self.inverse = np.linalg.inv(self.weighted.T @ self.centered + np.diag(self.penalty))
        self._first, self._second = np.hstack([np.arange(W)[None].repeat(2, 0), features.pairs])

    def of_owner(self, d: int) -> Array:
        """Which features (P,) column d of the table takes part in."""
        first, second = self.owner[self._first], self.owner[self._second]
        return (first == d) | (second == d)

    def without(self, owners: Iterable[int]) -> Inverses:
        """The inverses without the features of each of some columns of the table."""
        return Inverses(self.inverse, [self.of_owner(int(d)) for d in owners])


class Inverses:
    """Inverses of moments, each without some features, ``out`` (P,)."""

    def __init__(self, inverse: Array, out: Sequence[Array]) -> None:
        self._inverse, self._out = inverse, out
        self._corrections = [
            np.linalg.solve(inverse[np.ix_(own, own)], inverse[own]).T for own in out
        ]

    def solve(self, g: Array, columns: Sequence[Span]) -> Array:
        """The inverses times right sides g (P, C), each times its own columns of these."""
        g = g.copy()
        for out, own in zip(self._out, columns, strict=True):
            g[out, own] = 0.0
        found = np.asarray(self._inverse @ g)
        for out, correction, own in zip(self._out, self._corrections, columns, strict=True):
            found[:, own] -= correction @ found[out, own]
            found[out, own] = 0.0
        return found
