"""Rows of Dask collections, and rows of any kind whose blocks live on a Dask cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.data.rows import STRETCH_BYTES, RowSource, converted, cut, joined_rows
from partwise.data.stores import (
    Piece,
    SomeRows,
    Store,
    as_table,
    optional,
    read_piece,
)

# The client of the cluster that fits are to run on, inside of `partwise.DaskRunner`.
ACTIVE: ContextVar[Any] = ContextVar("partwise_dask_client", default=None)

# Blocks on a cluster are so many times as large as in memory: a task costs its scheduler about a
# millisecond.
GRAIN = 8

# Seconds without any worker, or between looks at whether there is one.
PATIENCE = 300.0
LOOK_EVERY = 5.0


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__")


def as_dask_array(X: Any) -> Any:
    """A collection of rows as a Dask array, every row in one chunk."""
    array = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    if getattr(array, "ndim", None) != 2:
        raise ValueError(f"X must be a Dask array or dataframe of rows and columns, not {X!r}.")
    return array.rechunk({1: -1}) if array.numblocks[1] > 1 else array


def default_client() -> Any:
    """The client of the cluster in use, or the one that Dask itself would use, or None."""
    if ACTIVE.get() is not None:
        return ACTIVE.get()
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


class DaskStore:
    """Chunks of a Dask array or dataframe; each is computed when it is read, the last one kept.

    With a client the chunks are computed once and stay in the memory of its workers.
    """

    def __init__(self, X: Any) -> None:
        dask = optional("dask", "Dask collections")
        self.names = None
        if hasattr(X, "to_dask_array"):
            self.names = optional("pandas", "Dask dataframes").DataFrame(columns=X.columns)
        self.client = default_client()
        self._array = as_dask_array(X)
        if self.client is not None:
            self._array = self.client.persist(self._array)
        self.chunks = list(self._array.to_delayed()[:, 0])
        described = [dask.delayed(_describe)(chunk) for chunk in self.chunks]
        found = [self._compute(one) for one in self._begun(described)]
        self.pieces = [Piece(f"chunk {i}", *about) for i, about in enumerate(found)]
        self._last: tuple[int, Any] = (-1, None)

    def read(self, i: int, lo: int, hi: int) -> Any:
        """Rows of chunk ``i``."""
        last = self._last
        if last[0] != i:
            (begun,) = self._begun([self.chunks[i]])
            last = self._last = (i, as_table(self._compute(begun)))
        return last[1][lo:hi]

    def _begun(self, delayed: list[Any]) -> list[Any]:
        """Futures of what is to be computed, if there are workers to do it."""
        return delayed if self.client is None else self.client.compute(delayed)

    def _compute(self, begun: Any) -> Any:
        return begun.compute() if self.client is None else result_of(self.client, begun)

    def take(self, i: int, rows: Array) -> Any:
        """Some rows of chunk ``i``."""
        return self.read(i, 0, self.pieces[i].n_rows)[rows]


def _describe(chunk: Any) -> tuple[int, int, np.dtype[Any], int | None]:
    table = as_table(chunk)
    nnz = int(table.nnz) if sparse.issparse(table) else None
    return int(table.shape[0]), int(table.shape[1]), table.dtype, nnz


class ClusterRows(RowSource):
    """Rows that the workers of a cluster read and look at; what comes here is only asked for.

    Dask collections stay where they are; files, memory maps and zarr arrays are read by the workers
    (which must see them under the same path); what is in memory here is sent to them.
    """

    grain = GRAIN

    def __init__(self, rows: RowSource, runner: Any) -> None:
        self.runner, self.client = runner, runner.client
        self.store: Store = rows.store
        self._learn()
        self._sent: Any = None

    def some(self, kept: Array) -> ClusterRows:
        """These rows without those that a mask leaves out."""
        return ClusterRows(super().some(kept), self.runner)

    def future(self, lo: int, hi: int) -> Any:
        """Rows on some worker."""
        parts = [self._remote(self.store, i, a, b) for i, a, b in self.within(lo, hi)]
        return submit(
            self.client, _rows_of, parts, (hi - lo, self.shape[1]), self.dtype, self.where(lo)
        )

    def _remote(self, store: Any, i: int, lo: int, hi: int) -> Any:
        """Future of rows of a store's piece, as they lie there."""
        if isinstance(store, DaskStore):
            return submit(self.client, _slice, self.client.compute(store.chunks[i]), lo, hi)
        if isinstance(store, SomeRows):
            piece, rows = store.chosen(i, lo, hi)
            first, last = int(rows[0]), int(rows[-1]) + 1
            return submit(
                self.client, _pick, self._remote(store.store, piece, first, last), rows - first
            )
        if not store.portable:
            return submit(self.client, same, store.read(i, lo, hi))
        if self._sent is None:
            self._sent = submit(self.client, same, store)
        return submit(self.client, _read, self._sent, i, lo, hi)

    def map_rows(self, function: Callable[..., Any], *aligned: Array) -> Iterator[Any]:
        """As `partwise.data.rows.map_rows`, on the workers."""
        width = self.shape[1] * self.dtype.itemsize
        bounds = cut(self, max(STRETCH_BYTES // max(width, 1), 1))
        sent = submit(self.client, same, function)
        waiting = [
            submit(self.client, call, sent, self.future(lo, hi), *(v[lo:hi] for v in aligned))
            for lo, hi in bounds
        ]
        for (lo, hi), future in zip(bounds, waiting, strict=True):
            try:
                yield result_of(self.client, future)
            except ValueError as error:
                raise ValueError(f"{self.where(lo, hi)}: {error}") from error

    def __getitem__(self, key: Any) -> Any:
        """Rows brought here: a slice without steps, numbers or a mask."""
        if isinstance(key, slice):
            key = np.arange(*key.indices(self.shape[0]))
        key = np.asarray(key)
        key = np.flatnonzero(key) if key.dtype == bool else key
        rows, back = np.unique(key, return_inverse=True)
        wanted = np.zeros(self.shape[0], bool)
        wanted[rows] = True
        return joined_rows(list(self.map_rows(_masked, wanted)))[back]


def same(value: Any) -> Any:
    """What is sent to the workers with the task that gives it back."""
    return value


def _slice(chunk: Any, lo: int, hi: int) -> Any:
    return as_table(chunk)[lo:hi]


def _pick(rows: Any, which: Array) -> Any:
    return rows[which]


def _read(store: Store, i: int, lo: int, hi: int) -> Any:
    return read_piece(store, i, lambda: store.read(i, lo, hi))


def _rows_of(parts: list[Any], shape: tuple[int, int], dtype: Any, name: str) -> Any:
    return converted(joined_rows(parts), shape, dtype, name)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function`` of arguments."""
    return function(*arguments)


def _masked(rows: Any, wanted: Array) -> Any:
    return rows[np.flatnonzero(wanted)]


def submit(client: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """A task; what it needs is in the graph, so that it can be done again if a worker dies."""
    return submit_all(client, function, *([argument] for argument in arguments))[0]


def submit_all(client: Any, function: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
    """Tasks ``function(*items)``, an item of each argument, told to the scheduler all at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return client.map(function, *map(list, arguments), pure=False)


def result_of(client: Any, future: Any) -> Any:
    """What a future holds, waited for as long as there is a cluster that works on it."""
    from concurrent.futures import CancelledError

    distributed = optional("distributed", "Dask clusters")
    lost = (CancelledError, distributed.comm.CommClosedError, distributed.KilledWorker)
    waited = 0.0
    while True:
        try:
            return future.result(timeout=LOOK_EVERY)
        except distributed.TimeoutError:
            alive = client.status == "running" and client.scheduler_info()["workers"]
            waited = 0.0 if alive else waited + LOOK_EVERY
            if waited >= PATIENCE or client.status == "closed":
                raise gone(client) from None
        except lost as error:
            raise gone(client) from error


def gone(client: Any) -> RuntimeError:
    """What to say of a cluster that no longer answers."""
    return RuntimeError(
        f"The Dask cluster ({client}) went away, or its workers died over and over, before the "
        "answer came; see the workers' logs, and fit again on a cluster that stays."
    )
