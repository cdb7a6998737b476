"""Filling holes in a Pipeline: states and factors, several fits."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import partwise
from partwise import MCVQ, PartsImputer, SizeOptions, make_survey
from partwise.answers.imputation import GaussianCells, level_shares_of
from partwise.estimators._imputer_fits import later_generator
from partwise.fitting import course, held_out
from partwise.fitting import factor_blend as blending
from partwise.models import mcvq as core
from partwise.starts import dependence


@pytest.fixture(scope="module")
def survey():
    return make_survey(300, n_parts=2, n_columns_per_kind=1, missing=0.15, random_state=3)


@pytest.fixture(scope="module")
def bent():
    """Numbers on a plane within three groups, counts and a level: complete, holed, the holes."""
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=400)
    plane = rng.normal(size=(400, 2))
    X = pd.DataFrame(plane @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(400, 5)))
    X.columns = [f"x{d}" for d in range(5)]
    X["count"] = rng.poisson(3.0 * np.exp(plane[:, 0] / 2)).astype(float)
    X["group"] = np.array(["a", "b", "c"], dtype=object)[group]
    X["x0"] += 3.0 * group
    hidden = rng.random(X.shape) < 0.2
    return X, X.mask(hidden), hidden


def error(filled, X, hidden, columns):
    """Root mean squared error of hidden cells in deviations of their columns."""
    gap = (filled[columns] - X[columns]) / X[columns].std()
    return np.sqrt(np.mean(gap.to_numpy()[hidden[:, : len(columns)]] ** 2))


@pytest.mark.ci
def test_in_a_pipeline(survey, tmp_path):
    first = FunctionTransformer(lambda table: table.iloc[:, :5])
    line = make_pipeline(
        first, PartsImputer(1, 3, copula=True, add_states=True, n_fits=2, random_state=0)
    )
    filled = line.fit_transform(survey.frame)
    assert list(filled.columns) == [*survey.frame.columns[:5], "part0"]
    assert filled.notna().all().all()
    imputer = line[-1]
    assert list(imputer.get_feature_names_out()) == list(filled.columns)
    imputer.save(tmp_path / "imputer.safetensors")
    again = partwise.load(tmp_path / "imputer.safetensors").transform(survey.frame.iloc[:, :5])
    pd.testing.assert_frame_equal(again, filled)


@pytest.mark.ci
def test_without_factors_it_is_the_model(survey):
    imputer = PartsImputer(2, 4, n_factors=0, n_fits=1, random_state=0).fit(survey.frame)
    model = MCVQ(2, 4, likelihood="auto", random_state=0).fit(survey.frame)
    pd.testing.assert_frame_equal(imputer.transform(survey.frame), model.impute(survey.frame))
    for name, shares in imputer.predict_proba_columns(survey.frame).items():
        assert_array_equal(shares, model.predict_proba_columns(survey.frame)[name])


@pytest.mark.slow
def test_factors_fill_what_states_cannot(bent):
    X, holed, hidden = bent
    names = [f"x{d}" for d in range(5)]
    by_states = PartsImputer(n_factors=0, n_fits=1, random_state=0).fit_transform(holed)
    filled = PartsImputer(n_fits=1, random_state=0).fit_transform(holed)
    assert error(filled, X, hidden, names) < 0.7 * error(by_states, X, hidden, names)
    assert filled["count"].min() >= 0
    observed = holed.notna()
    pd.testing.assert_frame_equal(filled.where(observed), holed)


@pytest.mark.slow
def test_factors_hold_their_tongue_where_states_know(survey):
    """Drawn surveys have states only: factors count little, and do no harm."""
    complete = make_survey(300, n_parts=2, n_columns_per_kind=1, missing=0.0, random_state=3).frame
    numbers = [name for name in complete if complete[name].dtype.kind == "f"]
    hidden = survey.frame[numbers].isna() & complete[numbers].notna()
    losses = []
    for n_factors in (0, 16):
        filled = PartsImputer(n_factors=n_factors, n_fits=2, random_state=0).fit_transform(
            survey.frame
        )
        gap = (filled[numbers] - complete[numbers]) / complete[numbers].std()
        losses.append(np.sqrt(np.mean(gap.to_numpy()[hidden.to_numpy()] ** 2)))
    assert losses[1] < 1.05 * losses[0]


@pytest.mark.ci
def test_fits_are_averaged(survey):
    imputer = PartsImputer(2, 4, n_factors=0, n_fits=3, random_state=0).fit(survey.frame)
    assert len(imputer.models_) == 3
    assert imputer.model_ is imputer.models_[0]
    told = imputer.predict_proba_columns(survey.frame)
    by_fit = [model.predict_proba_columns(survey.frame) for model in imputer.models_]
    for name, shares in told.items():
        assert_allclose(shares, np.mean([own[name] for own in by_fit], axis=0))
    filled, holes = imputer.transform(survey.frame), survey.frame.isna()
    numbers = [name for name in filled if filled[name].dtype.kind == "f" and name not in told]
    means = np.mean([model.impute(survey.frame)[numbers] for model in imputer.models_], axis=0)
    kinds = dict(zip(survey.frame.columns, imputer.model_.kinds_, strict=True))
    for d, name in enumerate(numbers):
        if kinds[name] == "gaussian":
            assert_allclose(filled[name], means[:, d])
    for name, shares in told.items():
        if kinds[name] == "categorical":
            levels = np.array(imputer.model_.column_levels_[name], dtype=object)
            expected = levels[shares.argmax(axis=1)][holes[name]]
            assert_array_equal(filled[name][holes[name]].to_numpy(dtype=object), expected)


def test_every_fit_infers_rows_once(survey, monkeypatch):
    imputer = PartsImputer(2, 3, n_fits=3, random_state=0).fit(survey.frame)
    calls = []

    def counted(self, prepared, block):
        calls.append(block.n_rows)
        return infer(self, prepared, block)

    infer = core.MCVQ.infer
    monkeypatch.setattr(core.MCVQ, "infer", counted)
    imputer.transform(survey.frame)
    # One more row, of which nothing is known.
    assert sum(calls) == 3 * (len(survey.frame) + 1)


def test_rows_of_the_fit_are_not_asked_again(bent, monkeypatch):
    asked = []

    def counted(self, fits, coded, n_jobs):
        asked.append(len(coded))
        return ask(self, fits, coded, n_jobs)

    ask = blending.Blend.asked
    monkeypatch.setattr(blending.Blend, "asked", counted)
    imputer = PartsImputer(1, 3, random_state=0)
    filled = imputer.fit_transform(bent[1])
    assert asked == [400, 400]  # for weights on held-out cells, and with all cells
    pd.testing.assert_frame_equal(imputer.transform(bent[1]), filled)
    assert asked == [400] * 3
    assert len(imputer.transform(bent[1][:7])) == 7


def test_no_fit_is_calibrated_unasked(survey, monkeypatch):
    monkeypatch.setattr(course, "calibrate", None)
    PartsImputer(2, 3, n_fits=2, random_state=0).fit(survey.frame)


def test_sizes_without_a_search(survey):
    """A few EM iterations of fixed sizes, without a warning that there were few."""
    imputer = PartsImputer(n_factors=2, random_state=0).fit(survey.frame)
    assert_array_equal(imputer.model_.n_states_, [16, 16])
    wide = make_survey(300, n_parts=6, n_columns_per_kind=1, missing=0.1, random_state=0).frame
    assert PartsImputer(n_factors=0, random_state=0).fit(wide).model_.n_parts_ >= 4
    assert_array_equal(PartsImputer(3, random_state=0).fit(survey.frame).model_.n_parts_, 3)
    tiny = np.random.default_rng(0).normal(size=(5, 1))
    assert_array_equal(PartsImputer(random_state=0).fit(tiny).model_.n_states_, [5])


@pytest.mark.parametrize(("options", "quick"), [({}, True), ({"n_parts": 2, "n_states": 3}, False)])
def test_fits_of_few_iterations_start_quickly(survey, monkeypatch, options, quick):
    asked = []

    def counted(*args, n_init=8, **kwargs):
        asked.append(n_init)
        return kmeans(*args, n_init=n_init, **kwargs)

    kmeans = dependence.masked_kmeans
    monkeypatch.setattr(dependence, "masked_kmeans", counted)
    PartsImputer(**options, n_factors=0, random_state=0).fit(survey.frame)
    few = {dependence.QUICK_COLUMN_RUNS, dependence.QUICK_ROW_RUNS}
    assert set(asked) == (few if quick else {dependence.COLUMN_RUNS, dependence.ROW_RUNS})


def test_a_whole_number_seeds_the_first_fit_alone():
    """What the others draw is not what the first has drawn from the same number."""
    seed = 7
    own = [child.random() for child in np.random.default_rng(seed).spawn(20)]
    others = [child.random() for child in later_generator(seed).spawn(20)]
    assert not set(own) & set(others)
    again = [child.random() for child in later_generator(seed).spawn(20)]
    assert others == again


@pytest.mark.slow
def test_sizes_of_the_other_fits(survey):
    options = {"n_factors": 0, "n_fits": 2, "sizes": SizeOptions(), "random_state": 0}
    imputer = PartsImputer(2, "auto", **options).fit(survey.frame)
    first, second = imputer.models_
    assert_array_equal(second.n_states_, 2 * first.n_states_)
    fixed = PartsImputer("auto", 3, **options).fit(survey.frame)
    assert_array_equal(fixed.models_[1].n_states_, np.full(fixed.model_.n_parts_, 3))


def test_arrays_of_one_kind(bent):
    X = bent[1].iloc[:, :5].to_numpy()
    filled = PartsImputer(1, 2, likelihood="gaussian", random_state=0).fit_transform(X)
    assert not np.isnan(filled).any()
    assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    counts = sparse.random(60, 8, 0.4, format="csr", random_state=0)
    counts.data = np.rint(5 * counts.data)
    told = PartsImputer(1, 2, likelihood="poisson", n_fits=2, random_state=0).fit_transform(counts)
    assert told.shape == counts.shape


def test_weights_are_repetition_where_nothing_is_drawn(survey):
    few = survey.frame.iloc[:120]
    weight = np.arange(120) % 3
    again = few.iloc[np.repeat(np.arange(120), weight)]
    fitted = [
        PartsImputer(2, 3, n_factors=0, n_fits=1, random_state=0).fit(few, sample_weight=weight),
        PartsImputer(2, 3, n_factors=0, n_fits=1, random_state=0).fit(again),
    ]
    first, second = (one.transform(again) for one in fitted)
    numbers = [name for name in few if few[name].dtype.kind == "f"]
    assert_allclose(first[numbers], second[numbers], rtol=1e-6)


def test_weights_of_factors_ignore_rows_without_weight(bent):
    """Rows of no weight say nothing, even if states would tell them better than factors."""
    X = bent[1].iloc[:, :5].to_numpy()
    weight = np.repeat([1.0, 0.0], 200)
    other = X.copy()
    other[200:] = np.where(np.isnan(X[200:]), np.nan, 50.0)
    found = [
        PartsImputer(1, 2, likelihood="gaussian", n_fits=1, random_state=0)
        .fit(table, sample_weight=weight)
        ._fitted.blend.weights
        for table in (X, other)
    ]
    assert_array_equal(found[0], found[1])
    assert (found[0][1] > 0.5).all()


def test_weights_are_the_best_of_all_candidates(bent):
    """By hand: the loss of every candidate over held-out cells, with that of all columns."""
    coded = bent[0].iloc[:, :5].to_numpy()
    imputer = PartsImputer(1, 3, copula=True, random_state=0).fit(bent[1].iloc[:, :5])
    fits, blend = imputer._fitted
    hidden = held_out.hidden_cells(coded, np.random.default_rng(1))
    weight = np.random.default_rng(2).exponential(size=len(coded))
    found = blend.weighted(fits, coded, hidden, weight, "squared")
    told = blend.asked(fits, np.where(hidden, np.nan, coded), None)
    losses = np.zeros((5, len(blending.CANDIDATES)))
    for d in range(5):
        rows = np.flatnonzero(hidden[:, d])
        for g, candidate in enumerate(blending.CANDIDATES):
            mean = candidate @ told.told(d, rows)
            gap = (mean - coded[rows, d]) / coded[rows, d].std()
            n = weight[rows].sum()
            losses[d, g] = n * np.log(held_out.LEAST_LOSS + weight[rows] @ gap**2 / n)
    pooled = losses.sum(axis=0) / (weight @ hidden).sum()
    for d in range(5):
        best = int(np.argmin(losses[d] + held_out.POOLED_CELLS * pooled))
        assert_array_equal(found.weights[:, d], blending.CANDIDATES[best])


def test_noiseless_columns_do_not_lean_on_noisy_ones():
    """Factors tell columns without noise; errors of other columns are larger with any weight."""
    rng = np.random.default_rng(0)
    z, kind = rng.normal(size=(150, 1)), rng.integers(6, size=150)
    lines = z * [1.0, -2.0, 0.5, 1.0] + 0.02 * rng.normal(size=(150, 4))
    steps = rng.normal(size=(6, 8))[kind] + 0.7 * rng.normal(size=(150, 8))
    imputer = PartsImputer(likelihood="gaussian", random_state=0).fit(np.hstack([lines, steps]))
    assert (imputer._fitted.blend.weights[1, :4] > 0.9).all()


def test_one_distribution_gives_all_answers(survey):
    """Samples have the mean, the quantiles and the probabilities that are told."""
    imputer = PartsImputer(2, 3, n_factors=4, random_state=0).fit(survey.frame)
    fits, blend = imputer._fitted
    coded = np.asarray(fits[0].schema.encode(survey.frame))
    some = coded[:6]
    told = blend.asked(fits, np.repeat(some, 400, axis=0), None)
    drawn = next(told.samples([np.random.default_rng(0)])).reshape(6, 400, -1)
    shares, p = told.shares(), np.full(told.coded.shape, 0.3)
    low = told.quantiles(p).reshape(6, 400, -1)[:, 0]
    for row, d in np.argwhere(np.isnan(some)):
        own = drawn[row, :, d]
        if d in shares:
            rate = np.bincount(own.astype(int), minlength=shares[d].shape[1]) / 400
            assert_allclose(rate, shares[d][400 * row], atol=0.12)
        elif blend.columns.numbers[d]:
            # Counts lie on steps of the distribution, found up to rounding.
            assert np.mean(own < low[row, d] - 1e-6) <= 0.3 + 0.1
            assert np.mean(own <= low[row, d] + 1e-6) >= 0.3 - 0.1


def test_levels_by_the_numbers_that_stand_for_them():
    """By Bayes' rule; a yes-or-no number for each of two levels says what one number says."""
    mean, deviation = np.array([0.1, 0.7, 0.3]), np.array([0.2, 0.3, 0.46])
    before, last = np.array([0.7, 0.3]), norm(mean[-1], deviation[-1])
    told = GaussianCells(mean[:, None], deviation[:, None])
    found = level_shares_of(told, before, np.array([0.0, 1.0]))
    for row in range(2):
        own = norm(mean[row], deviation[row])
        p = before * own.pdf([0, 1]) / last.pdf([0, 1])
        assert_allclose(found[row], p / p.sum())
    both = GaussianCells(np.stack([1 - mean, mean], 1), np.stack([deviation] * 2, 1))
    assert_allclose(level_shares_of(both, before, np.ones(1)), found)
    nothing = GaussianCells(mean[[2, 2], None], deviation[[2, 2], None])
    assert_allclose(level_shares_of(nothing, before, np.array([0.0, 1.0]))[0], before)
    sure = GaussianCells(np.array([[0.0], [0.5]]), np.array([[1e-310], [1.0]]))
    assert_allclose(level_shares_of(sure, before, np.array([0.0, 1.0])), [[1.0, 0.0]])


