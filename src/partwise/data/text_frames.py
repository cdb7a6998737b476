"""CSV files as frames.

How the cells of a column are written (decimal marks, order of dates, codes such as 007) is detected
from all files together, by the rules for single files, and never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from partwise._text import plural, reason_of
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
from partwise.data.headers import TextPart, names_columns
from partwise.data.records import (
    DOUBLE_COLON,
    FIRST_LINES,
    column_names,
    refuse_bytes,
    refuse_documents,
    refuse_rating_list,
    separator_of,
    warn_of_renamed,
)
from partwise.data.text_options import Doubt, TextFormat, TextOptions
from partwise.typing import Frame, Name

# Numbers of which the detection needs no more than some hundreds: (pattern, replacement). Their
# number of digits excludes dates, thousands and codes.
_ALIKE = (
    (r"^[+-]?\d*(\d[.,]\d{1,2})$", "$1"),
    (r"^[+-]?\d*(\d[.,]\d\d)\d{3,}$", "$1"),
    (r"^-?(?:[3-9]\d|1[0-8]|2[1-9])\d{4,13}(\d{3})$", "123456$1"),
    (r"^-?(?:19|20)(?:\d{4,6}|\d{8}|\d{10,13})(\d{3})$", "123456$1"),
)


@dataclass(frozen=True)
class _TextFile:
    path: Path
    separator: str
    rows: pl.LazyFrame  # of texts
    header: list[str]  # as the file has it
    has_names: bool  # whether it looks like one
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
        if not file.has_names and (len(files) == 1 or file.names != files[0].names):
            raise ValueError(
                f"{file.path}, line 1: the line has values, not the names of columns; add a line "
                "of names, which files of a folder need."
            )
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
        separator, header, has_names = _separator_and_header(path)
        rows = pl.scan_csv(path, separator=separator, infer_schema=False)
        names = rows.collect_schema().names()
        _check_lines(path, separator, len(names))
        if len(header) != len(names):
            header = names  # polars splits this line otherwise
        new = column_names(header)  # polars would rename equal ones without a word
        rows = rows.select(pl.col(a).alias(b) for a, b in zip(names, new, strict=True))
        names = new
        texts = [pl.Series(name, [], pl.String) for name in names]
        for batch in rows.collect_batches(chunk_size=BATCH_ROWS):
            texts = [
                pl.concat([seen, _reduced(cells)]).unique()
                for seen, cells in zip(texts, batch.get_columns(), strict=True)
            ]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(path, error) from error
    texts = [column.sort() for column in texts]
    return _TextFile(path, separator, rows, header, has_names, names, texts)


def _separator_and_header(path: Path) -> tuple[str, list[str], bool]:
    """The separator and the first record of a file, and whether that has names of columns."""
    lines = pl.read_csv(
        path,
        has_header=False,
        n_rows=FIRST_LINES,
        separator="\x01",  # in no line
        quote_char=None,
        infer_schema=False,
    )
    text = "\n".join(lines.to_series().fill_null(""))
    refuse_bytes(path, text)
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        refuse_rating_list(path)
    refuse_documents(path, text, separator)
    head = TextPart(path, text + "\n", separator, 0)
    return separator, head.records()[0], names_columns(head, may_be=True)


def _lines(path: Path) -> pl.LazyFrame:
    """All lines of a file as they are, numbered from 1."""
    rows = pl.scan_csv(
        path,
        has_header=False,
        new_columns=["text"],
        separator="\x01",  # in no line
        quote_char=None,
        infer_schema=False,
        row_index_name="line",
        row_index_offset=1,
    )
    return rows.with_columns(pl.col("text").fill_null(""))


def _check_lines(path: Path, separator: str, width: int) -> None:
    """Refuse lines of another number of values than the first, which polars would fill up."""
    text = pl.col("text")
    has_quotes = text.str.contains('"', literal=True)
    is_short = text.str.count_matches(separator, literal=True) + 1 < width
    is_blank = text.str.strip_chars() == ""
    odd = _lines(path).filter(is_blank | (is_short & ~has_quotes)).head(1)
    found = odd.collect(engine="streaming")
    if (
        found.is_empty()
        or _lines(path).filter(has_quotes).head(1).collect(engine="streaming").height
    ):
        return  # values in quotes may have several lines
    line, cells = found.row(0)
    n = cells.count(separator) + 1
    what = (
        f"{plural(n, 'value')} where the first line has {width}"
        if cells.strip()
        else "a blank line"
    )
    raise ValueError(f"{path}, line {line}: {what}; correct it, or remove it.")


def _reduced(cells: pl.Series) -> pl.Series:
    """Distinct texts, of numbers that are written alike not all."""
    cells = cells.str.strip_chars().unique()
    for pattern, replacement in _ALIKE:
        cells = cells.str.replace(pattern, replacement)
    return cells.unique()


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
