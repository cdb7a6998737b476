"""Answers of a fitted CVQ, where a row is a sum of one state of every part, plus noise."""

from __future__ import annotations

import numpy as np

from partwise.answers.rows import map_rows
from partwise.association import Certificate, Codes, Exact
from partwise.contracts import Array
from partwise.fitting.sums import FittedSums
from partwise.sampling.importance import RowLikelihood

# Densities of rows and combinations of states held at a time.
MAX_DENSITIES = 4_000_000


def attributes(fitted: FittedSums) -> dict[str, Array]:
    """Learned attributes in the user's units."""
    (group,), model, params = fitted.columns, fitted.model, fitted.params
    by_part = (model.n_parts, model.n_states)
    means = params.mu * group.scale + group.shift / model.n_parts
    with np.errstate(over="ignore"):  # squares of huge columns are infinite
        noise = params.psi * group.scale**2
    found = {
        "means_": means.reshape(*by_part, -1),
        "noise_variance_": noise,
        "state_priors_": model.shares(params).reshape(by_part),
    }
    return {name: value.astype(fitted.dtype) for name, value in found.items()}


def names_out(fitted: FittedSums) -> list[str]:
    """Names of all states of all parts."""
    K, J = fitted.model.n_parts, fitted.model.n_states
    return [f"part{k}_state{j}" for k in range(K) for j in range(J)]


def posteriors(fitted: FittedSums, X: Array, n_jobs: int | None) -> Array:
    """Probability of every state of every part, (n, K * J)."""
    infer, prepared = fitted.model.infer, fitted.prepared
    pieces = map_rows(fitted.columns, X, lambda block: infer(prepared, block)[0].T, n_jobs)
    return np.concatenate(pieces).astype(fitted.dtype, copy=False)


def best_states(fitted: FittedSums, X: Array, n_jobs: int | None) -> Codes:
    """The most probable combination of states of every row, by exact search."""
    found = map_rows(
        fitted.columns,
        X,
        lambda block: fitted.model.best_states(fitted.params, block, Exact()),
        n_jobs,
    )
    return Codes(*(np.concatenate(field) for field in zip(*found, strict=True)))


def certify(fitted: FittedSums, X: Array, n_jobs: int | None) -> Certificate:
    """Certificates of the rows' codes; errors are minus log densities of row and code."""
    found = best_states(fitted, X, n_jobs)
    return Certificate(found.converged, found.energy - found.lower, found.energy, found.lower)


def decode(fitted: FittedSums, states: Array) -> Array:
    """Rows of given states (n, K)."""
    return _in_units(fitted, _means(fitted, states))


def expected_rows(fitted: FittedSums, m: Array) -> Array:
    """Expected rows given posteriors over states (n, K * J)."""
    return _in_units(fitted, m @ fitted.params.mu)


def _means(fitted: FittedSums, states: Array) -> Array:
    K, J = fitted.model.n_parts, fitted.model.n_states
    return fitted.params.mu[states + J * np.arange(K)].sum(axis=1)


def _in_units(fitted: FittedSums, rows: Array) -> Array:
    return fitted.columns[0].decode(rows).astype(fitted.dtype, copy=False)


def likelihoods(fitted: FittedSums, X: Array, n_draws: int, n_jobs: int | None) -> RowLikelihood:
    """Likelihood of rows, fields (1, n): there is one class."""
    model, prepared = fitted.model, fitted.prepared
    uniforms = np.random.default_rng(0).random((n_draws, model.n_parts))
    terms = model.n_combinations or n_draws * model.n_states
    max_rows = max(MAX_DENSITIES // max(terms, len(fitted.params.mu) ** 2), 16)
    found = map_rows(
        fitted.columns,
        X,
        lambda block: model.row_likelihood(prepared, block, uniforms),
        n_jobs,
        max_rows,
    )
    return RowLikelihood(*(np.concatenate(field)[None] for field in zip(*found, strict=True)))


def n_parameters(fitted: FittedSums) -> float:
    """Parameters of the states, without constants moved between parts, noise and state priors."""
    K, J = fitted.model.n_parts, fitted.model.n_states
    return float(K * (J - 1) + 2) * fitted.n_columns + K * (J - 1)


def sample(fitted: FittedSums, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """New rows, and their states (n, K)."""
    K, J = fitted.model.n_parts, fitted.model.n_states
    shares = fitted.model.shares(fitted.params).reshape(K, J)
    states = np.stack([rng.choice(J, n_samples, p=p) for p in shares], axis=1)
    rows = _means(fitted, states)
    rows = rows + np.sqrt(fitted.params.psi) * rng.normal(size=rows.shape)
    return _in_units(fitted, rows), states
