"""BayesianPCA and BayesianPCAMixture: sizes, special cases, verbs, files and refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special, stats
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import partwise
from partwise import BayesianPCA, BayesianPCAMixture
from partwise.data import BlockSource, learn_columns
from partwise.data.additive import AdditiveRows
from partwise.fitted import fitted_of
from partwise.fitting.class_calibration import Asked, LeftOut, Level, fit_slope
from tests.common.helpers import assert_never_falls, punch_holes
from tests.common.manifolds import embedded, gaussian, near_curve, near_sphere


@pytest.fixture(scope="module")
def curve():
    X = near_curve(400, np.random.default_rng(0))
    return X, BayesianPCAMixture(random_state=0).fit(X)


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(0)
    X = np.concatenate([near_curve(120, rng), near_curve(80, rng) + np.array([0.0, 1.0])])
    y = np.repeat(["low", "up"], [120, 80])
    return X, y, BayesianPCAMixture(4, random_state=0).fit(X, y)


def corrected(pca, n_rows):
    """scikit-learn's PCA with the variances of maximum likelihood: n in place of n - 1."""
    pca.explained_variance_ = pca.explained_variance_ * (n_rows - 1) / n_rows
    pca.noise_variance_ = pca.noise_variance_ * (n_rows - 1) / n_rows
    return pca


# --- sizes ---


@pytest.mark.parametrize("seed", range(5))
def test_three_of_ten_directions(seed):
    model = BayesianPCA().fit(gaussian(np.random.default_rng(seed)))
    assert model.effective_dimension_ == 3
    assert model.components_.shape[1] == 10
    assert_allclose(model.noise_variance_, 0.25, rtol=0.1)


def test_a_curve_has_one_dimension_wherever_it_lies():
    rng = np.random.default_rng(0)
    model = BayesianPCAMixture(random_state=0).fit(embedded(near_curve(400, rng), rng))
    assert model.effective_dimension_ == 1
    assert 3 <= model.n_components_ <= 16


def test_a_sphere_has_two_dimensions():
    X = near_sphere(600, np.random.default_rng(0))
    model = BayesianPCAMixture(random_state=0).fit(X)
    assert model.effective_dimension_ == 2
    assert 6 <= model.n_components_ <= 30


def test_a_flat_cloud_needs_one_component():
    X = gaussian(np.random.default_rng(0))
    model = BayesianPCAMixture(random_state=0).fit(X)
    assert model.n_components_ == 1
    assert model.effective_dimension_ == 3


def line_and_box(seed, sizes=(1, 5)):
    """Two far groups of rows in 30 columns that vary in as many directions as given."""
    rng = np.random.default_rng(seed)
    groups = []
    for k, q in enumerate(sizes):
        turn = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        rows = 2.0 * rng.normal(size=(150, q)) @ turn[:q]
        groups.append(rows + 12.0 * k * turn[-1] + 0.3 * rng.normal(size=(150, 30)))
    return np.concatenate(groups)


@pytest.mark.parametrize("relevance", ["component", "auto"])
def test_components_of_different_dimensions(relevance, tmp_path):
    X = line_and_box(0)
    model = BayesianPCAMixture(relevance=relevance, random_state=0).fit(X)
    assert model.relevance_ == "component"
    assert sorted(model.component_dimensions_) == [1, 5]
    assert model.relevances_.shape == model.components_.shape[:2]
    assert_never_falls(model.lower_bounds_)
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert_array_equal(again.relevances_, model.relevances_)
    assert BayesianPCAMixture(random_state=0).fit(X).relevance_ == "shared"


def test_components_of_one_dimension_share_relevances():
    X = line_and_box(1, (2, 2))
    model = BayesianPCAMixture(2, relevance="auto", random_state=0).fit(X)
    shared = BayesianPCAMixture(2, random_state=0).fit(X)
    assert model.relevance_ == "shared"
    assert_allclose(model.lower_bound_, shared.lower_bound_, rtol=1e-6)


