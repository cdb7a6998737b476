"""Multiple Cause Vector Quantization (Ross & Zemel 2002, 2006).

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
Missing entries are ignored. Departures from the papers: the log density keeps its 2 pi;
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
from typing import ClassVar, Self

import numpy as np

from partwise.contracts import Array, Block, DType, Layout, Packed, Selections, Source, Stats
from partwise.likelihoods import Dirichlet
from partwise.likelihoods.prior import EntryPrior
from partwise.models.class_tree import Links
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Gates
from partwise.models.likely_states import climb_states
from partwise.models.selection import Randomness, draw
from partwise.models.state_classes import StateClasses, Weighed, exponentiate
from partwise.models.weights import weighted

# Gates below this tell nothing about the sums that they weighed.
LEAST_SHARE = 1e-8


@dataclass(frozen=True, eq=False)
class MCVQParams:
    """What is learned."""

    n_states: tuple[int, ...]  # of every part
    chi: tuple[Array, ...]  # per group (P, S, D_g)
    gate: Gates  # g, a and what they cost
    state_counts: Array  # expected rows of each class in each state, (N, S)
    log_b: Array  # (N, S)
    log_beta: Array  # (N,)
    chain: Array | None = None  # of classes in sequence: starts, then transitions, (N + 1, N)
    links: Links | None = None  # of classes of groups of parts; N is then their number, beta (T,)

    def with_chain(self, chain: Array) -> MCVQParams:
        """The same with other starts and transitions of classes in sequence."""
        return replace(self, chain=chain)

    @property
    def gates(self) -> Array:
        """g, (K, D)."""
        return self.gate.g


@dataclass(frozen=True, eq=False)
class MCVQPrepared:
    """Parameters, and what follows from them in the form that blocks and M-steps need."""

    params: MCVQParams
    natural: tuple[Array, ...]  # per group (P, S, D_g)
    divergence: Array  # of the entries' parameters, summed over a part's states, (K, D)
    age: int  # sweeps since all parts were looked at
    layouts: tuple[Layout, ...]
    weights: tuple[Packed, ...]  # natural times gates, packed, in the data's dtype

    def with_chain(self, chain: Array) -> MCVQPrepared:
        """The same with other starts and transitions of classes in sequence."""
        return replace(self, params=self.params.with_chain(chain))


@dataclass(frozen=True, eq=False)
class MCVQ(StateClasses):
    """The model with one posterior of the parts for all rows (standard, tied, annealed).

    Parameters
    ----------
    n_states : tuple of K int
    priors : tuple of EntryPrior, one per column group
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
    dtype: DType
    needs: ClassVar[tuple[type, ...]] = ()
    remembers: ClassVar[bool] = False

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
    def open_layouts(self) -> tuple[Layout, ...]:
        """Layouts of all groups in which no column is decided."""
        return tuple(Layout(np.full(len(own), -1), self.n_states) for own in self.columns)

    @cached_property
    def part_of(self) -> Array:
        """Part of each state, (S,)."""
        return np.repeat(np.arange(len(self.n_states)), self.n_states)

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """Rows keep nothing from one sweep to the next."""
        return

    def infer(self, prepared: MCVQPrepared, block: Block[object]) -> tuple[Array, Array]:
        """m[kj] proportional to b exp(sum_d o g E[log p]), (S, n); the log normalizer, (n,)."""
        m = self.evidence(prepared, block)
        found = self.weigh(prepared.params, m, block.labels)
        self.mix(m, found, block.weight)
        return m, found.log_z

    def propose(self, prepared: MCVQPrepared, block: Block[object]) -> Array:
        """States to sample when a row's likelihood is estimated, in each class; (N, S, n)."""
        given, paths = self.given_classes(prepared.params, self.evidence(prepared, block))
        if paths is None:
            return given
        links = prepared.params.links
        assert links is not None
        pieces = [
            np.einsum("tzn,zsn->tsn", paths[g], given[:, lo:hi])
            for g, (lo, hi) in zip(links.groups, pairwise(self.first), strict=True)
        ]
        return np.concatenate(pieces, axis=1)

    def evidence(self, prepared: MCVQPrepared, block: Block[object]) -> Array:
        """What the entries say about the states, sum_d o g E[log p]; (S, n)."""
        return block.score(prepared.weights, prepared.layouts)

    def expect(
        self, prepared: MCVQPrepared, block: Block[object], memory: object
    ) -> tuple[Array, Stats]:
        """Posterior of the rows' states, and its sums."""
        params, weights, layouts = prepared.params, prepared.weights, prepared.layouts
        if self.classes.n_classes == 1:
            return expect_states(self.first, params.log_b[0], weights, layouts, block)
        # The class depends on all parts, so all are scored first.
        m = self.evidence(prepared, block)
        found = self.weigh(params, m, block.labels)
        counts = self.mix(m, found, block.weight)
        sums = block.collect(weighted(m, block.weight), layouts)
        return m, Stats(float(block.weight @ (found.log_z + block.base)), counts, sums)

    def sampled(self, m: Array, found: Weighed | None, rng: Randomness) -> Array:
        """One-hot states sampled from posteriors (S, n)."""
        return np.concatenate([draw(m[lo:hi], rng) for lo, hi in pairwise(self.first)])

    def row_features(self, m: Array) -> Array:
        """What tells rows apart, for clustering; (n, S)."""
        return m.T

    def likely_rows(self, prepared: MCVQPrepared, block: Block[Selections]) -> Array:
        """One-hot states (S, n) to begin with where rows select parts for themselves."""
        return self._climb_states(prepared, block)[0]

    def beginnings(self, prepared: MCVQPrepared, block: Block[Selections]) -> list[Array]:
        """Several such states, for rows that remember nothing: the best end is not known before."""
        likely = self.likely_rows(prepared, block)
        if len(self.n_states) == 1:
            return [likely]
        return [likely, climb_states(*self._of_states(prepared), block)[0]]

    def wide_rows(
        self, prepared: MCVQPrepared, block: Block[Selections], settled: Callable[[], Array]
    ) -> Array:
        """As `propose`, given the other parts' likely states: wider than what settled."""
        given = self._climb_states(prepared, block)[1]
        for lo, hi in pairwise(self.first):
            normalize_part(given[lo:hi], np.zeros(hi - lo))
        return np.broadcast_to(given, (self.classes.n_classes, *given.shape))

    def _climb_states(
        self, prepared: MCVQPrepared, block: Block[Selections]
    ) -> tuple[Array, Array]:
        """Likely states, begun with those that averaged gates give."""
        states = self.infer(prepared, block)[0]
        begin = np.stack([lo + states[lo:hi].argmax(axis=0) for lo, hi in pairwise(self.first)])
        return climb_states(*self._of_states(prepared), block, begin)

    def _of_states(
        self, prepared: MCVQPrepared
    ) -> tuple[Array, Array, list[Array], tuple[Array, ...]]:
        """What `climb_states` needs of the parameters."""
        params = prepared.params
        log_b = np.logaddexp.reduce(params.log_b + params.log_beta[:, None], axis=0)
        log_a = [params.gate.log_a[:, columns] for columns in self.columns]
        return self.first, log_b, log_a, prepared.natural

    # --- M-step ---

    def maximize(self, prepared: MCVQPrepared, stats: Stats) -> MCVQPrepared:
        """Parameters, then gates, then priors: each step raises the bound."""
        after = self._learn_columns(prepared, stats)
        params = self.learn_states(after.params, stats.states)
        return self._packed(
            replace(after, params=params), self.chooser.decided(params.gate, after.age)
        )

    def maximize_running(self, prepared: MCVQPrepared, stats: Stats) -> MCVQPrepared:
        """The same from running sums, in which no column is decided."""
        return self.maximize(prepared, stats)

    def sums_of(self, params: MCVQParams) -> Stats:
        """Sums, no column decided, that would have given these parameters."""
        sums = []
        share = self.chooser.gating.share(params.gates)
        for prior, columns, chi in zip(self.priors, self.columns, params.chi, strict=True):
            found = prior.sums(chi)
            if share is not None:  # what a part did not explain is forgotten
                own = share[self.part_of][:, columns]
                found = np.where(own > LEAST_SHARE, found / np.maximum(own, LEAST_SHARE), 0.0)
            sums.append(Packed(np.zeros((len(chi), max(self.n_states), 0)), found))
        return Stats(0.0, params.state_counts, tuple(sums))

    def learn_columns(self, prepared: MCVQPrepared, stats: Stats) -> MCVQParams:
        """Parameters of the entries, then gates."""
        return self._learn_columns(prepared, stats).params

    def _learn_columns(self, prepared: MCVQPrepared, stats: Stats) -> MCVQPrepared:
        """The same with all but weights and layouts, which are those before."""
        share = self.chooser.gating.share(prepared.params.gates)
        after, gain, looked_at = _learn_entries(self, prepared, stats, share)
        gate = self.chooser.choose(after.params.gate, gain, after.divergence, looked_at)
        return replace(
            after,
            params=replace(after.params, gate=gate),
            age=0 if looked_at.all() else prepared.age + 1,
        )

    def maximize_selected(self, prepared: MCVQPrepared, stats: Stats) -> MCVQPrepared:
        """The same where every row selected parts for itself, the selections being in the sums."""
        assert stats.gates is not None
        after, *_ = _learn_entries(self, self.open_all_gates(prepared), stats, None)
        params = self.learn_states(after.params, stats.states)
        params = replace(params, gate=self.chooser.select(params.gate, stats.gates))
        return self._packed(replace(after, params=params), self.all_undecided)

    def parameters(
        self, chi: Sequence[Array], gate: Gates, counts: Array, links: Links | None = None
    ) -> MCVQParams:
        """Parameters with these pseudo-sums, gates, and classes' counts of states (N, S)."""
        log_b = [prior.expected_log(c.T).T for prior, c in self.parts_of(counts)]
        log_beta = self.classes.learn(self.class_counts(counts, links))
        priors = np.concatenate(log_b, axis=1), log_beta
        return MCVQParams(self.n_states, tuple(chi), gate, counts, *priors, links=links)

    def learn_states(self, params: MCVQParams, counts: Array) -> MCVQParams:
        """Priors of states and classes from the sums that `mix` gives."""
        linked, links = self.linked(params.links), params.links
        if linked is not None:
            counts, links = linked.split(counts)
        learned = self.parameters(params.chi, params.gate, counts, links)
        return replace(learned, chain=params.chain)

    def finish(self, params: MCVQParams) -> MCVQParams:
        """Nothing is left to do after a fit."""
        return params

    def without_cells(self, seen: Source, holed: Source) -> Self:
        """The model for rows of ``holed`` instead of ``seen``, sources of rows."""
        weight = self.chooser.weight + holed.column_weight() - seen.column_weight()
        return replace(self, chooser=replace(self.chooser, weight=np.maximum(weight, 0.0)))

    def with_classes(self, classes: ClassVariable) -> Self:
        """The model with another class variable."""
        return replace(self, classes=classes)

    def with_chooser(self, chooser: Chooser) -> Self:
        """The model whose columns choose parts in another way."""
        return replace(self, chooser=chooser)

    def without_classes(self) -> Self:
        """The same model with one class."""
        return replace(self, classes=ClassVariable())

    def class_counts(self, counts: Array, links: Links | None = None) -> Array:
        """Summed weight of every class's rows, (N,), from counts of states (N, S)."""
        if links is not None:
            return links.counts[0].sum(axis=1)
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

    def widened(self, params: MCVQParams, own: Array, place: Array) -> MCVQParams:
        """Columns ``own`` of a model, put at ``place``, the other columns at their prior."""
        nothing = np.zeros((len(params.chi[0]), self.first[-1], self.n_columns))
        chi = self.priors[0].posterior(nothing)
        chi[:, :, place] = params.chi[0][:, :, own]
        gates = np.full((len(self.n_states), self.n_columns), 1.0 / len(self.n_states))
        gates[:, place] = params.gates[:, own]
        return replace(params, chi=(chi,), gate=self.chooser.learn(gates))

    def joined(self, params: MCVQParams, other: MCVQParams, new: Array) -> MCVQParams:
        """Parameters with the columns ``new`` of others."""
        chi, gates = params.chi[0].copy(), params.gates.copy()
        chi[:, :, new], gates[:, new] = other.chi[0][:, :, new], other.gates[:, new]
        return replace(params, chi=(chi,), gate=self.chooser.learn(gates))

    def by_part(self, per_state: Array) -> Array:
        """Sum (S, ...) over each part's states; (K, ...)."""
        return np.add.reduceat(per_state, self.first[:-1], axis=0)

    def times(self, values: Array, per_part: Array, dtype: DType | None = None) -> Array:
        """Values (P, S, D) times those of the states' parts, (K, D), in the same memory order."""
        by_column = values.strides[1] < values.strides[2]
        factor = per_part.T.take(self.part_of, axis=1).T if by_column else per_part[self.part_of]
        out = np.empty_like(values, dtype=dtype)
        return np.multiply(values, factor, out=out, casting="same_kind")

    def start(self, stats: Stats, gates: Array) -> MCVQParams:
        """First parameters, from sums of first posteriors (all columns undecided) and gates."""
        # An open gate means work for whoever sums over parts.
        gates = np.where(self.unseen, np.arange(len(gates))[:, None] == len(gates) - 1, gates)
        share = self.chooser.gating.share(gates)
        chi = []
        for prior, columns, packed in zip(self.priors, self.columns, stats.sums, strict=True):
            sums = packed.shared
            if share is not None:
                sums = self.times(sums, share[:, columns])
            chi.append(prior.posterior(sums))
        return self.parameters(chi, self.chooser.learn(gates), stats.states)

    # --- what blocks need ---

    def prepare(self, params: MCVQParams) -> MCVQPrepared:
        """What blocks need to infer rows with; columns with closed gates cost their part alone."""
        return self._prepared(params, self.chooser.decided(params.gate, 0))

    def begin(self, params: MCVQParams) -> MCVQPrepared:
        """The same to learn with: all parts of all columns are looked at in the first sweep."""
        return self._prepared(params, self.all_undecided)

    def thorough(self, prepared: MCVQPrepared) -> MCVQPrepared | None:
        """All gates open, or None if the last step saw all parts."""
        return None if prepared.age == 0 else self.open_all_gates(prepared)

    def open_all_gates(self, prepared: MCVQPrepared) -> MCVQPrepared:
        """The same parameters, all parts of all columns looked at in the next sweep."""
        if all(len(layout.decided) == 0 for layout in prepared.layouts):
            return prepared
        return self._packed(prepared, self.all_undecided)

    def _prepared(self, params: MCVQParams, parts: Array) -> MCVQPrepared:
        natural, divergence = [], np.zeros((len(self.n_states), self.n_columns))
        for prior, columns, c in zip(self.priors, self.columns, params.chi, strict=True):
            eta, cost = prior.learned(c)
            natural.append(eta)
            divergence[:, columns] = self.by_part(cost)
        weights = self._weights(params.gates, natural, parts, self.open_layouts)
        return MCVQPrepared(params, tuple(natural), divergence, 0, *weights)

    def _packed(self, prepared: MCVQPrepared, parts: Array) -> MCVQPrepared:
        """Layouts and weights that follow from the rest, columns decided for ``parts`` (D,)."""
        gates, natural = prepared.params.gates, prepared.natural
        layouts, weights = self._weights(gates, natural, parts, prepared.layouts)
        return replace(prepared, layouts=layouts, weights=weights)

    def _weights(
        self, gates: Array, natural: Sequence[Array], parts: Array, before: Sequence[Layout]
    ) -> tuple[tuple[Layout, ...], tuple[Packed, ...]]:
        layouts, weights = [], []
        for columns, eta, last in zip(self.columns, natural, before, strict=True):
            layout = last.divided(parts[columns])
            own, shared = layout.pack(eta)
            shared = self.times(shared, gates[:, columns[layout.undecided]], self.dtype)
            layouts.append(layout)
            weights.append(Packed(own.astype(self.dtype), shared))
        return tuple(layouts), tuple(weights)

    # --- bound ---

    def bound(self, prepared: MCVQPrepared, stats: Stats) -> float:
        """Lower bound of the evidence (of the likelihood, for flat priors) at the parameters."""
        cost = self.chooser.cost(prepared.params.gate, prepared.divergence)
        return stats.bound - cost - self.choice_cost(prepared.params)

    def bound_selected(self, prepared: MCVQPrepared, stats: Stats) -> float:
        """The same where every row selected parts for itself."""
        cost = float(prepared.divergence.sum()) + prepared.params.gate.cost
        return stats.bound - cost - self.choice_cost(prepared.params)

    def choice_cost(self, params: MCVQParams) -> float:
        """Divergence of the state and class priors' posteriors."""
        states = sum(prior.divergence(c.T) for prior, c in self.parts_of(params.state_counts))
        total = states + self.classes.cost(self.class_counts(params.state_counts, params.links))
        linked = self.linked(params.links)
        return total if linked is None else total + linked.cost

    def state_density(self, params: MCVQParams, m: Array, labels: Array | None) -> Array:
        """Log prior of one-hot states (S, n), the class summed out unless known; (n,)."""
        evidence = params.log_beta[:, None] + params.log_b @ m
        return self.classes.posterior(evidence, labels)[1]


