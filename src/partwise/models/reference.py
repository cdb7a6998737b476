"""The distribution of the training rows, kept with a model to compare later rows with.

=============  ==============  =======================================================
name           shape           meaning
=============  ==============  =======================================================
`edges`        (D, B - 1)      ends of the bins of each column, infinite where unused
`counts`       (D, B + 1)      rows per bin; the last count is of missing values
`part_edges`   (K, B - 1)      ends of the bins of each part's anomaly score
`part_counts`  (K, B + 1)      rows per bin of the score, of held-out rows
=============  ==============  =======================================================

Counts are effective numbers of rows: with weights w, (sum w)^2 / sum w^2 in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.contracts import Array

# Bins of a column. With B bins, half a deviation of a Gaussian column moves about a fifth of the
# rows to other bins; more bins find finer changes of shape, but need more rows.
N_BINS = 12


@dataclass(frozen=True, eq=False)
class Reference:
    """Binned columns of the training rows, and binned scores of held-out rows."""

    edges: Array
    counts: Array
    part_edges: Array
    part_counts: Array


def binned(values: Array, weight: Array) -> tuple[Array, Array]:
    """Edges and counts of the bins of every column.

    Parameters
    ----------
    values : ndarray of shape (n, D)
        NaN is a missing value.
    weight : ndarray of shape (n,)

    Returns
    -------
    edges : ndarray of shape (D, B - 1)
    counts : ndarray of shape (D, B + 1)
    """
    edges = np.stack([_edges(column) for column in values.T]) if values.shape[1] else None
    if edges is None:
        return np.empty((0, N_BINS - 1)), np.empty((0, N_BINS + 1))
    return edges, count(values, weight, edges)


def count(values: Array, weight: Array, edges: Array) -> Array:
    """Effective numbers of rows per bin, (D, B + 1).

    Parameters
    ----------
    values : ndarray of shape (n, D)
    weight : ndarray of shape (n,)
    edges : ndarray of shape (D, B - 1)
    """
    scale = weight.sum() / max(float(weight @ weight), 1e-300)
    out = np.empty((len(edges), N_BINS + 1))
    for d, column in enumerate(values.T):
        place = np.searchsorted(edges[d], column, side="right")
        place[np.isnan(column)] = N_BINS
        out[d] = np.bincount(place, weight, N_BINS + 1) * scale
    return out


def edges_between(values: Array, moved: Array) -> Array:
    """Edges of bins of scores that change a little from one fit to the next, (D, B - 1).

    Scores of discrete columns repeat. An edge beside such a pile would put all of its rows into
    another bin when the fit changes, so each edge lies near its quantile where few scores are.

    Parameters
    ----------
    values : ndarray of shape (n, D)
        Scores of rows.
    moved : ndarray of shape (n, D)
        Scores of the same rows under slightly different parameters.

    Returns
    -------
    edges : ndarray of shape (D, B - 1)
        Infinite where a pile fills the neighborhood of a quantile.
    """
    out = np.full((values.shape[1], N_BINS - 1), np.inf)
    for d, (column, other) in enumerate(zip(values.T, moved.T, strict=True)):
        known = np.isfinite(column) & np.isfinite(other)
        if known.any():
            reach = float(np.quantile(np.abs(column - other)[known], 0.9))
            found = _quiet_edges(np.sort(column[known]), reach)
            out[d, : len(found)] = found
    return out


def _quiet_edges(column: Array, reach: float) -> Array:
    """Edges near the quantiles of a sorted column, with the fewest values within reach."""
    n, found = len(column), list[float]()
    places = np.rint(n * (np.arange(2 * N_BINS + 1) / (2 * N_BINS))).astype(int)
    for lo, hi in zip(places[1:-2:2], places[3::2], strict=True):
        distinct = np.unique(column[lo:hi])
        middle = 0.5 * (distinct[1:] + distinct[:-1])
        if len(middle):
            first = np.searchsorted(column, middle - reach)
            near = np.searchsorted(column, middle + reach, side="right") - first
            i = int(near.argmin())
            close = column[first[i] : first[i] + near[i]]
            # Of a continuous score some rows are always near, but they do not repeat.
            if near[i] - len(np.unique(close)) <= n / (4 * N_BINS):
                found.append(float(middle[i]))
    return np.unique(found)


def _edges(column: Array) -> Array:
    """Ends of bins: between the values where they are few, else at quantiles."""
    out = np.full(N_BINS - 1, np.inf)
    known = column[~np.isnan(column)].astype(float)
    distinct = np.unique(known)
    if len(distinct) > N_BINS:
        distinct = np.unique(np.quantile(known, np.arange(1, N_BINS) / N_BINS))
        out[: len(distinct)] = distinct
    elif len(distinct):
        out[: len(distinct) - 1] = 0.5 * (distinct[1:] + distinct[:-1])
    return out
