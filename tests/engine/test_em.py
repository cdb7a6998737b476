"""Which ascent of a climb is returned, and what is told of it, with bounds that are given."""

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import pytest

from partwise.engine import Monitor, climb

# Bounds of the plain steps from the start, and of the ascent after the stages.
LOW, HIGH = (0.0, 3.0, 5.0, 6.0, 6.01, 6.02), (0.0, 3.0, 5.0, 9.0, 9.01, 9.02)


class Where(NamedTuple):
    ascent: str
    step: int

    @property
    def params(self):
        return self


@dataclass(frozen=True)
class Given:
    """Parameters are where a climb is, (ascent, step), prepared as they are; bounds are given."""

    plain: tuple[float, ...] = LOW
    annealed: tuple[float, ...] = HIGH
    remembers: bool = True
    needs = ()

    def fresh_memory(self, index):
        return "nothing"

    def begin(self, params):
        return Where(*params)

    def maximize(self, prepared, stats):
        return prepared._replace(step=prepared.step + 1)

    def bound(self, prepared, stats):
        assert stats == prepared
        return getattr(self, prepared.ascent)[prepared.step]

    def thorough(self, prepared):
        return None


class Stage(Given):
    def maximize(self, prepared, stats):
        return Where("annealed", 0)


class Source:
    n_blocks, views = 1, ()


class Runner:
    """Sweeps give the parameters as sums; rows remember the ascent they last were swept in."""

    def total(self, model, theta, source, memory):
        # The first sweeps of annealing are made with the start's parameters.
        assert memory in (["nothing"], [theta[0]], ["plain"])
        memory[0] = theta[0]
        return theta


class Killed(BaseException):
    pass


class Kept:
    """A log whose process ends after a number of notes."""

    def __init__(self, place=None, notes=10**6):
        self.place, self.left, self.places = place, count(notes, -1), []

    def note(self, place):
        self.place = place
        self.places.append(place)
        if next(self.left) == 0:
            raise Killed


def climbed(model, log=None, stop_at=None, **limits):
    """Where the climb ended, its monitor, and what callbacks heard."""
    heard = []

    def on_step(n_iter, bound):
        heard.append((n_iter, bound))
        return len(heard) == stop_at

    monitor = Monitor(**({"max_iter": 100, "tol": 0.1} | limits), weight=1.0, on_step=on_step)
    theta = climb(model, ("plain", 0), Source(), Runner(), monitor, [Stage()] * 2, probe=3, log=log)
    return theta, monitor, heard


def ascent(bounds, last):
    return list(enumerate(bounds[: last + 1]))


def test_what_annealing_reached_is_returned_where_it_is_more():
    theta, monitor, heard = climbed(Given(plain=LOW, annealed=HIGH))
    assert theta == ("annealed", 4)
    assert heard == ascent(HIGH, 4)
    assert monitor.trace == list(HIGH[:5])
    assert monitor.n_iter == 4
    assert monitor.converged


def test_plain_steps_go_on_where_they_reached_more_and_callbacks_hear_both_ascents():
    theta, monitor, heard = climbed(Given(plain=HIGH, annealed=LOW))
    assert theta == ("plain", 4)
    assert heard == [*ascent(LOW, 4), (0, 9.0), (1, 9.01)]
    assert monitor.trace == [9.0, 9.01]  # from the third plain step on
    assert monitor.n_iter == 1
    assert monitor.converged


@pytest.mark.parametrize("more", [0.0, 1e-12, 0.05])
@pytest.mark.parametrize("sign", [1, -1])
def test_less_than_the_tolerance_does_not_decide(more, sign):
    plain = (0.0, 3.0, 5.0, 6.01 + sign * more, 7.0)
    theta, _, heard = climbed(Given(plain=plain, annealed=LOW))
    assert theta == ("annealed", 4)
    assert len(heard) == 5


@pytest.mark.parametrize("stop_at", range(1, 8))
def test_an_interruption_ends_the_climb_in_either_ascent(stop_at):
    theta, monitor, heard = climbed(Given(plain=HIGH, annealed=LOW), stop_at=stop_at)
    assert len(heard) == stop_at
    assert monitor.interrupted
    if stop_at <= 5:
        assert theta == ("annealed", stop_at - 1)
        assert monitor.n_iter == stop_at - 1
    else:
        assert theta == ("plain", stop_at - 3)
        assert monitor.n_iter == stop_at - 6


def test_a_limit_holds_for_each_ascent():
    plain = (0.0, 3.0, 5.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0)
    theta, monitor, heard = climbed(Given(plain=plain, annealed=LOW), max_iter=5)
    assert theta == ("plain", 8)
    assert heard == ascent(LOW, 4) + list(enumerate(plain[3:]))
    assert monitor.n_iter == 5
    assert not monitor.converged


def test_no_second_ascent_begins_where_the_limit_ended_the_first():
    theta, monitor, heard = climbed(Given(plain=HIGH, annealed=LOW), max_iter=2)
    assert theta == ("annealed", 2)
    assert heard == ascent(LOW, 2)
    assert not monitor.converged


@pytest.mark.parametrize("bounds", [(LOW, HIGH), (HIGH, LOW)])
def test_a_climb_that_was_killed_anywhere_ends_the_same_and_tells_only_what_was_not_told(bounds):
    model, log = Given(*bounds), Kept()
    theta, monitor, heard = climbed(model, log)
    assert len(log.places) == 3 + 2 + monitor.n_iter + (4 if bounds[0] is HIGH else 0)
    for notes in range(len(log.places)):
        killed = Kept(notes=notes)
        with pytest.raises(Killed):
            climbed(model, killed)
        resumed, again, told = climbed(model, Kept(killed.place))
        assert resumed == theta
        assert again.trace == monitor.trace
        assert again.converged
        assert told == heard[len(heard) - len(told) :]
