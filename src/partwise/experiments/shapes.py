"""Shapes: box, triangle and cross at nine heights each (NIPS 5.1, thesis 3.1.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partwise.contracts import Array
from partwise.datasets import make_shapes
from partwise.estimators.mcvq import MCVQ
from partwise.experiments import register
from partwise.experiments.registry import Row

N_SEEDS = 20


def split(seed: int) -> tuple[Array, Array, np.random.Generator]:
    """100 training images, none with all three shapes near the top, the 629 others, and the rng.

    Near the top: the upper third of the nine heights.
    """
    shapes = make_shapes()
    rng = np.random.default_rng(seed)
    allowed = np.flatnonzero(~(shapes.states < 3).all(axis=1))
    chosen = rng.choice(allowed, 100, replace=False)
    return shapes.data[chosen], np.delete(shapes.data, chosen, axis=0), rng


def rms(difference: Array) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(difference**2)))


@register("shapes")
def shapes(progress: Callable[[str], None]) -> list[Row]:
    """Reconstruction of unseen shapes and of removed cells, 20 seeds, default settings.

    The paper reports an r.m.s. error of 0.21 for MCVQ with 3 VQs and 0.22 for PCA at equal
    description length.
    """
    rows: list[Row] = []
    for n_states in (9, 12):
        complete, holes = [], []
        for seed in range(N_SEEDS):
            progress(f"3x{n_states}, seed {seed}")
            train, test, rng = split(seed)
            model = MCVQ(3, n_states, random_state=seed)
            complete.append(rms(model.fit(train).reconstruct(test) - test))
            removed = rng.random(train.shape) < 0.3
            filled = model.fit(np.where(removed, np.nan, train)).impute(
                np.where(removed, np.nan, train)
            )
            holes.append(rms((filled - train)[removed]))
        for what, errors, limit, paper in (
            ("629 unseen images", complete, 0.01, "0.21"),
            ("30 % of training cells removed", holes, 0.05, "-"),
        ):
            rows.append(
                {
                    "model": f"MCVQ 3x{n_states}",
                    "measured on": what,
                    "paper RMS": paper,
                    "median RMS": float(np.median(errors)),
                    "largest RMS": max(errors),
                    f"seeds of {N_SEEDS} within limit": float(np.sum(np.array(errors) <= limit)),
                    "limit": limit,
                }
            )
    return rows
