"""Folders of parquet, Arrow or CSV files as one table, which need not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from partwise.data.frame_sources import FrameStore
from partwise.data.rows import RowSource
from partwise.data.stores import PARQUET, TABLES, TEXT, find_files
from partwise.data.text_frames import text_frames
from partwise.data.text_options import TextOptions
from partwise.files.data import Data, Rows
from partwise.files.parquet_check import refuse_encrypted


def is_table_folder(path: Path) -> bool:
    """Whether a path is a folder with files of a table."""
    return path.is_dir() and any(one.name.lower().endswith(TABLES) for one in path.iterdir())


def read_folder(path: Path, options: TextOptions) -> Data:
    """The table of a folder, whose rows are read when they are needed."""
    paths = find_files(path)
    for one in paths:
        if one.suffix.lower() in PARQUET:
            refuse_encrypted(one)
    is_text = all(one.name.lower().endswith(TEXT) for one in paths)
    frames = text_frames(paths, options) if is_text else None
    rows = RowSource(path if frames is None else FrameStore(frames))
    n, d = rows.shape
    text = f"a folder of {n:,} row{'s' * (n != 1)} and {d:,} column{'s' * (d != 1)}"
    notes, written = ([], None) if frames is None else (frames.notes, frames.format)
    # What asks for more than a shape knows of folders.
    return Data(cast(Rows, rows), "; ".join([text, *notes]), format=written)
