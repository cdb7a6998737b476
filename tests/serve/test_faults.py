"""A real server, mistreated: wrong bodies, slow clients, many connections, killed workers.

Every answer identifies its row: with no value missing, rows come back as they were sent.
"""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import numpy as np
import pytest

from partwise import MCVQ
from partwise.serve import Limits
from tests.serve.client import client, talk

JSON = {"content-type": "application/json"}
COLUMNS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    import pandas as pd

    X = np.random.default_rng(0).normal(size=(200, 4)) + np.repeat([0, 5], 100)[:, None]
    frame = pd.DataFrame(X, columns=COLUMNS).assign(e=["left", "right"] * 100)
    path = tmp_path_factory.mktemp("models") / "m.safetensors"
    MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame).save(path)
    return path


def malformed(n, seed=0):
    """Bodies that no service should answer with 200, and one line of each about what is wrong."""
    rng = random.Random(seed)
    values = [float("inf"), float("-inf"), 10**400, [], {}, [1], {"x": 1}, "text", "\0", "\ud800"]
    rows = [
        lambda: {"rows": [{"a": rng.choice(values)}]},
        lambda: {"rows": [{rng.choice(["z", "", "\0", "A", "a "]): 1.0}]},
        lambda: {"rows": rng.choice([None, 1, "a", {}, [], [1], [None], [[1]]])},
        lambda: {"rows": [{"a": 1}], "coverage": rng.choice([0, 1, -1, 2, "x", [], float("nan")])},
        lambda: {"rows": [{"a": 1}], "more": 1},
        lambda: rng.choice([None, 1, "rows", [], [{}], {}]),
    ]
    for _ in range(n):
        kind = rng.randrange(4)
        if kind == 0:
            yield b"\x00" * rng.randrange(1, 50) + rng.randbytes(rng.randrange(50))
        elif kind == 1:
            yield b"[" * rng.randrange(1, 100_000)
        elif kind == 2:
            yield json.dumps(rng.choice(rows)()).encode()[: rng.randrange(1, 12)]
        else:
            yield json.dumps(rng.choice(rows)()).encode()


def test_nan_is_a_missing_value(path):
    (answer,) = talk([path], ("/models/m/impute", b'{"rows": [{"a": NaN}]}'))
    assert answer.status_code == 200
    assert answer.json()["rows"][0]["a"] is not None


@pytest.mark.parametrize(
    ("limits", "status", "pieces"),
    [({"body_bytes": 100}, 413, 5), ({"body_seconds": 0.05}, 408, None)],
)
def test_a_body_that_breaks_a_limit_while_it_arrives_is_refused(path, limits, status, pieces):
    async def content():
        for _ in range(pieces or 1):
            yield b" " * 50
        if pieces is None:
            await asyncio.sleep(10)

    async def run():
        async with client(path, limits=Limits(**limits)) as service:
            return await service.post("/models/m/impute", content=content(), headers=JSON)

    answer = asyncio.run(run())
    assert answer.status_code == status
    assert answer.json()["error"]


def check_refusals(answers):
    for body, answer in answers:
        assert answer.status_code in (400, 413, 422), (body[:80], answer.status_code, answer.text)
        assert isinstance(answer.json()["error"], str), body[:80]


def test_malformed_bodies_are_refused_with_one_sentence(path):
    bodies = list(malformed(150))
    answers = talk([path], *(("/models/m/impute", body) for body in bodies))
    check_refusals(zip(bodies, answers, strict=True))


@contextmanager
def served(path, *options, **settings):
    """Address of ``partwise serve``, its process, and where its log goes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = path.with_suffix(".log")
    command = [sys.executable, "-m", "partwise", "serve", str(path), "--port", str(port), *options]
    with open(log, "wb") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=lines, **settings)
    address = f"http://127.0.0.1:{port}"
    try:
        wait(lambda: httpx.get(address + "/ready").status_code == 200, 300)
        yield address, process, log
        assert process.poll() is None, log.read_text()  # it still runs
    finally:
        process.terminate()
        process.wait(60)


def wait(holds, seconds=90):
    over = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.05)


def row_of(sender):
    return {"a": sender, "b": -sender, "c": sender / 7, "d": 0.5, "e": "left"}


def ask(client, address, sender):
    """Status, and whether the answer is this sender's."""
    answer = client.post(address + "/models/m/impute", json={"rows": [row_of(sender)]})
    if answer.status_code == 200:
        assert answer.json()["rows"] == [row_of(sender)]
    else:
        assert answer.status_code in (429, 503)
        assert answer.json()["error"]
    return answer.status_code


