"""MCVQ on tables of several kinds of columns: the same model, said in the user's own terms."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats
from sklearn.metrics import adjusted_rand_score

import partwise
from partwise import MCVQ, PartsImputer, make_survey
from partwise.answers.states import log_marginal
from partwise.data import Kind, source
from partwise.fitted import core_of, fitted_of
from partwise.likelihoods import Prior
from tests.common.helpers import (
    assert_never_falls,
    build,
    punch_holes,
    random_entries,
    random_gates,
    random_posteriors,
    start_from,
)

SINGLE = ["gaussian", "bernoulli", "poisson", "categorical", "ordinal"]
OF_ONE_KIND = {name: Kind(name) for name in ("gaussian", "bernoulli", "poisson")}


@pytest.fixture(scope="module")
def survey():
    return make_survey(600, n_parts=3, n_columns_per_kind=1, missing=0.15, random_state=3)


@pytest.fixture(scope="module")
def model(survey):
    return MCVQ(3, 4, likelihood="auto", random_state=0).fit(survey.frame)


def parts_of(model):
    """Learned numbers that tell two fits apart."""
    theta = fitted_of(model).params
    knots = fitted_of(model).calibration.knots
    return [*theta.chi, theta.gates, theta.state_counts, model.lower_bounds_, knots]


def same(a, b, **tolerance):
    for one, other in zip(parts_of(a), parts_of(b), strict=True):
        if tolerance:
            assert_allclose(one, other, **tolerance)
        else:
            assert_array_equal(one, other)


# --- the same model ---


@pytest.mark.parametrize("init", ["dependence", "random"])
@pytest.mark.parametrize("kind", SINGLE)
def test_a_table_of_one_kind_is_the_model_of_one_likelihood(kind, init):
    rng = np.random.default_rng(1)
    made = make_survey(150, n_parts=2, n_columns_per_kind=3, random_state=2)
    own = made.complete.loc[:, made.kinds == kind]
    if kind in ("categorical", "ordinal"):
        X = rng.integers(4, size=(150, 6)) + 0.0
        X[:, ::2] = X[:, :1]  # some that belong together
        frame = pd.DataFrame(X).astype(int).astype(str).astype("category")
        if kind == "ordinal":
            frame = frame.astype(pd.CategoricalDtype(list("0123"), ordered=True))
    else:
        X, frame = own.to_numpy(dtype=float), own
    holes = rng.random(X.shape) < 0.1
    X, frame = np.where(holes, np.nan, X), frame.mask(holes)
    arguments = {"init": init, "random_state": 0}
    # Counts of few values would be taken for ordered answers.
    told = ["poisson"] * X.shape[1] if kind == "poisson" else "auto"
    table = MCVQ(2, 3, likelihood=told, **arguments).fit(frame)
    plain = MCVQ(2, 3, likelihood=kind, **arguments).fit(X)
    assert set(table.kinds_) == {kind}
    if kind in ("poisson", "ordinal"):  # those of tables have calibrated intervals
        own = replace(fitted_of(table), calibration=fitted_of(plain).calibration)
        table._fitted = own
    same(table, plain)
    assert_array_equal(table.row_labels_, plain.row_labels_)
    assert_array_equal(table.score_samples(frame), plain.score_samples(X))


def mixed_matrix(rng, C=70):
    """Columns of four kinds, interleaved, with what each is and those of one kind together."""
    kinds = [*OF_ONE_KIND.values(), Kind("categorical", 4)]
    which = rng.permutation(np.repeat(np.arange(4), 3))
    X = np.empty((C, len(which)))
    for i, kind in enumerate(kinds):
        own = np.flatnonzero(which == i)
        values = random_entries(kind.likelihood, (C, len(own)), rng)
        if kind.n_levels:
            values = np.searchsorted([-1.0, 0.0, 2.0, 5.0], values).astype(float)
        X[:, own] = values
    return punch_holes(X, 0.2, rng), [kinds[i] for i in which], kinds, which


@pytest.mark.parametrize("prior", [Prior(), None])
def test_kinds_add_up(prior):
    # Given the gates and the rows' states, columns learn by themselves, and what the entries say
    # of a row's states is a sum over columns: so a mixed table is its pieces side by side.
    rng = np.random.default_rng(0)
    X, told, kinds, which = mixed_matrix(rng)
    weight, n_states = rng.uniform(0.5, 2.0, len(X)), (3, 2)
    m = random_posteriors(n_states, len(X), rng)
    gates = random_gates(2, X.shape[1], rng)
    core, rows = build(X, weight, n_states, told, prior=prior)
    theta = start_from(core, rows, m, gates)
    evidence = np.zeros((5, len(X)))
    for i, kind in enumerate(kinds):
        own = np.flatnonzero(which == i)
        alone, own_rows = build(X[:, own], weight, n_states, [kind] * len(own), prior=prior)
        own_theta = start_from(alone, own_rows, m, gates[:, own])
        (g,) = [g for g, columns in enumerate(core.columns) if np.array_equal(columns, own)]
        assert_array_equal(theta.chi[g], own_theta.chi[0])
        evidence += alone.evidence(alone.begin(own_theta), own_rows.block(0))
    assert_allclose(core.evidence(core.begin(theta), rows.block(0)), evidence, rtol=1e-10)


def by_hand(model, row):
    """Log density of one row, summed over all states, from the laws' definitions."""
    core, theta, schema = (
        core_of(fitted_of(model).model, object),
        fitted_of(model).params,
        fitted_of(model).schema,
    )
    log_b = log_marginal(fitted_of(model))
    total = []
    for states in itertools.product(*(range(lo, hi) for lo, hi in itertools.pairwise(core.first))):
        density = sum(log_b[s] for s in states)
        for g, group in enumerate(fitted_of(model).columns):
            for i, d in enumerate(group.index):
                value = row.iloc[d]
                if pd.isna(value):
                    continue
                terms = [
                    np.log(gate) + cell(schema.columns[d], group, theta.chi[g][:, s, i], i, value)
                    for gate, s in zip(theta.gates[:, d], states, strict=True)
                    if gate > 0
                ]
                density += special.logsumexp(terms)
        total.append(density)
    return special.logsumexp(total)


