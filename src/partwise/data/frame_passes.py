"""The two passes over a table that is not in memory.

`survey_frames` learns the columns, and `encode_frames` writes the encoded rows to a temporary file
of float numbers, which all EM iterations then read.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.dask import ACTIVE, default_client
from partwise.data.frame_reading import read_columns
from partwise.data.frame_sources import (
    DaskFrames,
    Frames,
    remove_file,
    temporary_file,
    unreadable,
)
from partwise.data.frames import frame_of
from partwise.data.rows import RowSource
from partwise.data.stores import UNREADABLE, ArrayStore, optional
from partwise.data.survey import ColumnSurvey, merge_tables
from partwise.data.table import Likelihood, Schema
from partwise.typing import Frame, Name, Value

# What becomes of levels that a schema does not have.
Unseen: TypeAlias = Literal["missing", "warn", "refuse"]

# Statistics of partitions that a task merges.
MERGED = 8


def read_frames(
    frames: Frames, columns: Sequence[Name] | None = None, which: Sequence[int] | None = None
) -> Iterator[tuple[int, int, Frame | Array]]:
    """Bounds of the rows of all pieces, or of some, and their frames; the next is read ahead."""

    def read(i: int) -> Frame | Array:
        piece = frames.pieces[i]
        try:
            return frames.read(i, columns)
        except UNREADABLE as error:
            raise unreadable(piece.name, error) from error

    order = range(len(frames.pieces)) if which is None else which
    ends = np.cumsum([piece.n_rows for piece in frames.pieces])
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read, i) for i in order[:1]]
        for i, after in zip(order, [*order[1:], None], strict=False):
            frame = coming.pop().result()
            if after is not None:
                coming.append(reader.submit(read, after))
            yield int(ends[i]) - frames.pieces[i].n_rows, int(ends[i]), frame


def survey_frames(frames: Frames, likelihood: Likelihood, used: Array | None = None) -> Schema:
    """Learn the kinds of the columns in one pass; ``used`` is a mask of rows."""
    total: list[ColumnSurvey] | None = None
    kinds = set()
    for own, kind, name in _surveys(frames, used):
        kinds.add(kind)
        try:
            total = own if total is None else merge_tables(total, own)
        except ValueError as error:
            raise ValueError(f"{name}: {error}; convert the column, or leave it out.") from error
    assert total is not None
    kind = min(kinds)
    names = [str(n) if kind == "polars" else n for n in frames.names]
    return Schema.of(total, likelihood, names, kind)


def _surveys(frames: Frames, used: Array | None) -> Iterator[tuple[list[ColumnSurvey], str, str]]:
    """Statistics of every piece, its kind and its name."""
    if isinstance(frames, DaskFrames):
        yield from ((one, "pandas", name) for one, name in _dask_surveys(frames, used))
        return
    for (lo, hi, frame), piece in zip(read_frames(frames), frames.pieces, strict=True):
        own = survey_table(frame, None if used is None else used[lo:hi])
        yield own, frame_of(frame), piece.name


def _dask_surveys(
    frames: DaskFrames, used: Array | None
) -> Iterator[tuple[list[ColumnSurvey], str]]:
    """Statistics of all partitions, merged by Dask; of each of them if they do not agree."""
    dask = optional("dask", "Dask dataframes")
    edges = np.cumsum([0, *(piece.n_rows for piece in frames.pieces)])
    masks = [None if used is None else used[lo:hi] for lo, hi in pairwise(edges)]
    parts = [
        dask.delayed(survey_table)(part, mask)
        for part, mask in zip(frames.frame.to_delayed(), masks, strict=True)
    ]
    merged = parts
    while len(merged) > 1:
        groups = [merged[i : i + MERGED] for i in range(0, len(merged), MERGED)]
        merged = [dask.delayed(_merge_all)(group) for group in groups]
    try:
        (found,) = dask.compute(*merged)
    except ValueError:  # to find out which
        for one, piece in zip(dask.compute(*parts), frames.pieces, strict=True):
            yield one, piece.name
        return
    yield found, "Dask dataframe"


def _merge_all(tables: list[list[ColumnSurvey]]) -> list[ColumnSurvey]:
    return reduce(merge_tables, tables)


def survey_table(frame: Frame | Array, used: Array | None = None) -> list[ColumnSurvey]:
    """Statistics of all columns of a table in memory."""
    found = []
    for column in read_columns(frame):
        values = column.values if used is None else column.values[used]
        found.append(ColumnSurvey.of(replace(column, values=values)))
    return found


def encode_frames(frames: Frames, schema: Schema, unseen: Unseen = "missing") -> RowSource:
    """Encoded rows (C, D) in a temporary file, written in one pass over the used columns.

    ``unseen`` says what levels are that the schema does not have: "missing", "warn" of them once
    per column, or "refuse", for a schema of the same rows.
    """
    C = sum(piece.n_rows for piece in frames.pieces)
    if isinstance(frames, DaskFrames) and default_client() is not None:
        return RowSource(frames.encoded(schema))
    path = temporary_file(".npy")
    new: dict[Name, Value] = {}
    try:
        out = np.memmap(path, schema.dtype, "w+", shape=(C, len(schema.columns)))
        if os.name == "posix" and ACTIVE.get() is None:
            remove_file(path)  # the map stays; so nothing is left if the process is killed
        else:  # workers open the file
            weakref.finalize(out, remove_file, path)
        columns = zip(frames.names, schema.columns, strict=True)
        used = [name for name, column in columns if column.is_filled]
        for (lo, hi, frame), piece in zip(read_frames(frames, used), frames.pieces, strict=True):
            try:
                out[lo:hi], found = schema.encode_new(frame)
            except ValueError as error:
                raise ValueError(f"{piece.name}: {error}") from error
            for name, levels in found.items():
                if unseen == "refuse":
                    raise ValueError(
                        f"{piece.name}: column {name!r} has {levels[0]!r}, which it did not have "
                        "in the first pass; do not change the data while they are in use."
                    )
                for level in schema.columns[schema.place(name)].to_tell(levels)[:1]:
                    new.setdefault(name, level)
        out.flush()
    except BaseException:
        remove_file(path)
        raise
    if unseen == "warn":
        for name, level in new.items():
            column = schema.columns[schema.place(name)]
            which, treated = "that fit did not see", "missing"
            if column.has_number_levels:
                low, high = column.levels[0], column.levels[-1]
                which = f"outside of the range that fit saw, {low:g} to {high:g}"
                treated = "the nearest level"
            warn(f"Column {name!r} has values {which} (first: {level!r}): treated as {treated}.")
    return RowSource.of(ArrayStore(out))
