"""Real tables, a fifth of their cells hidden: what ours and other imputers put there, and how fast.

Columns of text, of two values or of at most ten are judged by the share of hidden cells filled
right, other numbers by their squared error in deviations of the column. Log-loss, of those who give
probabilities, is that of all hidden cells in nats, numbers in deviations. Of ours, what is filled
into a column of levels is the likeliest one (`level_probabilities`), since that is what is judged.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn import datasets

from partwise.bench import register
from partwise.bench._rivals import RIVALS, Filled, Holes, is_text
from partwise.contracts import Array
from partwise.datasets import load_movielens, load_yeast
from partwise.estimators.mcvq import MCVQ
from partwise.experiments.registry import Row

HIDDEN = 0.2
MOST_ROWS = 2000  # drawn from longer tables, since the slowest rivals take hours of those
N_MOVIES, N_USERS = 200, 1000
FEW = 10  # levels that are judged by whether the right one was filled in
NEAR = 0.03

# Statsmodels' tables of a few hundred rows or more whose columns are of different kinds: columns
# whose numbers are but names of categories, and columns left out (row names, functions of others).
STATSMODELS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "anes96": ((), ("logpopul",)),
    "fair": (("occupation", "occupation_husb"), ()),
    "modechoice": (("mode",), ("individual",)),
    "randhie": ((), ()),
}


def _bundled(load: Callable[..., Any]) -> Any:
    """A table of scikit-learn's, with the name of the class where it has one."""
    found = load(as_frame=True)
    table = found.data.rename(columns=lambda name: "".join(c if c.isalnum() else "_" for c in name))
    if hasattr(found, "target_names"):
        table["kind"] = np.array(found.target_names, dtype=object)[found.target]
    return table


def _statsmodels(name: str) -> Any:
    categories, left_out = STATSMODELS[name]
    module = importlib.import_module(f"statsmodels.datasets.{name}")
    table = module.load_pandas().data.drop(columns=list(left_out)).astype(float)
    for column in categories:
        table[column] = [f"level {x:g}" for x in table[column]]
    return table


def _numbers(X: Array) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])


def _movies() -> Any:
    """Ratings of the most rated movies, by some of those who rated any of them."""
    X = load_movielens("1m").data.tocsc()
    often = np.sort(np.argsort(-np.diff(X.indptr), kind="stable")[:N_MOVIES])
    dense = X[:, often].toarray()
    dense = dense[np.random.default_rng(0).permutation(len(dense))]
    dense = dense[dense.any(axis=1)][:N_USERS]
    return _numbers(np.where(dense > 0, dense, np.nan))


TABLES: dict[str, Callable[[], Any]] = {
    "iris": lambda: _bundled(datasets.load_iris),
    "wine": lambda: _bundled(datasets.load_wine),
    "breast cancer": lambda: _bundled(datasets.load_breast_cancer),
    "diabetes": lambda: _bundled(datasets.load_diabetes),
    **{name: partial(_statsmodels, name) for name in STATSMODELS},
    "yeast": lambda: _numbers(load_yeast().data),
    f"MovieLens-1M, {N_MOVIES} movies": _movies,
}


