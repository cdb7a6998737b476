"""Detection of the formats of text columns, per column from all of its values.

Where two readings are possible and the table does not decide between them, `Doubt` is raised; the
message names the options that do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from typing import NamedTuple

import numpy as np
import polars as pl

from partwise.contracts import Array
from partwise.data.forms import (
    MINUS,
    DateForm,
    Form,
    NumberForm,
    SpanForm,
    TextForm,
    TruthForm,
)
from partwise.data.frames import shortened

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")

# A text in a column with this fraction of numbers is an error, not a category.
MOSTLY = 0.9
# Columns of dates, or of numbers with units: polars takes two milliseconds for each.
MAX_WRITTEN_COLUMNS = 3000
# Cells from which candidate forms are chosen; then all cells are read.
_LOOKED_AT = 7

_MONEY = (
    r"US\$|\p{Sc}|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|kr\.?"
)
_NUMBER = (
    rf"^(\()?([+\-{MINUS}]?)((?:{_MONEY})?\s?)([+\-{MINUS}]?)"
    r"(\d(?:[\d.,'’\x{a0}\x{202f} ]*[\d.,])?|[.,]\d+)((?:[eE][+-]?\d+)?)"
    rf"(\s?(?:%|{_MONEY}|[\p{{L}}µ°]{{1,4}}[²³]?)?)(\))?$"
)
# The same for Python, for single cells.
_NUMERIC = re.compile(
    rf"^[(+\-{MINUS}\s]*(\D{{1,3}}\.?)?[+\-{MINUS}\s]*[.,]?\d[\d.,'’\s]*\D{{0,5}}$"
)
_TRUTHS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))
# A number with one point, or comma, before three digits: a thousand, or three decimals.
_THOUSAND = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
_SIGNS = {".": "points", ",": "commas", "'": "apostrophes", "’": "apostrophes"}

_ORDERS = {"dmy": "day", "mdy": "month", "ymd": "year"}
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?:\s?[AaPp][Mm])?"
_ZONE = r"(?:\s?(?:Z|[+-]\d\d:?\d\d))?"
_DATE = re.compile(r"^(\d{1,4})([./-])\d{1,2}\2(\d{1,4})" + rf"(?:(T|,?\s)({_CLOCK})({_ZONE}))?$")
_NAMED_DATE = re.compile(
    r"^(?:\d{1,2}(\.?[ -])[A-Za-z]{3,9}(\.?,?[ -])(\d{4}|\d\d)"
    r"|([A-Za-z]{3,9})(\.?) \d{1,2}(,?) \d{4})"
    rf"(?:(T|,?\s)({_CLOCK}))?$"
)
_TIME = re.compile(rf"^({_CLOCK})$")
_MONTH = re.compile(r"^(?:0?[1-9]|1[0-2])\.(?:19|20)\d\d$")
_OTHER_MONTHS = {
    re.compile(r"^\d{1,2}([/-])(?:19|20)\d\d$"): "%m{0}%Y",
    re.compile(r"^(?:19|20)\d\d([/-])\d\d$"): "%Y{0}%m",
    re.compile(r"^[A-Za-z]{3}([ -])(?:19|20)\d\d$"): "%b{0}%Y",
}
_SPAN = r"^\d+:[0-5]\d(:[0-5]\d)?$"


@dataclass(frozen=True)
class TextOptions:
    """The user's options for a text; keys of mappings are columns, "" means all."""

    missing: frozenset[str] = frozenset(MISSING)
    texts: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    decimal: Mapping[str, str] = field(default_factory=dict)
    thousands: Mapping[str, str] = field(default_factory=dict)
    date_order: Mapping[str, str] = field(default_factory=dict)


class Doubt(ValueError):  # noqa: N818  # the user decides, so it is not an error of the program
    """A column that cannot be read, or can be read in two ways."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row, self.column = row, ""


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Name the column of a doubt."""
    try:
        yield
    except Doubt as doubt:
        doubt.column = name
        raise


