"""A cluster learns what one process learns, whatever becomes of its workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from partwise import CVQ, MCVQ, DaskRunner, RowSource
from partwise.data import dask as data_dask
from tests.common.sources import (
    N_ROWS,
    assert_same_fit,
    blocks_of,
    on_disk,
    planted,
    problems,
)

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore:The fit did not converge"),
    # What Dask and its servers leave behind when they close.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PROBLEMS = problems()
QUIET = {"threads_per_worker": 1}


@pytest.fixture(scope="module")
def threads():
    """A cluster of two workers that are threads of this process."""
    with DaskRunner(n_workers=2, processes=False, **QUIET) as client:
        yield client


@pytest.fixture(scope="module", params=[1, 2])
def processes(request):
    """A cluster of one or two processes."""
    with DaskRunner(n_workers=request.param, **QUIET) as client:
        yield client


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 8 * 12 * 8)
    monkeypatch.setattr("partwise.data.source.BLOCK_ENTRIES", 8 * 5)


def here(estimator, X, y=None):
    """The same fit without a cluster."""
    token = data_dask.ACTIVE.set(None)
    try:
        return clone(estimator).fit(X, y)
    finally:
        data_dask.ACTIVE.reset(token)


@pytest.mark.parametrize(
    "name", ["mcvq-masked", "mcvq-sparse", "mcfa-classes", "gvq", "bayesian-pca"]
)
def test_what_is_in_memory_is_sent(name, threads, small_blocks):
    estimator, X, y = PROBLEMS[name]
    assert_same_fit(here(estimator, X, y), clone(estimator).fit(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_one_process_and_two(name, processes, small_blocks):
    estimator, X, y = PROBLEMS[name]
    assert_same_fit(here(estimator, X, y), clone(estimator).fit(X, y))


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["memmap", "parquet", "zarr", "walks"])
def test_files_are_read_by_the_workers(kind, threads, small_blocks, tmp_path):
    estimator, X, _ = PROBLEMS["mcvq-masked"]
    weight = np.random.default_rng(0).integers(3, size=N_ROWS)
    found = clone(estimator).fit(on_disk(X, kind, tmp_path), sample_weight=weight)
    token = data_dask.ACTIVE.set(None)
    assert_same_fit(clone(estimator).fit(X, sample_weight=weight), found)
    data_dask.ACTIVE.reset(token)


def chunked(X, kind):
    """X as a Dask collection."""
    if kind == "frame":
        import dask.dataframe as dd
        import pandas as pd

        return dd.from_pandas(pd.DataFrame(X).rename(columns=str), npartitions=4)
    array = da.from_array(X.toarray() if sparse.issparse(X) else X, chunks=(35, 5))
    if kind == "sparse":
        return array.rechunk((35, -1)).map_blocks(sparse.csr_array)
    return array


@pytest.mark.parametrize(
    ("name", "kind"),
    [("mcvq-masked", "array"), ("mcvq-masked", "frame"), ("mcvq-sparse", "sparse")],
)
@pytest.mark.parametrize("client", [pytest.param(True, marks=pytest.mark.ci), False])
def test_collections(name, kind, client, request, small_blocks):
    estimator, X, y = PROBLEMS[name]
    model = here(estimator, X, y)
    collection = chunked(X, kind)
    if client:
        request.getfixturevalue("threads")
        found = clone(estimator).fit(collection, y)
    else:
        found = here(estimator, collection, y)
    assert_same_fit(model, found)
    for verb in ("transform", "score_samples", "impute", "predict_states", "anomaly_scores"):
        lazy = getattr(found, verb)(collection)
        assert isinstance(lazy, da.Array)
        mine = getattr(model, verb)(X)
        assert lazy.ndim == mine.ndim
        assert lazy.dtype == mine.dtype
        np.testing.assert_allclose(lazy.compute(), mine, atol=1e-9)
    lower, upper = found.predict_interval(collection)
    assert np.all((lower <= upper).compute())
    assert found.row_likelihood(collection).standard_error.compute().shape == (N_ROWS,)
    assert found.score(collection) == pytest.approx(model.score(X))


def test_nothing_is_computed_before_it_is_asked_for():
    X, _ = planted()
    model = MCVQ(3, 3, gating="tied", max_iter=2, random_state=0).fit(X)
    asked = []

    def load(block_info=None):
        asked.append(block_info[None]["chunk-location"][0])
        return X[:100]

    lazy = model.transform(da.map_blocks(load, chunks=((100, 100), (12,)), dtype=float))
    assert asked == []
    assert lazy[:100].compute(scheduler="synchronous").shape == (100, 9)
    assert asked == [0]


@pytest.mark.slow
def test_rows_that_remember_stay_on_the_workers(threads, small_blocks):
    X, _ = planted()
    for estimator in (
        CVQ(3, 3, n_init=1, max_iter=3, random_state=0),
        MCVQ(3, 3, gating="factorised", init="random", max_iter=3, random_state=0),
    ):
        assert_same_fit(here(estimator, X), clone(estimator).fit(X))


def test_errors_come_back_with_the_name_of_the_block(threads, small_blocks, tmp_path):
    X, _ = planted()
    blocks = blocks_of(X)
    blocks[4] = blocks[4] * np.inf
    with pytest.raises(ValueError, match=r"Block.* of X.* contains infinity"):
        MCVQ(3, 3).fit(RowSource(blocks))
    folder = on_disk(X, "npy", tmp_path)
    rows = RowSource(folder)
    os.truncate(folder / "03.npy", 5000)
    with pytest.raises(OSError, match=r"Block 3 of X \(.*03.npy\) could not be read"):
        MCVQ(3, 3).fit(rows)


def test_a_cluster_that_goes_away_is_told(monkeypatch):
    monkeypatch.setattr(data_dask, "PATIENCE", 0.5)
    monkeypatch.setattr(data_dask, "LOOK_EVERY", 0.2)
    X, _ = planted()
    with DaskRunner(n_workers=1, processes=False, **QUIET) as client:
        client.retire_workers(list(client.scheduler_info()["workers"]))
        with pytest.raises(RuntimeError, match=r"Dask cluster .* closed"):
            MCVQ(3, 3).fit(X)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing_but_time(monkeypatch):
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 50 * 20 * 8)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20)) + rng.integers(3, size=(3000, 1))
    estimator = MCVQ(2, 3, gating="tied", max_iter=15, tol=0, random_state=0)
    model = here(estimator, X)
    took = np.inf  # of a fit that nobody disturbs
    for moment in (1.0, *rng.uniform(0.05, 0.95, 20)):
        with DaskRunner(n_workers=2, **QUIET) as client:
            client.wait_for_workers(2, timeout=120)
            pid = next(iter(client.run(os.getpid).values()))
            timer = threading.Timer(min(moment * took, 600), os.kill, (pid, signal.SIGKILL))
            timer.start()
            begin = time.monotonic()
            assert_same_fit(model, clone(estimator).fit(da.from_array(X, chunks=(750, -1))))
            timer.cancel()
            took = min(took, time.monotonic() - begin)


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(100, 10), (300, 19), (2000, 80)],  # as in memory; sixteen blocks; as large as they may be
)
def test_blocks_are_large_but_enough_for_all_workers(n_rows, expected):
    rows = data_dask.ClusterRows(RowSource([np.zeros((n_rows, 2))]), None, None)
    assert rows.rows_per_block(10) == expected
