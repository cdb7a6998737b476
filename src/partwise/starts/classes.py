"""Where a class variable begins: from known classes, else from clusters of what the parts say.

With the parts as they are, classes are learned on the rows' evidence alone, which costs no look at
the data; so several beginnings are tried and the best is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from partwise.contracts import Array

# Beginnings tried where classes are unknown, and steps of each; the best of them go on.
N_STARTS = 40
N_STEPS = 20
N_BEST = 5
MOST_STEPS = 200
# Rows on which beginnings are tried.
MOST_ROWS = 3000
# A beginning has settled when a step raises the bound by less than this a row.
SETTLED = 1e-5


def class_start(
    core: Any,
    theta: Any,
    pieces: Sequence[tuple[Array, Array, Array | None]],
    rng: np.random.Generator,
) -> Any:
    """Parameters with classes, from parameters without.

    ``pieces`` holds for every block what its entries say about the states (S, n), the row weights,
    and the known classes, if any.
    """
    evidence = np.concatenate([piece[0] for piece in pieces], axis=1)
    weight = np.concatenate([piece[1] for piece in pieces])
    labels = _joined(pieces)
    known = np.zeros(len(weight), bool) if labels is None else labels >= 0
    if labels is not None and known.any():
        begun = _by_hand(core, theta, evidence, np.where(known, labels, 0), weight * known)
        return _settle(core, begun, evidence, labels, weight, MOST_STEPS)[1]
    if len(weight) > MOST_ROWS:
        some = np.sort(rng.choice(len(weight), MOST_ROWS, replace=False))
        evidence, weight = evidence[:, some], weight[some]
        labels = None if labels is None else labels[some]
    posterior = evidence.copy()
    plain = core.without_classes()
    plain.mix(posterior, plain.weigh(theta, posterior, None), weight)
    # Equal rows count as one with their summed weight, so that repeating a row is weighting it.
    features, row_of = np.unique(
        core.row_features(posterior).astype(float).round(6), axis=0, return_inverse=True
    )
    row_of = row_of.ravel()
    weight_of = np.bincount(row_of, weight)
    n_clusters = min(core.classes.n_classes, len(features))
    tried = []
    for _ in range(N_STARTS):
        seed = int(rng.integers(2**31 - 1))
        clusters = KMeans(n_clusters, n_init=1, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer kinds of rows than classes
            found = clusters.fit(features, sample_weight=weight_of).labels_[row_of]
        begun = _by_hand(core, theta, evidence, found, weight)
        tried.append(_settle(core, begun, evidence, labels, weight, N_STEPS))
    tried.sort(key=lambda result: -result[0])
    best = [
        _settle(core, begun, evidence, labels, weight, MOST_STEPS) for _, begun in tried[:N_BEST]
    ]
    return max(best, key=lambda result: result[0])[1]


def _joined(pieces: Sequence[tuple[Array, Array, Array | None]]) -> Array | None:
    labels = [piece[2] for piece in pieces if piece[2] is not None]
    return np.concatenate(labels) if labels else None


def _by_hand(core: Any, theta: Any, evidence: Array, labels: Array, weight: Array) -> Any:
    """Priors of states and classes from given classes of the rows."""
    m = evidence.copy()
    plain = core.without_classes()
    found = plain.weigh(theta, m, None)
    z = (labels == np.arange(core.classes.n_classes)[:, None]).astype(float)
    counts = np.concatenate(
        [plain.mix(m.copy(), found, weight * z[n]) for n in range(len(z))], axis=0
    )
    return core.learn_states(theta, counts)


def _settle(
    core: Any, theta: Any, evidence: Array, labels: Array | None, weight: Array, n_steps: int
) -> tuple[float, Any]:
    """Learn the classes with the parts as they are; the bound reached, and the parameters."""
    last = -np.inf
    for _ in range(n_steps):
        m = evidence.copy()
        found = core.weigh(theta, m, labels)
        bound = float(weight @ found.log_z) - core.choice_cost(theta)
        if bound - last < SETTLED * weight.sum():
            break
        last = bound
        theta = core.learn_states(theta, core.mix(m, found, weight))
    return bound, theta
