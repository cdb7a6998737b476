"""Parquet: types and values come back."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import partwise
from partwise import MCVQ
from partwise.files import read_data
from partwise.files.frames import write_filled


def holed(columns, seed=0):
    """Missing values here and there."""
    rng = np.random.default_rng(seed)
    n = len(next(iter(columns.values())))
    return {name: np.sort(rng.choice(n, 5, replace=False)) for name in columns}


@pytest.fixture
def of_pandas():
    x = np.random.default_rng(0).normal(size=60)
    columns = {
        "x": pd.Series(x),
        "n": pd.array(np.rint(3 * x), dtype="Int64"),
        "yes": pd.array(x > 0, dtype="boolean"),
        "level": pd.Categorical(
            np.where(x > 0, "hi", "lo"), categories=["lo", "hi", "unused"], ordered=True
        ),
        "when": pd.date_range("2024-01-01", periods=60, tz="Europe/Berlin"),
    }
    frame = pd.DataFrame(columns)
    for name, rows in holed(columns).items():
        frame.loc[rows, name] = None
    return frame


@pytest.fixture
def of_polars():
    x = np.random.default_rng(0).normal(size=60)
    columns = {
        "x": pl.Series(x),
        "big": pl.Series([2**62 + i for i in range(60)]),
        "level": pl.Series(np.where(x > 0, "hi", "lo"), dtype=pl.Enum(["lo", "hi", "unused"])),
        "when": pl.datetime_range(
            datetime.datetime(2024, 1, 1),
            datetime.datetime(2024, 2, 29),
            "1d",
            time_zone="Asia/Tokyo",
            eager=True,
        ),
        "at": pl.Series([datetime.time(7 + i % 9, i) for i in range(60)]),
    }
    frame = pl.DataFrame(columns)
    for name, rows in holed(columns).items():
        frame = frame.with_columns(pl.Series(name, frame[name]).scatter(rows, None))
    return frame


def test_pandas_gets_its_own_types_back(tmp_path, of_pandas):
    of_pandas.to_parquet(tmp_path / "in.parquet")
    data = read_data(tmp_path / "in.parquet")
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(data.X)
    write_filled(tmp_path / "out.parquet", data, model.impute(data.X))
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert out.dtypes.to_list() == of_pandas.dtypes.to_list()
    assert not out.isna().any().any()
    for name in of_pandas.columns:
        known = of_pandas[name].notna()
        assert (out[name][known] == of_pandas[name][known]).all()


def test_polars_gets_its_own_types_back(tmp_path, of_polars):
    of_polars.write_parquet(tmp_path / "in.parquet")
    data = read_data(tmp_path / "in.parquet")
    with pytest.warns(UserWarning, match=r"'big': integers beyond 2\^53"):
        model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(data.X)
    write_filled(tmp_path / "out.parquet", data, model.impute(data.X))
    out = pl.read_parquet(tmp_path / "out.parquet")
    assert out.schema == of_polars.schema
    assert not sum(out.drop("big").null_count().row(0))
    assert out["big"].equals(of_polars["big"])
    for column in of_polars.get_columns():
        known = column.is_not_null()
        assert out[column.name].filter(known).equals(column.filter(known))


def test_samples_and_ends_have_the_types_and_models_keep_them(tmp_path, of_polars):
    table = of_polars.drop("big")
    MCVQ(1, 2, likelihood="auto", random_state=0).fit(table).save(tmp_path / "m.safetensors")
    model = partwise.load(tmp_path / "m.safetensors")
    rows, _ = model.sample(20, random_state=0)
    assert rows["level"].cast(pl.String).is_in(["lo", "hi"]).all()
    for made in (rows, *model.predict_interval(table, 0.8)):
        assert made.drop("level").schema == table.drop("level").schema
        assert made["level"].dtype == pl.Enum  # of the levels that fit saw
