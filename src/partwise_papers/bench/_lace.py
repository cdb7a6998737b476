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

from partwise_papers.registry import Array

MISSING = "not measured, since lace is not installed; pip install pylace"

N_CHAINS = 8

# Chains have settled when their scores, each the mean over a round, have twice risen by less than
# this many nats per cell: far less than held-out cells can resolve. Or when rounds are over.
ROUND = 50
SETTLED = 0.001
MOST_ROUNDS = 40


def is_installed() -> bool:
    """Whether there is something to compare with."""
    return importlib.util.find_spec("lace") is not None


class Lace:
    """Chains on a table: columns of numbers, and of text, which Lace takes for categories."""

    def __init__(self, frame: Any) -> None:
        self.n_cells = int(frame.notna().to_numpy().sum())
        # Lace knows rows by their names, and a missing category by None.
        frame = frame.reset_index(drop=True)
        kinds = {name: x.dtype if x.dtype.kind == "f" else object for name, x in frame.items()}
        frame = frame.astype(object).where(frame.notna(), None).astype(kinds)
        lace = importlib.import_module("lace")
        self.engine: Any = lace.Engine.from_df(frame, n_states=N_CHAINS, rng_seed=0)

    def settle(self, progress: Callable[[str], None]) -> int:
        """Run the chains until their scores settle; the number of steps taken."""
        last, quiet = -np.inf, 0
        for i in range(1, MOST_ROUNDS + 1):
            self.engine.update(ROUND, quiet=True)
            scores = self.engine.diagnostics("score").to_numpy()[-ROUND:].astype(float)
            level = float(scores.mean()) / self.n_cells
            progress(f"{i * ROUND} steps, score {level:.4f} nats per cell")
            quiet = quiet + 1 if level - last < SETTLED else 0
            last = level
            if quiet == 2:
                break
        return i * ROUND

    def density(self, column: str, rows: Array, values: Array) -> Array:
        """Log-likelihood of cells of a column."""
        names, true = [str(row) for row in rows], list(values)
        # Twice the first one: Lace answers in another form where one cell is asked for.
        asked = {"rows": [*names, names[0]], "values": [*true, true[0]]}
        found = self.engine.surprisal(column, **asked)["surprisal"].to_numpy()
        return -np.asarray(found[:-1], dtype=float)

    def impute(self, column: str, rows: Array) -> Array:
        """The likeliest values of cells of a column."""
        names = [str(row) for row in rows]
        return np.array(
            list(self.engine.impute(column, rows=names, with_uncertainty=False)[column])
        )
