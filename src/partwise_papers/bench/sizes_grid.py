"""Sizes selected by the ELBO against a grid of sizes chosen by held-out cells."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from partwise import MCVQ, CellKFold, ObservedCells
from partwise.datasets import load_cbcl_faces, load_movielens, load_nips, load_usps
from partwise_papers.bench import register
from partwise_papers.registry import Row

# Every tenth row is held out whole, and of the others one cell in ten.
SHARE = 10

# Words of NIPS that are used most. Zeros are cells as well, and those held out must have a place:
# the table is dense.
N_WORDS = 300


class Problem(NamedTuple):
    """A table, its likelihood, and the numbers of parts and of states to try."""

    X: Any
    likelihood: str
    n_parts: tuple[int, ...]
    n_states: tuple[int, ...]
    absent: str = "unobserved"


def _cbcl() -> Problem:
    faces = load_cbcl_faces().data[::6]
    return Problem(faces, "gaussian", (10, 20, 40, 60, 80), (5, 10, 15, 20, 30))


def _usps() -> Problem:
    # Ink or not: half of the grey values are the ends of the scale, of which no density is finite.
    ink = (load_usps().data[::6] > 0).astype(float)
    return Problem(ink, "bernoulli", (2, 5, 10, 20, 30), (5, 10, 20, 30, 40))


def _movielens() -> Problem:
    people = load_movielens("1m").data[::4]
    return Problem(people, "categorical", (1, 2, 4, 8, 16), (2, 3, 4, 6, 8))


def _nips() -> Problem:
    X = load_nips().data
    often = np.sort(np.argsort(-X.sum(axis=0), kind="stable")[:N_WORDS])
    return Problem(X[:, often], "poisson", (5, 10, 20, 40, 80), (2, 4, 8, 12, 20), "zero")


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "CBCL, every 6th face": _cbcl,
    "USPS, every 6th digit, binary": _usps,
    "MovieLens-1M, every 4th person": _movielens,
    f"NIPS, {N_WORDS} words": _nips,
}


class Judged(NamedTuple):
    """A fitted model, how likely it finds what was held out (nats), and seconds to fit."""

    model: Any
    cells: float
    rows: float
    seconds: float


class Trial:
    """A table in three: cells to learn from, cells to choose by, and rows that nobody has seen."""

    def __init__(self, problem: Problem) -> None:
        X = problem.X
        aside = np.arange(X.shape[0]) % SHARE == SHARE // 2
        cells = ObservedCells(X[~aside], problem.absent)
        split = next(CellKFold(SHARE, random_state=0).split(cells))
        self.train, self.test = (cells[some] for some in split)
        self.rows = X[aside]
        self.options: dict[str, Any] = {"likelihood": problem.likelihood, "random_state": 0}
        MCVQ(2, 2, tol=1e9, **self.options).fit(self.train)  # compiles

    def judge(self, n_parts: Any, n_states: Any) -> Judged:
        """Fit and judge a model of these sizes."""
        model = MCVQ(n_parts, n_states, **self.options)
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sizes that suit nothing may not converge
            model.fit(self.train)
        took = time.perf_counter() - begun
        return Judged(model, float(model.score(self.test)), float(model.score(self.rows)), took)


def compare(name: str, problem: Problem, progress: Callable[[str], None]) -> Row:
    """Every size of the grid, of which the held-out cells choose one, and the automatic model."""
    trial, tried = Trial(problem), {}
    for K in problem.n_parts:
        for J in problem.n_states:
            found = tried[K, J] = trial.judge(K, J)._replace(model=None)
            progress(f"{name}: {K}x{J}, cells {found.cells:.4f}, rows {found.rows:.2f}, "
                     f"{found.seconds:.1f} s")  # fmt: skip
    sizes = max(tried, key=lambda at: tried[at].cells)
    best, total = tried[sizes], sum(found.seconds for found in tried.values())
    progress(f"{name}: automatic")
    auto = trial.judge("auto", "auto")
    n_states = auto.model.n_states_
    return {
        "data": name,
        "best of the grid": "{}x{}".format(*sizes),
        "automatic": f"{len(n_states)} x {min(n_states)} to {max(n_states)}",
        "grid: cells": best.cells,
        "automatic: cells": auto.cells,
        "grid: rows": best.rows,
        "automatic: rows": auto.rows,
        "grid (s)": total,
        "automatic (s)": auto.seconds,
        "grid / automatic": total / auto.seconds,
    }


@register("sizes_grid")
def sizes_grid(progress: Callable[[str], None]) -> list[Row]:
    """Automatic sizes against a 5x5 grid chosen by held-out cells: log-likelihood and time.

    Nats per cell held out (the same by which the grid is chosen), and nats per row that nobody saw.
    """
    return [compare(name, make(), progress) for name, make in PROBLEMS.items()]
