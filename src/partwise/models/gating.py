"""How columns choose their parts: components that a model takes.

Symbols: a prior and g posterior of a column's part, both (K, D); C_d the summed weight of its
observed entries; E the columns' energies (K, D), sums over rows and states of -E[log p].

Tied: one choice per column for all rows (JMLR Appendix A). Its evidence, expected log-likelihood
less the divergence of the column's parameters, stands where the papers have -E_dk, and the
parameters' posterior is given the choice, so g cancels from their update. ``beta`` below 1 anneals
(NIPS).

Standard: a choice for every row, with one posterior for all of them (JMLR Eq. 3-4). The sums are
weighted by g, the divergence stands outside of g, and the energy is taken per observation.

The factorised posterior, a choice and a posterior for every entry, is not a gate of columns: see
`partwise.models.rowwise`. All of them learn a from counts by `learn_prior`. `Chooser` holds what a
model needs of all this: it is the component that MCVQ and MCFA take.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods import Dirichlet

# A gate within this of 1 is closed. Snapping it costs the bound no more than this a column (an
# observation, for the standard gating), far below the 1e-9 to which the bound is trusted.
CLOSED = 1e-10

# Sweeps with decided columns between two in which all parts are looked at again.
REFRESH_EVERY = 4


@dataclass(frozen=True, eq=False)
class Gates:
    """The columns' parts, as far as they are known, and the prior that was learned from them."""

    g: Array  # posterior, (K, D)
    counts: Array  # choices seen by a, (K, D)
    log_a: Array  # expected log prior, (K, D)
    cost: float  # what the prior of a takes off the bound


class Gating(Protocol):
    """Gates of columns."""

    def share(self, gates: Array) -> Array | None:
        """Weight of the sums in the parameters' update, (K, D); None where it cancels."""
        ...

    def choose(self, log_a: Array, gain: Array, divergence: Array, weight: Array) -> Array:
        """New gates from expected log-likelihoods (K, D) and their parameters' divergence."""
        ...

    def counts(self, gates: Array, weight: Array) -> Array:
        """How many choices the prior a has seen, (K, D)."""
        ...

    def cost(self, gates: Array, log_a: Array, divergence: Array, weight: Array) -> float:
        """What gates and parameters take off the bound."""
        ...

    def stake(self, gates: Array) -> Array:
        """How much of each parameter's divergence the bound pays, (K, D)."""
        ...


def _softmax(logits: Array) -> Array:
    return special.softmax(logits, axis=0)


@dataclass(frozen=True)
class Tied:
    """One choice a column; ``beta`` is the inverse temperature."""

    beta: float = 1.0

    def share(self, gates: Array) -> Array | None:
        """Nothing: g cancels."""
        return None

    def choose(self, log_a: Array, gain: Array, divergence: Array, weight: Array) -> Array:
        """g proportional to a exp(beta evidence)."""
        return _softmax(log_a + self.beta * (gain - divergence))

    def counts(self, gates: Array, weight: Array) -> Array:
        """One choice a column."""
        return gates

    def cost(self, gates: Array, log_a: Array, divergence: Array, weight: Array) -> float:
        """sum_d sum_k g (log g/a + divergence)."""
        kl = special.xlogy(gates, gates) - gates * log_a
        return float(np.sum(kl + gates * divergence))

    def stake(self, gates: Array) -> Array:
        """As much as the column chose the part."""
        return gates


@dataclass(frozen=True)
class Standard:
    """A choice for every row, one posterior per column."""

    def share(self, gates: Array) -> Array | None:
        """Sums count as far as the column chose the part."""
        return gates

    def choose(self, log_a: Array, gain: Array, divergence: Array, weight: Array) -> Array:
        """g proportional to a exp(-E/C_d)."""
        return _softmax(log_a + gain / np.where(weight > 0, weight, 1.0))

    def counts(self, gates: Array, weight: Array) -> Array:
        """C_d choices a column."""
        return weight * gates

    def cost(self, gates: Array, log_a: Array, divergence: Array, weight: Array) -> float:
        """sum_d C_d sum_k g log g/a, and all divergences."""
        kl = special.xlogy(gates, gates) - gates * log_a
        return float(np.sum(weight * kl) + np.sum(divergence))

    def stake(self, gates: Array) -> Array:
        """All of it."""
        return np.ones_like(gates)


