"""Starts of features: independent components, each split at a threshold, or residuals of rows.

Features that are on or off independently of each other are what independent component analysis
recovers. A symmetric fixed point on the fourth moment (FastICA's cube) is used, with two things
that scikit-learn's does not have: row weights, and *keeping what is found*. With n features and no
more than about n (n + 1) / 2 rows (the number of products of two components) the
fixed point does not come to rest, but a few components do; the problem that remains without them
is smaller and soon solvable.
"""

from __future__ import annotations

import numpy as np

from partwise.association import Exact, Problem
from partwise.contracts import Array
from partwise.data.source import BlockSource
from partwise.models.gvq import SetSums, least_squares
from partwise.starts.kmeans import masked_kmeans
from partwise.starts.rows import distinct_rows, some_rows

# Rows that a start looks at: independent components need many, k-means few.
MOST_ROWS = 20_000
MOST_CLUSTERED = 4_000

# Steps of the fixed point in a round, and rounds in which components are found and kept.
MOST_STEPS = 100
MOST_ROUNDS = 6
# Change of the directions that counts as none.
AT_REST = 1e-4

# Fourth moment below which a component of variance 1 is taken as found: 1 for two equal values,
# 1.8 for a flat distribution, 3 for what is mixed of many.
TWO_VALUED = 1.8

# Principal directions with less than this share of the largest variance hold rounding alone.
LEAST_VARIANCE = 1e-10

# Where features between 0 and 1 begin at the least and the most: at 0 and 1 none could move.
SQUASHED = (0.05, 0.95)

# Runs of k-means for sets, which no later step divides again, and for features, which all do.
SET_RUNS = 4
N_RUNS = 2

Start = tuple[Array, Array]  # features (M, A, D) and origins (M, D), in model units


def feature_start(
    source: BlockSource,
    M: int,
    K: int,
    J: int,
    rng: np.random.Generator,
    *,
    independent: bool,
    origin: Array | None = None,
) -> Start:
    """Features and origins of every set.

    Rows are divided among sets by k-means. Inside a set features begin as independent components
    if ``independent`` and features are on or off; else, and where components are fewer than
    features, each as the k-means of what those before leave. If the ``origin`` (D,) of all sets is
    given, features begin as independent components with the values for on and off exchanged where
    that brings their own origin nearer to it, or as the k-means of the rows.
    """
    most = MOST_ROWS if independent and J == 2 else max(MOST_CLUSTERED, M)
    Z, weight = _rows(source, most, rng)
    labels = masked_kmeans(Z, M, weight, rng, n_init=SET_RUNS) if M > 1 else np.zeros(len(Z), int)
    seen = ~np.isnan(Z)
    mean = weight @ np.nan_to_num(Z) / np.maximum(weight @ seen, np.finfo(float).tiny)
    filled = np.where(seen, Z, mean)
    features, origins = np.zeros((M, K * (J - 1), Z.shape[1])), np.zeros((M, Z.shape[1]))
    for m in range(M):
        own = labels == m
        if own.any() and origin is None:
            features[m], origins[m] = _one_set(filled[own], weight[own], K, J, rng, independent)
        elif own.any() and K > 0:
            features[m] = _without_origin(filled[own] - origin, weight[own], K, J, rng, independent)
    if origin is not None:
        origins[:] = origin
    return features, origins


def binary_start(
    source: BlockSource,
    M: int,
    K: int,
    rng: np.random.Generator,
    *,
    independent: bool,
    origin: Array | None = None,
) -> Start:
    """The same before squashing, features turned round so that they add more than they take.

    An ``origin`` that is given is one before squashing, with next to nothing after it.
    """
    if origin is not None:
        nothing = np.zeros(len(origin))
        features, _ = feature_start(source, M, K, 2, rng, independent=independent, origin=nothing)
        return _logit(features), np.tile(origin, (M, 1))
    features, origins = feature_start(source, M, K, 2, rng, independent=independent)
    taking = features.sum(axis=2) < 0
    origins = origins + np.einsum("mk,mkd->md", taking, features)
    features = np.where(taking[:, :, None], -features, features)
    return _logit(features), _logit(origins)


def _logit(p: Array) -> Array:
    p = p.clip(*SQUASHED)
    return np.log(p / (1.0 - p))


