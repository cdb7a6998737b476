"""What a fitted MCVQ says about entries and rows: expectations, quantiles, likelihoods, samples.

All is in model units; ``m`` is (S, n), parameters are predictive distributions of shape (S, D), and
``gates`` (K, D) are the probabilities with which a new row selects parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, Block, Entries, EntryList
from partwise.likelihoods.mixtures import LEAST_WEIGHT
from partwise.likelihoods.predictive import Predictive
from partwise.models.class_tree import TreePrior
from partwise.sampling.importance import RowLikelihood, enumerate_states, sample_states

# Densities worked on at a time, which a core's cache holds.
CACHED = 1 << 17

# Up to this many combinations of states all of them are gone through.
MOST_COMBINATIONS = 4096


def expectation(values: Array, m: Array, gates: Array, part_of: Array) -> Array:
    """sum over parts and states of g m value: (S, D) to (n, D)."""
    return m.T @ (gates[part_of] * values)


def mix_cells(
    m: Array, table: Array, gates: Array, first: Array, cells: tuple[Array, Array]
) -> Array:
    """Mixtures of ``table`` (S, D, L), which has the gates in it, over the states of chosen cells.

    ``m`` is (n, S), part k has states ``first[k]`` to ``first[k + 1]``; the result is (cells, L).
    """
    rows, columns = cells
    check_sizes(
        states=(m.shape[1], len(table), int(first[-1])), columns=(table.shape[1], gates.shape[1])
    )
    check_sizes(parts=(len(gates), len(first) - 1))
    out = np.zeros((len(rows), table.shape[2]))
    _mix_cells(m, table, gates, first, rows, columns, out)
    return out


@compiled(fastmath={"contract", "reassoc"})
def _mix_cells(m, table, gates, first, rows, columns, out):  # type: ignore[no-untyped-def]  # compiled
    """out[c] = sum of m table over the states of parts that the cell's column may be in."""
    for c in range(len(rows)):
        d = columns[c]
        for k in range(len(gates)):
            if gates[k, d] > 0.0:
                for s in range(first[k], first[k + 1]):
                    for level in range(out.shape[1]):
                        out[c, level] += m[rows[c], s] * table[s, d, level]


def quantile(law: Predictive, m: Array, gates: Array, part_of: Array, p: float | Array) -> Array:
    """Quantile of every cell's mixture of states, (n, D).

    Parameters
    ----------
    law : Predictive of shape (S, D)
    m : ndarray of shape (S, n)
    gates : ndarray of shape (K, D)
    part_of : ndarray of shape (S,)
    p : float or ndarray of shape (D,)
        Probability, the same for all columns or one per column.

    Returns
    -------
    quantiles : ndarray of shape (n, D)
        Of whole numbers the smallest that reaches p.
    """
    p = np.array(np.broadcast_to(p, gates.shape[1:]), dtype=float)
    return law.mixture_quantile(m, gates, part_of, p)


def probability_below(
    law: Predictive,
    m: Array,
    gates: Array,
    part_of: Array,
    rows: Array,
    columns: Array,
    values: Array,
) -> Array:
    """P(X <= value) of chosen cells, each a mixture of states; other arguments as in `quantile`."""
    weight = m[:, rows] * gates[part_of][:, columns]  # (S, cells)
    s, cell = np.nonzero(weight > min(LEAST_WEIGHT, 0.5 / len(m)))
    live = weight[s, cell]
    reached = live * law.at((s, columns[cell])).cdf(values[cell])
    total = np.bincount(cell, live, minlength=len(rows))
    return np.bincount(cell, reached, minlength=len(rows)) / total


