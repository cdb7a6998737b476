"""What is missing where: in which columns together, and in which rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtrc, xlogy
from scipy.stats import hypergeom

from partwise.data.table import Schema, TableColumn, number_text
from partwise.plot.view import View, percent
from partwise.report.content import (
    MissingPattern,
    MissingTogether,
    MissingValues,
    MissingWhere,
)

MAX_PATTERNS = 12
# Missing values of two columns coincide if they are correlated by this much.
MIN_COINCIDENCE = 0.3
MAX_BY_CHANCE = 0.01
# Combinations of missing columns are listed if they have so many rows, or this share of them.
PATTERN_ROWS = 3
PATTERN_SHARE = 0.01
# Another column says where values are missing if it explains this share of the entropy of the
# missing values; columns with fewer missing or observed values are not looked at.
MIN_EXPLAINED = 0.25
MIN_ROWS = 5
# Numbers are divided at quantiles into so many bins; levels that are named one by one.
N_BINS = 16
# Of wide tables so many columns are explained by those with the fewest missing values: all pairs
# would take longer than the rest of the page.
MAX_EXPLAINED = 60
MAX_REASONS = 300
MAX_NAMED_LEVELS = 4


def missing_values(seen: View, schema: Schema | None, coded: np.ndarray) -> MissingValues:
    """Missing values of the model's columns: complete rows, patterns of columns, and where.

    Parameters
    ----------
    seen : View
    schema : Schema or None
    coded : ndarray of shape (n_rows, D)
        Rows as the model's numbers.

    Returns
    -------
    missing : dict
    """
    used = np.ones(len(seen.names), bool)
    if schema is not None:
        used = np.array([column.kind != "ignored" for column in schema.columns])
    absent = np.isnan(coded) & used
    complete = int((~absent.any(axis=1)).sum())
    some = np.flatnonzero(absent.any(axis=0))
    packed = np.packbits(absent[:, some], axis=1)
    counts = Counter(bytes(row) for row in packed)
    patterns: list[MissingPattern] = []
    for row, count in counts.most_common():
        mask = np.unpackbits(np.frombuffer(row, np.uint8), count=len(some)).astype(bool)
        is_common = count >= max(PATTERN_ROWS, PATTERN_SHARE * len(coded))
        if mask.any() and is_common and len(patterns) < MAX_PATTERNS:
            patterns.append({"columns": [int(d) for d in some[mask]], "n_rows": count})
    together = _together(absent, some)
    return {
        "n_rows": len(coded),
        "n_complete": complete,
        "share": float(absent[:, used].mean()) if used.any() else 0.0,
        "n_columns": len(some),
        "together": together,
        "where": _where(seen, schema, coded, used, together),
        "n_patterns": len(counts) - int(complete > 0),
        "patterns": patterns,
    }


def _together(absent: np.ndarray, some: np.ndarray) -> list[MissingTogether]:
    """Groups of columns whose missing values coincide more often than by chance."""
    own = absent[:, some].astype(float)
    n, each, both = len(own), own.sum(axis=0), own.T @ own
    x = (own - own.mean(axis=0)) / np.maximum(own.std(axis=0), 1e-12)
    close = (x.T @ x) / n >= MIN_COINCIDENCE
    # Of many pairs some coincide by chance: probability of so many common rows, for all pairs.
    a, b = np.nonzero(close)
    by_chance = hypergeom.sf(both[a, b] - 1, n, each[a], each[b]) * max(close.size / 2, 1.0)
    close[a, b] = by_chance < MAX_BY_CHANCE
    n_groups, label = connected_components(close, directed=False)
    groups: list[MissingTogether] = []
    for g in range(n_groups):
        columns = some[label == g]
        if len(columns) > 1:
            n_rows = int(absent[:, columns].all(axis=1).sum())
            groups.append({"columns": [int(d) for d in columns], "n_rows": n_rows})
    return sorted(groups, key=lambda group: -group["n_rows"])


def _where(
    seen: View,
    schema: Schema | None,
    coded: np.ndarray,
    used: np.ndarray,
    together: Sequence[MissingTogether],
) -> list[MissingWhere]:
    """Values of other columns that tell where columns are missing, the most columns first."""
    absent = np.isnan(coded) & used
    grouped = {d for group in together for d in group["columns"]}
    alone = [[int(d)] for d in np.flatnonzero(absent.any(axis=0)) if d not in grouped]
    found: list[MissingWhere] = []
    table = [None] * len(used) if schema is None else list(schema.columns)
    bins = [_binned(table[d], coded[:, d]) if used[d] else None for d in range(len(used))]
    fewest = np.argsort(absent.sum(axis=0), kind="stable")
    reasons = [int(d) for d in fewest if bins[d] is not None][:MAX_REASONS]
    if not reasons:  # no column has two values in these rows
        return []
    n_left = MAX_EXPLAINED
    groups: list[list[int]] = []
    for columns in [*(group["columns"] for group in together), *alone]:
        groups.append(columns[:n_left])
        n_left -= len(groups[-1])
    explained = _explained(absent, bins, reasons, [_is_ordered(one) for one in table], groups)
    for columns in groups:
        # Each column of a group by itself: what explains one need not explain the others.
        by_reason: dict[tuple[int, str], list[tuple[int, float, float]]] = {}
        for d in columns:
            best = int(explained[d].argmax())
            if explained[d][best] <= MIN_EXPLAINED:
                continue
            other = reasons[best]
            binned = bins[other]
            assert binned is not None
            split = _Splits(absent[:, [d]], binned, _is_ordered(table[other])).chosen()
            known, inside = binned >= 0, np.isin(binned, split)
            words = _words(table[other], coded[inside, other], coded[known, other])
            inner, outer = float(absent[inside, d].mean()), float(absent[known & ~inside, d].mean())
            by_reason.setdefault((other, words), []).append((d, inner, outer))
        for (other, words), own in by_reason.items():
            found.append(
                {
                    "columns": [d for d, _, _ in own],
                    "other": other,
                    "words": f"{seen.names[other]} is {words}",
                    "inside": _rates([inner for _, inner, _ in own]),
                    "outside": _rates([outer for _, _, outer in own]),
                }
            )
    return sorted(found, key=lambda one: -len(one["columns"]))


def _binned(column: TableColumn | None, values: np.ndarray) -> np.ndarray | None:
    """Bins of a column's values, -1 where missing; None of columns with one value."""
    known = np.isfinite(values)
    if not known.any():
        return None
    out = np.full(len(values), -1)
    if not _is_ordered(column):
        out[known] = values[known].astype(int)
    else:
        edges = np.unique(np.quantile(values[known], np.arange(1, N_BINS) / N_BINS))
        if len(edges) and len(distinct := np.unique(values[known])) <= 2 * N_BINS:
            edges = distinct[1:]
        out[known] = np.searchsorted(edges, values[known], side="right")
    return out if len(np.unique(out[known])) > 1 else None


