"""Ratings at MovieLens' scale: fits against Surprise, iterations over 20 million, answers in time.

One thread throughout, since Surprise has one.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from partwise import MCFA, MCVQ, Recommender
from partwise.datasets import load_movielens
from partwise_papers.bench import register
from partwise_papers.experiments import _ratings, _surprise
from partwise_papers.registry import Array, Row

N_TRAIN = 5000

# Shares of the ratings 1 to 5 in MovieLens-1M.
LEVEL_SHARES = (0.056, 0.108, 0.261, 0.349, 0.226)

# People, items and ratings: MovieLens-1M and MovieLens-20M.
SIZES = ((6040, 3706, 1_000_209), (138_493, 26_744, 20_000_263))
N_SWEEPS = (2, 12)

N_ASKED = 50


def fits() -> dict[str, Any]:
    """Models to compare with Surprise's SVD."""
    how: dict[str, Any] = {"random_state": 0, "n_jobs": 1}
    return {
        "MCVQ 5x12, to convergence": MCVQ(5, 12, likelihood="categorical", **how),
        "MCFA 1x8, ordinal, 5 sweeps": MCFA(1, 8, likelihood="ordinal", max_iter=5, **how),
        "MCFA 1x16, ordinal, 15 sweeps": MCFA(1, 16, likelihood="ordinal", max_iter=15, **how),
    }


@register("ratings_fit")
def ratings_fit(progress: Callable[[str], None]) -> list[Row]:
    """Time to fit MovieLens-1M, and NMAE of a held-out rating per user, against Surprise's SVD.

    ``nmae`` is that of medians (of SVD: rounded predictions), ``raw`` that of means (as predicted).
    Seconds are those of the processor, and of the rating model alone, since SVD has no model of
    what people take; a last row has both models.
    """
    data = load_movielens("1m")
    levels = np.unique(data.rating)
    train, held = _ratings.hold_out(data.data, np.random.default_rng(0))
    rows: list[Row] = []
    _ratings.fitted(
        MCVQ(5, 12, likelihood="categorical", max_iter=1), train[:500], levels
    )  # imports and compiles
    _ratings.fitted(MCFA(1, 2, likelihood="ordinal", max_iter=1), train[:500], levels)
    entries = [(name, estimator, 0) for name, estimator in fits().items()]
    first, states, _ = entries[0]
    entries.append((f"{first}, with the choice model", states, 10_000))
    for name, estimator, n in entries:
        progress(name)
        begun = time.process_time()
        model = _ratings.fitted(estimator, train, levels, max_choice_items=n)
        took = time.process_time() - begun
        found = _ratings.judge(model, train, held, levels)
        rows.append({"model": name, "seconds": took, **found._asdict()})
    if not _surprise.is_installed():
        return [*rows, {"model": f"Surprise SVD: {_surprise.MISSING}"}]
    progress("Surprise SVD")
    ratings = _surprise.trainset(train, (1.0, 5.0))
    svd = _surprise.algorithm("SVD", random_state=0)
    begun = time.process_time()
    svd.fit(ratings)
    took = time.process_time() - begun
    raw = _surprise.predict(svd, held)
    found = _ratings.errors(np.rint(raw), raw, held.value, levels)
    rows.append({"model": "Surprise SVD", "seconds": took, **found._asdict()})
    return [row | {"SVD / ours": took / float(row["seconds"])} for row in rows]


def drawn(n_people: int, n_items: int, n_ratings: int) -> Any:
    """Ratings by people and of items as unequally active and popular as MovieLens' (CSR)."""
    rng = np.random.default_rng(0)
    # Half of MovieLens' people have less than half the mean number of ratings.
    active = rng.lognormal(sigma=1.2, size=n_people)
    popular = 1.0 / (np.arange(n_items) + 0.03 * n_items) ** 1.2
    row = np.repeat(
        np.arange(n_people, dtype=np.int32), rng.poisson(1.3 * n_ratings * active / active.sum())
    )
    column = rng.choice(n_items, len(row), p=popular / popular.sum())
    cell = np.unique(row.astype(np.int64) * n_items + column)
    del row, column
    cell = np.sort(rng.choice(cell, min(n_ratings, len(cell)), replace=False))
    value = rng.choice(np.arange(1, 6), len(cell), p=LEVEL_SHARES).astype(np.float32)
    indptr = np.searchsorted(cell, np.arange(n_people + 1, dtype=np.int64) * n_items)
    index = (cell % n_items).astype(np.int32)
    return sparse.csr_array((value, index, indptr.astype(np.int32)), shape=(n_people, n_items))


