"""Fit parts that move on their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, learn_columns
from partwise.data.moved import MovingSource, in_common_units
from partwise.data.rows import Rows
from partwise.fitted import Fitted, fields_of, restored_fields, shared_attributes
from partwise.fitting.checkpoint import Checkpoint, FitLog
from partwise.fitting.course import Classes, numbered_classes, warn_of_holes
from partwise.fitting.family import sizes_of
from partwise.fitting.moving_states import check_columns, refused
from partwise.fitting.options import Listen, PartsOptions, TrainingRows
from partwise.fitting.record import recorded
from partwise.fitting.restarts import Begun, Stage, fit_best
from partwise.fitting.states import States
from partwise.likelihoods import Dirichlet
from partwise.models.canvas import StateCanvas
from partwise.models.class_variable import ClassVariable
from partwise.models.moving import Moving
from partwise.models.moving_parts import MovingParts, PartRows, PartsParams, rows_of
from partwise.models.transformations import IndexMaps, Translations
from partwise.models.weights import weighted_median
from partwise.starts.congealed_parts import congealed_start
from partwise.starts.recurring import patches_reach, recurring_start
from partwise.starts.rows import distinct_rows, some_rows
from partwise.typing import PathLike, SavedState

FittedMovingParts: TypeAlias = Fitted[MovingParts, PartsParams, PartsParams]

# Cells of the rows that a start looks at.
MOST_CELLS = 2_000_000

# Starts from patches that recur, of which the best is used.
N_STARTS = 3

# Rows and EM iterations that show which start is better.
JUDGED_ROWS, JUDGED_STEPS = 200, 3

# Normal deviations per median absolute deviation, and the least variance of noise in model units.
PER_MEDIAN, LEAST_NOISE = 1.4826, 1e-6


def fit_moving_parts(
    options: PartsOptions,
    rows: TrainingRows,
    y: ArrayLike | None,
    listen: Listen,
    last: FittedMovingParts | None = None,
    checkpoint: PathLike | Checkpoint | None = None,
) -> FittedMovingParts:
    """Learn templates, masks and background, and classes by the labels ``y`` if there are some."""
    moves, n_columns = _moves(options), rows.X.shape[1]
    reason = refused(options, rows)
    if reason is None and (options.likelihood != "gaussian" or options.prior is None):
        reason = 'likelihood="gaussian" and a prior'
    classes = Classes() if reason else numbered_classes(options, rows, y)
    if reason is None and options.n_classes is not None and not classes.are_known:
        reason = "labels y of the classes; without y, leave out n_classes"
    sizes = () if reason else sizes_of(options.size, int(options.n_parts), "n_states")
    if len(set(sizes)) > 1:
        reason = "one number n_states for all parts"
    if reason is not None:
        raise ValueError(f'Translations(by="part") needs {reason}.')
    check_columns(moves, n_columns)
    (group,) = learn_columns(rows.X, "gaussian", rows.weight, False, options.prior)
    warn_of_holes((group,), n_columns, rows.names)
    labels, arguments = classes.labels, options.arguments
    log = FitLog(options.random_state, checkpoint, arguments, rows.X, rows.weight, labels)
    rng = log.generator()
    if last is None:
        few = _different_rows(options, rows.X, group, rows.weight, rng)
        (own,) = few.columns
        group = replace(group, shift=own.shift, scale=own.scale)
        some = [rows_of(block) for block in few.blocks()]
        first = PartRows(*(np.concatenate([piece[i] for piece in some]) for i in range(2)))
        noise = _noise(first, few.weight)
    else:
        group, noise = _resumed(last, sizes, classes, n_columns), last.model.noise
    model = MovingParts(len(sizes), max(sizes), moves, noise)
    source = BlockSource(rows.X, (group,), rows.weight, labels=labels, n_powers=2)

    def begin(i: int, child: np.random.Generator) -> Begun[MovingParts, PartsParams]:
        if last is not None:
            return [Stage(model)], last.params
        start = partial(_start, options, model, few, first, child)
        return [Stage(model)], log.once("start", child, start).with_classes(classes.number)

    ascent = options.ascent if last is None else replace(options.ascent, n_init=1)
    with listen(rows.X) as listener:
        deadline = ascent.deadline()
        _, params, monitor = fit_best(source, begin, rng, ascent, log, listener, deadline)
    total = float(rows.weight.sum())
    record = replace(recorded(monitor, total), n_rows=len(rows.kept), weight=total)
    of = (group,), n_columns, rows.X.dtype, record, rows.names, model.n_parts
    log.finish()
    return Fitted(model, params, *of, classes=classes.names)


def _start(
    options: PartsOptions,
    model: MovingParts,
    source: BlockSource,
    rows: PartRows,
    rng: np.random.Generator,
) -> PartsParams:
    """First parameters: patches that recur or groups of pixels, whichever explains rows better.

    ``rows`` are those of the source.
    """
    shape, weight = _moves(options).image_shape, source.weight
    judged = rng.permutation(len(rows.x))[:JUDGED_ROWS]

    def worth(params: PartsParams) -> float:
        return _worth(model, params, rows.take(judged), weight[judged])

    if model.n_states == 1:
        tried = [recurring_start(model, rows, weight, shape, rng) for _ in range(N_STARTS)]
        return max(tried, key=worth)
    states = States(replace(options, transformations=None))

    def template(of: MovingSource, maps: IndexMaps, n_states: int) -> Moving:
        sizes = (n_states,)
        canvas = states.core(of.canvas, maps.n_canvas, of.X.dtype, sizes, ClassVariable(), None)
        return Moving(StateCanvas.of(canvas), maps, Dirichlet(1.0))

    start = States.starts["dependence"]
    params = congealed_start(model, source, template, start, rng)
    if not patches_reach(model.transformations.values, shape):
        return params
    return max((params, recurring_start(model, rows, weight, shape, rng)), key=worth)


def _different_rows(
    options: PartsOptions, X: Rows, group: ColumnGroup, weight: Array, rng: np.random.Generator
) -> BlockSource:
    """Different rows that a start looks at, in memory and in the order in which they come.

    Their columns are in common units, learned from these rows alone: a start that finds parts one
    by one makes much of a difference in the last digit, and a row that occurs twice must not make
    one.
    """
    source = BlockSource(X, (group,), weight, n_powers=2)
    kinds, weight = distinct_rows(source)
    some = some_rows(weight, max(MOST_CELLS // X.shape[1], 1), rng)
    some = some[np.argsort(kinds[some])]
    few = source.of_rows(kinds[some], weight[some])
    (own,) = learn_columns(few.X, "gaussian", few.weight, False, options.prior)
    own = in_common_units(own, few.X, few.weight)
    return BlockSource(few.X, (own,), few.weight, n_powers=2)


def _worth(model: MovingParts, params: PartsParams, rows: PartRows, weight: Array) -> float:
    """Bound of rows after a few EM iterations."""
    found = model.placed(params, rows)
    params, found = model.ascended(params, found, rows, weight, JUDGED_STEPS)
    return float(weight @ model.row_bounds(params, rows, found, range(model.n_parts)))


def _moves(options: PartsOptions) -> Translations:
    assert isinstance(options.transformations, Translations)
    return options.transformations


def _resumed(
    last: FittedMovingParts, sizes: tuple[int, ...], classes: Classes, n_columns: int
) -> ColumnGroup:
    """The columns of the last fit, which must suit the new data."""
    own = last.model.n_parts, last.model.n_states, last.n_columns, len(last.params.log_beta)
    if own != (len(sizes), max(sizes), n_columns, classes.number):
        raise ValueError(
            "warm_start=True needs the columns, n_parts, n_states and classes of the last fit; "
            "set warm_start=False to begin again."
        )
    return last.columns[0]  # units stay, or the parameters would mean something else


def _noise(rows: PartRows, weight: Array) -> float:
    """Variance of the noise: most pixels of most rows are background."""
    shown = np.where(rows.seen > 0, rows.x, np.nan)
    apart = np.abs(shown - weighted_median(shown, weight))
    every = np.repeat(weight, apart.shape[1])
    (middle,) = weighted_median(apart.reshape(-1, 1), every)
    return max(float(PER_MEDIAN * middle) ** 2, LEAST_NOISE)


def saved_parts(fitted: FittedMovingParts) -> dict[str, object]:
    """All that is learned as plain values, for a model file."""
    learned = shared_attributes(fitted)
    if fitted.names is not None:
        learned["feature_names_in_"] = np.asarray([str(n) for n in fitted.names], dtype=object)
    return {
        "templates": fields_of(fitted.params),
        "noise": fitted.model.noise,
        "columns": [group.state() for group in fitted.columns],
        "dtype": np.dtype(fitted.dtype).name,
        "learned": learned,
    }


def restored_parts(options: PartsOptions, state: SavedState) -> FittedMovingParts:
    """The fitted model of which a file holds the state."""
    fields, params = restored_fields(state["learned"]), PartsParams(**state["templates"])
    columns = tuple(ColumnGroup.restore(group, options.prior) for group in state["columns"])
    K, J, _ = params.mean.shape
    model = MovingParts(K, J, _moves(options), float(state["noise"]))
    return Fitted(model, params, columns, dtype=np.dtype(state["dtype"]), **fields)
