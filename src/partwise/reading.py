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
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy import sparse

from partwise.contracts import Array
from partwise.data.frames import frame_of
from partwise.files.model import write_atomically

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DOUBLE_COLON = "::"  # between user, item, rating and time in MovieLens' own files
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy")
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp")

DATE = re.compile(r"\d{4}-\d\d-\d\d")

# Columns of a text: so many take polars five seconds and 250 MB, however few the rows are.
MOST_COLUMNS = 100_000
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
    text = read_text(path, encoding)
    separator = separator_of(path, text)
    if separator == DOUBLE_COLON:
        _refuse_ratings(path)
    first = next(records(path, text, separator))[1]
    if len(first) > MOST_COLUMNS:
        raise ValueError(
            f"{path} has {len(first):,} columns, more than the {MOST_COLUMNS:,} that a text may "
            "have; save the table as .npy, .npz or .parquet."
        )
    if header is None:
        header = _names_columns(
            first, [row for _, row in islice(records(path, text, separator), 1, 999)]
        )
    names = _names(first) if header else [f"column {i + 1}" for i in range(len(first))]
    _check_ratings(path, names)
    n_rows = _check_lengths(path, text, separator, len(names)) - header
    if n_rows < 1:
        raise ValueError(
            f"{path} names columns, but has no rows; add some, or say --no-header if its first "
            "line is one."
        )
    codes = _codes(path, text, separator, header, missing)
    as_text = [
        name in texts or (i in codes and name not in numbers) for i, name in enumerate(names)
    ]
    frame = _parsed(path, text, separator, header, missing, as_text, n_rows)
    frame, slip = _typed(frame, missing, separator, as_text)
    frame.columns = names
    if slip is not None:
        column, row, held = slip
        line = next(islice(records(path, text, separator), row + header, None))[0]
        raise ValueError(
            f"{path}, line {line}: column {shortened(names[column])} holds {shortened(held)}, "
            "though nearly all of its values are numbers; correct it, or say what it is with "
            f"--missing {shortened(held)} or --kind {shortened(names[column] + '=categorical')}."
        )
    _check_values(path, frame)
    named = "the first line names the columns" if header else (
        "no line names the columns, so they are called column 1, column 2 and so on"
    )  # fmt: skip
    split = f", separated by {SEPARATORS[separator]}" if len(names) > 1 else ""
    return Data(frame, f"{_size(frame)}{split}; {named}")


def _parsed(
    path: Path,
    text: str,
    separator: str,
    header: bool,
    missing: set[str],
    as_text: list[bool],
    n_rows: int,
) -> Any:
    """The text as polars reads it, with columns of any names.

    Polars takes quotes and lines that end with a carriage return otherwise than Python does, and
    not the same way in all releases. Such a text is written anew in the form that all agree on.
    """
    frame = None
    if '"' not in text and text.count("\r") == text.count("\r\n"):
        body = _after_records(path, text, separator, int(header))
        frame = _frame(body, separator, missing, as_text)
    if frame is None or len(frame) != n_rows:
        _check_quotes(path, text, separator)
        out = io.StringIO()
        rows = islice(records(path, text, separator), int(header), None)
        writer = csv.writer(out, delimiter=separator, lineterminator="\n")
        writer.writerows(row for _, row in rows)
        frame = _frame(out.getvalue(), separator, missing, as_text)
    if frame is None or len(frame) != n_rows:
        raise ValueError(
            f"{path} cannot be read as a table, though its lines are of one length; save it anew "
            "as comma-separated text in UTF-8, or as .parquet."
        )
    return frame


def _frame(body: str, separator: str, missing: set[str], as_text: list[bool]) -> Any:
    """What polars makes of lines without a header; None if it cannot."""
    import polars as pl

    # What polars calls columns without names differs between its releases.
    names = [f"c{i}" for i in range(len(as_text))]
    texts = {name: pl.String for name, kept in zip(names, as_text, strict=True) if kept}
    try:
        return pl.read_csv(
            io.BytesIO(f"{separator.join(names)}\n{body}".encode()),
            separator=separator,
            infer_schema_length=None,
            null_values=sorted(missing),
            schema_overrides=texts,
        )
    except (pl.exceptions.PolarsError, UnicodeEncodeError):
        return None


def _after_records(path: Path, text: str, separator: str, n: int) -> str:
    """The text without its first records."""
    if n == 0:
        return text
    line, _ = next(islice(records(path, text, separator), n - 1, None))
    lines = io.StringIO(text, newline="")
    for _ in islice(lines, line):
        pass
    return text[lines.tell() :]


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
    try:
        text = content.decode(encoding or "utf-8-sig")
    except UnicodeError as error:
        if encoding is None and content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return read_text(path, "utf-16")
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        raise ValueError(
            f"{path}, line {line}: the text is not {encoding or 'UTF-8'}; name its encoding, such "
            "as --encoding latin-1, or save the file as UTF-8."
        ) from None
    except (LookupError, ValueError):
        raise ValueError(f"There is no encoding {encoding!r}; try utf-8 or latin-1.") from None
    if not text.strip():
        raise ValueError(f"{path} is empty; name a file that holds rows.")
    if "\0" in text[:10_000]:
        raise ValueError(
            f"{path} is neither text, parquet, .npy nor .npz; convert it to one of these."
        )
    return text.rstrip("\r\n") + "\n"


