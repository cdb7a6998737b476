"""Damaged Arrow files: polars trusts what they declare, so they are checked first."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from partwise import RowSource
from partwise.data.frame_passes import encode_frames, read_frames
from partwise.data.frame_sources import open_frames
from partwise.data.table import Schema

OFFSETS = np.arange(0, 42, 2, dtype=np.int32)  # of twenty texts of two letters


def _content():
    texts = pa.array([f"w{i % 3}" for i in range(20)])
    codes = pa.DictionaryArray.from_arrays(np.full(20, 1, np.int32), ["a", "b"])
    out = io.BytesIO()
    table = pa.table({"text": texts, "kind": codes})
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _read(path):
    frames = RowSource(path).frames
    return [frame for _, _, frame in read_frames(frames)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OFFSETS, np.full_like(OFFSETS, 2**30)),  # reading there ended the process
        (OFFSETS, OFFSETS[::-1].copy()),
        (np.full(20, 1, np.int32), np.full(20, 77, np.int32)),  # a panic, which is no Exception
    ],
)
def test_places_and_codes_beyond_their_ends_are_refused(old, new, tmp_path):
    path, content = tmp_path / "t.arrow", _content()
    path.write_bytes(content)
    (frame,) = _read(path)
    assert frame["text"].to_list()[:3] == ["w0", "w1", "w2"]
    assert content.count(old.tobytes()) == 1
    path.write_bytes(content.replace(old.tobytes(), new.tobytes()))
    with pytest.raises(OSError, match=r"could not be read: .*; restore the source"):
        _read(path)


def test_a_compressed_text_that_is_damaged_is_named(tmp_path):
    """polars unpacks what begins as a zlib stream does."""
    for name in ("0.csv", "1.csv"):
        (tmp_path / name).write_bytes(b"\x78\x9cx,y\n1,2\n" * 3)
    with pytest.raises(OSError, match=r"0\.csv could not be read as CSV"):
        RowSource(tmp_path)


def test_a_size_beyond_all_memory_is_damage(tmp_path, monkeypatch):
    def describe(path):
        raise MemoryError("malloc of size 3154081395138225984 failed")

    monkeypatch.setattr("partwise.data.frame_sources._describe_file", describe)
    (tmp_path / "t.arrow").write_bytes(_content())
    with pytest.raises(OSError, match=r"t\.arrow could not be read as \.arrow \(malloc"):
        RowSource(tmp_path / "t.arrow")


def test_warnings_of_new_numbers_of_ordered_levels_are_those_of_tables_in_memory(recwarn):
    years = pl.DataFrame({"years": [1, 2, 5, 9] * 20})
    schema = Schema.learn(years, {"years": "ordinal"})
    within = pl.DataFrame({"years": [1, 3, 8]})
    coded = encode_frames(open_frames([within]), schema, "warn")
    np.testing.assert_array_equal(coded[:], schema.encode(within))
    assert not len(recwarn)
    text = r"'years' has values outside of the range that fit saw, 1 to 9 \(first: 10\.0\): treated"
    with pytest.warns(UserWarning, match=text):
        encode_frames(open_frames([within, pl.DataFrame({"years": [3, 10]})]), schema, "warn")
