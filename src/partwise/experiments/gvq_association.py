"""Association methods compared: Westerdijk et al., Figures 4a, 4b and 5.

The error is the paper's, the mean absolute difference of a column. The paper gives curves without
numbers; what it says of their order stands in the docstrings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from partwise.association import (
    Association,
    BeliefPropagation,
    BeliefRevision,
    DirectedBeliefPropagation,
    DirectedBeliefRevision,
    Exact,
    Gibbs,
    MeanField,
    Problem,
)
from partwise.contracts import Array
from partwise.experiments import register
from partwise.experiments.registry import Row

N_TRIALS = 100
NOISE = 0.1  # variance

METHODS: dict[str, Association] = {
    "exact": Exact(),
    "MF": MeanField(),
    "Gibbs": Gibbs(),
    "BP": BeliefPropagation(),
    "BR": BeliefRevision(fall_back=None),
    "BR or MF": BeliefRevision(),
    "DBP": DirectedBeliefPropagation(),
    "DBR": DirectedBeliefRevision(),
}


class Trials(NamedTuple):
    """What the methods made of as many problems as there are trials."""

    absolute: dict[str, Array]  # mean absolute error of a column, (n_trials,)
    squared: dict[str, Array]  # squared error, (n_trials,)
    at_rest: Array  # whether belief revision converged, (n_trials,)


def run_trials(
    names: list[str],
    n: int,
    d: int,
    connections: int,
    mean: float,
    seed: int,
    noise: float = NOISE,
    n_trials: int = N_TRIALS,
) -> Trials:
    """Problems with n features N(mean, 1) and d columns, each connected with so many features."""
    rng = np.random.default_rng(seed)
    absolute: dict[str, list[float]] = {name: [] for name in names}
    squared: dict[str, list[float]] = {name: [] for name in names}
    at_rest = []
    for _ in range(n_trials):
        features = rng.normal(mean, 1.0, (n, d))
        for column in features.T:
            column[rng.permutation(n)[connections:]] = 0.0
        x = rng.integers(2, size=n) @ features + np.sqrt(noise) * rng.normal(size=d)
        problem = Problem.complete(features, x[None])
        for name in names:
            found = METHODS[name].associate(problem)
            away = x - found.values[0] @ features
            absolute[name].append(float(np.abs(away).mean()))
            squared[name].append(float(away @ away))
            if name == "BR":
                at_rest.append(bool(found.converged[0]))
    return Trials(
        {name: np.array(found) for name, found in absolute.items()},
        {name: np.array(found) for name, found in squared.items()},
        np.array(at_rest, bool),
    )


def describe(trials: Trials) -> Row:
    """Mean errors with their standard errors; how often exact was beaten, how BR fared at rest."""
    row: Row = {}
    for name, found in trials.absolute.items():
        spread = found.std(ddof=1) / np.sqrt(len(found))
        row[name] = f"{found.mean():.3f} ± {spread:.3f}"
    least = np.min([found for name, found in trials.squared.items() if name != "exact"], axis=0)
    exact = trials.squared["exact"]
    row["trials where exact is beaten"] = float(np.sum(least < exact - 1e-9 * (1.0 + exact)))
    row["BR at rest"] = float(trials.at_rest.sum())
    right = np.isclose(trials.squared["BR"], exact)
    row["of these right"] = float(np.sum(right & trials.at_rest))
    return row


@register("gvq_connections")
def gvq_connections(progress: Callable[[str], None]) -> list[Row]:
    """Figure 4a: error over the connections k of a column, n=12, d=4, features N(2, 1).

    The paper: DBR is near the least error for k/n < 0.6 and rises after 0.65, BP is always above
    BR, mean field is best when fully connected; without noise DBR makes no error.
    """
    rows: list[Row] = []
    for k in range(1, 13):
        progress(f"{k} connections")
        trials = run_trials(list(METHODS), 12, 4, k, 2.0, k)
        noiseless = run_trials(["exact", "DBR", "MF"], 12, 4, k, 2.0, 100 + k, noise=0.0)
        row: Row = {"k/n": k / 12}
        row |= describe(trials)
        for name in ("DBR", "MF"):
            wrong = float(np.sum(noiseless.squared[name] > 1e-9))
            row[f"without noise {name} wrong"] = wrong
        rows.append(row)
    return rows


@register("gvq_dimensions")
def gvq_dimensions(progress: Callable[[str], None]) -> list[Row]:
    """Figure 4b: error over the number of columns d, fully connected, n=15, features N(0, 1).

    The paper: mean field is best over the whole range; all fall together as d grows.
    """
    names = [name for name in METHODS if name != "DBR"]
    rows: list[Row] = []
    for d in (2, 4, 6, 8, 10, 12, 15, 20, 30):
        progress(f"{d} columns")
        row: Row = {"d/n": d / 15}
        rows.append(row | describe(run_trials(names, 15, d, 15, 0.0, d)))
    return rows


@register("gvq_similarity")
def gvq_similarity(progress: Callable[[str], None]) -> list[Row]:
    """Figure 5: error over the similarity gamma of features N(gamma, 1), n=10, d=4.

    The paper: above gamma = 4.5 belief revision and directed belief propagation outperform mean
    field.
    """
    rows: list[Row] = []
    for gamma in (0, 1, 2, 3, 4, 5, 6, 8, 10):
        progress(f"gamma {gamma}")
        row: Row = {"gamma": gamma}
        rows.append(row | describe(run_trials(list(METHODS), 10, 4, 10, gamma, gamma)))
    return rows
