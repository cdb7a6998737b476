"""Where a class variable begins: from known classes, else from clusters of what the parts say.

With the parts as they are, classes are learned on the rows' evidence alone, which costs no look at
the data; so several beginnings are tried and the best is taken, and several numbers of classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise.contracts import Array
from partwise.models.class_chain import ChainParams, ClassChain, smooth, unlinked, with_labels
from partwise.models.class_variable import ClassVariable

# Beginnings tried where classes are unknown, and steps of each; the best of them go on.
N_STARTS = 40
N_STEPS = 20
N_BEST = 5
MOST_STEPS = 200
# Rows on which beginnings are tried.
TRIED_ROWS = 3000
# A beginning has settled when a step raises the bound by less than this per row.
SETTLED = 1e-5
# Rows on either side that are averaged before rows of a sequence are clustered.
NEIGHBORS = (0, 1, 3, 8, 20)
# Numbers of classes tried, and how many in a row may be worse than the best.
MOST_CLASSES = 30
MISSES = 2

Params = TypeVar("Params")

# What a block's entries say about the states (S, n), weights of its rows, and their known classes.
Piece: TypeAlias = tuple[Array, Array, Array | None]


class Weighed(Protocol):
    """Posterior of the rows' classes."""

    @property
    def joint(self) -> Array:
        """Log of a class's prior times the row's density in it, (N, n)."""
        ...

    def with_classes(self, z: Array) -> Self:
        """The same with other classes of the rows, (N, n)."""
        ...

    @property
    def log_z(self) -> Array:
        """Log evidence of the rows, (n,)."""
        ...


