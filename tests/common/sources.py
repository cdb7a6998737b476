"""The same rows in every form that `fit` takes, and models small enough to fit to each."""

from itertools import pairwise

import numpy as np
from scipy import sparse

from partwise import GVQ, MCFA, MCVQ, BayesianPCA, RowSource

N_ROWS, N_COLUMNS = 150, 12
CUTS = (0, 40, 41, 75, 130, N_ROWS)


def planted():
    """Rows of three parts with three states each, and the first part's states."""
    rng = np.random.default_rng(0)
    states, part = rng.integers(3, size=(N_ROWS, 3)), np.arange(N_COLUMNS) % 3
    means = rng.normal(size=(3, N_COLUMNS))
    X = means[states[:, part], np.arange(N_COLUMNS)] + 0.3 * rng.normal(size=(N_ROWS, N_COLUMNS))
    return X, states[:, 0]


def problems():
    """Name -> (estimator, X, y)."""
    X, y = planted()
    rng = np.random.default_rng(1)
    holed = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    shown = rng.random(X.shape) < 0.3
    stars = sparse.csr_array(np.where(shown, np.clip(np.rint(2 * X + 3), 1, 5), 0.0))
    counts = sparse.csr_array(rng.poisson(np.exp(np.minimum(X, 1.0))).astype(float))
    few: dict = {"max_iter": 4, "random_state": 0}
    tied = {**few, "gating": "tied"}
    return {
        "mcvq": (MCVQ(3, 3, **tied), X, None),
        "mcvq-masked": (MCVQ(3, 3, **tied), holed, None),
        "mcvq-sparse": (MCVQ(3, 3, **tied), stars, None),
        "mcvq-levels": (MCVQ(3, 3, likelihood="categorical", **tied), stars, None),
        "mcvq-counts": (MCVQ(3, 3, likelihood="poisson", **tied), counts, None),
        "mcfa-classes": (MCFA(2, 1, **tied), holed, np.where(np.arange(N_ROWS) % 4, y, -1)),
        "gvq": (GVQ(4, **few), holed, None),
        "bayesian-pca": (BayesianPCA(**few), holed, None),
    }


def blocks_of(X):
    """The rows in blocks of unequal sizes, one of them a single row."""
    return [X[lo:hi] for lo, hi in pairwise(CUTS)]


def on_disk(X, kind, folder):
    """The rows as ``kind`` says, dense or sparse."""
    blocks = blocks_of(X)
    if kind == "list":
        return blocks
    if kind == "walks":
        return RowSource(lambda: iter(blocks))
    if kind == "memmap":
        np.save(folder / "all.npy", X)
        return np.load(folder / "all.npy", mmap_mode="r")
    if kind == "zarr":
        import zarr

        array = zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=(64, 5), dtype=X.dtype)
        array[:] = X
        return str(folder / "X.zarr")
    for i, block in enumerate(blocks):
        path = folder / f"{i:02d}.{kind}"
        if kind == "parquet":
            import pandas as pd

            names = [f"column {d}" for d in range(X.shape[1])]
            pd.DataFrame(block, columns=names).to_parquet(path, row_group_size=50)
        elif kind == "npy":
            np.save(path, block)
        elif sparse.issparse(block):
            sparse.save_npz(path, block)
        else:
            np.savez_compressed(path, block)
    return folder


def learned(estimator):
    """Arrays of numbers that a fit sets."""
    values = {n: v for n, v in vars(estimator).items() if n.endswith("_") and n[0] != "_"}
    return {n: v for n, v in values.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiu"}


def assert_same_fit(one, other, rtol=1e-6):
    """Equal up to ``rtol`` of each array's largest entry."""
    first, second = learned(one), learned(other)
    assert set(first) == set(second)
    for name, value in first.items():
        assert value.shape == second[name].shape, name
        size = np.nanmax(np.abs(value), initial=0.0)
        np.testing.assert_allclose(
            second[name], value, rtol=0, atol=rtol * size, err_msg=name, equal_nan=True
        )
