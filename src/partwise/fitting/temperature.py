"""Select the temperature and the number of iterations of tempered EM on held-out ratings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from partwise.data import BlockSource, ObservedCells
from partwise.data.cell_folds import CellKFold
from partwise.engine import Monitor, climb
from partwise.models.aspect import Aspect, AspectParams
from partwise.runners import runner_of

# Inverse temperatures that are tried in turn while held-out ratings gain by it, and one rating in
# how many is held out.
BETAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
HELD_ONE_IN = 10

# EM iterations over which the log density of held-out ratings is averaged before it is compared: it
# falls at first, while aspects leave their start, and may then rise for long.
PATIENCE = 10

# Most ratings on which the temperature is selected.
MOST_JUDGED = 20_000_000


def likeliest_temperature(
    model: Aspect,
    params: AspectParams,
    source: BlockSource,
    rng: np.random.Generator,
    *,
    max_iter: int,
    tol: float,
    deadline: float,
    n_jobs: int | None,
) -> tuple[float, int | None]:
    """Inverse temperature and number of iterations at which held-out ratings are likeliest."""
    source = source.sample(MOST_JUDGED, rng)
    cells = ObservedCells(source.X)
    if len(cells) < HELD_ONE_IN:
        return 1.0, None
    train, test = next(CellKFold(HELD_ONE_IN, random_state=rng).split(cells))
    tables = [cells[train].table(), cells[test].table()]
    is_sparse = sparse.issparse(source.X)
    X = sparse.hstack(tables, format="csr") if is_sparse else np.hstack(tables)
    (group,) = source.columns
    held = replace(group, index=group.index + len(group.index))
    judged = BlockSource(X, (group, held), source.weight)
    best, beta, sweeps = -np.inf, 1.0, PATIENCE
    weight = float(source.weight.sum())
    with runner_of(n_jobs, judged) as runner:
        for trial in BETAS:
            monitor = Monitor(max_iter, tol / HELD_ONE_IN, weight, deadline, PATIENCE)
            climb(replace(model, beta=trial, judged=True), params, judged, runner, monitor)
            # Before that the start, which leans on the columns' averages, is not forgotten.
            late = monitor.trace[PATIENCE:]
            if not late or max(late) <= best:
                break
            best, beta, sweeps = max(late), trial, PATIENCE + int(np.argmax(late))
    return beta, sweeps
