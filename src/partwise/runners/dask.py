"""Blocks on the workers of a Dask cluster."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakKeyDictionary

from partwise.contracts import (
    Array,
    Block,
    Memory,
    Model,
    OnBlock,
    Prepared,
    Result,
    Source,
    Total,
)
from partwise.data.dask import (
    ACTIVE,
    ClusterRows,
    DaskStore,
    call,
    result_of,
    same,
    submit,
    submit_all,
)
from partwise.data.rows import Rows, RowSource
from partwise.data.source import BlockSource, RowBlock
from partwise.data.stores import ArrayStore, optional
from partwise.runners.serial import Serial
from partwise.typing import Matrix

if TYPE_CHECKING:
    from distributed import Client, Future

Params = TypeVar("Params")
View = TypeVar("View")

# Sums that one task adds up: fewer tasks than pairs would make, and still little to move at once.
FAN_IN = 8


class DaskRunner:
    """Context in which fits run on a Dask cluster.

    Rows are read and blocks are kept by the workers; in every EM iteration the parameters are sent
    once and the sums are added in a tree. The fitted model is the same as without a cluster, up to
    rounding. The fit of a Dask array or dataframe runs on the cluster of the current client
    without this context.

    Parameters
    ----------
    to : Client, cluster, str or None, default=None
        A `distributed.Client`, or what it takes: an address, a cluster. None is the client in use
        or, if there is none, a new `LocalCluster`, which ends with the context.
    **options
        Of `LocalCluster`, such as ``n_workers`` and ``threads_per_worker``.

    Examples
    --------
    >>> from partwise import MCVQ, DaskRunner, make_shapes
    >>> with DaskRunner(n_workers=1, processes=False):
    ...     model = MCVQ(n_parts=3, n_states=9, random_state=0).fit(make_shapes().data)
    >>> model.gates_.shape
    (121, 3)
    """

    def __init__(self, to: object = None, **options: object) -> None:
        self.to, self.options = to, options

    def __enter__(self) -> Client:
        distributed = optional("distributed", "Dask clusters")
        self._opened: list[Client] = []
        client = self.to
        if client is None and not self.options:
            client = _current(distributed)
        if client is None:
            # Several clusters on a machine would compete for the default port of the dashboard.
            client = distributed.LocalCluster(**{"dashboard_address": ":0", **self.options})
            self._opened.append(client)
        if not isinstance(client, distributed.Client):
            client = distributed.Client(client, set_as_default=False)
            self._opened.insert(0, client)
        self._token = ACTIVE.set(client)
        return client

    def __exit__(self, *error: object) -> None:
        ACTIVE.reset(self._token)
        for one in self._opened:
            one.close()


def _current(distributed: ModuleType) -> Client | None:
    try:
        return distributed.get_client()
    except ValueError:
        return None


class ClusterRunner(Serial):
    """Maps over blocks on the workers, which keep the blocks of a source while it exists."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._blocks: WeakKeyDictionary[BlockSource, list[Future]] = WeakKeyDictionary()

    def blocks(self, source: BlockSource) -> list[Future]:
        """Futures of the blocks of a source."""
        found = self._blocks.get(source)
        if found is not None:
            return found
        rows = source.X
        assert isinstance(rows, ClusterRows)
        recipe, bounds = submit(self.client, same, source.recipe()), source.bounds
        found = submit_all(
            self.client,
            _encode,
            [recipe] * len(bounds),
            [rows.future(lo, hi) for lo, hi in bounds],
            [source.weight[lo:hi] for lo, hi in bounds],
            [None if source.labels is None else source.labels[lo:hi] for lo, hi in bounds],
        )
        if source.keeps:
            self._blocks[source] = found
        return found

    def map(
        self, function: OnBlock[Result], source: Source, *arguments: Iterable[object]
    ) -> Iterator[Result]:
        """``function(block, *items)`` in order, brought here one after the other."""
        sent = submit(self.client, same, function)
        blocks = self.blocks(cast(BlockSource, source))
        waiting = submit_all(self.client, call, [sent] * len(blocks), blocks, *arguments)[::-1]
        while waiting:
            yield result_of(self.client, waiting.pop())

    def total(
        self,
        model: Model[Params, Prepared, View, Memory, Total],
        prepared: Prepared,
        source: Source,
        memory: list[Memory],
    ) -> Total:
        """Sums of all blocks, added in a tree whose order depends on their number alone.

        The memory of rows stays on the workers, and is recomputed if one dies.
        """
        blocks = self.blocks(cast(BlockSource, source))
        sent = [submit(self.client, same, (model, prepared))] * len(blocks)
        expect = _expect if model.remembers else _expect_sums
        sums = submit_all(self.client, expect, sent, blocks, memory)
        if model.remembers:
            memory[:] = cast(list[Memory], submit_all(self.client, operator.itemgetter(0), sums))
            sums = submit_all(self.client, operator.itemgetter(1), sums)
        while len(sums) > 1:
            groups = [sums[i : i + FAN_IN] for i in range(0, len(sums), FAN_IN)]
            sums = submit_all(self.client, _add, groups)
        return result_of(self.client, sums[0])


def _encode(recipe: BlockSource, rows: Matrix, weight: Array, labels: Array | None) -> RowBlock:
    return recipe.encode(rows, weight, labels)


def _expect(
    sent: tuple[Model[Params, Prepared, View, Memory, Total], Prepared],
    block: Block[View],
    kept: Memory,
) -> tuple[Memory, Total]:
    model, prepared = sent
    # A task may be repeated, and must then get the same input.
    return model.expect(prepared, block, copy.deepcopy(kept))


def _expect_sums(
    sent: tuple[Model[Params, Prepared, View, Memory, Total], Prepared],
    block: Block[View],
    kept: Memory,
) -> Total:
    model, prepared = sent
    return model.expect(prepared, block, kept)[1]


def _add(sums: list[Total]) -> Total:
    first, *rest = sums
    for other in rest:
        first = first + other
    return first


def placed(X: Rows) -> Rows:
    """X on the cluster in use, if there is one; a Dask collection stays on its own."""
    client = ACTIVE.get()
    if client is None and isinstance(X, RowSource) and isinstance(X.store, DaskStore):
        client = X.store.client
    if client is None:
        return X
    return ClusterRows(
        X if isinstance(X, RowSource) else RowSource.of(ArrayStore(X)),
        ClusterRunner(client),
        client,
    )
