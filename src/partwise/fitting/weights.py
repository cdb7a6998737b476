"""Weights of rows as users give them."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from partwise._warnings import warn
from partwise.contracts import Array

# Largest sum of weights: counts of levels beyond have no Gamma function in floating point.
MOST_WEIGHT = 1e30


def read_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array:
    """One finite weight of at least 0 per row (C,), not all of them zero; ones if None.

    A single number is the weight of every row.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    if sparse.issparse(sample_weight):
        raise ValueError("sample_weight is sparse; pass a dense array, one weight per row.")
    try:
        given = np.asarray(sample_weight)
    except (TypeError, ValueError):  # lists of different lengths
        given = np.asarray(list(cast("Iterable[object]", sample_weight)), dtype=object)
    if given.ndim > 0 and given.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {given.shape}, but X has {n_rows} rows; give one weight per "
            "row."
        )
    weight = np.broadcast_to(given, n_rows)
    if given.dtype.kind not in "biuf":
        for i, value in enumerate(weight.tolist()):
            if not isinstance(value, Real):
                raise ValueError(
                    f"sample_weight is {value!r} in row {i}; give numbers, 0 for rows to leave out."
                )
    weight = weight.astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(
            f"sample_weight is {weight[wrong.argmax()]:g} in row {wrong.argmax()}; give finite "
            "numbers of at least 0."
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every row; give some row a weight.")
    if weight.max() > MOST_WEIGHT / n_rows:
        raise ValueError(
            f"sample_weight is {weight.max():g} in row {weight.argmax()}, and the sum of all "
            f"weights may be above {MOST_WEIGHT:g}; divide all of them by the largest."
        )
    return weight


def warn_of_shares(weight: Array) -> None:
    """Warn if rows of these positive weights together weigh no more than one row."""
    total = float(weight.sum())
    if len(weight) > 1 and total <= 1.0 + 1e-9:
        warn(
            f"sample_weight adds to {total:g} in {len(weight)} rows, so the prior outweighs the "
            "rows; a weight of w is w equal rows: multiply the weights until they add to "
            f"{len(weight)}."
        )
