"""Kinds of the columns of a table, their encoding as numbers for a model, and the way back.

A `Schema` learns the kind of each column from a DataFrame (or an array), encodes rows as a matrix
of floats (numbers as they are or their logarithms, dates in days, levels as codes 0, 1, ...; NaN is
missing) and decodes such a matrix to the user's columns, categories and units. Warnings of fit
report which columns were left out or treated specially.

==============  ================================================================================
kind            which columns
==============  ================================================================================
"bernoulli"     truth values; anything that takes two values
"categorical"   text and unordered categories
"ordinal"       categories with an order; numbers of at most ten values, each seen five times
"poisson"       whole numbers from 0 that spread no more than five times their mean of up to 30
"lognormal"     positive numbers so skewed to the right that their logarithms are far less so
"gaussian"      all other numbers, and dates
others          those of `partwise.likelihoods.LAWS`, where the user asks for them
"ignored"       not used by the model: empty columns, identifiers, free text, objects; missing
                values stay, but those of empty numeric columns become zero
==============  ================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

import numpy as np

from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data.columns import MOST_LEVELS, Kind
from partwise.data.frames import (
    NewColumn,
    RawColumn,
    frame_of,
    make_frame,
    names_of,
    read_columns,
    replace_cells,
)
from partwise.data.support import Support
from partwise.likelihoods import LAWS, ORDERED, Law
from partwise.typing import Frame, Name, Value

if TYPE_CHECKING:
    import pandas as pd


class SchemaState(TypedDict):
    """A schema as plain values."""

    columns: list[dict[str, object]]
    names: list[Name]
    frame: str


# "auto", a kind for all columns, one per column, or kinds by name or place.
Likelihood: TypeAlias = "str | Sequence[str] | Mapping[Name, str]"

# The logarithm of a number; and a column that no model sees.
LOGGED, NUMBER = "lognormal", "gaussian"
IGNORED = "ignored"
KINDS = (*LAWS, LOGGED, IGNORED)

# A number with at most this many values, each seen so often on average, has ordered levels.
MAX_ANSWERS = 10
OFTEN = 5
# Counts: up to this mean, and this variance in units of it. Beyond, counts within a state vary more
# (or less) than a Poisson distribution, and a Gaussian fits better.
MAX_COUNT_MEAN = 30.0
MAX_COUNT_SPREAD = 5.0
# Skewness from which a positive number may be lognormal.
SKEWED = 1.0
# Text of more levels than this, most of them seen once, is free text.
MAX_TEXT_LEVELS = 20
# Fewer rows cannot separate an identifier from a number.
IDENTIFIER_ROWS = 20

_NAMED_AS_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|identifier)$", re.IGNORECASE)

_LEFT_OUT = "left out of the model and returned unchanged"
_OTHER = "objects that are not numbers, dates, booleans or text"

# Warnings about columns: the problem, and how the column is treated.
_PROBLEMS = {
    "infinite": "infinite values are treated as missing",
    "empty": f"no values; {_LEFT_OUT}",
    "no number": "no values; left out of the model, and imputed as zero",
    "constant": "constant; kept, but without information and in no part",
    "identifier": f"looks like an identifier (integers that number the rows); {_LEFT_OUT}",
    "text": f"text that hardly repeats (names, free text); {_LEFT_OUT}",
    "many": f"more than {MOST_LEVELS} different levels; {_LEFT_OUT}; merge rare levels to use them",
    "other": f"{_OTHER}; {_LEFT_OUT}",
    "mixed": "values of several types; each distinct value is a category",
    "rare": "categories that occur in only one row; kept, but little can be learned about them",
    "differ": "integers that all differ; treated as numbers",
    "duplicate": "the name of another column; a number is appended to the name",
}


@dataclass(frozen=True, eq=False)
class TableColumn:
    """Kind and encoding of one column.

    ``levels`` are the user's values in the order of their codes; ``offset`` is added before the
    logarithm is taken.
    """

    name: Name
    kind: str
    form: str
    dtype: str
    levels: tuple[Value, ...] = ()
    ordered: bool = False
    offset: float = 0.0
    whole: bool = False
    note: str = ""
    support: Support = field(default_factory=Support)

    @property
    def has_levels(self) -> bool:
        """Whether the matrix has codes of levels."""
        return has_levels(self.kind)

    @property
    def is_linear(self) -> bool:
        """Whether differences of the numbers are distances."""
        return self.kind != IGNORED and law_of_kind(self.kind).linear

    @property
    def is_filled(self) -> bool:
        """Whether missing values are imputed: by the model, or as zero where fit saw no number."""
        return self.kind != "ignored" or self.note == "no number"

    def model_kind(self) -> Kind:
        """The kind of the column for the model."""
        if self.kind == IGNORED:
            return Kind("")
        law = law_of_kind(self.kind)
        if not law.has_levels:
            return Kind(NUMBER, logged=True) if self.kind == LOGGED else Kind(self.kind)
        # A model of states has no latent numbers: it sees their levels.
        return Kind(ORDERED if law.latent else self.kind, len(self.levels))

    def encode(self, raw: RawColumn) -> tuple[Array, list[Value]]:
        """Numbers for the model, NaN where missing, and levels that fit did not see."""
        if not self.is_filled:
            return np.full(len(raw.values), np.nan), []
        if raw.form == "other":
            raise ValueError(f"Column {self.name!r} has {_OTHER}; convert it.")
        if raw.form == "level":
            if not self.has_levels:
                raise ValueError(
                    f"Column {self.name!r} had numbers in fit but has {raw.levels[0]!r} now; "
                    "convert it to numbers."
                )
            place = {level: code for code, level in enumerate(self.levels)}
            codes = [place.get(level, np.nan) for level in raw.levels]
            known = np.array([*codes, np.nan])[raw.values]
            used = np.unique(raw.values[raw.values >= 0])
            return known, [raw.levels[i] for i in used if np.isnan(codes[i])]
        values = np.where(np.isinf(raw.values), np.nan, raw.values)
        if self.has_levels:
            return self._coded(values)
        values = self.as_encoded(values)
        return np.where(np.isfinite(values), values, np.nan), []

    def as_encoded(self, values: Array) -> Array:
        """Numbers as the matrix holds them: their logarithms in columns of that kind."""
        if self.kind != LOGGED:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values + self.offset)

    def _coded(self, values: Array) -> tuple[Array, list[Value]]:
        """Numbers as codes of levels; 0 and 1 are truth values if those were seen."""
        place = {level: code for code, level in enumerate(self.levels)}
        found, at = np.unique(values, return_inverse=True)
        codes = np.array([place.get(value, np.nan) for value in found.tolist()])
        return codes[at], [v for v in found[np.isnan(codes)].tolist() if v == v]

    def decode(
        self, values: Array, predicted: Array | bool = False, sampled: bool = False
    ) -> NewColumn:
        """The user's terms of numbers as `encode` makes them.

        What is ``predicted`` (n,) is brought into the column's support; samples also into the
        range of the observed values.
        """
        name = self.name
        if self.kind == "ignored" and (self.form != "number" or self.dtype in ("object", "Null")):
            return NewColumn(name, "other", self.dtype, values)
        if self.kind == "ignored":  # no value was seen
            known = np.where(self.is_filled & ~np.isnan(values), 0.0, np.nan)
            return NewColumn(name, "number", self.dtype, known)
        missing = np.isnan(values)
        if self.has_levels:
            codes = np.where(missing, -1, np.rint(values)).astype(np.int64)
            if self.form == "level":
                return NewColumn(name, "level", self.dtype, codes, self.levels, self.ordered)
            known = np.array([*self.levels, np.nan])
            return NewColumn(name, self.form, self.dtype, known[codes])
        if self.kind == "lognormal":
            values = np.exp(values) - self.offset
        values = np.where(predicted, self.support.nearest(values, sampled), values)
        return NewColumn(name, self.form, self.dtype, values)

    def value(self, number: float, predicted: bool = False) -> Value:
        """The user's value of one number as `encode` makes it."""
        shown = self.decode(np.array([float(number)]), predicted).plain()[0]
        return float(shown) if isinstance(shown, np.floating) else shown

    def text(self, number: float) -> str:
        """The same as readable text."""
        shown = self.value(number, predicted=self.form == "date")
        if self.form == "date":
            return str(shown)[: 10 if self.whole else 16]
        if isinstance(shown, np.timedelta64) and not np.isnat(shown):
            minutes = round(shown / np.timedelta64(1, "m"))
            return f"{minutes // 60}:{minutes % 60:02}"
        if isinstance(shown, float):
            return f"{shown:.0f}" if self.whole and self.has_levels else number_text(shown)
        return str(shown)


