"""Schedules of annealing."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import partwise
from partwise import MCFA, MCVQ, Annealing, make_shapes
from partwise.data import BlockSource, learn_columns
from partwise.fitting import state_trials, states
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Tied
from partwise.models.sizes import laid_out, summed

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


def merged_and_empty(weight=1.0, repeats=1):
    """Parts of 3 and 4 states, two kinds of rows being in one state and one state being empty.

    Family, model, source, parameters, and the kinds of rows that states should have.
    """
    rng = np.random.default_rng(0)
    kinds = np.stack([rng.integers(J, size=120) for J in (3, 4)])
    centers = [rng.normal(0, 4, (J, 6)) for J in (3, 4)]
    rows = np.hstack([centers[k][kinds[k]] for k in range(2)]) + rng.normal(0, 0.3, (120, 12))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows = np.repeat(rows, repeats, axis=0)
    family = MCVQ((2, 3))._family()
    w = np.full(len(rows), weight)
    columns = learn_columns(rows, "gaussian", w, False, family.options.prior)
    core = family.core(columns, 12, rows.dtype, (3, 4, 1), ClassVariable(), None)
    source = BlockSource(rows, columns, w)
    # The first kinds of each part begin as one state, and the last state has no row.
    m = np.zeros((8, len(rows)))
    for k, first in enumerate((0, 3)):
        m[first + np.maximum(np.repeat(kinds[k], repeats) - 1, 0), np.arange(len(rows))] = 1.0
    m[7] = 1.0
    held = laid_out(core, [np.arange(6), np.arange(6, 12)], (3, 4))
    (block,) = source.blocks()
    gates = np.repeat(np.eye(3)[:, :2], 6, axis=1)
    params = core.start(summed(held, m, block, everywhere=True).stats, gates)
    return family, core, source, params, np.repeat(kinds, repeats, axis=1)


def bound(core, source, params):
    prepared = core.begin(params)
    (block,) = source.blocks()
    m, stats = core.expect(prepared, block, None)
    return core.bound(prepared, stats), m


def partition(m):
    """Rows of each state that has some."""
    labels = m.argmax(axis=0)
    return {frozenset(np.flatnonzero(labels == j).tolist()) for j in set(labels.tolist())}


@pytest.mark.parametrize("most", [10**6, 12 * 100], ids=["all rows", "a sample"])
def test_revised_states_are_the_kinds_of_rows(most, monkeypatch):
    monkeypatch.setattr(states, "JUDGED_CELLS", most)
    monkeypatch.setattr(states, "ROWS_A_STATE", 1)
    family, core, source, params, kinds = merged_and_empty()
    before, _ = bound(core, source, params)
    revised = family.revised(core, source, np.random.default_rng(0), bool, params)
    after, m = bound(core, source, revised)
    assert after > before + 100
    assert partition(m[:3]) == partition(np.eye(3)[:, kinds[0]])
    assert partition(m[3:7]) == partition(np.eye(4)[:, kinds[1]])
    assert_allclose(revised.state_counts.sum(), params.state_counts.sum())


def test_revision_counts_a_weight_as_repetition():
    found = []
    for weight, repeats in (2.0, 1), (1.0, 2):
        family, core, source, params, _ = merged_and_empty(weight, repeats)
        found.append(family.revised(core, source, np.random.default_rng(0), bool, params))
    assert_allclose(found[0].chi[0], found[1].chi[0], rtol=1e-9, atol=1e-9)
    assert_allclose(found[0].state_counts, found[1].state_counts, rtol=1e-9)


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_states_are_revised_if_iterations_are_few(monkeypatch):
    calls, revised = [], states.States.revised
    monkeypatch.setattr(
        states.States, "revised", lambda self, *given: (calls.append(1), revised(self, *given))[1]
    )
    few = MCVQ(3, 4, max_iter=1, tol=0.0, random_state=0).fit(X)
    assert few.n_iter_ == 1
    assert not calls
    MCVQ(3, 4, max_iter=9, random_state=0).fit(X)
    assert calls
    calls.clear()
    for other in {"prior": None}, {"gating": "tied"}, {"inference": "gibbs", "max_iter": 3}:
        MCVQ(3, 4, random_state=0, **other).fit(X)
    assert not calls


def test_states_are_not_revised_when_time_is_up():
    family, core, source, params, _ = merged_and_empty()
    assert family.revised(core, source, np.random.default_rng(0), lambda: True, params) is params


def test_a_revision_out_of_time_takes_no_further_iterations(monkeypatch):
    """What it has reached is judged all the same, so that the bound does not fall."""
    family, core, source, params, _ = merged_and_empty()
    looks, n_iter, climb = iter([False, False, False]), [], state_trials.climb

    def counted(model, params, source, runner, monitor):
        found = climb(model, params, source, runner, monitor)
        n_iter.append(monitor.n_iter)
        return found

    monkeypatch.setattr(state_trials, "climb", counted)
    late = partial(next, looks, True)
    revised = family.revised(core, source, np.random.default_rng(0), late, params)
    assert 0 < sum(n_iter) <= 2
    assert bound(core, source, revised)[0] >= bound(core, source, params)[0]
