"""Verbs of rows that are not in memory: some rows at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise._compat import check_columns
from partwise.data.rows import Rows, out_of_memory, read_ahead


def by_rows(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Let a verb whose result has a line for every row take `Rows`, a stretch of them at a time.

    The results, arrays or tuples of arrays, are joined.
    """

    @wraps(verb)
    def on_rows(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        X = out_of_memory(X)
        if not isinstance(X, Rows):
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


def joined(parts: list[Any]) -> Any:
    """Arrays, or tuples of them field by field, one after the other."""
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    fields = [np.concatenate(field) for field in zip(*parts, strict=True)]
    kind = type(parts[0])
    return kind(*fields) if hasattr(kind, "_fields") else tuple(fields)
