"""Columns of several kinds as latent Gaussian numbers, learned before any model.

=========  ======  =================================================================================
column     width   its latent numbers
=========  ======  =================================================================================
number     1       z, of which the column is a monotone function (`partwise.data.marginals`)
levels     1       z, of which an ordered or yes-or-no level is an interval; the intervals have the
                   levels' frequencies under a standard Gaussian
category   V       one for each level; the level whose z plus head start is largest is observed.
                   Head starts give independent standard Gaussians the levels' frequencies
=========  ======  =================================================================================

``index`` therefore names a category's column V times. All columns have offset 0 and variance 1 in
these units, as far as their marginal distributions go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array, Span
from partwise.data.columns import ColumnGroup
from partwise.data.marginals import Marginal, learn_marginals
from partwise.data.rows import Rows
from partwise.likelihoods import Prior
from partwise.likelihoods.copula import Copula, head_starts
from partwise.likelihoods.ordinal import FARTHEST, Ordinal, cuts_of
from partwise.likelihoods.predictive import PlainValue

# What picks entries out of an array.
Place: TypeAlias = tuple[Span, int] | tuple[Array, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class CopulaColumns(ColumnGroup):
    """Latent numbers of columns, D of them.

    Attributes
    ----------
    widths : ndarray of shape (D,)
        0 of a number, 1 of an interval, V of the first of V numbers of a category, -1 of others.
    n_levels : ndarray of shape (D,)
        Levels of the column, 0 of a number.
    edges : ndarray of shape (D, L + 1)
        Ends of intervals, the last one repeated. Of a category's level: its head start, and its
        share of the observed values.
    logs : ndarray of shape (D,)
        Whether X holds logarithms of the user's values.
    knots : ndarray of shape (3, M)
        z, x and slope at the knots of all marginals, one after the other.
    n_knots : ndarray of shape (D,)
        Number of knots, 0 of levels.
    tails : ndarray of shape (2, D)
        Slopes beyond the knots.
    units : ndarray of shape (2, D)
        Origin and unit of the marginals.
    """

    widths: Array
    n_levels: Array
    edges: Array
    logs: Array
    knots: Array
    n_knots: Array
    tails: Array
    units: Array

    @classmethod
    def restore(cls, state: dict[str, PlainValue], prior: Prior | None) -> CopulaColumns:
        """What `state` describes."""
        own = {f.name: state[f.name] for f in fields(cls) if f.name in state}
        return cls(likelihood=Copula(), **own)  # type: ignore[arg-type]  # a file has been checked

    @property
    def ends(self) -> Array:
        """As the model needs them, (D, L + 1)."""
        return self.edges

    @property
    def latent_widths(self) -> Array:
        """As the model needs them, (D,)."""
        return self.widths

    @cached_property
    def first(self) -> Array:
        """Latent numbers that are the first, or the only one, of their columns."""
        return np.flatnonzero(self.widths >= 0)

    @cached_property
    def place(self) -> dict[int, int]:
        """By the columns of X: their first latent number."""
        return {int(self.index[d]): int(d) for d in self.first}

    @cached_property
    def marginals(self) -> dict[int, Marginal]:
        """By the latent numbers of numbers: their maps."""
        stop = np.cumsum(self.n_knots)
        return {
            d: Marginal(
                *self.knots[:, stop[d] - self.n_knots[d] : stop[d]],
                *self.tails[:, d],
                *self.units[:, d],
            )
            for d in np.flatnonzero(self.n_knots).tolist()
        }

    def encode(self, values: Array, columns: Array, name: str = "X") -> Array:
        """Latent numbers of numbers, codes of levels; NaN stays NaN."""
        out = np.array(np.broadcast_to(values, np.broadcast_shapes(values.shape, columns.shape)))
        for d, at in _by_column(columns, out.shape):
            if d in self.marginals:
                out[at] = self.marginals[d].to_z(out[at].astype(float))
            elif np.any((out[at] < 0) | (out[at] >= self.n_levels[d])):
                raise ValueError(f"{name} has a level that was not seen in fit; set it to NaN.")
        return out

    def base(self, values: Array, columns: Array) -> Array:
        """Log base measure: minus the log slope of the maps, at encoded values; 0 for levels."""
        out = np.zeros(np.broadcast_shapes(values.shape, columns.shape))
        full = np.broadcast_to(values, out.shape)
        for d, at in _by_column(columns, out.shape):
            if d in self.marginals:
                own = full[at].astype(float)
                measure = -self.marginals[d].log_slope(own)
                if self.logs[d]:  # the density of x is that of log x, over x
                    measure -= self.marginals[d].from_z(own)
                out[at] = np.where(np.isnan(own), 0.0, measure)
        return out

    def scored(self, X: Array) -> Array:
        """Rows of X as numbers for a start, (n, D): of levels the means of their numbers."""
        out = np.full((len(X), len(self.index)), np.nan)
        for d, owner in enumerate(self.index):
            values = X[:, owner]
            seen, own = ~np.isnan(values), values[~np.isnan(values)]
            if d in self.marginals:
                out[seen, d] = self.marginals[d].to_z(own.astype(float))
            elif self.widths[d] == 1:
                cuts = self.edges[d, 1 : self.n_levels[d]]
                out[seen, d] = Ordinal(tuple(cuts)).scores[own.astype(int)]
            else:  # indicators of a category's levels
                level = d - self.place[int(owner)]
                share = np.clip(self.edges[d, 1], 1e-6, 1.0 - 1e-6)
                spread = np.sqrt(share * (1.0 - share))
                out[seen, d] = ((own == level) - share) / spread
        return out


def _by_column(columns: Array, shape: tuple[int, ...]) -> Iterator[tuple[int, Place]]:
    """Columns, and what picks their entries out of arrays of a shape."""
    if len(shape) == 2 and columns.ndim == 1:
        yield from ((int(d), (slice(0, shape[0], None), i)) for i, d in enumerate(columns))
        return
    flat = np.broadcast_to(columns, shape)
    order = np.argsort(flat, axis=None, kind="stable")
    found, start = np.unique(flat.ravel()[order], return_index=True)
    for d, at in zip(found, np.split(order, start[1:]), strict=True):
        yield int(d), np.unravel_index(at, shape)


def learn_latents(X: Rows, row_weight: Array, groups: tuple[ColumnGroup, ...]) -> CopulaColumns:
    """Latent numbers of columns whose kinds and counts ``groups`` have; one pass for numbers."""
    of = {int(d): (group, i) for group in groups for i, d in enumerate(group.index)}
    numbers = [d for d in sorted(of) if of[d][0].known_levels is None]
    found = learn_marginals(X, row_weight, np.array(numbers, dtype=np.int64))
    learned = dict(zip(numbers, found, strict=True))
    rows: list[tuple[int, int, int, list[float]]] = []
    for d in sorted(of):
        rows += [(d, 0, 0, [])] if d in learned else _latents_of_levels(d, *of[d])
    index, widths, n_levels, ends = zip(*rows, strict=True)
    longest = max(2, *map(len, ends))
    maps = [learned.get(d) for d in index]
    nothing = np.zeros((3, 0))
    knots = [nothing if m is None else np.stack([m.z, m.x, m.slope]) for m in maps]
    D, owners = len(index), [of[d] for d in index]
    return CopulaColumns(
        index=np.array(index),
        likelihood=Copula(),
        shift=np.zeros(D),
        scale=np.ones(D),
        levels=None,
        weight=np.array([group.weight[i] for group, i in owners], dtype=float),
        moments=np.tile([[1.0], [0.0], [1.0]], D),
        varies=np.array([group.varies[i] for group, i in owners], dtype=bool),
        absent_zero=False,
        widths=np.array(widths),
        n_levels=np.array(n_levels),
        edges=np.array([[*own, *[FARTHEST] * (longest - len(own))] for own in ends]),
        logs=np.array([group.logged for group, _ in owners]),
        knots=np.concatenate(knots, axis=1),
        n_knots=np.array([own.shape[1] for own in knots]),
        tails=np.array([[1.0, 1.0] if m is None else [m.low, m.high] for m in maps]).T,
        units=np.array([[0.0, 1.0] if m is None else [m.origin, m.unit] for m in maps]).T,
    )


def _latents_of_levels(
    d: int, group: ColumnGroup, i: int
) -> list[tuple[int, int, int, list[float]]]:
    """Column, width, number of levels and ends of a column's latent numbers."""
    shares = group.moments[:, i]
    if group.likelihood.own_levels is not None:  # yes or no
        shares = np.array([1.0 - shares[1], shares[1]])
    V = len(shares)
    if group.likelihood.ordered or V <= 2:
        cuts = cuts_of(shares) if V > 1 else ()
        return [(d, 1, V, [-FARTHEST, *cuts, FARTHEST])]
    starts = head_starts(shares / shares.sum())
    pairs = enumerate(zip(starts.tolist(), shares.tolist(), strict=True))
    return [(d, V if v == 0 else -1, V, [start, share]) for v, (start, share) in pairs]


def restored_group(state: dict[str, PlainValue], prior: Prior | None) -> ColumnGroup:
    """The column group of which a file holds the state."""
    kind = CopulaColumns if "widths" in state else ColumnGroup
    return kind.restore(state, prior)