class Read(NamedTuple):
    """Columns with their forms, and notes for the user."""

    values: list[pl.Series]
    forms: list[Form]
    notes: list[str]


class _Open(NamedTuple):
    """A column of numbers with either decimal mark, or of dates in either order."""

    forms: dict[str, Form]  # by decimal sign, or order
    row: int  # of a cell that differs


def read_columns(
    cells: Sequence[pl.Series], names: Sequence[str], separator: str, options: TextOptions
) -> Read:
    """Detect the forms of columns, and read them.

    Parameters
    ----------
    cells : sequence of Series
        Texts, column by column.
    names : sequence of str
    separator : str
        Between the values of a line.
    options : TextOptions

    Returns
    -------
    read : Read
    """
    n = len(cells[0])
    # All in one long column: polars takes a millisecond per column, and there may be thousands.
    long = pl.concat([column.alias("") for column in cells], rechunk=True).str.strip_chars()
    long = long.set(long.is_in(sorted(options.missing)).fill_null(True), None)
    number, whole = (long.cast(kind, strict=False) for kind in (pl.Float64, pl.Int64))
    held, is_number, is_whole = (_grid(one.is_not_null(), n) for one in (long, number, whole))
    thousand, coded, dotted, digits = (
        _grid(long.str.contains(pattern), n)
        for pattern in (_THOUSAND, r"^0\d+$", r"\.\d", r"^[+-]?\d+$")
    )
    # Integers that are too long for a number are names, too: a float would change their digits.
    coded |= digits & ~is_whole & (digits | ~held).all(axis=1, keepdims=True)
    values: list[pl.Series] = []
    forms: list[Form | _Open] = []
    signs, orders, n_written = set[str](), set[str](), 0
    for i, name in enumerate(names):
        text, own = long.slice(i * n, n).alias(name), _Own(name, options)
        form: Form | _Open = TextForm()
        is_code = coded[i].any() and name not in options.numbers
        if name in options.texts or is_code or not held[i].any():
            pass
        elif (is_number[i] | ~held[i]).all() and own.is_plain(thousand[i], dotted[i]):
            with _about(name):
                days = None if name in options.numbers else _compact_dates(text, held[i], own)
            form = NumberForm() if days is None else days
            signs |= {"."} if dotted[i].any() else set()
            if days is None:
                read = whole if (is_whole[i] | ~held[i]).all() else number
                text = read.slice(i * n, n).alias(name)
        else:
            with _about(name):
                form = _decided(text, held[i], own)
            n_written += not isinstance(form, TextForm | TruthForm)
            if n_written > MAX_WRITTEN_COLUMNS:
                raise Doubt(
                    int(np.argmax(held[i])),
                    f"more than {MAX_WRITTEN_COLUMNS:,} columns hold dates or numbers with units, "
                    f"as column {shortened(name)} does; write plain numbers, or save the table as "
                    ".parquet.",
                )
            signs |= _shown_sign(form, text)
            orders |= _shown_order(form)
        values.append(text)
        forms.append(form)
    settled, notes = list[Form](), list[str]()
    for i, (name, form) in enumerate(zip(names, forms, strict=True)):
        if isinstance(form, _Open):
            with _about(name):
                form = _settled(name, values[i], form, signs, orders, separator, notes)
        notes += _notes(name, form)
        if values[i].dtype == pl.String:
            values[i] = form.read(values[i]).alias(name)
        settled.append(form)
    return Read(values, settled, notes)


