"""Entries of V levels with a Dirichlet posterior: T(x) is one-hot, chi are the counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods.base import Average, Decode, Family
from partwise.likelihoods.gamma import (
    LEAST_COUNT,
    MOST_COUNT,
    expected_logs,
    log_beta,
    logs_and_beta,
)
from partwise.likelihoods.predictive import Levels, PlainValue, Predictive

if TYPE_CHECKING:
    from partwise.likelihoods.prior import Prior

# Keeps log p finite at maximum likelihood for levels a state has not seen.
PROBABILITY_FLOOR = 1e-10


@dataclass(frozen=True)
class Categorical(Family):
    """Probabilities of ``n_levels`` levels.

    Whether they are ``ordered`` changes no probability, only what is said of a whole distribution:
    its median and intervals instead of the likeliest level.
    """

    n_levels: int
    ordered: bool = False
    name: ClassVar[str] = "categorical"
    has_levels: ClassVar[bool] = True
    shares_or_means: ClassVar[bool] = True
    saved: ClassVar[tuple[str, ...]] = ("ordered",)
    linear: ClassVar[bool] = False

    @property
    def n_statistics(self) -> int:
        """One per level."""
        return self.n_levels

    @classmethod
    def make(cls, prior: Prior | None, n_levels: int) -> Categorical:
        """Levels without order."""
        return cls(n_levels)

    def state(self) -> dict[str, PlainValue]:
        """Whether levels have an order."""
        return {"ordered": self.ordered}

    @classmethod
    def restore(
        cls, state: Mapping[str, PlainValue], prior: Prior | None, n_levels: int
    ) -> Categorical:
        """The law that `state` describes."""
        return cls(n_levels, bool(state["ordered"]))

    def start_scores(self, values: Array, levels: Array | None) -> Array | None:
        """A yes or no for each of several levels that have no order."""
        if self.ordered or levels is None or len(levels) <= 2:
            return None
        return values[:, None] == levels

    def statistics(self, values: Array) -> Array:
        """One-hot, of codes."""
        levels = np.arange(self.n_levels).reshape(-1, *[1] * np.ndim(values))
        return (values == levels).astype(float)

    def observed(self, sums: Array) -> Array:
        """Every entry has one level."""
        return sums.sum(axis=0)

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Dirichlet with the column's shares, worth ``strength`` rows per level."""
        return strength * self.n_levels * moments

    def is_proper(self, chi: Array, least: float, most: float) -> bool:
        """Counts of every level."""
        least = max(least, LEAST_COUNT) if least > 0 else least
        return bool(np.all((chi >= least) & (chi <= min(most, MOST_COUNT))))

    def natural(self, chi: Array) -> Array:
        """E[log p] of each level."""
        return expected_logs(chi)

    def log_partition(self, chi: Array) -> Array:
        """Log of the multivariate Beta function."""
        return log_beta(chi)

    def learned(self, chi: Array) -> tuple[Array, Array]:
        """Both in one walk."""
        return logs_and_beta(chi)

    def predictive(self, chi: Array) -> Levels:
        """Posterior mean of the probabilities."""
        return Levels(chi / chi.sum(axis=0), self.ordered)

    def _point(self, sums: Array) -> Array:
        total = sums.sum(axis=0)
        empty = total <= 0
        p = np.where(empty, 1.0 / self.n_levels, sums / np.where(empty, 1.0, total))
        p = np.maximum(p, PROBABILITY_FLOOR)
        return p / p.sum(axis=0)

    def point_natural(self, sums: Array) -> Array:
        """Log shares of the levels in the state."""
        return np.log(self._point(sums))

    def point_predictive(self, sums: Array) -> Levels:
        """Shares of the levels in the state."""
        return Levels(self._point(sums), self.ordered)

    def likely(self, told: Predictive, average: Average, decode: Decode) -> Array:
        """The likeliest level, or of ordered ones the median."""
        assert isinstance(told, Levels)
        return decode(self.likely_code(told.shares(average)))

    def page(self, told: Predictive, natural: Array) -> dict[str, PlainValue]:
        """Logarithms and probabilities of the levels."""
        assert isinstance(told, Levels)
        return told.page(natural)
