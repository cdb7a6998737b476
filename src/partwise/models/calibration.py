"""Intervals that hold what they promise: a map from nominal to corrected probabilities.

======  ==========  =========  ====================================================================
symbol  code        shape      meaning
======  ==========  =========  ====================================================================
u       pit         (n,)       P(X <= x) of held-out cells under the model; uniform if it is right
G       -           -          distribution of u, by column where there are enough cells
t       LEVELS      (L,)       nominal probabilities whose correction is stored, as normal deviates
-       knots       (M, L)     G^-1 at these, again as normal deviates, one row a map
-       map_of      (D,)       each column's map
======  ==========  =========  ====================================================================

If the model says that a cell lies below x with probability F(x), and cells of which it says u lie
there in a share G(u) of cases, then G(F(x)) is the calibrated distribution, whose p-quantile is the
model's own at G^-1(p) (Kuleshov, Fenner & Ermon, ICML 2018; Dawid 1984). Nothing else of the
model is touched: expectations, densities and posteriors stay as they are.

Cells that helped to learn the parameters look better than new ones. So u must come from cells that
were hidden (`hide`) and whose trace in the parameters has been washed out, by a few more EM steps
without them; on small data, u of plain training cells would make intervals narrower where they
ought to be wider.

A column's G leans on that of all columns, and this one on the uniform distribution: each is a
weighted mean of distribution functions, so it stays monotone, and with few cells nothing changes.
This is the posterior mean if the columns' G are samples of a Dirichlet process around the common
one (Ferguson 1973). How many cells its concentration is worth is averaged over its posterior: a
table of trends and rates has intervals that are too wide for some columns, too narrow for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.contracts import Array

# Evenly spaced normal deviates: nominal probabilities from 2e-4 to 1 - 2e-4. Beyond, the
# correction of the last one is kept.
LEVELS = np.linspace(-3.5, 3.5, 65)


class Prior(NamedTuple):
    """How much the maps lean on less.

    What is ``uniform`` counts as many cells as this, and what all columns say (``pooled``) as many
    against a column's own; None: as many as the differences between the columns show. A column with
    fewer cells than ``least`` has no map of its own.
    """

    uniform: float = 100.0
    pooled: float | None = None
    least: float = 60.0


PRIOR = Prior()

# An end keeps at least this share of its distance from the median, in deviates, so that noiseless
# data keep an interval; and no end lies beyond what the distribution function can tell from 1.
LEAST_REACH = 0.25
MOST_DEVIATE = 8.0

# A level is looked up only if this many cells should lie beyond it; farther out, its correction is
# kept.
LEAST_BEYOND = 5.0

# Concentrations of columns around what they have in common, equally probable; and the common
# quantiles between which their cells are counted.
CONCENTRATIONS = 10.0 * 2.0 ** np.arange(9)
COUNTED_BETWEEN = np.array([0.05, 0.25, 0.5, 0.75, 0.95])

# Share of a row's observed cells that are hidden at a time, one at least and about so many at most.
HIDDEN = 0.05
MOST_HIDDEN = 8.0

# Cells that random numbers are made for at a time, so that they take little memory.
SAMPLED_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Calibration:
    """Corrected probabilities; see the table above."""

    knots: Array
    map_of: Array


def identity(n_columns: int) -> Calibration:
    """Change nothing."""
    return Calibration(LEVELS[None, :].copy(), np.zeros(n_columns, np.int64))


def hide(count: Array, rng: np.random.Generator) -> Array:
    """Choose cells to hide, at least one of every row that has more than one.

    Parameters
    ----------
    count : ndarray of shape (n_rows,)
        Number of observed cells of every row.
    rng : Generator

    Returns
    -------
    hidden : ndarray of shape (n,)
        Places of hidden cells among all observed ones, row by row.
    """
    share = np.minimum(HIDDEN, MOST_HIDDEN / np.maximum(count, 1))
    ends, lo, found = np.cumsum(count), 0, [np.empty(0, np.intp)]
    while lo < len(count):
        before = ends[lo] - count[lo]
        hi = max(int(np.searchsorted(ends, before + SAMPLED_CELLS, "right")), lo + 1)
        own, draw = count[lo:hi], rng.random(ends[hi - 1] - before)
        least = np.zeros(hi - lo)
        least[own > 0] = np.minimum.reduceat(draw, (np.cumsum(own) - own)[own > 0])
        # A row's only cell is hidden no more often than any other, or nothing might be left to
        # learn.
        limit = np.where(own > 1, np.maximum(least, share[lo:hi]), HIDDEN)
        found.append(before + np.flatnonzero(draw <= np.repeat(limit, own)))
        lo = hi
    return np.concatenate(found)


def learn(
    pit: Array, column: Array, weight: Array, n_columns: int, prior: Prior = PRIOR
) -> Calibration:
    """Learn the map from hidden cells.

    Parameters
    ----------
    pit : ndarray of shape (n,)
        P(X <= x) of each hidden cell under the model that did not see it.
    column : ndarray of shape (n,)
    weight : ndarray of shape (n,)
        Row weights.
    n_columns : int
    prior : Prior

    Returns
    -------
    calibration : Calibration

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.models.calibration import correct, learn
    >>> u = np.random.default_rng(0).beta(2, 2, 20_000)  # intervals that are too wide
    >>> cells = np.zeros(len(u), int), np.ones(len(u))
    >>> correct(learn(u, *cells, n_columns=1), 0.05).round(1)
    array([0.1])
    """
    # All cells in brief: quantiles, near together in the tails, and the share each stands for.
    grid = special.ndtr(np.linspace(-4.0, 4.0, 513))
    edges = np.concatenate([[0.0], 0.5 * (grid[1:] + grid[:-1]), [1.0]])
    share = np.diff(edges)
    values = np.concatenate([pit, grid])
    counts = np.concatenate([weight, prior.uniform * share])
    pooled = _quantiles(values, counts, grid)
    knots = [_knots(values, counts)]
    cells = np.bincount(column, weight, minlength=n_columns)
    own = np.flatnonzero((cells >= prior.least) & (n_columns > 1))
    order = np.argsort(column, kind="stable")
    bounds = np.searchsorted(column[order], np.arange(n_columns + 1))
    if prior.pooled is None:
        leaned = _pooled_cells(
            pit, column, weight, cells, _quantiles(values, counts, COUNTED_BETWEEN)
        )
    else:
        leaned = np.full(n_columns, prior.pooled)
    for d in own:
        mine = order[bounds[d] : bounds[d + 1]]
        counts = np.concatenate([weight[mine], leaned[d] * share])
        knots.append(_knots(np.concatenate([pit[mine], pooled]), counts))
    map_of = np.zeros(n_columns, np.int64)
    map_of[own] = np.arange(1, len(own) + 1)
    return Calibration(np.stack(knots), map_of)


def _pooled_cells(pit: Array, column: Array, weight: Array, cells: Array, edges: Array) -> Array:
    """Cells that the common distribution counts for against a column's own ``cells``; (D,)."""
    D, B = len(cells), len(edges) + 1
    bin_of = column * B + np.searchsorted(edges, pit)
    found = np.bincount(bin_of, weight, minlength=D * B).reshape(D, B)
    share = np.diff(COUNTED_BETWEEN, prepend=0.0, append=1.0)
    a = CONCENTRATIONS[:, None]
    evidence = special.gammaln(a) - special.gammaln(a + cells)
    for b in range(B):
        evidence += special.gammaln(a * share[b] + found[:, b]) - special.gammaln(a * share[b])
    posterior = special.softmax(evidence.sum(axis=1))
    common = posterior @ (a / (a + cells))
    return cells * common / np.maximum(1.0 - common, 1e-300)


