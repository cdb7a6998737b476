"""Tables larger than memory: mixed columns in parquet files, fitted and imputed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

from partwise import MCVQ, write_parquet
from partwise.datasets import make_survey
from partwise_papers.bench import register
from partwise_papers.registry import Row

N_FILES, N_PARTS, N_STATES = 20, 4, 5  # four parts have 20 columns

# EM iterations of each fit after those of annealing: rows per second are compared, not the way to
# convergence. PARTWISE_BENCH_GATING=tied leaves out annealing.
N_SWEEPS = 10


def _anonymous(process: str = "self") -> float:
    """Megabytes of anonymous memory of a process; NaN where the system does not report it."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return float("nan")
    found = (float(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon"))
    return next(found, float("nan"))  # of a process that has ended there is none


@contextmanager
def _peak() -> Iterator[list[float]]:
    """The largest anonymous memory while it lasts, sampled every 20 ms."""
    found, ended = [_anonymous()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            found[0] = max(found[0], _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def write_survey(folder: Path, n_rows: int) -> None:
    """Files of a synthetic survey, a fifth of the values missing."""
    survey = make_survey(n_rows, n_parts=N_PARTS, n_columns_per_kind=1, missing=0.2, random_state=0)
    step = -(-n_rows // N_FILES)
    for i in range(N_FILES):
        part = pl.from_pandas(survey.frame.iloc[i * step : (i + 1) * step])
        part.write_parquet(folder / f"{i:02d}.parquet", row_group_size=1 << 17)


def _model() -> MCVQ:
    return MCVQ(
        N_PARTS,
        N_STATES,
        likelihood="auto",
        gating=os.environ.get("PARTWISE_BENCH_GATING", "annealed"),
        random_state=0,
        max_iter=N_SWEEPS,
        tol=0.0,
    )


def table_files(n_rows: int, progress: Callable[[str], None]) -> list[Row]:
    """Fit and impute a table in files, and a slice of it in memory, in one run."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "in", Path(place) / "out"
        folder.mkdir()
        progress("write the files")
        writing = get_context("spawn").Process(target=write_survey, args=(folder, n_rows))
        writing.start()  # in its own process, whose memory is not counted
        writing.join()
        part = pl.read_parquet(folder / "00.parquet")
        model, slice_model = _model(), _model()
        steps: list[tuple[str, int, Callable[[], object]]] = [
            ("fit files", n_rows, lambda: model.fit(folder)),
            ("impute files", n_rows, lambda: write_parquet(model.impute, folder, out)),
            ("fit slice in memory", len(part), lambda: slice_model.fit(part)),
            ("impute slice in memory", len(part), lambda: slice_model.impute(part)),
        ]
        for name, n, run in steps:
            progress(name)
            before, used = time.perf_counter(), time.process_time()
            with _peak() as peak:
                run()
            seconds, used = time.perf_counter() - before, time.process_time() - used
            rows.append(
                {
                    "step": name,
                    "rows": n,
                    "seconds": seconds,
                    "rows per second": n / seconds,
                    "rows per CPU s": n / used,
                    "peak anonymous MB": peak[0],
                }
            )
    for own, other in zip(rows[:2], rows[2:], strict=True):
        for unit, share in (("second", "share of speed"), ("CPU s", "share of speed by CPU")):
            own[f"{share} in memory"] = own[f"rows per {unit}"] / other[f"rows per {unit}"]
    return rows


def _command(*words: str) -> tuple[float, float]:
    """Seconds and peak anonymous memory, in megabytes, of a command."""
    before, peak = time.perf_counter(), 0.0
    process = subprocess.Popen([sys.executable, "-m", "partwise", *words])
    while process.poll() is None:
        peak = max(peak, np.nan_to_num(_anonymous(str(process.pid))))
        time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"partwise {words[0]} ended with {process.returncode}")
    return time.perf_counter() - before, peak


@register("table_files_command")
def table_files_command(progress: Callable[[str], None]) -> list[Row]:
    """A survey of 1M rows x 20 columns in 20 files: `partwise fit`, then `partwise impute`."""
    n_rows, rows = int(os.environ.get("PARTWISE_BENCH_ROWS", 1_000_000)), list[Row]()
    with tempfile.TemporaryDirectory() as place:
        folder, model, out = (str(Path(place) / name) for name in ("in", "model", "out"))
        Path(folder).mkdir()
        progress("write the files")
        writing = get_context("spawn").Process(target=write_survey, args=(Path(folder), n_rows))
        writing.start()
        writing.join()
        sizes = ("--parts", str(N_PARTS), "--states", str(N_STATES), "--seed", "0")
        for words in (("fit", folder, *sizes, "-o", model), ("impute", model, folder, "-o", out)):
            progress(f"partwise {words[0]}")
            seconds, peak = _command(*words)
            rows.append(
                {
                    "step": f"partwise {words[0]}",
                    "rows": n_rows,
                    "seconds": seconds,
                    "rows per second": n_rows / seconds,
                    "peak anonymous MB": peak,
                }
            )
    return rows


@register("table_files")
def table_files_small(progress: Callable[[str], None]) -> list[Row]:
    """A survey of 1M rows x 20 mixed columns in 20 parquet files: fit, impute to parquet."""
    return table_files(int(os.environ.get("PARTWISE_BENCH_ROWS", 1_000_000)), progress)


@register("table_files_200m")
def table_files_large(progress: Callable[[str], None]) -> list[Row]:
    """The same with 10M rows, 200 million cells."""
    return table_files(10_000_000, progress)
