"""Columns of data frames and arrays: the only module, with `frame_types`, that knows their kinds.

Neither is imported unless the caller's table is one of its frames. A column is read as numbers
(dates and spans of time in days) or as codes of levels, and written back in the type it had.
"""

from __future__ import annotations

import datetime
import decimal
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, TypeGuard, cast

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_types import has_zone, polars_name, polars_type, unit_of
from partwise.typing import DataLike, Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

NANOSECONDS_PER_DAY = 86_400e9


# Days of 0001-01-01 and after 9999-12-31, since 1970: dates that Python has.
CALENDAR = (-719_162, 2_932_897)

# Days before and after 1970 that nanoseconds can count.
MOST_DAYS = 106_751

_PER_UNIT = {"ns": 1.0, "us": 1e3, "ms": 1e6}  # nanoseconds


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


def frame_of(X: object) -> str:
    """The kind of table: "pandas", "polars" or "array"."""
    module = type(X).__module__.split(".")[0]
    return module if module in ("pandas", "polars") and hasattr(X, "columns") else "array"


def is_pandas(X: object) -> TypeGuard[pd.DataFrame]:
    """Whether X is a DataFrame of pandas."""
    return frame_of(X) == "pandas"


def is_polars(X: object) -> TypeGuard[pl.DataFrame]:
    """Whether X is a DataFrame of polars."""
    return frame_of(X) == "polars"


def names_of(X: Frame | Array) -> list[Name]:
    """Names of the columns, numbers for arrays; equal names are numbered."""
    return unique_names(range(X.shape[1]) if isinstance(X, np.ndarray) else X.columns)


def unique_names(names: Iterable[Name]) -> list[Name]:
    """Names, of which equal ones are numbered: x, x (2), ..."""
    given, out = list(names), list[Name]()
    for i, name in enumerate(given):
        times = given[:i].count(name)
        out.append(f"{name} ({times + 1})" if times else name)
    return out


def with_own_names(X: Frame | Array) -> Frame | Array:
    """The same table with unique column names."""
    if not is_pandas(X) or X.columns.is_unique:
        return X
    return X.set_axis(names_of(X), axis=1)


def as_table(X: DataLike) -> Frame | Array:
    """X if it is a DataFrame, else as an array; of two dimensions and not empty."""
    table = X if is_pandas(X) or is_polars(X) else _as_array(X)
    for n, what in zip(table.shape, ("sample", "feature"), strict=True):
        if n == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(table.shape)}) while a minimum of 1 "
                "is required."
            )
    return table


def _as_array(X: DataLike) -> Array:
    """An array of two dimensions; lists of other things than numbers become objects."""
    if hasattr(X, "__array__"):
        table = np.asarray(X)
    else:
        table = np.array(X, dtype=object)
        if all(isinstance(value, Real) and not isinstance(value, bool) for value in table.flat):
            table = table.astype(float)
    if np.iscomplexobj(table):
        raise ValueError("Complex data not supported; give their real and imaginary parts.")
    if table.ndim != 2:
        raise ValueError(
            f"X must be a table of rows and columns, but has shape {table.shape}. Reshape your "
            "data: a single row is X.reshape(1, -1)."
        )
    return table


def index_of(X: object) -> pd.Index | None:
    """Labels of the rows of a pandas DataFrame, None for other tables."""
    return X.index if is_pandas(X) else None


def as_numbers(X: DataLike, what: str = "X") -> Frame | Array:
    """X itself if it has only numbers; else the same table with its objects read as numbers.

    Text of a number is read as the number, and every mark of a missing value (None, NaN, NaT, NA,
    null) becomes NaN. An error names the row and column of any other value.
    """
    if is_pandas(X):
        if all(getattr(dtype, "kind", "O") in "biufc" for dtype in X.dtypes):
            return X
        import pandas as pd

        numbers = _numbers(X.to_numpy(dtype=object), what, names_of(X))
        return pd.DataFrame(numbers, index=X.index, columns=X.columns)
    if is_polars(X):
        if all(dtype.is_numeric() for dtype in X.dtypes):
            return X
        import polars as pl

        values = np.empty(X.shape, dtype=object)
        for i, series in enumerate(X.get_columns()):
            values[:, i] = series.to_list()
        return pl.DataFrame(_numbers(values, what, X.columns), schema=X.columns)
    try:
        array = cast(Array, X) if hasattr(X, "dtype") else np.asarray(X)
    except ValueError:
        raise ValueError(
            f"{what} has rows of different lengths; give each the same number of values, NaN where "
            "one is missing."
        ) from None
    kind = getattr(array.dtype, "kind", "O")
    if kind in "mM" and np.isnat(array).all():
        return np.full(array.shape, np.nan)
    if kind in "mMV":
        raise ValueError(f"{what} has type {array.dtype}, but must have numbers; convert it.")
    return _numbers(np.asarray(array), what) if kind in "OUST" else array


