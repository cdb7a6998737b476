"""Where parts of several states that move a little begin: groups of pixels, each congealed.

Parts that stay near their places tie the pixels around them together, so pixels are grouped by
their dependence as for rows in place. The pixels of a group are then taken for a row, whose
shift and states are found as for rows that move as a whole (`partwise.starts.congeal`), and become
the template of a part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, learn_columns
from partwise.data.moved import MovingSource, canvas_columns
from partwise.models.moving import Moving
from partwise.models.moving_parts import MovingParts, PartsParams
from partwise.models.transformations import IndexMaps
from partwise.starts.congeal import Start, found_places
from partwise.starts.dependence import grouped_columns

# Odds of a part on the pixels of its group and on those that it may move to; first share of pixels
# that nothing explains.
OWN_ODDS, NEAR_ODDS, FIRST_OUTLIERS = 2.0, 0.05, 0.05

# Model of a canvas with so many states, for rows of a source.
TemplateOf: TypeAlias = Callable[[MovingSource, IndexMaps, int], Moving]


class _Template(NamedTuple):
    """A part on its canvas, in model units: odds (D_c,), moments (J, D_c), and counts."""

    odds: Array
    mean: Array
    var: Array
    moves: Array  # (T,)
    states: Array  # (J,)


def congealed_start(
    model: MovingParts,
    source: BlockSource,
    template: TemplateOf,
    start: Start,
    rng: np.random.Generator,
) -> PartsParams:
    """First parameters, without classes; ``start`` is that of parts with states in place."""
    X = np.asarray(source.X[:], dtype=float)
    Z = source.columns[0].encode(X, np.arange(X.shape[1]))
    labels = grouped_columns(source, model.n_parts + 1, True, rng).gates.argmax(axis=0)
    found = []
    for k in range(model.n_parts):
        own = np.flatnonzero(labels == k)
        own = own if len(own) else rng.choice(Z.shape[1], 1)
        found.append(_part(model, Z, source.weight, own, template, start, rng))
    odds, mean, var, moves, states = (np.stack(field) for field in zip(*found, strict=True))
    middle, spread = np.nanmedian(Z, axis=0), np.nanvar(Z, axis=0)
    moves, states = moves + 1.0, states + 1.0
    return PartsParams(
        odds,
        mean,
        var,
        np.log(moves / moves.sum(axis=1, keepdims=True)),
        np.log(states / states.sum(axis=1, keepdims=True))[None],
        np.zeros(1),
        np.where(np.isnan(middle), 0.0, middle),
        np.fmax(spread, model.noise),
        FIRST_OUTLIERS,
    )


def _part(
    model: MovingParts,
    Z: Array,
    weight: Array,
    own: Array,
    template: TemplateOf,
    start: Start,
    rng: np.random.Generator,
) -> _Template:
    """The template of the pixels ``own``, found in rows (n, D) in model units."""
    J, n_canvas = model.n_states, model.transformations.n_canvas
    used, places = np.unique(model.maps[:, own], return_inverse=True)
    maps = IndexMaps(places.reshape(len(model.maps), len(own)).tolist(), len(used))
    X = Z[:, own]
    (group,) = learn_columns(X, "gaussian", weight, False, None)
    group = canvas_columns(group, X, weight, maps.maps, len(used))
    rows = MovingSource(X, (group,), weight, maps.maps)
    placed, counts = found_places(lambda n: template(rows, maps, n), start, rows, J, rng)
    stats, _ = start(placed, (J,), False, rng)
    n, first, second = stats.sums[0].shared
    mean, scale = first / np.maximum(n, 1e-9), group.scale[0]
    spread = np.maximum(second / np.maximum(n, 1e-9) - mean**2, 0.0) * scale**2
    odds, means, var = np.zeros(n_canvas), np.zeros((J, n_canvas)), np.ones((J, n_canvas))
    still = int(np.argmin(np.abs(model.transformations.values).sum(axis=1)))
    odds[used], odds[model.maps[still][own]] = NEAR_ODDS, OWN_ODDS
    means[:, used], var[:, used] = mean * scale + group.shift[0], spread + model.noise
    return _Template(odds, means, var, counts, stats.states[0])
