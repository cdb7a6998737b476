"""MCFA(likelihood="auto"): mixed tables, all methods in the user's terms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import partwise
from partwise import MCFA
from partwise.answers import copula
from partwise.data.marginals import Marginal
from partwise.fitted import fitted_of
from tests.common.helpers import assert_never_falls

pd = pytest.importorskip("pandas")

COLOURS = np.array(["blue", "green", "red"])
GRADES = ["low", "mid", "high", "top"]


def drawn_table(n=400, seed=0):
    """A table of one factor: a skewed and a bounded number, grades, a category, yes or no."""
    rng = np.random.default_rng(seed)
    s, e = rng.normal(size=n), rng.normal(size=(n, 7))
    category = np.stack([1.5 * s + e[:, 3], e[:, 4], -1.5 * s + e[:, 5]], axis=1).argmax(axis=1)
    grade = np.digitize(s + 0.5 * e[:, 2], [-1.0, 0.2, 1.0])
    return pd.DataFrame(
        {
            "income": np.exp(9.0 + s + 0.3 * e[:, 0]),
            "share": 1.0 / (1.0 + np.exp(-s - 0.3 * e[:, 1])),
            "grade": pd.Categorical.from_codes(grade, GRADES, ordered=True),
            "colour": COLOURS[category],
            "member": s + 0.5 * e[:, 6] > 0,
        }
    )


def holed(table, share=0.2, seed=1):
    return table.mask(np.random.default_rng(seed).random(table.shape) < share)


@pytest.fixture(scope="module")
def table():
    return drawn_table()


@pytest.fixture(scope="module")
def known(table):
    out = holed(table.astype({"member": "boolean"}))
    out.index = [f"row {i}" for i in range(len(out))]
    return out


@pytest.fixture(scope="module")
def model(known):
    return MCFA(n_parts=1, n_factors=3, likelihood="auto", random_state=0).fit(known)


def test_the_bound_never_falls_and_one_factor_is_found(model):
    assert_never_falls(model.lower_bounds_)
    assert_array_equal(model.n_factors_, [1])
    assert_array_equal(model.parts_, 0)
    assert_array_equal(model.latent_columns_, [0, 1, 2, 3, 3, 3, 4])
    assert model.gates_.shape == (5, 1)
    assert model.loadings_.shape == (1, 7, 3)
    assert model.column_levels_["grade"] == tuple(GRADES)


def test_imputed_values_are_the_users_and_near_the_truth(model, table, known):
    found = model.impute(known)
    assert_array_equal(found.index, known.index)
    assert found["grade"].cat.categories.tolist() == GRADES
    assert not found.isna().any().any()
    missing = known.isna().to_numpy()
    assert found["share"].between(0.0, 1.0).all()
    assert (found["income"] > 0).all()
    for column, least in (("grade", 0.5), ("colour", 0.55), ("member", 0.75)):
        own = missing[:, known.columns.get_loc(column)]
        truth = table[column].to_numpy()[own]
        assert np.mean(found[column].to_numpy()[own] == truth) > least
    own = missing[:, 1]
    error = found["share"].to_numpy()[own] - table["share"].to_numpy()[own]
    assert np.sqrt(np.mean(error**2)) < 0.6 * table["share"].std()
    seen = ~missing
    assert (found.to_numpy()[seen] == known.to_numpy()[seen]).all()


def test_intervals_cover_held_out_numbers(model, table, known):
    lower, upper = model.predict_interval(known, coverage=0.8)
    assert lower["colour"].isna().all()
    assert (lower["grade"].cat.codes <= upper["grade"].cat.codes).all()
    inside = []
    for column in ("income", "share"):
        own = known[column].isna().to_numpy()
        truth = table[column].to_numpy()[own]
        inside += list((lower[column][own] <= truth) & (truth <= upper[column][own]))
    assert 0.7 < np.mean(inside) < 0.9


def test_intervals_of_counts_cover_at_least_as_much():
    """The quantiles of most rows lie between 0 and 1 and between 1 and 2, yet 1 alone is 62 %."""
    counts = np.repeat([0.0, 1.0, 2.0], [57, 186, 57])
    table = pd.DataFrame({"n": counts, "x": np.random.default_rng(0).normal(size=300)})
    model = MCFA(1, 1, likelihood={"n": "poisson", "x": "gaussian"}, random_state=0).fit(table)
    lower, upper = model.predict_interval(table.assign(n=np.nan), coverage=0.8)
    assert (lower["n"].le(counts) & upper["n"].ge(counts)).mean() >= 0.8


def test_probabilities_columns_and_cells_agree(model, known):
    shares = model.predict_proba_columns(known)
    assert set(shares) == {"grade", "colour", "member"}
    for values in shares.values():
        assert_allclose(values.sum(axis=1), 1.0)
    row = int(np.flatnonzero(known["colour"].isna())[0])
    scores = model.score_cells(known, [row] * 3, ["colour"] * 3, COLOURS)
    assert_allclose(np.exp(scores), shares["colour"][row], rtol=1e-6)
    guess = model.predict_columns(given={"income": 60_000.0}, columns=["colour", "member"])
    assert guess["colour"].item() == "blue"
    assert bool(guess["member"].item())


def test_densities_of_numbers_are_those_of_the_users_units(model, known):
    row = int(np.flatnonzero(known["share"].isna())[0])
    grid = np.linspace(0.001, 0.999, 600)
    rows = [row] * len(grid)
    density = np.exp(model.score_cells(known, rows, ["share"] * len(grid), grid))
    inside = density.sum() * (grid[1] - grid[0])
    assert 0.95 < inside < 1.01
    # The same of a number whose logarithm is modeled.
    row = int(np.flatnonzero(known["income"].isna())[0])
    grid = np.exp(np.linspace(5.0, 13.0, 800))
    scores = model.score_cells(known, [row] * len(grid), ["income"] * len(grid), grid)
    inside = np.sum(np.exp(scores) * np.gradient(grid))
    assert_allclose(inside, 1.0, atol=0.03)


def test_rows_are_scored_sampled_and_explained(model, known):
    assert np.isfinite(model.score_samples(known.iloc[:20])).all()
    scores = model.anomaly_scores(known.iloc[:20])
    assert scores.shape == (20, 1)
    odd = known.iloc[[3]].copy()
    odd[["income", "share"]] = [[1e6, 0.01]]
    assert model.anomaly_scores(odd)[0, 0] > scores.max()
    rows, factors = model.sample(50, random_state=0)
    assert factors.shape == (50, 3)
    assert rows["grade"].cat.categories.tolist() == GRADES
    assert set(rows["colour"]) <= set(COLOURS)
    (part,) = model.explain(known.iloc[0])
    assert {"column", "value", "expected", "evidence"} == set(part["columns"][0])
    assert model.inverse_transform(model.transform(known)).shape == known.shape


def test_part_scores_are_the_row_scores_where_there_is_one_part(model, known):
    rows = known.iloc[:10]
    assert_allclose(-model.anomaly_scores(rows)[:, 0], model.score_samples(rows), atol=0.3)


def test_several_imputations_vary_and_repeat(model, known):
    first = model.impute(known, n_imputations=3, random_state=0)
    again = model.impute(known, n_imputations=3, random_state=0)
    assert all(a.equals(b) for a, b in zip(first, again, strict=True))
    assert not first[0].equals(first[1])
    with pytest.raises(ValueError, match="at least 1"):
        model.impute(known, n_imputations=0)


def test_a_saved_model_answers_the_same(model, known, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = partwise.load(tmp_path / "model.safetensors")
    assert again.impute(known).equals(model.impute(known))
    assert_array_equal(again.transform(known), model.transform(known))
    for a, b in zip(again.predict_interval(known), model.predict_interval(known), strict=True):
        assert a.equals(b)


def test_polars_and_arrays_give_the_same_numbers(model, known):
    pl = pytest.importorskip("polars")
    plain = known.astype({"grade": str, "member": object}).mask(known.isna(), None)
    frame = pl.DataFrame({name: plain[name].tolist() for name in plain}, strict=False)
    made = MCFA(1, 3, likelihood={"grade": "categorical"}, random_state=0)
    found = made.fit(frame).impute(frame)
    assert isinstance(found, pl.DataFrame)
    assert not any(found.null_count().row(0))
    assert_allclose(
        found["share"].to_numpy(), model.impute(known)["share"].to_numpy(), atol=0.1
    )  # grades are categories here


@pytest.mark.ci
def test_threads_change_nothing(known):
    one, two = (
        MCFA(2, 2, likelihood="auto", n_jobs=n, tol=0.05, random_state=0).fit(known) for n in (1, 2)
    )
    assert_array_equal(one.loadings_, two.loadings_)
    assert_array_equal(one.transform(known), two.transform(known))


def test_gaussian_columns_with_affine_maps_are_plain_mcfa(monkeypatch):
    """The copula without its marginals is factor analysis of the numbers."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(150, 6))
    X = 3.0 + 10.0 * X
    X[rng.random(X.shape) < 0.15] = np.nan

    def affine(cls, values, weight):
        mean = np.average(values, weights=weight)
        return cls.affine(mean, np.sqrt(np.average((values - mean) ** 2, weights=weight)))

    monkeypatch.setattr(Marginal, "learn", classmethod(affine))
    plain = MCFA(2, 2, random_state=0, max_iter=30).fit(X)
    mixed = MCFA(2, 2, likelihood="auto", random_state=0, max_iter=30).fit(X)
    assert_array_equal(mixed.kinds_, "gaussian")
    assert_allclose(mixed.lower_bounds_, plain.lower_bounds_, rtol=1e-6)
    assert_array_equal(mixed.parts_, plain.parts_)
    fitted = fitted_of(mixed)
    told = copula.predictive(fitted, X, np.isnan(X))
    filled = plain.impute(X)
    for d, cells in told.items():
        assert_allclose(cells.mean(), filled[cells.rows, d], rtol=1e-5, atol=1e-4)


