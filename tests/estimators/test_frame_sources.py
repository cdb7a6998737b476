"""Tables that are not in memory: the same schema, parameters and imputed table as in memory."""

import contextlib
import gzip
import os
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

from partwise import MCFA, MCVQ, DaskRunner, PartsImputer, write_parquet
from partwise.fitted import fitted_of

arrow = pytest.importorskip("pyarrow")
N = 600


def survey(n=N, seed=0):
    """A table of several kinds with two parts, a fifth of its values missing."""
    rng = np.random.default_rng(seed)
    z, w = rng.integers(3, size=n), rng.integers(2, size=n)
    frame = pl.DataFrame(
        {
            "town": np.array(["Ulm", "Rome", "Oslo"])[z],
            "height": 2.0 * z + rng.normal(size=n),
            "day": np.datetime64("2020-01-01")
            + (100 * z + rng.integers(30, size=n)).astype("m8[D]"),
            "yes": rng.random(n) < np.where(w, 0.95, 0.05),
            "income": np.exp(2.0 * w + rng.normal(size=n)),
            "kids": rng.poisson(1 + 4 * w),
            "answer": np.clip(rng.integers(1, 4, size=n) + 2 * w, 1, 5),
            "note": [f"text {i}" for i in range(n)],
        }
    )
    return frame.with_columns(
        pl.when(pl.Series(rng.random(n) < 0.2)).then(None).otherwise(pl.col(name)).alias(name)
        for name in frame.columns
    )


def fitted(X, **options):
    with pytest.warns(UserWarning, match="'note': text that hardly repeats"):
        return MCVQ(2, 3, likelihood="auto", random_state=0, **options).fit(X)


@pytest.fixture(scope="module")
def in_memory():
    return fitted(survey())


@pytest.fixture(scope="module")
def in_pandas():
    return fitted(survey().to_pandas())


def write(folder, form, cuts=(0, 200, 390, N)):
    """The table in several files."""
    for i, (lo, hi) in enumerate(pairwise(cuts)):
        part, path = survey()[lo:hi], folder / f"{i}.{form}"
        if form == "parquet":
            part.write_parquet(path, row_group_size=70)
        elif form == "arrow":
            part.write_ipc(path, record_batch_size=64)
        elif form == "csv":
            part.write_csv(path)
        elif form == "csv.gz":
            path.write_bytes(gzip.compress(part.write_csv().encode()))
        else:
            path.write_bytes(arrow.compress(part.write_csv().encode(), "zstd", asbytes=True))
    return folder


def assert_same_model(found, expected, X, whole):
    assert fitted_of(found).schema.state() == fitted_of(expected).schema.state()
    for one, other in zip(fitted_of(found).params.chi, fitted_of(expected).params.chi, strict=True):
        assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(other).max())
    assert_allclose(found.gates_, expected.gates_, atol=1e-6)
    assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)
    filled, table = found.impute(X), expected.impute(whole)
    if isinstance(table, pd.DataFrame):
        filled = filled.compute() if hasattr(filled, "compute") else filled
        pd.testing.assert_frame_equal(filled, table, rtol=1e-6)
    else:
        assert filled.schema == table.schema
        for name in table.columns:
            if table[name].dtype.is_float():
                assert_allclose(filled[name].to_numpy(), table[name].to_numpy(), rtol=1e-6)
            else:
                assert filled[name].equals(table[name])


@pytest.mark.parametrize(
    "form",
    [
        "parquet",
        "csv",
        *(pytest.param(form, marks=pytest.mark.ci) for form in ("arrow", "csv.gz", "csv.zst")),
    ],
)
def test_files_in_any_cut_are_the_table_in_memory(form, in_memory, tmp_path):
    folder = write(tmp_path, form)
    assert_same_model(fitted(folder), in_memory, str(tmp_path / f"*.{form}"), survey())


def streams():
    def dataset(folder):
        from pyarrow import dataset

        return dataset.dataset(write(folder, "parquet"))

    class Stream:
        """An Arrow stream that can be read once."""

        def __init__(self, table):
            self.table = table

        def __arrow_c_stream__(self, requested_schema=None):
            table, self.table = self.table, None
            return table.__arrow_c_stream__(requested_schema)

    return {
        "lazy frame": lambda folder: survey().lazy(),
        "dataset": dataset,
        "Arrow table": lambda folder: survey().to_arrow(),
        "Arrow stream": lambda folder: Stream(survey().to_arrow()),
        "frames": lambda folder: [survey()[:100], survey()[100:]],
        "function": lambda folder: lambda: (survey()[i : i + 150] for i in range(0, N, 150)),
    }


