"""Options for reading text, and the format of a text that was read.

Options are the user's. A `TextFormat` says how the file with the rows of a fit was read. It decides
how ambiguous columns of new files are read, and shows where new files differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from partwise.contracts import Array

if TYPE_CHECKING:
    from partwise.data.forms import Form

# The word None is noted, since it may be an answer. Databases write \N, spreadsheets words with #.
MISSING = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "NaT", "NULL", "null", "None", "<NA>", "?"),
    *("\\N", "#N/A", "#NA", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
)
DATE_ORDERS = {"dmy": "day", "mdy": "month", "ymd": "year"}
DURATIONS = ("h:mm", "m:ss")


@dataclass(frozen=True)
class ColumnFormat:
    """How a column was written, as far as its values showed it."""

    decimal: str = ""
    unit: str = ""
    date_order: str = ""
    first_year: int | None = None  # of the hundred to which years of two digits belong
    duration: str = ""


@dataclass(frozen=True)
class TextFormat:
    """How a text file was written: texts that mean missing, and columns by name."""

    missing: frozenset[str]
    columns: Mapping[str, ColumnFormat]

    def of(self, names: Iterable[str]) -> TextFormat:
        """The format of some of the columns."""
        return TextFormat(self.missing, {name: self.columns[name] for name in names})


@dataclass(frozen=True)
class TextOptions:
    """The user's options for a text; keys of mappings are columns, "" means all."""

    missing: frozenset[str] = frozenset(MISSING)
    texts: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    decimal: Mapping[str, str] = field(default_factory=dict)
    thousands: Mapping[str, str] = field(default_factory=dict)
    date_order: Mapping[str, str] = field(default_factory=dict)
    first_year: Mapping[str, int] = field(default_factory=dict)
    durations: Mapping[str, str] = field(default_factory=dict)
    like: Mapping[str, ColumnFormat] = field(default_factory=dict)  # columns of a model


class ColumnOptions:
    """The options for one column."""

    def __init__(self, name: str, options: TextOptions) -> None:
        self.name = name
        self.decimal, self.thousands, self.order = (
            one.get(name, one.get(""))
            for one in (options.decimal, options.thousands, options.date_order)
        )
        self.is_known = name in options.like
        self.like = options.like.get(name, ColumnFormat())
        year = options.first_year
        self.first_year = year.get(name, year.get(""))
        self.has_durations = name in options.durations and name not in options.texts
        self.duration = options.durations.get(name, self.like.duration)

    def is_plain(self, thousand: Array, dotted: Array) -> bool:
        """Whether numbers in Python's notation are unambiguous.

        ``thousand`` and ``dotted`` (n,) say which have a point before three last digits, and which
        have a point.
        """
        if self.thousands == "." or self.decimal == ",":
            return not dotted.any()
        return self.decimal == "." or not thousand.any() or bool((dotted & ~thousand).any())


class Doubt(ValueError):  # noqa: N818  # the user decides, so it is not an error of the program
    """A column that cannot be read, or can be read in two ways."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row, self.column = row, ""


@contextmanager
def about(name: str) -> Iterator[None]:
    """Name the column of a doubt."""
    try:
        yield
    except Doubt as doubt:
        doubt.column = name
        raise


class Open(NamedTuple):
    """A column of numbers with either decimal mark, or of dates in either order."""

    forms: Mapping[str, Form]  # by decimal sign, or order
    row: int  # of a cell that differs
