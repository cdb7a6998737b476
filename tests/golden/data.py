"""The rows that golden fits learn from: drawn once, stored, and never drawn anew.

They are stored because the streams of random numbers may change between releases of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from scipy import sparse

DATA = Path(__file__).parent / "data"
Arrays = dict[str, np.ndarray]

# Rows of every data set that answers are asked about; some have missing values.
N_ASKED = 8


@cache
def stored(name: str) -> Arrays:
    """Arrays of a data set by name."""
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def _hidden(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(X.shape) < share, np.nan, X)


def _states(rng: np.random.Generator, n: int, n_parts: int, n_states: int) -> Arrays:
    """States of two parts that depend on one of two classes."""
    y = rng.integers(2, size=n)
    priors = rng.dirichlet(np.full(n_states, 1.0), (2, n_parts))
    above = np.cumsum(priors[y], axis=2)
    states = (above < rng.random((n, n_parts, 1))).sum(axis=2)
    return {"y": y, "states": np.minimum(states, n_states - 1)}


def numbers(rng: np.random.Generator) -> Arrays:
    """Three parts of four columns in units from 0.1 to 10, and a column that depends on nothing."""
    drawn = _states(rng, 150, 3, 3)
    parts = np.repeat([0, 1, 2], 4)
    means = rng.permuted(np.tile([[-1.5], [0.0], [1.5]], 12), axis=0)
    unit = 10.0 ** rng.uniform(-1, 1, 12)
    X = means[drawn["states"][:, parts], np.arange(12)] + 0.5 * rng.standard_normal((150, 12))
    X = np.column_stack([unit * (X + rng.normal(size=12)), rng.standard_normal(150)])
    X = X.round(4)
    return {
        "X": X,
        "incomplete": _hidden(X, 0.15, rng),
        "y": drawn["y"],
        "parts": np.append(parts, -1),
    }


def groups(rng: np.random.Generator) -> Arrays:
    """Five parts of three columns, whose states mostly follow one of three classes."""
    y, parts = rng.integers(3, size=150), np.repeat(np.arange(5), 3)
    usual = np.stack([rng.permutation(3)[y] for _ in range(5)], axis=1)
    states = np.where(rng.random((150, 5)) < 0.8, usual, rng.integers(3, size=(150, 5)))
    means = rng.permuted(np.tile([[-2.0], [0.0], [2.0]], 15), axis=0)
    X = means[states[:, parts], np.arange(15)] + 0.5 * rng.standard_normal((150, 15))
    return {"X": X.round(4), "y": y, "parts": parts}


def switches(rng: np.random.Generator) -> Arrays:
    """Yes or no: two parts of six columns."""
    drawn = _states(rng, 160, 2, 3)
    chance = rng.choice([0.1, 0.9], (3, 12))
    X = (rng.random((160, 12)) < chance[drawn["states"].repeat(6, axis=1), np.arange(12)]) * 1.0
    return {"X": X, "incomplete": _hidden(X, 0.15, rng), "y": drawn["y"]}


def counts(rng: np.random.Generator) -> Arrays:
    """Counts, most of them zero: two parts of seven columns."""
    drawn = _states(rng, 160, 2, 3)
    rate = rng.choice([0.1, 0.5, 5.0], (3, 14))
    X = rng.poisson(rate[drawn["states"].repeat(7, axis=1), np.arange(14)]) * 1.0
    return {"X": X, "y": drawn["y"]}


def levels(rng: np.random.Generator) -> Arrays:
    """Levels 1 to 5 that follow two parts of six columns."""
    drawn = _states(rng, 180, 2, 3)
    middle = rng.permuted(np.tile([[1.3], [3.0], [4.7]], 12), axis=0)
    X = middle[drawn["states"].repeat(6, axis=1), np.arange(12)] + 0.7 * rng.normal(size=(180, 12))
    X = np.clip(X.round(), 1.0, 5.0)
    return {"X": X, "incomplete": _hidden(X, 0.2, rng), "y": drawn["y"]}


def factors(rng: np.random.Generator) -> Arrays:
    """Two parts of six columns with two factors each, whose means depend on one of two classes."""
    y, n = rng.integers(2, size=150), 150
    parts = np.repeat([0, 1], 6)
    s = rng.standard_normal((n, 2, 2)) + 1.2 * (2 * y[:, None, None] - 1) * [[1.0, 0.0], [0.0, 1.0]]
    loadings = rng.normal(size=(12, 2)) * [1.5, 1.0]
    X = np.einsum("ndj,dj->nd", s[:, parts], loadings) + 0.4 * rng.standard_normal((n, 12))
    X = (X * 10.0 ** rng.uniform(-1, 1, 12) + rng.normal(size=12)).round(4)
    return {"X": X, "incomplete": _hidden(X, 0.15, rng), "y": y, "parts": parts}


def strands(rng: np.random.Generator) -> Arrays:
    """Three parts with one factor each, of five, four and three columns."""
    parts = np.repeat([0, 1, 2], [5, 4, 3])
    s = rng.standard_normal((120, 3))
    X = s[:, parts] * rng.choice([-1.5, 1.0, 2.0], 12) + 0.5 * rng.standard_normal((120, 12))
    return {"X": X.round(4), "parts": parts}


def features(rng: np.random.Generator) -> Arrays:
    """Sums of those of five features that are on, and of features of two vectors; much noise."""
    codes = rng.integers(2, size=(120, 5))
    X = codes @ rng.normal(size=(5, 10)) + 0.7 * rng.standard_normal((120, 10)) + 1.0
    several = rng.integers(3, size=(120, 3))
    added = np.concatenate([np.zeros((3, 1, 10)), rng.normal(size=(3, 2, 10))], axis=1)
    Z = added[np.arange(3), several].sum(axis=1) + 0.7 * rng.standard_normal((120, 10))
    X, Z = X.round(4), Z.round(4)
    return {"X": X, "incomplete": _hidden(X, 0.1, rng), "several": Z}


def pixels(rng: np.random.Generator) -> Arrays:
    """Rows of 0 and 1: those of four overlapping bars that are on, some cells turned."""
    bars = np.zeros((4, 16))
    for k in range(4):
        bars[k, 3 * k : 3 * k + 6] = 1.0
    X = (rng.integers(2, size=(120, 4)) @ bars > 0) ^ (rng.random((120, 16)) < 0.02)
    return {"X": X * 1.0}


def planes(rng: np.random.Generator) -> Arrays:
    """Rows near three planes of two dimensions, far apart, in eight columns."""
    y = rng.integers(3, size=150)
    center = 6.0 * np.eye(3, 8)
    spread = rng.normal(size=(3, 2, 8)) * [[[1.6], [0.9]]]
    X = center[y] + np.einsum("nj,njd->nd", rng.standard_normal((150, 2)), spread[y])
    X = (X + 0.2 * rng.standard_normal((150, 8))).round(4)
    return {"X": X, "incomplete": _hidden(X, 0.1, rng), "y": y}


def ratings(rng: np.random.Generator) -> Arrays:
    """Ratings 1 to 5 of 24 items by 90 people, half of them missing."""
    taste = rng.standard_normal((90, 2))
    liking = taste @ rng.normal(size=(2, 24)) + 0.5 * rng.standard_normal((90, 24))
    X = _hidden(np.clip((3.0 + 1.1 * liking).round(), 1.0, 5.0), 0.5, rng)
    return {"X": X}


def table(rng: np.random.Generator) -> Arrays:
    """Columns of five kinds in two parts, some cells missing: numbers, and text as words."""
    drawn = _states(rng, 160, 2, 3)
    columns: Arrays = {}
    for k in range(2):
        s = drawn["states"][:, k]
        columns[f"length{k}"] = (s * 4.0 + rng.standard_normal(160)).round(3)
        columns[f"width{k}"] = (100.0 - 25.0 * s + 8.0 * rng.standard_normal(160)).round(2)
        columns[f"member{k}"] = np.where(
            rng.random(160) < np.array([0.1, 0.9, 0.5])[s], "yes", "no"
        )
        chosen = (s + (rng.random(160) < 0.15)) % 3
        columns[f"place{k}"] = np.array(["coast", "hills", "plain"])[chosen]
        columns[f"visits{k}"] = rng.poisson(np.array([0.5, 3.0, 9.0])[s]) * 1.0
        grade = np.clip((1.5 * s + 0.5 + 0.7 * rng.standard_normal(160)).round(), 0, 3).astype(int)
        columns[f"grade{k}"] = np.array(["low", "fair", "good", "high"])[grade]
    for name, values in columns.items():
        gone = rng.random(160) < 0.1
        columns[name] = np.where(gone, "" if values.dtype.kind == "U" else np.nan, values)
    return {**columns, "y": np.array(["north", "south"])[drawn["y"]]}


_DRAWN = (
    numbers, groups, switches, counts, levels, factors, strands, features, pixels, planes, ratings,
    table,
)  # fmt: skip
SETS: dict[str, Callable[[np.random.Generator], Arrays]] = {each.__name__: each for each in _DRAWN}


def draw_missing() -> None:
    """Store the data sets that are not stored yet; those that are stay as they are."""
    DATA.mkdir(exist_ok=True)
    for name, draw in SETS.items():
        path = DATA / f"{name}.npz"
        if not path.exists():
            seed = [int(code) for code in name.encode()]
            np.savez_compressed(path, **draw(np.random.default_rng(seed)))


def as_pandas(columns: Arrays):
    """A data set of named columns as a pandas DataFrame; grades are ordered categories."""
    import pandas as pd

    return pd.DataFrame({name: _series(name, values) for name, values in columns.items()})


def _series(name: str, values: np.ndarray):
    import pandas as pd

    if values.dtype.kind != "U":
        return pd.Series(values)
    words = pd.Series(values, dtype=object).where(values != "", None)
    if name.startswith("grade"):
        return pd.Series(pd.Categorical(words, ["low", "fair", "good", "high"], ordered=True))
    return words


def as_polars(columns: Arrays):
    """The same as a polars DataFrame."""
    import polars as pl

    levels = pl.Enum(["low", "fair", "good", "high"])
    series = []
    for name, values in columns.items():
        if values.dtype.kind == "U":
            words = [str(v) or None for v in values]
            series.append(pl.Series(name, words, levels if name.startswith("grade") else pl.String))
        else:
            series.append(pl.Series(name, values, nan_to_null=True))
    return pl.DataFrame(series)


def as_sparse(X: np.ndarray) -> sparse.csr_array:
    """Observed entries alone: NaN is not stored, zeros are."""
    rows, columns = np.nonzero(~np.isnan(X))
    return sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
