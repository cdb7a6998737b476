"""Tables as parquet, and tables to files of every kind."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from partwise.contracts import Array
from partwise.files.data import Data, check_values, table_size
from partwise.files.model import write_atomically
from partwise.files.ratings import refuse_rating_columns

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy")


def read_parquet(path: Path) -> Data:
    """Read a table with its types."""
    try:
        frame = pl.read_parquet(path)
    except Exception as error:  # polars has many; the file is at fault in all of them
        raise ValueError(f"{path} cannot be read: {error}") from error
    if frame.is_empty():
        raise ValueError(f"{path} has no rows; name a file that has some.")
    refuse_rating_columns(path, frame.columns)
    check_values(path, frame)
    return Data(frame, table_size(frame))


def check_table_name(path: str | os.PathLike[str]) -> None:
    """Refuse a name whose end does not say how a table is to be written."""
    if Path(path).suffix.lower() not in TABLES:
        raise ValueError(f"{path} must end with {', '.join(TABLES[:-1])} or {TABLES[-1]}.")


def write_table(path: str | os.PathLike[str], table: pl.DataFrame | pd.DataFrame | Array) -> None:
    """Write a polars DataFrame or an array: text, ``.parquet`` or ``.npy``, by the name's end.

    Parameters
    ----------
    path : str or path-like
        A file that is complete or not there.
    table : polars DataFrame, pandas DataFrame or array of shape (n, D)
        Columns of an array are called column 1, column 2, ...
    """
    check_table_name(path)
    out, ending = io.BytesIO(), Path(path).suffix.lower()
    if ending == ".npy":
        try:
            np.save(out, np.asarray(table, dtype=float))
        except (TypeError, ValueError):
            raise ValueError(
                f"{path} would hold numbers alone, but the table has other columns, too; write it "
                "as .csv or .parquet."
            ) from None
    elif ending == ".parquet":
        as_polars(table).write_parquet(out)
    else:
        as_polars(table).write_csv(out, separator="\t" if ending == ".tsv" else ",")
    write_atomically(path, out.getvalue())


def as_polars(table: pl.DataFrame | pd.DataFrame | Array) -> pl.DataFrame:
    """Turn a table into a polars DataFrame; columns of an array get names."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, np.ndarray):
        return pl.DataFrame({f"column {i + 1}": column for i, column in enumerate(table.T)})
    return pl.DataFrame({str(name): table[name].to_list() for name in table.columns})
