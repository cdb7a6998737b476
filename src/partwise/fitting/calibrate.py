"""Learn the calibration of intervals from held-out cells.

Works with any model that has ``expect``, ``maximize`` and ``infer``; how likely a value is below
another (``below``) is the model's own affair. See `partwise.models.calibration`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

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

# Most cells of the rows that calibration uses, and held-out cells that are enough. Where there are
# no more, every cell is held out once, unless rows are wide.
MOST_CELLS = 4_000_000
ENOUGH_HIDDEN = 16_000
MOST_FOLDS = calibration.FOLDS

# EM iterations without the held-out cells. After one, the states no longer depend on them; after
# two, neither do the posteriors of rows that depended on those states.
FORGETTING_STEPS = 2


class Held(NamedTuple):
    """Held-out cells: P(X <= x), P(X < x), columns and rows; (n,) each."""

    upto: Array
    below: Array
    column: Array
    row: Array


def calibrate(
    model: GatedModel[P, R],
    params: P,
    source: BlockSource,
    below: Below[R],
    rng: np.random.Generator,
    n_jobs: int | None,
    whole: bool = False,
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
    whole : bool
        Whether columns of counts and of ordered levels are calibrated, too.

    Returns
    -------
    calibration : Calibration
        Of all columns; those that are not calibrated are ignored.
    """
    n_columns = source.X.shape[1]
    laws = [group.likelihood for group in source.columns]
    is_whole = [whole and (law.counts or law.ordered) and not law.latent for law in laws]
    used = [g for g, law in enumerate(laws) if law.calibrated or is_whole[g]]
    if not used:
        return calibration.identity(n_columns)
    densify = is_sparse(source.X) and any(source.columns[g].absent_zero for g in used)
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
    X, source = some.X, some
    if densify and is_csr(X):
        X = X.toarray()
    is_used, has_whole = np.zeros((2, n_columns), bool)
    for g in used:
        is_used[source.columns[g].index] = True
        has_whole[source.columns[g].index] = is_whole[g]

    place, count = _observed(X, is_used)
    fold = calibration.folds_of(count, rng)
    found, n_hidden = [], 0
    for f in range(MOST_FOLDS):
        hidden = place[fold == f]
        found.append(_fold(model, params, X, source, rest, hidden, is_whole, below, n_jobs))
        n_hidden += len(hidden)
        if n_hidden >= ENOUGH_HIDDEN:
            break
    held = Held(*(np.concatenate(field) for field in zip(*found, strict=True)))
    weight, in_whole = source.weight[held.row], has_whole[held.column]
    number = ~in_whole
    learned = calibration.learn(held.upto[number], held.column[number], weight[number], n_columns)
    tail = np.minimum(held.upto, 1.0 - held.below)[in_whole]
    return calibration.with_whole(
        learned, tail, held.column[in_whole], weight[in_whole], np.flatnonzero(has_whole)
    )


def _observed(X: Matrix, used: Array) -> tuple[Array, Array]:
    """Places of the observed cells of the columns used, row by row, and their number in each row.

    Places are those in the values that X stores.
    """
    if isinstance(X, np.ndarray):
        shown = ~np.isnan(X) & used
        return np.flatnonzero(shown), shown.sum(axis=1)
    place = np.flatnonzero(used[X.indices] & ~np.isnan(X.data))
    return place, np.diff(np.searchsorted(place, X.indptr))


def _fold(
    model: GatedModel[P, R],
    params: P,
    X: Matrix,
    source: BlockSource,
    rest: Stats | None,
    hidden: Array,
    is_whole: Sequence[bool],
    below: Below[R],
    n_jobs: int | None,
) -> Held:
    """What a fit without them says of cells, given by their places in the values that X stores."""
    holed = X.copy()
    if isinstance(holed, np.ndarray):
        row, column = np.divmod(hidden, X.shape[1])
        stored = holed.reshape(-1)
    else:
        row = np.searchsorted(holed.indptr, hidden, side="right") - 1
        column, stored = holed.indices[hidden].astype(np.int64), np.asarray(holed.data)
    values = stored[hidden]
    stored[hidden] = np.nan
    order = np.lexsort((column, row))
    row, column, values = row[order], column[order], values[order]

    view = source.with_rows(holed, source.weight, source.labels)
    model = model.without_cells(source, view)
    memory = [model.fresh_memory(i) for i in range(view.n_blocks)]
    prepared = model.prepare(params)
    # Sums of other rows were taken with these parameters, so they serve for one step.
    for _ in range(FORGETTING_STEPS if rest is None else 1):
        stats = _total(model, prepared, view, n_jobs, memory)
        prepared = model.maximize(prepared, stats if rest is None else stats + rest)

    upto, under = np.empty((2, len(row)))
    for bounds, labeled in zip(view.bounds, view.blocks(), strict=True):
        block = RowBlock(labeled.groups, labeled.weight, labeled.base)
        for g, which, rows, columns, x in cells_of_block(
            source.columns, bounds, row, column, values
        ):
            upto[which] = under[which] = below(prepared, block, g, rows, columns, x)
            if is_whole[g]:
                under[which] = below(prepared, block, g, rows, columns, x - 1.0)
    return Held(upto, under, column, row)


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
