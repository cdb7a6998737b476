"""Rows and parts that move: the canvas of rows, and parts that are dragged on the page."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from partwise.contracts import Array
from partwise.estimators.mcfa import MCFA
from partwise.estimators.mcvq import MCVQ
from partwise.models.transformations import Translations
from partwise.plot.view import apart, percent
from partwise.report.content import Live
from partwise.report.embed import names_of, pack
from partwise.report.pictures import part_color
from partwise.typing import DataLike


def moves_of(model: BaseEstimator) -> Translations | None:
    """Translations of parts that move on their own, None for other models."""
    moves = getattr(model, "transformations", None)
    return moves if isinstance(moves, Translations) and moves.by == "part" else None


def in_place(
    model: MCFA | MCVQ, data: DataLike | None
) -> tuple[Array | None, tuple[int, ...] | None]:
    """Rows on the canvas, and its height and width if it is an image."""
    shape = model.canvas_shape_
    is_image = len(shape) == 2 and min(shape) > 1
    return None if data is None else model.align(data), shape if is_image else None


def moving_live(model: MCVQ, moves: Translations) -> Live:
    """Templates, masks and background, and where parts may go."""
    masks, means, background = model.masks_, model.means_, model.background_
    K, J, _ = means.shape
    height, width = (int(n) for n in moves.image_shape)
    (tall, wide) = moves.canvas_shape
    priors = model.state_priors_
    if priors.ndim == 3:  # whatever the class
        priors = np.einsum("n,nkj->kj", model.class_priors_, priors)
    odds = masks / np.maximum(1.0 - masks, 1e-12)
    seen = np.concatenate([means[k][:, masks[k] > 0.5].ravel() for k in range(K)])
    names = model.part_names_
    return {
        "kind": "moving",
        "names": names_of(model),
        "limits": list(apart(np.concatenate([seen, background]))),
        "parts": [
            {"name": names[k], "color": part_color(k), "shares": [percent(p) for p in priors[k]]}
            for k in range(K)
        ],
        "rows": None,
        "model": {
            "type": "moving",
            "shape": [height, width],
            "canvas": [tall, wide],
            "most": [(tall - height) // 2, (wide - width) // 2],
            "nStates": J,
            "odds": pack(odds),
            "means": pack(means.reshape(K * J, -1)),
            "background": pack(background),
            "shifts": moves.values.tolist(),
            "shiftShares": model.transformation_priors_.tolist(),
            "stateShares": priors.tolist(),
        },
    }
