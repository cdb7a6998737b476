"""Tables that are not in memory, as a sequence of frames: files, Arrow streams, Dask, iterables.

`Frames` reads one piece at a time: a row group of a parquet file, a record batch of an Arrow file,
a partition of a Dask dataframe, a frame of an iterable. What cannot be read in pieces repeatedly
(CSV text, query results, lazy frames) is copied once to a temporary Arrow file, which is deleted
with the object.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from partwise._text import reason_of
from partwise.contracts import Array
from partwise.data.dask import is_dask
from partwise.data.frames import as_numbers, frame_of, names_of, select
from partwise.data.rows import RowSource, cut, out_of_memory
from partwise.data.stores import (
    PARQUET,
    TABLES,
    TEXT,
    UNREADABLE,
    Piece,
    find_files,
    optional,
    panics_as_errors,
)
from partwise.data.table import Schema
from partwise.typing import Frame, Matrix, Name, PathLike

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from dask.array import Array as DaskArray
    from dask.dataframe import DataFrame as DaskFrame

# Rows of a record batch in temporary files, and cells of a piece of an array.
BATCH_ROWS = 1 << 17
BATCH_CELLS = 1 << 20


@dataclass(frozen=True)
class FramePiece:
    """Some rows that are read together, with a name for errors."""

    name: str
    n_rows: int
    stamp: tuple[int, int] | None = None  # size and time of change of the file it is from


class Frames(Protocol):
    """A table as a sequence of frames with the same columns."""

    pieces: list[FramePiece]
    names: list[Name]
    single: bool  # whether all columns are float32

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """Piece ``i``, with some of the columns if given."""
        ...


# --- sources of frames ---


class ArrowFiles:
    """Row groups of parquet files and record batches of Arrow files, as polars frames."""

    def __init__(self, paths: Sequence[Path], copy_of: Path | str | None = None) -> None:
        self.pieces: list[FramePiece] = []
        self.names: list[Name] = []
        self._places: list[tuple[Path, int]] = []
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._keep: object = None
        self._copy_of = copy_of  # a file or another source, of which the only path is a copy
        self.single = True
        for path in paths:
            self._add(path)
        if not self._places and copy_of is None:
            raise ValueError(f"{paths[0]} has no rows; give files with at least one row.")

    def _add(self, path: Path) -> None:
        text = str(self._copy_of or path)
        try:
            schema, sizes = _describe_file(path)
            names = list(schema.names)
        except (*UNREADABLE, MemoryError) as error:  # a damaged size may be any
            raise OSError(
                f"{text} could not be read as {path.suffix} ({reason_of(error)}); write it "
                "again, or leave it out."
            ) from error
        self.names = self.names or names
        self.single &= {str(kind) for kind in schema.types} == {"float"}
        known = set(self.names)
        for other, where in ((known - set(names), "lacks"), (set(names) - known, "has")):
            if other:
                one = min(map(str, other))
                raise ValueError(
                    f"{text} {where} the column {one!r}, unlike {next(iter(self._stamps))}; give "
                    "files with the same columns."
                )
        self._stamps[path] = _stamp(path)
        source = self._copy_of or path
        stamp = _stamp(source) if isinstance(source, Path) else None
        for g, n_rows in enumerate(sizes):
            if n_rows:
                unit = "row group" if path.suffix in PARQUET else "batch"
                name = text if len(sizes) == 1 else f"{text}, {unit} {g}"
                self.pieces.append(FramePiece(name, n_rows, stamp))
                self._places.append((path, g))

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """A row group or a batch."""
        import polars as pl

        path, g = self._places[i]
        if _stamp(path) != self._stamps[path]:
            raise OSError("the file has changed since it was opened; fit again")
        names = [str(name) for name in (self.names if columns is None else columns)]
        if path.suffix in PARQUET:
            parquet = optional("pyarrow.parquet", "parquet files")
            with parquet.ParquetFile(path) as file:
                table = file.read_row_group(g, columns=names, use_threads=False)
        else:
            arrow = optional("pyarrow", "Arrow files")
            with arrow.memory_map(str(path)) as source:
                batch = arrow.ipc.open_file(source).get_batch(g)
                table = arrow.Table.from_batches([batch.select(names)])
        table.validate(full=True)  # polars trusts the places of texts, and codes of levels
        with panics_as_errors():
            return cast(pl.DataFrame, pl.from_arrow(table)).select(names)


def unreadable(name: str, error: Exception) -> OSError:
    """The error for a piece that could be read before, or should be."""
    said = reason_of(error)
    advice = "" if ";" in said else "; restore the source, and call again"
    return OSError(f"{name} could not be read: {said}{advice}.")


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _describe_file(path: Path) -> tuple[pa.Schema, list[int]]:
    """Columns, and the rows of each row group or batch."""
    if path.suffix in PARQUET:
        parquet = optional("pyarrow.parquet", "parquet files")
        with parquet.ParquetFile(path) as file:
            groups = range(file.num_row_groups)
            return file.schema_arrow, [file.metadata.row_group(g).num_rows for g in groups]
    arrow = optional("pyarrow", "Arrow files")
    with arrow.memory_map(str(path)) as source:
        reader = arrow.ipc.open_file(source)
        batches = range(reader.num_record_batches)
        return reader.schema, [reader.get_batch(g).num_rows for g in batches]


def _named_frames(again: Callable[[], Iterable[Frame]]) -> Iterator[Frame]:
    """The frames; an error of the iterable, such as a lost connection, gets the frame's name."""
    walk = iter(again())
    for i in count():
        try:
            frame = next(walk, None)
        except OSError as error:
            raise unreadable(f"frame {i}", error) from error
        if frame is None:
            return
        yield frame


