"""Whether the sizes that a parquet file declares can be true, before its reader believes them.

polars reserves memory for what a file declares. A damaged count of the footer or of a page may mean
hundreds of gigabytes, and ends the process where the system refuses them; so does a schema nested
without end. Here the footer and the headers of pages are walked, but no values are decoded.
Structures are in Thrift's compact protocol; the numbers of their fields are those of the format's
definition, ``parquet.thrift``.
"""

from __future__ import annotations

import mmap
from pathlib import Path

_MARK = b"PAR1"
_ENCRYPTED = b"PARE"  # at both ends, where the footer is encrypted
_TAIL = 8  # the footer's length, and the mark once more
_DEEPEST = 100  # levels of the schema, and of structures in structures
_TOO_DEEP = "its footer or a page is nested too deeply"
_SMALL = 64 << 20  # bytes of a page that any file may have: some writers' totals leave parts out

# Types of Thrift's compact protocol.
_BYTE, _DOUBLE, _BINARY, _MAP, _STRUCT = 3, 7, 8, 11, 12
_NO_BYTES = (1, 2)  # true and false: nothing in a structure, a byte in a list
_WHOLE = (4, 5, 6)  # of 16, 32 and 64 bits
_LISTS = (9, 10)  # and sets

Value = int | list["Value"] | dict[int, "Value"] | None
Fields = dict[int, Value]
Wanted = dict[int, "Wanted"]  # fields of a structure that are looked at, and those of their values

_COLUMN: Wanted = {field: {} for field in (5, 6, 7, 9, 11)}
_CHUNK: Wanted = {1: {}, 3: _COLUMN, 8: {}}
_FOOTER: Wanted = {2: {3: {}, 5: {}}, 3: {}, 4: {1: _CHUNK, 3: {}}}
_PAGE: Wanted = {2: {}, 3: {}, 5: {1: {}}, 7: {1: {}}, 8: {1: {}}}


def impossible(path: Path) -> str | None:
    """What a parquet file declares that cannot be true, in words for a message.

    Parameters
    ----------
    path : Path
        A file that starts with the mark of parquet files.

    Returns
    -------
    reason : str or None
        None if nothing was found; the values themselves may still be damaged.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            _check(content)
        except _ImpossibleError as error:
            return str(error)
        except IndexError:
            return "its footer or a page ends too early"
    return None


class _ImpossibleError(Exception):
    pass


def _refuse_unless(holds: bool, reason: str) -> None:
    if not holds:
        raise _ImpossibleError(reason)


# --- the file ---


def refuse_encrypted(path: Path) -> None:
    """Refuse a parquet file if it, or some of its columns, can be read with a key only."""
    if path.stat().st_size and _is_encrypted(path):
        raise ValueError(f"{path} is encrypted; save it without encryption.")


def _is_encrypted(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[:4] == _ENCRYPTED:
            return True
        start, end = _footer_of(content)
        if not len(_MARK) <= start <= end:
            return False
        try:
            footer, _ = _fields(content[start:end], 0, _FOOTER)
        except (_ImpossibleError, IndexError):
            return False
    chunks = [one for group in _structures(footer, 4) for one in _structures(group, 1)]
    return any(8 in chunk for chunk in chunks)


def _footer_of(content: mmap.mmap) -> tuple[int, int]:
    end = len(content) - _TAIL
    return end - int.from_bytes(content[-_TAIL:-4], "little"), end


def _check(content: mmap.mmap) -> None:
    _refuse_unless(content[-4:] == _MARK and len(content) >= 2 * _TAIL, "it has no footer")
    start, end = _footer_of(content)
    _refuse_unless(start >= len(_MARK), "its footer is larger than the file")
    footer, _ = _fields(content[start:end], 0, _FOOTER)
    repeats = _repeated_leaves(_structures(footer, 2))
    groups = _structures(footer, 4)
    rows = [_number(group, 3) for group in groups]
    _refuse_unless(
        min(rows, default=0) >= 0 and sum(rows) == _number(footer, 3),
        "its row groups do not have the number of rows that it declares",
    )
    for group, n in zip(groups, rows, strict=True):
        for i, chunk in enumerate(_structures(group, 1)):
            column = chunk.get(3)
            if isinstance(column, dict) and 1 not in chunk:  # neither encrypted nor elsewhere
                is_flat = i < len(repeats) and not repeats[i]
                _check_chunk(content, start, column, n if is_flat else None)


def _repeated_leaves(schema: list[Fields]) -> list[bool]:
    """Whether each column may have several values per row; the schema is a tree, depth first."""
    leaves: list[bool] = []
    open_groups: list[tuple[int, bool]] = [(1, False)]  # children left, and whether it repeats
    for element in schema:
        while open_groups and not open_groups[-1][0]:
            open_groups.pop()
        _refuse_unless(bool(open_groups), "its schema has more columns than it declares")
        left, repeated = open_groups[-1]
        open_groups[-1] = left - 1, repeated
        repeated |= _number(element, 3) == 2
        children = _number(element, 5)
        if children:
            open_groups.append((children, repeated))
            _refuse_unless(len(open_groups) <= _DEEPEST, "its schema is nested too deeply")
        else:
            leaves.append(repeated)
    return leaves


def _check_chunk(content: mmap.mmap, end: int, column: Fields, n: int | None) -> None:
    """Whether the pages of a column of a row group lie in the file, and have its sizes."""
    declared, most = _number(column, 5), max(_number(column, 6), _SMALL)
    _refuse_unless(
        declared >= 0 and n in (None, declared),
        "a column does not have as many values as its row group has rows",
    )
    if not declared:
        return  # no pages; some writers give it no place either
    first = [_number(column, field) for field in (9, 11)]  # of the data, and of their dictionary
    at = min([offset for offset in first if offset > 0], default=0)
    stop = at + _number(column, 7)
    _refuse_unless(0 < at <= stop <= end, "a column lies outside of the file")
    left = declared
    while left and at < stop:
        header, at = _fields(content, at, _PAGE)
        size, packed = _number(header, 2), _number(header, 3)
        at += packed
        _refuse_unless(packed >= 0 and at <= end, "a page lies outside of the file")
        _refuse_unless(0 <= size <= most, "a page is larger than its column")
        words = header.get(7)
        if isinstance(words, dict):
            _refuse_unless(0 <= _number(words, 1) <= size, "a dictionary is larger than its page")
        for values in (header.get(5), header.get(8)):
            if isinstance(values, dict):
                n_values = _number(values, 1)
                _refuse_unless(0 <= n_values <= left, "a page has more values than its column")
                left -= n_values


def _structures(fields: Fields, number: int) -> list[Fields]:
    found = fields.get(number)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _number(fields: Fields, number: int) -> int:
    found = fields.get(number, 0)
    return found if isinstance(found, int) else -1


# --- Thrift's compact protocol ---


# Functions take a place of the content and return the place behind what they read; nothing reaches
# beyond the end. A footer has a hundred values per column of a row group, of which few are wanted,
# so that the others are walked over in one loop.


def _fields(
    content: bytes | mmap.mmap, at: int, wanted: Wanted, depth: int = 0
) -> tuple[Fields, int]:
    """Values of a structure by their fields' numbers; of all that take bytes, those wanted."""
    found: Fields = {}
    number = 0
    while head := content[at]:
        at += 1
        if head > 15:
            number += head >> 4
        else:
            number, at = _whole(content, at)
        kind = head & 15
        if kind in _NO_BYTES:
            found[number] = 1
        elif number in wanted:
            found[number], at = _value(content, at, kind, wanted[number], depth)
        else:
            at = _after(content, at, kind, depth)
    return found, at + 1


