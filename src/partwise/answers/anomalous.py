"""Anomalous cells: values that are rare given the other cells of their row.

The surprise of a cell is -log sum_s w_s P_s(a value at most as likely as its own), where w is the
posterior of the states of the column's part given the row's other cells: the probability, in a row
like this, of a value as unlikely as that. It is comparable between columns of all kinds, and does
not depend on units.

A row that the model was fitted to helped to learn its states, and a wrong cell may even have
its own state. Such a row is scored with its own share taken out of the sums of each state,
chi_s - m_ns T(x_n), and out of its weight, N_s - m_ns: the M-step without the row, the posteriors
of all other rows unchanged. A state that no other row is in is left out.

A number outside of the range that fit saw in a column of ordered levels is at least as surprising
as a new extreme of N + 1 rows, log(N + 1), and the more so the farther away it is.

A near-duplicate column is at most as surprising as given the column that it follows, so that only
one of two cells that agree is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from partwise.answers.rows import map_rows, parts_of, runner_of, source_of
from partwise.answers.states import (
    FittedStates,
    core,
    impute,
    laws,
    log_marginal,
)
from partwise.answers.tables import HELD_ROWS, given_cells
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.data.frames import as_table, index_of
from partwise.likelihoods.predictive import Predictive
from partwise.models import predict
from partwise.typing import DataLike, Value

# Share of a state's rows from which a row is taken out of it before cells are chosen: the others
# change too little. At most 100 rows of a state have so much.
LEAST_HELP = 0.01

# Cells of a column that are chosen at least, whose order may change without themselves.
LEAST_CHOSEN = 20

# Column totals of the same rows agree to this, relative to the totals of absolute values.
SAME_TOTALS = 1e-4

# Sums of fewer rows than this are rounding.
NO_ROWS = 1e-6

# Taken off the log weight of a state that is not there.
NO_STATE = 1e6

# Least probability that has a finite surprise.
LEAST_TAIL = 1e-300


class _Cells(NamedTuple):
    """Observed cells of one group's columns in one part, of a block."""

    group: int
    lo: int  # states of the part
    hi: int
    row: Array  # (C,)
    place: Array  # of the column in its group, (C,)
    value: Array  # in model units, (C,)


class _Without(NamedTuple):
    """Cells without their own rows: distributions in states ``state`` of cells ``cell``, (H,)."""

    state: Array
    cell: Array
    law: Predictive
    weight: Array  # of each cell in the sums of each state, (J, C)


def anomalous_cells(
    fitted: FittedStates,
    X: DataLike,
    coded: Array,
    n_cells: int,
    n_jobs: int | None = None,
    per_column: int | None = None,
    of_fit: bool | None = None,
    beyond: Mapping[int, Array] | None = None,
) -> Mapping[str, Iterable[Value]]:
    """The most surprising observed cells, as columns by name; at most ``per_column`` of a column.

    ``of_fit`` says whether the model was fitted to these rows; None compares column totals. X may
    be ``coded`` itself, where the user's values are not known; ``beyond`` then says how far they
    lie outside of the range of the fit, as `Schema.beyond`.
    """
    told, model = laws(fitted), core(fitted)
    parts, log_prior = fitted.params.gates.argmax(axis=0), log_marginal(fitted)
    keep = n_cells if per_column is None else min(n_cells, per_column)
    twins = {} if fitted.schema is None else fitted.schema.twins
    if of_fit is None:
        of_fit = are_rows_of_fit(fitted, len(coded), column_totals(fitted, coded, n_jobs))

    schema = None if of_fit or X is coded else fitted.schema
    if beyond is None or of_fit:
        beyond = {} if schema is None else schema.beyond(as_table(X))
    new_extreme = np.log1p(fitted.params.state_counts[:, : core(fitted).first[1]].sum())
    by_range = {d: (away > 0) * new_extreme + np.log1p(away**2) for d, away in beyond.items()}
    by_leader = {
        d: _surprise(twin.tail(*coded[:, [twin.leader, d]].T)) for d, twin in twins.items()
    }

    def on_block(block: RowBlock, start: int) -> Array:
        own = predict.part_densities(block, told, model.columns, parts, model.first) + log_prior
        pieces = _observed(fitted, block, parts)
        without: list[_Without | None] = [None] * len(pieces)
        if of_fit:
            m = fitted.model.infer(fitted.prepared, block)[0].T.astype(float)
            without = [*_take_out(fitted, told, pieces, m, own)]
        found = [
            _scored(fitted, told[cells.group], own, cells, one, keep, limits_of(cells, start))
            for cells, one in zip(pieces, without, strict=True)
        ]
        cells = _largest(np.concatenate(found, axis=1), n_cells, per_column)
        cells[1] += start
        return cells

    def limits_of(cells: _Cells, start: int) -> tuple[Array, Array]:
        column = fitted.columns[cells.group].index[cells.place]
        limits = np.zeros(len(cells.row)), np.full(len(cells.row), np.inf)
        for limit, known in zip(limits, (by_range, by_leader), strict=True):
            for d, surprise in known.items():
                own = column == d
                limit[own] = surprise[start + cells.row[own]]
        least, most = limits
        return least, np.where(np.isnan(most), np.inf, most)

    source = source_of(fitted.columns, coded)
    with runner_of(n_jobs, source) as runner:
        blocks = list(runner.map(on_block, source, [start for start, _ in source.bounds]))
    cells = _largest(np.concatenate(blocks, axis=1), n_cells, per_column)
    return _described(fitted, X, coded, cells, n_jobs)


