"""Regressions of many columns on all others, their squares and their products, at once.

All have the same features, so one inverse of their moments serves every column
(`partwise.models.quadratic_features`). Columns are complete: missing values are imputed beforehand,
and count like others.
"""

from __future__ import annotations

from dataclasses import dataclass

from partwise.contracts import Array
from partwise.models.quadratic_features import Moments


@dataclass(frozen=True, eq=False)
class QuadraticRegression:
    """Expected values of T columns given all others.

    Parameters
    ----------
    coefficients : array of shape (P, T)
        Of the features.
    offset : array of shape (T,)
        Standardized expectation where these are 0.
    center, scale : arrays of shape (T,)
        The columns are standardized by these.
    """

    coefficients: Array
    offset: Array
    center: Array
    scale: Array

    @classmethod
    def fitted_to(cls, moments: Moments, targets: Array) -> QuadraticRegression:
        """Learned from the columns ``targets`` (T,) among those of the moments."""
        features = moments.features
        g = moments.weighted.T @ moments.columns[:, targets]
        each = [slice(t, t + 1) for t in range(len(targets))]
        coefficients = moments.without(moments.owner[targets]).solve(g, each)
        offset = -moments.mean @ coefficients
        return cls(coefficients, offset, features.center[targets], features.scale[targets])

    def predict(self, features: Array) -> Array:
        """Expected values (n, T), from features (n, P)."""
        return self.center + self.scale * (features @ self.coefficients + self.offset)
