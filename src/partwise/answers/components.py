"""Answers of fitted Bayesian PCA and its mixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy import special

from partwise.answers.rows import map_rows, telling
from partwise.contracts import Array, SumView
from partwise.data import RowBlock
from partwise.fitted import FittedComponents
from partwise.fitting.component_space import dimensions, effective_dimension
from partwise.likelihoods import mixtures
from partwise.models import calibration
from partwise.models.bayesian_pca import BayesianPCAParams, Found, pieces
from partwise.sampling.importance import RowLikelihood

Answer = TypeVar("Answer")

# Components of lower probability are left out when a row is explained.
MIN_PROBABILITY = 0.01


# --- attributes ---


def _in_units(params: BayesianPCAParams, unit: float) -> tuple[float, Array]:
    """Variance of the noise and relevances, (q,) or (M, q), in the user's units.

    Squares of units beyond 1e154 or below 1e-154 are infinite or zero.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        square = np.square(unit)
        return float(square / params.precision), params.alpha[0] / params.alpha[1] / square


def pca_attributes(fitted: FittedComponents) -> dict[str, object]:
    """Learned attributes of `BayesianPCA`."""
    (group,), (params,), dtype = fitted.columns, fitted.params, fitted.dtype
    unit = float(group.scale[0])
    variance, relevances = _in_units(params, unit)
    return {
        "components_": (params.mean[0, :, :-1].T * unit).astype(dtype),
        "mean_": group.decode(params.mean[0, :, -1]).astype(dtype),
        "noise_variance_": variance,
        "relevances_": relevances.astype(dtype),
        "effective_dimension_": effective_dimension(params),
        "n_directions_": fitted.n_directions,
    }


def mixture_attributes(fitted: FittedComponents) -> dict[str, object]:
    """Learned attributes of `BayesianPCAMixture`."""
    (group,), every, dtype = fitted.columns, fitted.params, fitted.dtype
    unit = float(group.scale[0])
    q = max(params.n_directions for params in every)
    sizes = [len(params.counts) for params in every]

    def padded(values: Array, fill: float = 0.0) -> Array:
        widths = [(0, 0)] * (values.ndim - 1) + [(0, q - values.shape[-1])]
        return np.pad(values, widths, constant_values=fill)

    W = np.concatenate([padded(params.mean[:, :, :-1]) for params in every])
    means = np.concatenate([params.mean[:, :, -1] for params in every])
    shares = zip(fitted.shares, every, strict=True)
    weights = [share * fitted.model.shares.mean(params.counts) for share, params in shares]
    told = [_in_units(params, unit) for params in every]
    noise = np.array([variance for variance, _ in told])
    by_class = fitted.classes is not None
    kinds = ["component" if params.alpha.ndim == 3 else "shared" for params in every]
    rates = [padded(relevances, np.inf) for _, relevances in told]
    if "component" in kinds:
        each = zip(rates, sizes, strict=True)
        rates = [np.broadcast_to(rate, (size, q)) for rate, size in each]
        alpha = np.concatenate(rates).astype(dtype)
    else:
        alpha = (np.stack(rates) if by_class else rates[0]).astype(dtype)
    dimension = np.array([effective_dimension(params) for params in every])
    found: dict[str, object] = {
        "n_components_": sum(sizes),
        "components_": (np.swapaxes(W, 1, 2) * unit).astype(dtype),
        "means_": group.decode(means).astype(dtype),
        "weights_": np.concatenate(weights).astype(dtype),
        "noise_variance_": noise if by_class else float(noise[0]),
        "relevances_": alpha,
        "relevance_": kinds if by_class else kinds[0],
        "effective_dimension_": dimension if by_class else int(dimension[0]),
        "component_dimensions_": np.concatenate([dimensions(params) for params in every]),
        "n_directions_": fitted.n_directions,
        "moves_": fitted.moves,
        "n_components_posterior_": fitted.size_posterior,
    }
    if fitted.classes is not None:
        found["component_classes_"] = np.repeat(fitted.classes, sizes)
        found["class_priors_"] = fitted.class_priors
        levels = [[_in_units(one, unit)[0] for one in level.params] for level in fitted.levels]
        found["class_noise_variances_"] = np.array(levels)
    return found