def _notes(name: str, form: Form) -> list[str]:
    """Notes on how a column was read."""
    if isinstance(form, DateForm) and form.of_months:
        return [f"{shortened(name)} holds months"]
    if isinstance(form, DateForm):
        days = form.kind is not pl.Time and "%Y-%m" not in form.pattern
        shown = {"%d": "day", "%m": "month", "%b": "month", "%B": "month"}
        order = shown.get(form.pattern[:2], "year")
        return [f"dates in {shortened(name)} have the {order} first"] if days else []
    if not isinstance(form, NumberForm):
        return []
    out, unit = list[str](), (form.before + form.after).strip()
    if form.thousands:
        word = _SIGNS.get(form.thousands, "blanks")
        out.append(f"{word} in {shortened(name)} separate thousands")
    if unit:
        out.append(f"{shortened(name)} is in {unit}")
    if form.in_parentheses:
        out.append(f"parentheses in {shortened(name)} mean negative numbers")
    return out


def _grid(column: pl.Series, n: int) -> Array:
    return column.fill_null(False).to_numpy().reshape(-1, n)


class _Own:
    """The user's options for one column."""

    def __init__(self, name: str, options: TextOptions) -> None:
        self.name = name
        self.decimal, self.thousands, self.order = (
            one.get(name, one.get(""))
            for one in (options.decimal, options.thousands, options.date_order)
        )

    def is_plain(self, thousand: Array, dotted: Array) -> bool:
        """Whether numbers in Python's notation are unambiguous."""
        if self.thousands == "." or self.decimal == ",":
            return not dotted.any()
        return self.decimal == "." or not thousand.any() or bool((dotted & ~thousand).any())


def _decided(text: pl.Series, held: Array, own: _Own) -> Form | _Open:
    """The form of a column, or candidates."""
    rows = np.flatnonzero(held)
    spread = np.unique(np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(int))
    looked = [text[int(row)] for row in rows[spread]]
    for yes, no in _TRUTHS:
        if looked[0] in (yes, no) and text.is_in([yes, no]).sum() == len(rows):
            return TruthForm(yes, no)
    for cell in dict.fromkeys(looked):
        found = _dates(text, cell, len(rows), own)
        if found is not None:
            return found
    if any(_NUMERIC.match(cell) for cell in looked):
        return _numbers(text, held, own) or TextForm()
    return TextForm()


# --- numbers ---


def _numbers(text: pl.Series, held: Array, own: _Own) -> Form | _Open | None:
    """Numbers with units, decimal marks and thousands separators; None if too few are numbers."""
    pieces = text.str.extract_groups(_NUMBER).struct.unnest()
    opened, _, before, _, core, power, after, closed = pieces.get_columns()
    fits = core.is_not_null() & (opened.is_null() == closed.is_null())
    _check_most(text, held, _grid(fits, len(text))[0], own.name)
    if fits.sum() < held.sum():
        return None
    around = [_affix(own.name, text, affix) for affix in (before, after)]
    if None in around:
        return None
    form = NumberForm(
        before=around[0] or "",
        after=around[1] or "",
        in_parentheses=bool(opened.is_not_null().any()),
    )
    if opened.is_not_null().sum() == held.sum():
        return None  # (1), (2): numbers of notes, not negative numbers
    used = set("".join(core.str.replace_all(r"[\d]+", "").unique().drop_nulls().to_list()))
    signs = ".," if own.decimal is None else own.decimal
    found, best = dict[str, NumberForm](), np.zeros(len(text), bool)
    for sign in signs:
        others = used - {sign}
        groups = others.pop() if len(others) == 1 else ""
        asked = own.thousands
        if asked is not None and groups not in ("", asked) and not (groups + asked).isspace():
            continue
        if others or (own.thousands is not None and own.thousands == sign and sign in used):
            continue
        valid = core.str.contains(_number_of(sign, groups))
        valid &= ~(power.str.len_chars() > 0) | ~core.str.contains(rf"[^\d{re.escape(sign)}]")
        mask = _grid(valid, len(text))[0]
        best = mask if mask.sum() > best.sum() else best
        if mask.sum() == held.sum():
            found[sign] = replace(form, decimal=sign, thousands=groups)
    if not found:
        _check_signs(text, core, held, own)
        _check_most(text, held, best, own.name)
        return None
    if len(found) == 1:
        return next(iter(found.values()))
    point, comma = (found[sign].read(text) for sign in ".,")
    differ = _grid(point.cast(pl.Float64) != comma.cast(pl.Float64), len(text))[0]
    if not differ.any():
        return found["."]
    return _Open(dict(found), int(np.argmax(differ)))