def _is_ordered(column: TableColumn | None) -> bool:
    """Whether neighboring values belong together."""
    return column is None or not column.has_levels or column.ordered or column.form != "level"


def _explained(
    absent: np.ndarray,
    bins: Sequence[np.ndarray | None],
    reasons: Sequence[int],
    ordered: Sequence[bool],
    groups: Sequence[Sequence[int]],
) -> dict[int, np.ndarray]:
    """The share of the entropy of columns' missing values that each reason explains."""
    group_of = {d: g for g, columns in enumerate(groups) for d in columns}
    columns = list(group_of)
    shares = np.zeros((len(reasons), len(columns)))
    for i, other in enumerate(reasons):
        binned = bins[other]
        assert binned is not None
        shares[i] = _Splits(absent[:, columns], binned, ordered[other]).explained(len(bins))
        shares[i, [group_of[d] == group_of.get(other, -1) for d in columns]] = 0.0
    return {d: shares[:, j] for j, d in enumerate(columns)}


@cache
def _ranges(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of all ranges of n bins."""
    return np.triu_indices(n + 1, 1)


class _Splits:
    """The best division of bins into two groups, for the missing values of several columns.

    A group is a range of ordered bins, or its complement; of others the bins with the largest
    share of missing values.

    Parameters
    ----------
    absent : ndarray of shape (n_rows, C)
    bins : ndarray of shape (n_rows,)
        Numbers of bins, -1 where missing.
    ordered : bool
    """

    def __init__(self, absent: np.ndarray, bins: np.ndarray, ordered: bool) -> None:
        known = bins >= 0
        C = absent.shape[1]
        held = np.zeros((int(bins.max()) + 1, len(bins)))
        held[bins[known], np.flatnonzero(known)] = 1.0
        n, missing = held.sum(axis=1), held @ absent
        self._used = used = np.flatnonzero(n)
        self._total, self._missing = float(n.sum()), missing.sum(axis=0)
        order = np.broadcast_to(used[:, None], (len(used), C))
        first, last = _ranges(len(used))
        if not ordered:
            order = used[np.argsort(-missing[used] / n[used, None], axis=0, kind="stable")]
            first, last = np.zeros(len(used), int), np.arange(1, len(used) + 1)
        zero = np.zeros((1, C))
        rows = np.concatenate([zero, np.cumsum(n[order], axis=0)])
        lost = np.concatenate([zero, np.cumsum(np.take_along_axis(missing, order, 0), axis=0)])
        inner, inner_missing = rows[last] - rows[first], lost[last] - lost[first]
        self._before = _nats(self._total, self._missing)
        gain = self._before - _nats(inner, inner_missing)
        gain -= _nats(self._total - inner, self._missing - inner_missing)
        self._at, each = gain.argmax(axis=0), np.arange(C)
        self._gain = gain[self._at, each]
        self._inner = inner[self._at, each], inner_missing[self._at, each]
        self._n_tries, self._df = (len(gain), 1) if ordered else (1, len(used) - 1)
        self._first, self._last, self._order = first, last, order

    def explained(self, n_columns: int) -> np.ndarray:
        """The share of the entropy that the division explains, (C,).

        What as many columns and groups would give by chance explains nothing.
        """
        enough = np.minimum(self._missing, self._total - self._missing) >= MIN_ROWS
        by_chance = chdtrc(self._df, 2.0 * np.maximum(self._gain, 0.0))
        enough &= by_chance * self._n_tries * n_columns**2 <= MAX_BY_CHANCE
        return np.where(enough, self._gain / np.maximum(self._before, 1e-300), 0.0)

    def chosen(self) -> np.ndarray:
        """Bins of the group with more missing values, of the first column."""
        inner, missing = self._inner[0][0], self._inner[1][0]
        own = self._order[self._first[self._at[0]] : self._last[self._at[0]], 0]
        if missing * (self._total - inner) < (self._missing[0] - missing) * inner:
            return np.setdiff1d(self._used, own)
        return own


def _nats(of: np.ndarray | float, some: np.ndarray | float) -> np.ndarray:
    """The entropy of all rows of a side, in which ``some`` are missing."""
    return xlogy(of, of) - xlogy(some, some) - xlogy(of - some, of - some)


def _words(column: TableColumn | None, inside: np.ndarray, known: np.ndarray) -> str:
    """The values of some rows in words: levels, or the range of ordered values."""

    def text(value: float) -> str:
        return number_text(value) if column is None else column.text(value)

    if not _is_ordered(column):
        levels = np.unique(inside).astype(int)
        others = np.setdiff1d(np.unique(known).astype(int), levels)
        if len(levels) > MAX_NAMED_LEVELS and len(others) <= MAX_NAMED_LEVELS:
            return f"not {_either([text(level) for level in others])}"
        if len(levels) > MAX_NAMED_LEVELS:
            counts = np.bincount(inside.astype(int))
            levels = levels[np.argsort(-counts[levels], kind="stable")][:MAX_NAMED_LEVELS]
            return f"{', '.join(text(level) for level in levels)} or another of its levels"
        return _either([text(level) for level in levels])
    low, high = float(inside.min()), float(inside.max())
    outside = np.setdiff1d(known, inside)
    if low == high:
        return text(low)
    if not len(outside) or outside.max() < low:
        return f"at least {text(low)}"
    if outside.min() > high:
        return f"at most {text(high)}"
    if not ((outside > low) & (outside < high)).any():
        return f"{text(low)} to {text(high)}"
    first, last = float(outside.min()), float(outside.max())
    if first == last:
        return f"not {text(first)}"
    below, above = ("before", "after") if _is_date(column) else ("below", "above")
    return f"{below} {text(first)} or {above} {text(last)}"


def _is_date(column: TableColumn | None) -> bool:
    return column is not None and column.form == "date"


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _rates(shares: Sequence[float]) -> str:
    """Shares of rows in words, the least and the largest."""

    def word(share: float) -> str:
        if share in (0.0, 1.0):
            return "all" if share else "none"
        return "more than 99 %" if share > 0.995 else percent(share)

    least, most = word(min(shares)), word(max(shares))
    return (
        least
        if least == most
        else f"{percent(min(shares)).removesuffix(' %')} to {percent(max(shares))}"
    )
