"""What an analyst asks of a table first: its columns, their ties, what is missing, what stands out.

Everything is computed from the rows that the page scores, and written in the user's units.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import hypergeom
from sklearn.base import BaseEstimator

from partwise.answers import anomalous, tables
from partwise.answers.results import Summary
from partwise.data.table import Schema, TableColumn, number_text
from partwise.fitted import fitted_of, schema_of
from partwise.plot.view import View, as_shown
from partwise.report.content import (
    AnomalousCell,
    ColumnLine,
    Group,
    MissingPattern,
    MissingTogether,
    MissingValues,
    Overview,
    State,
    Tie,
    Ties,
)
from partwise.report.embed import pack
from partwise.report.rows import PageRows

# The sentence about a state that differs in no column from the whole table.
AVERAGE = "near the average in every column"

N_BARS = 12
MAX_LEVEL_BARS = 8
MAX_TIES = 200
MIN_TIE = 0.1
MAX_MAP_COLUMNS = 60
MAX_PATTERNS = 12
# Missing values of two columns coincide if they are correlated by this much.
MIN_COINCIDENCE = 0.3
MAX_BY_CHANCE = 0.01
# Anomalous cells in all, and of a column: one with many extreme values would fill the list.
MAX_ANOMALOUS_CELLS = 25
MAX_ANOMALOUS_OF_COLUMN = 3
# All pairs of more columns would take longer than the rest of the page: of wider tables, pairs of
# the columns that their parts explain best.
MAX_TIED_COLUMNS = 150

# The kinds of columns in words: what the column is, and how the model describes it.
KINDS = {
    "gaussian": ("number", "normal distribution"),
    "lognormal": ("positive number", "log-normal distribution"),
    "poisson": ("count", "Poisson distribution"),
    "negative_binomial": ("count", "negative binomial distribution: counts vary widely"),
    "zero_inflated": ("count", "zero-inflated distribution: many zeros"),
    "circular": ("cycle", "circular distribution: the largest value is next to the smallest"),
    "categorical": ("category", "probability per level"),
    "ordinal": ("ordered levels", "probability per ordered level"),
    "bernoulli": ("two levels", "probability of the second level"),
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
    coded = None if rows is None else as_shown(rows.scored, model)
    return {
        "columns": [
            _column(seen, d, schema, None if coded is None else coded[:, d])
            for d in range(len(seen.names))
        ],
        "ties": _ties(model, seen),
        "missing": None if coded is None else _missing(seen, schema, coded),
        "anomalous": [] if rows is None or coded is None else _anomalous(model, seen, rows, coded),
    }


def column_text(schema: Schema | None, d: int, value: float) -> str:
    """A value of column d in the user's units."""
    return number_text(value) if schema is None else schema.columns[d].text(value)


def _column(seen: View, d: int, schema: Schema | None, values: np.ndarray | None) -> ColumnLine:
    column = None if schema is None else schema.columns[d]
    what, why = _kind(column)
    if column is not None and column.twin is not None:
        why = f"{why}; nearly a copy of {seen.names[column.twin.leader]}"
    line: ColumnLine = {
        "name": seen.names[d],
        "number": d,
        "part": int(seen.parts[d]),
        "kind": what,
        "why": why,
        "missing": None,
        "typical": "",
        "bars": [],
        "low": "",
        "high": "",
    }
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    if values is not None and (column is None or column.kind != "ignored"):
        line["missing"] = float(1 - len(known) / max(len(values), 1))
    if len(known) == 0:
        return line
    if column is not None and column.has_levels:
        counts = np.bincount(known.astype(int), minlength=len(column.levels))
        order, n_bars = np.arange(len(counts)), 2 * N_BARS
        if not column.ordered and column.form == "level":
            order, n_bars = np.argsort(-counts, kind="stable"), MAX_LEVEL_BARS
        shown = order[:n_bars]
        line["bars"] = [_bar(column.text(v), counts[v], len(known), counts.max()) for v in shown]
        line["low"] = column.text(order[0])
        line["high"] = column.text(shown[-1]) if len(shown) > 1 else ""
        if len(order) > len(shown):
            line["high"] = f"{len(order) - len(shown)} more"
        top = int(counts.argmax())
        line["typical"] = f"{column.text(top)} ({counts[top] / len(known):.0%})"
        return line
    low, high = (float(v) for v in np.quantile(known, [0.0, 1.0]))
    counts, edges = np.histogram(known, bins=N_BARS, range=(low, high) if high > low else None)
    text = [column_text(schema, d, edge) for edge in edges]
    line["bars"] = [
        _bar(f"{text[i]} to {text[i + 1]}", count, len(known), counts.max())
        for i, count in enumerate(counts)
    ]
    line["low"], line["high"] = column_text(schema, d, low), column_text(schema, d, high)
    line["typical"] = column_text(schema, d, float(np.median(known)))
    return line


