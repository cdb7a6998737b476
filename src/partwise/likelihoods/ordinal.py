"""Ordered levels: a latent Gaussian number is observed as the interval between cuts that holds it.

Levels have no order in the categorical likelihood and equal distances in the Gaussian one; here the
distances come from how often each level occurs: cuts are quantiles of a standard Gaussian, pooled
over columns, whose own positions and spreads the model learns. The number itself is latent
(`partwise.models.ordinal`), so this is no exponential family and serves models of Gaussian numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from partwise._compiled import compiled
from partwise.contracts import Array
from partwise.likelihoods.base import Law
from partwise.likelihoods.gaussian import Gaussian
from partwise.likelihoods.predictive import PlainValue

if TYPE_CHECKING:
    from partwise.likelihoods.prior import Prior

# Ends of the first and the last interval, in deviates beyond which nothing lies.
FARTHEST = 30.0

# Least probability of an interval whose moments a float can tell.
LEAST_SHARE = 1e-290

ROOT_HALF = math.sqrt(0.5)
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class Ordinal(Law):
    """Levels between ``cuts``, (L - 1,), of a latent number."""

    cuts: tuple[float, ...]
    name: ClassVar[str] = "ordinal"
    has_levels: ClassVar[bool] = True
    shares_or_means: ClassVar[bool] = True
    saved: ClassVar[tuple[str, ...]] = ("cuts",)
    latent: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    ordered: ClassVar[bool] = True  # type: ignore[misc]  # of all

    @property
    def family(self) -> Gaussian:
        """That of the latent numbers."""
        return Gaussian()

    @classmethod
    def make(cls, prior: Prior | None, n_levels: int) -> Ordinal:
        """Cuts that make levels equally frequent."""
        return cls(cuts_of(np.ones(n_levels)))

    @classmethod
    def misfit(cls, state: Mapping[str, PlainValue], moments: Array) -> str | None:
        """Cuts rise between all levels."""
        told = super().misfit(state, moments)
        if told is not None:
            return told
        cuts = np.asarray(state["cuts"], dtype=float)
        if len(cuts) != len(moments) - 1:
            return f"has {len(cuts)} cuts between {len(moments)} levels"
        return "has cuts that do not rise" if np.any(np.diff(cuts) <= 0) else None

    def state(self) -> dict[str, PlainValue]:
        """The cuts."""
        return {"cuts": list(self.cuts)}

    @classmethod
    def restore(
        cls, state: Mapping[str, PlainValue], prior: Prior | None, n_levels: int
    ) -> Ordinal:
        """The law that `state` describes."""
        return cls(tuple(np.asarray(state["cuts"], dtype=float).tolist()))

    @property
    def ends(self) -> Array:
        """Lower ends of all levels, then the upper end of the last; (L + 1,)."""
        return np.concatenate([[-FARTHEST], self.cuts, [FARTHEST]])

    @property
    def scores(self) -> Array:
        """Mean of a standard Gaussian in each level, (L,)."""
        density = np.exp(-0.5 * self.ends**2) * DENSITY
        share = np.maximum(np.diff(special.ndtr(self.ends)), LEAST_SHARE)
        return np.clip(-np.diff(density) / share, self.ends[:-1], self.ends[1:])


def cuts_of(counts: Array) -> tuple[float, ...]:
    """Cuts that give a standard Gaussian the levels' shares, from their counts (L,)."""
    below = np.cumsum(counts)[:-1] / max(counts.sum(), 1.0)
    # A level that hardly occurs keeps its own interval, at either end of the scale alike.
    n = len(below)
    apart = 1e-6 * (np.arange(n) - 0.5 * (n - 1))
    room = 1e-6 * (1 + n)
    return tuple(special.ndtri(np.clip(below, room, 1.0 - room) + apart))


@compiled()
def interval_moments(a, b):  # type: ignore[no-untyped-def]  # compiled
    """Log share of a standard Gaussian between a and b, its mean and its mean square there."""
    flip = a > 0.0
    if flip:  # by the smaller tail, which keeps its digits
        a, b = -b, -a
    share = 0.5 * (math.erfc(-b * ROOT_HALF) - math.erfc(-a * ROOT_HALF))
    if share < LEAST_SHARE:
        # So far out that the density falls from the nearer end as an exponential does: to 1 / b^2.
        t, width = max(-b, 1.0), b - a
        rest = math.exp(-t * width)
        if t * width > 1e-6:
            held = -math.expm1(-t * width) / t
            away = 1.0 / t - width * rest / (t * held)
            away2 = 2.0 * away / t - width * width * rest / (t * held)
        else:
            held, away, away2 = max(width, LEAST_SHARE), 0.5 * width, width * width / 3.0
        log_share = math.log(DENSITY * held) - 0.5 * b * b
        mean, square = b - away, b * (b - 2.0 * away) + away2
    else:
        low, high = math.exp(-0.5 * a * a) * DENSITY, math.exp(-0.5 * b * b) * DENSITY
        mean, log_share = (low - high) / share, math.log(share)
        square = 1.0 + (a * low - b * high) / share
    return log_share, -mean if flip else mean, square
