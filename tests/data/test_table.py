"""What a table's columns are taken for, in numbers and back, and what is said of odd ones."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from partwise.data.frame_reading import read_columns
from partwise.data.frame_writing import NewColumn, make_frame
from partwise.data.survey import ColumnSurvey
from partwise.data.table import Schema, number_text


def survey(n=60):
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    return pd.DataFrame(
        {
            "height": rng.normal(170.0, 10.0, n),
            "income": np.exp(rng.normal(10.0, 1.5, n)),
            "children": rng.poisson(6, n),
            "answer": rng.integers(1, 6, n),
            "owner": rng.random(n) < 0.5,
            "vote": pd.array(rng.choice([0, 1], n), dtype="Int64"),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True),
            "shop": pd.Categorical(rng.choice(["a", "b", "c"], n)),
            "when": days,
            "at": days.tz_localize("Europe/Berlin") + pd.Timedelta(hours=7.5),
            "took": pd.to_timedelta(rng.normal(5, 1, n), unit="h"),
        }
    )


KINDS = {
    "height": "gaussian", "income": "lognormal", "children": "poisson", "answer": "ordinal",
    "owner": "bernoulli", "vote": "bernoulli", "town": "categorical", "size": "ordinal",
    "shop": "categorical", "when": "gaussian", "at": "gaussian", "took": "gaussian",
}  # fmt: skip


def kinds(schema):
    return {column.name: column.kind for column in schema.columns}


def test_kinds_come_from_types_and_values():
    assert kinds(Schema.learn(survey(), "auto")) == KINDS


def test_whole_numbers_with_holes_are_floats_to_pandas_and_still_whole():
    table = survey()[["children", "answer"]].astype(float)
    table.iloc[::7] = np.nan
    assert kinds(Schema.learn(table, "auto")) == {"children": "poisson", "answer": "ordinal"}


def test_the_order_of_levels_is_the_users():
    (column,) = Schema.learn(survey()[["size"]], "auto").columns
    assert column.levels == ("S", "M", "L")


def test_pandas_comes_back_as_it_was():
    table = survey()
    table.index = pd.Index(np.arange(len(table)) * 3, name="person")
    schema = Schema.learn(table, "auto")
    back = schema.decode(schema.encode(table), table.index)
    for name in table:
        assert back[name].dtype == table[name].dtype, name
        if table[name].dtype.kind in "Mm":  # days as floats hold a few microseconds
            assert (back[name] - table[name]).abs().max() < pd.Timedelta(milliseconds=1)
        elif table[name].dtype.kind == "f":
            np.testing.assert_allclose(back[name], table[name], rtol=1e-12)
        else:
            pd.testing.assert_series_equal(back[name], table[name])


def test_polars_comes_back_as_it_was():
    table = pl.DataFrame(
        {
            "height": [1.5, None, 2.25, 4.0] * 8,
            "children": [0, 3, None, 1] * 8,
            "owner": [True, None, False, True] * 8,
            "town": ["Ulm", "Bonn", None, "Kiel"] * 8,
            "day": [datetime.date(2024, 1, d) for d in (1, 2, 5, 9)] * 8,
            "level": pl.Series(["b", "a", "b", "c"] * 8, dtype=pl.Enum(["b", "a", "c"])),
        }
    )
    schema = Schema.learn(table, "auto")
    assert list(kinds(schema).values()) == [
        "ordinal", "ordinal", "bernoulli", "categorical", "gaussian", "categorical",
    ]  # fmt: skip
    coded = schema.encode(table)
    assert schema.columns[-1].levels == ("b", "a", "c")
    filled = schema.fill(table, coded, np.zeros_like(coded))
    assert filled.schema == table.schema
    assert filled["town"].to_list()[:4] == ["Ulm", "Bonn", "Bonn", "Kiel"]  # sorted: Bonn is 0
    assert filled["children"].to_list()[:4] == [0, 3, 0, 1]
    assert filled["owner"].to_list()[:4] == [True, False, False, True]
    assert schema.decode(coded)["day"].to_list() == table["day"].to_list()


@pytest.mark.parametrize("dtype", [pl.Null, pl.Float64])
def test_columns_without_any_value_are_filled_with_the_type_of_the_fit(dtype):
    days = [datetime.date(2000, 1, d) for d in range(1, 7)]
    table = pl.DataFrame({"town": ["Ulm", "Bonn"] * 3, "born": days})
    schema = Schema.learn(table, "auto")
    empty = pl.DataFrame({name: pl.Series([None, None], dtype=dtype) for name in table.columns})
    filled = schema.fill(empty, np.full((2, 2), np.nan), schema.encode(table[:2]))
    assert filled.equals(table[:2])
    assert filled.schema == table.schema


@pytest.mark.parametrize(
    ("column", "first"),
    [
        (pd.Series([None, *map(decimal.Decimal, ["2.50", "3.1", "4", "5"])], dtype=object), "2.50"),
        (
            pd.Series([None, *map(decimal.Decimal, ["1e30", "0.01", "2", "3"])], dtype=object),
            "1" + "0" * 30 + ".00",  # more digits than decimals have by default
        ),
        (pd.Series([None, 2, 3, 4, 7], dtype=object), 2),
        (pd.Series([None, 2.5, 3, 4, 7], dtype=object), 2.5),
        (pd.Series(pd.arrays.SparseArray([np.nan, 2.5, 3.0, 4.0, 7.0])), 2.5),
        (pd.Series(pd.arrays.SparseArray([np.nan, 2.5, 0.0, 4.0, 7.0], fill_value=0.0)), 2.5),
    ],
)
def test_filled_cells_are_of_the_type_of_the_others(column, first):
    table = pd.DataFrame({"x": column})
    schema = Schema.learn(table, "auto")
    filled = schema.fill(table, schema.encode(table), schema.encode(table[1:2])[[0] * 5])["x"]
    assert filled.dtype == column.dtype
    assert str(filled[0]) == str(first)
    assert type(filled[0]) is type(filled[1])
    assert filled[1:].tolist() == column[1:].tolist()


def test_lists_of_arrow_are_objects():
    arrow = pytest.importorskip("pyarrow")
    lists = pd.Series([[1, 2], [3]], dtype=pd.ArrowDtype(arrow.list_(arrow.int64())))
    with pytest.warns(UserWarning, match="'x': objects that are not numbers"):
        Schema.learn(pd.DataFrame({"x": lists, "y": [1.5, 2.5]}), "auto")


def test_arrays_of_objects_are_tables():
    X = np.array([["red", 1.5, True], [None, 2.5, False], ["blue", None, None]] * 9, dtype=object)
    schema = Schema.learn(X, "auto")
    assert list(kinds(schema).values()) == ["bernoulli"] * 3
    coded = schema.encode(X)
    assert_array_equal(np.isnan(coded), [[0, 0, 0], [1, 0, 0], [0, 1, 1]] * 9)
    filled = schema.fill(X, coded, np.zeros_like(coded))
    assert filled[1, 0] == "blue"
    assert filled[2, 1] == 1.5
    assert filled[2, 2] is False


def test_kinds_can_be_told():
    table = survey()
    told = {"answer": "gaussian", "income": "gaussian", 2: "ordinal", "town": "ignored"}
    found = kinds(Schema.learn(table, told))
    assert found["answer"] == found["income"] == "gaussian"
    assert found["children"] == "ordinal"
    assert found["town"] == "ignored"
    assert found["height"] == "gaussian"
    named = Schema.learn(table[["height", "town"]], ["lognormal", "categorical"])
    assert list(kinds(named).values()) == ["lognormal", "categorical"]


def test_a_file_keeps_all_that_is_known():
    table = survey()
    schema = Schema.learn(table, "auto")
    again = Schema.restore(schema.state())
    assert_array_equal(again.encode(table), schema.encode(table))
    pd.testing.assert_frame_equal(
        again.decode(again.encode(table)), schema.decode(schema.encode(table))
    )


def column_of(values, n=40):
    return pd.DataFrame({"fine": np.arange(n) % 7 + 0.5 * (np.arange(n) % 2), "odd": values})


N = 40
ODD = {
    "infinite": ([np.inf, *np.linspace(0, 1.1, N - 1) ** 2], "infinite", "gaussian"),
    "empty": ([np.nan] * N, "no values.* imputed as zero", "ignored"),
    "no text": ([None] * N, "no values.* returned unchanged", "ignored"),
    "constant": ([3.5] * N, "constant", "gaussian"),
    "one level": (["x"] * N, "constant", "categorical"),
    "one text or missing": (["x", None] * (N // 2), "missing values are imputed", "categorical"),
    "one number or missing": ([1, None] * (N // 2), "missing values are imputed", "gaussian"),
    "a code of missing": ([-99, *np.arange(1.5, N + 0.5)], "-99 is far from all", "gaussian"),
    "two codes": ([*np.arange(20.5, 58.5), 888.88, 999.99], "is far from all", "gaussian"),
    "a date of missing": (
        np.array(["9999-12-31", *np.arange("2020-01-01", N - 1, dtype="M8[D]")], "M8[s]"),
        "9999-12-31 is far",
        "gaussian",
    ),
    "two numbers": ([f"{i % 20 + 110}/{i % 20 + 70}" for i in range(N)], "form", "categorical"),
    "long units": ([f"{i % 20} metres" for i in range(N)], "form", "categorical"),
    "identifier": (range(100, 100 + N), "identifier", "ignored"),
    "free text": ([f"text {i}" for i in range(N)], "hardly repeats", "ignored"),
    "objects": ([[i] for i in range(N)], "objects that are not", "ignored"),
    "mixed": ([1, "a"] * (N // 2), "several types", "bernoulli"),
    "rare": (["a", "b"] * (N // 2 - 1) + ["a", "c"], "only one row", "categorical"),
    "dates": (["2024-01-05", "2024-02-01", "31.12.2023"] * 13 + [None], "dates", "categorical"),
    "numbers": (["1,5", "-2,25", "$3", "4 %"] * (N // 4), "numbers stored", "categorical"),
    "all differ": ([7 * i * i for i in range(1, N + 1)], "all differ", "gaussian"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_columns_are_named_with_what_was_done(case):
    values, text, kind = ODD[case]
    with pytest.warns(UserWarning, match=f"'odd': .*{text}") as said:
        schema = Schema.learn(column_of(list(values)), "auto")
    assert len(said) == (2 if case == "two codes" else 1)
    assert schema.columns[1].kind == kind
    assert schema.columns[0].kind != "ignored"


@pytest.mark.parametrize(
    "values",
    [
        [f"E{i % 20}.9" for i in range(N)],  # codes of diseases
        ["12-15", "16-20", "21-30", "31-40"] * (N // 4),  # levels
        [-5.0, *np.arange(1.0, N)],
        [*np.arange(0.0, 97.0, 2.5), 99.0],  # the last one of many
    ],
)
def test_codes_levels_and_usual_numbers_need_no_word(values, recwarn):
    Schema.learn(column_of(values), "auto")
    assert not [str(said.message) for said in recwarn if "differ" not in str(said.message)]


def test_equal_names_are_told_apart():
    table = survey()[["height", "town"]]
    table.columns = ["x", "x"]
    with pytest.warns(UserWarning, match="'x': the name of another column"):
        schema = Schema.learn(table, "auto")
    assert [column.kind for column in schema.columns] == ["gaussian", "categorical"]
    assert list(schema.decode(schema.encode(table)).columns) == ["x", "x"]
    assert schema.place("x (2)") == 1


def test_what_fit_did_not_see_is_missing_and_said():
    schema = Schema.learn(survey(), "auto")
    new = survey().iloc[:3].copy()
    new["town"] = ["Rome", "Ulm", "Oslo"]
    with pytest.warns(UserWarning, match=r"'town' has 2 value\(s\) that fit did not see") as said:
        coded = schema.encode(new)
    assert len(said) == 1
    assert_array_equal(np.isnan(coded[:, list(new).index("town")]), [True, False, True])


def test_long_texts_are_truncated_in_messages():
    schema = Schema.learn(pd.DataFrame({"a": [1.5, 2.5, 3.5, 4.5], "b": list("xyxy")}), "auto")
    long = "t" * 3000
    with pytest.raises(ValueError, match=r"'a' had numbers in fit but has 't{37}\.\.\.' now"):
        schema.encode(pd.DataFrame({"a": [long], "b": ["x"]}))
    with pytest.warns(UserWarning, match=r"\(first: 't{37}\.\.\.'\)"):
        schema.encode(pd.DataFrame({"a": [1.5], "b": [long]}))


@pytest.mark.parametrize(
    ("likelihood", "text"),
    [
        ({"town": "gaussian"}, "not a number"),
        ({"height": "ordinal", "nowhere": "gaussian"}, "'nowhere'"),
        ({"height": "poisson"}, "needs counts 0, 1, 2"),
        ({"town": "bernoulli"}, "takes 2"),
        ({"height": "normal"}, "must be"),
        (["gaussian"], "1 kinds"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(likelihood, text):
    with pytest.raises(ValueError, match=text):
        Schema.learn(survey(), likelihood)


def test_no_column_of_use_is_an_error():
    with (
        pytest.warns(UserWarning, match="no value"),
        pytest.raises(ValueError, match="can use no column of X"),
    ):
        Schema.learn(pd.DataFrame({"a": [np.nan] * 5}), "auto")


FAR = np.array(["3000-01-01T06:00", "2020-05-01", "NaT", "1500-12-31"], "M8[us]")


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(FAR),
        pd.Series(FAR.astype("M8[s]")),
        pd.Series(FAR).dt.tz_localize("UTC"),
        pd.Series(FAR.tolist(), dtype=object),
        pd.Series(FAR - FAR[1]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_dates_and_spans_beyond_what_nanoseconds_count(column):
    frame = pd.DataFrame({"d": column})
    (raw,) = read_columns(frame)
    origin = FAR[1] if raw.form == "span" else np.datetime64(0, "D")
    expected = (FAR - origin) / np.timedelta64(1, "D")
    np.testing.assert_allclose(raw.values, expected, rtol=1e-15)
    back = make_frame("pandas", [NewColumn("d", raw.form, raw.dtype, raw.values)])
    assert list(back["d"].dropna()) == list(column.dropna())


@pytest.mark.parametrize("unit", ["Y", "D", "h", "ns"])
def test_dates_of_arrays_in_any_unit(unit):
    dates = np.array(["2020", "NaT", "1970"], f"M8[{unit}]")[:, None]
    (raw,) = read_columns(dates)
    assert_array_equal(raw.values, [18262.0, np.nan, 0.0])


def test_dates_outside_of_the_calendar_are_refused():
    frame = pd.DataFrame({"d": pd.Series(np.array(["20000-01-01"], "M8[s]"))})
    with pytest.raises(ValueError, match="Column 'd' has dates outside of the years 1 to 9999"):
        read_columns(frame)


LONG = 2**62 + np.arange(60) % 40


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"x": np.arange(60) % 7 / 3, "serial": LONG}),
        pd.DataFrame({"x": np.arange(60) % 7 / 3, "serial": pd.array(LONG, dtype="UInt64")}),
        pd.DataFrame({"x": np.arange(60) % 7 / 3, "serial": LONG.astype(object)}),
        pl.DataFrame({"x": np.arange(60) % 7 / 3, "serial": LONG}),
    ],
    ids=["int64", "UInt64", "object", "polars"],
)
def test_integers_that_floats_do_not_hold_are_left_out_and_unchanged(table):
    with pytest.warns(UserWarning, match=r"'serial': integers beyond 2\^53"):
        schema = Schema.learn(table, "auto")
    assert [column.kind for column in schema.columns] == ["ordinal", "ignored"]
    coded = schema.encode(table)
    assert schema.fill(table, coded, np.nan_to_num(coded))["serial"].to_list() == LONG.tolist()
    with pytest.raises(ValueError, match="convert them to text"):
        Schema.learn(table, {"serial": "categorical"})
    asked = Schema.learn(table, {"serial": "gaussian"})
    assert asked.columns[1].kind == "gaussian"


def test_one_piece_of_a_table_with_integers_that_floats_do_not_hold_is_enough():
    pieces = [pl.DataFrame({"serial": part}) for part in (np.arange(40), LONG)]
    surveys = [ColumnSurvey.of(read_columns(piece)[0]) for piece in pieces]
    assert surveys[0].merged(surveys[1]).rounded
    assert not ColumnSurvey.of(read_columns(pl.DataFrame({"x": [2**60, 2**61]}))[0]).rounded


@pytest.mark.parametrize("dtype", ["Int8", "UInt8", "Int64", "UInt64"])
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_predictions_stay_inside_of_integer_types(frame, dtype):
    column = NewColumn("x", "number", dtype, np.array([-1e30, 3.2, 1e30]))
    low, middle, high = make_frame(frame, [column])["x"].to_list()
    limits = np.iinfo(dtype.lower())
    assert (low, middle) == (limits.min, 3)
    assert limits.max - limits.max // 2**50 <= high <= limits.max


def test_numbers_without_an_end_are_written_too():
    texts = [number_text(value, step) for value in (np.inf, -np.inf, np.nan) for step in (0.0, 1.0)]
    assert texts == ["inf", "inf", "-inf", "-inf", "nan", "nan"]


def test_new_numbers_of_ordered_levels_are_the_nearest_level():
    """Between two levels without a word, outside of the range with a warning."""
    years = pd.DataFrame({"years": np.repeat([0, 1, 2, 5, 10], 8)})
    schema = Schema.learn(years, {"years": "ordinal"})
    assert schema.encode(pd.DataFrame({"years": [4, 3, 7.0, np.nan]}))[:3, 0].tolist() == [3, 2, 3]
    new = pd.DataFrame({"years": [-1, 40, 1_000_000, 2]})
    with pytest.warns(UserWarning, match=r"'years' has 3 values outside .* 0 to 10 \(first: -1\)"):
        coded = schema.encode(new)
    assert coded[:, 0].tolist() == [0, 4, 4, 2]
    (away,) = schema.beyond(new).values()
    np.testing.assert_allclose(away, [0.1, 3.0, 99_999.0, 0.0])
    assert schema.beyond(years) == {}
    with pytest.warns(UserWarning, match="'years' has 1 value outside"):
        assert schema.encode_row({"years": 40}).tolist() == [[4.0]]
