"""Codes of GVQ: the exact search against mean field, and against faiss with as many bits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise import GVQ
from partwise.association import Exact, MeanField, Problem
from partwise.datasets import load_cbcl_faces, load_usps
from partwise_papers.bench import register
from partwise_papers.bench._timing import best_ms
from partwise_papers.registry import Array, Row

N_ROWS = 1000
NOISE = 0.1  # variance

# Features and values of the codes that are compared with faiss: 16 and 24 bits per row.
SIZES = ((4, 16), (6, 16))
# Nodes per row while learning, steps, and nodes a row for the last codes.
FIT_NODES, FIT_STEPS, LAST_NODES = 300, 25, 2_000


@register("gvq_association")
def gvq_association(progress: Callable[[str], None]) -> list[Row]:
    """Exact association against mean field (sigma 100 to 1e-4), time per row after set-up.

    Set-up is what both need: the overlaps of the features, and of features and rows. The
    triangular factor that the exact search needs is within its time.
    """
    rows: list[Row] = []
    for n, d in ((40, 80), (100, 400)):
        progress(f"{n} features, {d} columns")
        rng = np.random.default_rng(0)
        features = rng.normal(size=(n, d))
        bits = rng.integers(2, size=(N_ROWS, n))
        X = bits @ features + np.sqrt(NOISE) * rng.normal(size=(N_ROWS, d))
        problem = Problem.complete(features, X)
        exact, rough = Exact().associate(problem), MeanField().associate(problem)
        took = best_ms(partial(Exact().associate, problem))
        peer = best_ms(partial(MeanField().associate, problem))
        square = problem.squares
        rows.append(
            {
                "n": n,
                "d": d,
                "rows proven (%)": 100 * float(exact.converged.mean()),
                "exact (us a row)": 1e3 * took / N_ROWS,
                "mean field (us a row)": 1e3 * peer / N_ROWS,
                "mean field / exact": peer / took,
                "exact, squared error": float(np.mean(square + exact.energy)),
                "mean field, squared error": float(np.mean(square + rough.energy)),
                "rows mean field has wrong": int(np.sum(rough.energy > exact.energy + 1e-6)),
            }
        )
    return rows


def _ours(X: Array, K: int, J: int) -> tuple[float, float, float, Any]:
    """Error a row, seconds to learn, seconds to code, and the certificate."""
    begin = time.perf_counter()
    model = GVQ(K, n_values=J, max_nodes=FIT_NODES, max_iter=FIT_STEPS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # steps are bounded on purpose
        model.fit(X)
    learned = time.perf_counter()
    problem = Problem.complete(
        model.features_.reshape(-1, X.shape[1]), X - model.origins_[0], 0.0, J
    )
    codes = Exact(LAST_NODES).associate(problem)
    error = float(np.mean(problem.squares + codes.energy))
    return error, learned - begin, time.perf_counter() - learned, codes.converged


@register("gvq_faiss")
def gvq_faiss(progress: Callable[[str], None]) -> list[Row]:
    """USPS and CBCL coded with 16 and 24 bits per row: squared error against faiss.

    ResidualQuantizer and LocalSearchQuantizer with faiss's defaults, GVQ with features of 16
    values; all on one thread, errors on the rows learned from.
    """
    try:
        import faiss
    except ImportError:
        return [{"skipped": "faiss is not installed; pip install faiss-cpu to compare with it."}]
    faiss.omp_set_num_threads(1)
    rows: list[Row] = []
    for name, X in (("USPS", load_usps().data), ("CBCL", load_cbcl_faces().data)):
        for K, J in SIZES:
            bits = int(np.log2(J))
            for peer in ("ResidualQuantizer", "LocalSearchQuantizer"):
                progress(f"{name}, {K * bits} bits, {peer}")
                x = np.ascontiguousarray(X, np.float32)
                begin = time.perf_counter()
                quantizer = getattr(faiss, peer)(x.shape[1], K, bits)
                quantizer.train(x)
                learned = time.perf_counter()
                back = quantizer.decode(quantizer.compute_codes(x))
                took = time.perf_counter() - learned
                rows.append(
                    {
                        "data": name,
                        "bits": K * bits,
                        "way": f"faiss {peer}",
                        "squared error": float(np.mean(np.sum((back - X) ** 2, axis=1))),
                        "learning (s)": learned - begin,
                        "coding (us a row)": 1e6 * took / len(X),
                        "rows proven (%)": "-",
                    }
                )
            progress(f"{name}, {K * bits} bits, GVQ")
            error, learning, coding, proven = _ours(X, K, J)
            rows.append(
                {
                    "data": name,
                    "bits": K * bits,
                    "way": f"GVQ {K}x{J}",
                    "squared error": error,
                    "learning (s)": learning,
                    "coding (us a row)": 1e6 * coding / len(X),
                    "rows proven (%)": f"{100 * proven.mean():.1f}",
                }
            )
    return rows
