"""Answers of a fitted model of parts with factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from partwise.answers.classes import chain_attributes
from partwise.answers.rows import (
    CLASS_DRAWS,
    class_prior,
    class_probability,
    draw_parts,
    likelihood_of_rows,
    map_rows,
    parts_of,
    source_of,
    telling,
)
from partwise.contracts import AnyView, Array, Block
from partwise.data import ColumnGroup, RowBlock
from partwise.fitted import FittedParts, core_of
from partwise.fitting.factor_search import needed_factors
from partwise.models import calibration, factors, levels
from partwise.models import predict_factors as predict
from partwise.models.gating import Tied
from partwise.models.mcfa import MCFA, MCFAParams, MCFAPrepared
from partwise.models.ordinal import Ordinal
from partwise.sampling.importance import RowLikelihood
from partwise.typing import Matrix

FittedFactors: TypeAlias = FittedParts[MCFAParams, MCFAPrepared]

# Densities of entries with several parts, samples and parts held at a time.
MAX_DENSITIES = 2_000_000


# --- learned attributes ---


def core(fitted: FittedFactors) -> MCFA:
    """The model without the memory of rows."""
    return core_of(fitted.model, MCFA)


def n_parts(fitted: FittedFactors) -> int:
    """K, the background left out."""
    assert fitted.n_parts is not None
    return fitted.n_parts


def n_outputs(fitted: FittedFactors) -> int:
    """Factors of all parts."""
    return int(sum(core(fitted).n_factors))


def has_levels(fitted: FittedFactors) -> bool:
    """Whether entries are levels of latent numbers."""
    return isinstance(fitted.model, Ordinal)


def class_shares(fitted: FittedFactors) -> Array:
    """Posterior mean of the classes' shares, (N,)."""
    return core(fitted).classes.prior.mean(fitted.params.class_counts)


def attributes(fitted: FittedFactors) -> dict[str, object]:
    """Learned attributes of the estimator, in the user's units, by name."""
    parts = parts_of(fitted)
    gates = fitted.params.gates[: n_parts(fitted)].T.astype(fitted.dtype)
    return {**part_attributes(fitted), "gates_": gates, "parts_": parts, "column_labels_": parts}


def part_attributes(fitted: FittedFactors) -> dict[str, object]:
    """Those of the parts, which are not in the terms of columns."""
    params, group, dtype, K = fitted.params, fitted.columns[0], fitted.dtype, n_parts(fitted)
    own, scale = params.loadings[:K], group.scale
    Lambda = _padded(fitted, [w.mean[:, :-1] for w in own], (1,)) * scale[:, None]
    rho = np.stack([w.mean[:, -1] for w in own])
    with np.errstate(over="ignore"):
        noise = (np.stack([w.noise for w in own]) * scale**2).astype(dtype)
    out: dict[str, object] = {
        "loadings_": Lambda.astype(dtype),
        "offsets_": (rho * scale + group.shift).astype(dtype),
        "noise_variance_": noise,
        "n_factors_": needed_factors(params)[:K],
    }
    if group.levels is not None:
        out["levels_"] = group.levels
    if fitted.classes is not None:
        out |= chain_attributes(fitted)
        out["class_priors_"] = class_shares(fitted).astype(dtype)
        means = _padded(fitted, params.eta, (1,))
        out["factor_means_"] = np.moveaxis(means, 0, 1).astype(dtype)
        covariances = _padded(fitted, params.sigma, (1, 2))
        out["factor_covariances_"] = np.moveaxis(covariances, 0, 1).astype(dtype)
    return out


def _padded(fitted: FittedFactors, values: Sequence[Array], axes: tuple[int, ...]) -> Array:
    """Arrays of every part, padded with 0 along axes of factors; the background left out."""
    J = max(core(fitted).n_factors)
    out = []
    for value in values[: n_parts(fitted)]:
        widths = [(0, J - n if axis in axes else 0) for axis, n in enumerate(value.shape)]
        out.append(np.pad(value, widths))
    return np.stack(out)


def n_parameters(fitted: FittedFactors) -> float:
    """Loadings, offset and noise of each column in its own part, class priors and gates."""
    J, N = np.asarray(core(fitted).n_factors), core(fitted).classes.n_classes
    entries = float((J + 2) @ fitted.params.gates.sum(axis=1)) - float((J * (J - 1) / 2).sum())
    n_choices = 1 if fitted.params.chain is None else N + 1  # of a class: its share, or in a chain
    choices = (N - 1) * (n_choices + float((J + J * (J + 1) / 2).sum()))
    return entries + choices + (len(J) - 1) * fitted.n_columns


