"""What kernels compute, by numpy and bit for bit, for few cells (`_compiled.is_few`)."""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array


def encode_numbers(rows: Array, shift: Array, scale: Array, most: float, out: Array) -> int:
    """out[d, c] = (rows[c, d] - shift[d]) / scale[d], within +-most; tells how many are NaN."""
    with np.errstate(over="ignore", invalid="ignore"):  # is clipped; R's NA signals
        z = (0.5 * rows.T - 0.5 * shift[:, None]) * (2.0 / scale)[:, None]
    np.clip(z, -most, most, out=out, casting="same_kind")
    return int(np.isnan(out).sum())


def score_codes(columns: Array, pointers: Array, rows: Array, table: Array, out: Array) -> None:
    """out[r] += table[v, i] for every entry of value v in the i-th column; entries so sorted."""
    V = len(table)
    begin, end = pointers[columns * V], pointers[(columns + 1) * V]
    count = end - begin
    ends = np.cumsum(count)
    entries = np.arange(count.sum()) + np.repeat(begin - ends + count, count)
    value = np.searchsorted(pointers, entries, side="right") - 1  # of column and value together
    np.add.at(out, rows[entries], table[value % V, np.repeat(np.arange(len(columns)), count)])
