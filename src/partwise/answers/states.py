"""Answers of a fitted model of parts with states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from partwise.answers.classes import chain_attributes
from partwise.answers.rows import (
    CLASS_DRAWS,
    class_prior,
    class_probability,
    draw_parts,
    in_columns,
    likelihood_of_rows,
    map_rows,
    parts_of,
    source_of,
    telling,
)
from partwise.contracts import AnyView, Array, Block, Span
from partwise.data import ColumnGroup, RowBlock
from partwise.fitted import FittedParts, core_of
from partwise.likelihoods.base import Average
from partwise.likelihoods.predictive import Predictive
from partwise.models import calibration, predict
from partwise.models.class_tree import ClassTree, TreePrior
from partwise.models.mcvq import MCVQ, MCVQParams, MCVQPrepared
from partwise.sampling.importance import RowLikelihood
from partwise.typing import Matrix, Value

FittedStates: TypeAlias = FittedParts[MCVQParams, MCVQPrepared]

# Densities of entries and states held at a time if columns have several parts.
MAX_DENSITIES = 4_000_000


# --- learned attributes ---


def core(fitted: FittedStates) -> MCVQ:
    """The model without the memory of rows."""
    return core_of(fitted.model, MCVQ)


def n_parts(fitted: FittedStates) -> int:
    """K, the background left out."""
    assert fitted.n_parts is not None
    return fitted.n_parts


def own_states(fitted: FittedStates) -> tuple[int, ...]:
    """Number of states of every part, the background left out."""
    return core(fitted).n_states[: n_parts(fitted)]


def laws(fitted: FittedStates) -> list[Predictive]:
    """Predictive distribution of entries in every state, (S, D_g) per group."""
    priors = core(fitted).priors
    return [p.predictive(chi) for p, chi in zip(priors, fitted.params.chi, strict=True)]


def state_shares(fitted: FittedStates) -> Array:
    """Posterior mean of the state priors of each class, background included; (N, S)."""
    tree = tree_prior(fitted)
    return group_shares(fitted) if tree is None else np.exp(tree.marginal(core(fitted).first))


def group_shares(fitted: FittedStates) -> Array:
    """The same of the classes that states depend on: those of rows, or of their part's group."""
    parts = core(fitted).parts_of(fitted.params.state_counts)
    means = [prior.mean(counts.T).T for prior, counts in parts]
    return np.concatenate(means, axis=1)


def tree_prior(fitted: FittedStates) -> TreePrior | None:
    """Prior of the states where they depend on classes of groups of parts."""
    linked = core(fitted).linked(fitted.params.links)
    if linked is None:
        return None
    logs = (np.log(np.maximum(v, 1e-300)) for v in (linked.means, group_shares(fitted)))
    return TreePrior(linked.groups, *logs)


def class_shares(fitted: FittedStates) -> Array:
    """Posterior mean of the classes' shares, (N,)."""
    model = core(fitted)
    params = fitted.params
    return model.classes.prior.mean(model.class_counts(params.state_counts, params.links))


def marginal(fitted: FittedStates) -> Array:
    """Probability of every state, whatever the class; (S,)."""
    return class_shares(fitted) @ state_shares(fitted)


def log_marginal(fitted: FittedStates) -> Array:
    """Its logarithm, (S,)."""
    return np.log(np.maximum(marginal(fitted), 1e-300))


def by_part(fitted: FittedStates, values: Array, fill: float) -> Array:
    """(S, ...) as (K, J, ...), padded; the background left out."""
    n_states, first = own_states(fitted), core(fitted).first
    out = np.full((len(n_states), max(n_states), *values.shape[1:]), fill, fitted.dtype)
    for k, J in enumerate(n_states):
        out[k, :J] = values[first[k] : first[k + 1]]
    return out


