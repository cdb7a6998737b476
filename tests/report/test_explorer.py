"""What the page computes in a real browser is what Python computes."""

from importlib import import_module

import numpy as np
import pytest

from partwise import MCFA, MCVQ, Recommender
from partwise.report import write_report
from tests.common.browser import opened
from tests.common.explorer import AGREE, INFER, MEMBERS, listed, popular_question

MODELS = {
    "numbers": (MCVQ(3, 4), lambda X: X),
    "maximum likelihood": (MCVQ(3, 4, prior=None), lambda X: X),
    "columns of several parts": (
        MCVQ(3, 4, gating="standard", init="random", max_iter=8),
        lambda X: X,
    ),
    "found classes": (MCVQ(3, 4, n_classes=3), lambda X: X),
    "yes or no": (MCVQ(3, 3, likelihood="bernoulli"), lambda X: np.where(X > 3, 1.0, 0 * X)),
    "levels": (MCVQ(3, 3, likelihood="categorical"), lambda X: 2.5 * np.round(X / 4)),
    "counts": (MCVQ(3, 3, likelihood="poisson"), lambda X: np.maximum(np.round(X), 0)),
    "overdispersed counts": (
        MCVQ(3, 3, likelihood="negative_binomial"),
        lambda X: np.maximum(np.round(X), 0),
    ),
    "many zeros": (
        MCVQ(3, 3, likelihood="zero_inflated"),
        lambda X: np.maximum(np.round(X) - 2, 0),
    ),
    "angles": (MCVQ(3, 3, likelihood="circular"), lambda X: np.clip(X / 2, -6, 6)),
    "degrees": (MCVQ(3, 3, likelihood="degrees"), lambda X: np.clip(30 * X, -350, 350)),
    "factors": (MCFA(3, 2), lambda X: X),
    "factors and classes": (MCFA(3, 2, n_classes=2), lambda X: X),
    "ordered levels": (MCFA(2, 2, likelihood="ordinal"), lambda X: np.clip(np.round(X / 2), 0, 4)),
}


# Kinds of models of a plain run: all together take many seconds.
SOME = ("numbers", "levels", "factors")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.ci] * (name not in SOME)) for name in MODELS]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_are_inferred_as_python_does(name, browser, table, tmp_path):
    estimator, convert = MODELS[name]
    X = convert(table)
    model = estimator.set_params(random_state=0).fit(X)
    write_report(model, tmp_path / "page.html")
    some = X[:30]
    with opened(browser, tmp_path / "page.html") as page:
        found = page.evaluate(INFER, listed(some))
    np.testing.assert_allclose([row["code"] for row in found], model.transform(some), **AGREE)
    np.testing.assert_allclose([row["expected"] for row in found], model.reconstruct(some), **AGREE)
    filled = np.where(np.isnan(some), [row["filled"] for row in found], some)
    np.testing.assert_allclose(filled, model.impute(some), **AGREE)
    if found[0]["parts"] is not None:
        parts = [row["parts"] for row in found]
        np.testing.assert_allclose(parts, -model.anomaly_scores(some), **AGREE)
    if found[0]["whole"] is not None:
        whole = [row["whole"] for row in found]
        np.testing.assert_allclose(whole, model.score_samples(some), **AGREE)
        if hasattr(model, "classes_"):
            classes = [row["classes"] for row in found]
            np.testing.assert_allclose(classes, model.predict_proba(some), **AGREE)
    assert (found[0]["parts"] is None) == (name == "ordered levels")
    assert (found[0]["whole"] is None) == (name in ("ordered levels", "columns of several parts"))
    for row, x in zip(found[:8], some, strict=False):
        for ours, theirs in zip(row["reasons"], model.explain(x), strict=True):
            for key in ("expected", "evidence"):
                np.testing.assert_allclose(
                    [one[key] for one in ours], [one[key] for one in theirs["columns"]], **AGREE
                )


INTERVIEW = """([person, target]) => {
  const { model } = partwise;
  const ratings = new Map(person);
  return {
    shares: model.shares(ratings).map((one) => Array.from(one)),
    gains: Array.from(model.gains(ratings)),
    question: model.nextQuestion(ratings),
    best: model.recommend(ratings, 5),
    because: ratings.size ? model.because(ratings, target, 3) : [],
    neighbors: model.neighbors(target, 4),
  };
}"""


@pytest.mark.parametrize(
    ("name", "rated_set"), [*((name, False) for name in MEMBERS), ("several", True)]
)
def test_interviews_go_as_in_python(name, rated_set, browser, ratings, tmp_path):
    model = Recommender(MEMBERS[name], levels=[1, 2, 3, 4, 5], rated_set=rated_set).fit(ratings)
    write_report(model, tmp_path / "page.html")
    items = model.items_
    people = [{}, {"item 0": 5}, {"item 2": 1, "item 3": 5, "item 9": 2, "item 20": 4}]
    with opened(browser, tmp_path / "page.html") as page:
        for person in people:
            pairs = sorted((items.index(item), rating) for item, rating in person.items())
            found = page.evaluate(INTERVIEW, [pairs, items.index("item 5")])
            np.testing.assert_allclose(found["shares"], model.predict_distribution(person), **AGREE)
            gains = model.interview(person).gains()
            ours = [found["gains"][items.index(item)] for item in gains]
            np.testing.assert_allclose(ours, list(gains.values()), rtol=1e-5, atol=1e-6)
            assert items[found["question"]] == popular_question(model, person)
            best = model.recommend(person, 5, by="rating")
            assert [items[one["item"]] for one in found["best"]] == [one.item for one in best]
            for key in ("rating", "lower", "upper"):
                theirs = [getattr(one, key) for one in best]
                np.testing.assert_allclose([one[key] for one in found["best"]], theirs, **AGREE)
            reasons = model.explain(person, "item 5", n=3)
            assert [items[one["item"]] for one in found["because"]] == [
                one["item"] for one in reasons["because"]
            ]
            effects = [one["effect"] for one in reasons["because"]]
            np.testing.assert_allclose(
                [one["effect"] for one in found["because"]], effects, **AGREE
            )
            assert [items[d] for d in found["neighbors"]] == model.similar_items("item 5", 4)


def test_items_left_out_count_in_questions(browser, ratings, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("partwise.report.collect"), "_MAX_ITEMS", 20)
    for estimator in (MEMBERS["states"], MEMBERS["ordered levels"]):
        model = Recommender(estimator, levels=[1, 2, 3, 4, 5]).fit(ratings)
        write_report(model, tmp_path / "page.html")
        with opened(browser, tmp_path / "page.html") as page:
            names = page.evaluate("partwise.content.names")
            found = page.evaluate(INTERVIEW, [[[names.index("item 3"), 5]], 0])
        assert len(names) == 20
        gains = model.interview({"item 3": 5}).gains()
        ours = [found["gains"][d] for d, name in enumerate(names) if name != "item 3"]
        theirs = [gains[name] for name in names if name != "item 3"]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        best = model.recommend({"item 3": 5}, 5, among=names, by="rating")
        assert [names[one["item"]] for one in found["best"]] == [one.item for one in best]