def test_levels_that_follow_numbers():
    """Three levels cut from a number, of which two states tell two: factors tell them better."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 2))
    X = pd.DataFrame(z @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(400, 4)))
    X.columns = [f"x{d}" for d in range(4)]
    X["level"] = np.array(["a", "b", "c"], dtype=object)[np.searchsorted([-0.5, 0.5], z[:, 0])]
    hidden = rng.random(400) < 0.3
    holed = X.assign(level=X["level"].mask(hidden))
    right = {}
    for n_factors in (0, 4):
        imputer = PartsImputer(1, 2, n_factors=n_factors, random_state=0).fit(holed)
        right[n_factors] = np.mean((imputer.transform(holed)["level"] == X["level"])[hidden])
    assert right[4] > right[0] + 0.05
    assert imputer._fitted.blend.weights[1, 4] > 0.5


def test_absolute_loss_imputes_medians(bent):
    imputer = PartsImputer(1, 3, loss="absolute", random_state=0).fit(bent[1])
    filled = imputer.transform(bent[1])
    fits, blend = imputer._fitted
    coded = np.asarray(fits[0].schema.encode(bent[1]))
    rows = np.flatnonzero(np.isnan(coded[:, 0]))
    below = blend.asked(fits, coded, None).spread(0, rows).below(filled["x0"].to_numpy()[rows])
    assert_allclose(below, 0.5, atol=1e-3)


def test_intervals_of_missing_cells(bent):
    X, holed, hidden = bent
    imputer = PartsImputer(1, 3, random_state=0).fit(holed)
    lower, upper = imputer.predict_interval(holed, coverage=0.8)
    numbers = [f"x{d}" for d in range(5)]
    inside = ((lower[numbers] <= X[numbers]) & (X[numbers] <= upper[numbers])).to_numpy()
    assert 0.7 < inside[hidden[:, :5]].mean() < 0.9
    pd.testing.assert_frame_equal(lower.where(holed.notna()), holed)
    assert lower["group"][holed["group"].isna()].isna().all()
    with pytest.raises(ValueError, match="coverage=2 must be between 0 and 1"):
        imputer.predict_interval(holed, coverage=2)


def test_sampled_levels_are_those_of_all_fits():
    """Of two fits that say different things."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=120)
    numbers = rng.normal(size=(2, 120)) + np.stack([kind, -kind])
    table = pd.DataFrame({"a": numbers[0], "b": numbers[1], "level": np.array([*"xyz"])[kind]})
    table.loc[:29, "level"] = None
    imputer = PartsImputer(1, 3, n_factors=0, n_fits=2, random_state=0).fit(table)
    shares = imputer.predict_proba_columns(table)["level"][:30]
    of_first = imputer.model_.predict_proba_columns(table)["level"][:30]
    assert np.abs(shares - of_first).mean() > 0.05
    drawn = imputer.impute(table, n_imputations=200, random_state=0)
    levels = np.stack([one["level"].to_numpy(object)[:30] for one in drawn])
    found = np.stack([(levels == level).mean(axis=0) for level in "xyz"], axis=1)
    assert np.abs(found - shares).mean() < 0.045


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"copula": "yes"}, "copula='yes' must be True or False"),
        ({"n_factors": -1}, "n_factors=-1 must be a whole number of at least 0"),
        ({"n_fits": 0}, "n_fits=0 must be a whole number of at least 1"),
        ({"n_fits": 2.5}, "n_fits=2.5"),
        ({"loss": "log"}, "loss='log' must be 'squared' or 'absolute'"),
    ],
)
def test_wrong_numbers_are_named(survey, options, told):
    with pytest.raises(ValueError, match=told):
        PartsImputer(2, 3, **options).fit(survey.frame)