@dataclass(frozen=True, eq=False)
class Chooser:
    """How columns are given to parts: the gating, its prior, and C_d.

    ``barred`` (K, D) is True where a column may not choose a part, while annealing.
    """

    gating: Gating
    prior: Dirichlet
    gate_entropy: float
    weight: Array
    barred: Array | None = None

    def learn(self, g: Array, counts: Array | None = None) -> Gates:
        """Gates and the prior that ``counts`` (the gating's own if None) teach."""
        counts = self.gating.counts(g, self.weight) if counts is None else counts
        return Gates(g, counts, *learn_prior(counts, self.prior, self.gate_entropy))

    def choose(self, gates: Gates, gain: Array, divergence: Array, looked_at: Array) -> Gates:
        """New gates of the columns looked at; one never observed keeps its prior."""
        g = gates.g.copy()
        seen = looked_at & (self.weight > 0)
        log_a = gates.log_a if self.barred is None else np.where(self.barred, -np.inf, gates.log_a)
        g[:, seen] = self.gating.choose(
            log_a[:, seen], gain[:, seen], divergence[:, seen], self.weight[seen]
        )
        return self.learn(np.where(g.max(axis=0) >= 1.0 - CLOSED, np.rint(g), g))

    def select(self, gates: Gates, counts: Array) -> Gates:
        """Gates as the mean selection, where rows select for themselves."""
        learned = self.learn(gates.g, counts)
        shares = np.exp(learned.log_a) if self.gate_entropy > 0 else self.prior.mean(counts)
        return replace(learned, g=np.where(self.weight > 0, shares, gates.g))

    def cost(self, gates: Gates, divergence: Array) -> float:
        """What gates, their prior and the entries' parameters take off the bound."""
        return gates.cost + self.gating.cost(gates.g, gates.log_a, divergence, self.weight)

    def decided(self, gates: Gates, age: int) -> Array:
        """Part of each closed column, else -1; none when it is time to look again; (D,)."""
        closed = gates.g.max(axis=0) == 1.0
        if age >= REFRESH_EVERY:
            closed[:] = False
        return np.where(closed, gates.g.argmax(axis=0), -1)


def learn_prior(counts: Array, prior: Dirichlet, gate_entropy: float) -> tuple[Array, float]:
    """Log prior of the gates from counts (K, D), and what it takes off the bound.

    With an entropic prior p(a) proportional to exp(gate_entropy * sum a log a), a is its most
    probable value (thesis 5.2.2); otherwise the Dirichlet posterior, or the shares where that is
    flat.
    """
    if gate_entropy > 0:
        a = entropic_shares(counts + prior.concentration, gate_entropy)
        log_a = np.log(np.maximum(a, 1e-300))
        cost = -gate_entropy * np.sum(a * log_a) - prior.concentration * np.sum(log_a)
        return log_a, float(cost)
    return prior.expected_log(counts), prior.divergence(counts)


def entropic_shares(counts: Array, strength: float) -> Array:
    """Maximize sum_k counts log a + strength sum_k a log a over each column's simplex; (K, D).

    Stationary points obey counts/a + strength (1 + log a) + lambda = 0, hence
    a = -z / W(-z exp(1 + lambda/strength)) with z = counts/strength (Brand 1999). The objective is
    concave in a share below z and convex above, so at a maximum all shares but the largest lie on
    the lower branch W_{-1}. The multiplier is therefore told by the largest share t, and bisection
    in t, all columns at once, finds where the shares sum to 1: below the root the objective rises
    with t and above it falls.
    """
    z = counts / strength
    K, D = z.shape
    top = np.argmax(z, axis=0)
    column = np.arange(D)
    with np.errstate(divide="ignore"):
        log_z = np.log(z)

    def shares(t: Array) -> Array:
        # -W of the others solves w - log w = z_top/t + log t - log z
        gap = np.maximum(z[top, column] / t + np.log(t) - log_z, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.where(gap < 700, -special.lambertw(-np.exp(-gap), k=-1).real, gap + np.log(gap))
        a = z / np.maximum(w, 1.0)
        a[top, column] = t
        return a

    low, high = np.full(D, 1.0 / K), np.ones(D)
    for _ in range(60):  # halves of 1 until double precision is spent
        middle = 0.5 * (low + high)
        short = shares(middle).sum(axis=0) < 1.0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    a = shares(0.5 * (low + high))
    return a / a.sum(axis=0)
