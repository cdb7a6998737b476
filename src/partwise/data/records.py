"""Text files as records: encoding, separator, and values per line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

from partwise._text import first_few, plural, unnamed
from partwise._warnings import warn
from partwise.data.frames import shortened
from partwise.data.text_options import MISSING

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DOUBLE_COLON = "::"  # between user, item, rating and time in MovieLens' own files

# Lines from which separator and header are detected.
FIRST_LINES = 200


class Decoded(NamedTuple):
    """A text and how it was encoded."""

    content: bytes
    text: str
    codec: str
    mark: bytes = b""  # byte order mark, if the file has one


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_NO_TEXT = "{} is neither text, parquet, .npy nor .npz; convert it to one of these."
_FIRST_LETTERS = 10_000  # of a file that is no text, one is a zero byte


def decode(path: Path, encoding: str | None = None) -> Decoded:
    """Read the text of a file; refuse files that are not text.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        By default the one of the byte order mark, or UTF-8.

    Returns
    -------
    decoded : Decoded
    """
    content = path.read_bytes()
    mark, codec = b"", encoding or "utf-8"
    for one, called in _MARKS:
        if content.startswith(one) and encoding in (None, called, called[:6], "utf-8-sig"):
            mark, codec = one, called
    try:
        text = content[len(mark) :].decode(codec)
    except UnicodeError as error:
        if encoding is None and b"\0" in content:
            raise ValueError(_NO_TEXT.format(path)) from None
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise ValueError(
            f"{path}, line {line}: the text is not {encoding or 'UTF-8'}; name its encoding, such "
            "as --encoding cp1252 (Windows) or --encoding latin-1, or save the file as UTF-8."
        ) from None
    except (LookupError, ValueError):
        raise ValueError(f"There is no encoding {encoding!r}; try utf-8 or latin-1.") from None
    if not text.strip():
        raise ValueError(f"{path} is empty; name a file with rows.")
    if encoding is None and not mark:
        _refuse_wide(path, content)
    refuse_bytes(path, text)
    if codec != "utf-8" and (found := _CONTROL.search(text)) and _is_latin(codec):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(
            f"{path}, line {line}: the text contains a control character in {codec}; its encoding "
            "is probably --encoding cp1252."
        )
    return Decoded(content, text, codec, mark)


def refuse_bytes(path: Path, text: str) -> None:
    """Refuse texts with zero bytes, or with byte order marks at the beginning of lines."""
    if (place := text.find("\0")) >= 0:
        if place < _FIRST_LETTERS:
            raise ValueError(_NO_TEXT.format(path))
        line = text.count("\n", 0, place) + 1
        raise ValueError(
            f"{path}, line {line}: the text contains a zero byte, as damaged files do; correct it."
        )
    if "\ufeff" in text and (joint := re.search(r"(?:^|[\r\n])\ufeff", text)):
        line = len(text[: joint.end()].splitlines())
        raise ValueError(
            f"{path}, line {line}: the line begins with a byte order mark, as where files were "
            "joined; remove it, and column names that are repeated there."
        )


def _refuse_wide(path: Path, content: bytes) -> None:
    """Refuse UTF-16 without a byte order mark: nearly every second byte is zero."""
    halves = content[0:2000:2], content[1:2000:2]
    for (high, low), name in ((halves, "utf-16-be"), (halves[::-1], "utf-16-le")):
        if 2 * high.count(0) > len(high) and not low.count(0):
            raise ValueError(f"{path} looks like UTF-16; use --encoding {name}.")


# Control characters; in cp1252 the same bytes are dashes, quotes and the euro sign.
_CONTROL = re.compile("[\x80-\x84\x86-\x9f]")


def _is_latin(codec: str) -> bool:
    return codecs.lookup(codec).name == "iso8859-1"


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read the text of a file as `decode` does, ending with one line break."""
    return ended(decode(path, encoding).text)


def ended(text: str) -> str:
    """End a text with one line break."""
    return text.rstrip("\r\n") + "\n"


def after_lines(text: str, n: int) -> int:
    """Position in a text after its first n lines."""
    lines = io.StringIO(text, newline="")
    for _ in islice(lines, n):
        pass
    return lines.tell()


