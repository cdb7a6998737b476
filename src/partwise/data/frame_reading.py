"""Columns of tables as numbers (dates and spans of time in days) or as codes of levels."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_types import has_zone, polars_name
from partwise.data.frames import is_missing, is_pandas, is_polars
from partwise.typing import Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


NANOSECONDS_PER_DAY = 86_400e9


# Days of 0001-01-01 and after 9999-12-31, since 1970: dates that Python has.
CALENDAR = (-719_162, 2_932_897)


# Days before and after 1970 that nanoseconds can count.
MOST_DAYS = 106_751


# Days that dates have, and about as many as microseconds can count; the last are excluded.
DAYS = {"date": CALENDAR, "span": (-1000 * MOST_DAYS, 1000 * MOST_DAYS)}


# Whole numbers up to here are exact in double precision.
LARGEST_WHOLE = 2.0**53


PER_UNIT = {"ns": 1.0, "us": 1e3, "ms": 1e6}  # nanoseconds


@dataclass(frozen=True, eq=False)
class RawColumn:
    """A column as it was given."""

    name: Name
    form: str  # "number", "date", "span", "level", or "other": not supported
    dtype: str  # as its frame names it
    values: Array  # numbers, NaN where missing; or codes of levels, -1 where missing
    levels: tuple[Value, ...] = ()  # the user's values in the order of the codes
    ordered: bool = False  # whether the frame declares an order of the levels
    declared: bool = False  # whether the frame declares the levels
    rounded: bool = False  # whether it has integers that floats do not hold


def read_columns(X: Frame | Array) -> list[RawColumn]:
    """All columns of a table as `as_table` returns it."""
    if is_pandas(X):
        return [_read_pandas(name, series) for name, series in X.items()]
    if is_polars(X):
        return [_read_polars(series) for series in X.get_columns()]
    array = np.asarray(X)
    return [_read_array(i, array[:, i]) for i in range(array.shape[1])]


def _read_pandas(name: Name, series: pd.Series) -> RawColumn:
    dtype, kind = series.dtype, getattr(series.dtype, "kind", "O")
    tag = str(dtype)
    if hasattr(dtype, "categories"):
        codes = series.cat.codes.to_numpy()
        levels, ordered = tuple(dtype.categories), bool(dtype.ordered)
        return RawColumn(name, "level", tag, codes, levels, ordered, declared=True)
    if kind == "b":
        return _yes_or_no(name, tag, series.to_numpy(dtype=float, na_value=np.nan))
    if kind in "iuf":
        precision = np.float32 if tag.lower() == "float32" else np.float64
        values = series.to_numpy(dtype=precision, na_value=np.nan)
        rounded = kind in "iu" and _are_rounded(values, series.array)
        return RawColumn(name, "number", tag, values, rounded=rounded)
    if kind == "M":
        values = (series.dt.tz_convert(None) if has_zone(dtype) else series).to_numpy()
        if values.dtype.kind == "O":  # days of Arrow
            values = series.astype("datetime64[s]").to_numpy()
        return RawColumn(name, "date", tag, _days(name, values))
    if kind == "m":
        return RawColumn(name, "span", tag, _days(name, series.to_numpy()))
    try:
        codes, found = series.factorize()
    except (TypeError, NotImplementedError):  # lists and the like, also of Arrow
        return RawColumn(name, "other", tag, np.full(len(series), np.nan))
    return _of_objects(name, tag, np.asarray(codes), list(found))


def _read_polars(series: pl.Series) -> RawColumn:
    import polars as pl

    dtype, name, tag = series.dtype, series.name, polars_name(series.dtype)
    if dtype == pl.Boolean:
        return _yes_or_no(name, tag, series.cast(pl.Float64).to_numpy())
    if dtype.is_numeric():
        precision = pl.Float32 if dtype == pl.Float32 else pl.Float64
        values = series.cast(precision).to_numpy()
        rounded = not dtype.is_float() and _are_rounded(values, series)
        return RawColumn(name, "number", tag, values, rounded=rounded)
    if dtype == pl.Null:
        return RawColumn(name, "number", tag, np.full(len(series), np.nan))
    if dtype in (pl.Date, pl.Datetime, pl.Duration):
        form = "span" if dtype == pl.Duration else "date"
        count = nanoseconds(series, form)
        return RawColumn(name, form, tag, count / NANOSECONDS_PER_DAY)
    if dtype == pl.Time:  # since midnight
        count = series.to_physical().cast(pl.Float64).to_numpy()
        return RawColumn(name, "span", tag, count / NANOSECONDS_PER_DAY)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        text = series.cast(pl.String)
        found = sorted(text.unique().drop_nulls().to_list())
        if isinstance(dtype, pl.Enum):  # in the declared order, with unused levels
            found = dtype.categories.to_list()
        codes = text.replace_strict(
            found, list(range(len(found))), default=-1, return_dtype=pl.Int64
        )
        codes = codes.fill_null(-1)
        declared = isinstance(dtype, pl.Enum)
        return RawColumn(name, "level", tag, codes.to_numpy(), tuple(found), declared=declared)
    return RawColumn(name, "other", tag, np.full(len(series), np.nan))


def _read_array(name: int, values: Array) -> RawColumn:
    tag = str(values.dtype)
    if values.dtype.kind == "b":
        return _yes_or_no(name, tag, values.astype(float))
    if values.dtype.kind in "iuf":
        precision = values.dtype if values.dtype == np.float32 else np.float64
        rounded = values.dtype.kind in "iu" and _are_rounded(values.astype(float), values)
        return RawColumn(name, "number", tag, values.astype(precision), rounded=rounded)
    if values.dtype.kind in "mM":
        form = "span" if values.dtype.kind == "m" else "date"
        return RawColumn(name, form, tag, _days(name, values))
    places: dict[Value, int] = {}
    try:
        codes = [
            -1 if is_missing(value) else places.setdefault(value, len(places)) for value in values
        ]
    except TypeError:
        return RawColumn(name, "other", tag, np.full(len(values), np.nan))
    return _of_objects(name, tag, np.array(codes, dtype=np.int64), list(places))


def _are_rounded(values: Array, given: Array | pl.Series) -> bool:
    """Whether floats (n,) differ from the integers that they were made of."""
    large = np.flatnonzero(np.abs(values) > LARGEST_WHOLE)
    return any(int(values[i]) != int(given[int(i)]) for i in large if np.isfinite(values[i]))


def _yes_or_no(name: Name, dtype: str, values: Array) -> RawColumn:
    codes = np.where(np.isnan(values), -1, values).astype(np.int64)
    return RawColumn(name, "level", dtype, codes, (False, True))


def nanoseconds(series: pl.Series, form: str) -> Array:
    """Nanoseconds of spans, or of dates since 1970, which must be in the calendar."""
    import polars as pl

    kind = pl.Duration if form == "span" else pl.Datetime
    if form == "date":  # before polars converts them, which may end the process
        days = series.to_physical().cast(pl.Float64).to_numpy()
        if series.dtype != pl.Date:
            days = days / (NANOSECONDS_PER_DAY / PER_UNIT[series.dtype.time_unit])  # type: ignore[attr-defined]  # a Datetime
        _check_calendar(series.name, days)
    factor = 1.0
    try:
        counts = series.cast(kind("ns"))
    except pl.exceptions.InvalidOperationError:  # dates outside of the years 1677 to 2262
        factor = 1000.0
        counts = series.cast(kind("us"))
    return factor * counts.to_physical().cast(pl.Float64).to_numpy()


def _days(name: Name, values: Array) -> Array:
    """Dates or spans of any unit as days, NaN where missing; dates must be in the calendar."""
    kind = values.dtype.kind
    if np.datetime_data(values.dtype)[0] in ("Y", "M", "generic"):  # of no fixed length
        values = values.astype(f"{kind}8[D]")
    unit, step = np.datetime_data(values.dtype)
    one = np.array(1, dtype=f"m8[{step}{unit}]")
    count = values.astype(np.int64) * (one / np.timedelta64(1, "D"))
    days = np.where(np.isnat(values), np.nan, count)
    if kind == "M":
        _check_calendar(name, days)
    if within_nanoseconds(days):  # all frames round alike
        days[:] = values.astype(f"{kind}8[ns]").astype(np.int64) / NANOSECONDS_PER_DAY
        days[np.isnat(values)] = np.nan
    return days


def within_nanoseconds(days: Array) -> bool:
    """Whether nanoseconds can count these days, NaN being missing: to the year 2262."""
    return not np.any(np.abs(days) >= MOST_DAYS)


def _check_calendar(name: Name, days: Array) -> None:
    if np.any((days < CALENDAR[0]) | (days >= CALENDAR[1])):
        raise ValueError(
            f"Column {name!r} has dates outside of the years 1 to 9999; make them missing."
        )


# Sorts of Python objects; the first match counts. A truth value is a number to Python.
_SORTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("truth", (bool, np.bool_)),
    ("number", (Real, decimal.Decimal)),
    ("date", (datetime.date, np.datetime64)),
    ("text", (str,)),
)


def sorts_of(values: Sequence[Value]) -> set[str]:
    """Sorts of Python objects: "truth", "number", "date", "text" or "other"."""
    return {
        next((sort for sort, types in _SORTS if isinstance(value, types)), "other")
        for value in values
    }


def in_text_order(values: Sequence[Value]) -> list[Value]:
    """Values sorted by their text."""
    return sorted(values, key=lambda value: (str(value), str(type(value))))


def _of_objects(name: Name, dtype: str, codes: Array, found: list[Value]) -> RawColumn:
    """A column of Python objects: numbers or dates if all are, else levels sorted by their text."""
    sorts = sorts_of(found)
    if sorts == {"number"} or not found:
        numbers = np.array([*found, np.nan], dtype=object).astype(float)
        rounded = any(isinstance(value, Integral) and float(value) != value for value in found)
        return RawColumn(name, "number", dtype, numbers[codes], rounded=rounded)
    if sorts == {"date"}:
        days = _days(name, np.array([*found, "NaT"], dtype="datetime64[us]"))
        if within_nanoseconds(days):
            days = _days(name, np.array([*found, "NaT"], dtype="datetime64[ns]"))
        return RawColumn(name, "date", dtype, days[codes])
    levels = tuple(in_text_order(found))
    code = {level: i for i, level in enumerate(levels)}
    place = np.array([*(code[level] for level in found), -1], np.int64)
    return RawColumn(name, "level", dtype, place[codes], levels)