def cell(column, group, chi, i, value):
    """Log predictive density of one value in the user's units, by scipy."""
    if column.kind in ("gaussian", "lognormal"):
        kappa, mean, a = chi[0], chi[1] / chi[0], 0.5 * (chi[0] + group.likelihood.offset)
        b = 0.5 * (chi[2] - chi[1] ** 2 / chi[0])
        law = stats.t(
            2 * a,
            group.shift[i] + group.scale[i] * mean,
            group.scale[i] * np.sqrt(b * (kappa + 1) / (a * kappa)),
        )
        return law.logpdf(value) if column.kind == "gaussian" else (
            law.logpdf(np.log(value)) - np.log(value)
        )  # fmt: skip
    if column.kind == "poisson":
        return stats.nbinom(chi[1], chi[0] / (chi[0] + 1)).logpmf(value)
    code = column.levels.index(value)
    p = chi / chi.sum() if len(chi) == len(column.levels) > 2 else None
    if column.kind == "bernoulli":
        p = np.array([chi[0] - chi[1], chi[1]]) / chi[0]
    return np.log(p[code])


def test_rows_have_the_density_of_their_definition():
    table = make_survey(120, n_parts=2, n_columns_per_kind=1, missing=0.1, random_state=5).frame
    table["income"] = np.exp(np.random.default_rng(0).normal(3.0, 1.0, len(table)))
    model = MCVQ(2, 2, likelihood="auto", gating="standard", random_state=0).fit(table)
    assert model.kinds_[-1] == "lognormal"
    expected = [by_hand(model, table.iloc[r]) for r in range(4)]
    assert_allclose(model.score_samples(table.iloc[:4]), expected, rtol=1e-9)


def test_the_bound_never_falls(survey):
    model = MCVQ(3, 4, likelihood="auto", gating="tied", init="random", tol=0, max_iter=15,
                 random_state=0)  # fmt: skip
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(survey.frame)
    assert_never_falls(model.lower_bounds_)


