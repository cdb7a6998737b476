"""Measures of predictions and of predicted ratings on plain arrays, and description lengths.

Absolute and squared errors are scikit-learn's own (`mean_absolute_error`, `root_mean_squared_error`
in `sklearn.metrics`). Its `ndcg_score` needs a score for every pair of user and item; the functions
here take any number of items per user.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.metrics import mean_absolute_error
from sklearn.utils import check_consistent_length, column_or_1d

from partwise.contracts import Array
from partwise.fitting.weights import read_weights

__all__ = [
    "calibration_error",
    "chance_error",
    "description_length",
    "log_loss_of_levels",
    "ndcg_at",
    "nmae",
    "pool_estimates",
    "recall_at",
]


def chance_error(levels: ArrayLike) -> float:
    """Mean absolute difference of two random ratings, every level equally likely.

    Parameters
    ----------
    levels : array-like of shape (L,)
        The values that a rating can take, in any order; their distances may differ.

    Returns
    -------
    error : float
        For L levels at distance 1 it is (L^2 - 1) / (3 L).

    Examples
    --------
    >>> from partwise.metrics import chance_error
    >>> chance_error([1, 2, 3, 4, 5])
    1.6
    """
    levels = np.asarray(column_or_1d(levels), dtype=float)
    scale = np.unique(levels)
    if len(scale) < 2 or len(scale) < len(levels) or not np.isfinite(scale).all():
        raise ValueError(
            f"levels={levels.tolist()} must be at least two different finite values, as "
            "[1, 2, 3, 4, 5]."
        )
    L = len(scale)
    # Sorted, level i is the larger of i pairs and the smaller of L - 1 - i.
    return float(2.0 / L**2 * ((2.0 * np.arange(L) - (L - 1)) @ scale))


def nmae(
    true: ArrayLike,
    predicted: ArrayLike,
    levels: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Normalized mean absolute error; random predictions of random ratings have 1.

    Parameters
    ----------
    true, predicted : array-like of shape (n,)
        The median of a predicted distribution minimizes the expected error.
    levels : array-like of shape (L,)
        The values that a rating can take; see `chance_error`.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    error : float

    References
    ----------
    B. Marlin, Collaborative Filtering: A Machine Learning Perspective, 2004.

    Examples
    --------
    >>> from partwise.metrics import nmae
    >>> round(nmae([1, 5, 3], [2, 4, 3], levels=range(1, 6)), 3)
    0.417
    """
    weight = read_weights(sample_weight, np.size(true))
    error = mean_absolute_error(true, predicted, sample_weight=weight)
    return float(error) / chance_error(np.asarray(levels))