def test_relevances_of_classes(classes):
    X, y, _ = classes
    model = BayesianPCAMixture(2, relevance="component", random_state=0).fit(X, y)
    assert model.relevance_ == ["component", "component"]
    assert len(model.relevances_) == len(model.component_classes_) == 4
    assert np.mean(model.predict(X) == y) > 0.6


def test_moves_and_sizes_are_told(curve):
    _, model = curve
    assert {move["kind"] for move in model.moves_} <= {"birth", "death", "split", "merge"}
    assert all(move["gain"] > 0 for move in model.moves_ if move["accepted"])
    assert any(not move["accepted"] for move in model.moves_)
    assert model.effective_dimension_ == 1
    p = model.n_components_posterior_
    assert_allclose(p.sum(), 1.0)
    assert p.argmax() == model.n_components_
    assert model.weights_.shape == (model.n_components_,)
    assert_allclose(model.weights_.sum(), 1.0)


# --- special cases ---


@pytest.mark.parametrize("q", [1, 3, 6])
def test_maximum_likelihood_is_probabilistic_pca(q):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 7)) @ rng.normal(size=(7, 7)) + 3
    model = BayesianPCA(q, relevance=False, prior=None).fit(X)
    pca = corrected(PCA(q).fit(X), len(X))
    assert_allclose(model.score_samples(X), pca.score_samples(X), rtol=1e-8)
    assert_allclose(model.noise_variance_, pca.noise_variance_, rtol=1e-8)


def test_maximum_likelihood_where_columns_outnumber_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 40))
    model = BayesianPCA(5, relevance=False, prior=None).fit(X)
    pca = corrected(PCA(5, svd_solver="full").fit(X), len(X))
    # scikit-learn's noise is the mean over the 7 other singular values, not all 35 directions.
    pca.noise_variance_ *= 7 / 35
    assert_allclose(model.score_samples(X), pca.score_samples(X), rtol=1e-7)


def test_the_posterior_approaches_maximum_likelihood():
    rng = np.random.default_rng(0)
    X = gaussian(rng, 3000)
    pca = corrected(PCA(3).fit(X), len(X))
    gap = pca.score_samples(X) - BayesianPCA(3, relevance=False).fit(X).score_samples(X)
    assert abs(gap.mean()) < 0.02


def test_one_component_is_bayesian_pca():
    X = gaussian(np.random.default_rng(1))
    one = BayesianPCA(tol=1e-8).fit(X)
    mixture = BayesianPCAMixture(1, tol=1e-8).fit(X)
    assert_allclose(mixture.score_samples(X), one.score_samples(X), rtol=1e-4)
    assert mixture.effective_dimension_ == one.effective_dimension_


@pytest.mark.parametrize("kind", [BayesianPCA, BayesianPCAMixture])
def test_neither_units_nor_origin_matter(kind):
    X = gaussian(np.random.default_rng(0), 120)
    plain = kind(random_state=0).fit(X)
    moved = kind(random_state=0).fit(1e4 * X - 1e5)
    assert moved.effective_dimension_ == plain.effective_dimension_
    shift = 10 * np.log(1e4)
    assert_allclose(moved.score_samples(1e4 * X - 1e5), plain.score_samples(X) - shift, rtol=1e-6)


@pytest.mark.parametrize("prior", ["conjugate", 0.1, None])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_bound_never_falls(prior, missing):
    X = punch_holes(gaussian(np.random.default_rng(0), 80), missing, np.random.default_rng(1))
    for model in (BayesianPCA(prior=prior), BayesianPCAMixture(3, prior=prior, random_state=0)):
        model.set_params(tol=0.0, max_iter=25)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X)
        assert_never_falls(model.lower_bounds_)


def test_weights_are_repetitions():
    X = gaussian(np.random.default_rng(0), 60)
    weight = np.arange(60) % 3
    twice = BayesianPCA().fit(np.repeat(X, weight, axis=0))
    weighted = BayesianPCA().fit(X, sample_weight=weight)
    assert_allclose(weighted.score_samples(X), twice.score_samples(X), rtol=1e-6)


