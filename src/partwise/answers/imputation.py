"""Expectations of several fits of the same table about its missing values, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partwise.answers.rows import in_columns, map_rows
from partwise.answers.states import FittedStates, average, laws
from partwise.answers.tables import level_shares, likely_level
from partwise.contracts import Array
from partwise.data import RowBlock


class Expected(NamedTuple):
    """Expected entries of rows: numbers (n, D), and of columns with levels {place: (n, V)}."""

    numbers: Array  # 0 in columns with levels
    shares: dict[int, Array]


def expected(fits: Sequence[FittedStates], X: Array, n_jobs: int | None = None) -> Expected:
    """Expected entries of rows, averaged over the fits; each fit infers the rows once."""
    found = [_expected(fitted, X, n_jobs) for fitted in fits]
    numbers = np.mean([one.numbers for one in found], axis=0)
    for group in fits[0].columns:
        own = np.stack([one.numbers[:, group.index] for one in found])
        numbers[:, group.index] = group.likelihood.family.joined(own, group.shift)
    places = found[0].shares
    return Expected(numbers, {d: np.mean([one.shares[d] for one in found], axis=0) for d in places})


def _expected(fitted: FittedStates, X: Array, n_jobs: int | None) -> Expected:
    pairs = list(zip(fitted.columns, laws(fitted), strict=True))

    def on_block(block: RowBlock) -> tuple[Array, list[Array]]:
        m = fitted.model.infer(fitted.prepared, block)[0].T
        numbers, shares = [], []
        for group, law in pairs:
            if law.probability is None:
                numbers.append(group.likely(law, average(fitted, m, group.index)))
            else:
                numbers.append(np.zeros((len(m), len(group.index))))
                shares.append(level_shares(fitted, m, group.index, law.probability))
        return in_columns(fitted, numbers).astype(fitted.dtype, copy=False), shares

    numbers, by_block = zip(*map_rows(fitted.columns, X, on_block, n_jobs), strict=True)
    shares: dict[int, Array] = {}
    groups = (group for group, law in pairs if law.probability is not None)
    for group, pieces in zip(groups, zip(*by_block, strict=True), strict=True):
        joined = np.concatenate(pieces)  # (n, D_g, V)
        shares |= {int(d): joined[:, i] for i, d in enumerate(group.index)}
    return Expected(np.concatenate(numbers), shares)


def likely(fitted: FittedStates, found: Expected) -> Array:
    """Values to impute for every entry, (n, D): numbers, and the likeliest levels."""
    out = found.numbers.copy()
    for d, shares in found.shares.items():
        out[:, d] = likely_level(fitted, d, shares)
    return out
