"""Columns that arrive after a fit: learned from rows whose other entries tell their states.

Nothing else is learned anew: what the rows say about the columns before, and the priors, stay. So a
column that arrives with a few entries changes nothing but itself.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from partwise.contracts import Stats
from partwise.data import BlockSource
from partwise.fitting import course

# Alternations of rows and new columns: the new entries tell about the rows, too.
ROUNDS = 4


def with_new_columns(estimator: Any, X: Any) -> Any:
    """A fitted MCVQ or MCFA of more columns than it had, the last of X (CSR).

    Parameters
    ----------
    estimator : fitted MCVQ or MCFA of D columns
    X : CSR matrix of shape (n, D + new)
        Rows that have entries in new columns, with their entries in the others.

    Returns
    -------
    estimator : a new one of D + new columns
    """
    core, D = course.core_of(estimator._model), estimator.n_features_in_
    X = X.astype(estimator._dtype)
    group = estimator._columns[0].with_columns(X[:, D:], course.prior_of(estimator))
    source = BlockSource(X, (group,), np.ones(X.shape[0]), n_powers=estimator._n_powers)
    totals = estimator._totals(source)
    if totals is not None:
        totals[:, :D] = core.totals
    wide = estimator._core((group,), core.sizes, core.classes, totals)
    theta = wide.widened(estimator._theta)
    model, selects = estimator._modelled(wide, (group,)), course.selects_by_row(estimator)
    memory = [model.fresh_memory(i) for i in range(source.n_blocks)]
    for _ in range(ROUNDS):
        prepared, found = wide.begin(theta), []
        for i, block in enumerate(source.blocks()):
            memory[i], stats = model.expect(prepared, block, memory[i])
            found.append(stats)
        theta = wide.joined(theta, model.learn_columns(prepared, Stats.total(found)), D)
    wider = copy.copy(estimator)
    wider._columns = (group,)
    # Where rows select for themselves, they go on doing so.
    wider._keep(replace(estimator._model, core=wide) if selects else model, theta)
    wider.n_features_in_ = len(group.index)
    maps = np.zeros(len(group.index), np.int64)
    maps[:D] = estimator._calibration.map_of
    wider._calibration = estimator._calibration._replace(map_of=maps)
    wider._describe()
    return wider