def sweep_file(folder: str) -> None:
    """Fit ratings kept in a folder; leave seconds a sweep and memory there. In its own process."""
    before = _peak_bytes()
    arrays = [np.load(Path(folder, f"{name}.npy")) for name in ("data", "indices", "indptr")]
    with Path(folder, "shape.json").open() as file:
        X = sparse.csr_array(tuple(arrays), shape=json.load(file))
    how: dict[str, Any] = {"likelihood": "categorical", "gating": "tied", "tol": 0.0}
    took = []
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the number of iterations is fixed; a few people leave films unrated
        MCVQ(5, 12, max_iter=2, n_jobs=1, random_state=0, **how).fit(X[:500])  # compiles
        for n in N_SWEEPS:
            model = MCVQ(5, 12, max_iter=n, n_jobs=1, random_state=0, **how)
            begun = time.perf_counter()
            model.fit(X)
            took.append(time.perf_counter() - begun)
    sweep = (took[1] - took[0]) / (N_SWEEPS[1] - N_SWEEPS[0])
    found = {"sweep": sweep, "before": before, "peak": _peak_bytes()}
    Path(folder, "found.json").write_text(json.dumps(found))


def _peak_bytes() -> int:
    """Most memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the process that started this one, too
        lines = status.read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _in_own_process(X: Any) -> dict[str, float]:
    """What `sweep_file` leaves."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("data", "indices", "indptr"):
            np.save(Path(folder, f"{name}.npy"), getattr(X, name))
        Path(folder, "shape.json").write_text(json.dumps(X.shape))
        code = f"from partwise_papers.bench.ratings_speed import sweep_file; sweep_file({folder!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        return dict(json.loads(Path(folder, "found.json").read_text()))


@register("ratings_scale")
def ratings_scale(progress: Callable[[str], None]) -> list[Row]:
    """EM iterations of MCVQ 5x12 over 1 and 20 million synthetic ratings, and their memory.

    Memory is the peak of all after the imports, the ratings themselves (8 bytes each) included.
    ``a further rating`` compares it with that of the first tenth of the people: what does not grow
    with the ratings, parameters and compiled code, falls out.
    """
    rows: list[Row] = []
    for size in SIZES:
        progress(f"{size[2]:,} ratings")
        X = drawn(*size)
        found, some = _in_own_process(X), X[: size[0] // 10]
        grown = found["peak"] - _in_own_process(some)["peak"]
        rows.append(
            {
                "ratings": float(X.nnz),
                "people": size[0],
                "items": size[1],
                "sweep (s)": found["sweep"],
                "ns a rating": 1e9 * found["sweep"] / X.nnz,
                "bytes a rating": (found["peak"] - found["before"]) / X.nnz,
                "a further rating": grown / (X.nnz - some.nnz),
                "with Python and libraries": found["peak"] / X.nnz,
            }
        )
    return rows


def _times_ms(call: Callable[[Any], object], people: list[Any]) -> Array:
    """What a call takes for each person, in milliseconds; the second of two."""
    out = []
    for person in people:
        call(person)
        begun = time.perf_counter()
        call(person)
        out.append(1e3 * (time.perf_counter() - begun))
    return np.array(out)


@register("ratings_latency")
def ratings_latency(progress: Callable[[str], None]) -> list[Row]:
    """Milliseconds to infer a new user and recommend from 3706 films, or choose a question.

    People have all their ratings, 166 on average.
    """
    data = load_movielens("1m")
    levels, X = np.unique(data.rating), sparse.csr_matrix(data.data)
    people = [
        dict(zip(X[i].indices.tolist(), X[i].data.tolist(), strict=True))
        for i in range(N_TRAIN, N_TRAIN + N_ASKED)
    ]
    rows: list[Row] = []
    for name, estimator in fits().items():
        if "to convergence" not in name and "16" not in name:
            continue
        progress(f"{name}: fit")
        model: Recommender = _ratings.fitted(estimator, X[:N_TRAIN], levels)
        calls: dict[str, Callable[[Any], object]] = {"recommend": model.recommend}
        calls |= {f"question, {r}": partial(model.next_question, rule=r) for r in _ratings.RULES}
        for told, call in calls.items():
            progress(f"{name}: {told}")
            took = _times_ms(call, people)
            rows.append(
                {
                    "model": name.split(",")[0],
                    "call": told,
                    "median (ms)": float(np.median(took)),
                    "95 % (ms)": float(np.quantile(took, 0.95)),
                }
            )
    return rows


@register("ratings_throughput")
def ratings_throughput(progress: Callable[[str], None]) -> list[Row]:
    """People per second when ten films are recommended to all users of MovieLens-1M.

    The first call after a fit also infers the tastes of all users. Seconds are those of the
    processor.
    """
    data = load_movielens("1m")
    rows: list[Row] = []
    states = MCVQ(5, 12, likelihood="categorical", random_state=0)
    for name, estimator in {"default": None, "MCVQ 5x12": states}.items():
        progress(f"{name}: fit")
        model = Recommender(estimator).fit(data.data)
        small = Recommender(estimator).fit(data.data[:300])  # compiles
        for note, by in (("first call", "value"), ("", "value"), ("", "choice"), ("", "rating")):
            progress(f"{name}: by {by}")
            small.recommend_many(by=by)
            begun = time.process_time()
            model.recommend_many(by=by)
            speed = model.n_users_ / (time.process_time() - begun)
            rows.append({"model": name, "by": by, "note": note, "people per second": speed})
    return rows
