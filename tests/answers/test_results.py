"""Results are containers that read well, in the user's terms and units."""

import datetime
import itertools
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.cluster import hierarchy
from sklearn.base import clone
from sklearn.datasets import load_iris

import partwise
from partwise import MCFA, MCVQ, BayesianPCA
from partwise.answers import anomalous, summaries, tables
from partwise.answers.results import WIDTH, Explanation, Summary, make_table
from partwise.data import source
from partwise.data.table import Schema
from partwise.fitted import fitted_of
from partwise.models.sizes import added


@pytest.fixture(scope="module")
def table():
    iris = load_iris(as_frame=True)
    species = pd.Categorical.from_codes(iris.target, iris.target_names)
    grams = 3360.0 + 10 * iris.target + iris.data.iloc[:, 0]
    return iris.data.assign(species=species, grams=grams**3 / 7)


@pytest.fixture(scope="module")
def model(table):
    kinds = {"grams": "lognormal"}
    return MCVQ(2, 3, likelihood=kinds, random_state=0).fit(table)


def test_a_summary_is_text_a_table_and_a_frame(table, model):
    summary = model.summary()
    assert isinstance(summary, Summary)
    assert list(summary) == ["part", "columns", "state", "share", "profile"]
    text = str(summary)
    assert repr(summary) == text
    assert max(map(len, text.splitlines())) <= WIDTH
    flowing = " ".join(text.split())
    for profile, columns in zip(summary["profile"], summary["columns"], strict=True):
        shown = " ".join(profile.split()) in flowing or profile == "depend on no part"
        assert shown == bool(columns)  # a part without columns has no states to show
    assert re.search(r"part\d: no columns", text)
    frame = summary.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["profile"].tolist() == summary["profile"]
    html = summary._repr_html_()
    assert html.count("<tr>") > (frame["columns"] != "").sum()
    assert "no columns" in html
    assert "&quot;setosa&quot;" in html


def test_frames_are_of_the_library_that_came_in(table, model):
    other = MCVQ(1, 2, random_state=0).fit(pl.from_pandas(table))
    assert isinstance(other.summary().to_frame(), pl.DataFrame)
    assert isinstance(other.explain(pl.from_pandas(table[:1])).to_frame(), pl.DataFrame)
    numbers = MCVQ(1, 2, random_state=0).fit(table.iloc[:, :4].to_numpy())
    assert isinstance(numbers.summary().to_frame(), pd.DataFrame)


def test_values_come_back_to_the_last_digit(table, model):
    x = table.iloc[7]
    schema = fitted_of(model).schema
    d = list(table).index("grams")
    assert schema.columns[d].value(schema.encode(table[7:8])[0, d]) != x["grams"]  # in logarithms
    for given in (x, x.to_dict(), table.iloc[[7]], table.iloc[[7]].to_numpy()):
        explained = model.explain(given, n_columns=6)
        told = {c["column"]: c["value"] for part in explained for c in part["columns"]}
        assert told["grams"] == x["grams"]
        assert told["species"] == x["species"]
    for row in model.anomalous_cells(table, 50).to_dict("records"):
        assert row["value"] == table.loc[row["row"], row["column"]]


def test_anomalous_cells_may_be_few_of_a_column(table, model, monkeypatch):
    coded = model._check_rows(table, reset=False)
    every = pd.DataFrame(anomalous.anomalous_cells(fitted_of(model), table, coded, table.size))
    kept = every[every.groupby("column").cumcount() < 2]
    for rows in (len(table), 40):  # in blocks
        monkeypatch.setattr(source, "BLOCK_BYTES", rows * coded.shape[1] * 8)
        few = anomalous.anomalous_cells(fitted_of(model), table, coded, 7, per_column=2)
        pd.testing.assert_frame_equal(pd.DataFrame(few), kept[:7].reset_index(drop=True))


