"""Models at work: drift found and false alarms, the service under load, and cold starts."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from partwise import MCVQ, Recommender, drift, make_survey
from partwise_papers.bench import register
from partwise_papers.registry import Array, Row

if TYPE_CHECKING:
    import pandas as pd

N_SAMPLES, N_ROWS, N_COLUMNS = 100, 2000, 40
N_CLIENTS, PER_CLIENT, N_REQUESTS = 8, 1000, 200_000


def _table(n: int, means: Array, rng: np.random.Generator) -> Array:
    """Rows of four parts with three states and eight columns each, and eight other columns."""
    X = rng.normal(size=(n, N_COLUMNS))
    for k, own in enumerate(means):
        X[:, 8 * k : 8 * k + 8] += own[rng.integers(3, size=n)]
    return X


@register("drift")
def drift_found(progress: Callable[[str], None]) -> list[Row]:
    """Samples of 2000 rows of 40 columns: a shift of half a deviation in one column, and none.

    Every sample has its own model, fitted to 2000 rows.
    """
    found = alarms = 0
    rng = np.random.default_rng(0)
    for i in range(N_SAMPLES):
        progress(f"sample {i + 1} of {N_SAMPLES}")
        means = rng.normal(0.0, 1.2, (4, 3, 8))
        model = MCVQ(4, 3, random_state=0).fit(_table(N_ROWS, means, rng))
        new = _table(N_ROWS, means, rng)
        alarms += bool(drift(model, new).drifted)
        column = int(rng.integers(N_COLUMNS))
        new[:, column] += 0.5 * new[:, column].std()
        found += f"x{column}" in drift(model, new).drifted
    return [{"samples": N_SAMPLES, "shift found": found, "false alarms": alarms}]


def _mixed_table(n: int, levels: Array, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of 40 columns of four kinds, ten each, with a tenth of the cells missing.

    Three hidden types of rows decide half of the columns of each kind; ``levels`` (3, 40) are what
    they decide.
    """
    import pandas as pd

    center = np.where(np.arange(N_COLUMNS) % 2 == 0, levels[rng.integers(3, size=n)], 0.0)
    noise = rng.normal(size=center.shape)
    columns = {}
    for d in range(N_COLUMNS):
        value = center[:, d] + noise[:, d]
        if d < 10:
            columns[f"number{d}"] = value
        elif d < 20:
            columns[f"skewed{d}"] = np.exp(0.7 * value)
        elif d < 30:
            columns[f"kind{d}"] = np.array(["low", "middle", "high", "top"])[
                np.searchsorted([-1.0, 0.0, 1.0], value)
            ]
        else:
            columns[f"count{d}"] = rng.poisson(np.exp(1.0 + 0.4 * value)).astype(float)
    frame = pd.DataFrame(columns)
    return frame.mask(rng.random(frame.shape) < 0.1)


@register("drift_mixed")
def drift_mixed(progress: Callable[[str], None]) -> list[Row]:
    """Mixed tables of 40 columns with missing values, 2000 rows: planted shifts, and none.

    Another generator than that of ``drift``, on which the method was developed. The shifts: half a
    deviation in a number; 15 % of the rows of a categorical column set to one level; 10 % more
    missing values in one column.
    """
    found = {"number": 0, "level": 0, "missing values": 0}
    alarms, rng = 0, np.random.default_rng(20_261)
    for i in range(N_SAMPLES):
        progress(f"sample {i + 1} of {N_SAMPLES}")
        levels = rng.normal(0.0, 1.5, (3, N_COLUMNS))
        model = MCVQ(2, 3, likelihood="auto", random_state=0)
        model.fit(_mixed_table(N_ROWS, levels, rng))
        new = _mixed_table(N_ROWS, levels, rng)
        alarms += bool(drift(model, new).drifted)
        number = f"number{rng.integers(10)}"
        shifted = new.assign(**{number: new[number] + 0.5 * new[number].std()})
        found["number"] += number in drift(model, shifted).drifted
        kind = f"kind{rng.integers(20, 30)}"
        some = rng.random(N_ROWS) < 0.15
        shifted = new.assign(**{kind: new[kind].mask(some & new[kind].notna(), "top")})
        found["level"] += kind in drift(model, shifted).drifted
        column = str(rng.choice(new.columns))
        shifted = new.assign(**{column: new[column].mask(rng.random(N_ROWS) < 0.1)})
        found["missing values"] += column in drift(model, shifted).drifted
    return [{"samples": N_SAMPLES, **{f"{k} found": n for k, n in found.items()},
             "false alarms": alarms}]  # fmt: skip


