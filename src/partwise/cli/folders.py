"""Folders of parquet, Arrow or CSV files as one table, which need not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from partwise._text import plural
from partwise.cli.console import errors, fail, say
from partwise.cli.tables import Reading, check_names, read_for

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise import RowSource
    from partwise.estimators.sinks import Asked
    from partwise.files.data import Data


def left_out(
    found: Data, columns: str | None, ignore: str | None, id_column: str | None
) -> dict[str, str]:
    """Kinds of the columns that --columns, --ignore and --id leave out of the model."""
    from partwise import RowSource

    frames = cast(RowSource, found.X).frames
    names = [] if frames is None else [str(name) for name in frames.names]
    asked = [] if columns is None else columns.split(",")
    without = [] if ignore is None else ignore.split(",")
    without += [] if id_column is None else [id_column]
    check_names(asked + without, names)
    kept = asked or names
    return {name: "ignored" for name in names if name in without or name not in kept}


def impute_folder(fitted: BaseEstimator, data: Path, out: Path, reading: Reading) -> None:
    """Impute a folder of files to a folder of parquet files."""
    if out.suffix or out.resolve() == data.resolve():
        fail("Error: DATA is a folder; name another folder with -o.", 2)
    rows = cast("RowSource", read_for(fitted, data, reading).X)
    write_folder("Imputing", getattr(fitted, "impute", None) or fitted.transform, rows, out)


def write_folder(
    what: str, method: Asked, rows: RowSource | int, out: Path, **options: object
) -> None:
    """Write results to a folder of parquet files, with progress and time left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from partwise import write_parquet

    columns = (TextColumn(what), BarColumn(20), TimeRemainingColumn())
    console = errors()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        files = write_parquet(
            method,
            rows,
            out,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
            **options,
        )
    say(f"Wrote {plural(len(files), 'file')} to {out}.")
