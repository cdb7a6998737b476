"""The estimator AspectModel: recovery, tempering, invariances, verbs, files and refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV

import partwise
from partwise import AspectModel, CellKFold, ObservedCells, Prior
from tests.common.helpers import assert_never_falls

D, Z = 40, 3


def drawn(seed=0, n=400, shown=0.5):
    """Ratings of the model itself, the rows' shares, and the expected rating in each aspect."""
    rng = np.random.default_rng(seed)
    mu = rng.uniform(0, 6, (Z, D))
    p = np.exp(-((np.arange(1, 6)[:, None, None] - mu) ** 2) / 0.7)
    p /= p.sum(axis=0)
    shares = rng.dirichlet(np.full(Z, 0.2), n)
    cause = np.minimum((rng.random((n, D, 1)) > np.cumsum(shares, axis=1)[:, None]).sum(axis=2), 2)
    laws = np.cumsum(p[:, cause, np.arange(D)], axis=0)
    X = 1.0 + (rng.random((n, D)) > laws).sum(axis=0).clip(0, 4)
    X[rng.random((n, D)) > shown] = np.nan
    return X, shares, np.einsum("v,vzd->zd", np.arange(1.0, 6.0), p)


def fitted(X, seed=0, **arguments):
    weight = arguments.pop("sample_weight", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        arguments = {"n_aspects": Z, "random_state": seed, **arguments}
        return AspectModel(**arguments).fit(X, sample_weight=weight)


def as_sparse(X):
    return sparse.csr_array(np.nan_to_num(X))


@pytest.fixture(scope="module")
def model():
    X, _, _ = drawn(n=150)
    return X, fitted(X, beta=0.9)


@pytest.mark.parametrize("seed", range(3))
def test_finds_the_aspects_it_was_drawn_from(seed):
    X, shares, means = drawn(seed)
    model = fitted(X, seed)
    far = np.abs(model.means_[:, None] - means[None]).mean(axis=2)
    match = far.argmin(axis=1)
    assert sorted(match) == [0, 1, 2]
    assert far.min(axis=1).max() < 0.35
    assert np.corrcoef(model.transform(X).ravel(), shares[:, match].ravel())[0, 1] > 0.9


def test_tempering_helps_where_plain_em_learns_by_heart():
    X, _, _ = drawn(n=120, shown=0.3)
    cells = ObservedCells(as_sparse(X))
    train, test = next(CellKFold(5, random_state=0).split(cells))
    scores = {
        beta: fitted(cells[train], n_aspects=12, beta=beta, prior=None).score(cells[test])
        for beta in ("auto", 1.0)
    }
    assert scores["auto"] > scores[1.0] + 0.3
    assert fitted(cells[train], n_aspects=12, prior=None).beta_ < 1


@pytest.mark.parametrize("prior", ["conjugate", None])
@pytest.mark.parametrize("beta", ["auto", 1.0, 0.7])
def test_the_bound_never_falls(prior, beta):
    X, _, _ = drawn(5, n=120)
    model = fitted(X, prior=prior, beta=beta, tol=0.0, max_iter=40)
    assert_never_falls(model.lower_bounds_)
    assert model.lower_bound_ == model.lower_bounds_[-1]
    assert len(model.lower_bounds_) == model.n_iter_ + 1


# --- what it must not depend on ---


def test_weight_is_repetition(model):
    X, _ = model
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    a = fitted(X, beta=0.9, sample_weight=weight)
    b = fitted(np.repeat(X, weight, axis=0), beta=0.9)
    assert_allclose(a.means_, b.means_, atol=1e-6)
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-8)


def test_storage_threads_and_blocks_change_nothing(model, monkeypatch):
    X, one = model
    monkeypatch.setattr("partwise.data.source.BLOCK_ENTRIES", 1500)
    for other in (fitted(as_sparse(X), beta=0.9), fitted(X, beta=0.9, n_jobs=2)):
        assert_allclose(other.means_, one.means_, atol=1e-7)
        assert_allclose(other.transform(X), one.transform(X), atol=1e-6)
        assert_allclose(other.score_samples(as_sparse(X)), one.score_samples(X), rtol=1e-6)
    a, b = fitted(as_sparse(X)), fitted(X, n_jobs=2)
    assert a.beta_ == b.beta_
    assert_allclose(a.means_, b.means_, atol=1e-7)


def test_units_change_nothing_but_units(model):
    X, one = model
    other = fitted(10 * X - 3, beta=0.9)
    assert_allclose(other.means_, 10 * one.means_ - 3, rtol=1e-6)
    assert_allclose(other.transform(10 * X - 3), one.transform(X), atol=1e-7)


def test_single_precision_is_kept_and_close(model):
    X, one = model
    other = fitted(X.astype(np.float32), beta=0.9)
    assert other.means_.dtype == other.transform(X).dtype == other.impute(X).dtype == np.float32
    assert_allclose(other.means_, one.means_, atol=1e-4)


# --- verbs ---


def test_shapes_and_names_of_what_is_learned(model):
    X, one = model
    assert one.means_.shape == one.variances_.shape == (Z, D)
    assert_array_equal(one.levels_, [1, 2, 3, 4, 5])
    assert list(one.get_feature_names_out()) == ["aspect0", "aspect1", "aspect2"]
    shares = one.transform(X)
    assert_allclose(shares.sum(axis=1), 1)
    assert_allclose(one.reconstruct(X), shares @ one.means_)
    assert_allclose(one.inverse_transform(shares), shares @ one.means_)
    filled = one.impute(X)
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert_array_equal(filled[np.isnan(X)], one.reconstruct(X)[np.isnan(X)])
    assert_allclose(one.transform(np.full((1, D), np.nan)), 1 / Z)
    assert np.isfinite(one.score_samples(X)).all()
    assert np.isfinite(one.bic(X))


