"""Multiple Cause Vector Quantization (Ross & Zemel 2003, 2006).

=======  ============  =========  ==============================================  ==============
symbol   code          shape      meaning                                         equation
=======  ============  =========  ==============================================  ==============
b        log_b         (N, S)     prior of a part's states, expected logarithm    JMLR Eq. 6
a        log_a         (K, D)     prior of a column's part, expected logarithm    JMLR 2.1.1
g        gates         (K, D)     posterior of a column's part                    JMLR Eq. 4
m        m             (S, n)     posterior of the rows' states, over all classes JMLR 2.1.1
theta    chi           (P, S, D)  posterior pseudo-sums of the entries' law       docs/mcvq.md
eps      -natural.T    (P, S, D)  expected negative log density of an entry       JMLR 2.1.1
E        -gain         (K, D)     energy of a column under a part                 JMLR Eq. 4
=======  ============  =========  ==============================================  ==============

States of all parts are numbered in one row; those of part k are first[k] .. first[k + 1] - 1.
A missing entry takes part in nothing. Departures from the papers: the log density keeps its 2 pi;
parameters are posteriors under conjugate priors, with maximum likelihood as the flat prior; a
column whose gate has closed on one part is *decided* and costs that part's states alone, the other
parts' energies being refreshed now and then and always before the fit is called converged. Without
a class variable (`partwise.models.class_variable`) there is one class, N = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.contracts import Array, Layout, Packed, Stats
from partwise.likelihoods import Dirichlet
from partwise.likelihoods.prior import EntryPrior
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Gates
from partwise.models.weights import weighted

# Least logarithm of a posterior, relative to the largest: a state of weight 1e-20 adds nothing that
# a float can hold, and denormal numbers would slow matrix products.
LEAST_LOG = -46.0

# Gates below this tell nothing about the sums that they weighed.
LEAST_SHARE = 1e-8

# Times that every part of a row looks for a better state where rows select parts for themselves.
CLIMBING_ROUNDS = 2


class Theta(NamedTuple):
    """Parameters, and what every block needs of them in the form it needs."""

    chi: tuple[Array, ...]  # per group (P, S, D_g)
    gate: Gates  # g, a and what they cost
    state_counts: Array  # expected rows of each class in each state, (N, S)
    log_b: Array  # (N, S)
    log_beta: Array  # (N,)
    divergence: Array  # of the entries' parameters, summed over a part's states, (K, D)
    natural: tuple[Array, ...]  # per group (P, S, D_g)
    layouts: tuple[Layout, ...]
    weights: tuple[Packed, ...]  # natural times gates, packed, in the data's dtype
    age: int  # sweeps since all parts were looked at

    @property
    def gates(self) -> Array:
        """g, (K, D)."""
        return self.gate.g


class Weighed(NamedTuple):
    """Classes of a block's rows, and what their states' posteriors are made of."""

    z: Array  # (N, n)
    log_z: Array  # log normaliser of the rows, (n,)
    shares: Array  # b relative to the largest of any class, (N, S)
    totals: list[Array]  # of the states' weights under each class, a part (N, n)


@dataclass(frozen=True, eq=False)
class MCVQ:
    """The model with one posterior of the parts for all rows (standard, tied, annealed).

    Parameters
    ----------
    n_states : tuple of K int
    priors : tuple of EntryPrior, one a column group
    columns : tuple of ndarray
        Column numbers of each group.
    chooser : Chooser
        How columns choose parts.
    state_prior : Dirichlet
    classes : ClassVariable
    dtype : dtype of the data
    """

    n_states: tuple[int, ...]
    priors: tuple[EntryPrior, ...]
    columns: tuple[Array, ...]
    chooser: Chooser
    state_prior: Dirichlet
    classes: ClassVariable
    dtype: Any
    remembers: ClassVar[bool] = False

    @cached_property
    def first(self) -> Array:
        """Number of each part's first state, then S."""
        return np.concatenate([[0], np.cumsum(self.n_states)]).astype(np.int64)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of every part."""
        return self.n_states

    @property
    def n_columns(self) -> int:
        """D."""
        return len(self.chooser.weight)

    @property
    def all_undecided(self) -> Array:
        """A -1 for every column."""
        return np.full(self.n_columns, -1)

    @cached_property
    def unseen(self) -> Array:
        """Columns that belong to no group, which the model says nothing about; (D,)."""
        out = np.ones(self.n_columns, bool)
        out[np.concatenate(self.columns)] = False
        return out

    @cached_property
    def part_of(self) -> Array:
        """Part of each state, (S,)."""
        return np.repeat(np.arange(len(self.n_states)), self.n_states)

    # --- E-step ---

    def fresh_memory(self, index: int) -> Any:
        """Rows keep nothing from one sweep to the next."""
        return None

    def infer(self, theta: Theta, block: Any) -> tuple[Array, Array]:
        """m[kj] proportional to b exp(sum_d o g E[log p]), (S, n); the log normaliser, (n,)."""
        m = self.evidence(theta, block)
        found = self.weigh(theta, m, block.labels)
        self.mix(m, found, block.weight)
        return m, found.log_z

    def propose(self, theta: Theta, block: Any) -> Array:
        """States to draw when a row's likelihood is estimated, in each class; (N, S, n)."""
        m = self.evidence(theta, block)
        found = self.weigh(theta, m, None)
        parts = zip(pairwise(self.first), found.totals, strict=True)
        pieces = [
            found.shares[:, lo:hi, None] * (m[lo:hi] / total[:, None]) for (lo, hi), total in parts
        ]
        return np.concatenate(pieces, axis=1)

    def evidence(self, theta: Theta, block: Any) -> Array:
        """What the entries say about the states, sum_d o g E[log p]; (S, n)."""
        return block.score(theta.weights, theta.layouts)

    def expect(self, theta: Theta, block: Any, memory: Any) -> tuple[Array, Stats]:
        """Posterior of the rows' states, and its sums."""
        if self.classes.n_classes > 1:  # the class depends on all parts, so all are scored first
            m = self.evidence(theta, block)
            found = self.weigh(theta, m, block.labels)
            counts = self.mix(m, found, block.weight)
            sums = block.collect(weighted(m, block.weight), theta.layouts)
            return m, Stats(float(block.weight @ (found.log_z + block.base)), counts, sums)
        log_z, counts = np.zeros(block.n_rows), np.empty((1, self.first[-1]))

        def on_part(k: int, score: Array) -> Array:
            part = slice(self.first[k], self.first[k + 1])
            log_z[:] += normalise_part(score, theta.log_b[0, part])
            wm = weighted(score, block.weight)
            counts[0, part] = wm.sum(axis=1, dtype=float)
            return wm

        m, sums = block.sweep(theta.weights, theta.layouts, on_part)
        return m, Stats(float(block.weight @ (log_z + block.base)), counts, sums)

    def weigh(self, theta: Theta, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes; ``score`` (S, n) becomes states' weights in their part.

        A class explains part k of a row with sum_j b[n, kj] exp(score[kj]).
        """
        best = theta.log_b.max(axis=0)  # in some class; the others' shares are relative to it
        shares = np.exp(np.maximum(theta.log_b - best, LEAST_LOG)).astype(score.dtype)
        evidence = np.repeat(theta.log_beta[:, None], score.shape[1], axis=1)
        totals = []
        for lo, hi in pairwise(self.first):
            top = exponentiate(score[lo:hi], best[lo:hi])
            totals.append(shares[:, lo:hi] @ score[lo:hi])
            evidence += top + np.log(totals[-1]).astype(float)
        return Weighed(*self.classes.posterior(evidence, labels), shares, totals)

    def mix(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Turn weights (S, n) into posteriors, sum_n z m_n; weighted sums of z m_n, (N, S)."""
        counts = np.empty((len(found.z), self.first[-1]))
        for (lo, hi), total in zip(pairwise(self.first), found.totals, strict=True):
            ratio = (found.z / total).astype(m.dtype)
            b = found.shares[:, lo:hi]
            counts[:, lo:hi] = b * (weighted(ratio, weight) @ m[lo:hi].T)
            m[lo:hi] *= b.T @ ratio
        return counts

    def class_sums(self, score: Array, found: Weighed, weight: Array) -> Array:
        """Weighted sums of z m_n, (N, S), from what `weigh` left of the score, which is lost."""
        return self.mix(score, found, weight)

    def row_features(self, m: Array) -> Array:
        """What tells rows apart, for clustering; (n, S)."""
        return m.T

    def likely_rows(self, theta: Theta, block: Any) -> Array:
        """One-hot states (S, n) to begin with where rows select parts for themselves."""
        return self._climb_states(theta, block)[0]

    def wide_rows(self, theta: Theta, block: Any, settled: Callable[[], Array]) -> Array:
        """As `propose`, given the other parts' likely states: wider than what settled."""
        given = self._climb_states(theta, block)[1]
        return np.broadcast_to(given, (self.classes.n_classes, *given.shape))

    def _climb_states(self, theta: Theta, block: Any) -> tuple[Array, Array]:
        """One-hot states (S, n) of high joint density with the row, selections summed out.

        Also the probability of every state given those of the other parts.

        The alternation of parts and states may stay where it begins, so it begins well: from the
        states that averaged gates give, each part in turn takes the state that raises
        sum_d log sum_k a p(x_d | s_k) + log b most.
        """
        first = self.first
        states = self.infer(theta, block)[0]
        chosen = np.stack([lo + states[lo:hi].argmax(axis=0) for lo, hi in pairwise(first)])
        log_b = np.logaddexp.reduce(theta.log_b + theta.log_beta[:, None], axis=0)
        log_a = [
            group.spread(theta.gate.log_a[:, columns].astype(block.dtype))
            for group, columns in zip(block.groups, self.columns, strict=True)
        ]
        given = np.empty((first[-1], block.n_rows))
        for _ in range(CLIMBING_ROUNDS):
            for k, (lo, hi) in enumerate(pairwise(first)):
                gain = np.repeat(log_b[lo:hi, None], block.n_rows, axis=1)
                for g, group in enumerate(block.groups):
                    one_hot = _one_hot(chosen, first[-1], block.dtype)
                    others = group.expected(one_hot, theta.natural[g], first) + log_a[g]
                    others[k] = -np.inf
                    rest = np.logaddexp.reduce(others, axis=0)
                    for j in range(lo, hi):
                        density = group.densities(theta.natural[g][:, j]) + log_a[g][k]
                        gain[j - lo] += group.row_sums(np.logaddexp(rest, density))
                chosen[k] = lo + gain.argmax(axis=0)
                normalise_part(gain, np.zeros(hi - lo))
                given[lo:hi] = gain
        return _one_hot(chosen, first[-1], block.dtype), given

    # --- M-step ---

    def maximise(self, theta: Theta, stats: Stats) -> Theta:
        """Parameters, then gates, then priors: each step raises the bound."""
        theta = self.learn_states(self.learn_columns(theta, stats), stats.states)
        return self.dress(theta, self.chooser.decided(theta.gate, theta.age))

    def maximise_running(self, theta: Theta, stats: Stats) -> Theta:
        """The same from running sums, in which no column is decided."""
        return self.maximise(theta, stats)

    def sums_of(self, theta: Theta) -> Stats:
        """Sums, no column decided, that would have given these parameters."""
        sums = []
        share = self.chooser.gating.share(theta.gates)
        for prior, columns, chi in zip(self.priors, self.columns, theta.chi, strict=True):
            found = prior.sums(chi)
            if share is not None:  # what a part did not explain is forgotten
                own = share[self.part_of][:, columns]
                found = np.where(own > LEAST_SHARE, found / np.maximum(own, LEAST_SHARE), 0.0)
            sums.append(Packed(np.zeros((len(chi), max(self.n_states), 0)), found))
        return Stats(0.0, theta.state_counts, tuple(sums))

    def learn_columns(self, theta: Theta, stats: Stats) -> Theta:
        """Parameters of the entries, then gates."""
        share = self.chooser.gating.share(theta.gates)
        theta, gain, looked_at = self.learn_entries(theta, stats, share)
        gate = self.chooser.choose(theta.gate, gain, theta.divergence, looked_at)
        return theta._replace(gate=gate, age=0 if looked_at.all() else theta.age + 1)

    def maximise_selected(self, theta: Theta, stats: Stats) -> Theta:
        """The same where every row selected parts for itself, the selections being in the sums."""
        assert stats.gates is not None
        theta, *_ = self.learn_entries(self.undecide(theta), stats, None)
        theta = self.learn_states(theta, stats.states)
        gate = self.chooser.select(theta.gate, stats.gates)
        return self.dress(theta._replace(gate=gate), self.all_undecided)

    def learn_entries(
        self, theta: Theta, stats: Stats, share: Array | None
    ) -> tuple[Theta, Array, Array]:
        """Posteriors of the entries' parameters from the sums, weighted by ``share`` (K, D).

        Also the expected log-likelihood of every column under every part, (K, D), and the columns
        for which that is known, all parts having been looked at.
        """
        gain = np.zeros_like(theta.gates)
        looked_at = self.unseen.copy()
        divergence = theta.divergence.copy()
        chis, naturals = [], []
        for g, (columns, layout, packed) in enumerate(
            zip(self.columns, theta.layouts, stats.sums, strict=True)
        ):
            own_columns, columns = columns[layout.decided], columns[layout.undecided]
            prior = self.priors[g].take(layout.undecided)
            sums = packed.shared
            if share is not None:
                sums = sums * share[self.part_of][:, columns]
            chi = prior.posterior(sums)
            eta = prior.natural(chi)
            gain[:, columns] = self._by_part(np.einsum("psd,psd->sd", eta, packed.shared))
            divergence[:, columns] = self._by_part(prior.divergence(chi, eta))
            looked_at[columns] = True
            # A decided column's gate is one, so its own part's sums count whole.
            prior = self.priors[g].take(layout.decided)
            own_chi = prior.posterior(packed.own)
            own_eta = prior.natural(own_chi)
            own = np.where(layout.own_states >= 0, prior.divergence(own_chi, own_eta), 0.0)
            divergence[layout.parts[layout.decided], own_columns] = own.sum(axis=0)
            chis.append(layout.unpack(Packed(own_chi, chi), theta.chi[g]))
            naturals.append(layout.unpack(Packed(own_eta, eta), theta.natural[g]))
        theta = theta._replace(chi=tuple(chis), natural=tuple(naturals), divergence=divergence)
        return theta, gain, looked_at

    def learn_states(self, theta: Theta, counts: Array) -> Theta:
        """Priors of states and classes from the classes' counts of states (N, S)."""
        log_b = [prior.expected_log(c.T).T for prior, c in self.parts_of(counts)]
        return theta._replace(
            state_counts=counts,
            log_b=np.concatenate(log_b, axis=1),
            log_beta=self.classes.learn(self.class_counts(counts)),
        )

    def finish(self, theta: Theta) -> Theta:
        """Nothing is left to do after a fit."""
        return theta

    def without_cells(self, seen: Any, holed: Any) -> MCVQ:
        """The model for rows of ``holed`` instead of ``seen``, sources of rows."""
        weight = self.chooser.weight + holed.column_weight() - seen.column_weight()
        return replace(self, chooser=replace(self.chooser, weight=np.maximum(weight, 0.0)))

    def without_classes(self) -> MCVQ:
        """The same model with one class."""
        return replace(self, classes=ClassVariable())

    def class_counts(self, counts: Array) -> Array:
        """Summed weight of every class's rows, (N,), from counts of states (N, S)."""
        return counts[:, : self.first[1]].sum(axis=1)

    def parts_of(self, counts: Array) -> list[tuple[Dirichlet, Array]]:
        """Counts (N, S) part by part, each with its prior.

        In a class few of a part's states are common, so with classes the prior's count is shared
        by the states of a part: a count each would pull all classes towards one another.
        """
        prior, sizes = self.state_prior, np.diff(self.first)
        if self.classes.n_classes > 1:
            priors = [Dirichlet(prior.concentration / J) for J in sizes]
        else:
            priors = [prior] * len(sizes)
        bounds = pairwise(self.first)
        return [(p, counts[:, lo:hi]) for p, (lo, hi) in zip(priors, bounds, strict=True)]

    def rebuild(self, theta: Theta) -> Theta:
        """The same parameters with all that follows from them derived anew, as after loading."""
        chi = tuple(np.ascontiguousarray(values) for values in theta.chi)
        natural = tuple(p.natural(c) for p, c in zip(self.priors, chi, strict=True))
        theta = theta._replace(
            chi=chi, natural=natural, divergence=self.divergence(chi, natural), age=0
        )
        return self.dress(theta, self.chooser.decided(theta.gate, 0))

    def widened(self, theta: Theta) -> Theta:
        """Parameters of a model that lacked the last columns, those at their prior."""
        D = theta.gates.shape[1]
        new = np.arange(D, self.n_columns)
        nothing = np.zeros((len(theta.chi[0]), self.first[-1], len(new)))
        chi = self.priors[0].take(new).posterior(nothing)
        g = np.full((len(self.n_states), len(new)), 1.0 / len(self.n_states))
        gate = self.chooser.learn(np.hstack([theta.gates, g]))
        chi = np.concatenate([theta.chi[0], chi], axis=2)
        return self.rebuild(theta._replace(chi=(chi,), gate=gate))

    def joined(self, theta: Theta, other: Theta, n: int) -> Theta:
        """The first n columns of one, the rest of another."""
        chi = np.concatenate([theta.chi[0][:, :, :n], other.chi[0][:, :, n:]], axis=2)
        gate = self.chooser.learn(np.hstack([theta.gates[:, :n], other.gates[:, n:]]))
        return self.rebuild(theta._replace(chi=(chi,), gate=gate))

    def divergence(self, chi: Sequence[Array], natural: Sequence[Array]) -> Array:
        """Divergence of all entries' parameters, summed over each part's states; (K, D)."""
        out = np.zeros((len(self.n_states), self.n_columns))
        for prior, columns, c, eta in zip(self.priors, self.columns, chi, natural, strict=True):
            out[:, columns] = self._by_part(prior.divergence(c, eta))
        return out

    def _by_part(self, per_state: Array) -> Array:
        """Sum (S, ...) over each part's states; (K, ...)."""
        return np.add.reduceat(per_state, self.first[:-1], axis=0)

    def dress(self, theta: Theta, parts: Array) -> Theta:
        """Put the weights in the form that blocks score with."""
        layouts, weights = [], []
        for columns, eta in zip(self.columns, theta.natural, strict=True):
            layout = Layout(parts[columns], self.n_states)
            own, shared = layout.pack(eta)
            shared = shared * theta.gates[self.part_of][:, columns[layout.undecided]]
            layouts.append(layout)
            weights.append(Packed(own.astype(self.dtype), shared.astype(self.dtype)))
        return theta._replace(layouts=tuple(layouts), weights=tuple(weights))

    def refresh(self, theta: Theta) -> Theta | None:
        """The same parameters, all columns undecided; None if the last step saw all parts."""
        return None if theta.age == 0 else self.undecide(theta)

    def undecide(self, theta: Theta) -> Theta:
        """The same parameters, all parts of all columns looked at in the next sweep."""
        if all(len(layout.decided) == 0 for layout in theta.layouts):
            return theta
        return self.dress(theta, self.all_undecided)

    def start(self, stats: Stats, gates: Array) -> Theta:
        """First parameters, from sums of first posteriors (all columns undecided) and gates."""
        empty = tuple(np.zeros(packed.shared.shape) for packed in stats.sums)
        layouts = tuple(
            Layout(self.all_undecided[columns], self.n_states) for columns in self.columns
        )
        none = np.empty(0)
        # An open gate means work for whoever sums over parts.
        gates = np.where(self.unseen, np.arange(len(gates))[:, None] == len(gates) - 1, gates)
        gate, nothing = self.chooser.learn(gates), np.zeros_like(gates)
        theta = Theta(empty, gate, none, none, none, nothing, empty, layouts, (), 0)
        theta, *_ = self.learn_entries(theta, stats, self.chooser.gating.share(gates))
        return self.dress(self.learn_states(theta, stats.states), self.all_undecided)

    # --- bound ---

    def bound(self, theta: Theta, stats: Stats) -> float:
        """Lower bound of the evidence (of the likelihood, for flat priors) at ``theta``."""
        cost = self.chooser.cost(theta.gate, theta.divergence)
        return stats.bound - cost - self.choice_cost(theta)

    def bound_selected(self, theta: Theta, stats: Stats) -> float:
        """The same where every row selected parts for itself."""
        cost = float(theta.divergence.sum()) + theta.gate.cost
        return stats.bound - cost - self.choice_cost(theta)

    def choice_cost(self, theta: Theta) -> float:
        """Divergence of the state and class priors' posteriors."""
        states = sum(prior.divergence(c.T) for prior, c in self.parts_of(theta.state_counts))
        return states + self.classes.cost(self.class_counts(theta.state_counts))

    def state_density(self, theta: Theta, m: Array, labels: Array | None) -> Array:
        """Log prior of one-hot states (S, n), the class summed out unless known; (n,)."""
        evidence = theta.log_beta[:, None] + theta.log_b @ m
        return self.classes.posterior(evidence, labels)[1]


def _one_hot(chosen: Array, n_states: int, dtype: Any) -> Array:
    """States numbered in ``chosen`` (K, n) as posteriors (S, n)."""
    out = np.zeros((n_states, chosen.shape[1]), dtype)
    np.put_along_axis(out, chosen, 1, axis=0)
    return out


def normalise_part(score: Array, log_b: Array) -> Array:
    """Posterior over a part's states (J, n), in place of their scores; log normaliser (n,)."""
    top = exponentiate(score, log_b)
    total = score.sum(axis=0)
    score /= total
    return top + np.log(total).astype(float)


def exponentiate(score: Array, log_b: Array) -> Array:
    """exp(score + log_b), relative to each row's largest, in place of scores (J, n); its log."""
    score += log_b.astype(score.dtype)[:, None]
    top = score.max(axis=0)
    score -= top
    np.maximum(score, LEAST_LOG, out=score)
    np.exp(score, out=score)
    return top.astype(float)
