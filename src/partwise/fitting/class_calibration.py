"""Class probabilities from densities: the noise that classes share, and a calibration.

Both are learned by cross-validation in five folds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from partwise.contracts import Array
from partwise.data import BlockSource
from partwise.fitting.component_fit import ClassFit
from partwise.fitting.component_space import FOLDS, Space
from partwise.models.bayesian_pca import BayesianPCAParams, pieces
from partwise.starts.principal import kinds_of_rows

# Levels of the noise that classes share, in units of the columns' mean variance; then half and
# twice the best. By its own rows alone a class has next to no noise in directions in which they
# hardly vary, and one anomalous pixel decides; the level is selected on held-out rows.
NOISES = (0.00125, 0.005, 0.02, 0.08, 0.32)

# Classes with fewer rows each have their own noise, and their densities are not calibrated.
LEAST_CLASS = 2 * FOLDS


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

    def choose_noise(
        self, fit_all: Callable[[float], list[ClassFit]], deadline: float
    ) -> list[ClassFit]:
        """Fits of all classes with the noise under which held-out rows are classified best.

        ``fit_all(noise)`` gives the fit of every class. The middle level is
        tried first; levels that are not reached in time are skipped.
        """
        tried: dict[float, tuple[float, list[ClassFit]]] = {}

        def best_of(levels: Iterable[float]) -> float:
            for noise in levels:
                if not tried or time.monotonic() < deadline:
                    found = fit_all(noise)
                    tried[noise] = (
                        self.calibrate([(fit.space, fit.params) for fit in found])[0],
                        found,
                    )
            return min(tried, key=lambda noise: tried[noise][0])

        middle = float(np.median(NOISES))
        best = best_of(sorted(NOISES, key=lambda noise: abs(np.log(noise / middle))))
        return tried[best_of((0.5 * best, 2.0 * best))][1]

    def calibrate(self, fits: list[tuple[Space, BayesianPCAParams]]) -> tuple[float, float, Array]:
        """Map densities to class probabilities: the loss, a slope, and an offset of each class.

        Densities in many dimensions are overconfident, so they are calibrated on held-out rows; the
        loss there is returned first.
        """
        if self.fold is None:
            return 0.0, 1.0, np.zeros(len(fits))
        labels = np.full(self.X.shape[0], -1)
        for c, rows in enumerate(self.parts):
            labels[rows] = c
        scores = np.zeros((len(fits), self.X.shape[0]))
        for f in range(FOLDS):
            out = np.flatnonzero(self.fold == f)
            blocks = list(self.source(self.X[out]).blocks())
            for c, ((space, fitted), rows) in enumerate(zip(fits, self.parts, strict=True)):
                theta = space.without(fitted, np.flatnonzero(self.fold[rows] == f))
                views = [view for block in blocks for _, view in pieces(theta, block)]
                found = [space.model.predictive(theta, view)[0].log_z for view in views]
                scores[c, out] = np.concatenate(found)
        seen, prior = labels >= 0, np.log(self.shares)[:, None]
        return fit_slope(scores[:, seen], labels[seen], self.weight[seen], prior)


def fit_slope(
    scores: Array, labels: Array, weight: Array, prior: Array
) -> tuple[float, float, Array]:
    """Loss, slope and offsets (N,) that predict labels best from log densities (N, n)."""
    # Offsets are held near 0 by one row's worth, so that a class that is never wrong keeps finite.
    rows = np.arange(len(labels))
    centered = scores - scores.max(axis=0)
    one_hot = np.arange(len(scores))[:, None] == labels

    def loss(parameters: Array) -> tuple[float, Array]:
        slope, offsets = np.exp(parameters[0]), parameters[1:]
        joint = slope * centered + prior + offsets[:, None]
        log_p = joint - special.logsumexp(joint, axis=0)
        away = weight * (np.exp(log_p) - one_hot)
        gradient = np.append(slope * np.vdot(away, centered), away.sum(axis=1) + offsets)
        value = -weight @ log_p[labels, rows] + 0.5 * offsets @ offsets
        return float(value), gradient

    begin_at = np.append(-1.0, np.zeros(len(scores)))
    found = optimize.minimize(loss, begin_at, jac=True, method="L-BFGS-B")
    return float(found.fun), float(np.exp(found.x[0])), found.x[1:]
