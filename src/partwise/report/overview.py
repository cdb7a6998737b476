"""What an analyst asks of a table first: its columns, their ties, what is missing, what stands out.

Everything is computed from the rows that the page scores, and written in the user's units.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator

from partwise.answers import anomalous, tables
from partwise.answers.results import Summary
from partwise.answers.states import FittedStates, anomaly_scores, predict_states
from partwise.data.table import Schema, TableColumn, number_text
from partwise.data.table_column import LOGGED
from partwise.fitted import fitted_of, schema_of
from partwise.plot.view import StatesView, View, percent
from partwise.report.association import associations
from partwise.report.content import (
    AnomalousCell,
    ColumnLine,
    Group,
    Overview,
    State,
    Tie,
    Ties,
    WeakPart,
)
from partwise.report.embed import pack
from partwise.report.missing import missing_values
from partwise.report.rows import PageRows

# The sentence about a state that differs in no column from the whole table.
AVERAGE = "near the average in every column"

N_BARS = 12
MAX_NUMBER_BARS = 32  # days of a month have one each
MAX_LEVEL_BARS = 8
MAX_TIES = 200
MIN_TIE = 0.1
MAX_MAP_COLUMNS = 60
# Ties of the data that the model has less than this share of are marked, from this strength on, and
# this many times the deviation by chance; below this strength it has none.
LITTLE_SHARE = 0.6
MIN_ABSENT = 0.3
BY_CHANCE = 4.0
NO_TIE = 0.1
# A category with so large a share of missing values may have lost a level.
MANY_MISSING = 0.2
# Rows that are named: of a state, and of one with few rows, which may be wrong cells. That is one
# with at most so many rows, or this share of those that have a value in its columns, but no more
# than are named: dozens of rows alike are a kind of row, however large the table.
NAMED_ROWS = 3
NAMED_FEW_ROWS = 8
FEW_ROWS = 2
FEW_SHARE = 0.02
# Columns that a sentence about a state names.
SENTENCE_COLUMNS = 7
# A state with at least this share of the rows is the usual one, whatever mean the rarer ones shift.
USUAL_SHARE = 0.5
SLIGHTLY = re.compile(r"slightly (?:high|low|late|early) \(([^,()]+(?:,\d{3})*), overall")
# Anomalous cells in all, and of a column: one with many extreme values would fill the list.
MAX_ANOMALOUS_CELLS = 25
MAX_ANOMALOUS_OF_COLUMN = 3
# A value that one in so many rows like its own would have is not anomalous.
RAREST_USUAL = 20
# All pairs of more columns would take longer than the rest of the page: of wider tables, pairs of
# the columns that their parts explain best.
MAX_TIED_COLUMNS = 150

# The kinds of columns in words: what the column is, and how the model describes it.
KINDS = {
    "gaussian": ("number", "normal distribution"),
    "lognormal": ("positive number", "log-normal distribution: many small values, few large ones"),
    "poisson": ("count", "Poisson distribution"),
    "negative_binomial": ("count", "negative binomial distribution: counts vary widely"),
    "zero_inflated": ("count", "zero-inflated distribution: many zeros"),
    "circular": ("cycle", "circular distribution: the largest value is next to the smallest"),
    "degrees": ("angle", "circular distribution: 360 degrees are 0 degrees"),
    "categorical": ("category", "probability per level"),
    "ordinal": ("ordered levels", "probability per ordered level"),
    "bernoulli": ("two levels", "probability of each level"),
    "ignored": ("not used", ""),
}

# Reasons for which a column is not used, or has no part.
NOTES = {
    "empty": "has no value",
    "no number": "has no value",
    "constant": "has the same value in every row",
    "identifier": "numbers the rows",
    "text": "text that rarely repeats",
    "many": "too many different levels",
    "other": "neither numbers, dates nor text",
    "objects": "neither numbers, dates nor text",
    "in days": "date",
    "left out as asked": "left out as asked",
}


def overview(model: BaseEstimator, seen: View, rows: PageRows | None) -> Overview:
    """Collect the overview of a table.

    Parameters
    ----------
    model : estimator
        Fitted, with parts.
    seen : View
    rows : PageRows or None
        Without rows there are no histograms, missing values or anomalous cells.

    Returns
    -------
    overview : dict
    """
    schema = schema_of(model)
    coded = None if rows is None else rows.coded
    return {
        "columns": [_column(seen, d, schema, rows) for d in range(len(seen.names))],
        "ties": _ties(model, seen, schema, coded),
        "missing": None if coded is None else missing_values(seen, schema, coded),
        "anomalous": None if rows is None else _anomalous(model, seen, rows, rows.coded),
    }


def column_texts(schema: Schema | None, d: int, values: np.ndarray) -> list[str]:
    """Values of column d in the user's units."""
    if schema is None:
        return [number_text(value) for value in values]
    return schema.columns[d].texts(values)


