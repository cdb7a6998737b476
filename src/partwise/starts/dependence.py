"""Start from the data's own structure: columns that move together, then kinds of rows in each part.

Columns are grouped by spectral clustering of their squared correlations over jointly observed
entries; then the rows of a sample are clustered on each group's columns. Many columns are also
grouped by how much of them the states of a part can tell (`subspaces`), and a judge decides.

Categories without order may also stand there with a yes or no for each level; columns are then tied
by the sum of the squared correlations of these: Pearson's phi^2 of two categories, the correlation
ratio of a number and a category, less what chance gives, in units of chance (Tschuprow's T^2).

Random starts fall into poor optima; this one does not cost D^2: beyond ``MOST_COLUMNS`` columns
only the best observed are grouped, and the others' gates begin uniform, to be chosen by the first
sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import linalg, sparse, special

from partwise._compiled import compiled
from partwise.contracts import Array, Layout, Span, Stats
from partwise.data.columns import by_column
from partwise.data.indices import is_csr
from partwise.data.rows import is_sparse, map_rows
from partwise.data.source import BlockSource
from partwise.starts.kmeans import SPARSE, masked_kmeans
from partwise.starts.refine import split_and_merge
from partwise.starts.rows import distinct_rows, some_rows
from partwise.starts.subspaces import correlations, told_groups

# Correlations of more columns cost more than they tell.
MOST_COLUMNS = 1500
# Of fewer columns no other groups than those of spectral clustering are tried: they are as good.
MANY_COLUMNS = 50
# Nats per entry by which a start must be better: annealing forgets small differences.
CLEAR_GAIN = 0.01
# Levels of a column that are looked at one by one.
MOST_SCORES = 32
# Scores in the dense sample from which correlations are taken.
MOST_CELLS = 8_000_000
# Numbers of it whose products are summed at a time, each with a few copies.
SUMMED_CELLS = 1 << 20
# Runs of k-means that group columns, and runs and steps that cluster rows. A quick start serves
# fits of few EM iterations.
COLUMN_RUNS, ROW_RUNS, ROW_STEPS = 10, 8, 30
QUICK_COLUMN_RUNS, QUICK_ROW_RUNS, QUICK_ROW_STEPS = 1, 2, 10
# Rows whose states are clustered: this many a state.
ROWS_A_STATE = 150
# A pair of columns observed together this often keeps half of its squared correlation: with few
# joint rows the squared correlation of independent columns is large.
HALF_TRUST = 10.0
# With fewer entries observed, the evidence of clusters in a sample of rows cannot tell one kind
# from two, and merges too much.
MOSTLY_SEEN = 0.5
# Probability that an independent column appears dependent.
CHANCE = 0.05


@dataclass(frozen=True, eq=False)
class Dependence:
    """How much columns depend on each other, and the sample of rows that told it."""

    columns: Array  # those looked at
    rows: Array  # in the sample
    weight: Array  # of these rows
    sample: Array  # (rows, scores of columns), standardized, NaN where missing
    owner: Array  # the column of each score, by its place among those looked at
    ties: Array | None  # affinity, where the scores were chosen by it

    @cached_property
    def affinity(self) -> Array:
        """Of the columns looked at."""
        return squared_correlations(self.sample, self.weight) if self.ties is None else self.ties

    @property
    def has_many_numbers(self) -> bool:
        """Whether there are many columns, but not more than rows, all numbers and mostly known.

        Correlations of more columns than rows have directions that chance alone explains.
        """
        n_columns = len(self.columns)
        if self.ties is not None or not MANY_COLUMNS <= n_columns <= self.weight.sum():
            return False
        return float(np.mean(~np.isnan(self.sample))) > MOSTLY_SEEN

    def of_more_than_chance(self) -> Array:
        """Columns that depend on some other."""
        shown = float(np.mean(~np.isnan(self.sample))) if self.sample.size else 1.0
        return depends(self.affinity, self.weight.sum() * shown**2)


def dependence(
    source: BlockSource, rng: np.random.Generator, distinct: tuple[Array, Array] | None = None
) -> Dependence:
    """Dependence of the best observed columns; `distinct_rows` may be known."""
    columns = _best_columns(source)
    kinds, kind_weight = distinct or distinct_rows(source)
    nothing = np.full((1, len(columns)), np.nan, source.X.dtype)
    n_scores = sum(own.shape[1] for own, _ in _scores(source, columns, nothing, np.ones(1)))
    some = some_rows(kind_weight, MOST_CELLS // max(n_scores, 1), rng)
    rows, weight = kinds[some], kind_weight[some]
    del kinds, kind_weight  # of all rows
    return Dependence(columns, rows, weight, *_scored(source, rows, columns, weight))


# Says how good a start is: rows of a sample, sums and gates.
Judge: TypeAlias = Callable[[BlockSource, Stats, Array], float]


class Grouped(NamedTuple):
    """Columns grouped by dependence, and the sample of rows that told it."""

    gates: Array  # (K, D)
    columns: Array  # those grouped, once for every score
    labels: Array  # their parts, -1 for none
    rows: Array  # in the sample
    weight: Array  # of these rows
    sample: Array  # (rows, scores of columns), standardized, NaN where missing


def grouped_columns(
    source: BlockSource,
    K: int,
    background: bool,
    rng: np.random.Generator,
    n_runs: int = COLUMN_RUNS,
) -> Grouped:
    """Gates by the columns' dependence.

    With ``background`` the last part begins with the columns that depend on no other.
    """
    n_groups = K - background
    found = dependence(source, rng)
    labels = labeled_columns(found, n_groups, background, rng, n_runs)
    return _gated(source, found, labels, K, background)


def _gated(
    source: BlockSource, found: Dependence, labels: Array, K: int, background: bool
) -> Grouped:
    """Gates of columns whose groups are given."""
    columns, owner = found.columns, found.owner
    if background:
        labels = np.where(labels < 0, K - 1, labels)
    gates = np.full((K, source.X.shape[1]), 1.0 / K)
    named = labels >= 0
    gates[:, columns[named]] = 0.0
    gates[labels[named], columns[named]] = 1.0
    # Not fully closed: the first sweep must be able to correct the grouping.
    gates = 0.9 * gates + 0.1 / K
    return Grouped(gates, columns[owner], labels[owner], found.rows, found.weight, found.sample)


def labeled_columns(
    found: Dependence,
    n_groups: int,
    background: bool,
    rng: np.random.Generator,
    n_runs: int = COLUMN_RUNS,
) -> Array:
    """Group of each column, -1 where it depends on no other.

    With ``background`` a column that looks dependent by chance alone is in no group.
    """
    affinity = found.affinity
    if background:
        dependent = found.of_more_than_chance()
        if dependent.sum() >= 2 * n_groups:
            affinity = affinity * dependent * dependent[:, None]
    # A part of one column explains nothing: more parts than that begin empty.
    n_tied = int(np.sum(affinity.sum(axis=1) > 0))
    return group_columns(affinity, min(n_groups, max(n_tied // 2, 1)), rng, n_runs)


def dependence_start(
    source: BlockSource,
    n_states: Sequence[int],
    background: bool,
    rng: np.random.Generator,
    *,
    quick: bool = False,
    judge: Judge | None = None,
) -> tuple[Stats, Array]:
    """First sums and gates from grouped columns and, in each group, clustered rows.

    With a ``judge`` other groups of many columns are tried, whose rows are clustered quickly; it
    says how good a start is by some rows.
    """
    K = len(n_states)
    n_column_runs = QUICK_COLUMN_RUNS if quick else COLUMN_RUNS
    found = dependence(source, rng)
    labels = labeled_columns(found, K - background, background, rng, n_column_runs)
    grouped = _gated(source, found, labels, K, background)
    if judge is not None and found.has_many_numbers and labels.max() > 0:
        R, sizes = correlations(found.sample, found.weight), n_states[: K - background]
        labels = told_groups(R, float(found.weight.sum()), labels, sizes, rng)
        both = grouped, _gated(source, found, labels, K, background)
        first = [judge(*_clustered(source, each, n_states, rng, quick=True)) for each in both]
        grouped = both[int(first[1] - first[0] > CLEAR_GAIN * len(found.columns))]
    _, stats, gates = _clustered(source, grouped, n_states, rng, quick)
    return stats, gates


def _clustered(
    source: BlockSource,
    found: Grouped,
    n_states: Sequence[int],
    rng: np.random.Generator,
    quick: bool,
) -> tuple[BlockSource, Stats, Array]:
    """Rows of a sample, their sums by the clusters of every group, and the gates."""
    n_init, n_steps = (QUICK_ROW_RUNS, QUICK_ROW_STEPS) if quick else (ROW_RUNS, ROW_STEPS)
    few = some_rows(found.weight, max(2000, ROWS_A_STATE * max(n_states)), rng)
    rows, weight, sample = found.rows[few], found.weight[few], found.sample[few]
    states = np.zeros((sum(n_states), len(few)), source.X.dtype)
    start = 0
    for k, J in enumerate(n_states):
        own = sample[:, found.labels == k]
        own = own[:, ~np.isnan(own).all(axis=0)]
        if own.shape[1] == 0 or J == 1:
            kind = rng.integers(J, size=len(few))
        else:
            kind = masked_kmeans(own, J, weight, rng, n_init=n_init, n_steps=n_steps)
            if np.mean(~np.isnan(own)) > MOSTLY_SEEN:
                kind = split_and_merge(kind, own, J, weight, rng)
        states[start + kind, np.arange(len(few))] = 1.0
        start += J
    layouts = [Layout(np.full(len(g.index), -1), tuple(n_states)) for g in source.columns]
    some = source.of_rows(rows, weight)
    return some, sums_of_rows(some, states, layouts, float(source.weight.sum())), found.gates


def squared_correlations(
    sample: Array, weight: Array, owner: Array | None = None, share: Array | None = None
) -> Array:
    """Squared correlations over jointly observed rows, less what chance gives; (D, D).

    ``sample`` has column means near 0 and variances near 1, NaN where missing. Where a column has
    several scores, ``owner`` is each score's column and ``share`` what it adds to the column's tie.
    """
    if np.isnan(sample).any():
        n, sums, cross, squares = _joint_sums(sample, weight)
        safe = np.maximum(n, 1e-9)
        cross = cross - sums * sums.T / safe
        var = np.maximum(squares - sums**2 / safe, 0)
        scale = var * var.T
    else:
        n = np.full((sample.shape[1],) * 2, weight.sum())
        cross = _complete_products(sample, weight)
        own = np.diag(cross)
        scale = own[:, None] * own[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = np.where(scale > 1e-12, cross**2 / scale, 0.0)
        r2 = np.minimum(r2, 1.0) - 1.0 / np.maximum(n, 1.0)
    if owner is not None and share is not None and np.any(np.diff(owner) == 0):
        scores = np.flatnonzero(np.diff(owner, prepend=-1))  # each column's first
        r2 = np.add.reduceat(r2 * share * share[:, None], scores, axis=0)
        r2, n = np.add.reduceat(r2, scores, axis=1), n[np.ix_(scores, scores)]
    affinity = np.maximum(r2, 0.0) * n / (n + HALF_TRUST)
    np.fill_diagonal(affinity, 0.0)  # a column's tie to itself says nothing
    return affinity


def _complete_products(sample: Array, weight: Array) -> Array:
    """Sums of the products of centered columns, (D, D), where nothing is missing."""
    root, total = np.sqrt(weight).astype(sample.dtype)[:, None], weight.sum()
    rows = slices(len(sample), sample.shape[1])
    lean = root[rows[0]].T @ (sample[rows[0]] * root[rows[0]])
    for at in rows[1:]:
        lean += root[at].T @ (sample[at] * root[at])
    cross: Array | None = None
    for at in rows:
        Z = sample[at] * root[at] - root[at] * lean / total
        cross = Z.T @ Z if cross is None else cross + Z.T @ Z
    assert cross is not None
    return cross


def slices(n: int, width: int) -> list[Span]:
    """Rows, or columns, in pieces whose temporary arrays are small beside the data."""
    step = max(SUMMED_CELLS // max(width, 1), 1)
    return [slice(lo, lo + step) for lo in range(0, max(n, 1), step)]


def _joint_sums(sample: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """Sums over jointly observed rows, (D, D): of weights, of x_d, of x_d x_e and of x_d^2."""
    if np.mean(~np.isnan(sample)) < SPARSE:
        return _sparse_sums(sample, weight)
    total: tuple[Array, Array, Array, Array] | None = None
    for at in slices(len(sample), sample.shape[1]):
        rows = sample[at]
        observed = ~np.isnan(rows)
        root = np.sqrt(weight[at]).astype(rows.dtype)[:, None]
        Z, shown = np.where(observed, rows, 0) * root, observed * root
        own = (shown.T @ shown, Z.T @ shown, Z.T @ Z, (Z * Z).T @ observed.astype(Z.dtype))
        if total is None:
            total = own
        else:
            for one, other in zip(total, own, strict=True):
                one += other
    assert total is not None
    return total


def _sparse_sums(sample: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
    """The same, by going through the pairs of observed entries of every row."""
    observed = ~np.isnan(sample)
    by_row, by_column = sparse.csr_matrix(observed), sparse.csc_matrix(observed)
    entries = by_row.indptr, by_row.indices, sample[observed]
    out = np.empty((4, sample.shape[1], sample.shape[1]), sample.dtype)
    weight = weight.astype(sample.dtype)
    _add_pairs(by_column.indptr, by_column.indices, *entries, sample, weight, out)
    return out[0], out[1], out[2], out[3]


@compiled(fastmath={"contract", "reassoc"})
def _add_pairs(starts, rows, indptr, columns, values, sample, weight, out):  # type: ignore[no-untyped-def]  # compiled
    """The same, of entries by column (``starts``, ``rows``) and by row (the next three)."""
    D = out.shape[1]
    total = np.empty((D, 4), out.dtype)
    for d in range(D):
        total[:] = 0.0
        for a in range(starts[d], starts[d + 1]):
            r = rows[a]
            w, x = weight[r], sample[r, d]
            for b in range(indptr[r], indptr[r + 1]):
                own = total[columns[b]]
                own[0] += w
                own[1] += w * x
                own[2] += w * x * values[b]
                own[3] += w * x * x
        for p in range(4):
            for e in range(D):
                out[p, d, e] = total[e, p]


def depends(affinity: Array, n_rows: float) -> Array:
    """Columns tied to some other, or weakly to many, by more than chance; (D,).

    Of independent columns n r^2 is chi-squared with one degree of freedom. ``affinity`` is r^2 less
    its mean 1/n and cut at 0, so that n times it has mean 0.484 and variance 1.65 by chance.
    """
    D = max(len(affinity), 1)
    best = special.chdtri(1, CHANCE / D) / max(n_rows, 1.0)
    excess = (n_rows * affinity.sum(axis=1) - 0.484 * (D - 1)) / np.sqrt(1.65 * D)
    return (affinity.max(axis=1, initial=0.0) > best) | (excess > 4.0)


def group_columns(
    affinity: Array, K: int, rng: np.random.Generator, n_runs: int = COLUMN_RUNS
) -> Array:
    """Normalized spectral clustering in K groups; -1 for columns that depend on no other."""
    affinity = affinity.astype(float)
    degree = affinity.sum(axis=1)
    tied = np.flatnonzero(degree > 1e-9 * max(len(degree), 1))
    labels = np.full(len(degree), -1)
    if len(tied) <= K:
        labels[tied] = np.arange(len(tied))
        return labels
    if K == 1:
        labels[tied] = 0
        return labels
    root = 1.0 / np.sqrt(degree[tied])
    normal = affinity[np.ix_(tied, tied)] * root[:, None] * root[None, :]
    n = len(tied)
    _, vectors = linalg.eigh(normal, subset_by_index=[n - K, n - 1])
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    seed = np.random.default_rng(int(rng.integers(2**31 - 1)))
    labels[tied] = masked_kmeans(vectors, K, np.ones(n), seed, n_init=n_runs)
    return labels


def _best_columns(source: BlockSource) -> Array:
    """Columns that vary, the most observed first if there are too many."""
    groups, D = source.columns, source.X.shape[1]
    weight = by_column(groups, [g.weight for g in groups], D)
    varies = by_column(groups, [g.varies for g in groups], D)
    # Of zero-filled counts the weight says nothing: take the columns with most that is not zero.
    if is_sparse(source.X) and source.columns[0].absent_zero:
        counts = map_rows(source.X, lambda rows: np.bincount(rows.indices, minlength=D))
        weight = np.sum(list(counts), axis=0, dtype=float)
    found = np.flatnonzero(varies)
    if len(found) > MOST_COLUMNS:
        found = np.sort(found[np.argsort(-weight[found], kind="stable")[:MOST_COLUMNS]])
    return found


def _scored(
    source: BlockSource, rows: Array, columns: Array, weight: Array
) -> tuple[Array, Array, Array | None]:
    """Standardised scores, the column of each, and the affinity of columns if scores depend on it.

    A column is given by its place among ``columns``. Numbers stand for levels. Where one number
    says too little (levels without order, angles) the law has several scores besides; what tells
    more of the other columns is kept.
    """
    values = _dense_sample(source, rows, columns)
    scores = _scores(source, columns, values, weight)
    owner, several = np.arange(len(columns)), None
    if any(own.shape[1] > 1 for own, _ in scores):
        several = _standardize(np.hstack([own for own, _ in scores]), weight)
    sample = _standardize(values, weight)
    if several is None:
        return sample, owner, None
    affinity = squared_correlations(sample, weight)
    owner = np.repeat(owner, [own.shape[1] for own, _ in scores])
    share = np.concatenate([each for _, each in scores])
    found = squared_correlations(several, weight, owner, share)
    ordered = affinity.sum(axis=1) >= found.sum(axis=1)
    kept = ~ordered[owner]
    sample = np.hstack([sample[:, ordered], several[:, kept]])
    owner = np.concatenate([np.flatnonzero(ordered), owner[kept]])
    return sample, owner, np.maximum(affinity, found)


def _dense_sample(source: BlockSource, rows: Array, columns: Array) -> Array:
    """Some rows and columns, NaN where missing; a copy."""
    X = source.X[rows]
    if not is_csr(X):
        return X if len(columns) == X.shape[1] else X[:, columns]
    found = X[:, columns].tocoo()
    out = np.full(found.shape, 0.0 if source.columns[0].absent_zero else np.nan, source.X.dtype)
    out[found.row, found.col] = found.data
    return out


def _scores(
    source: BlockSource, columns: Array, values: Array, weight: Array
) -> list[tuple[Array, Array]]:
    """Scores (n, q) of every column, not too many in all, and what each adds to its ties, (q,)."""
    place = {int(d): i for i, d in enumerate(columns)}
    alone = [(values[:, i : i + 1], np.ones(1)) for i in range(len(columns))]
    found, n_scores = list(alone), len(alone)
    for group in source.columns:
        for d in group.index:
            i = place.get(int(d))
            own = None if i is None else group.likelihood.start_scores(values[:, i], group.levels)
            if i is None or own is None or own.shape[1] > MOST_SCORES:
                continue
            n_scores += own.shape[1] - 1
            if n_scores > MOST_COLUMNS:
                return alone
            own = np.where(np.isnan(values[:, i : i + 1]), np.nan, own).astype(values.dtype)
            found[i] = own, np.full(own.shape[1], own.shape[1] ** -0.5)
            if group.levels is not None:
                seen = ~np.isnan(values[:, i])
                p = weight[seen] @ own[seen] / max(weight[seen].sum(), 1e-9)
                # phi^2 = sum r^2 (1 - p) (1 - p'); chance spreads it by its degrees of freedom.
                found[i] = own, (1.0 - p) / np.sqrt(own.shape[1] - 1)
    return found


def _standardize(values: Array, weight: Array) -> Array:
    """Columns less their weighted mean, over their deviation, in place of the values."""
    with np.errstate(invalid="ignore"):  # R's NA is a NaN that signals
        pieces = [_center(values[:, at], weight) for at in slices(values.shape[1], len(values))]
        mean, scale = (np.concatenate(found) for found in zip(*pieces, strict=True))
        values -= mean
        values /= scale
    return values


def _center(values: Array, weight: Array) -> tuple[Array, Array]:
    """Weighted mean and deviation of each column's observed entries."""
    observed = ~np.isnan(values)
    n = np.maximum(weight @ observed, np.finfo(float).tiny)
    size = np.where(observed, np.abs(values), 0).max(axis=0, initial=0)
    size = np.where(size > 0, size, 1)
    mean = weight @ np.where(observed, values / size, 0) / n
    variance = weight @ np.where(observed, values / size - mean, 0) ** 2 / n
    scale = np.where(variance > 0, np.sqrt(variance), 1) * size
    return (mean * size).astype(values.dtype), scale.astype(values.dtype)


def sums_of_rows(some: BlockSource, m: Array, layouts: Sequence[Layout], weight: float) -> Stats:
    """Sums of some rows under given states (S, n), scaled to the weight of all rows."""
    sums = []
    for (lo, hi), block in zip(some.bounds, some.blocks(), strict=True):
        wm = (m[:, lo:hi] * block.weight).astype(block.dtype)
        sums.append(Stats(0.0, wm.sum(axis=1, dtype=float)[None], block.collect(wm, layouts)))
    return Stats.total(sums).scaled(weight / float(some.weight.sum()))
