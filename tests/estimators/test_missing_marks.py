"""Every mark of a missing value is NaN to every method that takes a row, a mapping or a table."""

import decimal
import functools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    ObservedCells,
    PartsImputer,
    Recommender,
)
from partwise.data.frames import as_numbers

NAMES = list("abcd")
X = np.random.default_rng(0).normal(size=(30, 4)) + 3.0 * (np.arange(30) < 15)[:, None]
FRAME = pd.DataFrame(X, columns=NAMES)

MARKS = {
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "numpy's NaT": np.datetime64("NaT", "s"),
    "decimal": decimal.Decimal("NaN"),
}
CONTAINERS = {
    "array": lambda row: np.array([row], dtype=object),
    "lists": lambda row: [row],
    "pandas": lambda row: pd.DataFrame([row], columns=NAMES, dtype=object),
}
MODELS = {
    "MCVQ": MCVQ(2, 2, random_state=0),
    "MCVQ of a table": MCVQ(2, 2, likelihood="auto", random_state=0),
    "MCFA": MCFA(2, 1, random_state=0),
    "CVQ": CVQ(2, 2, random_state=0),
    "GVQ": GVQ(2, random_state=0),
    "AspectModel": AspectModel(2, random_state=0),
    "BayesianPCA": BayesianPCA(random_state=0),
    "BayesianPCAMixture": BayesianPCAMixture(2, 2, random_state=0),
    "PartsImputer": PartsImputer(2, 2, n_fits=1, random_state=0),
}
VERBS = (
    "transform",
    "impute",
    "reconstruct",
    "score_samples",
    "anomalous_cells",
    "predict_interval",
)


@functools.cache
def fitted(name):
    return MODELS[name].fit(FRAME)


pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def plain(answer):
    """An answer as nested lists of numbers."""
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, tuple | list):
        return [plain(one) for one in answer]
    return np.asarray(answer).tolist()


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_marks_are_read_as_nan(container, mark):
    read = as_numbers(CONTAINERS[container]([1.0, 2, "3.5", MARKS[mark]]))
    assert_array_equal(np.asarray(read), [[1.0, 2.0, 3.5, np.nan]])


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", MODELS)
def test_methods_of_tables(name, container):
    model = fitted(name)
    row = [1.0, 2.0, 3.0, pd.NA]
    for verb in VERBS:
        if hasattr(model, verb):
            expected = getattr(model, verb)(np.array([[1.0, 2.0, 3.0, np.nan]]))
            answer = getattr(model, verb)(CONTAINERS[container](row))
            assert_array_equal(np.asarray(plain(answer)), np.asarray(plain(expected)))


@pytest.mark.parametrize(
    "container",
    [
        list,
        lambda row: np.array(row, dtype=object),
        lambda row: pd.Series(row, index=NAMES, dtype="Float64"),
        lambda row: pd.DataFrame([row], columns=NAMES).astype("Float64"),
        lambda row: pd.DataFrame([row], columns=NAMES).astype(object),
        lambda row: pl.DataFrame([[None if v is pd.NA else v] for v in row], schema=NAMES),
        lambda row: dict(zip(NAMES, row, strict=True)),
        lambda row: dict(zip(NAMES[:3], row[:3], strict=True)),
    ],
    ids=["list", "array", "Series", "Float64", "object", "polars", "mapping", "partial mapping"],
)
@pytest.mark.parametrize(
    "name", ["MCVQ", "MCVQ of a table", "MCFA", "GVQ", "BayesianPCA", "BayesianPCAMixture"]
)
def test_explain(name, container):
    model = fitted(name)
    answer = model.explain(container([1.0, 2.0, 3.0, pd.NA]))
    assert str(answer) == str(model.explain(np.array([1.0, 2.0, 3.0, np.nan])))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("name", ["MCVQ", "MCVQ of a table"])
def test_known_cells(name, mark):
    model, given = fitted(name), {"a": 1.0, "b": MARKS[mark]}
    for known in (given, pd.DataFrame([{"c": None, "d": None, **given}])[NAMES]):
        rows, _ = model.sample(3, given=known, random_state=0)
        assert_array_equal(rows, model.sample(3, given={"a": 1.0}, random_state=0)[0])
    with pytest.raises(ValueError, match="values must be finite; leave out cells that are missing"):
        model.score_cells(FRAME, [0], [1], [MARKS[mark]])
    assert len(ObservedCells(pd.DataFrame([given], dtype=object))) == 1


def test_lists_are_tables_too():
    model = fitted("MCVQ of a table")
    rows = [[1.0, 2.0, 3.0, None]]
    for verb in ("reconstruct", "predict_interval", "anomalous_cells", "add_states"):
        answer = getattr(model, verb)(rows)
        expected = getattr(model, verb)(pd.DataFrame(rows, columns=NAMES))
        assert_array_equal(np.asarray(plain(answer)), np.asarray(plain(expected)))


def test_columns_of_nulls():
    rows = pl.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0], "d": [None]})
    model = MCVQ(2, 2, likelihood="auto", random_state=0).fit(pl.DataFrame(X, schema=NAMES))
    assert model.impute(rows).null_count().sum_horizontal().item() == 0
    assert_array_equal(
        model.transform(rows), fitted("MCVQ of a table").transform([[1, 2, 3, None]])
    )


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        ([[1, 2, 3, "red"]], ValueError, "X holds 'red' in row 0, column 3, which is not a number"),
        ([[1, 2, 3, {}]], TypeError, r"X holds \{\} in row 0, column 3; the argument must be"),
        ([[1, 2, 3, 4], [1, 2]], ValueError, "X has rows of different lengths"),
        (
            np.zeros((1, 4), "M8[D]"),
            ValueError,
            r"X has type datetime64\[D\], but must",
        ),
        (FRAME.assign(d="red"), ValueError, "X holds 'red' in row 0, column 'd', which is not"),
        (
            FRAME.assign(d=pd.Timestamp("2020-01-01")),
            TypeError,
            "X holds Timestamp.* in row 0, column 'd'; the argument must be",
        ),
        (pl.DataFrame(FRAME.assign(d="red")), ValueError, "in row 0, column 'd', which is not"),
    ],
)
def test_what_is_no_number_is_named(rows, kind, text):
    for name in ("MCVQ", "GVQ", "BayesianPCA"):
        with pytest.raises(kind, match=text):
            fitted(name).transform(rows)


@pytest.mark.parametrize("mark", MARKS)
def test_ratings(mark):
    users, items = [0, 0, 1, 1], ["a", "b", "a", "b"]
    model = Recommender(MCVQ(1, 2, likelihood="categorical", random_state=0))
    with pytest.raises(ValueError, match=r"[Rr]ating"):
        model.fit((users, items, [1, 2, 3, MARKS[mark]]))
    with pytest.raises(ValueError, match="leave out ratings whose user or item is missing"):
        model.fit(([0, 0, 1, MARKS[mark]], items, [1, 2, 2, 1]))
    model.fit((users, items, [1, 2, 2, 1]))
    with pytest.raises(ValueError, match=r"[Rr]ating"):
        model.predict({"a": MARKS[mark]}, ["b"])