def test_an_explanation_is_text_a_table_and_a_frame(table, model):
    explained = model.explain(table.iloc[0], n_columns=2)
    assert isinstance(explained, Explanation)
    assert isinstance(explained, list)
    assert explained == model.explain(table.iloc[[0]], n_columns=2)
    frame = explained.to_frame()
    assert len(frame) == sum(len(part["columns"]) for part in explained)
    assert list(frame) == [
        "part", "state", "probability", "column", "value", "expected", "evidence",
    ]  # fmt: skip
    for name in frame["column"]:
        assert name in str(explained)
        assert name in explained._repr_html_()
    X = table.iloc[:, :4].to_numpy()
    for other in (MCFA(1, 2), BayesianPCA()):
        assert len(other.fit(X).explain(X[0], n_columns=3).to_frame()) == 3


def test_parts_have_names(table, model, tmp_path):
    named = clone(model).set_params(part_names=["one", "two"]).fit(table)
    assert named.part_names_ == ["one", "two"]
    assert set(named.summary()["part"]) <= {"one", "two", "none"}
    assert set(named.explain(table.iloc[0]).to_frame()["part"]) <= {"one", "two"}
    assert str(named.explain(table.iloc[0])).startswith("one, state ")
    assert named.get_feature_names_out()[0] == "one_state0"
    assert list(named.add_states(table))[-2:] == ["one", "two"]
    named.save(tmp_path / "named.safetensors")
    assert partwise.load(tmp_path / "named.safetensors").part_names_ == ["one", "two"]
    later = MCVQ(2, 3, random_state=0).fit(table).set_params(part_names={1: "second"})
    assert later.part_names_ == ["part0", "second"]
    factors = MCFA(2, 1, part_names=["a", "b"], random_state=0).fit(table.iloc[:, :4])
    assert factors.get_feature_names_out()[0] == "a_factor0"


@pytest.mark.parametrize("names", [["one"], ["a", "a"], {2: "x"}, {"one": "x"}])
def test_names_of_parts_are_checked(table, model, names):
    other = clone(model).set_params(part_names=names).fit(table)
    with pytest.raises(ValueError, match="part_names="):
        other.summary()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_frame_with_text_needs_no_likelihood(table, kind):
    X = table if kind == "pandas" else pl.from_pandas(table)
    model = MCVQ(1, 3, random_state=0).fit(X)
    assert model.kinds_.tolist() == MCVQ(1, 3, likelihood="auto").fit(X).kinds_.tolist()
    assert model.impute(X).shape == table.shape
    assert not hasattr(MCVQ(1, 3).fit(table.iloc[:, :4]), "kinds_")


def test_the_first_error_says_what_to_do(table):
    with pytest.raises(ValueError, match=r'MCVQ\(likelihood="auto"\)'):
        MCVQ().fit(table.to_numpy())
    with pytest.raises(ValueError, match="setosa"):
        MCFA().fit(table)


def test_numbers_given_as_text_or_objects_stay_numbers():
    X = pd.DataFrame({"a": [1.0, 2, None, 4] * 5, "b": [0.5, 1.5, 2.5, 3.5] * 5}, dtype=object)
    assert not hasattr(MCVQ(1, 2, random_state=0).fit(X), "kinds_")
    assert np.isnan(MCVQ(1, 2, random_state=0).fit(X).means_).sum() == 0


def test_numbers_have_the_precision_of_their_column():
    rng = np.random.default_rng(0)
    big = rng.random(400) < 0.5
    table = pd.DataFrame(
        {
            "grams": np.rint(rng.normal(2500.0 + 1700.0 * big, 80.0)),
            "cm": np.round(rng.normal(5.0 + 3.0 * big, 0.3), 1),
            "dose": np.exp(rng.normal(1.0 + 2.0 * big, 0.5)),
        }
    )
    kinds = {"dose": "lognormal", "grams": "gaussian", "cm": "gaussian"}
    model = MCVQ(1, 2, likelihood=kinds, random_state=0).fit(table)
    rows = {j: table[model.predict_states(table)[:, 0] == j] for j in range(2)}
    profiles = model.state_profiles(0)
    for j, texts in zip(profiles["state"], profiles["text"], strict=True):
        told = dict(zip(profiles["name"], texts, strict=True))
        mean = rows[int(j)].mean()
        assert told["grams"].replace(",", "").isdigit()
        assert abs(float(told["grams"].replace(",", "")) - mean["grams"]) < 20
        assert len(told["cm"].partition(".")[2]) <= 1
        # An arithmetic mean, which is 13 % above the median here.
        assert abs(float(told["dose"]) / mean["dose"] - 1.0) < 0.06


