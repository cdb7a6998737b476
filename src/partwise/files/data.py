"""The content of a data file: rows for a model, and what was detected about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
from scipy import sparse

from partwise._text import plural, reason_of
from partwise.contracts import Array

if TYPE_CHECKING:
    from partwise.data.text_options import TextFormat
    from partwise.files.layout import Layout

Rows: TypeAlias = pl.DataFrame | Array | sparse.csr_array


class UnknownNameError(ValueError):
    """A name that the user gave does not exist."""


@dataclass(frozen=True, eq=False)
class Data:
    """The content of a file."""

    X: Rows
    description: str  # size, and what was detected
    image_shape: tuple[int, int] | None = None
    layout: Layout | None = None  # of a text file
    format: TextFormat | None = None  # of a text file, or of a folder of them
    ids: pl.Series | None = None  # names of the rows, which are not a column of X
    id_place: int = 0  # position of that column in the file
    pandas_file: Path | None = None  # a parquet file with pandas types

    @property
    def row_names(self) -> list[str]:
        """Names of the rows: ids, or numbers from 1."""
        if self.ids is None:
            return [str(i + 1) for i in range(self.X.shape[0])]
        return self.ids.cast(pl.String).fill_null("").to_list()

    @property
    def row_labels(self) -> list[str]:
        """The same for a page: ids, or "Row 1" and so on."""
        return [f"Row {name}" for name in self.row_names] if self.ids is None else self.row_names


def table_size(frame: pl.DataFrame) -> str:
    """Describe the size of a table."""
    return f"a table of {' and '.join(map(plural, frame.shape, ('row', 'column')))}"


def check_values(path: Path, frame: pl.DataFrame) -> None:
    """Refuse tables without a single value."""
    if not any(column.count() for column in frame.get_columns()):
        raise ValueError(
            f"{path}: all cells are empty or contain texts that mean missing; name a file with "
            "values."
        )


def unreadable(path: Path, error: BaseException) -> ValueError:
    """The error for a file that its own library cannot read, in one sentence."""
    return ValueError(
        f"{path} cannot be read ({reason_of(error)}): it is damaged, or of another format than its "
        "name says."
    )


def closest(name: str, names: Sequence[str], kind: str = "column") -> str:
    """The end of a message about an unknown name: the closest known name, or a list."""
    near = get_close_matches(name, names, 1) or get_close_matches(
        name.lower(), [one.lower() for one in names], 1
    )
    if near:
        meant = next(one for one in names if one.lower() == near[0].lower())
        return f"; did you mean {meant!r}?"
    shown = ", ".join(names[:12])
    return f"; {kind}s are {shown}{' and others' if len(names) > 12 else ''}."
