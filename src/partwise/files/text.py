"""Tables as text: separator, names and types of columns are found out, values read as they are."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import polars as pl

from partwise.files.data import Data, check_values, table_size
from partwise.files.decide import Doubt, TextOptions, read_columns
from partwise.files.layout import Layout
from partwise.files.ratings import refuse_rating_columns, refuse_rating_list
from partwise.files.records import (
    DOUBLE_COLON,
    SEPARATORS,
    after_lines,
    after_records,
    check_lengths,
    check_quotes,
    decode,
    ended,
    records,
    separator_of,
)

# Columns of a text: so many take polars five seconds and 250 MB, however few the rows are.
MOST_COLUMNS = 100_000
# Records by which it is decided whether the first one names the columns.
_LOOKED_AT = 999


@dataclass(frozen=True)
class _Text:
    """The part of a text file that holds a table."""

    path: Path
    text: str  # ends with one line end
    separator: str
    skipped: int  # lines above it

    def records(self) -> list[list[str]]:
        """The first records."""
        found = records(self.path, self.text, self.separator, self.skipped)
        return [record for _, record in islice(found, _LOOKED_AT)]

    def line(self, record: int) -> int:
        """The line of the file in which a record ends."""
        found = records(self.path, self.text, self.separator, self.skipped)
        return next(islice(found, record, None))[0]


def read_table(
    path: Path,
    options: TextOptions,
    encoding: str | None = None,
    header: bool | None = None,
    skip_rows: int = 0,
) -> Data:
    """Read a table from a text file.

    Parameters
    ----------
    path : Path
    options : TextOptions
    encoding : str, optional
        UTF-8, or what the first bytes of the file say, if not given.
    header : bool, optional
        Whether the first line names the columns; found out if not given.
    skip_rows : int
        Lines above the table.

    Returns
    -------
    data : Data
    """
    source = decode(path, encoding)
    above = after_lines(source.text, skip_rows)
    text = ended(source.text[above:])
    if not text.strip():
        raise ValueError(f"{path} has no more than {skip_rows} lines; give a smaller --skip-rows.")
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        refuse_rating_list(path)
    found = _Text(path, text, separator, skip_rows)
    first = found.records()[0]
    if len(first) > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(first):,} columns, more than the {MOST_COLUMNS:,} that a text may "
            "have; save the table as .npy, .npz or .parquet."
        )
    n_records = check_lengths(path, text, separator, len(first), skip_rows)
    header = _names_columns(found) if header is None else header
    names = _names(first) if header else [f"column {i + 1}" for i in range(len(first))]
    refuse_rating_columns(path, names)
    if n_records - header < 1:
        raise ValueError(
            f"{path} names columns, but has no rows; add some, or say --no-header if its first "
            "line is one."
        )
    cells = _cells(found, header, names, n_records - header)
    try:
        read = read_columns(cells.get_columns(), names, separator, options)
    except Doubt as doubt:
        raise ValueError(f"{path}, line {found.line(doubt.row + header)}: {doubt}") from None
    frame = pl.DataFrame(read.values)
    check_values(path, frame)
    start = above + after_records(path, text, separator, int(header))
    forms = dict(zip(names, read.forms, strict=True))
    layout = Layout(source, separator, start, header, cells, forms, options.missing)
    notes = [*read.notes, *_nones(cells, options)]
    return Data(frame, _told(frame, separator, header, notes), layout=layout)


def _told(frame: pl.DataFrame, separator: str, header: bool, notes: list[str]) -> str:
    named = "the first line names the columns" if header else (
        "no line names the columns, so they are called column 1, column 2 and so on"
    )  # fmt: skip
    split = f", separated by {SEPARATORS[separator]}" if frame.width > 1 else ""
    return "; ".join([f"{table_size(frame)}{split}", named, *notes])


def _nones(cells: pl.DataFrame, options: TextOptions) -> list[str]:
    """Say where the word None, which may be an answer, is taken as missing."""
    if "None" not in options.missing:
        return []
    names = [column.name for column in cells.get_columns() if (column == "None").any()]
    if not names:
        return []
    return [f"the word None means missing in {', '.join(names[:5])} (--keep-none: it does not)"]


def _cells(found: _Text, header: bool, names: list[str], n_rows: int) -> pl.DataFrame:
    """All cells as texts.

    Polars takes quotes and lines that end with a carriage return otherwise than Python does, and
    not the same way in all releases. Such a text is written anew in the form that all agree on.
    """
    text, separator = found.text, found.separator
    frame = None
    if '"' not in text and text.count("\r") == text.count("\r\n"):
        start = after_records(found.path, text, separator, int(header))
        frame = _frame(text[start:], separator, len(names))
    if frame is None or len(frame) != n_rows:
        check_quotes(found.path, text, separator, found.skipped)
        out = io.StringIO()
        rows = islice(records(found.path, text, separator), int(header), None)
        writer = csv.writer(out, delimiter=separator, lineterminator="\n")
        writer.writerows(row for _, row in rows)
        frame = _frame(out.getvalue(), separator, len(names))
    if frame is None or len(frame) != n_rows:
        raise ValueError(
            f"{found.path} cannot be read as a table, though its lines are of one length; save it "
            "anew as comma-separated text in UTF-8, or as .parquet."
        )
    frame.columns = names
    return frame.select(pl.all().fill_null(""))


def _frame(body: str, separator: str, width: int) -> pl.DataFrame | None:
    """What polars makes of lines without a header; None if it cannot."""
    # What polars calls columns without names differs between its releases.
    names = [f"c{i}" for i in range(width)]
    try:
        return pl.read_csv(
            io.BytesIO(f"{separator.join(names)}\n{body}".encode()),
            separator=separator,
            schema_overrides=dict.fromkeys(names, pl.String),
        )
    except (pl.exceptions.PolarsError, UnicodeEncodeError):
        return None


# --- names of columns ---


def _names_columns(found: _Text) -> bool:
    """Whether the first record names columns: no value in it is a number, or occurs again."""
    first, *rows = found.records()
    first = [cell.strip() for cell in first]
    if not any(first):
        return False
    below = [{row[i].strip() for row in rows if i < len(row)} - {""} for i in range(len(first))]
    pairs = list(zip(first, below, strict=True))
    if any(cell in values for cell, values in pairs):
        return False
    if len(first) > 2 and sum(map(bool, first)) == 1 and rows and all(rows[0]):
        raise ValueError(
            f"{found.path}, line {found.line(0)}: one value alone looks like a title; leave it out "
            f"with --skip-rows {found.line(0)}, or say --header or --no-header."
        )
    numbers = [float(cell.replace(",", ".")) for cell in first if _is_number(cell)]
    named = [cell for cell in first if cell and not _is_number(cell)]
    over_numbers = any(
        cell in named and values and all(map(_is_number, values)) for cell, values in pairs
    )
    if not numbers:
        return over_numbers or len(set(named)) == len(named)
    if named and over_numbers:
        return True
    if named and _are_counted(numbers):
        raise ValueError(
            f"{found.path}, line {found.line(0)}: the first line may name the columns "
            f"({', '.join(first[:4])}) or be a row of values; say --header or --no-header."
        )
    return False


def _are_counted(numbers: list[float]) -> bool:
    """Whether numbers may be names: different years, or three and more that go on evenly."""
    years = all(1900 <= number <= 2100 and number == int(number) for number in numbers)
    steps = {b - a for a, b in pairwise(numbers)}
    even = len(numbers) > 2 and len(steps) == 1 and steps != {0.0}
    return even or (years and 1 < len(numbers) == len(set(numbers)))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _names(first: list[str]) -> list[str]:
    """Names of columns, all different."""
    times, out = Counter[str](), dict[str, None]()
    for i, cell in enumerate(first):
        name = plain = cell.strip() or f"column {i + 1}"
        while name in out:
            times[plain] += 1
            name = f"{plain} ({times[plain] + 1})"
        out[name] = None
    return list(out)
