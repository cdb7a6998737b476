"""A warning names the line of the caller, from whichever entry and however deep it comes."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    PartsImputer,
    Recommender,
    part_stability,
)

X = np.random.default_rng(0).normal(size=(40, 6))
EMPTY = np.column_stack([X, np.full(len(X), np.nan)])
FRAME = pd.DataFrame(
    {"x": X[:, 0], "y": X[:, 1], "same": 1.0, "color": ["red", "blue", "green", "grey"] * 10}
)
OTHER = FRAME.assign(color="purple")
RATINGS = ([0, 0, 1, 1, 2, 2, 0], list("abacbca"), [1, 2, 3, 4, 5, 1, 2])
SHORT = {"max_iter": 1, "tol": 0.0, "random_state": 0}


def short_mcvq() -> MCVQ:
    return MCVQ(2, 2, gating="tied", **SHORT)


def table() -> MCVQ:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MCVQ(1, 2, likelihood="auto", random_state=0).fit(FRAME)


def recommender() -> Recommender:
    return Recommender(MCVQ(1, 2, likelihood="categorical", random_state=0))


def fitted_recommender() -> Recommender:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return recommender().fit(RATINGS)


ENTRIES = {
    "MCVQ.fit": lambda: short_mcvq().fit(X),
    "MCVQ.fit_transform": lambda: short_mcvq().fit_transform(X),
    "MCVQ.fit of classes": lambda: short_mcvq().set_params(n_classes=2).fit(X),
    "MCVQ.fit of sizes": lambda: MCVQ("auto", "auto", random_state=0).fit(X),
    "MCVQ.fit in no time": lambda: MCVQ(2, 2, max_time=1e-9).fit(X),
    "MCVQ.fit of an empty column": lambda: MCVQ(2, 2, random_state=0).fit(EMPTY),
    "MCVQ.partial_fit": lambda: MCVQ(2, 2, random_state=0).partial_fit(EMPTY),
    "MCVQ.fit of a table": lambda: MCVQ(1, 2, likelihood="auto", random_state=0).fit(FRAME),
    "MCVQ.transform": lambda: table().transform(OTHER),
    "MCVQ.impute": lambda: table().impute(OTHER),
    "MCVQ.score": lambda: table().score(OTHER),
    "MCFA.fit": lambda: MCFA(2, 1, **SHORT).fit(X),
    "MCFA.fit_transform": lambda: MCFA(2, 1, **SHORT).fit_transform(X),
    "MCFA.partial_fit": lambda: MCFA(2, 1, random_state=0).partial_fit(EMPTY),
    "CVQ.fit": lambda: CVQ(2, 2, **SHORT).fit(X),
    "GVQ.fit": lambda: GVQ(2, **SHORT).fit(X),
    "AspectModel.fit": lambda: AspectModel(2, **SHORT).fit(abs(X)),
    "BayesianPCA.fit": lambda: BayesianPCA(**SHORT).fit(X),
    "BayesianPCAMixture.fit": lambda: BayesianPCAMixture(2, 2, **SHORT).fit(X),
    "PartsImputer.fit": lambda: PartsImputer(1, 2, n_fits=1, random_state=0).fit(FRAME),
    "PartsImputer.fit_transform": lambda: PartsImputer(1, 2, random_state=0).fit_transform(FRAME),
    "Recommender.fit": lambda: recommender().fit(RATINGS),
    "Recommender.predict": lambda: fitted_recommender().predict({"a": 1}, ["unheard of"]),
    "Recommender.recommend": lambda: fitted_recommender().recommend({"unheard of": 1}),
    "a pipeline": lambda: make_pipeline(StandardScaler(), short_mcvq()).fit(X),
    "a search": lambda: GridSearchCV(short_mcvq(), {"n_parts": [1, 2]}, cv=2).fit(X),
    "part_stability": lambda: part_stability(
        MCVQ(2, 2, random_state=0).fit(X).set_params(**SHORT), X, n_fits=1
    ),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_warning_names_the_line_of_the_caller(entry):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ENTRIES[entry]()
    assert found
    assert {one.filename for one in found} == {__file__}
