"""Classes of rows whose parts have states: part of the E-step of MCVQ (`partwise.models.mcvq`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from partwise.contracts import Array
from partwise.models.class_tree import ClassTree, Down, LinkedTree, Links, Up
from partwise.models.class_variable import ClassVariable
from partwise.models.weights import weighted

# Least logarithm of a posterior, relative to the largest: a state of weight 1e-20 adds nothing that
# a float can hold, and denormal numbers would slow matrix products.
LEAST_LOG = -46.0


class StatePriors(Protocol):
    """Parameters, as far as classes need them."""

    @property
    def log_b(self) -> Array:
        """Expected log priors of the states in the classes that they depend on, (N, S)."""
        ...

    @property
    def log_beta(self) -> Array:
        """Expected log prior of the rows' classes, (N,)."""
        ...

    @property
    def links(self) -> Links | None:
        """What joins classes of groups of parts to the rows', if there are some."""
        ...


@dataclass(frozen=True, eq=False)
class Weighed:
    """Classes of a block's rows, and what their states' posteriors are made of."""

    z: Array  # (N, n)
    log_z: Array  # log normalizer of the rows, (n,)
    joint: Array  # log of a class's prior times the row's density in it, (N, n)
    shares: Array  # b relative to the largest of any class, (N, S)
    totals: list[Array]  # of the states' weights under each class, a part (N, n)
    groups: Array | None = None  # of the parts (K,), whose classes are below those of the rows
    up: Up | None = None  # what these classes say of the rows'

    @cached_property
    def down(self) -> Down | None:
        """Classes of the groups of parts, given those of the rows."""
        return None if self.up is None else self.up.down(self.z)

    def z_of(self, k: int) -> Array:
        """Posterior of the class that part k depends on, (N, n)."""
        return self.z if self.down is None or self.groups is None else self.down.z[self.groups[k]]

    def with_classes(self, z: Array) -> Weighed:
        """The same with other classes of the rows, (N, n)."""
        return replace(self, z=z)


class StateClasses:
    """Posteriors of classes and states, from what the entries say about the states."""

    n_states: tuple[int, ...]
    classes: ClassVariable

    @cached_property
    def first(self) -> Array:
        """Number of each part's first state, then S."""
        return np.concatenate([[0], np.cumsum(self.n_states)]).astype(np.int64)

    def weigh(self, params: StatePriors, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes; ``score`` (S, n) becomes states' weights in their part.

        A class explains part k of a row with sum_j b[n, kj] exp(score[kj]).
        """
        shares, totals, evidence = self._in_classes(params, score)
        linked = self.linked(params.links)
        if linked is None:
            z, log_z = self.classes.posterior(evidence[0], labels)
            return Weighed(z, log_z, evidence[0], shares, totals)
        told = linked.up(evidence)
        joint = params.log_beta[:, None] + told.joint
        z, log_z = self.classes.posterior(joint, labels)
        return Weighed(z, log_z, joint, shares, totals, linked.groups, told)

    def linked(self, links: Links | None) -> LinkedTree | None:
        """Classes of groups of parts with what joins them to the rows', if there are some."""
        if links is None:
            return None
        assert isinstance(self.classes, ClassTree)
        return LinkedTree(self.classes, links)

    def _in_classes(self, params: StatePriors, score: Array) -> tuple[Array, list[Array], Array]:
        """Shares and totals of `Weighed`, and log densities of the rows in each class, (1, N, n).

        The latter have the classes' prior in them, or are those of every group, (G, N, n).
        """
        best = params.log_b.max(axis=0)  # in some class; the others' shares are relative to it
        shares = np.exp(np.maximum(params.log_b - best, LEAST_LOG)).astype(score.dtype)
        if params.links is None:
            groups = np.zeros(len(self.n_states), np.int64)
            evidence = np.repeat(params.log_beta[:, None], score.shape[1], axis=1)[None]
        else:
            groups = params.links.groups
            evidence = np.zeros((len(params.links.counts), len(shares), score.shape[1]))
        totals = []
        for g, (lo, hi) in zip(groups, pairwise(self.first), strict=True):
            top = exponentiate(score[lo:hi], best[lo:hi])
            totals.append(shares[:, lo:hi] @ score[lo:hi])
            evidence[g] += top + np.log(totals[-1]).astype(float)
        return shares, totals, evidence

    def mix(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Turn weights (S, n) into posteriors, sum_n z m_n; weighted sums of z m_n, (N, S).

        Sums of the classes of groups follow in columns of their own (`Down.counts`).
        """
        counts = np.empty((len(found.shares), self.first[-1]))
        for k, (lo, hi) in enumerate(pairwise(self.first)):
            ratio = (found.z_of(k) / found.totals[k]).astype(m.dtype)
            b = found.shares[:, lo:hi]
            counts[:, lo:hi] = b * (weighted(ratio, weight) @ m[lo:hi].T)
            m[lo:hi] *= b.T @ ratio
        return counts if found.down is None else np.hstack([counts, found.down.counts(weight)])

    def given_classes(self, params: StatePriors, m: Array) -> tuple[Array, Array | None]:
        """Posterior of the states in each class that they depend on, (N, S, n), from scores (S, n).

        Where those are classes of groups, also their posterior given the row's, (G, T, N, n).
        """
        shares, totals, evidence = self._in_classes(params, m)
        parts = zip(pairwise(self.first), totals, strict=True)
        pieces = [shares[:, lo:hi, None] * (m[lo:hi] / total[:, None]) for (lo, hi), total in parts]
        linked = self.linked(params.links)
        paths = None if linked is None else linked.up(evidence).paths
        return np.concatenate(pieces, axis=1), paths

    # Weighted sums of z m_n, (N, S), from what `weigh` left of the score, which is lost.
    class_sums = mix


def exponentiate(score: Array, log_b: Array) -> Array:
    """exp(score + log_b), relative to each row's largest, in place of scores (J, n); its log."""
    score += log_b.astype(score.dtype)[:, None]
    top = score.max(axis=0)
    score -= top
    np.maximum(score, LEAST_LOG, out=score)
    np.exp(score, out=score)
    return top.astype(float)
