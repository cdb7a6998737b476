"""Rows that are not in memory: arrays on disk, files, and blocks from an iterable.

A store is a sequence of pieces, each with a name for errors, and reads some rows of a piece at a
time. It returns rows as they are stored; `partwise.data.rows` checks and converts them.
"""

from __future__ import annotations

import contextlib
import glob
import mmap
import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import IO, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise.contracts import Array, DType
from partwise.data.indices import check_indices, is_csr, load_sparse
from partwise.typing import Matrix, PathLike

SUFFIXES = (".npy", ".npz")

# Suffixes of files of tables: parquet, Arrow, text.
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
TEXT = (".csv", ".csv.gz", ".csv.zst", ".tsv")
TABLES = (*PARQUET, *ARROW, *TEXT)


# Type, mode, offset and shape of a memory map.
MemoryMap: TypeAlias = tuple[DType, Literal["r"], int, tuple[int, ...]]

# Reads rows lo to hi of a piece.
Reader: TypeAlias = Callable[[int, int], Matrix]


@dataclass(frozen=True)
class Piece:
    """Description of a piece before it is read; ``nnz`` is None for dense rows."""

    name: str
    n_rows: int
    n_columns: int
    dtype: DType
    nnz: int | None = None


@runtime_checkable
class Store(Protocol):
    """Pieces of rows, and their columns' names if they have any."""

    pieces: list[Piece]
    names: object  # with column names that scikit-learn can read, or None
    portable: bool  # whether workers of a cluster can read it by themselves

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows ``lo`` to ``hi`` of piece ``i``, dense or sparse."""
        ...

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of piece ``i``, in order."""
        ...


def _table_piece(name: str, X: Matrix) -> Piece:
    """A piece that is there already."""
    check_indices(X)
    if len(X.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(X.shape)}, but must be a table of rows.")
    dtype, nnz = np.dtype(X.dtype), int(X.nnz) if is_csr(X) else None
    return Piece(name, int(X.shape[0]), int(X.shape[1]), dtype, nnz)


