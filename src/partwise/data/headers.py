"""Whether the first line of a text file has the names of its columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

from partwise.data.records import records
from partwise.data.text_options import MISSING

# A number, date or amount of money begins with a digit, perhaps after a sign.
_DIGIT = re.compile(r"[^\w]{0,2}\d")
# Records from which a header is detected.
_LOOKED_AT = 999


@dataclass(frozen=True)
class TextPart:
    """The part of a text file that contains the table."""

    path: Path
    text: str  # ends with one line break
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


def names_columns(found: TextPart, may_be: bool = False) -> bool:
    """Whether the first record is a header: no value in it is a number, or occurs again.

    A name may occur as a value of its column where other names stand above numbers. Numbers that
    may be names, such as years, are names if the record ``may_be`` a header, and else refused.
    """
    first, *rows = found.records()
    first = [cell.strip() for cell in first]
    if not any(first):
        return False
    below = [{row[i].strip() for row in rows if i < len(row)} - {""} for i in range(len(first))]
    pairs = list(zip(first, below, strict=True))
    n_above = sum(_is_above_numbers(cell, values) for cell, values in pairs)
    if any(cell in values for cell, values in pairs):
        _check_repeated(found, first, pairs)
        return n_above > 1
    if len(first) > 2 and sum(map(bool, first)) == 1:
        above = next((i for i, row in enumerate(rows) if any(cell.strip() for cell in row)), 0)
        if above < len(rows) and all(cell.strip() for cell in rows[above]):
            raise ValueError(
                f"{found.path}, line {found.line(0)}: a single value looks like a title; skip it "
                f"with --skip-rows {found.line(above)}, or use --header or --no-header."
            )
    numbers = [float(cell.replace(",", ".")) for cell in first if _is_number(cell)]
    named = [cell for cell in first if cell and not _is_number(cell)]
    distinct = set(named)
    if not numbers:
        return n_above > 0 or len(distinct) == len(named)
    if named and n_above:
        return True
    if named and _are_counted(numbers):
        if may_be:
            return True
        raise ValueError(
            f"{found.path}, line {found.line(0)}: the first line may be column names "
            f"({', '.join(first[:4])}) or a row of values; use --header or --no-header."
        )
    return False


def _is_above_numbers(name: str, values: set[str]) -> bool:
    """Whether a text that is no value stands above numbers, dates or amounts."""
    if not name or not values or name in MISSING:
        return False
    return (not _is_number(name) and all(map(_is_number, values))) or (
        not _DIGIT.search(name) and all(map(_DIGIT.match, values))
    )


def _check_repeated(found: TextPart, first: list[str], pairs: list[tuple[str, set[str]]]) -> None:
    """Refuse names of columns that are repeated between numbers, as where files were joined."""
    rows = ([cell.strip() for cell in row] for row in found.records()[1:])
    again = next((i for i, row in enumerate(rows, 1) if row == first), None)
    if (
        again is not None
        and len(first) > 1
        and (
            any(
                not _is_number(cell) and len(values) > 1 and all(map(_is_number, values - {cell}))
                for cell, values in pairs
            )
            or _only_repeated(first, found.records()[1:])
        )
    ):
        raise ValueError(
            f"{found.path}, line {found.line(again)}: the line repeats the column names, as where "
            "files were joined; remove it."
        )


def _only_repeated(first: list[str], rows: list[list[str]]) -> bool:
    """Whether all values of a record, which differ, occur in no other record but its copies."""
    others = [row for row in rows if [cell.strip() for cell in row] != first]
    return len(set(first)) == len(first) and not any(
        cell in {row[i].strip() for row in others if i < len(row)} for i, cell in enumerate(first)
    )


def _are_counted(numbers: list[float]) -> bool:
    """Whether numbers may be names: distinct years, or at least three with equal steps."""
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