def attributes(fitted: FittedStates) -> dict[str, object]:
    """Learned attributes of the estimator, in the user's units, by name."""
    params, groups, found = fitted.params, fitted.columns, laws(fitted)
    K, dtype = n_parts(fitted), fitted.dtype
    parts = parts_of(fitted)
    shares = [by_part(fitted, b, 0.0) for b in state_shares(fitted)]
    out: dict[str, object] = {
        "n_states_": np.array(own_states(fitted)),
        "gates_": params.gates[:K].T.astype(dtype),
        "parts_": parts,
        "column_labels_": parts,
        "state_priors_": shares[0],
    }
    if fitted.classes is not None:
        out["class_priors_"] = class_shares(fitted).astype(dtype)
        out["state_priors_"] = np.stack(shares)
        out |= chain_attributes(fitted) | tree_attributes(fitted)
    shares_of_levels = found[0].probability
    if fitted.schema is None and groups[0].levels is not None and shares_of_levels is not None:
        out["levels_"] = groups[0].levels
        means = np.moveaxis(shares_of_levels, 0, -1)
    else:
        decoded = [g.decode_mean(law.mean) for g, law in zip(groups, found, strict=True)]
        means = in_columns(fitted, decoded)
    means = by_part(fitted, means, np.nan)
    with np.errstate(over="ignore"):
        spread = [law.variance * g.scale**2 for g, law in zip(groups, found, strict=True)]
        variances = by_part(fitted, in_columns(fitted, spread), np.nan)
    if fitted.schema is not None:
        ignored = [column.kind == "ignored" for column in fitted.schema.columns]
        means[:, :, ignored] = variances[:, :, ignored] = np.nan
    return {**out, "means_": means, "variances_": variances}


def tree_attributes(fitted: FittedStates) -> dict[str, object]:
    """Learned attributes of classes of groups of parts, by name; none without them."""
    linked = core(fitted).linked(fitted.params.links)
    if linked is None:
        return {}
    shares = [by_part(fitted, b, 0.0) for b in group_shares(fitted)]
    return {
        "part_groups_": linked.groups[: n_parts(fitted)],
        "group_class_priors_": linked.means.astype(fitted.dtype),
        "group_state_priors_": np.stack(shares),
    }


def n_parameters(fitted: FittedStates) -> float:
    """Parameters of each column under its own part, state priors and gates."""
    model = core(fitted)
    n_states, N = np.asarray(model.n_states), model.classes.n_classes
    entries = sum(
        group.likelihood.family.n_parameters
        * float(n_states @ fitted.params.gates[:, group.index].sum(axis=1))
        for group in fitted.columns
    )
    n_choices = 1 if fitted.params.chain is None else N + 1  # of a class: its share, or in a chain
    choices = n_choices * (N - 1.0)
    if isinstance(model.classes, ClassTree):
        choices += model.classes.n_groups * N * (model.classes.n_group_classes - 1)
        N = model.classes.n_group_classes
    choices += N * float((n_states - 1).sum())
    return entries + choices + (len(n_states) - 1) * fitted.n_columns


def names_out(fitted: FittedStates, names: Sequence[str]) -> list[str]:
    """Names of the columns of posteriors, the background left out; ``names`` of the parts."""
    sizes = zip(names, own_states(fitted), strict=True)
    return [f"{name}_state{j}" for name, J in sizes for j in range(J)]


# --- rows ---


def posteriors(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Posterior of every state of checked rows, background included; (n, S)."""
    return by_block(fitted, X, lambda m: m, n_jobs)


def by_block(
    fitted: FittedStates, X: Matrix, function: Callable[[Array], Array], n_jobs: int | None = None
) -> Array:
    """``function`` of every block's posteriors (n, S), one below the other."""

    def on_block(block: RowBlock) -> Array:
        return function(fitted.model.infer(fitted.prepared, block)[0].T)

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs, told=fitted.told))


def n_outputs(fitted: FittedStates) -> int:
    """States of all parts, the background left out."""
    return int(core(fitted).first[n_parts(fitted)])


