"""Reading of parquet files, and writing of tables in all formats."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs

from partwise._text import unnamed
from partwise.contracts import Array
from partwise.data.frame_reading import LARGEST_WHOLE, nanoseconds
from partwise.data.frames import is_missing
from partwise.data.stores import panics_as_errors
from partwise.files.atomic import write_atomically
from partwise.files.data import Data, Rows, check_values, table_size, unreadable
from partwise.files.layout import Layout
from partwise.files.parquet_check import impossible, refuse_encrypted
from partwise.files.ratings import refuse_rating_columns
from partwise.typing import Frame, PathLike, Value

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy")


def read_parquet(path: Path) -> Data:
    """Read a parquet file with its types."""
    reason = impossible(path)
    if reason is not None:
        raise _refused(path, ValueError(reason))
    try:
        with panics_as_errors():
            frame, of_pandas = pl.read_parquet(path), _is_of_pandas(path)
    except Exception as error:  # polars raises many kinds; all mean a damaged file
        raise _refused(path, error) from error
    if frame.is_empty():
        raise ValueError(f"{path} has no rows; name a file with rows.")
    refuse_rating_columns(path, frame.columns)
    check_values(path, frame)
    for series in frame.select(cs.date() | cs.datetime()):
        nanoseconds(series, "date")  # or it could not be written
    return Data(frame, table_size(frame), pandas_file=path if of_pandas else None)


def _refused(path: Path, error: Exception) -> ValueError:
    """The error for a parquet file that is encrypted, or damaged."""
    refuse_encrypted(path)
    return unreadable(path, error)


def _is_of_pandas(path: Path) -> bool:
    """Whether pandas wrote a file, and pyarrow is installed to read its types."""
    try:
        from pyarrow import parquet
    except ImportError:
        return False
    return parquet.read_schema(path).pandas_metadata is not None


def check_table_name(path: PathLike) -> None:
    """Refuse a file name without an ending of a table format."""
    if Path(path).suffix.lower() not in TABLES:
        raise ValueError(f"{path} must end with {', '.join(TABLES[:-1])} or {TABLES[-1]}.")


def write_table(
    path: PathLike,
    table: Frame | Array,
    like: Data | None = None,
) -> None:
    """Write a table as text, ``.parquet`` or ``.npy``; the ending of the name sets the format.

    Parameters
    ----------
    path : str or path-like
        Written atomically.
    table : polars DataFrame, pandas DataFrame or array of shape (n, D)
        Columns of an array are named x0, x1, ...
    like : Data, optional
        File whose text format is used: separator, numbers, dates, encoding and so on.
    """
    check_table_name(path)
    out, ending = io.BytesIO(), Path(path).suffix.lower()
    if ending == ".npy":
        try:
            np.save(out, np.asarray(table, dtype=float))
        except (TypeError, ValueError):
            raise ValueError(
                f"{path} can hold only numbers, but the table has other columns too; write it as "
                ".csv or .parquet."
            ) from None
    elif ending == ".parquet":
        as_polars(table).write_parquet(out)
    elif (layout := _layout(path, like)) is not None:
        out.write(layout.write(as_polars(table)))
    else:
        frame = as_polars(table)
        for column in frame.get_columns():
            if column.dtype.is_nested() or column.dtype == pl.Object:
                raise ValueError(
                    f"{path} can hold only text, but the column {column.name!r} has lists or "
                    "objects; write it as .parquet, or leave that column out."
                )
        frame.write_csv(out, separator="\t" if ending == ".tsv" else ",")
    write_atomically(path, out.getvalue())


def write_filled(path: PathLike, data: Data, filled: Frame | Array) -> None:
    """Write a table that was read, with imputed values.

    Observed cells are unchanged, in a text file to the last byte.

    Parameters
    ----------
    path : str or path-like
        The ending of the name sets the format, as in `write_table`.
    data : Data
        The table as it was read.
    filled : DataFrame or array
        Some or all of its columns, with imputed values.
    """
    layout = _layout(path, data)
    if layout is None:
        table = fill_table(data, filled)
        if Path(path).suffix.lower() == ".parquet" and data.pandas_file is not None:
            write_atomically(path, _like_pandas(data.pandas_file, as_polars(table)))
        else:
            write_table(path, table)
        return
    check_table_name(path)
    new = _named_like(data, filled)
    fills = {column.name: _only_missing(data.X, column) for column in new.get_columns()}
    write_atomically(path, layout.fill(fills))


def _like_pandas(source: Path, table: pl.DataFrame) -> bytes:
    """A table in the types of a parquet file of pandas, including unused categories."""
    import pyarrow as pa
    from pyarrow import compute, parquet

    out = parquet.read_table(source)
    for i, field in enumerate(out.schema):
        column = table[field.name]
        if pa.types.is_dictionary(field.type):
            words = out.column(i).combine_chunks().dictionary
            found = compute.index_in(column.cast(pl.String).to_arrow().cast(words.type), words)
            new = pa.DictionaryArray.from_arrays(
                found.cast(field.type.index_type), words, ordered=field.type.ordered
            )
        else:
            new = column.to_arrow().cast(field.type)
        out = out.set_column(i, field, new)
    buffer = io.BytesIO()
    parquet.write_table(out, buffer)
    return buffer.getvalue()


def fill_table(data: Data, filled: Frame | Array) -> pl.DataFrame | Array:
    """Impute missing values of a table that was read; observed values are unchanged.

    Parameters
    ----------
    data : Data
    filled : DataFrame or array
        Some or all of the columns.

    Returns
    -------
    table : polars DataFrame or array
        All columns in their order.
    """
    if not isinstance(data.X, pl.DataFrame):
        return as_polars(filled) if not isinstance(filled, np.ndarray) else filled
    table = data.X
    for new in _named_like(data, filled).get_columns():
        fills, old = _only_missing(table, new), table[new.name]
        if fills.null_count() == len(fills):
            continue
        if old.dtype.is_integer() and float(str(old.abs().max() or 0)) > LARGEST_WHOLE:
            fills = fills.round().cast(old.dtype)  # floats do not hold the observed ones
        table = table.with_columns(fills.zip_with(fills.is_not_null(), old.cast(fills.dtype)))
    return with_ids(data, table)


def with_ids(data: Data, table: pl.DataFrame) -> pl.DataFrame:
    """The table with the column of row names, where the file has it."""
    if data.ids is None:
        return table
    if data.ids.name in table.columns:
        return table.with_columns(data.ids)
    return table.insert_column(min(data.id_place, table.width), data.ids)


def _named_like(data: Data, filled: Frame | Array) -> pl.DataFrame:
    """Imputed columns with the names of those that were read."""
    assert isinstance(data.X, pl.DataFrame)
    if not isinstance(filled, np.ndarray):
        return as_polars(filled)
    return pl.DataFrame(dict(zip(data.X.columns, filled.T, strict=True)))


def _only_missing(table: Rows, new: pl.Series) -> pl.Series:
    """New values where the old are missing, null elsewhere."""
    assert isinstance(table, pl.DataFrame)
    old = table[new.name]
    known = old.is_not_null() & (old.is_not_nan() if old.dtype.is_float() else True)
    new = new.fill_nan(None) if new.dtype.is_float() else new
    return new.set(known, None)


def _layout(path: PathLike, data: Data | None) -> Layout | None:
    """The layout of the text that was read, unless the file name implies another separator."""
    if data is None or data.layout is None:
        return None
    ending = Path(path).suffix.lower()
    fits = ending in (".csv", ".txt") or (ending == ".tsv" and data.layout.separator == "\t")
    return data.layout if fits else None


def as_polars(table: Frame | Array) -> pl.DataFrame:
    """Convert a table to a polars DataFrame; columns of an array get names."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, np.ndarray):
        return pl.DataFrame({unnamed(d): column for d, column in enumerate(table.T)})
    columns = {str(name): table[name].to_list() for name in table.columns}
    return pl.DataFrame(
        {
            # pandas marks missing texts by NaN, which polars takes for a number among them.
            name: [None if is_missing(v) else v for v in values] if _has_texts(values) else values
            for name, values in columns.items()
        }
    )


def _has_texts(values: Sequence[Value]) -> bool:
    return any(isinstance(value, str) for value in values)
