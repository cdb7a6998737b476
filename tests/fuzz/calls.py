"""Random calls of all estimators: shapes, dtypes, containers, options and verbs.

A case is a number; everything else is drawn from it. Calls work, with finite answers to finite
questions, or say in one sentence why not.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    PartsImputer,
    RowSource,
    load,
)
from tests.fuzz.harness import LONGEST_MESSAGE, Content, Kind, is_clear


def _one(chance: random.Random, **choices: tuple[Any, ...]) -> dict[str, Any]:
    """Some of the options, each with one of its choices."""
    return {name: chance.choice(of) for name, of in choices.items() if chance.random() < 0.4}


def _estimator(chance: random.Random) -> Any:
    sizes = (1, 2, 3, 5, 20)
    common = {"max_iter": chance.choice((1, 3, 10)), "random_state": 0}
    gated = _one(
        chance,
        gating=("annealed", "tied", "standard", "factorised"),
        prior=("conjugate", None),
        n_init=(1, 2),
        init=("dependence", "random", "kmeans", "covariance"),
        n_classes=(None, 1, 2, 3),
        sparse_absent=("auto", "unobserved", "zero"),
        gate_entropy=(0.0, 0.5),
        n_jobs=(None, 1, 2),
    )
    match chance.randrange(9):
        case 0 | 1:
            laws = ("gaussian", "auto", "bernoulli", "poisson", "categorical", "ordinal")
            more = _one(chance, likelihood=laws, inference=("variational", "gibbs"))
            n_states = chance.choice((*sizes, "auto", [2, 3]))
            return MCVQ(chance.choice((*sizes, "auto")), n_states, **common, **gated, **more)
        case 2:
            more = _one(chance, likelihood=("gaussian", "ordinal"))
            n_factors = chance.choice((1, 2, 5, "auto"))
            return MCFA(chance.choice((*sizes, "auto")), n_factors, **common, **gated, **more)
        case 3:
            return CVQ(chance.choice(sizes), chance.choice((1, 2, 3)), **common)
        case 4:
            more = _one(
                chance, n_sets=(1, 2), n_values=(2, 3), binary=(True, False), penalty=(0.5,)
            )
            return GVQ(chance.choice((0, 1, 3, 8)), **common, **more)
        case 5:
            return BayesianPCA(chance.choice((None, 1, 3, 50)), **common)
        case 6:
            n_components = chance.choice(("auto", 1, 2, 5))
            return BayesianPCAMixture(n_components, max_iter=5, random_state=0)
        case 7:
            return AspectModel(chance.choice(sizes), **common)
        case _:
            more = _one(
                chance, n_factors=(0, 2), add_states=(True,), likelihood=("gaussian",),
                residual=(LinearRegression(), ExtraTreesRegressor(5, random_state=0)),
            )  # fmt: skip
            return PartsImputer(2, chance.choice((2, "auto")), n_fits=1, random_state=0, **more)


def _rows(chance: random.Random) -> np.ndarray:
    rng = np.random.default_rng(chance.randrange(2**32))
    n, D = chance.choice((1, 2, 3, 10, 40)), chance.choice((1, 2, 5, 8))
    X = rng.normal(size=(n, D))
    match chance.randrange(6):
        case 0:
            X = rng.integers(0, chance.choice((2, 3, 6)), (n, D)).astype(float)
        case 1:
            X[:, rng.integers(D)] = chance.choice((0.0, 7.0, 1e300, -1e-300))
        case 2:
            X *= chance.choice((1e-300, 1e-8, 1e8, 1e150, 1e300))
        case 3:
            X[rng.random((n, D)) < chance.choice((0.1, 0.5, 0.95, 1.0))] = np.nan
        case 4:
            X = X[rng.integers(0, n, n)]
    if chance.random() < 0.05:
        X[rng.integers(n), rng.integers(D)] = chance.choice((np.inf, -np.inf))
    return X


def _contained(chance: random.Random, X: np.ndarray) -> Any:
    names = [f"c{d}" for d in range(X.shape[1])]
    match chance.randrange(12):
        case 0:
            return X.tolist()
        case 1:
            return pd.DataFrame(X, columns=names)
        case 2:
            return pl.DataFrame(X, schema=names)
        case 3:
            return sparse.csr_array(np.nan_to_num(X))
        case 4:
            return sparse.coo_matrix(np.nan_to_num(X))
        case 5:
            with np.errstate(all="ignore"):
                return X.astype(chance.choice(("f4", "f2", "i8", "u1", "?", "O", "U8", "c16")))
        case 6:
            return RowSource([X[: len(X) // 2], X[len(X) // 2 :]])
        case 7:
            frame = pd.DataFrame(X, columns=names).convert_dtypes()
            frame[names[0]] = chance.choice((["a"] * len(X), [pd.NA] * len(X), [None] * len(X)))
            return frame
        case 8:
            return np.asfortranarray(X)[:, ::-1]
        case 9 if chance.random() < 0.3:
            return chance.choice((X[0], X[None], None, "rows", 3.0, X[:0], X[:, :0]))
    return X


_VERBS = (
    "transform", "reconstruct", "impute", "score_samples", "score", "predict_interval",
    "anomaly_scores", "predict", "predict_proba", "predict_states", "encode", "certify", "explain",
    "bic", "row_likelihood", "responsibilities", "add_states", "anomalous_cells",
)  # fmt: skip


def _use(path: Path) -> None:
    chance = random.Random(path.read_text())
    model, rows = _estimator(chance), _rows(chance)
    X, options = _contained(chance, rows), {}
    if chance.random() < 0.2 and not isinstance(model, PartsImputer):
        labels = [chance.choice((0, 1, "a", -1)) for _ in rows]
        options["y"] = chance.choice(
            (labels, [0, 1] * len(rows), [i % 2 for i in range(len(rows))])
        )
    if chance.random() < 0.15:
        weights = [chance.choice((0, 1, 2.5)) for _ in rows]
        options["sample_weight"] = chance.choice((weights, ["1"] * len(rows), [-1] * len(rows)))
    model.fit(X, **options)
    known = bool(np.isfinite(rows).all()) and float(np.abs(rows).max(initial=0.0)) < 1e100
    for verb in chance.sample(_VERBS, 4):
        if not callable(getattr(model, verb, None)):
            continue
        answer = getattr(model, verb)(_first(X) if verb == "explain" else X)
        if known and verb in ("transform", "reconstruct", "impute"):
            _check_finite(verb, answer)
    if hasattr(model, "sample"):
        drawn, _ = model.sample(2, random_state=0)
        if known:
            _check_finite("sample", drawn)
    if chance.random() < 0.5:
        model.save(path.with_name("model"))
        load(path.with_name("model"))


def _first(X: Any) -> Any:
    """One row, as it is contained; a COO matrix has no rows to choose."""
    return (X.tocsr() if sparse.issparse(X) else X)[:1]


def _check_finite(verb: str, answer: Any) -> None:
    if isinstance(answer, pd.DataFrame):
        answer = answer.dropna(
            axis="columns", how="all"
        )  # columns without a value stay as they are
    try:
        values = np.asarray(answer.toarray() if sparse.issparse(answer) else answer, dtype=float)
    except (TypeError, ValueError):  # words
        return
    if not np.isfinite(values).all():
        raise AssertionError(f"{verb} is not finite")


def _is_said(error: BaseException) -> bool:
    """A sentence of the library, or of scikit-learn about arguments and input."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    checked = any(
        name in frames[-1] for name in ("sklearn/utils", "sklearn/base.py", "sklearn\\utils")
    )
    return is_clear(error) or (checked and 0 < len(str(error)) <= LONGEST_MESSAGE)


def _seeds(folder: Path) -> None:
    for number in (7, 12):
        (folder / str(number)).write_text(str(number))


def _mutate(rng: random.Random, seeds: Mapping[str, Content]) -> Content:
    return str(rng.randrange(2**40)).encode()


_REFUSALS = (ValueError, TypeError, AttributeError, OSError)
KINDS = [Kind("calls", _seeds, _mutate, _use, accepted=_REFUSALS, clear=_is_said)]
