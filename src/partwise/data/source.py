"""Rows cut into blocks whose bounds depend on the data alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
from scipy import sparse

from partwise._compiled import is_few
from partwise.contracts import AnyView, Array, DType, Layout, Packed
from partwise.data import few, kernels
from partwise.data.columns import ColumnEntries, ColumnGroup, largest_value, some_columns
from partwise.data.dense import DenseGroup
from partwise.data.entries import MOST_VALUES, EntryFormat, EntryGroup
from partwise.data.indices import is_csr
from partwise.data.rows import Rows, RowSource, cut, in_memory, is_sparse, map_rows
from partwise.typing import Matrix

Found = TypeVar("Found")

# Large enough that a block's fixed cost (some hundred calls, adding its sums) is small beside its
# products, small enough that a few blocks fill every worker and that making one again is cheap.
BLOCK_BYTES = 8 << 20
BLOCK_ENTRIES = 1 << 19

# Fewer rows than fill some blocks are cut in this many, each of no less than this: workers share
# them, and matrix products need no threads of their own, whose number would change the sums.
MIN_BLOCKS, MIN_BLOCK_BYTES = 4, 1 << 19

# Encoded blocks of rows that are not in memory are kept if the rows are no more than this.
KEPT_BYTES = 256 << 20


class RowBlock:
    """Some rows: one view per column group, row weights, base measure, and classes if known."""

    def __init__(
        self,
        groups: Sequence[DenseGroup | EntryGroup],
        weight: Array,
        base: Array,
        labels: Array | None = None,
    ) -> None:
        self._views = tuple(groups)
        self.weight = weight
        self.base = base
        self.labels = labels
        self.n_rows = len(weight)
        self.dtype = self._views[0].dtype

    @property
    def groups(self) -> tuple[AnyView, ...]:
        """Views of the column groups."""
        return self._views

    def with_values(self, values: Array) -> RowBlock:
        """The same entries of one group with other values, (nnz,)."""
        (group,) = self._views
        assert isinstance(group, EntryGroup)
        return RowBlock([group.with_values(values)], self.weight, self.base, self.labels)

    def with_labels(self, labels: Array) -> RowBlock:
        """The same rows with other labels, (n,) or (n, N)."""
        return RowBlock(self._views, self.weight, self.base, labels)

    def score(self, weights: Sequence[Packed], layouts: Sequence[Layout]) -> Array:
        """Sum over observed columns of T(x) . weights; (S, n)."""
        out = self._shared_score(weights, layouts)
        for k, (lo, hi) in enumerate(pairwise(layouts[0].first)):
            self._add_part_score(out[lo:hi], weights, layouts, k)
        return out

    def collect(self, m: Array, layouts: Sequence[Layout]) -> tuple[Packed, ...]:
        """Adjoint of `score`, one `Packed` per group."""
        self._arrange(layouts)
        parts = [m[lo:hi] for lo, hi in pairwise(layouts[0].first)]
        return self._collect(
            m, [self._part_sums(p, layouts, k) for k, p in enumerate(parts)], layouts
        )

    def sweep(
        self,
        weights: Sequence[Packed],
        layouts: Sequence[Layout],
        on_part: Callable[[int, Array], Array],
    ) -> tuple[Array, tuple[Packed, ...]]:
        """Score and collect in one go, part by part, while a part's columns are at hand.

        ``on_part(k, score)`` turns part k's scores (J_k, n) into its posterior in place and returns
        what to weigh the sums with. Returns the posteriors (S, n) and the sums.
        """
        m = self._shared_score(weights, layouts)
        weighted, own = [], []
        for k, (lo, hi) in enumerate(pairwise(layouts[0].first)):
            self._add_part_score(m[lo:hi], weights, layouts, k)
            weighted.append(on_part(k, m[lo:hi]))
            own.append(self._part_sums(weighted[k], layouts, k))
        shared = any(len(layout.undecided) for layout in layouts)
        return m, self._collect(np.concatenate(weighted) if shared else m, own, layouts)

    def _arrange(self, layouts: Sequence[Layout]) -> None:
        for group, layout in zip(self._views, layouts, strict=True):
            group.arrange(layout)

    def _shared_score(self, weights: Sequence[Packed], layouts: Sequence[Layout]) -> Array:
        """Score of the undecided columns, (S, n)."""
        self._arrange(layouts)
        groups = zip(self._views, weights, layouts, strict=True)
        scores = (group.shared_score(w, own) for group, w, own in groups if len(own.undecided))
        total = next(scores, None)
        if total is None:
            return np.zeros((layouts[0].first[-1], self.n_rows), self.dtype)
        for score in scores:
            total += score
        return total

    def _add_part_score(
        self, out: Array, weights: Sequence[Packed], layouts: Sequence[Layout], k: int
    ) -> None:
        for group, w, layout in zip(self._views, weights, layouts, strict=True):
            group.add_part_score(out, w, layout, k)

    def _part_sums(self, m: Array, layouts: Sequence[Layout], k: int) -> list[Array]:
        return [g.part_sums(m, layout, k) for g, layout in zip(self._views, layouts, strict=True)]

    def _collect(
        self, m: Array, own: list[list[Array]], layouts: Sequence[Layout]
    ) -> tuple[Packed, ...]:
        """Sums of own columns (a list over groups for every part) and of undecided ones."""
        return tuple(
            Packed(_join([parts[g] for parts in own], layout), group.shared_sums(m, layout))
            for g, (group, layout) in enumerate(zip(self._views, layouts, strict=True))
        )


def _join(parts: list[Array], layout: Layout) -> Array:
    """(P, J_k, H_k) of all parts, one after the other; (P, J, H)."""
    J = max(layout.n_states)
    out = np.zeros_like(parts[0], dtype=float, shape=(len(parts[0]), J, len(layout.decided)))
    for k, values in enumerate(parts):
        out[:, : values.shape[1], layout.bounds[k] : layout.bounds[k + 1]] = values
    return out


class BlockSource:
    """Dense (NaN missing) or CSR rows as blocks.

    Parameters
    ----------
    X : ndarray, CSR matrix or array, or RowSource, of shape (C, D)
    columns : tuple of ColumnGroup
    weight : ndarray of shape (C,)
    keep : bool
        Keep encoded blocks between walks (fitting) unless they would not fit in memory, or make
        each when asked for (one walk).
    labels : ndarray of shape (C,) or (C, N), optional
        Known classes of the rows, -1 where unknown; or what rows nearby say of them, as logarithms.
    max_rows : int, optional
        Smaller blocks, for work that needs much memory per row.
    n_powers : int, optional
        How many of 1, x, x^2 the model asks for, if fewer than the likelihood has.
    """

    # Size of a block in units of BLOCK_BYTES.
    block_factor: ClassVar[int] = 1

    def __init__(
        self,
        X: Rows,
        columns: tuple[ColumnGroup, ...],
        weight: Array,
        *,
        labels: Array | None = None,
        keep: bool = True,
        max_rows: int | None = None,
        n_powers: int | None = None,
    ) -> None:
        self.n_powers = n_powers
        self.X, self.columns, self.weight, self.labels = X, columns, weight, labels
        C, D = X.shape[0], sum(len(group.index) for group in columns)
        entries = X.nnz if is_sparse(X) else C * D
        self._forms = [
            _entry_format(some_columns(X, group.index), group, n_powers)
            if is_sparse(X) or group.likelihood.has_levels
            else None
            for group in columns
        ]
        if any(form is not None for form in self._forms):
            rows = C * BLOCK_ENTRIES // max(entries, 1)
        else:
            size = max(D * X.dtype.itemsize, 1)
            largest = self.block_factor * BLOCK_BYTES // size
            rows = min(largest, max(-(-C // MIN_BLOCKS), MIN_BLOCK_BYTES // size))
        rows = int(np.clip(rows, 64, max(C, 64)))
        if max_rows is not None:
            rows = min(rows, max_rows)
        self.reads = isinstance(X, RowSource)
        self.bounds = cut(X, X.rows_per_block(rows) if isinstance(X, RowSource) else rows)
        self.n_blocks = len(self.bounds)
        self.keeps = keep  # where blocks are made
        self._spare: list[Array] = []
        if self.reads:
            keep = keep and entries * X.dtype.itemsize <= KEPT_BYTES
        self._kept: list[RowBlock | None] | None = [None] * self.n_blocks if keep else None

    @property
    def views(self) -> list[type]:
        """Classes of the column groups' views, whose capabilities models may need."""
        return [DenseGroup if form is None else EntryGroup for form in self._forms]

    def block(self, i: int) -> RowBlock:
        """Block ``i``; made when first asked for."""
        return self._maker(i)()

    def blocks(self) -> Iterator[RowBlock]:
        """The blocks, in order."""
        return (make() for make in self.makers())

    def each(self, function: Callable[[RowBlock], Found]) -> Iterator[Found]:
        """``function(block)`` of every block, in order, wherever they are."""
        runner = getattr(self.X, "runner", None)
        return map(function, self.blocks()) if runner is None else runner.map(function, self)

    def recipe(self) -> BlockSource:
        """What encodes rows as this source does, without its rows."""
        other = copy.copy(self)
        vars(other).update(X=None, weight=None, labels=None, bounds=None, _kept=None, _spare=[])
        return other

    def makers(self) -> Iterator[Callable[[], RowBlock]]:
        """What makes each block, in order; its rows are read here."""
        return (self._maker(i) for i in range(self.n_blocks))

    def _maker(self, i: int) -> Callable[[], RowBlock]:
        kept = self._kept[i] if self._kept is not None else None
        if kept is not None:
            return lambda: kept
        lo, hi = self.bounds[i]
        return partial(self._make, i, self.X[lo:hi])

    def _make(self, i: int, rows: Matrix) -> RowBlock:
        lo, hi = self.bounds[i]
        labels = None if self.labels is None else self.labels[lo:hi]
        made = self.encode(rows, self.weight[lo:hi], labels)
        if self._kept is not None:
            self._kept[i] = made
        return made

    def encode(self, rows: Matrix, weight: Array, labels: Array | None) -> RowBlock:
        """A block of rows in memory."""
        views: list[DenseGroup | EntryGroup] = []
        base = np.zeros(rows.shape[0])
        for group, form in zip(self.columns, self._forms, strict=True):
            own = in_memory(some_columns(rows, group.index))
            view, measure = (
                _dense_rows(own, group, self.n_powers, self._room)
                if form is None
                else _entry_rows(own, group, form)
            )
            views.append(view)
            base += measure
        return RowBlock(views, weight, base, labels)

    def forget(self) -> None:
        """Release the kept blocks; they are made again when asked for."""
        if self._kept is not None:
            self._kept = [None] * self.n_blocks

    def release(self, block: RowBlock) -> None:
        """Reuse the arrays of a block that is no longer used."""
        if self.reads and self._kept is None:
            self._spare += [array for group in block.groups for array in group.room()]

    def _room(self, shape: tuple[int, int], dtype: DType) -> Array:
        """An array to write to; a new allocation costs as much as writing it."""
        try:
            spare = self._spare.pop()
        except IndexError:  # other threads took the last
            return np.empty(shape, dtype)
        return spare if spare.shape == shape and spare.dtype == dtype else np.empty(shape, dtype)

    def of_rows(self, rows: Array, weight: Array | None = None) -> BlockSource:
        """A source of some of the rows, with other weights if given."""
        labels = None if self.labels is None else self.labels[rows]
        weight = self.weight[rows] if weight is None else weight
        return self.with_rows(self.X[rows], weight, labels)

    def of_columns(self, columns: Array) -> BlockSource:
        """A source of some columns of the one group."""
        (group,) = self.columns
        taken = replace(group.take(columns), index=np.arange(len(columns)))
        return BlockSource(
            some_columns(self.X, columns), (taken,), self.weight, n_powers=self.n_powers
        )

    def column_weight(self) -> Array:
        """Summed weight of the observed entries of every column, (D,)."""
        if is_sparse(self.X) and self.columns[0].absent_zero:
            return np.full(self.X.shape[1], self.weight.sum())
        return ColumnEntries(self.X, self.weight).sums(lambda x, _: np.ones_like(x))[0]

    def sample(
        self, most_cells: int, rng: np.random.Generator, *, full: bool = False
    ) -> BlockSource:
        """Rows in memory: all of them or, where they have more cells, a random sample.

        With ``full``, cells that sparse rows do not store count, too.
        """
        rows = self.sample_rows(most_cells, rng, full=full)
        return self if len(rows) == self.X.shape[0] and not self.reads else self.of_rows(rows)

    def sample_rows(
        self, most_cells: int, rng: np.random.Generator, *, full: bool = False
    ) -> Array:
        """The rows of a `sample`, in order."""
        C, D = self.X.shape
        cells = self.X.nnz if is_sparse(self.X) and not full else C * D
        n_rows = max(int(C * min(most_cells / max(cells, 1), 1.0)), 1)
        return np.arange(C) if n_rows == C else np.sort(rng.choice(C, n_rows, replace=False))

    def with_rows(self, X: Rows, weight: Array, labels: Array | None = None) -> BlockSource:
        """A source of other rows, coded as these are."""
        return BlockSource(X, self.columns, weight, labels=labels, n_powers=self.n_powers)


