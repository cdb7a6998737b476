"""Where parts of several states that move a little begin: groups of pixels that move as one.

Parts that stay near their places tie the pixels around them together, so pixels are grouped by
their dependence as for rows in place, into more groups than there are parts. The pixels of a group
are taken for a row, whose shift and states are found as for rows that move as a whole
(`partwise.starts.congeal`), and become a template. Groups whose shifts agree over the rows are
pieces of one part and are joined; the parts that are missing are sought in what is left. Masks and
states are refined on the way (`partwise.starts.part_search`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data import BlockSource, learn_columns
from partwise.data.moved import MovingSource, canvas_columns
from partwise.models.moving import Moving
from partwise.models.moving_parts import MovingParts, PartRows, PartsParams
from partwise.models.predict_parts import components
from partwise.models.transformations import IndexMaps
from partwise.models.weights import weighted_median, weighted_moments
from partwise.starts.congeal import Start, found_places
from partwise.starts.dependence import grouped_columns
from partwise.starts.part_search import N_STEPS, NEAR_ODDS, Search

# Odds of a part on the pixels of its group; first share of pixels that nothing explains.
OWN_ODDS, FIRST_OUTLIERS = 2.0, 0.05

# Groups per part, states of a group, and rows looked at: at least so many, so many per state.
GROUPS_A_PART, GROUP_STATES, LEAST_ROWS, ROWS_A_STATE = 2, 6, 300, 30

# Rounds in which masks and states of the first parts are refined.
N_ROUNDS = 2

# Groups move as one if this share of what unrelated shifts would cost is saved by one shift.
LEAST_TIE = 0.2

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
    n = min(len(source.weight), max(LEAST_ROWS, ROWS_A_STATE * model.n_states))
    some = np.sort(rng.choice(len(source.weight), n, replace=False))
    X, weight = np.asarray(source.X[some], dtype=float), source.weight[some]
    Z = source.columns[0].encode(X, np.arange(X.shape[1]))
    rows = PartRows(np.nan_to_num(Z), (~np.isnan(Z)).astype(float))

    def begun(own: MovingParts, groups: list[Array]) -> Search:
        parts = [_part(own, Z, weight, group, template, start, rng) for group in groups]
        params = _params(own, Z, weight, parts)
        return Search(own, params, own.placed(params, rows))

    n_groups = GROUPS_A_PART * model.n_parts
    groups = _grouped(source, n_groups, rng)
    few = replace(model, n_parts=len(groups), n_states=min(model.n_states, GROUP_STATES))
    joined = _joined(begun(few, groups).settled(rows, weight), rows, weight, rng)
    joined = joined[: model.n_parts]
    search = begun(replace(model, n_parts=len(joined)), joined).settled(rows, weight)
    search = search.refined(rows, weight, rng, N_ROUNDS)
    while search.model.n_parts < model.n_parts:
        left = np.where(rows.seen > 0, Z - components(*search).expected, np.nan)
        shown = source.columns[0].decode(left).astype(source.X.dtype)
        groups = _grouped(BlockSource(shown, source.columns, weight, n_powers=2), n_groups, rng)
        one = replace(model, n_parts=1)
        tried = [_with(search, begun(one, [group]).params, rows, weight) for group in groups]
        tried.sort(key=lambda own: -own.height(rows, weight))
        alone = (own for own in tried if _moves_alone(own, rows, weight, rng))
        search = next(alone, tried[0]).refined(rows, weight, rng)
    return search.params


def _grouped(source: BlockSource, n_groups: int, rng: np.random.Generator) -> list[Array]:
    """Pixels in groups that depend on each other; at least one group."""
    labels = grouped_columns(source, n_groups + 1, True, rng).gates.argmax(axis=0)
    groups = [np.flatnonzero(labels == g) for g in range(n_groups)]
    groups = [group for group in groups if len(group) > 1]
    return groups or [np.arange(source.X.shape[1])]


def _joined(search: Search, rows: PartRows, weight: Array, rng: np.random.Generator) -> list[Array]:
    """Pixels of groups that move as one, those that explain most first."""
    model, params, _ = search
    G = range(model.n_parts)
    heights = [_heights(search, rows, k) for k in G]
    others = rng.permutation(len(rows.x))
    pairs = _pairs(model.transformations.values)
    saved, cost = np.zeros((2, len(G), len(G)))
    for a in G:
        for b in range(a):
            saved[a, b], cost[a, b] = _tie(heights[a], heights[b], weight, pairs, others)
    saved, cost = saved + saved.T, cost + cost.T
    sets = [[g] for g in G]
    while len(sets) > 1:
        ties = {
            (i, j): saved[np.ix_(sets[i], sets[j])].sum() / cost[np.ix_(sets[i], sets[j])].sum()
            for i in range(len(sets))
            for j in range(i)
        }
        (i, j), tie = max(ties.items(), key=lambda item: item[1])
        if tie < LEAST_TIE:
            break
        sets[j] += sets.pop(i)
    sets.sort(key=lambda own: -sum(weight @ heights[g].max(axis=1) for g in own))
    odds = np.stack([params.odds[own][:, model.maps[_still(model)]].sum(axis=0) for own in sets])
    labels = np.where(odds.max(axis=0) > 1, odds.argmax(axis=0), -1)
    groups = [np.flatnonzero(labels == k) for k in range(len(sets))]
    return [group for group in groups if len(group) > 1] or [np.arange(odds.shape[1])]


def _pairs(values: Array) -> list[tuple[Array, Array]]:
    """For every shift, the transformations that it turns into others, and these."""
    at = {tuple(value): t for t, value in enumerate(values)}
    out = []
    for step in values:
        turned = [at.get(tuple(value + step), -1) for value in values]
        kept = np.flatnonzero(np.array(turned) >= 0)
        out.append((kept, np.array(turned)[kept]))
    return out


def _heights(search: Search, rows: PartRows, k: int) -> Array:
    """What part k adds to the bound of rows at every shift in its best state there, (n, T)."""
    model, params, found = search
    others = [j for j in range(model.n_parts) if j != k]
    return np.asarray(model.gains(params, rows, k, found, others).max(axis=2))


def _tie(
    one: Array, other: Array, weight: Array, pairs: list[tuple[Array, Array]], others: Array
) -> tuple[float, float]:
    """What one shift for two groups, up to a constant, saves against shifts that are unrelated.

    These are seen where the rows of one group are in another order, ``others``. Returns what is
    saved of the cost of tying such shifts, and this cost, in nats per row.
    """

    def height(of: Array, share: Array) -> float:
        return max(float(share @ (one[:, t] + of[:, u]).max(axis=1)) for t, u in pairs)

    share, mixed = weight / weight.sum(), weight * weight[others]
    chance = height(other[others], mixed / mixed.sum())
    apart = float(share @ (one.max(axis=1) + other.max(axis=1)))
    return height(other, share) - chance, 1.0 + apart - chance


def _moves_alone(search: Search, rows: PartRows, weight: Array, rng: np.random.Generator) -> bool:
    """Whether the shifts of the last part are not those of another."""
    last, pairs = search.model.n_parts - 1, _pairs(search.model.transformations.values)
    own, others = _heights(search, rows, last), rng.permutation(len(rows.x))
    ties = [_tie(_heights(search, rows, k), own, weight, pairs, others) for k in range(last)]
    return all(saved < LEAST_TIE * cost for saved, cost in ties)


def _with(search: Search, other: PartsParams, rows: PartRows, weight: Array) -> Search:
    """The same parts and one more, the only one of ``other``, which has settled among them."""
    params, K = search.params.joined(other), search.model.n_parts
    model = replace(search.model, n_parts=K + 1)
    found = model.improved(params, rows, search.found.with_part(), [K], range(K))
    return Search(model, *model.ascended(params, found, rows, weight, N_STEPS, [K]))


def _still(model: MovingParts) -> int:
    """The transformation that changes nothing."""
    return int(np.argmin(np.abs(model.transformations.values).sum(axis=1)))


def _params(model: MovingParts, Z: Array, weight: Array, parts: list[_Template]) -> PartsParams:
    """Parameters of parts before the median of rows (n, D) in model units."""
    odds, mean, var, moves, states = (np.stack(field) for field in zip(*parts, strict=True))
    middle, (_, spread) = weighted_median(Z, weight), weighted_moments(Z, weight)
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
    odds[used], odds[model.maps[_still(model)][own]] = NEAR_ODDS, OWN_ODDS
    means[:, used], var[:, used] = mean * scale + group.shift[0], spread + model.noise
    return _Template(odds, means, var, counts, stats.states[0])
