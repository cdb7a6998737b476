"""Ratings of new people: a class for each of several groups of parts against one for all parts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise import MCVQ
from partwise.datasets import load_eachmovie, load_movielens
from partwise_papers.experiments import _ratings, register
from partwise_papers.registry import Array, Paper, Row, Setting

# Parts, their states, groups of parts, and classes of people and of every group.
K, J, G, N = 12, 6, 3, 4
GIVEN = (5, 20)  # ratings that are known of a new person
N_FOLDS = 5

MODELS: dict[str, dict[str, Any]] = {
    "no classes": {},
    f"{N} classes": {"n_classes": N},
    f"{G * N} classes": {"n_classes": G * N},
    f"{N} classes above {N} of each of {G} groups": {"n_classes": N, "part_groups": G},
}


def learned(train: Any, arguments: dict[str, Any]) -> MCVQ:
    """A model of ratings; films that nobody of these people rated stay unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ columns have no observed value")
        return MCVQ(K, J, likelihood="categorical", random_state=0, **arguments).fit(train)


def densities(model: MCVQ, test: Any, given: int) -> Array:
    """Log probability of all but ``given`` random ratings of new people, given those."""
    able = test[np.diff(test.indptr) > given]
    known, held = _ratings.hold_out(able, np.random.default_rng(0), given)
    return np.asarray(model.score_cells(known, held.row, held.column, held.value))


@register(
    "ratings_tree",
    Paper(
        source="JMLR, Section 4 (classes)",
        did="Classes of rows on which the states of all parts depend; no classes of groups.",
        differs=f"{K} parts of {J} states. People in {N_FOLDS} folds, those of one held out: "
        "some of their ratings are known, and the log probability of each other is averaged. "
        "Groups of parts are found by the mutual information of their states.",
    ),
)
def ratings_tree(setting: Setting) -> list[Row]:
    """Ratings of new people: classes of groups of parts against classes of all parts."""
    found: dict[tuple[str, str], list[Row]] = {}
    data = {"MovieLens-100k": load_movielens("100k").data}
    if not setting.fast:
        data["EachMovie"] = load_eachmovie().data
    for name, ratings in data.items():
        X = ratings.tocsr()
        fold = np.random.default_rng(0).permutation(X.shape[0]) % N_FOLDS
        for i in range(setting.choose(fast=1, full=N_FOLDS)):
            usual: Row = {}
            for label, arguments in MODELS.items():
                setting(f"{name}, fold {i}: {label}")
                model = learned(X[fold != i], arguments)
                row: Row = {"bound": model.lower_bound_}
                for given in GIVEN:
                    key = f"{given} known"
                    row[key] = float(densities(model, X[fold == i], given).mean())
                    row[f"{key}, gain"] = row[key] - usual.setdefault(key, row[key])
                found.setdefault((name, label), []).append(row)
    return [
        {"data": name, "model": label, **{key: [row[key] for row in rows] for key in rows[0]}}
        for (name, label), rows in found.items()
    ]
