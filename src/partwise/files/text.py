"""Tables as text: names and types of columns are found out, and values read as what they are."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from partwise.files.data import Data, check_values, shortened, table_size
from partwise.files.ratings import refuse_rating_columns, refuse_rating_list
from partwise.files.records import (
    DOUBLE_COLON,
    SEPARATORS,
    after_records,
    check_lengths,
    check_quotes,
    read_text,
    records,
    separator_of,
)

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
DATE = re.compile(r"\d{4}-\d\d-\d\d")

# Columns of a text: so many take polars five seconds and 250 MB, however few the rows are.
MOST_COLUMNS = 100_000
# Text in a column in which so many values are numbers is a slip, not a category.
MOSTLY = 0.9


def read_table(
    path: Path,
    missing: Collection[str],
    texts: Collection[str],
    numbers: Collection[str],
    encoding: str | None,
    header: bool | None,
) -> Data:
    """Read a table; arguments are those of `partwise.files.read_data`."""
    missing = {*MISSING, *missing}
    text = read_text(path, encoding)
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        refuse_rating_list(path)
    first = next(records(path, text, separator))[1]
    if len(first) > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(first):,} columns, more than the {MOST_COLUMNS:,} that a text may "
            "have; save the table as .npy, .npz or .parquet."
        )
    if header is None:
        header = _names_columns(
            first, [row for _, row in islice(records(path, text, separator), 1, 999)]
        )
    names = _names(first) if header else [f"column {i + 1}" for i in range(len(first))]
    refuse_rating_columns(path, names)
    n_rows = check_lengths(path, text, separator, len(names)) - header
    if n_rows < 1:
        raise ValueError(
            f"{path} names columns, but has no rows; add some, or say --no-header if its first "
            "line is one."
        )
    codes = _codes(path, text, separator, header, missing)
    as_text = [
        name in texts or (i in codes and name not in numbers) for i, name in enumerate(names)
    ]
    frame = _parsed(path, text, separator, header, missing, as_text, n_rows)
    frame, slip = _typed(frame, missing, separator, as_text)
    frame.columns = names
    if slip is not None:
        column, row, held = slip
        line = next(islice(records(path, text, separator), row + header, None))[0]
        raise ValueError(
            f"{path}, line {line}: column {shortened(names[column])} holds {shortened(held)}, "
            "though nearly all of its values are numbers; correct it, or say what it is with "
            f"--missing {shortened(held)} or --kind {shortened(names[column] + '=categorical')}."
        )
    check_values(path, frame)
    named = "the first line names the columns" if header else (
        "no line names the columns, so they are called column 1, column 2 and so on"
    )  # fmt: skip
    split = f", separated by {SEPARATORS[separator]}" if len(names) > 1 else ""
    return Data(frame, f"{table_size(frame)}{split}; {named}")


def _parsed(
    path: Path,
    text: str,
    separator: str,
    header: bool,
    missing: set[str],
    as_text: list[bool],
    n_rows: int,
) -> pl.DataFrame:
    """The text as polars reads it, with columns of any names.

    Polars takes quotes and lines that end with a carriage return otherwise than Python does, and
    not the same way in all releases. Such a text is written anew in the form that all agree on.
    """
    frame = None
    if '"' not in text and text.count("\r") == text.count("\r\n"):
        body = after_records(path, text, separator, int(header))
        frame = _frame(body, separator, missing, as_text)
    if frame is None or len(frame) != n_rows:
        check_quotes(path, text, separator)
        out = io.StringIO()
        rows = islice(records(path, text, separator), int(header), None)
        writer = csv.writer(out, delimiter=separator, lineterminator="\n")
        writer.writerows(row for _, row in rows)
        frame = _frame(out.getvalue(), separator, missing, as_text)
    if frame is None or len(frame) != n_rows:
        raise ValueError(
            f"{path} cannot be read as a table, though its lines are of one length; save it anew "
            "as comma-separated text in UTF-8, or as .parquet."
        )
    return frame


def _frame(
    body: str, separator: str, missing: set[str], as_text: list[bool]
) -> pl.DataFrame | None:
    """What polars makes of lines without a header; None if it cannot."""
    # What polars calls columns without names differs between its releases.
    names = [f"c{i}" for i in range(len(as_text))]
    texts = {name: pl.String for name, kept in zip(names, as_text, strict=True) if kept}
    try:
        return pl.read_csv(
            io.BytesIO(f"{separator.join(names)}\n{body}".encode()),
            separator=separator,
            infer_schema_length=None,
            null_values=sorted(missing),
            schema_overrides=texts,
        )
    except (pl.exceptions.PolarsError, UnicodeEncodeError):
        return None


def _names_columns(first: list[str], rows: list[list[str]]) -> bool:
    """Whether the first record names columns: no number in it, and no value of the others."""
    if any(_is_number(cell) for cell in first) or len(set(first)) < len(first):
        return False
    below = [{row[i].strip() for row in rows if i < len(row)} for i in range(len(first))]
    return not any(cell.strip() in found for cell, found in zip(first, below, strict=True))


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


def _codes(path: Path, text: str, separator: str, header: bool, missing: set[str]) -> set[int]:
    """Columns with values such as 007, which as numbers would not be what they were."""
    ends = re.escape(separator) + r"\r\n"
    if not re.search(rf'[{ends}]"?0\d+"?[{ends}]', "\n" + text):
        return set()
    return {
        i
        for _, record in islice(records(path, text, separator), int(header), None)
        for i, cell in enumerate(record)
        if cell[:1] == "0" and cell[1:].isdecimal() and cell not in missing
    }


def _typed(
    frame: pl.DataFrame, missing: set[str], separator: str, as_text: list[bool]
) -> tuple[pl.DataFrame, tuple[int, int, str] | None]:
    """The table with texts without blanks around them, as numbers or dates where all are.

    Where nearly all texts of a column are numbers, the first that is none is given, too: its
    column, its row and the text.
    """
    columns, n = frame.get_columns(), len(frame)
    texts = [i for i, column in enumerate(columns) if column.dtype == pl.String]
    if not texts:
        return frame, None
    # All in one long column: thousands of short ones would each take polars a millisecond.
    long = pl.concat([columns[i].alias("") for i in texts], rechunk=True).str.strip_chars()
    long = long.set(long.is_in(sorted(missing)), None)
    # 1,5 is a number where commas separate nothing.
    plain = long if separator == "," else long.str.replace(",", ".", literal=True)
    numbers = plain.cast(pl.Float64, strict=False)
    held, is_number = (one.is_not_null().to_numpy().reshape(-1, n) for one in (long, numbers))
    n_held, n_numbers = held.sum(axis=1), is_number.sum(axis=1)
    slip = None
    for place, i in enumerate(texts):
        name, lo = columns[i].name, place * n
        columns[i] = long.slice(lo, n).alias(name)
        if as_text[i] or n_held[place] == 0:
            continue
        if n_numbers[place] == n_held[place]:
            columns[i] = numbers.slice(lo, n).alias(name)
        elif n_numbers[place] >= MOSTLY * n_held[place]:
            row = int(np.argmax(held[place] & ~is_number[place]))
            slip = slip or (i, row, columns[i][row])
        elif DATE.match(columns[i][int(np.argmax(held[place]))]):
            columns[i] = _dates(columns[i], int(n_held[place]))
    return pl.DataFrame(columns), slip


def _dates(text: pl.Series, n: int) -> pl.Series:
    """A column as dates if all of its n texts are, else as it is."""
    plain = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"):
        kind = pl.Date if form == "%Y-%m-%d" else pl.Datetime
        dates = plain.str.strptime(kind, form, strict=False)
        if dates.count() == n:
            return dates
    return text
