"""Rows whose columns stand elsewhere: blocks that answer for the columns of a canvas.

A transformation places every column of a row in a column of the canvas
(`partwise.models.transformations`). A model of the canvas asks a `MovedBlock` as it asks any block;
the rows stay as they are, and the weights of the model are renumbered instead, so that scores under
all transformations cost one product each and no copies of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from partwise.contracts import Array, EntryList, Layout, MissingPatterns, Packed
from partwise.data.columns import ColumnEntries, ColumnGroup
from partwise.data.dense import DenseGroup
from partwise.data.entries import EntryGroup
from partwise.data.rows import Rows
from partwise.data.source import BlockSource, RowBlock

# Layouts and weights that a place keeps renumbered: a model of factors has three of each.
KEPT = 3


class MovedView:
    """Entries of rows by the columns of the canvas."""

    zero_value = None  # no entry is absent

    def __init__(self, group: DenseGroup, place: Place) -> None:
        self._group, self._place = group, place

    def entries(self, columns: Array, absent: bool = False) -> EntryList:
        """Observed entries of some columns of the canvas, several where columns share a place."""
        place = self._place.columns
        found = self._group.entries(np.flatnonzero(np.isin(place, columns)), absent)
        return EntryList(found.indptr, place[found.columns], found.values)

    @property
    def patterns(self) -> MissingPatterns:
        """Which rows miss the same entries."""
        return self._group.patterns

    def pair_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over observed columns of weights (1, Q, D), for every pattern; (Q, U)."""
        own = self._place.weights(weights, layout)
        return self._group.pair_score(own, self._place.layout(layout))

    def pair_sums(self, values: Array, layout: Layout) -> Packed:
        """Adjoint of `pair_score`."""
        onto = layout.no_sums(1)
        self._place.add(self._group.pair_sums(values, self._place.layout(layout)), layout, onto)
        return onto

    def totals(self, weight: Array) -> Array:
        """Weighted sums of 1, x and x^2 over observed entries; (3, D of the canvas)."""
        return self._place.spread(self._group.totals(weight))


class Place:
    """Where a transformation puts the columns of rows; blocks share what follows from a layout.

    Parameters
    ----------
    columns : ndarray of shape (D,)
        Column of the canvas of each column of the rows.
    n_canvas : int
        Columns of the canvas.
    """

    def __init__(self, columns: Array, n_canvas: int) -> None:
        self.columns, self._n_canvas = columns, n_canvas
        self._alone = len(np.unique(columns)) == len(columns)  # in their places
        # What was last found, newest first.
        self._layouts: tuple[tuple[Layout, Layout, tuple[Array, Array]], ...] = ()
        self._weights: tuple[tuple[Packed, Packed], ...] = ()

    def layout(self, layout: Layout) -> Layout:
        """Layout of the rows' columns."""
        return self._renumbered(layout)[0]

    def weights(self, weights: Packed, layout: Layout) -> Packed:
        """Weights of the rows' columns."""
        for given, found in self._weights:
            if given is weights:
                return found
        own, shared = self._renumbered(layout)[1]
        found = Packed(weights.own[:, :, own], weights.shared[:, :, shared])
        self._weights = ((weights, found), *self._weights[: KEPT - 1])
        return found

    def spread(self, values: Array) -> Array:
        """Values of the rows' columns (P, D) summed at their places on the canvas."""
        out = np.zeros((len(values), self._n_canvas))
        np.add.at(out.T, self.columns, values.T)
        return out

    def add(self, sums: Packed, layout: Layout, onto: Packed) -> None:
        """Add sums of the rows' columns at their places on the canvas."""
        for found, place, total in zip(sums, self._renumbered(layout)[1], onto, strict=True):
            if self._alone:
                total[:, :, place] += found
            else:
                np.add.at(total.T, place, found.T)

    def _renumbered(self, layout: Layout) -> tuple[Layout, tuple[Array, Array]]:
        """Layout of the rows' columns; where its decided and undecided ones stand in ``layout``."""
        for given, own, places in self._layouts:
            if given is layout:
                return own, places
        own = Layout(layout.parts[self.columns], layout.n_states)
        at = np.empty(len(layout.parts), np.int64)
        at[layout.order] = np.arange(len(layout.parts))
        decided, undecided = (at[self.columns[of]] for of in (own.decided, own.undecided))
        places = decided, undecided - len(layout.decided)
        self._layouts = ((layout, own, places), *self._layouts[: KEPT - 1])
        return own, places


