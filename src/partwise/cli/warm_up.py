"""``partwise warm-up``: compile all kernels before they are needed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

from partwise.cli.console import busy, say

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from partwise.contracts import Array
    from partwise.typing import DataLike

# Methods that use kernels.
METHODS = ("transform", "impute", "predict_interval", "score_samples", "anomaly_scores")


def warm_up() -> None:
    """Compile the library's kernels and store them on disk, so that later processes start fast.

    Use it when building container images, or once per machine.
    """
    begun = time.perf_counter()
    with busy("Compiling"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits are too short to converge
        for model, rows in _uses():
            model.fit(rows)
            for name in METHODS:
                if hasattr(model, name):
                    getattr(model, name)(rows)
    say(f"The kernels of all estimators are compiled ({time.perf_counter() - begun:.0f} s).")


class _Short(TypedDict):
    max_iter: int
    random_state: int


def _uses() -> Iterator[tuple[BaseEstimator, DataLike]]:
    """Models and rows whose short fits use every kernel, in both precisions."""
    import numpy as np
    import polars as pl
    from scipy import sparse

    import partwise as pw

    rng = np.random.default_rng(0)
    short: _Short = {"max_iter": 2, "random_state": 0}
    for dtype in (np.float64, np.float32):
        X: Array = rng.normal(size=(40, 8)).astype(dtype)
        incomplete: Array = np.where(rng.random(X.shape) < 0.2, np.nan, X).astype(dtype)
        scale = np.round(incomplete).clip(-2, 2) + 3
        levels = np.where(np.isnan(incomplete), np.nan, scale).astype(dtype)
        ratings = sparse.csr_matrix(np.nan_to_num(levels))
        counts = sparse.csr_matrix(np.abs(np.round(X)))
        for rows in (X, incomplete, ratings):
            yield pw.MCVQ(2, 2, **short), rows
            yield pw.MCFA(2, 1, **short), rows
        wide = np.tile(levels, 16)  # of few counts, numpy computes the Gamma function
        for likelihood, rows in (
            ("categorical", wide), ("categorical", ratings), ("poisson", counts)
        ):  # fmt: skip
            yield pw.MCVQ(2, 2, likelihood=likelihood, **short), rows
        yield pw.MCFA(1, 1, likelihood="ordinal", **short), ratings
        yield pw.AspectModel(2, **short), ratings
        yield pw.MCVQ(2, 2, gating="factorised", **short), incomplete
        yield pw.CVQ(2, 2, **short), incomplete
        yield pw.BayesianPCAMixture(2, **short), X
        yield pw.GVQ(3, n_sets=2, **short), incomplete
        yield pw.GVQ(18, **short), incomplete
        yield pw.GVQ(3, binary=True, **short), np.sign(np.maximum(X, 0))
    kind = rng.integers(3, size=80)
    number, missing = rng.normal(kind, 0.5), rng.random(80) < 0.1
    table = pl.DataFrame(
        {
            "number": np.where(missing, np.nan, number),
            "other": number + rng.normal(size=80),
            "group": np.array(["a", "b", "c"])[kind],
            "answer": kind == 1,
            "count": rng.poisson(1 + kind),
        }
    )
    yield pw.MCVQ("auto", "auto", likelihood="auto", random_state=0), table
    yield pw.PartsImputer(n_fits=1, random_state=0), table
