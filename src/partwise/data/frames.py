"""Data frames and arrays column by column: the only place that knows pandas and polars.

Neither is imported unless the caller's table is one of its frames. A column is read as numbers
(dates and spans of time in days) or as codes of levels, and written back in the type it had.
"""

from __future__ import annotations

import datetime
import decimal
import reprlib
import zoneinfo
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from partwise.contracts import Array

NANOSECONDS_A_DAY = 86_400e9


class RawColumn(NamedTuple):
    """A column as it was given."""

    name: Any
    form: str  # "number", "date", "span", "level", or "other": nothing that is understood
    dtype: str  # as its frame names it
    values: Array  # numbers, NaN where missing; of levels their codes, -1 where missing
    levels: tuple[Any, ...] = ()  # the user's values in the order of the codes
    ordered: bool = False  # whether the frame says that levels have an order
    mixed: bool = False  # whether there are values of several types


def frame_of(X: Any) -> str:
    """What kind of table X is: "pandas", "polars" or "array"."""
    module = type(X).__module__.split(".")[0]
    return module if module in ("pandas", "polars") and hasattr(X, "columns") else "array"


def names_of(X: Any) -> list[Any]:
    """Names of the columns, numbers of an array's; equal ones are numbered: x, x (2), ..."""
    given = list(X.columns) if frame_of(X) != "array" else list(range(X.shape[1]))
    out: list[Any] = []
    for i, name in enumerate(given):
        times = given[:i].count(name)
        out.append(f"{name} ({times + 1})" if times else name)
    return out


def has_type(frame: str, name: str) -> bool:
    """Whether a kind of table has column types of that name; True where it is not installed."""
    try:
        if frame == "polars":
            import polars as pl

            zone = name.removeprefix("Datetime[").removesuffix("]")
            if name == f"Datetime[{zone}]":
                return zone in zoneinfo.available_timezones()
            found = getattr(pl, name, None)
            return isinstance(found, type) and issubclass(found, pl.DataType)
        if frame == "pandas":
            import pandas as pd

            pd.api.types.pandas_dtype(name)
        else:
            np.dtype(name)
    except ImportError:
        return True
    except (TypeError, ValueError, SyntaxError):
        return False
    return True


def with_own_names(X: Any) -> Any:
    """The same table, of whose columns no two are called the same."""
    if frame_of(X) != "pandas" or X.columns.is_unique:
        return X
    return X.set_axis(names_of(X), axis=1)


def as_table(X: Any) -> Any:
    """X if it is a DataFrame, else as an array; of two dimensions and not empty."""
    if frame_of(X) == "array":
        if hasattr(X, "__array__"):
            X = np.asarray(X)
        else:  # lists: of numbers alone, or of anything
            X = np.array(X, dtype=object)
            if all(isinstance(value, Real) and not isinstance(value, bool) for value in X.flat):
                X = X.astype(float)
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported; give their real and imaginary parts.")
        if X.ndim != 2:
            raise ValueError(
                f"X must be a table of rows and columns, but has shape {X.shape}. Reshape your "
                "data: a single row is X.reshape(1, -1)."
            )
    for n, what in zip(X.shape, ("sample", "feature"), strict=True):
        if n == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
                "required."
            )
    return X


def index_of(X: Any) -> Any:
    """Labels of the rows of a pandas DataFrame, None of other tables."""
    return X.index if frame_of(X) == "pandas" else None