def column_totals(fitted: FittedStates, coded: Array, n_jobs: int | None = None) -> list[Array]:
    """Sums of T(x) and of its absolute values by column, (P, 2, D_g) per group; they add up."""

    def on_block(block: RowBlock) -> list[Array]:
        out = []
        for group, view in zip(fitted.columns, block.groups, strict=True):
            D = len(group.index)
            entries = view.entries(np.arange(D))
            T = group.likelihood.family.statistics(entries.values.astype(float))
            sums = [np.bincount(entries.columns, t, D) for one in T for t in (one, np.abs(one))]
            out.append(np.reshape(sums, (len(T), 2, D)))
        return out

    blocks = map_rows(fitted.columns, coded, on_block, n_jobs)
    return [np.sum(found, axis=0) for found in zip(*blocks, strict=True)]


def are_rows_of_fit(fitted: FittedStates, n_rows: int, totals: Sequence[Array]) -> bool:
    """Whether rows with these column totals are those that the model was fitted to."""
    model, params = core(fitted), fitted.params
    weight = params.state_counts[:, : model.first[1]].sum()
    if abs(weight - n_rows) > SAME_TOTALS * n_rows:
        return False
    part, shared = params.gates.argmax(axis=0), model.chooser.gating.share(params.gates) is not None
    for group, prior, chi, both in zip(
        fitted.columns, model.priors, params.chi, totals, strict=True
    ):
        by_part = np.add.reduceat(prior.sums(chi), model.first[:-1], axis=1)
        # Either each part has the sums of all cells, or each has its share of them.
        own = by_part[:, part[group.index], np.arange(len(group.index))]
        own = by_part.sum(axis=1) if shared else own
        if np.any(np.abs(own - both[:, 0]) > SAME_TOTALS * (both[:, 1] + 1.0)):
            return False
    return True


def _observed(fitted: FittedStates, block: RowBlock, parts: Array) -> list[_Cells]:
    """Observed cells of a block by group and part; columns that never change are left out."""
    out = []
    for g, group in enumerate(fitted.columns):
        for k, (lo, hi) in enumerate(pairwise(core(fitted).first)):
            mine = np.flatnonzero((parts[group.index] == k) & group.varies)
            entries = block.groups[g].entries(mine)
            value = entries.values.astype(float)
            out.append(_Cells(g, int(lo), int(hi), entries.rows, entries.columns, value))
    return out


