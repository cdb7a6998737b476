"""Detection of the formats of text columns, per column from all of its values.

Where two readings are possible and the table does not decide between them, `Doubt` is raised; the
message names the options that do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.decide_dates import check_spans, check_words, check_years, compact_dates, dates
from partwise.data.decide_numbers import (
    NUMERIC,
    check_digits,
    check_powers,
    grid,
    numbers,
    zero_notes,
)
from partwise.data.decide_words import word_notes
from partwise.data.forms import DateForm, Form, NumberForm, SpanForm, TextForm, TruthForm
from partwise.data.frames import shortened
from partwise.data.text_options import (
    DATE_ORDERS,
    DURATIONS,
    ColumnFormat,
    ColumnOptions,
    Doubt,
    Open,
    TextOptions,
    about,
)

# Columns of dates, or of numbers with units: polars takes two milliseconds for each.
MAX_WRITTEN_COLUMNS = 3000
# Cells from which candidate forms are chosen; then all cells are read.
_LOOKED_AT = 7

_TRUTHS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"))
# A number with one point, or comma, before three digits: a thousand, or three decimals.
_THOUSAND = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"
# Years of dates outside of which they may be of another calendar, or mean missing.
_USUAL_YEARS = ("1600", "2200")
# Numbers with leading zeros, and telephone numbers.
_CODE = r"^(?:0\d+|\+\d{9,15})$"
_SIGNS = {".": "points", ",": "commas", "'": "apostrophes", "’": "apostrophes"}
_SPANS = ("hours and minutes", "minutes and seconds")


class Read(NamedTuple):
    """Columns with their forms and formats, and notes for the user."""

    values: list[pl.Series]
    forms: list[Form]
    formats: list[ColumnFormat]
    notes: list[str]


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
    held, is_number, is_whole = (grid(one.is_not_null(), n) for one in (long, number, whole))
    thousand, coded, dotted, digits = (
        grid(long.str.contains(pattern), n)
        for pattern in (_THOUSAND, _CODE, r"\.\d", r"^[+-]?[0-9]+$")
    )
    # Integers that are too long for a number are names, too: a float would change their digits.
    coded |= digits & ~is_whole & (digits | ~held).all(axis=1, keepdims=True)
    values: list[pl.Series] = []
    forms: list[Form | Open] = []
    signs, orders, notes, n_written = set[str](), set[str](), list[str](), 0
    for i, name in enumerate(names):
        text, own = long.slice(i * n, n).alias(name), ColumnOptions(name, options)
        form: Form | Open = TextForm()
        is_code = coded[i].any() and name not in options.numbers
        if not held[i].any() and own.like.decimal:
            form, text = NumberForm(decimal=own.like.decimal), text.cast(pl.Float64)
        elif name in options.texts or not held[i].any():
            pass
        elif is_code:
            with about(name):
                form = compact_dates(text, held[i], own) or form
        elif (is_number[i] | ~held[i]).all() and own.is_plain(thousand[i], dotted[i]):
            with about(name):
                days = None if name in options.numbers else compact_dates(text, held[i], own)
            form = NumberForm() if days is None else days
            signs |= {"."} if dotted[i].any() else set()
            are_whole = (is_whole[i] | ~held[i]).all()
            if days is None and not (are_whole or dotted[i].any() or name in options.numbers):
                with about(name):
                    check_powers(text, int(held[i].sum()), name)
            if days is None and dotted[i].any():
                notes += zero_notes(text, name)
            if days is None:
                read = whole if are_whole else number
                text = read.slice(i * n, n).alias(name)
        else:
            with about(name):
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
        if held[i].any():
            with about(name):
                check_spans(text, form, own)
        values.append(text)
        forms.append(form)
    settled, formats = list[Form](), list[ColumnFormat]()
    for i, (name, form) in enumerate(zip(names, forms, strict=True)):
        own = ColumnOptions(name, options)
        with about(name):
            if isinstance(form, Open):
                form = _settled(own, values[i], form, signs, orders, separator, notes)
            shown = _format(form, values[i], bool(dotted[i].any()))
            _check_like(own, values[i], shown, form)
        if values[i].dtype == pl.String:
            with about(name):
                values[i] = _read(form, values[i])
        notes += _notes(name, form, values[i])
        settled.append(form)
        formats.append(shown)
    return Read(values, settled, formats, notes)


def _read(form: Form, text: pl.Series) -> pl.Series:
    """The values of texts; a text that its form cannot read is refused, as it is not missing."""
    values = form.read(text).alias(text.name)
    lost = values.is_null() & text.is_not_null()
    if lost.any():
        row, name = int(lost.arg_max() or 0), text.name
        raise Doubt(
            row,
            f"column {shortened(name)} holds {shortened(text[row])}, which cannot be read like its "
            f"other values; correct it, or use --kind {shortened(name + '=categorical')}.",
        )
    return values


def _format(form: Form, text: pl.Series, has_points: bool) -> ColumnFormat:
    """How a column is written, as far as its texts show it."""
    if isinstance(form, SpanForm):
        return ColumnFormat(duration=DURATIONS[form.in_minutes])
    if isinstance(form, DateForm):
        check_years(text.name, text, form)
        order = "".join(re.findall("%([dmy])", form.pattern.lower()))
        known = order if order in DATE_ORDERS else ""
        return ColumnFormat(date_order=known, first_year=form.first_year)
    if not isinstance(form, NumberForm):
        return ColumnFormat()
    if text.dtype == pl.String:
        return ColumnFormat(decimal="".join(_shown_sign(form, text)), unit=form.unit)
    return ColumnFormat(decimal="." if has_points else "")


def _check_like(own: ColumnOptions, text: pl.Series, shown: ColumnFormat, form: Form) -> None:
    """Refuse numbers in another unit than those of the model."""
    usual = own.like.unit
    if not isinstance(form, NumberForm) or not own.is_known or usual == shown.unit:
        return
    if not text.count():
        return
    if shown.unit or usual == "%":
        has, had = (f"in {unit}" if unit else "without a unit" for unit in (shown.unit, usual))
        raise Doubt(
            int(text.is_not_null().arg_max() or 0),
            f"column {shortened(own.name)} has values {has}, but the model was fitted to values "
            f"{had}; convert them.",
        )
    name = shortened(own.name)
    warn(f"Values in {name} have no unit and are taken to be in {usual}, as in the fit.")


def _notes(name: str, form: Form, values: pl.Series) -> list[str]:
    """Notes on how a column was read."""
    if isinstance(form, TextForm):
        return word_notes(name, values)
    if isinstance(form, SpanForm):
        return [f"{shortened(name)} holds durations ({_SPANS[form.in_minutes]})"]
    if isinstance(form, DateForm) and form.kind is pl.Time:
        return [f"{shortened(name)} holds times of day (or use --duration)"]
    if isinstance(form, DateForm):
        return _date_notes(name, form, values)
    if not isinstance(form, NumberForm):
        return []
    out = list[str]()
    if form.thousands:
        word = _SIGNS.get(form.thousands, "blanks")
        out.append(f"{word} in {shortened(name)} separate thousands")
    if form.unit:
        out.append(f"{shortened(name)} is in {form.unit}")
    if form.in_parentheses:
        out.append(f"parentheses in {shortened(name)} mean negative numbers")
    return out


def _date_notes(name: str, form: DateForm, values: pl.Series) -> list[str]:
    out = list[str]()
    if form.period:
        out.append(f"{shortened(name)} holds {form.period}")
    elif "%Y-%m" not in form.pattern and "%G" not in form.pattern:
        shown = {"%d": "day", "%m": "month", "%b": "month", "%B": "month"}
        order = shown.get(form.pattern[:2], "year")
        out.append(f"dates in {shortened(name)} have the {order} first")
    if form.has_short_years:
        years = values.dt.year().drop_nulls().sort()
        out.append(f"two-digit years in {shortened(name)} are {years[0]} to {years[-1]}")
    elif values.count():
        first, last = (str(value)[:4] for value in (values.min(), values.max()))
        if first < _USUAL_YEARS[0] or last > _USUAL_YEARS[1]:
            out.append(
                f"dates in {shortened(name)} are of the years {first} to {last} (other calendars "
                "are not converted)"
            )
    return out


def _decided(text: pl.Series, held: Array, own: ColumnOptions) -> Form | Open:
    """The form of a column, or candidates."""
    rows = np.flatnonzero(held)
    spread = np.unique(np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(int))
    looked = [text[int(row)] for row in rows[spread]]
    for yes, no in _TRUTHS:
        if looked[0] in (yes, no) and text.is_in([yes, no]).sum() == len(rows):
            return TruthForm(yes, no)
    for cell in dict.fromkeys(looked):
        found = dates(text, cell, len(rows), own)
        if found is not None:
            return found
    check_words(text, looked[0], len(rows), own.name)
    check_digits(text, looked, own.name)
    if any(NUMERIC.match(cell) for cell in looked):
        return numbers(text, held, own) or TextForm()
    return TextForm()


def _shown_sign(form: Form | Open, text: pl.Series) -> set[str]:
    """The decimal mark of a column of numbers, if it is unambiguous."""
    if not isinstance(form, NumberForm):
        return set()
    other = "," if form.decimal == "." else "."
    shows = form.thousands == other or text.str.contains(form.decimal, literal=True).any()
    return {form.decimal} if shows else set()


def _settled(
    own: ColumnOptions,
    text: pl.Series,
    found: Open,
    signs: set[str],
    orders: set[str],
    separator: str,
    notes: list[str],
) -> Form:
    """Decide by the model's own rows or the other columns; refuse where they do not decide."""
    name, cell = own.name, shortened(text[found.row])
    are_dates = "dmy" in found.forms or "mdy" in found.forms
    before = own.like.date_order if are_dates else own.like.decimal
    if before in found.forms:
        return found.forms[before]
    others = orders if are_dates else signs
    agreed = [form for key, form in found.forms.items() if others in ({key}, {key[0]})]
    if agreed:
        return agreed[0]
    first, second = list(found.forms)[:2]
    if first in DATE_ORDERS:
        raise Doubt(
            found.row,
            f"column {shortened(name)} holds {cell}, a date with the {DATE_ORDERS[first]} first or "
            f"the {DATE_ORDERS[second]} first; use --date-order {first} or --date-order {second}.",
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


def _shown_order(form: Form | Open) -> set[str]:
    """Whether day or month is first in a column of dates, if it is unambiguous."""
    if not isinstance(form, DateForm) or form.pattern[2:3] not in ("/", "-") or form.period:
        return set()
    return {form.pattern[1]} & {"d", "m"}