@contextmanager
def _served(path: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Port and process of ``partwise serve``, on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "partwise", "serve", str(path), "--port", str(port), *options]
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    try:
        _wait(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _wait(port: int, seconds: float = 300.0) -> None:
    """Wait until the service is ready."""
    over = time.monotonic() + seconds
    while time.monotonic() < over:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the service did not start")


def _request(path: str, body: object) -> bytes:
    """A request as it is sent."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def _ask(port: int, requests: list[bytes], goes_on: Callable[[int], bool]) -> list[float]:
    """Send one request after the other on one connection while ``goes_on(i)``; their times."""
    took: list[float] = []
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        answers = connection.makefile("rb")
        while goes_on(len(took)):
            begun = time.perf_counter()
            connection.sendall(requests[len(took) % len(requests)])
            status, length = answers.readline().split()[1], 0
            while (line := answers.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)
            if status != b"200":
                raise RuntimeError(f"status {status.decode()}")
            took.append(time.perf_counter() - begun)
    return took


def _load(port: int, process: int, requests: list[bytes], n_clients: int, per_client: int) -> Row:
    """Rates, times and memory of a service that so many clients ask."""
    _ask(port, requests, lambda i: i < 20)
    before, memory, begun = _cpu(process), _memory(process), time.perf_counter()
    with ThreadPoolExecutor(n_clients) as pool:
        asked = [
            pool.submit(_ask, port, requests[k:] + requests[:k], lambda i: i < per_client)
            for k in range(n_clients)
        ]
        every = np.concatenate([one.result() for one in asked])
    return {
        "requests/s": len(every) / (time.perf_counter() - begun),
        "per CPU second": len(every) / max(_cpu(process) - before, 1e-9),
        "median (ms)": 1e3 * float(np.median(every)),
        "99 % (ms)": 1e3 * float(np.quantile(every, 0.99)),
        "memory growth (MB)": _memory(process) - memory,
    }


def _memory(process: int) -> float:
    """Resident memory of a process in MB, where the system tells."""
    try:
        text = Path(f"/proc/{process}/statm").read_text()
    except OSError:
        return float("nan")
    return int(text.split()[1]) * resource.getpagesize() / 1e6


def _cpu(process: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _survey(folder: str) -> tuple[Path, list[bytes]]:
    """A model of a mixed table of 30 columns, and requests to impute single rows."""
    survey = make_survey(2000, n_parts=3, n_columns_per_kind=2, random_state=0)
    model = MCVQ(3, 5, likelihood="auto", random_state=0).fit(survey.frame)
    path = Path(folder) / "survey.safetensors"
    model.save(path)
    records = json.loads(survey.frame[:200].to_json(orient="records"))
    return path, [_request("/models/survey/impute", {"rows": [row]}) for row in records]


def _films(folder: str, n_items: int = 3706) -> tuple[Path, list[bytes]]:
    """A recommender of as many items as MovieLens-1M has, and requests of people."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(1000, size=60_000), rng.integers(n_items, size=60_000)
    items[:n_items] = np.arange(n_items)
    model = Recommender(MCVQ(3, 5, random_state=0, max_iter=20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short fit is as slow to ask
        model.fit((users, items, 1 + (users * 7 + items) % 5))
    path = Path(folder) / "films.safetensors"
    model.save(path)
    people = [
        {str(item): int(1 + item % 5) for item in rng.choice(n_items, 30, replace=False)}
        for _ in range(100)
    ]
    return path, [_request("/models/films/recommend", {"ratings": known}) for known in people]


@register("service_load")
def service_load(progress: Callable[[str], None]) -> list[Row]:
    """Single rows of a mixed table of 30 columns imputed, and recommendations from 3706 items.

    Eight clients at a time: with batches, and with one pass over the rows of each request. Requests
    per processor second count the time of the service alone.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path, requests = _survey(folder)
        for name, n, options in (
            ("impute, 1 client", 1, ()),
            ("impute, 8 clients, a pass per request", N_CLIENTS, ("--max-batch", "1")),
            ("impute, 8 clients, batches", N_CLIENTS, ()),
        ):
            progress(name)
            begun = time.perf_counter()
            with _served(path, *options) as (port, process):
                _ask(port, requests, lambda i: i < 1)
                first = time.perf_counter() - begun
                found = _load(port, process, requests, n, PER_CLIENT)
                rows.append({"question": name, **found, "first answer (s)": first})
        progress("recommend")
        path, requests = _films(folder)
        with _served(path) as (port, process):
            found = _load(port, process, requests, N_CLIENTS, PER_CLIENT // 4)
            rows.append({"question": "recommend, 8 clients", **found})
    return rows


@register("service_memory")
def service_memory(progress: Callable[[str], None]) -> list[Row]:
    """Growth of the service's memory over 200,000 requests of eight clients."""
    with tempfile.TemporaryDirectory() as folder:
        path, requests = _survey(folder)
        with _served(path) as (port, process):
            _load(port, process, requests, N_CLIENTS, 250)
            first, asked = _memory(process), 0
            while asked < N_REQUESTS:
                _load(port, process, requests, N_CLIENTS, PER_CLIENT)
                asked += N_CLIENTS * PER_CLIENT
                progress(f"{asked:,} requests: {_memory(process) - first:+.1f} MB")
            return [{"requests": asked, "memory growth (MB)": _memory(process) - first}]


# Processor seconds of a fresh interpreter after imports, loading, reading and inference.
_STEPS = """
import sys, time
import partwise, polars
partwise.MCVQ  # is imported now
imported = time.process_time()
model = partwise.load(sys.argv[1])
loaded = time.process_time()
table = polars.read_csv(sys.argv[2])
read = time.process_time()
model.impute(table)
print(imported, loaded - imported, time.process_time() - read)
"""


@register("cold_start")
def cold_start(progress: Callable[[str], None]) -> list[Row]:
    """Processor seconds of ``partwise impute`` of a CSV of 100 rows and 10 columns.

    Bytecode and kernels are kept by a first run, as those of an installed package are. Import, load
    and inference are measured in processes of their own.
    """
    frame = make_survey(100, n_parts=2, n_columns_per_kind=1, random_state=0).frame
    took, steps = [], []
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder) / "m.safetensors", Path(folder) / "t.csv"
        frame.to_csv(data, index=False)
        MCVQ(2, 3, likelihood="auto", random_state=0).fit(frame).save(path)
        command = [
            sys.executable, "-m", "partwise", "impute", str(path), str(data), "-o",
            str(Path(folder) / "out.csv"),
        ]  # fmt: skip
        kept = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        for i in range(6):
            progress(f"run {i + 1} of 6")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, capture_output=True, timeout=300, env=kept)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            run = subprocess.run(
                [sys.executable, "-c", _STEPS, str(path), str(data)],
                check=True, capture_output=True, text=True, timeout=300, env=kept,
            )  # fmt: skip
            steps.append([float(word) for word in run.stdout.split()])
    imported, loaded, inferred = np.median(steps[1:], axis=0)
    return [
        {
            "command": "impute, 100 x 10",
            "CPU seconds": float(np.median(took[1:])),
            "of which import": float(imported),
            "load": float(loaded),
            "infer": float(inferred),
        }
    ]