@pytest.mark.ci
@pytest.mark.parametrize("arguments", [{"gating": "factorised"}, {"prior": None}, {"n_classes": 2}])
def test_other_models_of_tables(survey, arguments):
    model = MCVQ(3, 3, likelihood="auto", random_state=0, tol=1.0, **arguments)
    table = survey.frame.iloc[:200]
    assert model.fit(table).impute(table).notna().all().all()
    assert np.isfinite(model.score_samples(table)).all()


# --- what changes nothing ---


@pytest.mark.ci
def test_threads_and_blocks_change_nothing(survey, model, monkeypatch):
    again = MCVQ(3, 4, likelihood="auto", random_state=0, n_jobs=2).fit(survey.frame)
    same(model, again)
    monkeypatch.setattr(source, "BLOCK_ENTRIES", 2000)
    pieces = MCVQ(3, 4, likelihood="auto", random_state=0).fit(survey.frame)
    same(model, pieces, rtol=1e-6, atol=1e-8)
    pd.testing.assert_frame_equal(pieces.impute(survey.frame), model.impute(survey.frame))


@pytest.mark.ci
def test_a_weight_of_two_is_a_row_twice(survey):
    table = survey.frame.iloc[:150]
    weight = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    weight[-20:] = 0
    twice = pd.concat([table[weight > 0], table[weight == 2]])
    arguments = {"likelihood": "auto", "gating": "tied", "tol": 1e-6, "random_state": 0}
    a = MCVQ(3, 3, **arguments).fit(table, sample_weight=weight)
    b = MCVQ(3, 3, **arguments).fit(twice)
    assert_array_equal(a.parts_, b.parts_)
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-8)
    assert_allclose(a.means_, b.means_, rtol=1e-6)


def test_the_order_of_columns_changes_no_part(survey, model):
    order = np.random.default_rng(0).permutation(survey.frame.shape[1])
    other = MCVQ(3, 4, likelihood="auto", random_state=0).fit(survey.frame.iloc[:, order])
    assert adjusted_rand_score(model.parts_[order], other.parts_) == 1.0
    assert_allclose(other.lower_bound_, model.lower_bound_, atol=0.05)


def test_columns_that_are_left_out_change_nothing(survey, model):
    table = survey.frame.assign(name=[f"n{i}" for i in range(600)], none=None)
    with pytest.warns(UserWarning, match="left out of the model"):
        other = MCVQ(3, 4, likelihood="auto", random_state=0).fit(table)
    assert_array_equal(other.parts_, [*model.parts_, -1, -1])
    assert_array_equal(other.score_samples(table), model.score_samples(survey.frame))
    filled = other.impute(table)
    pd.testing.assert_frame_equal(filled[survey.frame.columns], model.impute(survey.frame))
    pd.testing.assert_frame_equal(filled[["name", "none"]], table[["name", "none"]])


def test_parts_of_a_planted_table_are_found(survey, model):
    assert adjusted_rand_score(survey.parts, model.parts_) == 1.0


# --- holes ---


def test_filled_tables_keep_what_was_there(survey, model):
    table = survey.frame.set_index(pd.Index(np.arange(600) * 2, name="id"))
    filled = model.impute(table)
    assert filled.index.equals(table.index)
    assert_array_equal(filled.dtypes, table.dtypes)
    assert not filled.isna().any().any()
    for name in table:
        seen = table[name].notna()
        assert (filled[name][seen] == table[name][seen]).all()
    right = filled["group0"] == survey.complete["group0"].set_axis(table.index)
    hidden = table["group0"].isna()
    most = survey.complete["group0"].mode()[0]
    assert right[hidden].mean() > (survey.complete["group0"] == most).mean() + 0.05