def _entry_format(X: Rows, column: ColumnGroup, n_powers: int | None) -> EntryFormat:
    """Code values by table where they are few, else keep them as numbers."""
    D, law = X.shape[1], column.likelihood
    family = law.family
    n_statistics = n_powers or family.n_statistics
    own = None if family.powers else family
    absent_zero = column.absent_zero and is_sparse(X)
    if absent_zero:
        list(map_rows(X, _check_stored))
    present = None
    if is_sparse(X) and not absent_zero and X.nnz < D:
        present = np.zeros(D, bool)
        for indices in map_rows(X, lambda rows: rows.indices):
            present[indices] = True
    if law.latent:  # codes stand for latent numbers, each entry's own
        return EntryFormat(D, n_statistics, None, None, None, absent_zero, present)
    if column.levels is not None:
        zero = int(np.searchsorted(column.levels, 0.0)) if absent_zero else None
        one_hot = np.eye(len(column.levels))[:, None, :]
        return EntryFormat(D, family.n_statistics, one_hot, None, zero, absent_zero, present)
    if present is not None:  # a table of values would be made for the sake of few entries
        return EntryFormat(D, n_statistics, None, None, None, absent_zero, present, None, own)
    raw = np.zeros(1 if absent_zero else 0)
    for found in map_rows(X, lambda rows: np.unique(rows.data[~np.isnan(rows.data)])):
        raw = np.union1d(raw, found)
        if len(raw) > MOST_VALUES:
            break
    if not 0 < len(raw) <= MOST_VALUES:
        return EntryFormat(D, n_statistics, None, None, None, absent_zero, family=own)
    encoded = column.encode(raw, np.arange(D)[:, None])  # (D, V)
    encoded = np.broadcast_to(encoded, (D, len(raw)))
    statistics = family.statistics(encoded)[:n_statistics]
    zero = int(np.searchsorted(raw, 0.0)) if absent_zero else None
    return EntryFormat(D, n_statistics, statistics, raw, zero, absent_zero, None, encoded, own)


