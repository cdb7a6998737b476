"""A fitted model is one value, and estimators copy from it."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from partwise import CVQ, GVQ, MCFA, MCVQ, AspectModel, BayesianPCA, BayesianPCAMixture
from partwise.fitted import Fitted, fitted_of, restored_fields, shared_attributes

ESTIMATORS = [
    MCVQ(2, 2, random_state=0),
    MCFA(2, 1, tol=0.1, random_state=0),
    CVQ(2, 2, random_state=0),
    GVQ(3, random_state=0),
    AspectModel(2, beta=0.9, random_state=0),
    BayesianPCA(),
    BayesianPCAMixture(tol=1e-2, random_state=0),
]
X = np.random.default_rng(0).integers(1, 5, (60, 6)).astype(float)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_an_estimator_has_one_learned_attribute_and_copies_of_it(estimator):
    arguments = set(vars(estimator))
    fitted = fitted_of(estimator.fit(X))
    assert isinstance(fitted, Fitted)
    private = {name for name in set(vars(estimator)) - arguments if name.startswith("_")}
    assert {name for name in private if "callback" not in name} <= {"_fitted", "_halted"}
    for name, value in shared_attributes(fitted).items():
        assert_array_equal(getattr(estimator, name), value)


def test_nothing_of_a_fit_before_is_left():
    model = MCVQ(2, 2, random_state=0).fit(X, np.arange(60) % 2)
    assert hasattr(model, "classes_")
    assert not hasattr(model.fit(X), "classes_")
    assert not hasattr(model, "class_priors_")


def test_a_fitted_model_does_not_change():
    fitted = fitted_of(MCVQ(2, 2, random_state=0).fit(X))
    with pytest.raises(FrozenInstanceError):
        fitted.params = None
    assert replace(fitted, n_parts=1).n_parts == 1
    assert fitted.n_parts == 2


def test_a_record_comes_back_from_the_attributes():
    planted = np.repeat(X[:, :2] > 2, 3, axis=1) + X / 100  # two parts, whatever the rounding
    record = fitted_of(MCVQ("auto", "auto", random_state=0).fit(planted)).record
    fitted = fitted_of(MCVQ(2, 2, random_state=0).fit(X))
    assert record.size_path
    again = restored_fields(shared_attributes(replace(fitted, record=record)))["record"]
    for field in fields(record):
        assert_array_equal(getattr(again, field.name), getattr(record, field.name))
