"""Evidence of parts and states from the sums at hand, and what merging states does to it.

Where every column has one part, the bound of the tied model splits over the parts. With a part's
posteriors m held and its parameters at their best, its share is

    sum_jd log Z(chi0 + s_jd) / Z(chi0)  +  sum_c w H(m_c)  +  log p(n | Dirichlet)

of the sums s of its own columns, the entropy of its posteriors and its counts n; the choice of a
part costs every column the same. So a change that keeps posteriors, or adds some of them up, is
judged without another look at the data, and no step that follows makes it worse.

=======  ==========  ==========  =======================================================
symbol   code        shape       meaning
=======  ==========  ==========  =======================================================
s        sums        (P, J, H)   sums of T(x) of the part's own columns, a group
n        counts      (J,)        expected rows of every state
-        overlap     (J, J)      entropy of a state's posteriors; of two, what adding loses
=======  ==========  ==========  =======================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from partwise._compiled import compiled
from partwise.contracts import Array, Block, Layout, Packed, Span, Stats
from partwise.likelihoods import Dirichlet
from partwise.likelihoods.prior import EntryPrior
from partwise.models.gating import Chooser
from partwise.models.mcvq import MCVQ, expect_states
from partwise.models.weights import weighted

# A posterior below this adds nothing to entropies that are summed in nats.
LEAST_POSTERIOR = 1e-9


@dataclass(frozen=True, eq=False)
class Part:
    """A part by what its rows' posteriors sum to."""

    columns: Array  # (H,), ascending
    sums: tuple[Array, ...]  # per group (P, J, H_g)
    counts: Array  # (J,)
    overlap: Array  # (J, J)

    @property
    def n_states(self) -> int:
        """J."""
        return len(self.counts)

    def of_columns(self, core: MCVQ, columns: Array) -> Part:
        """The same states of some of its columns."""
        kept = []
        for group, sums in zip(core.columns, self.sums, strict=True):
            own = group[np.isin(group, self.columns)]
            kept.append(sums[:, :, np.isin(own, columns)])
        return replace(self, columns=columns, sums=tuple(kept))


@dataclass(frozen=True, eq=False)
class Judge:
    """Evidence of the states of some columns; ``priors`` has one per group."""

    priors: tuple[EntryPrior, ...]
    states: Dirichlet

    @classmethod
    def of(cls, core: MCVQ, columns: Array) -> Judge:
        """For columns of a model."""
        priors = [
            prior.take(np.flatnonzero(np.isin(group, columns)))
            for prior, group in zip(core.priors, core.columns, strict=True)
        ]
        return cls(tuple(priors), core.state_prior)

    def entries(self, sums: Sequence[Array]) -> Array:
        """Log evidence of the entries of every state, (J,)."""
        pieces = [p.evidence(s).sum(axis=-1) for p, s in zip(self.priors, sums, strict=True)]
        return np.sum(pieces, axis=0)

    def worth(self, part: Part) -> float:
        """Share of the bound, but for the base measure and the choice of columns."""
        chosen = self.states.evidence(part.counts) + np.trace(part.overlap)
        return float(self.entries(part.sums).sum() + chosen)

    def merged(self, part: Part, least: int = 1, most: int | None = None) -> Part:
        """Add up the two states that gain most, again and again.

        While any two gain and more than ``least`` are left, or while more than ``most`` are.
        """
        return added(part, self.groups(part, least, most))

    def groups(self, part: Part, least: int = 1, most: int | None = None) -> list[list[int]]:
        """States that `merged` adds up."""
        groups = {j: [j] for j in range(part.n_states)}
        if len(groups) <= least:
            return list(groups.values())
        for i, j, gain in self.merges(part):
            if gain <= 0 and (most is None or len(groups) <= most):
                break
            groups[i] += groups.pop(j)
            if len(groups) <= least:
                break
        return list(groups.values())

    def merges(self, part: Part) -> Iterator[tuple[int, int, float]]:
        """The two states i < j whose sum gains most, with the gain in nats; then i is their sum."""
        kept = list(range(part.n_states))
        sums, counts = [s.copy() for s in part.sums], part.counts.copy()
        overlap, alone = part.overlap.copy(), self.entries(part.sums)
        joint = np.stack([self._joint(sums, i, slice(None)) for i in kept])
        while len(kept) > 1:
            left = np.array(kept)
            square = np.ix_(left, left)
            gains = joint[square] - alone[left] - alone[left, None] - overlap[square]
            gains += self._choices(counts[left])
            np.fill_diagonal(gains, -np.inf)
            best = np.unravel_index(np.argmax(gains), gains.shape)
            i, j = sorted(left[list(best)].tolist())
            yield i, j, float(gains[best])
            kept.remove(j)
            counts[i] += counts[j]
            for s in sums:
                s[:, i] += s[:, j]
            overlap[i] += overlap[j]
            overlap[:, i] = overlap[i]
            left = np.array(kept)
            joint[i, left] = joint[left, i] = self._joint(sums, i, left)
            alone[i] = self.entries([s[:, [i]] for s in sums])[0]

    def _joint(self, sums: Sequence[Array], i: int, others: Span | Array) -> Array:
        """Evidence of the entries of state i and every other, were they one."""
        return self.entries([s[:, [i]] + s[:, others] for s in sums])

    def _choices(self, counts: Array) -> Array:
        """What the choice of states gains when two are one, (J, J)."""
        c, J, total = self.states.concentration, len(counts), counts.sum()
        alone = special.gammaln(counts + c)
        fewer = [
            special.gammaln(n * c) - special.gammaln(total + n * c) - n * special.gammaln(c)
            for n in (J - 1, J)
        ]
        both = special.gammaln(counts + counts[:, None] + c)
        return both - alone - alone[:, None] + fewer[0] - fewer[1]


