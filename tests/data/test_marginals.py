"""Monotone maps of numbers: inverse, slope, tails, weights, and maps learned from pieces."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from partwise.data import marginals
from partwise.data.marginals import Marginal, learn_marginals

DRAWS = {
    "gaussian": lambda rng, n: rng.normal(3.0, 2.0, n),
    "skewed": lambda rng, n: rng.exponential(size=n),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "bounded": lambda rng, n: rng.random(n),
    "counts": lambda rng, n: rng.poisson(3.0, n).astype(float),
    "large": lambda rng, n: 1e30 * (1.0 + 1e-3 * rng.normal(size=n)),
    "huge": lambda rng, n: 1e250 * rng.exponential(size=n),
    "tiny": lambda rng, n: 1e-250 * rng.exponential(size=n),
}
KINDS = pytest.mark.parametrize("kind", DRAWS)


def learned(values, weight=None):
    weight = np.ones(len(values)) if weight is None else weight
    (found,) = learn_marginals(values[:, None], weight, np.array([0]))
    return found


@KINDS
def test_a_map_is_monotone_and_inverted(kind):
    values = DRAWS[kind](np.random.default_rng(0), 600)
    found = learned(values)
    z = found.to_z(values)
    scale = np.abs(values).max()
    assert_allclose(found.from_z(z), values, rtol=1e-9, atol=1e-11 * scale)
    grid = np.linspace(-7.0, 7.0, 2001)
    assert np.all(np.diff(found.from_z(grid)) > 0)
    assert_allclose(found.to_z(found.from_z(grid)), grid, atol=1e-7 if kind != "large" else 1e-4)


@KINDS
def test_the_slope_is_the_derivative(kind):
    found = learned(DRAWS[kind](np.random.default_rng(1), 300))
    grid = np.linspace(-5.0, 5.0, 501)
    # Between knots the map has two derivatives.
    grid = grid[np.abs(grid[:, None] - found.z).min(axis=1) > 1e-3]
    h = 1e-5
    rise = (found.from_z(grid + h) - found.from_z(grid - h)) / (2.0 * h)
    close = 1e-3 if kind == "large" else 1e-5  # which has few digits
    assert_allclose(found.log_slope(grid), np.log(rise), atol=close)


def test_latent_numbers_are_about_standard_gaussian():
    for draw in (DRAWS["skewed"], DRAWS["heavy"], DRAWS["bounded"]):
        z = np.sort(learned(values := draw(np.random.default_rng(2), 2000)).to_z(values))
        expected = special.ndtri((np.arange(2000) + 0.5) / 2000)
        assert np.abs(z - expected)[20:-20].max() < 0.1


def test_of_gaussian_numbers_the_map_is_nearly_affine():
    values = DRAWS["gaussian"](np.random.default_rng(3), 2000)
    assert np.sqrt(np.mean((learned(values).to_z(values) - (values - 3.0) / 2.0) ** 2)) < 0.08


def test_an_affine_map_is_exact():
    found, z = Marginal.affine(3.0, 2.0), np.linspace(-9.0, 9.0, 101)
    assert_allclose(found.from_z(z), 3.0 + 2.0 * z, rtol=1e-14)
    assert_allclose(found.to_z(3.0 + 2.0 * z), z, atol=1e-14)
    assert_allclose(found.log_slope(z), np.log(2.0), rtol=1e-14)


def test_equal_values_have_the_middle_of_their_ranks():
    values = np.array([0.0] * 6 + [1.0] * 3 + [5.0])
    found = learned(values)
    assert_allclose(found.to_z(np.array([0.0, 1.0, 5.0])), special.ndtri([0.3, 0.75, 0.95]))


def test_tails_are_linear_and_not_too_steep():
    values = DRAWS["bounded"](np.random.default_rng(4), 1000)
    found = learned(values)
    assert_allclose([found.low, found.high], marginals.LEAST_SLOPE)
    beyond = found.to_z(np.array([1.5, 1.6]))
    assert_allclose(np.diff(beyond), 0.1 / (marginals.LEAST_SLOPE * values.std()))
    assert np.isnan(found.to_z(np.array([np.nan])))[0]


def test_an_integer_weight_is_repetition():
    rng = np.random.default_rng(5)
    values, times = rng.gamma(2.0, size=200), rng.integers(1, 4, 200)
    weighted, repeated = learned(values, times.astype(float)), learned(np.repeat(values, times))
    for a, b in zip(weighted, repeated, strict=True):
        assert_allclose(a, b, rtol=1e-12)


def test_missing_and_constant_columns_have_a_map():
    nothing, constant = learned(np.full(5, np.nan)), learned(np.full(5, 7.0))
    assert np.isfinite(nothing.from_z(np.zeros(1))).all()
    assert_array_equal(constant.from_z(np.zeros(1)), [7.0])


def test_pieces_of_many_rows_give_nearly_the_same_map(monkeypatch):
    values = DRAWS["skewed"](np.random.default_rng(6), 4000)
    whole = learned(values)
    monkeypatch.setattr(marginals, "MOST_VALUES", 500)
    parts = [(np.sort(part), np.ones(len(part))) for part in np.split(values, 8)]
    joined = Marginal.learn(*marginals._joined(parts))
    z = np.linspace(-2.5, 2.5, 50)
    assert_allclose(joined.from_z(z), whole.from_z(z), rtol=0.02, atol=0.02)
