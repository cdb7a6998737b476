"""How a row selects parts for its entries and its class: by probability or by sampling.

Logits and probabilities have the choices on their first axis. ``parts`` also returns what an entry
adds to the factorised lower bound, or for samples to the log joint density of row and states, the
entry's own selection summed out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from partwise.contracts import Array

# The random generator of a block's selections, None where nothing is sampled.
Randomness: TypeAlias = np.random.Generator | None


class Selection(Protocol):
    """Selections of parts (K, entries) and of classes (N, n)."""

    averages: ClassVar[bool]

    def generator(self, index: int) -> Randomness:
        """The random source of block ``index``, if one is needed."""
        ...

    def parts(self, log_a: Array, expected: Array, rng: Randomness) -> tuple[Array, Array]:
        """Selections of every entry, and the entries' share of the bound."""
        ...

    def classes(self, z: Array, rng: Randomness) -> Array:
        """Selections of the rows' classes from their posterior, (N, n)."""
        ...


def _log_softmax(log_a: Array, expected: Array) -> tuple[Array, Array]:
    """Log posterior over the first axis and its log normalizer."""
    expected = expected + log_a
    top = expected.max(axis=0)
    total = top + np.log(np.exp(expected - top).sum(axis=0))
    return expected - total, total


@dataclass(frozen=True)
class Expected:
    """Selections by posterior probability: the factorised variational posterior."""

    averages: ClassVar[bool] = False

    def generator(self, index: int) -> None:
        """No randomness."""
        return

    def parts(self, log_a: Array, expected: Array, rng: Randomness) -> tuple[Array, Array]:
        """g proportional to a exp(E[log p]); the entry adds sum_k g (log a - log g)."""
        log_g, _ = _log_softmax(log_a, expected)
        G = np.exp(log_g)
        return G, (G * (log_a - log_g)).sum(axis=0)

    def classes(self, z: Array, rng: Randomness) -> Array:
        """The posterior itself."""
        return z


@dataclass(frozen=True)
class Draws:
    """Selections by Gibbs sampling; each block samples with a child of the seed."""

    seed: int
    averages: ClassVar[bool] = True

    def generator(self, index: int) -> np.random.Generator:
        """A generator of the block's own."""
        return np.random.default_rng([self.seed, index])

    def parts(self, log_a: Array, expected: Array, rng: Randomness) -> tuple[Array, Array]:
        """r sampled in proportion to a p(x | s); the entry adds log sum_k a p(x | s_k)."""
        log_g, total = _log_softmax(log_a, expected)
        return draw(np.exp(log_g), rng), total

    def classes(self, z: Array, rng: Randomness) -> Array:
        """y sampled from its posterior."""
        return draw(z, rng)


def draw(probability: Array, rng: Randomness) -> Array:
    """One-hot samples along the first axis."""
    assert rng is not None
    above = np.cumsum(probability, axis=0)
    u = rng.random(probability.shape[1:]) * above[-1]
    choice = np.minimum((above <= u).sum(axis=0), len(probability) - 1)
    out = np.zeros_like(probability)
    np.put_along_axis(out, choice[None], 1, axis=0)
    return out