def added(part: Part, groups: Sequence[Sequence[int]]) -> Part:
    """The part with some of its states added up."""
    which = np.zeros((len(groups), part.n_states))
    for new, old in enumerate(groups):
        which[new, list(old)] = 1.0
    # Of more than two the loss is not quite the sum of the pairs'; the next look at the rows tells.
    lost = which @ (part.overlap - np.diag(np.diag(part.overlap))) @ which.T
    own = which @ np.diag(part.overlap) - 0.5 * np.diag(lost)
    np.fill_diagonal(lost, own)
    sums = tuple(np.einsum("nj,pjd->pnd", which, s) for s in part.sums)
    return Part(part.columns, sums, which @ part.counts, lost)


def padded(part: Part, least: int) -> Part:
    """The part with at least so many states, those without rows if need be."""
    more = max(least - part.n_states, 0)
    sums = tuple(np.pad(s, ((0, 0), (0, more), (0, 0))) for s in part.sums)
    return Part(part.columns, sums, np.pad(part.counts, (0, more)), np.pad(part.overlap, (0, more)))


def column_cost(chooser: Chooser, n_parts: int) -> float:
    """What it costs a column to choose one of so many parts."""
    one = replace(chooser, weight=np.ones(1), barred=None)
    gates = one.learn(np.eye(n_parts)[:, :1])
    return one.cost(gates, np.zeros((n_parts, 1)))


class HeldParams(NamedTuple):
    """Parameters of parts whose columns are held, as blocks need them."""

    weights: tuple[Packed, ...]
    log_b: Array  # (S,)
    cost: float  # what parameters and the choice of states take off the bound

    @property
    def params(self) -> HeldParams:
        """They are prepared as they are."""
        return self


@dataclass(frozen=True, eq=False)
class HeldParts:
    """The model with every column in one part for good: other parts' parameters are not kept.

    The last part is the background. Its bound lacks the choice of the columns' parts.
    """

    core: MCVQ
    layouts: tuple[Layout, ...]
    needs: ClassVar[tuple[type, ...]] = ()
    remembers: ClassVar[bool] = False

    def fresh_memory(self, index: int) -> None:
        """Rows keep nothing from one sweep to the next."""
        return

    def prepare(self, params: HeldParams) -> HeldParams:
        """Parameters are prepared as they are."""
        return params

    def begin(self, params: HeldParams) -> HeldParams:
        """Parameters are prepared as they are."""
        return params

    def expect(
        self, params: HeldParams, block: Block[object], memory: object = None
    ) -> tuple[Array, Stats]:
        """Posterior of the rows' states (S, n), and its sums."""
        return expect_states(self.core.first, params.log_b, params.weights, self.layouts, block)

    def maximize(self, params: HeldParams, stats: Stats) -> HeldParams:
        """Parameters from the sums."""
        return self.learn(stats)

    def learn(self, stats: Stats) -> HeldParams:
        """Parameters from the sums alone."""
        cost, weights = 0.0, []
        for prior, layout, packed in zip(self.core.priors, self.layouts, stats.sums, strict=True):
            own = prior.take(layout.decided)
            eta, divergence = own.learned(own.posterior(packed.own))
            real = layout.own_states >= 0
            cost += float(divergence[real].sum())
            eta = np.where(real, eta, 0.0).astype(self.core.dtype)
            weights.append(Packed(eta, np.zeros((len(eta), layout.first[-1], 0), eta.dtype)))
        states = self.core.parts_of(stats.states)
        cost += sum(prior.divergence(counts.T) for prior, counts in states)
        log_b = [prior.expected_log(counts.T)[:, 0] for prior, counts in states]
        return HeldParams(tuple(weights), np.concatenate(log_b), cost)

    def bound(self, params: HeldParams, stats: Stats) -> float:
        """Lower bound of the evidence, but for the choice of parts."""
        return stats.bound - params.cost

    def thorough(self, params: HeldParams) -> None:
        """Nothing is cut short."""
        return


