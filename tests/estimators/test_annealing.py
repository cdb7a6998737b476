"""Schedules of annealing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import partwise
from partwise import MCFA, MCVQ, Annealing, make_shapes
from partwise.models.gating import Tied

X = make_shapes().data[::3]


def test_the_default_is_a_schedule():
    plain = MCVQ(3, 4, random_state=0).fit(X)
    said = MCVQ(3, 4, gating=Annealing(), random_state=0).fit(X)
    assert_array_equal(plain.means_, said.means_)


def test_temperatures_fall_to_one():
    assert_allclose(Annealing(5, "linear", 11).temperatures(3.0), [11, 9, 7, 5, 3])
    assert_allclose(Annealing(3).temperatures(8.0), [8, 4, 2])


@pytest.mark.parametrize("estimator", [MCVQ(3, 4), MCFA(2, 1)])
def test_a_linear_schedule_is_kept_in_a_file(estimator, tmp_path):
    schedule = Annealing(9, "linear", 20)
    model = clone(estimator).set_params(gating=schedule, random_state=0).fit(X)
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert again.gating == schedule
    assert_array_equal(again.transform(X), model.transform(X))


def test_every_temperature_is_one_step(monkeypatch):
    seen = []
    choose = Tied.choose
    monkeypatch.setattr(
        Tied, "choose", lambda self, *found: (seen.append(self.beta), choose(self, *found))[1]
    )
    MCVQ(3, 4, gating=Annealing(4, "linear", 5), random_state=0).fit(X)
    assert_allclose([beta for beta in seen if beta < 1], [1 / 5, 1 / 4, 1 / 3, 1 / 2])


@pytest.mark.parametrize(
    "wrong",
    [{"n_steps": 0}, {"n_steps": 2.5}, {"schedule": "cubic"}, {"start": 0.5}, {"start": np.nan}],
)
def test_what_is_no_schedule(wrong):
    with pytest.raises(ValueError, match=f"Annealing.{next(iter(wrong))}=.*must be"):
        Annealing(**wrong)
