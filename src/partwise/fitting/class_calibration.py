"""Class probabilities from densities: the levels of noise that classes share, and a calibration.

Both are learned from held-out rows, by mixtures that were fitted without them from the beginning:
parameters that were fitted with a row and then changed by some steps without it still remember it,
the more so the less noise there is, and the noise that they prefer is too small.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import optimize, special

from partwise.contracts import Array
from partwise.data import BlockSource
from partwise.fitting.component_fit import ClassFit
from partwise.fitting.component_space import FOLDS
from partwise.models.bayesian_pca import pieces
from partwise.starts.principal import kinds_of_rows

# Levels of the noise that classes share, in units of the columns' mean variance; then half and
# twice the best. By its own rows alone a class has next to no noise in directions in which they
# hardly vary, and one anomalous pixel decides.
NOISES = (0.00125, 0.005, 0.02, 0.08, 0.32)

# Levels within this factor of the best are pooled. On four cuts of the USPS training digits three
# levels made 1.63 % errors, the best alone 1.85 %, five levels 1.74 %, and weights learned for each
# of seven 1.78 %.
POOLED = 2.0

# Components of a class that are tried beside the number that the ELBO selects, and the least weight
# of its rows for each. What classifies best need not be the best density: on USPS training digits
# 8 components for all had a lower loss than the 1 to 5 of the ELBO.
SIZES = (8, 16)
LEAST_ROWS = 10

# Weight of the rows held out: as many folds as it takes. A fold costs a fit at every level.
ENOUGH_HELD_OUT = 100

# Limits of the logarithm of a slope, for rows of which none is misclassified.
LOG_SLOPES = (-12.0, 3.0)

# Classes with fewer rows each have their own noise, and their densities are not calibrated.
LEAST_CLASS = 2 * FOLDS


class Level(NamedTuple):
    """A noise that all classes share, each its own if None; components of a class, None by ELBO."""

    noise: float | None
    n_components: int | None = None


# Fits every class to these rows of it.
FitAll: TypeAlias = Callable[[Level, list[Array]], list[ClassFit]]


class Asked(NamedTuple):
    """What is chosen: no noise if each class has ``learned`` its own, sizes too, and a pool."""

    learned: bool
    sizes: bool
    pooled: bool


class Pool(NamedTuple):
    """Levels, the best first, with their slopes, and offsets (N,)."""

    levels: tuple[Level, ...]
    slopes: Array
    offsets: Array


@dataclass
class LeftOut:
    """Rows of several classes, each held out with a fold of its class.

    ``source(X)`` codes rows (C, D); ``parts`` are the rows of each class, ``shares`` (N,) their
    prior.
    """

    source: Callable[[Array], BlockSource]
    X: Array
    weight: Array
    parts: list[Array]
    shares: Array
    fold: Array | None = None  # part that each row is left out with, -1 for none

    def cut(self, rng: np.random.Generator) -> LeftOut:
        """Choose the parts, unless classes are too small or there is but one.

        Equal rows of a class are left out together: a row given twice is one of weight two.
        """
        kinds = [kinds_of_rows(self.X[rows]) for rows in self.parts]
        if len(kinds) > 1 and min(len(first) for first, _ in kinds) >= LEAST_CLASS:
            self.fold = np.full(self.X.shape[0], -1)
            for rows, (first, place) in zip(self.parts, kinds, strict=True):
                self.fold[rows] = (rng.permutation(len(first)) % FOLDS)[place]
        return self

    def choose(self, fit_all: FitAll, asked: Asked, deadline: float) -> Pool:
        """The noises and sizes under which held-out rows are classified best, and a calibration.

        The middle noise is tried first; levels that are not reached in time are skipped.
        """
        if self.fold is None:
            return Pool((Level(None),), np.ones(1), np.zeros(len(self.parts)))
        labels = np.full(self.X.shape[0], -1)
        for c, rows in enumerate(self.parts):
            labels[rows] = c
        out = [np.flatnonzero(self.fold == f) for f in range(FOLDS)]
        held = np.cumsum([self.weight[rows].sum() for rows in out])
        out = out[: int(np.searchsorted(held, ENOUGH_HELD_OUT)) + 1]
        some = np.concatenate(out)
        log_prior = np.log(self.shares)[:, None]
        scores: dict[Level, Array] = {}
        found: dict[Level, tuple[float, float]] = {}

        def calibrated(held_out: Array) -> tuple[float, float]:
            return fit_slope(held_out + log_prior, labels[some], self.weight[some])

        def best_of(levels: Iterable[Level]) -> Level:
            for level in levels:
                if not found or time.monotonic() < deadline:
                    scores[level] = np.hstack(
                        [self._held_out(f, rows, level, fit_all) for f, rows in enumerate(out)]
                    )
                    found[level] = calibrated(scores[level])
            return min(found, key=lambda level: found[level][0])

        if asked.learned:
            chosen = [best_of([Level(None)])]
        else:
            middle = float(np.median(NOISES))
            every = sorted(NOISES, key=lambda noise: abs(np.log(noise / middle)))
            best = best_of(Level(noise) for noise in every)
            best = best_of(_beside(best))
            fewest = min(self.weight[rows].sum() for rows in self.parts)
            for M in SIZES:
                if asked.sizes and fewest >= LEAST_ROWS * M:
                    best_of(Level(level.noise, M) for level in [best, *_beside(best)])
            best = min(found, key=lambda level: found[level][0])
            chosen = [best, *(level for level in _beside(best) if asked.pooled and level in found)]
        slopes = np.array([found[level][1] for level in chosen])
        # Every level has the same say: log densities at little noise differ by more nats.
        slopes /= slopes.sum()
        pooled = [share * scores[level] for share, level in zip(slopes, chosen, strict=True)]
        _, slope = calibrated(np.sum(pooled, axis=0))
        # The slope is of the joint density; answers add the classes' log shares as they are.
        return Pool(tuple(chosen), slope * slopes, (slope - 1.0) * log_prior[:, 0])

    def _held_out(self, f: int, rows: Array, level: Level, fit_all: FitAll) -> Array:
        """Log densities (N, n) of the rows of a fold, which the mixtures never saw."""
        assert self.fold is not None
        blocks = list(self.source(self.X[rows]).blocks())
        scores = []
        for fit in fit_all(level, [part[self.fold[part] != f] for part in self.parts]):
            params = fit.space.in_columns(fit.params)
            views = [view for block in blocks for _, view in pieces(params, block)]
            found = [fit.space.model.predictive(params, view)[0].log_z for view in views]
            scores.append(np.concatenate(found))
        return np.stack(scores)


def _beside(level: Level) -> list[Level]:
    """Half and twice the noise."""
    assert level.noise is not None
    M = level.n_components
    return [Level(level.noise / POOLED, M), Level(level.noise * POOLED, M)]


def fit_slope(joint: Array, labels: Array, weight: Array) -> tuple[float, float]:
    """Loss and slope that predict labels best from joint log densities of rows and classes (N, n).

    Densities in many dimensions are overconfident; the slope makes probabilities less certain, and
    the most probable class stays that of Bayes' rule.
    """
    joint = joint - joint.max(axis=0)
    rows = np.arange(len(labels))

    def loss(log_slope: float) -> float:
        log_p = np.exp(log_slope) * joint
        log_p = log_p - special.logsumexp(log_p, axis=0)
        return float(-weight @ log_p[labels, rows])

    found = optimize.minimize_scalar(loss, bounds=LOG_SLOPES, method="bounded")
    return float(found.fun), float(np.exp(found.x))