def test_intervals_cover_ratings_they_have_not_seen():
    cells = ObservedCells(drawn(7, n=300)[0])
    train, test = next(CellKFold(5, random_state=0).split(cells))
    one = fitted(cells[train])
    lower, upper = one.predict_interval(cells[train])
    at = cells[test].rows, cells[test].columns
    inside = (lower[at] <= cells[test].values) & (cells[test].values <= upper[at])
    assert inside.mean() > 0.87
    assert set(np.unique(upper)) <= set(one.levels_)


def test_cells_have_the_probabilities_of_the_mixture(model):
    X, one = model
    rows, columns = np.repeat([0, 3], 5), np.repeat([2, 7], 5)
    X = X.copy()
    X[rows, columns] = np.nan
    found = one.score_cells(X, rows, columns, np.tile(one.levels_, 2)).reshape(2, 5)
    assert_allclose(np.exp(found).sum(axis=1), 1)
    expected = np.exp(found) @ one.levels_
    assert_allclose(expected, one.reconstruct(X)[[0, 3], [2, 7]])


def test_densities_of_numbers_integrate_to_one():
    X = np.random.default_rng(0).normal(size=(60, 5))
    one = fitted(X, n_aspects=2)
    assert len(one.levels_) == 64
    grid = np.linspace(X.min(), X.max(), 4001)
    density = np.exp(one.score_cells(X, np.zeros(4001, int), np.zeros(4001, int), grid))
    assert_allclose(np.trapezoid(density, grid), 1, atol=0.03)
    rescaled = fitted(100 * X, n_aspects=2)
    assert_allclose(
        rescaled.score_samples(100 * X), one.score_samples(X) - 5 * np.log(100), rtol=1e-6
    )


def test_samples_have_the_moments_of_the_model(model):
    _, one = model
    rows, shares = one.sample(4000, random_state=0)
    assert_allclose(shares.sum(axis=1), 1)
    assert_allclose(rows.mean(axis=0), shares.mean(axis=0) @ one.means_, atol=0.1)
    assert_array_equal(one.sample(3, random_state=1)[0], one.sample(3, random_state=1)[0])


def test_a_search_over_held_out_cells():
    X, _, _ = drawn(n=250)
    search = GridSearchCV(
        AspectModel(random_state=0), {"n_aspects": [1, 3]}, cv=CellKFold(3, random_state=0),
        error_score="raise",
    )  # fmt: skip
    assert search.fit(ObservedCells(as_sparse(X))).best_params_ == {"n_aspects": 3}


def test_a_file_gives_the_model_back(model, tmp_path):
    X, one = model
    one.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert again.get_params() == one.get_params()
    for name in ("means_", "variances_", "levels_", "beta_", "lower_bounds_", "converged_"):
        assert_array_equal(getattr(again, name), getattr(one, name))
    assert_array_equal(again.transform(X), one.transform(X))
    assert_array_equal(again.score_samples(X), one.score_samples(X))


def test_a_stronger_prior_draws_aspects_together():
    X, _, _ = drawn(n=100)
    weak, strong = fitted(X, beta=1.0), fitted(X, beta=1.0, prior=Prior(counts=50.0))
    assert strong.means_.std(axis=0).mean() < 0.5 * weak.means_.std(axis=0).mean()


# --- edges ---


def test_odd_tables():
    with pytest.warns(UserWarning, match="1 of 3 columns have no observed value"):
        one = AspectModel(2, random_state=0).fit([[1, 2, np.nan], [3, 3, np.nan], [1, 3, np.nan]])
    assert np.isfinite(one.impute([[1, np.nan, np.nan]])).all()
    alike = fitted(np.full((20, 4), 3.0))
    assert_allclose(alike.reconstruct(np.full((2, 4), 3.0)), 3)
    yes_or_no = fitted((np.random.default_rng(0).random((60, 8)) < 0.3).astype(float))
    assert_allclose(yes_or_no.reconstruct(np.full((1, 8), np.nan)).mean(), 0.3, atol=0.15)
    single = fitted(np.array([[1.0, 5.0, 3.0]]), n_aspects=2)
    assert np.isfinite(single.lower_bound_)


def test_what_it_refuses(model):
    X, one = model
    with pytest.raises(ValueError, match="'n_aspects' parameter"):
        AspectModel(0).fit(X)
    with pytest.raises(ValueError, match="'beta' parameter"):
        AspectModel(beta=1.5).fit(X)
    with pytest.raises(ValueError, match="contains infinity"):
        AspectModel().fit([[1.0, np.inf], [0, 1]])
    with pytest.raises(ValueError, match=r"inverse_transform needs \(n, 3\)"):
        one.inverse_transform(np.ones((2, 5)))
    with pytest.raises(ValueError, match="n_samples=0"):
        one.sample(0)
    with pytest.raises(NotFittedError):
        AspectModel().transform(X)


def test_it_says_when_steps_or_time_ran_out():
    X, _, _ = drawn(n=100)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        AspectModel(2, beta=1.0, max_iter=1, tol=0.0, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        AspectModel(2, max_time=1e-9, random_state=0).fit(X)
