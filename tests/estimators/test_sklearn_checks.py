"""Every estimator passes scikit-learn's own checks."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import (
    CVQ,
    GVQ,
    MCFA,
    MCVQ,
    AspectModel,
    BayesianPCA,
    BayesianPCAMixture,
    PartsImputer,
)
from partwise.fitting import calibrate, class_calibration, component_fit, component_search, course
from partwise.starts import classes


class Finding:
    """Classes are found: labels, of which the checks give now three, now four, are ignored."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, None, sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        return super().partial_fit(X, None, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = None  # a classifier would learn from the labels
        return tags


class FindingMCVQ(Finding, MCVQ):
    pass


class FindingMCFA(Finding, MCFA):
    pass


class LevelledMCFA(MCFA):
    """Ordered levels: the checks' numbers are rounded, and levels not seen in fit are the nearest.

    The checks draw numbers, of which a fit has hundreds.
    """

    def _check_rows(self, X, *, reset, sample_weight=None):
        X = super()._check_rows(X, reset=reset)
        values = X.data if sparse.issparse(X) else X
        values = np.clip(np.rint(values), -3, 3)
        if not reset:
            known = self._fitted.columns[0].levels
            nearest = known[np.abs(values[..., None] - known).argmin(axis=-1)]
            values = np.where(np.isnan(values), np.nan, nearest).astype(values.dtype)
        if not sparse.issparse(X):
            return values
        return type(X)((values, X.indices, X.indptr), shape=X.shape)


# Without n_classes the checks' labels are the classes.
ESTIMATORS = [
    MCVQ(2, 2, tol=0.1, random_state=0),
    MCFA(2, 1, tol=0.1, random_state=0),
    PartsImputer(2, 2, n_factors=2, n_fits=2, random_state=0),
    CVQ(2, 2, tol=0.1, random_state=0),
    AspectModel(2, beta=0.9, tol=0.1, random_state=0),
    GVQ(3, random_state=0),
    BayesianPCA(tol=1e-2),
    BayesianPCAMixture(tol=1e-2, random_state=0),
]

# The same code with other settings.
VARIANTS = [
    LevelledMCFA(2, 1, likelihood="ordinal", tol=0.1, random_state=0),
    FindingMCVQ(2, 2, n_classes=4, gating="tied", tol=0.1, random_state=0),
    FindingMCFA(2, 1, n_classes=4, gating="tied", tol=0.1, random_state=0),
    MCVQ(2, 2, inference="gibbs", max_iter=20, random_state=0),
    MCVQ(2, 3, gating="standard", prior=None, init="random", random_state=0),
    MCVQ(2, 2, gating="factorised", random_state=0),
    MCFA(2, 2, gating="standard", prior=None, init="random", tol=0.1, random_state=0),
    CVQ(2, 3, prior=None, random_state=0),
    AspectModel(2, prior=None, tol=0.1, random_state=0),
    GVQ(2, n_sets=2, n_values=3, penalty=0.1, random_state=0),
    GVQ(3, association="belief_revision", random_state=0),
    BayesianPCA(1, relevance=False, prior=None),
    BayesianPCAMixture(2, 1, prior=None, random_state=0),
]


def expected_failures(estimator):
    if isinstance(estimator, PartsImputer):  # scikit-learn 1.6 asks all, whatever their tags say
        reason = "sparse rows have no columns of several kinds"
        return {"check_sample_weight_equivalence_on_sparse_data": reason}
    if getattr(estimator, "inference", None) == "gibbs":
        reason = "rows are drawn one by one, so a row given twice draws twice"
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    if getattr(estimator, "beta", None) == "auto":
        reason = "cells are held out one by one, so a row given twice is held out twice"
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    return {}


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    """Few sweeps and beginnings: what is checked does not depend on how good a fit is."""
    monkeypatch.setattr(course, "ANNEALING_STEPS", 6)
    monkeypatch.setattr(calibrate, "MOST_FOLDS", 2)
    monkeypatch.setattr(component_search, "MOST_ROUNDS", 1)
    monkeypatch.setattr(component_fit, "LOOSE", 1e4)
    monkeypatch.setattr(class_calibration, "LEAST_CLASS", 1000)
    monkeypatch.setattr(component_fit, "MOST_COMPONENTS", 3)
    monkeypatch.setattr(classes, "N_STARTS", 2)
    monkeypatch.setattr(classes, "N_STEPS", 4)
    monkeypatch.setattr(classes, "MOST_STEPS", 4)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_variants(estimator, check):
    check(estimator)