def _check_stored(rows: sparse.csr_array) -> None:
    if np.isnan(rows.data).any():
        raise ValueError(
            "X stores NaN, but entries that it does not store are zeros, so a missing entry has no "
            'place; pass X.toarray(), or sparse_absent="unobserved".'
        )


def _dense_rows(
    rows: Array,
    column: ColumnGroup,
    n_powers: int | None,
    room: Callable[[tuple[int, int], DType], Array],
) -> tuple[DenseGroup, Array]:
    """Encoded matrix of some rows, and their base measure; ``room(shape, dtype)`` is to be used."""
    n, everywhere = rows.shape[0], np.arange(rows.shape[1])
    n_statistics = n_powers or column.likelihood.family.n_statistics
    if not column.plain_numbers:
        Z = column.encode(rows, everywhere).astype(rows.dtype, copy=False)
        base = column.base(Z, everywhere).sum(axis=1, dtype=float)
        family, Zt = column.likelihood.family, np.ascontiguousarray(Z.T)
        own = None if family.powers else family.statistics
        return DenseGroup(Zt, n_statistics, bool(np.isnan(Z).any()), statistics=own), base
    # Rows that are not in memory are encoded in every sweep.
    Zt, most = room(rows.shape[::-1], rows.dtype), largest_value(rows.dtype)
    rows, units = np.ascontiguousarray(rows), -column.log_scale
    encode = few.encode_numbers if is_few(rows.size) else kernels.encode_numbers
    incomplete = encode(rows, column.shift, column.scale, most, Zt) > 0
    base = units @ ~np.isnan(Zt) if incomplete else np.full(n, units.sum())
    square = None
    if n_statistics == 3 and not incomplete:
        square = np.multiply(Zt, Zt, out=room(Zt.shape, Zt.dtype))
    return DenseGroup(Zt, n_statistics, incomplete, square), base


