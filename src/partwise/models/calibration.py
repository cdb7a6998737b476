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
were hidden (`folds_of`) and whose trace in the parameters has been washed out, by a few more EM
steps without them; on small data, u of plain training cells would make intervals narrower where
they ought to be wider.

A column's G leans on that of all columns, and this one on the uniform distribution: each is a
weighted mean of distribution functions, so it stays monotone, and with few cells nothing changes.
This is the posterior mean if the columns' G are samples of a Dirichlet process around the common
one (Ferguson 1973). How many cells its concentration is worth is averaged over its posterior: a
table of trends and rates has intervals that are too wide for some columns, too narrow for others.

Of whole values (levels, counts) an interval from the p-quantile to the 1 - p quantile leaves out x
if its tail, the smaller one of P(X <= x) and P(X >= x), is below p. Where levels are few, that are
fewer cells than a share 2p, however right the model is. So p is chosen for each such column: what
held-out cells show to leave out a share nearest to the nominal one. Rows differ in their
probabilities, so that most columns get near to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import ndimage, special

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

# Probabilities that ends of whole values may ask for, in steps of 3 %.
ASKED = 0.5 * 1.03 ** -np.arange(500.0)[::-1]

# So many of them are smoothed over: a fit to other rows has other probabilities, and one end
# that all rows share should not depend on which.
SMOOTHED = 7

# Leaving out too many cells counts so many times as much as leaving out too few.
TOO_MANY = 2.0

# Times the probability of all that is left out that may lie beyond one end in a single row.
MOST_TAIL = 2.0

# Cells of a column of whole values that count for what the model says of many small values.
UNIFORM_WHOLE = 20.0

# Folds of the observed cells, more in rows of which so many cells would be hidden at a time.
FOLDS = 10
MOST_HIDDEN = 8

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


def folds_of(count: Array, rng: np.random.Generator) -> Array:
    """Fold of every observed cell: cells of a fold are hidden together, each in one fold only.

    The cells of a row lie in as many folds as they can, and a fold has about the same share of all
    rows' cells.

    Parameters
    ----------
    count : ndarray of shape (n_rows,)
        Number of observed cells of every row.
    rng : Generator

    Returns
    -------
    folds : ndarray of shape (n,)
        By cell, row by row.
    """
    n_folds = np.maximum(np.ceil(count / MOST_HIDDEN), FOLDS).astype(np.int64)
    begun = rng.integers(n_folds)
    ends, lo, found = np.cumsum(count), 0, [np.empty(0, np.int32)]
    while lo < len(count):
        before = ends[lo] - count[lo]
        hi = max(int(np.searchsorted(ends, before + SAMPLED_CELLS, "right")), lo + 1)
        own = count[lo:hi]
        row, first = np.repeat(np.arange(lo, hi), own), np.cumsum(own) - own
        place = np.empty(len(row), np.int64)
        place[np.lexsort((rng.random(len(row)), row))] = np.arange(len(row)) - first[row - lo]
        found.append(((begun[row] + place) % n_folds[row]).astype(np.int32))
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


def with_whole(
    found: Calibration, tail: Array, column: Array, weight: Array, which: Array
) -> Calibration:
    """Add maps of columns of whole values: levels and counts.

    Parameters
    ----------
    found : Calibration
        Of the other columns.
    tail : ndarray of shape (n,)
        The smaller one of P(X <= x) and P(X >= x) of each hidden cell.
    column : ndarray of shape (n,)
    weight : ndarray of shape (n,)
        Row weights.
    which : ndarray of shape (D_w,)
        The columns.

    Returns
    -------
    calibration : Calibration

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import stats
    >>> from partwise.models.calibration import correct, identity, with_whole
    >>> law = stats.poisson(np.random.default_rng(0).gamma(2, 1, 5000))  # by row
    >>> x = law.rvs(random_state=1)
    >>> tail = np.minimum(law.cdf(x), law.sf(x - 1))
    >>> round(float(np.mean(tail >= 0.05)), 2)  # as the distributions say
    0.96
    >>> cells = np.zeros(5000, int), np.ones(5000)
    >>> asked = correct(with_whole(identity(1), tail, *cells, which=np.array([0])), 0.05)
    >>> round(float(np.mean(tail >= asked)), 2)
    0.91
    """
    order = np.lexsort((tail, column))
    bounds = np.searchsorted(column[order], np.stack([which, np.add(which, 1)]))
    knots = [found.knots]
    for lo, hi in bounds.T:
        mine = order[lo:hi]
        knots.append(_whole_knots(tail[mine], weight[mine])[None])
    map_of = found.map_of.copy()
    map_of[which] = len(found.knots) + np.arange(len(which))
    return Calibration(np.concatenate(knots), map_of)


def _whole_knots(tail: Array, weight: Array) -> Array:
    """Deviates (L,) of the probabilities to ask for, given sorted tails of a column's cells."""
    below = np.concatenate([[0.0], np.cumsum(weight)])
    left_out = below[np.searchsorted(tail, ASKED)] + UNIFORM_WHOLE * 2.0 * ASKED
    left_out /= below[-1] + UNIFORM_WHOLE  # (P,)
    half = LEVELS[LEVELS <= 0]
    nominal = 2.0 * special.ndtr(half)[:, None]  # (L / 2, 1)
    away = left_out - nominal
    loss = ndimage.uniform_filter1d(np.maximum(away * TOO_MANY, -away), SMOOTHED, mode="nearest")
    loss[nominal * MOST_TAIL < ASKED] = np.inf
    best = np.round(loss, 12).argmin(axis=1)  # sums of different order are the same
    asked = special.ndtri(np.maximum.accumulate(ASKED[best]))
    asked[-1] = 0.0
    return np.concatenate([asked, -asked[-2::-1]])


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