class ArrayStore:
    """An array that is read in slices: a memory map, zarr, HDF5."""

    names: object = None

    def __init__(self, X: Matrix) -> None:
        self.X = X
        root = X  # of a memory map, the array of the whole file
        while isinstance(getattr(root, "base", None), np.ndarray):
            root = root.base
        self._root = cast("np.memmap[tuple[int, int], DType]", root)
        path = getattr(root, "filename", None)
        self._path = None if path is None else os.path.abspath(path)
        is_memory = isinstance(X, np.ndarray) or sparse.issparse(X)
        self.portable = bool(self._path and X.flags.c_contiguous) if is_memory else True
        whole = _table_piece("X", X)
        chunk = getattr(X, "chunks", None)
        step = int(chunk[0]) if chunk else max(whole.n_rows, 1)
        self._step = step
        self.pieces = [
            replace(
                whole,
                name=f"rows {i} to {min(i + step, whole.n_rows)}",
                n_rows=min(step, whole.n_rows - i),
            )
            for i in range(0, whole.n_rows, step)
        ]

    def _check_file(self) -> None:
        """Refuse a truncated file: reading its memory map would end the process."""
        if self._path is None or not os.path.exists(self._path):  # a mapped file can be taken away
            return
        needed, size = self._root.offset + self._root.nbytes, os.path.getsize(self._path)
        if size < needed:
            raise OSError(f"the file {self._path} has {size} bytes of {needed}")

    def __getstate__(self) -> dict[str, object]:
        if self._path is None:
            return self.__dict__
        address, root = (a.__array_interface__["data"][0] for a in (self.X, self._root))
        place = (self.X.dtype, "r", self._root.offset + address - root, self.X.shape)
        return {**self.__dict__, "X": place, "_root": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._path is not None:
            self.X = self._root = np.memmap(self._path, *cast(MemoryMap, state["X"]))

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of piece ``i``."""
        self._check_file()
        first = i * self._step
        rows = self.X[first + lo : first + hi]
        if self._path is not None and rows.flags.c_contiguous:
            self._fetch(rows)
        return rows if sparse.issparse(rows) else np.asarray(rows)

    def _fetch(self, rows: Array) -> None:
        """Let the system read mapped rows while other work is done."""
        address, root = (a.__array_interface__["data"][0] for a in (rows, self._root))
        page = mmap.ALLOCATIONGRANULARITY  # at which numpy begins to map, too
        place = self._root.offset % page + address - root
        with contextlib.suppress(OSError, ValueError, AttributeError):  # only a hint
            begin = place - place % page
            cast(mmap.mmap, self._root.base).madvise(
                mmap.MADV_WILLNEED, begin, place - begin + rows.nbytes
            )

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of piece ``i``."""
        if isinstance(self.X, np.ndarray) or sparse.issparse(self.X):
            self._check_file()
            return self.X[i * self._step + rows]
        lo = int(rows[0])
        return self.read(i, lo, int(rows[-1]) + 1)[rows - lo]


class FileStore:
    """Files of npy and npz (one dense array, or what scipy's ``save_npz`` writes).

    An npy file is read by rows; an npz file is read whole, and the last one is kept.
    """

    portable = True

    def __init__(self, paths: list[Path]) -> None:
        self.names: object = None
        self.pieces: list[Piece] = []
        self._readers: list[Reader] = []
        self._last: tuple[object, Matrix | None] = (None, None)
        for path in paths:
            try:
                found = _OPENERS[path.suffix.lower()](self, path)
            except UNREADABLE as error:
                raise OSError(f"{path} could not be read as {path.suffix} ({error}).") from error
            for piece, reader in found:
                self.pieces.append(piece)
                self._readers.append(reader)

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of a file, or of a row group."""
        return self._readers[i](lo, hi)

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of a file, read from the first to the last of them."""
        lo = int(rows[0])
        return self.read(i, lo, int(rows[-1]) + 1)[rows - lo]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": (None, None)}

    def held(self, key: object, load: Callable[[], Matrix]) -> Matrix:
        """The result of ``load``, kept until another key is requested."""
        last = self._last
        if last[0] != key:
            last = self._last = (key, load())
        return last[1]

    def open_npy(self, path: Path) -> Iterator[tuple[Piece, Reader]]:
        """One piece, read without a memory map, so that a truncated file is an error."""
        with open(path, "rb") as file:
            shape, columns_first, dtype = _header(file)
            offset = file.tell()
        n_rows, n_columns = _table_shape(shape, dtype)
        if columns_first:
            yield Piece(str(path), n_rows, n_columns, dtype), _Held(self, path, None)
        else:
            reader = _RowsOfFile(path, offset, n_columns, dtype)
            yield Piece(str(path), n_rows, n_columns, dtype), reader

    def open_npz(self, path: Path) -> Iterator[tuple[Piece, Reader]]:
        """One piece: a scipy sparse matrix, or the only array of the file."""
        with zipfile.ZipFile(path) as archive:
            headers = {}
            for member in archive.namelist():
                with archive.open(member) as file:
                    headers[member.removesuffix(".npy")] = _header(file)
            if {"data", "shape", "format"} <= set(headers):
                with archive.open("shape.npy") as file:
                    n_rows, n_columns = np.lib.format.read_array(file)
                (nnz,), _, dtype = headers["data"]
                piece = Piece(str(path), int(n_rows), int(n_columns), dtype, nnz)
                yield piece, _Held(self, path, None)
                return
        if len(headers) != 1:
            raise ValueError(
                f"it holds {len(headers)} arrays ({', '.join(headers)}) instead of one"
            )
        ((name, (shape, _, dtype)),) = headers.items()
        n_rows, n_columns = _table_shape(shape, dtype)
        yield Piece(str(path), n_rows, n_columns, dtype), _Held(self, path, name)


@dataclass(frozen=True)
class _RowsOfFile:
    """Reads consecutive rows of a file."""

    path: Path
    offset: int
    n_columns: int
    dtype: DType

    def __call__(self, lo: int, hi: int) -> Array:
        count, width = (hi - lo) * self.n_columns, self.n_columns * self.dtype.itemsize
        X = np.fromfile(self.path, self.dtype, count, offset=self.offset + lo * width)
        if len(X) < count:
            raise OSError(f"the file ends before row {hi}")
        return X.reshape(-1, self.n_columns)


@dataclass(frozen=True)
class _Held:
    """Reads rows of a part that is loaded whole and kept until another is loaded."""

    store: FileStore
    path: Path
    part: str | int | None

    def __call__(self, lo: int, hi: int) -> Matrix:
        return self.store.held((self.path, self.part), self._load)[lo:hi]

    def _load(self) -> Matrix:
        if self.part is None and self.path.suffix.lower() == ".npz":
            return load_sparse(self.path)
        if self.part is None:
            return np.load(self.path)
        with np.load(self.path) as file:
            return file[self.part]


class BlockStore:
    """Blocks of an iterable that can be iterated repeatedly, in its order.

    ``again()`` starts an iteration. The first one runs at once, to learn the sizes of the blocks.
    """

    names: object = None
    portable = False

    def __init__(self, again: Callable[[], Iterable[ArrayLike]]) -> None:
        self._again = again
        self.pieces = [_table_piece(f"block {i}", as_table(b)) for i, b in enumerate(again())]
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._walk: Iterator[ArrayLike] = iter(())
        self._at = len(self.pieces)
        self._block: Matrix | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_again": self._again, "pieces": self.pieces}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._reset()

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of block ``i``; those before it are skipped."""
        with self._lock:
            if i < self._at:
                self._walk, self._at = iter(self._again()), -1
            while self._at < i:
                block = next(self._walk, None)
                if block is None:
                    raise ValueError(
                        "it was there in the first iteration and is missing in this one; pass a "
                        "list, or a function that returns a new iterator"
                    )
                self._at, self._block = self._at + 1, as_table(block)
            assert self._block is not None
            return self._block[lo:hi]

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of block ``i``."""
        return self.read(i, 0, self.pieces[i].n_rows)[rows]


class SomeRows:
    """Some rows of a store, ascending numbers ``which``."""

    portable = False

    def __init__(self, store: Store, which: Array) -> None:
        self.store, self.names = store, store.names
        ends = np.cumsum([piece.n_rows for piece in store.pieces])
        starts = np.concatenate([[0], ends[:-1]])
        cuts = np.searchsorted(which, ends)
        self._parts, self.pieces = [], []
        for i, own in enumerate(np.split(which, cuts[:-1])):
            if len(own):
                self._parts.append((i, own - starts[i]))
                piece = store.pieces[i]
                share = None if piece.nnz is None else piece.nnz * len(own) // piece.n_rows
                self.pieces.append(replace(piece, n_rows=len(own), nnz=share))

    def chosen(self, i: int, lo: int, hi: int) -> tuple[int, Array]:
        """Piece of the store, and its rows, that are rows ``lo`` to ``hi`` of this piece."""
        piece, rows = self._parts[i]
        return piece, rows[lo:hi]

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows ``lo`` to ``hi`` of those chosen of a piece."""
        piece, rows = self.chosen(i, lo, hi)
        first = int(rows[0])
        return self.store.read(piece, first, int(rows[-1]) + 1)[rows - first]

    def take(self, i: int, rows: Array) -> Matrix:
        """Some of those chosen of a piece."""
        piece, own = self._parts[i]
        return self.store.take(piece, own[rows])


class MappedRows:
    """Rows of a store through a function, which gives ``n_columns`` columns."""

    portable = False

    def __init__(self, store: Store, function: Callable[[Matrix], Matrix], n_columns: int) -> None:
        self.store, self.function = store, function
        self.names: object = None
        self.pieces = [replace(piece, n_columns=n_columns) for piece in store.pieces]

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of piece ``i``."""
        return self.function(self.store.read(i, lo, hi))

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of piece ``i``."""
        return self.function(self.store.take(i, rows))


def read_piece(store: Store, i: int, read: Callable[[], Matrix]) -> Matrix:
    """The result of ``read`` for piece ``i``, which errors name."""
    try:
        return read()
    except UNREADABLE as error:
        name = f"Block {i} of X ({store.pieces[i].name})"
        raise OSError(f"{name} could not be read: {str(error).rstrip('.')}.") from error


def as_table(block: object) -> Matrix:
    """A block as an array or CSR."""
    check_indices(block)
    return block.tocsr() if is_csr(block) else np.asarray(block)


def find_files(where: PathLike | Iterable[PathLike]) -> list[Path]:
    """Files named by a path, a folder, a pattern (in the order of names), or a list of them."""
    if not isinstance(where, str | os.PathLike):
        return [path for one in where for path in find_files(one)]
    text = os.fspath(where)
    path = Path(text)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.name.lower().endswith((*SUFFIXES, *TABLES)))
    elif path.exists():
        found = [path]
    else:
        found = [Path(p) for p in sorted(glob.glob(text))]
    if not found:
        raise FileNotFoundError(
            f"{text} matches no file; give a file, a folder of files or a pattern "
            f"({', '.join((*SUFFIXES, *TABLES))})."
        )
    for one in found:
        if not one.name.lower().endswith((*SUFFIXES, *TABLES)):
            known = ", ".join((*SUFFIXES, *TABLES))
            raise ValueError(f"{one} has another suffix than {known}.")
    return found


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, DType]:
    """Shape, order and type of an npy file, whose numbers come next."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
        version, np.lib.format.read_array_header_2_0
    )
    return read(file)


def _table_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, int]:
    if dtype.hasobject or len(shape) != 2:
        raise ValueError(f"it holds {dtype} of shape {shape}, not a table of numbers")
    return shape[0], shape[1]


def optional(module: str, what: str, install: str = "'partwise[dask]'") -> ModuleType:
    """A module of an optional package."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{what} need {package}: pip install {install}.") from error


@contextlib.contextmanager
def panics_as_errors() -> Iterator[None]:
    """Raise a panic of polars' compiled code, which is no Exception, as a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error) or "polars failed") from error


# Errors of reading a damaged or deleted file; those of pyarrow are among them.
UNREADABLE = (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile)

_OPENERS: dict[str, Callable[[FileStore, Path], Iterator[tuple[Piece, Reader]]]] = {
    ".npy": FileStore.open_npy,
    ".npz": FileStore.open_npz,
}