def _column(seen: View, d: int, schema: Schema | None, rows: PageRows | None) -> ColumnLine:
    column = None if schema is None else schema.columns[d]
    values = None if rows is None else rows.coded[:, d]
    used = column is None or column.kind != "ignored"
    what, why = _kind(column)
    if column is not None and column.twin is not None:
        why = f"{why}; nearly a copy of {seen.names[column.twin.leader]}"
    line: ColumnLine = {
        "name": seen.names[d],
        "number": d,
        "part": int(seen.parts[d]),
        "kind": what,
        "why": why,
        "used": used,
        "missing": None,
        "hint": False,
        "typical": "",
        "is_log": column is not None and column.kind == LOGGED,
        "bars": [],
        "low": "",
        "high": "",
    }
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    if rows is not None and values is not None:
        absent = 1 - len(known) / max(len(values), 1) if used else rows.missing_share(d)
        line["missing"] = None if absent is None else float(absent)
    if len(known) == 0:
        return line
    if column is not None and column.has_number_levels and len(column.levels) > MAX_NUMBER_BARS:
        known = np.array(column.levels, dtype=float)[known.astype(int)]
        step = column.support.step
        line["bars"] = _histogram(known, lambda ends: [number_text(end, step) for end in ends])
        line["low"], line["high"] = (number_text(end, column.support.step) for end in _ends(known))
        line["typical"] = number_text(float(np.median(known)), column.support.step)
        return line
    if column is not None and column.has_levels:
        counts = np.bincount(known.astype(int), minlength=len(column.levels))
        order, n_bars = np.arange(len(counts)), MAX_NUMBER_BARS
        if not column.ordered and column.form == "level":
            order, n_bars = np.argsort(-counts, kind="stable"), MAX_LEVEL_BARS
        shown = order[:n_bars]
        line["bars"] = [_bar(column.text(v), counts[v], len(known), counts.max()) for v in shown]
        line["low"] = column.text(order[0])
        line["high"] = column.text(shown[-1]) if len(shown) > 1 else ""
        if len(order) > len(shown):
            line["high"] = f"{len(order) - len(shown)} more"
        line["typical"] = _typical_level(column, counts)
        line["hint"] = (line["missing"] or 0.0) >= MANY_MISSING and column.form == "level"
        return line
    line["bars"] = _histogram(known, lambda values: column_texts(schema, d, values))
    ends = column_texts(schema, d, np.array([*_ends(known), np.median(known)]))
    line["low"], line["high"], line["typical"] = ends
    return line