class ClassCore(Protocol[Params]):
    """What the start of a class variable needs of a model."""

    @property
    def classes(self) -> ClassVariable:
        """The class variable."""
        ...

    def with_classes(self, classes: ClassVariable) -> Self:
        """The same model with another class variable."""
        ...

    def without_classes(self) -> Self:
        """The same model with one class."""
        ...

    def weigh(self, params: Params, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes; ``score`` (S, n) becomes states' weights."""
        ...

    def mix(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Turn weights (S, n) into posteriors; their weighted sums per class."""
        ...

    def row_features(self, m: Array) -> Array:
        """Features of rows for clustering; (n, F)."""
        ...

    def class_sums(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Weighted sums of features per class, (N, F)."""
        ...

    def learn_states(self, params: Params, counts: Array) -> Params:
        """Priors of states and classes from `class_sums`."""
        ...

    def choice_cost(self, params: Params) -> float:
        """Divergence of the priors' posteriors."""
        ...


def class_start(
    core: ClassCore[Params],
    params: Params,
    pieces: Sequence[Piece],
    rng: np.random.Generator,
) -> Params:
    """Parameters with classes, from parameters without.

    ``pieces`` holds for every block what its entries say about the states (S, n), the row weights,
    and the known classes, if any.
    """
    evidence, weight, labels = joined(pieces)
    if labels is not None and np.any(labels >= 0):
        known = labels >= 0
        begun = _by_hand(core, params, evidence, np.where(known, labels, 0), weight * known)
        return settle(core, begun, evidence, labels, weight)
    return _best_start(core, params, *some_rows(evidence, weight, rng), rng)[1]


def chain_start(
    core: ClassCore[Params],
    params: Params,
    pieces: Sequence[Piece],
    bounds: Array,
    rng: np.random.Generator,
) -> Params:
    """As `class_start` where classes are a chain, along the sequences that ``bounds`` tell.

    Rows near each other tend to have the same class, so that clusters are also sought among
    averages of so many rows; of very many rows the first are tried.
    """
    evidence, weight, labels = joined(pieces)
    if evidence.shape[1] != bounds[-1]:  # a sample of rows, which are not neighbors
        return class_start(core, params, pieces, rng)
    if labels is not None and np.any(labels >= 0):
        known = labels >= 0
        begun = _by_hand(core, params, evidence, np.where(known, labels, 0), weight * known)
        return _settle_chain(core, begun, evidence, labels, bounds, MOST_STEPS)[1]
    n_tried = min(TRIED_ROWS, len(weight))
    evidence, weight = evidence[:, :n_tried], weight[:n_tried]
    bounds = np.append(bounds[bounds < n_tried], n_tried)
    posterior = evidence.copy()
    plain = core.without_classes()
    plain.mix(posterior, plain.weigh(params, posterior, None), weight)
    from sklearn.cluster import KMeans  # slow to import, and fitted models do not need it

    features, tried = core.row_features(posterior).astype(float), []
    for i in range(N_STARTS):
        seed = int(rng.integers(2**31 - 1))
        near = _averages(features, bounds, NEIGHBORS[i % len(NEIGHBORS)])
        clusters = KMeans(core.classes.n_classes, n_init=1, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer kinds of rows than classes
            found = clusters.fit(near).labels_
        begun = _by_hand(core, params, evidence, found, weight)
        tried.append(_settle_chain(core, begun, evidence, None, bounds, N_STEPS))
    tried.sort(key=lambda result: -result[0])
    best = [
        _settle_chain(core, begun, evidence, None, bounds, MOST_STEPS)
        for _, begun in tried[:N_BEST]
    ]
    return max(best, key=lambda result: result[0])[1]


def _averages(features: Array, bounds: Array, n_near: int) -> Array:
    """Means of each row's features (n, F) and those of ``n_near`` rows on either side."""
    total = np.vstack([np.zeros(features.shape[1]), np.cumsum(features, axis=0)])
    at = np.arange(len(features))
    sequence = np.searchsorted(bounds, at, side="right")
    lo = np.maximum(at - n_near, bounds[sequence - 1])
    hi = np.minimum(at + n_near + 1, bounds[sequence])
    return (total[hi] - total[lo]) / (hi - lo)[:, None]


def class_number(
    core: ClassCore[Params],
    params: Params,
    pieces: Sequence[Piece],
    rng: np.random.Generator,
) -> int:
    """How many classes have the highest bound with the parts as they are.

    ``core`` has any number of classes; ``params`` and ``pieces`` as in `class_start`.
    """
    evidence, weight, _ = joined(pieces)
    evidence, weight = some_rows(evidence, weight, rng)
    highest, best, misses = -np.inf, 1, 0
    for n in range(1, MOST_CLASSES + 1):
        own = core.with_classes(replace(core.classes, n_classes=n))
        bound = _best_start(own, params, evidence, weight, rng)[0]
        misses = 0 if bound > highest else misses + 1
        if bound > highest:
            highest, best = bound, n
        if misses == MISSES:
            break
    return best


def joined(
    pieces: Sequence[Piece],
) -> tuple[Array, Array, Array | None]:
    """Evidence, weights and labels of all blocks."""
    evidence = np.concatenate([piece[0] for piece in pieces], axis=1)
    labels = [piece[2] for piece in pieces if piece[2] is not None]
    weight = np.concatenate([piece[1] for piece in pieces])
    return evidence, weight, np.concatenate(labels) if labels else None


def some_rows(evidence: Array, weight: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Evidence and weights of so many rows as beginnings are tried on."""
    if len(weight) <= TRIED_ROWS:
        return evidence, weight
    some = np.sort(rng.choice(len(weight), TRIED_ROWS, replace=False))
    return evidence[:, some], weight[some]


def _best_start(
    core: ClassCore[Params],
    params: Params,
    evidence: Array,
    weight: Array,
    rng: np.random.Generator,
) -> tuple[float, Params]:
    """The best of several beginnings: its bound and parameters."""
    posterior = evidence.copy()
    plain = core.without_classes()
    plain.mix(posterior, plain.weigh(params, posterior, None), weight)
    # Equal rows count as one with their summed weight, so that repeating a row is weighting it.
    from sklearn.cluster import KMeans  # slow to import, and fitted models do not need it

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
        begun = _by_hand(core, params, evidence, found, weight)
        tried.append(_settle(core, begun, evidence, None, weight, N_STEPS))
    tried.sort(key=lambda result: -result[0])
    best = [_settle(core, begun, evidence, None, weight, MOST_STEPS) for _, begun in tried[:N_BEST]]
    bound, theta = max(best, key=lambda result: result[0])
    return bound, _in_order(core, theta, evidence, weight)


def _in_order(core: ClassCore[Params], theta: Params, evidence: Array, weight: Array) -> Params:
    """The largest class first: beginnings find the same classes in any order, equally good."""
    m = evidence.copy()
    counts = core.class_sums(m, core.weigh(theta, m, None), weight)
    shares = (counts / weight.sum()).round(6)
    order = sorted(range(len(shares)), key=lambda n: (-shares[n].sum().round(6), *-shares[n]))
    return core.learn_states(theta, counts[order])


def _by_hand(
    core: ClassCore[Params], params: Params, evidence: Array, labels: Array, weight: Array
) -> Params:
    """Priors of states and classes from given classes of the rows."""
    m = evidence.copy()
    plain = core.without_classes()
    found = plain.weigh(params, m, None)
    z = (labels == np.arange(core.classes.n_classes)[:, None]).astype(float)
    counts = np.concatenate(
        [plain.class_sums(m.copy(), found, weight * z[n]) for n in range(len(z))], axis=0
    )
    return core.learn_states(params, counts)


def _settle_chain(
    core: ClassCore[Params],
    params: Params,
    evidence: Array,
    labels: Array | None,
    bounds: Array,
    n_steps: int,
) -> tuple[float, Params]:
    """As `_settle` along sequences, where classes are a chain; the largest class comes first."""
    variable, n_rows = core.classes, evidence.shape[1]
    assert isinstance(variable, ClassChain)
    last = -np.inf
    for _ in range(n_steps):
        m, own = evidence.copy(), cast(ChainParams, params)
        chain = unlinked(own.log_beta, bounds) if own.chain is None else own.chain
        found = core.weigh(params, m, None)
        seen = with_labels((found.joint - own.log_beta[:, None]).T, labels)
        told = smooth(seen, *variable.logarithms(chain), bounds)
        bound = float(told.log_z.sum()) - core.choice_cost(params) - variable.chain_cost(chain)
        if bound - last < SETTLED * n_rows:
            break
        last = bound
        z = told.posterior(seen)
        order = np.arange(len(chain) - 1) if labels is not None else np.argsort(-z.sum(axis=0))
        counts = core.class_sums(m, found.with_classes(z.T), np.ones(n_rows))[order]
        learned = cast(ChainParams, core.learn_states(params, counts))
        rows = told.counts[np.append(0, 1 + order)]
        params = cast(Params, learned.with_chain(rows[:, order]))
    return bound, params


def settle(
    core: ClassCore[Params],
    params: Params,
    evidence: Array,
    labels: Array | None,
    weight: Array,
) -> Params:
    """Learn the classes with the parts as they are, from some beginning."""
    return _settle(core, params, evidence, labels, weight, MOST_STEPS)[1]


def _settle(
    core: ClassCore[Params],
    params: Params,
    evidence: Array,
    labels: Array | None,
    weight: Array,
    n_steps: int,
) -> tuple[float, Params]:
    """Learn the classes with the parts as they are; the bound reached, and the parameters."""
    last = -np.inf
    for _ in range(n_steps):
        m = evidence.copy()
        found = core.weigh(params, m, labels)
        bound = float(weight @ found.log_z) - core.choice_cost(params)
        if bound - last < SETTLED * weight.sum():
            break
        last = bound
        params = core.learn_states(params, core.class_sums(m, found, weight))
    return bound, params
