"""Kill commands at random moments, let them run out of disk, and look at what they leave.

python -m tests.fuzz.kills                  # 200 kills of all jobs
python -m tests.fuzz.kills --kills 20 --seed 1
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import resource
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
from PIL import Image
from rich.table import Table

from partwise import MCVQ, load, make_survey
from partwise.cli.console import print_table
from partwise.compression import decompress
from partwise.files.checkpoints import load_checkpoint

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LONGEST = 600.0  # seconds that a job may take, on a machine that is busy with others

_FIT = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from partwise import MCVQ, Checkpoint
X = np.load(sys.argv[1])
model = MCVQ(3, 5, n_init=2, max_iter=15, tol=0.0, random_state=0)
model.fit(X, checkpoint=Checkpoint(sys.argv[2], every=0))
model.save(sys.argv[3])
"""


@dataclass(frozen=True)
class Job:
    """A command, and what it writes.

    ``arguments(folder)`` are those of Python; ``is_whole(path, expected)`` tells whether the file
    that is left is the one that a run without interruption writes.
    """

    name: str
    arguments: Callable[[Path], list[str]]
    out: str
    is_whole: Callable[[Path, Path], bool]


def _same_bytes(path: Path, expected: Path) -> bool:
    return path.read_bytes() == expected.read_bytes()


def _same_model(path: Path, expected: Path) -> bool:
    """In another process, where arrays lie otherwise, products may round otherwise."""
    left, right = load(path), load(expected)
    return np.allclose(left.means_, right.means_, rtol=1e-6, atol=1e-9)


def _same_page(path: Path, expected: Path) -> bool:
    text = path.read_text("utf-8")
    return text.rstrip().endswith("</html>") and abs(len(text) - len(expected.read_text())) < 100


def _same_image(path: Path, expected: Path) -> bool:
    images = [decompress(one.read_bytes(), str(one)) for one in (path, expected)]
    return bool(np.array_equal(*images))


def _command(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: ["-m", "partwise", *(word.format(folder=folder) for word in words)]


JOBS = [
    Job(
        "fit with checkpoint",
        lambda f: ["-c", _FIT, *(str(f / n) for n in ("X.npy", "fit.checkpoint", "fit.out"))],
        "fit.out",
        _same_model,
    ),
    Job(
        "impute",
        _command("impute", "{folder}/model", "{folder}/table.csv", "-o", "{folder}/filled.csv"),
        "filled.csv",
        _same_bytes,
    ),
    Job(
        "report",
        _command("report", "{folder}/model", "{folder}/table.csv", "-o", "{folder}/page.html"),
        "page.html",
        _same_page,
    ),
    Job(
        "compress",
        _command("compress", "{folder}/image.png", "-o", "{folder}/image.gvq"),
        "image.gvq",
        _same_image,
    ),
]  # fmt: skip


def prepare(folder: Path) -> None:
    """What the jobs read."""
    survey = make_survey(300, random_state=0).frame
    survey.to_csv(folder / "table.csv", index=False)
    model = MCVQ(2, 3, likelihood="auto", max_iter=5, random_state=0)
    with warnings.catch_warnings(action="ignore"):  # few sweeps do not converge
        model.fit(survey).save(folder / "model")
    np.save(folder / "X.npy", np.random.default_rng(0).normal(size=(1500, 20)))
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    Image.fromarray(np.sort(pixels)).save(folder / "image.png")


def run(job: Job, folder: Path, limit: int | None = None) -> subprocess.Popen[str]:
    """Start a job; it cannot write files of more than ``limit`` bytes."""
    before = None if limit is None else functools.partial(_limit, limit)
    return subprocess.Popen(
        [sys.executable, *job.arguments(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=before,
    )


def _limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def finish(job: Job, folder: Path, limit: int | None = None) -> tuple[int, str]:
    """Run a job to its end: exit code, and what it said."""
    process = run(job, folder, limit)
    said, _ = process.communicate(timeout=LONGEST)
    return process.returncode, said


def kill_once(job: Job, folder: Path, expected: Path, seconds: float, rng: random.Random) -> str:
    """Kill a job at a random moment; what is left is whole, or there is none."""
    out = folder / job.out
    had_old = rng.random() < 0.5
    out.unlink(missing_ok=True)
    if had_old:
        out.write_bytes(expected.read_bytes())
    there = {path.name for path in folder.iterdir()}
    process = run(job, folder)
    time.sleep(rng.uniform(0.0, 1.05 * seconds))
    process.send_signal(rng.choice(SIGNALS))
    process.communicate(timeout=LONGEST)
    killed = process.returncode != 0
    if out.exists():
        assert job.is_whole(out, expected), f"{job.name} left a file that is not whole"
    else:
        assert not had_old, f"{job.name} took away the file that was there"
        assert killed, f"{job.name} wrote nothing"
    for path in folder.iterdir():
        if path.name.endswith(".checkpoint"):
            load_checkpoint(path)  # whole at any moment
        elif path.name.endswith(".tmp"):  # hidden; a kill leaves it, the next checkpoint uses it
            assert path.name.startswith("."), path
            path.unlink()
        else:
            assert path.name in there | {job.out}, f"{job.name} left {path.name}"
    return "killed" if killed else "ended first"


def campaign(kills: int, seed: int) -> Iterator[tuple[Job, Counter[str]]]:
    """Kill every job so many times in all, then let it end."""
    with tempfile.TemporaryDirectory(prefix="partwise-kills-") as name:
        folder, whole = Path(name) / "work", Path(name) / "whole"
        folder.mkdir()
        whole.mkdir()
        prepare(folder)
        for i, job in enumerate(JOBS):
            rng = random.Random(zlib.crc32(f"{job.name} {seed}".encode()))
            code, said = finish(job, folder)  # compiles, too
            assert code == 0, said
            started = time.monotonic()
            (folder / job.out).rename(whole / job.out)
            assert finish(job, folder)[0] == 0
            seconds, counts = time.monotonic() - started, Counter[str]()
            for _ in range(kills // len(JOBS) + (i < kills % len(JOBS))):
                counts[kill_once(job, folder, whole / job.out, seconds, rng)] += 1
            (folder / job.out).unlink(missing_ok=True)
            code, said = finish(job, folder)  # goes on, or begins anew
            assert code == 0, said
            assert job.is_whole(folder / job.out, whole / job.out)
            assert not (folder / "fit.checkpoint").exists()
            yield job, counts


def main() -> int:
    """Run what was asked for and print a table; a bad end is an error with its name."""
    parser = argparse.ArgumentParser("python -m tests.fuzz.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the counts to this file, too")
    asked = parser.parse_args()
    table, counts = Table(), {}
    for column in ("job", "killed", "ended first", "half or wrong files"):
        table.add_column(column, justify="left" if column == "job" else "right")
    for job, found in campaign(asked.kills, asked.seed):
        counts[job.name] = dict(found)
        table.add_row(job.name, str(found["killed"]), str(found["ended first"]), "0")
    print_table(table)
    if asked.json is not None:
        asked.json.write_text(json.dumps(counts, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
