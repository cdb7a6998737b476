"""Results for tables of any size, written to a folder of parquet files piece by piece."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_passes import read_frames
from partwise.data.frame_sources import BATCH_ROWS, FrameBlocks, FramePiece, frames_of
from partwise.data.frames import is_pandas, is_polars, names_of
from partwise.data.stores import TABLES, UNREADABLE, optional
from partwise.files.atomic import write_atomically
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, PathLike, Seed

if TYPE_CHECKING:
    import pyarrow as pa

# Which model and table the files of a folder belong to.
MANIFEST = "_partwise.json"

# Key of the metadata of a file with what it was made from.
SOURCE = b"partwise_source"


# A result per row, or several.
Results: TypeAlias = "Array | Frame | tuple[Array | Frame, ...] | list[Array | Frame]"


class Asked(Protocol):
    """A bound method of a fitted estimator with a result per row."""

    __name__: str
    __self__: object

    def __call__(self, X: DataLike | int, /, **options: object) -> Results:
        """The results of some rows."""
        ...


def write_parquet(
    method: Asked,
    X: DataLike | int,
    folder: PathLike,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    **options: object,
) -> list[Path]:
    """Write the results of a method for a table of any size to parquet files.

    The table is read one row group at a time, so memory does not grow with it. There is one file
    per file of X, with the same row groups. A file appears under its name when it is complete. A
    call that was interrupted continues with the files that are missing, or whose file of X has
    changed since.

    Parameters
    ----------
    method : bound method
        Of a fitted estimator, with a result per row: ``model.impute``, ``model.add_states``,
        ``model.anomaly_scores``, ``imputer.transform``, ``model.predict_interval``, ...; or
        ``model.sample``.
    X : table, or int
        Anything that `fit` accepts: files, an Arrow stream, a LazyFrame, frames, a DataFrame, ...;
        for ``model.sample`` the number of rows.
    folder : path-like
        Made if it does not exist.
    on_progress : callable, optional
        Called as ``on_progress(rows_done, n_rows)``.
    **options
        Arguments of the method: ``coverage`` of ``predict_interval``, ``n_imputations`` of
        ``impute``, whose imputed tables are one below the other, numbered in a column
        ``imputation``.

    Returns
    -------
    files : list of Path
        In the order of the rows.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from partwise import MCVQ, write_parquet
    >>> table = pl.DataFrame({"x": [1.5, None, 2.5] * 20, "y": ["a", "b", None] * 20})
    >>> model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(table)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_parquet(model.impute, [table[:30], table[30:]], folder)
    ...     pl.read_parquet(files).null_count().row(0)
    (0, 0)
    """
    parquet = optional("pyarrow.parquet", "parquet files")
    pieces, tables = _asked(method, X, options)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    groups = _file_groups(pieces)
    _claim(out, _fingerprint(method, pieces, options))
    paths = [out / name for name, _ in groups]
    file_of = {i: g for g, (_, members) in enumerate(groups) for i in members}
    sources = [_source([pieces[i] for i in members]) for _, members in groups]
    kept = {g for g, path in enumerate(paths) if _written_from(path) == sources[g]}
    wanted = [i for i in range(len(pieces)) if file_of[i] not in kept]
    total = sum(piece.n_rows for piece in pieces)
    done = total - sum(pieces[i].n_rows for i in wanted)
    writer, partial = None, out
    for i, table in zip(wanted, tables(wanted), strict=True):
        g = file_of[i]
        if i == groups[g][1][0]:
            partial = paths[g].with_name(f".{paths[g].name}.partial")
            schema = table.schema.with_metadata(
                {**(table.schema.metadata or {}), SOURCE: sources[g]}
            )
            writer = parquet.ParquetWriter(partial, schema)
        assert writer is not None
        writer.write_table(table.cast(writer.schema), row_group_size=max(len(table), 1))
        if i == groups[g][1][-1]:
            writer.close()
            os.replace(partial, paths[g])
        done += pieces[i].n_rows
        if on_progress is not None:
            on_progress(done, total)
    return paths


# --- results piece by piece ---


# Results of the pieces with these numbers.
Tables: TypeAlias = "Callable[[Sequence[int]], Iterator[pa.Table]]"


def _asked(
    method: Asked, X: DataLike | int, options: dict[str, object]
) -> tuple[list[FramePiece], Tables]:
    """The pieces of a table, or of rows to be sampled, and how to get their results."""
    if isinstance(X, Integral):
        sizes = [min(BATCH_ROWS, int(X) - at) for at in range(0, int(X), BATCH_ROWS)]
        pieces = [FramePiece(f"sample {i}", n) for i, n in enumerate(sizes)]

        def sampled(which: Sequence[int]) -> Iterator[pa.Table]:
            names = [str(name) for name in getattr(method.__self__, "feature_names_in_", ())]
            for i in which:
                rows, _ = method(pieces[i].n_rows, **_with_own_seed(method, options, i))
                yield _as_arrow(rows, method.__name__, names)

        return pieces, sampled
    frames = frames_of(X) or FrameBlocks(lambda: [X])

    def answered(which: Sequence[int]) -> Iterator[pa.Table]:
        for i, (_, _, frame) in zip(which, read_frames(frames, which=which), strict=True):
            several = options.get("n_imputations") is not None
            own = _with_own_seed(method, options, i) if several else options
            try:
                names = [str(name) for name in names_of(frame)]
                yield _as_arrow(method(frame, **own), method.__name__, names)
            except ValueError as error:
                raise ValueError(f"{frames.pieces[i].name}: {error}") from error

    return frames.pieces, answered


def _file_groups(pieces: Sequence[FramePiece]) -> list[tuple[str, list[int]]]:
    """Names of the files to write, and the pieces of each."""
    groups: list[tuple[str, list[int]]] = []
    last = None
    for i, piece in enumerate(pieces):
        source = piece.name.partition(", row group ")[0].partition(", batch ")[0]
        if source != last or not source.lower().endswith(TABLES):
            groups.append((f"{len(groups):05d}.parquet", []))
            last = source
        groups[-1][1].append(i)
    return groups


def _with_own_seed(method: Asked, options: dict[str, object], i: int) -> dict[str, object]:
    """Arguments for a piece, which has its own samples: the same after an interruption."""
    seed = options.get("random_state")
    seed = getattr(method.__self__, "random_state", None) if seed is None else seed
    if isinstance(seed, Integral):
        return {**options, "random_state": np.random.default_rng([int(seed), i])}
    return {**options, "random_state": as_generator(cast(Seed, seed))}


def _fingerprint(method: Asked, pieces: Sequence[FramePiece], options: dict[str, object]) -> str:
    """What the results depend on: the model, the method and the pieces of the table."""
    model = getattr(method.__self__, "model_", method.__self__)
    trace = np.asarray(getattr(model, "lower_bounds_", ())).tolist()
    read = [[piece.name, piece.n_rows] for piece in pieces]
    asked = [f"{name}={value!r}" for name, value in sorted(options.items())]
    text = json.dumps([method.__name__, *asked, repr(method.__self__), trace, read])
    return hashlib.sha256(text.encode()).hexdigest()


def _source(pieces: Sequence[FramePiece]) -> bytes:
    """What a file is made from; a file whose source has changed since is made again."""
    return json.dumps([[piece.name, piece.n_rows, piece.stamp] for piece in pieces]).encode()


def _written_from(path: Path) -> bytes | None:
    """The source of a file, if the file exists and can be read."""
    parquet = optional("pyarrow.parquet", "parquet files")
    try:
        schema = parquet.read_schema(path)
    except UNREADABLE:
        return None
    return (schema.metadata or {}).get(SOURCE)


def _claim(folder: Path, fingerprint: str) -> None:
    """Refuse a folder with other results."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        if any(folder.glob("*.parquet")):
            raise ValueError(f"{folder} has parquet files already; choose an empty folder.")
        write_atomically(manifest, json.dumps({"results": fingerprint}).encode())
        return
    try:
        found = json.loads(manifest.read_text("utf-8"))
    except ValueError:
        found = None
    if found != {"results": fingerprint}:
        raise ValueError(
            f"{folder} has the results of another model, method or table; choose an empty folder."
        )


