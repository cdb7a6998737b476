"""Column statistics that are learned before any model: units, levels, weights, constant columns.

A column group is a set of columns with one likelihood. Gaussian columns are shifted and scaled to
mean 0 and variance 1 inside the views (the squared form would lose digits otherwise, and values
around 1e30 would overflow); the log of the scale returns in the rows' base measure, so densities
are always those of the user's own units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np

from partwise.contracts import Array, DType
from partwise.data.indices import is_csr
from partwise.data.rows import Rows, RowSource, is_sparse, map_rows
from partwise.likelihoods import (
    ORDERED,
    Conjugate,
    Flat,
    Law,
    Ordinal,
    Prior,
    law_class,
    law_state,
    make_law,
    restore_law,
)
from partwise.likelihoods.base import Average
from partwise.likelihoods.ordinal import cuts_of
from partwise.likelihoods.predictive import PlainValue, Predictive
from partwise.likelihoods.prior import EntryPrior
from partwise.typing import Matrix

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class ColumnGroup:
    """Columns that share a likelihood, with their statistics.

    Attributes
    ----------
    index : ndarray of shape (D,)
        Their numbers in X.
    likelihood : Law
    shift, scale : ndarray of shape (D,)
        Model units are (x - shift) / scale.
    levels : ndarray of shape (V,) or None
        Categories, or ordered levels, in code order.
    weight : ndarray of shape (D,)
        C_d, the summed row weights of the observed entries.
    moments : ndarray of shape (P, D)
        Smoothed mean of T(x) in model units.
    varies : ndarray of shape (D,)
        False for columns that are constant or never observed.
    absent_zero : bool
        Whether an entry that a sparse matrix does not store is a zero (else it is missing).
    logged : bool
        Whether X holds logarithms of the user's values, whose densities are wanted.
    """

    index: Array
    likelihood: Law
    shift: Array
    scale: Array
    levels: Array | None
    weight: Array
    moments: Array
    varies: Array
    absent_zero: bool
    logged: bool = False

    def fields(self) -> dict[str, object]:
        """All but the likelihood, as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "likelihood"}

    def state(self) -> dict[str, object]:
        """Plain values, for a model file; `restore` reads them."""
        return {**self.fields(), **law_state(self.likelihood)}

    @classmethod
    def restore(cls, state: dict[str, PlainValue], prior: Prior | None) -> ColumnGroup:
        """What `state` describes."""
        own = {f.name: state[f.name] for f in fields(cls) if f.name in state}
        # The state is read from a file, whose levels are an array or None.
        n_levels = 0 if own["levels"] is None else np.size(own["levels"])  # type: ignore[arg-type]
        law = restore_law(state, prior, n_levels)
        return cls(likelihood=law, **own)  # type: ignore[arg-type]  # a file has been checked

    def take(self, which: Array) -> ColumnGroup:
        """The group of some of these columns."""
        per_column = ("index", "shift", "scale", "weight", "varies")
        chosen = {name: getattr(self, name)[which] for name in per_column}
        return replace(self, **chosen, moments=self.moments[:, which])

    def with_columns(self, X: Rows, prior: Prior | None) -> ColumnGroup:
        """These columns and those of X after them, coded in the same way."""
        entries, law = ColumnEntries(X, np.ones(X.shape[0])), self.likelihood
        if self.levels is None:
            new = _learn_numbers(entries, law, self.absent_zero)
        else:
            new = _learn_levels(entries, self.absent_zero, ORDERED, self.levels)
            new = _order_levels(new, self) if law.latent else new
        moments = np.hstack([self.moments, new.moments])
        return replace(
            self,
            index=np.arange(moments.shape[1]),
            shift=np.concatenate([self.shift, new.shift]),
            scale=np.concatenate([self.scale, new.scale]),
            weight=np.concatenate([self.weight, new.weight]),
            varies=np.concatenate([self.varies, new.varies]),
            moments=moments,
        )

    def relearned(self, X: Rows, row_weight: Array) -> ColumnGroup:
        """Columns of the same kind of numbers, by other rows."""
        return _learn_numbers(ColumnEntries(X, row_weight), self.likelihood, self.absent_zero)

    def entry_prior(self, prior: Prior | None) -> EntryPrior:
        """The prior of this group's parameters."""
        family = self.likelihood.family
        if prior is None:
            return Flat(family)
        return Conjugate(family, family.pseudo_sums(self.moments, family.strength(prior)))

    def changed_by(self, X: Rows, row_weight: Array) -> Array:
        """Which constant columns have another value in some rows, dense or CSR; (D,)."""
        if self.levels is not None:
            constant = self.levels[self.moments.argmax(axis=0)]
        else:
            constant = self.decode(self.likelihood.family.constant(self.moments, self.weight))
        # Means of constant columns are rounded.
        stored, same = ColumnEntries(X, row_weight).sums(
            lambda x, _: np.ones_like(x),
            lambda x, d: np.isclose(x, constant[d], rtol=1e-6, atol=0.0),
        )
        changed = same < stored * (1.0 - 1e-12)
        if self.absent_zero:
            changed |= (stored < row_weight.sum()) & (constant != 0)
        return changed

    @cached_property
    def log_scale(self) -> Array:
        """Log of the units, which densities of the user's values lose; shape (D,)."""
        return np.log(self.scale)

    def encode(self, values: Array, columns: Array, name: str = "X") -> Array:
        """Model units of ``values`` standing in ``columns`` (broadcast); NaN stays NaN."""
        _check(type(self.likelihood), values, name)
        if self.levels is not None:
            position = np.searchsorted(self.levels, values)
            position = np.minimum(position, len(self.levels) - 1)
            known = (self.levels[position] == values) | np.isnan(values)
            if not known.all():
                unseen = np.asarray(values)[~known].ravel()[0]
                raise ValueError(
                    f"{name} has the category {unseen:g}, which was not seen in fit "
                    f"(known: {_listing(self.levels)}); set such entries to NaN to treat them "
                    "as missing."
                )
            return np.where(np.isnan(values), np.nan, position)
        if self.likelihood.scaled:
            most = largest_value(values.dtype)
            shift, scale = 0.5 * self.shift[columns], self.scale[columns]
            # Halves, since a difference may be beyond the largest number. R's NA signals.
            with np.errstate(over="ignore", invalid="ignore"):
                return np.clip((0.5 * values - shift) / scale * 2.0, -most, most)
        values = values - self.shift[columns] if self.shift.any() else values
        unit = self.likelihood.unit
        return self.likelihood.encode(values if unit == 1.0 else values / unit)

    @property
    def plain_numbers(self) -> bool:
        """Whether values are only shifted and scaled."""
        number = self.likelihood.scaled and self.levels is None
        return number and type(self) is ColumnGroup and not self.logged

    @property
    def known_levels(self) -> Array | None:
        """Levels in code order, found or the law's own; None for numbers."""
        own = self.likelihood.own_levels
        return self.levels if own is None else np.array(own)

    @property
    def ends(self) -> Array:
        """Lower ends of ordered levels in model units, then the last's upper end; (D, L + 1)."""
        assert isinstance(self.likelihood, Ordinal)
        return (self.likelihood.ends - self.shift[:, None]) / self.scale[:, None]

    @property
    def latent_widths(self) -> Array:
        """How many latent numbers an entry has, as `CopulaColumns` says it; (D,)."""
        return np.ones(len(self.index), np.int64)

    def decode(self, values: Array) -> Array:
        """User's units of model-unit ``values`` whose last axis runs over the columns."""
        if self.levels is not None:
            return self.levels[np.clip(np.rint(values), 0, len(self.levels) - 1).astype(int)]
        if float(self.scale.max(initial=0.0)) <= _WIDE:
            return values * self.scale + self.shift
        half = 0.5 * np.finfo(float).max
        with np.errstate(over="ignore"):
            return 2.0 * np.clip(0.5 * values * self.scale + 0.5 * self.shift, -half, half)

    def decode_mean(self, values: Array) -> Array:
        """As `decode`, for expectations: level values are averaged, not picked."""
        if self.levels is None:
            return self.decode(values)
        return np.interp(values, np.arange(len(self.levels)), self.levels)

    def base(self, values: Array, columns: Array) -> Array:
        """Log base measure of each encoded value, 0 where it is NaN."""
        if self.levels is not None:  # levels have no units
            return np.zeros(values.shape)
        out = self.likelihood.family.base(values) - self.log_scale[columns]
        if self.logged:  # the density of x is that of log x, over x
            out = out - (values * self.scale[columns] + self.shift[columns])
        return np.where(np.isnan(values), 0.0, out)

    def absent_base(self) -> Array:
        """Log base measure of a zero that a sparse matrix does not store, in each column; (D,)."""
        zeros = np.zeros(len(self.index))
        return self.base(zeros, np.arange(len(zeros)))

    def expected(self, told: Predictive, average: Average) -> Array:
        """Expected entries of mixtures of states' distributions (S, D), in X's units; (n, D)."""
        return self.likelihood.family.expected(told, average, self.decode_mean)

    def state_means(self, told: Predictive) -> Array:
        """Expected values of entries in every state, in X's units; (S, D).

        Of logarithms, that of what the user's values are expected to be.
        """
        if not self.logged:
            return self.decode_mean(told.mean)
        return self.decode(told.mean) + 0.5 * np.minimum(told.variance, 1.0) * self.scale**2

    def likely(self, told: Predictive, average: Average) -> Array:
        """Imputed values of missing entries under such mixtures, in X's units; (n, D)."""
        if not self.logged:
            return self.likelihood.family.likely(told, average, self.decode)
        means = self.state_means(told)
        top = means.max(axis=0)
        return top + np.log(np.maximum(average(np.exp(means - top)), 1e-300))