@pytest.mark.ci
def test_polars_says_the_same(survey, model):
    pl = pytest.importorskip("polars")
    table = survey.frame.copy()
    plain = table.astype({name: object for name in table if "scale" in name})
    other = pl.DataFrame({name: [None if pd.isna(v) else v for v in plain[name]] for name in plain})
    levels = {name: list(table[name].cat.categories) for name in table if "scale" in name}
    told = {name: "categorical" for name in levels}
    a = MCVQ(3, 4, likelihood=told, random_state=0).fit(plain)
    b = MCVQ(3, 4, likelihood=told, random_state=0).fit(other)
    same(a, b)
    filled = b.impute(other)
    assert isinstance(filled, pl.DataFrame)
    assert filled.schema == other.schema
    assert filled["group0"].to_list() == a.impute(plain)["group0"].to_list()
    assert b.summary().to_frame().columns == ["part", "columns", "state", "share", "profile"]
    assert b.dependence().shape == (15, 16)
    assert b.anomalous_cells(other, 3).height == 3
    assert b.sample(4)[0].schema == other.schema
    assert b.add_states(other).columns[-3:] == ["part0", "part1", "part2"]


@pytest.mark.parametrize("fitted", ["pandas", "polars"])
def test_a_model_of_one_library_serves_tables_of_the_other(fitted):
    pl = pytest.importorskip("polars")
    rng, words = np.random.default_rng(0), np.array(["a", "b"])
    state = rng.integers(2, size=80)
    X = pd.DataFrame({
        "size": state + 0.2 * rng.normal(size=80), "word": words[state],
        "count": 10 * state + rng.integers(12, size=80),
    })  # fmt: skip
    X.loc[::9, "size"], X.loc[4::9, "word"], X["flag"] = np.nan, None, state == 1
    tables = {"pandas": X, "polars": pl.from_pandas(X)}
    (other,) = tables.keys() - {fitted}
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(tables[fitted], words[state])
    for ask in (model.impute, model.add_states):
        answers = {name: ask(table) for name, table in tables.items()}
        assert type(answers[other]) is type(tables[other])
        # Versions of pandas differ in whether a missing text is None or NaN.
        by_name = [repr({name: list(a[name]) for name in a.columns}) for a in answers.values()]
        assert by_name[0].replace("None", "nan") == by_name[1].replace("None", "nan")


def test_whole_numbers_stay_whole_in_polars():
    pl = pytest.importorskip("polars")
    state = np.arange(60) % 2
    X = pl.DataFrame(
        {"a": 20 * state + (np.arange(60) % 3 > 0), "b": 90 * state + np.arange(60) % 30}
    )
    model = MCVQ(1, 2, likelihood={"a": "gaussian"}, random_state=0).fit(X.cast(pl.Float64))
    missing = X.with_columns(a=pl.when(pl.int_range(60) < 9).then(None).otherwise(pl.col("a")))
    filled, exact = model.impute(missing), model.impute(missing.cast(pl.Float64))
    assert filled.schema == X.schema
    assert filled["a"].to_list() == np.rint(exact["a"].to_numpy()).tolist()


@pytest.mark.ci
def test_several_completed_tables_are_draws_of_the_model(survey, model):
    table = survey.frame.iloc[:40]
    draws = model.impute(table, n_imputations=100, random_state=1)
    again = model.impute(table, n_imputations=8, random_state=1)
    pd.testing.assert_frame_equal(draws[7], again[7])
    for name in ("group0", "answer1", "scale2"):
        p = model.predict_proba_columns(table)[name]
        holes = table[name].isna().to_numpy()
        for level, share in zip(model.column_levels_[name], p[holes].T, strict=True):
            drawn = np.mean([d[name][holes].to_numpy() == level for d in draws], axis=0)
            assert_allclose(drawn, share, atol=5 * np.sqrt(0.25 / 100))
    holes = table["number1"].isna().to_numpy()
    drawn = np.stack([d["number1"][holes].to_numpy() for d in draws])
    lower, upper = (end["number1"][holes].to_numpy() for end in model.predict_interval(table, 0.8))
    inside = np.mean((drawn >= lower) & (drawn <= upper))
    assert 0.7 < inside < 0.9
    seen = table["number1"].notna()
    assert (draws[3]["number1"][seen] == table["number1"][seen]).all()


