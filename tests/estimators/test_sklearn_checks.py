import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import CVQ, MCVQ

ESTIMATORS = [
    MCVQ(2, 2, random_state=0),
    MCVQ(2, 3, gating="standard", prior=None, init="random", random_state=0),
    MCVQ(2, 2, gating="factorised", random_state=0),
    MCVQ(2, 2, inference="gibbs", max_iter=20, random_state=0),
    CVQ(2, 2, random_state=0),
    CVQ(2, 3, prior=None, random_state=0),
]


def expected_failures(estimator):
    if getattr(estimator, "inference", None) == "gibbs":
        reason = "rows are drawn one by one, so a row given twice draws twice"
        return {
            "check_sample_weight_equivalence_on_dense_data": reason,
            "check_sample_weight_equivalence_on_sparse_data": reason,
        }
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
