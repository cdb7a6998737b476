"""Files of every kind: what is written and read, and the check of what was read.

What cannot be read is refused in one sentence that says what is wrong, where, and what to do. What
was guessed (separator, names, types) is told in `Data.told`. Each reader is imported when a file
asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partwise.files.data import Data


def read_data(
    path: Path,
    *,
    missing: Collection[str] = (),
    keep_none: bool = False,
    texts: Collection[str] = (),
    numbers: Collection[str] = (),
    id_column: str | None = None,
    decimal: str | Mapping[str, str] | None = None,
    thousands: str | Mapping[str, str] | None = None,
    date_order: str | Mapping[str, str] | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    skip_rows: int = 0,
    resize: tuple[int, int] | None = None,
) -> Data:
    """Read a file, or a folder of images, by what it holds.

    Parameters
    ----------
    path : Path
    missing : collection of str
        Texts that mean a missing value, besides the usual ones.
    keep_none : bool
        Whether the word None is a value like others; else it means a missing value.
    texts : collection of str
        Columns whose values are texts, even if they look like numbers.
    numbers : collection of str
        Columns whose values are numbers, even if zeros stand before them, as in 007.
    id_column : str, optional
        Column that names the rows; it is not among the columns of ``X``.
    decimal, thousands : {".", ",", " ", "'"} or mapping, optional
        Sign before decimals, and between thousands, of all columns or by column; found out per
        column if not given.
    date_order : {"dmy", "mdy", "ymd"} or mapping, optional
        Order of day, month and year in dates such as 12/1/2008; found out if not given.
    encoding : str, optional
        Of a text file; UTF-8 if not given.
    header : bool, optional
        Whether the first line of a text file names its columns; found out if not given.
    skip_rows : int
        Lines of a text file that stand above the table.
    resize : (int, int), optional
        Height and width to bring images to.

    Returns
    -------
    data : Data

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from partwise.files import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two.csv"
    ...     _ = path.write_text("name;size\\nann;1,5\\nbob;NA\\n")
    ...     data = read_data(path)
    >>> data.X["size"].to_list()
    [1.5, None]
    >>> data.told
    'a table of 2 rows and 2 columns, separated by semicolons; the first line names the columns'
    """
    if path.is_dir():
        from partwise.files.pictures import read_pictures

        return read_pictures(path, resize)
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith((b"\x93NUM", b"PK")):
        from partwise.files.arrays import read_arrays

        return read_arrays(path)
    if start == b"PAR1":
        from partwise.files.frames import read_parquet

        return _without_ids(path, read_parquet(path), id_column)
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed; unpack it, and name the file that comes out.")
    if path.suffix.lower() == ".safetensors":
        raise ValueError(
            f"{path} is a model, not data; `partwise report {path}` shows it, `partwise sample` "
            "draws from it."
        )
    if path.suffix.lower() in (".npy", ".npz", ".parquet"):
        raise ValueError(f"{path} is not what its name says, or damaged; write it again.")
    from partwise.files.decide import MISSING, TextOptions
    from partwise.files.text import read_table

    options = TextOptions(
        missing=frozenset({*MISSING, *missing} - ({"None"} if keep_none else set())),
        texts=frozenset({*texts} if id_column is None else {*texts, id_column}),
        numbers=frozenset(numbers),
        decimal=_by_column(decimal),
        thousands=_by_column(thousands),
        date_order=_by_column(date_order),
    )
    return _without_ids(path, read_table(path, options, encoding, header, skip_rows), id_column)


def _by_column(value: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """A value per column; "" stands for all columns."""
    if value is None:
        return {}
    return {"": value} if isinstance(value, str) else value


def _without_ids(path: Path, data: Data, name: str | None) -> Data:
    """Take the column that names the rows out of the table."""
    if name is None:
        return data
    import polars as pl

    from partwise.files.data import closest

    assert isinstance(data.X, pl.DataFrame)
    if name not in data.X.columns:
        raise ValueError(
            f"{path} has no column {name!r} to name the rows{closest(name, data.X.columns)}"
        )
    place = data.X.columns.index(name)
    return data._replace(X=data.X.drop(name), ids=data.X[name], id_place=place)
