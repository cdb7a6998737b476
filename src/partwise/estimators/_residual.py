"""The regressor of users: unfitted copies, whose seeds follow from that of the imputer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
from sklearn.base import BaseEstimator, clone

from partwise.fitting.residual import Regressor


def copies_of(asked: Regressor, rng: np.random.Generator) -> Callable[[], Regressor]:
    """A maker of unfitted copies, whose seeds, also those of steps, are set where they are None."""
    model = cast("BaseEstimator", clone(asked))
    for name, given in sorted(model.get_params().items()):
        if given is None and name.rpartition("__")[2] == "random_state":
            model.set_params(**{name: int(rng.integers(2**31 - 1))})
    return cast("Callable[[], Regressor]", partial(clone, model))
