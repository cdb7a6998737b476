"""Independent components with weights, with too few rows, and as the start of features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import hadamard

from partwise.data import BlockSource, learn_columns
from partwise.starts import ica


def mixed(seed, n, n_rows, noise=0.05):
    rng = np.random.default_rng(seed)
    bits = rng.integers(2, size=(n_rows, n))
    return bits @ rng.normal(size=(n, 3 * n)) + noise * rng.normal(size=(n_rows, 3 * n)), bits


def found(Y, bits):
    n = bits.shape[1]
    return np.abs(np.corrcoef(Y.T, bits.T)[: Y.shape[1], Y.shape[1] :]).max(axis=0).reshape(n)


def test_components_are_white_and_independent():
    X, bits = mixed(0, 8, 1000)
    Y = ica.independent_components(X, 8, np.ones(1000), np.random.default_rng(0))
    assert_allclose(Y.T @ Y / 1000, np.eye(8), atol=1e-9)
    assert np.all(found(Y, bits) > 0.99)


def test_weights_are_repetition():
    X, _ = mixed(1, 4, 200)
    weight = np.random.default_rng(0).integers(1, 4, 200)
    Y = ica.independent_components(X, 4, weight.astype(float), np.random.default_rng(0))
    again = np.repeat(X, weight, axis=0)
    Z = ica.independent_components(again, 4, np.ones(len(again)), np.random.default_rng(0))
    assert_allclose(np.abs(np.repeat(Y, weight, axis=0)), np.abs(Z), atol=1e-6)


def test_what_is_found_is_kept_where_the_rest_does_not_come_to_rest(monkeypatch):
    # Whether a fixed point comes to rest where rows are few is chance that rounding turns. This one
    # finds half of the components, and leaves the others mixed in equal parts.
    X, bits = mixed(0, 8, 1000)
    fixed_point, widths = ica._fixed_point, []

    def half(Z, share, rng):
        W, at_rest = fixed_point(Z, share, rng)
        assert at_rest
        widths.append(len(W))
        left = W[len(W) // 2 :]
        mixing = hadamard(len(left)) / np.sqrt(len(left))
        return np.vstack([W[: len(W) // 2], mixing @ left]), False

    def n_found(rounds):
        widths.clear()
        monkeypatch.setattr(ica, "MOST_ROUNDS", rounds)
        Y = ica.independent_components(X, 8, np.ones(len(X)), np.random.default_rng(0))
        return np.sum(found(Y, bits) > 0.95)

    monkeypatch.setattr(ica, "_fixed_point", half)
    assert n_found(1) == 4
    assert n_found(2) == 6
    assert n_found(6) == 8
    assert widths == [8, 4, 2]


@pytest.mark.ci
def test_more_rounds_lose_nothing_where_rows_are_few(monkeypatch):
    X, bits = mixed(0, 50, 1150)  # fewer than 50 * 51 / 2

    def n_found(rounds):
        monkeypatch.setattr(ica, "MOST_ROUNDS", rounds)
        Y = ica.independent_components(X, 50, np.ones(len(X)), np.random.default_rng(0))
        return np.sum(found(Y, bits) > 0.95)

    assert n_found(6) >= n_found(1)


def test_fewer_components_than_features():
    X, _ = mixed(2, 3, 300, noise=0.0)
    Y = ica.independent_components(X, 7, np.ones(300), np.random.default_rng(0))
    assert Y.shape == (300, 3)
    weight = np.ones(300)
    source = BlockSource(X, learn_columns(X, "gaussian", weight, False, None), weight)
    rng = np.random.default_rng(0)
    features, origins = ica.feature_start(source, 1, 7, 2, rng, independent=True)
    assert features.shape == (1, 7, 9)
    assert np.isfinite(features).all()
    assert np.isfinite(origins).all()
