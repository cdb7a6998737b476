"""Rows on disk against rows in memory, and a cluster of two workers against one."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise import MCVQ, DaskRunner, RowSource
from partwise_papers.bench import register
from partwise_papers.bench._sweep import of_states
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Array, Row

N_COLUMNS, N_PARTS, N_STATES = 1000, 8, 8
SLICE = 20_000  # rows held in memory
WRITTEN = 10_000  # rows generated and written at a time

# An iteration over the cluster's rows takes one worker about ten seconds, in chunks of one.
CLUSTER_ROWS, CLUSTER_CHUNK = 1_000_000, 50_000


def _drawn(n_rows: int, seed: int) -> Array:
    """Rows with planted parts, float32."""
    means = np.random.default_rng(0).standard_normal((N_STATES, N_COLUMNS), dtype=np.float32)
    rng = np.random.default_rng([1, seed])
    states = rng.integers(N_STATES, size=(n_rows, N_PARTS))
    X = rng.standard_normal((n_rows, N_COLUMNS), dtype=np.float32)
    X += means[states[:, np.arange(N_COLUMNS) % N_PARTS], np.arange(N_COLUMNS)]
    return X


def _write(path: Path, n_rows: int, progress: Callable[[str], None]) -> None:
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_COLUMNS))
    for i in range(0, n_rows, WRITTEN):
        X[i : i + WRITTEN] = _drawn(min(WRITTEN, n_rows - i), i)
        if i % (25 * WRITTEN) == 0:
            progress(f"writing {path.name}: {i} of {n_rows} rows")
    X.flush()


def _anonymous_mb() -> float:
    """RssAnon of this process: what it has allocated, files that it has mapped left out."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("RssAnon"))
    return float(line.split()[1]) / 1024


def _fit_file(path: str) -> tuple[float, float]:
    """Seconds and most anonymous memory (MB) of a fit of three sweeps."""
    most, done = [_anonymous_mb()], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            most.append(_anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MCVQ(N_PARTS, N_STATES, gating="tied", max_iter=3, tol=0, random_state=0).fit(
            np.load(path, mmap_mode="r")
        )
    took = time.perf_counter() - begin
    done.set()
    watcher.join()
    return took, max(most)


def _forget_file(path: Path) -> None:
    """Ask the system to drop a file from its cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _out_of_core(n_rows: int, progress: Callable[[str], None]) -> list[Row]:
    n_states, parts = (N_STATES,) * N_PARTS, np.arange(N_COLUMNS) % N_PARTS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        _write(path, n_rows, progress)
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            progress("a fit of three iterations, in its own process")
            took, memory = other.submit(_fit_file, str(path)).result()
        progress("iterations on a slice in memory")
        with of_states(_drawn(SLICE, 0), "gaussian", n_states, parts) as held:
            there = SLICE / best_ms(partial(held.sums, held.open), 3)
        progress("iterations on the file")
        mapped = RowSource(np.load(path, mmap_mode="r"))
        with of_states(mapped, "gaussian", n_states, parts) as on_disk:
            cached = n_rows / best_ms(partial(on_disk.sums, on_disk.open), 3)
            progress("an iteration on the file, not in the page cache")
            _forget_file(path)
            cold = n_rows / best_ms(partial(on_disk.sums, on_disk.open), 1)
    return [
        {
            "rows": n_rows,
            "size (GB)": 4e-9 * n_rows * N_COLUMNS,
            "in memory (1000 rows/s)": there,
            "file in cache (1000 rows/s)": cached,
            "file / memory": cached / there,
            "file on disk (1000 rows/s)": cold,
            "fit of 3 sweeps (s)": took,
            "RssAnon of the fit (MB)": memory,
        }
    ]


@register("out_of_core")
def out_of_core(progress: Callable[[str], None]) -> list[Row]:
    """A memory map of 0.4 GB (100000x1000 float32, MCVQ 8x8) against a slice held in memory."""
    return _out_of_core(100_000, progress)


@register("out_of_core_10gb")
def out_of_core_10gb(progress: Callable[[str], None]) -> list[Row]:
    """The same with 10 GB, written to the folder of temporary files."""
    return _out_of_core(2_500_000, progress)


def _cluster_sweeps(n_workers: int, n_rows: int, chunk: int) -> Row:
    """Seconds of a sweep, of one that has next to nothing to do, and bytes sent."""
    import dask
    import dask.array as da

    n_states, parts = (N_STATES,) * N_PARTS, np.arange(N_COLUMNS) % N_PARTS

    def rows_of(size: int) -> Any:
        chunks = [
            da.from_delayed(dask.delayed(_drawn)(size, i), (size, N_COLUMNS), dtype=np.float32)
            for i in range(n_rows // chunk)
        ]
        return RowSource(da.concatenate(chunks))

    with DaskRunner(n_workers=n_workers, threads_per_worker=1):
        with of_states(rows_of(chunk), "gaussian", n_states, parts) as run:
            took = best_ms(partial(run.sums, run.open), 3) / 1e3
            sent = len(pickle.dumps((run.model, run.open)))
            back = len(pickle.dumps(run.sums(run.open)))
        with of_states(rows_of(64), "gaussian", n_states, parts) as idle:
            spent = best_ms(partial(idle.sums, idle.open), 5) / 1e3
        return {
            "workers": n_workers,
            "blocks": run.source.n_blocks,
            "sweep (s)": took,
            "of little blocks (s)": spent,
            "parameters (MB)": sent / 1e6,
            "sums of a block (MB)": back / 1e6,
        }


def _dask_scaling(n_rows: int, chunk: int, progress: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    for n_workers in (1, 2):
        progress(f"{n_workers} workers")
        rows.append(_cluster_sweeps(n_workers, n_rows, chunk))
    alone = float(rows[0]["sweep (s)"])
    work = alone - float(rows[0]["of little blocks (s)"])
    for row in rows:
        shared = work / float(row["workers"])
        row["predicted (s)"] = shared + float(row["of little blocks (s)"])
        row["speed-up"] = alone / float(row["sweep (s)"])
    return rows


@register("dask_scaling")
def dask_scaling(progress: Callable[[str], None]) -> list[Row]:
    """An EM iteration of MCVQ 8x8 on Dask, one and two single-thread workers (4 GB)."""
    return _dask_scaling(CLUSTER_ROWS, CLUSTER_CHUNK, progress)


@register("dask_scaling_small")
def dask_scaling_small(progress: Callable[[str], None]) -> list[Row]:
    """The same with a twentieth of the rows."""
    return _dask_scaling(CLUSTER_ROWS // 20, CLUSTER_CHUNK // 5, progress)
