"""Methods on rows that are not in memory: some rows at a time, lazily for Dask collections."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise._compat import check_columns
from partwise.contracts import Array
from partwise.data.dask import as_dask_array, is_dask
from partwise.data.frame_passes import read_frames
from partwise.data.frame_sources import DaskFrames, Frames, frames_of
from partwise.data.frames import is_pandas, join_rows
from partwise.data.rows import RowSource, out_of_memory, read_ahead
from partwise.data.stores import as_table
from partwise.fitted import Learned, fitted_of
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, Seed

if TYPE_CHECKING:
    from dask.array import Array as DaskArray
    from dask.delayed import Delayed


R = TypeVar("R")
Method = TypeVar("Method", bound=Callable[..., object])
# What the methods return: an array with a line per row, or several of them.
PerRow: TypeAlias = "Array | tuple[Array, ...] | list[Frame | Array]"


def by_rows(method: Method) -> Method:
    """Let a method whose result has a line per row take a `RowSource`, some rows at a time.

    The results, arrays or tuples of arrays, are joined. For a Dask array or dataframe they are lazy
    Dask arrays, with the chunks of X.
    """

    @wraps(method)
    def on_rows(self: object, X: DataLike, *args: object, **kwargs: object) -> object:
        is_table = bool(getattr(self, "_is_table", False))
        if is_dask(X) and not (is_table and hasattr(X, "map_partitions")):
            return lazily(self, method.__name__, X, *args, **kwargs)
        frames = frames_of(X) if is_table else None
        if frames is not None:
            return on_frames(self, method, X, frames, *args, **kwargs)
        X = out_of_memory(X)
        if not isinstance(X, RowSource):
            return method(self, X, *args, **kwargs)
        source = X
        check_is_fitted(self)
        check_columns(self, source, source.names, reset=False)

        def answer(rows: DataLike) -> PerRow:
            return cast(PerRow, without_names(lambda: method(self, rows, *args, **kwargs)))

        def results() -> Iterator[PerRow]:
            for lo, hi, rows in read_ahead(source):
                try:
                    yield answer(rows)
                except ValueError:
                    source.raise_named(lo, hi, lambda a, b: answer(source[a:b]))
                    raise

        return joined(list(results()))

    return cast(Method, on_rows)


def on_frames(
    self: object,
    method: Callable[..., object],
    X: DataLike,
    frames: Frames,
    *args: object,
    **kwargs: object,
) -> object:
    """Results for a table that is not in memory, joined; lazy for a Dask dataframe."""
    check_is_fitted(self)
    if isinstance(frames, DaskFrames):
        return _lazy_frames(self, method.__name__, frames, *args, **kwargs)
    if kwargs.get("n_imputations") is not None:  # one sequence of samples for all pieces
        kwargs["random_state"] = _generator_of(self, kwargs)
    found = []
    for (_, _, frame), piece in zip(read_frames(frames), frames.pieces, strict=True):
        try:
            found.append(cast(PerRow, method(self, frame, *args, **kwargs)))
        except ValueError as error:
            raise ValueError(f"{piece.name}: {error}") from error
    return joined(found)


def _generator_of(self: object, kwargs: dict[str, object]) -> np.random.Generator:
    """Random numbers of a call: its own, or the estimator's."""
    seed = kwargs.get("random_state")
    return as_generator(cast(Seed, getattr(self, "random_state", None) if seed is None else seed))


def _lazy_frames(
    self: object, method: str, frames: DaskFrames, *args: object, **kwargs: object
) -> object:
    """Lazy results for the partitions of a Dask dataframe."""
    import dask
    import dask.array
    import dask.dataframe

    X = frames.frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the partitions will warn
        example = getattr(self, method)(frames.example(), *args, **kwargs)
    model, own = dask.delayed(self), [kwargs] * X.npartitions
    if kwargs.get("n_imputations") is not None:  # each partition has its own samples
        rng = _generator_of(self, kwargs)
        own = [{**kwargs, "random_state": int(rng.integers(2**31))} for _ in own]
    parts = [
        dask.delayed(_on_frame)(model, method, part, *args, **options)
        for part, options in zip(X.to_delayed(), own, strict=True)
    ]
    sizes = [piece.n_rows for piece in frames.pieces]

    def whole(parts: list[Delayed], like: Array | Frame) -> object:
        if is_pandas(like):
            return dask.dataframe.from_delayed(parts, meta=like.iloc[:0], verify_meta=False)
        arrays = [
            dask.array.from_delayed(part, (n, *like.shape[1:]), meta=np.asarray(like)[:0])
            for part, n in zip(parts, sizes, strict=True)
        ]
        return dask.array.concatenate(arrays)

    if not isinstance(example, tuple | list):
        return whole(parts, example)
    fields = (whole([part[i] for part in parts], like) for i, like in enumerate(example))
    return type(example)(fields)


def _on_frame(self: object, method: str, frame: Frame, *args: object, **kwargs: object) -> object:
    return getattr(self, method)(frame, *args, **kwargs)


def without_names(call: Callable[[], R]) -> R:
    """Run a method on rows without feature names, without the warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return call()


def lazily(
    self: object, method: str, X: DataLike, *args: object, **kwargs: object
) -> DaskArray | tuple[DaskArray, ...]:
    """Dask arrays of a method's results for every chunk; one empty row gives their types."""
    import dask
    import dask.array

    check_is_fitted(self)
    array = as_dask_array(X)
    check_columns(self, array, getattr(X, "_meta", None), reset=False)
    nothing = np.full((1, array.shape[1]), np.nan, fitted_of(cast(Learned, self)).dtype)
    example = _on_chunk(self, method, nothing, *args, **kwargs)
    model, sizes = dask.delayed(self), array.chunks[0]
    found = [
        dask.delayed(_on_chunk)(model, method, chunk, *args, **kwargs)
        for chunk in array.to_delayed()[:, 0]
    ]

    def whole(parts: list[Delayed], like: Array) -> DaskArray:
        arrays = [
            dask.array.from_delayed(part, (n, *like.shape[1:]), meta=like[:0])
            for part, n in zip(parts, sizes, strict=True)
        ]
        return dask.array.concatenate(arrays)

    if not isinstance(example, tuple):
        return whole(found, cast(Array, example))
    fields = [whole([part[i] for part in found], like) for i, like in enumerate(example)]
    return _like(example, fields)


def _on_chunk(
    self: object, method: str, chunk: DataLike, *args: object, **kwargs: object
) -> PerRow:
    call = getattr(self, method)
    found: PerRow = without_names(lambda: call(as_table(chunk), *args, **kwargs))
    return found


def joined(parts: list[PerRow]) -> PerRow:
    """Arrays or frames, or tuples or lists of them field by field, one after the other."""
    if isinstance(parts[0], list):
        return [join_rows(field) for field in zip(*parts, strict=True)]
    if not isinstance(parts[0], tuple):
        return cast(Array, join_rows(cast(list[Array], parts)))
    return _like(parts[0], [cast(Array, join_rows(field)) for field in zip(*parts, strict=True)])


def _like(example: tuple[Array, ...], fields: list[R]) -> tuple[R, ...]:
    """Fields in a tuple of the same kind."""
    if type(example) is tuple:
        return tuple(fields)
    named = cast(Callable[..., tuple[R, ...]], type(example))  # takes its fields one by one
    return named(*fields)
