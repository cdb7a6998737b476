"""The map from nominal to corrected probabilities, and what it does for intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special, stats

import partwise.fitting.calibrate as calibrating
from partwise import MCVQ
from partwise.fitted import fitted_of
from partwise.models import calibration
from partwise.models.calibration import (
    Calibration,
    correct,
    folds_of,
    identity,
    learn,
    with_whole,
)

PROBABILITIES = [1e-6, 1e-3, 0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975, 0.999, 1 - 1e-6]


def learn_from(pit, n_columns=1, column=None):
    column = np.zeros(len(pit), int) if column is None else column
    return learn(pit, column, np.ones(len(pit)), n_columns)


# --- the map ---


@pytest.mark.parametrize("p", PROBABILITIES)
def test_identity_changes_nothing(p):
    assert_array_equal(correct(identity(3), p), np.full(3, p))
    nearly = Calibration(identity(3).knots + 1e-14, np.zeros(3, int))
    assert_allclose(correct(nearly, p), np.full(3, p), rtol=1e-9)


def test_calibrated_cells_give_the_identity():
    rng = np.random.default_rng(0)
    found = learn_from(rng.random(50_000))
    for p in (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975):
        assert_allclose(correct(found, p), p, atol=3 * np.sqrt(p * (1 - p) / 50_000))


def test_without_cells_nothing_changes():
    found = learn_from(np.empty(0), n_columns=4)
    assert_allclose(correct(found, 0.1), np.full(4, 0.1), rtol=1e-3)
    # Ten cells, however odd, move an end a little only.
    assert_allclose(correct(learn_from(np.full(10, 0.99)), 0.1), 0.1, atol=0.02)


@pytest.mark.parametrize(
    ("law", "why"),
    [
        (stats.beta(2, 2), "too wide"),
        (stats.beta(0.5, 0.5), "too narrow"),
        (stats.beta(2, 1), "too low"),
    ],
)
def test_a_known_error_is_corrected(law, why):
    """If u has distribution G, the quantile to ask for is G^-1(p)."""
    pit = law.rvs(40_000, random_state=0)
    found = learn_from(pit)
    for p in (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975):
        assert_allclose(law.cdf(correct(found, p)), p, atol=0.01, err_msg=why)


@pytest.mark.parametrize("seed", range(5))
def test_maps_are_monotone(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3000))
    pit = rng.beta(*rng.uniform(0.05, 4, size=2), size=n).round(rng.integers(1, 5))  # with ties
    found = learn(pit, rng.integers(3, size=n), rng.uniform(0.1, 3, n), 3)
    assert np.all(np.diff(found.knots, axis=1) >= 0)
    asked = np.stack([correct(found, p) for p in PROBABILITIES])
    assert np.all(np.diff(asked, axis=0) >= 0)
    assert np.all((asked > 0) & (asked < 1))


def test_columns_with_many_cells_have_their_own_map():
    rng = np.random.default_rng(0)
    wide, narrow = stats.beta(3, 3), stats.beta(0.6, 0.6)
    sizes = [20_000, 20_000, 50]
    laws = [wide, narrow, wide]
    pit = np.concatenate([law.rvs(n, random_state=rng) for law, n in zip(laws, sizes, strict=True)])
    found = learn_from(pit, 3, np.repeat(np.arange(3), sizes))
    assert_array_equal(found.map_of, [1, 2, 0])
    low = correct(found, 0.1)
    assert_allclose([wide.cdf(low[0]), narrow.cdf(low[1])], 0.1, atol=0.012)
    assert low[1] < low[2] < low[0]  # the third goes with all


@pytest.mark.parametrize("differ", [False, True])
def test_columns_lean_on_all_as_far_as_they_are_alike(differ):
    """Forty columns of 150 cells: own maps where columns differ, the common one where not."""
    rng = np.random.default_rng(0)
    shape = np.where(np.arange(40) % 2, 0.5, 2.5) if differ else np.full(40, 2.5)
    column = np.repeat(np.arange(40), 150)
    found = learn_from(rng.beta(shape[column], shape[column]), 40, column)
    beyond = stats.beta(shape, shape).cdf(correct(found, 0.05))
    if differ:  # with one map for all, 10 % of cells of some lie beyond, and 0.1 % of others
        assert_allclose([beyond[::2].mean(), beyond[1::2].mean()], 0.05, atol=0.015)
    else:  # a column's own quantile would vary by 0.018
        assert beyond.std() < 0.006


def test_weight_is_repetition():
    rng = np.random.default_rng(0)
    pit, column = rng.beta(2, 3, 2000), rng.integers(2, size=2000)
    weight = rng.integers(1, 4, size=2000)
    weighted = learn(pit, column, weight.astype(float), 2)
    repeated = learn_from(np.repeat(pit, weight), 2, np.repeat(column, weight))
    assert_allclose(weighted.knots, repeated.knots, atol=0.01)


def test_extreme_cells_keep_the_map_in_bounds():
    """Cells that the model holds for impossible, and such as it knows exactly."""
    for pit in (np.zeros(5000), np.ones(5000)):
        asked = np.array([correct(learn_from(pit), p)[0] for p in PROBABILITIES])
        assert np.all((asked > 0) & (asked < 1))
    rng = np.random.default_rng(0)
    outliers = np.where(rng.random(5000) < 0.2, rng.integers(2, size=5000), 0.5)
    exact = np.full(5000, 0.5)
    for pit in (outliers, exact):
        found = learn_from(pit)
        assert np.isfinite(found.knots).all()
        reach = special.ndtri(correct(found, 0.975)) - special.ndtri(correct(found, 0.025))
        assert reach[0] >= 2 * calibration.LEAST_REACH * special.ndtri(0.975) - 1e-9


# --- columns of whole values ---


def tails_of_levels(n, seed=0):
    """Tails of levels from 0 to 4, whose probabilities vary by row."""
    rng = np.random.default_rng(seed)
    steps = stats.norm.cdf(np.arange(5) - 1.5 - rng.normal(0, 1.5, (n, 1)))
    steps[:, -1] = 1.0
    x = (steps < rng.random((n, 1))).sum(axis=1)
    row = np.arange(n)
    below = np.where(x > 0, steps[row, x - 1], 0.0)
    return np.minimum(steps[row, x], 1 - below)


def whole_map(tail):
    return with_whole(
        identity(1), tail, np.zeros(len(tail), int), np.ones(len(tail)), np.zeros(1, int)
    )


@pytest.mark.parametrize("share", [0.8, 0.9, 0.95])
def test_intervals_of_whole_values_cover_what_they_promise_on_average(share):
    """Those of the model itself cover more, since values are whole."""
    new = tails_of_levels(20_000, seed=1)
    asked = correct(whole_map(tails_of_levels(20_000)), (1 - share) / 2)[0]
    assert_allclose(np.mean(new >= asked), share, atol=0.02)
    assert np.mean(new >= (1 - share) / 2) > share + 0.3 * (1 - share)


def test_maps_of_whole_values_are_symmetric_and_monotone():
    rng = np.random.default_rng(0)
    tail = rng.beta(0.7, 0.9, 300).round(2)
    found = whole_map(tail)
    assert_allclose(found.knots, -found.knots[:, ::-1])
    assert np.all(np.diff(found.knots, axis=1) >= 0)
    for p in PROBABILITIES:
        assert_allclose(correct(found, p), 1 - correct(found, 1 - p), atol=1e-12)


@pytest.mark.parametrize(("p", "is_out"), [(0.06, True), (0.11, True), (0.18, False), (0.3, False)])
def test_rows_that_do_not_differ_keep_what_is_not_too_unlikely(p, is_out):
    """Without the yes, 1 - p of all cells are covered, else all."""
    tail = np.where(np.arange(1000) < 1000 * p, p, 1 - p)
    assert (correct(whole_map(tail), 0.05)[0] > p) == is_out


def test_no_end_leaves_out_more_than_twice_what_both_may():
    assert correct(whole_map(np.full(1000, 0.5)), 0.05)[0] <= calibration.MOST_TAIL * 0.1 + 1e-9


def test_few_cells_of_whole_values_change_little():
    assert_allclose(correct(whole_map(np.empty(0)), 0.05), 0.05, rtol=0.05)
    assert correct(whole_map(np.full(5, 0.5)), 0.05)[0] < 0.07


# --- which cells are hidden ---


def test_every_cell_is_in_one_fold_and_rows_spread_theirs():
    counts = np.array([0, 3, 2, 17, 0, 400, 5000, 2, 0])
    row = np.repeat(np.arange(9), counts)
    folds = folds_of(counts, np.random.default_rng(0))
    assert folds.shape == row.shape
    for n, own in zip(counts, np.split(folds, np.cumsum(counts)[:-1]), strict=True):
        times = np.bincount(own, minlength=calibration.FOLDS)
        assert times.sum() == n
        assert times.max() <= max(np.ceil(n / calibration.FOLDS), 1)
        assert times.max() <= calibration.MOST_HIDDEN
    alone = np.bincount(folds_of(np.ones(4000, int), np.random.default_rng(0)))
    assert_allclose(alone / 4000, 1 / calibration.FOLDS, atol=0.025)
    assert len(folds_of(np.zeros(3, int), np.random.default_rng(0))) == 0


@pytest.mark.parametrize("at_a_time", [1, 5, 400])
def test_folds_do_not_depend_on_how_many_cells_are_sampled_at_a_time(at_a_time, monkeypatch):
    counts = np.array([0, 3, 2, 17, 0, 400, 50, 2, 0])
    at_once = folds_of(counts, np.random.default_rng(0))
    monkeypatch.setattr(calibration, "SAMPLED_CELLS", at_a_time)
    assert_array_equal(folds_of(counts, np.random.default_rng(0)), at_once)


# --- intervals ---


def rows_of_parts(n, noise, seed=0):
    """Two parts of ten columns with four states each; ``noise(shape)`` is added."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 2, size=(2, 4, 10))
    states = rng.integers(4, size=(n, 2))
    X = np.hstack([centres[k, states[:, k]] for k in range(2)])
    return X + noise(rng, X.shape)