def mixture_names_out(fitted: FittedComponents) -> list[str]:
    """Names of the columns of a mixture's `codes`."""
    names, m = [], 0
    for params in fitted.params:
        for _ in params.counts:
            names += [f"component{m}_factor{i}" for i in range(params.n_directions)]
            names.append(f"component{m}")
            m += 1
    return names


# --- rows ---


def _found(
    fitted: FittedComponents,
    X: Array,
    function: Callable[[BayesianPCAParams, SumView, Found], Answer],
    n_jobs: int | None,
) -> list[list[Answer]]:
    """``function(params, view, posterior)`` of rows, a list for every mixture."""

    def on_block(block: RowBlock) -> list[list[Answer]]:
        return [
            [function(params, view, fitted.model.infer(params, view))
             for _, view in pieces(params, block)]
            for params in fitted.params
        ]  # fmt: skip

    found = map_rows(fitted.columns, X, on_block, n_jobs)
    return [[one for block in found for one in block[c]] for c in range(len(fitted.params))]


def class_weights(fitted: FittedComponents, X: Array, n_jobs: int | None) -> Array:
    """Probability of every class of rows, (N, n)."""
    if fitted.offsets is None or len(fitted.params) == 1:
        return np.ones((1, X.shape[0]))

    def density(params: BayesianPCAParams, view: SumView) -> Array:
        return fitted.model.predictive(params, view)[0].log_z

    joint = (np.log(fitted.shares) + fitted.offsets)[:, None]
    for slope, params in fitted.levels:
        joint = joint + slope * _densities(fitted, params, X, density, n_jobs)
    return special.softmax(joint, axis=0)


def codes(fitted: FittedComponents, X: Array, n_jobs: int | None) -> Array:
    """r (x, 1) of every component of every class, (n, sum of p)."""

    def code(_: BayesianPCAParams, __: SumView, found: Found) -> Array:
        rows = [
            np.vstack([m, np.ones_like(m[:1])]) * r for m, r in zip(found.m, found.r, strict=True)
        ]
        return np.concatenate(rows)

    found = _found(fitted, X, code, n_jobs)
    weights = class_weights(fitted, X, n_jobs)
    by_class = [np.concatenate(c, axis=1) * w for c, w in zip(found, weights, strict=True)]
    return np.concatenate(by_class).T


def responsibilities(fitted: FittedComponents, X: Array, n_jobs: int | None) -> Array:
    """Probability of every component, (n, M)."""
    ends = np.cumsum([t.mean.shape[2] for t in fitted.params for _ in t.counts]) - 1
    return codes(fitted, X, n_jobs)[:, ends]


def expected_rows(fitted: FittedComponents, code: Array) -> Array:
    """Expected rows given `codes`, in the user's units."""
    loadings = [np.swapaxes(t.mean, 1, 2).reshape(-1, t.mean.shape[1]) for t in fitted.params]
    return fitted.columns[0].decode(code @ np.concatenate(loadings))


def reconstruct(fitted: FittedComponents, X: Array, n_jobs: int | None) -> Array:
    """Expected value of every entry, (n, D)."""
    return expected_rows(fitted, codes(fitted, X, n_jobs))


def interval(
    fitted: FittedComponents, X: Array, tail: float, n_jobs: int | None
) -> tuple[Array, Array]:
    """Ends of the calibrated intervals, with probability ``tail`` beyond each."""
    assert fitted.calibration is not None
    asked = [calibration.correct(fitted.calibration, p)[0] for p in (tail, 1.0 - tail)]
    weights = class_weights(fitted, X, n_jobs)

    def entries(
        params: BayesianPCAParams, view: SumView, found: Found
    ) -> tuple[Array, Array, Array]:
        return (found.r, *fitted.model.entries(params, view, found))

    found = _found(fitted, X, entries, n_jobs)
    # A row's components, of all classes, are the parts of its entries' mixtures.
    r, mean, variance = (
        np.concatenate([np.concatenate([one[i] for one in c], axis=-1) for c in found])
        for i in range(3)
    )
    sizes = [len(params.counts) for params in fitted.params]
    r = r * np.repeat(weights, sizes, axis=0)
    ends = []
    for p in asked:
        out, n = np.empty(mean.shape[1:]), mean.shape[2]
        deviate = np.full(n, special.ndtri(p))
        gates = np.ascontiguousarray(r.T)
        mixtures.part_quantiles(gates, mean, np.sqrt(variance), deviate, np.full(n, p), out)
        ends.append(fitted.columns[0].decode(out.T))
    return ends[0], ends[1]


