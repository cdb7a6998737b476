"""Rows and arguments that nobody should give: estimators work, or say in one sentence why not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    PartsImputer,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning"
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 8))
HOLED = np.array([[1.0, np.nan, 3.0, 4.0], [2.0, 5.0, np.nan, 1.0]])
ALL = (
    MCVQ(2, 2, random_state=0), MCVQ(2, 2, likelihood="auto", random_state=0),
    MCFA(2, 1, random_state=0), CVQ(2, 2, random_state=0), GVQ(2, random_state=0),
    BayesianPCA(2, random_state=0), BayesianPCAMixture(2, random_state=0),
    AspectModel(2, random_state=0), PartsImputer(2, 2, n_fits=1, random_state=0),
)  # fmt: skip


@pytest.mark.parametrize("n_states", [1, 2, "auto"])
@pytest.mark.parametrize("rows", [X[:2, :5], np.rint(X[:2, :5]), HOLED])
def test_two_rows_are_finite_in_every_answer(rows, n_states):
    n_parts = "auto" if n_states == "auto" else 20
    model = MCVQ(n_parts, n_states, likelihood="auto", random_state=0).fit(rows)
    told = model.inverse_transform(model.transform(rows))
    for answer in (model.reconstruct(rows), model.sample(3, random_state=0)[0], told):
        assert np.isfinite(np.asarray(answer, dtype=float)).all()


def test_an_imputer_of_two_rows_is_finite():
    empty = HOLED.copy()
    empty[:, 1] = np.nan
    for rows in (HOLED, empty, pd.DataFrame(HOLED, columns=list("abcd"))):
        filled = PartsImputer(random_state=0).fit_transform(rows)
        assert np.isfinite(np.asarray(filled, dtype=float)).all()


def test_a_row_with_a_missing_value_of_pandas_is_explained():
    frame = pd.DataFrame(
        {
            "a": pd.array([1, 2, None, 4, 5, 6] * 5, dtype="Int64"),
            "b": ["x", "y", None, "x", "y", "x"] * 5,
            "c": np.arange(30.0),
        }
    )
    model = MCVQ(2, 2, likelihood="auto", max_iter=20, random_state=0).fit(frame)
    row = {"a": pd.NA, "b": "x", "c": 1.0}
    for given in (row, frame.iloc[[2]], frame.iloc[2], np.array([pd.NA, "x", 2.0], dtype=object)):
        assert len(model.explain(given)) == 2


@pytest.mark.parametrize("weight", [["a"] * 40, ["1"] * 40])
def test_weights_that_are_text_are_refused(weight):
    with pytest.raises(ValueError, match=r"sample_weight is '.' in row 0; give numbers"):
        MCVQ(2, 2).fit(X, sample_weight=weight)


@pytest.mark.parametrize("unit", [1e300, 3e307, 1e-300])
@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_numbers_near_the_largest_and_smallest(model, unit):
    """Numpy's warnings are errors here; a clear refusal is as good as an answer."""
    rows = unit * X
    if isinstance(model, GVQ) or (isinstance(model, AspectModel) and unit > 1):  # need squares
        with pytest.raises(ValueError, match=r"measure X in another unit\.$"):
            clone(model).fit(rows)
        return
    fitted = clone(model).fit(rows)
    for verb in ("transform", "reconstruct", "score_samples", "impute", "predict_interval"):
        if hasattr(fitted, verb):
            getattr(fitted, verb)(rows[:5])


def test_no_threads_are_refused():
    with pytest.raises(ValueError, match="n_jobs=0 must be"):
        MCVQ(2, 2, n_jobs=0).fit(X)
