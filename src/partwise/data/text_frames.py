"""CSV files as frames.

How the cells of a column are written (decimal marks, order of dates, codes such as 007) is detected
from all files together, by the rules for single files, and never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from partwise._text import reason_of
from partwise.contracts import Array
from partwise.data.decide import Read, read_columns
from partwise.data.forms import Form
from partwise.data.frame_sources import (
    BATCH_ROWS,
    ArrowFiles,
    Frames,
    copied_frames,
    sink_rows,
)
from partwise.data.records import (
    DOUBLE_COLON,
    FIRST_LINES,
    column_names,
    records,
    refuse_rating_list,
    separator_of,
    warn_of_renamed,
)
from partwise.data.text_options import Doubt, TextFormat, TextOptions
from partwise.typing import Frame, Name

# Numbers of which the detection needs no more than one: (pattern, replacement). Their number of
# digits excludes dates, thousands and codes.
_ALIKE = (
    (r"^[+-]?\d+\.(\d{1,2}|\d{5,})$", "0.5"),
    (r"^[+-]?\d+,(\d{1,2}|\d{5,})$", "0,5"),
    (r"^[+-]?[1-9]\d{8,17}$", "123456789"),
)


@dataclass(frozen=True)
class _TextFile:
    path: Path
    separator: str
    rows: pl.LazyFrame  # of texts
    header: list[str]  # as the file has it
    names: list[str]
    texts: list[pl.Series]  # distinct texts of each column, sorted


class TextFrames:
    """The rows of several files, one after the other.

    ``format`` is how they were written, and ``notes`` say how columns were read.
    """

    def __init__(self, parts: Sequence[Frames], format: TextFormat, notes: Sequence[str]) -> None:
        self.format, self.notes = format, notes
        self.names = parts[0].names
        self.single = all(part.single for part in parts)
        self.pieces = [piece for part in parts for piece in part.pieces]
        self._places = [(part, i) for part in parts for i in range(len(part.pieces))]

    def read(self, i: int, columns: Sequence[Name] | None = None) -> Frame | Array:
        """A piece of the file that has it."""
        part, own = self._places[i]
        return part.read(own, columns)


def text_frames(paths: Sequence[Path], options: TextOptions | None = None) -> TextFrames:
    """Frames of CSV files, plain or compressed, with the same columns.

    Parameters
    ----------
    paths : sequence of Path
    options : TextOptions, optional
        How columns are written where that cannot be detected.

    Returns
    -------
    frames : TextFrames
    """
    options = options or TextOptions()
    files = [_opened(path) for path in paths]
    for file in files:
        if file.names != files[0].names:
            other = min(set(file.names) ^ set(files[0].names), default="in other order")
            raise ValueError(
                f"{file.path} has other columns than {paths[0]} ({other!r}); give files with the "
                "same columns."
            )
    warn_of_renamed(paths[0], files[0].header, files[0].names)  # the others have the same names
    if not any(len(column) for file in files for column in file.texts):
        raise ValueError(f"{paths[0]} has no rows; give files with at least one row.")
    read = _detected(files, options)
    written = TextFormat(options.missing, dict(zip(files[0].names, read.formats, strict=True)))
    return TextFrames([_frames(file, read, options) for file in files], written, read.notes)


def _opened(path: Path) -> _TextFile:
    """Columns and distinct texts of a file."""
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; leave it out, or check how it was written.")
    try:
        separator, header = _separator_and_header(path)
        rows = pl.scan_csv(path, separator=separator, infer_schema=False)
        names = rows.collect_schema().names()
        if len(header) != len(names):
            header = names  # polars splits this line otherwise
        new = column_names(header)  # polars would rename equal ones without a word
        rows = rows.select(pl.col(a).alias(b) for a, b in zip(names, new, strict=True))
        names = new
        texts = [pl.Series(name, [], pl.String) for name in names]
        for batch in rows.collect_batches(chunk_size=BATCH_ROWS):
            texts = [
                pl.concat([seen, _reduced(cells).unique()]).unique()
                for seen, cells in zip(texts, batch.get_columns(), strict=True)
            ]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from error
    return _TextFile(path, separator, rows, header, names, [column.sort() for column in texts])


def _separator_and_header(path: Path) -> tuple[str, list[str]]:
    """The separator and the first record of a file, plain or compressed."""
    lines = pl.read_csv(
        path,
        has_header=False,
        n_rows=FIRST_LINES,
        separator="\x01",  # in no line
        quote_char=None,
        infer_schema=False,
    )
    text = "\n".join(lines.to_series().fill_null(""))
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        refuse_rating_list(path)
    _, header = next(records(path, text, separator), (0, []))
    return separator, header


def _reduced(cells: pl.Series) -> pl.Series:
    """Texts, in which numbers that are written alike are equal."""
    cells = cells.str.strip_chars()
    for pattern, replacement in _ALIKE:
        cells = cells.set(cells.str.contains(pattern).fill_null(False), replacement)
    return cells


def _unreadable(path: Path, error: Exception) -> OSError:
    return OSError(
        f"{path} could not be read as CSV ({reason_of(error)}); correct it, or leave it out."
    )


def _detected(files: Sequence[_TextFile], options: TextOptions) -> Read:
    """The forms of all columns, from the texts of all files."""
    texts = [
        pl.concat(columns).unique().sort()
        for columns in zip(*(file.texts for file in files), strict=True)
    ]
    n = max(map(len, texts))
    cells = [column.extend_constant(None, n - len(column)) for column in texts]
    try:
        read = read_columns(cells, files[0].names, files[0].separator, options)
    except Doubt as doubt:
        i = files[0].names.index(doubt.column)
        has_cell = (file.path for file in files if cells[i][doubt.row] in file.texts[i])
        raise ValueError(f"{next(has_cell)}: {doubt}") from None
    for i, (name, values) in enumerate(zip(files[0].names, read.values, strict=True)):
        if values.dtype == pl.String and name not in options.texts:
            _check_same_kind(name, files, [file.texts[i] for file in files], options)
    return read


def _check_same_kind(
    name: str, files: Sequence[_TextFile], texts: Sequence[pl.Series], options: TextOptions
) -> None:
    """Refuse columns of text that have numbers, and nothing else, in some files."""
    held = [own.filter(~own.is_in(sorted(options.missing))).drop_nulls() for own in texts]
    is_number = [own.cast(pl.Float64, strict=False).count() == len(own) for own in held]
    pairs = list(zip(is_number, files, held, strict=True))
    found = {one: file.path for one, file, own in reversed(pairs) if len(own)}
    if len(found) > 1:
        raise ValueError(
            f"{found[True]}: column {name!r} has numbers, but text in {found[False]}; convert the "
            "column, or leave it out."
        )


def _frames(file: _TextFile, read: Read, options: TextOptions) -> ArrowFiles:
    """Frames of the values of a file, copied to a temporary file."""
    columns = [
        _column(name, form, values.dtype, sorted(options.missing))
        for name, form, values in zip(file.names, read.forms, read.values, strict=True)
    ]
    try:
        return copied_frames(lambda to: sink_rows(file.rows.select(columns), to), file.path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(file.path, error) from error


def _column(name: str, form: Form, kind: pl.DataType, missing: list[str]) -> pl.Expr:
    """The values of a column of a file."""

    def values(cells: pl.Series) -> pl.Series:
        cells = cells.str.strip_chars()
        return form.read(cells.set(cells.is_in(missing).fill_null(True), None)).cast(kind)

    return pl.col(name).map_batches(values, return_dtype=kind, is_elementwise=True)
