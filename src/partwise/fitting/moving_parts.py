"""Fit parts that move on their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, learn_columns
from partwise.data.moved import in_common_units
from partwise.fitted import Fitted
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.family import sizes_of
from partwise.fitting.moving_states import refused
from partwise.fitting.options import Listen, PartsOptions, TrainingRows
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Stage, fit_best
from partwise.models.moving_parts import MovingParts, PartsParams, rows_of
from partwise.models.transformations import Translations
from partwise.starts.recurring import recurring_start

FittedMovingParts: TypeAlias = Fitted[MovingParts, PartsParams, PartsParams]

# Cells of the rows that a start looks at.
MOST_CELLS = 2_000_000

# Normal deviations per median absolute deviation, and the least variance of noise in model units.
PER_MEDIAN, LEAST_NOISE = 1.4826, 1e-6


def fit_moving_parts(
    options: PartsOptions, rows: TrainingRows, labels: object, listen: Listen
) -> FittedMovingParts:
    """Learn templates, masks and background from rows without classes."""
    moves = options.transformations
    assert isinstance(moves, Translations)
    reason = refused(options, rows)
    if reason is None and (options.likelihood != "gaussian" or options.prior is None):
        reason = 'likelihood="gaussian" and a prior'
    if reason is None and (labels is not None or options.n_classes is not None):
        reason = "rows without classes"
    if reason is not None:
        raise ValueError(f'Translations(by="part") needs {reason}.')
    n_columns = rows.X.shape[1]
    if moves.n_columns != n_columns:
        raise ValueError(
            f"transformations are of rows with {moves.n_columns} columns, but X has {n_columns}; "
            "give the image_shape of the rows of X."
        )
    sizes = sizes_of(options.size, int(options.n_parts), "n_states")
    (group,) = learn_columns(rows.X, "gaussian", rows.weight, False, options.prior)
    group = in_common_units(group, rows.X, rows.weight)
    source = BlockSource(rows.X, (group,), rows.weight, n_powers=2)
    log = FitLog(options.random_state)
    rng = log.generator()
    some = source.sample(MOST_CELLS, rng)
    pairs = [rows_of(block) for block in some.blocks()]
    x, seen = (np.concatenate(values) for values in zip(*pairs, strict=True))
    model = MovingParts(len(sizes), max(sizes), moves, _noise(x, seen))

    def begin(
        i: int, child: np.random.Generator
    ) -> tuple[list[Stage[MovingParts, PartsParams]], PartsParams]:
        start = partial(recurring_start, model, x, seen, moves.image_shape, child)
        return [Stage(model)], start()

    with listen(rows.X) as listener:
        deadline = options.ascent.deadline()
        _, params, monitor = fit_best(source, begin, rng, options.ascent, log, listener, deadline)
    total = float(rows.weight.sum())
    record = replace(recorded(monitor, total), n_rows=len(rows.kept), weight=total)
    of = (group,), n_columns, rows.X.dtype, record, rows.names, model.n_parts
    return Fitted(model, params, *of)


def _noise(x: Array, seen: Array) -> float:
    """Variance of the noise: most pixels of most rows are background."""
    shown = np.where(seen > 0, x, np.nan)
    apart = np.abs(shown - np.nanmedian(shown, axis=0))
    return max(float(PER_MEDIAN * np.nanmedian(apart)) ** 2, LEAST_NOISE)
