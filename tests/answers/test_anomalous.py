"""Anomalous cells: by definition, without their own rows, and among the rows of the fit."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose

import partwise
from partwise import MCVQ
from partwise.answers import anomalous
from partwise.answers import states as states_of
from partwise.fitted import fitted_of
from partwise.likelihoods import Prior


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=60)
    frame = pd.DataFrame(
        {
            "length": rng.normal(3.0 * state, 1.0),
            "width": rng.normal(-2.0 * state, 0.5).round(2),
            "visits": rng.poisson(2.0 + 10.0 * state),
            "color": np.array(["blue", "green", "red"])[(state + (rng.random(60) < 0.2)) % 3],
        }
    )
    frame.loc[5, ["length", "width"]] = 60.0, 0.25  # its own state
    frame.loc[::7, "color"] = None
    return frame


@pytest.fixture(scope="module")
def model(table):
    kinds = {"length": "gaussian", "width": "gaussian", "visits": "poisson"}
    options = {"likelihood": kinds, "prior": Prior(), "tol": 1e-12, "max_iter": 2000}
    return MCVQ(1, 3, random_state=0, **options).fit(table)


def surprise_without(model, coded, n, d):
    """The surprise of cell (n, d), by an M-step on all rows but n, and sums over states."""
    fitted = fitted_of(model)
    core, params = states_of.core(fitted), fitted.params
    assert (model.parts_ == 0).all()
    m = states_of.posteriors(fitted, coded)[:, : core.first[1]].astype(float)
    rest = np.delete(np.arange(len(coded)), n)
    counts = m[rest].sum(axis=0) + core.state_prior.concentration
    log_joint = np.log(counts / counts.sum())
    tail = None
    for g, (group, prior) in enumerate(zip(fitted.columns, core.priors, strict=True)):
        for i, column in enumerate(group.index):
            encoded = coded[:, column]
            if group.levels is None:
                encoded = (encoded - group.shift[i]) / group.scale[i]
            sums = np.zeros((params.chi[g].shape[0], len(counts)))
            for r in rest:
                if not np.isnan(encoded[r]):
                    T = prior.likelihood.statistics(encoded[r : r + 1])[:, 0]
                    sums += T[:, None] * m[r]
            one = prior.take(np.array([i]))
            law = one.predictive(one.posterior(sums[:, :, None]))
            if column == d:
                tail = law.tail(encoded[n])[:, 0]
            elif not np.isnan(encoded[n]):
                log_joint = log_joint + law.log_density(encoded[n])[:, 0]
    log_joint[m[rest].sum(axis=0) < 0.5] = -np.inf  # a state that only this row had
    w = np.exp(log_joint - log_joint.max())
    return -np.log(w @ tail / w.sum())


def test_rows_of_the_fit_are_scored_by_an_m_step_without_them(table, model, monkeypatch):
    monkeypatch.setattr(anomalous, "LEAST_HELP", 0.0)
    coded = model._checked(table)
    found = anomalous.anomalous_cells(fitted_of(model), table, coded, table.size)
    surprise = pd.DataFrame(found).set_index(["row", "column"])["surprise"]
    assert len(surprise) == table.notna().sum().sum()
    for n in (0, 5, 11, 14):
        for d, name in enumerate(table):
            if pd.notna(table.loc[n, name]):
                expected = surprise_without(model, coded, n, d)
                assert_allclose(surprise[n, name], expected, rtol=1e-5, atol=1e-6)


def test_a_wrong_cell_with_its_own_state_is_found(table, model):
    of = fitted_of(model), table, model._checked(table), table.size
    helped = pd.DataFrame(anomalous.anomalous_cells(*of, of_fit=False))
    found = model.anomalous_cells(table, table.size)
    first = found.iloc[0]
    assert (first["row"], first["column"]) == (5, "length")
    assert abs(first["expected"]) < 6
    before = helped[(helped["row"] == 5) & (helped["column"] == "length")].iloc[0]
    assert helped.iloc[0]["row"] != 5
    assert before["surprise"] < first["surprise"] - 5
    assert abs(first["expected"]) < abs(before["expected"])


def test_the_rows_of_the_fit_are_known_by_their_totals(table, model, tmp_path):
    def are_own(model, frame):
        coded = model._checked(frame)
        totals = anomalous.column_totals(fitted_of(model), coded)
        return anomalous.are_rows_of_fit(fitted_of(model), len(coded), totals)

    assert are_own(model, table)
    assert are_own(model, table.iloc[::-1])
    assert not are_own(model, table.iloc[1:])
    changed = table.copy()
    changed.loc[3, "width"] += 1.0
    assert not are_own(model, changed)
    model.save(tmp_path / "model.safetensors")
    assert are_own(partwise.load(tmp_path / "model.safetensors"), table)
    factorised = MCVQ(2, 2, likelihood="auto", gating="factorised", random_state=0)
    assert are_own(factorised.fit(table), table)
    assert not are_own(factorised, changed)
    weighed = MCVQ(1, 2, likelihood="auto", random_state=0, max_iter=5)
    assert not are_own(weighed.fit(table, sample_weight=np.repeat([1.0, 2.0], 30)), table)
    for options in ({"gating": "standard"}, {"prior": None}):
        other = MCVQ(2, 2, likelihood="auto", random_state=0, max_iter=20, **options).fit(table)
        assert np.isfinite(other.anomalous_cells(table, 50)["surprise"]).all()


def test_of_cells_that_agree_with_their_near_duplicate_one_is_found():
    rng = np.random.default_rng(1)
    state = rng.integers(2, size=80)
    rate = rng.normal(10.0 * state, 1.0).round(1)
    rate[3] = 60.0
    table = pd.DataFrame({"rate": rate, "other": rng.normal(5.0 * state, 1.0), "copy": rate})
    table["kind"] = np.array(["u", "v"])[state]
    table["sort"] = table["kind"].str.upper()
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(table)
    assert set(fitted_of(model).schema.twins) == {2, 4}
    changed = table.copy()
    changed.loc[7, "copy"] = -40.0
    for rows in (table, changed):  # of the fit, and others
        found = model.anomalous_cells(rows, table.size).set_index(["row", "column"])
        assert found.loc[(3, "rate"), "surprise"] > 3.0
        assert found.loc[(3, "rate"), "expected"] < 40.0
        agrees = rows["rate"] == rows["copy"]
        surprise = found.xs("copy", level="column")["surprise"]
        assert (surprise[agrees[agrees].index] < 2.0).all()
        assert (found.xs("sort", level="column")["surprise"] == 0.0).all()
    assert (7, "copy") in found.index[:2]
    assert found.loc[(7, "copy"), "expected"] == table.loc[7, "rate"]


def test_wrong_numbers_are_scored_without_themselves_in_large_states_too():
    rng = np.random.default_rng(2)
    state = rng.integers(2, size=500)
    table = pd.DataFrame({"a": rng.normal(3.0 * state, 1.0), "b": rng.normal(9.0 * state, 1.0)})
    table["c"] = rng.poisson(2.0 + 20.0 * state)
    table.loc[3, "a"] = 40.0
    kinds = {"a": "gaussian", "b": "gaussian", "c": "poisson"}
    model = MCVQ(1, 2, likelihood=kinds, prior=Prior(), random_state=0).fit(table)
    coded = model._checked(table)
    found = model.anomalous_cells(table, 3)
    assert (found["row"][0], found["column"][0]) == (3, "a")
    expected = surprise_without(model, coded, 3, 0)
    with_it = anomalous.anomalous_cells(fitted_of(model), table, coded, 1, of_fit=False)
    assert expected > 2.0 * with_it["surprise"][0]
    assert_allclose(found["surprise"][0], expected, rtol=0.01)


def test_wrong_counts_are_ordered_by_how_wrong_they_are():
    X = np.random.default_rng(0).poisson(3.0, (300, 3)).astype(float)
    X[5, 0], X[7, 1], X[8, 2] = 40.0, 60.0, 200.0
    model = MCVQ(1, 1, likelihood="poisson", random_state=0).fit(X)
    found = model.anomalous_cells(X, 3)
    assert list(found["value"]) == [200.0, 60.0, 40.0]
    assert found["surprise"][2] < 100.0


@pytest.mark.parametrize("law", ["negative_binomial", "zero_inflated", "circular"])
def test_rows_that_no_state_depends_on_are_scored(law):
    X = np.random.default_rng(0).poisson(3.0, (300, 3)).astype(float)
    X[5, 0] = 500.0
    X = X / 500.0 if law == "circular" else X
    model = MCVQ(1, 1, likelihood=law, random_state=0).fit(X)
    found = model.anomalous_cells(X, 2)
    assert (found["row"][0], found["column"][0]) == (5, "x0")
    assert np.isfinite(found["surprise"]).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_numbers_outside_of_the_range_of_ordered_levels_are_anomalous(library):
    """They were treated as missing, so that the most blatant errors were not listed."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=300)
    frame = pd.DataFrame(
        {
            "years": rng.binomial(12, 0.2 + 0.5 * state),
            "level": rng.binomial(6, 0.2 + 0.5 * state),
            "size": 3.0 * state + rng.normal(size=300),
        }
    )
    kinds = {"years": "ordinal", "level": "ordinal", "size": "gaussian"}
    model = MCVQ(1, 2, likelihood=kinds, random_state=0).fit(frame)
    new = frame.head(20).copy()
    new.loc[[4, 7], "years"] = [2000, 20]
    given = pl.from_pandas(new) if library == "polars" else new
    with pytest.warns(UserWarning, match="2 values outside of the range"):
        found = pd.DataFrame({k: list(v) for k, v in model.anomalous_cells(given, 2).items()})
    assert found["row"].tolist() == [4, 7]
    assert found["value"].tolist() == [2000, 20]
    assert found["surprise"][1] > np.log(300)
    with pytest.warns(UserWarning, match="2 values outside of the range"):
        assert list(model.impute(given)["years"]) == list(new["years"])  # as given


