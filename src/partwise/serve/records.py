"""Conversion between JSON records, in the user's columns and units, and the model's numbers.

Every request is converted separately, so no value of one request can reach another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import NamedTuple, TypeAlias, TypeGuard

import numpy as np

from partwise._text import first_few
from partwise.contracts import Array
from partwise.data.frame_reading import DAYS
from partwise.data.frames import shortened
from partwise.data.table import Schema, TableColumn
from partwise.serve.guard import RefusedError

Scalar = bool | int | float | str | None
Record = Mapping[str, Scalar]

_DAY = 86_400.0
_FARTHEST = 1e100  # whose square is a number


class Read(NamedTuple):
    """Rows of one request."""

    numbers: Array  # (n, D), NaN where missing
    notes: list[str]  # on values that could not be used
    outside: dict[int, dict[int, float]]  # by column and row, numbers outside of the fit's range


def refused(sentence: str) -> RefusedError:
    """A refusal of values that cannot be used."""
    return RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, sentence)


class Records:
    """Reads and writes records of a model's columns.

    Parameters
    ----------
    names : sequence of str
        Columns, in the model's order.
    schema : Schema or None
        Kinds of the columns; None where all are numbers.
    """

    def __init__(self, names: Sequence[str], schema: Schema | None) -> None:
        self.names = list(names)
        self._place = {name: d for d, name in enumerate(self.names)}
        self._schema = schema
        columns: Sequence[TableColumn | None]
        columns = [None] * len(self.names) if schema is None else schema.columns
        self._columns = columns
        self._codes = [None if column is None else _codes(column) for column in columns]
        self._unused = {
            str(column.name) for column in columns if column is not None and not column.is_filled
        }
        one = np.ones(1)  # given back as it is by columns that are not transformed
        self._transformed = [
            (d, column)
            for d, column in enumerate(columns)
            if column is not None and column.as_encoded(one) is not one
        ]

    def place(self, name: str) -> int:
        """Position of a column."""
        if name not in self._place:
            shown = first_few([repr(known) for known in self.names], 8)
            raise refused(f"There is no column {shortened(name)}; columns are {shown}.")
        return self._place[name]

    def read(self, rows: Sequence[Record]) -> Read:
        """Read records as the model's numbers; absent columns are missing values."""
        if not rows:
            raise refused("There are no rows; send at least one.")
        raw = np.full((len(rows), len(self.names)), np.nan)
        notes: dict[str, None] = {}
        outside: dict[int, dict[int, float]] = {}
        for i, row in enumerate(rows):
            for name, value in row.items():
                d = self.place(name)
                if value is not None:
                    raw[i, d] = self._number(i, d, value, notes)
                    if self._is_outside(value, d):
                        outside.setdefault(d, {})[i] = value
        for d, column in self._transformed:
            known = ~np.isnan(raw[:, d])
            if known.any():
                encoded = column.as_encoded(raw[known, d])
                raw[known, d] = np.where(np.isfinite(encoded), encoded, np.nan)
        for name in self._unused:
            raw[:, self._place[name]] = np.nan
        return Read(raw, list(notes), outside)

    def _is_outside(self, value: Scalar, d: int) -> TypeGuard[float]:
        """Whether a value of ordered numbers is outside of the range of the fit."""
        column = self._columns[d]
        if column is None or not column.has_number_levels or isinstance(value, str):
            return False
        low, high = np.array(column.levels, dtype=float)[[0, -1]].tolist()
        return value is not None and _is_finite(value) and not low <= value <= high

    def beyond(self, read: Read) -> dict[int, Array]:
        """How far values lie outside of the range that fit saw, as `Schema.beyond`."""
        out: dict[int, Array] = {}
        for d, cells in read.outside.items():
            column = self._columns[d]
            assert column is not None
            values = np.full(len(read.numbers), np.nan)
            near = [min(max(value, -_FARTHEST), _FARTHEST) for value in cells.values()]
            values[list(cells)] = near
            out[d] = column.beyond(values)
        return out

    def _number(
        self, i: int, d: int, value: bool | int | float | str, notes: dict[str, None]
    ) -> float:
        """A value as a number: the code of a level, the days of a date."""
        column, codes = self._columns[d], self._codes[d]
        if codes is not None:
            if value in codes:
                return codes[value]
            if column is not None and column.has_number_levels and _is_finite(value):
                return _nearest(column, value, notes)
            notes[_unseen(self.names[d], value)] = None
            return math.nan
        if isinstance(value, str):
            if column is not None and column.form == "date":
                return _days(value, self.names[d], i)
            raise refused(f"Row {i}, column {self.names[d]!r}: {shortened(value)} is not a number.")
        if column is not None and isinstance(value, bool):
            word = "true" if value else "false"
            raise refused(f"Row {i}, column {self.names[d]!r}: {word} is not a number.")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise refused(f"Row {i}, column {self.names[d]!r} is not finite.")
        low, high = DAYS.get("number" if column is None else column.form, (-math.inf, math.inf))
        if number < low or number >= high:
            raise refused(f"Row {i}, column {self.names[d]!r}: {number:g} days are out of range.")
        return number

    def write(self, numbers: Array, predicted: bool = True) -> list[dict[str, Scalar]]:
        """Write the model's numbers (n, D) as records of all columns.

        Predictions are brought into the columns' support.
        """
        columns = [self._values(d, numbers[:, d], predicted) for d in range(len(self.names))]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def write_cells(self, numbers: Array, wanted: Array) -> list[dict[str, Scalar]]:
        """Write the wanted cells (n, D) of predicted numbers, as records of their columns alone."""
        out: list[dict[str, Scalar]] = [{} for _ in numbers]
        for d in np.flatnonzero(wanted.any(axis=0)).tolist():
            rows = np.flatnonzero(wanted[:, d])
            for i, value in zip(rows, self._values(d, numbers[rows, d], True), strict=True):
                out[i][self.names[d]] = value
        return out

    def filled(self, rows: Sequence[Record], cells: Sequence[Record]) -> list[dict[str, Scalar]]:
        """Records with imputed cells; other values are as they were sent."""
        return [
            {
                name: cell[name] if name in cell and name not in self._unused else row.get(name)
                for name in self.names
            }
            for row, cell in zip(rows, cells, strict=True)
        ]

    def _values(self, d: int, values: Array, predicted: bool) -> list[Scalar]:
        column = self._columns[d]
        if column is None:
            return [None if math.isnan(v) else v for v in values.astype(float).tolist()]
        found = [
            as_scalar(value) for value in column.decode(values.astype(float), predicted).plain()
        ]
        if column.form == "date" and column.whole:
            return [str(value)[:10] if value is not None else None for value in found]
        if column.form == "number" and "int" in column.dtype.lower():
            found = [round(value) if isinstance(value, float) else value for value in found]
        return found