def explain(
    fitted: FittedComponents, row: Array, n_columns: int, n_jobs: int | None
) -> list[dict[str, object]]:
    """Probable components of a row (1, D), the most probable first."""
    (group,), weights = fitted.columns, class_weights(fitted, row, n_jobs)[:, 0]
    z = group.encode(row, np.arange(row.shape[1]))[0]
    shown = np.flatnonzero(~np.isnan(z) & group.varies)
    found = _found(fitted, row, lambda params, view, found: found, n_jobs)
    out: list[tuple[float, dict[str, object]]] = []
    for c, (params, (rows,)) in enumerate(zip(fitted.params, found, strict=True)):
        for k, x in enumerate(rows.m):
            W, mu = params.mean[k, :, :-1], params.mean[k, :, -1]
            noise, factors = 1.0 / params.precision, x[:, 0]
            expected, broad = mu + W @ factors, noise + (W**2).sum(axis=1)
            evidence = 0.5 * (np.log(broad / noise) - (z - expected) ** 2 / noise)
            evidence += 0.5 * (z - mu) ** 2 / broad
            told = group.decode(expected)
            which = {} if fitted.classes is None else {"class": fitted.classes[c]}
            probability = float(weights[c] * rows.r[k, 0])
            columns = telling(fitted, row, shown, told[shown], evidence[shown], n_columns)
            one = {
                "component": len(out), **which, "probability": probability, "factors": factors,
                "columns": columns,
            }  # fmt: skip
            out.append((probability, one))
    likely = [pair for pair in out if pair[0] >= MIN_PROBABILITY]
    return [one for _, one in sorted(likely, key=lambda pair: -pair[0])]


# --- densities ---


def _densities(
    fitted: FittedComponents,
    every: tuple[BayesianPCAParams, ...],
    X: Array,
    function: Callable[[BayesianPCAParams, SumView], Array],
    n_jobs: int | None,
) -> Array:
    """``function(params, view)`` of rows under every class, in the user's units, (N, n)."""

    def on_block(block: RowBlock) -> Array:
        of_class = [
            [function(params, view) for _, view in pieces(params, block)] for params in every
        ]
        return np.stack([np.concatenate(c) for c in of_class]) + block.base

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs), axis=1)


def likelihoods(fitted: FittedComponents, X: Array, n_jobs: int | None) -> RowLikelihood:
    """Likelihood of rows under every class, exact, fields (N, n)."""
    value = _densities(fitted, fitted.params, X, fitted.model.log_density, n_jobs)
    return RowLikelihood(value, np.zeros_like(value), np.full_like(value, np.inf))


def n_parameters(fitted: FittedComponents) -> float:
    """Loadings up to rotations, means, shares and noise."""
    count = 0.0
    for params in fitted.params:
        M, D, p = params.mean.shape
        q = p - 1
        count += M * (D * q - q * (q - 1) / 2 + D) + M - 1 + 1
    return count + len(fitted.params) - 1


# --- new rows ---


def draw_components(
    fitted: FittedComponents, c: int, n_samples: int, rng: np.random.Generator
) -> Array:
    """Components of new rows of class c, (n,)."""
    share = fitted.model.shares.mean(fitted.params[c].counts)
    return rng.choice(len(share), n_samples, p=share)


def draw_rows(
    fitted: FittedComponents, c: int, components: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """New rows of components (n,) of class c, in the user's units, and their positions (n, q)."""
    params = fitted.params[c]
    x = rng.standard_normal((len(components), params.n_directions))
    mean = params.mean[components]
    rows = np.einsum("ndi,ni->nd", mean[:, :, :-1], x) + mean[:, :, -1]
    rows += rng.standard_normal(rows.shape) / np.sqrt(params.precision)
    return fitted.columns[0].decode(rows).astype(fitted.dtype, copy=False), x
