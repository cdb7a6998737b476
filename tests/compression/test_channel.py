"""Codes for noisy channels against brute force, and a simulated channel."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.compression import ChannelCode, channel_code, flip_bits


def expected_error(vectors, shares, indices, table, n_bits, rate):
    """The sum over what is sent and what is received, bit by bit."""
    total = 0.0
    for i, sent in enumerate(indices):
        for received in range(2**n_bits):
            wrong = (int(sent) ^ received).bit_count()
            chance = rate**wrong * (1.0 - rate) ** (n_bits - wrong)
            total += shares[i] * chance * ((vectors[i] - table[received]) ** 2).sum()
    return total


def code_of(vectors, shares, indices):
    """A code with given indices."""
    n_bits = (len(vectors) - 1).bit_length()
    table = np.tile(shares @ vectors, (2**n_bits, 1))
    table[indices] = vectors
    return ChannelCode(np.asarray(indices), n_bits, table, shares)


@pytest.mark.parametrize("n_vectors", [8, 6])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_all_assignments(n_vectors, seed):
    rng = np.random.default_rng(seed)
    vectors, shares = rng.normal(size=(n_vectors, 2)), rng.dirichlet(np.full(n_vectors, 5.0))
    rate = 0.05
    code = channel_code(vectors, shares, error_rate=rate, n_init=10, random_state=seed)
    found = expected_error(vectors, shares, code.indices, code.table, 3, rate)
    assert_allclose(code.distortion(rate), found, rtol=1e-10)
    # All assignments up to flips of bits in all indices, which change nothing: the first is 0.
    every = np.array([(0, *rest) for rest in permutations(range(1, 8))])
    distance = np.array([[(i ^ j).bit_count() for j in range(8)] for i in range(8)])
    chance = rate**distance * (1.0 - rate) ** (3 - distance)
    padded = np.vstack([vectors, np.tile(shares @ vectors, (8 - n_vectors, 1))])
    weight = np.append(shares, np.zeros(8 - n_vectors))
    apart = ((padded[:, None] - padded) ** 2).sum(axis=2)
    errors = sum(
        weight[i] * apart[i, j] * chance[every[:, i], every[:, j]]
        for i in range(8)
        for j in range(8)
    )
    assert_allclose(found, errors.min(), rtol=1e-10)
    assert found < errors.mean()


def test_a_simulated_channel_has_the_expected_error():
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(12, 3)), rng.integers(12, size=20_000)
    shares = np.bincount(labels) / len(labels)
    code = channel_code(vectors, shares)
    assert_array_equal(code.decode(code.encode(labels)), vectors[labels])
    for rate in (0.0, 0.01, 0.1):
        received = flip_bits(code.encode(labels), code.n_bits, rate, random_state=1)
        squares = ((code.decode(received) - vectors[labels]) ** 2).sum(axis=1)
        sure = 5.0 * squares.std() / np.sqrt(len(labels)) + 1e-12
        assert abs(squares.mean() - code.distortion(rate)) < sure


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
def test_exchanged_indices_beat_random_ones(rate):
    rng = np.random.default_rng(3)
    vectors, shares = rng.normal(size=(32, 4)), np.full(32, 1 / 32)
    code = channel_code(vectors, shares, error_rate=rate)
    random = [code_of(vectors, shares, rng.permutation(32)).distortion(rate) for _ in range(20)]
    assert code.distortion(rate) < 0.8 * min(random)


def test_a_lattice_keeps_the_indices_of_its_features():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(5, 8)) * np.array([16.0, 8.0, 4.0, 2.0, 1.0])[:, None]
    codes = np.indices((2,) * 5).reshape(5, -1).T
    natural = code_of(codes @ features, np.full(32, 1 / 32), np.arange(32))
    code = channel_code(codes @ features, error_rate=0.01)
    assert_allclose(code.distortion(0.01), natural.distortion(0.01), rtol=1e-9)


def test_small_and_equal_codebooks():
    assert channel_code([[1.0, 2.0]]).n_bits == 1
    assert channel_code(np.ones((5, 2))).distortion(0.1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: channel_code([1.0, 2.0]), "shape"),
        (lambda: channel_code([[np.nan]]), "finite"),
        (lambda: channel_code([[1.0], [2.0]], [1.0]), "2 numbers"),
        (lambda: channel_code([[1.0], [2.0]], error_rate=0.0), "error_rate"),
        (lambda: channel_code([[1.0], [2.0]]).encode([2]), "0 to 1"),
        (lambda: channel_code([[1.0], [2.0]]).decode([2]), "1 bits"),
        (lambda: channel_code([[1.0], [2.0]]).distortion(0.7), "at most 0.5"),
        (lambda: flip_bits([4], 2, 0.1), "0 to 3"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
