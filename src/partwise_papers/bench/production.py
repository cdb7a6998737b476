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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from partwise import MCVQ, drift, make_survey
from partwise_papers.bench import register
from partwise_papers.registry import Array, Row

N_SAMPLES, N_ROWS, N_COLUMNS = 100, 2000, 40
N_CLIENTS, SECONDS = 8, 10.0


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


@contextmanager
def _served(path: Path) -> Iterator[tuple[int, int]]:
    """Port and process of ``partwise serve``, on the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "partwise", "serve", str(path), "--port", str(port)]
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
    try:
        _wait(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def _wait(port: int, seconds: float = 60.0) -> None:
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


def _ask(port: int, bodies: list[bytes], path: str, seconds: float, took: list[float]) -> None:
    """Ask one question after the other on one connection, and note the times."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"}
    over, i = time.perf_counter() + seconds, 0
    while time.perf_counter() < over:
        begun = time.perf_counter()
        connection.request("POST", path, bodies[i % len(bodies)], headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
        took.append(time.perf_counter() - begun)
        i += 1


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


@register("service_load")
def service_load(progress: Callable[[str], None]) -> list[Row]:
    """Single rows of a mixed table of 30 columns, imputed for one client and for eight.

    Requests per processor second count the time of the service alone.
    """
    survey = make_survey(2000, n_parts=3, n_columns_per_kind=2, random_state=0)
    model = MCVQ(3, 5, likelihood="auto", random_state=0).fit(survey.frame)
    records = json.loads(survey.frame[:200].to_json(orient="records"))
    bodies = [json.dumps({"rows": [row]}).encode() for row in records]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.safetensors"
        model.save(path)
        begun = time.perf_counter()
        with _served(path) as (port, process):
            _ask(port, bodies[:1], "/models/survey/impute", 1e-9 + 1e-3, [])
            first = time.perf_counter() - begun
            for n in (1, N_CLIENTS):
                progress(f"{n} clients")
                took: list[list[float]] = [[] for _ in range(n)]
                before, memory, start = _cpu(process), _memory(process), time.perf_counter()
                threads = [
                    threading.Thread(
                        target=_ask, args=(port, bodies, "/models/survey/impute", SECONDS, times)
                    )
                    for times in took
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                every = np.concatenate(took)
                rows.append(
                    {
                        "clients": n,
                        "requests/s": len(every) / (time.perf_counter() - start),
                        "per CPU second": len(every) / max(_cpu(process) - before, 1e-9),
                        "median (ms)": 1e3 * float(np.median(every)),
                        "99 % (ms)": 1e3 * float(np.quantile(every, 0.99)),
                        "memory growth (MB)": _memory(process) - memory,
                        "first answer (s)": first,
                    }
                )
    return rows


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
