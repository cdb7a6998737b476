"""Folders of parquet, Arrow or CSV files as one table, which need not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from partwise.cli.console import errors, fail, plural, say
from partwise.cli.tables import check_names

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.files.data import Data, Rows


def is_table_folder(data: Path) -> bool:
    """Whether a path is a folder with files of a table."""
    from partwise.data.stores import TABLES

    return data.is_dir() and any(path.name.lower().endswith(TABLES) for path in data.iterdir())


def read_folder(data: Path) -> Data:
    """The table of a folder, whose rows are read when they are needed."""
    from partwise import RowSource
    from partwise.files.data import Data

    rows = RowSource(data)
    n, d = rows.shape
    text = f"a folder of {plural(n, 'row')} and {plural(d, 'column')}"
    return Data(cast("Rows", rows), text)


def left_out(found: Data, columns: str | None, ignore: str | None) -> dict[str, str]:
    """Kinds of the columns that --columns and --ignore leave out of the model."""
    from partwise import RowSource

    frames = cast(RowSource, found.X).frames
    names = [] if frames is None else [str(name) for name in frames.names]
    asked = [] if columns is None else columns.split(",")
    without = [] if ignore is None else ignore.split(",")
    check_names(asked + without, names)
    kept = asked or names
    return {name: "ignored" for name in names if name in without or name not in kept}


def impute_folder(fitted: BaseEstimator, data: Path, out: Path) -> None:
    """Impute a folder of files to a folder of parquet files, with progress and time left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from partwise import write_parquet

    if out.suffix or out.resolve() == data.resolve():
        fail("Error: DATA is a folder; name another folder with -o.", 2)
    columns = (TextColumn("Imputing"), BarColumn(20), TimeRemainingColumn())
    console = errors()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        files = write_parquet(
            getattr(fitted, "impute", None) or fitted.transform,
            data,
            out,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    say(f"Wrote {plural(len(files), 'file')} to {out}.")
