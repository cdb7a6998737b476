"""Synthetic tables of five kinds of columns with missing values: parts and intervals."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from partwise import MCVQ
from partwise.datasets import make_survey
from partwise.metrics import calibration_error
from partwise_papers.experiments import register
from partwise_papers.experiments.imputation import COVERAGES
from partwise_papers.registry import Array, Row, Setting

SEEDS = 20


def covered(model: MCVQ, survey: Any, kind: str, share: float) -> float:
    """Percentage of the hidden cells of one kind that lie in their interval."""
    lower, upper = model.predict_interval(survey.frame, share)
    inside = []
    for d in np.flatnonzero(survey.kinds == kind):
        cells = survey.hidden[:, d]
        values, low, high = (
            _numbers(table.iloc[:, d])[cells] for table in (survey.complete, lower, upper)
        )
        inside.append((low <= values) & (values <= high))
    return 100.0 * float(np.mean(np.concatenate(inside)))


def _numbers(column: Any) -> Array:
    """A column as numbers, ordered categories by their place."""
    return np.asarray(column.cat.codes if hasattr(column, "cat") else column, dtype=float)


def level_calibration(model: MCVQ, survey: Any) -> tuple[float, float]:
    """Expected calibration error of the likeliest level of hidden cells, and how often it is it."""
    sure, right = [], []
    for name, shares in model.predict_proba_columns(survey.frame).items():
        cells = survey.hidden[:, survey.frame.columns.get_loc(name)]
        levels = np.array(model.column_levels_[name], dtype=object)
        sure.append(shares[cells].max(axis=1))
        right.append(levels[shares[cells].argmax(axis=1)] == survey.complete[name][cells])
    p, hit = np.concatenate(sure), np.concatenate(right).astype(float)
    return calibration_error(p, hit), float(hit.mean())


@register("tables_planted")
def tables_planted(setting: Setting) -> list[Row]:
    """Synthetic surveys, 40 or 20 columns of five kinds in 4 parts, a third missing."""
    rows: list[Row] = []
    n_seeds = setting.choose(fast=3, full=SEEDS)
    for n, n_columns_per_kind in ((2000, 2), (1000, 1)):
        found = []
        for seed in range(n_seeds):
            setting(f"{n} rows, survey {seed + 1} of {n_seeds}")
            found.append(_planted(n, n_columns_per_kind, seed))
        names = list(found[0])[3:]
        summary: Row = {"rows": n, "columns": found[0]["columns"], "seed": "mean"}
        summary |= {name: float(np.mean([float(row[name]) for row in found])) for name in names}
        good = sum(float(row["adjusted Rand"]) >= 0.9 for row in found)
        rows += [*found, summary | {"parts found": f"{good} of {n_seeds}"}]
    return rows


def _planted(n: int, n_columns_per_kind: int, seed: int) -> Row:
    """One survey: what was found of it."""
    survey = make_survey(
        n,
        n_columns_per_kind=n_columns_per_kind,
        missing=0.2,
        missing_by_column=0.2,
        random_state=seed,
    )
    begun = time.perf_counter()
    model = MCVQ(4, 6, likelihood="auto", random_state=seed).fit(survey.frame)
    took = time.perf_counter() - begun
    error, accuracy = level_calibration(model, survey)
    row: Row = {
        "rows": n,
        "columns": len(survey.parts),
        "seed": seed,
        "missing": 100.0 * float(survey.hidden.mean()),
        "adjusted Rand": adjusted_rand_score(survey.parts, model.parts_),
    }
    for share in COVERAGES:
        row[f"in {share:.0%} intervals"] = covered(model, survey, "gaussian", share)
    return row | {"level right": accuracy, "calibration error": error, "seconds": took}


@register("tables_ordered")
def tables_ordered(setting: Setting) -> list[Row]:
    """Ordered answers as ordered levels, plain categories or numbers: error of imputed cells."""
    rows: list[Row] = []
    for n in (200, 2000):
        found: dict[str, list[tuple[float, float]]] = {}
        n_seeds = setting.choose(fast=2, full=5)
        for seed in range(n_seeds):
            setting(f"{n} rows, survey {seed + 1} of {n_seeds}")
            survey = make_survey(n, n_columns_per_kind=6, random_state=seed)
            ordered = survey.kinds == "ordinal"
            codes = survey.complete.loc[:, ordered].apply(_numbers)
            hidden, parts = survey.hidden[:, ordered], survey.parts[ordered]
            for kind in ("ordinal", "categorical", "gaussian"):
                model = MCVQ(4, 6, likelihood=[kind] * len(parts), random_state=seed)
                filled = model.fit(codes.mask(hidden)).impute(codes.mask(hidden))
                error = np.abs(np.rint(filled) - codes).to_numpy()[hidden].mean()
                right = adjusted_rand_score(parts, model.parts_)
                found.setdefault(kind, []).append((float(error), right))
        for kind, values in found.items():
            error, right = np.mean(values, axis=0)
            rows.append({"rows": n, "taken as": kind, "levels off": error, "adjusted Rand": right})
    return rows
