"""Multiple Cause Vector Quantization (Ross & Zemel 2003, 2006).

=======  ============  =========  ==============================================  ==============
symbol   code          shape      meaning                                         equation
=======  ============  =========  ==============================================  ==============
b        log_b         (S,)       prior of a part's states, expected logarithm    JMLR 2.1.1
a        log_a         (K, D)     prior of a column's part, expected logarithm    JMLR 2.1.1
g        gates         (K, D)     posterior of a column's part                    JMLR Eq. 4
m        m             (S, n)     posterior of the rows' states                   JMLR 2.1.1
theta    chi           (P, S, D)  posterior pseudo-sums of the entries' law       docs/mcvq.md
eps      -natural.T    (P, S, D)  expected negative log density of an entry       JMLR 2.1.1
E        -gain         (K, D)     energy of a column under a part                 JMLR Eq. 4
=======  ============  =========  ==============================================  ==============

States of all parts are numbered in one row; those of part k are first[k] .. first[k + 1] - 1.
A missing entry takes part in nothing. Departures from the papers: the log density keeps its 2 pi;
parameters are posteriors under conjugate priors, with maximum likelihood as the flat prior; a
column whose gate has closed on one part is *decided* and costs that part's states alone, the other
parts' energies being refreshed now and then and always before the fit is called converged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.contracts import Array, Layout, Packed, Stats
from partwise.likelihoods import Dirichlet
from partwise.likelihoods.prior import EntryPrior
from partwise.models.gating import Gating, learn_prior
from partwise.models.selection import Selection

# A gate within this of 1 is closed. Snapping it costs the bound no more than this a column (an
# observation, for the standard gating), far below the 1e-9 to which the bound is trusted.
CLOSED = 1e-10

# Sweeps with decided columns between two in which all parts are looked at again.
REFRESH_EVERY = 4

# Least logarithm of a posterior, relative to the largest: a state of weight 1e-20 adds nothing that
# a float can hold, and denormal numbers would slow matrix products.
LEAST_LOG = -46.0

# Alternations of parts and states for rows that begin with nothing; the bound rises with each.
SETTLING_ROUNDS = 10

# Times that every part of a row looks for a better state before that.
CLIMBING_ROUNDS = 2


class Theta(NamedTuple):
    """Parameters, and what every block needs of them in the form it needs."""

    chi: tuple[Array, ...]  # per group (P, S, D_g)
    gates: Array  # g, (K, D)
    gate_counts: Array  # choices seen by a, (K, D)
    log_a: Array  # (K, D)
    gate_cost: float  # what the prior of a takes off the bound
    state_counts: Array  # expected rows in each state, (S,)
    log_b: Array  # (S,)
    divergence: Array  # of the entries' parameters, summed over a part's states, (K, D)
    natural: tuple[Array, ...]  # per group (P, S, D_g)
    layouts: tuple[Layout, ...]
    weights: tuple[Packed, ...]  # natural times gates, packed, in the data's dtype
    age: int  # sweeps since all parts were looked at


@dataclass(frozen=True, eq=False)
class MCVQ:
    """The model with one posterior of the parts for all rows (standard, tied, annealed).

    Parameters
    ----------
    n_states : tuple of K int
    priors : tuple of EntryPrior, one a column group
    columns : tuple of ndarray
        Column numbers of each group.
    weight : ndarray of shape (D,)
        C_d.
    gating : Gating
    state_prior, gate_prior : Dirichlet
    entropic : float
    dtype : dtype of the data
    barred : ndarray of shape (K, D) or None
        True where a column may not choose a part, while annealing.
    """

    n_states: tuple[int, ...]
    priors: tuple[EntryPrior, ...]
    columns: tuple[Array, ...]
    weight: Array
    gating: Gating
    state_prior: Dirichlet
    gate_prior: Dirichlet
    entropic: float
    dtype: Any
    barred: Array | None = None
    remembers: ClassVar[bool] = False

    @cached_property
    def first(self) -> Array:
        """Number of each part's first state, then S."""
        return np.concatenate([[0], np.cumsum(self.n_states)]).astype(np.int64)

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
        return self.normalise(block.score(theta.weights, theta.layouts), theta.log_b)

    def propose(self, theta: Theta, block: Any) -> Array:
        """States to draw when a row's likelihood is estimated, (S, n)."""
        return self.infer(theta, block)[0]

    def expect(self, theta: Theta, block: Any, memory: Any) -> tuple[Array, Stats]:
        """Posterior of the rows' states, and its sums."""
        log_z, counts = np.zeros(block.n_rows), np.empty(self.first[-1])

        def on_part(k: int, score: Array) -> Array:
            part = slice(self.first[k], self.first[k + 1])
            log_z[:] += normalise_part(score, theta.log_b[part])
            wm = weighted(score, block.weight)
            counts[part] = wm.sum(axis=1, dtype=float)
            return wm

        m, sums = block.sweep(theta.weights, theta.layouts, on_part)
        return m, Stats(float(block.weight @ (log_z + block.base)), counts, sums)

    def normalise(self, score: Array, log_b: Array) -> tuple[Array, Array]:
        """Posterior over each part's states (in place of ``score``), and log normaliser (n,)."""
        log_z = np.zeros(score.shape[1])
        for lo, hi in pairwise(self.first):
            log_z += normalise_part(score[lo:hi], log_b[lo:hi])
        return score, log_z

    # --- M-step ---

    def maximise(self, theta: Theta, stats: Stats) -> Theta:
        """Parameters, then gates, then priors: each step raises the bound."""
        share = self.gating.share(theta.gates)
        theta, gain, looked_at = self.learn_entries(theta, stats, share)
        # Decided columns keep their gate, and a column never observed keeps its prior.
        gates = theta.gates.copy()
        seen = looked_at & (self.weight > 0)
        log_a = theta.log_a if self.barred is None else np.where(self.barred, -1e300, theta.log_a)
        gates[:, seen] = self.gating.choose(
            log_a[:, seen], gain[:, seen], theta.divergence[:, seen], self.weight[seen]
        )
        gates = np.where(gates.max(axis=0) >= 1.0 - CLOSED, np.rint(gates), gates)
        theta = self.learn_choices(
            theta, gates, self.gating.counts(gates, self.weight), stats.states
        )
        age = 0 if looked_at.all() else theta.age + 1
        return self.dress(theta._replace(age=age), self.decided(theta, age))

    def learn_entries(
        self, theta: Theta, stats: Stats, share: Array | None
    ) -> tuple[Theta, Array, Array]:
        """Posteriors of the entries' parameters from the sums, weighted by ``share`` (K, D).

        Also the expected log-likelihood of every column under every part, (K, D), and the columns
        for which that is known, all parts having been looked at.
        """
        gain = np.zeros_like(theta.gates)
        looked_at = np.zeros(len(self.weight), bool)
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

    def learn_choices(
        self, theta: Theta, gates: Array, gate_counts: Array, state_counts: Array
    ) -> Theta:
        """Priors of parts and states from counts."""
        log_a, gate_cost = learn_prior(gate_counts, self.gate_prior, self.entropic)
        pieces = [
            self.state_prior.expected_log(state_counts[lo:hi]) for lo, hi in pairwise(self.first)
        ]
        return theta._replace(
            gates=gates,
            gate_counts=gate_counts,
            log_a=log_a,
            gate_cost=gate_cost,
            state_counts=state_counts,
            log_b=np.concatenate(pieces),
        )

    def rebuild(self, theta: Theta) -> Theta:
        """The same parameters with all that follows from them derived anew, as after loading."""
        chi = tuple(np.ascontiguousarray(values) for values in theta.chi)
        natural = tuple(p.natural(c) for p, c in zip(self.priors, chi, strict=True))
        theta = theta._replace(
            chi=chi, natural=natural, divergence=self.divergence(chi, natural), age=0
        )
        return self.dress(theta, self.decided(theta, 0))

    def divergence(self, chi: Sequence[Array], natural: Sequence[Array]) -> Array:
        """Divergence of all entries' parameters, summed over each part's states; (K, D)."""
        out = np.empty((len(self.n_states), len(self.weight)))
        for prior, columns, c, eta in zip(self.priors, self.columns, chi, natural, strict=True):
            out[:, columns] = self._by_part(prior.divergence(c, eta))
        return out

    def _by_part(self, per_state: Array) -> Array:
        """Sum (S, ...) over each part's states; (K, ...)."""
        return np.add.reduceat(per_state, self.first[:-1], axis=0)

    def decided(self, theta: Theta, age: int) -> Array:
        """Part of each column whose gate is closed, else -1; none when it is time to look again."""
        closed = theta.gates.max(axis=0) == 1.0
        if age >= REFRESH_EVERY:
            closed[:] = False
        return np.where(closed, theta.gates.argmax(axis=0), -1)

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
        return self.dress(theta, np.full(len(self.weight), -1))

    def start(self, stats: Stats, gates: Array) -> Theta:
        """First parameters, from sums of first posteriors (all columns undecided) and gates."""
        K, D = gates.shape
        undecided = np.full(D, -1)
        empty = tuple(np.zeros(packed.shared.shape) for packed in stats.sums)
        layouts = tuple(Layout(undecided[columns], self.n_states) for columns in self.columns)
        nothing = np.zeros((K, D))
        theta = Theta(
            empty, gates, nothing, nothing, 0.0, stats.states, np.empty(0), nothing, empty,
            layouts, (), 0,
        )  # fmt: skip
        theta, *_ = self.learn_entries(theta, stats, self.gating.share(gates))
        theta = self.learn_choices(
            theta, gates, self.gating.counts(gates, self.weight), stats.states
        )
        return self.dress(theta, undecided)

    # --- bound ---

    def bound(self, theta: Theta, stats: Stats) -> float:
        """Lower bound of the evidence (of the likelihood, for flat priors) at ``theta``."""
        cost = self.gating.cost(theta.gates, theta.log_a, theta.divergence, self.weight)
        return stats.bound - cost - theta.gate_cost - self.state_cost(theta)

    def state_cost(self, theta: Theta) -> float:
        """Divergence of the state priors' posterior."""
        return sum(
            self.state_prior.divergence(theta.state_counts[lo:hi])
            for lo, hi in pairwise(self.first)
        )


