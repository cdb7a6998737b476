"""What is said of a model itself: which columns tell of which, and of what its states tell."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from partwise import MCVQ, make_survey
from partwise.answers import tables
from partwise.fitted import fitted_of
from partwise.models import dependence


@pytest.fixture(scope="module")
def model():
    table = make_survey(400, n_parts=2, n_columns_per_kind=2, random_state=0).frame
    return MCVQ(2, 4, likelihood="auto", random_state=0).fit(table)


def test_what_states_tell_is_the_diagonal_of_the_dependence(model):
    whole = tables.dependence(fitted_of(model))
    told = tables.state_information(fitted_of(model), range(len(whole)))
    assert_allclose([told[d] for d in range(len(whole))], np.diag(whole), rtol=1e-12)


def test_profiles_compare_no_pairs_of_columns(model, monkeypatch):
    """Profiles ask for each column once, in the part that it belongs to."""
    asked = []
    real = dependence.state_information
    monkeypatch.setattr(dependence, "state_information", lambda *of: asked.append(of) or real(*of))
    monkeypatch.setattr(dependence, "mutual_information", None)
    model.summary()
    assert len(asked) == np.count_nonzero(model.parts_ >= 0)


@pytest.mark.parametrize("n_columns", [1, 5])
def test_columns_that_states_tell_most_of_come_first(model, n_columns):
    told = tables.state_information(fitted_of(model), range(model.n_features_in_))
    for part in range(model.n_parts_):
        names = dict.fromkeys(f.name for f in tables.features(fitted_of(model), part))
        own = [told[list(model.feature_names_in_).index(name)] for name in names]
        assert own == sorted(own, reverse=True)