def test_sizes_are_selected_and_parts_found():
    rng = np.random.default_rng(4)
    s, e = rng.normal(size=(300, 2)), rng.normal(size=(300, 6))
    X = pd.DataFrame(
        {
            "a": np.exp(s[:, 0] + 0.3 * e[:, 0]),
            "b": s[:, 0] + 0.3 * e[:, 1],
            "c": np.digitize(s[:, 0] + 0.3 * e[:, 2], [-0.5, 0.5]).astype(float),
            "d": s[:, 1] + 0.3 * e[:, 3],
            "e": s[:, 1] ** 3 + 0.3 * e[:, 4],
            "f": s[:, 1] + 0.3 * e[:, 5] > 0,
        }
    )
    found = MCFA("auto", "auto", likelihood="auto", random_state=0).fit(X)
    parts = found.parts_
    assert found.n_parts_ == 2
    assert len(set(parts[:3])) == len(set(parts[3:])) == 1
    assert parts[0] != parts[3]


def test_unused_columns_and_what_is_refused(known):
    named = {"colour": "ignored"}
    found = MCFA(1, 2, likelihood=named, random_state=0).fit(known).impute(known)
    assert found["colour"].isna().sum() == known["colour"].isna().sum()
    for options, word in (({"prior": None}, "prior"), ({"gating": "factorised"}, "factorised")):
        with pytest.raises(ValueError, match=word):
            MCFA(1, 2, likelihood="auto", **options).fit(known)
    with pytest.raises(ValueError, match="circular"):
        MCFA(1, 2, likelihood={"share": "circular"}).fit(known)
    assert not hasattr(MCFA(1, 2, likelihood="auto"), "partial_fit")
    with pytest.raises(ValueError, match='likelihood="auto"'):
        MCFA(1, 1).fit(np.ones((4, 2))).impute(np.ones((4, 2)), n_imputations=2)