def test_intervals_are_in_the_users_units(survey, model):
    lower, upper = model.predict_interval(survey.frame, 0.9)
    assert lower["answer0"].isna().all()
    assert upper["group0"].isna().all()
    ordered = lower["scale0"] <= upper["scale0"]
    assert ordered.all()
    hidden = survey.hidden[:, 0]
    true = survey.complete["number0"]
    inside = (lower["number0"] <= true) & (true <= upper["number0"])
    assert 0.8 < inside[hidden].mean() < 0.98


def test_probabilities_of_levels(survey, model):
    found = model.predict_proba_columns(survey.frame, ["group0", "scale1"])
    assert set(found) == {"group0", "scale1"}
    for p in found.values():
        assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    filled = model.reconstruct(survey.frame)
    levels = np.array(model.column_levels_["group0"], dtype=object)
    assert (levels[found["group0"].argmax(axis=1)] == filled["group0"]).all()
    # Of ordered levels the median is told.
    below = np.cumsum(found["scale1"], axis=1)
    median = (below < 0.5).sum(axis=1)
    assert_array_equal(filled["scale1"].cat.codes, median)


def test_single_cells_are_judged_in_the_users_terms(survey, model):
    table = survey.frame.iloc[:20]
    level, number = survey.complete["group0"][0], survey.complete["number0"][1]
    holed = table.copy()
    holed.loc[0, "group0"] = holed.loc[1, "number0"] = np.nan
    found = model.score_cells(holed, [0, 1], ["group0", "number0"], [level, number])
    p = model.predict_proba_columns(holed, ["group0"])["group0"]
    code = model.column_levels_["group0"].index(level)
    assert_allclose(found[0], np.log(p[0, code]), rtol=1e-6)
    near = model.score_cells(holed, [1, 1], ["number0"] * 2, [number, number + 1e9])
    assert near[0] == found[1] > near[1]


# --- structure ---


def test_dependence_is_that_of_the_joint_table(survey, model):
    found = model.dependence()
    assert list(found.columns) == list(survey.frame.columns)
    assert_array_equal(found, found.T)
    other = model.parts_[:, None] != model.parts_
    closed = fitted_of(model).params.gates.max(axis=0) == 1.0
    assert_allclose(found.to_numpy()[other & closed & closed[:, None]], 0.0, atol=1e-12)
    # Two columns of levels: sum over states, then the definition.
    a, b = "answer0", "group0"
    d, e = (list(survey.frame).index(name) for name in (a, b))
    assert model.parts_[d] == model.parts_[e]
    k = model.parts_[d]
    joint = np.einsum(
        "j,jv,jw->vw", model.state_priors_[k], model.level_shares_[a][k], model.level_shares_[b][k]
    )
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    assert_allclose(found.loc[a, b], np.sum(joint * np.log(joint / product)), rtol=1e-9)


def test_dependence_of_numbers_by_drawing():
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=4000)
    X = np.stack([4.0 * state, 3.0 * state], axis=1) + rng.normal(size=(4000, 2))
    model = MCVQ(1, 2, random_state=0).fit(X)
    law = [stats.norm(model.means_[0, j], np.sqrt(model.variances_[0, j])) for j in range(2)]
    b = model.state_priors_[0]
    rows, _ = model.sample(40_000, random_state=1)
    each = np.stack([one.logpdf(rows) for one in law])  # (J, n, D)
    joint = special.logsumexp(each.sum(axis=2), axis=0, b=b[:, None])
    apart = special.logsumexp(each, axis=0, b=b[:, None, None]).sum(axis=1)
    assert_allclose(model.dependence()[0, 1], np.mean(joint - apart), atol=0.02)


def test_parts_in_words(survey, model):
    table = model.summary().to_frame()
    told = table[table["part"] != "none"]
    assert_allclose(told.groupby("part")["share"].sum(), 1.0, atol=0.01)
    named = {name for names in told["columns"] for name in names.split(", ")}
    assert named == {name for name, k in zip(survey.frame, model.parts_, strict=True) if k >= 0}
    assert table["profile"].str.contains("overall").mean() > 0.8