def correct(calibration: Calibration, p: float) -> Array:
    """Probability to ask the model's quantile for, so that a share p of cells lies below; (D,)."""
    if np.array_equal(calibration.knots, LEVELS[None, :]):
        return np.full(len(calibration.map_of), p)  # to the last digit: counts may hang on it
    t = float(special.ndtri(p))
    inside = float(np.clip(t, LEVELS[0], LEVELS[-1]))
    i = min(int(np.searchsorted(LEVELS, inside, side="right")), len(LEVELS) - 1)
    part = (inside - LEVELS[i - 1]) / (LEVELS[i] - LEVELS[i - 1])
    knots = calibration.knots
    deviates = (1.0 - part) * knots[:, i - 1] + part * knots[:, i] + (t - inside)
    return special.ndtr(np.clip(deviates, -MOST_DEVIATE, MOST_DEVIATE))[calibration.map_of]


def _knots(values: Array, counts: Array) -> Array:
    """G^-1 at the levels, as normal deviates, for the weighted values of u; (L,)."""
    farthest = -float(special.ndtri(min(LEAST_BEYOND / counts.sum(), 0.5)))
    looked_up = np.clip(LEVELS, -farthest, farthest)
    with np.errstate(divide="ignore"):
        found = special.ndtri(_quantiles(values, counts, special.ndtr(looked_up)))
    found = np.clip(found, -MOST_DEVIATE, MOST_DEVIATE) + (LEVELS - looked_up)
    least = found[len(LEVELS) // 2] + LEAST_REACH * LEVELS
    return np.where(LEVELS < 0, np.minimum(found, least), np.maximum(found, least))


def _quantiles(values: Array, weights: Array, p: Array) -> Array:
    """Weighted sample quantiles; each value stands in the middle of its own weight."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return np.interp(p, (below - 0.5 * weights[order]) / below[-1], values[order])
