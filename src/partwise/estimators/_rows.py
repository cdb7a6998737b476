"""Verbs of rows that are not in memory: some rows at a time, and lazily of Dask collections."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise._compat import check_columns
from partwise.contracts import Array
from partwise.data.dask import as_dask_array, is_dask
from partwise.data.rows import RowSource, out_of_memory, read_ahead
from partwise.data.stores import as_table


def by_rows(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method whose result has a line per row take a `RowSource`, a stretch of rows at a time.

    The results, arrays or tuples of arrays, are joined. Of a Dask array or dataframe they are lazy
    Dask arrays, with the chunks of X.
    """

    @wraps(verb)
    def on_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dask(X):
            return lazily(self, verb.__name__, X, *args, **kwargs)
        X = out_of_memory(X)
        if not isinstance(X, RowSource):
            return verb(self, X, *args, **kwargs)
        check_is_fitted(self)
        check_columns(self, X, X.names, reset=False)

        def results() -> Iterator[Any]:
            for lo, hi, rows in read_ahead(X):
                try:
                    yield nameless(verb, self, rows, *args, **kwargs)
                except ValueError:
                    X.blame(lo, hi, lambda a, b: nameless(verb, self, X[a:b], *args, **kwargs))
                    raise

        return joined(list(results()))

    return on_rows


def nameless(verb: Callable[..., Any], self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
    """A verb of rows that have lost their columns' names, of which nobody need be told."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return verb(self, X, *args, **kwargs)


def lazily(self: Any, verb: str, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Dask arrays of what a verb gives of every chunk; a row without entries tells of what type."""
    import dask
    import dask.array

    check_is_fitted(self)
    array = as_dask_array(X)
    check_columns(self, array, getattr(X, "_meta", None), reset=False)
    nothing = np.full((1, array.shape[1]), np.nan, self._fitted.dtype)
    example = _on_chunk(self, verb, nothing, *args, **kwargs)
    model, sizes = dask.delayed(self), array.chunks[0]
    found = [
        dask.delayed(_on_chunk)(model, verb, chunk, *args, **kwargs)
        for chunk in array.to_delayed()[:, 0]
    ]

    def whole(parts: list[Any], like: Array) -> Any:
        arrays = [
            dask.array.from_delayed(part, (n, *like.shape[1:]), meta=like[:0])
            for part, n in zip(parts, sizes, strict=True)
        ]
        return dask.array.concatenate(arrays)

    if not isinstance(example, tuple):
        return whole(found, example)
    fields = [whole([part[i] for part in found], like) for i, like in enumerate(example)]
    return _like(example, fields)


def _on_chunk(self: Any, verb: str, chunk: Any, *args: Any, **kwargs: Any) -> Any:
    return nameless(getattr(type(self), verb), self, as_table(chunk), *args, **kwargs)


def joined(parts: list[Any]) -> Any:
    """Arrays, or tuples of them field by field, one after the other."""
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    return _like(parts[0], [np.concatenate(field) for field in zip(*parts, strict=True)])


def _like(example: tuple[Any, ...], fields: list[Any]) -> Any:
    """Fields in a tuple of the same kind."""
    kind = type(example)
    return kind(*fields) if hasattr(kind, "_fields") else tuple(fields)