@pytest.mark.parametrize("name", streams())
def test_streams_are_the_table_in_memory(name, in_memory, tmp_path):
    make = streams()[name]
    found = fitted(make(tmp_path))
    assert_same_model(found, in_memory, make(tmp_path), survey())


def test_pandas_frames_are_the_table_in_memory(in_pandas):
    whole = survey().to_pandas()
    blocks = [whole.iloc[:250], whole.iloc[250:]]
    assert_same_model(fitted(blocks), in_pandas, blocks, whole)


@pytest.mark.parametrize(
    "workers",
    [None, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.ci)],
)
def test_dask_is_the_table_in_memory(workers):
    dask_frame = pytest.importorskip("dask.dataframe")
    X = dask_frame.from_pandas(survey().to_pandas(), npartitions=3)
    whole = X.compute()  # Dask has its own type of text
    cluster = nullcontext()
    if workers:
        cluster = DaskRunner(n_workers=workers, threads_per_worker=1, processes=False)
    expected = fitted(whole)
    with cluster:
        assert_same_model(fitted(X), expected, X, whole)


@pytest.mark.ci
def test_weights_and_labels(in_memory, tmp_path):
    folder, rng = write(tmp_path, "parquet"), np.random.default_rng(1)
    weight = rng.integers(3, size=N)
    labels = np.where(survey()["yes"].fill_null(False).to_numpy(), "a", "b")
    options = {"likelihood": "auto", "random_state": 0, "n_classes": 2}
    with pytest.warns(UserWarning, match="note"):
        expected = MCVQ(2, 3, **options).fit(survey(), labels, sample_weight=weight)
    with pytest.warns(UserWarning, match="note"):
        found = MCVQ(2, 3, **options).fit(folder, labels, sample_weight=weight)
    assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)
    assert_allclose(found.predict_proba(folder), expected.predict_proba(survey()), atol=1e-6)
    states = found.add_states(folder)
    assert states.columns[-1] == "class"
    assert len(states) == N


def test_multiple_imputation(in_memory, tmp_path):
    found = in_memory.impute(write(tmp_path, "parquet"), n_imputations=2, random_state=0)
    assert [len(table) for table in found] == [N, N]
    assert not found[0].drop("note").null_count().to_numpy().any()
    assert not found[0].equals(found[1])


def test_numbers_of_a_table_for_other_models(tmp_path):
    table = survey().select("height", "income", "kids").with_columns(pl.all().cast(float))
    table[:300].write_csv(tmp_path / "a.csv")
    table[300:].write_csv(tmp_path / "b.csv")
    expected = MCFA(1, 1, random_state=0).fit(table)
    found = MCFA(1, 1, random_state=0).fit(tmp_path)
    assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)
    assert list(found.feature_names_in_) == table.columns


def test_columns_without_use_are_not_read_again(in_memory, tmp_path, monkeypatch):
    from partwise.data import frame_sources

    asked = []
    read = frame_sources.ArrowFiles.read

    def noting(self, i, columns=None):
        asked.append(columns)
        return read(self, i, columns)

    monkeypatch.setattr(frame_sources.ArrowFiles, "read", noting)
    fitted(write(tmp_path, "parquet"))
    pieces = len(asked) // 2
    assert all(columns is None for columns in asked[:pieces])
    assert all("note" not in columns for columns in asked[pieces:])


