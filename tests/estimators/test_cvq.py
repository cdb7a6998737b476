"""The estimator CVQ: recovery, invariances, verbs, files and refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import CVQ, Prior, make_shapes
from tests.common.helpers import assert_never_falls, punch_holes

K, J, D = 3, 4, 30


def drawn(seed=0, n=400, noise=0.2, spread=True):
    """Rows of the model itself and their states; parts add to all columns, or to a third each."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(K, J, D))
    if not spread:
        means *= (np.arange(D) % K == np.arange(K)[:, None])[:, None, :]
    states = rng.integers(J, size=(n, K))
    rows = sum(means[k, states[:, k]] for k in range(K))
    scale = 10.0 ** rng.uniform(-2, 2, D)
    return (rows + noise * rng.normal(size=(n, D)) + 3) * scale, states


def fitted(X, seed=0, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weight = arguments.pop("sample_weight", None)
        return CVQ(K, J, random_state=seed, **arguments).fit(X, sample_weight=weight)


@pytest.fixture(scope="module")
def holed():
    X, _ = drawn(n=150)
    X = punch_holes(X, 0.2, np.random.default_rng(1))
    return X, fitted(X)


# --- recovery ---


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [True, False], ids=["overlapping", "separate"])
def test_finds_the_states_it_was_drawn_from(seed, spread):
    X, truth = drawn(seed, spread=spread)
    model = fitted(X, seed, n_init=6)
    found = model.predict_states(X)
    agreement = [[adjusted_rand_score(a, b) for a in truth.T] for b in found.T]
    assert np.sort(np.max(agreement, axis=1))[0] > 0.95
    left = (model.reconstruct(X) - X) / X.std(axis=0)
    assert_allclose(np.mean(left**2), np.mean(model.noise_variance_ / X.var(axis=0)), rtol=0.1)


@pytest.mark.ci
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_shapes_with_a_third_of_the_cells_missing(seed):
    shapes = make_shapes().data
    rng = np.random.default_rng(seed)
    holes = rng.random(shapes.shape) < 0.3
    model = CVQ(3, 9, random_state=seed).fit(np.where(holes, np.nan, shapes))
    filled = model.impute(np.where(holes, np.nan, shapes))
    assert np.sqrt(np.mean((filled - shapes)[holes] ** 2)) < 0.05


@pytest.mark.parametrize("prior", ["conjugate", None])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_bound_never_falls(prior, missing):
    X, _ = drawn(5, n=120, noise=1.0)
    X = punch_holes(X, missing, np.random.default_rng(0))
    model = fitted(X, prior=prior, tol=0.0, max_iter=40)
    assert_never_falls(model.lower_bounds_)
    assert model.lower_bound_ == model.lower_bounds_[-1]
    assert len(model.lower_bounds_) == model.n_iter_ + 1


# --- what it must not depend on ---


def test_weight_is_repetition(holed):
    X, _ = holed
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    a = fitted(X, sample_weight=weight)
    b = fitted(np.repeat(X, weight, axis=0))
    assert_allclose(a.means_, b.means_, rtol=1e-6, atol=1e-6 * np.abs(b.means_).max())
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-8)


def test_units_change_nothing_but_units(holed):
    X, model = holed
    scale, shift = 10.0 ** np.linspace(-4, 4, D), np.linspace(-5, 5, D)
    other = fitted(X * scale + shift)
    assert_allclose(other.transform(X * scale + shift), model.transform(X), atol=1e-6)
    assert_allclose(other.noise_variance_, model.noise_variance_ * scale**2, rtol=1e-5)
    difference = np.log(scale).sum()
    full = np.nan_to_num(X)
    assert_allclose(
        other.score_samples(full * scale + shift), model.score_samples(full) - difference, rtol=1e-5
    )


def test_threads_and_blocks_change_nothing(holed, monkeypatch):
    X, model = holed
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 64 * D * 8)
    other = fitted(X, n_jobs=2)
    assert_allclose(other.means_, model.means_, rtol=1e-6, atol=1e-6 * np.nanmax(np.abs(X)))
    assert_allclose(other.transform(X), model.transform(X), atol=1e-7)
    assert_allclose(other.score_samples(X), model.score_samples(X), rtol=1e-7)


def test_single_precision_is_kept_and_close():
    X, _ = drawn(spread=False)
    a, b = fitted(X), fitted(X.astype(np.float32))
    for name in ("means_", "noise_variance_", "state_priors_"):
        assert getattr(b, name).dtype == np.float32
    assert b.transform(X).dtype == b.reconstruct(X).dtype == b.impute(X).dtype == np.float32
    assert_allclose(b.lower_bound_, a.lower_bound_, rtol=1e-3)


# --- verbs ---


def test_shapes_and_names_of_what_is_learned(holed):
    X, model = holed
    assert model.means_.shape == (K, J, D)
    assert model.noise_variance_.shape == (D,)
    assert_allclose(model.state_priors_.sum(axis=1), 1)
    m = model.transform(X)
    assert_allclose(m.reshape(-1, K, J).sum(axis=2), 1)
    assert list(model.get_feature_names_out()[[0, 5]]) == ["part0_state0", "part1_state1"]
    assert_array_equal(model.predict_states(X), m.reshape(-1, K, J).argmax(axis=2))
    by_hand = np.einsum("ckj,kjd->cd", m.reshape(-1, K, J), model.means_)
    assert_allclose(model.reconstruct(X), by_hand, rtol=1e-6, atol=1e-8)
    assert_allclose(model.inverse_transform(m), by_hand, rtol=1e-6, atol=1e-8)
    filled = model.impute(X)
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert_array_equal(filled[np.isnan(X)], model.reconstruct(X)[np.isnan(X)])


