"""Schema of a table: kinds of its columns, encoding as numbers for a model, and decoding.

A `Schema` is made from a DataFrame (or an array), or from statistics of its columns that merge
(`partwise.data.survey`), so that it is the same for a table in memory and out of memory. It encodes
rows as a matrix of floats (numbers as they are or their logarithms, dates in days, levels as codes
0, 1, ...; NaN is missing) and decodes such a matrix to the user's columns, categories and units.
`partwise.data.kinds` lists the kinds of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

import numpy as np

from partwise._text import plural
from partwise._warnings import warn
from partwise.contracts import Array, DType
from partwise.data.columns import Kind
from partwise.data.frame_reading import RawColumn, read_columns
from partwise.data.frame_writing import make_frame, replace_cells
from partwise.data.frames import frame_of, names_of, select, shortened
from partwise.data.kinds import learn_kinds, listed
from partwise.data.support import Support
from partwise.data.survey import ColumnSurvey
from partwise.data.table_column import (
    IGNORED,
    KINDS,
    LOGGED,
    NUMBER,
    TableColumn,
    Twin,
    has_levels,
    is_angle,
    law_of_kind,
    number_text,
)
from partwise.data.twins import find_twins, follow_leaders, told_by_twins, with_twins
from partwise.typing import Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "IGNORED",
    "KINDS",
    "LOGGED",
    "Likelihood",
    "Schema",
    "SchemaState",
    "TableColumn",
    "has_levels",
    "law_of_kind",
    "number_text",
]


class SchemaState(TypedDict):
    """A schema as plain values."""

    columns: list[dict[str, object]]
    names: list[Name]
    frame: str


# "auto", a kind for all columns, one per column, or kinds by name or place.
Likelihood: TypeAlias = "str | Sequence[str] | Mapping[Name, str]"

# From encoded rows (n, D) to rows (n, D) that are encoded otherwise.
Rescale: TypeAlias = Callable[[Array], Array]


class Schema:
    """Kinds of the columns of a table, with encoding and decoding.

    Parameters
    ----------
    columns : sequence of TableColumn
    names : sequence
        Unique names; a number is appended to the second of two equal names.
    frame : {"pandas", "polars", "array"}
        Kind of the training table.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.data.table import Schema
    >>> X = np.array([["red", 1.5], ["blue", None], ["red", 2.25], ["blue", 3.125]], dtype=object)
    >>> schema = Schema.learn(X, "auto")
    >>> [column.kind for column in schema.columns]
    ['bernoulli', 'gaussian']
    >>> schema.encode(X)
    array([[1.   , 1.5  ],
           [0.   ,   nan],
           [1.   , 2.25 ],
           [0.   , 3.125]])
    """

    def __init__(self, columns: Sequence[TableColumn], names: Sequence[Name], frame: str) -> None:
        self.columns = tuple(columns)
        self.names = list(names)
        self.frame = frame

    @classmethod
    def learn(
        cls,
        X: Frame | Array,
        likelihood: Likelihood,
        used: Array | None = None,
        raw: Sequence[RawColumn] | None = None,
    ) -> Schema:
        """Learn the kinds of the columns from the rows ``used``, a mask (n,).

        ``likelihood`` is "auto", a kind for all columns, a sequence of kinds, or a mapping of names
        (or places) to kinds, where "auto" stands for all that are not named. ``raw`` are the
        columns, if they have been read.
        """
        surveys = []
        for column in read_columns(X) if raw is None else raw:
            used_values = column.values if used is None else column.values[used]
            surveys.append(ColumnSurvey.of(replace(column, values=used_values)))
        return cls.of(surveys, likelihood, names_of(X), frame_of(X))

    @classmethod
    def of(
        cls,
        surveys: Sequence[ColumnSurvey],
        likelihood: Likelihood,
        names: Sequence[Name],
        frame: str,
    ) -> Schema:
        """The schema of a table from statistics of its columns; ``likelihood`` as in `learn`."""
        asked = _asked(likelihood, [survey.name for survey in surveys])
        return cls(learn_kinds(surveys, asked), names, frame)

    def with_twins(self, coded: Array) -> Schema:
        """The schema with near-duplicate columns noted, as rows (n, D) show them."""
        found = find_twins(self.columns, coded)
        return Schema(with_twins(self.columns, found), self.names, self.frame) if found else self

    def without_many_levels(self, likelihood: Likelihood, most: int) -> tuple[Schema, Rescale]:
        """The schema with numbers of more than so many ordered levels as Gaussian numbers.

        Columns whose kind ``likelihood`` names stay. Also returns a function that makes rows
        encoded by the new schema from rows encoded by this one.
        """
        asked = _asked(likelihood, [column.name for column in self.columns])
        values, columns = dict[int, Array](), list(self.columns)
        for d, column in enumerate(columns):
            ordered = column.has_levels and law_of_kind(column.kind).ordered
            numbers = ordered and column.form == "number" and len(column.levels) > most
            if numbers and asked[d] == "auto":
                values[d] = np.array(column.levels, dtype=float)
                columns[d] = replace(column, kind=NUMBER, levels=(), note="", twin=None)

        def rescaled(coded: Array) -> Array:
            out = coded.copy()
            for d, own in values.items():
                known = ~np.isnan(coded[:, d])
                out[known, d] = own[coded[known, d].astype(np.int64)]
            return out

        if not values:
            return self, lambda coded: coded
        followed = [c.twin is not None and c.twin.leader in values for c in columns]
        columns = [c.following(None) if f else c for c, f in zip(columns, followed, strict=True)]
        return Schema(columns, self.names, self.frame), rescaled

    def without_angles(self, likelihood: Likelihood) -> Schema:
        """The schema with angles as Gaussian numbers, where ``likelihood`` does not name them."""
        asked = _asked(likelihood, [column.name for column in self.columns])
        columns = list(self.columns)
        for d, column in enumerate(columns):
            if is_angle(column.kind) and asked[d] == "auto":
                support = replace(column.support, low=0.0, high=360.0)  # found between these
                columns[d] = replace(column, kind=NUMBER, support=support)
        return Schema(columns, self.names, self.frame)

    def sampled_together(
        self, coded: Array, rng: np.random.Generator, known: Array | None = None
    ) -> Array:
        """Sampled rows (n, D) whose near-duplicate columns agree; cells that are known stay."""
        return follow_leaders(self.columns, coded, rng, known)

    @property
    def twins(self) -> dict[int, Twin]:
        """Near-duplicate columns by place, with those that they follow."""
        return {d: column.twin for d, column in enumerate(self.columns) if column.twin is not None}

    def told_by_twins(self, coded: Array) -> tuple[Array, Array] | None:
        """Values and deviations (n, D) of missing cells with an observed near-duplicate, else NaN.

        None if no column has a near-duplicate.
        """
        if all(column.twin is None for column in self.columns):
            return None
        return told_by_twins(self.columns, coded)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of all columns for the model."""
        return tuple(column.model_kind() for column in self.columns)

    @property
    def dtype(self) -> DType:
        """Type of encoded rows: float32 if all numbers are, else float64."""
        numbers = [column.dtype.lower() for column in self.columns if column.form == "number"]
        single = bool(numbers) and set(numbers) == {"float32"}
        return np.dtype(np.float32 if single else np.float64)

    def place(self, name: Name) -> int:
        """Place of a column by its name or place."""
        if name in self.names:
            return self.names.index(name)
        if isinstance(name, int | np.integer) and 0 <= name < len(self.names):
            return int(name)
        known = listed(self.names, bare=True)
        raise ValueError(f"There is no column {shortened(name)}; columns are {known}.")

    def encode(self, X: Frame | Array, tell: bool = True) -> Array:
        """Rows as numbers, (n, D); with ``tell`` warn of values that fit did not see."""
        return self.encode_columns(read_columns(X), tell)

    def encode_columns(self, raw: Sequence[RawColumn], tell: bool = True) -> Array:
        """The same from columns that have been read."""
        if len(raw) != len(self.columns):
            raise ValueError(
                f"X has {plural(len(raw), 'column')}, but fit saw {len(self.columns)}; "
                "pass the same columns."
            )
        numbers = [column.values for column in raw if column.form == "number"]
        single = bool(numbers) and all(values.dtype == np.float32 for values in numbers)
        n = max((len(column.values) for column in raw), default=0)
        out = np.full((n, len(raw)), np.nan, np.float32 if single else np.float64)
        for d, (column, given) in enumerate(zip(self.columns, raw, strict=True)):
            if not column.is_filled:
                continue
            out[:, d], unseen = column.encode(given)
            if unseen and tell:
                _tell_unseen(column, unseen)
        return out

    def encode_some(self, X: Frame) -> Array:
        """Rows of a frame that has some of the columns, by name; the others are missing."""
        return self.encode_new(X)[0]

    def encode_new(self, X: Frame | Array) -> tuple[Array, dict[Name, list[Value]]]:
        """The same, and the levels of each column that fit did not see."""
        raw, new = read_columns(X), dict[Name, list[Value]]()
        out = np.full((len(X), len(self.columns)), np.nan)
        for given in raw:
            d = self.place(given.name)
            out[:, d], unseen = self.columns[d].encode(given)
            if unseen:
                new[given.name] = unseen
        return out, new

    def beyond(self, X: Frame | Array) -> dict[int, Array]:
        """How far values lie outside of the range that fit saw, as `TableColumn.beyond`.

        By place of those columns of ordered numbers that have such a value.
        """
        names = names_of(X)
        own = {d: column for d, column in enumerate(self.columns) if column.has_number_levels}
        places = {d: names.index(self.names[d]) for d in own if self.names[d] in names}
        if not places:
            return {}
        at = list(places.values())
        some = X[:, at] if isinstance(X, np.ndarray) else select(X, [names[i] for i in at])
        raw = read_columns(some)
        found = {d: own[d].beyond(one.values) for d, one in zip(places, raw, strict=True)}
        return {d: away for d, away in found.items() if away.any()}

    def encode_cells(self, places: Array, values: Sequence[Value]) -> Array:
        """Numbers of single cells, from the places of their columns and the user's values."""
        given = np.empty(len(values), dtype=object)
        given[:] = list(values)
        out = np.empty(len(given))
        for d in np.unique(places):
            own = np.flatnonzero(places == d)
            (raw,) = read_columns(given[own, None])
            out[own], unseen = self.columns[d].encode(raw)
            if unseen and self.columns[d].has_number_levels:
                if self.columns[d].to_tell(unseen):
                    _tell_unseen(self.columns[d], unseen)
            elif unseen:
                known = listed(self.columns[d].levels, bare=True)
                raise ValueError(
                    f"Column {shortened(self.columns[d].name)} has no value "
                    f"{shortened(unseen[0])}; fit saw {known}."
                )
        return out

    def encode_row(self, values: Mapping[str, Value]) -> Array:
        """One row from some of its values by name, the others missing; (1, D)."""
        row = np.full((1, len(self.columns)), np.nan)
        places = np.array([self.place(name) for name in values], dtype=np.int64)
        row[0, places] = self.encode_cells(places, list(values.values()))
        return row

    def decode(
        self,
        values: Array,
        index: pd.Index | None = None,
        which: Sequence[int] | None = None,
        predicted: Array | bool = False,
        sampled: bool = False,
    ) -> Frame | Array:
        """A table of the user's kind from numbers (n, D), or from some columns of it.

        ``predicted`` and ``sampled`` as in `TableColumn.decode`.
        """
        places = range(len(self.columns)) if which is None else which
        mask = np.broadcast_to(predicted, values.shape)
        new = [
            self.columns[d].decode(values[:, d].astype(float), mask[:, d], sampled) for d in places
        ]
        return make_frame(self.frame, new, index)

    def nearest(self, values: Array) -> Array:
        """Encoded numbers (n, D) that `decode` rounds, at the possible values they become."""
        values = np.array(values, dtype=float)
        for d, column in enumerate(self.columns):
            if column.support.step and not column.has_levels:
                found = column.support.nearest(column.as_given(values[:, d]))
                values[:, d] = column.as_encoded(found)
        return values

    def inward(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Ends (n, D) of encoded numbers such that `decode` rounds them inward.

        An interval of whole numbers then covers those that lie in it; rounded to the nearest, its
        ends would lie outside half of the time.
        """
        ends = np.array([lower, upper], dtype=float)
        for d, column in enumerate(self.columns):
            if column.support.step and not column.has_levels:
                found = column.support.inward(*(column.as_given(end[:, d]) for end in ends))
                ends[:, :, d] = [column.as_encoded(end) for end in found]
        return ends[0], ends[1]

    def fill(
        self, X: Frame | Array, coded: Array, filled: Array, sampled: bool = False
    ) -> Frame | Array:
        """X with imputed values: ``coded`` is X as encoded; both (n, D)."""
        changes = {}
        for d, column in enumerate(self.columns):
            rows = np.flatnonzero(np.isnan(coded[:, d]))
            if column.is_filled and len(rows):
                changes[d] = rows, column.decode(filled[rows, d].astype(float), True, sampled)
        return replace_cells(X, changes)

    def state(self) -> SchemaState:
        """Plain values for a model file; `restore` reads them."""
        columns = []
        for column in self.columns:
            fields = asdict(column) | {"levels": list(column.levels)}
            unused, twin = fields.pop("categories"), fields.pop("twin")  # few columns have these
            fields |= {"categories": list(unused)} if unused else {}
            columns.append(fields | ({"twin": twin | {"to": list(twin["to"])}} if twin else {}))
        return {"columns": columns, "names": list(self.names), "frame": self.frame}

    @classmethod
    def restore(cls, state: SchemaState) -> Schema:
        """The schema that `state` describes."""
        made = [_restored(column) for column in state["columns"]]
        return cls(made, state["names"], state["frame"])


def _restored(fields: dict[str, object]) -> TableColumn:
    levels = tuple(cast(Sequence[Value], fields["levels"]))
    # Files of before the first release have no support.
    support = Support(**cast(dict[str, float], fields.get("support", {})))
    categories = tuple(cast(Sequence[Value], fields.get("categories", ())))
    twin = cast("dict[str, object] | None", fields.get("twin"))
    own = None if twin is None else Twin(**{**twin, "to": tuple(cast("list[float]", twin["to"]))})  # type: ignore[arg-type]  # from a file
    known = {
        **fields, "levels": levels, "support": support, "categories": categories, "twin": own
    }  # fmt: skip
    return TableColumn(**known)  # type: ignore[arg-type]  # from a file


def _tell_unseen(column: TableColumn, unseen: Sequence[Value]) -> None:
    """Warn of values that fit did not see, unless they are numbers between those that it saw."""
    name, told = shortened(column.name), column.to_tell(unseen)
    if column.has_number_levels:
        low, high = column.levels[0], column.levels[-1]
        if told:
            warn(
                f"Column {name} has {plural(len(told), 'value')} outside of the range that fit "
                f"saw, {low:g} to {high:g} (first: {told[0]:g}): treated as the nearest level."
            )
        return
    warn(
        f"Column {name} has {len(told)} value(s) that fit did not see "
        f"(first: {shortened(told[0])}): treated as missing."
    )


def _asked(given: Likelihood, names: list[Name]) -> list[str]:
    """The requested kind of every column, or "auto"."""
    if isinstance(given, str):
        asked = [given] * len(names)
    elif isinstance(given, Mapping):
        known = set(names) | set(range(len(names)))
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(
                f"likelihood names {listed(unknown, bare=True)}, but X has the columns "
                f"{listed(names, bare=True)}."
            )
        asked = [given.get(name, given.get(i, "auto")) for i, name in enumerate(names)]
    else:
        asked = list(given)
        if len(asked) != len(names):
            raise ValueError(f"likelihood has {len(asked)} kinds, but X has {len(names)} columns.")
    for kind in asked:
        if kind not in (*KINDS, "auto"):
            raise ValueError(f'likelihood {kind!r} must be "auto" or one of {", ".join(KINDS)}.')
    return asked
