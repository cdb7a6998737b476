"""Which question to ask a person next: expected gains of hearing one more answer.

========  ========  =========  =====================================================================
symbol    code      shape      meaning
========  ========  =========  =====================================================================
m         m         (J,)       posterior of a part's state
p         P         (J, D, L)  probability of every answer about its items, given the state
M         M         (J, D)     expected rating, given the state
Omega     cov       (J, J)     posterior covariance of a part's factors
Lambda    w         (D, J)     loadings of its items
Psi       noise     (D,)       variance of an answer given the factors, at expected loadings
========  ========  =========  =====================================================================

An answer about an item speaks of the item's part alone, so all is done part by part: states
exactly, by going through the answers; factors in closed form or, for the value rule, at seven
answers and for the items that may rise highest (an ordinal answer counts as if its latent number
were heard). Three rules:

- *information*: mutual information of the answer and the person's states or factors;
- *error*: expected fall of the squared error of predicted ratings, items counted by ``weight``;
- *value*: expected rise of the predicted rating of what would be recommended (Boutilier, Zemel &
  Marlin 2003), given ``rival``, the best prediction among the items of all other parts.
"""

from __future__ import annotations

import numpy as np

from partwise.contracts import Array
from partwise.models.levels import entropy

RULES = ("error", "information", "value")

# Deviates and weights of a standard Gaussian answer, for the expected best of several predictions.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

# An item's prediction moves by no more than so many deviations at any of these answers.
_REACH = float(_NODES.max())

# Items at most whose rise the value rule of factors looks at.
_MOST_HOPEFUL = 64

# Products of questions, answers and items worked on at a time.
_CHUNK = 1 << 20


def state_information(m: Array, P: Array, entropies: Array) -> Array:
    """Mutual information of answer and state, (D,); ``entropies`` (J, D) are those of P."""
    return entropy(np.tensordot(m, P, 1)) - m @ entropies


def state_error(m: Array, P: Array, second: Array) -> Array:
    """Expected fall of squared error, (D,); ``second`` (J, J) is sum_d weight_d M_d M_d'.

    It is the expected square of what an answer changes, so ``second`` is taken around what is
    expected now: the difference of two squares would leave the rounding of m and P.
    """
    m = m / m.sum()
    pull = second @ m
    around = second - pull - pull[:, None] + m @ pull
    joint, marginal = _answers(m, P)
    return (np.einsum("dlj,dlj->dl", joint @ around, joint) / marginal).sum(axis=1)


def state_value(m: Array, P: Array, M: Array, rival: float) -> Array:
    """Expected rise of the best predicted rating, (D,)."""
    now = max(float((m @ M).max(initial=-np.inf)), rival)
    if now == -np.inf:  # nothing is left to recommend
        return np.zeros(P.shape[1])
    # Whatever the answer, the best stays at or above this; items never above it do not count.
    floor = max(float(M.min(axis=0).max(initial=-np.inf)), rival)
    hopeful = M[:, M.max(axis=0) > floor]
    joint, marginal = _answers(m, P)
    best = np.empty(marginal.shape)  # times the answer's probability
    step = max(_CHUNK // max(hopeful.shape[1] * P.shape[2], 1), 1)
    for i in range(0, len(best), step):
        some = slice(i, i + step)
        best[some] = (joint[some] @ hopeful).max(axis=2, initial=-np.inf)
    return np.maximum(best, marginal * floor).sum(axis=1) - now


def _answers(m: Array, P: Array) -> tuple[Array, Array]:
    """Joint probability of answer and state, (D, L, J), and that of the answers, (D, L)."""
    joint = np.moveaxis(P, 0, 2) * m
    return joint, np.maximum(joint.sum(axis=2), 1e-300)


def factor_information(cov: Array, w: Array, noise: Array) -> Array:
    """Mutual information of answer and factors, (D,)."""
    return 0.5 * np.log1p(_heard(cov, w) / noise)


def factor_error(cov: Array, w: Array, noise: Array, second: Array) -> Array:
    """Expected fall of squared error, (D,); ``second`` (J, J) is sum_d weight_d w_d w_d'."""
    reach = w @ cov  # (D, J)
    return np.einsum("di,ij,dj->d", reach, second, reach) / (_heard(cov, w) + noise)


def factor_value(
    cov: Array, w: Array, noise: Array, wanted: Array, expected: Array, rival: float
) -> Array:
    """Expected rise of the best prediction among some items, (D,).

    ``wanted`` are their loadings (I, J), ``expected`` (I,) their predictions now. Of many only
    those that may rise highest are looked at.
    """
    now = max(float(expected.max(initial=-np.inf)), rival)
    if now == -np.inf:  # nothing is left to recommend
        return np.zeros(len(w))
    spread = _REACH * np.sqrt(_heard(cov, wanted))
    floor = max(float((expected - spread).max(initial=-np.inf)), rival)
    hopeful = np.flatnonzero(expected + spread >= floor)
    if len(hopeful) > _MOST_HOPEFUL:
        highest = np.argpartition(-(expected + spread)[hopeful], _MOST_HOPEFUL)
        hopeful = np.union1d(hopeful[highest[:_MOST_HOPEFUL]], expected.argmax())
    deviation = np.sqrt(_heard(cov, w) + noise)
    out = np.empty(len(w))
    step = max(_CHUNK // max(len(hopeful), 1), 1)
    for i in range(0, len(w), step):
        some = slice(i, i + step)
        pull = (w[some] @ cov) @ wanted[hopeful].T / deviation[some, None]
        best = [(expected[hopeful] + node * pull).max(axis=1, initial=floor) for node in _NODES]
        out[some] = _WEIGHTS @ np.stack(best)
    return out - now


def _heard(cov: Array, w: Array) -> Array:
    """Variance of what the factors say about each item, (D,)."""
    return np.einsum("di,ij,dj->d", w, cov, w)
