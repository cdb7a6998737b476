"""Types of columns survive: what comes back has the types, categories and units of the table."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from partwise import MCVQ, PartsImputer, load, write_parquet

arrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore")

N = 150
DECLARED = ["low", "middle", "high", "never"]
PARIS = "Europe/Paris"


def columns():
    """Values of several kinds with a fifth missing, by name."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=N)
    moments = [
        dt.datetime(2020, 1, 1, 12) + dt.timedelta(days=30 * int(k), seconds=int(s), milliseconds=7)
        for k, s in zip(z, rng.integers(86400, size=N), strict=True)
    ]
    values = {
        "level": np.array(DECLARED)[z].tolist(),
        "day": [moment.date() for moment in moments],
        "moment": moments,
        "second": [moment.replace(microsecond=0) for moment in moments],
        "span": [dt.timedelta(hours=2 * int(k), minutes=int(m)) for k, m in
                 zip(z, rng.integers(60, size=N), strict=True)],
        "yes": (z == 1).tolist(),
        "whole": (3 * z).tolist(),
        "number": np.round(1.1 * z + rng.normal(size=N), 1).tolist(),
    }  # fmt: skip
    for one in values.values():
        for i in np.flatnonzero(rng.random(N) < 0.2):
            one[i] = None
    return values


def of_polars():
    made = columns()
    zoned = pl.Series(made["moment"], dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.DataFrame(
        {
            "enum": pl.Series(made["level"], dtype=pl.Enum(DECLARED)),
            "category": pl.Series(made["level"], dtype=pl.Categorical),
            "date": pl.Series(made["day"]),
            "zone": zoned.dt.convert_time_zone(PARIS),
            "ms": pl.Series(made["moment"], dtype=pl.Datetime("ms")),
            "ns": zoned.cast(pl.Datetime("ns", "UTC")),
            "duration": pl.Series(made["span"], dtype=pl.Duration("ms")),
            "time": pl.Series([None if x is None else x.time() for x in made["second"]]),
            "boolean": pl.Series(made["yes"]),
            "int8": pl.Series(made["whole"], dtype=pl.Int8),
            "float32": pl.Series(made["number"], dtype=pl.Float32),
            "float": pl.Series(made["number"]),
            "decimal": pl.Series(made["number"]).cast(pl.Decimal(10, 2)),
        }
    )


def of_pandas():
    made = columns()
    moment, second = (pd.to_datetime(pd.Series(made[name])) for name in ("moment", "second"))
    return pd.DataFrame(
        {
            "category": pd.Categorical(made["level"], categories=DECLARED),
            "ordered": pd.Categorical(made["level"], categories=DECLARED, ordered=True),
            "date": pd.Series(made["day"]),
            "moment": moment.astype("datetime64[ns]"),
            "zone": moment.dt.tz_localize(PARIS),
            "second": second.astype("datetime64[s]"),
            "span": pd.to_timedelta(pd.Series(made["span"])),
            "boolean": pd.array(made["yes"], dtype="boolean"),
            "Int64": pd.array(made["whole"], dtype="Int64"),
            "Float32": pd.array(made["number"], dtype="Float32"),
            "float": pd.Series(made["number"], dtype=float),
            "string": pd.array(made["level"], dtype="string"),
            "Arrow zone": pd.array(
                made["moment"], dtype=pd.ArrowDtype(arrow.timestamp("us", PARIS))
            ),
            "Arrow date": pd.array(made["day"], dtype=pd.ArrowDtype(arrow.date32())),
            "Arrow bool": pd.array(made["yes"], dtype=pd.ArrowDtype(arrow.bool_())),
            "Arrow int": pd.array(made["whole"], dtype=pd.ArrowDtype(arrow.int32())),
        }
    )


TABLES = {"polars": of_polars, "pandas": of_pandas}


@pytest.fixture(scope="module", params=TABLES)
def fitted(request):
    table = TABLES[request.param]()
    return MCVQ(1, 3, likelihood="auto", random_state=0, max_iter=5).fit(table), table


def types(table):
    if isinstance(table, pl.DataFrame):
        return dict(table.schema)
    found = dict(table.dtypes)
    found["date"] = {type(value) for value in table["date"].dropna()}  # of objects
    return found


def assert_same_observed(found, table):
    assert types(found) == types(table)
    for name in table.columns:
        if isinstance(table, pl.DataFrame):
            seen = table[name].is_not_null()
            assert found[name].filter(seen).equals(table[name].filter(seen)), name
        else:
            seen = table[name].notna()
            assert found.loc[seen, name].tolist() == table.loc[seen, name].tolist(), name


def test_imputed_tables(fitted):
    model, table = fitted
    filled = model.impute(table)
    assert_same_observed(filled, table)
    holes = filled.null_count() if isinstance(filled, pl.DataFrame) else filled.isna().sum()
    assert np.asarray(holes).sum() == 0
    imputer = PartsImputer(1, 2, n_fits=1, n_factors=0, random_state=0)
    assert_same_observed(imputer.fit_transform(table), table)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_are_whole_hours_where_all_observed_are(unit):
    rng = np.random.default_rng(0)
    hours = np.where(rng.random((N, 2)) < 0.2, None, rng.integers(9000, size=(N, 2)))
    moments = [
        [
            None if h is None else dt.datetime(2022, 1, 1) + dt.timedelta(hours=int(h))
            for h in column
        ]
        for column in hours.T
    ]
    frame = pl.DataFrame(dict(zip("ab", moments, strict=True))).cast(pl.Datetime(unit))
    kinds = dict.fromkeys("ab", "gaussian")
    model = MCVQ(1, 2, likelihood=kinds, random_state=0, max_iter=5).fit(frame)
    made = [model.impute(frame), model.sample(N, random_state=0)[0], *model.predict_interval(frame)]
    for table in made:
        for column in table.get_columns():
            assert (column.drop_nulls().dt.truncate("1h") == column.drop_nulls()).all()
    of_objects = MCVQ(1, 2, likelihood="auto", random_state=0, max_iter=5)
    of_objects.fit(np.array(moments, dtype=object).T)
    sampled = of_objects.sample(N, random_state=0)[0].astype("M8[ns]")
    assert (sampled == sampled.astype("M8[h]")).all()


def test_samples_intervals_and_reconstructions(fitted, tmp_path):
    model, table = fitted
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        assert types(one.sample(20, random_state=0)[0]) == types(table)
        assert types(one.reconstruct(table)) == types(table)
        for end in one.predict_interval(table):
            assert types(end) == types(table)


def test_plain_booleans_with_missing_ends():
    table = of_pandas()[["category", "float"]].assign(yes=np.arange(N) % 3 == 0)
    model = MCVQ(1, 2, likelihood="auto", random_state=0, max_iter=3).fit(table)
    assert str(model.predict_interval(table)[0]["yes"].dtype) == "boolean"
    assert model.impute(table)["yes"].dtype == bool


@pytest.mark.parametrize("kind", TABLES)
def test_parquet(kind, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    table = TABLES[kind]()
    if kind == "polars":
        table.write_parquet(source / "0.parquet")
    else:
        table.to_parquet(source / "0.parquet")
    given = pl.read_parquet(source / "0.parquet")
    model = MCVQ(1, 2, likelihood="auto", random_state=0, max_iter=3).fit(source)
    (path,) = write_parquet(model.impute, source, tmp_path / "out")
    found = pl.read_parquet(path)
    assert found.schema == given.schema
    assert found.null_count().to_numpy().sum() == 0
    assert_same_observed(found, given)