def records(path: Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Records of a text that are not blank, with the line each ends in."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error:
        raise ValueError(
            f"{path}, up to line {reader.line_num}: a value has more than "
            f"{csv.field_size_limit():,} characters; shorten it, or close the quote that opens it."
        ) from None


def separator_of(path: Path, text: str) -> str:
    """What cuts most of the first lines into equally many pieces: one of SEPARATORS, or "::"."""
    best, chosen = (0.0, 0), ","
    for separator in (*SEPARATORS, DOUBLE_COLON):
        widths = Counter[int]()
        with suppress(ValueError):  # without the right one a line may be too long for one value
            widths.update(islice(_widths(path, text, separator), FIRST_LINES))
        width, times = (widths.most_common(1) or [(0, 0)])[0]
        least = 3 if separator == DOUBLE_COLON else 2  # ratings have a user, an item and a rating
        if width >= least and (times / widths.total(), width) > best:
            best, chosen = (times / widths.total(), width), separator
    return chosen


def _widths(path: Path, text: str, separator: str) -> Iterator[int]:
    """Number of pieces of every record that is not blank."""
    if separator == DOUBLE_COLON:
        return (len(line.split(separator)) for line in io.StringIO(text) if line.strip())
    return (len(row) for _, row in records(path, text, separator))


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
    times, out = Counter[str](), dict[str, None]()
    for i, cell in enumerate(first):
        name = plain = cell.strip() or f"column {i + 1}"
        while name in out:
            times[plain] += 1
            name = f"{plain} ({times[plain] + 1})"
        out[name] = None
    return list(out)


def _check_lengths(path: Path, text: str, separator: str, width: int) -> int:
    """Number of records; all must be of one length."""
    n = 0
    for line, record in records(path, text, separator):
        n += 1
        if len(record) != width:
            raise ValueError(
                f"{path}, line {line}: {len(record)} values where the first line has {width}; "
                f"correct the line (values that hold {SEPARATORS[separator]} stand in quotes)."
            )
    return n


def _check_quotes(path: Path, text: str, separator: str) -> None:
    """Refuse quotes that are not closed, or closed within a value."""
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 0
    try:
        for _ in reader:
            line = reader.line_num
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


def _codes(path: Path, text: str, separator: str, header: bool, missing: set[str]) -> set[int]:
    """Columns with values such as 007, which as numbers would not be what they were."""
    ends = re.escape(separator) + r"\r\n"
    if not re.search(rf'[{ends}]"?0\d+"?[{ends}]', "\n" + text):
        return set()
    return {
        i
        for _, record in islice(records(path, text, separator), int(header), None)
        for i, cell in enumerate(record)
        if cell[:1] == "0" and cell[1:].isdecimal() and cell not in missing
    }


def _typed(
    frame: Any, missing: set[str], separator: str, as_text: list[bool]
) -> tuple[Any, tuple[int, int, str] | None]:
    """The table with texts without blanks around them, as numbers or dates where all are.

    Where nearly all texts of a column are numbers, the first that is none is given, too: its
    column, its row and the text.
    """
    import polars as pl

    columns, n = frame.get_columns(), len(frame)
    texts = [i for i, column in enumerate(columns) if column.dtype == pl.String]
    if not texts:
        return frame, None
    # All in one long column: thousands of short ones would each take polars a millisecond.
    long = pl.concat([columns[i].alias("") for i in texts], rechunk=True).str.strip_chars()
    long = long.set(long.is_in(sorted(missing)), None)
    # 1,5 is a number where commas separate nothing.
    plain = long if separator == "," else long.str.replace(",", ".", literal=True)
    numbers = plain.cast(pl.Float64, strict=False)
    held, is_number = (one.is_not_null().to_numpy().reshape(-1, n) for one in (long, numbers))
    n_held, n_numbers = held.sum(axis=1), is_number.sum(axis=1)
    slip = None
    for place, i in enumerate(texts):
        name, lo = columns[i].name, place * n
        columns[i] = long.slice(lo, n).alias(name)
        if as_text[i] or n_held[place] == 0:
            continue
        if n_numbers[place] == n_held[place]:
            columns[i] = numbers.slice(lo, n).alias(name)
        elif n_numbers[place] >= MOSTLY * n_held[place]:
            row = int(np.argmax(held[place] & ~is_number[place]))
            slip = slip or (i, row, columns[i][row])
        elif DATE.match(columns[i][int(np.argmax(held[place]))]):
            columns[i] = _dates(columns[i], int(n_held[place]))
    return pl.DataFrame(columns), slip


def _dates(text: Any, n: int) -> Any:
    """A column as dates if all of its n texts are, else as it is."""
    import polars as pl

    plain = text.str.replace("T", " ", literal=True).str.strip_suffix("Z")
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"):
        kind = pl.Date if form == "%Y-%m-%d" else pl.Datetime
        dates = plain.str.strptime(kind, form, strict=False)
        if dates.count() == n:
            return dates
    return text


def shortened(text: str, most: int = 40) -> str:
    """A text in quotes for a message, cut where it is long."""
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")


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