def expect_states(
    first: Array,
    log_b: Array,
    weights: Sequence[Packed],
    layouts: Sequence[Layout],
    block: Block[object],
) -> tuple[Array, Stats]:
    """Posterior of the rows' states (S, n) and its sums, without classes; ``log_b`` is (S,)."""
    log_z, counts = np.zeros(block.n_rows), np.empty((1, first[-1]))

    def on_part(k: int, score: Array) -> Array:
        part = slice(first[k], first[k + 1])
        log_z[:] += normalize_part(score, log_b[part])
        wm = weighted(score, block.weight)
        counts[0, part] = wm.sum(axis=1, dtype=float)
        return wm

    m, sums = block.sweep(weights, layouts, on_part)
    return m, Stats(float(block.weight @ (log_z + block.base)), counts, sums)


def normalize_part(score: Array, log_b: Array) -> Array:
    """Posterior over a part's states (J, n), in place of their scores; log normalizer (n,)."""
    top = exponentiate(score, log_b)
    total = score.sum(axis=0)
    score /= total
    return top + np.log(total).astype(float)


def _learn_entries(
    model: MCVQ, prepared: MCVQPrepared, stats: Stats, share: Array | None
) -> tuple[MCVQPrepared, Array, Array]:
    """Posteriors of the entries' parameters from the sums, weighted by ``share`` (K, D).

    Also the expected log-likelihood of every column under every part, (K, D), and the columns
    for which that is known, all parts having been looked at.
    """
    params = prepared.params
    gain = np.zeros_like(params.gates)
    looked_at = model.unseen.copy()
    divergence = prepared.divergence.copy()
    chis, naturals = [], []
    for g, (columns, layout, packed) in enumerate(
        zip(model.columns, prepared.layouts, stats.sums, strict=True)
    ):
        own_columns, columns = columns[layout.decided], columns[layout.undecided]
        chi, eta = packed.shared, packed.shared  # of no columns, if none is undecided
        if len(columns):
            prior = model.priors[g].take(layout.undecided)
            sums = packed.shared
            if share is not None:
                sums = model.times(sums, share[:, columns])
            chi = prior.posterior(sums)
            eta, cost = prior.learned(chi)
            gain[:, columns] = model.by_part(np.einsum("psd,psd->sd", eta, packed.shared))
            divergence[:, columns] = model.by_part(cost)
            looked_at[columns] = True
        own_chi, own_eta = packed.own, packed.own
        if len(own_columns):
            # A decided column's gate is one, so its own part's sums count whole.
            prior = model.priors[g].take(layout.decided)
            own_chi = prior.posterior(packed.own)
            own_eta, cost = prior.learned(own_chi)
            own = np.where(layout.own_states >= 0, cost, 0.0)
            divergence[layout.parts[layout.decided], own_columns] = own.sum(axis=0)
        chis.append(layout.unpack(Packed(own_chi, chi), params.chi[g]))
        naturals.append(layout.unpack(Packed(own_eta, eta), prepared.natural[g]))
    after = replace(
        prepared,
        params=replace(params, chi=tuple(chis)),
        natural=tuple(naturals),
        divergence=divergence,
    )
    return after, gain, looked_at