def test_duckdb_relations(in_memory, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    write(tmp_path, "parquet")
    with duckdb.connect(str(tmp_path / "table.duckdb")) as base:
        base.execute(f"create table t as select * from '{tmp_path}/*.parquet'")
        found = fitted(base.sql("select * from t"))
    assert_allclose(found.lower_bound_, in_memory.lower_bound_, rtol=1e-6)


@pytest.mark.slow
def test_postgresql_by_adbc(in_memory):
    driver = pytest.importorskip("adbc_driver_postgresql.dbapi")
    if shutil.which("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    place = Path(tempfile.mkdtemp())
    server = {}
    if os.geteuid() == 0:  # as whom it does not start
        server = {"user": "nobody"}
        shutil.chown(place, "nobody")
    data, port = place / "base", "54329"

    def run(*command):
        subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL, **server)

    run("initdb", "-D", data, "-A", "trust", "-U", "test")
    options = f"-p {port} -k {place} -c listen_addresses=localhost"
    run("pg_ctl", "-D", data, "-o", options, "-l", place / "log", "-w", "start")
    try:
        address = f"postgresql://test@localhost:{port}/postgres"
        with driver.connect(address) as base, base.cursor() as cursor:
            cursor.adbc_ingest("t", survey().to_arrow(), mode="create")
            base.commit()
            cursor.execute("select * from t")
            found = fitted(cursor.fetch_record_batch())
    finally:
        run("pg_ctl", "-D", data, "-m", "fast", "stop")
        shutil.rmtree(place)
    assert_allclose(found.lower_bound_, in_memory.lower_bound_, rtol=1e-6)


def test_anomalous_cells_of_all_files(in_memory, in_pandas, tmp_path):
    expected = in_memory.anomalous_cells(survey(), 12)
    found = in_memory.anomalous_cells(write(tmp_path, "parquet"), 12)
    assert found["row"].to_list() == expected["row"].to_list()
    assert found["column"].to_list() == expected["column"].to_list()
    whole = survey().to_pandas()
    parts = [whole.iloc[:250], whole.iloc[250:]]
    cells = in_pandas.anomalous_cells(parts, 5)
    assert cells["row"].tolist() == in_pandas.anomalous_cells(whole, 5)["row"].tolist()


def test_results_are_written_piece_by_piece(in_memory, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source, "parquet")
    seen = []
    files = write_parquet(
        in_memory.impute, source, out, on_progress=lambda *rows: seen.append(rows)
    )
    assert [path.name for path in files] == ["00000.parquet", "00001.parquet", "00002.parquet"]
    assert seen[-1] == (N, N)
    assert pl.read_parquet(files).equals(in_memory.impute(survey()))
    from pyarrow import parquet

    groups = [parquet.ParquetFile(path).num_row_groups for path in files]
    assert groups == [parquet.ParquetFile(path).num_row_groups for path in sorted(source.iterdir())]
    scores = write_parquet(in_memory.anomaly_scores, source, tmp_path / "scores")
    assert pl.read_parquet(scores).columns == ["anomaly_scores0", "anomaly_scores1"]
    ends = write_parquet(in_memory.predict_interval, source, tmp_path / "ends")
    assert "height_lower" in pl.read_parquet(ends).columns
    with pytest.raises(ValueError, match="results of another model, method or table"):
        write_parquet(in_memory.add_states, source, out)


def test_writing_continues_where_it_was_interrupted(in_memory, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write(source, "parquet")
    expected = in_memory.impute(survey())

    for stop in range(1, 9):
        calls = 0

        def interrupt(done, total, stop=stop):
            nonlocal calls
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            write_parquet(in_memory.impute, source, out, on_progress=interrupt)
        for path in out.glob("*.parquet"):
            assert pl.read_parquet(path).width == expected.width  # complete
    files = write_parquet(in_memory.impute, source, out)
    assert pl.read_parquet(files).equals(expected)

    files[0].write_bytes(files[0].read_bytes()[:50])  # damaged since: made again
    files = write_parquet(in_memory.impute, source, out)
    assert pl.read_parquet(files).equals(expected)
    for damaged in (b"", b"{", b"[]", b"\xff"):
        (out / "_partwise.json").write_bytes(damaged)
        with pytest.raises(ValueError, match="choose an empty folder"):
            write_parquet(in_memory.impute, source, out)


@pytest.mark.ci
def test_imputer_of_files(tmp_path):
    folder = write(tmp_path, "parquet")
    with pytest.warns(UserWarning, match="note"):
        expected = PartsImputer(2, 2, n_fits=2, random_state=0).fit(survey())
    with pytest.warns(UserWarning, match="note"):
        found = PartsImputer(2, 2, n_fits=2, random_state=0).fit(folder)
    table, filled = expected.transform(survey()), found.transform(folder)
    for name in ("town", "yes", "answer"):
        assert filled[name].equals(table[name])
    assert_allclose(filled["height"].to_numpy(), table["height"].to_numpy(), rtol=1e-6)
