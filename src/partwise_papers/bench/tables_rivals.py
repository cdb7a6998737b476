"""Real tables, a fifth of their cells hidden: what ours and other imputers put there, and how fast.

Columns of text, of two values or of at most ten are judged by the share of hidden cells filled
right, other numbers by their squared error in deviations of the column. Log-loss, of those who give
probabilities, is that of the hidden levels, in nats. Log density of hidden numbers is told beside
it (numbers in deviations) but says little: a column that is often exactly 0 has no bounded one. Of
ours, what is filled into a column of levels is the likeliest one (`predict_proba_columns`), since
that is what is judged.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from partwise import PartsImputer
from partwise.datasets import load_movielens, load_yeast
from partwise_papers.bench import register
from partwise_papers.bench._rivals import RIVALS, Filled, Holes, is_text
from partwise_papers.registry import Array, Row

OURS = {"PartsImputer": 4, "PartsImputer, one fit": 1}
HIDDEN = 0.2
MOST_ROWS = 2000  # sampled from longer tables, since the slowest methods take hours on those
N_MOVIES = 200
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
    """Ratings of the most rated movies, by those who rated any of them."""
    X = load_movielens("1m").data.tocsc()
    often = np.sort(np.argsort(-np.diff(X.indptr), kind="stable")[:N_MOVIES])
    dense = X[:, often].toarray()
    dense = dense[dense.any(axis=1)]
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

    def ours(self, n_fits: int) -> Filled:
        """The imputer as it comes: kinds and sizes found out."""
        table, cells = self.holes.table, self.holes.cells
        begun = time.process_time()
        imputer = PartsImputer(n_fits=n_fits, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # warns of unusual columns
            filled = imputer.fit_transform(table)
            for name, shares in imputer.predict_proba_columns(table).items():
                levels = np.array(imputer.model_.column_levels_[name], dtype=object)
                filled[name] = levels[shares.argmax(axis=1)]
        took = time.process_time() - begun
        density = {}
        for name, (rows, true) in cells.items():
            asked = table, rows, [name] * len(rows), true
            told = [model.score_cells(*asked) for model in imputer.models_]
            density[name] = np.logaddexp.reduce(told, axis=0) - np.log(n_fits)
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

    def log_density(self, density: dict[str, Array], levels: bool) -> Array:
        """Log densities of all hidden levels, or of all numbers in deviations of their column."""
        found = [np.empty(0)]
        for name, x in density.items():
            if (name in self.levels) == levels:
                found.append(x if levels else x + np.log(self.complete[name].std(ddof=0)))
        return np.concatenate(found)

    def row(self, data: str, method: str, filled: Filled, losses: dict[str, float]) -> Row:
        """Measures of a method."""
        row: Row = {"data": data, "method": method, "CPU seconds": filled.seconds}
        numbers = [x for name, x in losses.items() if name not in self.levels]
        levels = [x for name, x in losses.items() if name in self.levels]
        if numbers:
            row["RMSE"] = float(np.mean(numbers))
        if levels:
            row["right (%)"] = 100.0 * float(np.mean(levels))
        if filled.density is not None:
            if levels:
                row["log-loss"] = -float(self.log_density(filled.density, True).mean())
            if numbers:
                row["log density"] = float(self.log_density(filled.density, False).mean())
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


class Judged(NamedTuple):
    """A method on a table: its measures, its losses, log probabilities of hidden levels."""

    row: Row
    losses: dict[str, float]
    levels: Array


def compare(data: str, table: Any, progress: Callable[[str], None]) -> dict[str, Judged]:
    """All methods that are installed on one table, by name, ours first."""
    trial = Trial(table)
    methods: dict[str, Callable[[], Filled | None]] = {
        name: partial(trial.ours, n_fits) for name, n_fits in OURS.items()
    }
    methods |= {name: partial(rival.fill, trial.holes) for name, rival in RIVALS.items()}
    found = {}
    for name, fill in methods.items():
        progress(f"{data}: {name}")
        filled = fill()
        if filled is not None:
            losses = trial.losses(filled.table)
            levels = trial.log_density(filled.density or {}, True)
            found[name] = Judged(trial.row(data, name, filled, losses), losses, levels)
    rivals = [judged.losses for name, judged in found.items() if name in RIVALS]
    for name, judged in found.items():
        if name in OURS and rivals:
            near = trial.near(judged.losses, rivals).values()
            judged.row.update({"near best": sum(near), "columns": len(near)})
    return found


def overall(tables: list[dict[str, Judged]]) -> dict[str, Row]:
    """Every method over all tables: seconds, log-loss of all hidden levels, columns near best."""
    rows: dict[str, Row] = {}
    for name in tables[0]:
        judged = [table[name] for table in tables]
        row: Row = {"data": "all", "method": name}
        for key in ("CPU seconds", "near best", "columns"):
            if key in judged[0].row:
                row[key] = sum(one.row[key] for one in judged)
        levels = np.concatenate([one.levels for one in judged])
        rows[name] = row | ({"log-loss": -float(levels.mean())} if len(levels) else {})
    return rows


def with_ratios(rows: dict[str, Row]) -> list[Row]:
    """Rows of one table, with the time of other methods relative to ours."""
    for name, row in rows.items():
        if name in RIVALS:
            for ours in OURS:
                row[f"times {ours}"] = row["CPU seconds"] / rows[ours]["CPU seconds"]
    return list(rows.values())


@register("tables_rivals")
def tables_rivals(progress: Callable[[str], None]) -> list[Row]:
    """Real mixed tables with a fifth of the cells held out, against imputers and mixtures.

    RMSE in deviations and share of right levels are means over columns; log-loss is in nats per
    held-out level. Columns near best: ours is better than every other method there, or worse
    by at most 3 %.
    """
    Trial(TABLES["iris"]()).ours(1)  # compiles
    missing: list[Row] = [
        {"data": "all", "method": f"{name}: not measured; pip install {rival.package}"}
        for name, rival in RIVALS.items()
        if importlib.util.find_spec(rival.module) is None
    ]
    tables = []
    for data, make in TABLES.items():
        if data in STATSMODELS and importlib.util.find_spec("statsmodels") is None:
            missing.append({"data": data, "method": "not measured; pip install statsmodels"})
            continue
        tables.append(compare(data, make(), progress))
    rows = [{name: judged.row for name, judged in table.items()} for table in tables]
    return [row for own in [*rows, overall(tables)] for row in with_ratios(own)] + missing