@pytest.mark.parametrize("estimator", [BayesianPCA(), BayesianPCAMixture(1, random_state=0)])
def test_intervals_are_calibrated_on_weighted_rows(estimator):
    """Rows with far entries count three times, so intervals that ignore weights are too narrow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1)) + 0.5 * rng.standard_t(3, size=(1000, 3))
    weight = np.where(np.abs(X).max(axis=1) > 1.5, 3, 1)
    hidden = np.where(np.arange(3) == 1, np.nan, X)

    def width(fitted):
        lower, upper = fitted.predict_interval(hidden)
        return (upper - lower)[:, 1].mean()

    weighted = width(clone(estimator).fit(X, sample_weight=weight))
    assert weighted == pytest.approx(width(estimator.fit(np.repeat(X, weight, axis=0))), rel=0.05)


# --- density ---


def test_densities_integrate_to_one(curve):
    _, model = curve
    x, y = np.linspace(-8, 8, 321), np.linspace(-8, 8, 321)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    total = np.exp(model.score_samples(grid)).sum() * (x[1] - x[0]) ** 2
    assert_allclose(total, 1.0, atol=1e-3)


def test_the_density_is_that_of_its_covariance():
    X = gaussian(np.random.default_rng(0), 2000)
    model = BayesianPCA(3, relevance=False, prior=None).fit(X)
    cov = model.components_.T @ model.components_ + model.noise_variance_ * np.eye(10)
    exact = stats.multivariate_normal(model.mean_, cov)
    assert_allclose(model.score_samples(X[:9]), exact.logpdf(X[:9]), rtol=1e-9)
    row = X[:1].copy()
    row[0, 3:] = np.nan
    shown = stats.multivariate_normal(model.mean_[:3], cov[:3, :3])
    assert_allclose(model.score_samples(row), shown.logpdf(X[0, :3]), rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_whose_squares_are_no_numbers_do_no_harm(unit):
    X = gaussian(np.random.default_rng(0), 120)
    for kind in (BayesianPCA, BayesianPCAMixture):
        plain, moved = (kind(random_state=0).fit(s * X) for s in (1.0, unit))
        shift = 10 * np.log(unit)
        assert_allclose(moved.score_samples(unit * X), plain.score_samples(X) - shift, rtol=1e-6)


def test_classes_keep_to_the_time_given():
    """When time is up, one level of the noise is looked at."""
    X = gaussian(np.random.default_rng(0), 60)
    with pytest.warns(ConvergenceWarning, match="reached max_time"):
        model = BayesianPCAMixture(random_state=0, max_time=1e-9).fit(X, X[:, 0] > 0)
    assert model.class_noise_variances_.shape == (1, 2)


@pytest.mark.parametrize(("n_rows", "n_folds"), [(100, 5), (400, 2), (2000, 1)])
def test_rows_that_select_the_noise_are_never_fitted(n_rows, n_folds, monkeypatch):
    X, parts = np.arange(2.0 * n_rows).reshape(-1, 2), np.split(np.arange(n_rows), 2)
    (group,) = learn_columns(X, "gaussian", np.ones(n_rows), False, None)

    def source(Z):
        return BlockSource(Z, (group,), np.ones(len(Z)), n_powers=2)

    left = LeftOut(source, X, np.ones(n_rows), parts, np.full(2, 0.5))
    left.cut(np.random.default_rng(0))
    fitted = []

    def told(self, f, rows, level, fit_all):
        fitted.append((level, f))
        (seen,) = fit_all(level, [part[self.fold[part] != f] for part in self.parts])
        assert not np.isin(rows, seen).any()
        assert len(rows) + len(seen) == n_rows
        # Rows on the wrong side are fewest at a noise of 0.08, and with 8 components.
        wrong = rows % 20 < 3 + round(abs(np.log2(level.noise / 0.08))) - (level.n_components == 8)
        side = np.where((rows < n_rows / 2) ^ wrong, 1.0, -1.0) / level.noise
        return np.stack([side, -side])

    def chosen(asked):
        return left.choose(lambda _, rest: [np.concatenate(rest)], asked, np.inf)

    monkeypatch.setattr(LeftOut, "_held_out", told)
    by_bound = chosen(Asked(learned=False, sizes=False, pooled=True))
    assert len(fitted) == len(set(fitted)) == 7 * n_folds
    assert by_bound.levels == (Level(0.08), Level(0.04), Level(0.16))
    # Every level has the slope that is the best for it alone, times what they have in common.
    rows = np.flatnonzero(left.fold < n_folds)
    rest, labels = np.setdiff1d(np.arange(n_rows), rows), (rows >= n_rows / 2).astype(int)
    alone = [
        fit_slope(told(left, 0, rows, level, lambda *_: [rest]), labels, np.ones(len(rows)))[1]
        for level in by_bound.levels
    ]
    assert_allclose(by_bound.slopes / alone, by_bound.slopes[0] / alone[0], rtol=1e-2)
    by_classes = chosen(Asked(learned=False, sizes=True, pooled=False))
    enough = n_rows >= 160  # ten in each class for every component
    assert by_classes.levels == (Level(0.08, 8 if enough else None),)


def test_the_slope_maximizes_the_probability_of_labels():
    rng = np.random.default_rng(0)
    labels, weight = rng.integers(3, size=200), rng.uniform(1, 2, 200)
    joint = 5.0 * rng.normal(size=(3, 200)) + 4.0 * (np.arange(3)[:, None] == labels)

    def loss(slope):
        return -weight @ special.log_softmax(slope * joint, axis=0)[labels, np.arange(200)]

    found, slope = fit_slope(joint, labels, weight)
    grid = [loss(s) for s in np.linspace(0.01, 1.0, 1000)]
    assert found == pytest.approx(min(grid), rel=1e-5)
    assert loss(slope) == pytest.approx(found)


@pytest.mark.ci
def test_classes_are_pooled_over_levels_of_noise(classes, tmp_path):
    X, y, model = classes
    noises = model.class_noise_variances_
    assert_allclose(noises[0], model.noise_variance_)
    assert_allclose(noises[1:] / noises[0], [[0.5] * 2, [2.0] * 2], rtol=0.01)
    best = BayesianPCAMixture(4, class_noise="best", random_state=0).fit(X, y)
    assert_allclose(best.class_noise_variances_, noises[:1])
    # The probabilities, by each level's own densities.
    fitted = fitted_of(model)
    joint = (np.log(model.class_priors_) + fitted.offsets)[:, None]
    (group,) = fitted.columns
    Z = AdditiveRows(group.encode(X, np.arange(2)).T, None)
    for slope, every in fitted.levels:
        density = [fitted.model.predictive(params, Z)[0].log_z for params in every]
        joint = joint + slope * np.stack(density)
    assert_allclose(model.predict_proba(X), special.softmax(joint, axis=0).T, rtol=1e-9)
    path = tmp_path / "model"
    model.save(path)
    again = partwise.load(path)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.class_noise_variances_, noises)


def test_classes_to_draw_are_one_or_one_a_row(classes):
    _, _, model = classes
    assert_array_equal(model.sample(2, classes=["up", "low"])[1], ["up", "low"])
    with pytest.raises(ValueError, match="must be one class or 3, one per row"):
        model.sample(3, classes=["up", "low"])


def test_a_component_not_seen_yet_has_its_share_of_the_density():
    X = gaussian(np.random.default_rng(0), 200)
    model = BayesianPCA(3).fit(X)
    psi = fitted_of(model).model.predictive(
        fitted_of(model).params[0], AdditiveRows(np.zeros((10, 1)), None)
    )[1][0]
    unit = np.sqrt(X.var(axis=0).mean())
    cov = model.components_.T @ model.components_ + np.diag(psi) * unit**2
    rows = np.vstack([X[:9], X[:9] + 20 * unit])
    rows[:, 7] = np.nan  # takes part in neither
    seen = np.arange(10) != 7
    own = stats.multivariate_normal(model.mean_[seen], cov[seen][:, seen])
    unseen = stats.multivariate_normal(X.mean(axis=0)[seen], unit**2 * np.eye(9))
    both = np.stack([own.logpdf(rows[:, seen]), unseen.logpdf(rows[:, seen])])
    share = 1 / (200 + 2)  # one count of each component's, and one of its own
    expected = special.logsumexp(both + np.log([[1 - share], [share]]), axis=0)
    assert_allclose(model.score_samples(rows), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [BayesianPCA, BayesianPCAMixture])
def test_still_columns_leave_densities_of_new_rows_sane(kind):
    """Most columns never vary, or in one row; a new row that differs there is rare, no more."""
    rng = np.random.default_rng(0)
    X = np.zeros((300, 24))
    X[:, :6] = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(300, 6))
    X[7, 6:9] = 1e-3
    model = kind(random_state=0).fit(X)
    new = X[:20].copy()
    usual = model.score_samples(new)
    new[0, 12:] = 2.0 * X.std(axis=0).max()
    density = model.score_samples(new)
    assert_allclose(density[1:], usual[1:])
    # About what the row would have under a Gaussian of the data's variance: no millions.
    unit = np.sqrt(X.var(axis=0).mean())
    broad = stats.norm.logpdf(new[0], X.mean(axis=0), unit).sum()
    assert_allclose(density[0], broad - np.log(300), atol=0.1)


def test_missing_entries_are_filled_as_by_the_gaussian():
    X = gaussian(np.random.default_rng(0), 2000)
    model = BayesianPCA(3, relevance=False, prior=None).fit(X)
    cov = model.components_.T @ model.components_ + model.noise_variance_ * np.eye(10)
    row = X[:1].copy()
    row[0, 6:] = np.nan
    slope = cov[6:, :6] @ np.linalg.inv(cov[:6, :6])
    expected = model.mean_[6:] + slope @ (X[0, :6] - model.mean_[:6])
    assert_allclose(model.impute(row)[0, 6:], expected, rtol=1e-6, atol=1e-8)
    assert_array_equal(model.impute(row)[0, :6], X[0, :6])


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_intervals_cover(missing):
    rng = np.random.default_rng(0)
    X, new = gaussian(rng, 400), gaussian(np.random.default_rng(0), 800)[400:]
    turn = np.linalg.svd(rng.normal(size=(10, 10)))[0]
    X, new = (X**3) @ turn, (new**3) @ turn  # heavy tails: not the model's own
    model = BayesianPCA().fit(punch_holes(X, missing, rng))
    holed = punch_holes(new, 0.3, rng)
    lower, upper = model.predict_interval(holed, 0.9)
    hidden = np.isnan(holed)
    assert 0.85 < np.mean((lower < new) & (new < upper), where=hidden) < 0.95


def test_intervals_cover_where_components_are_far_apart():
    # Thin pieces: under most of them a row has a density that no number can hold.
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 1.5 * np.pi, 600)
    X = 20 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.1 * rng.normal(size=(600, 2))
    model = BayesianPCAMixture(8, random_state=0).fit(X[:300])
    holed = X[300:].copy()
    holed[:, 1] = np.nan
    for coverage in (0.5, 0.9):
        lower, upper = model.predict_interval(holed, coverage)
        inside = (lower[:, 1] <= X[300:, 1]) & (X[300:, 1] <= upper[:, 1])
        assert abs(inside.mean() - coverage) < 0.1


def test_imputation_beats_the_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 12)) + 0.1 * rng.normal(size=(200, 12))
    holed = punch_holes(X, 0.3, rng)
    model = BayesianPCA().fit(holed)
    assert model.effective_dimension_ == 2
    hidden = np.isnan(holed)
    assert np.sqrt(np.mean((model.impute(holed) - X)[hidden] ** 2)) < 0.15


def test_a_mixture_learns_from_rows_with_holes():
    rng = np.random.default_rng(0)
    X = near_curve(250, rng)
    holed = punch_holes(X, 0.15, rng)
    holed = np.where(np.isnan(holed).all(axis=1, keepdims=True), X, holed)
    model = BayesianPCAMixture(random_state=0).fit(holed)
    assert model.n_components_ > 2
    flat = BayesianPCA().fit(holed)
    assert model.score(X) > flat.score(X) + 0.3


# --- verbs ---


@pytest.mark.parametrize("kind", [BayesianPCA, BayesianPCAMixture])
def test_verbs_fit_together(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = near_curve(150, rng)
    model = kind(random_state=0).fit(X)
    codes = model.transform(X)
    assert codes.shape == (150, len(model.get_feature_names_out()))
    assert_allclose(model.inverse_transform(codes), model.reconstruct(X), rtol=1e-9)
    rows, _ = model.sample(500, random_state=0)
    assert abs(np.mean(rows[:, 0])) < 0.5
    assert_allclose(rows.std(axis=0), X.std(axis=0), rtol=0.3)
    assert np.isfinite(model.bic(X))
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = partwise.load(path)
    holed = X.copy()
    holed[::2, 1] = np.nan
    for verb in ("transform", "score_samples", "impute", "reconstruct"):
        assert_array_equal(getattr(again, verb)(holed), getattr(model, verb)(holed))
    assert_array_equal(again.predict_interval(holed), model.predict_interval(holed))
    assert again.effective_dimension_ == model.effective_dimension_


def test_components_and_their_positions_rebuild_rows(curve):
    X, model = curve
    r = model.responsibilities(X)
    assert_allclose(r.sum(axis=1), 1.0)
    assert np.sqrt(np.mean((model.reconstruct(X) - X) ** 2)) < 0.1
    assert model.means_.shape == (model.n_components_, 2)


def test_same_seed_same_model():
    X = near_curve(150, np.random.default_rng(0))
    a, b = (BayesianPCAMixture(random_state=3).fit(X) for _ in range(2))
    assert_array_equal(a.score_samples(X), b.score_samples(X))


def test_single_precision_comes_back():
    X = gaussian(np.random.default_rng(0)).astype(np.float32)
    model = BayesianPCA().fit(X)
    assert model.transform(X).dtype == model.components_.dtype == np.float32
    assert model.effective_dimension_ == 3


# --- classes ---


def test_classes_are_told_apart(classes, tmp_path):
    X, y, model = classes
    assert (model.predict(X) == y).mean() > 0.9
    probability = model.predict_proba(X)
    assert_allclose(probability.sum(axis=1), 1.0)
    assert_allclose(model.class_priors_, [0.6, 0.4])
    assert_array_equal(np.unique(model.component_classes_), ["low", "up"])
    assert model.effective_dimension_.shape == (2,)
    _, labels = model.sample(20, random_state=0)
    assert set(labels) <= {"low", "up"}
    rows, labels = model.sample(50, classes="up", random_state=0)
    assert (labels == "up").all()
    assert rows[:, 1].mean() > 0.5
    model.save(tmp_path / "classes.safetensors")
    again = partwise.load(tmp_path / "classes.safetensors")
    assert_array_equal(again.predict_proba(X), probability)


def test_probabilities_are_less_sure_than_densities():
    """Heavy tails, which Gaussians take for certainty: left-out rows say what that is worth."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=800)
    X = rng.standard_t(2, size=(800, 8))
    X[:, 0] += 2 * y
    model = BayesianPCAMixture(1, random_state=0).fit(X[:400], y[:400])
    log_p = np.log(model.predict_proba(X[400:]))[np.arange(400), y[400:]]
    density = model._likelihoods(X[400:], 0).log_likelihood + np.log(model.class_priors_)[:, None]
    plain = special.log_softmax(density, axis=0)[y[400:], np.arange(400)]
    assert log_p.mean() > max(plain.mean(), np.log(0.45))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The fit did not converge")
