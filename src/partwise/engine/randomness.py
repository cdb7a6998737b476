"""One way to turn what a user passes as ``random_state`` into a Generator."""

from typing import Any

import numpy as np


def as_generator(random_state: Any) -> np.random.Generator:
    """Generator from None, an int, a Generator (itself) or a RandomState (a draw of it).

    Examples
    --------
    >>> from partwise.engine.randomness import as_generator
    >>> int(as_generator(0).integers(100)) == int(as_generator(0).integers(100))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31 - 1)
    return np.random.default_rng(random_state)
