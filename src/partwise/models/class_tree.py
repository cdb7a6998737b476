"""Classes of classes: a class for every group of parts, and above them the class of the row.

======  ========  =============  ===============================================  ===============
symbol  code      shape          meaning                                          equation
======  ========  =============  ===============================================  ===============
t       top       (T, n)         posterior of the rows' classes                   docs/classes.md
z       z         (G, N, n)      posterior of the groups' classes                 docs/classes.md
A       links     (G, T, N)      prior of a group's class given that of the row   docs/classes.md
e       evidence  (G, N, n)      log density of a group's parts in each class     docs/classes.md
u       up        (G, T, n)      the same given the class of the row              docs/classes.md
======  ========  =============  ===============================================  ===============

Parts of one group depend on each other more closely than on others: given the class of the row,
p(z_g | t) prod_{k in g} p(part k | z_g) for every group g. The tree is small, so its messages are
exact: u goes up to the class of the row, whose posterior comes down again to the groups. Expected
counts of (t, z_g) stand beside the states' counts, in columns of their own, G times T of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods import Dirichlet
from partwise.models.class_variable import ClassVariable

# Least probability of a group's class, so that a row whose groups no class allows has one.
LEAST_LINK = 1e-300


@dataclass(frozen=True, eq=False)
class Links:
    """What joins the classes of groups to the class of the row."""

    groups: Array  # group of every part, (K,)
    counts: Array  # expected rows of a class whose group is in each of its classes, (G, T, N)


@dataclass(frozen=True)
class ClassTree(ClassVariable):
    """T classes of rows; each of the groups of parts has N classes of its own."""

    n_groups: int = 1
    n_group_classes: int = 1

    @property
    def link_prior(self) -> Dirichlet:
        """Prior of a group's class: the count of a class, shared as by the states of a part."""
        return Dirichlet(self.prior.concentration / self.n_group_classes)


class LinkedTree(NamedTuple):
    """A tree of classes, with what joins them."""

    tree: ClassTree
    links: Links

    @property
    def groups(self) -> Array:
        """Group of every part, (K,)."""
        return self.links.groups

    @property
    def logarithms(self) -> Array:
        """Expected logs of the groups' classes given that of the row, (G, T, N)."""
        return self.tree.link_prior.expected_log(self._counts).transpose(1, 2, 0)

    @property
    def means(self) -> Array:
        """Posterior means of the same, (G, T, N)."""
        return self.tree.link_prior.mean(self._counts).transpose(1, 2, 0)

    @property
    def cost(self) -> float:
        """What the prior of the groups' classes takes off the bound."""
        return self.tree.link_prior.divergence(self._counts)

    @property
    def _counts(self) -> Array:
        return self.links.counts.transpose(2, 0, 1)

    def up(self, evidence: Array) -> Up:
        """What the groups say of the rows' classes, from log densities (G, N, n)."""
        return up(self.logarithms, evidence)

    def draw(self, sources: Array, rng: np.random.Generator) -> Array:
        """Classes of the groups of parts of new rows, (n, K), given classes of rows (n, K).

        Parts of one group that take the same class of rows have the same class of their group.
        """
        groups = self.groups[: sources.shape[1]]
        uniforms = rng.random((len(sources), self.tree.n_groups))[:, groups]
        above = np.cumsum(self.means, axis=2)[groups, sources]  # (n, K, N)
        return np.minimum((above <= uniforms[..., None]).sum(axis=2), above.shape[2] - 1)

    def split(self, counts: Array) -> tuple[Array, Links]:
        """Counts of the states (N, S), and new links from the columns behind them."""
        G, T, N = self.links.counts.shape
        own = counts[:, -G * T :].reshape(N, G, T)
        return counts[:, : -G * T], Links(self.groups, own.transpose(1, 2, 0))


class Down(NamedTuple):
    """Classes of the groups of a block's rows; what is needed to count them with the rows'."""

    z: Array  # (G, N, n)
    links: Array  # probabilities, (G, T, N)
    weights: Array  # exp(e), relative to the largest, (G, N, n)
    ratio: Array  # the class's posterior over the density that it gives a group, (G, T, n)

    def counts(self, weight: Array) -> Array:
        """Weighted sums over rows of the probability of (t, z_g), as columns; (N, G T)."""
        found = self.links * ((self.ratio * weight) @ self.weights.transpose(0, 2, 1))
        return found.transpose(2, 0, 1).reshape(found.shape[2], -1)


class Up(NamedTuple):
    """What groups of parts say of the rows' classes."""

    links: Array  # probabilities, (G, T, N)
    weights: Array  # exp(e), relative to the largest, (G, N, n)
    totals: Array  # of the weights, given the class of the row, (G, T, n)
    joint: Array  # log density of the row in each class, (T, n)

    def down(self, top: Array) -> Down:
        """Classes of the groups, given the posterior of the rows' classes (T, n)."""
        ratio = top / self.totals
        z = self.weights * (self.links.transpose(0, 2, 1) @ ratio)
        return Down(z, self.links, self.weights, ratio)

    @property
    def paths(self) -> Array:
        """Probability of the groups' classes given that of the row, (G, T, N, n)."""
        return self.links[..., None] * (self.weights[:, None] / self.totals[:, :, None])


def up(links: Array, evidence: Array) -> Up:
    """Messages to the class of the row, from logs (G, T, N) and log densities (G, N, n)."""
    share = np.maximum(np.exp(links), LEAST_LINK)
    best = evidence.max(axis=1, keepdims=True)
    weights = np.exp(evidence - best)
    totals = share @ weights
    return Up(share, weights, totals, (np.log(totals) + best).sum(axis=0))


def by_group(values: Array, groups: Array, n_groups: int) -> Array:
    """Sums (G, ...) over the parts of each group, of values (K, ...); 0 for one without parts."""
    out = np.zeros((n_groups, *values.shape[1:]))
    np.add.at(out, groups, values)
    return out


@dataclass(frozen=True, eq=False)
class TreePrior:
    """Prior of the states of all parts, which are not independent given the class of the row."""

    groups: Array  # (K,)
    links: Array  # logs of probabilities, (G, T, N)
    log_b: Array  # of the states in the classes of their group, (N, S)

    def marginal(self, first: Array) -> Array:
        """Log probability of every state in each class of rows, whatever its group's; (T, S)."""
        links, b = np.exp(self.links)[self.groups], np.exp(self.log_b)
        parts = zip(links, pairwise(first), strict=True)
        shares = np.concatenate([own @ b[:, lo:hi] for own, (lo, hi) in parts], axis=1)
        return np.log(np.maximum(shares, LEAST_LINK))

    def dependence(self, t: int, marginal: Array, states: Array) -> Array:
        """Log probability of states (..., K) in class t of rows, less that of each by itself.

        States are numbered in one row; ``marginal`` (S,) is that class's.
        """
        own = np.moveaxis(self.log_b[:, states.reshape(-1, states.shape[-1])], -1, 0)  # (K, N, n)
        found = up(self.links[:, t : t + 1], by_group(own, self.groups, len(self.links))).joint[0]
        return found.reshape(states.shape[:-1]) - marginal[states].sum(axis=-1)

    def likelihood(self, parts: Array) -> Array:
        """Log density of rows in every class (T, n), from parts' in their group's (K, N, n)."""
        return up(self.links, by_group(parts, self.groups, len(self.links))).joint
