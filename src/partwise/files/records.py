"""Text files as records: bytes to text, the separator, and lines cut at it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DOUBLE_COLON = "::"  # between user, item, rating and time in MovieLens' own files

# Lines that tell separator and header.
FIRST_LINES = 200


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read the text of a file, and refuse what is none.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        UTF-8 if not given.

    Returns
    -------
    text : str
        Ends with one line end.
    """
    content = path.read_bytes()
    try:
        text = content.decode(encoding or "utf-8-sig")
    except UnicodeError as error:
        if encoding is None and content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return read_text(path, "utf-16")
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise ValueError(
            f"{path}, line {line}: the text is not {encoding or 'UTF-8'}; name its encoding, such "
            "as --encoding latin-1, or save the file as UTF-8."
        ) from None
    except (LookupError, ValueError):
        raise ValueError(f"There is no encoding {encoding!r}; try utf-8 or latin-1.") from None
    if not text.strip():
        raise ValueError(f"{path} is empty; name a file that holds rows.")
    if "\0" in text[:10_000]:
        raise ValueError(
            f"{path} is neither text, parquet, .npy nor .npz; convert it to one of these."
        )
    return text.rstrip("\r\n") + "\n"


def records(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Records of a text that are not blank, with the line each ends in."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error:
        raise ValueError(
            f"{path}, up to line {reader.line_num}: a value has more than "
            f"{csv.field_size_limit():,} characters; shorten it, or close the quote that opens it."
        ) from None


def separator_of(path: Path, text: str) -> str:
    """What cuts most of the first lines into equally many pieces: one of SEPARATORS, or "::"."""
    best, chosen = (0.0, 0), ","
    for separator in (*SEPARATORS, DOUBLE_COLON):
        widths = Counter[int]()
        with suppress(ValueError):  # without the right one a line may be too long for one value
            widths.update(islice(_widths(path, text, separator), FIRST_LINES))
        width, times = (widths.most_common(1) or [(0, 0)])[0]
        least = 3 if separator == DOUBLE_COLON else 2  # ratings have a user, an item and a rating
        if width >= least and (times / widths.total(), width) > best:
            best, chosen = (times / widths.total(), width), separator
    return chosen


def _widths(path: Path, text: str, separator: str) -> Iterator[int]:
    """Number of pieces of every record that is not blank."""
    if separator == DOUBLE_COLON:
        return (len(line.split(separator)) for line in io.StringIO(text) if line.strip())
    return (len(row) for _, row in records(path, text, separator))


def after_records(path: Path, text: str, separator: str, n: int) -> str:
    """The text without its first records."""
    if n == 0:
        return text
    line, _ = next(islice(records(path, text, separator), n - 1, None))
    lines = io.StringIO(text, newline="")
    for _ in islice(lines, line):
        pass
    return text[lines.tell() :]


def check_lengths(path: Path, text: str, separator: str, width: int) -> int:
    """Number of records; all must be of one length."""
    n = 0
    for line, record in records(path, text, separator):
        n += 1
        if len(record) != width:
            raise ValueError(
                f"{path}, line {line}: {len(record)} values where the first line has {width}; "
                f"correct the line (values that hold {SEPARATORS[separator]} stand in quotes)."
            )
    return n


def check_quotes(path: Path, text: str, separator: str) -> None:
    """Refuse quotes that are not closed, or closed within a value."""
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 0
    try:
        for _ in reader:
            line = reader.line_num
    except csv.Error:
        raise ValueError(
            f"{path}, line {line + 1}: a quote opens that does not close at the end of its value; "
            "close it, or take it out."
        ) from None
