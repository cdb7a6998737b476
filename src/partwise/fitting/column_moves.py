"""Moves of columns between parts: placed, tried in the parts of another end, grouped again.

Columns are placed by the sums of one EM iteration, with the states of all parts as they are. A
division of columns that needs other states is not found so: at the end of a search of few cells
some are tried with states of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.fitting.state_moves import (
    NEAR,
    TREE_NEAR_EM,
    TREE_NEAR_TOL,
    StateMoves,
    Tried,
    move_key,
)
from partwise.fitting.state_trials import SPLIT_EM, Trials
from partwise.models.sizes import Part, Survey, assembled, laid_out, summed
from partwise.starts.dependence import group_columns

# Pairs of parts whose columns are grouped again, those with the closest columns first; numbers of
# groups; rounds in which the states of new groups may double.
REGROUPED_PAIRS = 4
REGROUPED = (2, 3)
REGROUPED_DOUBLINGS = 2

# A division that gains no more nats than this is not better: EM iterations may bring as much.
LEAST_NATS = 0.1

# Columns that are tried in another part, those that lose least first; and how many of them are
# tried at the very end, with states that all trees begin.
NEAREST_COLUMNS = 4
LAST_COLUMNS = 1

# Divisions that differ by less than so many nats are close.
CLOSE_NATS = 3.0


# A change of the columns of parts: what tells it from others, and the parts after it.
Proposal: TypeAlias = tuple[tuple[int, ...], Callable[[], list[Part]]]

# Parts, those that were tried in their place, and how many nats these have more.
Other: TypeAlias = tuple[list[Part], list[Part], float]


@dataclass(frozen=True)
class ColumnMoves:
    """Moves of columns; ``place`` gives columns to parts, ``late()`` says whether time is up.

    ``others`` are divisions that were tried and were nearly as good, or little better.
    """

    on: Trials
    states: StateMoves
    place: Callable[[list[Part]], list[Part]]
    late: Callable[[], bool]
    others: list[Other] = field(default_factory=list)

    def by_part(self, parts: list[Part]) -> tuple[Array, Array]:
        """Evidence of every column under every part and in the background, (K + 1, D).

        Also what the choice of states adds to it, (K,). Some parts at a time are looked at.
        """
        worth, choice = [], []
        first = np.cumsum([0, *(part.n_states for part in parts)])
        piece = first[:-1] // max(self.on.most_summed, 1)
        for i in np.unique(piece):
            some = [part for part, own in zip(parts, piece, strict=True) if own == i]
            model, params = assembled(self.on.core, some, self.on.every)
            found, first = self.on.everywhere(model, params), model.core.first
            sums = [packed.shared for packed in found.stats.sums]
            worth.append(self.on.by_column(sums, first[:-1])[:-1])
            entropy, counts = np.diag(found.overlap), found.stats.states[0]
            for lo, hi in list(pairwise(first))[:-1]:
                chosen = self.on.core.state_prior.evidence(counts[lo:hi])
                choice.append(chosen + float(entropy[lo:hi].sum()))
        return np.concatenate([*worth, self.on.alone[None]]), np.array(choice)

    def moved(self, parts: list[Part], worth: Array, alive: Array) -> list[Part]:
        """Some of the parts, every column in that of most evidence, the rows' states as they are.

        The last of ``worth`` (K + 1, D) and of ``alive`` is the background.
        """
        owner = alive[worth[alive].argmax(axis=0)]
        model, params = assembled(self.on.core, parts, self.on.every)
        kept = [np.arange(*model.core.first[[k, k + 1]]) for k in alive]
        columns = [np.flatnonzero(owner == k) for k in alive[:-1]]
        moved = laid_out(self.on.core, columns, [len(states) for states in kept[:-1]])
        states = np.concatenate(kept)

        def on_block(block: RowBlock) -> Survey:
            m, _ = model.expect(params, block)
            return summed(moved, m[states], block)

        return self.on.parts_in(moved, on_block)

    def deaths(self, worth: Array, choice: Array) -> list[tuple[int, float]]:
        """Parts that are not needed, one after the other, each with the gain of dropping it.

        ``worth`` (K + 1, D) and ``choice`` (K,) are as `by_part` gives them.
        """
        if self.on.limits.n_parts is not None:
            return []
        cost = self.on.choice
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

    # --- other divisions of the columns ---

    def rearranged(
        self, parts: list[Part], ends: Sequence[list[Part]]
    ) -> Iterator[tuple[str, list[Part]]]:
        """Kinds of moves that gain, and the parts after each; ``ends`` are of other starts."""
        if self.on.limits.n_parts is not None:
            return
        proposals: dict[str, Callable[[list[Part]], Iterator[Proposal]]] = {
            "exchange": partial(self._exchanges, ends=ends),
            "regroup": self._regroups,
            "move": self._single_moves,
        }
        for kind, propose in proposals.items():
            tried: set[tuple[int, ...]] = set()
            while (after := self._first_gain(parts, propose(parts), tried)) is not None:
                parts = after
                yield kind, parts

    def _first_gain(
        self, parts: list[Part], proposals: Iterator[Proposal], tried: set[tuple[int, ...]]
    ) -> list[Part] | None:
        """Parts of the first new proposal with more evidence, None if there is none.

        If none has, other states are tried in the new parts of the one that is nearest.
        """
        nearest = -NEAR
        near: list[Part] = []
        for key, make in proposals:
            if self.late():
                return None
            if key not in tried:
                tried.add(key)
                after = make()
                gain = self._gain(parts, after)
                if gain > LEAST_NATS:
                    return after
                if gain > nearest:
                    nearest, near = gain, after
        known = {part.columns.tobytes() for part in parts}
        new = [part for part in near if part.columns.tobytes() not in known]
        if not new:
            return None
        after = [part for part in near if part.columns.tobytes() in known]
        after += StateMoves(self.on, self.late).from_trees(new, set(), single=False)
        return after if self._gain(parts, after) > LEAST_NATS else None

    def _gain(self, parts: list[Part], after: list[Part]) -> float:
        """Nats that other parts have more; those that are close are noted."""
        gain = self.on.evidence(after) - self.on.evidence(parts)
        if abs(gain) < CLOSE_NATS:
            self.others.append((parts, after, gain))
        return gain

    def _exchanges(self, parts: list[Part], ends: Sequence[list[Part]]) -> Iterator[Proposal]:
        """A part of another end in place of what has its columns now."""
        for new in (part for end in ends for part in end):
            if not any(np.array_equal(new.columns, part.columns) for part in parts):
                yield tuple(new.columns.tolist()), partial(self._with, parts, new)

    def _with(self, parts: list[Part], new: Part) -> list[Part]:
        """Parts without the columns of a new one, and this."""
        rest = [
            part.of_columns(self.on.core, np.setdiff1d(part.columns, new.columns)) for part in parts
        ]
        return self.place(self._settled([*rest, new]))

    def _regroups(self, parts: list[Part]) -> Iterator[Proposal]:
        """The columns of two parts in groups of their own, with new states.

        The columns in no part that depend on others count as one.
        """
        columns, affinity = self.on.found.columns, self.on.found.affinity
        own = [np.flatnonzero(np.isin(columns, part.columns)) for part in parts]
        taken = np.concatenate([np.empty(0, int), *own])
        own.append(np.setdiff1d(np.flatnonzero(self.on.found.of_more_than_chance()), taken))
        pairs = sorted(
            combinations(range(len(own)), 2),
            key=lambda pair: -affinity[np.ix_(own[pair[0]], own[pair[1]])].max(initial=0.0),
        )
        for a, b in pairs[:REGROUPED_PAIRS]:
            both = np.union1d(own[a], own[b])
            rest = [part for k, part in enumerate(parts) if k not in (a, b)]
            for n_groups in REGROUPED:
                if len(both) > n_groups:
                    make = partial(self._regrouped, rest, both, n_groups)
                    yield (n_groups, *both.tolist()), make

    def _regrouped(self, rest: list[Part], both: Array, n_groups: int) -> list[Part]:
        """The rest, and columns (places among those looked at) in groups by their dependence."""
        found = self.on.found
        labels = group_columns(found.affinity[np.ix_(both, both)], n_groups, self.on.rng)
        groups = [found.columns[both[labels == k]] for k in range(n_groups) if k in labels]
        new = self._settled(self.on.births(groups))
        if self.on.limits.size is None:
            new = self.states.grown(new, REGROUPED_DOUBLINGS)
        return self.place([*rest, *new])

    def _single_moves(self, parts: list[Part]) -> Iterator[Proposal]:
        """A column in another part, those that lose least by it first."""
        worth, _ = self.by_part(parts)
        for d, to in self._nearest(parts, worth[:-1], NEAREST_COLUMNS):
            key = (d, *parts[to].columns.tolist())
            yield key, partial(self._after_move, parts, worth, d, to)

    def _nearest(self, parts: list[Part], worth: Array, n: int) -> Iterator[tuple[int, int]]:
        """Columns, and the part to which each would go, at most n, those that lose least first.

        ``worth`` (K, D) or (K + 1, D), with the background, is as `by_part` gives it.
        """
        d = self.on.found.columns
        owner = np.full(self.on.core.n_columns, len(parts))
        for k, part in enumerate(parts):
            owner[part.columns] = k
        own = np.vstack([worth[: len(parts)], self.on.alone])[owner[d], d]
        loss = own - worth[:, d]
        loss[owner[d] == np.arange(len(worth))[:, None]] = np.inf
        near = np.argsort(loss.min(axis=0, initial=np.inf), kind="stable")[:n]
        for i in near[np.isfinite(loss[:, near].min(axis=0, initial=np.inf))]:
            yield int(d[i]), int(loss[:, i].argmin())

    def _after_move(self, parts: list[Part], worth: Array, column: int, to: int) -> list[Part]:
        """Parts after one column has moved, their states split where that gains."""
        after = self._settled(self._with_column(parts, worth, column, to))
        return after if self.on.limits.size else self.states.grown(after, 1)

    def _with_column(self, parts: list[Part], worth: Array, column: int, to: int) -> list[Part]:
        """Parts after one column has moved, the rows' states as they are."""
        worth = worth.copy()
        worth[to, column] = np.inf
        return self.moved(parts, worth, np.arange(len(worth)))

    def moved_last(self, parts: list[Part], tried: Tried) -> list[Part] | None:
        """Parts after a column has moved that is not better in another part's present states.

        The states of the parts that change are begun again, then by trees; None if none gains.
        """
        if self.on.limits.n_parts is not None or not parts:
            return None
        worth, _ = self.by_part(parts)
        known = {part.columns.tobytes() for part in parts}
        tried.add(_division_key(parts))
        for d, to in self._nearest(parts, worth, LAST_COLUMNS):
            after = self._with_column(parts, worth, d, to)
            key = _division_key(after)
            if key in tried or self.late():
                continue
            tried.add(key)
            new = [part for part in after if part.columns.tobytes() not in known]
            after = [part for part in after if part.columns.tobytes() in known]
            after += self._begun_again(new)
            if self._gain(parts, after) > LEAST_NATS:
                return after
        return None

    def _begun_again(self, parts: list[Part]) -> list[Part]:
        """Parts of the same columns, states begun again where that is better, then by trees."""
        fresh = self._settled(self.on.births([p.columns for p in parts if len(p.columns)]))
        if self.on.limits.size is None:
            fresh = self.states.grown(fresh, REGROUPED_DOUBLINGS)
        some = sorted([*self._settled(parts), *fresh], key=self.on.worth)
        best = list({part.columns.tobytes(): part for part in some}.values())
        after = StateMoves(self.on, self.late).from_trees(best, set())
        return self.on.fitted(after, TREE_NEAR_EM, TREE_NEAR_TOL)

    def _settled(self, parts: list[Part]) -> list[Part]:
        """Parts that have columns and several states, after some EM iterations."""
        some = self.on.merged(self.on.fitted([p for p in parts if len(p.columns)], SPLIT_EM))
        return [part for part in some if part.n_states > 1]


def _division_key(parts: Sequence[Part]) -> str:
    """Name of a division of the columns."""
    return move_key("division", *sorted(part.columns.tolist() for part in parts))
