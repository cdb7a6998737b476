"""Synthetic faces: are their true parts found?"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ, make_faces
from partwise_papers.experiments import register
from partwise_papers.registry import Row, Setting


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