@pytest.mark.filterwarnings("ignore::UserWarning")  # columns of one value
@pytest.mark.parametrize("n_rows", [2, 3, 5])
def test_few_rows(n_rows):
    X = np.random.default_rng(n_rows).normal(size=(n_rows, 6))
    X[0, 0] = np.nan
    weight = np.append(0.0, np.ones(n_rows - 1))
    for sample_weight in (None, weight):
        filled = PartsImputer(random_state=0).fit(X, sample_weight=sample_weight).transform(X)
        assert np.isfinite(filled).all()


def test_encoded_for_the_next_estimator():
    made = make_survey(150, n_parts=2, n_columns_per_kind=1, random_state=0)
    table = made.frame
    imputer = PartsImputer(2, 2, n_fits=1, n_factors=2, encode=True, random_state=0).fit(table)
    numbers, names = imputer.transform(table), imputer.get_feature_names_out()
    assert numbers.shape == (150, len(names))
    assert np.isfinite(numbers).all()
    unordered = [n for n, k in zip(table, imputer.model_.kinds_, strict=True) if k == "categorical"]
    for name in unordered:
        own = [i for i, one in enumerate(names) if one.startswith(f"{name}_")]
        assert len(own) == len(imputer.model_.column_levels_[name])
        assert_array_equal(numbers[:, own].sum(axis=1), 1.0)
    with_states = clone(imputer).set_params(add_states=True).fit(table)
    assert with_states.transform(table).shape == (150, len(names) + with_states.model_.n_parts_)
    assert imputer.set_output(transform="pandas").transform(table).columns.tolist() == list(names)


