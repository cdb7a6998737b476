"""An estimator with classes is a classifier to scikit-learn."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from partwise import MCFA, MCVQ, BayesianPCAMixture


@pytest.fixture(scope="module")
def tumors():
    data = load_breast_cancer()
    return data.data[:200, :8], data.target[:200]


@pytest.mark.parametrize("scoring", ["roc_auc", "accuracy", "neg_log_loss"])
def test_scorers_of_classes_work(tumors, scoring):
    X, y = tumors
    model = MCVQ(2, 3, n_classes=2, random_state=0)
    scores = cross_val_score(model, X, y, scoring=scoring, cv=2, error_score="raise")
    assert np.isfinite(scores).all()
    if scoring == "roc_auc":
        assert scores.min() > 0.8
    piped = make_pipeline(StandardScaler(), model)
    assert np.isfinite(cross_val_score(piped, X, y, scoring=scoring, cv=2)).all()


def test_labels_make_a_classifier(tumors):
    X, y = tumors
    for model in (MCVQ(2, 3), MCFA(2, 1), BayesianPCAMixture(1)):
        assert not is_classifier(model)
        assert is_classifier(model.set_params(random_state=0).fit(X, y))
    assert not is_classifier(MCVQ(2, 3, random_state=0).fit(X))
    assert is_classifier(MCVQ(n_classes=2))


@pytest.mark.ci
def test_grids_search_for_classes(tumors):
    X, y = tumors
    grid = GridSearchCV(MCVQ(2, random_state=0, n_classes=2), {"n_states": [1, 3]}, cv=2)
    best = grid.set_params(scoring="roc_auc").fit(X, np.where(y, "b", "m")).best_params_
    assert best == {"n_states": 3}


def test_classes_asked_for_after_the_fit_are_not_there_yet():
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = MCVQ(2, 2, random_state=0)
    assert not hasattr(model, "predict")
    model.fit(X).set_params(n_classes=2)
    with pytest.raises(AttributeError) as caught:
        model.predict(X)
    assert "no classes; set n_classes, or fit with labels" in str(caught.value.__cause__)
    assert hasattr(model.fit(X), "predict")
