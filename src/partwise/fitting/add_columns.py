"""Columns that are added after a fit, learned from rows whose states the other entries determine.

Everything else stays: the parameters of the earlier columns and the priors. A new column with a
few entries, or none, changes nothing but itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from partwise.contracts import Array, Stats
from partwise.data import BlockSource
from partwise.fitted import FittedParts
from partwise.fitting.family import Family, totals_of
from partwise.models.gated import P, R

# Alternations of rows and new columns: the new entries tell about the rows, too.
ROUNDS = 4


def with_new_columns(
    family: Family[P, R], fitted: FittedParts[P, R], X: sparse.csr_array, own: Array, place: Array
) -> FittedParts[P, R]:
    """A fitted model of gated parts with more columns than it had.

    Parameters
    ----------
    family : Family
        Of the fit.
    fitted : Fitted
        All columns are of one likelihood.
    X : CSR matrix of shape (n, D)
        Rows that have entries in new columns, with their entries in the others; maybe none.
    own, place : ndarray of shape (k,)
        Columns of the fit that are kept, and their columns in X; the others of X are new.

    Returns
    -------
    fitted : Fitted
        A new one of D columns.
    """
    core, n_columns = family.core_in(fitted.model), X.shape[1]
    X, new = X.astype(fitted.dtype), np.setdiff1d(np.arange(n_columns), place)
    group = fitted.columns[0].take(own).with_columns(X[:, new], family.options.prior)
    group = replace(group.take(np.argsort(np.append(place, new))), index=np.arange(n_columns))
    source = BlockSource(X, (group,), np.ones(X.shape[0]), n_powers=family.n_powers)
    totals, before = family.totals(source), totals_of(core)
    if totals is not None and before is not None:
        totals[:, place] = before[:, own]
    wide = family.core((group,), n_columns, fitted.dtype, core.sizes, core.classes, totals)
    params = wide.widened(fitted.params, own, place)
    model = family.modeled(wide, (group,))
    memory = [model.fresh_memory(i) for i in range(source.n_blocks)]
    for _ in range(ROUNDS if X.shape[0] else 0):
        prepared, found = wide.begin(params), []
        for i, block in enumerate(source.blocks()):
            memory[i], stats = model.expect(prepared, block, memory[i])
            found.append(stats)
        params = wide.joined(params, model.learn_columns(prepared, Stats.total(found)), new)
    calibration = fitted.calibration
    if calibration is not None:
        maps = np.zeros(n_columns, np.int64)
        maps[place] = calibration.map_of[own]
        calibration = replace(calibration, map_of=maps)
    # Where rows select for themselves, they go on doing so.
    selects = family.options.selects_by_row
    return replace(
        fitted,
        model=family.with_core(fitted.model, wide) if selects else model,
        params=params,
        columns=(group,),
        n_columns=n_columns,
        calibration=calibration,
    )
