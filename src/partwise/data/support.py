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
        smallest, largest = float(found[0]), float(found[-1])
        step = _time_step(found) if times else _decimal_step(found, single)
        piled = counts >= max(PILED_VALUES, PILED_SHARE * len(values))
        constant = len(found) == 1
        low = (
            smallest if constant or piled[0] else 0.0 if smallest >= 0.0 and not times else -np.inf
        )
        high = largest if constant or piled[-1] else 0.0 if largest <= 0.0 and not times else np.inf
        return cls(low, high, smallest, largest, step)

    def nearest(self, values: Array, sampled: bool = False) -> Array:
        """The nearest possible values; samples also stay inside the observed range."""
        low, high = (self.smallest, self.largest) if sampled else (self.low, self.high)
        return np.clip(self._rounded(values), low, high)

    def _rounded(self, values: Array) -> Array:
        if not self.step:
            return values
        decimals = max(round(-np.log10(self.step)), 0)
        if np.isclose(10.0**-decimals, self.step, rtol=1e-12, atol=0.0):
            return np.round(values, decimals)  # to the float that is written so
        return np.rint(values / self.step) * self.step


def _decimal_step(found: Array, single: bool) -> float:
    """1, 0.1, 0.01, ... of which all distinct values are multiples; 0 if there is none."""
    close = 1e-6 if single else 1e-11
    size = np.maximum(np.abs(found), 1.0)
    for decimals in range(MOST_DECIMALS + 1):
        if np.all(np.abs(np.round(found, decimals) - found) <= close * size):
            # Few values may agree by chance, but not in whole numbers.
            return 10.0**-decimals if decimals == 0 or len(found) > FEW_VALUES else 0.0
    return 0.0


def _time_step(found: Array) -> float:
    """A day, an hour, a minute or a second of which all times are multiples; 0 if none is."""
    for step in TIME_STEPS:
        if np.all(np.abs(found / step - np.rint(found / step)) <= 1e-4):
            return step
    return 0.0
