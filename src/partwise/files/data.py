"""What a file held: rows for a model, and what was guessed about them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

import polars as pl
from scipy import sparse

from partwise.contracts import Array

Rows: TypeAlias = pl.DataFrame | Array | sparse.csr_array


class Data(NamedTuple):
    """What was read."""

    X: Rows
    told: str  # what it is, and what was guessed
    image_shape: tuple[int, int] | None = None


def table_size(frame: pl.DataFrame) -> str:
    """Say how large a table is."""
    n, d = frame.shape
    return f"a table of {n:,} row{'s' * (n != 1)} and {d:,} column{'s' * (d != 1)}"


def check_values(path: Path, frame: pl.DataFrame) -> None:
    """Refuse tables without a single value."""
    if not any(column.count() for column in frame.get_columns()):
        raise ValueError(
            f"{path}: all cells are empty, or hold what means missing; name a file with values."
        )


def shortened(text: str, most: int = 40) -> str:
    """A text in quotes for a message, cut where it is long."""
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")
