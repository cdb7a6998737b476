"""The papers' start: gates uniform, states at randomly selected rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partwise.contracts import Array, Layout, Packed, Stats
from partwise.data.source import BlockSource
from partwise.starts.rows import distinct_rows

# How far a state starts from the column's average towards its row; the rest keeps the variance of a
# state near that of the column, as a single row has none.
PULL = 0.5


def random_start(
    source: BlockSource, n_states: Sequence[int], background: bool, rng: np.random.Generator
) -> tuple[Stats, Array]:
    """Sums as if each state held an equal share of rows like one picked at random.

    With ``background`` the state of the last part begins at the columns' averages.
    """
    S, K = sum(n_states), len(n_states)
    kinds, kind_weight = distinct_rows(source)
    rows = kinds[_pick(kind_weight, S, rng)]
    picked = picked_rows(source, rows)
    share = np.concatenate([np.full(J, 1.0 / J) for J in n_states])
    states = share * source.weight.sum()
    sums = []
    for group, collected in zip(source.columns, picked, strict=True):
        observed = group.likelihood.family.observed(collected)[None]
        average = group.moments[:, None, :]
        mixed = np.where(observed > 0, PULL * collected + (1 - PULL) * average, average)
        if background:
            mixed[:, -1] = group.moments
        sums.append(Packed(np.zeros((len(mixed), 1, 0)), mixed * share[:, None] * group.weight))
    gates = np.full((K, source.X.shape[1]), 1.0 / K)
    return Stats(0.0, states[None], tuple(sums)), gates


def _pick(weight: Array, size: int, rng: np.random.Generator) -> Array:
    """Rows sampled by weight, without repetition while they last."""
    p = weight / weight.sum()
    return rng.choice(len(p), size, replace=bool(size > np.count_nonzero(p)), p=p)


def picked_rows(source: BlockSource, rows: Array) -> list[Array]:
    """T(x) of chosen rows, one state each: (P, len(rows), D) a group."""
    some = source.of_rows(rows, np.ones(len(rows)))
    totals: list[list[Array]] = []
    for (lo, hi), block in zip(some.bounds, some.blocks(), strict=True):
        m = np.zeros((len(rows), hi - lo), block.dtype)
        m[np.arange(lo, hi), np.arange(hi - lo)] = 1
        layouts = [Layout(np.full(len(g.index), -1), (len(rows),)) for g in source.columns]
        totals.append([packed.shared for packed in block.collect(m, layouts)])
    return [np.sum(parts, axis=0) for parts in zip(*totals, strict=True)]