def names_out(fitted: FittedFactors, names: Sequence[str]) -> list[str]:
    """Names of the columns of `transform`; ``names`` of the parts."""
    sizes = zip(names, core(fitted).n_factors, strict=False)  # which may have the background last
    return [f"{name}_factor{j}" for name, J in sizes for j in range(J)]


# --- rows ---


def features(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Features of checked rows' factors, (F, n)."""

    def on_block(block: RowBlock) -> Array:
        return fitted.model.infer(fitted.prepared, block)[0]

    found = map_rows(fitted.columns, X, on_block, n_jobs, told=fitted.told)
    return np.concatenate(found, axis=1)


def transform(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Posterior mean of every factor, (n, J of all parts)."""
    return np.ascontiguousarray(features(fitted, X, n_jobs)[core(fitted).linear].T)


def outputs_of(fitted: FittedFactors, m: Array) -> Array:
    """Columns of `transform` among features of the factors (n, F)."""
    return m[:, core(fitted).linear]


def expected_rows(fitted: FittedFactors, m: Array) -> Array:
    """Expected entries given features of the factors (n, F)."""
    means = outputs_of(fitted, m).T
    return fitted.columns[0].decode(predict.expectation(core(fitted), fitted.params, means))


def inverse_transform(fitted: FittedFactors, s: Array) -> Array:
    """Expected row given factors (n, J of all parts)."""
    if has_levels(fitted):
        rows = _levels_at(fitted, s.T.astype(float))
    else:
        rows = fitted.columns[0].decode(predict.expectation(core(fitted), fitted.params, s.T))
    return rows.astype(fitted.dtype, copy=False)


def _levels_at(fitted: FittedFactors, m: Array) -> Array:
    """Expected levels (n, D) given factors (J of all parts, n), as if they were known."""
    model, group, first = core(fitted), fitted.columns[0], 0
    found = np.ones((model.first[-1], m.shape[1]))
    for J, (_, linear, quadratic) in zip(model.n_factors, model.spans(), strict=True):
        own = m[first : first + J]
        found[linear], found[quadratic] = own, factors.products(own)
        first += J
    moments = predict.part_moments(model, fitted.params, found)
    shares = predict.level_shares(*moments, fitted.params.gates, group.ends)
    return levels.mean(shares, _levels(group))


def _levels(group: ColumnGroup) -> Array:
    assert group.levels is not None
    return group.levels


def reconstruct(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Expected value of every entry, (n, D)."""
    group = fitted.columns[0]
    if has_levels(fitted):
        return _of_levels(fitted, X, lambda shares: levels.mean(shares, _levels(group)), n_jobs)
    m = features(fitted, X, n_jobs)[core(fitted).linear]
    return group.decode(predict.expectation(core(fitted), fitted.params, m))


def impute(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Imputed values: the expectation of numbers, the median of ordered levels."""
    if not has_levels(fitted):
        return reconstruct(fitted, X, n_jobs)
    known = _levels(fitted.columns[0])
    return _of_levels(fitted, X, lambda shares: levels.quantile(shares, known, 0.5), n_jobs)


def _of_levels(
    fitted: FittedFactors, X: Matrix, summary: Callable[[Array], Array], n_jobs: int | None = None
) -> Array:
    """A summary (n, D) of the levels' probabilities (n, D, L)."""
    model, params, ends = core(fitted), fitted.params, fitted.columns[0].ends

    def on_block(block: RowBlock) -> Array:
        found = fitted.model.infer(fitted.prepared, block)[0]
        mean, variance = predict.part_moments(model, params, found)
        return summary(predict.level_shares(mean, variance, params.gates, ends))

    max_rows = max(MAX_DENSITIES // ends.size, 16)
    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs, max_rows))


def predict_proba_columns(
    fitted: FittedFactors, X: Matrix, places: Sequence[int], n_jobs: int | None = None
) -> dict[int, Array]:
    """Probability of each ordered level in every row, given the row: {place: (n, L)}."""
    if not has_levels(fitted):
        return {}
    shares = _of_levels(fitted, X, lambda shares: shares[:, list(places)], n_jobs)
    return {d: shares[:, i] for i, d in enumerate(places)}


def interval(
    fitted: FittedFactors, X: Matrix, tail: float, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Ends of the intervals, with probability ``tail`` beyond each, (n, D) each."""
    group, tails = fitted.columns[0], (tail, 1.0 - tail)
    if has_levels(fitted):

        def both(shares: Array) -> Array:
            ends = [levels.quantile(shares, _levels(group), p) for p in tails]
            return np.stack(ends, axis=2)

        found = _of_levels(fitted, X, both, n_jobs)
        return found[:, :, 0], found[:, :, 1]
    assert fitted.calibration is not None
    asked = [calibration.correct(fitted.calibration, p) for p in tails]

    def on_block(block: RowBlock) -> tuple[Array, Array]:
        found = fitted.model.infer(fitted.prepared, block)[0]
        ends = predict.quantiles(core(fitted), fitted.params, found, asked)
        lower, upper = (group.decode(end) for end in ends)
        return lower, upper

    pieces = map_rows(fitted.columns, X, on_block, n_jobs, told=fitted.told)
    lower, upper = zip(*pieces, strict=True)
    return np.concatenate(lower), np.concatenate(upper)


# --- densities ---


def likelihoods(
    fitted: FittedFactors,
    X: Matrix,
    n_draws: int,
    n_jobs: int | None = None,
    from_prior: bool = False,
) -> RowLikelihood:
    """Likelihood of checked rows under every class, fields (N, n).

    If columns have one part for all rows, each is assigned to its most probable part, and the
    factors are integrated out exactly. For ordered levels, factors are sampled.
    """
    if has_levels(fitted):
        if from_prior:
            raise ValueError('proposal="prior" does not support ordered levels; use "posterior".')
        return level_likelihoods(fitted, X, n_draws, n_jobs)
    on_block, max_rows = block_likelihoods(fitted, n_draws, from_prior)
    return likelihood_of_rows(fitted.columns, X, on_block, n_jobs, max_rows)


def block_likelihoods(
    fitted: FittedFactors, n_draws: int, from_prior: bool = False
) -> tuple[Callable[[Block[AnyView]], RowLikelihood], int | None]:
    """Likelihood of a block's rows under every class, fields (N, n), and how many rows it takes."""
    model, params = core(fitted), fitted.params
    params = predict.hardened(params) if isinstance(model.chooser.gating, Tied) else params
    exact = np.all(params.gates.max(axis=0) >= 1.0) and not from_prior

    def on_block(block: Block[AnyView]) -> RowLikelihood:
        known = exact or from_prior
        proposal = None if known else fitted.model.propose(fitted.prepared, block)
        return predict.row_likelihood(
            model, params, block, proposal, n_draws, from_prior=from_prior
        )

    return on_block, None if exact else max(MAX_DENSITIES // (n_draws * n_outputs(fitted)), 16)


def level_likelihoods(
    fitted: FittedFactors,
    X: Matrix,
    n_draws: int,
    n_jobs: int | None = None,
    part: int | None = None,
) -> RowLikelihood:
    """Likelihood of checked rows, or of a part's entries, under every class; fields (N, n).

    Factors are sampled.
    """
    model, params, group = core(fitted), fitted.params, fitted.columns[0]

    def on_block(block: RowBlock) -> RowLikelihood:
        proposal = fitted.model.propose(fitted.prepared, block)
        found = predict.level_likelihood(
            model, params, block, group.ends, group.latent_widths, proposal, n_draws, part
        )
        return found if part is not None else found.shifted(block.base)

    max_rows = max(MAX_DENSITIES // (n_draws * n_outputs(fitted)), 16)
    return likelihood_of_rows(fitted.columns, X, on_block, n_jobs, max_rows)


def class_proba(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Probability of every class, (n, N)."""
    found = likelihoods(fitted, X, CLASS_DRAWS, n_jobs)
    return class_probability(found, class_prior(fitted, class_shares(fitted)))


def cell_densities(
    fitted: FittedFactors, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
) -> Array:
    """Log density of cells given their rows, in model units."""
    found = fitted.model.infer(fitted.prepared, block)[0]
    of = core(fitted), fitted.params, found, rows, columns
    if has_levels(fitted):
        shares = predict.cell_level_shares(*of, fitted.columns[0].ends)
        return np.log(shares[np.arange(len(rows)), values.astype(int)] + 1e-300)
    return predict.log_density(*of, values)


def anomaly_scores(fitted: FittedFactors, X: Matrix, n_jobs: int | None = None) -> Array:
    """Minus the log-likelihood of each part's entries, (n, K)."""
    log_shares, K = np.log(class_shares(fitted)), n_parts(fitted)
    if has_levels(fitted):
        found = [
            level_likelihoods(fitted, X, CLASS_DRAWS, n_jobs, k).log_likelihood for k in range(K)
        ]
        density = np.logaddexp.reduce(np.stack(found) + log_shares[:, None], axis=1)
        return -density.T
    parts, log_scale = fitted.params.gates.argmax(axis=0), fitted.columns[0].log_scale

    def on_block(block: RowBlock) -> Array:
        found = predict.part_likelihoods(core(fitted), fitted.params, block)  # (N, K, n)
        density = np.logaddexp.reduce(found + log_shares[:, None, None], axis=0)
        out = -density[:K].T
        for k in range(K):
            entries = block.groups[0].entries(np.flatnonzero(parts == k), absent=True)
            scale = log_scale[entries.columns]
            out[:, k] += np.bincount(entries.rows, scale, minlength=block.n_rows)
        return out

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs))


# --- one row, and new rows ---


def explain(
    fitted: FittedFactors, row: Matrix, n_columns: int, n_jobs: int | None = None
) -> list[dict[str, object]]:
    """Explanation of one row (1, D), part by part."""
    group, params, model = fitted.columns[0], fitted.params, core(fitted)
    found = features(fitted, row, n_jobs).astype(float)
    shares = -anomaly_scores(fitted, row, n_jobs)[0]
    parts = params.gates.argmax(axis=0)
    view = source_of(fitted.columns, row).block(0).groups[0]
    out: list[dict[str, object]] = []
    for k, (_, linear, _) in enumerate(model.spans()[: n_parts(fitted)]):
        entries = view.entries(np.flatnonzero((parts == k) & group.varies))
        d, w, s = entries.columns, params.loadings[k], found[linear, 0]
        Lambda, rho, noise = w.mean[d, :-1], w.mean[d, -1], w.noise[d]
        expected = Lambda @ s + rho
        broad = noise + (Lambda**2).sum(axis=1)
        if has_levels(fitted):
            near, far = (
                predict.level_shares(
                    mean[None, None], variance[None, None], np.ones((1, len(d))), group.ends[d]
                )[0]
                for mean, variance in ((expected, noise), (rho, broad))
            )
            at = np.arange(len(d)), entries.values.astype(int)
            shown = near @ _levels(group)
            evidence = np.log(near[at] + 1e-300) - np.log(far[at] + 1e-300)
        else:
            evidence = 0.5 * (np.log(broad / noise) - (entries.values - expected) ** 2 / noise)
            evidence += 0.5 * (entries.values - rho) ** 2 / broad
            shown = expected * group.scale[d] + group.shift[d]
        out.append(
            {
                "part": k,
                "factors": [float(value) for value in s],
                "log_likelihood": float(shares[k]),
                "columns": telling(fitted, row, d, shown, evidence, n_columns),
            }
        )
    return out


def draw_states(fitted: FittedFactors, sources: Array, rng: np.random.Generator) -> Array:
    """Factors (n, J of all parts), each from its prior in a class, which ``sources`` (n, K) has."""
    drawn, params = [], fitted.params
    for k, J in enumerate(core(fitted).n_factors[: n_parts(fitted)]):
        root = np.linalg.cholesky(params.sigma[k])[sources[:, k]]
        z = rng.standard_normal((len(sources), J))
        drawn.append(params.eta[k][sources[:, k]] + np.einsum("nij,nj->ni", root, z))
    return np.hstack(drawn)


def checked_states(fitted: FittedFactors, states: ArrayLike, n_samples: int) -> Array:
    """Factors (n, J of all parts) as numbers; raise an error for other shapes."""
    found = np.asarray(states, dtype=float)
    if found.shape != (n_samples, n_outputs(fitted)) or not np.isfinite(found).all():
        raise ValueError(
            f"states must have shape ({n_samples}, {n_outputs(fitted)}), a number for every factor."
        )
    return found


def draw_rows(fitted: FittedFactors, states: Array, rng: np.random.Generator) -> Array:
    """Rows (n, D) of checked factors."""
    group = fitted.columns[0]
    part = draw_parts(fitted.params.gates, len(states), rng)
    rows = rng.standard_normal(part.shape)
    start = 0
    for k, (J, w) in enumerate(zip(core(fitted).n_factors, fitted.params.loadings, strict=True)):
        mean = states[:, start : start + J] @ w.mean[:, :-1].T + w.mean[:, -1]
        rows = np.where(part == k, mean + rows * np.sqrt(w.noise), rows)
        start += J
    if has_levels(fitted):
        rows = (rows[:, :, None] >= group.ends[:, 1:-1]).sum(axis=2)
    return group.decode(rows).astype(fitted.dtype, copy=False)
