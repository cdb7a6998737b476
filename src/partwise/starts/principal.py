"""Where Bayesian PCA begins: principal directions of groups of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg, special
from sklearn.utils.extmath import randomized_svd

from partwise.contracts import Array
from partwise.data.columns import ColumnGroup
from partwise.data.rows import RowSource, in_memory
from partwise.data.source import BlockSource
from partwise.starts.kmeans import masked_kmeans
from partwise.starts.rows import MOST_CELLS

# Directions begun with beyond those that a criterion of likelihood and size asks for: relevances
# switch off what is too much, but nothing can bring back what is missing.
MARGIN, MORE = 1.25, 3

# From this many rows and columns on, a few leading directions are found at random projections.
MANY = 1500


def encoded_rows(source: BlockSource) -> Array:
    """All rows in model units, 0 (the column's mean) where missing; (C, D)."""
    (group,) = source.columns
    return np.nan_to_num(
        group.encode(np.asarray(in_memory(source.X)), np.arange(source.X.shape[1])), nan=0.0
    )


def isotropic(group: ColumnGroup) -> ColumnGroup:
    """The same columns in one unit, the root of their mean variance: noise is equal in all."""
    scale = np.where(group.varies, group.scale, 0.0)
    largest = scale.max(initial=0.0)
    if largest <= 0:
        return replace(group, scale=np.ones_like(scale))
    unit = largest * np.sqrt(np.mean((scale / largest) ** 2))
    return replace(group, scale=np.full_like(scale, unit))


def plain_columns(group: ColumnGroup, n_columns: int) -> ColumnGroup:
    """Columns of numbers that are in model units already."""
    zeros, ones = np.zeros(n_columns), np.ones(n_columns)
    return replace(
        group,
        index=np.arange(n_columns),
        shift=zeros,
        scale=ones,
        weight=ones * group.weight.max(),
        moments=np.zeros((len(group.moments), n_columns)),
        varies=ones > 0,
    )


def grouped_rows(
    Z: Array, weight: Array, M: int, kinds: tuple[Array, Array], rng: np.random.Generator
) -> Array:
    """Rows clustered into at most M groups, as shares (M, C) of 0 and 1; NaN is missing."""
    first, place = kinds
    of_kind = np.bincount(place, weight)
    labels = masked_kmeans(Z[first], M, of_kind, rng, n_init=1)[place]
    return (np.unique(labels)[:, None] == labels).astype(float)


def kinds_of_rows(Z: Array | RowSource) -> tuple[Array, Array]:
    """First row of each kind, and the kind of every row: rows given twice are one of weight two.

    Of large data every row is of its own kind.
    """
    if Z.size > MOST_CELLS:
        return np.arange(len(Z)), np.arange(len(Z))
    rows: Array = in_memory(Z)
    filled = np.where(np.isnan(rows), np.inf, rows)  # NaN is not equal to itself
    _, first, place = np.unique(filled, axis=0, return_index=True, return_inverse=True)
    return first, place.ravel()


def subspace_cost(values: Array, n_columns: int, weight: float, noise: float) -> float:
    """Nats that the choice of a subspace costs, all being equally likely beforehand.

    Rows of summed weight ``weight`` have variances ``values`` (n,) along its directions, and
    nothing but ``noise`` elsewhere. A direction that leaves the subspace by an angle of squared
    sine u loses h u / 2, and for random directions u has a Beta distribution; the cost is
    minus the log of the mean of exp(-h u / 2). For large h that is Laplace's approximation (Minka
    2000). The integral over u is taken by Laplace's method in log(u / (1 - u)).
    """
    n, noise = len(values), max(noise, 1e-12)
    if n == n_columns:
        return 0.0
    a, c = 0.5 * (n_columns - n), 0.5 * np.arange(n, 0, -1)
    z = 0.5 * weight * (values - noise) ** 2 / (noise * np.maximum(values, noise))
    s = a + c + z
    u = 2.0 * a / (s + np.sqrt(s**2 - 4.0 * z * a))
    curvature = (a + c + z * (1.0 - 2.0 * u)) * u * (1.0 - u)
    inside = a * np.log(u) + c * np.log1p(-u) - z * u + 0.5 * np.log(2.0 * np.pi / curvature)
    return float(np.maximum(special.betaln(a, c) - inside, 0.0).sum())


def principal_start(
    Z: Array, weight: Array, shares: Array, q: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Maximum-likelihood PCA of every group of rows, with one noise for all.

    Parameters
    ----------
    Z : ndarray of shape (C, D)
        Rows in model units, complete.
    weight : ndarray of shape (C,)
    shares : ndarray of shape (M, C)
        How much of each row is in each group.
    q : int
        Directions to keep.
    rng : Generator

    Returns
    -------
    mean : ndarray of shape (M, D, q + 1)
        Directions scaled to their deviation without noise, largest first, then the mean.
    noise : float
    """
    D = Z.shape[1]
    n, center, values, directions = principal_groups(Z, weight, shares, q, rng)
    # A direction and its opposite are equally good; the largest entry shall be positive.
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    left = weight @ (Z**2).sum(axis=1) - n @ ((center**2).sum(axis=1) + values.sum(axis=1))
    noise = max(left / (weight.sum() * max(D - q, 1)), 0.0)
    length = np.sqrt(np.maximum(values - noise, 0.0))[:, None, :]
    W = directions * np.where(largest < 0, -length, length)
    return np.concatenate([W, center[:, :, None]], axis=2), float(noise)


def principal_groups(
    Z: Array, weight: Array, shares: Array, q: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Weight (M,), mean (M, D), largest variances (M, q) and their directions (M, D, q) of groups.

    Where a group has fewer directions the others are 0.
    """
    M, D = len(shares), Z.shape[1]
    n = np.maximum(shares @ weight, np.finfo(float).tiny)
    mean = (shares * weight) @ Z / n[:, None]
    values, directions = np.zeros((M, q)), np.zeros((M, D, q))
    for k, share in enumerate(shares):
        w = share * weight
        some = w > 1e-6 * w.max()
        away = (Z[some] - mean[k]) * np.sqrt(w[some] / n[k])[:, None]
        found, vectors = _leading(away, q, rng)
        values[k, : len(found)], directions[k, :, : len(found)] = found, vectors
    return n, mean, values, directions


def likely_dimension(Z: Array, weight: Array, most: int) -> int:
    """Directions worth beginning with, at most ``most``: those that BIC asks for, and some more.

    From the eigenvalues of complete rows alone, so that no EM iteration is spent on hopeless
    directions.
    """
    n, D = Z.shape
    if min(n, D) > MANY:
        return most
    total = weight.sum()
    away = (Z - weight @ Z / total) * np.sqrt(weight / total)[:, None]
    product = away.T @ away if n >= D else away @ away.T
    least = max(1e-12 * float(np.vdot(away, away)), np.finfo(float).tiny)
    values = np.maximum(linalg.eigvalsh(product)[::-1], least)
    q = np.arange(1, min(most, len(values) - 1, D - 1) + 1)
    if len(q) == 0:
        return most
    left = np.maximum((values.sum() - np.cumsum(values)[q - 1]) / (D - q), least)
    fit = -0.5 * total * (np.cumsum(np.log(values))[q - 1] + (D - q) * np.log(left))
    size = D * q - q * (q - 1) / 2
    likely = int(q[np.argmax(fit - 0.5 * size * np.log(total))])
    return min(int(MARGIN * likely) + MORE, most)


def _leading(away: Array, q: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Largest eigenvalues of away' away, at most q, and their directions (D, .).

    The smaller of the products away' away and away away' is worked with.
    """
    n, D = away.shape
    q = min(q, n, D)
    if min(n, D) > MANY and 4 * q < min(n, D):
        seed = int(rng.integers(2**31 - 1))
        _, singular, Vt = randomized_svd(away, q, random_state=seed)
        return singular**2, Vt.T
    if n >= D:
        values, vectors = linalg.eigh(away.T @ away, subset_by_index=(D - q, D - 1))
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    values, vectors = linalg.eigh(away @ away.T, subset_by_index=(n - q, n - 1))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    directions = away.T @ vectors / np.sqrt(np.maximum(values, np.finfo(float).tiny))
    return values, directions