def _take_out(
    fitted: FittedStates, told: Sequence[Predictive], pieces: Sequence[_Cells], m: Array, own: Array
) -> Iterator[_Without]:
    """Distributions of cells without their row; ``own`` (n, S) becomes that without it, too."""
    model, params = core(fitted), fitted.params
    rows, prior = params.state_counts.sum(axis=0), model.state_prior.concentration
    helped = m > LEAST_HELP * np.maximum(rows, NO_ROWS)
    left = 1.0 - m / np.maximum(rows + prior, NO_ROWS)
    own += np.where(helped, np.log(np.maximum(left, 1e-300)), 0.0)
    # Without its only row a state would not be there, unless all states of its part are such.
    empty = helped & (rows - m < HELD_ROWS)
    spared = np.add.reduceat(~empty, model.first[:-1], axis=1)[:, model.part_of] == 0
    own -= np.where(empty & ~spared, NO_STATE, 0.0)
    share = model.chooser.gating.share(params.gates)
    for g, lo, hi, row, place, value in pieces:
        state, cell = np.nonzero(helped[row, lo:hi].T)
        s, d, x = lo + state, place[cell], value[cell]
        weight = m[row, lo:hi].T
        if share is not None:
            weight = weight * share[model.part_of[lo], fitted.columns[g].index[place]]
        law = without_row(fitted, g, s, d, x, weight[state, cell])
        change = law.log_density(x) - told[g].at((s, d)).log_density(x)
        np.add.at(own, (row[cell], s), change)
        yield _Without(state, cell, law, weight)


def without_row(
    fitted: FittedStates, g: int, states: Array, places: Array, values: Array, weights: Array
) -> Predictive:
    """Distribution of entries in states without one row's entry of such value and weight, (C,)."""
    prior = core(fitted).priors[g].take(places)
    family = prior.likelihood
    sums = prior.sums(fitted.params.chi[g][:, states, places][:, None])
    sums = sums - (weights * family.statistics(values))[:, None]
    sums = np.where(family.observed(sums) > NO_ROWS, sums, 0.0)
    law = prior.predictive(prior.posterior(sums))
    return law.at((np.zeros(len(states), int), np.arange(len(states))))


def _scored(
    fitted: FittedStates,
    law: Predictive,
    own: Array,
    cells: _Cells,
    without: _Without | None,
    keep: int,
    limits: tuple[Array, Array],
) -> Array:
    """Surprise, row, column, likely state, its probability and expected value of cells, (6, C).

    They are the ``keep`` rarest of each column or more, their surprise within ``limits`` (C,).
    The expected value is NaN where no row was taken out.
    """
    g, lo, hi, row, place, value = cells

    def entries(chosen: Array) -> tuple[Array, Array]:
        states = np.repeat(np.arange(lo, hi)[:, None], len(chosen), axis=1)
        return states, np.broadcast_to(place[chosen], states.shape)

    every = np.arange(len(row))
    density = law.at(entries(every)).log_density(value)
    tails = np.full(density.shape, np.nan)
    if without is not None:
        state, cell, other, _ = without
        density[state, cell] = other.log_density(value[cell])
        tails[state, cell] = other.tail(value[cell])
    log_w = own[row, lo:hi].T - density  # (J, C)
    log_w -= np.logaddexp.reduce(log_w, axis=0)
    likely = log_w.argmax(axis=0)

    def clipped(tail: Array, chosen: Array) -> Array:
        return np.clip(_surprise(tail), *(limit[chosen] for limit in limits))

    def surprise(chosen: Array) -> Array:
        known = tails[:, chosen]
        tail = np.where(np.isnan(known), law.at(entries(chosen)).tail(value[chosen]), known)
        return clipped(np.sum(np.exp(log_w[:, chosen]) * tail, axis=0), chosen)

    # One state of the sum bounds it, and most cells are less surprising than that allows.
    tail = law.at((lo + likely, place)).tail(value)
    tail = np.where(np.isnan(tails[likely, every]), tail, tails[likely, every])
    bound = clipped(np.exp(log_w[likely, every]) * tail, every)
    chosen, found = _rarest(bound, place, surprise, max(keep, LEAST_CHOSEN))
    expected = np.full(len(chosen), np.nan)
    if without is not None and len(chosen):
        # Without itself in every state, however many rows it has: a wrong number may widen a state
        # of thousands.
        states, places = entries(chosen)
        at = states.ravel(), places.ravel(), np.tile(value[chosen], hi - lo)
        alone = without_row(fitted, g, *at, without.weight[:, chosen].ravel())
        alone = alone.at((np.arange(states.size).reshape(states.shape),))
        tails[:, chosen] = alone.tail(value[chosen])
        found = surprise(chosen)
        w, columns = np.exp(log_w[:, chosen]), fitted.columns[g].take(place[chosen])
        expected = columns.likely(alone, lambda values: np.sum(w * values, axis=0)[None])[0]
    column, state = fitted.columns[g].index[place[chosen]], likely[chosen]
    share = np.exp(log_w[state, chosen])
    return np.stack([found, row[chosen], column, state, share, expected])