class MovedBlock:
    """Some rows under one transformation, as a block of the canvas.

    Parameters
    ----------
    block : RowBlock
        The rows as they are.
    place : Place
        Where the transformation puts their columns.
    """

    def __init__(self, block: RowBlock, place: Place) -> None:
        self._block, self._place = block, place
        self.n_rows, self.dtype = block.n_rows, block.dtype
        self.weight, self.base, self.labels = block.weight, block.base, block.labels

    @property
    def groups(self) -> tuple[MovedView, ...]:
        """The view of the one column group."""
        return (MovedView(self._block.groups[0], self._place),)

    def weighing(self, weight: Array) -> MovedBlock:
        """The same rows with other weights."""
        other = MovedBlock(self._block, self._place)
        other.weight = weight
        return other

    def with_values(self, values: Array) -> MovedBlock:
        """Latent numbers are not moved."""
        raise TypeError("Latent numbers have no transformations.")

    def score(self, weights: Sequence[Packed], layouts: Sequence[Layout]) -> Array:
        """Sum over observed columns of T(x) . weights; (S, n)."""
        own = self._place.weights(weights[0], layouts[0])
        return self._block.score([own], [self._place.layout(layouts[0])])

    def collect(self, m: Array, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Adjoint of `score`."""
        return self._placed(self._block.collect(m, [self._place.layout(layouts[0])]), layouts)

    def add_sums(self, m: Array, layouts: Sequence[Layout], onto: Sequence[Packed]) -> None:
        """Add what `collect` gives to sums ``onto``."""
        (found,) = self._block.collect(m, [self._place.layout(layouts[0])])
        self._place.add(found, layouts[0], onto[0])

    def sweep(
        self,
        weights: Sequence[Packed],
        layouts: Sequence[Layout],
        on_part: Callable[[int, Array], Array],
    ) -> tuple[Array, tuple[Packed, ...]]:
        """`score`, a posterior made of it, and `collect`, part by part."""
        own = self._place.weights(weights[0], layouts[0])
        m, found = self._block.sweep([own], [self._place.layout(layouts[0])], on_part)
        return m, self._placed(found, layouts)

    def _placed(self, sums: Sequence[Packed], layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        onto = layouts[0].no_sums(len(sums[0].own))
        self._place.add(sums[0], layouts[0], onto)
        return (onto,)


class MovableBlock(RowBlock):
    """Rows that may be seen under any transformation; ``places`` has those."""

    def __init__(
        self,
        groups: Sequence[DenseGroup | EntryGroup],
        weight: Array,
        base: Array,
        labels: Array | None,
        places: Sequence[Place],
    ) -> None:
        super().__init__(groups, weight, base, labels)
        self._places = places

    def with_values(self, values: Array) -> MovableBlock:
        """Latent numbers are not moved."""
        raise TypeError("Latent numbers have no transformations.")

    def moved(self, t: int, rows: Array | None = None) -> MovedBlock:
        """Some of the rows (all if None) under transformation t."""
        if rows is None:
            return MovedBlock(self, self._places[t])
        labels = None if self.labels is None else self.labels[rows]
        own = [self.groups[0].of_rows(rows)], self.weight[rows], self.base[rows], labels
        return MovedBlock(RowBlock(*own), self._places[t])


class MovingSource(BlockSource):
    """Dense rows as blocks that may be seen under transformations.

    Parameters
    ----------
    X : ndarray or RowSource of shape (C, D)
    columns : tuple of one ColumnGroup
        Of the canvas.
    weight : ndarray of shape (C,)
    maps : ndarray of shape (T, D)
        Column of the canvas of each column of a row under every transformation.
    labels, keep, max_rows
        As in `BlockSource`.
    """

    # Every transformation has a fixed cost per block.
    block_factor: ClassVar[int] = 4

    def __init__(
        self,
        X: Rows,
        columns: tuple[ColumnGroup, ...],
        weight: Array,
        maps: Array,
        *,
        labels: Array | None = None,
        keep: bool = True,
        max_rows: int | None = None,
    ) -> None:
        self.maps, self.canvas = maps, columns
        self._places = [Place(place, len(columns[0].index)) for place in maps]
        own = replace(columns[0].take(maps[0]), index=np.arange(maps.shape[1]))
        super().__init__(X, (own,), weight, labels=labels, keep=keep, max_rows=max_rows)

    def encode(self, rows: Array, weight: Array, labels: Array | None) -> MovableBlock:
        """A block of rows in memory."""
        made = super().encode(rows, weight, labels)
        groups = [group.indexed() for group in made.groups]
        return MovableBlock(groups, weight, made.base, labels, self._places)

    def with_rows(self, X: Rows, weight: Array, labels: Array | None = None) -> MovingSource:
        """A source of other rows, coded as these are."""
        return MovingSource(X, self.canvas, weight, self.maps, labels=labels)


def canvas_columns(
    group: ColumnGroup, X: Rows, weight: Array, maps: Array, n_canvas: int
) -> ColumnGroup:
    """Columns of the canvas, from those of the rows under all transformations alike.

    With several transformations a column of the canvas holds numbers of several columns of the
    rows, so that all of them have the same units: those of all entries together. With one
    transformation they have the units of the rows' columns.
    """
    counts = np.zeros(n_canvas)
    np.add.at(counts, maps, group.weight[None] / len(maps))
    varies = np.zeros(n_canvas, bool)
    np.logical_or.at(varies, maps, group.varies[None])
    moments = np.zeros((len(group.moments), n_canvas))
    units = np.zeros(n_canvas), np.ones(n_canvas)
    if len(maps) == 1:
        for unit, own in zip(units, (group.shift, group.scale), strict=True):
            unit[maps[0]] = own
        moments[:, maps[0]] = group.moments
    elif group.likelihood.scaled:
        shift, scale = _common_units(group, X, weight)
        for unit, value in zip(units, (shift, scale), strict=True):
            unit[:] = value
        means = np.zeros(n_canvas)
        np.add.at(means, maps, (group.weight * (group.shift - shift) / scale)[None] / len(maps))
        mean = means / np.maximum(counts, np.finfo(float).tiny)
        moments = np.stack([np.ones(n_canvas), mean, mean**2 + 1.0])
    else:
        for own, total in zip(group.moments, moments, strict=True):
            np.add.at(total, maps, (own * group.weight)[None] / len(maps))
        moments /= np.maximum(counts, np.finfo(float).tiny)
    moments[:, counts == 0] = group.moments.mean(axis=1)[:, None]  # of columns that nothing shows
    return replace(
        group,
        index=np.arange(n_canvas),
        shift=units[0],
        scale=units[1],
        weight=counts,
        moments=moments,
        varies=varies,
    )


def in_common_units(group: ColumnGroup, X: Rows, weight: Array) -> ColumnGroup:
    """The same columns in the units of all entries together."""
    shift, scale = _common_units(group, X, weight)
    D = len(group.index)
    return replace(group, shift=np.full(D, shift), scale=np.full(D, scale))


def _common_units(group: ColumnGroup, X: Rows, weight: Array) -> tuple[float, float]:
    """Mean and deviation of all observed entries."""
    total = max(float(group.weight.sum()), np.finfo(float).tiny)
    shift = float(group.weight @ group.shift) / total
    squares = ColumnEntries(X, weight).sums(lambda x, _: (x.astype(float) - shift) ** 2)[0]
    scale = float(np.sqrt(squares.sum() / total))
    return shift, scale if scale > 0 else 1.0
