"""Types of columns of pandas and polars, by names that a model file can hold."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from partwise.typing import Value

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# Units of time in polars.
_UNITS = ("ms", "us", "ns")


def has_type(frame: str, name: str) -> bool:
    """Whether a kind of table has column types of that name; True where it is not installed."""
    try:
        if frame == "polars":
            import polars as pl

            name, _, options = name.removesuffix("]").partition("[")
            unit, _, zone = options.rpartition(", ") if "," in options else ("", "", options)
            if name == "Decimal" and options:
                return all(one.isdecimal() for one in (unit, zone))
            if options in _UNITS:
                unit, zone = options, ""
            if (unit and unit not in _UNITS) or (
                zone and zone not in zoneinfo.available_timezones()
            ):
                return False
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


def is_untyped(column: pd.Series | pl.Series, form: str) -> bool:
    """Whether a column has no type of its own for values of a form (`RawColumn.form`).

    Readers of files call a column without any value one of floats, or Null.
    """
    name = str(column.dtype).lower()
    if name != "float64" or form == "number":
        return name == "null"
    isna = getattr(column, "isna", None)  # pandas
    return bool((column.is_null() | column.is_nan() if isna is None else isna()).all())


def polars_name(dtype: pl.DataType) -> str:
    """Name of a type of polars, with its unit, time zone or precision; microseconds have none."""
    name = type(dtype).__name__
    options = [getattr(dtype, option, None) for option in ("time_unit", "time_zone")]
    if name == "Decimal":
        options = [str(getattr(dtype, option)) for option in ("precision", "scale")]
    named = ", ".join(one for one in options if one not in ("us", None))
    return f"{name}[{named}]" if named else name


def polars_type(dtype: str, levels: Sequence[Value]) -> pl.DataType:
    """The type that `polars_name` names; an Enum has these levels."""
    import polars as pl

    if dtype == "Enum":
        return pl.Enum([str(level) for level in levels])
    name, _, text = dtype.removesuffix("]").partition("[")
    options = text.split(", ") if text else []
    if name == "Decimal" and options:
        return pl.Decimal(*map(int, options))
    given = options.pop(0) if options and options[0] in _UNITS else "us"
    unit = cast(Literal["ms", "us", "ns"], given)
    if name == "Datetime":
        return pl.Datetime(unit, *options)
    return pl.Duration(unit) if name == "Duration" else getattr(pl, name)


def has_zone(dtype: object) -> bool:
    """Whether a type of pandas, or of Arrow in pandas, is of times in a time zone."""
    return getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None) is not None


def unit_of(dtype: object, form: str) -> str:
    """Unit of a type of dates or spans; days as floats tell dates to the microsecond."""
    own = getattr(dtype, "pyarrow_dtype", dtype)
    unit = "D" if str(own).startswith("date32") else getattr(own, "unit", "ns")
    if isinstance(own, np.dtype) and own.kind in "mM":
        unit = np.datetime_data(own)[0]
    return "us" if (unit, form) == ("ns", "date") else str(unit)
