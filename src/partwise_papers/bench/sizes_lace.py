"""Automatic sizes against Lace, which infers views of columns and categories of rows by MCMC."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer

from partwise import MCFA, MCVQ, CellKFold, ObservedCells, PartsImputer
from partwise.datasets import load_movielens, load_yeast
from partwise_papers.bench import _lace, register
from partwise_papers.registry import Array, Row

FOLDS = 10  # one cell in ten is held out
N_MOVIES = 300
MISSING = 0.3


class Problem(NamedTuple):
    """A table with NaN, and whether its entries are categories."""

    X: Array
    categories: bool = False


def _movies() -> Problem:
    """Ratings of the movies that most people rated, by those who rated some of them."""
    X = load_movielens("100k").data.tocsc()
    often = np.sort(np.argsort(-np.diff(X.indptr), kind="stable")[:N_MOVIES])
    X = X[:, often].toarray()
    return Problem(np.where(X > 0, X, np.nan)[X.any(axis=1)], True)


def _cancer() -> Problem:
    """Measurements of tumours (scikit-learn's copy), three in ten removed."""
    X = load_breast_cancer().data
    missing = np.random.default_rng(0).random(X.shape) < MISSING
    return Problem(np.where(missing, np.nan, X))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "yeast": lambda: Problem(load_yeast().data),
    f"MovieLens-100k, {N_MOVIES} movies": _movies,
    f"breast cancer, {MISSING:.0%} missing": _cancer,
}


class Trial:
    """Cells to learn from and cells to judge by."""

    def __init__(self, name: str, problem: Problem) -> None:
        self.name = name
        cells = ObservedCells(problem.X)
        train, test = next(CellKFold(FOLDS, random_state=0).split(cells))
        self.categories = problem.categories
        self.train, self.test = cells[train], cells[test]
        if problem.categories:  # Lace knows no level that its column did not have
            held, known = cells[test], (self.train.columns, self.train.values)
            seen = set(zip(*known, strict=True))
            found = [cell in seen for cell in zip(held.columns, held.values, strict=True)]
            self.test = held[np.array(found)]
        self.spread = np.ones(problem.X.shape[1])
        if not problem.categories:
            self.spread = np.nanstd(problem.X, axis=0)

    def row(self, method: str, seconds: float, density: Array, error: Array) -> Row:
        """Measures of a method: numbers by squared errors in their columns' deviations."""
        found: Row = {
            "data": self.name,
            "method": method,
            "seconds": seconds,
            "held-out cells": float(density.mean()),
        }
        if self.categories:
            return found | {"imputed wrongly (%)": 100.0 * float(error.mean())}
        error = error / self.spread[self.test.columns]
        return found | {"RMSE (deviations)": float(np.sqrt(np.mean(error**2)))}

    def fit(self, method: str, model: Any) -> Row:
        """Fit and judge one of ours.

        Imputed are what it fills numbers with, and of categories the one that it finds likeliest.
        """
        test, table = self.test, self.train.table()
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a time budget may run out
            model.fit(table)
        took = time.perf_counter() - begun
        fits = getattr(model, "models_", [model])
        levels = np.unique(self.train.values) if self.categories else np.empty(0)

        def density(values: Array) -> Array:
            asked = table, test.rows, test.columns, values
            told = [one.score_cells(*asked) for one in fits]
            return np.logaddexp.reduce(told, axis=0) - np.log(len(fits))

        if self.categories:
            by_level = [density(np.full(len(test), level)) for level in levels]
            error = levels[np.argmax(by_level, axis=0)] != test.values
        else:
            fill = getattr(model, "impute", None) or model.transform
            error = fill(table)[test.rows, test.columns] - test.values
        return self.row(method, took, density(test.values), error)

    def _values(self, numbers: Array) -> Array:
        """Numbers as they are; categories as text, which Lace takes for such."""
        if not self.categories:
            return numbers
        return np.array([None if np.isnan(x) else f"level {x:g}" for x in numbers], dtype=object)

    def lace(self, progress: Callable[[str], None]) -> Row:
        """Run Lace's chains until they settle, and judge them."""
        import pandas as pd

        begun = time.perf_counter()
        table = np.asarray(self.train.table())
        names = [f"c{d}" for d in range(table.shape[1])]
        coded = {name: self._values(table[:, d]) for d, name in enumerate(names)}
        chains = _lace.Lace(pd.DataFrame(coded))
        steps = chains.settle(progress)
        took = time.perf_counter() - begun
        method = f"Lace, {_lace.N_CHAINS} chains of {steps} steps"
        return self.row(method, took, *self.judge(chains))

    def judge(self, chains: _lace.Lace) -> tuple[Array, Array]:
        """Log-likelihood of every cell, and whether or by how much its imputed value is wrong."""
        test = self.test
        density, error = np.empty(len(test)), np.empty(len(test))
        for d in np.unique(test.columns):
            some = np.flatnonzero(test.columns == d)
            rows, true = test.rows[some], self._values(test.values[some])
            density[some] = chains.density(f"c{d}", rows, true)
            filled = chains.impute(f"c{d}", rows)
            error[some] = filled != true if self.categories else filled - true
        return density, error


def compare(name: str, problem: Problem, progress: Callable[[str], None]) -> list[Row]:
    """Lace, then the automatic model, also with no more than a tenth of Lace's time."""
    trial = Trial(name, problem)
    likelihood = "categorical" if problem.categories else "gaussian"
    make = partial(MCVQ, "auto", "auto", likelihood=likelihood, random_state=0)
    MCVQ(2, 2, likelihood=likelihood, tol=1e9).fit(problem.X[:50])  # compiles
    rows: list[Row] = []
    if _lace.is_installed():
        rows.append(trial.lace(lambda text: progress(f"{name}: Lace, {text}")))
    progress(f"{name}: MCVQ")
    rows.append(trial.fit("MCVQ, automatic", make()))
    if _lace.is_installed():
        budget = float(rows[0]["seconds"]) / 20  # calibration comes on top
        progress(f"{name}: MCVQ in {budget:.1f} s")
        rows.append(trial.fit("MCVQ, automatic, a tenth of the time", make(max_time=budget)))
    progress(f"{name}: PartsImputer")
    rows.append(trial.fit("PartsImputer", PartsImputer(likelihood=likelihood, random_state=0)))
    if not problem.categories:
        progress(f"{name}: MCFA")
        rows.append(trial.fit("MCFA, automatic", MCFA("auto", "auto", random_state=0)))
    for row in rows:
        if _lace.is_installed():
            row["Lace / ours"] = float(rows[0]["seconds"]) / float(row["seconds"])
    if not _lace.is_installed():
        rows.append({"data": name, "method": f"Lace: {_lace.MISSING}"})
    return rows


@register("sizes_lace")
def sizes_lace(progress: Callable[[str], None]) -> list[Row]:
    """Automatic sizes against Lace on three tables: time, and scores of held-out cells.

    Nats per cell, and what `impute` puts there. Lace runs until its chains' scores settle.
    """
    return [row for name, make in PROBLEMS.items() for row in compare(name, make(), progress)]