def all_numbers(X: DataLike) -> bool:
    """Whether every value of a data frame can be read as a number; others are taken to be so."""
    if frame_of(X) == "array":
        return True
    try:
        as_numbers(X)
    except ValueError:
        return False
    return True


# What `float` reads.
_NUMERIC = (bool, np.bool_, Real, decimal.Decimal, str, bytes)


def _numbers(values: Array, what: str, names: Sequence[Name] | None = None) -> Array:
    """Objects as floats, NaN where missing; errors use ``what`` and the names of the columns."""
    flat = values.ravel().tolist()
    read = [_number(value) for value in flat]
    if None not in read:
        return np.array(read, dtype=float).reshape(values.shape)
    i = read.index(None)
    row, *column = (int(place) for place in np.unravel_index(i, np.atleast_1d(values).shape))
    where = f"{what} holds {reprlib.repr(flat[i])} in row {row}"
    for d in column:
        where += f", column {d if names is None else names[d]!r}"
    if isinstance(flat[i], str | bytes):
        raise ValueError(
            f"{where}, which is not a number; encode such columns as numbers, or choose "
            'MCVQ(likelihood="auto").'
        )
    raise TypeError(f"{where}; the argument must be a table of numbers, or strings of numbers.")


def _number(value: Value) -> float | None:
    """A number, NaN for any mark of a missing value, None for anything else."""
    if isinstance(value, _NUMERIC):
        try:
            return float(value)
        except ValueError:
            return None
    return np.nan if not np.shape(cast(Array, value)) and is_missing(value) else None


def read_columns(X: Frame | Array) -> list[RawColumn]:
    """All columns of a table as `as_table` returns it."""
    if is_pandas(X):
        return [_read_pandas(name, X.iloc[:, i]) for i, name in enumerate(X.columns)]
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
        return RawColumn(name, "number", tag, series.to_numpy(dtype=precision, na_value=np.nan))
    if kind == "M":
        values = (series.dt.tz_convert(None) if has_zone(dtype) else series).to_numpy()
        if values.dtype.kind == "O":  # days of Arrow
            values = series.astype("datetime64[s]").to_numpy()
        return RawColumn(name, "date", tag, _days(name, values))
    if kind == "m":
        return RawColumn(name, "span", tag, _days(name, series.to_numpy()))
    try:
        codes, found = series.factorize()
    except TypeError:  # lists and the like
        return RawColumn(name, "other", tag, np.full(len(series), np.nan))
    return _of_objects(name, tag, np.asarray(codes), list(found))


def nanoseconds(series: pl.Series, form: str) -> Array:
    """Nanoseconds of spans, or of dates since 1970, which must be in the calendar."""
    import polars as pl

    kind = pl.Duration if form == "span" else pl.Datetime
    if form == "date":  # before polars converts them, which may end the process
        days = series.to_physical().cast(pl.Float64).to_numpy()
        if series.dtype != pl.Date:
            days = days / (NANOSECONDS_PER_DAY / _PER_UNIT[series.dtype.time_unit])  # type: ignore[attr-defined]  # a Datetime
        _check_calendar(series.name, days)
    factor = 1.0
    try:
        counts = series.cast(kind("ns"))
    except pl.exceptions.InvalidOperationError:  # dates outside of the years 1677 to 2262
        factor = 1000.0
        counts = series.cast(kind("us"))
    return factor * counts.to_physical().cast(pl.Float64).to_numpy()


def _read_polars(series: pl.Series) -> RawColumn:
    import polars as pl

    dtype, name, tag = series.dtype, series.name, polars_name(series.dtype)
    if dtype == pl.Boolean:
        return _yes_or_no(name, tag, series.cast(pl.Float64).to_numpy())
    if dtype.is_numeric():
        precision = pl.Float32 if dtype == pl.Float32 else pl.Float64
        return RawColumn(name, "number", tag, series.cast(precision).to_numpy())
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
        return RawColumn(name, "number", tag, values.astype(precision))
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