def log_density(
    law: Predictive,
    m: Array,
    gates: Array,
    part_of: Array,
    rows: Array,
    columns: Array,
    values: Array,
) -> Array:
    """Log density of chosen cells, each a mixture of states; other arguments as in `quantile`."""
    out = np.empty(len(rows))
    step = max(CACHED // len(m), 1)
    for lo in range(0, len(rows), step):
        row, column, value = (cells[lo : lo + step] for cells in (rows, columns, values))
        weight = m[:, row].astype(float) * gates[part_of][:, column]  # (S, cells)
        s, cell = np.nonzero(weight)
        joint = np.full(weight.shape, -np.inf)
        density = law.at((s, column[cell])).log_density(value[cell])
        joint[s, cell] = np.log(weight[s, cell]) + density
        out[lo : lo + step] = np.logaddexp.reduce(joint, axis=0) - np.log(weight.sum(axis=0))
    return out


def part_densities(
    block: Block[Entries],
    laws: Sequence[Predictive],
    columns: Sequence[Array],
    parts: Array,
    first: Array,
) -> Array:
    """Log density of a row's decided columns under each state of their part; (n, S).

    ``parts`` (D,) is each column's part, -1 for undecided ones, which count nothing here.
    """
    own = np.zeros((block.n_rows, first[-1]))
    for group, law, index in zip(block.groups, laws, columns, strict=True):
        for k in range(len(first) - 1):
            mine = np.flatnonzero(parts[index] == k)
            entries = group.entries(mine)
            rows = entries.rows
            for s in range(first[k], first[k + 1]):
                here = law.at((np.full(len(rows), s), entries.columns))
                density = here.log_density(entries.values)
                zero = group.zero_value
                if zero is not None:
                    absent = law.at((np.full(len(mine), s), mine)).log_density(np.array(zero))
                    own[:, s] += absent.sum()
                    density = density - here.log_density(np.array(zero))
                own[:, s] += np.bincount(rows, density, minlength=block.n_rows)
    return own


def row_likelihood(
    block: Block[Entries],
    proposal: Array | None,
    laws: Sequence[Predictive],
    columns: Sequence[Array],
    gates: Array,
    log_prior: Array,
    first: Array,
    n_draws: int,
    seed: int = 0,
    from_prior: bool = False,
    tree: TreePrior | None = None,
) -> RowLikelihood:
    """Log-likelihood of a block's rows under every class; fields of shape (N, n).

    Exact where it can be, else by importance sampling from ``proposal`` (N, S, n), not looked at
    unless `needs_draws`. ``log_prior`` is (N, S), the states' given the class; ``from_prior``
    samples states from it, and always. ``tree`` is the prior of states that depend on each other
    given the class.
    """
    part_of = np.repeat(np.arange(len(gates)), np.diff(first))
    closed = gates.max(axis=0) >= 1.0
    log_gates = np.log(np.maximum(gates.astype(float), 1e-300))
    own = part_densities(block, laws, columns, np.where(closed, gates.argmax(axis=0), -1), first)
    tables, owners = [], []
    for group, law, index in zip(block.groups, laws, columns, strict=True):
        shared = np.flatnonzero(~closed[index])
        entries = group.entries(shared, absent=True)
        table = _log_densities(law, entries, len(shared), block.n_rows)
        top = table.max(axis=1, initial=-np.inf)
        table -= top[:, None]
        table += np.ascontiguousarray(log_gates[part_of][:, index].T)[entries.columns]
        # The scale of an entry is the same under every state; the first part carries it.
        scale = np.bincount(entries.rows, top, minlength=block.n_rows)
        own[:, first[0] : first[1]] += scale[:, None]
        tables.append(table)
        owners.append(entries.rows)
    rows, table = owners[0], tables[0]
    if len(tables) > 1:  # bring the groups' entries together, row by row
        order = np.argsort(np.concatenate(owners), kind="stable")
        rows, table = np.concatenate(owners)[order], np.concatenate(tables)[order]
    indptr = np.searchsorted(rows, np.arange(block.n_rows + 1))
    own = np.ascontiguousarray(own)
    found = []
    closed_parts = None
    if tree is not None and not len(table) and not from_prior:
        by_class = [part_likelihoods(own, b, first).T for b in tree.log_b]  # of groups: (K, n)
        closed_parts = tree.likelihood(np.stack(by_class, axis=1))
    for n, b in enumerate(log_prior):
        more = None if tree is None else partial(tree.dependence, n, b)
        if from_prior or (len(table) and needs_draws(gates, first)):
            if from_prior:
                posterior = np.repeat(np.exp(b)[None], block.n_rows, axis=0)
            else:
                assert proposal is not None
                posterior = np.ascontiguousarray(proposal[n].T, dtype=float)
            rng = np.random.default_rng(seed)  # the same samples for every block and class
            found.append(sample_states(indptr, table, own, b, posterior, first, n_draws, rng, more))
            continue
        if len(table):
            value = enumerate_states(indptr, table, own, b, first, more)
        elif closed_parts is not None:
            value = closed_parts[n]
        else:
            value = part_likelihoods(own, b, first).sum(axis=1)
        found.append(RowLikelihood(value, np.zeros_like(value), np.full_like(value, np.inf)))
    stacked = RowLikelihood(*(np.stack(field) for field in zip(*found, strict=True)))
    return stacked.shifted(block.base)


def needs_draws(gates: Array, first: Array) -> bool:
    """Whether some column has no one part, and states have too many combinations."""
    few = np.prod(np.diff(first).astype(float)) <= MOST_COMBINATIONS
    return bool(np.any(gates.max(axis=0) < 1.0) and not few)


def _log_densities(law: Predictive, entries: EntryList, n_columns: int, n_rows: int) -> Array:
    """Log density of every entry under every state, (entries, S)."""
    S = law.mean.shape[0]
    table = np.empty((len(entries.values), S))
    complete = len(table) == n_rows * n_columns > 0
    if not complete:  # look up every entry's column
        for s in range(S):
            here = law.at((np.full(len(table), s), entries.columns))
            table[:, s] = here.log_density(entries.values)
        return table
    # All rows show all columns: the states of a column are contiguous, some rows at a time.
    here = law.at((np.arange(S), entries.columns[:n_columns, None]))  # (columns, S)
    values = entries.values.astype(float).reshape(n_rows, n_columns, 1)
    out = table.reshape(n_rows, n_columns, S)
    step = max(CACHED // (n_columns * S), 1)
    for i in range(0, n_rows, step):
        out[i : i + step] = here.log_density(values[i : i + step])
    return table


def part_likelihoods(own: Array, log_prior: Array, first: Array) -> Array:
    """Log density of every part's entries, states summed out, from `part_densities`; (n, K)."""
    joint = own + log_prior
    bounds = pairwise(first)
    return np.stack([np.logaddexp.reduce(joint[:, lo:hi], axis=1) for lo, hi in bounds], axis=1)
