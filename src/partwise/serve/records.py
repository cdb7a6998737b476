"""Conversion between JSON records, in the user's columns and units, and the model's numbers.

Every request is converted separately, so no value of one request can reach another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data.frames import RawColumn
from partwise.data.table import Schema, TableColumn
from partwise.serve.guard import RefusedError

Scalar = bool | int | float | str | None
Record = Mapping[str, Scalar]

_DAY = 86_400.0


class Read(NamedTuple):
    """Rows of one request."""

    numbers: Array  # (n, D), NaN where missing
    notes: list[str]  # on values that could not be used


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
        self._codes = [
            {as_scalar(level): code for code, level in enumerate(column.levels)}
            if column is not None and column.form == "level" else None
            for column in columns
        ]  # fmt: skip

    def place(self, name: str) -> int:
        """Position of a column."""
        if name not in self._place:
            raise refused(f"There is no column {name!r}; columns are {_listed(self.names)}.")
        return self._place[name]

    def read(self, rows: Sequence[Record]) -> Read:
        """Read records as the model's numbers; absent columns are missing values."""
        if not rows:
            raise refused("There are no rows; send at least one.")
        raw = np.full((len(rows), len(self.names)), np.nan)
        notes: dict[str, None] = {}
        for i, row in enumerate(rows):
            for name, value in row.items():
                d = self.place(name)
                if value is not None:
                    raw[i, d] = self._number(i, d, value, notes)
        for d, column in enumerate(self._columns):
            if column is not None and not np.isnan(raw[:, d]).all():
                raw[:, d], unseen = self._encoded(column, raw[:, d])
                if unseen:
                    notes[_unseen(self.names[d], unseen[0])] = None
        return Read(raw, list(notes))

    def _number(
        self, i: int, d: int, value: bool | int | float | str, notes: dict[str, None]
    ) -> float:
        """A value as a number: the code of a level, the days of a date."""
        column, codes = self._columns[d], self._codes[d]
        if codes is not None:
            if value in codes:
                return codes[value]
            notes[_unseen(self.names[d], value)] = None
            return math.nan
        if isinstance(value, str):
            if column is not None and column.form == "date":
                return _days(value, self.names[d], i)
            raise refused(f"Row {i}, column {self.names[d]!r}: {value!r} is not a number.")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise refused(f"Row {i}, column {self.names[d]!r} is not finite.")
        return number

    def _encoded(self, column: TableColumn, values: Array) -> tuple[Array, list[object]]:
        """The model's numbers from codes, days or numbers, and levels not seen in fit."""
        if column.form == "level":
            values = np.where(np.isnan(values), -1, values).astype(np.int64)
        return column.encode(
            RawColumn(column.name, column.form, column.dtype, values, column.levels)
        )

    def write(
        self, numbers: Array, which: Sequence[int] | None = None, predicted: bool = True
    ) -> list[dict[str, Scalar]]:
        """Write the model's numbers (n, D) as records of all columns, or of some.

        Predictions are brought into the columns' support.
        """
        places = range(len(self.names)) if which is None else which
        columns = {self.names[d]: self._values(d, numbers[:, d], predicted) for d in places}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _values(self, d: int, values: Array, predicted: bool) -> list[Scalar]:
        column = self._columns[d]
        if column is None:
            return [None if math.isnan(v) else v for v in values.astype(float).tolist()]
        found = [
            as_scalar(value) for value in column.decode(values.astype(float), predicted).plain()
        ]
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


def _unseen(name: str, value: object) -> str:
    return f"Column {name!r}: the value {value!r} was not seen in fit; it is taken as missing."


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def as_scalar(value: object) -> Scalar:
    """A value as JSON represents it."""
    if isinstance(value, np.generic):
        if isinstance(value, np.datetime64 | np.timedelta64):
            return None if np.isnat(value) else str(value)
        value = value.item()
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
            f"Row {i}, column {name!r}: {text!r} is not a date; write 2026-01-31 or "
            "2026-01-31T12:00:00."
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return moment.timestamp() / _DAY
