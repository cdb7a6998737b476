"""Answers of an MCFA of a table: columns of several kinds through latent Gaussian numbers.

What concerns factors alone is answered by `partwise.answers.factors`. Where a column has several
parts, the Gaussian with the moments of their mixture stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from partwise.answers import factors
from partwise.answers.factors import (
    FittedFactors,
    checked_states,
    class_proba,
    class_shares,
    core,
    draw_states,
    level_likelihoods,
    n_outputs,
    n_parameters,
    n_parts,
    names_out,
    transform,
)
from partwise.answers.latent_cells import CellPredictive, cells_of
from partwise.answers.rows import CLASS_DRAWS, draw_parts, map_rows, telling
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.data.latent_columns import CopulaColumns
from partwise.models import calibration
from partwise.models import factors as pairs
from partwise.models import predict_factors as predict
from partwise.typing import Matrix

__all__ = [
    "checked_states",
    "class_proba",
    "class_shares",
    "draw_states",
    "n_outputs",
    "n_parameters",
    "names_out",
    "transform",
]


def is_mixed(fitted: FittedFactors) -> bool:
    """Whether the model is one of a table with columns of several kinds."""
    return isinstance(fitted.columns[0], CopulaColumns)


def latents(fitted: FittedFactors) -> CopulaColumns:
    """The columns' latent numbers."""
    return cast(CopulaColumns, fitted.columns[0])


# --- learned attributes ---


def attributes(fitted: FittedFactors) -> dict[str, object]:
    """Learned attributes by name; those of parts have an axis of latent numbers, not columns."""
    group, schema, K = latents(fitted), fitted.schema, n_parts(fitted)
    assert schema is not None
    named = zip(schema.names, schema.columns, strict=True)
    parts = parts_of(fitted)
    gates = np.zeros((fitted.n_columns, K))
    np.add.at(gates, group.index, fitted.params.gates[:K].T)
    width = np.maximum(np.bincount(group.index, minlength=fitted.n_columns), 1)
    return {
        **factors.part_attributes(fitted),
        "gates_": (gates / width[:, None]).astype(fitted.dtype),
        "parts_": parts,
        "column_labels_": parts,
        "latent_columns_": group.index.copy(),
        "kinds_": np.array([column.kind for column in schema.columns]),
        "column_levels_": {name: column.levels for name, column in named if column.has_levels},
    }


def parts_of(fitted: FittedFactors) -> Array:
    """Part with the most gates of each column's latent numbers, -1 for background columns; (D,)."""
    group, gates = latents(fitted), fitted.params.gates
    total = np.zeros((fitted.n_columns, len(gates)))
    np.add.at(total, group.index, gates.T)
    varies = np.zeros(fitted.n_columns, bool)
    varies[group.index] = group.varies
    chosen = total.argmax(axis=1)
    return np.where(varies & (chosen < n_parts(fitted)), chosen, -1)


# --- rows ---


def _moments(fitted: FittedFactors, features: Array) -> tuple[Array, Array]:
    """Mean and variance of every latent number, given features of the factors; (n, D) each."""
    mean, variance = predict.part_moments(core(fitted), fitted.params, features)
    gates = fitted.params.gates / fitted.params.gates.sum(axis=0)
    closed = gates.max(axis=0) >= 1.0
    if closed.all():
        best = gates.argmax(axis=0)
        at = best[None, :], np.arange(mean.shape[1])[:, None], np.arange(mean.shape[2])
        return mean[at], variance[at]
    first = np.einsum("kd,knd->nd", gates, mean)
    second = np.einsum("kd,knd->nd", gates, variance + mean**2)
    return first, np.maximum(second - first**2, 1e-12)


def predictive(
    fitted: FittedFactors, coded: Array, cells: Array | None = None, n_jobs: int | None = None
) -> dict[int, CellPredictive]:
    """Distributions of cells given their rows, by column.

    Parameters
    ----------
    fitted : Fitted
    coded : ndarray of shape (n, D)
        Encoded rows.
    cells : ndarray of shape (n, D), bool, optional
        Which cells; all if not given.
    n_jobs : int or None

    Returns
    -------
    found : dict
        Of every column with a model and such cells, by its place. What is observed is known: to
        predict an observed cell from the others, set it to NaN.
    """
    blocks = map_rows(
        fitted.columns,
        coded,
        lambda block: _moments(fitted, fitted.model.infer(fitted.prepared, block)[0]),
        n_jobs,
    )
    mean, variance = (np.concatenate(field) for field in zip(*blocks, strict=True))
    return _by_column(fitted, mean, variance, cells)


