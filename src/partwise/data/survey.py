"""Statistics of the columns of a table that merge, from which a `Schema` is made.

A `ColumnSurvey` describes some rows of a column; `merged` joins those of two sets of rows. Counts
are integers, so the result does not depend on the order of the rows or on how they are divided into
files, chunks and workers: the schema of a table is the same in memory and out of memory.

Distinct values are counted exactly up to `MAX_DISTINCT`. Beyond it, numbers are summarized by
counts in fixed buckets of relative width 1/128, their range and a checksum of integers; levels by
their number of rows alone, because such columns are left out of a model anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_reading import RawColumn, in_text_order
from partwise.data.support import Ends, Support, fitting_steps
from partwise.typing import Name, Value

# Distinct values of a column that are counted one by one.
MAX_DISTINCT = 1 << 16

# Bits of a float64 that are dropped to get its bucket: the exponent and 7 bits of mantissa stay.
BUCKET_BITS = 45

# Integers that are checked at a time.
CHECKED_INTEGERS = 1 << 20

Counts: TypeAlias = tuple[Array, Array]  # sorted distinct values, and the number of rows of each


@dataclass(frozen=True, eq=False)
class Spread:
    """Summary of finite numbers with many distinct values.

    ``fitting`` marks the steps that fit all numbers (`fitting_steps`); ``fraction`` is the smallest
    number that is not whole, infinity if there is none; ``buckets`` are counts by bucket, of
    numbers from 0; ``checksum`` is a sum of hashes of integers, modulo 2^64.
    """

    ends: Ends
    fitting: tuple[bool, ...]
    fraction: float
    buckets: Counts
    checksum: int

    @staticmethod
    def of(values: Array, counts: Array, times: bool = False, single: bool = False) -> Spread:
        """The summary of sorted distinct values, of which there is at least one."""
        positive = values >= 0
        keys, place = np.unique(
            (values[positive] + 0.0).view(np.int64) >> BUCKET_BITS, return_inverse=True
        )
        totals = np.zeros(len(keys), np.int64)
        np.add.at(totals, place, counts[positive])
        partial = values[values != np.rint(values)]
        fraction = float(partial.min()) if len(partial) else np.inf
        checksum = 0 if len(partial) else _checksum(values, counts)
        fitting = fitting_steps(values, times, single)
        return Spread(Ends.of(values, counts), fitting, fraction, (keys, totals), checksum)

    def merged(self, other: Spread) -> Spread:
        """The summary of both."""
        return Spread(
            self.ends.merged(other.ends),
            tuple(a and b for a, b in zip(self.fitting, other.fitting, strict=True)),
            min(self.fraction, other.fraction),
            _merged_counts(self.buckets, other.buckets),
            (self.checksum + other.checksum) % 2**64,
        )

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return self.fraction == np.inf

    def weighted(self) -> Counts:
        """Numbers from 0 and their counts, each at the middle of its bucket."""
        keys, counts = self.buckets
        lower = (keys << BUCKET_BITS).view(np.float64)
        upper = ((keys + 1) << BUCKET_BITS).view(np.float64)
        return np.where(keys == 0, 0.0, 0.5 * lower + 0.5 * upper), counts

    def is_progression(self, n: int) -> bool:
        """Whether n integers are evenly spaced and all different."""
        lowest = self.ends.smallest
        step = (self.ends.largest - lowest) / max(n - 1, 1)
        if not self.whole or step < 1 or step != np.rint(step):
            return False
        expected = 0
        for lo in range(0, n, CHECKED_INTEGERS):
            values = lowest + step * np.arange(lo, min(lo + CHECKED_INTEGERS, n))
            expected += _checksum(values, np.ones(len(values), np.int64))
        return expected % 2**64 == self.checksum


def _checksum(values: Array, counts: Array) -> int:
    """Sum of hashes of whole numbers, modulo 2^64; it does not depend on their order."""
    with np.errstate(over="ignore"):
        hashed = (values + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
        hashed *= np.uint64(0xBF58476D1CE4E5B9)
        hashed ^= hashed >> np.uint64(32)
        return int((hashed * counts.astype(np.uint64)).sum(dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class ColumnSurvey:
    """Mergeable statistics of some rows of a column.

    Attributes
    ----------
    name : hashable
    form : {"number", "date", "span", "level", "other"}
    dtype : str
        As the frame names it.
    n_rows, n_seen : int
        All rows, and those with a finite number or a level.
    infinite : bool
        Whether there are infinite numbers.
    counts : tuple of two ndarrays or None
        Sorted distinct numbers and the number of rows of each; None for levels and beyond
        `MAX_DISTINCT`.
    spread : Spread or None
        Of numbers beyond `MAX_DISTINCT`.
    levels : dict or None
        Levels in order and the number of rows of each, 0 for declared ones that no row has; None
        for numbers and beyond `MAX_DISTINCT`.
    ordered, declared : bool
        Whether levels have an order, and whether they are declared by the frame.
    single : bool
        Whether numbers are float32.
    rounded : bool
        Whether there are integers of more digits than floats hold.
    """

    name: Name
    form: str
    dtype: str
    n_rows: int
    n_seen: int
    infinite: bool = False
    counts: Counts | None = None
    spread: Spread | None = None
    levels: dict[Value, int] | None = None
    ordered: bool = False
    declared: bool = False
    single: bool = False
    rounded: bool = False

    @staticmethod
    def of(raw: RawColumn) -> ColumnSurvey:
        """The statistics of a column in memory."""
        base = ColumnSurvey(raw.name, raw.form, raw.dtype, len(raw.values), 0)
        if raw.form == "other":
            return replace(base, n_seen=base.n_rows)
        if raw.form == "level":
            counts = np.bincount(raw.values[raw.values >= 0], minlength=len(raw.levels))
            found = replace(base, n_seen=int(counts.sum()))
            levels = dict(zip(raw.levels, counts.tolist(), strict=True))
            found = replace(found, levels=levels, ordered=raw.ordered, declared=raw.declared)
            return found.bounded()
        values = raw.values[np.isfinite(raw.values)].astype(float) + 0.0  # no -0
        infinite = bool(np.isinf(raw.values).any())
        distinct = np.unique(values, return_counts=True)
        single = raw.values.dtype == np.float32
        found = replace(base, n_seen=len(values), infinite=infinite, counts=distinct, single=single)
        return replace(found, rounded=raw.rounded).bounded()

    def bounded(self) -> ColumnSurvey:
        """The same without single values if there are too many."""
        if self.levels is not None and len(self.levels) > MAX_DISTINCT:
            return replace(self, levels=None)
        if self.counts is not None and len(self.counts[0]) > MAX_DISTINCT:
            return replace(self, counts=None, spread=self.summary)
        return self

    def merged(self, other: ColumnSurvey) -> ColumnSurvey:
        """The statistics of both sets of rows; columns of different types are refused."""
        n_rows, infinite = self.n_rows + other.n_rows, self.infinite or other.infinite
        if not (self.n_seen and other.n_seen):
            # Rows without values say nothing about the type.
            one = max(self, other, key=lambda s: (s.n_seen > 0, s.form, s.dtype))
            return replace(one, n_rows=n_rows, infinite=infinite)
        if self.form != other.form or (
            self.ordered and list(self.known_levels) != list(other.known_levels)
        ):
            raise ValueError(
                f"column {self.name!r} has {_described(other)}, but {_described(self)} before"
            )
        whole = replace(
            self,
            dtype=_merged_type(self, other),
            n_rows=n_rows,
            n_seen=self.n_seen + other.n_seen,
            infinite=infinite,
            single=self.single and other.single,
            rounded=self.rounded or other.rounded,
        )
        if self.form == "other":
            return whole
        if self.form == "level":
            declared = self.declared and other.declared
            levels = self._merged_levels(other)
            return replace(whole, levels=levels, declared=declared).bounded()
        if self.counts is not None and other.counts is not None:
            counts = _merged_counts(self.counts, other.counts)
            return replace(whole, counts=counts).bounded()
        mine, others = (one.summary for one in (self, other))
        return replace(whole, counts=None, spread=mine.merged(others))

    @property
    def known_levels(self) -> dict[Value, int]:
        """Levels and their counts, where they are counted."""
        return self.levels or {}

    def _merged_levels(self, other: ColumnSurvey) -> dict[Value, int] | None:
        if self.levels is None or other.levels is None:
            return None
        if list(self.levels) == list(other.levels):
            order = list(self.levels)
        else:
            order = in_text_order([*dict.fromkeys([*self.levels, *other.levels])])
        return {one: self.levels.get(one, 0) + other.levels.get(one, 0) for one in order}

    @property
    def n_distinct(self) -> int:
        """Number of distinct values, at least ``MAX_DISTINCT + 1`` where they are not counted."""
        if self.form == "level":
            if self.levels is None:
                return MAX_DISTINCT + 1
            return sum(count > 0 for count in self.levels.values())
        return MAX_DISTINCT + 1 if self.counts is None else len(self.counts[0])

    @property
    def lowest(self) -> float:
        """Smallest number."""
        return float(self.counts[0][0]) if self.counts is not None else self._spread.ends.smallest

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        if self.counts is None:
            return self._spread.whole
        return bool(np.all(self.counts[0] == np.rint(self.counts[0])))

    @property
    def examples(self) -> Array:
        """Sorted numbers for the check of a likelihood: all distinct ones, or extreme ones."""
        if self.counts is not None:
            return self.counts[0]
        ends = self._spread.ends
        found = (ends.smallest, self._spread.fraction, ends.largest)
        return np.unique([value for value in found if np.isfinite(value)])

    @property
    def weighted(self) -> Counts:
        """Numbers and their counts: exact, or buckets of numbers from 0."""
        return self.counts if self.counts is not None else self._spread.weighted()

    @property
    def all_differ(self) -> bool:
        """Whether no two rows are known to have the same number."""
        return self.counts is not None and self.n_distinct == self.n_seen

    @property
    def numbers_rows(self) -> bool:
        """Whether integers are evenly spaced and all different, without missing values."""
        if self.n_seen < self.n_rows:
            return False
        if self.counts is None:
            return self._spread.is_progression(self.n_seen)
        steps = np.diff(self.counts[0])
        return self.all_differ and bool(np.all(steps == steps[0]))

    @property
    def support(self) -> Support:
        """The values that the column can take."""
        one, times = self.summary, self.form != "number"
        return Support.of_ends(one.ends, self.n_seen, self.n_distinct, one.fitting, times)

    @property
    def summary(self) -> Spread:
        """The summary of numbers, however they are kept."""
        if self.counts is None:
            return self._spread
        return Spread.of(*self.counts, self.form != "number", self.single)

    @property
    def _spread(self) -> Spread:
        assert self.spread is not None
        return self.spread


def _described(survey: ColumnSurvey) -> str:
    words = {"level": "text or categories", "other": "objects", "span": "durations"}
    return f"{words.get(survey.form, survey.form + 's')} ({survey.dtype})"


def _merged_type(a: ColumnSurvey, b: ColumnSurvey) -> str:
    """The type of both columns together."""
    if a.dtype == b.dtype:
        return a.dtype
    first, second = sorted([a.dtype, b.dtype])
    frame_names = {"number": ("float64", "Float64"), "level": ("object", "String")}
    if a.form in frame_names:
        return frame_names[a.form][first[0].isupper() and second[0].isupper()]
    return first


def _merged_counts(a: Counts, b: Counts) -> Counts:
    keys = np.union1d(a[0], b[0])
    counts = np.zeros(len(keys), np.int64)
    for values, own in (a, b):
        counts[np.searchsorted(keys, values)] += own
    return keys, counts


def merge_tables(
    surveys: Sequence[ColumnSurvey], more: Sequence[ColumnSurvey]
) -> list[ColumnSurvey]:
    """Statistics of all columns of two sets of rows."""
    return [one.merged(other) for one, other in zip(surveys, more, strict=True)]