def log_loss_of_levels(
    distribution: ArrayLike, level: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean negative log probability of the true level, in nats.

    Unlike scikit-learn's `log_loss` it does not clip probabilities: a true level of probability 0
    gives infinity.

    Parameters
    ----------
    distribution : array-like of shape (n, L)
        Probability of every level.
    level : array-like of shape (n,), int
        Index of the true level, from 0.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    loss : float

    Examples
    --------
    >>> from partwise.metrics import log_loss_of_levels
    >>> round(log_loss_of_levels([[0.5, 0.5], [0.2, 0.8]], [0, 1]), 3)
    0.458
    """
    p = np.asarray(distribution, dtype=float)
    true: Array = column_or_1d(level)
    check_consistent_length(p, true)
    if p.ndim != 2 or np.any(p < 0) or not np.allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=1e-4):
        raise ValueError(
            f"distribution, of shape {p.shape}, must have one row per rating, of "
            "probabilities that sum to 1."
        )
    if not np.issubdtype(true.dtype, np.integer) or np.any((true < 0) | (true >= p.shape[1])):
        raise ValueError(
            f"level must hold whole numbers from 0 to {p.shape[1] - 1}, columns of distribution."
        )
    with np.errstate(divide="ignore"):
        surprise = -np.log(p[np.arange(len(p)), true])
    return float(np.average(surprise, weights=read_weights(sample_weight, len(p))))


def description_length(
    kind: Literal["parts", "quantizer", "linear"],
    n_vectors: int,
    n_columns: int,
    n_rows: int,
    *,
    n_parts: int = 1,
    bits: float = 64.0,
) -> float:
    """Bits needed to store a model and the rows coded with it (Ross's thesis, 3.1.2).

    Parameters
    ----------
    kind : {"parts", "quantizer", "linear"}
        MCVQ stores mean and deviation of V states and the gates of K parts, 2V + K vectors, and
        codes a row by a state of each part, K log2(V / K) bits. A vector quantizer stores 2V and
        codes by log2 V bits; PCA and NMF store V and code by V numbers.
    n_vectors : int
        V, states of all parts together, or components.
    n_columns, n_rows : int
        Length of a vector, and number of coded rows.
    n_parts : int, default=1
        K; used by "parts" only.
    bits : float, default=64
        Bits per number. The thesis does not state it; 64 gives its lengths.

    Returns
    -------
    length : float

    Examples
    --------
    >>> from partwise.metrics import description_length
    >>> round(description_length("parts", 36, n_columns=121, n_rows=629, n_parts=3))
    587565
    >>> round(description_length("linear", 12, n_columns=121, n_rows=629))
    576000
    """
    stored, code = {
        "parts": (2 * n_vectors + n_parts, n_parts * np.log2(n_vectors / n_parts)),
        "quantizer": (2 * n_vectors, np.log2(n_vectors)),
        "linear": (n_vectors, n_vectors * bits),
    }[kind]
    return float(stored * n_columns * bits + n_rows * code)


def ndcg_at(y_true: ArrayLike, y_score: ArrayLike, *, users: ArrayLike, k: int = 10) -> Array:
    """Normalized discounted cumulative gain of each user's k items with the highest scores.

    Items of equal score count as if in random order.

    Parameters
    ----------
    y_true : array-like of shape (E,)
        Gain of each item, at least 0: the rating itself, or 2^rating - 1.
    y_score : array-like of shape (E,)
        Items are ranked by this score, largest first.
    users : array-like of shape (E,)
        User of each item: any labels, in any order.
    k : int, default=10

    Returns
    -------
    ndcg : ndarray of shape (U,)
        One number per user, in the order of ``numpy.unique(users)``; users whose gains are
        all 0 are left out.

    Examples
    --------
    >>> from partwise.metrics import ndcg_at
    >>> users, scores = [7, 7, 7, 8, 8], [0.9, 0.5, 0.1, 0.2, 0.3]
    >>> ndcg_at([3, 1, 2, 1, 0], scores, users=users, k=2).round(2)
    array([0.85, 0.63])
    """
    user, gain, score = _checked(y_true, y_score, users, k)
    discount = 1.0 / np.log2(np.arange(k) + 2.0)
    best = _top(user, gain, gain, discount)
    return _top(user, score, gain, discount)[best > 0] / best[best > 0]


def recall_at(y_true: ArrayLike, y_score: ArrayLike, *, users: ArrayLike, k: int = 10) -> Array:
    """Share of each user's total gain among the k items with the highest scores.

    Items of equal score count as if in random order.

    Parameters
    ----------
    y_true : array-like of shape (E,)
        1 for relevant items, 0 for others; or weights.
    y_score, users : array-like of shape (E,)
        As in `ndcg_at`.
    k : int, default=10

    Returns
    -------
    recall : ndarray of shape (U,)
        As in `ndcg_at`.

    Examples
    --------
    >>> from partwise.metrics import recall_at
    >>> users, scores = [7, 7, 7, 8, 8], [0.9, 0.5, 0.1, 0.2, 0.3]
    >>> recall_at([1, 0, 1, 1, 0], scores, users=users, k=2)
    array([0.5, 1. ])
    """
    user, gain, score = _checked(y_true, y_score, users, k)
    total = np.bincount(user, gain)
    return _top(user, score, gain, np.ones(k))[total > 0] / total[total > 0]


def _checked(
    y_true: ArrayLike, y_score: ArrayLike, users: ArrayLike, k: int
) -> tuple[Array, Array, Array]:
    """Users as numbers from 0; gains and scores as floats."""
    user, score, gain = column_or_1d(users), column_or_1d(y_score), column_or_1d(y_true)
    check_consistent_length(user, score, gain)
    score, gain = score.astype(float), gain.astype(float)
    if k < 1:
        raise ValueError(f"k={k!r} must be at least 1.")
    if np.isnan(score).any() or not np.all(gain >= 0):
        raise ValueError("y_score must not contain NaN, and y_true neither NaN nor values below 0.")
    return np.unique(user, return_inverse=True)[1], gain, score


def _top(user: Array, score: Array, gain: Array, discount: Array) -> Array:
    """Sum of gain times the discount of its place among a user's items by score; (U,).

    Items of equal score share the discounts of the places they take up.
    """
    order = np.lexsort((-score, user))
    user, score, gain = user[order], score[order], gain[order]
    count = np.bincount(user)
    place = np.arange(len(user)) - (np.cumsum(count) - count)[user]
    worth = np.where(place < len(discount), discount[np.minimum(place, len(discount) - 1)], 0.0)
    begins = np.r_[True, (np.diff(user) != 0) | (np.diff(score) != 0)]
    tie = np.cumsum(begins) - 1
    shared = np.bincount(tie, gain) * np.bincount(tie, worth) / np.bincount(tie)
    return np.bincount(user[begins], shared)


def calibration_error(confidence: ArrayLike, hit: ArrayLike, n_bins: int = 15) -> float:
    """Expected calibration error: mean difference of predicted probability and share of hits.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability assigned to each prediction.
    hit : array-like of shape (n,)
        Whether each prediction was correct.
    n_bins : int, default=15
        Number of groups of equal width in probability.

    Returns
    -------
    error : float
        0 if predictions of probability p are correct in a share p of cases.

    Examples
    --------
    >>> from partwise.metrics import calibration_error
    >>> calibration_error([0.75, 0.75, 0.75, 0.75], [1, 1, 0, 1])
    0.0
    """
    p, right = np.asarray(confidence, dtype=float), np.asarray(hit, dtype=float)
    bin_of = np.minimum((p * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bin_of, right - p, minlength=n_bins)
    return float(np.abs(gaps).sum() / max(len(p), 1))


class PooledEstimate(NamedTuple):
    """An estimate from several completed tables; every field has the shape of one estimate."""

    estimate: Array
    standard_error: Array
    lower: Array
    upper: Array
    degrees_of_freedom: Array


def pool_estimates(
    estimates: ArrayLike, variances: ArrayLike, *, coverage: float = 0.95
) -> PooledEstimate:
    """Combine estimates from several completed tables by Rubin's rules.

    Parameters
    ----------
    estimates : array-like of shape (m, ...)
        An estimate, or several, from each of m completed tables, as coefficients of a regression.
    variances : array-like of shape (m, ...)
        Squared standard errors of the estimates, each as if its table had been observed.
    coverage : float, default=0.95
        Of the confidence interval.

    Returns
    -------
    pooled : PooledEstimate
        Estimate, standard error, ends of the interval, and degrees of freedom of its t
        distribution, infinite where the tables do not differ.

    References
    ----------
    .. [1] Rubin, D. B. (1987). Multiple Imputation for Nonresponse in Surveys. Wiley.

    Examples
    --------
    >>> from partwise.metrics import pool_estimates
    >>> pooled = pool_estimates([1.0, 1.2, 1.1], [0.04, 0.05, 0.03])
    >>> round(float(pooled.estimate), 2), round(float(pooled.standard_error), 2)
    (1.1, 0.23)
    """
    Q, U = (np.asarray(values, dtype=float) for values in (estimates, variances))
    if Q.shape != U.shape or Q.ndim == 0 or len(Q) < 2:
        raise ValueError(
            f"estimates and variances must have the same shape, with at least two tables first; "
            f"they have shapes {Q.shape} and {U.shape}."
        )
    if not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage!r} must be between 0 and 1, for example 0.95.")
    m = len(Q)
    estimate, within = Q.mean(axis=0), U.mean(axis=0)
    between = (1.0 + 1.0 / m) * Q.var(axis=0, ddof=1)
    error = np.sqrt(within + between)
    ratio = np.divide(within, between, out=np.full_like(within, np.inf), where=between > 0)
    freedom = (m - 1) * (1.0 + ratio) ** 2
    reach = stats.t.ppf(0.5 + 0.5 * coverage, freedom) * error
    return PooledEstimate(estimate, error, estimate - reach, estimate + reach, freedom)
