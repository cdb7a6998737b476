"""Real tables with hidden cells: what ours and other imputers put there, and how fast.

A fifth or two fifths of the cells are hidden at random, or a fifth of those of some columns
depending on others. Settings of ours were chosen on some of the tables only (`_real_tables`).

Columns of text, of two values or of at most ten are judged by the share of hidden cells filled
right, other numbers by their squared error in deviations of the column. Log-loss, of those who give
probabilities, is that of the hidden levels, in nats. Log density of hidden numbers is told beside
it (numbers in deviations; of ours that of the state models) but says little: a column that is often
exactly 0 has no bounded one. Of ours, what is filled into a column of levels is the likeliest one
(`predict_proba_columns`), since that is what is judged.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from partwise import PartsImputer
from partwise.datasets import load_movielens, load_yeast
from partwise_papers.bench import register
from partwise_papers.bench._real_tables import CHOSEN_ON, HELD_BACK, MOST_ROWS
from partwise_papers.bench._rivals import RIVALS, Filled, Holes, is_text
from partwise_papers.registry import Array, Row

OURS = {"PartsImputer": 1, "PartsImputer, four fits": 4}
HIDDEN = 0.2
N_MOVIES = 200
FEW = 10  # levels that are judged by whether the right one was filled in
NEAR = 0.03


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
    **{name: source.table for name, source in {**CHOSEN_ON, **HELD_BACK}.items()},
    "yeast": lambda: _numbers(load_yeast().data),
    f"MovieLens-1M, {N_MOVIES} movies": _movies,
}


def _at_random(table: Any, share: float, rng: np.random.Generator) -> Array:
    """Every cell with the same probability, (n, D)."""
    return rng.random(table.shape) < share


def _by_others(table: Any, rng: np.random.Generator) -> Array:
    """Cells of half of the columns, more often where another column, never hidden, is large."""
    columns = rng.permutation(table.shape[1])
    half = max(table.shape[1] // 2, 1)
    hidden = np.zeros(table.shape, bool)
    for d in columns[half:]:
        other = table.iloc[:, int(rng.choice(columns[:half]))]
        rank = other.rank(pct=True).fillna(0.5).to_numpy()
        hidden[:, d] = rng.random(len(table)) < 3.0 * HIDDEN * rank**2
    return hidden


MASKS: dict[str, Callable[[Any, np.random.Generator], Array]] = {
    "at random": lambda table, rng: _at_random(table, HIDDEN, rng),
    "twice as many": lambda table, rng: _at_random(table, 2 * HIDDEN, rng),
    "by another column": _by_others,
}


class Trial:
    """A table of which cells are hidden; a level that would be seen nowhere else is not."""

    def __init__(self, table: Any, mask: str = "at random") -> None:
        rng = np.random.default_rng(0)
        if len(table) > MOST_ROWS:
            table = table.iloc[np.sort(rng.permutation(len(table))[:MOST_ROWS])]
        self.complete = table.reset_index(drop=True)
        hidden = MASKS[mask](self.complete, rng) & self.complete.notna().to_numpy()
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
            shares = imputer.predict_proba_columns(table)
            for name, own in shares.items():
                levels = np.array(imputer.model_.column_levels_[name], dtype=object)
                filled[name] = levels[own.argmax(axis=1)]
        took = time.process_time() - begun
        density = {}
        for name, (rows, true) in cells.items():
            if name in shares:
                place = {level: v for v, level in enumerate(imputer.model_.column_levels_[name])}
                p = shares[name][rows, [place[x] for x in true]]
                density[name] = np.log(np.maximum(p, np.finfo(float).tiny))
                continue
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


def compare(
    data: str, table: Any, progress: Callable[[str], None], mask: str = "at random"
) -> dict[str, Judged]:
    """All methods that are installed on one table, by name, ours first."""
    trial = Trial(table, mask)
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
        table = make()
        if table is None:
            package = {**CHOSEN_ON, **HELD_BACK}[data].package
            missing.append({"data": data, "method": f"not measured; pip install {package}"})
            continue
        for mask in MASKS:
            tables.append(compare(f"{data}, {mask}", table, progress, mask))
    rows = [{name: judged.row for name, judged in table.items()} for table in tables]
    return [row for own in [*rows, overall(tables)] for row in with_ratios(own)] + missing
