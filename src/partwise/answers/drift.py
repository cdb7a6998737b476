"""Whether new rows differ from the training rows, per column and part.

Every column is binned as the training rows were (`partwise.models.reference`), missing values being
a bin. A chi-square test of homogeneity compares the counts, and Holm's correction over all columns
and parts keeps the probability of any false alarm below the level. Marginals of columns need no
held-out rows; anomaly scores of parts do, since training rows score better than new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from scipy.stats import chi2

from partwise.contracts import Array, Stats
from partwise.data import BlockSource
from partwise.fitted import FittedParts
from partwise.models.gated import P, R
from partwise.models.reference import Reference, binned, count, edges_between
from partwise.runners import runner_of

# Rows of the reference: more add nothing to its precision that new rows could match.
MAX_ROWS = 20_000
# Cells that are counted at a time, in double precision.
COUNTED_CELLS = 1 << 20
# Held-out scores: each fold is scored by parameters after some EM iterations without it.
N_FOLDS = 4
FORGETTING_STEPS = 4
MIN_ROWS = 40
# Neighboring bins are merged until the expected count is so large, as usual for chi-square tests.
MIN_EXPECTED = 5.0

# Of scores, in nats: without columns, a part's score is 0 up to rounding.
DECIMALS = 6

Scores = Callable[[FittedParts[P, R], Array], Array]


class Comparison(NamedTuple):
    """Tests of columns, then parts; every array has one entry per test."""

    p_values: Array
    adjusted: Array  # by Holm's correction
    distances: Array  # total variation: the fraction of rows that would have to change bins
    missing_before: Array
    missing_now: Array


def learn_reference(
    fitted: FittedParts[P, R], X: Array, weight: Array, scores: Scores[P, R] | None
) -> Reference:
    """The distribution of the training rows.

    Parameters
    ----------
    fitted : Fitted
    X : ndarray of shape (C, D)
        The coded training rows.
    weight : ndarray of shape (C,)
    scores : callable or None
        ``scores(fitted, X)`` gives anomaly scores (n, K); None leaves parts out.
    """
    some = np.linspace(0, len(X) - 1, min(len(X), MAX_ROWS)).astype(int)
    own, step = weight[some], max(COUNTED_CELLS // len(some), 1)
    pieces = [binned(_doubled(X[some, lo : lo + step]), own) for lo in range(0, X.shape[1], step)]
    edges, counts = (np.concatenate(found) for found in zip(*pieces, strict=True))
    if scores is None or len(X) < MIN_ROWS:
        return Reference(edges, counts, *binned(np.empty((0, 0)), np.empty(0)))
    held_out = _held_out_scores(fitted, X, weight, some, scores).round(DECIMALS)
    part_edges = edges_between(scores(fitted, X[some]).round(DECIMALS), held_out)
    return Reference(edges, counts, part_edges, count(held_out, own, part_edges))


def _doubled(X: Array) -> Array:
    """The same in double precision."""
    with np.errstate(invalid="ignore"):  # R's NA is a NaN that signals
        return X.astype(float)


def _held_out_scores(
    fitted: FittedParts[P, R], X: Array, weight: Array, some: Array, scores: Scores[P, R]
) -> Array:
    """Anomaly scores of rows by parameters learned without them, (n, K)."""
    model = fitted.model

    def total(prepared: R, rows: Array, own: Array) -> Stats:
        source = BlockSource(rows, fitted.columns, own, keep=False)
        memory = [model.fresh_memory(i) for i in range(source.n_blocks)]
        with runner_of(1, source) as runner:
            return runner.total(model, prepared, source, memory)

    out: Array | None = None
    is_long = len(some) < len(X)  # then rows are not copied, and one step forgets the few
    everything = total(fitted.prepared, X, weight) if is_long else None
    for fold in range(N_FOLDS):
        which, prepared = some[fold::N_FOLDS], fitted.prepared
        if everything is not None:
            without = everything + total(prepared, X[which], weight[which]).scaled(-1.0)
            prepared = model.maximize(prepared, without)
        else:
            others = np.delete(X, which, axis=0), np.delete(weight, which)
            for _ in range(FORGETTING_STEPS):
                prepared = model.maximize(prepared, total(prepared, *others))
        # Parts keep their columns: a background column that changed sides would shift all scores.
        # Parameters of every family are dataclasses with a gate, which P cannot say.
        params = cast(P, replace(prepared.params, gate=fitted.params.gate))  # type: ignore[type-var]
        found = scores(replace(fitted, params=params), X[which])
        out = np.empty((len(some), found.shape[1])) if out is None else out
        out[fold::N_FOLDS] = found
    assert out is not None
    return out


def compare(reference: Reference, X: Array, scores: Array | None) -> Comparison:
    """Compare new rows with the reference.

    Parameters
    ----------
    reference : Reference
    X : ndarray of shape (n, D)
        Coded rows.
    scores : ndarray of shape (n, K) or None
        Their anomaly scores, if the reference has parts.
    """
    weight = np.ones(len(X))
    now = [count(_doubled(X), weight, reference.edges)]
    before = [reference.counts]
    if scores is not None and len(reference.part_counts):
        now.append(count(scores.round(DECIMALS), weight, reference.part_edges))
        before.append(reference.part_counts)
    old, new = np.concatenate(before), np.concatenate(now)
    p = np.array([homogeneity(a, b) for a, b in zip(old, new, strict=True)])
    shares = [part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300) for part in (old, new)]
    distance = 0.5 * np.abs(shares[0] - shares[1]).sum(axis=1)
    return Comparison(p, holm(p), distance, shares[0][:, -1], shares[1][:, -1])


def homogeneity(before: Array, now: Array) -> float:
    """P-value of the chi-square test that two rows of counts have one distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.answers.drift import homogeneity
    >>> round(homogeneity(np.array([50.0, 50.0]), np.array([30.0, 70.0])), 4)
    0.0039
    """
    table = np.stack([before, now])
    totals = table.sum(axis=1, keepdims=True)
    if totals.min() <= 0:
        return 1.0
    expected = totals.min() * table.sum(axis=0) / totals.sum()
    starts, so_far = [0], 0.0
    for b, each in enumerate(expected):
        if so_far >= MIN_EXPECTED:
            starts, so_far = [*starts, b], 0.0
        so_far += each
    if so_far < MIN_EXPECTED and len(starts) > 1:
        starts.pop()
    table = np.add.reduceat(table, starts, axis=1)
    if table.shape[1] < 2:
        return 1.0
    expected = totals * table.sum(axis=0) / totals.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), table.shape[1] - 1))


def holm(p_values: Sequence[float] | Array) -> Array:
    """P-values corrected for many tests, by Holm's method.

    Examples
    --------
    >>> from partwise.answers.drift import holm
    >>> holm([0.01, 0.04, 0.5]).tolist()
    [0.03, 0.08, 0.5]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return out
