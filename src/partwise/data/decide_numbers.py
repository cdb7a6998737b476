"""Detection of numbers in texts: decimal marks, thousands separators, units, powers of ten."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from partwise.contracts import Array
from partwise.data.forms import MINUS, Form, NumberForm
from partwise.data.frames import shortened
from partwise.data.text_options import ColumnOptions, Doubt, Open

# A text in a column with this fraction of numbers, or of one unit, is an error, not a category.
MOSTLY = 0.9

_MONEY = (
    r"US\$|R\$|Rs\.?|\p{Sc}|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL"
    r"|MXN|ZAR|kr\.?"
)
_NUMBER = (
    rf"^(\()?([+\-{MINUS}]?)((?:{_MONEY})?\s?)([+\-{MINUS}]?)"
    r"(\d(?:[\d.,'’\x{a0}\x{202f} ]*[\d.,])?|[.,]\d+)((?:[eE][+-]?\d+)?)"
    rf"([\-{MINUS}]?)(\s?(?:%|{_MONEY}|[\p{{L}}µ°]{{1,4}}[²³]?)?)(\))?$"
)
# The same for Python, for single cells.
NUMERIC = re.compile(
    rf"^[(+\-{MINUS}\s]*(\D{{1,3}}\.?)?[+\-{MINUS}\s]*[.,]?\d[\d.,'’\s]*"
    rf"(?:[eE][+-]?\d+)?\D{{0,5}}$"
)
# Marks without letters and digits, and words that are not in `MISSING` for their small letters.
_PROBABLY_MISSING = re.compile(r"[^\w\s<>=+]+|_+|(?i:n\.?/?a\.?|nan|none|nil|null|missing|unknown)")


def numbers(text: pl.Series, held: Array, own: ColumnOptions) -> Form | Open | None:
    """Numbers with units, decimal marks and thousands separators; None if too few are numbers."""
    pieces = text.str.extract_groups(_NUMBER).struct.unnest()
    opened, outer, before, inner, core, power, minus, after, closed = pieces.get_columns()
    fits = core.is_not_null() & (opened.is_null() == closed.is_null())
    # 12.00- is negative; 2- may be a grade, and -2- is neither.
    is_last = minus.str.len_chars() > 0
    fits &= ~is_last | (core.str.contains(r"[.,]\d\d$") & (outer + inner == ""))
    _check_most(text, held, grid(fits, len(text))[0], own.name)
    if fits.sum() < held.sum():
        _check_marks(text, held, grid(fits, len(text))[0], own.name)
        return None
    units = _units(own.name, text, before, after)
    if units is None:
        return None
    form = NumberForm(
        before=units[0],
        after=units[1],
        in_parentheses=bool(opened.is_not_null().any()),
        minus_last=bool(is_last.any()),
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
        mask = grid(valid, len(text))[0]
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
    differ = grid(point.cast(pl.Float64) != comma.cast(pl.Float64), len(text))[0]
    if not differ.any():
        return found["."]
    return Open(dict(found), int(np.argmax(differ)))


def _number_of(decimal: str, groups: str) -> str:
    """Pattern of a number with this decimal mark and thousands separator."""
    mark, end = re.escape(groups), re.escape(decimal)
    grouped = rf"|[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}" if groups else ""
    return rf"^(?:(?:\d+{grouped})(?:{end}\d*)?|{end}\d+)$"


def _units(
    name: str, text: pl.Series, before: pl.Series, after: pl.Series
) -> tuple[str, str] | None:
    """Texts before and after all numbers of a column; None if they are not a common unit."""
    bare = [affix.str.strip_chars().fill_null("") for affix in (before, after)]
    held = text.is_not_null()
    unit = (bare[0] + bare[1]).filter(held)
    kinds = unit.alias("unit").filter(unit != "").value_counts().sort("unit")
    if kinds.is_empty():
        return "", ""
    i = int(kinds["count"].arg_max() or 0)
    usual, most = str(kinds["unit"][i]), int(kinds["count"].to_numpy()[i])
    odd = (bare[0] + bare[1] != usual) & held
    row = int(odd.arg_max() or 0)
    are_money = kinds["unit"].str.contains(rf"^(?:%|{_MONEY})$").all()
    if not odd.any():
        places = [affix == usual for affix in bare]
        if places[0].any() and places[1].any():
            raise Doubt(
                int((places[1] if places[0].filter(held)[0] else places[0]).arg_max() or 0),
                f"column {shortened(name)} has {usual} before some values and after others; write "
                f"it in one place, or use --kind {shortened(name + '=categorical')}.",
            )
        return str(before.drop_nulls()[0]), str(after.drop_nulls()[0])
    if not are_money and most >= MOSTLY * text.count():
        raise Doubt(
            row,
            f"column {shortened(name)} holds {shortened(text[row])}, though nearly all of its "
            f"values are in {usual}; write this unit to all values or to none, or use --kind "
            f"{shortened(name + '=categorical')}.",
        )
    if not are_money:
        return None
    if len(kinds) > 1:
        raise Doubt(
            row,
            f"column {shortened(name)} looks like money in several currencies "
            f"({', '.join(kinds['unit'])}); convert it to one, or use --kind "
            f"{shortened(name + '=categorical')} or --ignore {shortened(name)}.",
        )
    what = "percentages" if usual == "%" else "money"
    raise Doubt(
        row,
        f"column {shortened(name)} looks like {what}, but {shortened(text[row])} has no {usual}; "
        f"write it to all values or to none, or use --kind {shortened(name + '=categorical')}.",
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


def _check_marks(text: pl.Series, held: Array, fits: Array, name: str) -> None:
    """Refuse numbers beside one text that probably means missing."""
    others = text.filter(pl.Series(held & ~fits)).unique()
    if len(others) != 1 or not fits.any() or not _PROBABLY_MISSING.fullmatch(others[0]):
        return
    raise Doubt(
        int(np.argmax(held & ~fits)),
        f"column {shortened(name)} holds {shortened(others[0])} beside numbers; if it means "
        f"missing, use --missing {shortened(others[0])}, else --kind "
        f"{shortened(name + '=categorical')}.",
    )


def _check_signs(text: pl.Series, core: pl.Series, held: Array, own: ColumnOptions) -> None:
    """Refuse columns with two different decimal marks."""
    points, commas = (
        grid(core.str.contains(_number_of(decimal, groups)), len(text))[0]
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


def grid(column: pl.Series, n: int) -> Array:
    """A long column of truth values as rows of n; null is false."""
    return column.fill_null(False).to_numpy().reshape(-1, n)
