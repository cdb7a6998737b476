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

    ``tables`` has None for columns that the model says nothing about, which tell nothing.
    """
    D = len(tables)
    out = np.zeros((D, D))
    parts = list(pairwise(first))
    one_class = len(classes) == 1
    for d, table in enumerate(tables):
        if table is None:
            continue
        out[d, d] = state_information(table, gates[:, d], classes @ shares, first)
        for e in range(d):
            other = tables[e]
            if other is None or (one_class and not np.any(gates[:, d] * gates[:, e])):
                continue
            joint = np.zeros((table.shape[1], other.shape[1]))
            for share, b in zip(classes, shares, strict=True):
                mine, theirs = np.zeros(table.shape[1]), np.zeros(other.shape[1])
                tied = np.zeros_like(joint)
                for k, (lo, hi) in enumerate(parts):
                    a, c = b[lo:hi] @ table[lo:hi], b[lo:hi] @ other[lo:hi]
                    both = gates[k, d] * gates[k, e]
                    if both > 0:
                        tied += both * ((table[lo:hi] * b[lo:hi, None]).T @ other[lo:hi])
                        tied -= both * np.outer(a, c)
                    mine += gates[k, d] * a
                    theirs += gates[k, e] * c
                joint += share * (tied + np.outer(mine, theirs))
            out[d, e] = out[e, d] = _information(np.maximum(joint, 0.0) / joint.sum())
    return out


def _information(joint: Array) -> float:
    """Mutual information of a joint table, in nats."""
    product = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
    held = joint > 0
    return max(float(np.sum(joint[held] * np.log(joint[held] / product[held]))), 0.0)
