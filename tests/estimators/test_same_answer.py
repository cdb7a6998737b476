"""With one seed a fit has the same numbers, to the last bit, whatever works on it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from partwise import CVQ, GVQ, MCFA, MCVQ, AspectModel, BayesianPCA, PartsImputer, make_faces
from partwise.data import source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = make_faces(150, random_state=0).data[:, ::2]
HOLED = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
FITS = {
    "MCVQ": (MCVQ(3, 4, max_iter=4, random_state=0), X),
    "single": (MCVQ(3, 4, max_iter=4, random_state=0), X.astype(np.float32)),
    "missing": (MCVQ(3, 4, n_classes=2, max_iter=4, random_state=0), HOLED),
    "factorised": (MCVQ(2, 3, gating="factorised", max_iter=3, random_state=0), X[:, ::4]),
    "gibbs": (MCVQ(2, 3, inference="gibbs", max_iter=3, random_state=0), X[:, ::4]),
    "MCFA": (MCFA(2, 2, max_iter=3, random_state=0), HOLED),
    "CVQ": (CVQ(2, 3, n_init=1, max_iter=3, random_state=0), X),
    "GVQ": (GVQ(3, max_iter=3, random_state=0), X),
    "PCA": (BayesianPCA(5, max_iter=4, random_state=0), HOLED),
    "aspects": (AspectModel(2, beta=0.9, max_iter=4, random_state=0), np.rint(4 * HOLED[:, ::8])),
}


def learned(model):
    """Every number that was learned, and what is told of new rows."""
    return {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}


@pytest.mark.slow
@pytest.mark.parametrize("n_blocks", ["one block", "several"])
@pytest.mark.parametrize("name", FITS)
def test_threads_do_not_count(name, n_blocks, monkeypatch):
    if n_blocks == "several":
        monkeypatch.setattr(source, "BLOCK_BYTES", 1 << 15)
        monkeypatch.setattr(source, "BLOCK_ENTRIES", 1 << 12)
    model, rows = FITS[name]
    found = []
    for n_jobs, n_threads in ((None, 1), (None, 2), (1, 2), (2, 2)):
        with threadpool_limits(n_threads, user_api="blas"):
            model.set_params(n_jobs=n_jobs).fit(rows)
            found.append((learned(model), model.transform(rows)))
    for numbers, codes in found[1:]:
        np.testing.assert_array_equal(codes, found[0][1])
        assert numbers.keys() == found[0][0].keys()
        for key, value in numbers.items():
            np.testing.assert_array_equal(value, found[0][0][key], err_msg=key)


def table(n=120):
    """A table of several kinds, in which words stand for categories."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=n)
    names = np.array(["oak", "elm", "ash"])
    return pd.DataFrame(
        {
            "tree": np.where(rng.random(n) < 0.1, None, names[kind]),
            "place": np.array(["hill", "dale", "shore", "moor"])[rng.integers(4, size=n)],
            "height": np.where(rng.random(n) < 0.1, np.nan, 3.0 * kind + rng.normal(size=n)),
            "fells": rng.integers(2, size=n).astype(bool),
        }
    )


def told():
    """All digits of what is learned of tables whose categories are words."""
    model = MCVQ(2, 3, likelihood="auto", max_iter=5, random_state=0).fit(table())
    filled = PartsImputer(2, 3, n_fits=1, random_state=0).fit_transform(table())
    numbers = [model.lower_bounds_, model.gates_, model.transform(table())]
    return "\n".join([*(repr(one.tolist()) for one in map(np.asarray, numbers)), str(filled)])


@pytest.mark.slow
def test_the_order_of_hashes_does_not_count():
    root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {root!r}); from {__name__} import told; print(told())"
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]
    assert len(found[0]) > 1000
    assert found[0] == found[1] == found[2]
