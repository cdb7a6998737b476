"""Where a factor model begins: at principal directions of grouped columns, or at random rows.

One part may also begin at a factor analysis of the covariance of all columns. Principal directions
of rows whose missing entries are at the mean leave noise that columns do not have: directions that
are small against that noise would be pruned before it has shrunk.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils.extmath import randomized_svd

from partwise.contracts import Array
from partwise.data.source import BlockSource
from partwise.starts.dependence import dependence, grouped_columns, slices
from partwise.starts.random import picked_rows
from partwise.starts.rows import distinct_rows

# Most columns of which a covariance is learned, and how many rows there must be for each.
COVARIANCE_COLUMNS, COVARIANCE_ROWS = 200, 2

# Rounds over the missing entries, and of factors and noise in turn; later ones hardly change them.
COVARIANCE_ROUNDS, NOISE_ROUNDS = 8, 10

# Weight of the identity in a covariance, in rows, and least noise, of the column's variance.
IDENTITY_ROWS = 0.1
LEAST_NOISE = 1e-4


def dependence_loadings(
    source: BlockSource, n_factors: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Loadings (D, J) of every part, in model units, and gates (K, D).

    Principal directions of a part's own columns in a sample of rows, missing entries at their
    column's mean; the loadings of all other columns are their regressions on these directions.
    """
    found = grouped_columns(source, len(n_factors), background, rng)
    D = source.X.shape[1]
    loadings = []
    for k, J in enumerate(n_factors):
        Lambda = np.zeros((D, J))
        own = found.labels == k
        Lambda[found.columns] = principal_loadings(found.sample, found.weight, own, J, rng)
        loadings.append(_bounded(Lambda, rng))
    return loadings, found.gates


def principal_loadings(
    sample: Array, weight: Array, own: Array, J: int, rng: np.random.Generator
) -> Array:
    """Loadings (D, J) of a sample's columns on principal directions of some, ``own`` (D,)."""
    filled = np.nan_to_num(sample).astype(float, copy=False)
    filled *= np.sqrt(weight)[:, None]
    rank = min(J, len(filled), int(own.sum()))
    Lambda = np.zeros((sample.shape[1], J))
    if rank > 0:
        U, *_ = randomized_svd(filled[:, own], rank, random_state=int(rng.integers(2**31 - 1)))
        # What missing values take away from a column's covariances, on average.
        columns = slices(sample.shape[1], len(sample))
        counts = np.concatenate([weight @ ~np.isnan(sample[:, at]) for at in columns])
        shown = np.maximum(counts / weight.sum(), 1e-3)
        Lambda[:, :rank] = filled.T @ U / (shown[:, None] * np.sqrt(weight.sum()))
    return Lambda


def covariance_loadings(
    source: BlockSource, n_factors: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Loadings of one part by a factor analysis of the covariance of its columns, and gates.

    Of many columns, or of more than rows can tell, those of `dependence_loadings`.
    """
    J, D = n_factors[0], source.X.shape[1]
    if D > COVARIANCE_COLUMNS:
        return dependence_loadings(source, n_factors, background, rng)
    found = dependence(source, rng)
    n_rows, width = found.sample.shape
    if n_rows < COVARIANCE_ROWS * width or width <= J:
        return dependence_loadings(source, n_factors, background, rng)
    Lambda = np.zeros((D, J))
    covariance = missing_covariance(found.sample.astype(float), found.weight)
    Lambda[found.columns[found.owner]] = factor_loadings(covariance, J)
    if not background:
        return [Lambda], np.ones((1, D))
    return [Lambda, np.zeros((D, 0))], np.repeat([[0.95], [0.05]], D, axis=1)


def missing_covariance(sample: Array, weight: Array) -> Array:
    """Covariance (D, D) of a Gaussian of rows (n, D) with missing entries.

    Variational EM in which missing entries are independent of each other: their means follow from
    all others in their row, column by column; their variance is the column's given all others.
    """
    missing, total = np.isnan(sample), float(weight.sum())
    filled, D = np.nan_to_num(sample), sample.shape[1]
    rows, share = [np.flatnonzero(own) for own in missing.T], weight @ missing / total
    mean, left = np.zeros(D), np.ones(D)  # residual variance of a column, given all others
    for n_left in range(COVARIANCE_ROUNDS, -1, -1):
        away = filled - mean
        second = (away.T * weight) @ away + np.diag(total * share * left)
        covariance = (second + IDENTITY_ROWS * np.eye(D)) / (total + IDENTITY_ROWS)
        if n_left == 0:
            break
        precision = np.linalg.inv(covariance)
        left = 1.0 / np.diag(precision)
        for d, own in enumerate(rows):
            told = away[own] @ precision[d] - precision[d, d] * away[own, d]
            away[own, d] = -left[d] * told
        filled = away + mean
        mean = weight @ filled / total
    return covariance


def factor_loadings(covariance: Array, J: int) -> Array:
    """Maximum likelihood loadings (D, J) of a covariance, in units of columns of variance 1.

    Loadings given the noise are principal directions in its units; the noise is what they leave. It
    begins at what all other columns leave of each.
    """
    size = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(size, size)
    noise = np.clip(1.0 / np.diag(np.linalg.inv(correlation)), LEAST_NOISE, 1.0)
    for _ in range(NOISE_ROUNDS):
        unit = np.sqrt(noise)
        values, vectors = np.linalg.eigh(correlation / np.outer(unit, unit))
        values, vectors = values[::-1][:J], vectors[:, ::-1][:, :J]
        Lambda = unit[:, None] * vectors * np.sqrt(np.maximum(values - 1.0, 1e-6))
        noise = np.clip(1.0 - (Lambda**2).sum(axis=1), LEAST_NOISE, 1.0)
    return Lambda


def random_loadings(
    source: BlockSource, n_factors: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[list[Array], Array]:
    """Randomly selected rows as loadings, and equal gates, as in the papers."""
    K, D = len(n_factors), source.X.shape[1]
    kinds, weight = distinct_rows(source)
    rows = kinds[rng.choice(len(kinds), sum(n_factors), p=weight / weight.sum())]
    (picked,) = picked_rows(source, rows)  # T(x), (P, rows, D)
    cuts = np.cumsum(n_factors)[:-1]
    loadings = [_bounded(rows.T, rng) for rows in np.split(picked[1], cuts)]
    return loadings, np.full((K, D), 1.0 / K)


def _bounded(Lambda: Array, rng: np.random.Generator) -> Array:
    """Loadings that explain at most most of a column, and no direction wholly without."""
    Lambda = Lambda + 1e-3 * rng.standard_normal(Lambda.shape)
    size = np.sqrt((Lambda**2).sum(axis=1, keepdims=True))
    return Lambda * np.minimum(1.0, 0.9 / np.maximum(size, 1e-300))