def as_numbers(X: Any, what: str = "X") -> Any:
    """X itself if it holds numbers alone; else the same table with its objects read as numbers.

    Text that is a number is read as one, and every mark of a missing value (None, NaN, NaT, NA,
    null) becomes NaN. Anything else is refused, with its row and column.
    """
    frame = frame_of(X)
    if frame == "pandas":
        if all(getattr(dtype, "kind", "O") in "biufc" for dtype in X.dtypes):
            return X
        import pandas as pd

        numbers = _numbers(X.to_numpy(dtype=object), what, names_of(X))
        return pd.DataFrame(numbers, index=X.index, columns=X.columns)
    if frame == "polars":
        if all(dtype.is_numeric() for dtype in X.dtypes):
            return X
        import polars as pl

        values = np.empty(X.shape, dtype=object)
        for i, series in enumerate(X.get_columns()):
            values[:, i] = series.to_list()
        return pl.DataFrame(_numbers(values, what, X.columns), schema=X.columns)
    if not hasattr(X, "dtype"):
        try:
            X = np.asarray(X)
        except ValueError:
            raise ValueError(
                f"{what} has rows of different lengths; give each the same number of values, NaN "
                "where one is missing."
            ) from None
    kind = getattr(X.dtype, "kind", "O")
    if kind in "mM" and np.isnat(X).all():
        return np.full(X.shape, np.nan)
    if kind in "mMV":
        raise ValueError(f"{what} holds {X.dtype}, but must hold numbers; convert it to numbers.")
    return _numbers(np.asarray(X), what) if kind in "OUST" else X


# What `float` reads.
_NUMERIC = (bool, np.bool_, Real, decimal.Decimal, str, bytes)


def _numbers(values: Array, what: str, names: Sequence[Any] | None = None) -> Array:
    """Objects as floats, NaN where missing; what they are, and columns' names, are for errors."""
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
            f"{where}, which is no number; encode such columns as numbers, or choose "
            'MCVQ(likelihood="auto").'
        )
    raise TypeError(f"{where}; the argument must be a table of numbers, or strings of numbers.")


def _number(value: Any) -> float | None:
    """A number, NaN for any mark of a missing value, None for anything else."""
    if isinstance(value, _NUMERIC):
        try:
            return float(value)
        except ValueError:
            return None
    return np.nan if np.ndim(value) == 0 and is_missing(value) else None


def read_columns(X: Any) -> list[RawColumn]:
    """All columns of what `as_table` gives."""
    frame = frame_of(X)
    if frame == "pandas":
        return [_read_pandas(name, X.iloc[:, i]) for i, name in enumerate(X.columns)]
    if frame == "polars":
        return [_read_polars(series) for series in X.get_columns()]
    return [_read_array(i, X[:, i]) for i in range(X.shape[1])]


def _read_pandas(name: Any, series: Any) -> RawColumn:
    dtype, kind = series.dtype, getattr(series.dtype, "kind", "O")
    tag = str(dtype)
    if hasattr(dtype, "categories"):
        codes = series.cat.codes.to_numpy()
        return RawColumn(name, "level", tag, codes, tuple(dtype.categories), bool(dtype.ordered))
    if kind == "b":
        return _yes_or_no(name, tag, series.to_numpy(dtype=float, na_value=np.nan))
    if kind in "iuf":
        precision = np.float32 if tag.lower() == "float32" else np.float64
        return RawColumn(name, "number", tag, series.to_numpy(dtype=precision, na_value=np.nan))
    if kind == "M":
        plain = series.dt.tz_convert(None) if getattr(dtype, "tz", None) is not None else series
        return RawColumn(name, "date", tag, _days(plain.to_numpy(dtype="datetime64[ns]")))
    if kind == "m":
        return RawColumn(name, "span", tag, _days(series.to_numpy(dtype="timedelta64[ns]")))
    try:
        codes, found = series.factorize()
    except TypeError:  # lists and the like
        return RawColumn(name, "other", tag, np.empty(0))
    return _of_objects(name, tag, np.asarray(codes), list(found))


