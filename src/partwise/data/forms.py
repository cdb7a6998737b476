"""Text formats of columns: numbers, dates and times, yes or no, text.

A form reads texts as values, and writes values in the format of the other cells of the column.
`partwise.data.decide` detects the form of a column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import polars as pl

MINUS = "−"  # the typographic minus sign
_ALONE = r"(^|\D)\d(\D|$)"  # a number of one digit
_TIME = r"[T ,]*\d{1,2}:\d\d.*$"
_SIGNIFICANT = 15  # decimal digits of a float


class Form(Protocol):
    """The text format of a column."""

    def read(self, text: pl.Series) -> pl.Series:
        """Read texts that are of this form; null stays null."""

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write values; ``like`` are the texts that were read from the column."""


@dataclass(frozen=True)
class TextForm:
    """Text without conversion."""

    def read(self, text: pl.Series) -> pl.Series:
        """Read texts."""
        return text

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write texts."""
        return values.cast(pl.String)


@dataclass(frozen=True)
class TruthForm:
    """Two words."""

    yes: str
    no: str

    def read(self, text: pl.Series) -> pl.Series:
        """Read truth values."""
        return text == self.yes

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write truth values."""
        words = {True: self.yes, False: self.no}
        return values.cast(pl.Boolean).replace_strict(words, return_dtype=pl.String)


@dataclass(frozen=True)
class NumberForm:
    """Numbers, amounts of money, and percentages."""

    decimal: str = "."
    thousands: str = ""
    before: str = ""
    after: str = ""
    in_parentheses: bool = False  # negative numbers, as in accounting

    def read(self, text: pl.Series) -> pl.Series:
        """Read numbers; as integers if all are."""
        text = text.str.replace(MINUS, "-", literal=True)
        if self.in_parentheses:
            text = text.str.replace(r"^\((.*)\)$", "-$1")
        for affix in (self.before, self.after):
            text = text.str.replace(affix.strip(), "", literal=True) if affix else text
        text = text.str.replace_all(r"\s+", "")
        if self.thousands.strip():
            text = text.str.replace_all(self.thousands, "", literal=True)
        if self.decimal != ".":
            text = text.str.replace(self.decimal, ".", literal=True)
        whole = text.cast(pl.Int64, strict=False)
        return whole if whole.count() == text.count() else text.cast(pl.Float64, strict=False)

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write numbers with as many decimals as were read."""
        like = like.drop_nulls()
        mark = re.escape(self.decimal)
        if like.str.contains(r"\d[eE][+-]?\d").any():
            texts = [f"{value:.6g}".replace(".", self.decimal) for value in values]
            return pl.Series(values.name, texts, pl.String)
        after = like.str.extract(rf"{mark}(\d+)").fill_null("")
        shown = after.str.len_chars()
        least, most = (int(str(n or 0)) for n in (shown.min(), shown.max()))
        whole = after.str.contains("^0*$").all()  # 1.0, 2.0, ...
        minus = MINUS if like.str.contains(MINUS, literal=True).any() else "-"
        pad = most if least == most else None
        texts = [self._written(value, 0 if whole else most, pad, minus) for value in values]
        if like.str.contains(rf"(^|\D){mark}").any():  # .5, without a zero
            texts = [re.sub(rf"\b0({mark})", r"\1", text) for text in texts]
        return pl.Series(values.name, texts, pl.String)

    def _written(self, value: float, places: int, pad: int | None, minus: str) -> str:
        """A number rounded to some decimals; ``pad`` of them are shown, or as many as needed."""
        digits = len(str(abs(int(value)))) if abs(value) < 1e300 else 300
        places = max(min(places, _SIGNIFICANT - digits), 0)
        value = round(value, places)
        shown = places if pad is None else pad
        exact = isinstance(value, int) and not shown  # with digits that no float has
        text = f"{abs(value):,}" if exact else f"{abs(value):,.{shown}f}"
        if pad is None and places:
            text = text.rstrip("0").rstrip(".")
        text = text.translate({ord(","): self.thousands, ord("."): self.decimal})
        text = f"{self.before}{text}{self.after}"
        if value >= 0:
            return text
        return f"({text})" if self.in_parentheses else f"{minus}{text}"


@dataclass(frozen=True)
class DateForm:
    """Dates, times of day, or both, by a polars pattern."""

    pattern: str
    kind: type[pl.Date | pl.Datetime | pl.Time]
    after: str = ""  # Z, or a common offset from UTC
    of_months: bool = False  # months without days; read as the first day

    def read(self, text: pl.Series) -> pl.Series:
        """Read dates; null where a text is not a date."""
        text = text.str.strip_suffix(self.after) if self.after else text
        if self.of_months:
            return ("01 " + text).str.strptime(self.kind, f"%d {self.pattern}", strict=False)
        return text.str.strptime(self.kind, self.pattern, strict=False)

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write dates, with leading zeros if the texts have them."""
        like, pattern = like.drop_nulls(), self.pattern
        day = like.str.replace(_TIME, "").str.replace_all(r"\d{4}", "")
        if day.str.contains(_ALONE).any():
            pattern = pattern.replace("%d", "%-d").replace("%m", "%-m")
        if like.str.contains(r"(^|\D)\d:\d\d").any():
            pattern = pattern.replace("%H", "%-H").replace("%I", "%-I")
        if like.str.contains("[ap]m").any():
            pattern = pattern.replace("%p", "%P")
        text = values.cast(self.kind).dt.strftime(pattern) + self.after
        return text.str.to_uppercase() if (like.str.to_uppercase() == like).all() else text


@dataclass(frozen=True)
class SpanForm:
    """Spans of time in hours, minutes and perhaps seconds, as 36:15."""

    def read(self, text: pl.Series) -> pl.Series:
        """Read spans."""
        pieces = text.str.extract_groups(r"^(\d+):(\d\d)(?::(\d\d))?$").struct.unnest()
        hours, minutes, seconds = (
            column.cast(pl.Int64).fill_null(0) for column in pieces.get_columns()
        )
        total = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
        total = total.set(text.is_null(), None)
        return total.cast(pl.Duration("us"))

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write spans, with seconds if the texts have them."""
        unit = 1 if like.str.count_matches(":").max() == 2 else 60  # seconds
        counts = values.cast(pl.Duration("ms")).cast(pl.Int64).to_list()
        spans = [round(count / (1000 * unit)) * unit for count in counts]
        texts = [f"{span // 3600}:{span // 60 % 60:02}:{span % 60:02}" for span in spans]
        return pl.Series(values.name, texts if unit == 1 else [text[:-3] for text in texts])
