"""Notes on the categories of a text column that a person would ask about."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import polars as pl

from partwise.data.frames import shortened

# Distinct texts of a column up to which they are taken for categories.
_MAX_CATEGORIES = 1000
_PAIRS = ({"yes", "no"}, {"true", "false"}, {"y", "n"}, {"t", "f"}, {"1", "0"})
_YES_OR_NO = frozenset[str]().union(*_PAIRS)
# Blanks and invisible characters that nobody sees in a word.
_LEFT_OUT = re.compile(r"(?<=\s)\s+|[\u200b-\u200d\u2060\ufeff\u00ad]")
# Categories that may mean missing.
_UNKNOWN = re.compile(r"[-–—.:/]{1,3}|_+|(?i:n/a|k\.\s?a\.|nan|null|missing|unknown)")
# Names of rows that sum up others: of some row, and of the last.
_SUBTOTAL = re.compile(r"(?i)(?:(?:grand |sub-?)?totals?|(?:gesamt|zwischen)summe|sous-total):?")
SUMMARY = re.compile(
    r"(?i)(?:(?:grand |sub-?)?totals?|sums?|means?|averages?|medians?|(?:gesamt|zwischen)?summe"
    r"|gesamt|insgesamt|mittelwert|durchschnitt|somme|moyenne|totale|media|promedio|suma|soma"
    r"|totaal|summa|合計|总计):?"
)
# What spreadsheets make of MAR1, 2-3 and the like.
_SHEET_DATE = re.compile(
    r"\d{1,2}-(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mrz|Mai|Okt|Dez)\.?"
)


def word_notes(name: str, values: pl.Series) -> list[str]:
    """Notes on categories that mean the same, nothing, a sum, or a date of a spreadsheet."""
    found = values.unique()
    if len(found) > _MAX_CATEGORIES:
        return []
    words = sorted(word for word in found.to_list() if word is not None)
    small = [word.lower() for word in words]
    if words and _YES_OR_NO.issuperset(small) and not any(set(small) <= pair for pair in _PAIRS):
        return [f"{shortened(name)} has several words for yes and no: {', '.join(words)}"]
    out = list[str]()
    alike = [_LEFT_OUT.sub("", unicodedata.normalize("NFKC", word).casefold()) for word in words]
    if len(set(alike)) < len(alike):
        twice = next(word for word, n in Counter(alike).items() if n > 1)
        same = [word for word, one in zip(words, alike, strict=True) if one == twice]
        what = "capital letters" if len(set(small)) < len(small) else "blanks or accents"
        out.append(
            f"{shortened(name)} has values that differ only in {what}, such as "
            f"{shortened(same[0])} and {shortened(same[1])}"
        )
    marks = [word for word in words if _UNKNOWN.fullmatch(word)]
    others = [word for word in words if word not in marks]
    if others and marks and all(re.search(r"\w", word) for word in others):
        out.append(
            f"{shortened(marks[0])} in {shortened(name)} is taken as a category (--missing "
            f"{shortened(marks[0])}: it means missing)"
        )
    sums = [word for word in words if _SUBTOTAL.fullmatch(word)]
    if sums and len(words) > 2:
        out.append(f"rows with {shortened(sums[0])} in {shortened(name)} may sum up others")
    dates = [word for word in words if _SHEET_DATE.fullmatch(word)]
    if 0 < len(dates) < len(words):
        out.append(
            f"{shortened(dates[0])} in {shortened(name)} may be a date that a spreadsheet made of "
            "another text"
        )
    return out
