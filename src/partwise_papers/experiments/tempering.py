"""The aspect model on held-out ratings: what the temperature and the prior are good for."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error

from partwise import AspectModel, CellKFold, ObservedCells
from partwise.datasets import load_movielens
from partwise.metrics import log_loss_of_levels, nmae
from partwise_papers.experiments import _ratings, register
from partwise_papers.registry import Row, Setting

MODELS: dict[str, list[dict[str, Any]]] = {
    "100k": [
        {"n_aspects": 20, "beta": 1.0, "prior": None},
        {"n_aspects": 20, "prior": None},
        {"n_aspects": 20, "beta": 1.0},
        {"n_aspects": 20},
        {"n_aspects": 10},
        {"n_aspects": 50},
    ],
    "1m": [{"n_aspects": 20, "beta": 1.0}, {"n_aspects": 20}],
}


@register("tempering")
def tempering(setting: Setting) -> list[Row]:
    """Aspect models of MovieLens with and without tempering and prior: a tenth held out."""
    rows: list[Row] = []
    for size, models in MODELS.items():
        if setting.fast and size == "1m":
            continue
        cells = ObservedCells(load_movielens(size).data)
        train, test = next(CellKFold(10, random_state=0).split(cells))
        for arguments in models[: setting.choose(fast=4, full=len(models))]:
            setting(f"MovieLens-{size}: {arguments}")
            begun = time.perf_counter()
            with warnings.catch_warnings():
                # Plain maximum likelihood creeps on; what it learns by then is worse, not better.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = AspectModel(random_state=0, **arguments).fit(cells[train])
            took = time.perf_counter() - begun
            p = _ratings.level_shares(model, cells[train], cells[test].rows, cells[test].columns)
            true, levels = cells[test].values, model.levels_
            median, mean = _ratings.points(p, levels)
            rows.append(
                {
                    "data": f"MovieLens-{size}",
                    "aspects": model.n_aspects,
                    "prior": "none" if model.prior is None else "conjugate",
                    "beta": model.beta_,
                    "sweeps": model.n_iter_,
                    "NMAE": nmae(true, median, levels),
                    "RMSE": float(root_mean_squared_error(true, mean)),
                    "log loss": log_loss_of_levels(p, np.searchsorted(levels, true)),
                    "seconds": took,
                }
            )
    return rows