class FrameBlocks:
    """Frames of an iterable that can be iterated repeatedly; ``again()`` starts an iteration."""

    single = False

    def __init__(self, again: Callable[[], Iterable[Frame]]) -> None:
        self._again = again
        self.pieces: list[FramePiece] = []
        self.names: list[Name] = []
        for i, frame in enumerate(_named_frames(again)):
            names = names_of(frame)
            self.names = names if i == 0 else self.names
            if names != self.names:
                raise ValueError(
                    f"frame {i} has the columns {names}, but frame 0 has {self.names}; give frames "
                    "with the same columns."
                )
            self.pieces.append(FramePiece(f"frame {i}", len(frame)))
        if not self.pieces:
            raise ValueError("X has no rows: the source is empty; give at least one frame.")
        self._at = len(self.pieces)
        self._walk: Iterator[Frame] = iter(())

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """Frame ``i``; those before it are skipped."""
        frame: Frame | None = None
        if i <= self._at:
            self._walk, self._at = iter(self._again()), -1
        while self._at < i:
            frame = next(self._walk, None)
            if frame is None:
                raise ValueError(
                    "it was there in the first iteration and is missing in this one; pass a list, "
                    "or a function that returns a new iterator"
                )
            self._at += 1
        assert frame is not None
        if len(frame) != self.pieces[i].n_rows:
            raise ValueError(
                f"it has {len(frame)} rows where it had {self.pieces[i].n_rows} at first; do not "
                "change the data while they are in use"
            )
        return frame if columns is None else select(frame, columns)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_walk": iter(()), "_at": len(self.pieces)}


class DaskFrames:
    """Partitions of a Dask dataframe, as pandas frames."""

    single = False

    def __init__(self, X: DaskFrame) -> None:
        self.frame = X
        self.names: list[Name] = list(X.columns)
        sizes = X.map_partitions(len).compute()
        self.pieces = [FramePiece(f"partition {i}", int(n)) for i, n in enumerate(sizes)]

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """A partition, computed."""
        part = self.frame.partitions[i]
        return (part if columns is None else part[list(columns)]).compute()

    def example(self) -> Frame:
        """One row, for the types of results."""
        first = next(i for i, piece in enumerate(self.pieces) if piece.n_rows)
        return self.frame.partitions[first].head(1, npartitions=1)

    def encoded(self, schema: Schema) -> DaskArray:
        """Encoded rows (C, D), a chunk per partition."""
        import dask
        import dask.array

        sent = dask.delayed(schema)
        chunks = [
            dask.array.from_delayed(
                dask.delayed(_encoded)(sent, part),
                (piece.n_rows, len(schema.columns)),
                dtype=schema.dtype,
            )
            for part, piece in zip(self.frame.to_delayed(), self.pieces, strict=True)
        ]
        return dask.array.concatenate(chunks)


def _encoded(schema: Schema, frame: Frame) -> Array:
    return schema.encode_some(frame).astype(schema.dtype, copy=False)


# --- temporary copies ---


def temporary_file(suffix: str) -> Path:
    """A new file in the folder for temporary files."""
    handle, name = tempfile.mkstemp(suffix, "partwise-")
    os.close(handle)
    return Path(name)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    path.unlink(missing_ok=True)


def copied_frames(write: Callable[[Path], None], source: Path | str) -> ArrowFiles:
    """Frames of a temporary Arrow file that ``write`` makes of a source."""
    path = temporary_file(".arrow")
    try:
        write(path)
        frames = ArrowFiles([path], source)
    except BaseException:
        remove_file(path)
        raise
    weakref.finalize(frames, remove_file, path)
    return frames


def sink_rows(rows: pl.LazyFrame, path: Path) -> None:
    """Write the result of a query to an Arrow file."""
    rows.sink_ipc(path, compression="uncompressed")


def lazy_frames(rows: pl.LazyFrame) -> Frames:
    """The result of a polars query."""
    return copied_frames(lambda path: sink_rows(rows, path), "the lazy frame")


def stream_frames(stream: object) -> Frames:
    """Record batches of an object with the Arrow PyCapsule stream interface."""
    arrow = optional("pyarrow", "Arrow streams")

    def write(path: Path) -> None:
        dataset = getattr(stream, "scanner", None)  # of pyarrow
        reader = (
            arrow.RecordBatchReader.from_stream(stream)
            if dataset is None or hasattr(stream, "__arrow_c_stream__")
            else dataset().to_reader()
        )
        schema = arrow.schema([_decoded(field) for field in reader.schema])
        with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, schema) as writer:
            for table in _larger_batches(reader):
                writer.write_table(table.cast(schema).combine_chunks())

    try:
        return copied_frames(write, "the Arrow stream")
    except OSError as error:
        raise OSError(
            f"The Arrow stream could not be read: {reason_of(error)}; connect again, and give a "
            "new stream."
        ) from error


