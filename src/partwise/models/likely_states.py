"""Likely states of rows whose entries each select a part: where alternations begin.

The alternation of parts and states may stay where it begins, so it begins well: each part in turn
takes the state that raises sum_d log sum_k a p(x_d | s_k) + log b most. A part without a state yet
explains each entry by its states' prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from partwise.contracts import Array, Block, DType, Selections

# Times that every part of a row looks for a better state.
CLIMBING_ROUNDS = 2


def climb_states(
    first: Array,
    log_b: Array,
    log_a: Sequence[Array],
    natural: Sequence[Array],
    block: Block[Selections],
    chosen: Array | None = None,
) -> tuple[Array, Array]:
    """One-hot states (S, n) of high joint density with the row, selections summed out.

    Also log densities of the row with every state given those of the other parts, (S, n).

    Parameters
    ----------
    first : ndarray of shape (K + 1,)
        Number of each part's first state, then S.
    log_b : ndarray of shape (S,)
    log_a, natural : per group, (K, D_g) and (P, S, D_g)
    block : Block
    chosen : ndarray of shape (K, n) or None
        Number of each part's state to begin with.
    """
    n, parts = block.n_rows, list(pairwise(first))
    spread = [
        group.spread(a.astype(block.dtype)) for group, a in zip(block.groups, log_a, strict=True)
    ]
    mixed = []
    if chosen is None:
        for group, eta in zip(block.groups, natural, strict=True):
            by_part = [
                np.logaddexp.reduce([group.densities(eta[:, j]) + log_b[j] for j in range(lo, hi)])
                for lo, hi in parts
            ]
            mixed.append(np.stack(by_part))
        found, n_chosen = np.repeat(first[:-1, None], n, axis=1), 0
    else:
        found, n_chosen = chosen, len(parts)
    given = np.empty((first[-1], n))
    for _ in range(CLIMBING_ROUNDS):
        for k, (lo, hi) in enumerate(parts):
            gain = np.repeat(log_b[lo:hi, None], n, axis=1)
            states = one_hot(found, first[-1], block.dtype)
            for g, group in enumerate(block.groups):
                others = group.expected(states, natural[g], first)
                if n_chosen < len(parts):
                    others[n_chosen:] = mixed[g][n_chosen:]
                others = others + spread[g]
                others[k] = -np.inf
                rest = np.logaddexp.reduce(others, axis=0)
                for j in range(lo, hi):
                    density = group.densities(natural[g][:, j]) + spread[g][k]
                    gain[j - lo] += group.row_sums(np.logaddexp(rest, density))
            found[k] = lo + gain.argmax(axis=0)
            n_chosen = max(n_chosen, k + 1)
            given[lo:hi] = gain
    return one_hot(found, first[-1], block.dtype), given


def one_hot(chosen: Array, n_states: int, dtype: DType) -> Array:
    """States numbered in ``chosen`` (K, n) as posteriors (S, n)."""
    out = np.zeros((n_states, chosen.shape[1]), dtype)
    np.put_along_axis(out, chosen, 1, axis=0)
    return out
