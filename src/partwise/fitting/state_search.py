"""Select the numbers of parts and states: starts of several sizes, then moves by the ELBO.

During the search every column has one part, so the bound is a sum over parts: a change of some
parts is tried on these alone, changes of different parts in the same EM iterations, and each is
judged by its own terms (`partwise.models.sizes`). All states are split at once, then merged where
that gains. Columns move to the part of largest evidence, which the sums of one EM iteration give
for all parts; the same sums show which parts are not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.fitted import UNCERTAIN
from partwise.fitting.checkpoint import SearchMemo, SizePath
from partwise.fitting.column_moves import CLOSE_NATS, ColumnMoves
from partwise.fitting.state_moves import (
    NEAR,
    SAME,
    TREE_NEAR_EM,
    TREE_NEAR_TOL,
    StateMoves,
    Tried,
    move_key,
)
from partwise.fitting.state_trials import MERGE_EM, SPLIT_EM, Trials
from partwise.models.sizes import (
    HeldParams,
    HeldParts,
    Part,
    Survey,
    assembled,
    laid_out,
    summed,
    together,
)
from partwise.starts.dependence import (
    group_columns,
    labeled_columns,
)

# Numbers of groups of columns to begin with; the best goes on. Larger ones are left out once so
# many in a row have not helped, and a group has on average no fewer columns than this.
FIRST_PARTS = (1, 2, 4, 8, 16, 32)
MISSES = 2
LEAST_COLUMNS = 3

# Where cells are few, so many of the best starts go through all moves, and the best end is kept.
FEW_STARTS = 2

# Parts are uncertain if another division of the columns that was tried against them has less than
# CLOSE_NATS less, or the end of another start less than this share of what the parts explain, but
# keeps together less than this share of the pairs of columns that are together in either. Ends
# further apart show only that one of the starts was poor.
UNCERTAIN_SHARE = 0.1
NESTED_SHARE = 0.05
SAME_PAIRS = 2 / 3

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


class Change(NamedTuple):
    """Parts that replace others."""

    kind: str
    old: tuple[int, ...]
    new: list[Part]


class End(NamedTuple):
    """Parts at the end of all moves from a start, and these moves."""

    evidence: float
    parts: list[Part]
    path: SizePath


@dataclass
class Search:
    """Sizes of an MCVQ on one source.

    ``late()`` says whether time is up; ``memo`` keeps what is done, for a search that was killed.
    """

    on: Trials
    late: Callable[[], bool]
    memo: SearchMemo
    path: SizePath = field(default_factory=list)

    @cached_property
    def states(self) -> StateMoves:
        """Moves of the states of parts."""
        return StateMoves(self.on, self.late, self._note)

    @cached_property
    def columns(self) -> ColumnMoves:
        """Moves of columns between parts."""
        place = partial(self._place_columns, tried=set(), noted=False)
        return ColumnMoves(self.on, self.states, place, self.late)

    def run(self) -> list[Part]:
        """Parts of the sizes found, at least one, by their first column."""
        found = []
        for i, start in enumerate(self._starts()):
            self.path = []
            self._note("start", tuple(range(len(start))), 0.0, start)
            parts = self._improved(f"rounds {i}", start)
            found.append(End(self.on.evidence(parts), parts, self.path))
        found.sort(key=lambda end: -end.evidence)
        _, parts, self.path = found[0]
        if self.on.few:
            parts = self._polished(found)
        gap = self._gap(parts, found)
        if gap is not None:
            warn(
                "Parts are uncertain: another division of the columns is only "
                f"{gap:.1f} nats worse; see part_stability, or set n_parts."
            )
            self._note(UNCERTAIN, (), -gap, None)
        nothing = self.on.every.of_columns(self.on.core, np.empty(0, int))
        return sorted(
            parts or [nothing],
            key=lambda part: int(part.columns.min(initial=self.on.core.n_columns)),
        )

    def _gap(self, parts: list[Part], found: Sequence[End]) -> float | None:
        """Nats that the best other division has less, None if none is nearly as good.

        Others are the ends of other starts and what was tried against these parts.
        """
        highest = self.on.evidence(parts)
        explained, own = highest - self.on.evidence([]), _together(parts)
        others = [(highest - end.evidence, end.parts, explained) for end in found[1:]]
        for before, after, gain in self.columns.others:
            if own == _together(before):
                others.append((-gain, after, 0.0))
            elif own == _together(after):
                others.append((gain, before, 0.0))
        near = [gap for gap, other, share in others if _are_uncertain(parts, other, gap, share)]
        return max(0.0, min(near)) if near else None

    def _improved(self, name: str, parts: list[Part]) -> list[Part]:
        """Parts after rounds of all moves, which the memo keeps by a name."""
        rng, tried, done = self.on.rng, Tried(), 0
        kept = self.memo.latest(name, rng)
        if kept is not None:
            done, parts, self.path, tried = kept["done"], kept["parts"], kept["path"], kept["tried"]
            parts, tried = list(parts), set(tried)
        for n in range(done, MOST_ROUNDS):
            before, n_noted = self.on.evidence(parts), len(self.path)
            for move in self._moves():
                if self.late():
                    break
                parts = move(parts, tried)
            gain, explained = self.on.evidence(parts) - before, before - self.on.evidence([])
            made = any(move["accepted"] for move in self.path[n_noted:])
            last = self.late() or not made or gain <= LEAST_GAIN * explained
            done = MOST_ROUNDS if last else n + 1
            state = {"done": done, "parts": parts, "path": self.path, "tried": sorted(tried)}
            self.memo.keep(name, rng, state)
            if last:
                break
        return parts

    def _polished(self, found: Sequence[End]) -> list[Part]:
        """Parts of the best end after more thorough trials of columns and, last, of states.

        The trials of states are the same whatever the seed. Where none gains, the column that loses
        least by leaving its part is tried in another whose states begin again.
        """
        name, rng = "polished", self.on.rng
        kept = self.memo.latest(name, rng)
        if kept is not None:
            self.path, self.columns.others[:] = kept["path"], map(tuple, kept["others"])
            return list(kept["parts"])
        first, best = _together(found[0].parts), self._rearranged(found, 0)
        for i, (reached, others, _) in enumerate(found):
            if reached > best.evidence - NEAR and _together(others) != first:
                best = max(best, self._rearranged(found, i), key=lambda end: end.evidence)
        _, parts, self.path = best
        tried = Tried()
        for _ in range(MOST_ROUNDS):
            before = self.on.evidence(parts)
            parts = self.states.from_trees(parts, tried)
            if parts and not self.late():
                placed = self.on.fitted(
                    self._place_columns(parts, tried, noted=False), TREE_NEAR_EM, TREE_NEAR_TOL
                )
                gain = self.on.evidence(placed) - self.on.evidence(parts)
                if gain > 0 and len(placed) < len(parts):
                    self._note("death", (), gain, placed)
                parts = placed if gain > 0 else parts
            if self.on.evidence(parts) <= before + SAME:
                moved = self.columns.moved_last(parts, tried)
                if moved is None:
                    break
                gain = self.on.evidence(moved) - self.on.evidence(parts)
                self._note("move", (), gain, moved)
                parts = moved
            if self.late():
                break
        state = {"parts": parts, "path": self.path, "others": self.columns.others}
        self.memo.keep(name, rng, state)
        return parts

    def _rearranged(self, found: Sequence[End], i: int) -> End:
        """End i after trials of other divisions of its columns."""
        _, parts, self.path = found[i]
        ends = [end.parts for k, end in enumerate(found) if k != i]
        for kind, changed in self.columns.rearranged(parts, ends):
            self._note(kind, (), self.on.evidence(changed) - self.on.evidence(parts), changed)
            parts = changed
        if parts is not found[i].parts:
            parts = self._improved(f"rounds of end {i}", parts)
        return End(self.on.evidence(parts), parts, self.path)

    def _moves(self) -> list[Callable[[list[Part], Tried], list[Part]]]:
        """Kinds of moves, in the order of a round."""
        states = [self.states.split] if self.on.limits.size is None else []
        parts = [self._merge_parts, self._split_parts, self._new_parts, self._single_out]
        parts = parts if self.on.limits.n_parts is None else []
        return [*states, self._place_columns, *parts, self.states.begin_again]

    # --- starts ---

    def _starts(self) -> Iterator[list[Part]]:
        """Best of several numbers of groups of columns, states grown in each."""
        if self.on.limits.n_parts is not None:
            yield self._once("start", partial(self._start, self.on.limits.n_parts, DOUBLINGS))
            return
        _ = self.on.singles  # made before what a memo keeps, so that random numbers are the same
        most = int(self.on.found.of_more_than_chance().sum()) // LEAST_COLUMNS
        found: list[tuple[float, list[Part]]] = [(self.on.evidence([]), [])]
        misses, highest = 0, found[0][0]
        for n_groups in FIRST_PARTS:
            # Where columns are many, groups of several true parts gain nothing over no parts at
            # all, so misses count only once some number of groups has gained.
            missed = misses >= MISSES and highest > found[0][0]
            if n_groups > 2 and (missed or self.late() or n_groups > most):
                break
            make = partial(self._start, n_groups, FIRST_DOUBLINGS)
            parts = self._once(f"start {n_groups}", make)
            reached = self.on.evidence(parts)
            misses = 0 if reached > highest else misses + 1
            highest = max(highest, reached)
            found.append((reached, parts))
        found.sort(key=lambda one: -one[0])
        for i, (_, parts) in enumerate(found[: FEW_STARTS if self.on.few else 1]):
            more = partial(self.states.grown, parts, DOUBLINGS - FIRST_DOUBLINGS)
            yield self._once(f"grown {i}", more)
            if self.late():
                break

    def _once(self, name: str, make: Callable[[], list[Part]]) -> list[Part]:
        """Parts that ``make`` gives, made once in all."""
        kept = self.memo.latest(name, self.on.rng)
        if kept is not None:
            return list(kept["parts"])
        parts = make()
        self.memo.keep(name, self.on.rng, {"parts": parts})
        return parts

    def _start(self, n_groups: int, doublings: int) -> list[Part]:
        """Columns grouped by their dependence, states found in each group."""
        labels = labeled_columns(self.on.found, n_groups, True, self.on.rng)
        columns = [self.on.found.columns[labels == k] for k in range(n_groups)]
        nothing = np.zeros(len(self.on.sample), int)
        parts = self.on.begun(columns, [nothing] * n_groups)
        if self.on.limits.size is not None:
            kinds = [self.on.halves(part, nothing, self.on.limits.size) for part in parts]
            parts = self.on.fitted(self.on.begun(columns, kinds), SPLIT_EM)
        return self._place_columns(self.states.grown(parts, doublings), set(), noted=False)

    # --- moves ---

    def _note(self, kind: str, who: tuple[int, ...], gain: float, parts: list[Part] | None) -> None:
        """Note a move; ``parts`` are those after it, None if it was refused."""
        last = self.path[-1] if self.path else {"n_parts": 0, "n_states": (), "evidence": -np.inf}
        now = last if parts is None else {
            "n_parts": len(parts),
            "n_states": tuple(part.n_states for part in parts),
            "evidence": self.on.evidence(parts),
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

    def _place_columns(self, parts: list[Part], tried: Tried, noted: bool = True) -> list[Part]:
        """Give every column to the part of most evidence; parts that gain nothing by it die."""
        if not parts:
            return parts
        worth, choice = self.columns.by_part(parts)
        dead = self.columns.deaths(worth, choice)
        alive = np.setdiff1d(np.arange(len(worth)), [k for k, _ in dead])
        left = np.arange(len(worth))
        for k, gain in dead if noted else []:
            left = left[left != k]
            self._note("death", (k,), gain, self.columns.moved(parts, worth, left))
        return self.on.fitted(self.columns.moved(parts, worth, alive), MERGE_EM)

    def _changed(self, parts: list[Part], changes: list[Change]) -> list[Part]:
        """Try changes of different parts in the same EM iterations; make those that gain."""
        new = self.on.merged(self.on.fitted([p for c in changes for p in c.new], SPLIT_EM))
        trials, start = [], 0
        for change in changes:
            own = new[start : start + len(change.new)]
            start += len(change.new)
            gain = sum(self.on.worth(part) for part in own)
            gain -= sum(self.on.worth(parts[k]) for k in change.old)
            taken = np.setdiff1d(
                np.concatenate([part.columns for part in own]),
                np.concatenate([parts[k].columns for k in change.old] or [np.empty(0, int)]),
            )
            trials.append((gain - float(self.on.alone[taken].sum()), change, own))
        gone: set[int] = set()
        more: list[Part] = []
        for gain, change, own in sorted(trials, key=lambda trial: -trial[0]):
            n_parts = len(parts) - len(gone) + len(more)
            after = n_parts - len(change.old) + len(own)
            gain -= self.on.choice(after) - self.on.choice(n_parts)
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
        model, params = assembled(self.on.core, parts, self.on.every)
        both = self.on.total(lambda block: together(model, params, block))
        for _ in range(MATCHINGS):
            pairs = _pairs(model.core.first[:-1], both, parts, tried, self.on.weight)
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
            order = np.argsort(-T.ravel(), kind="stable")[: 4 * self.on.most_states]
            cells.append(
                np.unravel_index(order[: max(int((T > LEAST_JOINT_ROWS).sum()), 1)], T.shape)
            )
        union = [np.union1d(parts[a].columns, parts[b].columns) for a, b in pairs]
        joined = laid_out(self.on.core, union, [len(cell[0]) for cell in cells])
        first = joined.core.first

        def on_block(block: RowBlock) -> Survey:
            m, _ = model.expect(params, block)
            joint = np.ones((first[-1], block.n_rows), m.dtype)
            for k, ((a, b), (i, j)) in enumerate(zip(pairs, cells, strict=True)):
                joint[first[k] : first[k + 1]] = m[core.first[a] + i] * m[core.first[b] + j]
            return summed(joined, joint, block)

        merged = self.on.parts_in(joined, on_block)
        return [
            Change("merge", pair, [self.on.merged_states(part)])
            for pair, part in zip(pairs, merged, strict=True)
        ]

    def _split_parts(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Split the columns of every part into two groups by their dependence."""
        changes = []
        for k, part in enumerate(parts):
            key = move_key("split", part.columns)
            own = np.isin(self.on.found.columns, part.columns)
            if key in tried or own.sum() < 2 * LEAST_COLUMNS:
                continue
            tried.add(key)
            labels = group_columns(self.on.found.affinity[np.ix_(own, own)], 2, self.on.rng)
            one = self.on.found.columns[own][labels == 1]
            other = np.setdiff1d(part.columns, one)
            if min(len(one), len(other)):
                halves = [part.of_columns(self.on.core, columns) for columns in (one, other)]
                changes.append(
                    Change("split", (k,), [self.on.merged_states(half) for half in halves])
                )
        return self._changed(parts, changes) if changes else parts

    def _new_parts(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Begin parts with columns of the background that depend on each other."""
        taken = np.concatenate([np.empty(0, int), *(part.columns for part in parts)])
        free = ~np.isin(self.on.found.columns, taken) & self.on.found.of_more_than_chance()
        columns = self.on.found.columns[free]
        key = move_key("birth", columns)
        if len(columns) > 1 and key not in tried:
            tried.add(key)
            labels = group_columns(self.on.found.affinity[np.ix_(free, free)], 1, self.on.rng)
            if np.sum(labels == 0) > 1:
                born = Change("birth", (), self.on.births([columns[labels == 0]]))
                after = self._changed(parts, [born])
                if len(after) > len(parts):
                    return after
        alone = np.setdiff1d(self.on.singles.columns, taken)
        key = move_key("births", alone)
        if not len(alone) or key in tried:
            return parts
        tried.add(key)
        singles = [self.on.singles.parts[int(d)] for d in alone]
        return self._changed(parts, [Change("birth", (), [part]) for part in singles])

    def _single_out(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Make a part of one column of each part, the one that has most states by itself."""
        changes = []
        for k, part in enumerate(parts):
            key = move_key("single", part.columns, part.n_states)
            own = np.intersect1d(part.columns, self.on.singles.columns)
            if key in tried or len(part.columns) < 2 or not len(own):
                continue
            tried.add(key)
            alone, singles = self.on.alone, self.on.singles.parts
            gains = [self.on.worth(singles[d]) - alone[d] for d in own.tolist()]
            d = int(own[np.argmax(gains)])
            rest = part.of_columns(self.on.core, np.setdiff1d(part.columns, d))
            # States that the column has formed say little about the others, so these begin again.
            kind = np.zeros(len(self.on.sample), int)
            kind = self.on.halves(rest, kind, self.on.limits.size or part.n_states + 1)
            new = [*self.on.begun([rest.columns], [kind]), singles[d]]
            changes.append(Change("split", (k,), new))
        return self._changed(parts, changes) if changes else parts


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
            key = move_key("merge", *(parts[k].columns for k in (a, b)))
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


def _are_uncertain(
    parts: Sequence[Part], others: Sequence[Part], gap: float, explained: float
) -> bool:
    """Whether other parts, with ``gap`` nats less, are nearly as good and have other columns.

    Parts that only join or divide these parts agree with them more, and must be nearer.
    """
    own, other = _together(parts), _together(others)
    nested = own <= other or other <= own
    near = max(CLOSE_NATS, (NESTED_SHARE if nested else UNCERTAIN_SHARE) * explained)
    return gap < near and len(own & other) < SAME_PAIRS * len(own | other)


def _together(parts: Sequence[Part]) -> set[tuple[int, int]]:
    """Pairs of columns that are together."""
    columns = [part.columns.tolist() for part in parts if part.n_states > 1]
    return {pair for own in columns for pair in combinations(own, 2)}
