"""Where classes of groups of parts begin: groups of dependent parts, then classes from below.

The classes of a group begin as those of rows that have its parts alone. Then the groups are to the
class of the row what parts are to it otherwise, a group's classes being its states.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np

from partwise.contracts import Array
from partwise.models.class_tree import ClassTree, Links
from partwise.models.class_variable import ClassVariable
from partwise.models.mcvq import MCVQ, MCVQParams
from partwise.starts.classes import ClassCore, Piece, class_start, joined, settle, some_rows

# Information between parts that do not depend on each other, relative to the largest: spectral
# clustering needs a connected graph.
LEAST_INFORMATION = 1e-6


def tree_start(
    core: MCVQ,
    params: MCVQParams,
    pieces: list[Piece],
    given: Array | None,
    rng: np.random.Generator,
) -> MCVQParams:
    """Parameters with classes of groups, from parameters without classes.

    ``pieces`` as in `class_start`; ``given`` are the groups of the parts (K,), the background left
    out, None where they are sought.
    """
    tree, plain = core.classes, core.without_classes()
    assert isinstance(tree, ClassTree)
    evidence, weight, labels = joined(pieces)
    if labels is None or not np.any(labels >= 0):
        evidence, weight = some_rows(evidence, weight, rng)
        labels = None
    if given is None:
        m = evidence.copy()
        plain.mix(m, plain.weigh(params, m, None), weight)
        groups = dependent_parts(m, weight, core.first, tree.n_groups, rng)
    else:
        groups = np.append(given, np.zeros(len(core.n_states) - len(given), np.int64))
    below, counts = [], np.zeros((tree.n_group_classes, core.first[-1]))
    each = ClassVariable(tree.n_group_classes, tree.prior)
    for g in range(tree.n_groups):
        parts = np.flatnonzero(groups == g)
        own = np.isin(core.part_of, parts)
        some = replace(core, n_states=tuple(core.n_states[k] for k in parts), classes=each)
        found = _classes_of(some, params, params.state_counts[:, own], evidence[own], weight, rng)
        below.append(found[0])
        counts[:, own] = found[1]
    sizes = (tree.n_group_classes,) * tree.n_groups
    top = replace(core, n_states=sizes, classes=ClassVariable(tree.n_classes, tree.prior))
    scores = np.concatenate(below)
    usual = np.full((1, len(scores)), weight.sum() / tree.n_group_classes)
    begun = top.without_classes().parameters(params.chi, params.gate, usual)
    pairs = class_start(_core(top), begun, [(scores, weight, labels)], rng).state_counts
    links = pairs.reshape(tree.n_classes, tree.n_groups, -1).transpose(1, 0, 2)
    begun = core.parameters(params.chi, params.gate, counts, Links(groups, links))
    return settle(_core(core), begun, evidence, labels, weight)


def _core(model: MCVQ) -> ClassCore[MCVQParams]:
    """A model, as the start of a class variable sees it."""
    return cast(ClassCore[MCVQParams], model)


def _classes_of(
    some: MCVQ,
    params: MCVQParams,
    counts: Array,
    evidence: Array,
    weight: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Log density of a group's parts in each of its classes (N, n), and counts of states (N, S)."""
    if not some.n_states:  # more groups than parts
        return np.zeros((some.classes.n_classes, len(weight))), counts
    begun = some.without_classes().parameters(params.chi, params.gate, counts)
    found = class_start(_core(some), begun, [(evidence, weight, None)], rng)
    joint = some.weigh(found, evidence.copy(), None).joint
    return joint - found.log_beta[:, None], found.state_counts


def dependent_parts(
    m: Array, weight: Array, first: Array, n_groups: int, rng: np.random.Generator
) -> Array:
    """Groups of parts (K,), numbered by their first, by the mutual information of their states.

    ``m`` (S, n) are posteriors of the states. Parts of one state are of the first group.
    """
    informed = np.flatnonzero(np.diff(first) > 1)
    groups = np.zeros(len(first) - 1, np.int64)
    if len(informed) <= n_groups:
        groups[informed] = np.arange(len(informed))
        return groups
    between = information(m, weight, first)[np.ix_(informed, informed)]
    from sklearn.cluster import SpectralClustering  # slow to import

    clusters = SpectralClustering(
        n_groups, affinity="precomputed", random_state=int(rng.integers(2**31 - 1))
    )
    found = clusters.fit(between + LEAST_INFORMATION * max(between.max(), 1e-300)).labels_
    order = np.unique(found, return_index=True)[1].argsort()
    groups[informed] = order.argsort()[found]
    return groups


def information(m: Array, weight: Array, first: Array) -> Array:
    """Mutual information of the states of parts in nats, (K, K); 0 on the diagonal."""
    joint = (m * (weight / weight.sum())) @ m.T
    alone = (m @ weight) / weight.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / np.outer(alone, alone)), 0.0)
    bounds = list(pairwise(first))
    out = np.array([[terms[a:b, c:d].sum() for c, d in bounds] for a, b in bounds])
    np.fill_diagonal(out, 0.0)
    return np.maximum(out, 0.0)
