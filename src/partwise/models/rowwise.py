"""A model in which every row has selections of parts of its own.

The core (MCVQ or MCFA) holds sizes, priors and the mathematics of states given selections; here
parts and states are selected in turn. A softmax is the factorised posterior of JMLR Appendix A, and
sampling is Gibbs sampling for Monte Carlo EM. Each row's states are kept from one sweep to the
next, so that every update starts where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar, cast

import numpy as np

from partwise.contracts import AnyView, Array, Block, Params_co, Selections, Source, Stats
from partwise.models.gating import Gates
from partwise.models.selection import Randomness, Selection
from partwise.models.weights import weighted

# Alternations of parts and states for rows that begin with nothing; the bound rises with each.
SETTLING_ROUNDS = 10

# Relative difference of two row bounds that counts as none.
SAME_END = 1e-9


class HasGate(Protocol):
    """Parameters with gates."""

    @property
    def gate(self) -> Gates:
        """Gates and the prior learned from them."""
        ...

    @property
    def gates(self) -> Array:
        """g, (K, D)."""
        ...


class WeighedRows(Protocol):
    """Classes of some rows, with what their states' or factors' posteriors are made of."""

    @property
    def z(self) -> Array:
        """Posterior of the classes, (N, n)."""
        ...

    @property
    def log_z(self) -> Array:
        """Log normalizer of the rows, (n,)."""
        ...

    def with_classes(self, z: Array) -> Self:
        """The same with other classes of the rows, (N, n)."""
        ...


GatedParams = TypeVar("GatedParams", bound=HasGate, contravariant=True)


class Natural(Protocol[Params_co]):
    """Prepared parameters with natural parameters, per group (P, S, D_g)."""

    @property
    def params(self) -> Params_co:
        """What is learned."""
        ...

    @property
    def natural(self) -> tuple[Array, ...]:
        """Coefficients of an entry's statistics in its expected log density."""
        ...


GatedPrepared = TypeVar("GatedPrepared", bound=Natural[HasGate])
Found = TypeVar("Found", bound=WeighedRows)


class Core(Protocol[GatedParams, GatedPrepared, Found]):
    """What rows with selections of their own ask of MCVQ and MCFA."""

    @property
    def first(self) -> Array:
        """Number of each part's first state or feature, then their number."""
        ...

    @property
    def columns(self) -> tuple[Array, ...]:
        """Column numbers of each group."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states or factors of every part."""
        ...

    @property
    def n_columns(self) -> int:
        """D."""
        ...

    def prepare(self, params: GatedParams) -> GatedPrepared:
        """Parameters to infer rows with."""
        ...

    def begin(self, params: GatedParams) -> GatedPrepared:
        """Parameters to begin to learn with."""
        ...

    def infer(self, prepared: GatedPrepared, block: Block[AnyView]) -> tuple[Array, Array]:
        """Posterior of the rows with the columns' gates."""
        ...

    def likely_rows(self, prepared: GatedPrepared, block: Block[AnyView]) -> Array:
        """Posteriors to begin with."""
        ...

    def beginnings(self, prepared: GatedPrepared, block: Block[AnyView]) -> list[Array]:
        """Posteriors to settle from, for rows that remember nothing."""
        ...

    def wide_rows(
        self, prepared: GatedPrepared, block: Block[AnyView], settled: Callable[[], Array]
    ) -> Array:
        """Posteriors to sample from when a row's likelihood is estimated."""
        ...

    def weigh(self, params: GatedParams, score: Array, labels: Array | None) -> Found:
        """Posterior of the rows' classes from what entries say about states or factors."""
        ...

    def mix(self, m: Array, found: Found, weight: Array) -> Array:
        """Posteriors in place of scores; their sums in each class."""
        ...

    def sampled(self, m: Array, found: Found | None, rng: Randomness) -> Array:
        """A sample of states or factors from posteriors ``m``, or of those in sampled classes."""
        ...

    def maximize_selected(self, prepared: GatedPrepared, stats: Stats) -> GatedPrepared:
        """Parameters from sums that hold the selections."""
        ...

    def bound_selected(self, prepared: GatedPrepared, stats: Stats) -> float:
        """Lower bound, given sums that hold the selections."""
        ...

    def state_density(self, params: GatedParams, m: Array, labels: Array | None) -> Array:
        """Log prior of sampled states, (n,)."""
        ...

    def without_cells(self, seen: Source, holed: Source) -> Self:
        """The model for rows of ``holed`` instead of ``seen``."""
        ...


# What rows remember: their states (None before the first sweep), and their random generator.
RowMemory: TypeAlias = tuple[Array | None, Randomness]