def _number_of(decimal: str, groups: str) -> str:
    """Pattern of a number with this decimal mark and thousands separator."""
    mark, end = re.escape(groups), re.escape(decimal)
    grouped = rf"|[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}" if groups else ""
    return rf"^(?:(?:\d+{grouped})(?:{end}\d*)?|{end}\d+)$"


def _affix(name: str, text: pl.Series, affix: pl.Series) -> str | None:
    """Text before, or after, all numbers of a column; None if it is not a common unit."""
    bare = affix.str.strip_chars()
    kinds = bare.filter(bare.str.len_chars() > 0).unique().sort()
    if kinds.is_empty():
        return ""
    lacks = (bare == "").fill_null(False)
    if len(kinds) == 1 and not lacks.any():
        return str(affix.drop_nulls()[0])
    if not kinds.str.contains(rf"^(?:%|{_MONEY})$").all():
        return None
    if len(kinds) > 1:
        raise Doubt(
            int((bare == kinds[1]).fill_null(False).arg_max() or 0),
            f"column {shortened(name)} looks like money in several currencies "
            f"({', '.join(kinds)}); convert it to one, or use --kind "
            f"{shortened(name + '=categorical')} or --ignore {shortened(name)}.",
        )
    what, row = "percentages" if kinds[0] == "%" else "money", int(lacks.arg_max() or 0)
    raise Doubt(
        row,
        f"column {shortened(name)} looks like {what}, but {shortened(text[row])} has no "
        f"{kinds[0]}; write it to all values or to none, or use --kind "
        f"{shortened(name + '=categorical')}.",
    )


def _check_most(text: pl.Series, held: Array, fits: Array, name: str) -> None:
    """Refuse a text in a column where nearly all values are numbers."""
    if fits.sum() == held.sum() or fits.sum() < MOSTLY * held.sum():
        return
    row = int(np.argmax(held & ~fits))
    raise Doubt(
        row,
        f"column {shortened(name)} holds {shortened(text[row])}, though nearly all of its values "
        f"are numbers; correct it, or say what it is with --missing {shortened(text[row])} or "
        f"--kind {shortened(name + '=categorical')}.",
    )


def _check_signs(text: pl.Series, core: pl.Series, held: Array, own: _Own) -> None:
    """Refuse columns with two different decimal marks."""
    points, commas = (
        _grid(core.str.contains(_number_of(decimal, groups)), len(text))[0]
        for decimal, groups in (".,", ",.")
    )
    if (points | commas).sum() < held.sum():
        return
    rows = sorted(int(np.argmax(held & ~other)) for other in (commas, points))
    shown = [shortened(text[row]) for row in rows]
    if own.decimal is None:
        raise Doubt(
            rows[1],
            f"column {shortened(own.name)} holds both {shown[0]} and {shown[1]}, which use "
            f"different decimal marks or separators; correct it, or use --kind "
            f"{shortened(own.name + '=categorical')}.",
        )


def _shown_sign(form: Form | _Open, text: pl.Series) -> set[str]:
    """The decimal mark of a column of numbers, if it is unambiguous."""
    if not isinstance(form, NumberForm):
        return set()
    other = "," if form.decimal == "." else "."
    shows = form.thousands == other or text.str.contains(form.decimal, literal=True).any()
    return {form.decimal} if shows else set()


