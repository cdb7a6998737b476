"""Rows of Dask collections, and rows of any kind whose blocks live on a Dask cluster."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from partwise.contracts import Array, DType, Runner
from partwise.data.indices import is_csr
from partwise.data.rows import STRETCH_BYTES, RowSource, converted, cut, joined_rows
from partwise.data.stores import (
    Piece,
    SomeRows,
    Store,
    as_table,
    optional,
    read_piece,
)
from partwise.typing import Matrix, OnRows, RowIndex

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.base import DaskMethodsMixin
    from dask.dataframe import DataFrame as DaskFrame
    from dask.delayed import Delayed
    from distributed import Client, Future


Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)


class Task(Protocol[Found_co]):
    """A future of a cluster."""

    def result(self, timeout: float | None = None) -> Found_co:
        """The result, waited for."""
        ...


# The client of the cluster that fits are to run on, inside of `partwise.DaskRunner`.
ACTIVE: ContextVar[Client | None] = ContextVar("partwise_dask_client", default=None)

# Blocks on a cluster are up to so many times as large as in memory, because a task costs its
# scheduler about a millisecond; but not so large that there are fewer blocks than this, which
# workers could not share evenly.
GRAIN, MIN_BLOCKS = 8, 16

# Seconds without any worker, or between looks at whether there is one.
PATIENCE = 300.0
LOOK_EVERY = 5.0


def is_dask(X: object) -> TypeGuard[DaskMethodsMixin]:
    """Whether X is a Dask collection."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__")


def as_dask_array(X: object) -> DaskArray:
    """A collection of rows as a Dask array, every row in one chunk."""
    array = cast("DaskArray", X.to_dask_array() if hasattr(X, "to_dask_array") else X)
    if getattr(array, "ndim", None) != 2:
        raise ValueError(f"X must be a Dask array or dataframe of rows and columns, not {X!r}.")
    return array.rechunk({1: -1}) if array.numblocks[1] > 1 else array


def default_client() -> Client | None:
    """The client of the cluster in use, or Dask's current client, or None."""
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

    portable = False

    def __init__(self, X: DaskArray | DaskFrame) -> None:
        dask = optional("dask", "Dask collections")
        self.names: object = None
        if not hasattr(X, "numblocks"):
            frames = optional("pandas", "Dask dataframes")
            self.names = frames.DataFrame(columns=cast("DaskFrame", X).columns)
        self.client = default_client()
        self._array = as_dask_array(X)
        if self.client is not None:
            self._array = self.client.persist(self._array)
        self.chunks = list(self._array.to_delayed()[:, 0])
        described = [dask.delayed(_describe)(chunk) for chunk in self.chunks]
        found = [self._compute(one) for one in self._begun(described)]
        self.pieces = [Piece(f"chunk {i}", *about) for i, about in enumerate(found)]
        self._last: tuple[int, Matrix | None] = (-1, None)

    def read(self, i: int, lo: int, hi: int) -> Matrix:
        """Rows of chunk ``i``."""
        last = self._last
        if last[0] != i:
            (begun,) = self._begun([self.chunks[i]])
            last = self._last = (i, as_table(self._compute(begun)))
        assert last[1] is not None
        return last[1][lo:hi]

    def _begun(self, delayed: list[Delayed]) -> Sequence[Delayed | Future]:
        """Futures of delayed values, if there is a cluster to compute them."""
        return delayed if self.client is None else self.client.compute(delayed)

    def _compute(self, begun: Delayed | Future) -> Matrix:
        if self.client is None:
            return cast("Delayed", begun).compute()
        return result_of(self.client, cast("Future", begun))

    def take(self, i: int, rows: Array) -> Matrix:
        """Some rows of chunk ``i``."""
        return self.read(i, 0, self.pieces[i].n_rows)[rows]