def test_sparse_rows_are_answered_by_the_states():
    X = sparse.csr_array(np.random.default_rng(0).poisson(1.0, size=(60, 5)).astype(float))
    imputer = PartsImputer(likelihood="poisson", random_state=0).fit(X)
    for own, other in zip(
        imputer.predict_interval(X), imputer.model_.predict_interval(X), strict=True
    ):
        assert_array_equal(own, other)
    assert imputer.predict_proba_columns(X) == {}


def test_numbers_of_many_values_are_numbers(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 50, 300).astype(float)
    table = pd.DataFrame(
        {
            "age": age,
            "years": age - 18,
            "income": 100 * age + rng.normal(size=300),
            "answer": rng.integers(1, 5, 300).astype(float),
        }
    )
    table = table.mask(rng.random(table.shape) < 0.2)
    asked = PartsImputer(likelihood={"years": "ordinal"}, random_state=0).fit(table)
    assert MCVQ(2, 2, likelihood="auto", random_state=0).fit(table).kinds_[0] == "ordinal"
    assert list(asked.model_.kinds_) == ["gaussian", "ordinal", "gaussian", "ordinal"]
    filled = asked.transform(table)
    hidden = table["age"].isna() & table["income"].notna()
    assert np.abs(filled["age"] - age)[hidden].max() <= 2.0
    np.testing.assert_array_equal(filled["age"], np.rint(filled["age"]))
    table.to_parquet(tmp_path / "t.parquet")
    pl = pytest.importorskip("polars")
    other = PartsImputer(likelihood={"years": "ordinal"}, random_state=0)
    other.fit(pl.scan_parquet(tmp_path / "t.parquet"))
    pd.testing.assert_frame_equal(other.transform(table), filled)
