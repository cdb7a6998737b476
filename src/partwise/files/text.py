"""Tables as text: separator, column names and types are detected."""

from __future__ import annotations

import csv
import io
import math
import re
from itertools import islice
from pathlib import Path

import polars as pl
import polars.selectors as cs

from partwise._text import plural, unnamed
from partwise.data.decide import read_columns
from partwise.data.decide_words import SUMMARY
from partwise.data.frames import shortened
from partwise.data.headers import TextPart, names_columns
from partwise.data.records import (
    DOUBLE_COLON,
    SEPARATORS,
    after_lines,
    after_records,
    check_lengths,
    check_quotes,
    column_names,
    decode,
    ended,
    records,
    refuse_documents,
    refuse_rating_list,
    separator_of,
    warn_of_renamed,
)
from partwise.data.text_options import Doubt, TextFormat, TextOptions
from partwise.files.data import Data, check_values, table_size
from partwise.files.layout import Layout
from partwise.files.ratings import refuse_rating_columns

# Columns of a text file: polars takes five seconds and 250 MB for so many, even with few rows.
MAX_TEXT_COLUMNS = 100_000
# Excel's note of the separator.
_SEPARATOR_LINE = re.compile(r"sep=.(?:\r|\n)")
# What is left where another program decoded a text wrongly.
_LOST = re.compile(r"\ufffd|Ã[\x80-\xbf\u0152-\u2122]|â€")
# Different countries' codes with which NA is one of them, and rows from which a sum is told.
_MIN_CODES, _MIN_SUMMED = 3, 6
# Rounding of a sum of amounts of money.
_HALF_CENT = 0.006


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
        By default the one of the byte order mark, or UTF-8.
    header : bool, optional
        Whether the first line contains column names; detected by default.
    skip_rows : int
        Lines before the table.

    Returns
    -------
    data : Data
    """
    source = decode(path, encoding)
    if not skip_rows and _SEPARATOR_LINE.match(source.text):
        skip_rows = 1
    above = after_lines(source.text, skip_rows)
    text = ended(source.text[above:])
    if not text.strip():
        raise ValueError(f"{path} has no more than {skip_rows} lines; give a smaller --skip-rows.")
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        refuse_rating_list(path)
    refuse_documents(path, text, separator)
    found = TextPart(path, text, separator, skip_rows)
    first = found.records()[0]
    if len(first) > MAX_TEXT_COLUMNS:
        raise ValueError(
            f"{path} has {len(first):,} columns, above the {MAX_TEXT_COLUMNS:,} that a text may "
            "have; save the table as .npy, .npz or .parquet."
        )
    n_records = check_lengths(path, text, separator, len(first), skip_rows)
    header = names_columns(found) if header is None else header
    names = column_names(first) if header else [unnamed(d) for d in range(len(first))]
    if header:
        warn_of_renamed(path, first, names)
    refuse_rating_columns(path, names)
    if n_records - header < 1:
        raise ValueError(
            f"{path} has column names, but no rows; add rows, or use --no-header if the first line "
            "is a row."
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
    notes = [
        *read.notes,
        *_last_row(found, frame, cells, n_records - 1),
        *_gaps(frame),
        *_words_taken(found, frame, cells, options),
    ]
    written = TextFormat(options.missing, dict(zip(names, read.formats, strict=True)))
    described = _described(frame, separator, header, notes)
    return Data(frame, described, layout=layout, format=written)


def _last_row(found: TextPart, frame: pl.DataFrame, cells: pl.DataFrame, record: int) -> list[str]:
    """Refuse a last row that is the sum or mean of the others; a note if it may be, or a remark."""
    last = [str(cell).strip() for cell in cells.row(-1)]
    held = [d for d, cell in enumerate(last) if cell]
    named = [d for d in held if SUMMARY.fullmatch(last[d])]

    def is_new(d: int) -> bool:
        return (cells.to_series(d).str.strip_chars() == last[d]).sum() == 1

    what = ""
    if len(named) == 1 and is_new(named[0]):
        what = f"the last row, {last[named[0]]!r},"
    elif not named and frame.row(-1)[0] is None and len(frame) > _MIN_SUMMED:
        what = "the last row"  # without a name
    for column in frame.select(cs.numeric()).get_columns() if what else []:
        above, value = column[:-1].cast(pl.Float64).drop_nulls(), column[-1]
        if len(above) < 2 or not value:
            continue
        if not named and ((above < 0).any() or (above > 0).sum() < _MIN_SUMMED):
            continue
        for found_value, how in ((above.sum(), "sum"), (above.mean() if named else None, "mean")):
            if found_value is not None and math.isclose(
                float(str(found_value)), value, rel_tol=1e-6, abs_tol=_HALF_CENT
            ):
                raise ValueError(
                    f"{found.path}, line {found.line(record)}: {what} is the {how} of the others "
                    f"in column {shortened(column.name)}; remove it."
                )
    if named:
        return [f"{what} may sum up the others"] if what else []
    is_remark = len(held) == 1 < len(last) and re.search(r"[^\W\d_]\W*\s", last[held[0]])
    if is_remark and is_new(held[0]):
        return [f"the last row has nothing but {shortened(last[held[0]])}, which may be a remark"]
    return []


def _gaps(frame: pl.DataFrame) -> list[str]:
    """Notes on rows without values, and on columns with values in the first of several rows."""
    out = list[str]()
    n_empty = int(frame.select(pl.all_horizontal(pl.all().is_null()).sum()).item())
    if n_empty:
        out.append(f"{plural(n_empty, 'row')} without any value (imputed like the others)")
    for column in frame.get_columns():
        held = column.drop_nulls()
        are_first = column[0] is not None and 1 < len(held) <= 0.5 * len(column)
        if column.dtype != pl.String or not are_first or (held == held.shift(1)).any():
            break
        out.append(
            f"{shortened(column.name)} has values in few rows, the first among them (repeat them "
            "if they hold for the rows below, as merged cells do)"
        )
    return out


def _described(frame: pl.DataFrame, separator: str, header: bool, notes: list[str]) -> str:
    named = "the first line has the column names" if header else (
        "no line contains column names, so they are x0, x1 and so on"
    )  # fmt: skip
    split = f", separated by {SEPARATORS[separator]}" if frame.width > 1 else ""
    return "; ".join([f"{table_size(frame)}{split}", named, *notes])


def _words_taken(
    found: TextPart, frame: pl.DataFrame, cells: pl.DataFrame, options: TextOptions
) -> list[str]:
    """Notes on words that may be answers, but mean missing; and on letters that are lost."""
    out = list[str]()
    if not found.text.isascii() and (lost := _LOST.search(found.text)):
        before = re.split(r"\W", found.text[max(lost.start() - 20, 0) : lost.start()])[-1]
        out.append(f"another program has decoded letters wrongly, as in {before + lost[0]!r}")
    if "None" in options.missing and "None" in found.text:
        names = [column.name for column in cells.get_columns() if (column == "None").any()]
        if names:
            listed = ", ".join(names[:5])
            out.append(f"the word None means missing in {listed} (--keep-none: it does not)")
    if "NA" in options.missing and "NA" in found.text:
        for column in frame.get_columns():
            if column.dtype == pl.String and (cells[column.name] == "NA").any():
                codes = column.drop_nulls().unique()
                if len(codes) >= _MIN_CODES and codes.str.contains("^[A-Z]{2}$").all():
                    name = shortened(column.name)
                    out.append(f"NA means missing in {name} (if it is a code, write another)")
    return out


def _cells(found: TextPart, header: bool, names: list[str], n_rows: int) -> pl.DataFrame:
    """All cells as texts.

    Polars reads quotes and carriage returns differently from Python, and differently between its
    releases. Such a text is first converted to a form that all read in the same way.
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
            f"{found.path} cannot be read as a table, though its lines have the same length; save "
            "it as comma-separated text in UTF-8, or as .parquet."
        )
    frame.columns = names
    return frame.select(pl.all().fill_null(""))


def _frame(body: str, separator: str, width: int) -> pl.DataFrame | None:
    """The table that polars reads from lines without a header; None if it cannot."""
    # Polars' own names of unnamed columns differ between its releases.
    names = [f"c{i}" for i in range(width)]
    try:
        return pl.read_csv(
            io.BytesIO(f"{separator.join(names)}\n{body}".encode()),
            separator=separator,
            schema_overrides=dict.fromkeys(names, pl.String),
        )
    except (pl.exceptions.PolarsError, UnicodeEncodeError):
        return None
