"""ONNX files answer as the models that they were made of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import partwise
from partwise import MCFA, MCVQ, BayesianPCA, export_onnx
from partwise.fitted import fitted_of
from tests.common.helpers import punch_holes

onnxruntime = pytest.importorskip("onnxruntime")


def run(path, X):
    """Outputs by name."""
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def rows(kind, n=200, D=7):
    """Rows of two kinds in two parts, so that gates close."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, 3.0, size=(2, 3, D))
    part = np.arange(D) % 2
    state = rng.integers(3, size=(n, 2))
    mean = means[part, :, np.arange(D)][np.arange(D), state[:, part]]
    if kind == "gaussian":
        return 5.0 + 2.0 * (mean + 0.3 * rng.normal(size=(n, D)))
    if kind == "bernoulli":
        return (rng.random((n, D)) < 1 / (1 + np.exp(-2 * mean))).astype(float)
    if kind == "poisson":
        return rng.poisson(np.exp(0.5 * mean)).astype(float)
    return np.clip(np.round(mean + 0.2 * rng.normal(size=(n, D))), -2, 2) * 1.5


def check(model, X, tmp_path, methods=("transform", "impute", "score_samples"), tol=1e-5):
    path = tmp_path / "model.onnx"
    export_onnx(model, path, methods=methods)
    found = run(path, X)
    assert list(found) == list(methods)
    for name in methods:
        expected = np.asarray(getattr(model, name)(X))
        assert found[name].shape == expected.shape
        scale = max(1.0, float(np.abs(expected).max())) if name != "score_samples" else 1.0
        assert_allclose(found[name], expected, rtol=tol, atol=tol * scale)


ALL = ("transform", "impute", "score_samples")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "categorical"])
def test_states(likelihood, dtype, tmp_path):
    X = punch_holes(rows(likelihood), 0.2, np.random.default_rng(1)).astype(dtype)
    X[0] = np.nan
    check(MCVQ(2, 3, likelihood=likelihood, random_state=0).fit(X), X, tmp_path)


def test_states_of_columns_with_several_parts(tmp_path):
    X = rows("bernoulli")
    model = MCVQ(2, 3, likelihood="bernoulli", gating="standard", random_state=0).fit(X)
    assert (model.gates_.max(axis=1) < 1.0).any()
    check(model, punch_holes(X, 0.2, np.random.default_rng(1)), tmp_path)


def test_states_with_classes(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = MCVQ(2, 3, n_classes=3, random_state=0).fit(X, y)
    check(model, punch_holes(X, 0.2, np.random.default_rng(0)), tmp_path)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factors(dtype, tmp_path):
    X = punch_holes(rows("gaussian"), 0.2, np.random.default_rng(1)).astype(dtype)
    model = MCFA(2, 2, random_state=0).fit(X)
    closed = (fitted_of(model).params.gates == 1.0).any(axis=0).all()
    check(model, X, tmp_path, ALL if closed else ALL[:2])


@pytest.mark.parametrize("prior", ["conjugate", None])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_components(dtype, prior, tmp_path):
    X = punch_holes(rows("gaussian"), 0.2, np.random.default_rng(1)).astype(dtype)
    X[0] = np.nan
    check(BayesianPCA(3, prior=prior).fit(X), X, tmp_path)
    check(BayesianPCA(prior=prior).fit(load_iris().data), load_iris().data, tmp_path)


@pytest.mark.parametrize(
    ("model", "data", "methods", "why"),
    [
        (partwise.CVQ(2, 2), rows("gaussian"), ["transform"], "iteration"),
        (MCVQ(1, 2, likelihood="circular"), rows("bernoulli"), ["transform"], "'circular'"),
        (
            MCVQ(5, 6, likelihood="bernoulli", gating="standard"),
            rows("bernoulli"),
            ["score_samples"],
            "sampling",
        ),
        (MCVQ(2, 2, likelihood="auto"), load_iris(as_frame=True).data, ["transform"], "table"),
        (partwise.BayesianPCAMixture(2), rows("gaussian"), ["transform"], "mixtures"),
        (partwise.PartsImputer(1, 2), rows("gaussian"), ["transform"], "several models"),
        (BayesianPCA(2), rows("gaussian"), ["predict"], "methods"),
        (BayesianPCA(2), None, ["transform"], "fitted"),
    ],
)
def test_what_cannot_be_written_is_refused_in_one_sentence(model, data, methods, why, tmp_path):
    if data is not None:
        model.set_params(random_state=0)
        model.fit(data)
    with pytest.raises(ValueError, match=why) as refused:
        export_onnx(model, tmp_path / "model.onnx", methods=methods)
    assert str(refused.value).count(". ") == 0
    assert ";" in str(refused.value) or "must be" in str(refused.value)  # what to do
    assert not list(tmp_path.iterdir())