def test_components_that_no_row_would_belong_to_are_not_tried():
    X, y = load_digits(return_X_y=True)
    for c in range(10):
        own = X[:200][y[:200] == c]  # few rows
        assert np.isfinite(BayesianPCAMixture(random_state=0).fit(own).score(own))


@pytest.mark.ci
def test_unlabelled_rows_take_no_part(classes):
    X, y, model = classes
    more = np.concatenate([X, np.full((5, 2), 50.0)])
    labels = np.append(y.astype(object), [None] * 5)
    again = BayesianPCAMixture(4, random_state=0).fit(more, labels)
    assert again.effective_dimension_.shape == model.effective_dimension_.shape
    assert (again.predict(X) == y).mean() > 0.9


def test_a_target_of_fractions_is_no_class():
    X = near_curve(60, np.random.default_rng(0))
    model = BayesianPCAMixture(2, random_state=0).fit(X, X[:, 0] + 0.5)
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "predict")


# --- bad input ---


def test_refusals():
    X = gaussian(np.random.default_rng(0), 30)
    with pytest.raises(ValueError, match="at least 2 rows"):
        BayesianPCA().fit(X[:1])
    with pytest.raises(ValueError, match="at least 2 columns"):
        BayesianPCAMixture().fit(X[:, :1])
    with pytest.raises(ValueError, match="max_components=10 must be at most 9"):
        BayesianPCA(10).fit(X)
    with pytest.raises(ValueError, match="max_dimension=10 must be at most 9"):
        BayesianPCAMixture(max_dimension=10).fit(X)
    with pytest.raises(ValueError, match="likelihood always increases"):
        BayesianPCAMixture(prior=None).fit(X)
    with pytest.raises(ValueError, match="n_components=31 exceeds n_samples=30"):
        BayesianPCAMixture(31).fit(X)
    with pytest.raises(TypeError, match="does not support sparse X"):
        BayesianPCA().fit(sparse.csr_array(X))
    with pytest.raises(ValueError, match="infinity"):
        BayesianPCA().fit(np.where(X > 1, np.inf, X))
    y = np.repeat([0, 1], 15)
    with pytest.raises(ValueError, match="All rows of class 1 have weight 0"):
        BayesianPCAMixture().fit(X, y, sample_weight=1.0 - y)
    with pytest.raises(NotFittedError):
        BayesianPCA().transform(X)
    model = BayesianPCA().fit(X)
    with pytest.raises(ValueError, match="a column for every factor"):
        model.inverse_transform(X)
    with pytest.raises(ValueError, match="n_samples=0"):
        model.sample(0)


