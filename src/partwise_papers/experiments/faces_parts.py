"""Synthetic faces: are their true parts found? Faces: how much does the seed matter?"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ, make_faces
from partwise.datasets import load_cbcl_faces
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting


@register("faces_parts")
def faces_parts(setting: Setting) -> list[Row]:
    """Parts of make_faces against the true masks: adjusted Rand index over foreground pixels."""
    found = []
    n_seeds = setting.choose(fast=5, full=20)
    for seed in range(n_seeds):
        setting(f"seed {seed}")
        faces = make_faces(1000, random_state=seed)
        drawn = faces.masks >= 0
        model = MCVQ(5, 10, random_state=seed).fit(faces.data)
        found.append(adjusted_rand_score(faces.masks[drawn], model.parts_[drawn]))
    return [
        {
            "model": "MCVQ 5x10, 1000 faces",
            "adjusted Rand": found,
            f"seeds of {n_seeds} at 0.9 or more": float(np.sum(np.array(found) >= 0.9)),
        }
    ]


# CBCL faces to learn from, and those that served to choose default settings; the rest are reported.
N_TRAIN, N_CHOSEN_ON = 1200, 600

# Samples of held-out rows from which the range of equally good fits is averaged.
N_SAMPLES = 2000


@register("faces_seeds")
def faces_seeds(setting: Setting) -> list[Row]:
    """Default MCVQ of CBCL faces over seeds: log-likelihood of faces that served no choice."""
    faces = load_cbcl_faces(equalize=True).data
    order = np.random.default_rng(2027).permutation(len(faces))
    train, held_out = faces[order[:N_TRAIN]], faces[order[N_TRAIN + N_CHOSEN_ON :]]
    scores, bounds = [], []
    for seed in setting.seeds(fast=2, full=12):
        model = MCVQ(6, 10, random_state=seed).fit(train)
        scores.append(model.score_samples(held_out))
        bounds.append(model.lower_bound_)
    found = [float(np.mean(of_rows)) for of_rows in scores]
    return [
        {
            "model": f"MCVQ 6x10, {len(train)} faces",
            f"log-likelihood per row, {len(held_out)} others": found,
            "range over seeds": float(np.ptp(found)),
            "range, % of the mean": float(100 * np.ptp(found) / abs(np.mean(found))),
            "range if equally good": range_if_equal(np.array(scores), np.random.default_rng(0)),
            "lower bound": bounds,
        }
    ]


def range_if_equal(scores: Array, rng: np.random.Generator) -> float:
    """Expected range of mean scores, were all fits equally good on average over all rows.

    Fits with different parts differ in every row's score, so their means over a sample of rows
    differ, too. ``scores`` (fits, rows) are centered per fit, and rows sampled with replacement.
    """
    centered = scores - scores.mean(axis=1, keepdims=True)
    n_rows = centered.shape[1]
    draws = rng.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows), size=N_SAMPLES)
    return float(np.mean(np.ptp(draws @ centered.T / n_rows, axis=1)))
