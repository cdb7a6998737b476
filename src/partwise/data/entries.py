"""Columns held as stored entries, row by row (CSR): ratings, counts, categories.

Where entries take few values, each sweep turns the weights into a table [column, value, state], and
an entry costs one gather-add (its own part's states alone once its column is decided). Otherwise
the weights multiply the statistics of the value. An entry that is not stored is missing, or zero,
as the column group says.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from partwise._compiled import is_few
from partwise.contracts import Array, DType, EntryList, Layout, Packed
from partwise.data import few, kernels
from partwise.data.patterns import Patterns
from partwise.likelihoods import Family

# More distinct values than this and tables cost more than statistics.
MOST_VALUES = 32


class Tables(NamedTuple):
    """Of each part and the undecided: columns, their table, and what absent entries score."""

    parts: list[tuple[Array, Array, Array]]
    shared: tuple[Array, Array, Array]


@dataclass(eq=False)
class EntryFormat:
    """How the entries of a column group are coded; shared by its blocks.

    ``statistics`` is T_p of value v in column d, (P, D, V) or (P, 1, V), or None when entries are
    kept as numbers; where codes stand for numbers, ``raw`` (V,) are these in the user's units and
    ``encoded`` (D, V) in the model's; ``family`` has T(x), None if that is made of powers; ``zero``
    is the code of the value zero where absent entries are zero, else None; ``present``
    (D,) tells which columns have entries at all where rows are few, so that one row costs its own
    columns alone, else None.
    """

    n_columns: int
    n_statistics: int
    statistics: Array | None
    raw: Array | None
    zero: int | None
    absent_zero: bool
    present: Array | None = None
    encoded: Array | None = None
    family: Family | None = None

    def __post_init__(self) -> None:
        self._memo: tuple[Packed, Tables] | None = None

    def tables(self, weights: Packed, layout: Layout) -> Tables:
        """Weights in the form that kernels walk, made once a sweep for all blocks."""
        memo = self._memo
        if memo is not None and memo[0] is weights:
            return memo[1]
        K = len(layout.n_states)
        owned = [slice(layout.bounds[k], layout.bounds[k + 1]) for k in range(K)]
        none = layout.decided[:0], np.zeros((0, 0, 0)), np.zeros(0)  # of a part without columns
        parts = [
            self._table(weights.own[:, : layout.n_states[k], at], layout.decided[at])
            if at.start < at.stop
            else none
            for k, at in enumerate(owned)
        ]
        tables = Tables(parts, self._table(weights.shared, layout.undecided))
        self._memo = (weights, tables)
        return tables

    def narrowed(self, weights: Array, columns: Array) -> tuple[Array, Array]:
        """Weights (..., D') of some columns, and these; without columns that have no entry."""
        if self.present is None:
            return weights, columns
        at = np.flatnonzero(self.present[columns])
        return weights[..., at], columns[at]

    def _table(self, weights: Array, columns: Array) -> tuple[Array, Array, Array]:
        """Columns, their table less what an absent entry scores, and the sum of that; (S',)."""
        weights, columns = self.narrowed(weights, columns)
        if self.statistics is None:
            table = np.ascontiguousarray(weights.transpose(0, 2, 1))  # (P, D', S')
            absent = table[0].sum(axis=0, dtype=float)
        else:
            table = self.to_values(weights, columns)  # (V, D', S')
            if self.zero is not None:
                zero = table[self.zero].copy()
                table = table - zero
                absent = zero.sum(axis=0, dtype=float)
        return columns, table, absent if self.absent_zero else np.zeros(weights.shape[1])

    def statistics_of(self, values: Array) -> Array:
        """T(x) of numbers, those beyond the 1; (P - 1, ...)."""
        if self.family is not None:
            return self.family.statistics(values)[1 : self.n_statistics]
        return values[None] if self.n_statistics == 2 else np.stack([values, values * values])

    def to_values(self, weights: Array, columns: Array) -> Array:
        """sum_p T_p(value) weights[p]: (P, S, D') to (V, D', S)."""
        if self.one_hot:
            return np.ascontiguousarray(weights.transpose(0, 2, 1))
        assert self.statistics is not None
        statistics = self.statistics[: len(weights), columns].astype(weights.dtype)
        return np.ascontiguousarray(np.einsum("psd,pdv->vds", weights, statistics))

    def from_values(self, table: Array, columns: Array) -> Array:
        """Adjoint of `to_values`: (V, D', S) to (P, S, D')."""
        if self.one_hot:
            return table.transpose(0, 2, 1)
        assert self.statistics is not None
        return np.einsum("vds,pdv->psd", table, self.statistics[:, columns])

    @property
    def one_hot(self) -> bool:
        """Whether the statistics are indicators of the levels."""
        return self.statistics is not None and self.raw is None


class EntryGroup:
    """A block's stored entries of one column group.

    Parameters
    ----------
    indptr, indices : ndarray
        CSR structure of the block's rows.
    values : ndarray of shape (nnz,)
        Codes if the format has statistics, else encoded values.
    form : EntryFormat
    dtype : dtype of scores
    """

    def __init__(
        self, indptr: Array, indices: Array, values: Array, form: EntryFormat, dtype: DType
    ) -> None:
        self.indptr, self.indices, self.values, self.form = indptr, indices, values, form
        self.n_rows = len(indptr) - 1
        self.dtype = dtype
        # Statistic at which stored entries begin to differ from absent ones.
        self._start = 1 if form.absent_zero else 0
        # The same entries by column, and by value where there is a table of values.
        V = 1 if form.statistics is None else form.statistics.shape[2]
        key = indices.astype(np.int64) * V + (values if V > 1 else 0)
        order = np.argsort(key, kind="stable").astype(np.int32)
        counts = np.bincount(key, minlength=form.n_columns * V)
        self._pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._rows = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(indptr))[order]
        self._by_column = self._order = None
        if form.statistics is None:
            self._by_column, self._order = self._sorted_statistics(values, order), order

    def _sorted_statistics(self, values: Array, order: Array) -> Array:
        return self.form.statistics_of(values[order]).astype(self.dtype, copy=False)

    def with_values(self, values: Array) -> EntryGroup:
        """The same entries with other values, (nnz,), kept as numbers."""
        assert self._order is not None
        other = copy.copy(self)
        by_column = self._sorted_statistics(values, self._order)
        vars(other).update(values=values, _by_column=by_column)
        return other

    def codes(self) -> EntryList:
        """All observed entries, by the codes of their levels."""
        return EntryList(self.indptr, self.indices, self.values)

    def room(self) -> list[Array]:
        """Nothing that could be used again: blocks differ in their number of entries."""
        return []

    def arrange(self, layout: Layout) -> None:
        """Entries stay as they are."""

    def shared_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over entries of undecided columns of T(x) . weights; (S, n)."""
        return self._score(*self.form.tables(weights, layout).shared)

    def add_part_score(self, out: Array, weights: Packed, layout: Layout, k: int) -> None:
        """Add the score of part k's own columns to ``out``, (J_k, n)."""
        table = self.form.tables(weights, layout).parts[k]
        if len(table[0]):
            out += self._score(*table)

    def _score(self, columns: Array, table: Array, absent: Array) -> Array:
        out = np.empty((self.n_rows, len(absent)), self.dtype)
        out[:] = absent
        if self._by_column is None:
            score = few.score_codes if is_few(self._rows.size) else kernels.score_codes
            score(columns, self._pointers, self._rows, table, out)
        else:
            kernels.score_statistics(
                columns, self._pointers, self._rows, self._by_column, self._start, table, out
            )
        return np.ascontiguousarray(out.T)

    def shared_sums(self, m: Array, layout: Layout) -> Array:
        """Sums over rows of m T(x) of undecided columns; (P, S, U)."""
        return self._sums(m, layout.undecided)

    def part_sums(self, m: Array, layout: Layout, k: int) -> Array:
        """Sums over rows of m T(x) of part k's own columns; m is (J_k, n); (P, J_k, H_k)."""
        return self._sums(m, layout.decided[layout.bounds[k] : layout.bounds[k + 1]])

    def _sums(self, m: Array, columns: Array) -> Array:
        form = self.form
        if not len(columns):
            return np.zeros((form.n_statistics, len(m), 0))
        rows = np.ascontiguousarray(m.T)
        if form.statistics is None:
            table = np.zeros((form.n_statistics, len(columns), len(m)), self.dtype)
            kernels.collect_statistics(
                columns, self._pointers, self._rows, self._by_column, self._start, rows, table
            )
            sums = table.transpose(0, 2, 1).astype(float)
            if form.absent_zero:
                sums[0] = m.sum(axis=1, dtype=float)[:, None]
            return sums
        table = np.zeros((form.statistics.shape[2], len(columns), len(m)), self.dtype)
        kernels.collect_codes(columns, self._pointers, self._rows, rows, table)
        table = table.astype(float)
        if form.absent_zero:
            table[form.zero] += m.sum(axis=1, dtype=float) - table.sum(axis=0)
        return form.from_values(table, columns)

    @property
    def patterns(self) -> Patterns:
        """Every row shows entries of its own; with absent zeros all rows show all."""
        if self.form.absent_zero:
            return Patterns.of(None, self.n_rows)
        return Patterns(self.n_rows, None, None)

    def pair_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over observed columns of weights (1, Q, D), for every pattern; (Q, U)."""
        out = self._pair_score(weights.shared[0], layout.undecided)
        for k, (lo, hi) in enumerate(pairwise(layout.first)):
            at = slice(layout.bounds[k], layout.bounds[k + 1])
            if at.stop > at.start:
                out[lo:hi] += self._pair_score(weights.own[0, : hi - lo, at], layout.decided[at])
        return out

    def _pair_score(self, weights: Array, columns: Array) -> Array:
        if self.form.absent_zero:
            return weights.sum(axis=1, dtype=float).astype(self.dtype)[:, None]
        weights, columns = self.form.narrowed(weights, columns)
        out = np.zeros((self.n_rows, len(weights)), self.dtype)
        table = np.ascontiguousarray(weights.T.astype(self.dtype))
        kernels.score_presence(columns, self._column_pointers, self._rows, table, out)
        return np.ascontiguousarray(out.T)

    def pair_sums(self, values: Array, layout: Layout) -> Packed:
        """Adjoint of `pair_score`: sums over patterns (Q, U) of values where a column is there."""
        own = np.zeros((1, max(layout.n_states), len(layout.decided)))
        for k, (lo, hi) in enumerate(pairwise(layout.first)):
            at = slice(layout.bounds[k], layout.bounds[k + 1])
            own[0, : hi - lo, at] = self._pair_sums(values[lo:hi], layout.decided[at])
        return Packed(own, self._pair_sums(values, layout.undecided)[None])

    def _pair_sums(self, values: Array, columns: Array) -> Array:
        if self.form.absent_zero:
            return np.repeat(values.sum(axis=1, dtype=float)[:, None], len(columns), axis=1)
        table = np.zeros((len(columns), len(values)))
        rows = np.ascontiguousarray(values.T)
        kernels.collect_presence(columns, self._column_pointers, self._rows, rows, table)
        return table.T

    @property
    def _column_pointers(self) -> Array:
        """Where each column's entries begin."""
        step = (len(self._pointers) - 1) // self.form.n_columns
        return np.ascontiguousarray(self._pointers[::step])

    def totals(self, weight: Array) -> Array:
        """Weighted sums of 1, x and x^2 over observed entries; (3, D)."""
        w, x = np.repeat(weight, np.diff(self.indptr)), self._encoded().astype(float)
        D = self.form.n_columns
        out = np.stack([np.bincount(self.indices, w * x**p, minlength=D) for p in range(3)])
        if self.form.absent_zero:
            out[0] = weight.sum()
        return out

    def _encoded(self) -> Array:
        """Model units of the stored entries, (nnz,)."""
        if self.form.encoded is not None:
            return self.form.encoded[self.indices, self.values]
        return self.values

    def entries(self, columns: Array, absent: bool = False) -> EntryList:
        """Stored entries of some columns; with ``sparse_absent`` also zeros that are not stored."""
        wanted = np.zeros(self.form.n_columns, bool)
        wanted[columns] = True
        values = self._encoded()
        kept = wanted[self.indices]
        if absent and self.form.absent_zero:
            place = np.empty(self.form.n_columns, np.int64)
            place[columns] = np.arange(len(columns))
            full = np.full((self.n_rows, len(columns)), self.zero_value)
            rows = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))[kept]
            full[rows, place[self.indices[kept]]] = values[kept]
            indptr = np.arange(self.n_rows + 1) * len(columns)
            return EntryList(indptr, np.tile(columns, self.n_rows), full.ravel())
        counts = np.concatenate([[0], np.cumsum(kept)])
        return EntryList(counts[self.indptr], self.indices[kept], values[kept])

    @property
    def zero_value(self) -> float | None:
        """Model units of an absent entry: the level's code or, as nothing is shifted, 0."""
        if not self.form.absent_zero:
            return None
        coded = self.form.statistics is not None and self.form.raw is None
        return float(self.form.zero or 0) if coded else 0.0

    # Selections of single entries: G is (K, nnz). Absent zeros have no selection of their own and
    # are refused by the model before work starts.

    def densities(self, natural: Array) -> Array:
        """T(x) . natural of every entry, for one state's natural parameters (P, D); (nnz,)."""
        return self._densities(natural[:, None, :])[:, 0]

    def _densities(self, natural: Array) -> Array:
        """T(x) . natural of every entry and state; (nnz, S)."""
        out = np.empty((len(self.indices), natural.shape[1]), self.dtype)
        if self.form.statistics is None:
            out[:] = natural[0].T[self.indices]
            for eta, T in zip(natural[1:], self.form.statistics_of(self.values), strict=False):
                out += T[:, None] * eta.T[self.indices]
            return out
        table = self.form.to_values(natural, np.arange(self.form.n_columns))
        kernels.entry_densities(self.indices, self.values, table.astype(self.dtype), out)
        return out

    def spread(self, values: Array) -> Array:
        """Per-column values (K, D) at the entries, (K, nnz)."""
        return values[:, self.indices]

    def observed(self) -> Array:
        """Every stored entry is observed."""
        return np.ones(1, self.dtype)

    def expected(self, m: Array, natural: Array, first: Array) -> Array:
        """Expected log density of every entry under each part's posterior; (K, nnz)."""
        out = np.empty((len(first) - 1, len(self.indices)), self.dtype)
        rows = np.ascontiguousarray(m.T)
        kernels.expect_rows(self.indptr, self._densities(natural), first, rows, out)
        return out

    def score_selected(self, natural: Array, G: Array, first: Array) -> Array:
        """As `score`, every entry counted with its own weight in each part; (S, n)."""
        out = np.zeros((self.n_rows, first[-1]), self.dtype)
        kernels.score_rows(self.indptr, self._densities(natural), first, G, out)
        return out.T

    def collect_selected(self, m: Array, G: Array, first: Array) -> Packed:
        """Adjoint of `score_selected`, all columns undecided."""
        form = self.form
        if form.statistics is None:
            T = form.statistics_of(self.values).astype(float)
            T = np.concatenate([np.ones((1, len(self.values))), T])
        elif form.one_hot:
            T = (self.values == np.arange(form.n_statistics)[:, None]).astype(float)
        else:
            T = form.statistics[:, self.indices, self.values]
        out = np.zeros((len(T), form.n_columns, first[-1]))
        rows = np.ascontiguousarray(m.T)
        kernels.collect_rows(self.indptr, self.indices, T, first, rows, G, out)
        return Packed(np.zeros((len(T), 1, 0)), out.transpose(0, 2, 1))

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (nnz,) over each row; (n,)."""
        rows = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        return np.bincount(rows, values, minlength=self.n_rows)

    def sum_selected(self, G: Array, weight: Array) -> Array:
        """Weighted column sums of G; (K, D)."""
        w = np.repeat(weight, np.diff(self.indptr))
        return np.stack([np.bincount(self.indices, g * w, self.form.n_columns) for g in G])