def test_means_do_not_exceed_the_values_where_a_state_has_none():
    group = np.repeat([0, 1, 2], 60)
    dose = np.where(group < 2, np.exp(np.linspace(-40.0, 80.0, 180)), np.nan)
    table = pd.DataFrame({"cm": 9.0 * group + np.tile([0.0, 0.1, 0.2], 60), "dose": dose})
    model = MCVQ(1, 3, likelihood={"dose": "lognormal"}, random_state=0).fit(table)
    means = {feature.name: feature for feature in tables.features(fitted_of(model), 0)}["dose"]
    assert max(means.usual, *means.values) <= np.log(np.nanmax(dose))


def test_values_of_several_types_become_text_in_polars():
    day = datetime.date(2020, 1, 2)
    mixed = np.array([0, None, np.int64(2)], dtype=object)
    columns = {"row": mixed, "value": [1.5, day, None], "x": [1, 2.5, None], "y": np.arange(3)}
    found = make_table(columns, "polars")
    assert found["row"].to_list() == [0, None, 2]
    assert found["value"].to_list() == ["1.5", "2020-01-02", None]
    assert found["x"].to_list() == [1.0, 2.5, None]
    assert [str(dtype) for dtype in found.dtypes] == ["Int64", "String", "Float64", "Int64"]


def test_states_without_large_differences_are_described_too():
    quiet, even = np.array([0.3, -0.2, 0.05]), np.array([0.0, 0.0, 0.0])
    money = tables.Feature("money", None, 10 + quiet, 10.0, quiet, None)
    rooms = tables.Feature("rooms", "3", 0.3 + even + [0, 0.05, 0], 0.3, even, None)
    found = [tables.profile_words([money, rooms], j, 5) for j in range(3)]
    assert found == [
        "money slightly high (10.3, overall 10)",
        "money slightly low (9.8, overall 10); rooms often 3 (35%, overall 30%)",
        "average",
    ]


def test_columns_without_any_value_get_the_type_of_the_fit(table, model):
    new = table.head(2).copy()
    for name in new.columns:
        if not pd.api.types.is_numeric_dtype(table[name]) or table[name].dtype == bool:
            new[name] = np.nan  # a column of floats to pandas
    imputed = model.impute(new)
    assert imputed.notna().to_numpy().all()
    assert (imputed.dtypes == model.impute(table).dtypes).all()


def test_words_never_contradict_their_numbers():
    # The logarithm of a price can be above its mean where the price is below its own.
    price = tables.Feature("price", None, np.array([21.8, 60.0]), 22.3, np.array([0.4, 2.0]), None)
    assert price.words(0, slight=True) == ""
    assert price.words(1) == "price very high (60, overall 22.3)"


