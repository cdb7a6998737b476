"""Kind of one column of a table: its encoding as numbers for a model, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data.columns import Kind
from partwise.data.frame_reading import RawColumn
from partwise.data.frame_writing import NewColumn
from partwise.data.frames import shortened
from partwise.data.support import Support
from partwise.likelihoods import LAWS, ORDERED, Law
from partwise.typing import Name, Value

# The logarithm of a number; and a column that no model sees.
LOGGED, NUMBER = "lognormal", "gaussian"
IGNORED = "ignored"
KINDS = (*LAWS, LOGGED, IGNORED)

OTHER = "objects that are not numbers, dates, booleans or text"


def law_of_kind(kind: str) -> type[Law]:
    """The likelihood of a kind of columns."""
    return LAWS[NUMBER if kind == LOGGED else kind]


def has_levels(kind: str) -> bool:
    """Whether columns of a kind are coded by levels."""
    law = LAWS.get(kind)
    return law is not None and (law.has_levels or law.own_levels is not None)


def is_angle(kind: str) -> bool:
    """Whether columns of a kind are numbers on a circle."""
    return kind != IGNORED and not has_levels(kind) and not law_of_kind(kind).linear


@dataclass(frozen=True)
class Twin:
    """How a column follows another that is nearly the same.

    ``leader`` is the place of the other column, ``strength`` the correlation of numbers or the
    share of rows whose levels correspond. ``to`` is intercept and slope, or the code for each
    code of the leader, and ``spread`` the standard deviation that is left of numbers.
    """

    leader: int
    strength: float
    to: tuple[float, ...]
    spread: float | None = None  # None for levels

    def follower_of(self, values: Array, rng: np.random.Generator | None = None) -> Array:
        """Values that correspond to those of the leader: sampled, or expected without ``rng``."""
        if self.spread is None:
            return np.array(self.to)[np.rint(values).astype(int)]
        found = self.to[0] + self.to[1] * values
        return found if rng is None else found + self.spread * rng.standard_normal(len(values))

    def leader_of(self, values: Array) -> Array:
        """Values of the leader that correspond to these."""
        if self.spread is None:
            return np.argsort(self.to)[np.rint(values).astype(int)].astype(float)
        return (values - self.to[0]) / self.to[1]

    def tail(self, leader: Array, follower: Array) -> Array:
        """Probability of a follower as far from what the leader tells; NaN if one is missing."""
        missing = np.isnan(leader) | np.isnan(follower)
        told = self.follower_of(np.where(missing, 0.0, leader))
        away = np.abs(follower - told)
        tail = 2.0 * special.ndtr(-away / self.spread) if self.spread else 0.0
        same = away <= 1e-9 * (np.abs(follower) + np.abs(told))  # but for rounding
        return np.where(missing, np.nan, np.where(same, 1.0, tail))


@dataclass(frozen=True, eq=False)
class TableColumn:
    """Kind and encoding of one column.

    ``levels`` are the user's values in the order of their codes; ``categories`` all levels that the
    table declares, if it declares more; ``offset`` is added before the logarithm is taken.
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
    categories: tuple[Value, ...] = ()
    twin: Twin | None = None

    def following(self, twin: Twin | None) -> TableColumn:
        """The same column as nearly a copy of another, or of none."""
        return replace(self, twin=twin)

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

    @property
    def has_number_levels(self) -> bool:
        """Whether its levels are ordered numbers, so that one of them is nearest to any number."""
        return self.kind == "ordinal" and self.form != "level" and len(self.levels) > 0

    def encode(self, raw: RawColumn) -> tuple[Array, list[Value]]:
        """Numbers for the model, NaN where missing, and levels that fit did not see.

        New numbers of ordered levels have the code of the nearest level, other new levels NaN.
        """
        if not self.is_filled:
            return np.full(len(raw.values), np.nan), []
        if raw.form == "other":
            raise ValueError(f"Column {shortened(self.name)} has {OTHER}; convert it.")
        if raw.form == "level":
            if not self.has_levels and not raw.levels:  # text without any value
                return np.full(len(raw.values), np.nan), []
            if not self.has_levels:
                raise ValueError(
                    f"Column {shortened(self.name)} had numbers in fit but has "
                    f"{shortened(raw.levels[0])} now; convert it to numbers."
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

    def as_given(self, values: Array) -> Array:
        """Encoded numbers in the user's units; undoes `as_encoded`."""
        return np.exp(values) - self.offset if self.kind == LOGGED else values

    def _coded(self, values: Array) -> tuple[Array, list[Value]]:
        """Numbers as codes of levels; 0 and 1 are truth values if those were seen."""
        place = {level: code for code, level in enumerate(self.levels)}
        found, at = np.unique(values, return_inverse=True)
        codes = np.array([place.get(value, np.nan) for value in found.tolist()])
        new = np.isnan(codes) & ~np.isnan(found)
        if self.has_number_levels:
            codes[new] = self.nearest_codes(found[new])
        return codes[at], found[new].tolist()

    def nearest_codes(self, values: Array) -> Array:
        """Codes of the levels nearest to numbers, of a column that `has_number_levels`."""
        levels = np.array(self.levels, dtype=float)
        return np.searchsorted((levels[1:] + levels[:-1]) / 2, values)

    def beyond(self, numbers: Array) -> Array:
        """How far numbers lie outside of the range that fit saw, in widths of the range, (n,).

        Of columns of ordered numbers; 0 within the range, and where missing.
        """
        values = np.where(np.isfinite(numbers), numbers, np.nan)
        low, high = np.array([self.levels[0], self.levels[-1]], dtype=float)
        away = np.maximum(np.maximum(low - values, values - high), 0.0)
        return np.nan_to_num(away) / max(high - low, np.finfo(float).tiny)

    def to_tell(self, unseen: Sequence[Value]) -> list[Value]:
        """Those of the levels that fit did not see that a user should know of.

        Numbers between ordered levels are not among them.
        """
        if not self.has_number_levels:
            return list(unseen)
        low, high = self.levels[0], self.levels[-1]
        return [value for value in unseen if not low <= value <= high]  # type: ignore[operator]  # numbers

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
                of = self.levels, self.ordered, self.categories
                return NewColumn(name, "level", self.dtype, codes, *of)
            known = np.array([*self.levels, np.nan])
            return NewColumn(name, self.form, self.dtype, known[codes])
        values = self.as_given(values)
        values = np.where(predicted, self.support.nearest(values, sampled), values)
        return NewColumn(name, self.form, self.dtype, values)

    def value(self, number: float, predicted: bool = False) -> Value:
        """The user's value of one number as `encode` makes it."""
        return self._plain(self.decode(np.array([float(number)]), predicted).plain()[0])

    def _plain(self, shown: Value) -> Value:
        """A Python value, which all frames take, of one that numpy gives."""
        if isinstance(shown, np.datetime64 | np.timedelta64):
            moment = shown.astype(f"{shown.dtype.kind}8[us]").item()
            return moment.date() if self.dtype == "Date" and moment is not None else moment
        return float(shown) if isinstance(shown, np.floating) else shown

    def text(self, number: float) -> str:
        """The user's value of one number as readable text."""
        return self.texts(np.array([float(number)]))[0]

    def texts(self, numbers: Array) -> list[str]:
        """The user's values of numbers as readable text."""
        decimals = self.decimals
        found = self.decode(np.asarray(numbers, dtype=float), self.form == "date").plain()
        return [self._text(self._plain(one), decimals) for one in found]

    def _text(self, shown: Value, decimals: int) -> str:
        if self.form == "date":
            return str(shown)[: 10 if self.whole else 16]
        if isinstance(shown, timedelta):
            minutes = round(shown / timedelta(minutes=1))
            return f"{minutes // 60}:{minutes % 60:02}"
        if isinstance(shown, float):
            # Logarithms of x + offset hardly resolve numbers far below the offset.
            shown = 0.0 if abs(shown) < 0.001 * self.offset else shown
            if decimals:
                return f"{shown:,.{decimals}f}"
            return (
                f"{shown:.0f}"
                if self.whole and self.has_levels
                else number_text(shown, self.support.step, self.are_years)
            )
        return str(shown)

    @property
    def decimals(self) -> int:
        """Decimals of numbers that are equal in their first three digits, as latitudes; else 0."""
        low, high = self.support.smallest, self.support.largest
        largest = max(abs(low), abs(high))
        if self.form != "number" or self.has_levels or not (low < high and 0.01 < largest < 1e15):
            return 0
        if 10.0 ** min(np.floor(np.log10(largest)) - 2, 0) <= 0.02 * (high - low):
            return 0
        most = round(-np.log10(self.support.step)) if self.support.step else 12
        return max(min(int(np.ceil(2.0 - np.log10(high - low))), most), 0)

    @property
    def are_years(self) -> bool:
        """Whether its numbers can all be years, which are written without a comma."""
        low, high = self.support.smallest, self.support.largest
        return bool(1000 <= low <= high <= 2100) and self.support.step == 1.0


def number_text(value: float, step: float = 0.0, years: bool = True) -> str:
    """A number as readable text: three digits, and all digits before the decimal point.

    Parameters
    ----------
    value : float
    step : float, default=0.0
        Resolution of its column, if there is one: there are no more decimals than the column has,
        and one for small averages of whole numbers.
    years : bool, default=True
        Whether whole numbers from 1900 to 2100 are years, which have no comma.

    Returns
    -------
    text : str

    Examples
    --------
    >>> from partwise.data.table import number_text
    >>> number_text(3360.4), number_text(0.12345), number_text(2013.0)
    ('3,360', '0.123', '2013')
    >>> number_text(5.006, step=0.1), number_text(0.246, step=0.1), number_text(2.31, step=1.0)
    ('5', '0.2', '2.3')
    >>> number_text(0.004, step=1.0), number_text(0.04, step=1.0)
    ('0', '0.04')
    >>> number_text(-0.0)
    '0'
    """
    value = value + 0.0  # no minus zero
    if step > 0 and np.isfinite(value):
        decimals = max(round(-np.log10(step)), 1 if abs(value) < 100 else 0)
        rounded = round(value, decimals)
        value = rounded + 0.0 if rounded or abs(value) < 0.01 * step else value
    if not np.isfinite(value) or not 1000 <= round(abs(value)) < 10**15:
        return f"{value:.3g}"
    is_year = years and 1900 <= value <= 2100 and value == round(value)
    return f"{value:.0f}" if is_year else f"{value:,.0f}"
