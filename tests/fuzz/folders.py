"""Folders of parquet, Arrow and CSV files as one table, read piece by piece and learned from."""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from partwise import MCVQ
from partwise.data.frame_passes import read_frames
from partwise.files import read_data
from tests.fuzz.binaries import as_parquet, damage_parquet
from tests.fuzz.harness import Content, Kind, mutate_bytes

# Learning takes far longer than reading, so a share of the folders is learned from.
_LEARNED = 30


def _frame(seed: int) -> pl.DataFrame:
    rng, n = np.random.default_rng(seed), 20
    return pl.DataFrame(
        {
            "x": [None if i % 9 == 0 else value for i, value in enumerate(rng.normal(size=n))],
            "whole": rng.integers(0, 50, n),
            "text": [None if i % 7 == 0 else f"w{i % 3}" for i in range(n)],
            "kind": pl.Series(["a", "b"] * (n // 2)).cast(pl.Categorical),
            "day": pl.Series(range(n)).cast(pl.Date),
        }
    )


def _as_arrow(frame: pl.DataFrame, compression: Any = "uncompressed", new: bool = True) -> bytes:
    """As polars writes it, or with the older types of other writers."""
    out = io.BytesIO()
    frame.write_ipc(
        out, compression=compression, compat_level=None if new else pl.CompatLevel.oldest()
    )
    return out.getvalue()


def _as_file(frame: pl.DataFrame, ending: str, new: bool = True) -> bytes:
    match ending:
        case "parquet":
            return as_parquet(frame, "uncompressed")
        case "arrow":
            return _as_arrow(frame, new=new)
    return frame.write_csv().encode()


def _seeds(folder: Path) -> None:
    for ending in ("parquet", "arrow", "csv"):
        (folder / ending).mkdir()
        for i in range(2):
            (folder / ending / f"{i}.{ending}").write_bytes(_as_file(_frame(i), ending, i == 0))


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    ending = rng.choice(("parquet", "arrow", "arrow", "csv"))
    seed = seeds[ending]
    assert isinstance(seed, dict)
    content = dict(seed)
    name = rng.choice(sorted(content))
    match rng.randrange(12):
        case 0:
            del content[name]
        case 1:
            content[f"2.{rng.choice(('parquet', 'arrow', 'csv', 'npy', 'txt'))}"] = content[name]
        case 2:
            frame = _frame(2)
            others = (
                frame.drop("x"),
                frame.rename({"x": "y"}),
                frame[:0],
                frame[:1],
                frame.with_columns(x=pl.lit("a")),
            )
            content[name] = _as_file(rng.choice(others), ending)
        case 3 if ending == "arrow":
            packed = _as_arrow(_frame(3), rng.choice(("lz4", "zstd")), rng.random() < 0.5)
            content[name] = mutate_bytes(rng, packed, 2)
        case _ if ending == "parquet":
            content[name] = damage_parquet(rng, content[name])
        case _:
            content[name] = mutate_bytes(rng, content[name], 3)
    return content


def _use(path: Path) -> None:
    chance = random.Random(zlib.crc32(b"".join(p.read_bytes() for p in sorted(path.iterdir()))))
    found = read_data(path)
    frames = found.X.frames
    assert frames is not None
    for _ in read_frames(frames):
        pass
    if chance.randrange(_LEARNED) == 0:
        MCVQ(2, 2, likelihood="auto", max_iter=3, random_state=0).fit(found.X)


KINDS = [Kind("table folders", _seeds, _mutate, _use, accepted=(ValueError, OSError))]
