"""Ratings of two kinds of films, and recommenders fitted to them once per process."""

import numpy as np
import pytest

from partwise import MCFA, MCVQ, Recommender
from tests.common.helpers import quietly

D, LEVELS = 12, np.array([1.0, 2.0, 3.0, 4.0, 5.0])
NAMES = [f"film {i:02d}" for i in range(D)]


def drawn_ratings(seed=0, n_users=120, levels=LEVELS, share=0.6):
    """Users, items and ratings of two kinds of films, each with a taste of its own."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(n_users, 2))
    own = np.repeat([0, 1], D // 2)
    Z = taste[:, own] * rng.choice([1.0, 1.0, -0.8], D) + 0.5 * rng.normal(size=(n_users, D))
    Z += 0.5 * rng.normal(size=D)
    cuts = np.quantile(Z, np.arange(1, len(levels)) / len(levels))
    table = np.asarray(levels)[(Z[:, :, None] > cuts).sum(axis=2)]
    users, items = np.nonzero(rng.random(Z.shape) < share)
    return users, items, table[users, items]


KINDS = {
    "ordinal": MCFA(2, 1, likelihood="ordinal", random_state=0, tol=0.05),
    "gaussian": MCFA(2, 1, random_state=0, tol=0.05),
    "categorical": MCVQ(2, 3, likelihood="categorical", random_state=0, tol=0.05),
    "states": MCVQ(2, 3, random_state=0, tol=0.05),
    "open": MCFA(2, 1, likelihood="ordinal", gating="standard", random_state=0, tol=0.05),
    "selecting": MCVQ(2, 2, likelihood="categorical", gating="factorised", random_state=0, tol=0.1),
    "classes": MCVQ(2, 3, likelihood="categorical", n_classes=2, random_state=0, tol=0.05),
    "factor classes": MCFA(2, 1, likelihood="ordinal", n_classes=2, random_state=0, tol=0.05),
}
FITTED = {}
PERSON = {NAMES[0]: 5, NAMES[3]: 1, NAMES[7]: 4, NAMES[9]: 2}


def served(*kinds):
    if kinds not in FITTED:
        members = [KINDS[kind] for kind in kinds]
        users, items, values = drawn_ratings()
        ratings = (users, np.array(NAMES)[items], values)
        FITTED[kinds] = quietly(Recommender(members if len(kinds) > 1 else members[0]), ratings)
    return FITTED[kinds]


def as_row(person):
    row = np.full((1, D), np.nan, np.float32)
    for item, value in person.items():
        row[0, NAMES.index(item)] = value
    return row


ALL = pytest.mark.parametrize("kind", KINDS)
