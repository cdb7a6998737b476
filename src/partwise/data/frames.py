"""Tables of every kind: data frames of pandas and polars, and arrays.

Only this module, `frame_reading`, `frame_writing` and `frame_types` know the kinds. Neither library
is imported unless the caller's table is one of its frames.
"""

from __future__ import annotations

import decimal
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, TypeGuard, cast

import numpy as np

from partwise.contracts import Array
from partwise.typing import DataLike, Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def shortened(value: object, most: int = 40) -> str:
    """A value for a message; texts in quotes, truncated if they are long."""
    if isinstance(value, str) and len(value) > most:
        value = f"{value[: most - 3]}..."
    return repr(value)


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


def is_missing(value: Value) -> bool:
    """Whether a value stands for a missing one: None, NaN, NaT or NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def index_of(X: object) -> pd.Index | None:
    """Labels of the rows of a pandas DataFrame, None for other tables."""
    return X.index if is_pandas(X) else None


def select(X: Frame, columns: Sequence[Name]) -> Frame:
    """Some columns of a frame."""
    names = list(columns)
    return X[names] if is_pandas(X) else X.select([str(name) for name in names])


def some_rows(X: Frame | Array, lo: int, hi: int) -> Frame | Array:
    """Rows ``lo`` to ``hi`` of a table."""
    return X.iloc[lo:hi] if is_pandas(X) else X[lo:hi]


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
