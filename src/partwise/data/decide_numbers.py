"""Detection of numbers in texts: decimal marks, thousands separators, units, powers of ten."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
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
    rf"([+\-{MINUS}]?)(\s?(?:%|{_MONEY}|[\p{{L}}µ°]{{1,4}}[²³]?)?)(\))?$"
)
# The same for Python, for single cells.
NUMERIC = re.compile(
    rf"^[(+\-{MINUS}\s]*(\D{{1,3}}\.?)?[+\-{MINUS}\s]*[.,]?\d[\d.,'’\s]*"
    rf"(?:[eE][+-]?\d+)?\D{{0,5}}$"
)
# Rows of names and units, and values below for each of them.
_MAX_NAMES, _MIN_BELOW = 3, 2
# Distinct numbers up to which a column may have levels, some of them with a sign, such as 3+.
_MAX_LEVELS = 10
# Distinct texts beside numbers that may mean missing, and distinct units that are not codes.
_MAX_MARKS, _MAX_UNITS = 3, 5
_LOOKED_AT = 1000  # values in which zeros at the end are looked for
_MAX_WORDS = 27  # Stata's marks of missing values
# Limits of detection, numbers with stars, and numbers with their errors.
_QUALIFIED = (
    r"^(?:[<>≤≥~≈]=?\s?[+-]?[\d.,]*\d"
    r"|[+-]?\d[\d.,]*\s?(?:[*†‡§+]{1,3}|(?:±|\+/-)\s?\d[\d.,]*))$"
)
# Apostrophes, quotes, and characters that nobody sees.
_UNSEEN = (
    r"^['\"`´‘’]+|['\"`´‘’]+$|[\x{ad}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}]"
)
# Marks without letters and digits, and words that are not in `MISSING` for their small letters.
_PROBABLY_MISSING = re.compile(
    r"[^\w\s<>=+]+|_+|\.[a-z]|(?i:n\.?/?[ad]\.?|k\.\s?a\.|s\.?d\.?|nan|none|nil|null|missing|unknown)"
)


def numbers(text: pl.Series, held: Array, own: ColumnOptions) -> Form | Open | None:
    """Numbers with units, decimal marks and thousands separators; None if too few are numbers."""
    pieces = text.str.extract_groups(_NUMBER).struct.unnest()
    opened, outer, before, inner, core, power, minus, after, closed = pieces.get_columns()
    fits = core.is_not_null() & (opened.is_null() == closed.is_null())
    # 12.00- is negative; 2- and 2+ may be grades, and -2- and (2-) are neither.
    is_last = minus.str.len_chars() > 0
    is_amount = core.str.contains(r"[.,]\d\d$") & (outer + inner == "") & opened.is_null()
    fits &= ~is_last | is_amount
    mask = grid(fits, len(text))[0]
    check_first(text, held, mask, own.name)
    _check_most(text, held, mask, own)
    if fits.sum() < held.sum():
        kinds = (before + after).str.strip_chars().filter(fits.fill_null(False))
        if kinds.n_unique() == 1:
            _check_others(text, core, held, mask, own.name)
        return None
    one = _one_of(before, after, own.like.unit)
    after = after if one is None else after.set((after == one[0]).fill_null(False), one[1])
    units = _units(own.name, text, before, after)
    if units is None:
        _check_units(text, core, before + after, own.name)
        return None
    form = NumberForm(
        before=units[0],
        after=units[1],
        in_parentheses=bool(opened.is_not_null().any()),
        minus_last=bool(is_last.any()),
        singular="" if one is None else one[0],
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
        _check_most(text, held, best, own)
        return None
    if len(found) == 1:
        return next(iter(found.values()))
    point, comma = (found[sign].read(text) for sign in ".,")
    differ = grid(point.cast(pl.Float64) != comma.cast(pl.Float64), len(text))[0]
    if not differ.any():
        return found["."]
    return Open(dict(found), int(np.argmax(differ)))


def _are_missing(words: Sequence[str]) -> bool:
    """Whether words beside numbers, which are few, probably mean missing."""
    fit = (_PROBABLY_MISSING.fullmatch(word) for word in words)
    return len(words) <= _MAX_WORDS and all(fit)


def check_powers(text: pl.Series, n: int, name: str) -> None:
    """Refuse numbers like 1e5, which may be codes: programs write 1e+05."""
    like_codes = text.str.contains(r"^\d+[eE]\d+$").fill_null(False)
    row = int(like_codes.arg_max() or 0)
    if n > 1 and like_codes.any() and not text.str.contains(r"[eE][+-]").any():
        raise Doubt(
            row,
            f"column {shortened(name)} holds {shortened(text[row])}, a number or a code; use "
            f"--kind {shortened(name + '=gaussian')} or --kind {shortened(name + '=categorical')}.",
        )


def zero_notes(text: pl.Series, name: str) -> list[str]:
    """A note on numbers such as 1.10 beside 1.9, which may be versions."""
    some = text.head(_LOOKED_AT).drop_nulls()
    places = some.str.extract(r"\.(\d+)$")
    ends_with_zero = places.str.contains(r"^\d0$").fill_null(False)
    if not ends_with_zero.any() or not (places.str.len_chars() == 1).any():
        return []
    row = int(ends_with_zero.arg_max() or 0)
    return [f"{some[row]} in {shortened(name)} is read as {float(some[row]):g}"]


def check_digits(text: pl.Series, cells: Sequence[str], name: str) -> None:
    """Refuse numbers in digits of other scripts, or wide ones; ``cells`` are some of the text."""
    plain = [_in_ascii(cell) for cell in cells]
    if plain == list(cells) or not all(NUMERIC.match(cell) for cell in plain):
        return
    i = next(i for i, cell in enumerate(cells) if cell != plain[i])
    raise Doubt(
        int((text == cells[i]).arg_max() or 0),
        f"column {shortened(name)} holds {shortened(cells[i])}, whose digits are not 0 to 9; "
        f"write {shortened(plain[i])}, or use --kind {shortened(name + '=categorical')}.",
    )


def _in_ascii(cell: str) -> str:
    """A text with the usual digits, and the usual marks between them."""
    if cell.isascii() or not any(char.isdecimal() and not char.isascii() for char in cell):
        return cell
    wide = unicodedata.normalize("NFKC", cell).translate({0x066B: ".", 0x066C: ","})
    return "".join(str(unicodedata.decimal(char, char)) for char in wide)


def _number_of(decimal: str, groups: str) -> str:
    """Pattern of a number with this decimal mark and thousands separator."""
    mark, end = re.escape(groups), re.escape(decimal)
    grouped = rf"|[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}" if groups else ""
    return rf"^(?:(?:\d+{grouped})(?:{end}\d*)?|{end}\d+)$"


def _one_of(before: pl.Series, after: pl.Series, usual: str) -> tuple[str, str] | None:
    """Singular and plural of a unit, as in 1 bed and 2 beds; ``usual`` is the unit of the fit."""
    kinds = after.drop_nulls().unique().sort().to_list()
    if len(kinds) == 1 and usual in (kinds[0].strip() + "s", kinds[0].strip() + "es"):
        kinds.append(kinds[0].replace(kinds[0].strip(), usual))
    if len(kinds) != 2 or (before.str.strip_chars() != "").any():
        return None
    short, long = kinds
    is_pair = re.fullmatch(r"\s[^\W\d_]{2,}", short) and long in (short + "s", short + "es")
    return (short, long) if is_pair else None


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


def _check_most(text: pl.Series, held: Array, fits: Array, own: ColumnOptions) -> None:
    """Refuse a text in a column where nearly all values are numbers."""
    if fits.sum() == held.sum() or fits.sum() < MOSTLY * held.sum():
        return
    row = int(np.argmax(held & ~fits))
    # A model that was fitted to numbers cannot read the column otherwise.
    other = "" if own.is_known else f" or --kind {shortened(own.name + '=categorical')}"
    raise Doubt(
        row,
        f"column {shortened(own.name)} holds {shortened(text[row])}, though nearly all of its "
        f"values are numbers; correct it, or say what it is with --missing {shortened(text[row])}"
        f"{other}.",
    )


def check_first(text: pl.Series, held: Array, fits: Array, name: str) -> None:
    """Refuse words in the first rows above nothing but values: more rows of names, or units."""
    n, n_fit = int(held.sum() - fits.sum()), int(fits.sum())
    if not (0 < n <= _MAX_NAMES and n_fit >= _MIN_BELOW * n and held[:n].all()):
        return
    if not fits[:n].any() and re.search(r"[^\W\d_]", text[0]) is not None:
        line = "this line" if n == 1 else f"these {n} lines"
        raise Doubt(
            0,
            f"column {shortened(name)} holds {shortened(text[0])} above its values, as a second "
            f"line of names or units does; remove {line}, or use --missing {shortened(text[0])} or "
            f"--kind {shortened(name + '=categorical')}.",
        )


def _check_others(text: pl.Series, core: pl.Series, held: Array, fits: Array, name: str) -> None:
    """Refuse numbers beside limits such as <0.5, or beside few words, which may mean missing."""
    others, plain = text.filter(pl.Series(held & ~fits)), core.filter(pl.Series(fits)).unique()
    if plain.is_empty():
        return
    row, words = int(np.argmax(held & ~fits)), others.unique()
    cell, kind = shortened(text[row]), shortened(name + "=categorical")
    fractions = plain.str.contains(r"\d[.,]\d").any()
    measured = len(plain) > _MAX_LEVELS or fractions
    bare = others.str.replace_all(_UNSEEN, "")
    if measured and ((bare != others) & bare.str.contains(_NUMBER)).all():
        raise Doubt(
            row,
            f"column {shortened(name)} holds {cell}, a number with other characters around it; "
            f"remove them, or use --kind {kind}.",
        )
    # Numbers with words, such as ca. 5.2 or 3.1?, are no codes where others have fractions.
    noted = fractions and 2 * fits.sum() >= held.sum() and others.str.contains(r"\d").all()
    if noted or (measured and others.str.contains(_QUALIFIED).all()):
        raise Doubt(
            row,
            f"column {shortened(name)} holds {cell} beside numbers; write a number instead, or use "
            f"--missing {cell} or --kind {kind}.",
        )
    few = len(words) <= _MAX_MARKS
    missing = _are_missing(words.head(_MAX_WORDS + 1).to_list())
    if missing or (few and measured and 2 * fits.sum() >= held.sum()):
        raise Doubt(
            row,
            f"column {shortened(name)} holds {cell} beside numbers; if it means missing, use "
            f"--missing {cell}, else --kind {kind}.",
        )


def _check_units(text: pl.Series, core: pl.Series, around: pl.Series, name: str) -> None:
    """Refuse numbers with different units; 12a and 12b are no such numbers, nor is 1. Yes."""
    known = around.drop_nulls()
    kinds = known.str.strip_chars().unique().sort()
    if text.n_unique() - text.has_nulls() == len(kinds) < len(known):
        return  # one number per word
    apart = known.unique().str.contains(r"^$|\s").all()
    if len(kinds) > _MAX_UNITS or not (apart or core.str.contains(r"\d[.,]\d").any()):
        return
    listed = ", ".join(kind or "none" for kind in kinds)
    differ = (around.str.strip_chars() != known[0].strip()).fill_null(False)
    raise Doubt(
        int(differ.arg_max() or 0),
        f"column {shortened(name)} looks like numbers in several units ({listed}); convert them to "
        f"one, or use --kind {shortened(name + '=categorical')}.",
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