def test_samples_have_the_moments_of_the_model(holed):
    _, model = holed
    rows, states = model.sample(20000, random_state=0)
    means, priors = model.means_, model.state_priors_
    expected = np.einsum("kj,kjd->d", priors, means)
    inside = np.einsum("kj,kjd->kd", priors, means**2) - np.einsum("kj,kjd->kd", priors, means) ** 2
    variance = inside.sum(axis=0) + model.noise_variance_
    assert_allclose((rows.mean(axis=0) - expected) / np.sqrt(variance), 0, atol=0.04)
    assert_allclose(rows.var(axis=0), variance, rtol=0.06)
    share = np.stack([np.bincount(states[:, k], minlength=J) for k in range(K)]) / 20000
    assert_allclose(share, priors, atol=0.02)
    assert_array_equal(model.sample(3, random_state=1)[0], model.sample(3, random_state=1)[0])


def test_a_row_without_entries_has_likelihood_one(holed):
    _, model = holed
    nothing = np.full((1, D), np.nan)
    assert_allclose(model.score_samples(nothing), 0, atol=1e-9)
    assert_allclose(model.transform(nothing).reshape(K, J), model.state_priors_, atol=0.02)


def test_the_likelihood_is_sampled_where_combinations_are_many(holed, monkeypatch):
    X, model = holed
    exact = model.row_likelihood(X)
    assert np.isinf(exact.effective_draws).all()
    monkeypatch.setattr("partwise.models.cvq.MOST_COMBINATIONS", 1)
    found = model.row_likelihood(X, n_draws=2000)
    error = np.abs(found.log_likelihood - exact.log_likelihood)
    assert (error <= 6 * found.standard_error + 1e-3).all()
    alone = model.row_likelihood(X[:3], n_draws=2000)
    assert_allclose(alone.log_likelihood, found.log_likelihood[:3], rtol=1e-9)


def test_a_file_gives_the_model_back(holed, tmp_path):
    X, model = holed
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    for name in (
        "means_",
        "noise_variance_",
        "state_priors_",
        "lower_bounds_",
        "n_iter_",
        "converged_",
    ):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert_allclose(again.transform(X), model.transform(X), atol=1e-12)
    assert_allclose(again.score_samples(X), model.score_samples(X), rtol=1e-12)


def test_a_column_never_observed_is_named_and_filled(holed):
    X = holed[0].copy()
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="1 of 30 columns have no observed value"):
        model = CVQ(K, J, max_iter=500, random_state=0).fit(X)
    assert np.isfinite(model.impute(X)).all()


def test_rows_that_are_all_alike():
    model = fitted(np.ones((20, 3)), prior=None)
    assert_allclose(model.reconstruct(np.ones((2, 3))), 1)
    assert np.isfinite(model.lower_bound_)


def test_a_stronger_ridge_gives_smaller_states():
    X, _ = drawn()
    weak, strong = fitted(X), fitted(X, prior=Prior(entries=100.0))
    sizes = [np.var(model.means_ / X.std(axis=0), axis=1).sum() for model in (weak, strong)]
    assert sizes[1] < 0.8 * sizes[0]


# --- refusals ---


def test_what_it_refuses(holed):
    X, model = holed
    with pytest.raises(TypeError, match=r"CVQ does not support sparse X.*X\.toarray\(\)"):
        CVQ().fit(sparse.csr_array(np.eye(5)))
    with pytest.raises(TypeError, match="does not support sparse X"):
        model.transform(sparse.csr_array(np.eye(D)))
    with pytest.raises(ValueError, match="n_states=9 exceeds n_samples=3"):
        CVQ(2, 9).fit(np.eye(3))
    with pytest.raises(ValueError, match="contains infinity"):
        CVQ(2, 2).fit([[1.0, np.inf], [0, 1], [2, 1]])
    with pytest.raises(ValueError, match="'n_parts' parameter"):
        CVQ(0).fit(np.eye(3))
    with pytest.raises(ValueError, match=r"inverse_transform needs \(n, 12\)"):
        model.inverse_transform(np.ones((2, 5)))
    with pytest.raises(ValueError, match="n_samples=0"):
        model.sample(0)
    with pytest.raises(ValueError, match="n_draws=0"):
        model.row_likelihood(X, n_draws=0)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        CVQ(2, 2).fit(np.eye(3), sample_weight=np.zeros(3))
    with pytest.raises(NotFittedError):
        CVQ().transform(X)


def test_it_says_when_steps_or_time_ran_out():
    X, _ = drawn()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        CVQ(K, J, max_iter=1, tol=0.0, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        CVQ(K, J, max_time=1e-9, random_state=0).fit(X)


# --- the exact search ---


@pytest.mark.parametrize("J", [1, 4])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_codes_are_the_most_probable_combinations(J, holes):
    X, _ = drawn(n=60, noise=2.0)
    X = punch_holes(X, holes, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CVQ(K, J, random_state=0, max_iter=5).fit(X)
    every = np.indices((J,) * K).reshape(K, -1).T
    rows = model.decode(every)  # (J^K, D)
    log_b = np.log(model.state_priors_)[np.arange(K), every].sum(axis=1)
    log_p = -0.5 * (
        (X[:, None] - rows) ** 2 / model.noise_variance_ + np.log(2 * np.pi * model.noise_variance_)
    )
    joint = np.nansum(log_p, axis=2) + log_b  # (n, J^K)
    certificate = model.certify(X)
    assert certificate.proven.all()
    assert_allclose(certificate.error, -joint.max(axis=1))
    assert_array_equal(every[joint.argmax(axis=1)], model.encode(X))
    with pytest.raises(ValueError, match="as encode returns"):
        model.decode(np.full((1, K), J))