def _as_arrow(result: Results, name: str, columns_in: Sequence[str]) -> pa.Table:
    """Results of some rows as an Arrow table.

    Fields of a tuple get a suffix, items of a list a number. An array has the names of X if it has
    as many columns.
    """
    arrow = optional("pyarrow", "parquet files")
    if isinstance(result, list):
        tables = [_as_arrow(one, name, columns_in) for one in result]
        number = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        whole = arrow.concat_tables(tables)
        return whole.add_column(0, "imputation", arrow.array(number.astype(np.int32)))
    if isinstance(result, tuple):
        words = ("lower", "upper") if len(result) == 2 else range(len(result))
        tables = [_as_arrow(one, name, columns_in) for one in result]
        columns = [column for table in tables for column in table.columns]
        names = [
            f"{column}_{word}"
            for table, word in zip(tables, words, strict=True)
            for column in table.column_names
        ]
        return arrow.Table.from_arrays(columns, names)
    if is_polars(result):
        return result.to_arrow()
    if is_pandas(result):
        return arrow.Table.from_pandas(result, preserve_index=False)
    values = np.asarray(result)
    values = values[:, None] if values.ndim == 1 else values
    columns = [arrow.array(values[:, d]) for d in range(values.shape[1])]
    numbered = [f"{name}{d}" for d in range(len(columns))]
    same = len(columns) == len(columns_in)
    return arrow.Table.from_arrays(columns, list(columns_in) if same else numbered)


__all__ = ["write_parquet"]
