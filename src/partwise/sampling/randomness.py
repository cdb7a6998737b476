"""One way to turn what a user passes as ``random_state`` into a Generator, and to keep one."""

from collections.abc import Iterable
from typing import TypedDict, cast

import numpy as np

# Kinds of bit generators that can be kept; their names in numpy.random.
_KINDS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def as_generator(
    random_state: int | np.random.Generator | np.random.RandomState | None,
) -> np.random.Generator:
    """Generator from None, an int, a Generator (itself) or a RandomState (seeded by it).

    Examples
    --------
    >>> from partwise.sampling.randomness import as_generator
    >>> int(as_generator(0).integers(100)) == int(as_generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31 - 1)
    return np.random.default_rng(random_state)


class Frozen(TypedDict):
    """A Generator as plain values."""

    kind: str
    state: object
    entropy: int | list[int]
    spawn_key: list[int]
    pool_size: int
    n_children: int


def freeze(rng: np.random.Generator) -> Frozen:
    """The full state of a Generator, as plain values.

    Examples
    --------
    >>> from partwise.sampling.randomness import as_generator, freeze, thaw
    >>> rng = as_generator(0)
    >>> kept = freeze(rng)
    >>> bool(rng.random() == thaw(kept).random())
    True
    """
    bits = rng.bit_generator
    seed, kind = bits.seed_seq, type(bits).__name__
    if kind not in _KINDS or not isinstance(seed, np.random.SeedSequence):
        raise TypeError(
            f"random_state uses {kind}, which a checkpoint cannot hold; give a whole number "
            "or numpy.random.default_rng(seed)."
        )
    return {
        "kind": kind,
        "state": bits.state,
        "entropy": seed.entropy
        if isinstance(seed.entropy, int)
        else _ints(cast(Iterable[int], seed.entropy)),
        "spawn_key": _ints(seed.spawn_key),
        "pool_size": seed.pool_size,
        "n_children": seed.n_children_spawned,
    }


def _ints(values: Iterable[int]) -> list[int]:
    return [int(value) for value in values]


def thaw(kept: Frozen) -> np.random.Generator:
    """The Generator that was frozen."""
    if kept["kind"] not in _KINDS:
        raise ValueError(f"unknown bit generator {kept['kind']!r}")
    seed = np.random.SeedSequence(
        kept["entropy"],
        spawn_key=kept["spawn_key"],
        pool_size=kept["pool_size"],
        n_children_spawned=kept["n_children"],
    )
    bits = getattr(np.random, kept["kind"])(seed)
    bits.state = kept["state"]
    return np.random.Generator(bits)
