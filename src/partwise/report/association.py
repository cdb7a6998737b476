"""How strongly columns go together in the data itself, whatever a model says.

Two columns of numbers or ordered levels have their rank correlation, a number and a category the
correlation ratio of the ranks, two categories Cramer's V, each over the rows in which both are
observed. Ratios and V are corrected for the number of levels, so that columns that have nothing to
do with each other are near 0. Everything is a product of matrices, not a loop over pairs.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from partwise.data.table_column import TableColumn, is_angle, law_of_kind

# Rows that are enough for two digits; pairs with fewer common rows have no association.
MAX_ROWS = 4000
MIN_COMMON_ROWS = 10
# Levels of a category that are told apart, the last for all others; bins of angles.
MAX_LEVELS = 24
CIRCULAR_BINS = 8
# Indicators of levels in one product.
MAX_INDICATORS = 2048
# The strongest pairs with missing values, whose common rows are ranked by themselves.
MAX_RANKED_AGAIN = 250


def associations(
    columns: list[TableColumn] | None, coded: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Association of all pairs of columns.

    Ranks of two numbers are those of their common rows, of other pairs those of all rows.

    Parameters
    ----------
    columns : list of D TableColumn, or None for numbers
    coded : ndarray of shape (n, D)
        Rows as the model has them: numbers, and codes of levels; NaN is missing.

    Returns
    -------
    strength : ndarray of shape (D, D)
        From 0 to 1, and from -1 for two columns with an order; NaN where rows are too few.
    n_rows : ndarray of shape (D, D)
        Rows in which both are observed.
    """
    step = max(1, -(-len(coded) // MAX_ROWS))
    X = coded[::step]
    seen = np.isfinite(X)
    common = seen.astype(float).T @ seen.astype(float)
    kinds = ["number"] * X.shape[1] if columns is None else [_kind(column) for column in columns]
    ranked = np.array([d for d, kind in enumerate(kinds) if kind != "level"], int)
    leveled = np.array([d for d, kind in enumerate(kinds) if kind == "level"], int)
    out = np.full(common.shape, np.nan)

    def put(one: np.ndarray, other: np.ndarray, found: np.ndarray) -> None:
        out[np.ix_(one, other)], out[np.ix_(other, one)] = found, found.T

    ranks = _ranks(X[:, ranked])
    out[np.ix_(ranked, ranked)] = _correlations(ranks, seen[:, ranked])
    _rank_again(out, X, seen, ranked)
    binary = np.array([kind == "binary" for kind in kinds])
    out[binary] = np.abs(out[binary])  # its levels have no order
    out[:, binary] = np.abs(out[:, binary])
    codes = [_codes(None if columns is None else columns[d], X[:, d]) for d in leveled]
    pieces = _pieces([int(code.max(initial=-1)) + 1 for code in codes])
    for i, own in enumerate(pieces):
        levels = _indicators([codes[j] for j in own])
        put(ranked, leveled[own], _ratios(ranks, seen[:, ranked], *levels))
        put(leveled[own], leveled[own], _cramers_v(*levels, *levels))
        for others in pieces[:i]:
            found = _cramers_v(*levels, *_indicators([codes[j] for j in others]))
            put(leveled[own], leveled[others], found)
    out[common < MIN_COMMON_ROWS] = np.nan
    np.fill_diagonal(out, np.nan)
    return out, common * step


def _rank_again(out: np.ndarray, X: np.ndarray, seen: np.ndarray, ranked: np.ndarray) -> None:
    """Replace the strongest correlations of pairs with missing values by those of common rows.

    To rank the common rows of all pairs would take too long, and ranks of all rows are near them.
    """
    first, second = np.triu_indices(len(ranked), 1)
    a, b = ranked[first], ranked[second]
    complete = np.asarray(seen.all(axis=0))
    some = np.flatnonzero(~(complete[a] & complete[b]))
    strongest = some[np.argsort(-np.abs(np.nan_to_num(out[a[some], b[some]])), kind="stable")]
    for i in strongest[:MAX_RANKED_AGAIN]:
        pair = [a[i], b[i]]
        common = np.flatnonzero(seen[:, a[i]] & seen[:, b[i]])
        if len(common) < MIN_COMMON_ROWS:
            continue
        x, y = rankdata(X[np.ix_(common, pair)], axis=0).T
        x, y = x - x.mean(), y - y.mean()
        scale = np.sqrt((x @ x) * (y @ y))
        if scale > 0:
            out[a[i], b[i]] = out[b[i], a[i]] = (x @ y) / scale


def _kind(column: TableColumn) -> str:
    if is_angle(column.kind) or (column.has_levels and not _has_order(column)):
        return "binary" if column.has_levels and len(column.levels) == 2 else "level"
    return "number"


def _has_order(column: TableColumn) -> bool:
    return column.ordered or column.form != "level"


def _codes(column: TableColumn | None, values: np.ndarray) -> np.ndarray:
    """Levels from the most common, -1 for missing values; angles in equal bins."""
    seen = np.isfinite(values)
    out = np.full(len(values), -1)
    own = values[seen]
    if column is not None and not column.has_levels:
        turn = np.mod(own / (2 * np.pi * law_of_kind(column.kind).unit), 1.0)
        own = np.minimum((CIRCULAR_BINS * turn).astype(int), CIRCULAR_BINS - 1)
    _, place, counts = np.unique(own, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), int)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    out[seen] = np.minimum(rank[place], MAX_LEVELS - 1)
    return out


def _pieces(sizes: list[int]) -> list[np.ndarray]:
    """Consecutive columns with at most so many levels in all."""
    if not sizes:
        return []
    label = (np.cumsum(sizes) - 1) // MAX_INDICATORS
    return [np.flatnonzero(label == value) for value in np.unique(label)]


def _indicators(codes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One column per level (n, T), and the first of each; a column without values has one of 0."""
    sizes = [max(int(code.max(initial=-1)) + 1, 1) for code in codes]
    found = [code[:, None] == np.arange(size) for code, size in zip(codes, sizes, strict=True)]
    return np.hstack(found).astype(float), np.cumsum([0, *sizes[:-1]])


def _ranks(X: np.ndarray) -> np.ndarray:
    """Ranks of each column's values from -1 to 1, 0 where missing."""
    if not X.size:
        return np.zeros(X.shape)
    ranks = rankdata(X, axis=0, nan_policy="omit")
    n = np.isfinite(X).sum(axis=0)
    return np.nan_to_num((2 * ranks - n - 1) / np.maximum(n, 1))


def _correlations(Z: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Correlations of columns over common rows; 0 for a column that is constant there."""
    M = seen.astype(float)
    n = np.maximum(M.T @ M, 1.0)
    mean = (Z.T @ M) / n  # of a in the rows of b
    variance = np.maximum((Z * Z).T @ M / n - mean**2, 0.0)
    scale = np.sqrt(variance * variance.T)
    between = (Z.T @ Z) / n - mean * mean.T
    return np.divide(between, scale, out=np.zeros_like(between), where=scale > 1e-9)


def _ratios(Z: np.ndarray, seen: np.ndarray, levels: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Correlation ratio of ranks in the levels of each category, (numbers, categories)."""
    if not Z.shape[1]:
        return np.zeros((0, len(first)))
    M = seen.astype(float)
    counts, sums = M.T @ levels, Z.T @ levels
    each = np.add.reduceat(counts, first, axis=1)
    n = np.maximum(each, 1.0)
    mean = np.add.reduceat(sums, first, axis=1) / n
    squares = np.add.reduceat((Z * Z).T @ levels, first, axis=1)
    between = np.add.reduceat(sums**2 / np.maximum(counts, 1.0), first, axis=1) - n * mean**2
    total = squares - n * mean**2
    n_levels = np.add.reduceat((counts > 0).astype(float), first, axis=1)
    share = np.divide(between, total, out=np.zeros_like(total), where=total > 1e-9)
    share = 1.0 - (1.0 - share) * (n - 1.0) / np.maximum(n - n_levels, 1.0)
    return np.sqrt(np.clip(np.where(n > n_levels, share, 0.0), 0.0, 1.0))


def _cramers_v(
    levels: np.ndarray, first: np.ndarray, other: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Cramer's V of categories, corrected for the numbers of levels (Bergsma 2013)."""
    counts = levels.T @ other
    sizes, widths = np.diff([*first, levels.shape[1]]), np.diff([*start, other.shape[1]])
    rows = np.add.reduceat(counts, start, axis=1)  # of a level, in the rows of another column
    columns = np.add.reduceat(counts, first, axis=0)
    n = np.add.reduceat(rows, first, axis=0)
    expected = np.repeat(rows, widths, axis=1) * np.repeat(columns, sizes, axis=0)
    share = np.divide(counts**2, expected, out=np.zeros_like(counts), where=expected > 0)
    squared = np.add.reduceat(np.add.reduceat(share, first, axis=0), start, axis=1) - 1.0
    a = np.add.reduceat((rows > 0).astype(float), first, axis=0)
    b = np.add.reduceat((columns > 0).astype(float), start, axis=1)
    free = np.maximum(n - 1.0, 1.0)
    squared = np.maximum(squared - (a - 1.0) * (b - 1.0) / free, 0.0)
    least = np.minimum(a - (a - 1.0) ** 2 / free, b - (b - 1.0) ** 2 / free) - 1.0
    return np.sqrt(np.clip(np.where(least > 1e-9, squared / np.maximum(least, 1e-9), 0.0), 0, 1))