@pytest.mark.parametrize("kind", [BayesianPCA, BayesianPCAMixture])
def test_columns_that_say_nothing(kind):
    rng = np.random.default_rng(0)
    X = near_curve(150, rng)
    X = np.column_stack([X, np.full(150, 7.0), X[:, 0]])  # constant, duplicated
    model = kind(random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()
    assert_allclose(model.reconstruct(X)[:, 2], 7.0, atol=0.05)
    empty = np.column_stack([X, np.full(150, np.nan)])
    with pytest.warns(UserWarning, match="no observed value"):
        model = kind(random_state=0).fit(empty)
    assert np.isfinite(model.impute(empty)).all()
    same = np.ones((20, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = kind(random_state=0).fit(same)
    assert_allclose(model.reconstruct(same), 1.0, atol=1e-3)


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 120)) + 0.3 * rng.normal(size=(40, 120))
    model = BayesianPCA().fit(X)
    assert model.effective_dimension_ == 3
    assert BayesianPCAMixture(random_state=0).fit(X).effective_dimension_ == 3


@pytest.mark.slow
@pytest.mark.parametrize("make", [near_curve, near_sphere])
def test_the_papers_figure_4(make):
    """At least nine of ten seeds, in the plane (or space) and turned into 20 dimensions."""
    dimension = {near_curve: 1, near_sphere: 2}[make]
    n_rows = {near_curve: 400, near_sphere: 1000}[make]
    right = np.zeros(2, int)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = make(n_rows, rng)
        for i, rows in enumerate((X, embedded(X, rng))):
            model = BayesianPCAMixture(random_state=seed).fit(rows)
            right[i] += model.effective_dimension_ == dimension
    assert right.min() >= 9


# --- what came with leaps ---


@pytest.mark.parametrize("kind", [BayesianPCA, BayesianPCAMixture])
def test_white_noise_of_few_rows_has_no_directions(kind):
    """One direction is always kept, and it is nothing but uncertain."""
    X = np.random.default_rng(1).normal(size=(15, 500))
    model = kind(random_state=0).fit(X)
    assert model.effective_dimension_ == 1
    assert (model.components_**2).sum() < 0.02 * 500
    assert_allclose(model.noise_variance_, 1.0, atol=0.1)


def test_refused_moves_count_where_they_were_evaluated(curve):
    _, model = curve
    p = model.n_components_posterior_
    looked = {move["n_components"] for move in model.moves_}
    assert looked <= set(range(len(p)))
    # One rule: what is made gains in bound plus log M!, and so does its probability.
    assert all((move["gain"] > 0) >= move["accepted"] for move in model.moves_)
    assert p.argmax() == model.n_components_


def test_the_subspace_is_paid_for():
    """With it, one component in a subspace is worth what the analyser of all columns is."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    X = (rng.normal(size=(400, 20)) * np.repeat([3.0, 0.3], [3, 17])) @ turn
    whole = BayesianPCA().fit(X)
    mixture = BayesianPCAMixture(random_state=0).fit(X)
    assert mixture.n_components_ == 1
    assert abs(mixture.lower_bound_ - whole.lower_bound_) < 0.3  # unpaid it would be 0.8 above


@pytest.mark.ci
def test_weights_are_repetitions_of_labelled_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([gaussian(rng, 40), gaussian(rng, 40) + 0.3])
    y, weight = np.repeat([0, 1], 40), np.arange(80) % 3
    times = np.repeat(np.arange(80), weight)
    twice = BayesianPCAMixture(2, random_state=0, tol=1e-8).fit(X[times], y[times])
    weighted = BayesianPCAMixture(2, random_state=0, tol=1e-8).fit(X, y, sample_weight=weight)
    assert_allclose(weighted.predict_proba(X), twice.predict_proba(X), atol=1e-4)


def test_odd_rows_and_why(curve, classes):
    X, model = curve
    scores = model.anomaly_scores(np.vstack([X[:5], [[0.0, 40.0]]]))
    assert scores.shape == (6, 1)
    assert scores[:, 0].argmax() == 5
    told = model.explain(X[0])
    assert_allclose(sum(one["probability"] for one in told), 1.0, atol=0.05)
    best = told[0]
    assert best["component"] == model.responsibilities(X[:1]).argmax()
    rebuilt = (
        model.means_[best["component"]]
        + best["factors"] @ model.components_[best["component"], : len(best["factors"])]
    )
    for column in best["columns"]:
        assert_allclose(
            column["expected"], rebuilt[int(column["column"].removeprefix("x"))], rtol=1e-6
        )
    Z, y, by_class = classes
    assert by_class.explain(Z[0])[0]["class"] == y[0]


def test_nothing_observed_and_no_classes_are_refused():
    X = np.full((5, 3), np.nan)
    for kind in (BayesianPCA, BayesianPCAMixture):
        with pytest.raises(ValueError, match="no observed values"):
            kind().fit(X)
    with pytest.raises(AttributeError) as refused:
        BayesianPCAMixture(1).fit(gaussian(np.random.default_rng(0), 20)).predict(X)
    assert str(refused.value.__cause__) == "The model has no classes; fit with labels."


def test_a_constant_column_near_the_largest_number():
    # What a rounded mean would leave of it is more than all other columns have.
    X = np.random.default_rng(6).normal(size=(10, 8))
    X[:, 7] = 1e300
    weight = np.array([0.0, 0.0, 1.0, 2.5, 0.0, 1.0, 2.5, 1.0, 2.5, 2.5])
    model = BayesianPCAMixture(2, max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, sample_weight=weight)
    assert np.isfinite(model.score_samples(X)).all()
