"""Rows that have undergone an unknown transformation, summed out in the E-step.

======  ==========  =========  ===================================================================
symbol  code        shape      meaning
======  ==========  =========  ===================================================================
t       t           -          transformation of a row (`partwise.models.transformations`)
rho     log_rho     (T,)       prior of the transformations, expected logarithm
q       q           (T, n)     posterior of the rows' transformations
-       log_z       (T, n)     lower bound of log p(x | t): log normalizer of the rows under t
======  ==========  =========  ===================================================================

Given t a row is a row of the canvas with other column numbers, so the E-step of the model of the
canvas serves (Frey & Jojic, 2003):

    q(t | x) proportional to rho_t exp(log_z_t),   sums = sum_t q(t | x) sums(x under t),
    bound of log p(x) = log sum_t rho_t exp(log_z_t).

Transformations of negligible probability are left out: q is then confined to the others, which
gives a lower bound, too. An EM iteration with all transformations leaves out those below
`NEGLIGIBLE`, at a cost of at most T times that many nats per row, and the next iterations use those
that are left. All are used again after `REFRESH_EVERY` iterations, and before a fit has converged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, cast

import numpy as np

from partwise.contracts import AnyParams, AnyView, Array, Block, Source, Stats
from partwise.likelihoods import Dirichlet
from partwise.models.canvas import Canvas, Moved, Weighed
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Gates
from partwise.models.transformations import Transformations

# Probability of a transformation below which it is left out. The bound is trusted to 1e-9 of
# itself, some 1e-7 nats per row.
NEGLIGIBLE = 1e-9

# Sweeps with some of the transformations between two with all of them.
REFRESH_EVERY = 8


class Movable(Protocol):
    """A block that can be seen under transformations."""

    def moved(self, t: int, rows: Array | None = None) -> Moved:
        """Some of the rows (all if None) under transformation t."""
        ...


@dataclass(frozen=True, eq=False)
class MovingParams:
    """What is learned."""

    canvas: AnyParams  # of the model of the canvas
    counts: Array  # expected rows under each transformation, (T,)
    log_rho: Array  # (T,)

    @property
    def gate(self) -> Gates:
        """Parts of the canvas' columns."""
        gate: Gates = self.canvas.gate
        return gate

    @property
    def gates(self) -> Array:
        """g, (K, D)."""
        return self.gate.g


@dataclass(frozen=True, eq=False)
class MovingPrepared:
    """Parameters, those of the canvas prepared, and which transformations to look at."""

    params: MovingParams
    canvas: AnyParams  # of the canvas, prepared
    age: int  # sweeps since all transformations were looked at
    full: bool  # whether the next sweep looks at all

    @property
    def natural(self) -> tuple[Array, ...]:
        """Natural parameters of the canvas."""
        natural: tuple[Array, ...] = self.canvas.natural
        return natural


@dataclass(frozen=True, eq=False)
class MovingStats(Stats):
    """Sums over rows of the canvas, and the expected rows under each transformation."""

    counts: Array = field(default_factory=lambda: np.zeros(0))  # (T,)

    @classmethod
    def of(cls, stats: Stats, counts: Array) -> MovingStats:
        """Sums of the canvas with counts of the transformations."""
        return cls(stats.bound, stats.states, stats.sums, stats.gates, stats.chain, counts)

    def __add__(self, other: Stats) -> MovingStats:
        assert isinstance(other, MovingStats)
        return MovingStats.of(super().__add__(other), self.counts + other.counts)

    @staticmethod
    def total(results: Iterable[Stats]) -> MovingStats:
        """Sum of all, in their order."""
        found = list(results)
        counts = [stats.counts for stats in found if isinstance(stats, MovingStats)]
        return MovingStats.of(Stats.total(found), np.sum(counts, axis=0))

    def scaled(self, factor: float) -> MovingStats:
        """All sums times a number."""
        return MovingStats.of(super().scaled(factor), self.counts * factor)