def _by_column(
    fitted: FittedFactors, mean: Array, variance: Array, cells: Array | None = None
) -> dict[int, CellPredictive]:
    """The same from moments of latent numbers."""
    group, out = latents(fitted), {}
    everywhere = np.arange(len(mean))
    for column, d in group.place.items():
        rows = everywhere if cells is None else np.flatnonzero(cells[:, column])
        if len(rows):
            own = slice(d, d + max(int(group.widths[d]), 1))
            out[column] = cells_of(group, d, rows, mean[rows, own], variance[rows, own])
    return out


def inverse_transform(fitted: FittedFactors, s: Array) -> Array:
    """Expected row given factors (n, J of all parts)."""
    model, start, m = core(fitted), 0, s.T.astype(float)
    found = np.ones((model.first[-1], m.shape[1]))
    for J, (_, linear, quadratic) in zip(model.n_factors, model.spans(), strict=True):
        own = m[start : start + J]
        found[linear], found[quadratic] = own, pairs.products(own)
        start += J
    told = _by_column(fitted, *_moments(fitted, found))
    return _filled(fitted, len(s), {d: cells.mean() for d, cells in told.items()})


def _filled(fitted: FittedFactors, n: int, found: dict[int, Array], other: float = 0.0) -> Array:
    """Values of columns (n,) in their places, (n, D)."""
    out = np.full((n, fitted.n_columns), other)
    for d, values in found.items():
        out[:, d] = values
    return out.astype(fitted.dtype, copy=False)


def reconstruct(fitted: FittedFactors, X: Array, n_jobs: int | None = None) -> Array:
    """Expected values of numbers, likeliest or median levels, (n, D)."""
    return impute(fitted, X, n_jobs)


def impute(fitted: FittedFactors, X: Array, n_jobs: int | None = None) -> Array:
    """Imputed values: the expectation of numbers, median or likeliest levels."""
    told = predictive(fitted, X, None, n_jobs)
    return _filled(fitted, len(X), {d: cells.likely() for d, cells in told.items()})