def _surprise(tail: Array) -> Array:
    return -np.log(np.maximum(tail, LEAST_TAIL)) + 0.0  # no -0


def _rarest(
    bound: Array, columns: Array, surprise: Callable[[Array], Array], keep: int
) -> tuple[Array, Array]:
    """The ``keep`` most surprising cells of each column, and their surprises.

    ``bound`` (C,) is never below the surprise, which costs more.
    """
    rank = _rank(bound, columns)
    some = np.flatnonzero(rank < keep)
    found = surprise(some)
    least = np.full(int(columns.max(initial=0)) + 1, np.inf)
    np.minimum.at(least, columns[some], found)
    more = np.flatnonzero((rank >= keep) & (bound > least[columns]))
    cells, found = np.append(some, more), np.append(found, surprise(more))
    order = np.argsort(cells)
    cells, found = cells[order], found[order]
    first = _rank(found, columns[cells]) < keep
    return cells[first], found[first]


def _rank(values: Array, columns: Array) -> Array:
    """How many cells of its column come before each: larger ones, and equal ones before it."""
    order = np.lexsort([-values, columns])
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order)) - np.searchsorted(columns[order], columns[order])
    return rank


def _largest(cells: Array, n_cells: int, per_column: int | None) -> Array:
    """Cells of the largest surprise; of each, surprise, row and column come first."""
    cells = cells[:, np.lexsort([cells[2], cells[1], -cells[0]])]
    if per_column is not None:
        cells = cells[:, _rank(cells[0], cells[2]) < per_column]
    return cells[:, :n_cells]


def _hide_agreeing(
    fitted: FittedStates, given: Array, hidden: Array, d: Array, surprise: Array
) -> None:
    """Hide near-duplicates that agree with a surprising cell, and would tell its value."""
    twins = {} if fitted.schema is None else fitted.schema.twins
    for follower, twin in twins.items():
        rows = np.flatnonzero(d == twin.leader)
        found = _surprise(twin.tail(given[rows, twin.leader], given[rows, follower]))
        hidden[rows[found < surprise[rows]], follower] = np.nan


def _described(
    fitted: FittedStates, X: DataLike, coded: Array, cells: Array, n_jobs: int | None = None
) -> Mapping[str, Iterable[Value]]:
    """Anomalous cells in the user's terms, each with its expected value."""
    row, d, state = (cells[i].astype(np.int64) for i in (1, 2, 3))
    schema, expected, every = fitted.schema, cells[5], np.arange(len(row))
    if len(row):
        hidden = coded[row].copy()
        hidden[every, d] = np.nan
        _hide_agreeing(fitted, coded[row], hidden, d, cells[0])
        twins = None if schema is None else schema.told_by_twins(hidden)
        if np.isnan(expected).any():
            expected = impute(fitted, hidden, n_jobs)[every, d]
        elif twins is not None:
            told = twins[0][every, d]
            expected = np.where(np.isnan(told), expected, told)
    index = index_of(X)
    labels = row if index is None else [index[r] for r in row]
    shown = {"value": given_cells(fitted, X, coded, row, d)}
    shown["expected"] = [
        float(number) if schema is None else schema.columns[c].value(number, predicted=True)
        for c, number in zip(d, expected, strict=True)
    ]
    return {
        "row": list(labels),
        "column": [fitted.column_name(int(c)) for c in d],
        **{name: np.array([*values, None], dtype=object)[:-1] for name, values in shown.items()},
        "surprise": [float(v) for v in cells[0]],
        "part": [int(v) for v in parts_of(fitted)[d]],
        "state": [int(v) for v in state],
        "probability": [float(v) for v in cells[4]],
    }