def transform(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Posterior of every state, (n, S)."""
    return outputs_of(fitted, posteriors(fitted, X, n_jobs))


def outputs_of(fitted: FittedStates, m: Array) -> Array:
    """Columns of `transform` among posteriors (n, S), background included."""
    return m[:, : n_outputs(fitted)]


def states_of(fitted: FittedStates, m: Array) -> Array:
    """Most probable states (n, K) of posteriors (n, S)."""
    bounds = pairwise(core(fitted).first[: n_parts(fitted) + 1])
    return np.stack([m[:, lo:hi].argmax(axis=1) for lo, hi in bounds], axis=1)


def predict_states(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Most probable state of each part, (n, K)."""
    return states_of(fitted, posteriors(fitted, X, n_jobs))


def inverse_transform(fitted: FittedStates, m: Array) -> Array:
    """Expected row given posteriors (n, S) without the background."""
    if len(core(fitted).n_states) > n_parts(fitted):  # it has one state, always taken
        m = np.hstack([m, np.ones((len(m), 1), fitted.dtype)])
    return expected_rows(fitted, m)


def expected_rows(fitted: FittedStates, m: Array) -> Array:
    """Expected entries given posteriors (n, S), background included."""
    if fitted.schema is not None:
        return likely_rows(fitted, m)
    rows = fitted.columns[0].expected(laws(fitted)[0], average(fitted, m, slice(None)))
    return rows.astype(fitted.dtype, copy=False)


def likely_rows(fitted: FittedStates, m: Array) -> Array:
    """Imputed values given posteriors (n, S), background included.

    They are the expectation of numbers, the most probable value of categories and booleans, and the
    median of ordered categories.
    """
    pairs = zip(fitted.columns, laws(fitted), strict=True)
    out = [group.likely(law, average(fitted, m, group.index)) for group, law in pairs]
    return in_columns(fitted, out).astype(fitted.dtype, copy=False)


def average(fitted: FittedStates, m: Array, columns: Array | Span) -> Average:
    """Mixture of states' values in some columns, given posteriors (n, S)."""
    gates = fitted.params.gates[:, columns]
    return partial(predict.expectation, m=m.T, gates=gates, part_of=core(fitted).part_of)


def reconstruct(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Expected value of every entry, (n, D)."""
    return by_block(fitted, X, lambda m: expected_rows(fitted, m), n_jobs)


def impute(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Imputed value of every entry, (n, D); of an observed near-duplicate, if there is one."""
    found = by_block(fitted, X, lambda m: likely_rows(fitted, m), n_jobs)
    told = None if fitted.schema is None else fitted.schema.told_by_twins(np.asarray(X))
    return found if told is None else np.where(np.isnan(told[0]), found, told[0])


def interval(
    fitted: FittedStates, X: Matrix, tail: float, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Ends of the intervals, with probability ``tail`` beyond each, (n, D) each.

    Unordered levels of a table have no interval. A missing cell with an observed near-duplicate has
    the interval of their regression.
    """
    assert fitted.calibration is not None
    asked = [calibration.correct(fitted.calibration, p) for p in (tail, 1.0 - tail)]
    found, part_of = laws(fitted), core(fitted).part_of

    def on_block(block: RowBlock) -> list[Array]:
        m = fitted.model.infer(fitted.prepared, block)[0].astype(float)
        ends = []
        for p in asked:
            told = []
            for group, law in zip(fitted.columns, found, strict=True):
                gates, own = fitted.params.gates[:, group.index], p[group.index]
                unordered = law.probability is not None and not group.likelihood.ordered
                if fitted.schema is not None and unordered:
                    told.append(np.full((m.shape[1], len(own)), np.nan))
                    continue
                told.append(group.decode(predict.quantile(law, m, gates, part_of, own)))
            ends.append(in_columns(fitted, told, np.nan))
        return ends

    pieces = zip(*map_rows(fitted.columns, X, on_block, n_jobs, told=fitted.told), strict=True)
    lower, upper = (np.concatenate(end) for end in pieces)
    told = None if fitted.schema is None else fitted.schema.told_by_twins(np.asarray(X))
    if told is not None:
        value, deviation = told
        away = special.ndtri(1.0 - tail) * deviation
        lower, upper = (
            np.where(np.isnan(end) | np.isnan(value), end, value + sign * away)
            for end, sign in ((lower, -1.0), (upper, 1.0))
        )
    return lower, upper


# --- densities ---


def likelihoods(
    fitted: FittedStates,
    X: Matrix,
    n_draws: int,
    n_jobs: int | None = None,
    from_prior: bool = False,
) -> RowLikelihood:
    """Likelihood of checked rows under every class, fields (N, n)."""
    on_block, max_rows = block_likelihoods(fitted, n_draws, from_prior)
    return likelihood_of_rows(fitted.columns, X, on_block, n_jobs, max_rows)


def block_likelihoods(
    fitted: FittedStates, n_draws: int, from_prior: bool = False
) -> tuple[Callable[[Block[AnyView]], RowLikelihood], int]:
    """Likelihood of a block's rows under every class, fields (N, n), and how many rows it takes."""
    found, model, params = laws(fitted), core(fitted), fitted.params
    log_prior = np.log(np.maximum(state_shares(fitted), 1e-300))
    tree = tree_prior(fitted)
    draws = predict.needs_draws(params.gates, model.first) and not from_prior

    def on_block(block: Block[AnyView]) -> RowLikelihood:
        proposal = fitted.model.propose(fitted.prepared, block) if draws else None
        return predict.row_likelihood(
            block, proposal, found, model.columns, params.gates, log_prior, model.first, n_draws,
            from_prior=from_prior, tree=tree,
        )  # fmt: skip

    n_open = int(np.sum(params.gates.max(axis=0) < 1.0))
    return on_block, max(MAX_DENSITIES // max(n_open * log_prior.shape[1], 1), 16)


def class_proba(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Probability of every class, (n, N)."""
    found = likelihoods(fitted, X, CLASS_DRAWS, n_jobs)
    return class_probability(found, class_prior(fitted, class_shares(fitted)))


def cell_densities(
    fitted: FittedStates, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
) -> Array:
    """Log density of cells of group g given their rows, in model units."""
    model = core(fitted)
    law, gates = laws(fitted)[g], fitted.params.gates[:, model.columns[g]]
    m = fitted.model.infer(fitted.prepared, block)[0]
    return predict.log_density(law, m, gates, model.part_of, rows, columns, values)


def anomaly_scores(fitted: FittedStates, X: Matrix, n_jobs: int | None = None) -> Array:
    """Minus the log-likelihood of each part's entries, (n, K)."""
    found, model = laws(fitted), core(fitted)
    log_prior, parts = log_marginal(fitted), fitted.params.gates.argmax(axis=0)

    def on_block(block: RowBlock) -> Array:
        own = predict.part_densities(block, found, model.columns, parts, model.first)
        density = predict.part_likelihoods(own, log_prior, model.first)[:, : n_parts(fitted)]
        return -density - _base_by_part(fitted, block, parts)

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs))


def _base_by_part(fitted: FittedStates, block: RowBlock, parts: Array) -> Array:
    """Base measure of a row's entries, part by part; (n, K)."""
    out = np.zeros((block.n_rows, n_parts(fitted)))
    for group, view in zip(fitted.columns, block.groups, strict=True):
        absent = group.absent_base() if view.zero_value is not None else None
        for k in range(out.shape[1]):
            mine = np.flatnonzero(parts[group.index] == k)
            entries = view.entries(mine)
            base = group.base(entries.values.astype(float), entries.columns)
            out[:, k] += np.bincount(entries.rows, base, minlength=block.n_rows)
            if absent is not None:
                stored = absent[entries.columns]
                stored = np.bincount(entries.rows, stored, minlength=block.n_rows)
                out[:, k] += absent[mine].sum() - stored
    return out


# --- one row, and new rows ---


def explain(
    fitted: FittedStates,
    row: Matrix,
    n_columns: int,
    n_jobs: int | None = None,
    given: Mapping[str, Value] | None = None,
) -> list[dict[str, object]]:
    """Explanation of one row (1, D), part by part; ``given`` are its values in user terms."""
    found, first, log_prior = laws(fitted), core(fitted).first, log_marginal(fitted)
    m = posteriors(fitted, row, n_jobs)[0]
    shares = -anomaly_scores(fitted, row, n_jobs)[0]
    parts = fitted.params.gates.argmax(axis=0)
    block = source_of(fitted.columns, row).block(0)
    out: list[dict[str, object]] = []
    for k in range(n_parts(fitted)):
        lo, hi = int(first[k]), int(first[k + 1])
        best = lo + int(m[lo:hi].argmax())
        columns, expected, evidence = [], [], []
        for group, law, view in zip(fitted.columns, found, block.groups, strict=True):
            entries = view.entries(np.flatnonzero((parts[group.index] == k) & group.varies))
            d = entries.columns
            density = np.stack(
                [law.at((np.full(len(d), s), d)).log_density(entries.values) for s in range(lo, hi)]
            )
            average = np.logaddexp.reduce(density + log_prior[lo:hi, None], axis=0)
            evidence.append(density[best - lo] - average)
            expected.append(_expected_in_state(fitted, group, law, best)[d])
            columns.append(group.index[d])
        d, values, loud = (np.concatenate(v) for v in (columns, expected, evidence))
        out.append(
            {
                "part": k,
                "state": best - lo,
                "probability": float(m[best]),
                "log_likelihood": float(shares[k]),
                "columns": telling(fitted, row, d, values, loud, n_columns, given),
            }
        )
    return out


def _expected_in_state(fitted: FittedStates, group: ColumnGroup, law: Predictive, s: int) -> Array:
    """Expected value of a group's columns in one state, in the units of X; (D_g,)."""
    if fitted.schema is None or law.probability is None:
        return group.state_means(law)[s]
    return group.decode(law.probability[:, s].argmax(axis=0).astype(float))


def draw_states(fitted: FittedStates, sources: Array, rng: np.random.Generator) -> Array:
    """States (n, K), each from its prior in a class; ``sources`` (n, K) has the classes."""
    shares, linked = group_shares(fitted), core(fitted).linked(fitted.params.links)
    if linked is not None:
        sources = linked.draw(sources, rng)
    states = np.empty(sources.shape, np.int64)
    for k, (lo, hi) in enumerate(pairwise(core(fitted).first[: n_parts(fitted) + 1])):
        above = np.cumsum(shares[sources[:, k], lo:hi], axis=1)
        u = rng.random((len(sources), 1)) * above[:, -1:]
        states[:, k] = np.minimum((above <= u).sum(axis=1), hi - lo - 1)
    return states


def limits(fitted: FittedStates, group: ColumnGroup) -> tuple[Array, Array]:
    """Range of a table's observed numbers in model units, infinite for others; (D_g,) each."""
    ends = np.full((2, len(group.index)), np.inf)
    ends[0] = -np.inf
    if fitted.schema is not None and group.likelihood.linear and group.levels is None:
        for i, d in enumerate(group.index):
            column = fitted.schema.columns[d]
            ends[:, i] = column.as_encoded(
                np.array([column.support.smallest, column.support.largest])
            )
        ends = (ends - group.shift) / group.scale
    return ends[0], ends[1]


def draw_rows(fitted: FittedStates, states: Array, rng: np.random.Generator) -> Array:
    """Rows (n, D) of checked states (n, K)."""
    first, n_states = core(fitted).first, own_states(fitted)
    part = draw_parts(fitted.params.gates, len(states), rng)
    every = np.pad(states, ((0, 0), (0, len(first) - 1 - len(n_states))))
    number = first[part] + np.take_along_axis(every, part, axis=1)
    drawn = []
    for group, law in zip(fitted.columns, laws(fitted), strict=True):
        s = number[:, group.index]
        d = np.broadcast_to(np.arange(s.shape[1]), s.shape)
        drawn.append(group.decode(law.at((s, d)).sample_within(*limits(fitted, group), rng)))
    return in_columns(fitted, drawn).astype(fitted.dtype, copy=False)


def checked_states(fitted: FittedStates, states: ArrayLike, n_samples: int) -> Array:
    """States (n, K) as integers; raise an error for states that parts do not have."""
    return states_in_range(states, n_samples, own_states(fitted))


def states_in_range(states: ArrayLike, n_samples: int, n_states: Sequence[int]) -> Array:
    """States (n, K) as integers; raise an error for states that parts do not have."""
    asked, states = np.asarray(states), np.asarray(states, dtype=np.int64)
    if (
        np.any(states != asked)
        or states.shape != (n_samples, len(n_states))
        or np.any((states < 0) | (states >= np.asarray(n_states)))
    ):
        raise ValueError(
            f"states must have shape ({n_samples}, {len(n_states)}) and integers below the parts' "
            f"numbers of states, {tuple(n_states)}."
        )
    return states
