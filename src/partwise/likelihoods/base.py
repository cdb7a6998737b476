"""What a kind of entry (a *law*) offers, stated once; a new law is a child of `Family`.

``chi`` has the statistic on its first axis, (P, ...); the other axes (states, columns) are free,
and every function works entry by entry. Values are in model units unless a docstring says
otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.predictive import PlainValue, Predictive

if TYPE_CHECKING:
    from typing import Self

    from partwise.likelihoods.prior import Prior

# Mixture of states' values: (S, D) to (n, D).
Average: TypeAlias = Callable[[Array], Array]

# Model units to the user's, the last axis being the columns.
Decode: TypeAlias = Callable[[Array], Array]

# Values of numbers that the page has in tables; counts up to which it has each, and the ratio of
# those beyond.
PAGE_VALUES = 128
PAGE_COUNTS = 32
PAGE_RATIO = 1.1


class Law(ABC):
    """A kind of entry: which values it takes, and how the rest of the library treats them.

    Attributes
    ----------
    name : str
        As in ``likelihood=``, and in model files.
    family : Family
        Exponential family of the numbers that a model learns of.
    has_levels : bool
        Whether values are levels that are found in the data and stored as codes 0, 1, ...
    ordered : bool
        Whether levels have an order.
    latent : bool
        Whether every entry stands for a latent number of its own, known by its level only.
    own_levels : tuple of float or None
        Levels that the law brings along.
    scaled : bool
        Whether columns are brought to mean 0 and variance 1.
    has_units : bool
        Whether columns are shifted or scaled by their observed values.
    unit : float
        The user's units of a model unit, where columns are not ``scaled``.
    counts : bool
        Whether values are 0, 1, 2, ...
    linear : bool
        Whether differences of values are distances; those of levels and angles are not.
    absent_zero : bool
        Whether an entry that a sparse matrix does not store is zero unless the user says otherwise.
    takes_zeros : bool
        Whether entries that a sparse matrix does not store can be zeros at all: T(0) is 1, 0, ...
    calibrated : bool
        Whether intervals are calibrated on held-out cells.
    saved : tuple of str
        Names of what `state` gives.
    shares_or_means : bool
        Whether no T(x) is ever negative.
    explorer : str
        Which panels of the page serve a matrix of such entries.
    """

    name: ClassVar[str]
    has_levels: ClassVar[bool] = False
    latent: ClassVar[bool] = False
    own_levels: ClassVar[tuple[float, ...] | None] = None
    scaled: ClassVar[bool] = False
    has_units: ClassVar[bool] = False
    unit: ClassVar[float] = 1.0
    counts: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    absent_zero: ClassVar[bool] = False
    takes_zeros: ClassVar[bool] = True
    calibrated: ClassVar[bool] = False
    saved: ClassVar[tuple[str, ...]] = ()
    shares_or_means: ClassVar[bool] = False
    explorer: ClassVar[str] = "table"
    ordered: bool = False

    @property
    @abstractmethod
    def family(self) -> Family:
        """Exponential family of the numbers that a model learns of."""

    @classmethod
    def make(cls, prior: Prior | None, n_levels: int) -> Self:
        """The law under a prior, of so many levels if it has any."""
        return cls()

    def state(self) -> dict[str, PlainValue]:
        """What `restore` needs besides the prior, as plain values."""
        return {}

    @classmethod
    def restore(cls, state: Mapping[str, PlainValue], prior: Prior | None, n_levels: int) -> Self:
        """The law that `state` describes."""
        return cls.make(prior, n_levels)

    @classmethod
    def misfit(cls, state: Mapping[str, PlainValue], moments: Array) -> str | None:
        """The error in a state of a file or in the columns' mean T(x), (P, D); None without one."""
        missing = [name for name in cls.saved if name not in state]
        if missing:
            return f"has no entry {missing[0]!r}"
        if cls.shares_or_means and np.any(moments < 0):
            return "has shares or means below 0"
        return None

    @classmethod
    def check(cls, values: Array) -> str | None:
        """The error in the user's values (NaN is missing), None without one.

        The text goes on after "X has the value ": the first wrong value, what is needed, and what
        to do.
        """
        return None

    @classmethod
    def shifts(cls, lowest: Array) -> Array:
        """What is taken off columns that are not ``scaled``, by their lowest values; (D,)."""
        return np.zeros(len(lowest))

    def start_scores(self, values: Array, levels: Array | None) -> Array | None:
        """What a start compares columns by: (n, q) of the user's values (n,) of one column.

        None if the values themselves serve. NaN is missing.
        """
        return None

    def coarse(self, resolution: float) -> Self:
        """The law of entries known to within a variance, in units of the column's."""
        return self

    def encode(self, values: Array) -> Array:
        """Model units of values that are shifted and scaled; NaN stays NaN."""
        return values


