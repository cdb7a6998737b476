"""Predictions, densities and samples of a fitted aspect model."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy import sparse

from partwise.answers.rows import map_rows
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.fitting.aspects import FittedAspects
from partwise.sampling.importance import RowLikelihood

Ratings: TypeAlias = Array | sparse.csr_matrix

# Densities evaluated at a time: rows, samples of the shares of aspects, and ratings.
MAX_DENSITIES = 4_000_000


def levels(fitted: FittedAspects) -> Array:
    """The rating scale."""
    return np.asarray(fitted.columns[0].levels)


def attributes(fitted: FittedAspects) -> dict[str, object]:
    """Learned attributes in the user's units."""
    scale = levels(fitted)
    means = fitted.model.expectation(fitted.prepared, scale)
    squares = fitted.model.expectation(fitted.prepared, scale**2)
    return {
        "levels_": scale,
        "means_": means.astype(fitted.dtype),
        "variances_": np.maximum(squares - means**2, 0.0).astype(fitted.dtype),
        "beta_": fitted.model.beta,
    }


def shares(fitted: FittedAspects, X: Ratings, n_jobs: int | None) -> Array:
    """Posterior mean shares of the aspects per row, (n, Z)."""
    infer, prepared = fitted.model.infer, fitted.prepared
    return np.concatenate(map_rows(fitted.columns, X, lambda block: infer(prepared, block), n_jobs))


def expected_rows(fitted: FittedAspects, pi: Array) -> Array:
    """Expected ratings given shares of the aspects (n, Z)."""
    means = fitted.model.expectation(fitted.prepared, levels(fitted)).astype(fitted.dtype)
    return (pi @ means).astype(fitted.dtype, copy=False)


def interval(
    fitted: FittedAspects, X: Ratings, tail: float, n_jobs: int | None
) -> tuple[Array, Array]:
    """Levels below and above which a rating lies with probability ``tail``."""
    pi, scale = shares(fitted, X, n_jobs), levels(fitted)
    ends = [fitted.model.quantile(fitted.prepared, pi, p) for p in (tail, 1.0 - tail)]
    return scale[ends[0]], scale[ends[1]]


def cell_densities(
    fitted: FittedAspects, block: RowBlock, rows: Array, columns: Array, values: Array
) -> Array:
    """Log probability of levels in cells of a block."""
    pi = fitted.model.infer(fitted.prepared, block)
    return fitted.model.log_density(fitted.prepared, pi, rows, columns, values.astype(np.int64))


def likelihoods(
    fitted: FittedAspects, X: Ratings, n_draws: int, n_jobs: int | None
) -> RowLikelihood:
    """Likelihood of rows, fields of shape (1, n) as there is one class."""
    model, prepared = fitted.model, fitted.prepared
    found = map_rows(
        fitted.columns,
        X,
        lambda block: model.row_likelihood(prepared, block, n_draws),
        n_jobs,
        max(MAX_DENSITIES // (n_draws * model.n_aspects), 16),
    )
    return RowLikelihood(*(np.concatenate(field)[None] for field in zip(*found, strict=True)))


def n_parameters(fitted: FittedAspects) -> float:
    """Two parameters of a Gaussian per column and aspect; rows' shares are integrated out."""
    return 2.0 * fitted.n_columns * fitted.model.n_aspects


def sample(fitted: FittedAspects, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """New rows, and their shares of the aspects (n, Z)."""
    pi = rng.dirichlet(np.full(fitted.model.n_aspects, 1.0 + fitted.model.mixing), n_samples)
    p = rng.random((n_samples, fitted.n_columns))
    rows = levels(fitted)[fitted.model.quantile(fitted.prepared, pi, p)]
    return rows.astype(fitted.dtype, copy=False), pi.astype(fitted.dtype, copy=False)
