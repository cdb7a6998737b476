"""Names for the kinds of data that functions take and return.

scipy and pandas are untyped, so the aliases that name their classes check less than they say; they
tell the reader what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from scipy import sparse

    from partwise.contracts import Array


class Shaped(Protocol):
    """Rows and columns of any storage: a Dask collection, a memory map, a zarr array, ..."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
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

# What JSON can hold.
Plain: TypeAlias = "Mapping[str, Plain] | Sequence[Plain] | str | float | bool | None"