def _entry_rows(rows: Matrix, column: ColumnGroup, form: EntryFormat) -> tuple[EntryGroup, Array]:
    """Encoded entries of some rows, and their base measure."""
    dtype = np.dtype(rows.dtype)
    if is_csr(rows):
        indptr, indices, raw = rows.indptr.astype(np.int64), rows.indices, rows.data
    else:
        seen = ~np.isnan(rows)
        indptr = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
        indices, raw = np.nonzero(seen)[1], rows[seen]
    wide = form.n_columns > np.iinfo(np.int32).max
    indices = indices.astype(np.int64 if wide else np.int32, copy=False)
    values = column.encode(raw, indices)
    known = ~np.isnan(values)
    if not known.all():  # a stored NaN is a missing entry
        row_of = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[known]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=len(indptr) - 1))])
        indices, values = indices[known], values[known]
    row_of = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    base = np.bincount(row_of, column.base(values, indices), minlength=len(indptr) - 1)
    if form.absent_zero and column.levels is None:
        absent = column.absent_base()
        stored = np.bincount(row_of, absent[indices], minlength=len(indptr) - 1)
        base = base + (absent.sum() - stored)  # counts of no entry at all are whole numbers
    if form.raw is not None:
        values = np.searchsorted(form.raw, raw[known])
    if form.statistics is not None:
        values = values.astype(np.uint8)
    else:
        values = values.astype(dtype, copy=False)
    return EntryGroup(indptr, indices, values, form, dtype), base