def test_rarely_reported_numbers_between_common_ones_are_not_anomalous():
    """People smoke 5, 10, 15 or 20 cigarettes; 9 is no error, but 40 may be."""
    rng = np.random.default_rng(0)
    smoked = np.r_[rng.choice([5, 10, 15, 20], size=398), 9, 40]
    frame = pd.DataFrame({"smoked": smoked, "size": rng.normal(size=400)})
    kinds = {"smoked": "ordinal", "size": "gaussian"}
    model = MCVQ(1, 1, likelihood=kinds, random_state=0).fit(frame)
    found = pd.DataFrame(dict(model.anomalous_cells(frame, 400).items()))
    surprise = found[found["column"] == "smoked"].set_index("row")["surprise"]
    assert surprise[399] > 4.0
    assert surprise[398] < 1.0


def test_codes_of_levels_are_not_taken_for_values():
    """The service knows encoded rows alone: a code 0 is no number below levels 1 to 5."""
    rng = np.random.default_rng(0)
    state = rng.integers(2, size=60)
    X = np.clip(np.rint(2 + 2 * state[:, None] + rng.normal(0, 0.6, (60, 3))), 1, 5)
    model = MCVQ(1, 2, likelihood=["ordinal"] * 3, max_iter=10, random_state=0).fit(X)
    new = X[:9].copy()
    new[0, 0] = 1.0 if state[0] else 5.0
    coded = fitted_of(model).schema.encode(new)
    found = anomalous.anomalous_cells(fitted_of(model), coded, coded, 3)
    expected = model.anomalous_cells(new, 3)
    assert_allclose(list(found["surprise"]), list(expected["surprise"]))
    assert list(found["value"]) == list(expected["value"])
