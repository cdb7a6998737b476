"""Detection of dates, months, times of day and durations in texts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from partwise.contracts import Array
from partwise.data.decide_numbers import MOSTLY, check_first
from partwise.data.forms import DateForm, Form, SpanForm
from partwise.data.frames import shortened
from partwise.data.text_options import ColumnOptions, Doubt, Open

# Values that are needed to take numbers of eight digits for dates.
_MIN_COMPACT = 7
_COMPACT = {
    8: {"ymd": "%Y%m%d", "dmy": "%d%m%Y", "mdy": "%m%d%Y"},
    6: {"ym": "%Y%m"},
    12: {"ymd": "%Y%m%d%H%M"},
    14: {"ymd": "%Y%m%d%H%M%S"},
}
# Years of two digits are those of one century, or of two around a gap of at least so many years.
_MIN_GAP = 20
# Where programs disagree about the century: spreadsheets take 30 for 1930, and POSIX takes 68 for
# 2068.
_DISPUTED = range(2030, 2069)

_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[AaPp](?:[Mm]|\.[Mm]\.))?"
_ZONE = r"(?:\s?(?:(?:GMT|UTC)?[+-]\d\d?(?::?\d\d)?|Z|[A-Z]{3,4}))?"
_DATE = re.compile(r"^(\d{1,4})([./-])\d{1,2}\2(\d{1,4})" + rf"(?:(T|,?\s)({_CLOCK})({_ZONE}))?$")
_NAMED_DATE = re.compile(
    r"^(?:\d{1,2}(\.?[ /-]|)[A-Za-z]{3,9}(\.?,?[ /-]|)(\d{4}|\d\d)"
    r"|([A-Za-z]{3,9})(\.?) \d{1,2}(,?) \d{4})"
    rf"(?:(T|,?\s|:)({_CLOCK})({_ZONE}))?$"
)
_MARKED_DATE = re.compile(r"^\d{4}([年년])\d{1,2}([月월])\d{1,2}([日일])$")
_TIME = re.compile(rf"^({_CLOCK})$")
_MONTH = re.compile(r"^(?:0?[1-9]|1[0-2])\.(?:19|20)\d\d$")
# Other shapes: patterns, in which the shape's group stands, and periods of dates without days.
_SHAPES = {
    re.compile(r"^\d{1,2}([/-])(?:19|20)\d\d$"): ("%m{0}%Y", "months"),
    re.compile(r"^(?:19|20)\d\d([/M-])\d\d$"): ("%Y{0}%m", "months"),
    re.compile(r"^[A-Za-z]{3,9}([ -])(?:19|20)\d\d$"): ("%b{0}%Y", "months"),
    re.compile(r"^[A-Za-z]{3,9}(-| ?['’])\d\d$"): ("%b{0}%y", "months"),
    re.compile(r"^(?:19|20)\d\d([ -]?)Q[1-4]$"): ("%Y{0}Q%m", "quarters"),
    re.compile(r"^Q[1-4]([ /-]?)(?:19|20)\d\d$"): ("Q%m{0}%Y", "quarters"),
    re.compile(r"^Q[1-4]([ /-]| ?['’])\d\d$"): ("Q%m{0}%y", "quarters"),
    re.compile(r"^(?:19|20)\d\d(-?)W\d\d$"): ("%G{0}W%V", "weeks"),
    re.compile(r"^(?:19|20)\d\d-W\d\d(-)[1-7]$"): ("%G-W%V{0}%u", ""),
    re.compile(r"^(?:19|20)\d{6}T\d{6}(Z?)$"): ("%Y%m%dT%H%M%S{0}", ""),
}
# A school year or a season, as 2019/20, is no month.
_SEASON = r"^\d\d(\d\d)[/-](\d\d)$"
# Months in English, German, French, Spanish, Italian, Portuguese and Dutch by their first letters.
_MONTHS = (
    "(?:jan|ene|gen|feb|fév|fev|mar|mär|mrz|maa|apr|avr|abr|may|mai|mei|mag|maj|jun|juin|giu|jul"
    "|juil|lug|aug|aoû|ago|sep|set|okt|oct|ott|out|nov|dez|déc|dec|dic)[a-zà-ÿ]{0,7}"
)
_WORDED = re.compile(
    r"^(?i:(?:[a-zà-ÿ]{2,10}\.?,? )?"
    rf"(?:\d{{1,2}}(?:\.|st|nd|rd|th|er|º)?[ ./-]*(?:de )?{_MONTHS}\.?,?[ ./-]*(?:de )?"
    rf"(?:\d{{4}}|\d\d)|{_MONTHS}\.? {{1,2}}\d{{1,2}}(?:st|nd|rd|th)?,?(?: [\d:]+)? \d{{4}})"
    r"(?:[ ,T:].{0,40})?)$"
)
_SPAN = r"^\d{1,9}:[0-5]\d(:[0-5]\d)?$"
# With fractions of seconds, where the user says what durations are.
_LIKE = {"h:mm": "3:45 or 3:45:10.5", "m:ss": "3:45 or 3:45.5"}
_SPANS = {
    "h:mm": r"^\d{1,9}:[0-5]\d(:[0-5]\d([.,]\d{1,6})?)?$",
    "m:ss": r"^\d{1,9}:[0-5]\d(:[0-5]\d)?([.,]\d{1,6})?$",
}


def dates(text: pl.Series, cell: str, n: int, own: ColumnOptions) -> Form | Open | None:
    """The form of dates or times like a cell, if it fits all n values; else None."""
    if _TIME.match(cell) or re.match(_SPANS.get(own.duration, _SPAN), cell):
        return _times(text, cell, n, own)
    for shape, (pattern, period) in _SHAPES.items():
        if match := shape.match(cell):
            if text.str.contains("[A-Za-z]{4}").any():
                pattern = pattern.replace("%b", "%B")
            form = DateForm(pattern.format(match[1]), _kind(pattern), period=period)
            return _shaped_like(shape.pattern, text, n, form, own)
    candidates = _patterns(cell)
    if not candidates:
        return None
    found, values, most = dict[str, DateForm](), dict[str, pl.Series](), None
    for order, (pattern, kind, after) in candidates.items():
        if own.order is not None and len(candidates) > 1 and order != own.order:
            continue
        for one, end in _variants(pattern, after):
            form = DateForm(one, kind, end)
            read = form.read(text.set(~_shaped(text, one), None))
            most = read if most is None or read.count() > most.count() else most
            if read.count() == n:
                found[order] = replace(form, first_year=_first_year(form, text, own))
                values[order] = read
                break
    if not found:
        if most is not None:
            _check_dates(text, most, n, own.name)
        return None
    first = next(iter(found))
    others = [order for order in found if not values[order].equals(values[first])]
    if not others or (first == "dmy" and "." in found[first].pattern[:4]):
        return found[first]
    differ = (values[first] != values[others[0]]).fill_null(False)
    return Open({order: found[order] for order in (first, *others)}, int(differ.arg_max() or 0))


def _shaped_like(
    shape: str, text: pl.Series, n: int, form: DateForm, own: ColumnOptions
) -> Form | None:
    """The form, if all n values have that shape."""
    read = form.read(text.set(~text.str.contains(shape).fill_null(False), None))
    if form.pattern.startswith("%Y") and form.period == "months" and _are_seasons(text):
        return None
    if read.count() < n:
        _check_dates(text, read, n, own.name)
        return None
    return replace(form, first_year=_first_year(form, text, own))


def _are_seasons(text: pl.Series) -> bool:
    """Whether different texts are all two years that follow each other, as 2019/20 and 2020/21."""
    years = text.drop_nulls().unique().str.extract_groups(_SEASON).struct.unnest()
    one, two = (column.cast(pl.Int64) for column in years.get_columns())
    return len(one) > 1 and ((one + 1) % 100 == two).sum() == len(one)


def check_words(text: pl.Series, cell: str, n: int, name: str) -> None:
    """Refuse dates such as 5. März 2020, whose words no form reads."""
    if not _WORDED.match(cell) or text.str.contains(_WORDED.pattern).sum() < MOSTLY * n:
        return
    raise Doubt(
        int((text == cell).arg_max() or 0),
        f"column {shortened(name)} holds {shortened(cell)}, which looks like a date in words that "
        f"are not read; write dates as 2020-12-31, or use --kind {shortened(name + '=categorical')}"
        f" or --kind {shortened(name + '=ignored')}.",
    )


def _first_year(form: DateForm, text: pl.Series, own: ColumnOptions) -> int | None:
    """The first of the hundred years to which years of two digits belong, None if in doubt."""
    if not form.has_short_years or own.first_year is not None:
        return own.first_year if form.has_short_years else None
    found, like = _likely_first(form.read(text)), own.like.first_year
    if found is None or like is None:
        return like if found is None else found
    both = [replace(form, first_year=year).read(text) for year in (found, like)]
    return like if both[0].equals(both[1]) else None


def _likely_first(read: pl.Series) -> int | None:
    """The same from the dates alone, with as many years before the first date as after the last."""
    first, last = _earliest(read) or (0, _DISPUTED.start - 100)
    if last + 100 in _DISPUTED:
        return None
    start = first - (100 - last + first) // 2
    return start + 100 if last + 100 < _DISPUTED.start else start


def _earliest(read: pl.Series) -> tuple[int, int] | None:
    """First and last year after 1900 of dates with years of two digits; None if of any decade."""
    years = np.unique(read.dt.year().drop_nulls().to_numpy() % 100)
    gaps = np.diff(years, append=years[0] + 100)
    widest = int(np.argmax(gaps))
    first = 1900 + int(years[(widest + 1) % len(years)])
    return (first, first + 100 - int(gaps[widest])) if gaps[widest] >= _MIN_GAP else None


def check_years(name: str, text: pl.Series, form: DateForm) -> None:
    """Refuse dates of which the century is in doubt."""
    if not form.has_short_years or form.first_year is not None:
        return
    row, years = int(text.is_not_null().arg_max() or 0), _earliest(form.read(text))
    if years is None:
        raise Doubt(
            row,
            f"column {shortened(name)} has two-digit years of any decade; write four digits, or "
            f"use --first-year {shortened(name + '=1930')}, the first of a hundred years.",
        )
    first, last = years
    raise Doubt(
        row,
        f"column {shortened(name)} has two-digit years, which are {first} to {last} or "
        f"{first + 100} to {last + 100}; use --first-year {shortened(f'{name}={first}')} or "
        f"--first-year {shortened(f'{name}={first + 100}')}.",
    )


def _check_dates(text: pl.Series, dates: pl.Series, n: int, name: str) -> None:
    """Refuse columns in which most values are dates, but not all."""
    if not dates.count():
        return
    held, fits = (one.is_not_null().to_numpy() for one in (text, dates))
    check_first(text, held, fits, name)
    cell = text[int(dates.is_not_null().arg_max() or 0)]
    # 1.2.10 may be a date, and may be the version of a program.
    if dates.count() < (0.5 if re.search(r"\d{4}", cell) else MOSTLY) * n:
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


def _kind(pattern: str) -> _Kind:
    return pl.Datetime if "%H" in pattern else pl.Date


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
        elif len(first) <= 2 and len(last) == 2:
            orders = ["dmy", "mdy", *(["ymd"] if len(first) == 2 else [])]
        else:
            return {}
        codes = {"d": "%d", "m": "%m", "y": year}
        days = {order: mark.join(codes[letter] for letter in order) for order in orders}
        after = zone or ""
    elif match := _NAMED_DATE.match(cell):
        one, two, last, month, dot, comma, joint, clock, zone = match.groups()
        after = zone or ""
        name = "%B" if len(max(re.findall("[A-Za-z]+", cell), key=len)) > 3 else "%b"
        if month:
            days = {"named": f"{name}{dot} %d{comma} %Y"}
        else:
            days = {"named": f"%d{one}{name}{two}{'%Y' if len(last) == 4 else '%y'}"}
    elif match := _MARKED_DATE.match(cell):
        days, clock = {"named": "%Y{}%m{}%d{}".format(*match.groups())}, None
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
    half = re.search(r"(\s?)[AaPp]\.?[Mm]\.?$", cell)
    return f"%I:%M{seconds}{half[1]}%p" if half else f"%H:%M{seconds}"


def compact_dates(text: pl.Series, held: Array, own: ColumnOptions) -> DateForm | Open | None:
    """Dates such as 20081231, 31122008 or 200812, if all values are dates between 1900 and 2100.

    Months such as 01.2020 are distinguished from numbers by the leading zero.
    """
    row, n = int(np.argmax(held)), int(held.sum())
    first = text[row]
    if own.decimal is None and _MONTH.match(first) and text.str.contains(_MONTH.pattern).all():
        if text.str.starts_with("0").any():
            return DateForm("%m.%Y", pl.Date, period="months")
        raise Doubt(
            row,
            f"column {shortened(own.name)} holds {shortened(first)}, a number or a month; use "
            f"--decimal {shortened(own.name + '=.')} or --kind "
            f"{shortened(own.name + '=categorical')}.",
        )
    if n < _MIN_COMPACT or not first.isdecimal():
        return None
    found = dict[str, DateForm]()
    for order, pattern in _COMPACT.get(len(first), {}).items():
        form = DateForm(pattern, _kind(pattern), period="months" if order == "ym" else "")
        likely = form.read(text).dt.year().is_between(1900, 2099)
        if own.order in (None, order) and likely.sum() == n:
            found[order] = form
    days = {order: form.read(text) for order, form in found.items()}
    usual = next(iter(found), "")
    others = [order for order in found if not days[order].equals(days[usual])]
    if not others:
        return found.get(usual)
    differ = (days[usual] != days[others[0]]).fill_null(False)
    return Open({order: found[order] for order in (usual, *others)}, int(differ.arg_max() or 0))


def _times(text: pl.Series, cell: str, n: int, own: ColumnOptions) -> Form | None:
    """Times of day; durations if some exceed 24 hours, or the user says so."""
    are_spans = text.str.contains(_SPANS.get(own.duration, _SPAN)).sum() == n
    if own.duration and are_spans:
        return SpanForm(in_minutes=own.duration == "m:ss")
    for pattern, _ in _variants(_clock(cell), ""):
        form = DateForm(pattern, pl.Time)
        if form.read(text).count() == n:
            return form
    return SpanForm() if are_spans else None


def check_spans(text: pl.Series, form: Form | Open, own: ColumnOptions) -> None:
    """Refuse texts that are no durations in a column that the user says has them."""
    if isinstance(form, SpanForm) or not own.has_durations:
        return
    odd = ~text.str.contains(_SPANS[own.duration]).fill_null(True)
    row = int(odd.arg_max() or 0)
    raise Doubt(
        row,
        f"column {shortened(own.name)} holds {shortened(text[row])}, which is no duration such as "
        f"{_LIKE[own.duration]}; correct it, or leave out --duration "
        f"{shortened(f'{own.name}={own.duration}')}.",
    )
