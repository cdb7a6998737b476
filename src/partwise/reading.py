"""Data from files, and tables back to files: text, parquet, arrays of numpy, folders of images.

What cannot be read is refused in one sentence that says what is wrong, where, and what to do. What
was guessed (separator, names, types) is told in `Data.told`.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.data.frames import frame_of
from partwise.io import write_atomically

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")

DATE = re.compile(r"\d{4}-\d\d-\d\d")

# Lines that tell separator and header.
FIRST_LINES = 200
# Text in a column in which so many values are numbers is a slip, not a category.
MOSTLY = 0.9


class Data(NamedTuple):
    """What was read."""

    X: Any  # polars DataFrame, array or sparse matrix
    told: str  # what it is, and what was guessed
    image_shape: tuple[int, int] | None = None


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
    >>> from partwise.reading import read_data
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
        return _read_pictures(path, resize)
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith((b"\x93NUM", b"PK")):
        return _read_arrays(path)
    if start == b"PAR1":
        return _read_parquet(path)
    if start.startswith(b"\x1f\x8b"):
        raise ValueError(f"{path} is compressed; unpack it, and name the file that comes out.")
    if path.suffix.lower() == ".safetensors":
        raise ValueError(
            f"{path} is a model, not data; `partwise report {path}` shows it, `partwise sample` "
            "draws from it."
        )
    if path.suffix.lower() in (".npy", ".npz", ".parquet"):
        raise ValueError(f"{path} is not what its name says, or damaged; write it again.")
    return _read_text(path, set(MISSING) | set(missing), set(texts), set(numbers), encoding, header)


# --- text ---


def _read_text(
    path: Path,
    missing: set[str],
    texts: set[str],
    numbers: set[str],
    encoding: str | None,
    header: bool | None,
) -> Data:
    import polars as pl

    text = read_text(path, encoding)
    separator = _separator(path, text)
    first = next(_records(text, separator))[1]
    if header is None:
        header = _names_columns(
            first, [row for _, row in islice(_records(text, separator), 1, 999)]
        )
    names = _names(first) if header else [f"column {i + 1}" for i in range(len(first))]
    _check_ratings(path, names)
    n_rows = _check_lengths(path, text, separator, len(names)) - header
    if n_rows < 1:
        raise ValueError(
            f"{path} names columns, but has no rows; add some, or say --no-header if its first "
            "line is one."
        )
    texts = texts | ({names[i] for i in _codes(text, separator, header, missing)} - numbers)
    # What polars calls columns without names differs between its releases.
    called, body = (first, text) if header else (names, f"{separator.join(names)}\n{text}")
    as_text = {called[i]: pl.String for i, name in enumerate(names) if name in texts}
    if text.count('"') % 2:  # polars may read on to the end of the file
        _check_quotes(path, text, separator)
    try:
        frame = pl.read_csv(
            io.BytesIO(body.encode()),
            separator=separator,
            infer_schema_length=None,
            null_values=sorted(missing),
            schema_overrides=as_text,
        )
    except pl.exceptions.PolarsError as error:
        _check_quotes(path, text, separator)
        raise ValueError(f"{path} cannot be read: {error}") from error
    frame.columns = names
    for name in names:
        if frame[name].dtype == pl.String:
            frame = frame.with_columns(_typed(frame[name], missing, separator, name in texts))
            if frame[name].dtype == pl.String and name not in texts:
                row = _slip(frame[name], separator)
                if row is not None:
                    line = next(islice(_records(text, separator), row + header, None))[0]
                    raise ValueError(
                        f"{path}, line {line}: column {name!r} holds {frame[name][row]!r}, though "
                        f"nearly all of its values are numbers; correct it, or say what it is with "
                        f"--missing {frame[name][row]!r} or --kind '{name}=categorical'."
                    )
    _check_values(path, frame)
    named = "the first line names the columns" if header else (
        "no line names the columns, so they are called column 1, column 2 and so on"
    )  # fmt: skip
    split = f", separated by {SEPARATORS[separator]}" if len(names) > 1 else ""
    return Data(frame, f"{_size(frame)}{split}; {named}")


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read the text of a file, and refuse what is none.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        UTF-8 if not given.

    Returns
    -------
    text : str
        Ends with one line end.
    """
    content = path.read_bytes()
    if not content.strip():
        raise ValueError(f"{path} is empty; name a file that holds rows.")
    try:
        text = content.decode(encoding or "utf-8-sig")
    except LookupError:
        raise ValueError(f"There is no encoding {encoding!r}; try utf-8 or latin-1.") from None
    except UnicodeDecodeError as error:
        if encoding is None and content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return read_text(path, "utf-16")
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: the text is not {encoding or 'UTF-8'}; name its encoding, such "
            "as --encoding latin-1, or save the file as UTF-8."
        ) from None
    if "\0" in text[:10_000]:
        raise ValueError(
            f"{path} is neither text, parquet, .npy nor .npz; convert it to one of these."
        )
    return text.rstrip("\r\n") + "\n"