def gaussian(rng, shape):
    return 0.5 * rng.normal(size=shape)


def heavy(rng, shape):
    return 0.3 * rng.standard_t(2, size=shape)


def skewed(rng, shape):
    return 0.5 * rng.exponential(size=shape)


def punch(X, seed=5):
    out = np.random.default_rng(seed).random(X.shape) < 0.2
    return np.where(out, np.nan, X), out


def coverage(model, X, seed=5):
    holed, out = punch(X, seed)
    found = []
    for share in (0.5, 0.8, 0.95):
        low, high = model.predict_interval(holed, share)
        found.append(np.mean((low <= X)[out] & (high >= X)[out]))
    return np.array(found)


def without_calibration(model):
    kept = fitted_of(model).calibration
    model._fitted = replace(fitted_of(model), calibration=identity(model.n_features_in_))
    return kept


@pytest.mark.parametrize("noise", [gaussian, heavy, skewed])
def test_intervals_cover_removed_cells_and_new_rows(noise):
    X, new = rows_of_parts(1500, noise), rows_of_parts(3000, noise)[1500:]
    model = MCVQ(2, 4, random_state=0, n_jobs=1).fit(punch(X)[0])
    limits = np.array([0.03, 0.02, 0.02])
    assert np.all(np.abs(coverage(model, X) - [0.5, 0.8, 0.95]) < limits)
    assert np.all(np.abs(coverage(model, new, 6) - [0.5, 0.8, 0.95]) < limits)
    without_calibration(model)
    plain = np.abs(coverage(model, X) - [0.5, 0.8, 0.95])
    assert np.all(plain < limits) == (noise is gaussian)


