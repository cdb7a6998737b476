"""Dependence between columns: mutual information under a fitted MCVQ.

======  =========  ==========  =================================================================
symbol  code       shape       meaning
======  =========  ==========  =================================================================
p(i|s)  table      (S, B_d)    probability of bin i of column d's values in state s
g       gates      (K, D)      probability that a part explains a column
b       shares     (N, S)      probability of the states in each class
pi      classes    (N,)        share of every class
======  =========  ==========  =================================================================

Two columns depend on each other through the state of a part that both belong to, and through the
class, on which the states of all parts depend. With columns' values in bins the joint distribution
is a sum over states, and so is its mutual information, in nats. Bins can only lose information:
for numbers it is a lower bound, within a few thousandths of a nat with the bins taken here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import special

from partwise.contracts import Array


def state_information(table: Array, gates: Array, overall: Array, first: Array) -> float:
    """Information of a part's state about a column, by its bins in each state (S, B).

    ``gates`` (K,) are the column's, ``overall`` (S,) the probability of every state.
    """
    told = 0.0
    for k, (lo, hi) in enumerate(pairwise(first)):
        if gates[k] > 0:
            joint = overall[lo:hi, None] * table[lo:hi]
            told += gates[k] * _information(joint / joint.sum())
    return told


def mutual_information(
    tables: Sequence[Array | None], gates: Array, shares: Array, classes: Array, first: Array
) -> Array:
    """Of every pair of columns, (D, D); on the diagonal that of a column and its part's state.

    ``tables`` has None for columns without a model, whose information is 0. Bins of all columns are
    numbered in one row, column after column, so that a column meets all others in one product.
    """
    D, parts, one_class = len(tables), list(pairwise(first)), len(classes) == 1
    out = np.zeros((D, D))
    sizes = np.array([0 if table is None else table.shape[1] for table in tables])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(D), sizes)  # column of each bin
    bins = [np.flatnonzero(gates[k, owner] > 0) for k in range(len(parts))]  # of each part
    stacked = [
        np.concatenate([t[lo:hi] for d, t in enumerate(tables) if t is not None and gates[k, d] > 0]
                       or [np.zeros((hi - lo, 0))], axis=1)
        for k, (lo, hi) in enumerate(parts)
    ]  # fmt: skip
    # By class and part the probability of every bin, and over all parts.
    alone = [[b[lo:hi] @ stacked[k] for k, (lo, hi) in enumerate(parts)] for b in shares]
    every = np.zeros((len(classes), len(owner)))
    for c, by_part in enumerate(alone):
        for k, own in enumerate(by_part):
            every[c, bins[k]] += gates[k, owner[bins[k]]] * own
    decided = (gates[:, owner] == 1.0).any(axis=0) & ((gates[:, owner] > 0).sum(axis=0) == 1)
    whole = one_class and bool(decided.all())
    for d, table in enumerate(tables):
        if table is None:
            continue
        out[d, d] = state_information(table, gates[:, d], classes @ shares, first)
        mine = [int(k) for k in np.flatnonzero(gates[:, d] > 0)]
        others = {k: bins[k][: np.searchsorted(bins[k], starts[d])] for k in mine}
        before = np.arange(starts[d])
        if one_class:  # columns of other parts are independent
            before = np.unique(np.concatenate([np.zeros(0, np.int64), *others.values()]))
        if not len(before):
            continue
        joint = np.zeros((table.shape[1], 0 if whole else len(before)))
        for c, (share, b) in enumerate(zip(classes, shares, strict=True)):
            if not whole:
                joint += share * np.outer(every[c, starts[d] : starts[d + 1]], every[c, before])
            for k in mine:
                lo, hi = parts[k]
                product = (table[lo:hi] * b[lo:hi, None]).T @ stacked[k][:, : len(others[k])]
                if whole:  # one part per column: nothing but this product
                    joint = product
                    continue
                product -= np.outer(b[lo:hi] @ table[lo:hi], alone[c][k][: len(others[k])])
                both = share * gates[k, d] * gates[k, owner[others[k]]]
                joint[:, np.searchsorted(before, others[k])] += both * product
        met, at = np.unique(owner[before], return_index=True)
        out[d, met] = out[met, d] = _information_by_column(joint, at)
    return out


def _information_by_column(joint: Array, at: Array) -> Array:
    """Mutual information of joint tables in one row, which begin at columns ``at``."""
    joint = np.maximum(joint, 0.0)
    rows, columns = np.add.reduceat(joint, at, axis=1), joint.sum(axis=0)
    total = np.add.reduceat(columns, at)
    logs = np.log(np.maximum(joint, np.finfo(float).tiny))
    found = np.add.reduceat(np.einsum("ij,ij->j", joint, logs), at)
    found -= special.xlogy(rows, rows).sum(axis=0)
    found -= np.add.reduceat(special.xlogy(columns, columns), at)
    return np.maximum(found / total + np.log(total), 0.0)


def _information(joint: Array) -> float:
    """Mutual information of a joint table, in nats."""
    joint = np.maximum(joint, 0.0)  # differences of distribution functions may round below 0
    product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
    held = joint > 0
    return max(float(np.sum(joint[held] * np.log(joint[held] / product[held]))), 0.0)
