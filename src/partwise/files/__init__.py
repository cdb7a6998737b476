"""Reading and writing of tables, images, arrays and model files.

A file that cannot be read is refused in one sentence: what is wrong, where, and what to do.
`Data.description` lists what was detected (separator, names, types). Readers are imported when they
are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from partwise.typing import PathLike

if TYPE_CHECKING:
    from partwise.data.text_options import TextFormat
    from partwise.files.data import Data

_T = TypeVar("_T")


def read_data(
    path: PathLike,
    *,
    missing: Collection[str] = (),
    keep_none: bool = False,
    texts: Collection[str] = (),
    numbers: Collection[str] = (),
    id_column: str | None = None,
    decimal: str | Mapping[str, str] | None = None,
    thousands: str | Mapping[str, str] | None = None,
    date_order: str | Mapping[str, str] | None = None,
    first_year: int | Mapping[str, int] | None = None,
    durations: Mapping[str, str] | None = None,
    like: TextFormat | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    skip_rows: int = 0,
    resize: tuple[int, int] | None = None,
) -> Data:
    """Read a file, or a folder of images or of tables; the content determines the format.

    Several tables are one, read when its rows are needed: ``X`` is a `RowSource`.

    Parameters
    ----------
    path : str or path
    missing : collection of str
        Additional texts that mean a missing value, such as ``-99``.
    keep_none : bool
        Whether the word None is a value; by default it means a missing value.
    texts : collection of str
        Columns of text, even if the values look like numbers.
    numbers : collection of str
        Columns of numbers, even if they start with zeros, such as 007.
    id_column : str, optional
        Column that names the rows; it is not among the columns of ``X``.
    decimal, thousands : {".", ",", " ", "'"} or mapping, optional
        Decimal mark and thousands separator, of all columns or by column; detected per column by
        default.
    date_order : {"dmy", "mdy", "ymd"} or mapping, optional
        Order of day, month and year in dates such as 12/1/2008; detected by default.
    first_year : int or mapping, optional
        First of the hundred years to which years of two digits belong; detected by default.
    durations : mapping of str to {"h:mm", "m:ss"}, optional
        Columns of durations such as 3:45, which are times of day by default.
    like : TextFormat, optional
        Format of the model's own rows: decides what this file leaves in doubt, and its units must
        be the same.
    encoding : str, optional
        Encoding of a text file; UTF-8 by default.
    header : bool, optional
        Whether the first line of a text file contains column names; detected by default.
    skip_rows : int
        Lines of a text file before the table.
    resize : (int, int), optional
        Height and width to which images are resized.

    Returns
    -------
    data : Data
        ``X`` is a polars DataFrame, a NumPy array or a `RowSource`, ``description`` says what was
        detected, ``ids`` are the names of the rows if ``id_column`` is given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from partwise.files import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.csv")
    ...     _ = path.write_text("name;size\\nann;1,5\\nbob;NA\\n")
    ...     data = read_data(path)
    >>> data.X["size"].to_list()
    [1.5, None]
    >>> data.description
    'a table of 2 rows and 2 columns, separated by semicolons; the first line has the column names'
    """
    from partwise.data.text_options import MISSING, TextOptions

    path = Path(path)
    usual = MISSING if like is None else like.missing
    options = TextOptions(
        missing=frozenset({*usual, *missing} - ({"None"} if keep_none else set())),
        texts=frozenset({*texts} if id_column is None else {*texts, id_column}),
        numbers=frozenset(numbers),
        decimal=_by_column(decimal),
        thousands=_by_column(thousands),
        date_order=_by_column(date_order),
        first_year=_by_column(first_year),
        durations=durations or {},
        like={} if like is None else like.columns,
    )
    if path.is_dir():
        from partwise.files.folders import is_table_folder, read_folder
        from partwise.files.pictures import read_pictures

        if not is_table_folder(path):
            return read_pictures(path, resize)
        if encoding is not None or header is not None or skip_rows:
            raise ValueError(
                f"{path}: encoding, header and skipped rows are options for a single file; convert "
                "the files of the folder to UTF-8 with one line of column names, or to parquet."
            )
        return read_folder(path, options)
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith((b"\x93NUM", b"PK")):
        from partwise.files.arrays import read_arrays

        return read_arrays(path)
    if start in (b"PAR1", b"PARE"):
        from partwise.files.frames import read_parquet

        return _without_ids(path, read_parquet(path), id_column)
    if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zX", b"\x28\xb5\x2f\xfd")):
        raise ValueError(f"{path} is compressed; unpack it, and name the file that comes out.")
    if path.suffix.lower() == ".safetensors":
        raise ValueError(
            f"{path} is a model, not data; `partwise report {path}` describes it, `partwise sample "
            f"{path}` samples rows from it."
        )
    if path.suffix.lower() in (".npy", ".npz", ".parquet"):
        raise ValueError(
            f"{path} is damaged, or of another format than its name says; write it again."
        )
    from partwise.files.text import read_table

    return _without_ids(path, read_table(path, options, encoding, header, skip_rows), id_column)


def _by_column(value: _T | Mapping[str, _T] | None) -> Mapping[str, _T]:
    """Values by column; the key "" means all columns."""
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else {"": value}


def _without_ids(path: Path, data: Data, name: str | None) -> Data:
    """Remove the column of row names from the table."""
    if name is None:
        return data
    import polars as pl

    from partwise.files.data import UnknownNameError, closest

    assert isinstance(data.X, pl.DataFrame)
    if name not in data.X.columns:
        raise UnknownNameError(
            f"{path} has no column {name!r} to name the rows{closest(name, data.X.columns)}"
        )
    place = data.X.columns.index(name)
    return replace(data, X=data.X.drop(name), ids=data.X[name], id_place=place)