@dataclass(frozen=True, eq=False)
class RowwiseMCVQ:
    """The model in which every row has selections of its own.

    ``core`` holds sizes and priors; ``select`` turns logits (along the first axis) into a posterior
    or a draw, for parts and states alike: a softmax is the factorised posterior of JMLR Appendix A,
    a draw is Gibbs sampling for Monte Carlo EM. Each row's states are kept from one sweep to the
    next, so that every update starts where the last one ended. Rows without states begin at likely
    ones or, with ``from_gates``, at those that the columns' gates give, as in the papers.
    """

    core: MCVQ
    select: Selection
    n_rounds: int = 2
    from_gates: bool = False
    remembers: ClassVar[bool] = True

    def fresh_memory(self, index: int) -> Any:
        """No states yet, and the block's own source of randomness if the selection needs one."""
        return None, self.select.generator(index)

    def infer(self, theta: Theta, block: Any) -> tuple[Array, Array]:
        """Posterior of rows that remember nothing, after rounds to settle, and row bounds."""
        m, rng = self._begin(theta, block, self.fresh_memory(0))
        for _ in range(SETTLING_ROUNDS):
            m, _, row_bound = self._select(theta, block, m, rng)
        return m, row_bound

    def expect(self, theta: Theta, block: Any, memory: Any) -> tuple[Any, Stats]:
        """Alternate selections of parts and of states; sums averaged over the rounds of draws."""
        m, rng = self._begin(theta, block, memory)
        rounds = []
        for i in range(self.n_rounds):
            m, chosen, row_bound = self._select(theta, block, m, rng)
            if self.select.averages or i == self.n_rounds - 1:
                rounds.append(self._collect(theta, block, m, chosen, row_bound))
        return (m, rng), Stats.total(rounds).scaled(1.0 / len(rounds))

    def _begin(self, theta: Theta, block: Any, memory: Any) -> tuple[Array, Any]:
        m, rng = memory
        if m is None and self.from_gates:
            m = self.select.states(self.core.infer(theta, block)[0], self.core.first, rng)
        elif m is None:
            m = self._likely_states(theta, block)[0]
        return m, rng

    def propose(self, theta: Theta, block: Any) -> Array:
        """States given the others' likely ones, (S, n): wider than the factorised posterior."""
        return self._likely_states(theta, block)[1]

    def _likely_states(self, theta: Theta, block: Any) -> tuple[Array, Array]:
        """One-hot states (S, n) of high joint density with the row, selections summed out.

        Also the probability of every state given those of the other parts.

        The alternation of parts and states may stay where it begins, so it begins well: from the
        states that averaged gates give, each part in turn takes the state that raises
        sum_d log sum_k a p(x_d | s_k) + log b most.
        """
        core, first = self.core, self.core.first
        states = core.infer(theta, block)[0]
        chosen = np.stack([lo + states[lo:hi].argmax(axis=0) for lo, hi in pairwise(first)])
        log_a = [
            group.spread(theta.log_a[:, columns].astype(block.dtype))
            for group, columns in zip(block.groups, core.columns, strict=True)
        ]
        given = np.empty((first[-1], block.n_rows))
        for _ in range(CLIMBING_ROUNDS):
            for k, (lo, hi) in enumerate(pairwise(first)):
                gain = np.repeat(theta.log_b[lo:hi, None], block.n_rows, axis=1)
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

    def _select(
        self, theta: Theta, block: Any, m: Array, rng: Any
    ) -> tuple[Array, list[Array], Array]:
        """One round: parts given states, then states given parts; what it makes of the bound."""
        first, columns = self.core.first, self.core.columns
        chosen: list[Array] = []
        row_bound = np.zeros(block.n_rows)
        score = np.zeros((int(first[-1]), block.n_rows), block.dtype)
        for g, group in enumerate(block.groups):
            log_a = group.spread(theta.log_a[:, columns[g]].astype(block.dtype))
            G, gained = self.select.parts(log_a, group.expected(m, theta.natural[g], first), rng)
            chosen.append(G * group.observed())
            row_bound += group.row_sums(gained)
            score += group.score_selected(theta.natural[g], chosen[g], first)
        posterior, log_z = self.core.normalise(score, theta.log_b)
        row_bound += self.select.state_bound(m, theta.log_b, log_z)
        return self.select.states(posterior, first, rng), chosen, row_bound

    def _collect(
        self, theta: Theta, block: Any, m: Array, chosen: list[Array], row_bound: Array
    ) -> Stats:
        wm = weighted(m, block.weight)
        gates = np.empty_like(theta.gates)
        sums = []
        for group, columns, G in zip(block.groups, self.core.columns, chosen, strict=True):
            gates[:, columns] = group.sum_selected(G, block.weight)
            sums.append(group.collect_selected(wm, G, self.core.first))
        bound = float(block.weight @ (row_bound + block.base))
        return Stats(bound, wm.sum(axis=1, dtype=float), tuple(sums), gates)

    def maximise(self, theta: Theta, stats: Stats) -> Theta:
        """Parameters from sums that hold the selections; a from the mean selection."""
        core = self.core
        assert stats.gates is not None
        theta, *_ = core.learn_entries(core.undecide(theta), stats, None)
        theta = core.learn_choices(theta, theta.gates, stats.gates, stats.states)
        shares = np.exp(theta.log_a)
        if core.entropic == 0:
            shares = core.gate_prior.mean(stats.gates)
        gates = np.where(core.weight > 0, shares, theta.gates)
        return core.dress(theta._replace(gates=gates), np.full(len(core.weight), -1))

    def refresh(self, theta: Theta) -> Theta | None:
        """No short cuts are taken."""
        return None

    def bound(self, theta: Theta, stats: Stats) -> float:
        """Lower bound; for draws, the log joint density of rows and states, which is none."""
        cost = float(theta.divergence.sum()) + theta.gate_cost
        return stats.bound - cost - self.core.state_cost(theta)


def _one_hot(chosen: Array, n_states: int, dtype: Any) -> Array:
    """States numbered in ``chosen`` (K, n) as posteriors (S, n)."""
    out = np.zeros((n_states, chosen.shape[1]), dtype)
    np.put_along_axis(out, chosen, 1, axis=0)
    return out


def normalise_part(score: Array, log_b: Array) -> Array:
    """Posterior over a part's states (J, n), in place of their scores; log normaliser (n,)."""
    score += log_b.astype(score.dtype)[:, None]
    top = score.max(axis=0)
    score -= top
    np.maximum(score, LEAST_LOG, out=score)
    np.exp(score, out=score)
    total = score.sum(axis=0)
    score /= total
    return top + np.log(total).astype(float)


def weighted(m: Array, weight: Array) -> Array:
    """Posterior times row weights; no copy is made where all weights are one."""
    return m if np.all(weight == 1) else m * weight.astype(m.dtype)