# Least unit of a column: twice its inverse, which kernels multiply with, is finite.
MIN_SCALE = 4 * float(np.finfo(float).tiny)

# Numbers in larger units may be beyond the largest number.
_WIDE = 1e150


def largest_value(dtype: DType) -> float:
    """Largest number in model units: the square of any beyond would overflow."""
    return 1e15 if dtype == np.float32 else 1e100


def _listing(values: Array, most: int = 8) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:most])
    return shown + (", ..." if len(values) > most else "")


def _check(law: type[Law], values: Array, name: str) -> None:
    """Refuse values that the law cannot have made."""
    wrong = law.check(values)
    if wrong is not None:
        raise ValueError(f"{name} has the value {wrong}")


# A categorical column with more levels than this is rather a number, and its tables would be large.
MOST_LEVELS = 256


class Kind(NamedTuple):
    """What a column of a table with columns of several kinds is.

    ``likelihood`` is one of `learn_columns`, "" for a column that no model sees; ``n_levels`` that
    of levels coded 0, 1, ...; ``logged`` as in `ColumnGroup`.
    """

    likelihood: str
    n_levels: int = 0
    logged: bool = False


def learn_columns(
    X: Rows,
    kinds: str | Sequence[Kind],
    row_weight: Array,
    absent_zero: bool,
    prior: Prior | None,
) -> tuple[ColumnGroup, ...]:
    """Learn the column groups of dense (NaN missing) or CSR data.

    ``kinds`` is the likelihood of all columns, "ordered" being categories that have an order, or
    the kind of each: columns of one kind make a group.
    """
    if isinstance(kinds, str):
        return (_learn_group(X, Kind(kinds), row_weight, absent_zero, prior),)
    groups = []
    for kind in sorted(set(kinds)):
        index = np.flatnonzero([one == kind for one in kinds])
        if kind.likelihood:
            group = _learn_group(some_columns(X, index), kind, row_weight, absent_zero, prior)
            groups.append(replace(group, index=index))
    return tuple(groups)


