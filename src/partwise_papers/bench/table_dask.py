"""A table of mixed columns on a Dask cluster: one worker against two, each with one thread."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

from partwise import MCVQ, DaskRunner
from partwise_papers.bench import register
from partwise_papers.bench.table_files import N_PARTS, N_STATES, write_survey
from partwise_papers.registry import Row

N_ROWS = 1_000_000

# Enough EM iterations that the passes which learn and encode the columns are a part of the fit, as
# in practice, and not most of it.
N_SWEEPS = 30


def _cpu() -> float:
    return time.process_time()


@register("table_dask")
def table_dask(progress: Callable[[str], None]) -> list[Row]:
    """A survey of 1M rows x 20 mixed columns: fit on Dask with one and two workers of a thread."""
    import dask.dataframe

    rows: list[Row] = []
    n_rows = int(os.environ.get("PARTWISE_BENCH_ROWS", N_ROWS))
    with tempfile.TemporaryDirectory() as place:
        progress("write the files")
        writing = get_context("spawn").Process(target=write_survey, args=(Path(place), n_rows))
        writing.start()
        writing.join()
        for n_workers in (1, 2):
            progress(f"{n_workers} worker(s)")
            options = {"threads_per_worker": 1, "processes": True, "memory_limit": 0}
            with DaskRunner(n_workers=n_workers, **options) as client:
                client.run(_warm_up)
                X = dask.dataframe.read_parquet(place)
                model = MCVQ(
                    N_PARTS,
                    N_STATES,
                    likelihood="auto",
                    gating="tied",
                    random_state=0,
                    max_iter=N_SWEEPS,
                    tol=0.0,
                )
                before, here = sum(client.run(_cpu).values()), _cpu()
                begun = time.perf_counter()
                model.fit(X)
                seconds = time.perf_counter() - begun
                rows.append(
                    {
                        "workers": n_workers,
                        "seconds": seconds,
                        "CPU s of workers": sum(client.run(_cpu).values()) - before,
                        "CPU s of client and scheduler": _cpu() - here,
                        "lower bound": model.lower_bound_,
                    }
                )
    rows[1]["speed of two against one"] = float(str(rows[0]["seconds"])) / float(
        str(rows[1]["seconds"])
    )
    return rows


def _warm_up() -> None:
    """Import and compile before the clock runs."""
    from partwise import make_survey

    table = make_survey(500, n_parts=2, n_columns_per_kind=1, missing=0.2, random_state=0).frame
    MCVQ(2, 2, likelihood="auto", gating="tied", max_iter=2, random_state=0).fit(table)
