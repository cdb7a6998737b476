"""Lace, where it is installed (``pip install pylace``): views of columns, categories of rows, MCMC.

A cell's log-likelihood is its own ``surprisal``: given the categories that its row has in each of
the chains, averaged over these. Its ``impute`` gives the likeliest value.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.contracts import Array
from partwise.data import Cells

MISSING = "not measured, since lace is not installed; pip install pylace"

N_CHAINS = 8

# Chains have settled when their scores, each the mean over a round, have twice risen by less than
# this many nats a cell: far less than what held-out cells tell apart. Or when rounds are over.
ROUND = 50
SETTLED = 0.001
MOST_ROUNDS = 40


def is_installed() -> bool:
    """Whether there is something to compare with."""
    return importlib.util.find_spec("lace") is not None


class Lace:
    """Chains on a table of numbers, or of categories."""

    def __init__(self, train: Cells, categories: bool) -> None:
        import pandas as pd

        self.categories, self.n_cells = categories, len(train)
        table = train.table()
        coded = {f"c{d}": self._values(table[:, d]) for d in range(table.shape[1])}
        frame = pd.DataFrame(coded)
        lace = importlib.import_module("lace")
        self.engine: Any = lace.Engine.from_df(frame, n_states=N_CHAINS, rng_seed=0)

    def _values(self, numbers: Array) -> Any:
        """Numbers as they are; categories as text, which Lace takes for such."""
        if not self.categories:
            return numbers
        return [None if np.isnan(x) else f"level {x:g}" for x in numbers]

    def settle(self, progress: Callable[[str], None]) -> int:
        """Run the chains until their scores settle; the number of steps taken."""
        last, quiet = -np.inf, 0
        for i in range(1, MOST_ROUNDS + 1):
            self.engine.update(ROUND, quiet=True)
            scores = self.engine.diagnostics("score").to_numpy()[-ROUND:].astype(float)
            level = float(scores.mean()) / self.n_cells
            progress(f"{i * ROUND} steps, score {level:.4f} nats a cell")
            quiet = quiet + 1 if level - last < SETTLED else 0
            last = level
            if quiet == 2:
                break
        return i * ROUND

    def judge(self, test: Cells) -> tuple[Array, Array]:
        """Log-likelihood of every cell, and whether or by how much its imputed value is wrong."""
        rows, columns = test.rows, test.columns
        density, error = np.empty(len(test)), np.empty(len(test))
        for d in np.unique(columns):
            some = np.flatnonzero(columns == d)
            names = [str(row) for row in rows[some]]
            true = list(self._values(test.values[some]))
            # Twice the first one: Lace answers in another form where one cell is asked for.
            asked = {"rows": [*names, names[0]], "values": [*true, true[0]]}
            found = self.engine.surprisal(f"c{d}", **asked)["surprisal"].to_numpy()
            density[some] = -found[:-1]
            filled = self.engine.impute(f"c{d}", rows=names, with_uncertainty=False)[f"c{d}"]
            if self.categories:
                error[some] = [a != b for a, b in zip(filled, true, strict=True)]
            else:
                error[some] = filled.to_numpy() - np.array(true)
        return density, error
