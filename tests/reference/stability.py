"""Agreement of divisions of columns into parts, by sets and by trying every matching."""

from itertools import permutations

import numpy as np


def sets_of(parts, n_parts):
    """Columns of every part; -1 belongs to none."""
    return [{d for d, part in enumerate(parts) if part == k} for k in range(n_parts)]


def jaccard(a, b):
    """Shared elements over all elements."""
    return len(a & b) / len(a | b) if a | b else 0.0


def matched(parts, refit):
    """Jaccard index of each part with its match, in the best of all matchings one to one."""
    n = max(max(parts), max(refit)) + 1  # empty sets stand in for parts that are not there
    mine, theirs = sets_of(parts, n), sets_of(refit, n)
    best = max(
        permutations(range(n)),
        key=lambda order: sum(jaccard(mine[k], theirs[order[k]]) for k in range(n)),
    )
    return np.array([jaccard(mine[k], theirs[best[k]]) for k in range(max(parts) + 1)])


def chance(parts, refit):
    """What shuffled columns would get, over all shuffles."""
    return np.mean([matched(parts, order) for order in set(permutations(refit))], axis=0)


def companions(parts, refit):
    """Jaccard index of each column's companions, column by column."""
    out = []
    for d, (k, j) in enumerate(zip(parts, refit, strict=True)):
        if k < 0 or j < 0:
            out.append(float(k == j))
            continue
        mine = {e for e, part in enumerate(parts) if part == k and e != d}
        theirs = {e for e, part in enumerate(refit) if part == j and e != d}
        out.append(jaccard(mine, theirs) if mine | theirs else 1.0)
    return np.array(out)