def _value(
    content: bytes | mmap.mmap, at: int, kind: int, wanted: Wanted, depth: int
) -> tuple[Value, int]:
    """A number, or the wanted fields of a structure or of all structures of a list."""
    if kind in _WHOLE:
        return _whole(content, at)
    _refuse_unless(depth <= _DEEPEST, _TOO_DEEP)
    if kind == _STRUCT:
        return _fields(content, at, wanted, depth + 1)
    if kind in _LISTS:
        inner, count, at = _list(content, at)
        values: list[Value] = []
        for _ in range(count):
            value, at = _value(content, at, inner, wanted, depth + 1)
            values.append(value)
        return values, at
    return None, _after(content, at, kind, depth)


def _after(content: bytes | mmap.mmap, at: int, kind: int, depth: int) -> int:
    """The place behind a value."""
    if kind in _WHOLE:
        while content[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _unsigned(content, at)
        return _skipped(content, at, size)
    if depth > _DEEPEST:
        raise _ImpossibleError(_TOO_DEEP)
    if kind == _STRUCT:
        while head := content[at]:
            at += 1
            if head < 16:  # the field's number follows
                _, at = _unsigned(content, at)
            kind = head & 15
            if kind in _WHOLE and content[at] < 128:
                at += 1
            elif kind not in _NO_BYTES:
                at = _after(content, at, kind, depth + 1)
        return at + 1
    if kind in _LISTS:
        inner, count, at = _list(content, at)
        for _ in range(count):
            at = _after(content, at, inner, depth + 1)
        return at
    if kind == _BYTE or kind in _NO_BYTES:
        return at + 1
    if kind == _DOUBLE:
        return _skipped(content, at, 8)
    if kind == _MAP:
        count, at = _unsigned(content, at)
        _skipped(content, at, count)
        if count:  # else the types are left out, too
            kinds, at = content[at], at + 1
        for _ in range(count):
            at = _after(content, at, kinds >> 4, depth + 1)
            at = _after(content, at, kinds & 15, depth + 1)
        return at
    raise _ImpossibleError("its footer or a page has values of an unknown type")


def _list(content: bytes | mmap.mmap, at: int) -> tuple[int, int, int]:
    """The type of a list's elements, their number, and the place of the first."""
    head, at = content[at], at + 1
    count, at = _unsigned(content, at) if head >> 4 == 15 else (head >> 4, at)
    _skipped(content, at, count)  # an element takes a byte at least
    return head & 15, count, at


def _skipped(content: bytes | mmap.mmap, at: int, size: int) -> int:
    """The place so many bytes further on."""
    if size > len(content) - at:
        raise _ImpossibleError("its footer or a page declares more than there is")
    return at + size


def _unsigned(content: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, the lowest first."""
    number = shift = 0
    while (byte := content[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        _refuse_unless(shift < 64, "its footer or a page has a number without end")
    return number | byte << shift, at + 1


def _whole(content: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """A signed number, whose sign is its lowest bit."""
    number, at = _unsigned(content, at)
    return number >> 1 ^ -(number & 1), at
