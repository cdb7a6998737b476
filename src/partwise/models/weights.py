"""Row weights on posteriors, means and medians; an integer weight is as many equal rows."""

import numpy as np

from partwise.contracts import Array


def weighted(m: Array, weight: Array) -> Array:
    """Posterior times row weights; no copy is made where all weights are one."""
    return m if np.all(weight == 1) else m * weight.astype(m.dtype)


def weighted_moments(values: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and variance of every column (n, D) over its rows, NaN left out."""
    share = np.where(np.isnan(values), 0.0, weight[:, None])
    total = share.sum(axis=0)
    with np.errstate(invalid="ignore"):  # NaN where a column has no values
        mean = np.nansum(share * values, axis=0) / total
        return mean, np.nansum(share * (values - mean) ** 2, axis=0) / total


def weighted_median(values: Array, weight: Array) -> Array:
    """Median of every column (n, D) over its rows, NaN left out; NaN where nothing is left."""
    order = np.argsort(values, axis=0)  # NaN last
    ranked = np.take_along_axis(values, order, axis=0)
    reached = np.where(np.isnan(ranked), 0.0, weight[order]).cumsum(axis=0)
    half = 0.5 * reached[-1:]
    ends = (reached >= half).argmax(axis=0), (reached > half).argmax(axis=0)
    low, high = (np.take_along_axis(ranked, end[None], axis=0)[0] for end in ends)
    return np.asarray(0.5 * (low + high))
