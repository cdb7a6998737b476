"""Select the numbers of parts and states: starts of several sizes, then moves by the ELBO.

During the search every column has one part, so the bound is a sum over parts: a change of some
parts is tried on these alone, changes of different parts in the same EM iterations, and each is
judged by its own terms (`partwise.models.sizes`). All states are split at once, then merged where
that gains. Columns move to the part of largest evidence, which the sums of one EM iteration give
for all parts; the same sums show which parts are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from scipy import special

from partwise.contracts import Array, Layout, Runner, Stats
from partwise.data import BlockSource, RowBlock
from partwise.engine import Monitor, climb
from partwise.fitting.checkpoint import SizePath
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
    together,
)
from partwise.starts.dependence import (
    Dependence,
    dependence,
    group_columns,
    labelled_columns,
    sums_of_rows,
)
from partwise.starts.kmeans import masked_kmeans
from partwise.starts.rows import some_rows

# Numbers of groups of columns to begin with; the best goes on. Larger ones are left out once so
# many in a row have not helped, and a group has on average no fewer columns than this.
FIRST_PARTS = (2, 4, 8, 16, 32)
MISSES = 2
LEAST_COLUMNS = 3

# Most states of a part, and numbers in the sums of all states of some parts in all columns: where
# columns are many, fewer states (but not less than the least) and fewer parts at a time.
MOST_STATES = (16, 64)
MOST_SUMS = 20_000_000

# Fewest and most rows that 2-means splits, and the number of cells in between; its runs and steps.
SPLIT_ROWS = (1500, 4000)
SPLIT_CELLS = 2_000_000
SPLIT_RUNS = 2
SPLIT_STEPS = 10

# EM iterations of a trial: after states were split, and after they were merged.
SPLIT_EM = 6
MERGE_EM = 4

# Most rounds of all moves; one that adds less than this share of what the parts explain is the
# last. Rounds of splits in a start, in each of which states may double. Starts of different numbers
# of parts are compared after the first few.
MOST_ROUNDS = 30
LEAST_GAIN = 1e-4
DOUBLINGS = 7
FIRST_DOUBLINGS = 4

# Matchings of parts that are tried in a round, until a merge gains; the most dependent pairs come
# first.
MATCHINGS = 3

# Joint states of two parts with less weight of rows than this begin no state.
LEAST_JOINT_ROWS = 1.0

# Moves that were tried without success, by what they would change.
Tried: TypeAlias = set[tuple[object, ...]]
Sums = TypeVar("Sums", Stats, Survey, Array)


class Change(NamedTuple):
    """Parts that replace others."""

    kind: str
    old: tuple[int, ...]
    new: list[Part]


@dataclass
class Search:
    """Sizes of an MCVQ on one source.

    ``core`` gives the priors, whatever its sizes; ``late()`` says whether time is up.
    """

    core: MCVQ
    source: BlockSource
    runner: Runner
    rng: np.random.Generator
    late: Callable[[], bool]
    limits: SearchLimits
    path: SizePath = field(default_factory=list)

    def run(self) -> list[Part]:
        """Parts of the sizes found, at least one, by their first column."""
        self._prepare()
        parts, tried = self._best_start(), Tried()
        self._note("start", tuple(range(len(parts))), 0.0, parts)
        for _ in range(MOST_ROUNDS):
            before, n_noted = self.evidence(parts), len(self.path)
            for move in self._moves():
                if self.late():
                    break
                parts = move(parts, tried)
            gain, explained = self.evidence(parts) - before, before - self.evidence([])
            made = any(move["accepted"] for move in self.path[n_noted:])
            if self.late() or not made or gain <= LEAST_GAIN * explained:
                break
        nothing = self._all.of_columns(self.core, np.empty(0, int))
        return sorted(
            parts or [nothing], key=lambda part: int(part.columns.min(initial=self.core.n_columns))
        )

    def parameters(self, core: MCVQ, parts: Sequence[Part]) -> MCVQParams:
        """Parameters of the model ``core`` of these parts, all columns free to choose."""
        model, params = assembled(self.core, parts, self._all)
        gates = np.zeros((len(parts) + 1, core.n_columns))
        for layout, columns in zip(model.layouts, core.columns, strict=True):
            gates[layout.parts, columns] = 1.0
        return core.start(self._everywhere(model, params).stats, gates)

    def _moves(self) -> list[Callable[[list[Part], Tried], list[Part]]]:
        """Kinds of moves, in the order of a round."""
        states = [self._split_states] if self.limits.size is None else []
        parts = [self._merge_parts, self._split_parts, self._new_parts]
        return [*states, self._place_columns, *(parts if self.limits.n_parts is None else [])]

    def evidence(self, parts: Sequence[Part]) -> float:
        """Bound of the model of these parts, at the best parameters for their posteriors."""
        rest = np.ones(self.core.n_columns, bool)
        for part in parts:
            rest[part.columns] = False
        own = sum(self._worth(part) for part in parts)
        return own + float(self._alone[rest].sum()) + self._base - self._choice(len(parts))

    def _worth(self, part: Part) -> float:
        return Judge.of(self.core, part.columns).worth(part)

    def _choice(self, n_parts: int) -> float:
        """What it costs all columns to choose among so many parts, at least one, and none."""
        return self.core.n_columns * column_cost(self.core.chooser, max(n_parts, 1) + 1)

    # --- the data ---

    def _prepare(self) -> None:
        """Look at what no move changes: dependence, a sample of rows, columns on their own."""
        source, core = self.source, self.core
        n_statistics = max(prior.likelihood.n_statistics for prior in core.priors)
        self._most_summed = MOST_SUMS // (n_statistics * core.n_columns)
        most = int(np.clip(self._most_summed // FIRST_PARTS[-1], *MOST_STATES))
        self._most_states = min(self.limits.max_size or most, most)
        self._weight = float(source.weight.sum())
        self._found: Dependence = dependence(source, self.rng)
        most = SPLIT_CELLS // max(len(self._found.columns), 1)
        few = some_rows(self._found.weight, int(np.clip(most, *SPLIT_ROWS)), self.rng)
        self._sample = self._found.sample[few]
        self._some = source.of_rows(self._found.rows[few], self._found.weight[few])
        layouts = [Layout(np.full(len(own), -1), (1,)) for own in core.columns]

        def on_block(block: RowBlock) -> Stats:
            w = block.weight.astype(block.dtype)[None]
            base = float(block.weight @ block.base)
            return Stats(base, w.sum(axis=1, dtype=float)[None], block.collect(w, layouts))

        total = self._total(on_block)
        sums = tuple(packed.shared for packed in total.sums)
        self._base, every = total.bound, np.arange(core.n_columns)
        self._all = Part(every, sums, np.array([self._weight]), np.zeros((1, 1)))
        self._alone = self._by_column(sums, np.array([0]))[0]

    def _by_column(self, sums: Sequence[Array], first: Array) -> Array:
        """Evidence of every column under every part, from sums of all states (P, S, D); (K, D)."""
        out = np.empty((len(first), self.core.n_columns))
        for prior, columns, values in zip(self.core.priors, self.core.columns, sums, strict=True):
            out[:, columns] = np.add.reduceat(prior.evidence(values), first, axis=0)
        return out

    def _total(self, on_block: Callable[[RowBlock], Sums]) -> Sums:
        """Sum over all blocks."""
        return reduce(add, self.runner.map(on_block, self.source))

    def _parts(self, model: HeldParts, on_block: Callable[[RowBlock], Survey]) -> list[Part]:
        """Parts by what their posteriors sum to."""
        found = self._total(on_block)
        return parts_of(model, found.stats, found.overlap)

    def _everywhere(self, model: HeldParts, params: HeldParams) -> Survey:
        """Sums of the posteriors in all columns."""

        def on_block(block: RowBlock) -> Survey:
            return summed(model, model.expect(params, block)[0], block, everywhere=True)

        return self._total(on_block)

    def _fitted(self, parts: Sequence[Part], n_steps: int) -> list[Part]:
        """Parts after some EM iterations with fixed columns."""
        if not parts:
            return []
        model, params = assembled(self.core, parts, self._all)
        monitor = Monitor(n_steps, self.limits.tol, self._weight)
        params = climb(model, params, self.source, self.runner, monitor)
        return self._parts(model, lambda block: survey(model, params, block))

    def _merged(self, parts: Sequence[Part]) -> list[Part]:
        """Parts with states merged where that gains, then fitted."""
        return self._fitted([self._merged_states(part) for part in parts], MERGE_EM)

    def _merged_states(self, part: Part) -> Part:
        """The part with states merged where that gains, or to the number that was asked for."""
        least, most = self.limits.size or 1, self.limits.size or self._most_states
        fewer = Judge.of(self.core, part.columns).merged(part, least, most)
        return padded(fewer, least)

    def _begun(self, columns: Sequence[Array], kinds: Sequence[Array]) -> list[Part]:
        """Parts of given columns that begin with given states of the sample's rows, (n,) each."""
        sizes = [max(int(kind.max(initial=0)) + 1, self.limits.size or 1) for kind in kinds]
        model, n = laid_out(self.core, columns, sizes), len(self._sample)
        m = np.zeros((model.core.first[-1], n), self.source.X.dtype)
        for first, kind in zip(model.core.first, [*kinds, np.zeros(n, int)], strict=False):
            m[first + kind, np.arange(n)] = 1.0
        stats = sums_of_rows(self._some, m, model.layouts, self._weight)
        return parts_of(model, stats, np.zeros((len(m), len(m))))

    def _halves(self, part: Part, kind: Array, J: int = 2) -> Array:
        """Kinds (n,) of the sample's rows, each split in J by the entries of the part's columns."""
        own = np.isin(self._found.columns[self._found.owner], part.columns)
        rows = self._sample[:, own]
        return _split_rows(rows, kind, part.n_states, J, self._some.weight, self.rng)

    # --- starts ---

    def _best_start(self) -> list[Part]:
        """Best of several numbers of groups of columns, states grown in each."""
        if self.limits.n_parts is not None:
            return self._start(self.limits.n_parts, DOUBLINGS)
        most = int(self._found.of_more_than_chance().sum()) // LEAST_COLUMNS
        best: list[Part] = []
        highest, misses = self.evidence(best), 0
        for n_groups in FIRST_PARTS:
            if best and (misses == MISSES or self.late() or n_groups > most):
                break
            parts = self._start(n_groups, FIRST_DOUBLINGS)
            reached = self.evidence(parts)
            misses = 0 if reached > highest else misses + 1
            if reached > highest:
                best, highest = parts, reached
        return self._grown(best, DOUBLINGS - FIRST_DOUBLINGS)

    def _start(self, n_groups: int, doublings: int) -> list[Part]:
        """Columns grouped by their dependence, states found in each group."""
        labels = labelled_columns(self._found, n_groups, True, self.rng)
        columns = [self._found.columns[labels == k] for k in range(n_groups)]
        nothing = np.zeros(len(self._sample), int)
        parts = self._begun(columns, [nothing] * n_groups)
        if self.limits.size is not None:
            kinds = [self._halves(part, nothing, self.limits.size) for part in parts]
            parts = self._fitted(self._begun(columns, kinds), SPLIT_EM)
        return self._place_columns(self._grown(parts, doublings), set(), noted=False)

    def _grown(self, parts: list[Part], doublings: int) -> list[Part]:
        """Parts with their states split while that gains."""
        tried: Tried = set()
        for _ in range(doublings):
            before = self.evidence(parts)
            parts = self._split_states(parts, tried, noted=False)
            if self.late() or self.evidence(parts) <= before:
                break
        return parts

    # --- moves ---

    def _note(self, kind: str, who: tuple[int, ...], gain: float, parts: list[Part] | None) -> None:
        """Note a move; ``parts`` are those after it, None if it was refused."""
        last = self.path[-1] if self.path else {"n_parts": 0, "n_states": (), "evidence": -np.inf}
        now = last if parts is None else {
            "n_parts": len(parts),
            "n_states": tuple(part.n_states for part in parts),
            "evidence": self.evidence(parts),
        }  # fmt: skip
        self.path.append(
            {
                "kind": kind,
                "parts": who,
                "gain": float(gain),
                "accepted": parts is not None,
                **{name: now[name] for name in ("n_parts", "n_states", "evidence")},
            }
        )

    def _split_states(self, parts: list[Part], tried: Tried, noted: bool = True) -> list[Part]:
        """Split all states of all parts, and merge them again where that gains."""
        keys = [("states", part.columns.tobytes(), part.n_states) for part in parts]
        which = [k for k, part in enumerate(parts) if keys[k] not in tried and len(part.columns)]
        if not which:
            return parts
        before = [parts[k] for k in which]
        model, params = assembled(self.core, before, self._all)
        m = np.concatenate([model.expect(params, b)[0] for b in self._some.blocks()], axis=1)
        kinds = [
            self._halves(part, m[lo:hi].argmax(axis=0))
            for part, (lo, hi) in zip(before, pairwise(model.core.first), strict=False)
        ]
        halves = self._begun([part.columns for part in before], kinds)
        after = self._merged(self._merged(self._fitted(halves, SPLIT_EM)))
        parts = list(parts)
        for k, old, new in zip(which, before, after, strict=True):
            gain = self._worth(new) - self._worth(old)
            if gain > 0:
                parts[k] = new
            else:
                tried.add(keys[k])
            if noted:
                fewer = gain > 0 and new.n_states < old.n_states
                kind = "merge states" if fewer else "split states"
                self._note(kind, (k,), gain, list(parts) if gain > 0 else None)
        return parts

    def _place_columns(self, parts: list[Part], tried: Tried, noted: bool = True) -> list[Part]:
        """Give every column to the part of most evidence; parts that gain nothing by it die."""
        if not parts:
            return parts
        worth, choice = self._by_part(parts)
        dead = _deaths(worth, choice, self._choice) if self.limits.n_parts is None else []
        alive = np.setdiff1d(np.arange(len(worth)), [k for k, _ in dead])
        left = np.arange(len(worth))
        for k, gain in dead if noted else []:
            left = left[left != k]
            self._note("death", (k,), gain, self._moved(parts, worth, left))
        return self._fitted(self._moved(parts, worth, alive), MERGE_EM)

    def _by_part(self, parts: list[Part]) -> tuple[Array, Array]:
        """Evidence of every column under every part and in the background, (K + 1, D).

        Also what the choice of states adds to it, (K,). Some parts at a time are looked at.
        """
        worth, choice = [], []
        first = np.cumsum([0, *(part.n_states for part in parts)])
        piece = first[:-1] // max(self._most_summed, 1)
        for i in np.unique(piece):
            some = [part for part, own in zip(parts, piece, strict=True) if own == i]
            model, params = assembled(self.core, some, self._all)
            found, first = self._everywhere(model, params), model.core.first
            sums = [packed.shared for packed in found.stats.sums]
            worth.append(self._by_column(sums, first[:-1])[:-1])
            entropy, counts = np.diag(found.overlap), found.stats.states[0]
            for lo, hi in list(pairwise(first))[:-1]:
                chosen = self.core.state_prior.evidence(counts[lo:hi])
                choice.append(chosen + float(entropy[lo:hi].sum()))
        return np.concatenate([*worth, self._alone[None]]), np.array(choice)

    def _moved(self, parts: list[Part], worth: Array, alive: Array) -> list[Part]:
        """Some of the parts, every column in that of most evidence, the rows' states as they are.

        The last of ``worth`` (K + 1, D) and of ``alive`` is the background.
        """
        owner = alive[worth[alive].argmax(axis=0)]
        model, params = assembled(self.core, parts, self._all)
        kept = [np.arange(*model.core.first[[k, k + 1]]) for k in alive]
        columns = [np.flatnonzero(owner == k) for k in alive[:-1]]
        moved = laid_out(self.core, columns, [len(states) for states in kept[:-1]])
        states = np.concatenate(kept)

        def on_block(block: RowBlock) -> Survey:
            m, _ = model.expect(params, block)
            return summed(moved, m[states], block)

        return self._parts(moved, on_block)

    def _changed(self, parts: list[Part], changes: list[Change]) -> list[Part]:
        """Try changes of different parts in the same EM iterations; make those that gain."""
        new = self._merged(self._fitted([p for c in changes for p in c.new], SPLIT_EM))
        trials, start = [], 0
        for change in changes:
            own = new[start : start + len(change.new)]
            start += len(change.new)
            gain = sum(self._worth(part) for part in own)
            gain -= sum(self._worth(parts[k]) for k in change.old)
            taken = np.setdiff1d(
                np.concatenate([part.columns for part in own]),
                np.concatenate([parts[k].columns for k in change.old] or [np.empty(0, int)]),
            )
            trials.append((gain - float(self._alone[taken].sum()), change, own))
        gone: set[int] = set()
        more: list[Part] = []
        for gain, change, own in sorted(trials, key=lambda trial: -trial[0]):
            n_parts = len(parts) - len(gone) + len(more)
            after = n_parts - len(change.old) + len(own)
            gain -= self._choice(after) - self._choice(n_parts)
            if gain > 0:
                gone |= set(change.old)
                more += own
                now = [part for k, part in enumerate(parts) if k not in gone] + more
                self._note(change.kind, change.old, gain, now)
            else:
                self._note(change.kind, change.old, gain, None)
        return [part for k, part in enumerate(parts) if k not in gone] + more

    def _merge_parts(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Merge two parts whose states depend on each other."""
        model, params = assembled(self.core, parts, self._all)
        both = self._total(lambda block: together(model, params, block))
        for _ in range(MATCHINGS):
            pairs = _pairs(model.core.first[:-1], both, parts, tried, self._weight)
            if not pairs or self.late():
                break
            left = self._changed(parts, self._joined(model, params, parts, both, pairs))
            if len(left) < len(parts):
                return left
        return parts

    def _joined(
        self,
        model: HeldParts,
        params: HeldParams,
        parts: list[Part],
        both: Array,
        pairs: list[tuple[int, int]],
    ) -> list[Change]:
        """Pairs of parts as one, which begins with the pairs of states that occur."""
        core = model.core
        cells = []
        for a, b in pairs:
            T = both[core.first[a] : core.first[a + 1], core.first[b] : core.first[b + 1]]
            order = np.argsort(-T.ravel(), kind="stable")[: 4 * self._most_states]
            cells.append(
                np.unravel_index(order[: max(int((T > LEAST_JOINT_ROWS).sum()), 1)], T.shape)
            )
        union = [np.union1d(parts[a].columns, parts[b].columns) for a, b in pairs]
        joined = laid_out(self.core, union, [len(cell[0]) for cell in cells])
        first = joined.core.first

        def on_block(block: RowBlock) -> Survey:
            m, _ = model.expect(params, block)
            joint = np.ones((first[-1], block.n_rows), m.dtype)
            for k, ((a, b), (i, j)) in enumerate(zip(pairs, cells, strict=True)):
                joint[first[k] : first[k + 1]] = m[core.first[a] + i] * m[core.first[b] + j]
            return summed(joined, joint, block)

        merged = self._parts(joined, on_block)
        return [
            Change("merge", pair, [self._merged_states(part)])
            for pair, part in zip(pairs, merged, strict=True)
        ]

    def _split_parts(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Split the columns of every part into two groups by their dependence."""
        changes = []
        for k, part in enumerate(parts):
            key = ("split", part.columns.tobytes())
            own = np.isin(self._found.columns, part.columns)
            if key in tried or own.sum() < 2 * LEAST_COLUMNS:
                continue
            tried.add(key)
            labels = group_columns(self._found.affinity[np.ix_(own, own)], 2, self.rng)
            one = self._found.columns[own][labels == 1]
            other = np.setdiff1d(part.columns, one)
            if min(len(one), len(other)):
                halves = [part.of_columns(self.core, columns) for columns in (one, other)]
                changes.append(
                    Change("split", (k,), [self._merged_states(half) for half in halves])
                )
        return self._changed(parts, changes) if changes else parts

    def _new_parts(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Begin parts with columns of the background that depend on each other."""
        taken = np.concatenate([np.empty(0, int), *(part.columns for part in parts)])
        free = ~np.isin(self._found.columns, taken) & self._found.of_more_than_chance()
        columns = self._found.columns[free]
        key = ("birth", columns.tobytes())
        if len(columns) < LEAST_COLUMNS or key in tried:
            return parts
        tried.add(key)
        labels = group_columns(self._found.affinity[np.ix_(free, free)], 1, self.rng)
        columns = columns[labels == 0]
        if len(columns) < 2:
            return parts
        (begun,) = self._begun([columns], [np.zeros(len(self._sample), int)])
        kind = self._halves(begun, np.zeros(len(self._sample), int), self.limits.size or 4)
        changes = [Change("birth", (), self._begun([columns], [kind]))]
        return self._changed(parts, changes)


def _pairs(
    first: Array, both: Array, parts: list[Part], tried: Tried, weight: float
) -> list[tuple[int, int]]:
    """Disjoint pairs of parts, the most dependent ones first."""
    spans = list(pairwise(first))
    scored = []
    for a in range(len(parts)):
        for b in range(a + 1, len(parts)):
            T = both[slice(*spans[a]), slice(*spans[b])]
            expected = np.outer(T.sum(axis=1), T.sum(axis=0)) / weight
            shared = float(np.sum(special.xlogy(T, T) - special.xlogy(T, expected)))
            chance = 0.5 * (len(T) - 1) * (T.shape[1] - 1)
            key = ("merge", *(parts[k].columns.tobytes() for k in (a, b)))
            if shared > chance and key not in tried:
                scored.append((shared - chance, (a, b), key))
    used: set[int] = set()
    out = []
    for _, pair, key in sorted(scored, reverse=True, key=lambda s: s[0]):
        if not used & set(pair):
            used |= set(pair)
            tried.add(key)
            out.append(pair)
    return out


def _split_rows(
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


def _deaths(worth: Array, choice: Array, cost: Callable[[int], float]) -> list[tuple[int, float]]:
    """Parts that are not needed, one after the other, each with the gain of dropping it.

    ``worth`` (K + 1, D) is the evidence of columns in every part and the background, ``choice``
    (K,) what the choice of states adds to it, ``cost(n)`` that of columns choosing among n parts.
    """
    alive = np.arange(len(worth))  # the background is the last
    dead: list[tuple[int, float]] = []
    while len(alive) > 1:
        order = np.sort(worth[alive], axis=0)
        owner = worth[alive].argmax(axis=0)
        lost = np.bincount(owner, order[-1] - order[-2], minlength=len(alive))[:-1]
        gains = cost(len(alive) - 1) - cost(len(alive) - 2) - lost - choice[alive[:-1]]
        k = int(gains.argmax())
        if gains[k] <= 0:
            break
        dead.append((int(alive[k]), float(gains[k])))
        alive = np.delete(alive, k)
    return dead
