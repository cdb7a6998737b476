"""Where parts that move on their own begin: patches that recur, one part after the other.

The background is the median of every pixel. A template begins as a patch of some row around a pixel
that the background does not explain; a few EM iterations on some of the rows show how much it
explains elsewhere. The best of several patches becomes a part, whose pixels are explained from then
on, and the next part is sought in what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from partwise.contracts import Array
from partwise.models.moving_parts import Assignment, MovingParts, PartRows, PartsParams
from partwise.models.weights import weighted_median

# Patches tried for a part, EM iterations of each, rows on which they are tried, and EM iterations
# of the best with all of these rows.
N_PATCHES, N_TRIAL, TRIAL_ROWS, N_SETTLE = 16, 3, 100, 4

# Deviations from the background, in units of the noise, of a pixel that it does not explain.
FAR = 5.0

# Odds of patches' pixels that the background explains, and first share of unexplained pixels.
FAINT_ODDS, FIRST_OUTLIERS = 0.02, 0.1


def patches_reach(values: Array, image_shape: Sequence[int]) -> bool:
    """Whether shifts (T, 2) take a patch to every pixel of an image."""
    reach = 2 * np.abs(values).max(axis=0) + _side(image_shape)
    return bool(np.all(reach >= image_shape))


def recurring_start(
    model: MovingParts,
    rows: PartRows,
    weight: Array,
    image_shape: Sequence[int],
    rng: np.random.Generator,
) -> PartsParams:
    """First parameters, without classes."""
    n = len(rows.x)
    if n > 4 * TRIAL_ROWS:
        few, n = rng.choice(n, 4 * TRIAL_ROWS, replace=False), 4 * TRIAL_ROWS
        rows, weight = rows.take(few), weight[few]
    middle = weighted_median(np.where(rows.seen > 0, rows.x, np.nan), weight)
    params = _no_parts(model, np.where(np.isnan(middle), 0.0, middle))
    found = Assignment(np.zeros((n, 0), int), np.zeros((n, 0), int))
    for k in range(model.n_parts):
        own = replace(model, n_parts=k + 1)
        some = rng.choice(n, min(n, TRIAL_ROWS), replace=False)
        tried = rows.take(some), weight[some], found.take(some)
        params = _best_patch(own, params, *tried, image_shape, rng)
        found = own.improved(params, rows, found.with_part(), [k], range(k))
        params, found = own.ascended(params, found, rows, weight, N_SETTLE, [k])
    return params


def _no_parts(model: MovingParts, middle: Array) -> PartsParams:
    """Parameters of a background alone."""
    T, Dc, J = len(model.maps), model.transformations.n_canvas, model.n_states
    return PartsParams(
        np.zeros((0, Dc)),
        np.zeros((0, J, Dc)),
        np.ones((0, J, Dc)),
        np.zeros((0, T)),
        np.zeros((1, 0, J)),
        np.zeros(1),
        middle,
        np.full(len(middle), model.noise),
        FIRST_OUTLIERS,
    )


def _with_patch(
    model: MovingParts, params: PartsParams, odds: Array, patches: Array
) -> PartsParams:
    """Parameters with one more part; ``odds`` is (D_c,), ``patches`` (J, D_c)."""
    T, J = len(model.maps), model.n_states
    patch = replace(
        params,
        odds=odds[None],
        mean=patches[None],
        var=np.full((1, *patches.shape), 4.0 * model.noise),
        log_rho=np.full((1, T), -np.log(T)),
        log_b=np.full((1, 1, J), -np.log(J)),
    )
    return params.joined(patch)


def _best_patch(
    model: MovingParts,
    params: PartsParams,
    rows: PartRows,
    weight: Array,
    found: Assignment,
    image_shape: Sequence[int],
    rng: np.random.Generator,
) -> PartsParams:
    """Parameters with the patch that explains most."""
    (x, seen, _), k = rows, model.n_parts - 1
    total, _ = model.explained(params, x, found, range(k))
    left = (seen > 0) & (np.abs(x - params.back_mean) > FAR * np.sqrt(model.noise))
    left &= total - model.background(params, x) < 1.0  # no other part explains it
    cells = np.argwhere(left)
    cells = cells if len(cells) else np.argwhere(seen > 0)
    best, highest = None, -np.inf
    for _ in range(N_PATCHES):
        some = cells[rng.integers(len(cells), size=model.n_states)]
        views = [_patch(model, x[i], left[i], seen[i], d, image_shape) for i, d in some]
        odds = np.max([odds for odds, _ in views], axis=0)
        tried = _with_patch(model, params, odds, np.stack([patch for _, patch in views]))
        own = found.with_part()
        for i in range(N_TRIAL):
            own = model.improved(tried, rows, own, [k], range(k if i == 0 else k + 1))
            tried = model.maximize(tried, model.sums(tried, rows, weight, own))
        bound = float(weight @ model.row_bounds(tried, rows, own, range(k + 1)))
        if bound > highest:
            best, highest = tried, bound
    assert best is not None
    return best


def _patch(
    model: MovingParts, x: Array, left: Array, seen: Array, d: int, image_shape: Sequence[int]
) -> tuple[Array, Array]:
    """Odds and values on the canvas of a window around pixel d of a row."""
    height, width = image_shape
    canvas = model.transformations.canvas_shape
    side = _side(image_shape)
    odds, values = np.zeros(canvas), np.zeros(canvas)
    top, first = (canvas[0] - side) // 2, (canvas[1] - side) // 2
    odds[top : top + side, first : first + side] = FAINT_ODDS
    for i in range(side):
        for j in range(side):
            y, z = d // width + i - side // 2, d % width + j - side // 2
            if 0 <= y < height and 0 <= z < width and seen[y * width + z]:
                values[top + i, first + j] = x[y * width + z]
                if left[y * width + z]:
                    odds[top + i, first + j] = 1.0
    return odds.ravel(), values.ravel()


def _side(image_shape: Sequence[int]) -> int:
    """Height and width of a patch."""
    return (min(image_shape) // 2 - 1) | 1
