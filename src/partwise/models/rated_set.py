"""What the set of items that a person rated says about their tastes, whatever the ratings.

=======  ========  =======  =======================================================================
symbol   code      shape    meaning
=======  ========  =======  =======================================================================
o        X         (n, D)   1 where a person rated an item, else 0; n_u is the number of these
p        share     (D,)     share of the ratings that are of each item
c        -         (n, D)   n_u^-1/2 (o_u - n_u p): how the set differs from one by popularity
B        -         (D, J)   regression of the factors' posterior means m on c
y        weights   (D, J)   B_d - sum_e p_e B_e, so that c_u B = n_u^-1/2 sum_d o_ud y_d
=======  ========  =======  =======================================================================

The prior of a person's factors is N(c_u B, I) in place of N(0, I); without ratings the two are the
same. B minimizes ``sum_u |m_u - c_u B|^2 + PENALTY |B|^2``, where m is inferred first with the
prior N(0, I), then with that of the B found: `ROUNDS` regressions in all. The matrix c is never
formed: the normal equations are solved by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from partwise.contracts import Array

# Of each regression, and their number; selected on a development split of MovieLens-1M.
PENALTY, ROUNDS = 5.0, 2

# Conjugate gradients stop at this residual, of the right-hand side's, or after so many steps.
TOLERANCE, MAX_STEPS = 1e-8, 200


def learn_weights(X: sparse.csr_matrix, m: Array) -> Array:
    """Weights y (D, J) of items, from the entries that X (n, D) stores and factors m (n, J)."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    share, root = counts / max(counts.sum(), 1), np.sqrt(np.diff(X.indptr))
    scaled = _scaled(X.indptr, X.indices, X.shape[1])

    def transposed(u: Array) -> Array:
        return np.asarray(scaled.T @ u - np.outer(share, root @ u))

    def normal(B: Array) -> Array:
        return transposed(scaled @ B - np.outer(root, share @ B)) + PENALTY * B

    B = _solve(normal, transposed(np.asarray(m, dtype=float)))
    return B - share @ B


def prior_means(weights: Array, indptr: Array, columns: Array) -> Array:
    """Means c B of people's factors before their ratings are read, (J, n), from weights (D, J)."""
    return np.asarray(_scaled(indptr, columns, len(weights)) @ weights).T


def _scaled(indptr: Array, columns: Array, n_items: int) -> sparse.csr_matrix:
    """``n_u^-1/2`` for each item that a person rated."""
    n = np.diff(indptr)
    values = np.repeat(1.0 / np.sqrt(np.maximum(n, 1)), n)
    return sparse.csr_matrix((values, columns, indptr), shape=(len(n), n_items))


def _solve(normal: Callable[[Array], Array], b: Array) -> Array:
    """Solutions (D, J) of ``normal(x) = b``, all at once by conjugate gradients."""
    x, r = np.zeros_like(b), b.copy()
    direction, left = r.copy(), np.sum(r * r, axis=0)
    enough = TOLERANCE**2 * left
    for _ in range(MAX_STEPS):
        if np.all(left <= enough):
            break
        image = normal(direction)
        step = left / np.maximum(np.sum(direction * image, axis=0), np.finfo(float).tiny)
        x += step * direction
        r -= step * image
        before, left = left, np.sum(r * r, axis=0)
        direction = r + left / np.maximum(before, np.finfo(float).tiny) * direction
    return x
