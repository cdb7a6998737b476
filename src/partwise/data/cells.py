"""Observed cells of a table, so that cells instead of rows can be held out.

scikit-learn's searches index `ObservedCells`; `partwise.data.cell_folds` has the folds.

A cell is an observed entry. Held out of a fit it is missing there; it is then judged by how likely
the model finds it given the row's other cells. Rows cannot be held out so: a new row says nothing
about how well the missing values of a row are imputed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from partwise.contracts import Array
from partwise.data.columns import ColumnGroup
from partwise.data.frames import as_numbers, index_of, is_pandas
from partwise.data.indices import is_csr
from partwise.typing import DataLike, Frame, Matrix, RowIndex


class ObservedCells:
    """Observed cells of a table, in place of its rows.

    As X of `fit` it is the table with these cells alone, the others missing. As X of `score` it
    asks for the mean log predictive density of these cells, each given its row's others. Indexing
    chooses among the cells; what is not chosen are then the others.

    Parameters
    ----------
    X : array-like, DataFrame or sparse of shape (C, D)
        NaN is missing.
    sparse_absent : {"unobserved", "zero"}, default="unobserved"
        What an entry that sparse X does not store means. "zero" (counts) makes a dense table: a
        zero that is held out must have a place.

    Attributes
    ----------
    shape : tuple
        (number of cells,)
    rows, columns, values : ndarray of shape (number of cells,)

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import ObservedCells
    >>> table = ObservedCells([[1.0, np.nan], [2.0, 3.0]])
    >>> len(table)
    3
    >>> table[[0, 2]].table()
    array([[ 1., nan],
           [nan,  3.]])
    """

    def __init__(self, X: DataLike, sparse_absent: str = "unobserved") -> None:
        if sparse_absent not in ("unobserved", "zero"):
            raise ValueError(f'sparse_absent={sparse_absent!r} must be "unobserved" or "zero".')
        self._frame = X.iloc[:0] if is_pandas(X) else None  # its type and columns
        self._index = index_of(X)
        if is_csr(X) and sparse_absent == "unobserved":
            table = X.tocsr()
            if not table.has_canonical_format:
                table = table.copy()
                table.sum_duplicates()
        else:
            table = np.asarray(as_numbers(X.toarray() if is_csr(X) else X))
            table = table if table.dtype == np.float32 else table.astype(np.float64, copy=False)
        if table.ndim != 2:
            raise ValueError(f"X must be a table of rows and columns, but has shape {table.shape}.")
        self._X: Matrix = table
        # Places in the values of all cells, and of the chosen ones.
        self._known = self._chosen = np.flatnonzero(~np.isnan(self._values))

    @property
    def _values(self) -> Array:
        """All stored values."""
        return self._X.data if is_csr(self._X) else self._X.reshape(-1)

    @property
    def shape(self) -> tuple[int]:
        """Number of cells, as of samples."""
        return (len(self._chosen),)

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return int(self._X.shape[0])

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, key: RowIndex | tuple[RowIndex, ...]) -> ObservedCells:
        if isinstance(key, tuple):  # scikit-learn asks for cells[key, ...]
            key = key[0]
        return self._with(self._chosen, np.atleast_1d(self._chosen[key]))

    def __repr__(self) -> str:
        C, D = self._X.shape
        return f"<{len(self)} cells of a table of {C} x {D}>"

    @property
    def rows(self) -> Array:
        """Row of each cell."""
        if is_csr(self._X):
            return np.searchsorted(self._X.indptr, self._chosen, side="right") - 1
        return self._chosen // self._X.shape[1]

    @property
    def columns(self) -> Array:
        """Column of each cell."""
        if is_csr(self._X):
            return self._X.indices[self._chosen].astype(np.int64)
        return self._chosen % self._X.shape[1]

    @property
    def values(self) -> Array:
        """Value of each cell."""
        return self._values[self._chosen]

    @property
    def is_sparse(self) -> bool:
        """Whether the table is sparse, so that cells it does not store are missing."""
        return bool(is_csr(self._X))

    def others(self) -> ObservedCells:
        """The cells that were not chosen."""
        return self._with(self._known, np.setdiff1d(self._known, self._chosen))

    def table(self) -> Matrix | Frame:
        """The table with only these cells, of X's kind: the others are NaN, or not stored."""
        X = self._X
        if is_csr(X):
            kept = np.zeros(len(X.data), bool)
            kept[self._chosen] = True
            indptr = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
            return type(X)((X.data[kept], X.indices[kept], indptr), shape=X.shape)
        out = np.full(X.shape, np.nan, X.dtype)
        out.reshape(-1)[self._chosen] = self.values
        if self._frame is None:
            return out
        return type(self._frame)(out, columns=self._frame.columns, index=self._index)

    def _with(self, known: Array, chosen: Array) -> ObservedCells:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _known=known, _chosen=chosen)
        return other


def check_cells(
    shape: tuple[int, int], rows: ArrayLike, columns: ArrayLike, values: ArrayLike
) -> tuple[Array, Array, Array]:
    """Places and values of single cells of a table of that shape."""
    row, column = (column_or_1d(np.asarray(places)) for places in (rows, columns))
    value = column_or_1d(np.asarray(as_numbers(values, "values"), dtype=float))
    check_consistent_length(row, column, value)
    for name, places, most in (("rows", row, shape[0]), ("columns", column, shape[1])):
        whole = np.issubdtype(places.dtype, np.integer) or len(places) == 0
        if not whole or np.any((places < 0) | (places >= most)):
            raise ValueError(f"{name} must hold whole numbers from 0 to {most - 1}, X's {name}.")
    if not np.isfinite(value).all():
        raise ValueError("values must be finite; leave out cells that are missing.")
    return row.astype(np.int64), column.astype(np.int64), value


class CellsOfGroup(NamedTuple):
    """Some cells of one block and column group, coded in model units."""

    group: int
    which: Array  # numbers among all cells asked for
    rows: Array  # in the block
    columns: Array  # in the group
    values: Array


def cells_of_block(
    groups: tuple[ColumnGroup, ...],
    bounds: tuple[int, int],
    row: Array,
    column: Array,
    value: Array,
) -> Iterator[CellsOfGroup]:
    """The cells that lie in a block of rows, group by group; ``row`` must be in order."""
    lo, hi = np.searchsorted(row, bounds)
    for g, group in enumerate(groups):
        place = np.full(max(int(group.index.max()), int(column.max(initial=0))) + 1, -1)
        place[group.index] = np.arange(len(group.index))
        d = place[column[lo:hi]]
        which = lo + np.flatnonzero(d >= 0)
        if len(which):
            d = d[d >= 0]
            coded = group.encode(value[which], d)
            yield CellsOfGroup(g, which, row[which] - bounds[0], d, coded)
