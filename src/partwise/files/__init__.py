"""Files of every kind: what is written and read, and the check of what was read.

What cannot be read is refused in one sentence that says what is wrong, where, and what to do. What
was guessed (separator, names, types) is told in `Data.told`. Each reader is imported when a file
asks for it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partwise.files.data import Data


def read_data(
    path: Path,
    *,
    missing: Collection[str] = (),
    texts: Collection[str] = (),
    numbers: Collection[str] = (),
    encoding: str | None = None,
    header: bool | None = None,
    resize: tuple[int, int] | None = None,
) -> Data:
    """Read a file, or a folder of images, by what it holds.

    Parameters
    ----------
    path : Path
    missing : collection of str
        Texts that mean a missing value, besides the usual ones.
    texts : collection of str
        Columns whose values are texts, even if they look like numbers.
    numbers : collection of str
        Columns whose values are numbers, even if zeros stand before them, as in 007.
    encoding : str, optional
        Of a text file; UTF-8 if not given.
    header : bool, optional
        Whether the first line of a text file names its columns; found out if not given.
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

        return read_parquet(path)
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed; unpack it, and name the file that comes out.")
    if path.suffix.lower() == ".safetensors":
        raise ValueError(
            f"{path} is a model, not data; `partwise report {path}` shows it, `partwise sample` "
            "draws from it."
        )
    if path.suffix.lower() in (".npy", ".npz", ".parquet"):
        raise ValueError(f"{path} is not what its name says, or damaged; write it again.")
    from partwise.files.text import read_table

    return read_table(path, missing, texts, numbers, encoding, header)