class Family(Law):
    """An exponential family log p(x | eta) = log h(x) + T(x) . eta with its conjugate prior.

    ``powers`` says that T(x) = (1, x, x^2, ...), for which views have faster ways.
    """

    powers: ClassVar[bool] = False

    @property
    def family(self) -> Family:
        """The law itself."""
        return self

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """P, the number of sufficient statistics."""

    @property
    def n_parameters(self) -> int:
        """Free parameters of one state and column."""
        return self.n_statistics - 1

    @abstractmethod
    def statistics(self, values: Array) -> Array:
        """T(x) of values, (P, ...); the first is 1 unless values are levels."""

    def base(self, values: Array) -> Array:
        """Log base measure log h(x)."""
        return np.zeros(np.shape(values))

    def observed(self, sums: Array) -> Array:
        """Weight of the entries behind sums (P, ...) of statistics; (...)."""
        return sums[0]

    def smoothed(self, sums: Array) -> Array:
        """Mean T(x) of columns, (P, D), one usual entry added; from sums of T(x), (P, D)."""
        return (sums + self.statistics(np.full(sums.shape[1], 0.5))) / (sums[0] + 1.0)

    def constant(self, moments: Array, weight: Array) -> Array:
        """The value of columns that never change, by their smoothed mean T(x); (D,)."""
        return np.rint(moments[1])

    @staticmethod
    def strength(prior: Prior) -> float:
        """Rows that the prior of a column's parameters weighs."""
        return prior.counts

    @abstractmethod
    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Prior pseudo-sums (P, D) worth ``strength`` rows at the columns' mean T(x), (P, D)."""

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Whether pseudo-sums of a file are those of some entries.

        Counts are at least ``least``, and no number in model units is above ``most``.
        """
        return bool(np.all((chi[0] >= least) & (np.abs(chi) <= most)))

    @abstractmethod
    def natural(self, chi: Array) -> Array:
        """Posterior mean of the natural parameters, E[eta]."""

    @abstractmethod
    def log_partition(self, chi: Array) -> Array:
        """Log normalizer of the conjugate density with pseudo-sums ``chi``."""

    def learned(self, chi: Array) -> tuple[Array, Array]:
        """E[eta] and the log normalizer, for laws that compute both at once."""
        return self.natural(chi), self.log_partition(chi)

    @abstractmethod
    def predictive(self, chi: Array) -> Predictive:
        """Density of a new entry, the parameters integrated out."""

    @abstractmethod
    def point_natural(self, sums: Array) -> Array:
        """Natural parameters of maximum likelihood."""

    @abstractmethod
    def point_predictive(self, sums: Array) -> Predictive:
        """Density of a new entry at the maximum of the likelihood."""

    # Answers about entries in the user's units.

    def expected(self, told: Predictive, average: Average, decode: Decode) -> Array:
        """Expected entry of a mixture of states' distributions ``told`` (S, D); (n, D)."""
        return average(decode(told.mean))

    def likely(self, told: Predictive, average: Average, decode: Decode) -> Array:
        """Value to impute for a missing entry of such a mixture; (n, D)."""
        return self.expected(told, average, decode)

    def joined(self, values: Array, shift: Array) -> Array:
        """Average of what several fits expect, (F, n, D) in the user's units; (n, D)."""
        return np.mean(values, axis=0)

    def likely_code(self, shares: Array) -> Array:
        """The likeliest level, or of ordered ones the median, by shares with levels first."""
        if not self.ordered:
            return shares.argmax(axis=0).astype(float)
        return (np.cumsum(shares, axis=0) < 0.5 * shares.sum(axis=0)).sum(axis=0).astype(float)

    # What the page is told.

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """What the page infers with: ``told`` (J, n) and ``natural`` (P, J, n) of one part.

        As a rule that are tables over a `grid` of values, between which the page interpolates: what
        a value says for a state (expected log density) and its predictive log density, (J, n V).
        """
        grid = self.grid(told)
        T, base = self.statistics(grid), self.base(grid)
        says = np.moveaxis(np.tensordot(T, natural, axes=(0, 0)), 0, -1) + base  # (J, n, V)
        density = np.stack([told.log_density(np.asarray(value)) for value in grid], axis=-1) + base
        J = len(says)
        return {
            "law": "tabulated",
            "grid": [float(value) for value in grid],
            "says": says.reshape(J, -1),
            "density": density.reshape(J, -1),
            "mean": told.mean,
            "counts": self.counts,
        }

    def grid(self, told: Predictive) -> Array:
        """Values over which the page has tables, ascending; (V,)."""
        if self.counts:
            top = float(np.max(told.mean + 6.0 * np.sqrt(told.variance), initial=1.0))
            steps = np.arange(np.log(max(top, PAGE_COUNTS) / PAGE_COUNTS) / np.log(PAGE_RATIO) + 1)
            far = np.rint(PAGE_COUNTS * PAGE_RATIO ** (steps + 1.0))
            return np.unique(np.concatenate([np.arange(PAGE_COUNTS + 1.0), far]))
        if not told.mean.size:  # of a part without such columns
            return np.arange(2.0)
        edges = [told.quantile(p) for p in special.expit(np.linspace(-14.0, 14.0, PAGE_VALUES))]
        return np.unique(np.quantile(np.stack(edges), np.linspace(0.0, 1.0, PAGE_VALUES)))
