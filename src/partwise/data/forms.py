"""Text formats of columns: numbers, dates and times, yes or no, text.

A form reads texts as values, and writes values in the format of the other cells of the column.
`partwise.data.decide` detects the form of a column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import polars as pl

# Typographic minus sign, and the dash, hyphens and wide signs that are used for it.
MINUS = "−–\u2010\u2011\ufe63\uff0d"
_ALONE = r"(^|\D)\d(\D|$)"  # a number of one digit
_TIME = r"[T ,]*\d{1,2}:\d\d.*$"
_POWER = r"\d[.,]?([eE])[+-]?(\d+)$"
_HALF = r"([AaPp])\.([Mm])\."  # of the day
_FRACTION = r"(:\d\d),(\d)"  # of a second, with a decimal comma
_SIGNIFICANT = 15  # decimal digits of a float
# Quarters as polars reads them: by their first months; and months as quarters.
_FIRST_MONTHS = {f"Q{quarter}": f"Q{3 * quarter - 2:02}" for quarter in range(1, 5)}
_QUARTERS = {f"Q{month:02}": f"Q{(month + 2) // 3}" for month in range(1, 13)}
# What a period lacks of a date: months and quarters a first day, weeks a Monday.
_FIRST_DAYS = {"months": ("01 ", "%d "), "quarters": ("01 ", "%d "), "weeks": ("1 ", "%u ")}


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
    minus_last: bool = False  # as 12.00-
    singular: str = ""  # the text after 1, if it is another: 1 bed, 2 beds

    @property
    def unit(self) -> str:
        """The unit of all numbers, without blanks; "" if there is none."""
        return (self.before + self.after).strip()

    def read(self, text: pl.Series) -> pl.Series:
        """Read numbers; as integers if all are."""
        text = text.str.replace(f"[{MINUS}]", "-")
        if self.in_parentheses:
            text = text.str.replace(r"^\((.*)\)$", "-$1")
        for affix in (self.before, self.after, self.singular):
            text = text.str.replace(affix.strip(), "", literal=True) if affix else text
        text = text.str.replace_all(r"\s+", "")
        if self.minus_last:
            text = text.str.replace(r"^(.*)-$", "-$1").str.strip_suffix("+")
        if self.thousands.strip():
            text = text.str.replace_all(self.thousands, "", literal=True)
        if self.decimal != ".":
            text = text.str.replace(self.decimal, ".", literal=True)
        whole = text.cast(pl.Int64, strict=False)
        return whole if whole.count() == text.count() else text.cast(pl.Float64, strict=False)

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write numbers with as many decimals as were read."""
        like = like.drop_nulls()
        mark, mark_of_groups = re.escape(self.decimal), re.escape(self.thousands)
        if like.str.contains(_POWER).any():
            texts = [text.replace(".", self.decimal) for text in self._scientific(values, like)]
            return pl.Series(values.name, texts, pl.String)
        after = like.str.extract(rf"{mark}(\d+)").fill_null("")
        shown = after.str.len_chars()
        least, most = (int(str(n or 0)) for n in (shown.min(), shown.max()))
        whole = after.str.contains("^0*$").all()  # 1.0, 2.0, ...
        found = like.str.extract(f"([{MINUS}])").drop_nulls()
        signs = (
            str(found[0]) if len(found) else "-",
            "+" if like.str.contains(r"^\+|\+\D*$").any() else "",
        )
        pad = most if least == most else None
        texts = [self._written(value, 0 if whole else most, pad, *signs) for value in values]
        if like.str.contains(rf"(^|\D){mark}").any():  # .5, without a zero
            texts = [re.sub(rf"\b0({mark})", r"\1", text) for text in texts]
        if self.thousands and like.str.contains(rf"\d{mark_of_groups}\d\d{mark_of_groups}").any():
            texts = [self._in_lakhs(text) for text in texts]
        return pl.Series(values.name, texts, pl.String)

    def _in_lakhs(self, text: str) -> str:
        """A number with Indian groups of digits, as 1,23,456, instead of 123,456."""

        def grouped(found: re.Match[str]) -> str:
            digits = found[0].replace(self.thousands, "")
            return re.sub(r"(?<=\d)(?=(?:\d\d)*\d{3}$)", self.thousands, digits)

        return re.sub(rf"\d[\d{re.escape(self.thousands)}]*", grouped, text, count=1)

    def _scientific(self, values: pl.Series, like: pl.Series) -> list[str]:
        """Numbers of which some, or all, have powers of ten."""
        powers = like.str.extract(_POWER, 2)
        digits = int(str(powers.str.len_chars().min()))
        letter = str(like.str.extract(_POWER, 1).drop_nulls()[0])
        if powers.null_count():  # only very large and very small numbers have them
            known = like.str.replace(_POWER, "").str.replace_all(r"\D", "")
            longest = int(str(known.str.strip_chars_start("0").str.len_chars().max()))
            most = min(max(longest, 1), _SIGNIFICANT)
            return [f"{value:.{most}g}".replace("e", letter) for value in values]
        places = like.str.extract(rf"{re.escape(self.decimal)}(\d+)").str.len_chars().max()
        texts = (f"{value:.{int(str(places or 0))}e}" for value in values)
        pieces = (text.partition("e") for text in texts)
        return [f"{core}{letter}{to[0]}{int(to[1:]):0{digits}}" for core, _, to in pieces]

    def _written(self, value: float, places: int, pad: int | None, minus: str, plus: str) -> str:
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
        in_parentheses = self.in_parentheses and value < 0
        sign = "" if in_parentheses else minus if value < 0 else plus if value else ""
        last = sign if self.minus_last else ""
        after = self.singular if self.singular and text == "1" else self.after
        text = f"{self.before}{text}{last}{after}"
        if in_parentheses:
            return f"({text})"
        return text if self.minus_last else f"{sign}{text}"