def _read_polars(series: Any) -> RawColumn:
    import polars as pl

    dtype, name, tag = series.dtype, series.name, type(series.dtype).__name__
    if dtype == pl.Boolean:
        return _yes_or_no(name, tag, series.cast(pl.Float64).to_numpy())
    if dtype.is_numeric():
        precision = pl.Float32 if dtype == pl.Float32 else pl.Float64
        return RawColumn(name, "number", tag, series.cast(precision).to_numpy())
    if dtype == pl.Null:
        return RawColumn(name, "number", tag, np.full(len(series), np.nan))
    if dtype in (pl.Date, pl.Datetime, pl.Duration):
        unit = pl.Duration("ns") if dtype == pl.Duration else pl.Datetime("ns")
        count = series.cast(unit).to_physical().cast(pl.Float64).to_numpy()
        form = "span" if dtype == pl.Duration else "date"
        if dtype == pl.Datetime and dtype.time_zone is not None:
            tag = f"Datetime[{dtype.time_zone}]"
        return RawColumn(name, form, tag, count / NANOSECONDS_A_DAY)
    if dtype == pl.Time:  # since midnight
        count = series.to_physical().cast(pl.Float64).to_numpy()
        return RawColumn(name, "span", tag, count / NANOSECONDS_A_DAY)
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        text = series.cast(pl.String)
        found = sorted(text.unique().drop_nulls().to_list())
        if dtype == pl.Enum:  # in the order that was declared, unused ones too
            found = dtype.categories.to_list()
        codes = text.replace_strict(
            found, list(range(len(found))), default=-1, return_dtype=pl.Int64
        )
        return RawColumn(name, "level", tag, codes.fill_null(-1).to_numpy(), tuple(found))
    return RawColumn(name, "other", tag, np.empty(0))


def _read_array(name: int, values: Array) -> RawColumn:
    tag = str(values.dtype)
    if values.dtype.kind == "b":
        return _yes_or_no(name, tag, values.astype(float))
    if values.dtype.kind in "iuf":
        precision = values.dtype if values.dtype == np.float32 else np.float64
        return RawColumn(name, "number", tag, values.astype(precision))
    if values.dtype.kind in "mM":
        form, unit = ("span", "timedelta64[ns]") if values.dtype.kind == "m" else ("date", "M8[ns]")
        return RawColumn(name, form, tag, _days(values.astype(unit)))
    places: dict[Any, int] = {}
    try:
        codes = [
            -1 if is_missing(value) else places.setdefault(value, len(places)) for value in values
        ]
    except TypeError:
        return RawColumn(name, "other", tag, np.empty(0))
    return _of_objects(name, tag, np.array(codes, dtype=np.int64), list(places))


def is_missing(value: Any) -> bool:
    """Whether a single value is a mark of a missing one: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _yes_or_no(name: Any, dtype: str, values: Array) -> RawColumn:
    codes = np.where(np.isnan(values), -1, values).astype(np.int64)
    return RawColumn(name, "level", dtype, codes, (False, True))


def _days(values: Array) -> Array:
    """Dates or spans in nanoseconds as days, NaN where missing."""
    count = values.astype(np.int64) / NANOSECONDS_A_DAY
    return np.where(np.isnat(values), np.nan, count)


# What Python objects are; the first that fits. A truth value is a number to Python.
_SORTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("truth", (bool, np.bool_)),
    ("number", (Real, decimal.Decimal)),
    ("date", (datetime.date, np.datetime64)),
    ("text", (str,)),
)


def _of_objects(name: Any, dtype: str, codes: Array, found: list[Any]) -> RawColumn:
    """A column of Python objects: numbers or dates if all are, else levels sorted by their text."""
    sorts = {
        next((sort for sort, types in _SORTS if isinstance(value, types)), "other")
        for value in found
    }
    if sorts == {"number"} or not found:
        numbers = np.array([float(value) for value in found] + [np.nan])
        return RawColumn(name, "number", dtype, numbers[codes])
    if sorts == {"date"}:
        dates = np.array([*found, "NaT"], dtype="datetime64[ns]")
        return RawColumn(name, "date", dtype, _days(dates[codes]))
    order = sorted(range(len(found)), key=lambda i: (str(found[i]), str(type(found[i]))))
    place = np.empty(len(found) + 1, np.int64)
    place[order] = np.arange(len(found))
    place[-1] = -1
    levels = tuple(found[i] for i in order)
    return RawColumn(name, "level", dtype, place[codes], levels, mixed=len(sorts) > 1)


# --- and back ---


class NewColumn(NamedTuple):
    """A column to write: values in the user's terms, of the type that its frame named."""

    name: Any
    form: str
    dtype: str
    values: Array  # floats, codes of levels (-1 missing), or days
    levels: tuple[Any, ...] = ()
    ordered: bool = False

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
        unit = "datetime64[ns]" if self.form == "date" else "timedelta64[ns]"
        missing = np.isnan(self.values)
        count = np.where(missing, 0, self.values) * NANOSECONDS_A_DAY
        out = np.rint(count).astype(np.int64).astype(unit)
        out[missing] = np.array("NaT", dtype=unit)
        return out