def _decoded(field: pa.Field) -> pa.Field:
    """A field of values instead of a dictionary, which could change between batches."""
    is_dictionary = hasattr(field.type, "value_type") and hasattr(field.type, "index_type")
    return field.with_type(field.type.value_type) if is_dictionary else field


def _larger_batches(reader: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of about `BATCH_ROWS` rows."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in reader:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= BATCH_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def file_frames(paths: Sequence[Path]) -> Frames:
    """Frames of parquet, Arrow or CSV files."""
    kinds = {path.name.endswith(TEXT) for path in paths}
    if kinds == {True}:
        from partwise.data.text_frames import text_frames

        return text_frames(paths)
    if kinds == {False}:
        return ArrowFiles(paths)
    raise ValueError("The files mix text and other formats; give files of one format.")


def open_frames(data: object) -> Frames | None:
    """Frames of a table that is not in memory, None for everything else."""
    if isinstance(data, str | os.PathLike) or _all_are(data, (str, os.PathLike)):
        paths = find_files(cast(PathLike, data))
        tables = [path.name.lower().endswith(TABLES) for path in paths]
        return file_frames(paths) if all(tables) else None
    module = type(data).__module__.partition(".")[0]
    if module == "polars" and type(data).__name__ == "LazyFrame":
        return lazy_frames(cast("pl.LazyFrame", data))
    if is_stream(data):
        return stream_frames(data)
    if isinstance(data, list | tuple) and data and all(frame_of(x) != "array" for x in data):
        return FrameBlocks(lambda: data)
    if callable(data):
        first = next(iter(data()), None)
        return FrameBlocks(data) if frame_of(first) != "array" else None
    if isinstance(data, Iterable) and frame_of(data) == "array" and not hasattr(data, "shape"):
        if iter(data) is data:
            return None
        first = next(iter(data), None)
        return FrameBlocks(lambda: data) if frame_of(first) != "array" else None
    return None


def is_stream(data: object) -> bool:
    """Whether an object gives Arrow record batches, without being a frame in memory."""
    module = type(data).__module__.partition(".")[0]
    if module == "pyarrow":
        return hasattr(data, "__arrow_c_stream__") or hasattr(data, "scanner")
    return module not in ("pandas", "polars") and hasattr(data, "__arrow_c_stream__")


def _all_are(data: object, types: tuple[type, ...]) -> bool:
    is_list = isinstance(data, list | tuple) and len(data) > 0
    return is_list and all(isinstance(one, types) for one in cast("list[object]", data))


class ArrayFrames:
    """Rows of numbers as a table without names."""

    def __init__(self, rows: RowSource) -> None:
        self.rows = rows
        self.single = rows.dtype == np.float32
        self.names: list[Name] = list(range(rows.shape[1]))
        self._bounds = cut(rows, max(BATCH_CELLS // max(rows.shape[1], 1), 1))
        self.pieces = [FramePiece(rows.where(lo), hi - lo) for lo, hi in self._bounds]

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """Some rows, with all columns."""
        lo, hi = self._bounds[i]
        return np.asarray(self.rows[lo:hi])


def frames_of(X: object) -> Frames | None:
    """Frames of a table that is not in memory, None for a table in memory."""
    if isinstance(X, RowSource):
        if X.is_sparse:
            raise ValueError(
                "Sparse X has no columns of several kinds; choose one likelihood by name."
            )
        return X.frames or ArrayFrames(X)
    if is_dask(X):
        return DaskFrames(cast("DaskFrame", X)) if hasattr(X, "map_partitions") else None
    frames = open_frames(X)
    if frames is not None or isinstance(X, np.memmap):
        return frames
    rows = out_of_memory(X)
    return frames_of(rows) if isinstance(rows, RowSource) else None


# --- as numbers ---


class FrameStore:
    """A table of numbers as a store of rows; ``frames`` is the table itself."""

    portable = False

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.names: object = None
        if all(isinstance(name, str) for name in frames.names):
            import polars as pl

            self.names = pl.DataFrame(schema=[str(name) for name in frames.names])
        D, dtype = len(frames.names), np.dtype(np.float32 if frames.single else np.float64)
        self.pieces = [Piece(one.name, one.n_rows, D, dtype) for one in frames.pieces]
        self._last: tuple[int, Array | None] = (-1, None)

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of piece ``i``."""
        last = self._last
        if last[0] != i:
            values = np.asarray(as_numbers(self.frames.read(i), "it"), dtype=float)
            last = self._last = (i, values)
        assert last[1] is not None
        return last[1][lo:hi]

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of piece ``i``."""
        return self.read(i, 0, self.pieces[i].n_rows)[rows]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": (-1, None)}