def some_columns(X: Rows, index: Array) -> Rows:
    """Some columns of rows in memory, or all columns; a column may be named several times."""
    if len(index) == X.shape[1] and np.array_equal(index, np.arange(len(index))):
        return X
    if isinstance(X, RowSource):
        return X.some_columns(index)
    return X[:, index]


def by_column(
    columns: Sequence[ColumnGroup], values: Sequence[Array], n_columns: int, other: float = 0.0
) -> Array:
    """Values (..., D_g) of every group, put at their columns; (..., D).

    Columns of no group get the value ``other``.
    """
    if len(columns) == 1 and len(columns[0].index) == n_columns:
        return values[0]
    shape = (*values[0].shape[:-1], n_columns)
    out = np.full(shape, other, np.result_type(*values))
    for group, own in zip(columns, values, strict=True):
        out[..., group.index] = own
    return out


def _learn_group(
    X: Rows, kind: Kind, row_weight: Array, absent_zero: bool, prior: Prior | None
) -> ColumnGroup:
    """Learn columns of one kind."""
    entries, name = ColumnEntries(X, row_weight), kind.likelihood
    absent_zero = absent_zero and entries.sparse
    if not law_class(name).has_levels:
        group = _learn_numbers(entries, make_law(name, prior), absent_zero)
        return replace(group, logged=kind.logged)
    levels = np.arange(float(kind.n_levels)) if kind.n_levels else None
    group = _learn_levels(entries, absent_zero, name, levels)
    return _order_levels(group) if group.likelihood.latent else group


