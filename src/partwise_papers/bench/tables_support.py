"""Real tables, a fifth of their cells hidden: do samples and intervals respect the columns?

Bounds, whole numbers and decimals are those of the observed cells. An interval of 90 % should
contain 90 % of the hidden cells of a table, and of each of its columns; a column of few levels that
are hard to predict is covered more often, since its intervals contain whole levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from partwise import MCVQ
from partwise_papers.bench import register
from partwise_papers.bench._rivals import is_text
from partwise_papers.bench.tables_rivals import TABLES, Trial
from partwise_papers.registry import Array, Row

EIGHT = (
    "iris", "wine", "breast cancer", "diabetes", "anes96", "fair", "modechoice", "randhie",
)  # fmt: skip
N_SAMPLES = 2000
COVERAGE = 0.9

# Hidden cells from which on the coverage of a single column is reported.
CELLS_PER_COLUMN = 30


def _decimals(values: Array) -> int | None:
    """Decimals that all values have, None if there are more than six."""
    digits = (k for k in range(7) if np.allclose(values, np.round(values, k), rtol=0, atol=1e-9))
    return next(digits, None)


def _outside(sampled: Array, observed: Array) -> Array:
    """Which samples lie outside the range of the observed values, or have other decimals."""
    out = (sampled < observed.min()) | (sampled > observed.max())
    decimals = _decimals(observed)
    if decimals is not None:
        out |= ~np.isclose(sampled, np.round(sampled, decimals), rtol=0, atol=1e-9)
    return out


@register("tables_support")
def tables_support(progress: Callable[[str], None]) -> list[Row]:
    """Real mixed tables: samples in the support of every column, and coverage of 90 % intervals.

    A fifth of the cells is held out. The share of samples inside counts all numeric cells of 2000
    sampled rows; coverage is that of held-out numeric cells, over the table and in its worst column
    of at least 30 held-out cells.
    """
    rows: list[Row] = []
    for name in EIGHT:
        progress(name)
        rows.append({"table": name, **_measured(Trial(TABLES[name]()))})
    return rows


def _measured(trial: Trial) -> Row:
    table = trial.holes.table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about constant and integer columns
        model = MCVQ("auto", "auto", likelihood="auto", random_state=0).fit(table)
    sampled: Any = model.sample(N_SAMPLES, random_state=0)[0]
    lower, upper = model.predict_interval(table, coverage=COVERAGE)
    numbers = [column for column in table if not is_text(table[column])]
    outside, inside, per_column = [], [], []
    for column in numbers:
        observed = table[column].dropna().to_numpy(dtype=float)
        outside.append(_outside(sampled[column].to_numpy(dtype=float), observed))
        hidden = (table[column].isna() & trial.complete[column].notna()).to_numpy()
        ends = (end[column].to_numpy(dtype=float)[hidden] for end in (lower, upper))
        low, high = ends
        true = trial.complete[column].to_numpy(dtype=float)[hidden]
        known = ~np.isnan(low)  # unordered levels have no interval
        inside.append(((low <= true) & (true <= high))[known])
        if known.sum() >= CELLS_PER_COLUMN:
            per_column.append(float(inside[-1].mean()))
    return {
        "rows": len(table),
        "numeric columns": len(numbers),
        "samples inside": 1.0 - float(np.concatenate(outside).mean()),
        "coverage": float(np.concatenate(inside).mean()),
        "worst column": min(per_column, default=float("nan")),
        "parts": int(model.n_parts_),
    }