def _rows(source: BlockSource, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some different rows in model units, and their weights."""
    kinds, weight = distinct_rows(source)
    some = some_rows(weight, most, rng)
    X = source.X[kinds[some]].astype(float)
    return source.columns[0].encode(X, np.arange(X.shape[1])), weight[some]


def _one_set(
    x: Array, weight: Array, K: int, J: int, rng: np.random.Generator, independent: bool
) -> Start:
    """Features and origin of rows in one set."""
    S = np.ones((1, len(x)))  # the origin
    if independent and J == 2 and K > 0:
        S = np.vstack([S, _cut(independent_components(x, K, weight, rng), weight)])
    while True:
        answer, _ = least_squares(SetSums((S * weight) @ x, ((S * weight) @ S.T)[None]))
        if len(S) > K * (J - 1):
            return answer[1:], answer[0]
        left = x - S.T @ answer
        labels = masked_kmeans(left, J, weight, rng, n_init=N_RUNS)
        S = np.vstack([S, labels == np.arange(1, J)[:, None]])


def _without_origin(
    x: Array, weight: Array, K: int, J: int, rng: np.random.Generator, independent: bool
) -> Array:
    """Features (A, D) of rows in one set whose origin is 0."""
    if independent and J == 2:
        features, origin = _one_set(x, weight, K, J, rng, independent)
        turned = Exact().associate(Problem.complete(features, -origin[None])).values[0]
        return np.where(turned[:, None], -features, features)
    # On or off: a row is one feature. Several values: a value of the first, and so on.
    n = K if J == 2 else J - 1
    features = np.zeros((0, x.shape[1]))
    for _ in range(K * (J - 1) // n):
        labels = masked_kmeans(x, n, weight, rng, n_init=N_RUNS)
        S = (labels == np.arange(n)[:, None]).astype(float)
        answer, _ = least_squares(SetSums((S * weight) @ x, ((S * weight) @ S.T)[None]))
        features, x = np.vstack([features, answer]), x - S.T @ answer
    return features


def _cut(Y: Array, weight: Array) -> Array:
    """Components (n, K) in two, halfway between the means of the upper and the lower side."""
    at = weight @ Y / weight.sum()
    for _ in range(10):
        above = at < Y
        high = (weight @ (Y * above)) / np.maximum(weight @ above, 1e-300)
        low = (weight @ (Y * ~above)) / np.maximum(weight @ ~above, 1e-300)
        at = 0.5 * (high + low)
    return (at < Y).T.astype(float)


def independent_components(
    x: Array, n_components: int, weight: Array, rng: np.random.Generator
) -> Array:
    """At most so many independent components of rows, of mean 0 and variance 1; (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.starts.ica import independent_components
    >>> rng = np.random.default_rng(0)
    >>> bits = rng.integers(2, size=(500, 3))
    >>> Y = independent_components(bits @ rng.normal(size=(3, 5)), 3, np.ones(500), rng)
    >>> found = abs(np.corrcoef(Y.T, bits.T)[:3, 3:]).max(axis=0)
    >>> bool(found.min() > 0.99)
    True
    """
    share = weight / weight.sum()
    centered = x - share @ x
    variance, directions = np.linalg.eigh((centered.T * share) @ centered)
    kept = np.argsort(-variance)[:n_components]
    kept = kept[variance[kept] > LEAST_VARIANCE * max(variance.max(), 1e-300)]
    Z = centered @ (directions[:, kept] / np.sqrt(variance[kept]))
    found, rest = np.zeros((0, len(kept))), np.eye(len(kept))
    for _ in range(MOST_ROUNDS):
        turned, at_rest = _fixed_point(Z @ rest.T, share, rng)
        W = turned @ rest
        two_valued = share @ (Z @ W.T) ** 4 < TWO_VALUED
        found, rest = np.vstack([found, W[two_valued]]), W[~two_valued]
        if len(rest) == 0 or (at_rest and not two_valued.any()):
            break
    return Z @ np.vstack([found, rest]).T


def _fixed_point(Z: Array, share: Array, rng: np.random.Generator) -> tuple[Array, bool]:
    """Orthogonal directions (k, k) of white Z (n, k) with extreme fourth moments; if at rest."""
    W = np.linalg.qr(rng.normal(size=(Z.shape[1], Z.shape[1])))[0]
    for _ in range(MOST_STEPS):
        step = ((Z @ W.T) ** 3 * share[:, None]).T @ Z - 3.0 * W
        u, _, v = np.linalg.svd(step)
        cosine = np.abs(np.einsum("ij,ij->i", u @ v, W))
        W = u @ v
        if np.all(cosine > 1.0 - AT_REST):
            return W, True
    return W, False
