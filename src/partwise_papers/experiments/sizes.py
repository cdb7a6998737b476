"""Sizes selected by the ELBO, compared with the sizes that made the data."""

from __future__ import annotations

import numpy as np

from partwise import MCVQ
from partwise.datasets import make_faces, make_shapes
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting

N_SEEDS = 20
N_DRAWS = 100

# Planted data: rows, columns of a part and of pure noise, and the noise.
N_ROWS = 2000
N_COLUMNS = 30
N_IDLE = 60
NOISE = 0.5


def _found(X: Array, seed: int) -> MCVQ:
    return MCVQ("auto", "auto", random_state=seed).fit(X)


@register("sizes_shapes")
def sizes_shapes(setting: Setting) -> list[Row]:
    """The shapes are three parts of nine states: how often "auto" finds exactly these sizes."""
    X = make_shapes().data
    n_seeds = setting.choose(fast=2, full=N_SEEDS)
    rows: list[Row] = []
    for missing in (0.0, 0.2):
        right = 0
        for seed in range(n_seeds):
            setting(f"{missing:.0%} missing, seed {seed}")
            holes = np.random.default_rng(seed).random(X.shape) < missing
            found = _found(np.where(holes, np.nan, X), seed)
            right += found.n_states_.tolist() == [9, 9, 9]
        rows.append({"cells missing": missing, f"right in {n_seeds} seeds": float(right)})
    return rows


def planted(n_states: Array, n_idle: int, rng: np.random.Generator) -> Array:
    """Rows whose parts have these numbers of equally likely states, then columns of pure noise."""
    columns = []
    for J in n_states:
        means = rng.normal(size=(J, N_COLUMNS))
        columns.append(means[rng.integers(J, size=N_ROWS)])
    X = np.hstack(columns) + NOISE * rng.normal(size=(N_ROWS, N_COLUMNS * len(n_states)))
    return np.hstack([X, rng.normal(size=(N_ROWS, n_idle))])


@register("sizes_planted")
def sizes_planted(setting: Setting) -> list[Row]:
    """Planted parts (2 to 12) and states (2 to 10): how often "auto" finds both.

    Every second table has columns of pure noise besides, which should end in the background.
    """
    n_draws = setting.choose(fast=4, full=N_DRAWS)
    parts_right, states_right, n_parts, idle = 0, 0, 0, list[float]()
    for table in range(n_draws):
        rng = np.random.default_rng(table)
        n_states = rng.integers(2, 11, size=rng.integers(2, 13))
        setting(f"table {table}: {len(n_states)} parts")
        found = _found(planted(n_states, N_IDLE * (table % 2), rng), table)
        parts_right += found.n_parts_ == len(n_states)
        for k, J in enumerate(n_states):
            own = found.parts_[k * N_COLUMNS : (k + 1) * N_COLUMNS]
            best = int(np.bincount(own[own >= 0], minlength=1).argmax())
            states_right += found.n_states_[best] == J
        n_parts += len(n_states)
        if table % 2:
            idle.append(float(np.mean(found.parts_[-N_IDLE:] == -1)))
    return [
        {
            "draws": float(n_draws),
            "share with the right number of parts": parts_right / n_draws,
            "share of parts with the right number of states": states_right / n_parts,
            "share of noise columns in the background": float(np.mean(idle)),
        }
    ]


@register("sizes_faces")
def sizes_faces(setting: Setting) -> list[Row]:
    """Synthetic faces have five parts: how often "auto" finds five, or four to six."""
    found = []
    for seed in setting.seeds(fast=2, full=N_SEEDS):
        found.append(_found(make_faces(1000, random_state=seed).data, seed).n_parts_)
    off = np.abs(np.array(found) - 5)
    return [
        {
            "seeds": float(len(found)),
            "right": float(np.sum(off == 0)),
            "right or one off": float(np.sum(off <= 1)),
            "least": float(min(found)),
            "most": float(max(found)),
        }
    ]
