"""The layout of a table in a text file, so that it can be written back in the same way.

Cells that are not imputed keep their bytes: without imputed values, the file is unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from partwise.contracts import Array
from partwise.data.forms import Form, NumberForm, TextForm
from partwise.data.records import Decoded

_QUOTE = ord('"')


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions of the cells of a text file, and formats of its values.

    Parameters
    ----------
    source : Decoded
        The file.
    separator : str
    start : int
        Position in the text where the first row of values starts.
    header : bool
        Whether a line contains column names.
    cells : polars DataFrame
        Texts of all cells, named like the columns.
    forms : mapping of str to Form
        Formats of the values of each column.
    missing : frozenset of str
        Texts that mean a missing value.
    """

    source: Decoded
    separator: str
    start: int
    header: bool
    cells: pl.DataFrame
    forms: Mapping[str, Form]
    missing: frozenset[str]

    def fill(self, filled: Mapping[str, pl.Series]) -> bytes:
        """The content of the file with imputed values.

        Parameters
        ----------
        filled : mapping of str to Series
            Values by column, one per row; null where the cell is unchanged.

        Returns
        -------
        content : bytes
        """
        new = {
            name: (rows, self.written(name, values.gather(rows)))
            for name, values in filled.items()
            if len(rows := values.is_not_null().arg_true())
        }
        if not new:
            return self.source.content
        if self._spans is None:  # quotes within values: all rows are formatted again
            cells = {name: self.cells[name].to_numpy().copy() for name in self.cells.columns}
            for name, (rows, texts) in new.items():
                cells[name][rows.to_numpy()] = texts.to_numpy()
            lines = self._lines(
                [pl.Series(name, cells[name].tolist(), pl.String) for name in cells]
            )
            return self._encoded(self.source.text[: self.start] + lines)
        starts, ends = self._spans
        body, pieces = self._body, dict[int, tuple[int, bytes]]()
        for name, (rows, texts) in new.items():
            d = self.cells.columns.index(name)
            texts = self._quoted(texts, name in self._quotes)
            for row, text in zip(rows.to_list(), texts.to_list(), strict=True):
                lo, hi = int(starts[row, d]), int(ends[row, d])
                pieces[lo] = hi, _amid(body[lo:hi], text.encode())
        out, last = list[bytes](), 0
        for lo in sorted(pieces):
            hi, piece = pieces[lo]
            out += [body[last:lo], piece]
            last = hi
        filled_text = b"".join([*out, body[last:]]).decode()
        return self._encoded(self.source.text[: self.start] + filled_text)

    def write(self, table: pl.DataFrame) -> bytes:
        """Write other rows in the same layout.

        Parameters
        ----------
        table : polars DataFrame
            Columns that are not in the file are formatted by polars.

        Returns
        -------
        content : bytes
        """
        columns = []
        for column in table.get_columns():
            column = column.fill_nan(None) if column.dtype.is_float() else column
            out = np.full(len(column), self.missing_mark, object)
            rows = column.is_not_null()
            out[rows.to_numpy()] = self.written(column.name, column.filter(rows)).to_numpy()
            columns.append(pl.Series(column.name, out.tolist(), pl.String))
        names = self.separator.join(self._quoted(pl.Series(table.columns), False).to_list())
        head = names + self.line_end if self.header else ""
        return self._encoded(head + self._lines(columns))

    @cached_property
    def line_end(self) -> str:
        """Most frequent line ending."""
        text = self.source.text
        pairs = text.count("\r\n")
        counts = {"\n": text.count("\n") - pairs, "\r\n": pairs, "\r": text.count("\r") - pairs}
        return max(counts, key=lambda end: counts[end])

    @cached_property
    def missing_mark(self) -> str:
        """Most frequent text of a missing value."""
        counts = Counter[str]()
        for column in self.cells.get_columns():
            bare = column.str.strip_chars()
            marks = bare.filter(bare.is_in(sorted(self.missing))).value_counts()
            counts.update(dict(marks.rows()))
        return counts.most_common(1)[0][0] if counts else ""

    def written(self, name: str, values: pl.Series) -> pl.Series:
        """Format values of a column, none of them missing, as in the file."""
        if name not in self.forms:
            return values.cast(pl.String)
        bare = self.cells[name].str.strip_chars()
        like = bare.filter(~bare.is_in(sorted(self.missing)))
        form = self.forms[name]
        if isinstance(form, TextForm) or len(like):
            return form.write(values, like).cast(pl.String)
        decimal = form.decimal if isinstance(form, NumberForm) else "."
        return values.cast(pl.String).str.replace(".", decimal, literal=True)

    def _quoted(self, texts: pl.Series, always: bool) -> pl.Series:
        """Texts in quotes, where needed or everywhere."""
        quoted = '"' + texts.str.replace_all('"', '""', literal=True) + '"'
        if always:
            return quoted
        needs = texts.str.contains_any([self.separator, '"', "\n", "\r"])
        return quoted.zip_with(needs, texts)

    def _lines(self, columns: list[pl.Series]) -> str:
        texts = [self._quoted(column, column.name in self._quotes) for column in columns]
        if len(texts) == 1:  # an empty line is not a row
            texts = [texts[0].replace("", '""')]
        frame = pl.DataFrame([text.alias(str(i)) for i, text in enumerate(texts)])
        lines = frame.select(pl.concat_str(pl.all(), separator=self.separator)).to_series()
        return self.line_end.join([*lines.to_list(), ""])

    def _encoded(self, text: str) -> bytes:
        try:
            return self.source.mark + text.encode(self.source.codec)
        except UnicodeEncodeError as error:
            held = text[error.start : error.end]
            raise ValueError(
                f"{held!r} cannot be written in {self.source.codec}; save the table as UTF-8 first."
            ) from None

    @cached_property
    def _body(self) -> bytes:
        return self.source.text[self.start :].encode()

    @cached_property
    def _spans(self) -> tuple[Array, Array] | None:
        """Starts and ends of all cells in `_body`; None if there are quotes within values.

        Lines without a cell are blank; with CR LF, the LF ends a blank line.
        """
        held = np.frombuffer(self._body, np.uint8)
        quote = held == _QUOTE
        cut = (held == ord(self.separator)) | (held == ord("\n")) | (held == ord("\r"))
        if quote.any():
            cut &= ~np.logical_xor.accumulate(quote)
        stops = np.append(np.flatnonzero(cut), len(held))
        begins = np.append(0, stops[:-1] + 1)
        ends_line = np.append(held[stops[:-1]] != ord(self.separator), True)
        record = np.append(0, np.cumsum(ends_line)[:-1])
        size = np.bincount(record)
        blank = (size[record] == 1) & (begins == stops)
        begins, stops, record = begins[~blank], stops[~blank], record[~blank]
        n, d = self.cells.shape
        if len(begins) != n * d or not (record.reshape(n, d) == record[::d, None]).all():
            return None
        inside = np.append(0, np.cumsum(quote)) if quote.any() else np.zeros(len(held) + 1)
        quoted = inside[stops] > inside[begins]
        if quoted.any():
            around = (held[begins[quoted]] == _QUOTE) & (held[stops[quoted] - 1] == _QUOTE)
            if not around.all():
                return None
        return begins.reshape(n, d), stops.reshape(n, d)

    @cached_property
    def _quotes(self) -> frozenset[str]:
        """Columns in which most values that are not blank are in quotes."""
        if '"' not in self.source.text or self._spans is None:
            return frozenset()
        starts, ends = self._spans
        held = np.append(np.frombuffer(self._body, np.uint8), 0)
        filled = ends > starts
        quoted = filled & (held[starts] == _QUOTE)
        mostly = quoted.sum(axis=0) > 0.5 * np.maximum(filled.sum(axis=0), 1)
        return frozenset(np.array(self.cells.columns, object)[mostly])


def _amid(old: bytes, new: bytes) -> bytes:
    """Replace a value, keeping the blanks around it."""
    bare = old.strip()
    if not bare or old.startswith(b'"'):
        return new
    before, _, after = old.partition(bare)
    return before + new + after
