"""Columns that are nearly copies of others: found in coded rows, imputed and sampled together.

The columns of a part are independent given its state, so a sampled copy would differ from its
original by the spread of the state. A follower is sampled from its leader instead: numbers by their
regression, levels by the one that corresponds to the leader's. In the same way a missing value is
imputed from an observed copy, with the spread of the regression as its standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from partwise.contracts import Array
from partwise.data.table_column import IGNORED, TableColumn, Twin

# Two numbers are nearly copies from this correlation on; two columns of levels if so many of the
# rows agree, and so many of those that do not have the most common level.
MIN_CORRELATION = 0.99
MIN_AGREEMENT = 0.99
MIN_RARE_AGREEMENT = 0.95
# Fewer rows in which both are observed show nothing.
MIN_ROWS = 30
# Rows and columns that are looked at.
MAX_ROWS = 5000
MAX_COLUMNS = 1000


def find_twins(columns: Sequence[TableColumn], coded: Array) -> dict[int, Twin]:
    """Followers by place, each with its leader, which comes before it and follows no other.

    Parameters
    ----------
    columns : sequence of D TableColumn
    coded : ndarray of shape (n, D)
        Coded rows, NaN where missing.
    """
    some = np.linspace(0, len(coded) - 1, min(len(coded), MAX_ROWS)).astype(int)
    X = np.asarray(coded[some], dtype=float) if len(coded) else np.empty((0, len(columns)))
    used = [d for d, column in enumerate(columns) if column.kind != IGNORED][:MAX_COLUMNS]
    numbers = np.array([d for d in used if not columns[d].has_levels], int)
    close = np.abs(_correlations(X[:, numbers])) >= MIN_CORRELATION
    out: dict[int, Twin] = {}
    for i, follower in enumerate(numbers.tolist()):
        for leader in numbers[:i][close[:i, i]].tolist():
            twin = _line(X, leader, follower)
            if leader not in out and twin is not None:
                out[follower] = twin
                break
    levels = [d for d in used if columns[d].has_levels]
    for i, follower in enumerate(levels):
        n_levels = len(columns[follower].levels)
        for leader in levels[:i]:
            if leader in out or len(columns[leader].levels) != n_levels:
                continue
            twin = _pairs(X, leader, follower, n_levels)
            if twin is not None:
                out[follower] = twin
                break
    return out


def follow_leaders(
    columns: Sequence[TableColumn], coded: Array, rng: np.random.Generator, known: Array | None
) -> Array:
    """Sampled rows in which followers agree with their leaders.

    Cells that are ``known`` (n, D) stay; a leader agrees with a known follower.
    """
    twins = {d: column.twin for d, column in enumerate(columns) if column.twin is not None}
    if not twins:
        return coded
    out = np.array(coded)
    given = np.zeros(out.shape, bool) if known is None else known.copy()
    for d, twin in twins.items():
        lead = given[:, d] & ~given[:, twin.leader]
        out[lead, twin.leader] = twin.leader_of(out[lead, d])
        given[lead, twin.leader] = True  # other followers agree with it
    for d, twin in twins.items():
        free = ~given[:, d]
        out[free, d] = twin.follower_of(out[free, twin.leader], rng)
    return out


def told_by_twins(columns: Sequence[TableColumn], coded: Array) -> tuple[Array, Array]:
    """Missing cells of rows (n, D) whose near-duplicate is observed: expected values, deviations.

    Both are (n, D), NaN in all other cells; the deviation of a level is 0.
    """
    twins = {d: column.twin for d, column in enumerate(columns) if column.twin is not None}
    value = np.full(coded.shape, np.nan)
    deviation = np.full(coded.shape, np.nan)
    known, spread = np.array(coded, dtype=float), np.zeros(coded.shape)
    for d, twin in twins.items():  # leaders first, which other followers then follow
        rows = np.flatnonzero(np.isnan(known[:, twin.leader]) & ~np.isnan(known[:, d]))
        at = rows, twin.leader
        value[at] = known[at] = twin.leader_of(known[rows, d])
        deviation[at] = spread[at] = 0.0 if twin.spread is None else twin.spread / abs(twin.to[1])
    for d, twin in twins.items():
        rows = np.flatnonzero(np.isnan(known[:, d]) & ~np.isnan(known[:, twin.leader]))
        value[rows, d] = twin.follower_of(known[rows, twin.leader])
        slope = 0.0 if twin.spread is None else twin.to[1]
        deviation[rows, d] = np.hypot(twin.spread or 0.0, slope * spread[rows, twin.leader])
    return value, deviation


def _correlations(X: Array) -> Array:
    """Correlations of the rows in which both columns are observed, 0 where they are few; (H, H)."""
    held = ~np.isnan(X)
    X = np.ldexp(X, -_exponents(X))
    x = np.where(held, X, 0.0)
    center = x.sum(axis=0) / np.maximum(held.sum(axis=0), 1)
    x = np.where(held, X - center, 0.0)
    scale = np.sqrt((x**2).sum(axis=0) / np.maximum(held.sum(axis=0), 1))
    x = x / np.where(scale > 0, scale, 1.0)
    w = held.astype(float)
    n = w.T @ w
    safe = np.maximum(n, 1.0)
    mean = (x.T @ w) / safe  # of the first column, in the rows that both have
    covariance = (x.T @ x) / safe - mean * mean.T
    variance = ((x**2).T @ w) / safe - mean**2
    product = np.sqrt(np.maximum(variance * variance.T, 0.0))
    found = np.divide(covariance, product, out=np.zeros_like(product), where=product > 1e-12)
    return np.where(n >= MIN_ROWS, found, 0.0)


def _exponents(X: Array) -> Array:
    """Powers of 2 by which columns are divided to be at most 1, so that squares do not overflow."""
    return np.frexp(np.nanmax(np.abs(X), axis=0, initial=0.0))[1]


def _line(X: Array, a: int, b: int) -> Twin | None:
    """The regression of column b on a, if they are close enough."""
    both = ~np.isnan(X[:, a]) & ~np.isnan(X[:, b])
    X = X[both][:, [a, b]]
    i, j = _exponents(X).tolist()
    x, y = np.ldexp(X, [-i, -j]).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    slope, intercept = np.polyfit(x, y, 1)
    spread = float(np.std(y - (intercept + slope * x)))
    strength = float(np.sqrt(max(1.0 - (spread / y.std()) ** 2, 0.0)))
    with np.errstate(over="ignore", under="ignore"):
        line = np.ldexp([intercept, slope, spread], [j, j - i, j]).tolist()
    if strength < MIN_CORRELATION or line[1] == 0 or not np.isfinite(line).all():
        return None
    return Twin(a, strength, (line[0], line[1]), line[2])


def _pairs(X: Array, a: int, b: int, n_levels: int) -> Twin | None:
    """The level of column b for each of a, if they correspond nearly always."""
    both = ~np.isnan(X[:, a]) & ~np.isnan(X[:, b])
    if both.sum() < MIN_ROWS:
        return None
    x, y = X[both, a].astype(int), X[both, b].astype(int)
    counts = np.bincount(x * n_levels + y, minlength=n_levels**2).reshape(n_levels, n_levels)
    to = counts.argmax(axis=1)
    agreed, each = counts.max(axis=1), counts.sum(axis=1)
    rare = np.delete(np.arange(n_levels), each.argmax())
    if len(set(to.tolist())) < n_levels or each[rare].sum() == 0:
        return None
    strength = agreed.sum() / each.sum()
    if strength < MIN_AGREEMENT or agreed[rare].sum() / each[rare].sum() < MIN_RARE_AGREEMENT:
        return None
    return Twin(a, float(strength), tuple(float(code) for code in to))


def with_twins(columns: Sequence[TableColumn], found: Mapping[int, Twin]) -> list[TableColumn]:
    """The columns, with their leaders noted."""
    return [column.following(found.get(d)) for d, column in enumerate(columns)]