def number_text(value: float) -> str:
    """A number as readable text: three digits, and all digits before the decimal point.

    Parameters
    ----------
    value : float

    Returns
    -------
    text : str

    Examples
    --------
    >>> from partwise.data.table import number_text
    >>> number_text(3360.4), number_text(0.12345), number_text(2013.0)
    ('3,360', '0.123', '2013')
    """
    if not 1000 <= round(abs(value)) < 10**15:
        return f"{value:.3g}"
    is_year = 1900 <= value <= 2100 and value == round(value)
    return f"{value:.0f}" if is_year else f"{value:,.0f}"


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
    def learn(cls, X: Frame | Array, likelihood: Likelihood, used: Array | None = None) -> Schema:
        """Learn the kinds of the columns from the rows ``used``, a mask (n,).

        ``likelihood`` is "auto", a kind for all columns, a sequence of kinds, or a mapping of names
        (or places) to kinds, where "auto" stands for all that are not named.
        """
        raw = read_columns(X)
        asked = _asked(likelihood, [column.name for column in raw])
        problems_of: dict[str, list[Name]] = {}
        columns = []
        for column, kind in zip(raw, asked, strict=True):
            if used is not None and column.form != "other":
                column = replace(column, values=column.values[used])
            found, problems = _learn_column(column, kind)
            columns.append(found)
            for problem in problems:
                problems_of.setdefault(problem, []).append(column.name)
        names = [column.name for column in raw]
        again = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if again:
            problems_of["duplicate"] = again
        for problem, which in problems_of.items():
            warn(f"{_listed(which)}: {_PROBLEMS[problem]}.")
        if all(column.kind == "ignored" for column in columns):
            raise ValueError(
                "The model can use no column of X (see the warnings); give their kinds with "
                'likelihood={name: "categorical", ...}.'
            )
        return cls(columns, names_of(X), frame_of(X))

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of all columns for the model."""
        return tuple(column.model_kind() for column in self.columns)

    def place(self, name: Name) -> int:
        """Place of a column by its name or place."""
        if name in self.names:
            return self.names.index(name)
        if isinstance(name, int | np.integer) and 0 <= name < len(self.names):
            return int(name)
        known = _listed(self.names, bare=True)
        raise ValueError(f"There is no column {name!r}; columns are {known}.")

    def encode(self, X: Frame | Array, tell: bool = True) -> Array:
        """Rows as numbers, (n, D); with ``tell`` warn of values that fit did not see."""
        raw = read_columns(X)
        if len(raw) != len(self.columns):
            raise ValueError(f"X has {len(raw)} columns, but fit saw {len(self.columns)}.")
        numbers = [column.values for column in raw if column.form == "number"]
        single = bool(numbers) and all(values.dtype == np.float32 for values in numbers)
        n = max((len(column.values) for column in raw), default=0)
        out = np.full((n, len(raw)), np.nan, np.float32 if single else np.float64)
        for d, (column, given) in enumerate(zip(self.columns, raw, strict=True)):
            if not column.is_filled:
                continue
            out[:, d], unseen = column.encode(given)
            if unseen and tell:
                warn(
                    f"Column {column.name!r} has {len(unseen)} value(s) that fit did not see "
                    f"(first: {unseen[0]!r}): treated as missing."
                )
        return out

    def encode_some(self, X: Frame) -> Array:
        """Rows of a frame that has some of the columns, by name; the others are missing."""
        raw = read_columns(X)
        out = np.full((len(X), len(self.columns)), np.nan)
        for given in raw:
            d = self.place(given.name)
            out[:, d], _ = self.columns[d].encode(given)
        return out

    def encode_cells(self, places: Array, values: Sequence[Value]) -> Array:
        """Numbers of single cells, from the places of their columns and the user's values."""
        given = np.empty(len(values), dtype=object)
        given[:] = list(values)
        out = np.empty(len(given))
        for d in np.unique(places):
            own = np.flatnonzero(places == d)
            (raw,) = read_columns(given[own, None])
            out[own], unseen = self.columns[d].encode(raw)
            if unseen:
                known = _listed(self.columns[d].levels, bare=True)
                raise ValueError(
                    f"Column {self.columns[d].name!r} has no value {unseen[0]!r}; fit saw {known}."
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
        columns = [asdict(column) | {"levels": list(column.levels)} for column in self.columns]
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
    known = {**fields, "levels": levels, "support": support}
    return TableColumn(**known)  # type: ignore[arg-type]  # from a file


def _listed(names: Sequence[Name], bare: bool = False, most: int = 8) -> str:
    """Names in a sentence, the first few of many."""
    shown = ", ".join(repr(name) for name in names[:most])
    shown += f" and {len(names) - most} more" if len(names) > most else ""
    return shown if bare else f"Column{'s' if len(names) > 1 else ''} {shown}"


def law_of_kind(kind: str) -> type[Law]:
    """The likelihood of a kind of columns."""
    return LAWS[NUMBER if kind == LOGGED else kind]


def has_levels(kind: str) -> bool:
    """Whether columns of a kind are coded by levels."""
    law = LAWS.get(kind)
    return law is not None and (law.has_levels or law.own_levels is not None)


def _asked(likelihood: Likelihood, names: list[Name]) -> list[str]:
    """The requested kind of every column, or "auto"."""
    if isinstance(likelihood, str):
        asked = [likelihood] * len(names)
    elif isinstance(likelihood, Mapping):
        known = set(names) | set(range(len(names)))
        unknown = [name for name in likelihood if name not in known]
        if unknown:
            raise ValueError(
                f"likelihood names {_listed(unknown, bare=True)}, but X has the columns "
                f"{_listed(names, bare=True)}."
            )
        asked = [likelihood.get(name, likelihood.get(i, "auto")) for i, name in enumerate(names)]
    else:
        asked = list(likelihood)
        if len(asked) != len(names):
            raise ValueError(f"likelihood has {len(asked)} kinds, but X has {len(names)} columns.")
    for kind in asked:
        if kind not in (*KINDS, "auto"):
            raise ValueError(f'likelihood {kind!r} must be "auto" or one of {", ".join(KINDS)}.')
    return asked


def _learn_column(raw: RawColumn, asked: str) -> tuple[TableColumn, list[str]]:
    """The kind of a column, and its problems."""
    base = TableColumn(raw.name, IGNORED, raw.form, raw.dtype)
    if asked == "ignored":
        return replace(base, note="left out as asked"), []
    if raw.form == "other":
        if asked != "auto":
            raise ValueError(f"Column {raw.name!r} has {_OTHER}; convert it.")
        return replace(base, note="objects"), ["other"]
    learn = _learn_levels if raw.form == "level" else _learn_numbers
    return learn(raw, asked, base)


def _learn_levels(raw: RawColumn, asked: str, base: TableColumn) -> tuple[TableColumn, list[str]]:
    counts = np.bincount(raw.values[raw.values >= 0], minlength=len(raw.levels))
    seen = np.flatnonzero(counts)
    levels = tuple(raw.levels[i] for i in seen)
    n_seen, problems = int(counts.sum()), ["mixed"] if raw.mixed else []
    if asked != "auto" and not has_levels(asked):
        raise ValueError(
            f"Column {raw.name!r} holds {levels[:1]}, which is not a number; convert it, or choose "
            f'likelihood "categorical" instead of {asked!r}.'
        )
    if not levels:
        return replace(base, note="empty"), [*problems, "empty"]
    base = replace(base, levels=levels, ordered=raw.ordered)
    if asked == "auto":
        free = len(levels) == n_seen > 2 or len(levels) > max(MAX_TEXT_LEVELS, 0.5 * n_seen)
        if (free and not raw.ordered) or len(levels) > MOST_LEVELS:
            text = any(isinstance(level, str) for level in levels)
            problem = ("text" if text else "other") if free else "many"
            return replace(base, levels=(), note=problem), [*problems, problem]
    elif len(levels) > MOST_LEVELS:
        raise ValueError(f"Column {raw.name!r} has {len(levels)} levels, above {MOST_LEVELS}.")
    if len(levels) == 1:
        return replace(base, kind="categorical", note="constant"), [*problems, "constant"]
    if asked != "auto" and (own := law_of_kind(asked).own_levels) and len(levels) > len(own):
        raise ValueError(
            f"Column {raw.name!r} has {len(levels)} levels, but {asked!r} takes {len(own)}."
        )
    if np.any(counts[seen] == 1):
        problems.append("rare")
    kind = asked if asked != "auto" else "ordinal" if raw.ordered else "categorical"
    if asked == "auto" and len(levels) == 2:
        kind = "bernoulli"
    return replace(base, kind=kind), problems


def _learn_numbers(raw: RawColumn, asked: str, base: TableColumn) -> tuple[TableColumn, list[str]]:
    infinite = np.isinf(raw.values)
    problems = ["infinite"] if infinite.any() else []
    values = raw.values[~infinite & ~np.isnan(raw.values)].astype(float)
    if len(values) == 0:
        note = (
            "no number" if raw.form == "number" and raw.dtype not in ("object", "Null") else "empty"
        )
        return replace(base, note=note), [*problems, note]
    found = np.unique(values)
    whole = bool(np.all(found == np.rint(found)))
    base = replace(
        base,
        whole=whole,
        support=Support.of(
            values, times=raw.form != "number", single=raw.values.dtype == np.float32
        ),
    )
    levels: tuple[float, ...] = tuple(float(v) for v in found)
    if asked != "auto" and has_levels(asked):
        own = law_of_kind(asked).own_levels
        most = MOST_LEVELS if own is None else len(own)
        if len(found) > most:
            raise ValueError(
                f"Column {raw.name!r} has {len(found)} different values, but {asked!r} takes "
                f"at most {most}."
            )
        if own is not None and len(found) == 1 and found[0] in own:
            levels = own
        return replace(base, levels=levels, kind=asked), problems
    wrong = None if asked == "auto" else law_of_kind(asked).check(found)
    if wrong is not None:
        raise ValueError(f"Column {raw.name!r} has the value {wrong}")
    if asked == "lognormal" and found[0] < 0:
        raise ValueError(f'Column {raw.name!r} holds {found[0]:g}; "lognormal" needs no negative.')
    if asked != "auto":
        offset = _offset(found) if asked == "lognormal" else 0.0
        return replace(base, kind=asked, offset=offset), problems
    if len(found) == 1:
        return replace(base, kind="gaussian", note="constant"), [*problems, "constant"]
    if raw.form != "number":
        return replace(base, kind="gaussian", note="in days"), problems
    if len(found) == 2 and len(values) >= OFTEN:
        return replace(base, levels=levels, kind="bernoulli"), problems
    if len(found) <= MAX_ANSWERS and len(values) >= OFTEN * len(found):
        return replace(base, levels=levels, kind="ordinal"), problems
    if whole and len(found) == len(values) and len(values) >= IDENTIFIER_ROWS:
        steps = np.diff(found)
        numbered = bool(np.all(steps == steps[0])) and len(values) == len(raw.values)
        if numbered or _NAMED_AS_IDENTIFIER.search(str(raw.name)):
            return replace(base, note="identifier"), [*problems, "identifier"]
        problems.append("differ")
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the largest
        mean, variance = float(values.mean()), float(values.var())
    if whole and found[0] >= 0 and mean <= MAX_COUNT_MEAN and variance <= MAX_COUNT_SPREAD * mean:
        return replace(base, kind="poisson"), problems
    if found[0] >= 0 and len(values) >= IDENTIFIER_ROWS:
        offset = _offset(found)
        skewness = _skewness(values)
        if skewness > SKEWED and abs(_skewness(np.log(values + offset))) < 0.5 * skewness:
            note = f"logarithm of x + {offset:g}" if offset else "logarithm"
            return replace(base, kind="lognormal", offset=offset, note=note), problems
    return replace(base, kind="gaussian"), problems


def _offset(found: Array) -> float:
    """The number to add to sorted values before the logarithm: 0 unless there are zeros."""
    return 0.0 if found[0] > 0 else float(np.median(found[found > 0])) if found[-1] > 0 else 1.0


def _skewness(values: Array) -> float:
    centered = values - values.mean()
    deviation = np.sqrt(np.mean(centered**2))
    return float(np.mean((centered / max(deviation, 1e-300)) ** 3))
