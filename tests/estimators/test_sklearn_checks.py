import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import CVQ, MCFA, MCVQ, BayesianPCA, BayesianPCAMixture
from partwise.estimators import _calibrate, _gated, _moves, bayesian_pca
from partwise.starts import classes


class FindingMCVQ(MCVQ):
    """Classes are found: labels, of which the checks give now three, now four, are not told."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, None, sample_weight)


class FindingMCFA(MCFA):
    """The same of factor analysers."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, None, sample_weight)


# Without n_classes the checks' labels are the classes.
ESTIMATORS = [
    MCVQ(2, 2, random_state=0),
    MCVQ(2, 3, gating="standard", prior=None, init="random", random_state=0),
    MCVQ(2, 2, gating="factorised", random_state=0),
    MCVQ(2, 2, inference="gibbs", max_iter=20, random_state=0),
    FindingMCVQ(2, 2, n_classes=4, gating="tied", tol=0.1, random_state=0),
    MCFA(2, 1, tol=0.1, random_state=0),
    MCFA(2, 2, gating="standard", prior=None, init="random", tol=0.1, random_state=0),
    FindingMCFA(2, 1, n_classes=4, gating="tied", tol=0.1, random_state=0),
    CVQ(2, 2, random_state=0),
    CVQ(2, 3, prior=None, random_state=0),
    BayesianPCA(),
    BayesianPCA(1, relevance=False, prior=None),
    BayesianPCAMixture(tol=1e-2, random_state=0),
    BayesianPCAMixture(2, 1, prior=None, random_state=0),
]


def expected_failures(estimator):
    if getattr(estimator, "inference", None) == "gibbs":
        reason = "rows are drawn one by one, so a row given twice draws twice"
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    return {}


@pytest.fixture(autouse=True)
def in_haste(monkeypatch):
    """Few sweeps and beginnings: what is checked does not depend on how good a fit is."""
    monkeypatch.setattr(_gated, "ANNEALING_SWEEPS", 6)
    monkeypatch.setattr(_calibrate, "MOST_FOLDS", 2)
    monkeypatch.setattr(_moves, "MOST_ROUNDS", 1)
    monkeypatch.setattr(_moves, "TRIAL_SWEEPS", 3)
    monkeypatch.setattr(bayesian_pca, "LOOSE", 1e4)
    monkeypatch.setattr(bayesian_pca, "LEAST_CLASS", 1000)
    monkeypatch.setattr(bayesian_pca, "MOST_COMPONENTS", 3)
    monkeypatch.setattr(classes, "N_STARTS", 2)
    monkeypatch.setattr(classes, "N_STEPS", 4)
    monkeypatch.setattr(classes, "MOST_STEPS", 4)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