def test_hidden_cells_must_be_forgotten(monkeypatch):
    """Few rows and many states: cells that shaped the parameters promise too much."""
    X, new = rows_of_parts(80, gaussian), rows_of_parts(2080, gaussian)[80:]
    model = MCVQ(2, 12, random_state=0, prior=None, n_jobs=1).fit(X)
    honest = coverage(model, new)
    monkeypatch.setattr(calibrating, "FORGETTING_STEPS", 0)
    believing = coverage(MCVQ(2, 12, random_state=0, prior=None, n_jobs=1).fit(X), new)
    without_calibration(model)
    plain = coverage(model, new)
    assert np.all(honest > plain)
    assert np.all(honest > believing)


@pytest.mark.parametrize("gating", ["annealed", "standard", "factorised"])
def test_every_gating_is_calibrated(gating):
    X = rows_of_parts(500, heavy)
    model = MCVQ(2, 4, gating=gating, random_state=0, n_jobs=1).fit(punch(X)[0])
    assert np.all(np.abs(coverage(model, X) - [0.5, 0.8, 0.95]) < [0.05, 0.04, 0.03])


def test_a_sample_of_rows_will_do(monkeypatch):
    X = rows_of_parts(3000, heavy)
    monkeypatch.setattr(calibrating, "MOST_CELLS", X.size // 4)
    model = MCVQ(2, 4, random_state=0, n_jobs=1).fit(X)
    assert np.all(np.abs(coverage(model, X) - [0.5, 0.8, 0.95]) < [0.03, 0.02, 0.02])


@pytest.mark.parametrize("absent", ["unobserved", "zero"])
def test_sparse_rows_calibrate_as_dense_ones(absent):
    X = rows_of_parts(300, skewed)
    hidden = punch(X)[1]
    if absent == "zero":
        rows, same = sparse.csr_matrix(np.where(hidden, 0.0, X)), np.where(hidden, 0.0, X)
    else:
        known = np.nonzero(~hidden)
        rows = sparse.csr_matrix((X[known], known), shape=X.shape)
        same = np.where(hidden, np.nan, X)
    model = MCVQ(2, 4, sparse_absent=absent, random_state=0, n_jobs=1).fit(rows)
    found = fitted_of(model).calibration
    assert not np.allclose(found.knots, identity(1).knots, atol=0.05)
    if absent == "unobserved":
        dense = MCVQ(2, 4, random_state=0, n_jobs=1).fit(same)
        assert_allclose(found.knots, fitted_of(dense).calibration.knots, atol=1e-6)


def test_workers_do_not_change_the_map(monkeypatch):
    monkeypatch.setattr("partwise.data.source.BLOCK_BYTES", 20_000)
    X = rows_of_parts(600, heavy)
    one, two = (fitted_of(MCVQ(2, 4, random_state=0, n_jobs=n).fit(X)).calibration for n in (1, 2))
    assert_array_equal(one.knots, two.knots)


def answers(n, seed):
    """Answers on a scale of five, and counts, of rows of three kinds."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    score = rng.normal(1.2 * (kind[:, None] - 1), 1.0, (n, 6))
    table = pd.DataFrame(np.digitize(score, [-1.5, -0.5, 0.5, 1.5]), columns=list("abcdef"))
    for name in table:
        table[name] = pd.Categorical(table[name], ordered=True)
    return table.assign(g=rng.poisson(0.5 + kind), h=rng.poisson(0.3 + 2.0 * kind))


def test_intervals_of_levels_and_counts_cover_what_they_promise():
    table = answers(1500, 0)
    hidden = np.random.default_rng(1).random(table.shape) < 0.2
    kinds = {"g": "poisson", "h": "poisson"}
    model = MCVQ(1, 3, likelihood=kinds, random_state=0, n_jobs=1).fit(table.mask(hidden))

    def covered():
        low, high = (end.astype(float) for end in model.predict_interval(table.mask(hidden), 0.9))
        inside = (low <= table.astype(float)) & (table.astype(float) <= high)
        return float(inside.to_numpy()[hidden].mean())

    assert abs(covered() - 0.9) < 0.025
    model._fitted = replace(fitted_of(model), calibration=identity(8))
    assert covered() > 0.94


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "categorical"])
def test_discrete_intervals_of_arrays_are_left_alone(likelihood):
    X = np.random.default_rng(0).integers(2, size=(60, 6)).astype(float)
    model = MCVQ(2, 2, likelihood=likelihood, random_state=0, n_jobs=1).fit(X)
    assert isinstance(fitted_of(model).calibration, Calibration)
    assert_array_equal(fitted_of(model).calibration.knots, identity(6).knots)


def test_a_table_without_any_value():
    model = MCVQ(1, 2, random_state=0, n_jobs=1)
    X = np.full((5, 2), np.nan)
    with pytest.warns(UserWarning, match="no observed value"):
        model.fit(X)
    assert np.isfinite(model.predict_interval(X)).all()


def test_the_map_is_saved(tmp_path):
    import partwise

    X = rows_of_parts(300, heavy)
    model = MCVQ(2, 4, random_state=0, n_jobs=1).fit(X)
    model.save(tmp_path / "m.safetensors")
    again = partwise.load(tmp_path / "m.safetensors")
    assert_array_equal(again.predict_interval(X[:9]), model.predict_interval(X[:9]))
