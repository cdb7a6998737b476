"""Results for tables of any size, written to a folder of parquet files piece by piece."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np

from partwise.contracts import Array
from partwise.data.frame_passes import read_frames
from partwise.data.frame_sources import FrameBlocks, Frames, frames_of
from partwise.data.frames import is_pandas, is_polars, names_of
from partwise.data.stores import TABLES, optional
from partwise.files.atomic import write_atomically
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, PathLike, Seed

if TYPE_CHECKING:
    import pyarrow as pa

# Which model and table the files of a folder belong to.
MANIFEST = "_partwise.json"


# A result per row, or several.
Results: TypeAlias = "Array | Frame | tuple[Array | Frame, ...] | list[Array | Frame]"


class Asked(Protocol):
    """A bound method of a fitted estimator with a result per row."""

    __name__: str
    __self__: object

    def __call__(self, X: DataLike, /, **options: object) -> Results:
        """The results of some rows."""
        ...


def write_parquet(
    method: Asked,
    X: DataLike,
    folder: PathLike,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    **options: object,
) -> list[Path]:
    """Write the results of a method for a table of any size to parquet files.

    The table is read one row group at a time, so memory does not grow with it. There is one file
    per file of X, with the same row groups. A file appears under its name when it is complete. A
    call that was interrupted continues after the files that are complete.

    Parameters
    ----------
    method : bound method
        Of a fitted estimator, with a result per row: ``model.impute``, ``model.add_states``,
        ``model.anomaly_scores``, ``imputer.transform``, ``model.predict_interval``, ...
    X : table
        Anything that `fit` accepts: files, an Arrow stream, a LazyFrame, frames, a DataFrame, ...
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
    frames = frames_of(X)
    if frames is None:
        whole = X
        frames = FrameBlocks(lambda: [whole])
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    groups = _file_groups(frames)
    _claim(out, _fingerprint(method, frames, options))
    paths = [out / name for name, _ in groups]
    file_of = {i: g for g, (_, pieces) in enumerate(groups) for i in pieces}
    total, done = sum(piece.n_rows for piece in frames.pieces), 0
    kept = {g for g, path in enumerate(paths) if path.exists()}
    wanted = [i for i in range(len(frames.pieces)) if file_of[i] not in kept]
    done = total - sum(frames.pieces[i].n_rows for i in wanted)
    writer, partial = None, out
    for i, (_, _, frame) in zip(wanted, read_frames(frames, which=wanted), strict=True):
        g = file_of[i]
        try:
            found = method(frame, **_options_of_piece(method, options, i))
            table = _as_arrow(found, method.__name__, [str(n) for n in names_of(frame)])
        except ValueError as error:
            raise ValueError(f"{frames.pieces[i].name}: {error}") from error
        if i == groups[g][1][0]:
            partial = paths[g].with_name(f".{paths[g].name}.partial")
            writer = parquet.ParquetWriter(partial, table.schema)
        assert writer is not None
        writer.write_table(table.cast(writer.schema), row_group_size=max(len(table), 1))
        if i == groups[g][1][-1]:
            writer.close()
            os.replace(partial, paths[g])
        done += frames.pieces[i].n_rows
        if on_progress is not None:
            on_progress(done, total)
    return paths


def _file_groups(frames: Frames) -> list[tuple[str, list[int]]]:
    """Names of the files to write, and the pieces of each."""
    groups: list[tuple[str, list[int]]] = []
    last = None
    for i, piece in enumerate(frames.pieces):
        source = piece.name.partition(", row group ")[0].partition(", batch ")[0]
        if source != last or not source.lower().endswith(TABLES):
            groups.append((f"{len(groups):05d}.parquet", []))
            last = source
        groups[-1][1].append(i)
    return groups


def _options_of_piece(method: Asked, options: dict[str, object], i: int) -> dict[str, object]:
    """Arguments for a piece, which has its own samples: the same after an interruption."""
    if options.get("n_imputations") is None:
        return options
    seed = options.get("random_state")
    seed = getattr(method.__self__, "random_state", None) if seed is None else seed
    if isinstance(seed, Integral):
        return {**options, "random_state": np.random.default_rng([int(seed), i])}
    return {**options, "random_state": as_generator(cast(Seed, seed))}


def _fingerprint(method: Asked, frames: Frames, options: dict[str, object]) -> str:
    """What the results depend on: the model, the method and the pieces of the table."""
    model = getattr(method.__self__, "model_", method.__self__)
    trace = np.asarray(getattr(model, "lower_bounds_", ())).tolist()
    pieces = [[piece.name, piece.n_rows] for piece in frames.pieces]
    asked = [f"{name}={value!r}" for name, value in sorted(options.items())]
    text = json.dumps([method.__name__, *asked, repr(method.__self__), trace, pieces])
    return hashlib.sha256(text.encode()).hexdigest()


def _claim(folder: Path, fingerprint: str) -> None:
    """Refuse a folder with other results."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        if any(folder.glob("*.parquet")):
            raise ValueError(f"{folder} has parquet files already; choose an empty folder.")
        write_atomically(manifest, json.dumps({"results": fingerprint}).encode())
        return
    if json.loads(manifest.read_text("utf-8")).get("results") != fingerprint:
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