def _learn_levels(
    entries: ColumnEntries, absent_zero: bool, name: str, levels: Array | None = None
) -> ColumnGroup:
    """Categories, found if not given, and how often each stands in every column."""
    if levels is None:
        found = list(entries.each(lambda values, *_: np.unique(values[~np.isnan(values)])))
        levels = np.unique(np.concatenate([*found, [0.0]] if absent_zero else found))
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f'X has {len(levels)} different values, too many for likelihood="{name}" '
            f'(at most {MOST_LEVELS}); choose likelihood="gaussian" or bin the values.'
        )
    levels = levels if len(levels) else np.array([0.0])
    counts = entries.sums(*(partial(_equals, v) for v in levels))
    weight = counts.sum(axis=0)
    if absent_zero:
        counts[np.searchsorted(levels, 0.0)] += entries.row_weight.sum() - weight
        weight = counts.sum(axis=0)
    D = entries.n_columns
    return ColumnGroup(
        np.arange(D),
        make_law(name, None, len(levels)),
        np.zeros(D),
        np.ones(D),
        levels,
        weight,
        (counts + 1.0 / len(levels)) / (weight + 1.0),
        (counts > 0).sum(axis=0) > 1,
        absent_zero,
    )


def _order_levels(group: ColumnGroup, like: ColumnGroup | None = None) -> ColumnGroup:
    """The same levels as intervals of a latent number, in units of its spread within columns.

    Intervals and units are those of the columns ``like``, if given.
    """
    assert group.levels is not None
    if like is not None:
        law, shift, scale = like.likelihood, like.shift[0], like.scale[0]
    else:
        counts = group.moments * (group.weight + 1.0) - 1.0 / len(group.levels)  # as learned
        law = Ordinal(cuts_of(counts.sum(axis=1)))
        first, second = law.scores @ counts, law.scores**2 @ counts
        total = max(group.weight.sum(), 1.0)
        shift = first.sum() / total
        within = second.sum() - (first**2 / np.maximum(group.weight, 1.0)).sum()
        scale = np.sqrt(max(within / total, 1e-6))
    return replace(
        group,
        likelihood=law,
        shift=np.full(len(group.weight), shift),
        scale=np.full(len(group.weight), scale),
        varies=group.weight > 0,
    )


def _equals(level: float, values: Array, columns: Array) -> Array:
    return values == level


def _learn_numbers(entries: ColumnEntries, law: Law, absent_zero: bool) -> ColumnGroup:
    """Weights, units and means of statistics."""
    D, family = entries.n_columns, law.family
    if absent_zero and not law.takes_zeros:
        raise ValueError(
            'sparse_absent="zero" is for entries that are zero as a rule, which angles are not; '
            'choose sparse_absent="unobserved".'
        )
    found = reduce(add, entries.each(partial(_moments, type(law), D)))
    if absent_zero:
        zeros = entries.row_weight.sum() - found.weight
        nothing = np.zeros(D)
        found = found + Moments(zeros, found.size, nothing, nothing, nothing)
    weight, size, mean, squares, lowest = found
    size = np.where(size > np.finfo(float).tiny, size, 1.0)
    variance = squares / np.maximum(weight, np.finfo(float).tiny)
    # Rounding of the mean leaves about (1e-16 mean)^2 in a constant column's variance.
    varies = (weight > 0) & (variance > 1e-28 * mean**2)
    shift, scale = np.zeros(D), np.ones(D)
    if law.scaled:
        scale = np.where(varies, np.sqrt(variance), 1.0) * size
        scale = np.maximum(scale, MIN_SCALE)
        if not absent_zero:
            # The mean of a constant is rounded: what is left would be noise in units of others.
            shift = np.where((weight > 0) & ~varies, lowest, mean * size)
        m = (mean * size - shift) / scale
        moments = np.stack([np.ones(D), m, m**2 + 1.0])
    elif family.powers:
        moments = family.smoothed(np.stack([weight, mean * size * weight]))
    else:
        shift, scale = law.shifts(lowest), np.full(D, law.unit)
        sums = entries.sums(
            *(partial(_statistic, law, shift, p) for p in range(family.n_statistics))
        )
        sums[0] = weight
        moments = family.smoothed(sums)
    return ColumnGroup(np.arange(D), law, shift, scale, None, weight, moments, varies, absent_zero)


def _statistic(law: Law, shift: Array, p: int, values: Array, columns: Array) -> Array:
    """T_p of some values, 0 where they are missing."""
    coded = law.family.encode((values - shift[columns]) / law.unit)
    return law.family.statistics(np.where(np.isnan(coded), 0.0, coded))[p]