def make_frame(frame: str, columns: Sequence[NewColumn], index: Any = None) -> Any:
    """A table of the kind that `frame_of` named."""
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


def fill_columns(X: Any, columns: dict[int, tuple[Array, NewColumn]]) -> Any:
    """A copy of X in which some columns have other values in some rows: {place: (rows, values)}."""
    frame = frame_of(X)
    if frame == "pandas":
        out = X.copy()
        for i, (rows, column) in columns.items():
            series = X.iloc[:, i].copy()
            series.iloc[rows] = _pandas_values(column, series.dtype)
            out.isetitem(i, series)
        return out
    if frame == "polars":
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


def with_columns(X: Any, columns: Sequence[NewColumn]) -> Any:
    """X and some columns after it."""
    frame = frame_of(X)
    new = make_frame(frame, columns, index_of(X))
    if frame == "pandas":
        import pandas as pd

        return pd.concat([X, new], axis=1)
    return X.hstack(new.get_columns()) if frame == "polars" else np.hstack([np.asarray(X), new])


def _pandas_values(column: NewColumn, dtype: Any = None) -> Any:
    """An array that a Series of the column's type takes; ``dtype`` where that is at hand."""
    import pandas as pd

    values = column.plain()
    if dtype is None and column.dtype == "category":
        dtype = pd.CategoricalDtype(list(column.levels), ordered=column.ordered)
    dtype = column.dtype if dtype is None else dtype
    series = pd.Series(values)
    if column.form == "other":
        return series.array
    if column.form == "date" and getattr(pd.Series([], dtype=dtype).dtype, "tz", None) is not None:
        series = series.dt.tz_localize("UTC")
    missing = bool(series.isna().any())
    plain_whole = str(dtype).startswith(("int", "uint", "bool")) and missing
    return (series if plain_whole else series.astype(dtype)).array


def _polars_series(column: NewColumn, dtype: Any = None) -> Any:
    """A series of the column's type; of ``dtype`` where that is at hand."""
    import polars as pl

    name, values = str(column.name), column.plain()
    if column.form == "other":
        series = pl.Series(name, list(values))
        return series if dtype is None else series.cast(dtype)
    if column.form == "level":
        series = pl.Series(name, list(values), strict=False)
        return _cast_levels(series, _polars_type(column) if dtype is None else dtype)
    dtype = _polars_type(column) if dtype is None else dtype
    if dtype == pl.Time:
        day = pl.Series(name, values).to_physical() % int(NANOSECONDS_A_DAY)
        return day.set(pl.Series(np.isnat(values)), None).cast(pl.Time)
    if dtype.is_integer():
        values = np.rint(values)
    series = pl.Series(name, values, nan_to_null=column.form == "number")
    return series.cast(dtype, strict=False)


def _polars_type(column: NewColumn) -> Any:
    """The type that a column's dtype names; of an Enum with the levels that the column has."""
    import polars as pl

    if column.dtype == "Enum":
        return pl.Enum([str(level) for level in column.levels])
    if column.dtype.startswith("Datetime["):
        return pl.Datetime("us", column.dtype[len("Datetime[") : -1])
    return getattr(pl, column.dtype)


def _cast_levels(series: Any, dtype: Any) -> Any:
    """Levels as a polars type, which may know other levels."""
    from polars.exceptions import InvalidOperationError

    try:
        return series.cast(dtype)
    except InvalidOperationError:
        raise ValueError(
            f"Column {series.name!r} is of type {dtype!r:.100}, which lacks a level that fit saw; "
            "cast it to text or to the type that fit saw."
        ) from None