def _records(text: str, separator: str, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Records that are not blank, with the line each ends in."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=strict)
    for record in reader:
        if record:
            yield reader.line_num, record


def _separator(path: Path, text: str) -> str:
    """What cuts most of the first lines into equally many pieces."""
    best, chosen = (0.0, 0), ","
    for separator in SEPARATORS:
        widths = Counter(len(row) for _, row in islice(_records(text, separator), FIRST_LINES))
        width, times = widths.most_common(1)[0]
        if width > 1 and (times / widths.total(), width) > best:
            best, chosen = (times / widths.total(), width), separator
    if "::" in text[:1000].partition("\n")[0]:
        _refuse_ratings(path)
    return chosen


def _names_columns(first: list[str], rows: list[list[str]]) -> bool:
    """Whether the first record names columns: no number in it, and no value of the others."""
    if any(_is_number(cell) for cell in first) or len(set(first)) < len(first):
        return False
    below = [{row[i].strip() for row in rows if i < len(row)} for i in range(len(first))]
    return not any(cell.strip() in found for cell, found in zip(first, below, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _names(first: list[str]) -> list[str]:
    """Names of columns, all different."""
    out: list[str] = []
    for i, cell in enumerate(first):
        name = cell.strip() or f"column {i + 1}"
        times = sum(other.strip() == name for other in first[:i])
        out.append(f"{name} ({times + 1})" if times else name)
    return out


def _check_lengths(path: Path, text: str, separator: str, width: int) -> int:
    """Number of records; all must be of one length."""
    n = line = 0
    try:
        for line, record in _records(text, separator):
            n += 1
            if len(record) != width:
                raise ValueError(
                    f"{path}, line {line}: {len(record)} values where the first line has {width}; "
                    f"correct the line (values that hold {SEPARATORS[separator]} stand in quotes)."
                )
    except csv.Error as error:
        raise ValueError(f"{path}, after line {line}: {error}; correct the line.") from None
    return n


def _check_quotes(path: Path, text: str, separator: str) -> None:
    """Refuse quotes that are not closed, or closed within a value."""
    records, line = _records(text, separator, strict=True), 0
    try:
        while record := next(records, None):
            line = record[0]
    except csv.Error:
        raise ValueError(
            f"{path}, line {line + 1}: a quote opens that does not close at the end of its value; "
            "close it, or take it out."
        ) from None


def _check_values(path: Path, frame: Any) -> None:
    """Refuse tables of nothing but holes."""
    if not any(column.count() for column in frame.get_columns()):
        raise ValueError(
            f"{path}: all cells are empty, or hold what means missing; name a file with values."
        )


def _codes(text: str, separator: str, header: bool, missing: set[str]) -> set[int]:
    """Columns with values such as 007, which as numbers would not be what they were."""
    ends = re.escape(separator) + r"\r\n"
    if not re.search(rf'[{ends}]"?0\d+"?[{ends}]', "\n" + text):
        return set()
    return {
        i
        for _, record in islice(_records(text, separator), int(header), None)
        for i, cell in enumerate(record)
        if cell[:1] == "0" and cell[1:].isdecimal() and cell not in missing
    }


def _typed(series: Any, missing: set[str], separator: str, as_text: bool) -> Any:
    """A column of texts without blanks around them, as numbers or dates if all are."""
    import polars as pl

    stripped = series.str.strip_chars()
    stripped = stripped.set(stripped.is_in(sorted(missing)), None)
    if as_text:
        return stripped
    numbers = _numbers(stripped, separator)
    if numbers.count() == stripped.count() > 0:
        return numbers
    # Polars' own search for dates is slow where there are none.
    if any(map(DATE.match, stripped.drop_nulls().head(1))):
        for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"):
            plain = stripped.str.replace("T", " ", literal=True).str.strip_suffix("Z")
            kind = pl.Date if form == "%Y-%m-%d" else pl.Datetime
            dates = plain.str.strptime(kind, form, strict=False)
            if dates.count() == stripped.count():
                return dates
    return stripped


def _numbers(series: Any, separator: str) -> Any:
    """Texts as numbers, null where they are none; 1,5 is one where commas separate nothing."""
    import polars as pl

    plain = series.str.replace(",", ".", literal=True) if separator != "," else series
    return plain.cast(pl.Float64, strict=False)


def _slip(series: Any, separator: str) -> int | None:
    """The first row that holds a text, if nearly all hold numbers."""
    numbers = _numbers(series, separator)
    if numbers.count() < MOSTLY * max(series.count(), 1):
        return None
    return int((numbers.is_null() & series.is_not_null()).arg_max())


def _check_ratings(path: Path, names: list[str]) -> None:
    """Refuse lists of ratings: their rows are no rows of a table."""
    plain = {name.lower().replace("_", "").removesuffix("id") for name in names}
    if "user" in plain and "rating" in plain and plain & {"item", "movie"}:
        _refuse_ratings(path)


def _refuse_ratings(path: Path) -> None:
    raise ValueError(
        f"{path} looks like a list of ratings (user, item, rating); learn from it with "
        f"`partwise recommend {path}`."
    )


def _size(frame: Any) -> str:
    n, d = frame.shape
    return f"a table of {n:,} row{'s' * (n != 1)} and {d:,} column{'s' * (d != 1)}"


# --- other files ---


def _read_parquet(path: Path) -> Data:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except Exception as error:  # polars has many; the file is at fault in all of them
        raise ValueError(f"{path} cannot be read: {error}") from error
    if frame.is_empty():
        raise ValueError(f"{path} has no rows; name a file that has some.")
    _check_ratings(path, frame.columns)
    _check_values(path, frame)
    return Data(frame, _size(frame))


def _read_arrays(path: Path) -> Data:
    """The array of a ``.npy`` file; the only one, or data or X, of a ``.npz``; or a sparse one."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                array = content
            elif not any(name.endswith(".npy") for name in content.zip.namelist()):
                raise ValueError("it holds no array; save a workbook's table as .csv first.")
            elif "format" in content.files and "shape" in content.files:
                array = sparse.csr_array(sparse.load_npz(path))
            else:
                array = content[_choose(content.files)]
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    shape = None
    if array.ndim == 3:  # a stack of images
        shape = (int(array.shape[1]), int(array.shape[2]))
        array = array.reshape(len(array), -1)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or 0 in array.shape:
        raise ValueError(
            f"{path} holds an array of shape {array.shape} and type {array.dtype}; a table of "
            "numbers is needed, one row a sample (or a stack of images)."
        )
    kind = "a sparse table" if sparse.issparse(array) else "a table"
    kind = kind if shape is None else f"images of {shape[0]}x{shape[1]} pixels,"
    return Data(array, f"{kind} of {array.shape[0]:,} rows and {array.shape[1]:,} columns", shape)


def _choose(names: list[str]) -> str:
    """Choose the array to read from a file with several."""
    for name in ("data", "X"):
        if name in names:
            return name
    if len(names) != 1:
        raise ValueError(
            f"it holds the arrays {', '.join(names) or '(none)'}; call the one to read data or X."
        )
    return names[0]


def _read_pictures(folder: Path, resize: tuple[int, int] | None) -> Data:
    """All images of a folder in grey, from 0 to 1, in the order of their names."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    if not paths:
        raise ValueError(f"{folder} holds no images ({', '.join(PICTURES)}); name another folder.")
    rows: list[Array] = []
    for path in paths:
        grey = _grey(path, resize)
        if rows and grey.shape != rows[0].shape:
            sizes = [f"{image.shape[0]}x{image.shape[1]}" for image in (grey, rows[0])]
            raise ValueError(
                f"{path} is of {sizes[0]} pixels, but {paths[0].name} of {sizes[1]}; bring all to "
                f"one size with --resize {sizes[1]}."
            )
        rows.append(grey)
    height, width = rows[0].shape
    X = np.stack(rows).reshape(len(rows), -1)
    number = f"{len(rows):,} image{'s' * (len(rows) != 1)}"
    return Data(X, f"{number} of {height}x{width} pixels, in grey", (height, width))


def _grey(path: Path, resize: tuple[int, int] | None) -> Array:
    from PIL import Image

    from partwise.compression import read_picture  # brings a model along that tables do not need

    picture = read_picture(path)
    grey = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture).convert("L")
    if resize is not None:
        grey = grey.resize(resize[::-1], Image.Resampling.LANCZOS)
    return np.asarray(grey, np.float32) / 255.0


# --- and back ---


def check_table_name(path: str | os.PathLike[str]) -> None:
    """Refuse a name whose end does not say how a table is to be written."""
    if Path(path).suffix.lower() not in TABLES:
        raise ValueError(f"{path} must end with {', '.join(TABLES[:-1])} or {TABLES[-1]}.")


def write_table(path: str | os.PathLike[str], table: Any) -> None:
    """Write a polars DataFrame or an array: text, ``.parquet`` or ``.npy``, by the name's end.

    Parameters
    ----------
    path : str or path-like
        A file that is complete or not there.
    table : polars DataFrame, pandas DataFrame or array of shape (n, D)
        Columns of an array are called column 1, column 2, ...
    """
    import polars as pl

    check_table_name(path)
    out, ending = io.BytesIO(), Path(path).suffix.lower()
    if ending == ".npy":
        try:
            np.save(out, np.asarray(table, dtype=float))
        except (TypeError, ValueError):
            raise ValueError(
                f"{path} would hold numbers alone, but the table has other columns, too; write it "
                "as .csv or .parquet."
            ) from None
    else:
        kind = frame_of(table)
        if kind == "array":
            table = pl.DataFrame({f"column {i + 1}": column for i, column in enumerate(table.T)})
        elif kind == "pandas":
            table = pl.DataFrame({str(name): table[name].to_list() for name in table.columns})
        if ending == ".parquet":
            table.write_parquet(out)
        else:
            table.write_csv(out, separator="\t" if ending == ".tsv" else ",")
    write_atomically(path, out.getvalue())