def _bar(name: str, count: int, n: int, most: int) -> tuple[str, float]:
    """What a bar of a histogram says, and its height from 0 to 1."""
    return f"{name}: {count:,} rows ({count / n:.0%})", float(count / max(most, 1))


def _kind(column: TableColumn | None) -> tuple[str, str]:
    """What a column is, and the distribution or the reason."""
    if column is None:
        return KINDS["gaussian"]
    what, how = KINDS.get(column.kind, (column.kind, ""))
    if column.form == "date":
        what = "date"
    elif column.form == "span":
        what = "duration"
    why = getattr(column, "reason", "") or NOTES.get(column.note, "")
    if column.note == "constant":
        what = "constant"
    return what, "; ".join(filter(None, [why if why != what else "", how]))


def _ties(model: BaseEstimator, seen: View) -> Ties | None:
    """Strength of the dependence of columns, of models that compute it."""
    if not hasattr(model, "dependence"):
        return None
    D, fitted = len(seen.names), fitted_of(model)
    tied = np.arange(D)
    if D > MAX_TIED_COLUMNS:
        told = tables.state_information(fitted, np.flatnonzero(seen.parts >= 0))
        tied = np.array(sorted(told, key=lambda d: -told[d])[:MAX_TIED_COLUMNS], int)
    strength = np.sqrt(-np.expm1(-2.0 * tables.dependence(fitted, tied)))
    strength = np.nan_to_num(strength)
    np.fill_diagonal(strength, 0.0)
    a, b = np.triu_indices(len(strength), 1)
    order = np.argsort(-strength[a, b], kind="stable")
    listed: list[Tie] = []
    for i in order[:MAX_TIES]:
        if strength[a[i], b[i]] < MIN_TIE:
            break
        listed.append({"a": int(a[i]), "b": int(b[i]), "strength": float(strength[a[i], b[i]])})
    # On the map: columns by part, those with the strongest ties if there are many.
    strongest = np.argsort(-strength.max(axis=1, initial=0.0), kind="stable")[:MAX_MAP_COLUMNS]
    kept = np.sort(strongest[strength[strongest].max(axis=1, initial=0.0) >= MIN_TIE])
    part = np.where(seen.parts < 0, seen.n_parts, seen.parts)[kept]
    shown = kept[np.lexsort([-strength[kept].sum(axis=1), part])]
    cells = np.rint(255 * strength[np.ix_(shown, shown)])
    n_tied = int((strength[a, b] >= MIN_TIE).sum())
    return {
        "pairs": listed,
        "n_pairs": n_tied,
        "n_columns": len(tied),
        "columns": [int(d) for d in shown],
        "cells": pack(cells.reshape(1, -1), "u1"),
    }


def _missing(seen: View, schema: Schema | None, coded: np.ndarray) -> MissingValues:
    """Missing values of the model's columns: complete rows, and patterns of columns."""
    used = np.ones(len(seen.names), bool)
    if schema is not None:
        used = np.array([column.kind != "ignored" for column in schema.columns])
    absent = np.isnan(coded) & used
    complete = int((~absent.any(axis=1)).sum())
    some = np.flatnonzero(absent.any(axis=0))
    packed = np.packbits(absent[:, some], axis=1)
    counts = Counter(bytes(row) for row in packed)
    patterns: list[MissingPattern] = []
    for row, count in counts.most_common():
        mask = np.unpackbits(np.frombuffer(row, np.uint8), count=len(some)).astype(bool)
        if mask.any() and count > 1 and len(patterns) < MAX_PATTERNS:
            patterns.append({"columns": [int(d) for d in some[mask]], "n_rows": count})
    return {
        "n_rows": len(coded),
        "n_complete": complete,
        "share": float(absent[:, used].mean()) if used.any() else 0.0,
        "n_columns": len(some),
        "together": _together(absent, some),
        "n_patterns": len(counts) - int(complete > 0),
        "patterns": patterns,
    }


