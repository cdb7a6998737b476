"""Names for the kinds of data that functions take and return.

scipy and pandas are untyped, so the type checker treats their classes as Any; the aliases document
what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from scipy import sparse

    from partwise.contracts import Array


Found = TypeVar("Found")


class Shaped(Protocol):
    """Rows and columns of any storage: a Dask collection, a memory map, a zarr array, ..."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        ...


class UserRatings(Protocol):
    """Ratings of one person: a mapping of items to ratings, or a pandas Series."""

    def items(self) -> Iterable[tuple[Hashable, float]]:
        """Pairs of item and rating."""
        ...


# A user's data frame.
Frame: TypeAlias = "pd.DataFrame | pl.DataFrame"

# Checked rows in memory: dense with NaN for missing values, or CSR.
Matrix: TypeAlias = "Array | sparse.csr_array"

# What a user may pass as X.
DataLike: TypeAlias = "ArrayLike | sparse.sparray | sparse.spmatrix | Frame | Shaped"

# Seeds as scikit-learn takes them.
Seed: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"

# A user's value of a cell, level or label; a user's name of a column, user or item.
Value: TypeAlias = "str | bool | float | np.generic | object"
Name: TypeAlias = Hashable

PathLike: TypeAlias = "str | os.PathLike[str]"

# Ratings of many people: a data frame, arrays of users, items and ratings, or a sparse matrix.
RatingsLike: TypeAlias = (
    "Frame | tuple[ArrayLike | Sequence[Name], ...] | sparse.sparray | sparse.spmatrix"
)

# Numbers, slices or a mask that choose rows or cells.
RowIndex: TypeAlias = "int | slice | Sequence[int] | Array"

# ``function(rows, *values)``
OnRows: TypeAlias = Callable[..., Found]
# Features of items or users: a data frame, or ids and an array with a row for each.
FeaturesLike: TypeAlias = "Frame | tuple[ArrayLike | Sequence[Name], ArrayLike]"

# What JSON can hold.
Plain: TypeAlias = "Mapping[str, Plain] | Sequence[Plain] | str | float | bool | None"

# Labels of classes: one for all rows, or one per row. By part of new rows, the class whose prior it
# takes, or a mapping of classes to weights.
Classes: TypeAlias = "Value | Sequence[Value] | Array"
Hybrid: TypeAlias = "Mapping[int, Value]"

# Known cells: one row as a mapping of columns to values, or rows, which may lack some columns.
Given: TypeAlias = "Mapping[str, Value] | DataLike"

# Labels of a data frame's rows, None for rows without labels.
Index: TypeAlias = "pd.Index | None"

# ``likelihood`` of a table: one for all columns, or the kinds of some or all of them.
Likelihoods: TypeAlias = "str | Mapping[str, str] | Mapping[int, str] | Sequence[str]"

# A fitted model or its progress as files hold it; the reader knows what each name holds.
SavedState: TypeAlias = "dict[str, Any]"

# Names of parts: of all in order, or of some by number.
PartNames: TypeAlias = "Sequence[str] | Mapping[int, str]"
