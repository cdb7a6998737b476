"""Weights of predictors in a blend, chosen for each column on held-out cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from partwise.contracts import Array

# Fraction of observed cells that is held out.
HELD_OUT = 0.15

# Candidate weights of one more predictor. Each column leans on all columns of its kind, which count
# as many held-out cells as this.
WEIGHTS = np.linspace(0.0, 1.0, 9)
POOLED_CELLS = 30.0

# Mean errors (in standard deviations) and probabilities below these count as equally small.
LEAST_LOSS = 1e-6
LEAST_PROBABILITY = 1e-6

# A column with fewer known values has no regression.
LEAST_CELLS = 20

# Columns of more values than this are numbers whose single values need not recur.
MOST_VALUES = 50


def hidden_cells(rows: Array, rng: np.random.Generator) -> Array:
    """Observed cells (n, D) to hold out; no column loses all its values, or a level."""
    observed = ~np.isnan(rows)
    hidden = (rng.random(rows.shape) < HELD_OUT) & observed
    for d in range(rows.shape[1]):
        left = np.unique(rows[observed[:, d] & ~hidden[:, d], d])
        if len(left) < 2:
            hidden[:, d] = False
        elif len(left) <= MOST_VALUES:
            hidden[:, d] &= np.isin(rows[:, d], left)
    return hidden


class Losses(NamedTuple):
    """Losses (G,) of held-out cells of a column with G candidates, and how many cells count."""

    summed: Array
    n_cells: float


def of_errors(errors: Array, weight: Array, power: int) -> Losses:
    """Losses by errors (G, m) of numbers, in deviations of the column; ``weight`` (m,) is of rows.

    The log score of errors of unknown size, up to a factor: the logarithm of their mean ``power``,
    so that nearly noiseless columns do not lean on the large errors of noisy ones.
    """
    n_cells = float(weight.sum())
    mean = np.abs(errors) ** power @ weight / max(n_cells, 1e-300)
    return Losses(n_cells * np.log(LEAST_LOSS + mean), n_cells)


def of_probabilities(p: Array, weight: Array) -> Losses:
    """Losses by probabilities (G, m) of true levels: the log score."""
    return Losses(-np.log(np.maximum(p, LEAST_PROBABILITY)) @ weight, float(weight.sum()))


def best_weights(losses: Mapping[int, Losses]) -> dict[int, float]:
    """The best of the candidate weights for each column."""
    total = sum((own.summed for own in losses.values()), np.zeros(len(WEIGHTS)))
    n_cells = sum(own.n_cells for own in losses.values())
    pooled = POOLED_CELLS * total / max(n_cells, 1e-300)
    return {d: float(WEIGHTS[int(np.argmin(own.summed + pooled))]) for d, own in losses.items()}
