"""Where rows with unknown transformations begin: one template, sharpened as they find their place.

One state for all rows is learned with soft assignments of the transformations whose temperature
falls (congealing). Hard assignments to a blurred mean get stuck, because each row confirms where it
lies. At a high temperature the template follows what most rows agree upon, and it sharpens as the
temperature falls.
Rows are then placed on the canvas under their most probable transformations, and the usual start
takes them for rows with missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array, Layout, Packed, Stats
from partwise.data import BlockSource, RowBlock
from partwise.data.moved import MovingSource
from partwise.models.moving import Moving, MovingPrepared, MovingStats

# Rows that teach the template; all rows are then placed by it.
TEMPLATE_ROWS = 3000
# Sweeps in which the temperature falls to 1, those at 1, and the first inverse temperature times
# the number of columns: the log-likelihood of a row begins to count as that of so many columns.
COOLING_SWEEPS, LAST_SWEEPS = 30, 5
FIRST_COLUMNS = 3.0
# Templates of more states follow, as far as rows suffice; they begin less hot and cool sooner.
TEMPLATE_STATES, ROWS_PER_STATE = (4, 8, 16), 20
SECOND_COLUMNS, SECOND_SWEEPS = 60.0, 8

# Sums and gates to begin with, of rows in blocks: as `partwise.starts.dependence_start`.
Start: TypeAlias = Callable[
    [BlockSource, tuple[int, ...], bool, np.random.Generator], tuple[Stats, Array]
]


def found_places(
    template: Callable[[int], Moving],
    start: Start,
    source: MovingSource,
    n_states: int,
    rng: np.random.Generator,
) -> tuple[BlockSource, Array]:
    """Rows on the canvas where templates of more and more states place them.

    Parameters
    ----------
    template : callable
        Model of one part with so many states.
    start : callable
        Start of such a model from rows in place.
    source : MovingSource
    n_states : int
        States of the model that is to be learned: templates have no more.
    rng : Generator

    Returns
    -------
    rows : BlockSource
        On the canvas, NaN where nothing was seen.
    counts : ndarray of shape (T,)
        Weight of the rows under each transformation.
    """
    model = template(1)
    if len(model.maps) == 1:
        return _placed_by(np.zeros(len(source.weight), int), model, source)
    rows, counts = placed_rows(model, congeal(model, source, rng), source)
    for J in TEMPLATE_STATES:
        if n_states >= J and len(source.weight) >= J * ROWS_PER_STATE:
            model = template(J)
            params = model.parameters(model.canvas.start(*start(rows, (J,), False, rng)), counts)
            few = _some_rows(source, rng)
            prepared = cooled(model, model.begin(params), few, SECOND_COLUMNS, SECOND_SWEEPS)
            rows, counts = placed_rows(model, prepared, source)
    return rows, counts


def _some_rows(source: MovingSource, rng: np.random.Generator) -> MovingSource:
    """So many rows as teach a template."""
    if len(source.weight) <= TEMPLATE_ROWS:
        return source
    rows = np.sort(rng.choice(len(source.weight), TEMPLATE_ROWS, replace=False))
    return source.with_rows(source.X[rows], source.weight[rows])


def congeal(model: Moving, source: MovingSource, rng: np.random.Generator) -> MovingPrepared:
    """Parameters of one state for all rows; ``model`` has one state."""
    source = _some_rows(source, rng)
    T = len(model.maps)
    flat = replace(model, temper=0.0)
    gates = np.ones((1, model.canvas.n_columns))
    layout = Layout(np.full(model.n_columns, -1), (1,))
    nothing = Stats(0.0, np.zeros((1, 1)), model.canvas.no_sums((layout,)))
    params = model.parameters(model.canvas.start(nothing, gates), np.zeros(T))
    prepared = _step(flat, model.begin(params), source)
    return cooled(model, prepared, source, FIRST_COLUMNS, COOLING_SWEEPS)


def cooled(
    model: Moving, prepared: MovingPrepared, source: MovingSource, columns: float, n_sweeps: int
) -> MovingPrepared:
    """Parameters after sweeps in which a row begins to count as so many columns, and some more."""
    D = model.maps.shape[1]
    cooling = np.geomspace(min(columns / D, 1.0), 1.0, n_sweeps)
    for temper in [*cooling, *np.ones(LAST_SWEEPS)]:
        prepared = _step(replace(model, temper=float(temper)), prepared, source)
    return prepared


def _step(model: Moving, prepared: MovingPrepared, source: MovingSource) -> MovingPrepared:
    """One sweep and step; the mean displacement stays in the middle of the canvas."""
    prepared = replace(prepared, full=True)
    stats = MovingStats.total(source.each(lambda block: model.expect(prepared, block, None)[1]))
    step = model.transformations.step(stats.counts)
    if step is not None:
        (sums,) = stats.sums
        shared = displaced(sums.shared, step, model.transformations.canvas_shape)
        stats = replace(stats, sums=(Packed(sums.own, shared),))
    found = model.maximize(prepared, stats)
    return replace(found, canvas=model.canvas.open_all_gates(found.canvas))


def displaced(values: Array, step: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Values on a canvas (..., D) as seen from ``step`` pixels further on, 0 beyond its edge."""
    canvas = values.reshape(*values.shape[:-1], *shape)
    for axis, by in zip((-2, -1), step, strict=True):
        canvas = np.moveaxis(canvas, axis, 0)
        out = np.zeros_like(canvas)
        kept = len(canvas) - abs(by)
        to, since = max(-by, 0), max(by, 0)
        out[to : to + kept] = canvas[since : since + kept]
        canvas = np.moveaxis(out, 0, axis)
    return canvas.reshape(values.shape)


def placed_rows(
    model: Moving, prepared: MovingPrepared, source: MovingSource
) -> tuple[BlockSource, Array]:
    """Rows on the canvas under their most probable transformations, and how often each is (T,)."""

    def on_block(block: RowBlock) -> Array:
        return model.posterior(prepared, block)[0].argmax(axis=0)

    best = np.concatenate(list(source.each(on_block)))
    return _placed_by(best, model, source)


def _placed_by(best: Array, model: Moving, source: MovingSource) -> tuple[BlockSource, Array]:
    """Rows on the canvas under transformations ``best`` (n,)."""
    counts = np.bincount(best, source.weight, minlength=len(model.maps))
    X = on_canvas(source.X[:], model.maps[best], model.canvas.n_columns)
    return BlockSource(X, source.canvas, source.weight), counts


def on_canvas(X: Array, places: Array, n_canvas: int) -> Array:
    """Rows (n, D) at ``places`` (n, D) of the canvas, NaN where nothing is; (n, n_canvas)."""
    out = np.full((len(X), n_canvas), np.nan, X.dtype)
    np.put_along_axis(out, places, X, axis=1)
    return out