class Trial:
    """A table of which cells are hidden; a level that would be seen nowhere else is not."""

    def __init__(self, table: Any) -> None:
        rng = np.random.default_rng(0)
        if len(table) > MOST_ROWS:
            table = table.iloc[np.sort(rng.permutation(len(table))[:MOST_ROWS])]
        self.complete = table.reset_index(drop=True)
        hidden = (rng.random(table.shape) < HIDDEN) & self.complete.notna().to_numpy()
        self.levels = {
            name: np.unique(column.dropna())
            for name, column in self.complete.items()
            if is_text(column) or column.nunique() <= FEW
        }
        for d, (name, column) in enumerate(self.complete.items()):
            if name in self.levels:
                hidden[:, d] &= column.isin(column[~hidden[:, d]]).to_numpy()
        cells = {}
        for d, name in enumerate(self.complete):
            rows = np.flatnonzero(hidden[:, d])
            if len(rows):
                cells[name] = rows, self.complete[name].to_numpy()[rows]
        self.holes = Holes(self.complete.mask(hidden), cells, frozenset(self.levels))

    def ours(self) -> Filled:
        """The model as it comes: kinds and sizes found out."""
        table, cells = self.holes.table, self.holes.cells
        begun = time.process_time()
        model = MCVQ("auto", "auto", likelihood="auto", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # tells of odd columns
            model.fit(table)
            filled = model.impute(table)
            for name, shares in model.level_probabilities(table).items():
                levels = np.array(model.column_levels_[name], dtype=object)
                filled[name] = levels[shares.argmax(axis=1)]
        took = time.process_time() - begun
        density = {
            name: model.score_cells(table, rows, [name] * len(rows), true)
            for name, (rows, true) in cells.items()
        }
        return Filled(filled, took, density)

    def losses(self, filled: Any) -> dict[str, float]:
        """Of each column the RMSE in deviations, or the share of hidden cells filled right."""
        found = {}
        for name, (rows, true) in self.holes.cells.items():
            values = np.asarray(filled[name])[rows]
            if is_text(self.complete[name]):
                found[name] = float(np.mean(values == true))
            elif name in self.levels:
                levels = self.levels[name]
                gap = np.abs(values.astype(float)[:, None] - levels)
                found[name] = float(np.mean(levels[gap.argmin(axis=1)] == true))
            else:
                error = values.astype(float) - true
                found[name] = float(np.sqrt(np.mean(error**2)) / self.complete[name].std(ddof=0))
        return found

    def log_loss(self, density: dict[str, Array]) -> float:
        """Nats a hidden cell, numbers in deviations of their column."""
        scaled = [
            x if name in self.levels else x + np.log(self.complete[name].std(ddof=0))
            for name, x in density.items()
        ]
        return -float(np.mean(np.concatenate(scaled)))

    def row(self, data: str, method: str, filled: Filled, losses: dict[str, float]) -> Row:
        """What is told of a method."""
        row: Row = {"data": data, "method": method, "CPU seconds": filled.seconds}
        numbers = [x for name, x in losses.items() if name not in self.levels]
        levels = [x for name, x in losses.items() if name in self.levels]
        if numbers:
            row["RMSE"] = float(np.mean(numbers))
        if levels:
            row["right (%)"] = 100.0 * float(np.mean(levels))
        if filled.density is not None:
            row["log-loss"] = self.log_loss(filled.density)
        return row

    def near(self, ours: dict[str, float], rivals: list[dict[str, float]]) -> dict[str, bool]:
        """Of which columns ours is the best or within a few hundredths of it."""
        found = {}
        for name, loss in ours.items():
            others = [rival[name] for rival in rivals]
            if name in self.levels:
                found[name] = loss >= (1 - NEAR) * max(others)
            else:
                found[name] = loss <= (1 + NEAR) * min(others)
        return found


def compare(data: str, table: Any, progress: Callable[[str], None]) -> tuple[list[Row], list[bool]]:
    """All methods on one table, ours first; on which columns ours is near the best."""
    trial = Trial(table)
    progress(f"{data}: MCVQ")
    ours = trial.ours()
    losses = trial.losses(ours.table)
    rows, others = [trial.row(data, "MCVQ, automatic", ours, losses)], []
    for method, rival in RIVALS.items():
        progress(f"{data}: {method}")
        filled = rival.fill(trial.holes)
        if filled is None:
            said = f"{method}: not measured, since not installed; pip install {rival.package}"
            rows.append({"data": data, "method": said})
            continue
        others.append(trial.losses(filled.table))
        row = trial.row(data, method, filled, others[-1])
        rows.append(row | {"times ours": filled.seconds / ours.seconds})
    near = list(trial.near(losses, others).values())
    rows[0]["columns near best"] = f"{sum(near)} of {len(near)}"
    return rows, near


def overall(rows: list[Row], near: list[bool]) -> list[Row]:
    """Over all tables: columns near the best, first places in log-loss, times of time."""
    data = list(dict.fromkeys(row["data"] for row in rows))
    ours: dict[str, Row] = {row["data"]: row for row in rows if "columns near best" in row}
    first = sum(
        ours[name]["log-loss"]
        <= min(row["log-loss"] for row in rows if row["data"] == name and "log-loss" in row)
        for name in data
    )
    told: list[Row] = [
        {
            "data": "overall",
            "method": f"MCVQ, first in log-loss on {first} of {len(data)} tables",
            "CPU seconds": sum(row["CPU seconds"] for row in ours.values()),
            "columns near best": f"{sum(near)} of {len(near)}, {np.mean(near):.0%}",
        }
    ]
    for method in RIVALS:
        of = [row for row in rows if row["method"] == method]
        if of:
            took = sum(row["CPU seconds"] for row in of)
            base = sum(ours[row["data"]]["CPU seconds"] for row in of)
            told.append({"data": "overall", "method": method, "CPU seconds": took})
            told[-1]["times ours"] = took / base
    return told


@register("tables_rivals")
def tables_rivals(progress: Callable[[str], None]) -> list[Row]:
    """Real mixed tables with a fifth of the cells hidden, ours against five imputers and mixtures.

    RMSE in deviations and share of right levels are means over columns, log-loss is in nats a cell.
    """
    rows: list[Row] = []
    near: list[bool] = []
    Trial(TABLES["iris"]()).ours()  # compiles
    for data, make in TABLES.items():
        if data in STATSMODELS and importlib.util.find_spec("statsmodels") is None:
            said = "not measured, since statsmodels is not installed; pip install statsmodels"
            progress(f"{data}: {said}")
            continue
        found, there = compare(data, make(), progress)
        rows += found
        near += there
    return rows + overall(rows, near)