def is_missing(value: Value) -> bool:
    """Whether a value stands for a missing one: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _yes_or_no(name: Name, dtype: str, values: Array) -> RawColumn:
    codes = np.where(np.isnan(values), -1, values).astype(np.int64)
    return RawColumn(name, "level", dtype, codes, (False, True))


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
        return RawColumn(name, "number", dtype, numbers[codes])
    if sorts == {"date"}:
        days = _days(name, np.array([*found, "NaT"], dtype="datetime64[us]"))
        if within_nanoseconds(days):
            days = _days(name, np.array([*found, "NaT"], dtype="datetime64[ns]"))
        return RawColumn(name, "date", dtype, days[codes])
    levels = tuple(in_text_order(found))
    code = {level: i for i, level in enumerate(levels)}
    place = np.array([*(code[level] for level in found), -1], np.int64)
    return RawColumn(name, "level", dtype, place[codes], levels)


# --- and back ---


@dataclass(frozen=True, eq=False)
class NewColumn:
    """A column to write: values in the user's terms, and the type as its frame names it."""

    name: Name
    form: str
    dtype: str
    values: Array  # floats, codes of levels (-1 missing), or days
    levels: tuple[Value, ...] = ()
    ordered: bool = False
    categories: tuple[Value, ...] = ()  # declared levels, if some of them are not used

    def plain(self) -> Array:
        """Values in the user's terms as an array; None or NaN where missing."""
        if self.form == "other":
            return np.full(len(self.values), None)
        if self.form == "level":
            known = np.empty(len(self.levels) + 1, dtype=object)
            known[:-1] = self.levels
            return known[self.values.astype(np.int64)]
        if self.form == "number":
            whole = "int" in self.dtype.lower()
            return np.rint(self.values) if whole else self.values
        fine = within_nanoseconds(self.values)
        unit = ("M8" if self.form == "date" else "m8") + ("[ns]" if fine else "[us]")
        missing = np.isnan(self.values)
        count = np.where(missing, 0, self.values) * (NANOSECONDS_PER_DAY / (1.0 if fine else 1e3))
        out = np.rint(count).astype(np.int64).astype(unit)
        out[missing] = np.array("NaT", dtype=unit)
        return out


def make_frame(
    frame: str, columns: Sequence[NewColumn], index: pd.Index | None = None
) -> Frame | Array:
    """A table of a kind that `frame_of` names."""
    if frame == "pandas":
        import pandas as pd

        made = [pd.Series(_pandas_values(column), index=index) for column in columns]
        out = pd.concat(made, axis=1) if made else pd.DataFrame(index=index)
        out.columns = pd.Index([column.name for column in columns])
        return out
    if frame == "polars":
        import polars as pl

        return pl.DataFrame([_polars_series(column) for column in columns])
    plain = [column.plain() for column in columns]
    if all(column.form == "number" for column in columns):
        return np.column_stack(plain)
    out = np.empty((len(plain[0]), len(plain)), dtype=object)
    for i, values in enumerate(plain):
        out[:, i] = values
    return out


def replace_cells(X: Frame | Array, columns: dict[int, tuple[Array, NewColumn]]) -> Frame | Array:
    """A copy of X in which some columns have other values in some rows: {place: (rows, values)}."""
    if is_pandas(X):
        import pandas as pd

        out = X.copy()
        for i, (rows, column) in columns.items():
            series = X.iloc[:, i].copy()
            if series.dtype == "float64" and column.form != "number" and series.isna().all():
                new = pd.Series(_pandas_values(column), index=rows)
                series = new.reindex(np.arange(len(X))).set_axis(X.index)
            else:
                series.iloc[rows] = _pandas_values(column, series.dtype)
            out.isetitem(i, series)
        return out
    if is_polars(X):
        import polars as pl

        made = X.get_columns()
        for i, (rows, column) in columns.items():
            place = np.zeros(len(X), np.int64)
            place[rows] = np.arange(len(rows))
            changed = np.zeros(len(X), bool)
            changed[rows] = True
            # A column without any value has no type of its own.
            dtype = None if made[i].dtype == pl.Null else made[i].dtype
            new = _polars_series(column, dtype)[pl.Series(place)]
            made[i] = new.zip_with(pl.Series(changed), made[i].cast(new.dtype)).alias(made[i].name)
        return pl.DataFrame(made)
    out = np.array(as_table(X))
    for i, (rows, column) in columns.items():
        out[rows, i] = column.plain()
    return out