def _settled(
    name: str,
    text: pl.Series,
    found: _Open,
    signs: set[str],
    orders: set[str],
    separator: str,
    notes: list[str],
) -> Form:
    """Decide by the other columns of the table; refuse where they do not decide."""
    cell = shortened(text[found.row])
    others = orders if "dmy" in found.forms or "mdy" in found.forms else signs
    agreed = [form for key, form in found.forms.items() if others in ({key}, {key[0]})]
    if agreed:
        return agreed[0]
    first, second = list(found.forms)[:2]
    if first in _ORDERS:
        raise Doubt(
            found.row,
            f"column {shortened(name)} holds {cell}, a date with the {_ORDERS[first]} first or the "
            f"{_ORDERS[second]} first; use --date-order {first} or --date-order {second}.",
        )
    point, comma = (found.forms[sign].read(text.slice(found.row, 1))[0] for sign in ".,")
    every = text.str.contains(_THOUSAND).sum() == text.count()
    if separator == "," and every:
        # Where commas separate values, points are decimal points, and all have three decimals.
        notes.append(f"points in {shortened(name)} are decimal points ({cell} is below 1000)")
        return found.forms["."]
    sign = "." if point < comma else ","
    raise Doubt(
        found.row,
        f"column {shortened(name)} holds {cell}, which is {max(point, comma):g} or "
        f"{min(point, comma):g}; use --thousands {shortened(sign)} or --decimal {shortened(sign)} "
        f"(for this column only --thousands {shortened(f'{name}={sign}')}).",
    )


# --- dates and times ---


def _shown_order(form: Form | _Open) -> set[str]:
    """Whether day or month is first in a column of dates, if it is unambiguous."""
    if not isinstance(form, DateForm) or form.pattern[2:3] not in ("/", "-") or form.of_months:
        return set()
    return {form.pattern[1]} & {"d", "m"}


def _dates(text: pl.Series, cell: str, n: int, own: _Own) -> Form | _Open | None:
    """The form of dates or times like a cell, if it fits all n values; else None."""
    if _TIME.match(cell):
        return _times(text, cell, n)
    for shape, pattern in _OTHER_MONTHS.items():
        if match := shape.match(cell):
            months = DateForm(pattern.format(match[1]), pl.Date, of_months=True)
            fits = text.str.contains(shape.pattern).sum() == n == months.read(text).count()
            return months if fits else None
    candidates = _patterns(cell)
    if not candidates:
        return None
    found, values, most = dict[str, DateForm](), dict[str, pl.Series](), None
    for order, (pattern, kind, after) in candidates.items():
        if own.order is not None and len(candidates) > 1 and order != own.order:
            continue
        for one, end in _variants(pattern, after):
            dates = DateForm(one, kind, end).read(text.set(~_shaped(text, one), None))
            most = dates if most is None or dates.count() > most.count() else most
            if dates.count() == n:
                found[order], values[order] = DateForm(one, kind, end), dates
                break
    if not found:
        if most is not None:
            _check_dates(text, most, cell, n, own.name)
        return None
    first = next(iter(found))
    others = [order for order in found if not values[order].equals(values[first])]
    if not others or (first == "dmy" and "." in found[first].pattern[:4]):
        return found[first]
    differ = (values[first] != values[others[0]]).fill_null(False)
    return _Open({order: found[order] for order in (first, *others)}, int(differ.arg_max() or 0))


def _check_dates(text: pl.Series, dates: pl.Series, cell: str, n: int, name: str) -> None:
    """Refuse columns in which most values are dates, but not all."""
    if dates.count() < 0.5 * n:
        return
    row = int((dates.is_null() & text.is_not_null()).arg_max() or 0)
    raise Doubt(
        row,
        f"column {shortened(name)} holds {shortened(text[row])}, though most of its values are "
        f"dates such as {shortened(cell)}; use one format for all, or use --missing "
        f"{shortened(text[row])} or --kind {shortened(name + '=categorical')}.",
    )


def _shaped(text: pl.Series, pattern: str) -> pl.Series:
    """Whether the years in texts have as many digits as in the pattern."""
    if "%Y" in pattern:
        year = r"(?:^|\D)\d{4}(?:\D|$)"
    else:
        year = r"^\d{1,2}\D+(?:\d{1,2}\D+)?\d\d(?:\D|$)"
    return text.str.contains(year).fill_null(False)


