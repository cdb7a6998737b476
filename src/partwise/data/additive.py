"""What models whose parts add up ask of a dense block: linear maps of pairs of states.

The mean of an entry is a sum over parts, so its square couples every two parts. On complete rows
the coupling is one (S, S) matrix for all of them; with missing values every row, or every column,
has its own, and it is cheaper to go through the entries where it is needed once per row. Sums are
in double precision for all data: squares are subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from partwise.contracts import Array, Span
from partwise.data.patterns import Patterns

# Numbers held at a time while products of pairs of states are summed.
MOST_PAIRS = 1 << 20


class AdditiveRows:
    """Linear maps of some rows.

    Parameters
    ----------
    x : ndarray of shape (D, n)
        Values, 0 where missing.
    shown : ndarray of shape (D, n) or None
        1 where observed, else 0; None if nothing is missing.
    """

    def __init__(self, x: Array, shown: Array | None) -> None:
        self.x, self.shown = x, shown

    def pieces(self, n_states: int) -> Iterator[tuple[Span, AdditiveRows]]:
        """Views of so many rows at a time that their `grams` need little memory."""
        n = self.x.shape[1]
        step = n if self.shown is None else max(MOST_PAIRS // n_states**2, 1)
        for lo in range(0, n, max(step, 1)):
            rows = slice(lo, lo + step)
            yield rows, self.rows(rows)

    def rows(self, rows: Span) -> AdditiveRows:
        """The view of some of the rows."""
        return AdditiveRows(self.x[:, rows], None if self.shown is None else self.shown[:, rows])

    @cached_property
    def patterns(self) -> Patterns:
        """Which of the rows miss the same entries."""
        return Patterns.of(self.shown, self.x.shape[1])

    def residual(self, mean: Array, scale: Array) -> Array:
        """Rows less ``mean``, over ``scale``, both (D,), 0 where missing; (D, n), in double."""
        away = (self.x - np.asarray(mean, float)[:, None]) / scale[:, None]
        return away if self.shown is None else away * self.shown

    def project(self, linear: Array, constant: Array) -> Array:
        """Sum over observed columns of x linear + constant, both (S, D); (S, n)."""
        if self.shown is None:
            return linear @ self.x + constant.sum(axis=1)[:, None]
        return linear @ self.x + constant @ self.shown

    def squares(self, constant: Array, precision: Array) -> Array:
        """Sum over observed columns of constant + x^2 precision, both (D,); (n,)."""
        out = precision @ np.square(self.x, dtype=float)
        return out + (constant.sum() if self.shown is None else constant @ self.shown)

    def couple(self, mu: Array, precision: Array, m: Array) -> Coupling:
        """How the other parts' means, averaged by m (S, n), weigh on a part's states."""
        if self.shown is None:
            return Coupling((mu * precision) @ mu.T, m)
        return MaskedCoupling(mu, precision, m, self.shown)

    def grams(self, mu: Array, precision: Array) -> Array:
        """Sum over observed columns of mu[s] precision mu[t]; (n, S, S), or (1, S, S) for all."""
        if self.shown is None:
            return ((mu * precision) @ mu.T)[None]
        i, j = np.triu_indices(len(mu))
        return _unfold(self.shown.T @ (mu[i] * precision * mu[j]).T, len(mu))

    # Rows that miss the same entries share computations on columns: U patterns of missing values.

    def second_moments(self, mean: Array, cov: Array, precision: Array, wide: Array) -> Array:
        """Sum over observed columns of precision mean mean' + wide cov, for every pattern.

        ``mean`` (D, p), ``cov`` (D, p, p), or (1, p, p) for all columns; (U, p, p).
        """
        if self.shown is None:
            out = (mean.T * precision) @ mean
            spread = wide.sum() * cov[0] if len(cov) == 1 else np.tensordot(wide, cov, 1)
            return (out + spread)[None]
        i, j = np.triu_indices(mean.shape[1])
        pairs = precision[:, None] * mean[:, i] * mean[:, j] + wide[:, None] * cov[:, i, j]
        return _unfold(self._masks.T @ pairs, mean.shape[1])

    def collect_moments(self, m: Array, weight: Array, cov: Array) -> Array:
        """Adjoint of `second_moments`: sums over rows of weight (m m' + cov) of m (p, n).

        ``cov`` is (U, p, p); the answer (D, p, p), or (1, p, p) if all columns are complete.
        """
        if self.shown is None:
            return ((m * weight) @ m.T + weight.sum() * cov[0])[None]
        i, j = np.triu_indices(len(m))
        pairs = m[i] * m[j] + self.patterns.spread(cov[:, i, j].T)
        return _unfold(self._masks @ self.patterns.gather(pairs * weight).T, len(m))

    @property
    def _masks(self) -> Array:
        """What each pattern shows, (D, U)."""
        assert self.shown is not None
        return self.shown if self.patterns.masks is None else self.patterns.masks

    def collect_squares(self, weight: Array) -> tuple[Array, Array]:
        """Sums over observed rows of weight and of weight x^2; each (D,)."""
        count = np.full(len(self.x), weight.sum()) if self.shown is None else self.shown @ weight
        return count, np.square(self.x, dtype=float) @ weight

    def collect(self, m: Array, weight: Array) -> tuple[Array, Array]:
        """Sums over rows of weight m x, (S, D), and of weight m[s] m[t].

        The latter is (D, S, S), each column's own observed rows, or (1, S, S) if these are all.
        """
        wm = m * weight
        linear = wm @ self.x.T
        if self.shown is None:
            return linear, (wm @ m.T)[None]
        i, j = np.triu_indices(len(m))
        pairs = np.zeros((len(self.x), len(i)))
        step = max(MOST_PAIRS // len(i), 1)
        for lo in range(0, m.shape[1], step):
            rows = slice(lo, lo + step)
            pairs += self.shown[:, rows] @ (wm[i, rows] * m[j, rows]).T
        return linear, _unfold(pairs, len(m))


def _unfold(pairs: Array, S: int) -> Array:
    """Upper triangles (..., S (S + 1) / 2) as symmetric matrices (..., S, S)."""
    i, j = np.triu_indices(S)
    out = np.empty((*pairs.shape[:-1], S, S))
    out[..., i, j] = pairs
    out[..., j, i] = pairs
    return out


class Coupling:
    """Complete rows: one matrix holds how all pairs of states overlap.

    ``m`` (S, n) is shared with the caller, who changes it part by part.
    """

    def __init__(self, gram: Array, m: Array) -> None:
        self.gram, self.m = gram, m

    def field(self, part: Span) -> Array:
        """Sum over the other parts' states t of gram[s, t] m[t], for s in ``part``; (J, n)."""
        return self.gram[part] @ self.m - self.gram[part, part] @ self.m[part]

    def changed(self, part: Span) -> None:
        """m has changed in ``part``."""


class MaskedCoupling(Coupling):
    """Rows with missing values: the expected row is compared where entries are observed."""

    def __init__(self, mu: Array, precision: Array, m: Array, shown: Array) -> None:
        self.mu, self.scaled, self.m, self.shown = mu, mu * precision, m, shown
        self._row = mu.T @ m  # expected row, (D, n), without the part last asked for

    def field(self, part: Span) -> Array:
        """As for complete rows, over observed columns; `changed` must follow."""
        self._row -= self.mu[part].T @ self.m[part]
        return self.scaled[part] @ (self._row * self.shown)

    def changed(self, part: Span) -> None:
        """m has changed in ``part``, or has been looked at."""
        self._row += self.mu[part].T @ self.m[part]
