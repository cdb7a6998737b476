"""Columns of powers held as matrices: complete blocks take two products a map, masked ones three.

Entries are stored transposed, (D, n): a part's columns are then contiguous rows, so decided columns
cost their own part's states alone, and reductions over states run along rows of memory. Where
layouts change from one call to the next (`DenseGroup.indexed`), columns stay where they are and
are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import pairwise

import numpy as np

from partwise.contracts import Array, EntryList, Layout, Packed, Span
from partwise.data import kernels
from partwise.data.additive import AdditiveRows
from partwise.data.patterns import Patterns

# Rows whose sums are taken in the data's own precision before they are added in double. Equal
# numbers are rounded the same way again and again: a processor's matrix product may lose half a
# unit per row, and a state whose rows are equal has no variance but what is lost.
SUMMED_ROWS = {np.dtype(np.float32): 256, np.dtype(np.float64): 2048}


class DenseGroup:
    """A block's entries of one column group.

    Parameters
    ----------
    Zt : ndarray of shape (D, n)
        Encoded values, NaN where missing.
    n_statistics : int
        P: 2 for (1, x), 3 for (1, x, x^2).
    holed : bool
        Whether any value is missing.
    square : ndarray of shape (D, n), optional
        The squares, if they are at hand.
    statistics : callable, optional
        T(x) of values where it is not made of powers, (P, D, n).
    """

    def __init__(
        self,
        Zt: Array,
        n_statistics: int,
        holed: bool,
        square: Array | None = None,
        statistics: Callable[[Array], Array] | None = None,
    ) -> None:
        powers = []
        seen = None
        if holed:
            missing, square = np.isnan(Zt), None
            Zt = np.where(missing, Zt.dtype.type(0), Zt)
            seen = (~missing).astype(Zt.dtype)
            powers.append(seen)
        self._values = None if statistics is None else Zt  # else they are the first power
        if statistics is not None:
            own = statistics(Zt)[1:].astype(Zt.dtype, copy=False)
            powers += list(own if seen is None else own * seen)
        else:
            powers.append(Zt)
            if n_statistics == 3:
                powers.append(Zt * Zt if square is None else square)
        self.n_statistics = n_statistics
        self.complete = len(powers) < n_statistics
        self._powers = powers  # T_p(x) for p = 0.. (1.. if complete), each (D, n)
        self._order = np.arange(Zt.shape[0])
        self._indexed = False
        self._patterns: Patterns | None = None
        self.n_rows = Zt.shape[1]
        self.dtype = Zt.dtype

    def room(self) -> list[Array]:
        """Arrays that can be used again when this block is done with."""
        return self._powers if self.complete and self._values is None else []

    def of_rows(self, rows: Array) -> DenseGroup:
        """The same columns of some rows."""
        other = copy(self)
        powers = self._powers[:1] if self._plain_squares else self._powers  # squares when needed
        vars(other).update(
            _powers=[np.take(power, rows, axis=1) for power in powers],
            _values=None if self._values is None else np.take(self._values, rows, axis=1),
            _patterns=None,
            n_rows=len(rows),
        )
        return other

    def indexed(self) -> DenseGroup:
        """The same columns, which are not moved in memory for a layout."""
        self._natural_order()
        other = copy(self)
        vars(other).update(_indexed=True)
        return other

    def _with_squares(self) -> list[Array]:
        """T_p(x) of all p."""
        if self._plain_squares and len(self._powers) == 1:
            self._powers = [self._powers[0], self._powers[0] ** 2]
        return self._powers

    def arrange(self, layout: Layout) -> None:
        """Bring the columns in the layout's order, unless nothing is decided."""
        if self._indexed:
            return
        if len(layout.decided) and not np.array_equal(self._order, layout.order):
            step = np.argsort(self._order)[layout.order]
            self._powers = [power[step] for power in self._powers]
            self._order = layout.order

    def _standing(self, layout: Layout) -> tuple[Span | Array, Array]:
        """Where the undecided columns stand, and how they are ordered there."""
        H = len(layout.decided)
        if self._indexed and H:
            return layout.undecided, np.arange(len(layout.undecided))
        order = np.arange(len(layout.undecided)) if H else self._order
        return slice(H, None), order

    def shared_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over undecided columns of T(x) . weights; (S, n)."""
        out = np.zeros((layout.first[-1], self.n_rows), self.dtype)
        if len(layout.undecided):
            columns, order = self._standing(layout)
            self._add_score(out, weights.shared[:, :, order], columns)
        return out

    def add_part_score(self, out: Array, weights: Packed, layout: Layout, k: int) -> None:
        """Add the score of part k's own columns to ``out``, (J_k, n)."""
        columns = self._own(layout, k)
        if not len(columns):
            return
        own = weights.own[:, : len(out), layout.bounds[k] : layout.bounds[k + 1]]
        if self._plain_squares and len(own) == 3:
            linear, square = (np.ascontiguousarray(table) for table in own[1:])
            kernels.score_squares(self._powers[0], columns, linear, square, out)
            self._add_constant(out, own)
        else:
            self._add_score(out, own, self._span(columns))

    def _own(self, layout: Layout, k: int) -> Array:
        """Where part k's own columns stand."""
        lo, hi = layout.bounds[k], layout.bounds[k + 1]
        return layout.order[lo:hi] if self._indexed else np.arange(lo, hi)

    def _span(self, columns: Array) -> Span | Array:
        """The same columns, some, as a slice if they stand together."""
        return columns if self._indexed else slice(columns[0], columns[-1] + 1)

    @property
    def _plain_squares(self) -> bool:
        """Whether T(x) = (1, x, x^2) with nothing missing, for which there are compiled loops."""
        return self.complete and self.n_statistics == 3 and self._values is None

    def _add_score(self, out: Array, weights: Array, columns: Span | Array) -> None:
        # A model may ask for fewer powers than there are.
        for w, power in zip(weights[self.complete :], self._with_squares(), strict=False):
            out += w @ power[columns]
        if self.complete:
            self._add_constant(out, weights)

    def _add_constant(self, out: Array, weights: Array) -> None:
        out += weights[0].sum(axis=1, dtype=float).astype(self.dtype)[:, None]

    def shared_sums(self, m: Array, layout: Layout) -> Array:
        """Sums over rows of m T(x) of undecided columns; (P, S, U)."""
        out = np.empty((self.n_statistics, len(m), len(layout.undecided)))
        if len(layout.undecided):
            columns, order = self._standing(layout)
            if self.complete:
                out[0] = m.sum(axis=1, dtype=float)[:, None]
            sums = np.zeros_like(out)
            self._add_products(sums, m, columns)
            out[self.complete :][:, :, order] = sums[self.complete :]
        return out

    def _add_products(self, out: Array, m: Array, columns: Span | Array) -> None:
        """Add m T(x) to ``out``, some rows at a time: single precision sums few numbers well."""
        step = SUMMED_ROWS[self.dtype]
        for p, power in enumerate(self._with_squares(), self.complete):
            own = power[columns]
            for lo in range(0, self.n_rows, step):
                rows = slice(lo, lo + step)
                out[p] += m[:, rows] @ own[:, rows].T

    def part_sums(self, m: Array, layout: Layout, k: int) -> Array:
        """Sums over rows of m T(x) of part k's own columns; m is (J_k, n); (P, J_k, H_k)."""
        columns = self._own(layout, k)
        out = np.zeros((self.n_statistics, len(m), len(columns)))
        if len(columns) and self._plain_squares:
            kernels.collect_squares(self._powers[0], columns, m, out[1], out[2])
        elif len(columns):
            self._add_products(out, m, self._span(columns))
        if self.complete:
            out[0] = m.sum(axis=1, dtype=float)[:, None]
        return out

    @property
    def _higher(self) -> list[Array]:
        """T(x) beyond the 1 or mask: x, x^2, ..."""
        powers = self._with_squares()
        return powers if self.complete else powers[1:]

    @property
    def _numbers(self) -> Array:
        """x, the columns being in their natural order."""
        return self._higher[0] if self._values is None else self._values

    # Quadratic cousins of score and collect: they ask of an entry only whether it is there, so
    # rows that miss the same entries share them. Values per pattern are (Q, U).

    @property
    def patterns(self) -> Patterns:
        """Patterns of missing entries."""
        if self._patterns is None:
            mask = None if self.complete else self._natural_order()[0]
            self._patterns = Patterns.of(mask, self.n_rows)
        return self._patterns

    def pair_score(self, weights: Packed, layout: Layout) -> Array:
        """Sum over observed columns of weights (1, Q, D), for every pattern; (Q, U)."""
        masks, order = self._masks(layout)
        H = len(layout.decided)
        if masks is None:
            out = weights.shared[0].sum(axis=1, dtype=float).astype(self.dtype)[:, None]
        else:
            out = weights.shared[0][:, order] @ masks[H:]
        for k, (lo, hi) in enumerate(pairwise(layout.first)):
            at = slice(layout.bounds[k], layout.bounds[k + 1])
            own = weights.own[0, : hi - lo, at]
            if masks is None:
                out[lo:hi, 0] += own.sum(axis=1, dtype=float)
            elif own.size:
                out[lo:hi] += own @ masks[at]
        return out

    def pair_sums(self, values: Array, layout: Layout) -> Packed:
        """Adjoint of `pair_score`: sums over patterns (Q, U) of values where a column is there."""
        masks, order = self._masks(layout)
        H, J = len(layout.decided), max(layout.n_states)
        own = np.zeros((1, J, H))
        if masks is None:
            total = values.sum(axis=1, dtype=float)
            shared = np.repeat(total[None, :, None], len(layout.undecided), axis=2)
        else:
            shared = np.empty((1, len(values), len(layout.undecided)))
            shared[0][:, order] = values @ masks[H:].T
        for k, (lo, hi) in enumerate(pairwise(layout.first)):
            at = slice(layout.bounds[k], layout.bounds[k + 1])
            if masks is None:
                own[0, : hi - lo, at] = total[lo:hi, None]
            else:
                own[0, : hi - lo, at] = values[lo:hi] @ masks[at].T
        return Packed(own, shared)

    def _masks(self, layout: Layout) -> tuple[Array | None, Array]:
        """Masks of the patterns (D, U), None if nothing is missing; the undecided ones' order."""
        if not self.complete and self.patterns.masks is None:  # every row has its own
            self.arrange(layout)
            shown = self._powers[0][layout.order] if self._indexed else self._powers[0]
            return shown, self._standing(layout)[1]
        masks = None if self.complete else self.patterns.masks
        order = np.arange(len(layout.undecided))
        return (None if masks is None else masks[layout.order]), order

    def totals(self, weight: Array) -> Array:
        """Weighted sums of 1, x and x^2 over observed entries; (3, D)."""
        self._natural_order()
        x = self._numbers.astype(float)
        n = np.full(len(x), weight.sum()) if self.complete else self._powers[0] @ weight
        return np.stack([n, x @ weight, (x * x) @ weight])

    zero_value = None  # no entry is absent

    def entries(self, columns: Array, absent: bool = False) -> EntryList:
        """Observed entries of some columns."""
        powers = self._natural_order()
        values = self._numbers[columns].T
        if self.complete:
            indptr = np.arange(self.n_rows + 1) * len(columns)
            return EntryList(indptr, np.tile(columns, self.n_rows), values.ravel())
        seen = powers[0][columns].T > 0
        indptr = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
        return EntryList(indptr, columns[np.nonzero(seen)[1]], values[seen])

    # Selections of single entries: G is (K, D, n), 0 where an entry is missing.

    def _natural_order(self) -> list[Array]:
        back = np.argsort(self._order)
        if not np.array_equal(self._order, back) or np.any(np.diff(self._order) < 0):
            self._powers = [power[back] for power in self._powers]
            self._order = np.arange(len(back))
        return self._powers

    def spread(self, values: Array) -> Array:
        """Per-column values (K, D) at the entries, (K, D, n) or broadcastable to it."""
        self._natural_order()
        return values[:, :, None]

    def observed(self) -> Array:
        """1 where an entry is observed, broadcastable to (D, n)."""
        return np.ones((1, 1), self.dtype) if self.complete else self._natural_order()[0]

    def expected(self, m: Array, natural: Array, first: Array) -> Array:
        """Expected log density of every entry under each part's posterior; (K, D, n)."""
        powers = self._natural_order()
        K = len(first) - 1
        out = np.empty((K, *powers[0].shape), self.dtype)
        for k in range(K):
            part = slice(first[k], first[k + 1])
            eta = natural[:, part].astype(self.dtype)
            if self.complete:
                out[k] = eta[0].T @ m[part]
            else:
                out[k] = (eta[0].T @ m[part]) * powers[0]
            for p, power in enumerate(self._higher, 1):
                out[k] += (eta[p].T @ m[part]) * power
        return out

    def densities(self, natural: Array) -> Array:
        """T(x) . natural of every entry, for one state's natural parameters (P, D); (D, n)."""
        self._natural_order()
        eta = natural.astype(self.dtype)
        out = np.repeat(eta[0][:, None], self.n_rows, axis=1)
        for p, power in enumerate(self._higher, 1):
            out += eta[p][:, None] * power
        return out

    def score_selected(self, natural: Array, G: Array, first: Array) -> Array:
        """As `score`, every entry counted with its own weight in each part; (S, n)."""
        self._natural_order()
        out = np.empty((first[-1], self.n_rows), self.dtype)
        for k in range(len(G)):
            part = slice(first[k], first[k + 1])
            eta = natural[:, part].astype(self.dtype)
            out[part] = eta[0] @ G[k]
            for p, power in enumerate(self._higher, 1):
                out[part] += eta[p] @ (G[k] * power)
        return out

    def collect_selected(self, m: Array, G: Array, first: Array) -> Packed:
        """Adjoint of `score_selected`, all columns undecided."""
        powers = self._natural_order()
        D = len(powers[0])
        shared = np.empty((self.n_statistics, len(m), D))
        for k in range(len(G)):
            part = slice(first[k], first[k + 1])
            shared[0, part] = m[part] @ G[k].T
            for p, power in enumerate(self._higher, 1):
                shared[p, part] = m[part] @ (G[k] * power).T
        return Packed(np.zeros((self.n_statistics, 1, 0)), shared)

    def row_sums(self, values: Array) -> Array:
        """Sum of per-entry values (D, n) over each row's observed entries; (n,)."""
        return np.asarray((values * self.observed()).sum(axis=0, dtype=float))

    def sum_selected(self, G: Array, weight: Array) -> Array:
        """Weighted column sums of G; (K, D)."""
        return np.asarray(G @ weight, dtype=float)

    def additive(self) -> AdditiveRows:
        """The maps of models whose parts add up; only for T(x) that begins with (1, x)."""
        powers = self._natural_order()
        return AdditiveRows(self._higher[0], None if self.complete else powers[0])
