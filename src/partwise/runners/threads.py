"""Blocks on a pool of threads; numpy and the compiled kernels release the interpreter lock.

While the pool is open BLAS is held to one thread a worker, or the two kinds of threads would fight
for the same cores. The calling thread reads while the workers encode and compute; at most two
blocks a worker are under way, so that a source which makes its blocks when asked never holds many.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Self, cast

import joblib
from threadpoolctl import ThreadpoolController, threadpool_limits

from partwise.contracts import OnBlock, Result, Source
from partwise.data.dask import ClusterRows
from partwise.data.source import BlockSource
from partwise.runners.serial import Serial, work


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads of their own; to look for them takes longer than one row."""
    return ThreadpoolController()


class SharedLimit:
    """A limit of BLAS to one thread that concurrent fits share; the last to close it lifts it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_open = 0
        self._limits: threadpool_limits | None = None

    def open(self) -> None:
        """Set the limit, or join those who have."""
        with self._lock:
            if self._n_open == 0:
                self._limits = _libraries().limit(limits=1, user_api="blas")
            self._n_open += 1

    def close(self) -> None:
        """Lift the limit if no other fit is open."""
        with self._lock:
            self._n_open -= 1
            if self._n_open == 0 and self._limits is not None:
                self._limits.restore_original_limits()


_LIMIT = SharedLimit()


class OneThread(Serial):
    """Blocks in turn, matrix products on one thread; to be used as a context.

    BLAS adds in another order on several threads, so that results would depend on how many there
    are.
    """

    def __enter__(self) -> Self:
        _LIMIT.open()
        return self

    def __exit__(self, *error: object) -> None:
        _LIMIT.close()


class Threads(OneThread):
    """A pool of ``n_workers`` threads, to be used as a context."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def __enter__(self) -> Self:
        super().__enter__()
        self._pool = ThreadPoolExecutor(self.n_workers)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        super().__exit__(*error)

    def map(
        self, function: OnBlock[Result], source: Source, *arguments: Iterable[object]
    ) -> Iterator[Result]:
        """``function(block, *items)`` in order; rows are read a few blocks ahead."""
        waiting: deque[Future[Result]] = deque()
        for items in zip(source.makers(), *arguments, strict=True):
            waiting.append(self._pool.submit(work, function, source, *items))
            if len(waiting) >= 2 * self.n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def runner_for(n_jobs: int | None, n_blocks: int, *, reads: bool = False) -> Serial:
    """Threads where they help; one at least where a source ``reads``, so as to read ahead.

    ``None`` takes as many as BLAS would use by itself (joblib and threadpoolctl limits hold), so
    nested parallel work does not crowd the machine; -1 takes every core.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs=0 must be a number of threads, -1 for every core, or None.")
    if n_jobs is None:
        info = _libraries().select(user_api="blas").info() if n_blocks > 1 else ()
        n_workers = max((library["num_threads"] for library in info), default=1)
    else:
        n_workers = joblib.effective_n_jobs(n_jobs)
    n_workers = min(n_workers, n_blocks)
    return Threads(n_workers) if n_workers > 1 or reads else OneThread()


def runner_of(n_jobs: int | None, source: BlockSource) -> Serial:
    """The runner for a source of rows: where these are, or threads here."""
    if isinstance(source.X, ClusterRows):
        return cast(Serial, source.X.runner)
    return runner_for(n_jobs, source.n_blocks, reads=source.reads)