def _describe(chunk: ArrayLike) -> tuple[int, int, DType, int | None]:
    table = as_table(chunk)
    nnz = int(table.nnz) if is_csr(table) else None
    return int(table.shape[0]), int(table.shape[1]), table.dtype, nnz


class ClusterRows(RowSource):
    """Rows that the workers of a cluster read; only requested rows are brought here.

    Dask collections stay on the workers; files, memory maps and zarr arrays are read by the workers
    (which must see them under the same path); what is in memory here is sent to them.
    """

    def __init__(self, rows: RowSource, runner: Runner, client: Client) -> None:
        self.runner, self.client = runner, client
        self.store: Store = rows.store
        self._learn()
        self._sent: Future | None = None

    def rows_per_block(self, in_memory: int) -> int:
        """More than in memory, if there are many."""
        return min(in_memory * GRAIN, max(in_memory, -(-self.shape[0] // MIN_BLOCKS)))

    def some(self, kept: Array) -> ClusterRows:
        """The rows that a mask selects."""
        return ClusterRows(super().some(kept), self.runner, self.client)

    def future(self, lo: int, hi: int) -> Future:
        """Rows on some worker."""
        parts = [self._remote(self.store, i, a, b) for i, a, b in self.within(lo, hi)]
        return submit(
            self.client, _rows_of, parts, (hi - lo, self.shape[1]), self.dtype, self.where(lo)
        )

    def _remote(self, store: Store, i: int, lo: int, hi: int) -> Future:
        """Future of rows of a store's piece, as they are stored."""
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

    def map_rows(self, function: OnRows[Found], *aligned: Array) -> Iterator[Found]:
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

    def __getitem__(self, key: RowIndex) -> Matrix:
        """Rows brought here: a slice without steps, numbers or a mask."""
        if isinstance(key, slice):
            key = np.arange(*key.indices(self.shape[0]))
        key = np.asarray(key)
        key = np.flatnonzero(key) if key.dtype == bool else key
        rows, back = np.unique(key, return_inverse=True)
        wanted = np.zeros(self.shape[0], bool)
        wanted[rows] = True
        return joined_rows(list(self.map_rows(_masked, wanted)))[back]


def same(value: Found) -> Found:
    """The value itself; a task of it sends the value to the workers."""
    return value


def _slice(chunk: ArrayLike, lo: int, hi: int) -> Matrix:
    return as_table(chunk)[lo:hi]


def _pick(rows: Matrix, which: Array) -> Matrix:
    return rows[which]


def _read(store: Store, i: int, lo: int, hi: int) -> Matrix:
    return read_piece(store, i, lambda: store.read(i, lo, hi))


def _rows_of(parts: list[Matrix], shape: tuple[int, int], dtype: DType, name: str) -> Matrix:
    return converted(joined_rows(parts), shape, dtype, name)


def call(function: OnRows[Found], *arguments: object) -> Found:
    """``function`` of arguments."""
    return function(*arguments)


def _masked(rows: Matrix, wanted: Array) -> Matrix:
    return rows[np.flatnonzero(wanted)]


def submit(client: Client, function: OnRows[object], *arguments: object) -> Future:
    """A task; its inputs are in the graph, so that it can be repeated if a worker dies."""
    return submit_all(client, function, *([argument] for argument in arguments))[0]


def submit_all(
    client: Client, function: OnRows[object], *arguments: Iterable[object]
) -> list[Future]:
    """Tasks ``function(*items)``, an item of each argument, sent to the scheduler at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return client.map(function, *map(list, arguments), pure=False)


def result_of(client: Client, future: Task[Found]) -> Found:
    """The result of a future, waited for while the cluster is alive."""
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


def gone(client: Client) -> RuntimeError:
    """The error for a cluster that no longer answers."""
    return RuntimeError(
        f"The Dask cluster ({client}) closed, or its workers died repeatedly, before the result "
        "was there; see the logs of the workers, and fit again on a stable cluster."
    )
