"""Answers of a fitted GVQ: codes of rows, and their certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.association import Certificate, Exact
from partwise.contracts import Array
from partwise.data import BlockSource
from partwise.fitted import FittedCodes
from partwise.fitting.features import BLOCK_ROWS
from partwise.fitting.options import Rows, TrainingRows
from partwise.models.gvq import GVQ, RowCodes
from partwise.models.gvq_binary import BinaryGVQ
from partwise.runners import runner_of


def attributes(fitted: FittedCodes) -> dict[str, object]:
    """Learned attributes in the user's units."""
    (group,), model, params = fitted.columns, fitted.model, fitted.params
    if isinstance(model, BinaryGVQ):
        pairs = [model.squashed(params, m) for m in range(model.n_sets)]
        features, origins = (np.stack(of) for of in zip(*pairs, strict=True))
    else:
        features, origins = params.features * group.scale, group.decode(params.origins)
    if not model.fits_origin:
        origins = np.zeros_like(origins)  # without rounding
    if model.n_values > 2:
        shape = (model.n_sets, model.n_components, model.n_values - 1, features.shape[2])
        features = features.reshape(shape)
    return {
        "features_": features.astype(fitted.dtype),
        "origins_": origins.astype(fitted.dtype),
        "noise_variance_": fitted.noise_variance,
        "certificate_": fitted.certificate,
    }


def n_outputs(fitted: FittedCodes) -> int:
    """Columns of `transform`."""
    return int(fitted.model.n_sets * (fitted.model.n_atoms + (fitted.model.n_sets > 1)))


def names_out(fitted: FittedCodes) -> list[str]:
    """Names of the columns of `transform`."""
    J, model = fitted.model.n_values, fitted.model
    names = [f"feature{k}" for k in range(model.n_components)]
    if J > 2:
        names = [f"{name}_value{v}" for name in names for v in range(1, J)]
    if model.n_sets > 1:
        names = [f"set{m}_{n}" for m in range(model.n_sets) for n in [*names, "origin"]]
    return names


# --- codes ---


def codes(fitted: FittedCodes, X: Rows, n_jobs: int | None, model: GVQ | None = None) -> RowCodes:
    """Codes of rows, perhaps by another model that takes the same parameters."""
    finder = fitted.model if model is None else model
    weight, prepared = np.ones(X.shape[0]), fitted.prepared
    source = BlockSource(X, fitted.columns, weight, keep=False, max_rows=BLOCK_ROWS, n_powers=2)
    with runner_of(n_jobs, source) as runner:
        found = list(runner.map(lambda block: finder.codes(prepared, block), source))
    return RowCodes(*(np.concatenate(field) for field in zip(*found, strict=True)))


def as_table(fitted: FittedCodes, found: RowCodes) -> Array:
    """Value of each feature, (n, K); with several sets the set first."""
    if fitted.model.n_sets == 1:
        return found.values
    return np.column_stack([found.sets, found.values])


def from_table(fitted: FittedCodes, table: Array) -> RowCodes:
    """Codes of rows from what `as_table` gives, checked."""
    model = fitted.model
    several = model.n_sets > 1
    width = model.n_components + several
    if table.ndim != 2 or table.shape[1] != width or table.dtype.kind not in "biuf":
        raise ValueError(
            f"S has shape {table.shape} and type {table.dtype}, but decode needs numbers of shape "
            f"(n, {width}), as encode returns."
        )
    limits = [model.n_sets] * several + [model.n_values] * model.n_components
    if np.any(np.rint(table) != table) or np.any(table < 0) or np.any(np.array(limits) <= table):
        text = f"S must contain integers from 0 to {model.n_values - 1}"
        text += f" (sets in the first column: 0 to {model.n_sets - 1})" if several else ""
        raise ValueError(f"{text}.")
    table = table.astype(np.int64)
    sets = table[:, 0] if several else np.zeros(len(table), np.int64)
    nothing = np.zeros(len(table))
    return RowCodes(sets, table[:, several:], nothing, nothing, nothing > 0)


def decode(fitted: FittedCodes, found: RowCodes) -> Array:
    """Rows of given codes."""
    return _in_units(fitted, fitted.model.decode(fitted.params, found))


def _in_units(fitted: FittedCodes, rows: Array) -> Array:
    return fitted.columns[0].decode(rows).astype(fitted.dtype, copy=False)