def select(X: Frame, columns: Sequence[Name]) -> Frame:
    """Some columns of a frame."""
    names = list(columns)
    return X[names] if is_pandas(X) else X.select([str(name) for name in names])


def largest_rows(tables: Sequence[Frame], by: str, n: int) -> Frame:
    """The n rows of several frames with the largest values in a column."""
    whole = join_rows(tables)
    if is_pandas(whole):
        return whole.sort_values(by, ascending=False, kind="stable").head(n)
    assert is_polars(whole)
    return whole.sort(by, descending=True, maintain_order=True).head(n)


def shifted(X: Frame, column: str, by: int) -> Frame:
    """A frame with a number added to a column, for frames without row labels."""
    return X.with_columns(X[column] + by) if is_polars(X) else X


def join_rows(tables: Sequence[Frame | Array]) -> Frame | Array:
    """Tables of the same columns, one after the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    if is_pandas(first):
        import pandas as pd

        return pd.concat(tables)
    if is_polars(first):
        import polars as pl

        return pl.concat([table for table in tables if is_polars(table)], how="vertical_relaxed")
    return np.concatenate([np.asarray(table) for table in tables])


def some_rows(X: Frame | Array, lo: int, hi: int) -> Frame | Array:
    """Rows ``lo`` to ``hi`` of a table."""
    return X.iloc[lo:hi] if is_pandas(X) else X[lo:hi]


def with_columns(X: Frame | Array, columns: Sequence[NewColumn]) -> Frame | Array:
    """X and some columns after it."""
    new = make_frame(frame_of(X), columns, index_of(X))
    if is_pandas(X):
        import pandas as pd

        return pd.concat([X, new], axis=1)
    if is_polars(X) and is_polars(new):
        return X.hstack(new.get_columns())
    table = np.asarray(X)
    if table.ndim != 2:  # sparse rows, or rows in pieces
        raise ValueError(
            f"Columns are added to a DataFrame or a two-dimensional array, not to a "
            f"{type(X).__name__}; pass such a table as onto."
        )
    return np.hstack([table, np.asarray(new)])


def _pandas_values(
    column: NewColumn, dtype: pd.CategoricalDtype | None = None
) -> pd.api.extensions.ExtensionArray:
    """Values of the column's type, or of ``dtype``, as an array for a Series."""
    import pandas as pd

    values = column.plain()
    if dtype is None and column.dtype == "category":
        declared = list(column.categories or column.levels)
        dtype = pd.CategoricalDtype(declared, ordered=column.ordered)
    dtype = column.dtype if dtype is None else dtype
    series = pd.Series(values)
    if column.form == "other":
        return series.array
    made = pd.Series([], dtype=dtype).dtype
    if column.form in ("date", "span"):
        series = series.dt.round(unit_of(made, column.form))
        seen = series.dropna()
        if dtype == "object" and (seen == seen.dt.normalize()).all():
            return pd.Series(series.dt.date, dtype=object).array
        series = series.dt.tz_localize("UTC") if has_zone(made) else series
    if isinstance(made, np.dtype) and made.kind in "iub" and series.isna().any():
        return (series.astype("boolean") if made.kind == "b" else series).array
    return series.astype(dtype).array


def _polars_series(column: NewColumn, dtype: pl.DataType | None = None) -> pl.Series:
    """A series of the column's type, or of ``dtype``."""
    import polars as pl

    name, values = str(column.name), column.plain()
    if column.form == "other":
        series = pl.Series(name, list(values))
        return series if dtype is None else series.cast(dtype)
    if dtype is None:
        dtype = polars_type(column.dtype, column.categories or column.levels)
    if column.form == "level":
        return _cast_levels(pl.Series(name, list(values), strict=False), dtype)
    if dtype == pl.Time:
        day = pl.Series(name, values).to_physical() % int(NANOSECONDS_PER_DAY)
        return day.set(pl.Series(np.isnat(values)), None).cast(pl.Time)
    if dtype.is_integer():
        values = np.rint(values)
    series = pl.Series(name, values, nan_to_null=column.form == "number")
    return series.cast(dtype, strict=False)


def _cast_levels(series: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Levels as a polars type, which may have other levels."""
    from polars.exceptions import InvalidOperationError

    try:
        return series.cast(dtype)
    except InvalidOperationError:
        raise ValueError(
            f"Column {series.name!r} is of type {dtype!r:.100}, which lacks a level that fit saw; "
            "cast it to text or to the type that fit saw."
        ) from None