def test_any_columns_given_any_others(survey, model):
    row = survey.complete.iloc[3]
    known = {name: row[name] for name in ("number0", "group0", "count1")}
    found = model.predict_columns(given=known, columns=["answer0", "scale0", "number1"])
    table = pd.DataFrame([row]).astype(survey.frame.dtypes)
    holed = table.mask(~table.columns.isin(list(known))[None, :])
    filled = model.impute(holed.astype(survey.frame.dtypes))
    for name in found:
        assert found[name].iloc[0] == filled[name].iloc[0]
    some = survey.complete[["number0", "group0"]].iloc[:5]
    assert model.predict_columns(some, "answer0").index.equals(some.index)
    # What is known of the columns asked for is not looked at.
    cheating = model.predict_columns(given=known | {"number1": 1e6}, columns=["number1"])
    assert cheating["number1"].iloc[0] == found["number1"].iloc[0]


@pytest.mark.parametrize("frame", [None, pd.DataFrame, pl.DataFrame])
def test_columns_of_numbers_are_predicted_without_a_change_of_the_rows(frame):
    """Of rows that are an array, or a frame, which may lack columns."""
    values = np.random.default_rng(0).normal(size=(40, 3))
    holed = np.where(np.arange(3) == 1, np.nan, values)
    X, Z = (
        v.copy() if frame is None else frame(dict(zip("abc", v.T, strict=True)))
        for v in (values, holed)
    )
    model = MCVQ(1, 2, random_state=0).fit(X)
    expected = model.impute(Z)[:, [1]]
    assert_allclose(model.predict_columns(X, [1] if frame is None else ["b"]), expected)
    assert_array_equal(np.asarray(X), values)
    if frame is not None:
        assert_allclose(model.predict_columns(X[["c", "a"]], ["b"]), expected)


def test_rows_drawn_given_some_cells(survey, model):
    known = {"group0": model.column_levels_["group0"][0], "number1": 0.5}
    rows, states = model.sample(500, given=known, random_state=0)
    assert (rows["group0"] == known["group0"]).all()
    assert (rows["number1"] == 0.5).all()
    assert states.shape == (500, 3)
    p = model.predict_proba_columns(
        fitted_of(model).schema.decode(fitted_of(model).schema.encode_row(known)), ["scale0"]
    )["scale0"][0]
    drawn = rows["scale0"].cat.codes.value_counts(normalize=True).reindex(range(5), fill_value=0)
    assert_allclose(drawn.sort_index(), p, atol=5 * np.sqrt(0.25 / 500))


# --- odd cells, groups ---


def test_odd_cells_are_found_and_explained(survey, model):
    table = survey.complete.astype({"count0": float})
    spread = table["number1"].std()
    table.loc[17, "number1"] = table["number1"].mean() + 12 * spread
    table.loc[40, "count0"] = 90.0
    odd = model.anomalous_cells(table, 4)
    assert set(zip(odd["row"][:2], odd["column"][:2], strict=True)) == {
        (17, "number1"),
        (40, "count0"),
    }
    assert odd["surprise"].is_monotonic_decreasing
    place = list(odd["row"]).index(17)
    holed = table.copy()
    holed.loc[17, "number1"] = np.nan
    expected = model.impute(holed).loc[17, "number1"]
    assert_allclose(odd["expected"].iloc[place], expected, rtol=1e-9)
    scores = model.anomaly_scores(table)
    assert scores[:, model.parts_[list(table).index("number1")]].argmax() == 17


def test_surprise_by_its_definition(survey, model):
    table = survey.complete.iloc[:30]
    odd = model.anomalous_cells(table, 10_000)
    first, gates = core_of(fitted_of(model).model, object).first, fitted_of(model).params.gates
    assert (gates.max(axis=0) == 1.0).all()
    for name in ("answer0", "group1"):
        d = list(table).index(name)
        k = model.parts_[d]
        holed = table.copy()
        holed[name] = holed[name].astype(object).mask(np.ones(30, bool))
        w = model.transform(holed)[:, first[k] : first[k + 1]]
        shares = model.level_shares_[name][k]  # (J, V)
        code = np.array([model.column_levels_[name].index(v) for v in table[name]])
        own = shares[:, code].T[:, :, None]  # (n, J, 1)
        tail = np.where(shares <= own + 1e-12, shares, 0.0).sum(axis=2)
        mine = odd[odd["column"] == name].set_index("row")["surprise"].sort_index()
        # The posterior of `transform` is the variational one, expected logarithms for logarithms.
        assert_allclose(mine, -np.log((w * tail).sum(axis=1)), atol=0.05)