def interval(
    fitted: FittedFactors, X: Array, tail: float, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Ends of the intervals, with probability ``tail`` beyond each, (n, D) each.

    Categories have no interval. Ends of whole numbers are whole: one stands for all latent numbers
    that are nearer to it than to others, so the nearest is the quantile of whole numbers.
    """
    assert fitted.calibration is not None
    told = predictive(fitted, X, None, n_jobs)
    ends = []
    for p in (tail, 1.0 - tail):
        asked = calibration.correct(fitted.calibration, p)
        found = {
            d: cells.quantile(p if cells.n_levels else float(asked[d])) for d, cells in told.items()
        }
        end = _filled(fitted, len(X), found, np.nan)
        ends.append(end if fitted.schema is None else fitted.schema.nearest(end))
    return ends[0], ends[1]


def draw(
    fitted: FittedFactors,
    coded: Array,
    generators: Sequence[np.random.Generator],
    n_jobs: int | None = None,
) -> Iterator[Array]:
    """Rows with missing values sampled given the observed ones, once per generator.

    Factors are sampled first, so that missing cells of a row vary together.
    """
    features = factors.features(fitted, coded, n_jobs).astype(float)
    model, missing = core(fitted), np.isnan(coded)
    for rng in generators:
        states = []
        for J, (_, linear, quadratic) in zip(model.n_factors, model.spans(), strict=True):
            m = features[linear].T
            second = pairs.unpack(features[quadratic].T, J) - m[:, :, None] * m[:, None, :]
            root = np.linalg.cholesky(second + 1e-9 * np.eye(J))
            states.append(m + np.einsum("nij,nj->ni", root, rng.standard_normal(m.shape)))
        yield np.where(missing, draw_rows(fitted, np.hstack(states), rng), coded)


def predict_proba_columns(
    fitted: FittedFactors, coded: Array, places: Sequence[int], n_jobs: int | None = None
) -> dict[int, Array]:
    """Probability of each level in every row, given the row's observed cells: {place: (n, V)}."""
    told = predictive(fitted, coded, None, n_jobs)
    return {d: told[d].probabilities() for d in places if d in told and told[d].n_levels}


# --- densities ---


# Likelihood of checked rows under every class, fields (N, n); factors are sampled.
likelihoods = level_likelihoods


def cell_densities(
    fitted: FittedFactors, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
) -> Array:
    """Log density of cells given their rows, in model units."""
    group = latents(fitted)
    mean, variance = _moments(fitted, fitted.model.infer(fitted.prepared, block)[0])
    out = np.empty(len(rows))
    owner = group.index[columns]
    for column in np.unique(owner):
        own, d = np.flatnonzero(owner == column), group.place[int(column)]
        which = np.s_[rows[own], d : d + max(int(group.widths[d]), 1)]
        cells = cells_of(group, d, rows[own], mean[which], variance[which])
        if d in group.marginals:  # which the base measure turns into a density of the user's value
            away = (values[own] - mean[which][:, 0]) ** 2 / variance[which][:, 0]
            out[own] = -0.5 * (away + np.log(2.0 * np.pi * variance[which][:, 0]))
        else:
            out[own] = cells.log_density(values[own])
    return out


def anomaly_scores(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Minus the log-likelihood of each part's entries, (n, K)."""
    log_shares, group = np.log(class_shares(fitted)), latents(fitted)
    parts = fitted.params.gates.argmax(axis=0)
    found = [
        likelihoods(fitted, X, CLASS_DRAWS, n_jobs, k).log_likelihood
        for k in range(n_parts(fitted))
    ]
    density = np.logaddexp.reduce(np.stack(found) + log_shares[:, None], axis=1)  # (K, n)
    coded = group.encode(X[:, group.index], np.arange(len(group.index)))
    base = group.base(coded, np.arange(len(group.index)))
    return -np.stack(
        [own + base[:, parts == k].sum(axis=1) for k, own in enumerate(density)], axis=1
    )


# --- one row, and new rows ---


def explain(
    fitted: FittedFactors, row: Array, n_columns: int, n_jobs: int | None = None
) -> list[dict[str, object]]:
    """Explanation of one row (1, D), part by part."""
    group, params, model = latents(fitted), fitted.params, core(fitted)
    found = factors.features(fitted, row, n_jobs).astype(float)
    likely, parts = -anomaly_scores(fitted, row, n_jobs)[0], parts_of(fitted)
    one = np.zeros(1, np.int64)
    out: list[dict[str, object]] = []
    for k, (_, linear, _) in enumerate(model.spans()[: n_parts(fitted)]):
        w, s = params.loadings[k], found[linear, 0]
        Lambda, rho, noise = w.mean[:, :-1], w.mean[:, -1], w.noise
        own = [d for d in np.flatnonzero(parts == k).tolist() if not np.isnan(row[0, d])]
        expected, evidence = np.zeros(len(own)), np.zeros(len(own))
        for i, column in enumerate(own):
            d = group.place[column]
            at = slice(d, d + max(int(group.widths[d]), 1))
            near, far = (
                cells_of(group, d, one, mean[None, at], variance[None, at])
                for mean, variance in (
                    (Lambda @ s + rho, noise),
                    (rho, noise + (Lambda**2).sum(axis=1)),
                )
            )
            value = row[:, column].astype(float)
            expected[i] = near.likely()[0]
            evidence[i] = (near.log_density(value) - far.log_density(value))[0]
        out.append(
            {
                "part": k,
                "factors": [float(value) for value in s],
                "log_likelihood": float(likely[k]),
                "columns": telling(
                    fitted, row, np.array(own, np.int64), expected, evidence, n_columns
                ),
            }
        )
    return out


def draw_rows(fitted: FittedFactors, states: Array, rng: np.random.Generator) -> Array:
    """Rows (n, D) of checked factors."""
    group, gates = latents(fitted), fitted.params.gates
    part = draw_parts(gates, len(states), rng)
    z, start = rng.standard_normal(part.shape), 0
    for k, (J, w) in enumerate(zip(core(fitted).n_factors, fitted.params.loadings, strict=True)):
        mean = states[:, start : start + J] @ w.mean[:, :-1].T + w.mean[:, -1]
        z = np.where(part == k, mean + z * np.sqrt(w.noise), z)
        start += J
    found = {}
    for column, d in group.place.items():
        V = int(group.n_levels[d])
        if d in group.marginals:
            found[column] = group.marginals[d].from_z(z[:, d])
        elif group.widths[d] == 1:
            found[column] = np.searchsorted(group.edges[d, 1:V], z[:, d], side="right")
        else:
            found[column] = (z[:, d : d + V] + group.edges[d : d + V, 0]).argmax(axis=1)
    return _filled(fitted, len(states), found)