@dataclass(frozen=True, eq=False)
class Rowwise(Generic[GatedParams, GatedPrepared, Found]):
    """Selections of parts (``select``) on top of a model's ``core``.

    Rows without states begin at likely ones or, with ``from_gates``, at those that the columns'
    gates give, as in the papers.
    """

    core: Core[GatedParams, GatedPrepared, Found]
    select: Selection
    n_rounds: int = 2
    from_gates: bool = False
    needs: ClassVar[tuple[type, ...]] = (Selections,)
    remembers: ClassVar[bool] = True

    def fresh_memory(self, index: int) -> RowMemory:
        """No states yet, and the block's own source of randomness if the selection needs one."""
        return None, self.select.generator(index)

    def prepare(self, params: GatedParams) -> GatedPrepared:
        """As the core."""
        return self.core.prepare(params)

    def begin(self, params: GatedParams) -> GatedPrepared:
        """As the core."""
        return self.core.begin(params)

    def infer(self, prepared: GatedPrepared, block: Block[Selections]) -> tuple[Array, Array]:
        """Posterior of rows that remember nothing, after rounds to settle, and row bounds.

        Rows settle from several beginnings and keep the best end: where parameters are sure, most
        beginnings lead nowhere near it.
        """
        beginnings = self.core.beginnings(prepared, block)
        (best, bound), *others = [self._settle(prepared, block, m) for m in beginnings]
        for m, row_bound in others:
            # Rounding shall not choose between ends that are the same.
            better = row_bound > bound + SAME_END * np.abs(bound)
            best, bound = np.where(better, m, best), np.where(better, row_bound, bound)
        return best, bound

    def _settle(
        self, prepared: GatedPrepared, block: Block[Selections], m: Array
    ) -> tuple[Array, Array]:
        """Posterior and bounds of rows after rounds from ``m``."""
        rng = self.select.generator(0)
        for _ in range(SETTLING_ROUNDS):
            m, _, row_bound, _ = self._select(prepared, block, m, rng)
        return m, row_bound

    def evidence(self, prepared: GatedPrepared, block: Block[Selections]) -> Array:
        """What the entries say about the states, given the parts that settled rows select."""
        m, _ = self.infer(prepared, block)
        return self._score(prepared, block, m, None)[0]

    def expect(
        self, prepared: GatedPrepared, block: Block[Selections], memory: RowMemory
    ) -> tuple[RowMemory, Stats]:
        """Alternate selections of parts and of states; sums averaged over the rounds of samples."""
        m, rng = self._begin(prepared, block, memory)
        rounds = []
        for i in range(self.n_rounds):
            m, chosen, row_bound, counts = self._select(prepared, block, m, rng)
            if self.select.averages or i == self.n_rounds - 1:
                rounds.append(self._collect(block, m, chosen, row_bound, counts))
        return (m, rng), Stats.total(rounds).scaled(1.0 / len(rounds))

    def _begin(
        self, prepared: GatedPrepared, block: Block[Selections], memory: RowMemory
    ) -> tuple[Array, Randomness]:
        m, rng = memory
        if m is None and self.from_gates:
            m = self.core.infer(prepared, block)[0]
            m = self.core.sampled(m, None, rng) if self.select.averages else m
        elif m is None:
            m = self.core.likely_rows(prepared, block)
        return m, rng

    def propose(self, prepared: GatedPrepared, block: Block[Selections]) -> Array:
        """States to sample when a row's likelihood is estimated."""
        return self.core.wide_rows(prepared, block, lambda: self.evidence(prepared, block))

    def _score(
        self, prepared: GatedPrepared, block: Block[Selections], m: Array, rng: Randomness
    ) -> tuple[Array, list[Array], Array]:
        """Select parts given states ``m``; what the entries then say about the states."""
        first = self.core.first
        chosen: list[Array] = []
        row_bound = np.zeros(block.n_rows)
        score = np.zeros((int(first[-1]), block.n_rows), block.dtype)
        for group, columns, natural in zip(
            block.groups, self.core.columns, prepared.natural, strict=True
        ):
            log_a = group.spread(prepared.params.gate.log_a[:, columns].astype(block.dtype))
            G, gained = self.select.parts(log_a, group.expected(m, natural, first), rng)
            chosen.append(G * group.observed())
            row_bound += group.row_sums(gained)
            score += group.score_selected(natural, chosen[-1], first)
        return score, chosen, row_bound

    def _select(
        self, prepared: GatedPrepared, block: Block[Selections], m: Array, rng: Randomness
    ) -> tuple[Array, list[Array], Array, Array]:
        """One round: parts given states, then states given parts; what it makes of the bound."""
        before = m
        m, chosen, row_bound = self._score(prepared, block, m, rng)
        params = cast(GatedParams, prepared.params)  # the core made them
        found = self.core.weigh(params, m, block.labels)
        found = found.with_classes(self.select.classes(found.z, rng))
        counts = self.core.mix(m, found, block.weight)
        if self.select.averages:  # samples: the bound is that of the states the entries met
            row_bound += self.core.state_density(params, before, block.labels)
            m = self.core.sampled(m, found, rng)
            counts = (found.z * block.weight) @ m.T
        else:
            row_bound += found.log_z
        return m, chosen, row_bound, counts

    def _collect(
        self,
        block: Block[Selections],
        m: Array,
        chosen: list[Array],
        row_bound: Array,
        counts: Array,
    ) -> Stats:
        wm = weighted(m, block.weight)
        gates = np.empty((len(self.core.sizes), self.core.n_columns))
        sums = []
        for group, columns, G in zip(block.groups, self.core.columns, chosen, strict=True):
            gates[:, columns] = group.sum_selected(G, block.weight)
            sums.append(group.collect_selected(wm, G, self.core.first))
        return Stats(float(block.weight @ (row_bound + block.base)), counts, tuple(sums), gates)

    def without_cells(self, seen: Source, holed: Source) -> Self:
        """The model for rows of ``holed`` instead of ``seen``, sources of rows."""
        return replace(self, core=self.core.without_cells(seen, holed))

    def maximize(self, prepared: GatedPrepared, stats: Stats) -> GatedPrepared:
        """Parameters from sums that hold the selections; a from the mean selection."""
        return self.core.maximize_selected(prepared, stats)

    def thorough(self, prepared: GatedPrepared) -> None:
        """No short cuts are taken."""
        return

    def bound(self, prepared: GatedPrepared, stats: Stats) -> float:
        """Lower bound; for samples, the log joint density of rows and states, which is none."""
        return self.core.bound_selected(prepared, stats)
