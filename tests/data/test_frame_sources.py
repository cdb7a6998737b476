"""Damaged Arrow files: polars trusts what they declare, so they are checked first."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

from partwise import RowSource
from partwise.data.frame_passes import read_frames

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
