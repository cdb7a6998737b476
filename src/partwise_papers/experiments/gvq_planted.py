"""Features that are known: independent bits, Gaussian features, noise of variance 0.09."""

from __future__ import annotations

import numpy as np

from partwise import GVQ
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting

NOISE = 0.09


def planted(n: int, d: int, n_rows: int, seed: int) -> Array:
    """Rows made of n features N(0, 1), each on in half of the rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d))
    return rng.integers(2, size=(n_rows, n)) @ features + np.sqrt(NOISE) * rng.normal(
        size=(n_rows, d)
    )


@register("gvq_planted")
def gvq_planted(setting: Setting) -> list[Row]:
    """Planted independent features: learned error over the noise, default settings."""
    rows: list[Row] = []
    sizes = ((8, 20, 3000), (15, 38, 3000), (30, 75, 3000), (60, 150, 3000), (100, 400, 5000))
    for n, d, n_rows in sizes[: setting.choose(fast=3, full=5)]:
        ratios, unproven, risen, steps = [], 0, 0, 0
        for seed in setting.seeds(fast=3, full=10, what=f"{n} features"):
            model = GVQ(n, random_state=seed).fit(planted(n, d, n_rows, seed))
            ratios.append(model.noise_variance_ / NOISE)
            unproven += int(np.sum(~model.certificate_.proven))
            risen += int(np.sum(np.diff(model.lower_bounds_) < -1e-9 * np.abs(model.lower_bound_)))
            steps = max(steps, model.n_iter_)
        rows.append(
            {
                "n": n,
                "d": d,
                "rows": n_rows,
                "least error / noise": min(ratios),
                "largest error / noise": max(ratios),
                "most steps": steps,
                "rows without proof": unproven,
                "steps in which the error rose": risen,
            }
        )
    return rows
