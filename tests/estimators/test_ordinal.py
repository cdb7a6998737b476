"""MCFA of ordered levels as an estimator: recovery, invariances, verbs, files and refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV

import partwise
from partwise import MCFA, CellKFold, ObservedCells
from partwise.answers import factors
from partwise.data import BlockSource
from partwise.fitted import core_of, fitted_of
from tests.common.factors import drawn_factors, stored
from tests.common.helpers import assert_never_falls, assert_same_outputs

CUTS = np.array([-1.2, -0.4, 0.3, 1.1])


def drawn_levels(seed=0, n_rows=150, n_factors=(1, 1), width=5, missing=0.2, noise=0.4):
    """Levels 1 to 5 of latent numbers, the part of each column, and the factors."""
    rng = np.random.default_rng(seed)
    Z, parts, factors = drawn_factors(
        rng, n_rows, n_factors, width, noise=noise, missing=missing, units=False
    )
    X = 1.0 + (Z[:, :, None] > CUTS).sum(axis=2)
    X[np.isnan(Z)] = np.nan
    return X, parts, factors


def fitted(X, y=None, sample_weight=None, **how):
    how = {"n_parts": 2, "n_factors": 1, "max_iter": 10, "random_state": 0} | how
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MCFA(likelihood="ordinal", **how).fit(X, y, sample_weight)


def labels_for(factors):
    return np.where(factors[0][:, 0] > 0.2, "high", "low")


def outputs(model, X):
    lower, upper = model.predict_interval(X)
    rows, drawn = model.sample(6, random_state=3)
    found = {
        "bounds": model.lower_bounds_, "gates": model.gates_, "parts": model.parts_,
        "loadings": model.loadings_, "offsets": model.offsets_, "noise": model.noise_variance_,
        "transform": model.transform(X), "reconstruct": model.reconstruct(X),
        "impute": model.impute(X), "lower": lower, "upper": upper,
        "score": model.score_samples(X), "anomaly": model.anomaly_scores(X),
        "bic": np.array([model.bic(X)]), "rows": rows, "drawn": drawn, "levels": model.levels_,
    }  # fmt: skip
    if hasattr(model, "classes_"):
        found |= {"probability": model.predict_proba(X), "predict": model.predict(X)}
    return found


@pytest.mark.parametrize("gating", ["annealed", "tied", "standard"])
def test_levels_drawn_from_the_model_recover_its_parts(gating):
    X, parts, factors = drawn_levels(0, 250, (1, 1), 6)
    model = fitted(X, gating=gating, max_iter=60)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    assert_never_falls(model.lower_bounds_)
    s = model.transform(X)
    for k in range(2):
        true = factors[parts[model.parts_ == k][0]][:, 0]
        assert abs(np.corrcoef(true, s[:, k])[0, 1]) > 0.9


def test_latent_numbers_are_told_in_their_own_units():
    """Loadings, offsets and noise up to the sign of a factor: cuts are those of a column's levels.

    The levels divide a standard Gaussian as they occur, so numbers of spread 1 keep their units.
    """
    rng = np.random.default_rng(1)
    loadings = np.array([0.9, 0.8, 0.6, -0.7, 0.85, 0.5])
    noise = 1 - loadings**2
    s = rng.normal(size=4000)
    Z = s[:, None] * loadings + np.sqrt(noise) * rng.normal(size=(4000, 6))
    X = 1.0 + (Z[:, :, None] > CUTS).sum(axis=2)
    model = fitted(X, n_parts=1, max_iter=300)
    found = model.loadings_[0, :, 0]
    assert_allclose(found * np.sign(found[0]), loadings, atol=0.1)
    assert_allclose(model.noise_variance_[0], noise, atol=0.12)
    assert_allclose(model.offsets_[0], 0, atol=0.06)
    assert_allclose(fitted_of(model).columns[0].likelihood.cuts, CUTS, atol=0.06)


def test_held_out_levels_are_predicted_better_than_by_their_columns():
    truth, *_ = drawn_levels(2, 300, (2, 1), 8, missing=0.0)
    holes = np.random.default_rng(3).random(truth.shape) < 0.25
    X = np.where(holes, np.nan, truth)
    model = fitted(X, n_factors=2, max_iter=40)
    median = np.broadcast_to(np.nanmedian(X, axis=0), X.shape)
    error = np.abs(model.impute(X) - truth)[holes].mean()
    assert error < 0.75 * np.abs(median - truth)[holes].mean()
    mean = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    squared = ((model.reconstruct(X) - truth)[holes] ** 2).mean()
    assert squared < 0.6 * ((mean - truth)[holes] ** 2).mean()
    lower, upper = model.predict_interval(X, 0.8)
    inside = ((lower <= truth) & (truth <= upper))[holes].mean()
    assert inside > 0.78  # at least, for levels


@pytest.mark.slow
def test_block_size_and_threads_change_nothing(monkeypatch):
    X, _, factors = drawn_levels(4)
    y = labels_for(factors)
    whole = fitted(X, y, max_iter=6, n_jobs=1)
    expected = outputs(whole, X)
    monkeypatch.setattr(partwise.data.source, "BLOCK_ENTRIES", 1)
    assert BlockSource(X, fitted_of(whole).columns, np.ones(150)).n_blocks == 3
    one = outputs(fitted(X, y, max_iter=6, n_jobs=1), X)
    assert_same_outputs(expected, one, rtol=1e-6)
    assert_same_outputs(one, outputs(fitted(X, y, max_iter=6, n_jobs=2), X), rtol=1e-12)


@pytest.mark.parametrize("gating", ["annealed", pytest.param("standard", marks=pytest.mark.slow)])
def test_dense_as_sparse(gating):
    X, _, factors = drawn_levels(5, 80)
    X[:, 0] -= 1.0  # level 0 is a level
    y = labels_for(factors)
    other = stored(X).tocoo()
    holes = np.argwhere(np.isnan(X))[:3]  # some holes stored as NaN
    other = sparse.csr_array(
        (
            np.append(other.data, [np.nan] * 3),
            (np.append(other.row, holes[:, 0]), np.append(other.col, holes[:, 1])),
        ),
        shape=X.shape,
    )
    a, b = fitted(X, y, gating=gating), fitted(other, y, gating=gating)
    assert_same_outputs(outputs(a, X), outputs(b, other), rtol=1e-6)
    assert_same_outputs(outputs(a, X), outputs(a, other), rtol=1e-6)


def test_weights_are_repetitions():
    X, *_ = drawn_levels(6, 60)
    times = np.random.default_rng(0).integers(0, 4, 60)
    a = fitted(X, sample_weight=times, gating="tied")
    b = fitted(X.repeat(times, axis=0), gating="tied")
    assert_allclose(a.lower_bounds_, b.lower_bounds_, rtol=1e-6)
    assert_allclose(a.transform(X), b.transform(X), atol=1e-5)


def test_single_precision():
    X, *_ = drawn_levels(7)
    a, b = fitted(X), fitted(X.astype(np.float32))
    assert_never_falls(b.lower_bounds_, rtol=1e-5)
    assert_allclose(b.lower_bound_, a.lower_bound_, atol=1e-3)
    assert_allclose(b.transform(X), a.transform(X), atol=0.02)
    for values in (b.transform(X), b.loadings_, b.impute(X), b.sample(2)[0], b.reconstruct(X)):
        assert values.dtype == np.float32


@pytest.mark.parametrize(
    "scale", [[0.5, 1.0, 1.5, 4.0, 9.0], [-3, -1, 0, 7, 8]], ids=["half", "gaps"]
)
def test_names_of_levels_mean_nothing_but_their_order(scale):
    X, *_ = drawn_levels(8)
    renamed = np.full_like(X, np.nan)
    for level, name in enumerate(scale, 1):
        renamed[level == X] = name
    how = {"max_iter": 100, "tol": 1e-7}  # the start looks at the names as numbers
    a, b = fitted(X, **how), fitted(renamed, **how)
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-6)
    assert_allclose(np.abs(a.transform(X)), np.abs(b.transform(renamed)), atol=0.01)
    same = np.array(scale)[a.impute(X).astype(int) - 1] == b.impute(renamed)
    assert same.mean() > 0.99
    assert_array_equal(b.levels_, scale)


def test_reversed_levels_mirror_the_numbers():
    X, *_ = drawn_levels(9)
    a, b = fitted(X, n_parts=1, gating="tied"), fitted(6 - X, n_parts=1, gating="tied")
    assert_allclose(a.offsets_, -b.offsets_, atol=2e-3)
    assert_allclose(a.noise_variance_, b.noise_variance_, atol=2e-3)
    assert_allclose(a.reconstruct(X), 6 - b.reconstruct(6 - X), atol=0.02)


@pytest.mark.ci
def test_classes_are_learned_and_told():
    X, _, factors = drawn_levels(10, 300, (1, 1), 6, noise=0.3)
    truth = np.where(factors[0][:, 0] > 0, "high", "low")
    known = truth.astype(object)
    known[np.random.default_rng(0).random(300) < 0.3] = None
    model = fitted(X, known, max_iter=40)
    assert_never_falls(model.lower_bounds_)
    assert_array_equal(model.classes_, ["high", "low"])
    assert np.mean(model.predict(X) == truth) > 0.85
    probability = model.predict_proba(X)
    assert_allclose(probability.sum(axis=1), 1)
    joint = model.row_likelihood(X).log_likelihood
    assert joint.shape == (300,)
    rows, labels = model.sample(400, classes="low", random_state=0)
    assert np.mean(model.predict(rows) == "low") > 0.8
    assert set(labels) == {"low"}
    assert set(np.unique(rows)) <= set(model.levels_)
    found = fitted(X, n_classes=2, max_iter=10)
    assert found.predict(X).shape == (300,)


@pytest.mark.ci
@pytest.mark.parametrize("classes", [False, True])
def test_files_keep_all_of_it(classes, tmp_path):
    X, _, factors = drawn_levels(11)
    model = fitted(X, labels_for(factors) if classes else None)
    model.save(tmp_path / "m.safetensors")
    again = partwise.load(tmp_path / "m.safetensors")
    assert again.get_params() == model.get_params()
    assert_same_outputs(outputs(model, X), outputs(again, X), rtol=1e-12)
    assert fitted_of(again).columns[0].likelihood == fitted_of(model).columns[0].likelihood


def test_a_warm_start_goes_on():
    X, *_ = drawn_levels(12)
    model = fitted(X, gating="tied", max_iter=3, tol=0.0, warm_start=True)
    first = model.lower_bound_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=30).fit(X)
    assert model.lower_bound_ > first
    assert_never_falls(model.lower_bounds_)


# --- cells ---


def test_a_cell_is_scored_by_its_levels_share():
    """Also against the likelihoods of rows with and without it."""
    X, *_ = drawn_levels(13, 120, (1, 1), 5)
    cells = ObservedCells(X)
    train, test = next(CellKFold(4, random_state=0).split(cells))
    model = fitted(cells[train], max_iter=30)
    table = fitted(cells[train].table(), max_iter=30)
    assert_array_equal(model.lower_bounds_, table.lower_bounds_)
    held = cells[test]
    found = model.score_cells(held.others(), held.rows, held.columns, held.values)
    assert_allclose(model.score(held), found.mean())
    # All levels of a cell have probability 1 together.
    every = sum(
        np.exp(model.score_cells(held.others(), held.rows, held.columns, np.full(len(test), level)))
        for level in model.levels_
    )
    assert_allclose(every, 1)
    shares = model.predict_proba_columns(held.others().table())
    own = [shares[f"x{d}"][row] for row, d in zip(held.rows, held.columns, strict=True)]
    at = np.searchsorted(model.levels_, held.values)
    assert_allclose(np.log(np.stack(own)[np.arange(len(at)), at]), found)
    # By hand: interval of a Gaussian with the row's mean and variance.
    known = fitted_of(model)
    core, theta, group = core_of(known.model, object), known.params, known.columns[0]
    features = factors.features(fitted_of(model), held.others().table()).astype(float)
    for i in range(0, len(test), 7):
        row, d, level = held.rows[i], held.columns[i], int(held.values[i]) - 1
        share = 0.0
        for k, (_, linear, quadratic) in enumerate(core.spans()):
            if theta.gates[k, d] == 0:
                continue
            w, J = theta.loadings[k], core.n_factors[k]
            m = features[linear, row]
            cov = np.zeros((J + 1, J + 1))
            if J:
                cov[0, 0] = features[quadratic, row][0] - m[0] ** 2
            s = np.append(m, 1.0)
            variance = w.noise[d] * (1 + np.sum(w.cov[d] * (np.outer(s, s) + cov)))
            variance += w.mean[d] @ cov @ w.mean[d]
            z = (group.ends[d, level : level + 2] - w.mean[d] @ s) / np.sqrt(variance)
            share += theta.gates[k, d] * np.diff(special.ndtr(z))[0]
        assert_allclose(found[i], np.log(share), rtol=1e-6, atol=1e-8)


def test_a_search_over_cells_chooses_ordered_levels_for_ratings():
    X, *_ = drawn_levels(14, 150, (2, 1), 6)
    ratings = stored(X.astype(np.float32))
    search = GridSearchCV(
        MCFA(n_parts=1, likelihood="ordinal", random_state=0, tol=0.05),
        {"n_factors": [1, 3]}, cv=CellKFold(3, random_state=0), error_score="raise",
    ).fit(ObservedCells(ratings))  # fmt: skip
    assert search.best_params_ == {"n_factors": 3}
    assert search.best_score_ > -np.log(5) + 0.2


# --- explanations, draws ---


def test_samples_have_the_shares_of_levels():
    X, *_ = drawn_levels(15, 400, (1, 1), 4, missing=0.0)
    model = fitted(X, max_iter=40)
    rows, _ = model.sample(20_000, random_state=0)
    for level in model.levels_:
        assert_allclose((rows == level).mean(axis=0), (level == X).mean(axis=0), atol=0.06)
    assert_allclose(np.corrcoef(rows.T), np.corrcoef(X.T), atol=0.15)
    asked = np.tile([1.5, -1.0], (20_000, 1))
    rows, _ = model.sample(20_000, states=asked, random_state=1)
    theta, group = fitted_of(model).params, fitted_of(model).columns[0]
    for d in range(8):
        k = theta.gates[:, d].argmax()
        w = theta.loadings[k]
        mean = w.mean[d] @ [asked[0, k], 1.0]
        z = (group.ends[d] - mean) / np.sqrt(w.noise[d])
        shares = np.diff(special.ndtr(z))
        counts = [(rows[:, d] == level).mean() for level in model.levels_]
        assert_allclose(counts, shares, atol=0.02)


def test_explanations_name_levels():
    X, *_ = drawn_levels(16)
    model = fitted(X, max_iter=30)
    told = model.explain(X[0])
    assert_allclose([part["factors"][0] for part in told], model.transform(X[:1])[0])
    for k, part in enumerate(told):
        assert_allclose(part["log_likelihood"], -model.anomaly_scores(X[:1])[0, k])
        for column in part["columns"]:
            assert column["value"] in model.levels_
            assert 1 <= column["expected"] <= 5
            assert model.parts_[int(column["column"].removeprefix("x"))] == k
    assert_allclose(
        -model.anomaly_scores(X).sum(axis=1), model.score_samples(X), atol=0.5
    )  # both are drawn


# --- bad input ---


def test_impossible_pairings_are_refused():
    X, *_ = drawn_levels(17, 30)
    with pytest.raises(ValueError, match=r'likelihood="ordinal" does not support gating="factoris'):
        MCFA(2, 1, likelihood="ordinal", gating="factorised").fit(X)
    with pytest.raises(
        ValueError, match=r'likelihood="ordinal" does not support sparse_absent="zero"'
    ):
        MCFA(2, 1, likelihood="ordinal", sparse_absent="zero").fit(
            sparse.csr_array(np.nan_to_num(X))
        )
    numbers = np.random.default_rng(0).normal(size=(60, 6))
    with pytest.raises(
        ValueError, match=r'360 different values, too many for likelihood="ordinal"'
    ):
        MCFA(2, 1, likelihood="ordinal").fit(numbers)
    with pytest.raises(ValueError, match="likelihood"):
        MCFA(2, 1, likelihood="ordered").fit(X)
    model = fitted(X)
    with pytest.raises(ValueError, match="has the category 9, which was not seen in fit"):
        model.transform(np.full((1, 10), 9.0))


def test_odd_tables():
    """One level, an empty column, an empty row, two rows."""
    rng = np.random.default_rng(18)
    X = rng.integers(1, 4, (30, 4)).astype(float)
    X[3] = np.nan
    X[:, 2] = np.nan
    with pytest.warns(UserWarning, match="1 of 4 columns have no observed value"):
        model = fitted(X, n_parts=1)
    assert np.isfinite(model.lower_bounds_).all()
    assert np.isfinite(model.impute(X)).all()
    assert_array_equal(model.transform(X)[3], 0)
    assert model.score_samples(X)[3] == 0
    constant = fitted(np.full((10, 3), 4.0), n_parts=1)
    assert_array_equal(constant.impute(np.full((2, 3), np.nan)), np.full((2, 3), 4.0))
    few = fitted(np.array([[1.0, 2.0], [2.0, 1.0]]), n_parts=1)
    assert np.isfinite(few.lower_bounds_).all()


def test_very_many_levels():
    rng = np.random.default_rng(19)
    Z = rng.normal(size=(300, 1)) * [1, 1, -1, 1] + 0.5 * rng.normal(size=(300, 4))
    X = np.round(np.exp(1.2 * Z) * 8).clip(0, 200)
    model = fitted(X, n_parts=1, max_iter=20)
    assert len(model.levels_) > 50
    assert_never_falls(model.lower_bounds_)
    assert np.isfinite(model.reconstruct(X)).all()


def test_rows_of_factors_are_expected_levels():
    """Of factors as if known: by drawing entries around what the loadings give."""
    X = np.random.default_rng(3).integers(1, 6, (200, 6)).astype(float)
    X[:, 1:3] = X[:, :1]
    model = MCFA(1, 1, likelihood="ordinal", random_state=0).fit(X)
    rows = model.inverse_transform([[-1.5], [0.0], [1.5]])
    drawn, _ = model.sample(
        40_000,
        states=np.repeat([[-1.5], [0.0], [1.5]], 40_000 // 3 + 1, 0)[:40_000],
        random_state=0,
    )
    means = [
        drawn[i * (40_000 // 3 + 1) : (i + 1) * (40_000 // 3 + 1)].mean(axis=0) for i in range(3)
    ]
    assert np.abs(rows - means).max() < 0.1
    assert np.ptp(rows[:, 0]) > 1