@dataclass(frozen=True, eq=False)
class Moving:
    """A model of a canvas, of which rows are seen under unknown transformations.

    Parameters
    ----------
    canvas : Canvas
        The model of the canvas.
    transformations : Transformations
    prior : Dirichlet
        Of the transformations' shares.
    temper : float, default=1.0
        Inverse temperature of q, below 1 while a start is sought.
    """

    canvas: Canvas
    transformations: Transformations
    prior: Dirichlet
    temper: float = 1.0
    needs: ClassVar[tuple[type, ...]] = ()
    remembers: ClassVar[bool] = True

    @property
    def maps(self) -> Array:
        """Column of the canvas of each column of a row under every transformation, (T, D)."""
        return self.transformations.maps

    def fresh_memory(self, index: int) -> None:
        """All transformations are looked at first."""
        return

    # --- E-step ---

    def posterior(self, prepared: MovingPrepared, block: Block[AnyView]) -> tuple[Array, Array]:
        """q (T, n) and the rows' log normalizer (n,)."""
        log_z = np.empty((len(self.maps), block.n_rows))
        for t in range(len(self.maps)):
            log_z[t] = self._scored(prepared, moved_rows(block, t))[1].log_z
        return self._normalized(prepared, log_z)

    def _scored(self, prepared: MovingPrepared, rows: Moved) -> tuple[Array, Weighed]:
        """Weights of the states (S, n) of rows under a transformation, and their classes."""
        m = self.canvas.evidence(prepared.canvas, rows)
        return m, self.canvas.weigh(prepared.params.canvas, m, rows.labels)

    def _normalized(self, prepared: MovingPrepared, log_z: Array) -> tuple[Array, Array]:
        log_z += prepared.params.log_rho[:, None]
        log_z *= self.temper
        top = log_z.max(axis=0)
        q = np.exp(log_z - top)
        total = q.sum(axis=0)
        return q / total, top + np.log(total)

    def expect(
        self, prepared: MovingPrepared, block: Block[AnyView], memory: Array | None
    ) -> tuple[Array, MovingStats]:
        """Sums of the rows under the transformations that matter, which the rows remember."""
        live, scored = None if prepared.full else memory, {}
        if live is None:
            q, log_p = self.posterior(prepared, block)
        else:  # few rows for each t, whose scores are kept
            log_z = np.full(live.shape, -np.inf)
            for t, rows in likely(live, 0.5):
                moved = moved_rows(block, t, rows)
                m, found = self._scored(prepared, moved)
                log_z[t, rows] = found.log_z
                scored[t] = rows, moved, m, found
            q, log_p = self._normalized(prepared, log_z)
        kept = q > NEGLIGIBLE
        q = np.where(kept, q, 0.0)
        share = q.sum(axis=0)  # q is confined to those kept
        q /= share
        layouts, core = prepared.canvas.layouts, self.canvas
        counts = np.zeros((core.classes.n_classes, int(core.first[-1])))
        sums = core.no_sums(layouts)
        for t, rows in likely(q, 0.0):
            if t in scored:
                rows, moved, m, found = scored.pop(t)
            else:
                moved = moved_rows(block, t, rows)
                m, found = self._scored(prepared, moved)
            weight = block.weight[rows] * q[t, rows]
            counts += core.mix(m, found, weight)
            core.add_sums(prepared.canvas, moved, m, weight, sums)
        bound = float(block.weight @ (log_p + np.log(share) + block.base))
        return kept, MovingStats(bound, counts, sums, counts=q @ block.weight)

    def infer(self, prepared: MovingPrepared, block: Block[AnyView]) -> tuple[Array, Array]:
        """Posterior of the states, averaged over transformations, (S, n); log normalizer (n,)."""
        q, log_p = self.posterior(prepared, block)
        m, share = np.zeros((int(self.canvas.first[-1]), block.n_rows)), np.zeros(block.n_rows)
        for t, rows in likely(q):
            found = self.canvas.infer(prepared.canvas, moved_rows(block, t, rows))[0]
            m[:, rows] += q[t, rows] * found
            share[rows] += q[t, rows]
        return m / share, log_p

    def evidence(self, prepared: MovingPrepared, block: Block[AnyView]) -> Array:
        """What the entries say about the states under the most probable transformation; (S, n)."""
        best = self.posterior(prepared, block)[0].argmax(axis=0)
        out = np.empty((int(self.canvas.first[-1]), block.n_rows))
        for t in np.unique(best):
            rows = np.flatnonzero(best == t)
            out[:, rows] = self.canvas.evidence(prepared.canvas, moved_rows(block, int(t), rows))
        return out

    # --- M-step ---

    def maximize(self, prepared: MovingPrepared, stats: Stats) -> MovingPrepared:
        """Parameters of the canvas, then the prior of the transformations."""
        assert isinstance(stats, MovingStats)
        core = self.canvas.maximize(prepared.canvas, stats)
        age = 0 if prepared.full else prepared.age + 1
        return self._prepared(self.parameters(core.params, stats.counts), core, age)

    def parameters(self, canvas: AnyParams, counts: Array) -> MovingParams:
        """Parameters of a canvas and the expected rows under each transformation (T,)."""
        return MovingParams(canvas, counts, self.prior.expected_log(counts[:, None])[:, 0])

    def start(self, stats: Stats, gates: Array) -> MovingParams:
        """First parameters, from sums of first posteriors on the canvas and gates."""
        return self.parameters(self.canvas.start(stats, gates), np.zeros(len(self.maps)))

    def _prepared(self, params: MovingParams, core: AnyParams, age: int) -> MovingPrepared:
        return MovingPrepared(params, core, age, full=age >= REFRESH_EVERY)

    def prepare(self, params: MovingParams) -> MovingPrepared:
        """Parameters to infer rows with."""
        return MovingPrepared(params, self.canvas.prepare(params.canvas), 0, full=True)

    def begin(self, params: MovingParams) -> MovingPrepared:
        """Parameters to begin to learn with."""
        return MovingPrepared(params, self.canvas.begin(params.canvas), 0, full=True)

    def thorough(self, prepared: MovingPrepared) -> MovingPrepared | None:
        """All parts and transformations looked at, or None if the last step did."""
        core = self.canvas.thorough(prepared.canvas)
        if core is None and prepared.age == 0:
            return None
        return replace(prepared, canvas=prepared.canvas if core is None else core, full=True)

    def bound(self, prepared: MovingPrepared, stats: Stats) -> float:
        """Lower bound of the evidence (of the likelihood, for flat priors) at the parameters."""
        cost = self.prior.divergence(prepared.params.counts[:, None])
        return self.canvas.bound(prepared.canvas, stats) - cost

    # --- components and sizes: those of the canvas ---

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of every part."""
        return self.canvas.sizes

    @property
    def first(self) -> Array:
        """Number of each part's first state, then S."""
        return self.canvas.first

    @property
    def n_columns(self) -> int:
        """Columns of the canvas."""
        return self.canvas.n_columns

    @property
    def classes(self) -> ClassVariable:
        """The class variable."""
        return self.canvas.classes

    @property
    def chooser(self) -> Chooser:
        """How columns choose parts."""
        return self.canvas.chooser

    def with_classes(self, classes: ClassVariable) -> Moving:
        """The model with another class variable."""
        return replace(self, canvas=self.canvas.with_classes(classes))

    def with_chooser(self, chooser: Chooser) -> Moving:
        """The model whose columns choose parts in another way."""
        return replace(self, canvas=self.canvas.with_chooser(chooser))

    def without_classes(self) -> Moving:
        """The same model with one class."""
        return replace(self, canvas=self.canvas.without_classes())

    def weigh(self, params: MovingParams, score: Array, labels: Array | None) -> Weighed:
        """Posterior of the rows' classes, from what entries say about the states (S, n)."""
        return self.canvas.weigh(params.canvas, score, labels)

    def mix(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Turn weights (S, n) into posteriors; weighted sums of them in each class, (N, S)."""
        return self.canvas.mix(m, found, weight)

    def class_sums(self, m: Array, found: Weighed, weight: Array) -> Array:
        """Weighted sums of posteriors in each class."""
        return self.canvas.class_sums(m, found, weight)

    def row_features(self, m: Array) -> Array:
        """What tells rows apart, for clustering; (n, S)."""
        return self.canvas.row_features(m)

    def learn_states(self, params: MovingParams, counts: Array) -> MovingParams:
        """Priors of states and classes from the classes' counts of states (N, S)."""
        return replace(params, canvas=self.canvas.learn_states(params.canvas, counts))

    def choice_cost(self, params: MovingParams) -> float:
        """Divergence of the state and class priors' posteriors."""
        return self.canvas.choice_cost(params.canvas)

    def finish(self, params: MovingParams) -> MovingParams:
        """Nothing is left to do after a fit."""
        return params

    def learn_columns(self, prepared: MovingPrepared, stats: Stats) -> MovingParams:
        """Parameters of the entries, then gates."""
        canvas = self.canvas.learn_columns(prepared.canvas, stats)
        return replace(prepared.params, canvas=canvas)

    def sums_of(self, params: MovingParams) -> MovingStats:
        """Sums, no column decided, that would have given these parameters."""
        return MovingStats.of(self.canvas.sums_of(params.canvas), params.counts)

    def maximize_running(self, prepared: MovingPrepared, stats: Stats) -> MovingPrepared:
        """The same as `maximize`, from running sums."""
        return self.maximize(prepared, stats)

    def widened(self, params: MovingParams, own: Array, place: Array) -> MovingParams:
        """A canvas gets no new columns."""
        raise NotImplementedError

    def joined(self, params: MovingParams, other: MovingParams, new: Array) -> MovingParams:
        """A canvas gets no new columns."""
        raise NotImplementedError

    def propose(self, prepared: MovingPrepared, block: Block[AnyView]) -> Array:
        """Likelihoods are those of the canvas, which proposes states itself."""
        raise NotImplementedError

    def without_cells(self, seen: Source, holed: Source) -> Moving:
        """The model for rows of ``holed`` instead of ``seen``: weights of columns follow from q."""
        return self


def moved_rows(block: Block[AnyView], t: int, rows: Array | None = None) -> Moved:
    """Rows of a block that `MovingSource` made (all if None) under transformation t."""
    return cast(Movable, block).moved(t, rows)


def likely(q: Array, least: float = NEGLIGIBLE) -> list[tuple[int, Array]]:
    """Transformations that some rows may have undergone, and these rows, from q (T, n)."""
    found = [(t, np.flatnonzero(own > least)) for t, own in enumerate(q)]
    return [(t, rows) for t, rows in found if len(rows)]
