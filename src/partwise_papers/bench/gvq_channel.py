"""Codebooks over a noisy channel: indices by exchange, at random, and the bits of features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans

from partwise import GVQ
from partwise.compression import ChannelCode, channel_code, flip_bits
from partwise.datasets import load_pearl_earring
from partwise_papers.bench import register
from partwise_papers.registry import Array, Row

N_BITS, SIDE = 8, 4
RATES = (0.001, 0.01, 0.05, 0.1)
RANDOM_CODES = 10
DESIGN_RATE = 0.01


def blocks() -> Array:
    """Blocks of 4x4 pixels of the painting, with values from 0 to 255, (n, 16)."""
    image = 255.0 * load_pearl_earring().image
    grid = image.reshape(image.shape[0] // SIDE, SIDE, -1, SIDE)
    return np.asarray(grid.swapaxes(1, 2).reshape(-1, SIDE * SIDE))


def with_indices(vectors: Array, shares: Array, indices: Array) -> ChannelCode:
    """A code with given indices, one for every vector."""
    table = np.empty_like(vectors)
    table[indices] = vectors
    return ChannelCode(indices, N_BITS, table, shares)


@register("gvq_channel")
def gvq_channel(progress: Callable[[str], None]) -> list[Row]:
    """Squared error per pixel of a painting's blocks sent as 8 bits over a channel that flips bits.

    k-means with 256 vectors and GVQ with 8 features; learned from every other block and measured on
    the others, the channel simulated. Indices are designed for a rate of 0.01.
    """
    X = blocks()
    train, test = X[::2], X[1::2]
    progress("k-means")
    means = KMeans(2**N_BITS, n_init=1, random_state=0).fit(train)
    shares = np.bincount(means.labels_, minlength=2**N_BITS) / len(train)
    progress("indices")
    rng = np.random.default_rng(0)
    centers, labels = means.cluster_centers_, means.predict(test)
    ways = {"VQ, indices by exchange": [channel_code(centers, shares, error_rate=DESIGN_RATE)]}
    ways["VQ, random indices"] = [
        with_indices(centers, shares, rng.permutation(len(centers))) for _ in range(RANDOM_CODES)
    ]
    progress("GVQ")
    model = GVQ(N_BITS, random_state=0).fit(train)
    powers = 1 << np.arange(N_BITS)
    every = (np.arange(2**N_BITS)[:, None] & powers > 0).astype(int)
    codebook, sent = model.decode(every), model.encode(test) @ powers
    used = np.bincount(model.encode(train) @ powers, minlength=2**N_BITS) / len(train)
    features = {
        "GVQ, its bits": with_indices(codebook, used, np.arange(2**N_BITS)),
        "GVQ, random indices": with_indices(codebook, used, rng.permutation(2**N_BITS)),
    }
    rows: list[Row] = []
    chosen = [(name, code, labels) for name, codes in ways.items() for code in codes]
    chosen += [(name, code, sent) for name, code in features.items()]
    found: dict[str, dict[float, list[float]]] = {}
    for name, code, numbers in chosen:
        progress(name)
        for rate in (0.0, *RATES):
            received = flip_bits(code.encode(numbers), N_BITS, rate, random_state=1)
            error = float(np.mean((code.decode(received) - test) ** 2))
            found.setdefault(name, {}).setdefault(rate, []).append(error)
    for name, errors in found.items():
        row: Row = {"way": name}
        rows.append(row | {f"error rate {rate:g}": float(np.mean(e)) for rate, e in errors.items()})
    return rows