def certify(
    fitted: FittedCodes, X: Rows, found: RowCodes, max_nodes: int, n_jobs: int | None
) -> Certificate:
    """Certificates of codes; codes of an approximation are compared with exact ones."""
    error, lower, proven = found.error, found.lower, found.proven
    if not isinstance(fitted.model.association, Exact):
        exact = replace(fitted.model, association=Exact(max_nodes))
        best = codes(fitted, X, n_jobs, exact)
        lower = np.minimum(best.lower, error)
        # Codes may differ and be equally good, up to rounding.
        proven = best.proven & (error - best.error <= 1e-9 * (1.0 + best.error))
        lower = np.where(proven, error, lower)
    squared = fitted.unit**2
    return Certificate(proven, (error - lower) * squared, error * squared, lower * squared)


def certified(
    fitted: FittedCodes, rows: TrainingRows, max_nodes: int, n_jobs: int | None
) -> FittedCodes:
    """The fitted model with codes of its training rows: certificates, noise, use of features."""
    found = codes(fitted, rows.X, n_jobs)
    return replace(
        fitted,
        params=replace(fitted.params, taken=fitted.model.count(found, rows.weight)),
        noise_variance=noise_variance(fitted, found, rows.weight),
        certificate=certify(fitted, rows.X, found, max_nodes, n_jobs),
    )


def noise_variance(fitted: FittedCodes, found: RowCodes, weight: Array) -> float:
    """Mean squared error per entry of the rows with these codes."""
    cells = max(float(fitted.columns[0].weight.sum()), np.finfo(float).tiny)
    cost = fitted.model.penalty * (found.values > 0).sum(axis=1)
    squares = float(weight @ np.maximum(found.error - cost, 0.0))
    return squares * fitted.unit**2 / cells


# --- rows ---


def transform(fitted: FittedCodes, X: Array, n_jobs: int | None) -> Array:
    """Codes as indicators, (n, n_outputs): 1 where a feature is on."""
    found, model = codes(fitted, X, n_jobs), fitted.model
    S = model.design(found.values).T
    if model.n_sets == 1:
        return S[:, :-1].astype(fitted.dtype)
    taken = found.sets[:, None] == np.arange(model.n_sets)
    return (taken[:, :, None] * S[:, None, :]).reshape(len(S), -1).astype(fitted.dtype)


def inverse_transform(fitted: FittedCodes, S: Array) -> Array:
    """Rows of given indicators."""
    model = fitted.model
    if model.n_sets == 1:
        S = np.column_stack([S, np.ones(len(S))])
    S = S.reshape(len(S), model.n_sets, model.n_atoms + 1)
    return _in_units(fitted, model.mix(fitted.params, S))


def reconstruct(fitted: FittedCodes, X: Array, n_jobs: int | None) -> Array:
    """The rows' nearest codes, decoded."""
    return decode(fitted, codes(fitted, X, n_jobs))


def explain(
    fitted: FittedCodes, row: Array, max_nodes: int, n_jobs: int | None
) -> dict[str, object]:
    """Explanation of one row (1, D): the features it consists of."""
    found = codes(fitted, row, n_jobs)
    certificate = certify(fitted, row, found, max_nodes, n_jobs)
    on = np.flatnonzero(found.values[0])
    without = np.repeat(found.values, len(on), axis=0)
    without[np.arange(len(on)), on] = 0
    sets, _, *known = (np.repeat(field, len(on), axis=0) for field in found)
    rows = decode(fitted, RowCodes(sets, without, *known))
    now = np.nansum((row - decode(fitted, found)) ** 2)
    saved = np.nansum((row - rows) ** 2, axis=1) - now
    return {
        "set": int(found.sets[0]),
        "features": [
            {
                "feature": int(on[i]),
                "value": int(found.values[0, on[i]]),
                "saves": float(saved[i]),
            }
            for i in np.argsort(-saved, kind="stable")
        ],
        "error": float(certificate.error[0]),
        "gap": float(certificate.gap[0]),
    }


def sample(fitted: FittedCodes, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """New rows and their codes, as `as_table` returns; features are sampled independently."""
    model, taken = fitted.model, fitted.params.taken
    sets = rng.choice(model.n_sets, n_samples, p=taken[:, -1] / taken[:, -1].sum())
    share = taken[:, :-1] / np.maximum(taken[:, -1:], np.finfo(float).tiny)
    above = share.reshape(model.n_sets, model.n_components, model.n_values - 1)
    above = np.cumsum(above[:, :, ::-1], axis=2)[sets]  # (n, K, J - 1): this value or higher
    values = (rng.random((n_samples, model.n_components, 1)) < above).sum(axis=2)
    drawn = np.column_stack([sets, values]) if model.n_sets > 1 else values
    rows = decode(fitted, from_table(fitted, drawn)).astype(float)
    if isinstance(model, BinaryGVQ):
        rows = (rng.random(rows.shape) < rows).astype(float)
    else:
        rows += np.sqrt(fitted.noise_variance) * rng.normal(size=rows.shape)
    return rows.astype(fitted.dtype), drawn
