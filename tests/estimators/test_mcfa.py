"""MCFA as an estimator: special cases, recovery, invariances, verbs, files and refusals."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.datasets import load_wine
from sklearn.decomposition import FactorAnalysis
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import MCFA, MCVQ, Prior
from partwise.data import BlockSource
from partwise.datasets import load_cbcl_faces, load_yeast
from partwise.fitted import fitted_of
from partwise.fitting import calibrate
from partwise.models import calibration
from partwise.models.gating import Standard, Tied
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Expected
from tests.common.factors import (
    build_factors,
    drawn_factors,
    random_loadings,
    start_factors,
    stored,
)
from tests.common.helpers import (
    assert_goes_on,
    assert_never_falls,
    assert_same_outputs,
    climb_from,
    quietly,
    random_gates,
)

GATINGS = ["annealed", "tied", "standard", "factorised"]


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    """Intervals are calibrated on few hidden cells: that takes as long as the fits here."""
    monkeypatch.setattr(calibrate, "MOST_FOLDS", 1)


CORES = {"tied": Tied(), "standard": Standard(), "factorised": Standard()}


def labels_for(factors):
    """Classes that follow the first factor of the first part."""
    return np.where(factors[0][:, 0] > 0.2, "high", "low")


# --- one part is factor analysis ---


def needs(name):
    folder = os.environ.get("PARTWISE_DATA")
    there = bool(folder) and Path(folder, name).is_file()
    return pytest.mark.skipif(not there, reason=f"PARTWISE_DATA names no folder with {name}")


def assert_factor_analysis(X, n_factors, tol):
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / spread
    truth = FactorAnalysis(n_factors, tol=1e-8, max_iter=20_000, svd_method="lapack").fit(Z)
    model = MCFA(1, n_factors, prior=None, gating="tied", tol=tol, max_iter=5000, random_state=0)
    model.fit(X)
    expected = truth.score_samples(Z) - np.log(spread).sum()
    assert abs(model.score(X) - expected.mean()) < 1e-3
    assert_allclose(model.lower_bound_, model.score(X), rtol=1e-9)  # with one part, no gap
    return model, truth, spread


def test_one_part_at_maximum_likelihood_is_factor_analysis():
    X = load_wine().data
    model, truth, spread = assert_factor_analysis(X, 2, 1e-7)
    loadings = model.loadings_[0] / spread[:, None]
    found = loadings @ loadings.T + np.diag(model.noise_variance_[0] / spread**2)
    assert_allclose(found, truth.get_covariance(), atol=2e-3)
    assert_allclose(model.offsets_[0], X.mean(axis=0), rtol=1e-3)
    # Factors agree up to a rotation: the same inner products of rows.
    m, other = model.transform(X), truth.transform((X - X.mean(axis=0)) / spread)
    assert_allclose(m @ m.T, other @ other.T, rtol=0.01, atol=0.05)


@needs("yeast.npz")
def test_factor_analysis_of_yeast():
    X = load_yeast().data
    assert_factor_analysis(X[~np.isnan(X).any(axis=1)], 3, 1e-6)


@needs("cbcl_faces.npz")
def test_factor_analysis_of_faces():
    assert_factor_analysis(load_cbcl_faces().data[:800, ::5], 4, 1e-6)


# --- data drawn from the model ---


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("gating", GATINGS)
def test_data_drawn_from_the_model_recover_its_parts(gating, missing):
    X, parts, factors = drawn_factors(np.random.default_rng(0), 250, (2, 2, 2), 7, missing=missing)
    model = quietly(MCFA(3, 2, gating=gating, random_state=0), X)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert_never_falls(model.lower_bounds_)
    s = model.transform(X)
    for k in range(3):  # the drawn factors are linear in the found ones
        true = factors[parts[model.parts_ == k][0]]
        mine = s[:, 2 * k : 2 * k + 2]
        left = true - mine @ np.linalg.lstsq(mine, true, rcond=None)[0]
        assert left.var() < 0.2 * true.var()


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_relevance_finds_the_number_of_factors(missing):
    X, parts, _ = drawn_factors(
        np.random.default_rng(2), 150, (1, 3), 9, noise=0.6, missing=missing
    )
    model = quietly(MCFA(2, 5, random_state=0), X)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    for k in range(2):
        assert model.n_factors_[k] == (1, 3)[parts[model.parts_ == k][0]]
    flat = quietly(MCFA(2, 5, prior=None, random_state=0), X)
    assert flat.n_factors_.sum() > 6  # nothing else would have stopped it


def test_columns_of_noise_end_in_the_background():
    rng = np.random.default_rng(2)
    X, parts, _ = drawn_factors(rng, 200, (1, 1), 6)
    X = np.hstack([X, rng.normal(size=(200, 3)), np.full((200, 1), 7.0)])
    model = quietly(MCFA(2, 2, random_state=0), X)
    assert adjusted_rand_score(parts, model.parts_[:12]) == 1.0
    assert_array_equal(model.parts_[12:], -1)
    assert_allclose(model.reconstruct(X)[:, 15], 7.0)


@pytest.mark.parametrize("gating", ["annealed", "standard"])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover_what_they_promise(coverage, gating, monkeypatch):
    monkeypatch.setattr(calibrate, "MOST_FOLDS", 6)
    truth, *_ = drawn_factors(np.random.default_rng(3), 800, (2, 2), 6)
    holes = np.random.default_rng(4).random(truth.shape) < 0.2
    X = np.where(holes, np.nan, truth)
    model = quietly(MCFA(2, 2, gating=gating, random_state=0), X)
    lower, upper = model.predict_interval(X, coverage)
    inside = ((lower <= truth) & (truth <= upper))[holes].mean()
    assert abs(inside - coverage) < 0.03
    guess = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    spread = np.nanstd(X, axis=0)
    error = ((model.impute(X) - truth) / spread)[holes]
    assert np.mean(error**2) < 0.5 * np.mean((((guess - truth) / spread)[holes]) ** 2)


# --- invariances: the same start, the same steps ---


def run(X, weight, loadings, gates, gating, prior, n_steps=6):
    by_row = gating == "factorised"
    core, source = build_factors(
        X, weight, (2, 1), CORES[gating], prior, n_powers=3 if by_row else 2
    )
    model = Rowwise(core, Expected()) if by_row else core
    return climb_from(model, start_factors(core, loadings, gates), source, n_steps)


def problem(seed, prior, missing=0.2):
    rng = np.random.default_rng(seed)
    X, *_ = drawn_factors(rng, 40, (2, 1), 4, missing=missing)
    core, _ = build_factors(X, np.ones(40), (2, 1), prior=prior)
    return X, random_loadings(core, rng, prior is None), random_gates(2, 8, rng), rng


def assert_same(a, b, order=slice(None), parts=(0, 1)):
    (theta, trace), (other, other_trace) = a, b
    assert_allclose(other_trace, trace, rtol=1e-9)
    assert_allclose(other.gates[list(parts)][:, order], theta.gates, atol=1e-7)
    for k, w in enumerate(theta.loadings):
        found = other.loadings[parts[k]].at(order)
        assert_allclose(found.noise, w.noise, rtol=1e-5)
        assert_allclose(found.mean[:, -1], w.mean[:, -1], atol=1e-5)
        outer = w.mean[:, :-1] @ w.mean[:, :-1].T  # a direction's sign means nothing
        assert_allclose(found.mean[:, :-1] @ found.mean[:, :-1].T, outer, atol=1e-5)


@pytest.mark.parametrize("prior", [Prior(), None], ids=["relevant", "flat"])
@pytest.mark.parametrize("gating", CORES)
def test_order_of_rows_and_columns_means_nothing(gating, prior):
    X, loadings, gates, rng = problem(5, prior)
    weight = rng.uniform(0.5, 2, 40)
    plain = run(X, weight, loadings, gates, gating, prior)
    rows, columns = rng.permutation(40), rng.permutation(8)
    other = run(
        X[rows][:, columns], weight[rows], [w.at(columns) for w in loadings], gates[:, columns],
        gating, prior,
    )  # fmt: skip
    assert_same(plain, other, np.argsort(columns))


@pytest.mark.parametrize("gating", CORES)
def test_a_weight_is_a_repetition(gating):
    X, loadings, gates, rng = problem(6, Prior())
    times = rng.integers(0, 4, 40)
    weighted = run(X, times.astype(float), loadings, gates, gating, Prior())
    total = int(times.sum())
    repeated = run(X.repeat(times, axis=0), np.ones(total), loadings, gates, gating, Prior())
    assert_same(weighted, repeated)


def test_names_of_parts_mean_nothing():
    X, loadings, gates, _ = problem(7, Prior())
    plain = run(X, np.ones(40), loadings, gates, "tied", Prior())
    core, source = build_factors(X, np.ones(40), (1, 2), Tied(), Prior())
    theta = start_factors(core, loadings[::-1], gates[::-1])
    assert_same(plain, climb_from(core, theta, source, 6), parts=(1, 0))


# --- invariances of the estimator: the same seed ---


def outputs(model, X):
    """What a fitted model says, all of it."""
    lower, upper = model.predict_interval(X)
    rows, drawn = model.sample(6, random_state=3)
    found = {
        "bounds": model.lower_bounds_,
        "gates": model.gates_,
        "parts": model.parts_,
        "loadings": model.loadings_,
        "offsets": model.offsets_,
        "noise": model.noise_variance_,
        "n_factors": model.n_factors_,
        "transform": model.transform(X),
        "reconstruct": model.reconstruct(X),
        "impute": model.impute(X),
        "lower": lower,
        "upper": upper,
        "score": model.score_samples(X),
        "anomaly": model.anomaly_scores(X),
        "bic": np.array([model.bic(X)]),
        "rows": rows,
        "drawn": drawn,
    }
    if hasattr(model, "classes_"):
        found |= {
            "classes": model.classes_,
            "shares": model.class_priors_,
            "class means": model.factor_means_,
            "class covariances": model.factor_covariances_,
            "probability": model.predict_proba(X),
            "predict": model.predict(X),
        }
    return found


@pytest.mark.parametrize("gating", ["annealed", "factorised"])
@pytest.mark.parametrize("classes", [False, True], ids=["plain", "classes"])
def test_block_size_and_threads_change_nothing(classes, gating, monkeypatch):
    X, _, factors = drawn_factors(np.random.default_rng(8), 150, (1, 1), 4, missing=0.1)
    y = labels_for(factors) if classes else None
    how = {"n_parts": 2, "n_factors": 2, "gating": gating, "max_iter": 6, "random_state": 0}
    whole = quietly(MCFA(**how, n_jobs=1), X, y)
    assert BlockSource(X, fitted_of(whole).columns, np.ones(150)).n_blocks == 1
    expected = outputs(whole, X)
    monkeypatch.setattr(partwise.data.source, "BLOCK_BYTES", 1)
    assert BlockSource(X, fitted_of(whole).columns, np.ones(150)).n_blocks == 3
    one = outputs(quietly(MCFA(**how, n_jobs=1), X, y), X)
    assert_same_outputs(expected, one, rtol=1e-6)
    two = outputs(quietly(MCFA(**how, n_jobs=2), X, y), X)
    assert_same_outputs(one, two, rtol=1e-12)


@pytest.mark.parametrize("absent", ["unobserved", "zero"])
@pytest.mark.parametrize("gating", GATINGS)
def test_dense_as_sparse(gating, absent):
    """Holes as entries not stored or stored as NaN, or zeros as entries not stored."""
    X, _, factors = drawn_factors(np.random.default_rng(9), 100, (1, 1), 5, missing=0.15)
    y = labels_for(factors)
    how = {"n_parts": 2, "n_factors": 2, "gating": gating, "max_iter": 8, "random_state": 0}
    if absent == "zero":
        X = np.where(np.nanmedian(X, axis=0) < X, X, 0.0)
        if gating == "factorised":
            with pytest.raises(ValueError, match="selects a part for every entry"):
                MCFA(**how, sparse_absent=absent).fit(stored(X, keep_zeros=False))
            return
    other = stored(X, keep_zeros=absent == "unobserved")
    if absent == "unobserved":
        extra = sparse.coo_array(
            ([np.nan] * 3, tuple(np.argwhere(np.isnan(X))[:3].T)), shape=X.shape
        )
        merged = np.concatenate([other.tocoo().data, extra.data])
        at = tuple(
            np.concatenate([a, b]) for a, b in zip(other.tocoo().coords, extra.coords, strict=True)
        )
        other = sparse.csr_array((merged, at), shape=X.shape)
        assert np.isnan(other.data).sum() == 3
    a = quietly(MCFA(**how), X, y)
    b = quietly(MCFA(**how, sparse_absent=absent), other, y)
    expected, found = outputs(a, X), outputs(b, other)
    if absent == "zero":  # columns are not centered there, so the prior of the offset is another
        assert adjusted_rand_score(a.parts_, b.parts_) == 1.0
        same = b.transform(X)
        assert_allclose(b.transform(other), same, atol=1e-6)
        assert_allclose(b.score_samples(other), b.score_samples(X), rtol=1e-8)
        assert_allclose(b.anomaly_scores(other), b.anomaly_scores(X), rtol=1e-8)
        assert_array_equal(b.impute(other), X)
        return
    assert_same_outputs(expected, found, rtol=1e-6)


@pytest.mark.parametrize("gating", ["annealed", "standard", "factorised"])
def test_units_of_columns_mean_nothing(gating):
    X, *_ = drawn_factors(np.random.default_rng(10), 80, (1, 1), 4, missing=0.1)
    units = np.array([1e-20, 1e-3, 1.0, 3.0, 1e3, 1e20, 7.0, 0.1])
    origin = units * np.array([0, 5, -2, 1, 0, 3, 10, 0.0])
    how = {"n_parts": 2, "n_factors": 2, "gating": gating, "max_iter": 10, "random_state": 0}
    a, b = quietly(MCFA(**how), X), quietly(MCFA(**how), X * units + origin)
    assert_allclose(b.gates_, a.gates_, atol=1e-6)
    assert_allclose(b.transform(X * units + origin), a.transform(X), atol=1e-4)
    assert_allclose(b.loadings_ / units[:, None], a.loadings_, rtol=1e-4, atol=1e-5)
    assert_allclose((b.offsets_ - origin) / units, a.offsets_, rtol=1e-4, atol=1e-4)
    assert_allclose(b.noise_variance_ / units**2, a.noise_variance_, rtol=1e-4)
    lost = np.log(units) @ (~np.isnan(X)).T
    assert_allclose(b.score_samples(X * units + origin) + lost, a.score_samples(X), atol=1e-3)
    assert_allclose((b.impute(X * units + origin) - origin) / units, a.impute(X), atol=1e-4)


@pytest.mark.parametrize("gating", GATINGS)
def test_single_precision_is_near_double(gating):
    X, _, factors = drawn_factors(np.random.default_rng(11), 120, (1, 1), 5, missing=0.1)
    y = labels_for(factors)
    how = {"n_parts": 2, "n_factors": 1, "gating": gating, "max_iter": 15, "random_state": 0}
    X = X.astype(np.float32).astype(float)
    a, b = quietly(MCFA(**how), X, y), quietly(MCFA(**how), X.astype(np.float32), y)
    assert_array_equal(a.parts_, b.parts_)
    assert_allclose(b.transform(X.astype(np.float32)), a.transform(X), atol=2e-2)
    assert_allclose(b.score_samples(X.astype(np.float32)), a.score_samples(X), atol=5e-2)
    assert_allclose(b.noise_variance_, a.noise_variance_, rtol=2e-2)
    assert_allclose(b.predict_proba(X.astype(np.float32)), a.predict_proba(X), atol=2e-2)


# --- nothing seen ---


@pytest.mark.parametrize("prior", ["conjugate", None])
@pytest.mark.parametrize("classes", [False, True], ids=["plain", "classes"])
def test_a_row_wholly_missing_gets_what_the_prior_says(classes, prior):
    X, _, factors = drawn_factors(np.random.default_rng(12), 120, (2, 1), 5)
    X[3] = np.nan  # one was there in training, too
    y = labels_for(factors) if classes else None
    model = quietly(MCFA(2, (2, 1), gating="tied", prior=prior, random_state=0), X, y)
    nothing = np.full((1, 10), np.nan)
    own, d = model.parts_, np.arange(10)
    assert np.all(model.gates_.max(axis=1) == 1)
    atol = 0.02 if classes and prior else 1e-6  # of classes, by their expected log shares
    assert_allclose(model.transform(nothing), 0, atol=atol)
    offset = model.offsets_[own, d]
    spread = np.nanstd(X, axis=0)
    assert_allclose((model.impute(nothing)[0] - offset) / spread, 0, atol=atol)
    assert_allclose(model.reconstruct(nothing), model.impute(nothing))
    assert_allclose(model.score_samples(nothing), 0, atol=1e-9)
    assert_allclose(model.anomaly_scores(nothing), 0, atol=1e-9)
    # Loadings and offset that are not quite sure widen the noise, given factors of the prior.
    widths = np.array([np.trace(fitted_of(model).params.loadings[own[i]].cov[i]) for i in d])
    assert np.all(widths > 0) == (prior is not None)
    noise = model.noise_variance_[own, d] * (1 + widths)
    deviation = np.sqrt(noise + (model.loadings_[own, d] ** 2).sum(axis=1))
    for end, p in zip(model.predict_interval(nothing, 0.8), (0.1, 0.9), strict=True):
        asked = calibration.correct(fitted_of(model).calibration, p)
        assert_allclose(asked, p, atol=0.05)
        found = (end[0] - offset) / stats.norm.ppf(asked)
        # Classes, by their expected log shares, are not quite of mean 0 and covariance I.
        assert_allclose(found, deviation, rtol=0.02 if classes and prior else 1e-6)
        assert_allclose(found, spread, rtol=0.1)  # which is how wide the column is


# --- verbs ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gating", ["annealed", "factorised"])
def test_verbs_keep_shape_and_dtype(gating, dtype):
    X, _, factors = drawn_factors(np.random.default_rng(13), 60, (2, 1), 4, missing=0.1)
    X, y = X.astype(dtype), labels_for(factors)
    for labels in (None, y):
        model = quietly(MCFA(2, (3, 1), gating=gating, max_iter=8, random_state=0), X, labels)
        out = outputs(model, X)
        shapes = {
            "gates": (8, 2), "parts": (8,), "loadings": (2, 8, 3), "offsets": (2, 8),
            "noise": (2, 8), "n_factors": (2,), "transform": (60, 4), "reconstruct": (60, 8),
            "impute": (60, 8), "lower": (60, 8), "upper": (60, 8), "score": (60,),
            "anomaly": (60, 2), "rows": (6, 8), "drawn": (6, 4),
        }  # fmt: skip
        if labels is not None:
            shapes |= {
                "drawn": (6,), "classes": (2,), "shares": (2,), "class means": (2, 2, 3),
                "class covariances": (2, 2, 3, 3), "probability": (60, 2), "predict": (60,),
            }  # fmt: skip
        for name, shape in shapes.items():
            assert out[name].shape == shape, name
        for name in ("gates", "loadings", "offsets", "noise", "transform", "reconstruct",
                     "impute", "lower", "upper", "rows"):  # fmt: skip
            assert out[name].dtype == dtype, name
        for name, value in out.items():
            assert value.dtype.kind == "U" or np.isfinite(value).all(), name
        assert np.all(out["lower"] < out["upper"])
        assert np.all(model.loadings_[1, :, 1:] == 0)
        seen = ~np.isnan(X)
        assert_array_equal(out["impute"][seen], X[seen])
        assert_array_equal(model.column_labels_, model.parts_)
        back = model.inverse_transform(model.transform(X))
        assert back.dtype == dtype
        assert_allclose(back, model.reconstruct(X), rtol=1e-4, atol=1e-4)


def test_rows_are_expected_at_the_gates_mean():
    """sum_k g (Lambda s + rho), from the learned attributes."""
    X, *_ = drawn_factors(np.random.default_rng(14), 80, (1, 1), 4, missing=0.1)
    model = quietly(MCFA(2, 1, gating="standard", init="random", max_iter=5, random_state=0), X)
    assert np.any(model.gates_.max(axis=1) < 0.99)
    s = model.transform(X).reshape(80, 2, 1)
    by_part = np.einsum("nkj,kdj->nkd", s, model.loadings_) + model.offsets_
    assert_allclose(model.reconstruct(X), np.einsum("nkd,dk->nd", by_part, model.gates_))


def test_pandas_names_come_through():
    pandas = pytest.importorskip("pandas")
    X, *_ = drawn_factors(np.random.default_rng(15), 50, (1, 1), 3)
    frame = pandas.DataFrame(X, columns=[f"gene {i}" for i in range(6)])
    model = quietly(MCFA(2, (2, 1), random_state=0), frame).set_output(transform="pandas")
    out = model.transform(frame)
    names = ["part0_factor0", "part0_factor1", "part1_factor0"]
    assert list(out.columns) == names == list(model.get_feature_names_out())
    told = [c["column"] for part in model.explain(X[0]) for c in part["columns"]]
    assert set(told) <= set(frame.columns)


SAVED = {
    "annealed": {},
    "standard-flat": {"gating": "standard", "prior": None},
    "factorised": {"gating": "factorised"},
    "prior": {"prior": Prior(entries=0.5, shape=3.0)},
}


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.ci)])
def test_saved_and_loaded_models_say_the_same(name, dtype, tmp_path):
    X, _, factors = drawn_factors(np.random.default_rng(16), 60, (2, 1), 4, missing=0.1)
    X = X.astype(dtype)
    for labels in (None, labels_for(factors)):
        model = MCFA(2, (2, 1), max_iter=4, random_state=0, **SAVED[name])
        quietly(model, X, labels).save(tmp_path / "model.safetensors")
        again = partwise.load(tmp_path / "model.safetensors")
        expected, found = outputs(model, X), outputs(again, X)
        assert expected.keys() == found.keys()
        for key in expected:
            assert_array_equal(found[key], expected[key], err_msg=key)
            assert found[key].dtype == expected[key].dtype, key
        assert again.explain(X[0]) == model.explain(X[0])
        if labels is not None:
            asked = {"classes": "low", "hybrid": {1: {"high": 1, "low": 2}}, "random_state": 0}
            for a, b in zip(model.sample(3, **asked), again.sample(3, **asked), strict=True):
                assert_array_equal(a, b)
        assert again.n_iter_ == model.n_iter_
        more = quietly(again.set_params(warm_start=True), X, labels)
        assert more.lower_bound_ >= model.lower_bound_ - 1e-6


@pytest.mark.parametrize("classes", [False, True], ids=["plain", "classes"])
@pytest.mark.parametrize("gating", GATINGS)
def test_a_warm_start_goes_on(gating, classes):
    X, _, factors = drawn_factors(np.random.default_rng(17), 80, (1, 1), 4, missing=0.1)
    y = labels_for(factors) if classes else None
    model = MCFA(2, 2, gating=gating, init="random", random_state=0, max_iter=3, tol=0.0,
                 warm_start=True)  # fmt: skip
    quietly(model, X, y)
    for _ in range(2):
        before = model.lower_bound_
        quietly(model, X, y)
        # Rows of the factorised model begin anew, and may settle otherwise at first.
        reached = model.lower_bounds_[-1 if gating == "factorised" else 0]
        assert reached >= before - 1e-9 * abs(before)
        assert_never_falls(model.lower_bounds_)


def test_a_warm_start_is_the_same_climb():
    X, *_ = drawn_factors(np.random.default_rng(18), 80, (1, 1), 4, missing=0.1)
    model = MCFA(2, 2, gating="standard", init="random", random_state=0)
    assert_goes_on(model, X, 3, "noise_variance_", rtol=1e-6)


def test_scores_add_up_over_parts_and_explanations_name_what_decided():
    X, *_ = drawn_factors(np.random.default_rng(19), 150, (1, 1), 5, missing=0.1)
    model = quietly(MCFA(2, 2, random_state=0), X)
    assert np.all(model.gates_.max(axis=1) == 1)
    score = model.score_samples(X)
    assert_allclose(-model.anomaly_scores(X).sum(axis=1), score)
    assert_allclose(model.score(X), score.mean())
    result = model.row_likelihood(X)
    assert np.all(result.standard_error == 0)
    told = model.explain(X[0])
    s = model.transform(X[:1])[0]
    for k, part in enumerate(told):
        assert part["part"] == k
        assert_allclose(part["factors"], s[2 * k : 2 * k + 2])
        assert_allclose(part["log_likelihood"], -model.anomaly_scores(X[:1])[0, k])
        evidence = [c["evidence"] for c in part["columns"]]
        assert evidence == sorted(evidence, reverse=True)
        for column in part["columns"]:
            d = int(column["column"].removeprefix("x"))
            assert model.parts_[d] == k
            assert column["value"] == X[0, d]
            assert_allclose(column["expected"], model.reconstruct(X[:1])[0, d])
            noise, Lambda = model.noise_variance_[k, d], model.loadings_[k, d]
            near = stats.norm.logpdf(X[0, d], column["expected"], np.sqrt(noise))
            broad = np.sqrt(noise + Lambda @ Lambda)
            far = stats.norm.logpdf(X[0, d], model.offsets_[k, d], broad)
            assert_allclose(column["evidence"], near - far, rtol=1e-6, atol=1e-9)
    assert len(model.explain(X[0], n_columns=2)[0]["columns"]) == 2
    odd = X[:2].copy()
    own = np.flatnonzero(model.parts_ == 0)
    odd[1, own] += 6 * np.nanstd(X, axis=0)[own] * np.resize([1, -1], len(own))
    change = model.anomaly_scores(odd)[1] - model.anomaly_scores(X[:2])[1]
    assert change[0] > 10
    assert_allclose(change[1], 0, atol=1e-9)


def test_samples_have_the_models_moments():
    X, *_ = drawn_factors(np.random.default_rng(20), 200, (1, 1), 3)
    model = quietly(MCFA(2, 1, random_state=0), X)
    rows, s = model.sample(20_000, random_state=0)
    assert_allclose(s.mean(axis=0), 0, atol=0.04)
    assert_allclose(np.cov(s.T), np.eye(2), atol=0.06)
    spread = X.std(axis=0)
    assert_allclose((rows.mean(axis=0) - X.mean(axis=0)) / spread, 0, atol=0.05)
    assert_allclose(np.cov(rows.T) / np.outer(spread, spread), np.corrcoef(X.T), atol=0.12)
    asked = np.tile([2.0, -1.0], (3000, 1))
    rows, returned = model.sample(3000, states=asked, random_state=1)
    assert_array_equal(returned, asked)
    expected = model.inverse_transform(asked[:1])[0]
    own, d = model.parts_, np.arange(6)
    noise = np.sqrt(model.noise_variance_[own, d])
    assert_allclose((rows.mean(axis=0) - expected) / noise, 0, atol=0.1)
    assert_allclose(rows.std(axis=0), noise, rtol=0.08)
    a, b = model.sample(3, random_state=5)[0], model.sample(3, random_state=5)[0]
    assert_array_equal(a, b)
    assert_array_equal(model.sample(3)[0], model.sample(3, random_state=0)[0])


def test_classes_may_be_asked_for_row_by_row():
    X, _, factors = drawn_factors(np.random.default_rng(21), 100, (1, 1), 4)
    y = labels_for(factors)
    for model in (MCFA(2, 1, random_state=0), MCVQ(2, 2, random_state=0)):
        quietly(model, X, y)
        asked = np.resize(["low", "high", "high"], 300)
        rows, labels = model.sample(300, classes=asked, random_state=0)
        assert_array_equal(labels, asked)
        assert np.mean(model.predict(rows) == asked) > 0.8
        _, labels = model.sample(4, classes="low", random_state=0)
        assert_array_equal(labels, ["low"] * 4)
        _, states = model.sample(4, classes="low", hybrid={0: "high"}, random_state=0)
        assert states.shape == (4, 2)


# --- refusals ---


@pytest.fixture(scope="module", params=["MCFA", "MCVQ"])
def with_labels(request):
    X, _, factors = drawn_factors(np.random.default_rng(22), 60, (1, 1), 4)
    model = MCFA(2, 1, random_state=0) if request.param == "MCFA" else MCVQ(2, 2, random_state=0)
    return quietly(model, X, labels_for(factors)), X, labels_for(factors)


BAD_SAMPLES = [
    ({"classes": "middle"}, "classes names the class middle, .* only high, low"),
    ({"classes": ["low", "high"]}, r"classes has shape \(2,\), but must be one class or 3"),
    ({"hybrid": {2: "low"}}, "hybrid names part 2, but parts are 0 to 1"),
    ({"hybrid": {-1: "low"}}, "hybrid names part -1"),
    ({"hybrid": {0: "middle"}}, "hybrid names the class middle"),
    ({"hybrid": {0: {"low": 1, "middle": 1}}}, "hybrid names the class middle"),
    ({"hybrid": {0: {"low": -1, "high": 1}}}, "must be one class"),
    ({"hybrid": {0: {"low": 0}}}, "must be one class"),
    ({"states": [[0, 0]]}, r"states must have shape \(3, 2\)"),
]


@pytest.mark.parametrize(("asked", "message"), BAD_SAMPLES)
def test_impossible_draws_are_refused(asked, message, with_labels):
    model, *_ = with_labels
    with pytest.raises(ValueError, match=message):
        model.sample(3, **asked)


def test_no_rows_are_refused(with_labels):
    with pytest.raises(ValueError, match="n_samples=0 must be an integer of at least 1"):
        with_labels[0].sample(0)


def test_bad_labels_are_refused(with_labels):
    model, X, y = with_labels
    model = type(model)(**model.get_params())
    with pytest.raises(ValueError, match="y has 59 labels, but X has 60 rows"):
        model.fit(X, y[1:])
    weight = np.where(y == "high", 0.0, 1.0)
    with pytest.raises(ValueError, match="Class high has no row with weight"):
        model.fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"n_classes=3, but y names 2 \(high, low\)"):
        model.set_params(n_classes=3).fit(X, y)
    with pytest.raises(ValueError, match="y holds fractions"):
        model.set_params(n_classes=2).fit(X, np.linspace(0, 1, 60))
    with pytest.raises(ValueError, match="classes need one label per row"):
        model.fit(X, np.ones((60, 2)))


@pytest.mark.ci
def test_targets_that_name_no_classes_are_ignored():
    X, *_ = drawn_factors(np.random.default_rng(23), 60, (1, 1), 4)
    plain = quietly(MCFA(2, 1, random_state=0), X)
    for y in (np.linspace(0, 1, 60), np.arange(60), np.ones((60, 2))):
        model = quietly(MCFA(2, 1, random_state=0), X, y)
        assert not hasattr(model, "classes_")
        assert_array_equal(model.lower_bounds_, plain.lower_bounds_)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, np.nan])
def test_bad_coverage_is_refused(coverage, with_labels):
    model, X, _ = with_labels
    with pytest.raises(ValueError, match=r"coverage=.* must be between 0 and 1"):
        model.predict_interval(X, coverage=coverage)


@pytest.mark.parametrize("n_factors", [(2,), (2, 1, 1), (2, 0), ()])
def test_bad_numbers_of_factors_are_refused(n_factors):
    X = np.random.default_rng(24).normal(size=(20, 6))
    with pytest.raises(ValueError, match=r"n_factors=.* must be a number, or 2 positive numbers"):
        MCFA(2, n_factors).fit(X)


def test_other_impossible_requests_are_refused():
    X, *_ = drawn_factors(np.random.default_rng(25), 40, (1, 1), 3)
    model = quietly(MCFA(2, 1, random_state=0, warm_start=True), X)
    with pytest.raises(ValueError, match=r"X has shape \(1, 3\), but inverse_transform needs"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="classes and hybrid need a class variable"):
        model.sample(2, classes=0)
    with pytest.raises(ValueError, match="x must be one row, but has 2"):
        model.explain(X[:2])
    with pytest.raises(ValueError, match="infinity"):
        model.transform(np.where(np.eye(40, 6), np.inf, X))
    with pytest.raises(ValueError, match="warm_start=True needs the columns, n_parts, n_factors"):
        model.set_params(n_factors=2).fit(X)
    with pytest.raises(ValueError, match="warm_start=True needs"):
        model.set_params(n_factors=1).fit(X, np.resize([0, 1], 40))
    assert not hasattr(model, "predict")


# --- biclusters ---


@pytest.mark.parametrize("gating", ["annealed", "factorised"])
def test_states_are_biclusters(gating):
    rng = np.random.default_rng(26)
    parts, states = np.repeat([0, 1], 5), rng.integers([3, 2], size=(90, 2))
    level = rng.permuted(np.tile([0.0, 4.0, 8.0], (10, 1)), axis=1)
    X = level[np.arange(10), states[:, parts]] + 0.3 * rng.normal(size=(90, 10))
    X = np.hstack([X, np.full((90, 1), 2.0)])  # one column never changes
    weight = np.ones(90)
    weight[7] = 0.0
    model = MCVQ(2, (3, 2), gating=gating, random_state=0)
    quietly(model, X, sample_weight=weight)
    assert model.row_labels_.shape == (90, 2)
    kept = weight > 0
    assert_array_equal(model.row_labels_[kept], model.predict_states(X[kept]))
    assert_array_equal(model.row_labels_[7], [-1, -1])
    assert_array_equal(model.column_labels_, model.parts_)
    assert model.column_labels_[10] == -1
    assert model.rows_.shape == (5, 90)
    assert model.columns_.shape == (5, 11)
    assert model.rows_.dtype == model.columns_.dtype == bool
    assert_array_equal(model.rows_[:, kept].sum(axis=0), 2)  # one state of each part
    assert not model.rows_[:, 7].any()
    assert_array_equal(model.columns_[:, :10].sum(axis=0), np.array([3, 2])[model.parts_[:10]])
    names = model.get_feature_names_out()
    for i, name in enumerate(names):
        k, j = int(name[4]), int(name[-1])
        rows, columns = model.get_indices(i)
        assert_array_equal(rows, np.flatnonzero(model.row_labels_[:, k] == j))
        assert_array_equal(columns, np.flatnonzero(model.parts_ == k))
        assert model.biclusters_[0][i].sum() == len(rows)
        # A bicluster is a block of one kind: its rows were drawn in one state.
        drawn = states[rows, parts[columns[0]]]
        assert np.mean(drawn == np.bincount(drawn).argmax()) > 0.95


def test_biclusters_survive_saving(tmp_path):
    X, *_ = drawn_factors(np.random.default_rng(27), 50, (1, 1), 3)
    model = quietly(MCVQ(2, 2, random_state=0), X)
    model.save(tmp_path / "m.safetensors")
    again = partwise.load(tmp_path / "m.safetensors")
    for a, b in zip(model.biclusters_, again.biclusters_, strict=True):
        assert_array_equal(a, b)


def test_whole_floats_are_labels_and_nan_is_unknown():
    X, *_ = drawn_factors(np.random.default_rng(23), 60, (1, 1), 4)
    y = np.arange(60) % 3
    with_gaps = np.where(np.arange(60) < 6, np.nan, y.astype(float))
    model = quietly(MCFA(2, 1, random_state=0), X, with_gaps)
    marked = quietly(MCFA(2, 1, random_state=0), X, np.where(np.arange(60) < 6, -1, y))
    assert_array_equal(model.classes_, [0, 1, 2])
    assert_array_equal(model.lower_bounds_, marked.lower_bounds_)


def test_without_classes_predict_says_so():
    X, *_ = drawn_factors(np.random.default_rng(23), 60, (1, 1), 4)
    model = quietly(MCFA(2, 1, random_state=0), X)
    with pytest.raises(AttributeError) as caught:
        model.predict(X)
    assert "set n_classes, or fit with labels" in str(caught.value.__cause__)