def test_classes_over_a_table(survey):
    y = np.where(survey.states[:, 0] == 0, "yes", "no").astype(object)
    y[::5] = None
    model = MCVQ(3, 4, likelihood="auto", random_state=0).fit(survey.frame, y)
    told = model.add_states(survey.frame)
    assert list(told.columns[-4:]) == ["part0", "part1", "part2", "class"]
    unknown = np.arange(600) % 5 == 0
    right = told["class"][unknown] == np.where(survey.states[unknown, 0] == 0, "yes", "no")
    assert right.mean() > 0.9
    assert_array_equal(told["part1"], model.predict_states(survey.frame)[:, 1])
    assert model.impute(survey.frame, n_imputations=1)[0].notna().all().all()
    assert (model.dependence().to_numpy() >= 0).all()


def test_one_row_is_explained_in_its_own_words(survey, model):
    row = survey.complete.iloc[7]
    told = model.explain(row)
    assert told == model.explain(row.to_dict())
    first = told[0]["columns"][0]
    assert first["value"] == row[first["column"]]


def test_models_of_tables_are_saved(survey, model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = partwise.load(tmp_path / "model.safetensors")
    pd.testing.assert_frame_equal(again.impute(survey.frame), model.impute(survey.frame))
    pd.testing.assert_frame_equal(again.summary().to_frame(), model.summary().to_frame())
    assert_array_equal(again.score_samples(survey.frame), model.score_samples(survey.frame))


# --- bad input ---


def test_unseen_categories_are_missing(survey, model):
    new = survey.complete.iloc[:5].astype({"group0": object})
    new.loc[new.index[0], "group0"] = "nobody knows"
    with pytest.warns(UserWarning, match="'group0' has 1 value"):
        found = model.predict_states(new)
    holed = new.copy()
    holed.loc[new.index[0], "group0"] = None
    assert_array_equal(found, model.predict_states(holed))


def test_equal_names_are_no_obstacle(survey):
    table = survey.frame.iloc[:200, :3].set_axis(["x", "y", "x"], axis=1)
    with pytest.warns(UserWarning, match="Column 'x': the name of another"):
        model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(table)
    assert list(model.feature_names_in_) == ["x", "y", "x (2)"]
    assert list(model.impute(table).columns) == ["x", "y", "x"]
    assert set(model.level_shares_) == {"y", "x (2)"}


def test_what_tables_refuse(survey, model):
    from scipy import sparse

    with pytest.raises(ValueError, match="Sparse X"):
        MCVQ(2, 2, likelihood="auto").fit(sparse.eye_array(5).tocsr())
    with pytest.raises(ValueError, match="no column 'nowhere'"):
        model.predict_columns(given={"group0": "a"}, columns=["nowhere"])
    with pytest.raises(ValueError, match="has no value 'z'"):
        model.sample(2, given={"group0": "z"})
    with pytest.raises(ValueError, match="integer"):
        model.impute(survey.frame, n_imputations=0)
    with pytest.raises(ValueError, match="one row"):
        model.explain(survey.frame)
    with pytest.raises(ValueError, match="pass one row"):
        model.sample(3, given=survey.complete.iloc[:2])


def as_polars(X):
    """A frame whose missing values are nulls."""
    return pl.DataFrame(X, schema=list("abcd"), nan_to_null=True)


class TestColumnsWithoutAnyValue:
    """A number that fit never saw is imputed as zero; the model leaves it out."""

    X = np.array([[0.5, np.nan, 1.5, np.nan], [2.0, np.nan, np.nan, np.nan]])

    @staticmethod
    def fit(estimator, X):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            estimator.fit(X)
        assert any("no values" in str(one.message) for one in told)
        return estimator

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, as_polars])
    def test_every_answer_is_finite(self, container, dtype):
        X = container(self.X.astype(dtype))
        model = self.fit(MCVQ(20, 1, likelihood="auto", random_state=0), X)
        assert_array_equal(model.kinds_ == "ignored", np.isnan(self.X).all(axis=0))
        answers = [
            model.reconstruct(X),
            model.impute(X),
            *model.impute(X, 2),
            model.sample(3)[0],
            model.sample(3, given=X[:1])[0],
            model.inverse_transform(model.transform(X)),
            self.fit(PartsImputer(random_state=0), X).transform(X),
        ]
        for answer in answers:
            assert type(answer) is type(X)
            answer = np.asarray(answer)
            assert answer.dtype.kind == "f"
            assert np.isfinite(answer).all()
            assert_array_equal(answer[:, [1, 3]], 0.0)

    def test_intervals_say_that_nothing_is_known(self):
        model = self.fit(MCVQ(1, 1, likelihood="auto", random_state=0), self.X)
        for end in model.predict_interval(self.X):
            assert_array_equal(np.isnan(end), np.isnan(self.X).all(axis=0) * [[True], [True]])

    def test_values_that_come_later_are_kept(self):
        model = self.fit(MCVQ(1, 1, likelihood="auto", random_state=0), self.X)
        assert_array_equal(
            model.impute(np.array([[1.0, 7.0, 2.0, np.nan]])), [[1.0, 7.0, 2.0, 0.0]]
        )