def laid_out(core: MCVQ, columns: Sequence[Array], sizes: Sequence[int]) -> HeldParts:
    """The model of parts with these columns and numbers of states; the rest is background."""
    owner = np.full(core.n_columns, len(columns))
    for k, own in enumerate(columns):
        owner[own] = k
    n_states = (*sizes, 1)
    layouts = tuple(Layout(owner[group], n_states) for group in core.columns)
    return HeldParts(replace(core, n_states=n_states), layouts)


def assembled(core: MCVQ, parts: Sequence[Part], background: Part) -> tuple[HeldParts, HeldParams]:
    """The model of these parts, and its parameters.

    ``background`` holds the sums of all columns on their own.
    """
    model = laid_out(core, [part.columns for part in parts], [part.n_states for part in parts])
    taken = np.concatenate([np.empty(0, int), *(part.columns for part in parts)])
    rest = background.of_columns(core, np.setdiff1d(background.columns, taken))
    sums = []
    for g, (prior, layout) in enumerate(zip(core.priors, model.layouts, strict=True)):
        J, own = max(layout.n_states), [part.sums[g] for part in (*parts, rest)]
        wide = [np.pad(s, ((0, 0), (0, J - s.shape[1]), (0, 0))) for s in own]
        nothing = np.zeros((prior.likelihood.n_statistics, layout.first[-1], 0))
        sums.append(Packed(np.concatenate(wide, axis=2), nothing))
    counts = np.concatenate([part.counts for part in (*parts, rest)])
    return model, model.learn(Stats(0.0, counts[None], tuple(sums)))


@dataclass(frozen=True, eq=False)
class Survey:
    """Sums over rows, and overlaps of the states of a part, (S, S)."""

    stats: Stats
    overlap: Array

    def __add__(self, other: Survey) -> Survey:
        return Survey(self.stats + other.stats, self.overlap + other.overlap)


def parts_of(model: HeldParts, stats: Stats, overlap: Array) -> list[Part]:
    """Parts by their sums, the background left out."""
    out, layouts = [], model.layouts
    for k, (lo, hi) in enumerate(list(pairwise(model.core.first))[:-1]):
        spans = [slice(layout.bounds[k], layout.bounds[k + 1]) for layout in layouts]
        columns = [
            group[layout.order[span]]
            for group, layout, span in zip(model.core.columns, layouts, spans, strict=True)
        ]
        sums = tuple(
            packed.own[:, : hi - lo, span] for packed, span in zip(stats.sums, spans, strict=True)
        )
        own = overlap[lo:hi, lo:hi]
        out.append(Part(np.sort(np.concatenate(columns)), sums, stats.states[0, lo:hi], own))
    return out


def summed(model: HeldParts, m: Array, block: Block[object], everywhere: bool = False) -> Survey:
    """What posteriors (S, n) of a block's rows sum to, in their parts' own columns or in all."""
    layouts = model.layouts
    if everywhere:
        layouts = tuple(Layout(np.full_like(own.parts, -1), own.n_states) for own in layouts)
    wm = weighted(m, block.weight)
    counts = wm.sum(axis=1, dtype=float)[None]
    return Survey(Stats(0.0, counts, block.collect(wm, layouts)), overlaps(model, m, block))


def overlaps(model: HeldParts, m: Array, block: Block[object]) -> Array:
    """Overlaps of the states of every part, (S, S)."""
    out = np.zeros((len(m), len(m)))
    for lo, hi in pairwise(model.core.first):
        own = np.zeros((hi - lo, hi - lo))
        add_overlaps(np.ascontiguousarray(m[lo:hi]), block.weight, own)
        out[lo:hi, lo:hi] = own
    return out


def survey(model: HeldParts, params: HeldParams, block: Block[object]) -> Survey:
    """What a block's posteriors under the parameters sum to."""
    m, stats = model.expect(params, block)
    return Survey(stats, overlaps(model, m, block))


def together(model: HeldParts, params: HeldParams, block: Block[object]) -> Array:
    """Rows in two states at once, (S, S)."""
    m, _ = model.expect(params, block)
    return (m @ weighted(m, block.weight).T).astype(float)


@compiled()
def add_overlaps(m, weight, out):  # type: ignore[no-untyped-def]  # compiled
    """Add a state's entropy, and for two states what their sum has less; m (J, n), out (J, J)."""
    J, n = m.shape
    seen = np.empty(J, np.int64)
    for c in range(n):
        many = 0
        for j in range(J):
            if m[j, c] > LEAST_POSTERIOR:
                seen[many] = j
                many += 1
        for a in range(many):
            i = seen[a]
            p = float(m[i, c])
            out[i, i] -= weight[c] * p * np.log(p)
            for b in range(a):
                j = seen[b]
                q = float(m[j, c])
                lost = (p + q) * np.log(p + q) - p * np.log(p) - q * np.log(q)
                out[i, j] += weight[c] * lost
                out[j, i] += weight[c] * lost