def test_pictures_of_latent_numbers_are_refused(model, known):
    from partwise.plot import LoadingsDisplay

    with pytest.raises(TypeError, match="latent numbers"):
        LoadingsDisplay.from_estimator(model)


def test_draws_and_quantiles_of_cells_agree_with_their_distribution(model, known):
    schema = fitted_of(model).schema
    coded = schema.encode(known.iloc[:50])
    told = copula.predictive(fitted_of(model), coded, np.isnan(coded))
    rng = np.random.default_rng(0)
    for d, cells in told.items():
        draws = np.stack([cells.draw(rng) for _ in range(400)])
        assert_array_equal(cells.rows, np.flatnonzero(np.isnan(coded[:, d])))
        if cells.n_levels:
            shares = np.stack([(draws == v).mean(axis=0) for v in range(cells.n_levels)], axis=1)
            assert_allclose(shares, cells.probabilities(), atol=0.12)
            assert_allclose(cells.below(cells.n_levels - 1), 1.0)
        else:
            for p in (0.1, 0.5, 0.9):
                assert_allclose(cells.below(cells.quantile(p)), p, atol=1e-9)
            assert_allclose((draws <= cells.quantile(0.5)).mean(axis=0), 0.5, atol=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wine", "diabetes", "breast_cancer"])
def test_intervals_cover_held_out_cells_of_real_tables(name):
    from sklearn import datasets

    table = getattr(datasets, f"load_{name}")(as_frame=True).data
    inside = {0.5: [], 0.8: [], 0.95: []}
    for seed in range(3):
        known = holed(table, seed=seed)
        model = MCFA(1, 8, likelihood="auto", random_state=0).fit(known)
        # Intervals of levels are whole levels, which cover more.
        missing = known.isna().to_numpy() & ~known.columns.isin(model.column_levels_)
        for coverage, found in inside.items():
            ends = [end.to_numpy(dtype=float) for end in model.predict_interval(known, coverage)]
            truth = table.to_numpy()
            found += list(((ends[0] <= truth) & (truth <= ends[1]))[missing])
    for coverage, found in inside.items():
        assert abs(np.mean(found) - coverage) < 0.07
