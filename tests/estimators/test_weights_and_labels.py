"""Weights and labels that cannot serve are refused by every estimator, in one sentence."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
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
    part_stability,
)
from partwise.fitting.labels import read_labels
from partwise.fitting.weights import read_weights
from partwise.metrics import log_loss_of_levels, nmae

N = 12
X = np.random.default_rng(0).normal(size=(N, 4))
ONES = [1.0] * N

BAD_WEIGHTS = {
    "text": (["heavy", *ONES[1:]], r"sample_weight is 'heavy' in row 0; give numbers"),
    "numbers as text": (["1"] * N, r"sample_weight is '1' in row 0; give numbers"),
    "one text": ("balanced", r"sample_weight is 'balanced' in row 0; give numbers"),
    "a mapping": ({0: 1.0}, r"sample_weight is \{0: 1.0\} in row 0; give numbers"),
    "None inside": ([*ONES[1:], None], r"sample_weight is None in row 11; give numbers"),
    "pandas' NA": (pd.array([*ONES[1:], None], "Float64"), r"sample_weight is .* in row 11; give"),
    "null": (pl.Series([*ONES[1:], None]), r"sample_weight is nan in row 11; give finite"),
    "complex": (np.ones(N) * 1j, r"sample_weight is 1j in row 0; give numbers"),
    "dates": (np.zeros(N, "M8[D]"), r"sample_weight is .* in row 0; give numbers"),
    "NaN": ([*ONES[1:], np.nan], r"sample_weight is nan in row 11; give finite numbers"),
    "infinite": ([np.inf, *ONES[1:]], r"sample_weight is inf in row 0; give finite numbers"),
    "negative": ([1.0, -2.0, *ONES[2:]], r"sample_weight is -2 in row 1; give finite numbers"),
    "a negative number": (-1.0, r"sample_weight is -1 in row 0; give finite numbers"),
    "zeros": (np.zeros(N), r"sample_weight is zero for every row; give some row a weight"),
    "too few": (ONES[1:], r"sample_weight has shape \(11,\), but X has 12 rows; give one"),
    "too many": ([*ONES, 1.0], r"sample_weight has shape \(13,\), but X has 12 rows; give one"),
    "two columns": (np.ones((N, 2)), r"sample_weight has shape \(12, 2\), but X has 12 rows"),
    "one column": (np.ones((N, 1)), r"sample_weight has shape \(12, 1\), but X has 12 rows"),
    "ragged": ([[1.0], *ONES[1:]], r"sample_weight is \[1.0\] in row 0; give numbers"),
    "sparse": (sparse.csr_matrix(np.ones(N)), r"sample_weight is sparse; pass a dense array"),
    "huge": (np.full(N, 1e31), r"sample_weight is 1e\+31 in row 0, and the sum .* above 1e\+30"),
}

FITS = {
    "MCVQ": MCVQ(2, 2),
    "MCVQ of a table": MCVQ(2, 2, likelihood="auto"),
    "MCFA": MCFA(2, 1),
    "CVQ": CVQ(2, 2),
    "GVQ": GVQ(2),
    "AspectModel": AspectModel(2),
    "BayesianPCA": BayesianPCA(),
    "BayesianPCAMixture": BayesianPCAMixture(2, 2),
    "PartsImputer": PartsImputer(2, 2),
}
STREAMS = {name: FITS[name] for name in ("MCVQ", "MCVQ of a table", "MCFA")}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_weights_that_cannot_serve(case):
    weight, text = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=text):
        read_weights(weight, N)


@pytest.mark.parametrize("case", ["text", "NaN", "negative", "zeros", "too few", "two columns"])
@pytest.mark.parametrize("name", FITS)
def test_every_estimator_refuses_them(name, case):
    weight, text = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=text):
        FITS[name].fit(X, sample_weight=weight)


@pytest.mark.parametrize("case", ["text", "too few"])
@pytest.mark.parametrize("name", STREAMS)
def test_streams_refuse_them(name, case):
    weight, text = BAD_WEIGHTS[case]
    with pytest.raises(ValueError, match=text):
        STREAMS[name].partial_fit(X, sample_weight=weight)


@pytest.mark.parametrize("case", ["text", "NaN", "zeros", "too few"])
def test_scores_and_measures_refuse_them(case):
    weight, text = BAD_WEIGHTS[case]
    model = MCVQ(2, 2, random_state=0).fit(X)
    level = np.zeros(N, int)
    calls = (
        lambda: model.score(X, sample_weight=weight),
        lambda: part_stability(model, X, sample_weight=weight, n_fits=1),
        lambda: nmae(level, level, [0, 1], sample_weight=weight),
        lambda: log_loss_of_levels(np.eye(2)[level], level, sample_weight=weight),
    )
    for call in calls:
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize(
    "weight",
    [
        None,
        1.0,
        ONES,
        tuple(ONES),
        np.ones(N, np.float32),
        np.ones(N, bool),
        np.ones(N, object),
        pd.Series(ONES, index=range(5, 5 + N)),
        pd.array([1] * N, "Int64"),
        pl.Series(ONES),
    ],
    ids=lambda weight: type(weight).__name__,
)
def test_weights_of_every_kind(weight):
    read = read_weights(weight, N)
    assert read.dtype == np.float64
    assert_array_equal(read, np.ones(N))


BAD_LABELS = {
    "too few": ([0, 1] * 5, "y has 10 labels, but X has 12 rows"),
    "several kinds": (np.array([0, "a"] * 6, dtype=object), "y mixes labels of different kinds"),
    "ragged": ([[0], [0, 1]] * 6, "y holds lists"),
    "sparse": (sparse.csr_matrix(np.ones((N, 1))), "y is sparse"),
    "lists": (np.array([[0], [0, 1]] * 6, dtype=object), "y holds lists"),
}


@pytest.mark.parametrize("estimator", [MCVQ(1, 2), MCFA(1, 1), BayesianPCA()])
def test_weights_that_add_to_one_are_named(estimator):
    """Shares are no numbers of rows."""
    with pytest.warns(UserWarning, match=r"adds to 1 in 12 rows.* until they add to 12"):
        estimator.set_params(random_state=0).fit(X, sample_weight=np.full(N, 1 / N))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "sample_weight adds")
        clone(estimator).fit(X, sample_weight=np.full(N, 1.0))


@pytest.mark.parametrize("case", BAD_LABELS)
@pytest.mark.parametrize("name", ["MCVQ", "MCFA", "BayesianPCAMixture", "MCVQ of a table"])
def test_labels_that_cannot_serve(name, case):
    y, text = BAD_LABELS[case]
    with pytest.raises(ValueError, match=text):
        FITS[name].fit(X, y)


@pytest.mark.parametrize(
    ("y", "known"),
    [
        ([0, 1, -1] * 4, 8),
        (["a", "b", None] * 4, 8),
        (np.array([0.0, 1.0, np.nan] * 4), 8),
        (pd.Series(["a", "b", pd.NA] * 4, dtype="string"), 8),
        (pd.Series(["a", "b", None] * 4, dtype="category"), 8),
        (pd.array([0, 1, None] * 4, "Int64"), 8),
        (pd.array([True, False, None] * 4, "boolean"), 8),
        (pl.Series(["a", "b", None] * 4), 8),
        (pl.Series([0, 1, None] * 4), 8),
        (np.array(["2020-01-01", "2021-01-01", "NaT"] * 4, "M8[D]"), 8),
        ([True, False] * 6, 12),
        (np.array([b"a", b"b"] * 6), 12),
    ],
    ids=lambda y: getattr(getattr(y, "dtype", None), "name", str(type(y).__name__)),
)
def test_labels_of_every_kind(y, known):
    names, labels = read_labels(y, None, N)
    assert len(names) == 2
    assert np.count_nonzero(labels >= 0) == known
