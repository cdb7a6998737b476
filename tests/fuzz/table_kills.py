"""Kill fits and imputations of a table in files, and workers of a cluster, at random moments.

python -m tests.fuzz.table_kills                  # 20 kills of each job
python -m tests.fuzz.table_kills --kills 3 --seed 1

After every kill the same call is made again, and must give what an uninterrupted call gives. No
file in a folder of results may look whole unless it is.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from rich.table import Table

from partwise import MCVQ, load, make_survey
from partwise.cli.console import print_table

N_FILES, N_ROWS = 4, 4000
LONGEST = 900.0  # seconds that a job may take, on a machine that is busy with others

# Each script says when it begins to work, and which processes may be killed besides itself.
_HEAD = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import partwise.files.model, partwise.fitting.course
from partwise import MCVQ, Checkpoint, DaskRunner, load, write_parquet
folder = Path(sys.argv[1])
"""
_BEGIN = 'print("begin", flush=True)\n'
_FIT = """
model.fit(folder / "in", checkpoint=Checkpoint(folder / "fit.checkpoint", every=0))
model.save(folder / "fit.out")
"""
_SEARCH = 'model = MCVQ("auto", "auto", likelihood="auto", random_state=0)\n'
_SWEEPS = (
    'model = MCVQ(4, 5, likelihood="auto", gating="tied", max_iter=40, tol=0.0, random_state=0)\n'
)
_WRITE = """
write_parquet(load(folder / "model").impute, folder / "in", folder / "out")
"""
_CLUSTER = """
import os
if __name__ == "__main__":
    import dask.dataframe
    with DaskRunner(n_workers=2, threads_per_worker=1, processes=True) as client:
        X = dask.dataframe.read_parquet(str(folder / "in"))
        print("begin", *client.run(os.getpid).values(), flush=True)
        model = MCVQ(4, 5, likelihood="auto", gating="tied", max_iter=40, tol=0.0, random_state=0)
        model.fit(X)
    model.save(folder / "fit.out")
"""


@dataclass(frozen=True)
class Job:
    """A script, the results that it leaves, and whether to kill a worker instead of the script."""

    name: str
    script: str
    results: Callable[[Path], list[Path]]
    kills_worker: bool = False


def _model_file(folder: Path) -> list[Path]:
    return list(folder.glob("fit.out"))


def _tables(folder: Path) -> list[Path]:
    return sorted((folder / "out").glob("*.parquet"))


JOBS = [
    Job("search", _HEAD + _SEARCH + _BEGIN + _FIT, _model_file),
    Job("sweeps", _HEAD + _SWEEPS + _BEGIN + _FIT, _model_file),
    Job("writing", _HEAD + _BEGIN + _WRITE, _tables),
    Job("worker", _HEAD + _CLUSTER, _model_file, kills_worker=True),
]


def prepare(folder: Path) -> None:
    """The table, and a model to impute it with."""
    source = folder / "in"
    source.mkdir(parents=True)
    survey = make_survey(N_ROWS, n_parts=4, n_columns_per_kind=1, missing=0.2, random_state=0)
    for i in range(N_FILES):
        part = survey.frame.iloc[i * N_ROWS // N_FILES : (i + 1) * N_ROWS // N_FILES]
        pl.from_pandas(part).write_parquet(source / f"{i}.parquet", row_group_size=250)
    with warnings.catch_warnings(action="ignore"):  # few EM iterations do not converge
        model = MCVQ(4, 5, likelihood="auto", gating="tied", max_iter=5, random_state=0)
        model.fit(survey.frame).save(folder / "model")


def is_same(path: Path, expected: Path) -> bool:
    """Whether a result is that of an uninterrupted call, up to rounding."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path).equals(pl.read_parquet(expected))
    left, right = load(path), load(expected)
    assert isinstance(left, MCVQ)
    assert isinstance(right, MCVQ)
    same = [left.n_parts_ == right.n_parts_, np.allclose(left.gates_, right.gates_, atol=1e-6)]
    return all(same) and np.isclose(left.lower_bound_, right.lower_bound_, rtol=1e-9)


def start(job: Job, folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a job and wait until it works; the processes that may be killed."""
    script = folder / "job.py"
    script.write_text(job.script)
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        if line.startswith("begin"):
            return process, [int(word) for word in line.split()[1:]] or [process.pid]
        said += line
    raise AssertionError(f"{job.name} did not begin: {said}")


def finish(process: subprocess.Popen[str]) -> None:
    """Let a job end without an error."""
    said, _ = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, said


def kill_once(job: Job, folder: Path, whole: Path, seconds: float, rng: random.Random) -> str:
    """Kill a job at a random moment, look at what is left, and make the same call again."""
    for path in (folder / "fit.checkpoint", *job.results(folder), folder / "out/_partwise.json"):
        path.unlink(missing_ok=True)
    process, processes = start(job, folder)
    time.sleep(rng.uniform(0.0, seconds))
    ended = process.poll() is not None
    if not ended:
        with_pid = rng.choice(processes)
        subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(with_pid)], check=False)
    if job.kills_worker:
        finish(process)
    else:
        process.communicate(timeout=LONGEST)
        for path in job.results(folder):
            assert is_same(path, whole / path.name), f"{job.name} left {path}, which is not whole"
        again, _ = start(job, folder)
        finish(again)
    names = [path.name for path in job.results(folder)]
    assert names == sorted(path.name for path in (whole).iterdir()), names
    for path in job.results(folder):
        assert is_same(path, whole / path.name), f"{job.name}: {path.name} is not the same"
    assert not (folder / "fit.checkpoint").exists()
    return "ended first" if ended else "killed"


def campaign(kills: int, seed: int, jobs: list[Job]) -> Iterator[tuple[Job, Counter[str]]]:
    """Kill every job so many times."""
    with tempfile.TemporaryDirectory(prefix="partwise-kills-") as name:
        folder = Path(name) / "work"
        prepare(folder)
        for job in jobs:
            whole = Path(name) / job.name
            whole.mkdir()
            rng = random.Random(zlib.crc32(f"{job.name} {seed}".encode()))
            finish(start(job, folder)[0])  # compiles, too
            for path in job.results(folder):
                path.rename(whole / path.name)
            (folder / "out/_partwise.json").unlink(missing_ok=True)
            process, _ = start(job, folder)
            begun = time.monotonic()
            finish(process)
            seconds, counts = time.monotonic() - begun, Counter[str]()
            for _ in range(kills):
                counts[kill_once(job, folder, whole, seconds, rng)] += 1
            yield job, counts


def main() -> int:
    """Run what was asked for and print a table; a wrong result is an error with its name."""
    parser = argparse.ArgumentParser("python -m tests.fuzz.table_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each job")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", choices=[job.name for job in JOBS], help="only this one")
    parser.add_argument("--json", type=Path, help="write the counts to this file, too")
    asked = parser.parse_args()
    jobs = [job for job in JOBS if asked.job in (None, job.name)]
    table, counts = Table(), {}
    for column in ("job", "killed", "ended first", "wrong or half results"):
        table.add_column(column, justify="left" if column == "job" else "right")
    for job, found in campaign(asked.kills, asked.seed, jobs):
        counts[job.name] = dict(found)
        table.add_row(job.name, str(found["killed"]), str(found["ended first"]), "0")
    print_table(table)
    if asked.json is not None:
        asked.json.write_text(json.dumps(counts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
