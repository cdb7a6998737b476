"""Regressions of many columns on all others, their squares and their products, at once.

All have the same features, so one inverse of their moments serves every column: with H that
inverse, A the features without those that a column takes part in, E the others and g the products
of all features with the column, the coefficients of A are

    H_AA g_A - H_AE H_EE^-1 H_EA g_A.

Columns are complete: missing values are imputed beforehand, and count like others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.contracts import Array

# Most products of two columns among the features, and how far from the mean (in deviations) a
# column still counts in them.
MOST_PRODUCTS = 120
FARTHEST = 4.0

# Ridge penalties of columns and of their products, in rows.
OF_COLUMNS, OF_PRODUCTS = 0.1, 20.0


@dataclass(frozen=True, eq=False)
class QuadraticRegression:
    """Expected values of T of W columns given all others.

    Parameters
    ----------
    center, scale : arrays of shape (W,)
        Columns are standardized by these.
    pairs : array of shape (2, M), int
        Columns of each product; equal ones are a square.
    coefficients : array of shape (W + M, T)
        Of columns and products.
    offset : array of shape (T,)
        Standardized expectation where these are 0.
    targets : array of shape (T,), int
        The columns that are predicted.
    """

    center: Array
    scale: Array
    pairs: Array
    coefficients: Array
    offset: Array
    targets: Array

    @classmethod
    def fitted_to(
        cls, X: Array, weight: Array, owner: Array, targets: Array
    ) -> QuadraticRegression:
        """Learned from rows (n, W) with weights (n,).

        ``owner`` (W,) is the column of the table that each belongs to. Columns of the same owner,
        the levels of a category, do not predict each other; only single ones are squared, too.
        """
        share = weight / weight.sum()
        # Powers of two, by which division is exact: squares of large numbers would overflow.
        size = np.ldexp(1.0, np.frexp(np.abs(X).max(axis=0))[1] - 1)
        X = X / size
        center = share @ X
        scale = np.sqrt(share @ (X - center) ** 2)
        scale[scale <= 1e-12 * np.abs(center)] = 1.0
        Z = (X - center) / scale
        center, scale = center * size, scale * size
        plain = cls(center, scale, _pairs(Z, share, owner), np.empty((0, 0)), np.empty(0), targets)
        F = plain._features(Z)
        mean = share @ F
        F -= mean
        W, M = X.shape[1], plain.pairs.shape[1]
        penalty = np.concatenate([np.full(W, OF_COLUMNS), np.full(M, OF_PRODUCTS)])
        FW = F * weight[:, None]
        H = np.linalg.inv(FW.T @ F + np.diag(penalty))
        g = FW.T @ Z[:, targets]
        first, second = np.hstack([np.arange(W)[None].repeat(2, axis=0), plain.pairs])
        coefficients = np.zeros((W + M, len(targets)))
        for t, d in enumerate(targets.tolist()):
            own = owner[d]
            out = (owner[first] == own) | (owner[second] == own)
            kept = np.where(out, 0.0, g[:, t])
            of_rest = H @ kept
            of_rest -= H[:, out] @ np.linalg.solve(H[np.ix_(out, out)], of_rest[out])
            coefficients[:, t] = np.where(out, 0.0, of_rest)
        return cls(center, scale, plain.pairs, coefficients, -mean @ coefficients, targets)

    def predict(self, X: Array) -> Array:
        """Expected values of the targets (n, T) given all other columns (n, W)."""
        F = self._features((X - self.center) / self.scale)
        told = F @ self.coefficients + self.offset
        return self.center[self.targets] + self.scale[self.targets] * told

    def _features(self, Z: Array) -> Array:
        """Standardized columns and products, (n, W + M)."""
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
