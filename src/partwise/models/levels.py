"""What distributions over a scale's levels say: medians, means, intervals. Shapes end in L."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array

# A level is reached if this little is missing, so that rounding moves no median.
SLACK = 1e-9


def quantile(shares: Array, levels: Array, p: float) -> Array:
    """Smallest level that is reached with probability p, (...)."""
    below = np.cumsum(shares[..., :-1], axis=-1)
    return levels[(below < p - SLACK).sum(axis=-1)]


def mean(shares: Array, levels: Array) -> Array:
    """Expected level, (...)."""
    return shares @ levels


def entropy(shares: Array) -> Array:
    """In nats, (...)."""
    least = np.finfo(shares.dtype).tiny  # 0 log 0 is 0
    return -np.sum(shares * np.log(np.maximum(shares, least)), axis=-1)