def test_an_identifier_stays_a_number():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(30.0), rng.normal(size=30)])
    with pytest.warns(UserWarning, match="looks like an identifier"):
        model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(X)
    rows = model.reconstruct(X)
    assert rows.dtype == float
    assert_array_equal(np.isnan(rows), np.isnan([[np.nan, 0.0]] * 30))


def test_a_polars_column_without_any_value_is_imputed_with_its_own_type():
    pl = pytest.importorskip("polars")
    frame = pl.from_pandas(make_survey(200, n_parts=2, n_columns_per_kind=1, random_state=0).frame)
    model = MCVQ(2, 2, likelihood="auto", random_state=0).fit(frame)
    empty = frame[:5].with_columns(group0=None, number0=None)
    filled = model.impute(empty)
    assert filled["group0"].null_count() == filled["number0"].null_count() == 0
    assert filled.schema["number0"] == frame.schema["number0"]
    assert set(filled["group0"]) <= set(frame["group0"].drop_nulls().cast(pl.String))


def test_columns_below_several_header_rows_keep_their_names(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=40)
    names = [("a", "u"), ("a", "v"), ("b", "u")]
    X = rng.normal(3.0 * z[:, None], 1.0, (40, 3))
    table = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples(names))
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(table)
    model.save(tmp_path / "m.safetensors")
    for one in (model, partwise.load(tmp_path / "m.safetensors")):
        assert set(one.summary()["columns"][0].split(", ")) == {"a / u", "a / v", "b / u"}
        assert set(one.anomalous_cells(table, 3)["column"]) <= {"a / u", "a / v", "b / u"}
        assert list(one.impute(table.mask(table > 4)).columns) == names
        assert list(one.predict_columns(table, [("a", "u")]).columns) == [("a", "u")]


def test_a_table_under_the_default_likelihood_is_saved_and_loaded(tmp_path):
    table = pd.DataFrame({"size": [1.0, 2.0, 5.0, 6.0] * 5, "color": ["red", "blue"] * 10})
    model = MCVQ(1, 2, random_state=0).fit(table)
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert_array_equal(again.transform(table), model.transform(table))


def test_the_order_of_text_that_is_asked_to_be_ordered_is_told():
    table = pd.DataFrame(
        {"answer": ["low", "high", "medium"] * 10, "size": np.sin(np.arange(30.0))}
    )
    model = MCVQ(1, 2, likelihood={"answer": "ordinal"}, random_state=0)
    with pytest.warns(UserWarning, match=r"taken in the order 'high', 'low', 'medium'; pass"):
        model.fit(table)
    assert list(model.column_levels_["answer"]) == ["high", "low", "medium"]