Json: TypeAlias = "dict[str, Json] | list[Json] | Scalar"


def as_json_object(value: Mapping[str, object]) -> dict[str, object]:
    """A mapping as JSON represents it."""
    return {str(key): as_json(item) for key, item in value.items()}


def as_json(value: object) -> Json:
    """Lists, mappings and numpy values as JSON represents them."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _codes(column: TableColumn) -> dict[Scalar, int] | None:
    """Codes of a column's levels, None for numbers and dates."""
    if column.form != "level" and not column.has_levels:
        return None
    return {as_scalar(level): code for code, level in enumerate(column.levels)}


def _is_finite(value: Scalar) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == value and abs(value) != math.inf  # whole numbers may exceed any float


def _nearest(column: TableColumn, value: float, notes: dict[str, None]) -> float:
    """The code of the level nearest to a number, as in the library; a note if it is outside."""
    low, high = np.array(column.levels, dtype=float)[[0, -1]].tolist()
    inside = min(max(value, low), high)
    if inside != value:
        notes[
            f"Column {column.name!r}: the value {shortened(value)} is outside of the range that "
            f"fit saw, {low:g} to {high:g}; it is taken as the nearest level."
        ] = None
    return float(column.nearest_codes(np.array([inside], dtype=float))[0])


def _unseen(name: str, value: object) -> str:
    shown = shortened(value)
    return f"Column {name!r}: the value {shown} was not seen in fit; it is taken as missing."


def as_scalar(value: object) -> Scalar:
    """A value as JSON represents it."""
    if isinstance(value, np.generic):
        if isinstance(value, np.timedelta64):
            return None if np.isnat(value) else str(value)
        value = value.astype("M8[us]").item() if isinstance(value, np.datetime64) else value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    missing = value != value  # missing values of data frames
    return None if missing is True else str(value)


def _days(text: str, name: str, i: int) -> float:
    """Days since 1970 of a date or time in ISO form."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise refused(
            f"Row {i}, column {name!r}: {shortened(text)} is not a date; write 2026-01-31 or "
            "2026-01-31T12:00:00."
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return moment.timestamp() / _DAY