def test_overall_means_of_skewed_columns_are_those_of_the_data():
    """States in which a column is never observed, or with wild values, do not move them."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=600)
    money = np.exp(8 + 2.0 * (kind == 1) + 0.5 * rng.normal(size=600))
    frame = pd.DataFrame({"size": 9.0 * kind + rng.normal(size=600), "money": money})
    frame["other"] = 9.0 * kind + rng.normal(size=600)
    frame.loc[kind == 2, "money"] = np.nan
    frame.loc[:3, "money"] = 1e-7
    kinds = {"money": "lognormal"}
    model = MCVQ(1, 4, likelihood=kinds, random_state=0).fit(frame)
    told = {feature.name: feature for feature in tables.features(fitted_of(model), 0)}
    assert np.exp(told["money"].usual) == pytest.approx(frame["money"].mean(), rel=0.15)


def test_a_state_in_the_middle_of_logarithms_is_not_called_near_the_mean():
    money = pd.DataFrame({"money": np.geomspace(20, 900_000, 60).round()})
    (column,) = Schema.learn(money, {"money": "lognormal"}).columns
    values, usual = column.as_encoded(np.array([5723.0, 29_990.0])), column.as_encoded(30_000.0)
    told = tables.Feature("money", None, values, float(usual), np.array([0.1, 0.1]), column)
    said = [tables.profile_words([told], j, 3) for j in range(2)]
    assert said[0] == "money in the middle (5,723, overall 30,000)"


def test_means_that_only_the_prior_keeps_from_zero_are_zero():
    rng = np.random.default_rng(0)
    wins = np.where(rng.random(300) < 0.5, 0.0, rng.normal(50, 10, size=300).round(1))
    frame = pd.DataFrame(
        {"wins": wins, "share": wins / 2 + rng.normal(0, 0.1, size=300) * (wins > 0)}
    )
    model = MCVQ(1, 2, likelihood="auto", random_state=0).fit(frame)
    assert any(
        re.search(r"wins (very )?low \(0, overall", one) for one in model.summary()["profile"]
    )


def test_columns_that_are_not_used_are_no_background(table):
    named = table.assign(name=[f"N{i}" for i in range(len(table))])
    with pytest.warns(UserWarning, match="hardly repeats"):
        text = str(MCVQ(1, 2, likelihood="auto", random_state=0).fit(named).summary())
    assert "Columns left out of the model: name" in text
    assert "Background" not in text


@pytest.fixture(scope="module")
def many_states():
    """A part whose eight states come in two kinds, far apart."""
    rng = np.random.default_rng(0)
    kind = rng.integers(8, size=600)
    means = np.where(np.arange(8) < 4, 0.0, 30.0)[:, None] + rng.normal(0, 2.0, (8, 4))
    X = means[kind] + rng.normal(0, 0.2, (600, 4))
    return MCVQ(1, 8, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")))


def test_many_states_are_described_by_groups(many_states):
    summary = many_states.summary(max_states=2)
    n_states = len(summary["state"])
    assert n_states > 2
    assert sorted(j for group in summary.groups for j in group.states) == sorted(summary["state"])
    assert sum(group.share for group in summary.groups) == pytest.approx(sum(summary["share"]))
    assert all("high" in g.profile or "low" in g.profile for g in summary.groups)
    text = str(summary)
    assert text.count("% of the rows") == 2
    assert "summary(max_states=None) has each" in text
    assert summary._repr_html_().count("<tr>") == 4  # the head, the part, and two groups
    assert len(summary.to_frame()) == n_states  # the frame has every state
    assert many_states.summary(max_states=None).groups == []
    with pytest.raises(ValueError, match="max_states=0 must be"):
        many_states.summary(max_states=0)


def test_the_tree_of_states_is_a_linkage(many_states):
    tree = many_states.state_tree(0)
    J = int(many_states.n_states_[0])
    assert hierarchy.is_valid_linkage(tree)
    assert len(tree) == J - 1
    # The two kinds stay apart until the last merge, which loses by far the most.
    steps = np.diff(tree[:, 2], prepend=0.0)
    assert steps[-1] > 5 * steps[:-1].max()
    labels = hierarchy.fcluster(tree, 2, "maxclust")
    low = many_states.means_[0, :, 0] < 15
    used = many_states.state_priors_[0] * 600 > 2
    assert len(set(zip(labels[used], low[used], strict=True))) == 2
    with pytest.raises(ValueError, match="There is no part 3"):
        many_states.state_tree(3)


def test_merges_by_evidence_are_those_of_a_slow_search():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) + 3 * rng.integers(2, size=(60, 1))
    model = MCVQ(1, 4, random_state=0).fit(X)
    judge, part = summaries.judged(fitted_of(model), 0, np.arange(4))

    def evidence(groups):
        return judge.worth(added(part, groups))

    groups, worth = {j: [j] for j in range(4)}, evidence([[j] for j in range(4)])
    for i, j, gain in judge.merges(part):
        reached = {}
        for a, b in itertools.combinations(sorted(groups), 2):
            rest = [group for head, group in groups.items() if head not in (a, b)]
            reached[a, b] = evidence([*rest, groups[a] + groups[b]])
        assert gain == pytest.approx(max(reached.values()) - worth, abs=1e-6)
        assert gain == pytest.approx(reached[i, j] - worth, abs=1e-6)
        groups[i] += groups.pop(j)
        worth = reached[i, j]
    assert list(groups) == [0]


def test_summaries_describe_classes_by_their_columns(table):
    model = MCVQ(2, 3, random_state=0).fit(table.drop(columns="species"), table["species"])
    summary = model.summary(n_columns=1)
    assert [one.label for one in summary.classes] == list(model.classes_)
    assert [one.share for one in summary.classes] == pytest.approx(list(model.class_priors_))
    # The columns of a class have the means of its rows, nearly.
    setosa = summary.classes[0].profile
    assert re.match(r"petal (length|width) \(cm\) (very )?low \(", setosa)
    shown = float(re.search(r"\(([\d.]+), overall", setosa)[1])
    assert shown == pytest.approx(table[setosa.split(" (cm)")[0] + " (cm)"][:50].mean(), abs=0.3)
    assert f"class setosa, 33 % of the rows: {setosa}" in " ".join(str(summary).split())
    assert "<th colspan=3" in summary._repr_html_().split("Classes of rows")[0]
    assert MCVQ(1, 2, random_state=0).fit(table).summary().classes == []


def test_explanations_name_the_transformation():
    found = {
        "part": 0,
        "state": 1,
        "probability": 0.9,
        "transformation": [2.0, -1.0],
        "columns": [],
    }
    assert str(Explanation([found])) == "part0, state 1, transformation 2, -1 (probability 0.90)"


def test_words_of_rarer_levels_and_of_numbers_that_are_no_years():
    def level(name, values, usual):
        away = np.array(values) - usual
        return tables.Feature("mood", name, np.array(values), usual, away, None)

    told = [level("1", [0.08, 0.02], 0.05), level("5", [0.22, 0.5], 0.43)]
    assert tables.profile_words(told, 0, 3) == "mood less often 5 (22%, overall 43%)"
    told = [level("1", [0.30, 0.02], 0.05), *told[1:]]
    assert tables.profile_words(told, 0, 3) == "mood often 1 (30%, overall 5%)"
    weights = pd.DataFrame({"weight": [1929.0, 2055.0, 3400.0] * 9, "year": [1990, 2001, 2010] * 9})
    schema = Schema.learn(weights, "gaussian")
    assert [column.text(2055.0) for column in schema.columns] == ["2,055", "2055"]


def test_many_ordered_numbers_are_described_by_their_mean():
    """Or by a level that half of the rows of a state have; years may be early or late."""
    rng = np.random.default_rng(0)
    state = np.arange(400) % 2
    years = np.where(state, rng.integers(8, 30, size=400), np.where(rng.random(400) < 0.7, 1, 3))
    frame = pd.DataFrame(
        {
            "years": years,
            "size": 8.0 * state + rng.normal(size=400),
            "latitude": 38.6 + 0.2 * state + 0.02 * rng.normal(size=400),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(300 * state + years, "D"),
        }
    )
    kinds = {"years": "ordinal", "size": "gaussian", "latitude": "gaussian", "since": "gaussian"}
    model = MCVQ(1, 2, likelihood=kinds, random_state=0).fit(frame)
    few, many = (
        model.summary()
        .to_frame()
        .sort_values("profile")["profile"][lambda told: told.str.contains("years")]
        .sort_values(key=lambda told: told.str.contains("years very high|years high"))
    )
    assert "years mostly 1 (" in few
    assert "years high (1" in many
    assert "since early (" in few
    assert "since late (" in many
    assert re.search(r"latitude low \(38\.60\d?, overall 38\.\d\d", few)


def test_numbers_have_the_digits_that_tell_them_apart():
    def pair(values, away, usual, column=None):
        return tables.Feature("x", None, np.array([values]), usual, np.array([away]), column).pair(
            0
        )

    assert pair(38.5, -0.9, 38.6) == ("38.50", "38.60")
    assert pair(-121.454, -0.9, -121.354) == ("-121.45", "-121.35")
    assert pair(26.72, 1.0, 21.8) == ("26.7", "21.8")
    assert pair(1243.4, 1.0, 770.2) == ("1,243", "770")
