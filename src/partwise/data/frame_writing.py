"""Columns written into tables, in the type they had; undoes `frame_reading`."""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_reading import DAYS, NANOSECONDS_PER_DAY, PER_UNIT, within_nanoseconds
from partwise.data.frame_types import has_zone, is_untyped, polars_type, unit_of
from partwise.data.frames import as_table, frame_of, index_of, is_pandas, is_polars
from partwise.typing import Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


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
            whole = re.search(r"(u?)int(\d*)", self.dtype.lower())
            return _within(np.rint(self.values), *whole.groups()) if whole else self.values
        fine = within_nanoseconds(self.values)
        unit = ("M8" if self.form == "date" else "m8") + ("[ns]" if fine else "[us]")
        missing = np.isnan(self.values)
        # Days as floats tell dates to the microsecond, and spans may be shorter.
        step = 1e3 if self.form == "date" or not fine else 1.0
        low, high = DAYS[self.form]  # predictions may lie far outside
        days = np.clip(np.where(missing, 0, self.values), low, np.nextafter(high, 0.0))
        count = np.rint(days * (NANOSECONDS_PER_DAY / step))
        out = (count.astype(np.int64) * int(step if fine else 1)).astype(unit)
        out[missing] = np.array("NaT", dtype=unit)
        return out


def _within(values: Array, unsigned: str, bits: str) -> Array:
    """Whole numbers as near as an integer type of so many bits allows."""
    high = 2.0 ** (int(bits or 64) - (not unsigned))
    return np.clip(values, 0.0 if unsigned else -high, min(high - 1.0, np.nextafter(high, 0.0)))


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
            sparse = series.dtype if isinstance(series.dtype, pd.SparseDtype) else None
            series = series if sparse is None else series.sparse.to_dense()
            if is_untyped(series, column.form):
                new = pd.Series(_pandas_values(column), index=rows)
                series = new.reindex(np.arange(len(X))).set_axis(X.index)
            elif series.dtype == object and column.form == "number":
                series.iloc[rows] = _like_objects(column.plain(), series.dropna())
            else:
                series.iloc[rows] = _pandas_values(column, series.dtype)
            out.isetitem(i, series if sparse is None else series.astype(sparse))
        return out
    if is_polars(X):
        import polars as pl

        made = X.get_columns()
        for i, (rows, column) in columns.items():
            place = np.zeros(len(X), np.int64)
            place[rows] = np.arange(len(rows))
            changed = np.zeros(len(X), bool)
            changed[rows] = True
            untyped = is_untyped(made[i], column.form)
            new = _polars_series(column, None if untyped else made[i].dtype)[pl.Series(place)]
            old = pl.Series([None], dtype=new.dtype) if untyped else made[i]
            made[i] = new.zip_with(pl.Series(changed), old).alias(made[i].name)
        return pl.DataFrame(made)
    out = np.array(as_table(X))
    for i, (rows, column) in columns.items():
        out[rows, i] = column.plain()
    return out


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


def _like_objects(values: Array, known: pd.Series) -> Array:
    """Numbers as objects like the known ones: Decimal with their places, int, or else float."""
    out = values.astype(object)
    held = ~np.isnan(values)
    if known.empty:
        return out
    if all(isinstance(one, Integral) for one in known):  # the others may have fractions
        whole = held & (values == np.round(values))
        out[whole] = [int(value) for value in values[whole]]
    elif all(isinstance(one, decimal.Decimal) for one in known):
        place = min((one.as_tuple().exponent for one in known if one.is_finite()), default=0)
        unit = decimal.Decimal((0, (1,), int(place)))
        exact = decimal.Context(prec=decimal.MAX_PREC)  # 28 digits are too few for some numbers
        numbers = (decimal.Decimal(repr(value)) for value in values[held].tolist())
        out[held] = [number.quantize(unit, context=exact) for number in numbers]
    return out


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
    if isinstance(dtype, pl.Datetime | pl.Duration):  # a cast truncates
        unit = np.datetime_data(values.dtype)[0]
        half = int(PER_UNIT[dtype.time_unit] / PER_UNIT[unit]) // 2
        values = values + np.array(half, f"m8[{unit}]")
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
