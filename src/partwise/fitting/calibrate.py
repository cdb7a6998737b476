"""Learn the calibration of intervals from held-out cells.

Works with any model that has ``expect``, ``maximize`` and ``infer``; how likely a value is below
another (``below``) is the model's own affair. See `partwise.models.calibration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array, Stats
from partwise.data import BlockSource, RowBlock
from partwise.data.cells import cells_of_block
from partwise.data.indices import is_csr
from partwise.data.rows import is_sparse
from partwise.models import calibration
from partwise.models.calibration import Calibration
from partwise.models.gated import GatedModel, P, R, RowsMemory
from partwise.runners import runner_of
from partwise.typing import Matrix

# (prepared, block, group, rows, columns of the group, values in model units) -> P(X <= value).
Below: TypeAlias = Callable[[R, RowBlock, int, Array, Array, Array], Array]

# Most cells of the rows that calibration uses, and held-out cells that are enough; where rows are
# few, cells are held out at most so many times.
MOST_CELLS = 4_000_000
ENOUGH_HIDDEN = 16_000
MOST_FOLDS = 6

# EM iterations without the held-out cells. After one, the states no longer depend on them; after
# two, neither do the posteriors of rows that depended on those states.
FORGETTING_STEPS = 2


def calibrate(
    model: GatedModel[P, R],
    params: P,
    source: BlockSource,
    below: Below[R],
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Calibration:
    """Hold out a few cells of each row, fit without them, and compare them with the predictions.

    Parameters
    ----------
    model, params
        As fitted.
    source : BlockSource
        The rows of the fit. Kept blocks are released where a sample of the rows is used.
    below : callable
        ``below(prepared, block, group, rows, columns, values)``.
    rng : Generator
    n_jobs : int or None

    Returns
    -------
    calibration : Calibration
        Of all columns; those that are not Gaussian are ignored.
    """
    n_columns = source.X.shape[1]
    numeric = [g for g, group in enumerate(source.columns) if group.likelihood.calibrated]
    if not numeric:
        return calibration.identity(n_columns)
    densify = is_sparse(source.X) and any(source.columns[g].absent_zero for g in numeric)
    prepared = model.prepare(params)
    rest, rows = None, source.sample_rows(MOST_CELLS, rng, full=densify)
    some = source
    if len(rows) < source.X.shape[0]:
        rest = _total(model, prepared, source, n_jobs)
        source.forget()
        some = source.of_rows(rows)
        rest += _total(model, prepared, some, n_jobs).scaled(-1.0)
        some.forget()
    elif source.reads:
        some = source.of_rows(rows)
    X, weight, source = some.X, some.weight, some
    if densify and is_csr(X):
        X = X.toarray()
    is_numeric = np.zeros(n_columns, bool)
    is_numeric[np.concatenate([source.columns[g].index for g in numeric])] = True

    found: list[tuple[Array, Array, Array]] = []
    n_hidden = 0
    while n_hidden < ENOUGH_HIDDEN and len(found) < MOST_FOLDS:
        found.append(_fold(model, params, X, source, weight, rest, is_numeric, below, rng, n_jobs))
        n_hidden += len(found[-1][0])
    pit, column, row = (np.concatenate(field) for field in zip(*found, strict=True))
    # A cell hidden twice is one cell.
    _, which, times = np.unique(row * n_columns + column, return_inverse=True, return_counts=True)
    return calibration.learn(pit, column, weight[row] / times[which], n_columns)


def _fold(
    model: GatedModel[P, R],
    params: P,
    X: Matrix,
    source: BlockSource,
    weight: Array,
    rest: Stats | None,
    is_numeric: Array,
    below: Below[R],
    rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Array, Array, Array]:
    """P(X <= x), column and row of some held-out cells."""
    holed = X.copy()
    if not isinstance(X, np.ndarray):
        row, column = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices
        seen = np.flatnonzero(is_numeric[column] & ~np.isnan(X.data))
        at = seen[calibration.hide(np.bincount(row[seen], minlength=X.shape[0]), rng)]
        row, column, values = row[at], column[at].astype(np.int64), X.data[at]
        np.asarray(holed.data)[at] = np.nan
    else:
        shown = ~np.isnan(X) & is_numeric
        hidden = calibration.hide(shown.sum(axis=1), rng)
        row, column = np.divmod(np.flatnonzero(shown)[hidden], X.shape[1])
        values = X[row, column]
        holed[row, column] = np.nan
    order = np.lexsort((column, row))
    row, column, values = row[order], column[order], values[order]

    view = source.with_rows(holed, weight, source.labels)
    model = model.without_cells(source, view)
    memory = [model.fresh_memory(i) for i in range(view.n_blocks)]
    prepared = model.prepare(params)
    # Sums of other rows were taken with these parameters, so they serve for one step.
    for _ in range(FORGETTING_STEPS if rest is None else 1):
        stats = _total(model, prepared, view, n_jobs, memory)
        prepared = model.maximize(prepared, stats if rest is None else stats + rest)

    pit = np.empty(len(row))
    for bounds, labeled in zip(view.bounds, view.blocks(), strict=True):
        block = RowBlock(labeled.groups, labeled.weight, labeled.base)
        for g, which, *cells in cells_of_block(source.columns, bounds, row, column, values):
            pit[which] = below(prepared, block, g, *cells)
    return pit, column, row


def _total(
    model: GatedModel[P, R],
    prepared: R,
    source: BlockSource,
    n_jobs: int | None,
    memory: list[RowsMemory] | None = None,
) -> Stats:
    """Sums over all rows; ``memory`` of each block is brought up to date."""
    if memory is None:
        memory = [model.fresh_memory(i) for i in range(source.n_blocks)]
    with runner_of(n_jobs, source) as runner:
        return runner.total(model, prepared, source, memory)
