"""The values that a numeric column can take, as far as its observed values show them.

A model of a column has its own support: a Gaussian is never bounded, and no density knows that
prices have two decimals. What a table shows of a column is kept here, and imputed values, interval
ends and samples are brought into it.

========  ==========================================================================================
bounds    an end is a bound if the observed values pile up there (months, percentages, censored
          times), if the column is constant, or if it is 0 and no value is negative
range     smallest and largest observed value; samples stay inside
step      resolution as recorded: whole numbers, decimals, days, minutes; 0 if none is found
========  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from partwise.contracts import Array

# Values pile up at an end if at least this many, and this share of all, are equal to it. Of a
# normal column in steps of a tenth of its deviation, the largest of 1000 values hardly ever has
# three copies.
PILED_VALUES = 3
PILED_SHARE = 0.005

# Decimals that are looked for; more are measured rather than recorded.
MOST_DECIMALS = 6

# Resolutions of dates and spans, in days: a day, an hour, a minute, a second.
TIME_STEPS = (1.0, 1.0 / 24.0, 1.0 / 1440.0, 1.0 / 86400.0)

# A column that has hardly more distinct values than this shows no resolution.
FEW_VALUES = 3


@dataclass(frozen=True)
class Ends:
    """Smallest and largest observed value, and the number of rows of each."""

    smallest: float
    largest: float
    n_smallest: int
    n_largest: int

    @staticmethod
    def of(found: Array, counts: Array) -> Ends:
        """The ends of sorted distinct values."""
        return Ends(float(found[0]), float(found[-1]), int(counts[0]), int(counts[-1]))

    def merged(self, other: Ends) -> Ends:
        """The ends of both."""
        low, high = min(self.smallest, other.smallest), max(self.largest, other.largest)
        both = (self, other)
        return Ends(
            low,
            high,
            sum(one.n_smallest for one in both if one.smallest == low),
            sum(one.n_largest for one in both if one.largest == high),
        )


@dataclass(frozen=True)
class Support:
    """Possible values of a column, in the user's units (dates: days).

    Attributes
    ----------
    low, high : float
        Bounds; infinite where there is none.
    smallest, largest : float
        Range of the observed values.
    step : float
        All observed values are multiples of it; 0 if there is no such number.
    """

    low: float = -np.inf
    high: float = np.inf
    smallest: float = -np.inf
    largest: float = np.inf
    step: float = 0.0

    @classmethod
    def of(cls, values: Array, times: bool = False, single: bool = False) -> Support:
        """Learn the support from observed values.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Finite numbers.
        times : bool
            Whether they are dates or spans in days.
        single : bool
            Whether they were recorded in single precision.

        Returns
        -------
        support : Support

        Examples
        --------
        >>> import numpy as np
        >>> from partwise.data.support import Support
        >>> months = Support.of(np.tile(np.arange(1.0, 13.0), 10))
        >>> months.low, months.high, months.step
        (1.0, 12.0, 1.0)
        >>> months.nearest(np.array([-2.7, 3.4, 21.0]))
        array([ 1.,  3., 12.])
        """
        found, counts = np.unique(values, return_counts=True)
        if not len(found):
            return cls()
        ends = Ends.of(found, counts)
        return cls.of_ends(
            ends, len(values), len(found), fitting_steps(found, times, single), times
        )

    @classmethod
    def of_ends(
        cls, ends: Ends, n_rows: int, n_distinct: int, fitting: Sequence[bool], times: bool
    ) -> Support:
        """The support from statistics that merge; ``fitting`` as from `fitting_steps`."""
        least = max(PILED_VALUES, PILED_SHARE * n_rows)
        constant = n_distinct == 1
        low, high = -np.inf, np.inf
        if constant or ends.n_smallest >= least:
            low = ends.smallest
        elif ends.smallest >= 0.0 and not times:
            low = 0.0
        if constant or ends.n_largest >= least:
            high = ends.largest
        elif ends.largest <= 0.0 and not times:
            high = 0.0
        step = _step(fitting, n_distinct, times)
        return cls(low, high, ends.smallest, ends.largest, step)

    def nearest(self, values: Array, sampled: bool = False) -> Array:
        """The nearest possible values; samples also stay inside the observed range."""
        low, high = (self.smallest, self.largest) if sampled else (self.low, self.high)
        return np.clip(self._rounded(values), low, high)

    def inward(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Ends whose nearest possible values are the first and last between these.

        Where no possible value lies between them, both become the middle.
        """
        # Of halves, since the difference of large ends would overflow.
        close = 0.5 * upper - 0.5 * lower < 0.5 * (1.0 - 1e-9) * self.step
        middle = 0.5 * lower + 0.5 * upper
        largest = np.finfo(float).max
        with np.errstate(over="ignore"):
            low = np.maximum(lower + self._half(lower), -largest)
            high = np.minimum(upper - self._half(upper), largest)
        return np.where(close, middle, low), np.where(close, middle, high)

    def _half(self, ends: Array) -> Array:
        """Half a step, less what rounding takes, so that possible values stay themselves."""
        rounding = 4.0 * np.finfo(float).eps * np.abs(ends)
        return 0.5 * (self.step - np.maximum(1e-9 * self.step, rounding))

    def _rounded(self, values: Array) -> Array:
        if not self.step:
            return values
        decimals = max(round(-math.log10(self.step)), 0)
        if math.isclose(10.0**-decimals, self.step, rel_tol=1e-12):
            with np.errstate(over="ignore"):
                return np.round(values, decimals)  # to the float that is written so
        return np.rint(values / self.step) * self.step


def fitting_steps(found: Array, times: bool, single: bool) -> tuple[bool, ...]:
    """Whether all distinct values are multiples of 1, 0.1, 0.01, ...; for times of `TIME_STEPS`."""
    if times:
        ratios = (found / step for step in TIME_STEPS)
        return tuple(bool(np.all(np.abs(x - np.rint(x)) <= 1e-4)) for x in ratios)
    close = (1e-6 if single else 1e-11) * np.maximum(np.abs(found), 1.0)
    with np.errstate(over="ignore"):  # numpy multiplies numbers to round them
        rounded = [np.round(found, decimals) for decimals in range(MOST_DECIMALS + 1)]
    return tuple(bool(np.all(np.abs(x - found) <= close)) for x in rounded)


def _step(fitting: Sequence[bool], n_distinct: int, times: bool) -> float:
    """The largest step that fits; 0 if there is none."""
    if not any(fitting):
        return 0.0
    first = list(fitting).index(True)
    if times:
        return TIME_STEPS[first]
    # Few values may agree by chance, but not in whole numbers.
    return 10.0**-first if first == 0 or n_distinct > FEW_VALUES else 0.0
