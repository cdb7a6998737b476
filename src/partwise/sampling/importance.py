"""Likelihood of a row by importance sampling of its states, the selections summed out exactly.

Given the states S of a row, p(x | S) = prod_d sum_k a[d, k] p(x_d | s_k): no selection is sampled.
Columns decided for one part add to that part's states beforehand (``own``), so only entries of
undecided columns are evaluated in every sample. With all combinations of states as "samples" the
same loop is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array

# Combinations of states whose density is remembered within a row: the likely ones come up again.
REMEMBERED = 64

# Weights of rows and combinations, or states of rows and samples, held at a time.
MOST_WEIGHTS = 1 << 20

# Log prior of states (..., K) less the sum of that of each, where they depend on each other.
Dependence: TypeAlias = Callable[[Array], Array]


class RowLikelihood(NamedTuple):
    """Log-likelihoods of rows with their standard errors.

    ``log_likelihood`` (n,); ``standard_error`` (n,) of it, 0 where exact; ``effective_draws`` (n,),
    how many equal-weight samples the weighted ones are worth, infinite where exact.
    """

    log_likelihood: Array
    standard_error: Array
    effective_draws: Array

    def shifted(self, constant: Array) -> RowLikelihood:
        """The same with a constant, a number per row, added to the log-likelihoods."""
        value = self.log_likelihood + constant
        return RowLikelihood(value, self.standard_error, self.effective_draws)


def mix_classes(found: RowLikelihood, log_shares: Array) -> RowLikelihood:
    """Likelihood of rows whatever their class, from that under each class, fields (N, n)."""
    joint = found.log_likelihood + log_shares[:, None]
    value = np.logaddexp.reduce(joint, axis=0)
    z = np.exp(joint - value)
    error = np.sum(z * found.standard_error, axis=0)  # the classes share their samples
    lost = np.sum(z / found.effective_draws, axis=0)  # 0 where exact
    with np.errstate(divide="ignore"):
        return RowLikelihood(value, error, 1.0 / lost)


@compiled()
def _mixed_log_density(lo, hi, log_table, table, states):
    """sum over entries lo..hi of log sum_k table[e, s_k]; few logarithms, by products."""
    total, product = 0.0, 1.0
    for e in range(lo, hi):
        value = 0.0
        for k in range(len(states)):
            value += table[e, states[k]]
        if value < 1e-280:  # lost to underflow: sum in logarithms
            top = log_table[e, states[0]]
            for k in range(1, len(states)):
                top = max(top, log_table[e, states[k]])
            value = 0.0
            for k in range(len(states)):
                value += np.exp(log_table[e, states[k]] - top)
            total += top
        product *= value
        if product < 1e-20 or product > 1e20:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@compiled()
def _weigh_draws(
    indptr,
    log_table,
    table,
    own,
    log_prior,
    log_proposal,
    cumulative,
    first,
    uniforms,
    out,
    sampled,
):
    """Log weights (n, T) of states sampled from the proposal by inverting its distribution.

    The states go to ``sampled`` (n, T, K), unless it is empty.
    """
    K = len(first) - 1
    states = np.empty(K, np.int64)
    seen = np.empty(REMEMBERED, np.int64)  # combinations of states met in this row
    found = np.empty(REMEMBERED)
    for r in range(len(indptr) - 1):
        n_seen = 0
        for t in range(len(uniforms)):
            log_weight, code = 0.0, 0
            for k in range(K):
                s = first[k]
                while s < first[k + 1] - 1 and uniforms[t, k] > cumulative[r, s]:
                    s += 1
                states[k] = s
                if len(sampled):
                    sampled[r, t, k] = s
                code = code * 1_000_003 + s  # in 64 bits; no two of a row's samples come out alike
                log_weight += own[r, s] + log_prior[s] - log_proposal[r, s]
            i = 0
            while i < n_seen and seen[i] != code:
                i += 1
            if i < n_seen:
                out[r, t] = log_weight + found[i]
                continue
            density = _mixed_log_density(indptr[r], indptr[r + 1], log_table, table, states)
            out[r, t] = log_weight + density
            if n_seen < REMEMBERED:
                seen[n_seen], found[n_seen] = code, density
                n_seen += 1


@compiled()
def _weigh_all(indptr, log_table, table, own, log_prior, first, combinations, out):
    """Log joint density (n, T) of every row with every combination of states."""
    for r in range(len(indptr) - 1):
        for t in range(len(combinations)):
            total = 0.0
            for k in range(len(first) - 1):
                s = combinations[t, k]
                total += own[r, s] + log_prior[s]
            out[r, t] = total + _mixed_log_density(
                indptr[r], indptr[r + 1], log_table, table, combinations[t]
            )


def _log_mean(log_weights: Array, n_terms: int) -> tuple[Array, Array]:
    top = log_weights.max(axis=1)
    weights = np.exp(log_weights - top[:, None])
    return top + np.log(weights.sum(axis=1) / n_terms), weights


def _check_sizes(
    indptr: Array, log_table: Array, own: Array, log_prior: Array, first: Array
) -> None:
    """States run up to first[-1], and entries of rows up to indptr[-1]."""
    check_sizes(states=(int(first[-1]), log_table.shape[1], own.shape[1], len(log_prior)))
    check_sizes(rows=(len(indptr) - 1, len(own)), entries=(int(indptr[-1]), len(log_table)))


def enumerate_states(
    indptr: Array,
    log_table: Array,
    own: Array,
    log_prior: Array,
    first: Array,
    dependence: Dependence | None = None,
) -> Array:
    """Exact log-likelihood (n,) by going through all combinations of states."""
    grids = np.meshgrid(*[np.arange(a, b) for a, b in pairwise(first)])
    combinations = np.stack([grid.ravel() for grid in grids], axis=1)
    _check_sizes(indptr, log_table, own, log_prior, first)
    n, table = len(indptr) - 1, np.exp(log_table)
    more = 0.0 if dependence is None else dependence(combinations)
    value = np.empty(n)
    step = max(MOST_WEIGHTS // len(combinations), 1)
    for i in range(0, n, step):
        stop = min(i + step, n)
        out = np.empty((stop - i, len(combinations)))
        here = indptr[i : stop + 1]
        _weigh_all(here, log_table, table, own[i:stop], log_prior, first, combinations, out)
        value[i:stop] = _log_mean(out + more, 1)[0]
    return value


def sample_states(
    indptr: Array,
    log_table: Array,
    own: Array,
    log_prior: Array,
    posterior: Array,
    first: Array,
    n_draws: int,
    rng: np.random.Generator,
    dependence: Dependence | None = None,
) -> RowLikelihood:
    """Importance sampling with the variational posterior, a tenth of the prior mixed in.

    All rows share the same uniform numbers, so a row's estimate does not depend on its company.

    Parameters
    ----------
    indptr : ndarray of shape (n + 1,)
        Where each row's entries of undecided columns stand in ``log_table``.
    log_table : ndarray of shape (entries, S)
        log a[d, part of s] p(x_d | s), less a scale that ``own`` holds.
    own : ndarray of shape (n, S)
        Log density of decided columns, of undecided ones' scale factors in the first part.
    log_prior : ndarray of shape (S,)
    posterior : ndarray of shape (n, S)
    first : ndarray of shape (K + 1,)
    n_draws : int
    rng : Generator
    dependence : callable, optional
        Log prior of states (..., K) less the sum of ``log_prior`` of each.
    """
    # The prior's tenth bounds the weights where the variational posterior is too narrow.
    proposal = 0.9 * posterior + 0.1 * np.exp(log_prior)
    cumulative = np.empty_like(proposal)
    for lo, hi in pairwise(first):
        proposal[:, lo:hi] /= proposal[:, lo:hi].sum(axis=1, keepdims=True)
        cumulative[:, lo:hi] = np.cumsum(proposal[:, lo:hi], axis=1)
    with np.errstate(divide="ignore"):
        log_proposal = np.log(proposal)
    n, K = len(indptr) - 1, len(first) - 1
    _check_sizes(indptr, log_table, own, log_prior, first)
    uniforms, table = rng.random((n_draws, K)), np.exp(log_table)
    found, step = [], max(MOST_WEIGHTS // (n_draws * K), 1)
    for i in range(0, max(n, 1), step):
        here, rows = indptr[i : i + step + 1], slice(i, i + step)
        out = np.empty((len(here) - 1, n_draws))
        sampled = np.empty((0, 0, 0) if dependence is None else (*out.shape, K), np.int64)
        _weigh_draws(
            here, log_table, table, own[rows], log_prior, log_proposal[rows], cumulative[rows],
            first, uniforms, out, sampled,
        )  # fmt: skip
        found.append(summarize_weights(out if dependence is None else out + dependence(sampled)))
    return RowLikelihood(*(np.concatenate(field) for field in zip(*found, strict=True)))


def summarize_weights(log_weights: Array) -> RowLikelihood:
    """Likelihoods and their errors from log importance weights (n, T)."""
    n_draws = log_weights.shape[1]
    value, weights = _log_mean(log_weights, n_draws)
    mean = weights.mean(axis=1)
    error = weights.std(axis=1) / (np.sqrt(n_draws) * mean)  # of the logarithm, to first order
    effective = weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1)
    return RowLikelihood(value, error, effective)
