"""Intervals of a Gaussian number: their moments, and cuts from counts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats

from partwise.likelihoods.ordinal import Ordinal, cuts_of, interval_moments

INTERVALS = [
    (-1.0, 0.5), (-0.2, -0.1), (0.3, 4.0), (-30.0, -2.0), (1.0, 30.0), (-30.0, 30.0), (5.0, 5.01),
    (-8.0, -7.5), (7.5, 12.0), (-20.0, -19.0), (25.0, 30.0), (-36.0, -35.5), (-1e4, 0.3),
    (10.0, 2e3), (-1e-4, 1e-4),
]  # fmt: skip

# Shares below what a float can hold.
FAR = [(-1e3, -40.0), (37.5, 38.0), (-50.0, -49.999), (100.0, 1e5), (-2e3, -1e3), (60, 60 + 1e-9)]


def exact(a, b):
    """Log share, mean and mean square, by quadrature relative to the end nearer to 0."""
    near = a if a > 0 else b if b < 0 else 0.0
    # Nothing is left beyond some 40 lengths of decay.
    reach = 40 / abs(near) if near else 12.0
    lo, hi = max(a, near - reach), min(b, near + reach)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x = lo + 0.5 * (hi - lo) * (nodes + 1)
    mass = 0.5 * (hi - lo) * weights * np.exp(0.5 * (near - x) * (near + x))
    share = mass.sum()
    log_share = np.log(share) - 0.5 * near**2 - 0.5 * np.log(2 * np.pi)
    return log_share, mass @ x / share, mass @ x**2 / share


@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_moments_are_those_of_a_truncated_gaussian(a, b):
    log_share, mean, square = interval_moments(a, b)
    truth = exact(a, b)
    assert_allclose(log_share, truth[0], rtol=1e-9, atol=1e-12)
    assert_allclose([mean, square], truth[1:], rtol=1e-6, atol=1e-8)
    if a >= -20 and b <= 20:  # where scipy's own moments keep their digits
        law = stats.truncnorm(a, b)
        assert_allclose([mean, square], [law.mean(), law.moment(2)], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("a", "b"), FAR)
def test_far_out_nothing_breaks(a, b):
    log_share, mean, square = interval_moments(float(a), float(b))
    truth = exact(a, b)
    assert_allclose(log_share, truth[0], atol=1e-3)
    assert_allclose(mean, truth[1], rtol=1e-5)
    assert_allclose(square, truth[2], rtol=1e-5)


@pytest.mark.parametrize("width", [0.05, 1.0, 100.0])
def test_moments_go_on_where_the_way_of_counting_changes(width):
    """No step in the log share and the moments when an interval moves out of reach."""
    ends = np.linspace(-36.0, -38.0, 200)
    found = np.array([interval_moments(b - width, b) for b in ends])
    for values in found.T:
        steps = np.diff(values)
        assert np.abs(np.diff(steps)).max() < 0.02 * np.abs(steps).max()


@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_an_interval_and_its_mirror(a, b):
    log_share, mean, square = interval_moments(a, b)
    mirrored = interval_moments(-b, -a)
    assert_allclose(mirrored, (log_share, -mean, square), rtol=1e-6, atol=1e-8)


def test_cuts_give_the_levels_their_shares():
    counts = np.array([5.0, 20.0, 40.0, 30.0, 5.0])
    law = Ordinal(cuts_of(counts))
    assert_allclose(np.diff(special.ndtr(law.ends)), counts / 100, atol=1e-5)
    for level, score in enumerate(law.scores):
        assert_allclose(score, stats.truncnorm(*law.ends[level : level + 2]).mean(), rtol=1e-6)
    assert_allclose(law.scores @ counts / 100, 0, atol=1e-4)


@pytest.mark.parametrize("L", [2, 3, 60, 150, 256])
@pytest.mark.parametrize("where", ["low", "high", "middle", "none"])
def test_every_level_has_an_interval(L, where):
    """Also the many that hardly occur, at either end."""
    counts = np.zeros(L)
    if where != "none":
        counts[{"low": 0, "high": L - 1, "middle": L // 2}[where]] = 1e8
    law = Ordinal(cuts_of(counts))
    assert np.all(np.isfinite(law.ends))
    assert np.all(np.diff(law.ends) > 0)
    assert np.all((law.scores >= law.ends[:-1]) & (law.scores <= law.ends[1:]))


def test_one_level_is_everything():
    law = Ordinal(cuts_of(np.array([7.0])))
    assert law.cuts == ()
    assert_allclose(law.scores, [0], atol=1e-12)
