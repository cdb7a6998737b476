"""The estimator GVQ: recovery, proofs, special cases, verbs, files and refusals."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import GVQ
from partwise.answers import codes as answers
from partwise.association import METHODS
from partwise.fitted import fitted_of
from tests.common.helpers import assert_never_falls, punch_holes
from tests.reference import gvq as reference


def planted(seed, n, d, n_rows=3000, noise=0.3):
    """Independent features N(0, 1), each on in half of the rows."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(2, size=(n_rows, n))
    features = rng.normal(size=(n, d))
    return bits @ features + noise * rng.normal(size=(n_rows, d)), bits


def clusters(seed=0, n_rows=300, D=5, n_clusters=10):
    """Rows of Gaussian clusters."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(n_clusters, D))
    return centres[rng.integers(n_clusters, size=n_rows)] + 0.5 * rng.normal(size=(n_rows, D))


def fitted(X, *sizes, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The codes of the rows do not determine")
        return GVQ(*sizes, **{"random_state": 0, **arguments}).fit(X)


def sets_of(model):
    """Features (K, J - 1, D) and origin of every set, for the reference."""
    K, Q, D = model.n_components, model.n_values - 1, model.n_features_in_
    features = model.features_.reshape(model.n_sets, K, Q, D)
    return list(zip(features, model.origins_, strict=True))


# --- recovery ---


@pytest.mark.parametrize("n", [8, 15, 30])
@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.ci) for seed in range(3, 10))]
)
def test_error_of_planted_features_is_the_noise(n, seed):
    X, bits = planted(seed, n, int(2.5 * n))
    model = GVQ(n, random_state=seed).fit(X)
    assert 0.94 < model.noise_variance_ / 0.09 < 1.02
    assert model.certificate_.proven.all()
    found = np.abs(np.corrcoef(model.encode(X).T, bits.T)[:n, n:])
    assert np.all(found.max(axis=0) > 0.99)


@pytest.mark.ci
def test_planted_features_with_holes():
    X, _ = planted(0, 8, 20, 1500)
    holed = punch_holes(X, 0.2, np.random.default_rng(1))
    model = fitted(holed, 8)
    assert 0.94 < model.noise_variance_ / 0.09 < 1.05
    missing = np.isnan(holed)
    assert np.mean((model.impute(holed) - X)[missing] ** 2) < 0.15
    assert_array_equal(model.impute(holed)[~missing], X[~missing])


# --- proofs ---


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"penalty": 2.0},
        {"n_sets": 3},
        {"n_sets": 2, "penalty": 1.0, "n_values": 3},
        {"n_sets": 2, "association": "mean_field"},
    ],
)
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_certificates_hold_against_enumeration(arguments, holes):
    X = punch_holes(clusters(n_rows=120), holes, np.random.default_rng(0))
    model = fitted(X, 3, **arguments)
    certificate = model.certify(X)
    least = [reference.best_error(x, sets_of(model), model.penalty) for x in X]
    exact = model.association == "exact"
    assert_allclose(certificate.error[certificate.proven], np.array(least)[certificate.proven])
    assert certificate.proven.all() or not exact
    assert np.all(certificate.lower_bound <= np.array(least) * (1 + 1e-9) + 1e-9)
    assert_allclose(certificate.gap, certificate.error - certificate.lower_bound, atol=1e-12)
    assert_array_equal(model.certificate_.proven, certificate.proven)
    codes = model.encode(X)
    on = (codes[:, model.n_sets > 1 :] > 0).sum(axis=1)
    away = np.nansum((model.decode(codes) - X) ** 2, axis=1)
    assert_allclose(certificate.error, away + model.penalty * on, rtol=1e-6, atol=1e-9)


def test_a_budget_that_runs_out_gives_bounds():
    X = np.random.default_rng(0).normal(size=(200, 4))
    model = fitted(X, 14, max_nodes=5)
    free = fitted(X, 14, max_nodes=5).set_params(max_nodes=10**6)
    core = free._core(fitted_of(free).columns, fitted_of(free).seed)
    free._fitted = replace(fitted_of(free), model=core)
    best = free.certify(X)
    found = model.certificate_
    assert not found.proven.all()
    assert best.proven.all()
    assert np.all(found.lower_bound <= best.error + 1e-9)
    assert np.all(found.error[found.proven] <= best.error[found.proven] + 1e-9)


# --- learning ---


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"n_sets": 3}, {"n_values": 4}, {"penalty": 3.0}, {"max_nodes": 20, "n_components": 18}],
    ids=str,
)
def test_the_error_never_rises_with_exact_association(arguments, holes):
    X = punch_holes(clusters(3), holes, np.random.default_rng(0))
    model = fitted(X, **{"n_components": 4, "tol": 0.0, "max_iter": 30, **arguments})
    assert_never_falls(model.lower_bounds_)
    assert len(model.lower_bounds_) == model.n_iter_ + 1


def test_the_error_never_rises_with_binary_data():
    rng = np.random.default_rng(0)
    X = (rng.random((200, 30)) < rng.random(30)).astype(float)
    model = fitted(X, 3, n_sets=2, binary=True, tol=0.0, max_iter=20)
    assert_never_falls(model.lower_bounds_)


def test_sets_without_features_are_kmeans():
    X = clusters(1, 400)
    model = fitted(X, 0, n_sets=6, tol=0.0)
    means = KMeans(6, init=model.origins_, n_init=1, tol=0.0).fit(X)
    assert_allclose(-model.lower_bound_ * len(X), means.inertia_, rtol=1e-9)
    assert_array_equal(model.encode(X)[:, 0], means.predict(X))
    assert_allclose(np.sort(model.origins_, axis=0), np.sort(means.cluster_centers_, axis=0))


def test_one_feature_of_several_values_is_kmeans():
    X = clusters(2, 400)
    model = fitted(X, 1, n_values=6, tol=0.0)
    centres = np.vstack([model.origins_, model.origins_ + model.features_[0, 0]])
    means = KMeans(6, init=centres, n_init=1, tol=0.0).fit(X)
    assert_allclose(-model.lower_bound_ * len(X), means.inertia_, rtol=1e-9)


def test_a_full_mask_is_no_mask_and_blocks_are_no_matter(monkeypatch):
    X, _ = planted(0, 6, 12, 300)
    whole = fitted(X, 6)
    monkeypatch.setattr(answers, "BLOCK_ROWS", 37)
    parts = fitted(X, 6, n_jobs=2)
    assert_allclose(parts.features_, whole.features_, atol=1e-9)
    # One entry hidden: all rows but one are whole, and go another way.
    X[0, 0] = np.nan
    assert_allclose(np.abs(fitted(X, 6).features_), np.abs(whole.features_), atol=0.05)


def test_rows_and_columns_have_the_users_units():
    X, _ = planted(1, 5, 12, 400)
    model = fitted(X, 5)
    moved = fitted(1e4 * X + 3e6, 5)
    assert_array_equal(moved.encode(1e4 * X + 3e6), model.encode(X))
    assert_allclose(moved.features_, 1e4 * model.features_, rtol=1e-6)
    assert_allclose(moved.noise_variance_, 1e8 * model.noise_variance_, rtol=1e-6)


def test_a_penalty_turns_features_off():
    X = clusters(4)
    on = [fitted(X, 6, penalty=p).encode(X).sum() for p in (0.0, 5.0, 1e6)]
    assert on[0] > on[1] > on[2] == 0


@pytest.mark.parametrize("seed", range(3))
def test_planted_features_without_an_origin(seed):
    rng = np.random.default_rng(seed)
    features, bits = rng.normal(size=(6, 15)), rng.integers(2, size=(600, 6))
    X = bits @ features + 0.1 * rng.normal(size=(600, 15))
    model = GVQ(6, fit_origin=False, random_state=seed).fit(X)
    assert_array_equal(model.origins_, 0.0)
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.1)
    near = np.abs(model.features_[0][:, None] - features).max(axis=2).min(axis=0)
    assert near.max() < 0.1


@pytest.mark.parametrize("arguments", [{}, {"n_sets": 2}, {"n_values": 3}, {"binary": True}])
def test_the_error_never_rises_without_an_origin(arguments, tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 5)) + 1.0
    if "binary" in arguments:
        X = (X > 1.0).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = fitted(X, 3, fit_origin=False, **arguments)
    assert_never_falls(model.lower_bounds_)
    assert_array_equal(model.origins_, 0.0)
    nothing = np.zeros((1, model.encode(X).shape[1]))
    expected = 1.0 / (1.0 + np.exp(0.5 * 4.5)) if "binary" in arguments else 0.0
    assert_allclose(model.decode(nothing), expected, atol=1e-12)
    model.save(tmp_path / "model")
    assert_array_equal(partwise.load(tmp_path / "model").reconstruct(X), model.reconstruct(X))


@pytest.mark.parametrize("seed", range(3))
def test_a_large_penalty_without_an_origin_is_vector_quantization(seed):
    rng = np.random.default_rng(seed)
    centers = 2.0 * rng.normal(size=(6, 5)) + [6.0, 0.0, 0.0, 0.0, 0.0]
    X = centers[rng.integers(6, size=300)] + 0.2 * rng.normal(size=(300, 5))
    plain = KMeans(6, n_init=10, random_state=0).fit(X)
    error = ((X - plain.cluster_centers_[plain.labels_]) ** 2).sum(axis=1)
    # A second feature saves a row no more than its error; the first saves it nearly its square.
    penalty = 1.1 * error.max()
    assert penalty < ((X**2).sum(axis=1) - error).min()
    model = GVQ(6, fit_origin=False, penalty=penalty, random_state=seed).fit(X)
    codes = model.encode(X)
    assert_array_equal(codes.sum(axis=1), 1)
    assert_allclose(-model.score(X) * len(X), plain.inertia_, rtol=1e-9)
    assert adjusted_rand_score(plain.labels_, codes.argmax(axis=1)) == 1.0
    # Beyond the largest square of a row nothing is worth its cost.
    beyond = fitted(X, 6, fit_origin=False, penalty=1.1 * (X**2).sum(axis=1).max())
    assert not beyond.encode(X).any()


def test_restarts_and_warm_starts_lower_the_error():
    X = clusters(5)
    one, more = fitted(X, 4), fitted(X, 4, n_init=4)
    assert more.lower_bound_ >= one.lower_bound_
    again = fitted(X, 4, warm_start=True, max_iter=1)
    first = again.lower_bound_
    again.set_params(max_iter=100).fit(X)
    assert again.lower_bound_ >= first


@pytest.mark.parametrize("association", METHODS)
def test_every_association_learns(association):
    X, _ = planted(2, 5, 15, 120)
    model = fitted(X, 5, association=association, max_iter=10)
    assert model.noise_variance_ < 0.15
    certificate = model.certificate_
    assert np.all(certificate.gap[certificate.proven] == 0)
    again = fitted(X, 5, association=association, max_iter=10)
    assert_array_equal(again.encode(X), model.encode(X))


# --- binary data ---


def test_binary_features_of_binary_data():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.eye(4), 6, axis=1)  # four strokes of six pixels
    bits = rng.integers(2, size=(400, 4))
    X = ((bits @ truth > 0) ^ (rng.random((400, 24)) < 0.02)).astype(float)
    model = fitted(X, 4, binary=True, n_init=3)
    assert np.mean(np.rint(model.reconstruct(X)) != X) < 0.03
    assert np.all((model.features_ > 0) & (model.features_ < 1))
    assert model.certificate_.proven.all()
    holed = punch_holes(X, 0.1, rng)
    assert set(np.unique(model.impute(holed))) <= {0.0, 1.0}
    assert set(np.unique(model.sample(50, random_state=0)[0])) <= {0.0, 1.0}


@pytest.mark.ci
def test_many_binary_features_have_bounds():
    rng = np.random.default_rng(0)
    X = (rng.random((60, 20)) < 0.4).astype(float)
    model = fitted(X, 17, binary=True, max_iter=3)
    few = fitted(X, 3, binary=True, max_iter=3)
    certificate = model.certificate_
    assert np.all(certificate.lower_bound <= certificate.error)
    away = np.sum((model.reconstruct(X) - X) ** 2, axis=1)
    assert_allclose(certificate.error, away, rtol=1e-6)
    assert few.certificate_.proven.all()


# --- verbs ---


@pytest.mark.parametrize(
    "arguments", [{}, {"n_sets": 2}, {"n_values": 3}, {"n_sets": 2, "n_values": 3}]
)
def test_codes_go_there_and_back(arguments):
    X = clusters(6)
    model = fitted(X, 3, **arguments)
    rows = model.reconstruct(X)
    assert_allclose(model.decode(model.encode(X)), rows)
    assert_allclose(model.inverse_transform(model.transform(X)), rows)
    assert_array_equal(model.encode(rows), model.encode(X))
    assert len(model.get_feature_names_out()) == model.transform(X).shape[1]
    drawn, codes = model.sample(20, random_state=0)
    assert_allclose(model.decode(codes), drawn, atol=8 * np.sqrt(model.noise_variance_))
    assert_allclose(model.score(X), -np.mean(np.sum((X - rows) ** 2, axis=1)))


def test_names():
    X = clusters()
    assert fitted(X, 2).get_feature_names_out().tolist() == ["feature0", "feature1"]
    names = fitted(X, 1, n_sets=2, n_values=3).get_feature_names_out().tolist()
    assert names[:3] == ["set0_feature0_value1", "set0_feature0_value2", "set0_origin"]
    assert fitted(X, 2).set_output(transform="pandas").transform(X).shape == (300, 2)


def test_samples_have_the_rates_of_the_rows():
    X = clusters(7, 2000)
    model = fitted(X, 2, n_sets=2, n_values=3)
    _, drawn = model.sample(20_000, random_state=0)
    for column, codes in zip(drawn.T, model.encode(X).T, strict=True):
        assert_allclose(np.bincount(column) / 20_000, np.bincount(codes) / 2000, atol=0.02)


def test_explain_says_what_features_save():
    X, _ = planted(3, 5, 12, 300)
    model = fitted(X, 5)
    told = model.explain(X[0])
    code = model.encode(X[:1])
    assert {f["feature"] for f in told["features"]} == set(np.flatnonzero(code[0]))
    for feature in told["features"]:
        without = code.copy()
        without[0, feature["feature"]] = 0
        error = np.sum((model.decode(without) - X[0]) ** 2)
        assert_allclose(feature["saves"], error - told["error"], rtol=1e-5)
    assert told["gap"] == 0.0


@pytest.mark.parametrize("arguments", [{"n_sets": 2, "penalty": 0.5}, {"binary": True}])
def test_files(arguments, tmp_path):
    X = (clusters() > 0).astype(float)
    model = fitted(X, 3, **arguments)
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert_array_equal(again.encode(X), model.encode(X))
    assert_array_equal(again.features_, model.features_)
    assert_array_equal(again.certificate_.proven, model.certificate_.proven)
    assert again.noise_variance_ == model.noise_variance_


# --- bad input ---


def test_more_features_than_rows_determine():
    X = np.random.default_rng(0).normal(size=(5, 8))
    with pytest.warns(UserWarning, match="least norm"):
        model = GVQ(12, random_state=0, max_iter=5).fit(X)
    assert np.isfinite(model.features_).all()
    assert_allclose(model.reconstruct(X), X, atol=1e-6)


def test_zero_features_are_the_mean():
    X = clusters()
    model = fitted(X, 0)
    assert_allclose(model.origins_[0], X.mean(axis=0))
    assert model.encode(X).shape == (300, 0)
    assert_allclose(model.reconstruct(X)[0], X.mean(axis=0))
    assert model.certificate_.proven.all()


@pytest.mark.parametrize("n_sets", [1, 2])
def test_identical_rows(n_sets):
    X = np.tile([1.0, 2.0, -3.0], (10, 1))
    model = fitted(X, 20, n_sets=n_sets)
    assert_allclose(model.reconstruct(X), X)
    assert model.certificate_.proven.all()
    assert model.noise_variance_ == 0.0


def test_rows_of_nothing_but_nan():
    X = clusters()
    X[7] = np.nan
    model = fitted(X, 3)
    assert model.certificate_.error[7] == 0.0
    assert np.isfinite(model.impute(X)).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"fit_origin": False, "n_components": 0}, "at least 1"),
        ({"n_values": 3, "association": "belief_revision"}, "n_values=3.*exact, mean_field, gibbs"),
        ({"n_components": 30, "association": "directed_belief_revision"}, "n_components=30.*exact"),
        ({"binary": True, "association": "gibbs"}, "binary=True; choose one of exact"),
        (
            {"binary": True, "n_values": 3},
            "n_values=2, features that are on or off, not n_values=3",
        ),
        ({"association": "guess"}, "association"),
        ({"n_components": -1}, "n_components"),
        ({"n_sets": 500}, "n_sets=500 exceeds n_samples=300"),
    ],
)
def test_impossible_pairings_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        GVQ(**{"n_components": 3, **arguments}).fit(clusters())


def test_other_refusals():
    X = clusters()
    with pytest.raises(TypeError, match="sparse X"):
        GVQ().fit(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match="needs 0, 1 or NaN"):
        GVQ(2, binary=True).fit(X)
    model = fitted(X, 2, n_sets=2)
    with pytest.raises(ValueError, match=r"needs numbers of shape \(n, 3\)"):
        model.decode(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="integers"):
        model.decode([[0, 2, 0]])
    with pytest.raises(ValueError, match="inverse_transform needs"):
        model.inverse_transform(np.zeros((1, 2)))
    with pytest.raises(AttributeError):
        model.bic(X)


@pytest.mark.parametrize("form", [{}, {"binary": True}, {"n_sets": 3}, {"n_values": 3}])
def test_every_verb_without_features(form):
    X = (np.random.default_rng(0).normal(size=(40, 5)) > 0).astype(float)
    model = GVQ(n_components=0, random_state=0, **form).fit(X)
    codes = model.encode(X)
    assert codes.shape == (40, int("n_sets" in form))
    assert model.decode(codes).shape == X.shape
    assert model.certify(X).proven.all()
    assert model.explain(X[0])["features"] == []
    assert model.sample(2, random_state=0)[0].shape == (2, 5)
    assert model.inverse_transform(model.transform(X)).shape == X.shape


@pytest.mark.filterwarnings("ignore:The codes of the rows do not determine")
def test_explain_a_row_with_no_feature_on():
    X = np.random.default_rng(0).normal(size=(40, 5))
    model = GVQ(n_components=2, penalty=1e6, random_state=0).fit(X)
    assert model.explain(X[0])["features"] == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_error_never_rises_with_many_binary_features(seed):
    X = (np.random.default_rng(1).random((150, 30)) < 0.4).astype(float)
    model = GVQ(n_components=18, binary=True, max_iter=12, random_state=seed).fit(X)
    assert_never_falls(model.lower_bounds_)


def test_values_that_are_not_binary():
    X = (np.random.default_rng(0).random((20, 4)) < 0.5).astype(float)
    model = GVQ(n_components=2, binary=True, random_state=0).fit(X)
    for verb in (model.encode, GVQ(binary=True).fit):
        with pytest.raises(ValueError, match="set binary=False"):
            verb(X + 0.5)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_whose_squares_are_no_numbers(unit):
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match="another unit"):
        GVQ(n_components=2, random_state=0).fit(unit * X)


@pytest.mark.parametrize("binary", [False, True])
def test_a_penalty_whose_square_is_no_number(binary):
    X = (np.random.default_rng(0).random((20, 4)) < 0.5).astype(float)
    with pytest.raises(ValueError, match="penalty=1e\\+300 is too large"):
        GVQ(n_components=2, penalty=1e300, binary=binary, random_state=0).fit(X)