def records(
    path: Path, text: str, separator: str, skipped: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Records of a text that are not blank, with the line in which each ends."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for record in reader:
            if record:
                yield reader.line_num + skipped, record
    except csv.Error:
        raise ValueError(
            f"{path}, up to line {reader.line_num + skipped}: a value has more than "
            f"{csv.field_size_limit():,} characters; shorten it, or close the quote that opens it."
        ) from None


def column_names(header: list[str]) -> list[str]:
    """Distinct names of columns: later ones of the same name are numbered."""
    times, out = Counter[str](), dict[str, None]()
    for i, cell in enumerate(header):
        name = plain = cell.strip() or unnamed(i)
        while name in out:
            times[plain] += 1
            name = f"{plain} ({times[plain] + 1})"
        out[name] = None
    return list(out)


def warn_of_renamed(path: Path, header: list[str], names: list[str]) -> None:
    """Issue a warning that says which columns `column_names` numbered."""
    pairs = zip(header, names, strict=True)
    renamed = [shortened(name) for cell, name in pairs if cell.strip() not in ("", name)]
    if renamed:
        warn(
            f"{path} has several columns of the same name; the later ones are called "
            f"{first_few(renamed, 5)}."
        )


def separator_of(path: Path, text: str) -> str:
    """The separator that gives most of the first lines the same number of values."""
    if text.startswith("sep="):
        raise ValueError(f"{path} begins with {text[:5]!r}, a line for spreadsheets; remove it.")
    best, chosen = (0.0, 0), ","
    for separator in (*SEPARATORS, DOUBLE_COLON):
        widths = Counter[int]()
        with suppress(ValueError):  # with a wrong separator, a value may be too long
            widths.update(islice(_widths(path, text, separator), FIRST_LINES))
        width, times = (widths.most_common(1) or [(0, 0)])[0]
        least = 3 if separator == DOUBLE_COLON else 2  # user, item and rating
        if width >= least and (times / widths.total(), width) > best:
            best, chosen = (times / widths.total(), width), separator
    return chosen


def _widths(path: Path, text: str, separator: str) -> Iterator[int]:
    """Number of values of every record that is not blank."""
    if separator == DOUBLE_COLON:
        return (len(line.split(separator)) for line in io.StringIO(text) if line.strip())
    return (len(row) for _, row in records(path, text, separator))


_PLAIN = re.compile(r"[+-]?(?:\d[\d.,]*|[.,]\d+)(?:[eE][+-]?\d+)?%?")
_DOCUMENTS = {
    re.compile(r"\s*(?:\{|\[\s*[\[{])"): "JSON",
    re.compile(r"\s*<\?xml"): "XML",
    re.compile(r"(?i)\s*<(?:!--|!doctype|[a-z]{1,10}[\s>])(?<!<NA>)"): "a web page",
    re.compile(r"(?i)insert into\s"): "SQL",
    re.compile(r"(?i)\s*@relation\s"): "an ARFF file",
    re.compile(r"%%MatrixMarket"): "a Matrix Market file",
}
# What separates values in few files, which are read as one column.
_OTHER_SEPARATORS = ("~", "^", ":", "#", "!", "&", "\x01", "\x1f", "\x1e")


def refuse_documents(path: Path, text: str, separator: str) -> None:
    """Refuse texts that are no tables, and those that have blanks between their values."""
    for shape, name in _DOCUMENTS.items():
        if shape.match(text):
            raise ValueError(
                f"{path} is {name}, not a table of text; save the table as .csv or .parquet."
            )
    lines = [line for line in islice(io.StringIO(text), FIRST_LINES) if line.strip()]
    if any(separator in line for line in lines):
        if all(len(row) == 1 for _, row in islice(records(path, text, separator), FIRST_LINES)):
            _refuse_one_column(path, text, separator)
        return
    _refuse_one_column(path, text, separator)
    words = [line.split() for line in lines]
    if len(words[0]) == 1:
        return
    widths = {len(one) for one in words[1:]}
    # Texts may have as many words in all lines; columns are aligned, or one has numbers.
    n_aligned = sum("  " in line.strip() for line in lines)
    digits = any(cell[-1].isdigit() for one in words[1:] for cell in one)
    cells = list(zip(*words[1:], strict=False))
    if len(widths) > 1:
        are_columns = n_aligned == len(lines) > 1 and digits
    elif widths == {len(words[0])}:
        are_columns = n_aligned > len(lines) / 2 and digits
        are_columns = are_columns or any(map(_are_numbers, cells))
    else:  # R leaves out the name of the column with the names of the rows
        are_columns = widths == {len(words[0]) + 1} and any(map(_are_numbers, cells[1:]))
    if are_columns:
        raise ValueError(
            f"{path} has blanks between its values; save it with commas or tabs between them."
        )


def _refuse_one_column(path: Path, text: str, separator: str) -> None:
    """Refuse a table of one column in which all values, and the name above, have other marks."""
    (_, (name, *_)), *rows = islice(records(path, text, separator), FIRST_LINES)
    cells = [row[0] for _, row in rows]
    if not cells or re.search(r"\d", name):
        return
    for mark in (*_OTHER_SEPARATORS, *SEPARATORS):
        n = name.count(mark)
        if n and all(cell.count(mark) == n for cell in cells):
            what = (
                f"has whole lines in quotes, with {SEPARATORS[mark]} in them; remove these quotes"
                if mark in SEPARATORS
                else f"has {mark!r} between its values; save it with commas or tabs between them"
            )
            raise ValueError(f"{path} {what}.")


def _are_numbers(cells: tuple[str, ...]) -> bool:
    """Whether cells are numbers, but for missing values."""
    held = [cell for cell in cells if cell not in MISSING]
    return bool(held) and all(_PLAIN.fullmatch(cell) for cell in held)


def refuse_rating_list(path: Path) -> NoReturn:
    """Raise an error that names the command for lists of ratings."""
    raise ValueError(
        f"{path} looks like a list of ratings (user, item, rating); learn from it with "
        f"`partwise recommend {path}`."
    )


def after_records(path: Path, text: str, separator: str, n: int) -> int:
    """Position in a text after its first n records."""
    if n == 0:
        return 0
    line, _ = next(islice(records(path, text, separator), n - 1, None))
    return after_lines(text, line)


def check_lengths(path: Path, text: str, separator: str, width: int, skipped: int = 0) -> int:
    """Number of records; all must have the same length."""
    n = 0
    for line, record in records(path, text, separator, skipped):
        n += 1
        if len(record) > width and not any(cell.strip() for cell in record[width:]):
            more = len(record) - width
            raise ValueError(
                f"{path}, line {line}: the line ends with {plural(more, 'separator')} more than "
                "the first; remove them, or add as many to the first line."
            )
        if (
            1 < width == len(record) - 1
            and n == 2
            and _has_short_header(path, text, separator, width)
        ):
            raise ValueError(
                f"{path}, line {line}: the first line has {width} names for {width + 1} columns; "
                "add a name for the first (R leaves out the one of its row names), or put values "
                f"that contain {SEPARATORS[separator]} in quotes."
            )
        if len(record) != width:
            raise ValueError(
                f"{path}, line {line}: {len(record)} values where the first line has {width}; "
                f"correct the line (put values that contain {SEPARATORS[separator]} in quotes)"
                f"{_titles(path, text, separator, skipped)}."
            )
    return n


def _has_short_header(path: Path, text: str, separator: str, width: int) -> bool:
    """Whether all records after the first have one value more."""
    first = islice(records(path, text, separator), 1, FIRST_LINES)
    return all(len(row) == width + 1 for _, row in first)


def _titles(path: Path, text: str, separator: str, skipped: int) -> str:
    """A hint for the case that the first lines have other lengths than most."""
    first = [(line, len(row)) for line, row in islice(records(path, text, separator), FIRST_LINES)]
    usual = Counter(width for _, width in first).most_common(1)[0][0]
    above = next(i for i, (_, width) in enumerate(first) if width == usual)
    if above == 0:
        return ""
    n = first[above - 1][0] + skipped
    return f", or leave lines above the table out with --skip-rows {n}"


def check_quotes(path: Path, text: str, separator: str, skipped: int = 0) -> None:
    """Refuse quotes that are not closed, or closed within a value."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line = skipped
    try:
        for _ in reader:
            line = reader.line_num + skipped
    except csv.Error:
        raise ValueError(
            f"{path}, line {line + 1}: a quote opens that does not close at the end of its value; "
            "close or remove it."
        ) from None
