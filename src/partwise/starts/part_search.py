"""Parts that move, on the way to a start: their masks and states, given where they are.

While places and states of the parts are kept, what they look like at any pixel of their canvas is a
mean over rows, so masks can grow and shrink (`Search.regrown`), a state can be displaced against
the others of its part (`Search.realigned`), and states can be split and merged (`Search.divided`)
without another look at all places. A short EM follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from partwise.contracts import Array
from partwise.models.moving_parts import Assignment, MovingParts, PartRows, PartsParams, add_gains
from partwise.models.weights import weighted_moments
from partwise.starts.congeal import displaced, on_canvas
from partwise.starts.refine import split_and_merge

# Odds of a part on pixels that it may move to, and on those that are tried for its mask.
NEAR_ODDS, TRIED_ODDS = 0.05, 1.0

# EM iterations between steps of the search, and those of masks alone.
N_STEPS, N_MASK_STEPS = 4, 5


class Search(NamedTuple):
    """Parts found so far, and where they are in the rows."""

    model: MovingParts
    params: PartsParams
    found: Assignment

    def refined(
        self, rows: PartRows, weight: Array, rng: np.random.Generator, n_rounds: int = 1
    ) -> Search:
        """With masks and states that suit each other."""
        search = self.regrown(rows, weight)
        for _ in range(n_rounds):
            search = search.realigned(rows, weight).divided(rows, weight, rng)
            search = search.regrown(rows, weight).settled(rows, weight).regrown(rows, weight)
        return search

    def settled(self, rows: PartRows, weight: Array) -> Search:
        """After some EM iterations."""
        return Search(self.model, *self.model.ascended(*self[1:], rows, weight, N_STEPS))

    def height(self, rows: PartRows, weight: Array) -> float:
        """Bound of the rows."""
        bounds = self.model.row_bounds(self.params, rows, self.found, range(self.model.n_parts))
        return float(weight @ bounds)

    def regrown(self, rows: PartRows, weight: Array) -> Search:
        """Masks that may have any pixel of the canvas, less those that are not worth their cost."""
        model, params, found = self
        mean, var, odds = params.mean.copy(), params.var.copy(), params.odds.copy()
        for k, free in enumerate(self._free(rows)):
            place, n_canvas = model.maps[found.t[:, k]], odds.shape[1]
            q = free * weight[:, None]
            sums = model.template_sums(rows.x, q, found.s[:, k], place, n_canvas)
            mean[k], var[k] = model.moments(sums)
            odds[k] = np.where(sums[0].sum(axis=0) > 0, np.maximum(odds[k], TRIED_ODDS), odds[k])
        params = replace(params, mean=mean, var=var, odds=odds)
        for _ in range(N_MASK_STEPS):
            params = model.maximize(params, model.sums(params, rows, weight, found))
        return Search(model, params, found).closed(rows, weight)

    def closed(self, rows: PartRows, weight: Array) -> Search:
        """Masks without the pixels whose parameters cost more than they explain (BIC).

        Pixels beside a mask may come back.
        """
        model, params, found = self
        total, Z = model.explained(params, rows.x, found, range(model.n_parts))
        odds, cost = params.odds.copy(), 0.5 * (1 + 2 * model.n_states) * np.log(weight.sum())
        for k in range(model.n_parts):
            own, density = model.part(params, rows.x, k, found.t[:, k], found.s[:, k])
            less = np.maximum(own - NEAR_ODDS, 0.0)
            share = np.exp(density - total) * less / np.maximum(own, NEAR_ODDS)
            lost = np.log1p(-less / Z) - np.log1p(-np.minimum(share, 1.0 - 1e-12))
            place = model.maps[found.t[:, k]].ravel()
            lost *= rows.seen * weight[:, None]
            explained = np.bincount(place, lost.ravel(), odds.shape[1])
            kept = explained >= cost
            near = self._displaced(kept.astype(float), self._steps, 0.0).any(axis=0) | ~kept.any()
            left = np.where(near, np.minimum(odds[k], NEAR_ODDS), 0.0)
            odds[k] = np.where(kept, odds[k], left)
        return Search(model, replace(params, odds=odds), found)

    def realigned(self, rows: PartRows, weight: Array) -> Search:
        """States displaced by a pixel where their rows agree better with the mask then.

        Rows of one state tell nothing of its displacement against another: the mask does, which all
        states of a part share, and the largest shift.
        """
        model, params, found = self
        mean, var, t = params.mean.copy(), params.var.copy(), found.t.copy()
        for k in range(model.n_parts):
            others = [j for j in range(model.n_parts) if j != k]
            rest, Z = model.explained(params, rows.x, Assignment(t, found.s), others)
            for j in np.unique(found.s[:, k]):
                own = np.flatnonzero(found.s[:, k] == j)
                x, seen, _ = rows.take(own)
                moved = (
                    self._displaced(mean[k, j], self._steps, 0.0),
                    self._displaced(var[k, j], self._steps, 1.0),
                )
                gain = np.zeros((len(own), len(model.maps), len(self._steps)))
                gain += params.log_rho[k][:, None]
                look = params.odds[k], *moved, np.full(gain.shape[:2], np.inf)
                add_gains(x, seen, rest[own], Z[own], model.maps, *look, gain)
                best = int((weight[own] @ gain.max(axis=1)).argmax())
                if best > 0:
                    mean[k, j], var[k, j] = (of[best] for of in moved)
                    t[own, k] = gain[:, :, best].argmax(axis=1)
        return Search(model, replace(params, mean=mean, var=var), Assignment(t, found.s))

    @property
    def _steps(self) -> list[tuple[int, ...]]:
        """Shifts by a pixel or none, which is the first."""
        values = self.model.transformations.values
        return sorted((tuple(v) for v in values if np.abs(v).max() <= 1), key=np.any)

    def _displaced(self, values: Array, steps: list[tuple[int, ...]], beyond: float) -> Array:
        """Values on the canvas (D_c,) displaced by each of the steps, ``beyond`` where unknown."""
        shape = self.model.transformations.canvas_shape
        inside = [displaced(np.ones_like(values), step, shape) > 0 for step in steps]
        moved = [displaced(values, step, shape) for step in steps]
        return np.where(inside, moved, beyond)

    def divided(self, rows: PartRows, weight: Array, rng: np.random.Generator) -> Search:
        """States split and merged by what rows show on the masks."""
        model, params, found = self
        s = found.s.copy()
        for k, free in enumerate(self._free(rows)):
            shown = np.where(free > 0.5, rows.x, np.nan)
            on = on_canvas(shown, model.maps[found.t[:, k]], params.odds.shape[1])
            on = on[:, params.odds[k] > 1]
            on = on[:, (~np.isnan(on)).sum(axis=0) > 1]
            if on.shape[1]:
                mean, variance = weighted_moments(on, weight)
                apart = (on - mean) / np.sqrt(variance + 1e-12)
                s[:, k] = split_and_merge(s[:, k], apart, model.n_states, weight, rng)
        return Search(model, params, Assignment(found.t, s))

    def _free(self, rows: PartRows) -> list[Array]:
        """For each part, the share of entries (n, D) that no other part explains."""
        model, params, found = self
        total, _ = model.explained(params, rows.x, found, range(model.n_parts))
        back, parts = model.background(params, rows.x), range(model.n_parts)
        own = [model.part(params, rows.x, k, found.t[:, k], found.s[:, k])[1] for k in parts]
        return [np.exp(np.logaddexp(back, density) - total) * rows.seen for density in own]
