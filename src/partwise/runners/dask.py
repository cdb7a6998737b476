"""Blocks on the workers of a Dask cluster."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

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
from partwise.data.rows import RowSource
from partwise.data.stores import ArrayStore, optional
from partwise.runners.serial import Serial

# Sums that one task adds up: fewer tasks than pairs would make, and still little to move at once.
FAN_IN = 8


class DaskRunner:
    """Fits inside of this context run on a Dask cluster.

    Rows are read and blocks are kept by the workers; in every sweep the parameters go out to them
    once and the sums are added up in a tree. What is learned is the same as without a cluster, up
    to rounding. Of a Dask array or dataframe the fit runs on the cluster of its current client
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

    def __init__(self, to: Any = None, **options: Any) -> None:
        self.to, self.options = to, options

    def __enter__(self) -> Any:
        distributed = optional("distributed", "Dask clusters")
        self._opened: list[Any] = []
        client = self.to
        if client is None and not self.options:
            client = _current(distributed)
        if client is None:
            # Several clusters on a machine would quarrel about the dashboard's usual port.
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


def _current(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError:
        return None


class ClusterRunner(Serial):
    """Maps over blocks where they are; a source's blocks are kept there for as long as it is."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._blocks: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def blocks(self, source: Any) -> list[Any]:
        """Futures of the blocks of a source."""
        found = self._blocks.get(source)
        if found is not None:
            return found
        recipe, bounds = submit(self.client, same, source.recipe()), source.bounds
        found = submit_all(
            self.client,
            _encode,
            [recipe] * len(bounds),
            [source.X.future(lo, hi) for lo, hi in bounds],
            [source.weight[lo:hi] for lo, hi in bounds],
            [None if source.labels is None else source.labels[lo:hi] for lo, hi in bounds],
        )
        if source.keeps:
            self._blocks[source] = found
        return found

    def map(
        self, function: Callable[..., Any], source: Any, *arguments: Iterable[Any]
    ) -> Iterator[Any]:
        """``function(block, *items)`` in order, brought here one after the other."""
        sent = submit(self.client, same, function)
        blocks = self.blocks(source)
        waiting = submit_all(self.client, call, [sent] * len(blocks), blocks, *arguments)[::-1]
        while waiting:
            yield result_of(self.client, waiting.pop())

    def total(self, model: Any, prepared: Any, source: Any, memory: list[Any]) -> Any:
        """Sums of all blocks, added in a tree whose order depends on their number alone.

        What rows remember stays on the workers, and is found again as it was if one dies.
        """
        blocks = self.blocks(source)
        sent = [submit(self.client, same, (model, prepared))] * len(blocks)
        expect = _expect if model.remembers else _expect_sums
        sums = submit_all(self.client, expect, sent, blocks, memory)
        if model.remembers:
            memory[:] = submit_all(self.client, operator.itemgetter(0), sums)
            sums = submit_all(self.client, operator.itemgetter(1), sums)
        while len(sums) > 1:
            groups = [sums[i : i + FAN_IN] for i in range(0, len(sums), FAN_IN)]
            sums = submit_all(self.client, _add, groups)
        return result_of(self.client, sums[0])


def _encode(recipe: Any, rows: Any, weight: Any, labels: Any) -> Any:
    return recipe.encode(rows, weight, labels)


def _expect(sent: tuple[Any, Any], block: Any, kept: Any) -> tuple[Any, Any]:
    model, prepared = sent
    # A task may have to be done again, and must then find what it found before.
    return model.expect(prepared, block, copy.deepcopy(kept))


def _expect_sums(sent: tuple[Any, Any], block: Any, kept: Any) -> Any:
    model, prepared = sent
    return model.expect(prepared, block, kept)[1]


def _add(sums: list[Any]) -> Any:
    first, *rest = sums
    for other in rest:
        first = first + other
    return first


def placed(X: Any) -> Any:
    """X on the cluster in use, if there is one; a Dask collection goes to the one that has it."""
    client = ACTIVE.get()
    if client is None and isinstance(X, RowSource) and isinstance(X.store, DaskStore):
        client = X.store.client
    if client is None:
        return X
    return ClusterRows(
        X if isinstance(X, RowSource) else RowSource.of(ArrayStore(X)), ClusterRunner(client)
    )
