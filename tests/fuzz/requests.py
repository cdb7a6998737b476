"""Requests to the service: JSON and Arrow bodies, answered or refused in one sentence."""

from __future__ import annotations

import asyncio
import copy
import functools
import io
import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl

from partwise import MCFA, MCVQ, Recommender
from partwise.serve import Settings, create_app
from tests.fuzz.harness import LONGEST_MESSAGE, Content, Kind, mutate_bytes
from tests.fuzz.models import mutate_header

_ROW = {"x": 0.5, "whole": 3, "kind": "a", "day": "2020-01-02", "flag": True, "nothing": None}
_RATED = {"ratings": {"i1": 4, "i2": 2}}
_BODIES: dict[str, dict[str, Any]] = {
    "t/impute": {"rows": [_ROW, {"kind": None}], "coverage": 0.8},
    "t/predict": {"rows": [_ROW], "columns": ["x", "kind"], "coverage": 0.9},
    "t/states": {"rows": [_ROW, {}]},
    "t/scores": {"rows": [_ROW, {"x": 1}]},
    "t/anomalous_cells": {"rows": [_ROW, _ROW], "n_cells": 5},
    "t/drift": {"rows": [_ROW] * 3, "alpha": 0.05},
    "t/explain": {"row": _ROW, "n_columns": 3},
    "t/sample": {"n": 3, "given": {"kind": "a"}, "random_state": 1},
    "c/classes": {"rows": [{"x0": 0.5, "x1": 2}]},
    "c/impute": {"rows": [{"x0": 0.5, "x1": None}]},
    "r/ratings": {**_RATED, "items": ["i3"], "coverage": 0.8},
    "r/recommend": {**_RATED, "n": 2, "among": ["i3", "i4"]},
    "r/next_question": _RATED,
    "r/reasons": {**_RATED, "item": "i3"},
}
_VALUES = (
    0, -1, 1e308, -1e308, 10**400, 2**63, 1e-320, float("nan"), float("inf"), True, None, "", "a",
    "b", "z", "3.5", "nan", "2020-01-02", "2020-13-45", "9999-12-31", "0000-00-00", "-1-1-1",
    "2020-01-02T25:00:00", "2020-01-02 10:00:00+05:00", "12:00", "\0", "\ud800", "é" * 3000, [], {},
)  # fmt: skip


class _RefusedError(Exception):
    """The service answered with a status of the client's fault."""


def _frame(n: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "x": rng.normal(size=n),
            "whole": rng.integers(0, 40, n),
            "kind": [f"{'abc'[i % 3]}" for i in range(n)],
            "day": pl.Series(18000 + rng.integers(0, 400, n)).cast(pl.Date),
            "flag": rng.random(n) < 0.5,
            "nothing": pl.Series([None] * n, dtype=pl.Float64),
        }
    )


def _stream(frame: pl.DataFrame, compression: Any = "uncompressed") -> bytes:
    out = io.BytesIO()
    frame.write_ipc_stream(out, compression=compression)
    return out.getvalue()


def _seeds(folder: Path) -> None:
    for place, body in _BODIES.items():
        content = place.encode() + b"\n" + json.dumps(body).encode()
        (folder / place.replace("/", " ")).write_bytes(content)
    for compression in ("uncompressed", "zstd"):
        content = b"t/impute/arrow\n" + _stream(_frame()[:8], compression)
        (folder / f"arrow {compression}").write_bytes(content)


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    seed = seeds[rng.choice(sorted(seeds))]
    assert isinstance(seed, bytes)
    place, _, body = seed.partition(b"\n")
    if place.endswith(b"arrow"):
        if rng.random() < 0.3:
            body = _stream(_odd_frame(rng))
        body = mutate_bytes(rng, body, 3) if rng.random() < 0.8 else body
    elif rng.random() < 0.1:
        body = mutate_bytes(rng, body)
    else:
        asked = copy.deepcopy(json.loads(body))
        for _ in range(rng.choice((1, 1, 2, 4))):
            if rng.random() < 0.5:
                mutate_header(rng, {"state": asked})
            else:
                _change_value(rng, asked)
        if rng.random() < 0.05:
            place = rng.choice(sorted(_BODIES)).encode()
        body = json.dumps(asked).encode()
    return place + b"\n" + body


def _change_value(rng: random.Random, asked: dict[str, Any]) -> None:
    """Put a strange value into a row, or among the ratings."""
    rows = asked.get("rows") or [asked.get(name) for name in ("row", "given", "ratings")]
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if found:
        row = rng.choice(found)
        row[rng.choice((*row, "x", "kind", "i1"))] = rng.choice(_VALUES)


def _odd_frame(rng: random.Random) -> pl.DataFrame:
    frame = _frame()[: rng.choice((0, 1, 8))]
    name = rng.choice(frame.columns)
    match rng.randrange(5):
        case 0:
            return frame.drop(name)
        case 1:
            return frame.rename({name: rng.choice(("y", "", "é"))})
        case 2:
            value = rng.choice((None, "a", 1e308, float("nan"), 2**62, True, [1], {"a": 1}))
            return frame.with_columns(pl.lit(value, allow_object=True).alias(name))
        case 3:
            return frame.with_columns(pl.col("whole").cast(pl.Datetime("ms")).alias(name))
    return frame.select(rng.sample(frame.columns, rng.randrange(len(frame.columns) + 1)))


@functools.cache
def _service() -> tuple[asyncio.AbstractEventLoop, httpx.AsyncClient]:
    """A running service of three models, and who talks to it."""
    folder = Path(tempfile.mkdtemp(prefix="partwise-fuzz-models-"))
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {"max_iter": 10, "random_state": 0}
    MCVQ(2, 2, likelihood="auto", **options).fit(_frame()).save(folder / "t.safetensors")
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    MCVQ(2, 2, **options).fit(X, y).save(folder / "c.safetensors")
    ratings = [(f"p{i}", f"i{j}", 1 + (i * j) % 5) for i in range(9) for j in range(1, 6)]
    member = MCFA(1, 2, likelihood="ordinal", **options)
    Recommender(member).fit(tuple(map(list, zip(*ratings, strict=True)))).save(
        folder / "r.safetensors"
    )
    paths = tuple(str(folder / f"{name}.safetensors") for name in "tcr")
    app = create_app(Settings(paths))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.router.lifespan_context(app).__aenter__())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    return loop, client


def _use(path: Path) -> None:
    place, _, body = path.read_bytes().partition(b"\n")
    loop, client = _service()
    answer = loop.run_until_complete(
        client.post(
            f"/models/{place.decode()}", content=body, headers={"content-type": "application/json"}
        )
    )
    if 400 <= answer.status_code < 500:
        raise _RefusedError(answer.json()["error"])
    assert answer.status_code == 200, answer.text
    if place.endswith(b"arrow"):
        pl.read_ipc_stream(answer.content)
    else:
        json.loads(answer.text, parse_constant=_not_json)


def _not_json(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _is_clear(error: BaseException) -> bool:
    message = str(error)
    return message.endswith((".", "?")) and len(message) <= LONGEST_MESSAGE and "\n" not in message


KINDS = [Kind("requests", _seeds, _mutate, _use, accepted=(_RefusedError,), clear=_is_clear)]
