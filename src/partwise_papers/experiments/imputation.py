"""Filling removed cells: error, time, and whether intervals hold what they promise.

A fifth of the observed cells is removed at random; methods see the rest, and are compared on the
removed cells. Columns are standardised by their observed cells for all methods, since neighbors
depend on units; errors are in the data's own.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (unlocks the import below)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from partwise import MCFA, MCVQ
from partwise.datasets import load_cbcl_faces, load_yeast, make_faces
from partwise_papers.experiments import register
from partwise_papers.registry import Array, Row, Setting

REMOVED = 0.2
COVERAGES = (0.5, 0.8, 0.95)

# IterativeImputer regresses every column on all others, by default ten rounds long: minutes for
# hundreds of columns. There it gets fewer rounds, or fewer columns to regress on: (most columns,
# options, name).
ITERATIVE: tuple[tuple[int, dict[str, Any], str], ...] = (
    (100, {}, ""),
    (500, {"max_iter": 2}, ", 2 of 10 rounds"),
    (10_000, {"max_iter": 2, "n_nearest_features": 50}, ", 2 of 10 rounds, on 50 columns"),
)


class Problem(NamedTuple):
    """Rows (NaN missing), and sizes of the models for them.

    Factors are given in plenty, since relevances switch off what the data do not need.
    """

    X: Array
    states: tuple[int, int]  # parts, and states of each
    factors: tuple[int, int]  # parts, and factors of each


def problems(seed: int, fast: bool) -> dict[str, Problem]:
    """Collect the data sets; the synthetic faces depend on the seed. A fast run has the smaller."""
    small = {"yeast": Problem(load_yeast().data, (3, 8), (1, 12))}
    if fast:
        return small
    return {
        "CBCL faces": Problem(load_cbcl_faces().data, (6, 10), (3, 60)),
        "synthetic faces": Problem(make_faces(1000, random_state=seed).data, (6, 8), (5, 10)),
    } | small


def remove(X: Array, seed: int) -> tuple[Array, Array]:
    """Rows with a fifth of their cells removed, and where."""
    removed = (np.random.default_rng(seed).random(X.shape) < REMOVED) & ~np.isnan(X)
    return np.where(removed, np.nan, X), removed


def coverage(model: Any, holed: Array, X: Array, removed: Array, share: float) -> float:
    """Percentage of the removed cells that lie in their interval."""
    lower, upper = model.predict_interval(holed, share)
    return 100 * float(np.mean((lower[removed] <= X[removed]) & (X[removed] <= upper[removed])))


def _models(problem: Problem, seed: int) -> dict[str, Any]:
    """Estimators of this library, by name."""
    return {
        "MCVQ {}x{}".format(*problem.states): MCVQ(*problem.states, random_state=seed),
        # Annealing sixty factors would take long.
        "MCFA {}x{}".format(*problem.factors): MCFA(
            *problem.factors, gating="tied", random_state=seed
        ),
    }


def _imputers(n_columns: int, seed: int) -> dict[str, Any]:
    options, told = next((o, t) for most, o, t in ITERATIVE if n_columns <= most)
    return {
        "column mean": SimpleImputer(),
        "KNNImputer": KNNImputer(),
        f"IterativeImputer{told}": IterativeImputer(random_state=seed, **options),
    }


@register("imputation")
def imputation(setting: Setting) -> list[Row]:
    """Held-out cells of faces, yeast and synthetic faces: error, time, coverage of intervals."""
    seed = 0
    rows: list[Row] = []
    for name, problem in problems(seed, setting.fast).items():
        X = problem.X
        holed, removed = remove(X, seed)
        mean, deviation = np.nanmean(holed, axis=0), np.nanstd(holed, axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        standard = (holed - mean) / deviation

        def error(filled: Array, X: Array = X, removed: Array = removed) -> float:
            return float(np.sqrt(np.mean((filled - X)[removed] ** 2)))

        for method, imputer in _imputers(X.shape[1], seed).items():
            setting(f"{name}: {method}")
            begun = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # rounds are fixed
                filled = imputer.fit_transform(standard) * deviation + mean
            took = time.perf_counter() - begun
            rows.append({"data": name, "method": method, "RMSE": error(filled), "seconds": took})
        for method, model in _models(problem, seed).items():
            setting(f"{name}: {method}")
            begun = time.perf_counter()
            filled = model.fit(holed).impute(holed)
            took = time.perf_counter() - begun
            row: Row = {"data": name, "method": method, "RMSE": error(filled), "seconds": took}
            for share in COVERAGES:
                row[f"in {share:.0%} intervals"] = coverage(model, holed, X, removed, share)
            rows.append(row)
    return rows


@register("coverage")
def coverage_of_intervals(setting: Setting) -> list[Row]:
    """Percentage of held-out cells inside their intervals, over seeds."""
    rows: dict[tuple[str, str, float], list[float]] = {}
    for seed in range(setting.choose(fast=2, full=5)):
        for name, problem in problems(seed, setting.fast).items():
            holed, removed = remove(problem.X, seed)
            for method, model in _models(problem, seed).items():
                setting(f"{name}: {method}, seed {seed}")
                model.fit(holed)
                for share in COVERAGES:
                    found = coverage(model, holed, problem.X, removed, share)
                    rows.setdefault((name, method, share), []).append(found)
    return [
        {
            "data": name,
            "model": method,
            "promised": 100 * share,
            "mean": float(np.mean(found)),
            "least": min(found),
            "most": max(found),
        }
        for (name, method, share), found in rows.items()
    ]
