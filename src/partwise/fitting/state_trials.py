"""Trials of parts whose columns are given: evidence, first states and EM iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property, reduce
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial import distance

from partwise.contracts import Array, Layout, Runner, Stats
from partwise.data import BlockSource, RowBlock
from partwise.engine import Monitor, climb
from partwise.fitting.options import SearchLimits
from partwise.models.mcvq import MCVQ, MCVQParams
from partwise.models.sizes import (
    HeldParams,
    HeldParts,
    Judge,
    Part,
    Survey,
    assembled,
    column_cost,
    laid_out,
    padded,
    parts_of,
    summed,
    survey,
)
from partwise.starts.dependence import Dependence, dependence, sums_of_rows
from partwise.starts.kmeans import masked_kmeans
from partwise.starts.rows import some_rows

# Tables of at most so many cells are searched more thoroughly.
FEW_CELLS = 20_000

# Most columns that are tried as parts by themselves.
MOST_SINGLE = 32

# Most states of a part, and numbers in the sums of all states of some parts in all columns: where
# columns are many, fewer states (but not less than the least) and fewer parts at a time.
MOST_STATES, MOST_PARTS = (16, 64), 32
MOST_SUMS = 20_000_000

# Fewest and most rows that 2-means splits, and the number of cells in between; its runs and steps.
SPLIT_ROWS = (1500, 4000)
SPLIT_CELLS = 2_000_000
SPLIT_RUNS = 2
SPLIT_STEPS = 10

# Most rows whose tree gives first states.
LINKED_ROWS = 1000

# EM iterations of a trial: after states were split, and after they were merged.
SPLIT_EM = 6
MERGE_EM = 4

Sums = TypeVar("Sums", Stats, Survey, Array)


class Singles(NamedTuple):
    """Columns as parts by themselves."""

    columns: Array
    parts: dict[int, Part]


@dataclass
class Trials:
    """Parts of an MCVQ on one source, whose columns are given.

    ``core`` gives the priors, whatever its sizes. ``alone`` (D,) is the evidence of the columns in
    the background; ``found`` their dependence, which may be ``known``; ``sample`` (n, ...) scores
    of some rows, which ``some`` encodes; ``few`` says whether there are few cells, ``late()``
    whether time is up: no EM iteration begins after that.
    """

    core: MCVQ
    source: BlockSource
    runner: Runner
    rng: np.random.Generator
    limits: SearchLimits
    known: InitVar[Dependence | None] = None
    late: Callable[[], bool] = bool

    def __post_init__(self, known: Dependence | None) -> None:
        """Look at what no move changes: dependence, a sample of rows, columns on their own."""
        source, core = self.source, self.core
        self._trees: dict[bytes, Array] = {}
        n_statistics = max(prior.likelihood.n_statistics for prior in core.priors)
        self.most_summed = MOST_SUMS // (n_statistics * core.n_columns)
        most = int(np.clip(self.most_summed // MOST_PARTS, *MOST_STATES))
        self.most_states = min(self.limits.max_size or most, most)
        self.weight = float(source.weight.sum())
        self.few = source.X.shape[0] * core.n_columns <= FEW_CELLS
        self.found: Dependence = known or dependence(source, self.rng)
        most = SPLIT_CELLS // max(len(self.found.columns), 1)
        few = some_rows(self.found.weight, int(np.clip(most, *SPLIT_ROWS)), self.rng)
        self.sample = self.found.sample[few]
        self.some = source.of_rows(self.found.rows[few], self.found.weight[few])
        layouts = [Layout(np.full(len(own), -1), (1,)) for own in core.columns]

        def on_block(block: RowBlock) -> Stats:
            w = block.weight.astype(block.dtype)[None]
            base = float(block.weight @ block.base)
            return Stats(base, w.sum(axis=1, dtype=float)[None], block.collect(w, layouts))

        total = self.total(on_block)
        sums = tuple(packed.shared for packed in total.sums)
        self.base, every = total.bound, np.arange(core.n_columns)
        self.every = Part(every, sums, np.array([self.weight]), np.zeros((1, 1)))
        self.alone = self.by_column(sums, np.array([0]))[0]

    def evidence(self, parts: Sequence[Part]) -> float:
        """Bound of the model of these parts, at the best parameters for their posteriors."""
        rest = np.ones(self.core.n_columns, bool)
        for part in parts:
            rest[part.columns] = False
        own = sum(self.worth(part) for part in parts)
        return own + float(self.alone[rest].sum()) + self.base - self.choice(len(parts))

    def worth(self, part: Part) -> float:
        """The part's share of the bound, but for the choice of its columns."""
        return Judge.of(self.core, part.columns).worth(part)

    def choice(self, n_parts: int) -> float:
        """What it costs all columns to choose among so many parts, at least one, and none."""
        return self.core.n_columns * column_cost(self.core.chooser, max(n_parts, 1) + 1)

    def by_column(self, sums: Sequence[Array], first: Array) -> Array:
        """Evidence of every column under every part, from sums of all states (P, S, D); (K, D)."""
        out = np.zeros((len(first), self.core.n_columns))  # columns left out of the model stay 0
        for prior, columns, values in zip(self.core.priors, self.core.columns, sums, strict=True):
            out[:, columns] = np.add.reduceat(prior.evidence(values), first, axis=0)
        return out

    def total(self, on_block: Callable[[RowBlock], Sums]) -> Sums:
        """Sum over all blocks."""
        return reduce(add, self.runner.map(on_block, self.source))

    def parts_in(self, model: HeldParts, on_block: Callable[[RowBlock], Survey]) -> list[Part]:
        """Parts by what their posteriors sum to."""
        found = self.total(on_block)
        return parts_of(model, found.stats, found.overlap)

    def parts_by(self, params: MCVQParams) -> list[Part]:
        """Parts by the posteriors under parameters of the model, every column in its likeliest."""
        owner, prepared = params.gates.argmax(axis=0), self.core.prepare(params)
        n_states = self.core.n_states[:-1]
        columns = [np.flatnonzero(owner == k) for k in range(len(n_states))]
        held = laid_out(self.core, columns, n_states)

        def on_block(block: RowBlock) -> Survey:
            return summed(held, self.core.expect(prepared, block, None)[0], block)

        return self.parts_in(held, on_block)

    def everywhere(self, model: HeldParts, params: HeldParams) -> Survey:
        """Sums of the posteriors in all columns."""

        def on_block(block: RowBlock) -> Survey:
            return summed(model, model.expect(params, block)[0], block, everywhere=True)

        return self.total(on_block)

    def fitted(self, parts: Sequence[Part], n_steps: int, tol: float | None = None) -> list[Part]:
        """Parts after some EM iterations with fixed columns."""
        if not parts:
            return []
        model, params = assembled(self.core, parts, self.every)
        tol = self.limits.tol if tol is None else tol
        monitor = Monitor(n_steps, tol, self.weight, halted=self.late)
        params = climb(model, params, self.source, self.runner, monitor)
        return self.parts_in(model, lambda block: survey(model, params, block))

    def merged(self, parts: Sequence[Part], sizes: Sequence[int] | None = None) -> list[Part]:
        """Parts with states merged where that gains, or to so many each, then fitted."""
        own = [None] * len(parts) if sizes is None else sizes
        return self.fitted(list(map(self.merged_states, parts, own)), MERGE_EM)

    def merged_states(self, part: Part, size: int | None = None) -> Part:
        """The part with states merged where that gains, or to the number that was asked for."""
        size = size or self.limits.size
        least, most = size or 1, size or self.most_states
        fewer = Judge.of(self.core, part.columns).merged(part, least, most)
        return padded(fewer, least)

    def begun(self, columns: Sequence[Array], kinds: Sequence[Array]) -> list[Part]:
        """Parts of given columns that begin with given states of the sample's rows, (n,) each."""
        sizes = [max(int(kind.max(initial=0)) + 1, self.limits.size or 1) for kind in kinds]
        model, n = laid_out(self.core, columns, sizes), len(self.sample)
        m = np.zeros((model.core.first[-1], n), self.source.X.dtype)
        for first, kind in zip(model.core.first, [*kinds, np.zeros(n, int)], strict=False):
            m[first + kind, np.arange(n)] = 1.0
        stats = sums_of_rows(self.some, m, model.layouts, self.weight)
        return parts_of(model, stats, np.zeros((len(m), len(m))))

    def halves(self, part: Part, kind: Array, J: int = 2, some: bool = False) -> Array:
        """Kinds (n,) of the sample's rows, each split in J by the part's columns, or some of them.

        Rows that all columns split in one way may be split better by fewer.
        """
        own = np.flatnonzero(np.isin(self.found.columns[self.found.owner], part.columns))
        if some and len(own) > 1:
            own = self.rng.choice(own, int(self.rng.integers(1, len(own))), replace=False)
        rows = self.sample[:, own]
        return split_rows(rows, kind, part.n_states, J, self.some.weight, self.rng)

    def linked(self, part: Part, J: int, column: int | None = None) -> Array:
        """Kinds (n,) of the sample's rows, cut from a tree of rows; the same whatever the seed.

        By all columns of the part, the largest distance in a kind being least, or by one, the
        variance in kinds being least.
        """
        columns = part.columns if column is None else np.array([column])
        own = np.flatnonzero(np.isin(self.found.columns[self.found.owner], columns))
        rows, key = np.nan_to_num(self.sample[:, own]), columns.tobytes()
        some = np.unique(np.linspace(0, len(rows) - 1, LINKED_ROWS).astype(int))
        if len(some) < 2:
            return np.zeros(len(rows), int)
        if key not in self._trees:
            way = "complete" if column is None else "ward"
            self._trees[key] = hierarchy.linkage(rows[some], way)
        kind = np.empty(len(rows), int)
        kind[some] = hierarchy.fcluster(self._trees[key], J, "maxclust") - 1
        rest = np.setdiff1d(np.arange(len(rows)), some)
        if len(rest):
            found, kinds = kind[some], np.unique(kind[some])
            means = np.stack([rows[some][found == j].mean(axis=0) for j in kinds])
            kind[rest] = kinds[distance.cdist(rows[rest], means).argmin(axis=1)]
        return kind

    def parameters(self, core: MCVQ, parts: Sequence[Part]) -> MCVQParams:
        """Parameters of the model ``core`` of these parts, all columns free to choose."""
        model, params = assembled(self.core, parts, self.every)
        gates = np.zeros((len(parts) + 1, core.n_columns))
        for layout, columns in zip(model.layouts, core.columns, strict=True):
            gates[layout.parts, columns] = 1.0
        return core.start(self.everywhere(model, params).stats, gates)

    @cached_property
    def singles(self) -> Singles:
        """Columns as parts by themselves, none where they are many."""
        columns = self.found.columns
        if len(columns) > MOST_SINGLE:
            return Singles(columns[:0], {})
        begun = self.births(list(columns[:, None]))
        parts = self.merged(self.merged(self.fitted(begun, SPLIT_EM)))
        return Singles(columns, dict(zip(columns.tolist(), parts, strict=True)))

    def births(self, columns: list[Array]) -> list[Part]:
        """Parts of some background columns each, with first states."""
        nothing = np.zeros(len(self.sample), int)
        begun = self.begun(columns, [nothing] * len(columns))
        kinds = [self.halves(part, nothing, self.limits.size or 4) for part in begun]
        return self.begun(columns, kinds)


def split_rows(
    rows: Array, kind: Array, n_kinds: int, J: int, weight: Array, rng: np.random.Generator
) -> Array:
    """Kinds (n,) of rows (n, D), each split in J by k-means; NaN is missing."""
    out = np.zeros(len(kind), int)
    n_found = 0
    for j in range(n_kinds):
        which = np.flatnonzero(kind == j)
        Z = rows[which]
        Z = Z[:, ~np.isnan(Z).all(axis=0)]
        side = np.zeros(len(which), int)
        if len(which) > 1 and Z.shape[1]:
            runs = {"n_init": SPLIT_RUNS, "n_steps": SPLIT_STEPS}
            side = masked_kmeans(Z, J, weight[which], rng, **runs)
            side = np.unique(side, return_inverse=True)[1]
        out[which] = n_found + side
        n_found += int(side.max(initial=0)) + 1
    return out