@dataclass(frozen=True)
class DateForm:
    """Dates, times of day, or both, by a polars pattern."""

    pattern: str
    kind: type[pl.Date | pl.Datetime | pl.Time]
    after: str = ""  # Z, or a common offset from UTC
    period: str = ""  # of dates without days: months, quarters or weeks; read as the first day
    first_year: int | None = None  # of the hundred to which years of two digits belong, if known

    @property
    def has_short_years(self) -> bool:
        """Whether years have two digits."""
        return "%y" in self.pattern

    def read(self, text: pl.Series) -> pl.Series:
        """Read dates; null where a text is not a date."""
        text = text.str.strip_suffix(self.after) if self.after else text
        pattern = self.pattern
        if self.period:
            first, code = _FIRST_DAYS[self.period]
            text, pattern = first + text, code + pattern
        if self.period == "quarters":
            text = text.str.replace_many(_FIRST_MONTHS)
        text = text.str.replace(_HALF, "$1$2") if "%p" in self.pattern else text
        text = text.str.replace(_FRACTION, "$1.$2") if "%.f" in self.pattern else text
        dates = text.str.strptime(self.kind, pattern, strict=False)
        if self.first_year is None:
            return dates
        frame = pl.DataFrame([dates.alias("date")])
        date, year = pl.col("date"), pl.col("date").dt.year()
        # Whole centuries between the year and the one of the hundred years with the same digits.
        away = (self.first_year - year + (year - self.first_year) % 100) // 100
        moved = date.dt.offset_by((away * 1200).cast(pl.String) + "mo")
        return frame.select(moved.alias(text.name)).to_series()

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write dates, with leading zeros if the texts have them."""
        like, pattern = like.drop_nulls(), self.pattern
        day = like.str.replace(_TIME, "").str.replace_all(r"\d{4}", "")
        if self.period != "quarters" and day.str.contains(_ALONE).any():
            pattern = pattern.replace("%d", "%-d").replace("%m", "%-m")
        if like.str.contains(r"(^|\D)\d:\d\d").any():
            pattern = pattern.replace("%H", "%-H").replace("%I", "%-I")
        if like.str.contains(r"[ap]\.?m").any():
            pattern = pattern.replace("%p", "%P")
        digits = like.str.extract(r":\d\d[.,](\d+)").str.len_chars().unique().to_list()
        if digits in ([3], [6]):  # all cells have as many decimals of seconds
            pattern = pattern.replace("%.f", f"%.{digits[0]}f")
        values = values.cast(self.kind)
        if "%:z" in pattern:
            values = values.dt.replace_time_zone("UTC")
        text = values.dt.strftime(pattern) + self.after
        if like.str.contains(_FRACTION).any():
            text = text.str.replace(r"(:\d\d)\.(\d)", "$1,$2")
        if like.str.contains(_HALF).any():
            text = text.str.replace("([AaPp])([Mm])", "$1.$2.")
        if self.period == "quarters":
            text = text.str.replace_many(_QUARTERS)
        for recased in (text.str.to_uppercase, text.str.to_lowercase):
            if (getattr(like.str, recased.__name__)() == like).all():
                return recased()
        return text


@dataclass(frozen=True)
class SpanForm:
    """Durations: hours and minutes, perhaps with seconds, as 36:15, or minutes and seconds."""

    in_minutes: bool = False  # 3:45 is 225 seconds

    def read(self, text: pl.Series) -> pl.Series:
        """Read durations."""
        pieces = text.str.extract_groups(
            r"^(\d+):(\d\d)(?::(\d\d))?(?:[.,](\d+))?$"
        ).struct.unnest()
        first, second, third, part = pieces.get_columns()
        counts = [column.cast(pl.Int64).fill_null(0) for column in (first, second, third)]
        total = counts[0] * 3600 + counts[1] * 60 + counts[2]
        if self.in_minutes:
            total = total.zip_with(third.is_not_null(), total // 60)
        total = total * 1_000_000 + part.str.pad_end(6, "0").cast(pl.Int64).fill_null(0)
        total = total.set(text.is_null(), None)
        return total.cast(pl.Duration("us"))

    def write(self, values: pl.Series, like: pl.Series) -> pl.Series:
        """Write durations, with hours, minutes or seconds as the texts have them."""
        long = like.str.count_matches(":").max() == 2
        unit = 1 if long or self.in_minutes else 60  # seconds
        digits = like.drop_nulls().str.extract(r"[.,](\d+)$").fill_null("").str.len_chars()
        least, most = (int(str(n or 0)) for n in (digits.min(), digits.max()))
        step = unit * 10 ** (6 - most)  # microseconds
        counts = values.cast(pl.Duration("us")).cast(pl.Int64).to_list()
        split = [divmod(round(count / step) * step, 1_000_000) for count in counts]
        spans = [seconds for seconds, _ in split]
        if long:
            texts = [f"{span // 3600}:{span // 60 % 60:02}:{span % 60:02}" for span in spans]
        else:
            large = [span if self.in_minutes else span // 60 for span in spans]
            texts = [f"{span // 60}:{span % 60:02}" for span in large]
        if most:
            mark = "," if like.str.contains(",").any() else "."
            parts = [f"{mark}{part:06}"[: most + 1] for _, part in split]
            parts = parts if least == most else [part.rstrip("0").rstrip(mark) for part in parts]
            texts = [text + part for text, part in zip(texts, parts, strict=True)]
        return pl.Series(values.name, texts)