def _ends(values: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest value."""
    low, high = np.quantile(values, [0.0, 1.0])
    return float(low), float(high)


def _histogram(
    values: np.ndarray, texts: Callable[[np.ndarray], list[str]]
) -> list[tuple[str, float]]:
    """Bars of numbers, in bins of one width."""
    low, high = _ends(values)
    counts, edges = np.histogram(values, bins=N_BARS, range=(low, high) if high > low else None)
    ends = texts(edges)
    return [
        _bar(f"{ends[i]} to {ends[i + 1]}", count, len(values), counts.max())
        for i, count in enumerate(counts)
    ]


def _typical_level(column: TableColumn, counts: np.ndarray) -> str:
    """The median of levels that are numbers, and the most common one of others or of two."""
    if column.form != "level" and len(counts) > 2:
        return column.text(int(np.searchsorted(np.cumsum(counts), counts.sum() / 2)))
    top = int(counts.argmax())
    return f"{column.text(top)} ({percent(counts[top] / counts.sum())})"


def _bar(name: str, count: int, n: int, most: int) -> tuple[str, float]:
    """What a bar of a histogram says, and its height from 0 to 1."""
    rows = f"{count:,} row{'' if count == 1 else 's'}"
    return f"{name}: {rows} ({percent(count / n)})", float(count / max(most, 1))


def _kind(column: TableColumn | None) -> tuple[str, str]:
    """What a column is, and the distribution or the reason."""
    if column is None:
        return KINDS["gaussian"]
    what, how = KINDS.get(column.kind, (column.kind, ""))
    if column.form == "date":
        what = "date"
    elif column.form == "span":
        what = "time of day or duration"
    elif column.kind == LOGGED and column.support.smallest <= 0:
        what, how = "number from 0", "log-normal distribution of the number plus a constant"
    why = getattr(column, "reason", "") or NOTES.get(column.note, "")
    why = "" if column.form == "span" and column.note == "in days" else why
    if column.note == "constant":
        what = "constant"
    return what, "; ".join(filter(None, [why if why != what else "", how]))


def _ties(
    model: BaseEstimator, seen: View, schema: Schema | None, coded: np.ndarray | None
) -> Ties | None:
    """Strength of the dependence of columns, in the data and in models that compute it."""
    if not hasattr(model, "dependence"):
        return None
    D, fitted = len(seen.names), fitted_of(model)
    data = n_rows = np.full((D, D), np.nan)
    if coded is not None:
        data, n_rows = associations(None if schema is None else list(schema.columns), coded)
        for d, column in enumerate(() if schema is None else schema.columns):
            if column.kind == "ignored":
                data[d] = data[:, d] = np.nan
    tied = _tied_columns(seen, fitted, data)
    inside = np.zeros(D, bool)
    inside[tied] = True
    strength = np.nan_to_num(np.sqrt(-np.expm1(-2.0 * tables.dependence(fitted, tied))))
    np.fill_diagonal(strength, 0.0)
    chance = 1.0 / np.sqrt(np.maximum(n_rows, 1.0))
    size = np.where(np.isnan(data), strength, np.abs(data))
    size[size < 2.0 * np.nan_to_num(chance)] = 0.0
    size[~inside] = size[:, ~inside] = 0.0
    little = (np.abs(data) >= MIN_ABSENT) & (np.abs(data) >= BY_CHANCE * chance)
    little &= strength < LITTLE_SHARE * np.abs(data)
    absent = little & (strength < NO_TIE)
    a, b = np.triu_indices(D, 1)
    order = np.argsort(-size[a, b], kind="stable")
    listed: list[Tie] = []
    for i in order[:MAX_TIES]:
        at = int(a[i]), int(b[i])
        if size[at] < MIN_TIE:
            break
        listed.append(
            {
                "a": at[0],
                "b": at[1],
                "data": None if np.isnan(data[at]) else float(data[at]),
                "strength": float(strength[at]),
                "note": "not in the model"
                if absent[at]
                else "weaker in the model"
                if little[at]
                else "",
            }
        )
    # On the map: columns by part, those with the strongest ties if there are many.
    strongest = np.argsort(-size.max(axis=1, initial=0.0), kind="stable")[:MAX_MAP_COLUMNS]
    kept = np.sort(strongest[size[strongest].max(axis=1, initial=0.0) >= MIN_TIE])
    part = np.where(seen.parts < 0, seen.n_parts, seen.parts)[kept]
    shown = kept[np.lexsort([-size[kept].sum(axis=1), part])]
    return {
        "pairs": listed,
        "of_data": coded is not None,
        "n_pairs": int((size[a, b] >= MIN_TIE).sum()),
        "n_absent": int((absent & inside & inside[:, None])[a, b].sum()),
        "n_columns": len(tied),
        "weak": _weak_parts(seen, data),
        "columns": [int(d) for d in shown],
        "cells": pack(np.rint(255 * size[np.ix_(shown, shown)]).reshape(1, -1), "u1"),
        "absent": pack(absent[np.ix_(shown, shown)].reshape(1, -1), "u1"),
    }


def _weak_parts(seen: View, data: np.ndarray) -> dict[int, WeakPart]:
    """Parts whose columns have no strong tie in the data, by number, with their strongest tie."""
    out: dict[int, WeakPart] = {}
    for k in range(seen.n_parts):
        own = seen.columns(k)
        inside = np.triu(np.abs(data[np.ix_(own, own)]), 1)
        if len(own) < 2 or np.isnan(inside[np.triu_indices(len(own), 1)]).any():
            continue
        if (most := float(inside.max())) < MIN_ABSENT:
            a, b = np.unravel_index(inside.argmax(), inside.shape)
            out[k] = {"a": int(own[a]), "b": int(own[b]), "most": most}
    return out


def _tied_columns(seen: View, fitted: FittedStates, data: np.ndarray) -> np.ndarray:
    """Columns whose pairs are looked at: those with the strongest ties of a wide table."""
    D = len(data)
    if D <= MAX_TIED_COLUMNS:
        return np.arange(D)
    if np.isfinite(data).any():
        strongest = np.nan_to_num(np.abs(data)).max(axis=1)
        return np.sort(np.argsort(-strongest, kind="stable")[:MAX_TIED_COLUMNS])
    told = tables.state_information(fitted, np.flatnonzero(seen.parts >= 0))
    return np.array(sorted(told, key=lambda d: -told[d])[:MAX_TIED_COLUMNS], int)


def _anomalous(
    model: BaseEstimator, seen: View, rows: PageRows, coded: np.ndarray
) -> list[AnomalousCell] | None:
    """Cells that are much less likely than the rest of their row suggests."""
    if not hasattr(model, "anomalous_cells"):
        return None
    # Without an index, rows are known by their position.
    data = rows.scored
    plain = data.reset_index(drop=True) if hasattr(data, "reset_index") else data
    found = anomalous.anomalous_cells(
        fitted_of(model), plain, coded, MAX_ANOMALOUS_CELLS, per_column=MAX_ANOMALOUS_OF_COLUMN
    )
    schema = schema_of(model)
    names = {str(name): d for d, name in enumerate(_own_names(model, seen))}
    out: list[AnomalousCell] = []
    for row, name, value, expected, surprise in zip(
        *(
            np.asarray(found[key], dtype=object).tolist()
            for key in ("row", "column", "value", "expected", "surprise")
        ),
        strict=True,
    ):
        if float(np.asarray(surprise)) < math.log(RAREST_USUAL):
            continue
        d = names[str(name)]
        at = int(rows.scored_index[int(np.asarray(row))])
        out.append(
            {
                "row": rows.name(at),
                "position": at,
                "column": d,
                "value": _recorded(schema, d, value),
                "expected": _written(schema, d, expected),
                "surprise": float(np.asarray(surprise)),
            }
        )
    return out


def _own_names(model: BaseEstimator, seen: View) -> list[str]:
    """Names of columns as the model has them, which the page may have replaced."""
    return [str(name) for name in getattr(model, "feature_names_in_", seen.names)]


def _recorded(schema: Schema | None, d: int, value: object) -> str:
    """A value as it was recorded, no digit rounded away."""
    text = _written(schema, d, value)
    if isinstance(value, float | np.floating) and float(text.replace(",", "")) != float(value):
        return str(value)
    return text


def _written(schema: Schema | None, d: int, value: object) -> str:
    """A user's value as a person would write it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    column = None if schema is None else schema.columns[d]
    if isinstance(value, int | float | np.number):
        if column is not None and column.decimals:
            return f"{float(value) + 0.0:,.{column.decimals}f}"
        return number_text(float(value), years=column is None or column.are_years)
    if column is not None and column.form == "date":
        return str(value)[: 10 if column.whole else 16].replace("T", " ")
    return str(value)


def states_of_parts(
    model: BaseEstimator, seen: View, rows: PageRows | None
) -> list[tuple[list[State], list[Group]]]:
    """The states of each part with a sentence about each, and their groups, as in `summary`."""
    n_parts = seen.n_parts
    out: list[list[State]] = [[] for _ in range(n_parts)]
    groups: list[list[Group]] = [[] for _ in range(n_parts)]
    if not hasattr(model, "summary"):
        return list(zip(out, groups, strict=True))
    table: Summary = model.summary(n_columns=SENTENCE_COLUMNS)
    usual = [f"part{k}" for k in range(n_parts)]
    place = {str(name): k for k, name in enumerate(getattr(model, "part_names_", usual))}
    keys = ("part", "state", "share", "profile")
    for part, state, share, profile in zip(*(list(table[key]) for key in keys), strict=True):
        if str(part) not in place:  # the background
            continue
        text = AVERAGE if str(profile) == "average" else _spaced(str(profile))
        if float(np.asarray(share)) >= USUAL_SHARE:  # slight differences from itself and few others
            usual_text = SLIGHTLY.sub(r"\1 (overall", text)
            text = text if usual_text == text else f"the usual kind of row: {usual_text}"
        own = out[place[str(part)]]
        own.append(
            {
                "number": int(np.asarray(state)),
                "weight": float(np.asarray(share)),
                "sentence": text,
                "name": text.split("; ")[0].split(" (")[0],
                "n_rows": None,
                "is_small": False,
                "rows": [],
            }
        )
    for group in table.groups:
        groups[place[group.part]].append(
            {
                "states": list(group.states),
                "weight": group.share,
                "sentence": _spaced(group.profile),
                "but": [],
            }
        )
    for k in range(n_parts):
        if groups[k]:
            _say_opposites(tables.short(tables.features(fitted_of(model), k)), out[k], groups[k])
    if rows is not None and isinstance(seen, StatesView) and hasattr(model, "anomaly_scores"):
        _name_rows(model, seen, rows, out)
    return list(zip(out, groups, strict=True))


def _say_opposites(told: list[tables.Feature], states: list[State], groups: list[Group]) -> None:
    """Say in which states of a group the opposite is true of what is said of the group."""
    for group in groups:
        own = [state for state in states if state["number"] in group["states"]]
        numbers, weights = [one["number"] for one in own], np.array([one["weight"] for one in own])
        opposite: dict[int, list[str]] = {}
        for feature in told:
            more, least = feature.away, tables.TELLING_DEVIATIONS
            if feature.level is not None:
                more, least = feature.values - feature.usual, tables.TELLING_SHARE
            mean = float(weights @ more[numbers]) / weights.sum()
            if abs(mean) >= least and f"{feature.name} " in group["sentence"]:
                for j in numbers:
                    if abs(more[j]) >= least and more[j] * mean < 0:
                        opposite.setdefault(j, []).append(feature.name)
        for state in own:
            j = state["number"]
            mine = [one for one in told if one.name in opposite.get(j, ())]
            # Of the levels of a category the one that is more common than overall.
            words = {one.name: one.words(j) for one in sorted(mine, key=lambda one: one.away[j])}
            phrases = [_spaced(phrase) for phrase in words.values() if phrase]
            if phrases:
                group["but"].append((j, "; ".join(phrases)))


def _spaced(text: str) -> str:
    """Percentages with a space that does not break, as everywhere on the page."""
    return re.sub(r"(\d)%", "\\1\u00a0%", text)


def _name_rows(model: BaseEstimator, seen: View, rows: PageRows, parts: list[list[State]]) -> None:
    """Name typical rows of each state, and all rows of a state that has few."""
    fitted = fitted_of(model)
    states = predict_states(fitted, rows.coded)
    scores = anomaly_scores(fitted, rows.coded)
    for k, own in enumerate(parts):
        # A row without a value in the part's columns is an example of no state.
        told = np.isfinite(rows.coded[:, seen.columns(k)]).any(axis=1)
        most_few = max(FEW_ROWS, min(FEW_SHARE * told.sum(), NAMED_FEW_ROWS))
        for state in own:
            here = np.flatnonzero((states[:, k] == state["number"]) & told)
            here = here[np.argsort(scores[here, k], kind="stable")]
            state["n_rows"] = len(here) if rows.n_scored == rows.n_rows else None
            state["is_small"] = len(here) <= most_few
            n = NAMED_FEW_ROWS if state["is_small"] else NAMED_ROWS if rows.have_names else 0
            at = [int(i) for i in rows.scored_index[here[:n]]]
            state["rows"] = [(rows.name(i), i) for i in at]