class ColumnEntries:
    """Values with their columns and weights, dense or CSR, in memory or not, for column totals."""

    def __init__(self, X: Rows, row_weight: Array) -> None:
        self.X = X
        self.sparse = is_sparse(X)
        self.n_columns = X.shape[1]
        self.row_weight = row_weight

    def each(self, function: Callable[[Array, Array, Array], Found]) -> Iterator[Found]:
        """``function(values, columns, weights)``, which broadcast together, of some rows a time."""
        return map_rows(self.X, partial(_on_entries, function), self.row_weight)

    def sums(self, *functions: Callable[[Array, Array], Array]) -> Array:
        """Weighted column sums of ``function(values, columns)``, missing left out; (F, D)."""

        D = self.n_columns

        def on_rows(*entries: Array) -> Array:
            return np.stack([_column_sums(f, D, *entries) for f in functions])

        return np.sum(list(self.each(on_rows)), axis=0)


def _on_entries(
    function: Callable[[Array, Array, Array], Found], rows: Matrix, weight: Array
) -> Found:
    if is_csr(rows):
        return function(rows.data, rows.indices, np.repeat(weight, np.diff(rows.indptr)))
    return function(rows, np.arange(rows.shape[1]), weight[:, None])


def _column_sums(
    function: Callable[[Array, Array], Array], D: int, values: Array, columns: Array, weights: Array
) -> Array:
    """Weighted sums of some rows, in float64; (D,)."""
    with np.errstate(invalid="ignore"):  # R's NA is a NaN that signals
        found = np.where(np.isnan(values), 0.0, function(values, columns))
    if weights.ndim == 2:
        return weights[:, 0] @ found
    return np.bincount(columns, weights * found, minlength=D)


class Moments(NamedTuple):
    """Of every column: weight, a power of two near the largest value, mean, squares, lowest value.

    Mean and squares are in units of that power: no overflow for values around 1e-30 or 1e30. As
    squares are taken about the mean of some rows, and such are then joined, nothing cancels.
    """

    weight: Array
    size: Array
    mean: Array
    squares: Array
    lowest: Array

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]  # sums, not a longer tuple
        size = np.maximum(self.size, other.size)
        a, b = self.in_units(size), other.in_units(size)
        weight = a.weight + b.weight
        share = b.weight / np.maximum(weight, np.finfo(float).tiny)
        apart = b.mean - a.mean
        squares = a.squares + b.squares + apart**2 * a.weight * share
        lowest = np.minimum(self.lowest, other.lowest)
        return Moments(weight, size, a.mean + apart * share, squares, lowest)

    def in_units(self, size: Array) -> Moments:
        """The same moments in another unit."""
        ratio = self.size / size
        return Moments(self.weight, size, self.mean * ratio, self.squares * ratio**2, self.lowest)


def _moments(law: type[Law], D: int, values: Array, columns: Array, weights: Array) -> Moments:
    """Moments of some rows' stored entries, which the law must be able to make."""
    _check(law, values, "X")
    largest, lowest = np.zeros(D), np.full(D, np.inf)
    # np.fmax and np.fmin forget what was before a NaN that signals, such as R's NA.
    hidden = np.isnan(values)
    sizes, values_or_inf = np.where(hidden, 0.0, np.abs(values)), np.where(hidden, np.inf, values)
    if weights.ndim == 2:
        largest = sizes.max(axis=0, initial=0.0).astype(float)
        lowest = values_or_inf.min(axis=0, initial=np.inf).astype(float)
    else:
        np.maximum.at(largest, columns, sizes)
        np.minimum.at(lowest, columns, values_or_inf)
    # Columns of zeros, or of nothing, are measured by the least unit: any other takes over.
    power = np.floor(np.log2(np.where(largest > 0, largest, np.finfo(float).tiny)))
    size = np.exp2(np.minimum(power, 1023.0))  # the logarithm of the largest number is rounded up

    def sums(function: Callable[[Array, Array], Array]) -> Array:
        return _column_sums(function, D, values, columns, weights)

    weight = sums(lambda x, _: np.ones_like(x))
    mean = sums(lambda x, d: x / size[d]) / np.maximum(weight, np.finfo(float).tiny)
    squares = sums(lambda x, d: (x / size[d] - mean[d]) ** 2)
    return Moments(weight, size, mean, squares, lowest)
