"""Rows that are read when they are needed, so that memory depends on blocks, not on the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise.contracts import Array, DType
from partwise.data.frames import frame_of
from partwise.data.indices import check_indices, is_csr
from partwise.data.stores import (
    ArrayStore,
    BlockStore,
    FileStore,
    MappedRows,
    SomeRows,
    Store,
    find_files,
    optional,
    read_piece,
)
from partwise.typing import DataLike, Matrix, OnRows, PathLike, RowIndex

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame as DaskFrame

    from partwise.data.frame_sources import Frames

Found = TypeVar("Found")
Given = TypeVar("Given")

# Checked rows, in memory or not.
Rows: TypeAlias = "Matrix | RowSource"

# Rows are checked in pieces of this many numbers, so that no copy of the data is made.
CHUNK_CELLS = 1 << 20

# Methods work on stretches of so many bytes, which are several blocks for every thread.
STRETCH_BYTES = 64 << 20


class RowSource:
    """Rows outside of memory, or in blocks; X of `fit` and of all methods that take rows.

    Only the rows in use are read. The fitted model is the same for one array, files or blocks.

    Parameters
    ----------
    data : array, Dask collection, path-like, Arrow stream, LazyFrame, list or callable
        An array that is read in slices (numpy.memmap, zarr, HDF5); a Dask array or dataframe; a
        file (.npy, .npz with one array or a scipy sparse matrix, .zarr, .parquet, .arrow, .csv,
        .csv.gz, .csv.zst), a folder of such files or a pattern, in the order of their names, or a
        list of them; a polars LazyFrame, a pyarrow Dataset, or an object with the Arrow PyCapsule
        stream interface; blocks of rows (arrays, scipy sparse or frames) that can be iterated
        repeatedly: a list, any iterable that is not its own iterator, or a function that returns a
        new iterator.

    Attributes
    ----------
    shape : tuple
        (C, D)
    dtype : dtype
        float32 if all of the data are, else float64.
    is_sparse : bool
    nnz : int or None
        Stored entries, if sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import MCVQ, RowSource, make_shapes
    >>> X = make_shapes().data
    >>> blocks = RowSource(lambda: (X[i : i + 100] for i in range(0, len(X), 100)))
    >>> blocks.shape == X.shape
    True
    >>> model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(blocks)
    >>> model.predict_states(blocks).shape
    (729, 3)
    """

    def __init__(self, data: DataLike | Store | Callable[[], Iterable[ArrayLike]]) -> None:
        self.store: Store = data if isinstance(data, Store) else _open(data)
        self._learn()

    def _learn(self) -> None:
        """Shape and type from the pieces, which must be consistent."""
        pieces = self.store.pieces
        if sum(piece.n_rows for piece in pieces) == 0:
            raise ValueError("X has no rows: the source is empty; give at least one block of rows.")
        widths = np.array([piece.n_columns for piece in pieces])
        other = np.flatnonzero(widths != widths[0])
        if len(other):
            one, first = pieces[other[0]], pieces[0]
            raise ValueError(
                f"X: {one.name} has {one.n_columns} columns, but {first.name} has "
                f"{first.n_columns}; all blocks must have the same columns."
            )
        kinds = {piece.nnz is None for piece in pieces}
        if len(kinds) > 1:
            raise ValueError(
                "X mixes dense and sparse blocks, in which an absent entry means different things; "
                "make all of them of one kind."
            )
        for piece in pieces:
            if piece.dtype.kind not in "biuf":
                raise ValueError(f"X: {piece.name} holds {piece.dtype}, but must hold numbers.")
        # Rows at which pieces begin, then C.
        self.edges = np.concatenate([[0], np.cumsum([piece.n_rows for piece in pieces])])
        self.shape = (int(self.edges[-1]), int(widths[0]))
        single = all(piece.dtype == np.float32 for piece in pieces)
        self.dtype: DType = np.dtype(np.float32 if single else np.float64)
        self.is_sparse = pieces[0].nnz is not None
        self.nnz = sum(piece.nnz or 0 for piece in pieces) if self.is_sparse else None

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.shape[0] * self.shape[1]

    @property
    def names(self) -> object:
        """An object with column names that scikit-learn can read, or None."""
        return self.store.names

    @property
    def frames(self) -> Frames | None:
        """The table itself, if it consists of frames."""
        return getattr(self.store, "frames", None)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"<{kind} rows {self.shape} of {self.dtype} in {len(self.edges) - 1} pieces>"

    def rows_per_block(self, in_memory: int) -> int:
        """Rows of a block, given those of rows in memory."""
        return in_memory

    def piece_of(self, row: int) -> int:
        """Number of the piece that contains a row."""
        return int(np.searchsorted(self.edges, row, side="right")) - 1

    def where(self, lo: int, hi: int | None = None) -> str:
        """Name of the piece that contains a row, or of all up to another row, for errors."""
        i = self.piece_of(lo)
        last = i if hi is None else self.piece_of(hi - 1)
        if last > i:
            return f"Blocks {i} to {last} of X"
        return f"Block {i} of X ({self.store.pieces[i].name})"

    def raise_named(self, lo: int, hi: int, function: Callable[[int, int], object]) -> None:
        """Call ``function`` piece by piece between two rows; its first error gets the name."""
        edges = [lo, *self.edges[(self.edges > lo) & (self.edges < hi)], hi]
        for a, b in pairwise(edges):
            try:
                function(int(a), int(b))
            except ValueError as error:
                raise ValueError(f"{self.where(a)}: {error}") from error

    def some(self, kept: Array) -> RowSource:
        """The rows that a mask selects."""
        return RowSource.of(SomeRows(self.store, np.flatnonzero(kept)))

    def some_columns(self, which: Array) -> RowSource:
        """Some of the columns."""
        return self.mapped(lambda rows: rows[:, which], len(which))

    def mapped(self, function: Callable[[Matrix], Matrix], n_columns: int) -> RowSource:
        """The rows through a function, which gives ``n_columns`` columns."""
        return RowSource.of(MappedRows(self.store, function, n_columns))

    @staticmethod
    def of(store: Store) -> RowSource:
        """The rows of a store."""
        return RowSource(store)

    def check(self, *, absent_zero: bool) -> None:
        """Read all rows once: values must be finite, and every piece needs observed values."""
        seen = np.concatenate(list(map_rows(self, _check_rows)))
        for lo, hi in pairwise(self.edges):
            if hi > lo and not (absent_zero and self.is_sparse) and not seen[lo:hi].any():
                raise ValueError(
                    f"{self.where(lo)} has only missing values; leave it out, or check how it was "
                    "written."
                )

    def __getitem__(self, key: RowIndex) -> Matrix:
        """Rows in memory: a slice without steps, numbers or a mask."""
        if isinstance(key, slice):
            lo, hi, _ = key.indices(self.shape[0])
            parts = [
                self._read(i, b - a, partial(self.store.read, i, a, b))
                for i, a, b in self.within(lo, hi)
            ]
            return joined_rows(parts)
        key = np.asarray(key)
        key = np.flatnonzero(key) if key.dtype == bool else key
        rows, back = np.unique(key, return_inverse=True)
        owner = np.searchsorted(self.edges, rows, side="right") - 1
        parts = []
        for i in np.unique(owner).tolist():
            own = rows[owner == i] - self.edges[i]
            parts.append(self._read(i, len(own), partial(self.store.take, i, own)))
        return joined_rows(parts)[back]

    def _read(self, i: int, n_rows: int, read: Callable[[], Matrix]) -> Matrix:
        """The result of ``read`` for piece ``i``, checked and of the right type."""
        X = read_piece(self.store, i, read)
        return converted(X, (n_rows, self.shape[1]), self.dtype, self.where(self.edges[i]))

    def within(self, lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
        """Pieces, and the bounds of their rows, that make up rows ``lo`` to ``hi``."""
        for i in range(self.piece_of(lo), len(self.edges) - 1):
            begin = int(self.edges[i])
            a, b = max(lo - begin, 0), min(hi, int(self.edges[i + 1])) - begin
            if b > a:
                yield i, a, b
            if begin + b >= hi:
                return


def converted(X: Matrix, shape: tuple[int, int], dtype: DType, name: str) -> Matrix:
    """Rows of block ``name`` in their type; their shape must be the one seen at first."""
    if X.shape != shape:
        raise ValueError(
            f"{name} has rows of shape {X.shape} where it had {shape} at first; do not change the "
            "data while they are in use."
        )
    check_indices(X)
    X = X.astype(dtype, copy=False)
    if is_csr(X) and not X.has_canonical_format:
        X.sum_duplicates()
    return X


def joined_rows(parts: list[Matrix]) -> Matrix:
    """Dense or sparse rows one after the other."""
    if len(parts) == 1:
        return parts[0]
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def _open(data: object) -> Store:
    """The store for the data of a user."""
    from partwise.data.dask import DaskStore, is_dask
    from partwise.data.frame_sources import FrameStore, open_frames

    if is_dask(data):
        return DaskStore(cast("DaskArray | DaskFrame", data))
    if isinstance(data, str | os.PathLike) and _is_zarr(Path(data)):
        return ArrayStore(optional("zarr", "zarr arrays").open_array(os.fspath(data), mode="r"))
    frames = open_frames(data)
    if frames is not None:
        return FrameStore(frames)
    if isinstance(data, str | os.PathLike) or _all_paths(data):
        return FileStore(find_files(cast(PathLike, data)))
    if hasattr(data, "shape") and not isinstance(data, list | tuple):
        check_indices(data)
        return ArrayStore(data.tocsr() if is_csr(data) else cast(Matrix, data))
    if callable(data):
        return BlockStore(data)
    if not isinstance(data, Iterable):
        raise TypeError(f"X must be rows, files or blocks of rows, but is {type(data).__name__}.")
    if iter(data) is data:
        raise ValueError(
            "X can be iterated only once, but fit reads it many times; pass a list of blocks, or a "
            "function that returns a new iterator."
        )
    return BlockStore(lambda: data)


def _is_zarr(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in ("zarr.json", ".zarray"))


def _all_paths(data: object) -> bool:
    if not isinstance(data, list | tuple) or not data:
        return False
    return all(isinstance(one, str | os.PathLike) for one in data)


def out_of_memory(X: Given) -> Given | RowSource:
    """X as `RowSource` where it is not in memory, else X itself."""
    from partwise.data.dask import is_dask
    from partwise.data.frame_sources import is_stream

    if is_dask(X):
        return RowSource(X)
    if isinstance(X, str | os.PathLike | np.memmap) or _all_paths(X):
        return RowSource(X)
    if type(X).__name__ == "LazyFrame" or (is_stream(X) and not hasattr(X, "shape")):
        return RowSource(X)
    if isinstance(X, list | tuple):
        tables = [sparse.issparse(b) or frame_of(b) != "array" or _is_matrix(b) for b in X]
        return RowSource(X) if tables and all(tables) else X
    if type(X).__module__.partition(".")[0] in ("zarr", "h5py"):
        return RowSource(X)
    if callable(X) or isinstance(X, Iterator):
        return RowSource(X)
    plain = hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__")
    return RowSource(X) if isinstance(X, Iterable) and not plain else X


def _is_matrix(X: object) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2


def is_sparse(X: object) -> TypeGuard[sparse.csr_array]:
    """Whether rows are sparse, in memory or not."""
    return bool(sparse.issparse(X) or getattr(X, "is_sparse", False))


def in_memory(X: Rows) -> Matrix:
    """All rows as an array or CSR."""
    return X[:] if isinstance(X, RowSource) else X


def check_finite(values: Array) -> None:
    """Refuse infinite values."""
    if np.isinf(values).any():
        raise ValueError(
            "Input X contains infinity or a value too large for its dtype; replace such entries by "
            "NaN to treat them as missing."
        )


def _check_rows(rows: Matrix) -> Array:
    """Which rows have an observed entry; values must be finite."""
    values = rows.data if is_csr(rows) else rows
    check_finite(values)
    if not is_csr(rows):
        return np.asarray(~np.isnan(rows).all(axis=1))
    row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.bincount(row_of, ~np.isnan(values), minlength=rows.shape[0]) > 0


def cut(X: Rows, max_rows: int) -> list[tuple[int, int]]:
    """Bounds of blocks of at most so many rows; a piece is divided, or is part of one block.

    So no piece that has to be read whole is read for two blocks that are not adjacent.
    """
    cuts = [0]
    for lo, hi in pairwise(X.edges if isinstance(X, RowSource) else [0, X.shape[0]]):
        if hi - cuts[-1] <= max_rows:
            continue
        if lo > cuts[-1]:
            cuts.append(lo)
        cuts += range(cuts[-1] + max_rows, hi, max_rows)
    return list(pairwise([*cuts, X.shape[0]]))


def map_rows(X: Rows, function: OnRows[Found], *aligned: Array) -> Iterator[Found]:
    """``function(rows, *aligned values)`` of all rows, some of them at a time, in order.

    ``aligned`` holds values of every row, such as weights. An error in a block names the block.
    """
    if hasattr(X, "map_rows"):
        yield from X.map_rows(function, *aligned)
        return
    cells = X.shape[1]
    if is_sparse(X):
        cells = max(X.nnz // max(X.shape[0], 1), 1)
    for lo, hi in cut(X, max(CHUNK_CELLS // max(cells, 1), 1)):
        rows = X[lo:hi]
        try:
            yield function(rows, *(values[lo:hi] for values in aligned))
        except ValueError:
            if isinstance(X, RowSource):
                X.raise_named(lo, hi, lambda a, b: function(X[a:b], *(v[a:b] for v in aligned)))
            raise


def read_ahead(X: RowSource) -> Iterator[tuple[int, int, Matrix]]:
    """Bounds and rows of stretches of X, the next one read while this one is used."""
    width = X.shape[1] * X.dtype.itemsize
    bounds = cut(X, max(STRETCH_BYTES // max(width, 1), 1))
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(X.__getitem__, slice(*bounds[0]))]
        for (lo, hi), after in zip(bounds, [*bounds[1:], None], strict=True):
            rows = coming.pop().result()
            if after is not None:
                coming.append(reader.submit(X.__getitem__, slice(*after)))
            yield lo, hi, rows
