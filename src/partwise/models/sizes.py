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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import special

from partwise.contracts import Array, Layout, Packed, Stats
from partwise.likelihoods import Dirichlet
from partwise.likelihoods.prior import EntryPrior
from partwise.models.gating import Chooser
from partwise.models.mcvq import MCVQ, Theta

# A posterior below this adds nothing to entropies that are summed in nats.
LEAST_POSTERIOR = 1e-9


class Part(NamedTuple):
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
        return self._replace(columns=columns, sums=tuple(kept))


@dataclass(frozen=True, eq=False)
class Judge:
    """Evidence of the states of some columns; ``priors`` are one a group."""

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
        groups = [[j] for j in range(part.n_states)]
        sums, counts, overlap = part.sums, part.counts, part.overlap
        alone = self.entries(sums)
        joint = np.stack([self._joint(sums, i) for i in range(len(groups))])
        while len(groups) > least:
            gains = joint - alone - alone[:, None] - overlap + self._choices(counts)
            np.fill_diagonal(gains, -np.inf)
            i, j = sorted(int(v) for v in np.unravel_index(np.argmax(gains), gains.shape))
            if gains[i, j] <= 0 and (most is None or len(groups) <= most):
                break
            now = added(Part(part.columns, sums, counts, overlap), _one_pair(i, j, len(groups)))
            sums, counts, overlap = now.sums, now.counts, now.overlap
            groups[i] += groups.pop(j)
            alone, joint = np.delete(alone, j), np.delete(np.delete(joint, j, 0), j, 1)
            joint[i] = joint[:, i] = self._joint(sums, i)
            alone[i] = self.entries([s[:, i : i + 1] for s in sums])[0]
        return groups

    def _joint(self, sums: Sequence[Array], i: int) -> Array:
        """Evidence of the entries of state i and every other, were they one; (J,)."""
        return self.entries([s[:, i : i + 1] + s for s in sums])

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


def _one_pair(i: int, j: int, J: int) -> list[list[int]]:
    return [[k, j] if k == i else [k] for k in range(J) if k != j]


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


def assembled(core: MCVQ, parts: Sequence[Part], background: Part) -> tuple[MCVQ, Theta]:
    """The model of these parts, columns held where they are, and its parameters.

    Columns of none of the parts are the background's, whatever they were; ``background`` holds the
    sums of all columns.
    """
    n_states = (*(part.n_states for part in parts), 1)
    owner = np.full(core.n_columns, len(parts))
    for k, part in enumerate(parts):
        owner[part.columns] = k
    rest = background.of_columns(core, np.flatnonzero(owner == len(parts)))
    every = [*parts, rest]
    sums = []
    for g, prior in enumerate(core.priors):
        own = [part.sums[g] for part in every]
        wide = [np.pad(s, ((0, 0), (0, max(n_states) - s.shape[1]), (0, 0))) for s in own]
        P = prior.likelihood.n_statistics
        sums.append(Packed(np.concatenate(wide, axis=2), np.zeros((P, sum(n_states), 0))))
    counts = np.concatenate([part.counts for part in every])
    stats = Stats(0.0, counts[None], tuple(sums))
    core = replace(core, n_states=n_states, chooser=replace(core.chooser, held=True, barred=None))
    gates = (owner == np.arange(len(every))[:, None]).astype(float)
    return core, core.start(stats, gates, owner)


@dataclass(frozen=True, eq=False)
class Survey:
    """Sums over rows, overlaps of the states of a part, and joint counts of all states (S, S)."""

    stats: Stats
    overlap: Array
    together: Array

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.stats + other.stats,
            self.overlap + other.overlap,
            self.together + other.together,
        )


def parts_of(core: MCVQ, layouts: Sequence[Layout], stats: Stats, overlap: Array) -> list[Part]:
    """Parts of decided columns, the background (the last) left out."""
    out = []
    for k, (lo, hi) in enumerate(list(pairwise(layouts[0].first))[:-1]):
        spans = [slice(layout.bounds[k], layout.bounds[k + 1]) for layout in layouts]
        columns = [
            group[layout.order[span]]
            for group, layout, span in zip(core.columns, layouts, spans, strict=True)
        ]
        sums = tuple(
            packed.own[:, : hi - lo, span] for packed, span in zip(stats.sums, spans, strict=True)
        )
        own = overlap[lo:hi, lo:hi]
        out.append(Part(np.sort(np.concatenate(columns)), sums, stats.states[0, lo:hi], own))
    return out


def survey(core: MCVQ, theta: Theta, block: Any) -> Survey:
    """What a block's posteriors sum to."""
    m, stats = core.expect(theta, block, None)
    overlap = np.zeros((len(m), len(m)))
    for lo, hi in pairwise(core.first):
        add_overlaps(m[lo:hi], block.weight, overlap[lo:hi, lo:hi])
    together = (m * block.weight).astype(float) @ m.astype(float).T
    return Survey(stats, overlap, together)


@numba.njit(nogil=True, cache=True)
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