def _variants(pattern: str, after: str) -> list[tuple[str, str]]:
    """The pattern, with fractions of seconds, and with varying offsets from UTC."""
    out = [(pattern, after)]
    if "%S" in pattern:
        out.append((pattern.replace("%S", "%S%.f"), after))
    if after.strip()[:1] in ("+", "-"):
        out += [(one + "%:z", "") for one, _ in out]
    return out


_Kind = type[pl.Date | pl.Datetime | pl.Time]


def _patterns(cell: str) -> dict[str, tuple[str, _Kind, str]]:
    """Possible date patterns of a cell, by the order of day, month and year."""
    after = ""
    if match := _DATE.match(cell):
        first, mark, last, joint, clock, zone = match.groups()
        year = "%Y" if 4 in (len(first), len(last)) else "%y"
        if len(first) == 4:
            orders = ["ymd"]
        elif len(last) == 4:
            orders = ["dmy", "mdy"]
        elif len(first) <= 2 and len(last) <= 2:
            orders = ["dmy", "mdy", *(["ymd"] if len(first) == 2 else [])]
        else:
            return {}
        codes = {"d": "%d", "m": "%m", "y": year}
        days = {order: mark.join(codes[letter] for letter in order) for order in orders}
        after = zone or ""
    elif match := _NAMED_DATE.match(cell):
        one, two, last, month, dot, comma, joint, clock = match.groups()
        name = "%B" if len(max(re.findall("[A-Za-z]+", cell), key=len)) > 3 else "%b"
        if month:
            days = {"named": f"{name}{dot} %d{comma} %Y"}
        else:
            days = {"named": f"%d{one}{name}{two}{'%Y' if len(last) == 4 else '%y'}"}
    else:
        return {}
    kind: _Kind = pl.Date
    if clock:
        kind = pl.Datetime
        days = {order: f"{day}{joint}{_clock(clock)}" for order, day in days.items()}
    return {order: (day, kind, after) for order, day in days.items()}


def _clock(cell: str) -> str:
    """The pattern of a time of day."""
    seconds = ":%S" if cell.count(":") == 2 else ""
    half = re.search(r"(\s?)[AaPp][Mm]$", cell)
    return f"%I:%M{seconds}{half[1]}%p" if half else f"%H:%M{seconds}"


def _compact_dates(text: pl.Series, held: Array, own: _Own) -> DateForm | None:
    """Dates such as 20081231, if all values are dates between 1900 and 2100.

    Months such as 01.2020 are distinguished from numbers by the leading zero.
    """
    row, n = int(np.argmax(held)), int(held.sum())
    first = text[row]
    if own.decimal is None and _MONTH.match(first) and text.str.contains(_MONTH.pattern).all():
        if text.str.starts_with("0").any():
            return DateForm("%m.%Y", pl.Date, of_months=True)
        raise Doubt(
            row,
            f"column {shortened(own.name)} holds {shortened(first)}, a number or a month; use "
            f"--decimal {shortened(own.name + '=.')} or --kind "
            f"{shortened(own.name + '=categorical')}.",
        )
    if n < _LOOKED_AT or not first.isdecimal() or len(first) != 8:
        return None
    form = DateForm("%Y%m%d", pl.Date)
    days = form.read(text)
    likely = days.is_between(date(1900, 1, 1), date(2100, 1, 1)).sum() == n
    return form if likely else None


def _times(text: pl.Series, cell: str, n: int) -> Form | None:
    """Times of day, or spans of more than 24 hours."""
    for pattern, _ in _variants(_clock(cell), ""):
        form = DateForm(pattern, pl.Time)
        if form.read(text).count() == n:
            return form
    return SpanForm() if text.str.contains(_SPAN).sum() == n else None
