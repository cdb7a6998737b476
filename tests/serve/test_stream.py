"""The recipe for streams: batches are learned once, and a running service loads each version."""

import asyncio
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import partwise
from tests.serve.client import client

RECIPE = Path(__file__).parents[2] / "examples" / "stream.py"


@pytest.fixture(scope="module")
def learn():
    return runpy.run_path(str(RECIPE))["learn"]


def batch(seed, n=60):
    rng = np.random.default_rng(seed)
    left = rng.random(n) < 0.5
    numbers = {name: rng.normal(4.0 * left, 1.0) for name in "abc"}
    return pl.DataFrame({**numbers, "side": np.where(left, "left", "right")})


def test_a_running_service_answers_by_the_newest_batch(learn, tmp_path):
    model, inbox = tmp_path / "m.safetensors", tmp_path / "inbox"
    inbox.mkdir()
    batch(0).write_csv(inbox / "0.csv")
    assert learn(model, inbox) == 1

    async def run():
        async with client(model) as service:
            before = (await service.post("/models/m/scores", json={"rows": [{"a": 1.0}]})).json()
            batch(1).write_parquet(inbox / "1.parquet")
            assert learn(model, inbox) == 1
            for _ in range(200):
                after = await service.post("/models/m/scores", json={"rows": [{"a": 1.0}]})
                assert after.status_code == 200
                if after.json() != before:
                    return after.json()
                await asyncio.sleep(0.05)
            raise AssertionError("the new version was not loaded")

    found = asyncio.run(run())
    newest = partwise.load(model)
    row = batch(0)[:1].with_columns(pl.lit(1.0).alias("a"), b=None, c=None, side=None)
    assert found["log_likelihood"][0] == pytest.approx(newest.score_samples(row)[0])
    assert newest.n_samples_seen_ == 120


def test_a_batch_is_learned_once_and_a_killed_loop_goes_on(learn, tmp_path, monkeypatch):
    model, inbox = tmp_path / "m.safetensors", tmp_path / "inbox"
    inbox.mkdir()
    for i in range(3):
        batch(i).write_csv(inbox / f"{i}.csv")
    saves = []
    save = partwise.MCVQ.save

    def killed(self, path):
        if len(saves) == 2:
            raise KeyboardInterrupt
        saves.append(path)
        save(self, path)

    monkeypatch.setattr(partwise.MCVQ, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        learn(model, inbox)
    assert partwise.load(model).n_samples_seen_ == 120
    monkeypatch.setattr(partwise.MCVQ, "save", save)
    assert learn(model, inbox) == 1
    assert learn(model, inbox) == 0
    assert partwise.load(model).n_samples_seen_ == 180