def _together(absent: np.ndarray, some: np.ndarray) -> list[MissingTogether]:
    """Groups of columns whose missing values coincide more often than by chance."""
    own = absent[:, some].astype(float)
    n, each, both = len(own), own.sum(axis=0), own.T @ own
    x = (own - own.mean(axis=0)) / np.maximum(own.std(axis=0), 1e-12)
    close = (x.T @ x) / n >= MIN_COINCIDENCE
    # Of many pairs some coincide by chance: probability of so many common rows, for all pairs.
    a, b = np.nonzero(close)
    by_chance = hypergeom.sf(both[a, b] - 1, n, each[a], each[b]) * max(close.size / 2, 1.0)
    close[a, b] = by_chance < MAX_BY_CHANCE
    n_groups, label = connected_components(close, directed=False)
    groups: list[MissingTogether] = []
    for g in range(n_groups):
        columns = some[label == g]
        if len(columns) > 1:
            n_rows = int(absent[:, columns].all(axis=1).sum())
            groups.append({"columns": [int(d) for d in columns], "n_rows": n_rows})
    return sorted(groups, key=lambda group: -group["n_rows"])


def _anomalous(
    model: BaseEstimator, seen: View, rows: PageRows, coded: np.ndarray
) -> list[AnomalousCell]:
    """Cells that are much less likely than the rest of their row suggests."""
    if not hasattr(model, "anomalous_cells"):
        return []
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
        d = names[str(name)]
        at = int(rows.scored_index[int(np.asarray(row))])
        out.append(
            {
                "row": rows.name(at),
                "position": at,
                "column": d,
                "value": _written(schema, d, value),
                "expected": _written(schema, d, expected),
                "surprise": float(np.asarray(surprise)),
            }
        )
    return out


def _own_names(model: BaseEstimator, seen: View) -> list[str]:
    """Names of columns as the model has them, which the page may have replaced."""
    return [str(name) for name in getattr(model, "feature_names_in_", seen.names)]


def _written(schema: Schema | None, d: int, value: object) -> str:
    """A user's value as a person would write it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | float | np.number):
        return number_text(float(value))
    column = None if schema is None else schema.columns[d]
    if column is not None and column.form == "date":
        return str(value)[: 10 if column.whole else 16].replace("T", " ")
    return str(value)


def states_of_parts(
    model: BaseEstimator, n_parts: int
) -> tuple[list[list[State]], list[list[Group]]]:
    """The states of each part with a sentence about each, and their groups, as in `summary`."""
    out: list[list[State]] = [[] for _ in range(n_parts)]
    groups: list[list[Group]] = [[] for _ in range(n_parts)]
    if not hasattr(model, "summary"):
        return out, groups
    table: Summary = model.summary()
    usual = [f"part{k}" for k in range(n_parts)]
    place = {str(name): k for k, name in enumerate(getattr(model, "part_names_", usual))}
    keys = ("part", "state", "share", "profile")
    for part, state, share, profile in zip(*(list(table[key]) for key in keys), strict=True):
        if str(part) not in place:  # the background
            continue
        text = AVERAGE if str(profile) == "average" else str(profile)
        out[place[str(part)]].append(
            {
                "number": int(np.asarray(state)),
                "weight": float(np.asarray(share)),
                "sentence": text,
                "name": text.split("; ")[0].split(" (")[0],
            }
        )
    for group in table.groups:
        groups[place[group.part]].append(
            {"states": list(group.states), "weight": group.share, "sentence": group.profile}
        )
    return out, groups