@pytest.mark.slow
def test_1000_malformed_bodies_among_good_ones(path):
    with served(path) as (address, _, _), httpx.Client(timeout=60) as client:
        for i, body in enumerate(malformed(1000, seed=1)):
            answer = client.post(address + "/models/m/impute", content=body, headers=JSON)
            check_refusals([(body, answer)])
            if i % 50 == 0:
                assert ask(client, address, i) == 200


@pytest.mark.slow
def test_a_body_of_100_megabytes_is_refused_before_it_is_read(path):
    def chunks():
        for _ in range(100):
            yield b"1" * 1_000_000

    with served(path) as (address, process, _):
        before = memory(process.pid)
        for content in (b"1" * 100_000_000, chunks()):
            try:
                answer = httpx.post(
                    address + "/models/m/impute", content=content, timeout=60, headers=JSON
                )
                assert answer.status_code == 413
            except httpx.TransportError:
                pass  # the service closed the connection while the body was sent
        assert memory(process.pid) - before < 60e6
        assert ask(httpx, address, 3) == 200


def memory(process):
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.slow
def test_slow_clients_hold_up_nobody_and_are_told(path):
    with served(path) as (address, _, _):
        host, port = address[7:].split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(50)]
        for one in slow:
            one.sendall(b"POST /models/m/impute HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{")
        with httpx.Client(timeout=60) as client:
            assert [ask(client, address, i) for i in range(20)] == [200] * 20
        for one in slow:
            one.settimeout(60)
            assert b" 408 " in one.recv(4096)
            one.close()


@pytest.mark.slow
def test_500_connections_at_once_get_their_own_answers_or_a_clear_refusal(path):
    with served(path, "--max-waiting", "300") as (address, _, _):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        with (
            httpx.Client(timeout=120, limits=limits) as client,
            ThreadPoolExecutor(500) as pool,
        ):
            for _ in range(3):
                found = list(pool.map(partial(ask, client, address), range(500)))
                assert found.count(200) > 0
                assert set(found) <= {200, 429, 503}


@pytest.mark.slow
def test_a_damaged_file_is_not_served_and_that_is_said(path):
    good = path.read_bytes()
    with served(path) as (address, _, log), httpx.Client(timeout=60) as client:
        for damaged in (good[: len(good) // 2], b"", good[:-4] + b"ruin", os.urandom(5000)):
            beside = path.with_suffix(".new")
            beside.write_bytes(damaged)
            os.replace(beside, path)
            wait(lambda: client.get(address + "/models").json()[0]["problem"])
            assert client.get(address + "/ready").json()["problems"]["m"]
            assert ask(client, address, 5) == 200
            beside.write_bytes(good)
            os.replace(beside, path)
            wait(lambda: client.get(address + "/models").json()[0]["problem"] is None)
        assert "the previous one stays" in log.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_worker_is_replaced(path):
    with served(path, "--workers", "2") as (address, process, log):

        def workers():
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                children = [int(word) for word in file.read().split()]
            return [c for c in children if b"spawn_main" in cmdline(c)]

        def cmdline(child):
            with open(f"/proc/{child}/cmdline", "rb") as file:
                return file.read()

        wait(lambda: log.read_text().count("startup complete") == 2)
        os.kill(workers()[0], signal.SIGKILL)
        refused = 0
        for i in range(200):
            try:
                assert ask(httpx, address, i) == 200
            except httpx.TransportError:  # a connection of the killed one
                refused += 1
        assert refused < 10
        wait(lambda: log.read_text().count("startup complete") == 3)
        assert len(workers()) == 2
        assert ask(httpx, address, 7) == 200
