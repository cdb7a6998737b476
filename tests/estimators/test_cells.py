"""Densities of held-out cells, and searches that judge by them."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from partwise import CVQ, MCFA, MCVQ, CellKFold, ObservedCells
from partwise.answers import factors, states
from partwise.fitted import core_of, fitted_of
from tests.common.helpers import punch_holes, random_entries

LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "categorical"]


def fitted(model, X, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(max_iter=15, random_state=0).fit(X, **arguments)


def problem(likelihood="gaussian", C=60, D=9, seed=0):
    rng = np.random.default_rng(seed)
    X = random_entries(likelihood, (C, D), rng)
    X[:, 1] = X[:, 0]  # some structure
    X = punch_holes(X, 0.3, rng)
    cells = ObservedCells(X)
    train, test = next(CellKFold(4, random_state=0).split(cells))
    return cells[train], cells[test]


def held(model, test):
    return model.score_cells(test.others(), test.rows, test.columns, test.values)


def state_density(model, s, d, x):
    """Predictive density of one entry in the user's units, by scipy's distributions."""
    group, law, kind = (
        fitted_of(model).columns[0],
        states.laws(fitted_of(model))[0],
        model.likelihood,
    )
    if kind == "gaussian":
        scale, shift = group.scale[d], group.shift[d]
        mean, spread = law.mean[s, d] * scale + shift, law.scale[s, d] * scale
        return stats.t(law.df[s, d], mean, spread).pdf(x)
    if kind == "poisson":
        return stats.nbinom(law.shape[s, d], law.rate[s, d] / (1 + law.rate[s, d])).pmf(x)
    levels = [0.0, 1.0] if kind == "bernoulli" else list(model.levels_)
    if kind == "bernoulli":
        return law.mean[s, d] if x else 1 - law.mean[s, d]
    return law.probability[levels.index(x), s, d]


@pytest.mark.parametrize("gating", ["annealed", "standard", "factorised"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_cell_is_a_mixture_of_parts_and_states(likelihood, gating):
    train, test = problem(likelihood, C=30)
    model = fitted(MCVQ(3, 2, likelihood=likelihood, gating=gating), train)
    gates, part_of = fitted_of(model).params.gates, core_of(fitted_of(model).model, object).part_of
    expected = []
    for row, d, x in zip(test.rows, test.columns, test.values, strict=True):
        m = states.posteriors(fitted_of(model), test.others().table()[[row]])[0]
        expected.append(
            sum(
                gates[part_of[s], d] * m[s] * state_density(model, s, d, x)
                for s in range(len(part_of))
            )
        )
    assert_allclose(held(model, test), np.log(expected), rtol=1e-6, atol=1e-6)
    assert_allclose(model.score(test), np.mean(np.log(expected)), rtol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_with_one_part_it_is_a_ratio_of_row_likelihoods(likelihood):
    train, test = problem(likelihood)
    check_ratio(fitted(MCVQ(1, 3, likelihood=likelihood, prior=None), train), test)


def test_one_factor_analyser_is_conditioned_exactly():
    train, test = problem()
    check_ratio(fitted(MCFA(1, 2, prior=None), train), test)


def check_ratio(model, test):
    rest = test.others().table()
    with_cell = rest[test.rows]
    with_cell[np.arange(len(test)), test.columns] = test.values
    ratio = model.score_samples(with_cell) - model.score_samples(rest[test.rows])
    assert_allclose(held(model, test), ratio, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "model", [MCVQ(2, 3), MCFA(2, 1), MCFA(2, 2, gating="standard")], ids=["states", "tied", "free"]
)
def test_densities_of_numbers_integrate_to_one(model):
    train, test = problem()
    model = fitted(model, train)
    d, row = test.columns[0], test.rows[0]
    spread = np.nanstd(train.table()[:, d])
    grid = np.nanmean(train.table()[:, d]) + spread * np.linspace(-60, 60, 40001)
    places = np.full(len(grid), row), np.full(len(grid), d)
    density = np.exp(model.score_cells(test.others(), *places, grid))
    assert_allclose(np.trapezoid(density, grid), 1, atol=1e-3)


def test_a_mixture_of_parts_with_uncertain_loadings():
    train, test = problem()
    model = fitted(MCFA(3, 2, gating="standard"), train)
    known = fitted_of(model)
    theta, core, group = known.params, core_of(known.model, object), known.columns[0]
    features = factors.features(fitted_of(model), test.others().table()).astype(float)
    expected = np.zeros(len(test))
    for i, (row, d, x) in enumerate(zip(test.rows, test.columns, test.values, strict=True)):
        for k, (_, linear, quadratic) in enumerate(core.spans()):
            w, m = theta.loadings[k], features[linear, row]
            J = len(m)
            second = np.zeros((J, J))
            second[np.triu_indices(J)] = features[quadratic, row]
            second = second + np.triu(second, 1).T
            cov = second - np.outer(m, m)
            s = np.append(m, 1.0)
            wide = np.pad(cov, (0, 1))
            mean = w.mean[d] @ s
            around = np.outer(s, s) + wide
            variance = w.noise[d] * (1 + np.sum(w.cov[d] * around)) + w.mean[d] @ wide @ w.mean[d]
            law = stats.norm(
                mean * group.scale[d] + group.shift[d], np.sqrt(variance) * group.scale[d]
            )
            expected[i] += theta.gates[k, d] * law.pdf(x)
    assert_allclose(held(model, test), np.log(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("estimator", [MCVQ(3, 2), MCFA(2, 1)], ids=["states", "factors"])
def test_storage_order_threads_and_blocks_change_nothing(estimator, monkeypatch):
    train, test = problem(C=200)
    model = fitted(estimator, train)
    found = held(model, test)
    known = test.others().table()
    entries = sparse.csr_array(np.nan_to_num(known))
    assert_allclose(model.score_cells(entries, test.rows, test.columns, test.values), found)
    order = np.random.default_rng(0).permutation(len(test))
    shuffled = (field[order] for field in (test.rows, test.columns, test.values))
    assert_array_equal(model.score_cells(known, *shuffled), found[order])
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 64 * 9 * 8)
    assert_allclose(held(model.set_params(n_jobs=2), test), found, rtol=1e-9)
    single = ObservedCells(test.others().table().astype(np.float32))
    again = fitted(estimator.set_params(n_jobs=None), single.table())
    assert_allclose(held(again, test).mean(), found.mean(), atol=0.3)


def test_a_fit_of_cells_is_that_of_their_table():
    train, test = problem()
    weight = np.random.default_rng(0).random(60) + 0.5
    a = fitted(MCVQ(2, 2), train, sample_weight=weight)
    b = fitted(MCVQ(2, 2), train.table(), sample_weight=weight)
    assert_array_equal(a.means_, b.means_)
    assert_array_equal(a.transform(train), b.transform(train.table()))
    by_hand = np.average(held(a, test), weights=weight[test.rows])
    assert_allclose(a.score(test, sample_weight=weight), by_hand)
    by_hand = np.average(a.score_samples(train), weights=weight)
    assert_allclose(a.score(train.table(), sample_weight=weight), by_hand)


@pytest.mark.ci
def test_a_search_finds_the_sizes_that_rows_were_drawn_from():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 3, 24)) * (np.arange(24) % 3 == np.arange(3)[:, None])[:, None, :]
    states = rng.integers(3, size=(150, 3))
    X = sum(means[k, states[:, k]] for k in range(3)) + 0.3 * rng.normal(size=(150, 24))
    X = punch_holes(X, 0.2, rng)
    entries = sparse.csr_array(np.nan_to_num(X))
    folds = CellKFold(3, random_state=0)
    for table in (X, entries):
        search = GridSearchCV(
            MCVQ(n_states=3, random_state=0), {"n_parts": [1, 3]}, cv=folds, error_score="raise"
        ).fit(ObservedCells(table), sample_weight=np.full(150, 2.0))
        assert search.best_params_ == {"n_parts": 3}
        assert search.transform(X[:5]).shape == (5, 9)
    weight = {"sample_weight": np.full(150, 2.0)}
    scores = cross_val_score(search.best_estimator_, ObservedCells(X), cv=folds, params=weight)
    assert_allclose(scores.mean(), search.best_score_, atol=1e-6)


def test_counts_that_are_not_stored_are_zeros():
    counts = np.random.default_rng(0).poisson(0.7, (40, 6)).astype(float)
    cells = ObservedCells(sparse.csr_array(counts), sparse_absent="zero")
    train, test = next(CellKFold(4, random_state=0).split(cells))
    model = fitted(MCVQ(2, 2, likelihood="poisson"), cells[train])
    dense = fitted(MCVQ(2, 2, likelihood="poisson"), ObservedCells(counts)[train])
    assert_array_equal(held(model, cells[test]), held(dense, ObservedCells(counts)[test]))
    with pytest.raises(ValueError, match=r'Cells\(X, sparse_absent="zero"\)'):
        model.fit(ObservedCells(sparse.csr_array(counts)))


def test_what_it_refuses():
    train, test = problem()
    model = fitted(MCVQ(2, 2), train)
    with pytest.raises(ValueError, match="rows must hold whole numbers from 0 to 59"):
        model.score_cells(test.others(), [60], [0], [1.0])
    with pytest.raises(ValueError, match="columns must hold whole numbers from 0 to 8"):
        model.score_cells(test.others(), [0], [0.5], [1.0])
    with pytest.raises(ValueError, match="values must be finite"):
        model.score_cells(test.others(), [0], [0], [np.nan])
    with pytest.raises(ValueError, match="inconsistent"):
        model.score_cells(test.others(), [0], [0, 1], [1.0])
    assert model.score_cells(test.others(), [], [], []).shape == (0,)
    with pytest.raises(AttributeError, match="score_cells"):
        fitted(CVQ(2, 2), train).score(test)


@pytest.mark.slow
def test_cells_check_the_choice_of_the_evidence_in_one_line():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=(120, 2))
    X = kind.repeat(5, axis=1) + 0.2 * rng.normal(size=(120, 10))
    sizes = [{"n_parts": ["auto"], "n_states": ["auto"]}, {"n_parts": [1, 2], "n_states": [2, 3]}]
    search = GridSearchCV(MCVQ(random_state=0), sizes, cv=CellKFold(3, random_state=0))
    search.fit(ObservedCells(X))
    tried, found = search.cv_results_["params"], search.cv_results_["mean_test_score"]
    scores = dict(zip(map(str, tried), found, strict=True))
    assert len(scores) == 5
    auto = scores[str({"n_parts": "auto", "n_states": "auto"})]
    assert auto > max(scores.values()) - 0.1
    assert auto > scores[str({"n_parts": 1, "n_states": 3})] + 0.1
