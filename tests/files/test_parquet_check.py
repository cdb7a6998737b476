"""What parquet files declare is held against the file before polars reserves memory for it."""

from __future__ import annotations

import copy

import numpy as np
import polars as pl
import pytest

from partwise.files import read_data
from partwise.files.parquet_check import impossible

ROWS = np.arange(3.0)
PAGE = {1: 0, 2: 24, 3: 24, 5: {1: 3, 2: 0, 3: 3, 4: 3}}
LARGE = 2**31 - 1


def _number(value):
    out, left = b"", value << 1 ^ value >> 63
    while left > 127:
        out, left = out + bytes([left & 127 | 128]), left >> 7
    return out + bytes([left])


def _value(value):
    """The type of Thrift's compact protocol, and the bytes."""
    match value:
        case int():
            return 5, _number(value)
        case bytes():
            return 8, bytes([len(value)]) + value
        case dict():
            return 12, _structure(value)
        case list():
            inner = [_value(one) for one in value]
            return 9, bytes([len(inner) << 4 | inner[0][0]]) + b"".join(one for _, one in inner)
    raise TypeError(value)


def _structure(fields):
    out = b""
    for number, value in fields.items():
        kind, content = _value(value)
        out += bytes([kind]) + _number(number) + content
    return out + b"\0"


SIZE = len(_structure(PAGE)) + ROWS.nbytes
COLUMN = {1: 5, 2: [0], 3: [b"x"], 4: 0, 5: 3, 6: SIZE, 7: SIZE, 9: 4}
FOOTER = {
    1: 1,
    2: [{4: b"schema", 5: 1}, {1: 5, 3: 0, 4: b"x"}],
    3: 3,
    4: [{1: [{2: 4, 3: COLUMN}], 2: SIZE, 3: 3}],
}


def _write(path, change=lambda footer, page: None):
    footer, page = copy.deepcopy((FOOTER, PAGE))
    change(footer, page)
    body, tail = b"PAR1" + _structure(page) + ROWS.tobytes(), _structure(footer)
    path.write_bytes(body + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    return path


def _column(footer):
    return footer[4][0][1][0][3]


def test_a_file_that_is_as_it_declares(tmp_path):
    assert impossible(_write(tmp_path / "t.parquet")) is None


CHANGES = {
    "rows": lambda footer, page: footer.update({3: LARGE}),
    "rows of a group": lambda footer, page: footer[4][0].update({3: -1}),
    "columns": lambda footer, page: footer[2].append({1: 5, 4: b"y"}),
    "a deep schema": lambda footer, page: footer.update({2: [{4: b"s", 5: 1}] * 14}),
    "values of a column": lambda footer, page: _column(footer).update({5: LARGE}),
    "size of a column": lambda footer, page: _column(footer).update({7: LARGE}),
    "place of a column": lambda footer, page: _column(footer).update({9: 10**9}),
    "a page beyond the file": lambda footer, page: page.update({3: LARGE}),
    "a large page": lambda footer, page: page.update({2: LARGE}),
    "a page of less than nothing": lambda footer, page: page.update({2: -1}),
    "values of a page": lambda footer, page: page[5].update({1: LARGE}),
    "a large dictionary": lambda footer, page: page.update({7: {1: LARGE, 2: 0}}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_is_refused_in_one_sentence(name, tmp_path, monkeypatch):
    if name == "a deep schema":
        monkeypatch.setattr("partwise.files.parquet_check._DEEPEST", 10)
    path = _write(tmp_path / "t.parquet", CHANGES[name])
    reason = impossible(path)
    assert reason
    monkeypatch.setattr(pl, "read_parquet", None)  # it would believe the file
    with pytest.raises(ValueError, match=r"cannot be read \(.*\): it is damaged, or of another"):
        read_data(path)


def _encrypt_column(footer, page):
    chunk = footer[4][0][1][0]
    chunk.pop(3)
    chunk.update({8: {1: {}}})


def test_encrypted_files_are_not_called_damaged(tmp_path):
    path = _write(tmp_path / "t.parquet", _encrypt_column)
    for _ in range(2):
        for what in (path, tmp_path):  # the file, and the folder in which it is
            with pytest.raises(ValueError, match=r"t\.parquet is encrypted; save it without enc"):
                read_data(what)
        path.write_bytes(path.read_bytes().replace(b"PAR1", b"PARE"))


@pytest.mark.parametrize("number", [4, 9])  # a list that is looked at, and one that is not
def test_lists_in_lists_without_end(number, tmp_path):
    path = tmp_path / "t.parquet"
    footer = bytes([number << 4 | 9]) + b"\x19" * 5000 + b"\0"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert impossible(path) == "its footer or a page is nested too deeply"


@pytest.mark.parametrize("n_bytes", [4, 5])
def test_counts_of_the_footer_beyond_its_end(n_bytes, tmp_path):
    # polars reserved 64 bytes for each of 2**31 columns: 128 GB, or the end of the process.
    content = _write(tmp_path / "t.parquet").read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - length], content[-8 - length : -8]
    at = footer.index(b"\x2c")  # two elements, which are structures
    footer = footer[:at] + b"\xfc" + b"\xff" * (n_bytes - 1) + b"\x07" + footer[at + 1 :]
    path = tmp_path / "u.parquet"
    path.write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert "more than there is" in impossible(path)


def test_files_that_end_early(tmp_path):
    content = _write(tmp_path / "t.parquet").read_bytes()
    for size in range(4, len(content)):
        (tmp_path / "u.parquet").write_bytes(content[:size])
        assert impossible(tmp_path / "u.parquet")


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "zstd", "gzip", "lz4"])
def test_files_of_polars_of_all_types(compression, tmp_path):
    n = 50
    frame = pl.DataFrame(
        {
            "float": np.arange(n) / 7,
            "constant": np.zeros(n),
            "text": [None if i % 5 == 0 else f"w{i % 3}" for i in range(n)],
            "list": [None if i % 6 == 0 else [1] * (i % 4) for i in range(n)],
            "structure": [{"a": i, "b": [{"c": [str(i)]}]} for i in range(n)],
            "nothing": [None] * n,
            "kind": pl.Series(["x", "y"] * (n // 2)).cast(pl.Categorical),
        }
    )
    for rows, options in ((n, {}), (n, {"row_group_size": 10, "data_page_size": 20}), (0, {})):
        frame[:rows].write_parquet(tmp_path / "t.parquet", compression=compression, **options)
        assert impossible(tmp_path / "t.parquet") is None
