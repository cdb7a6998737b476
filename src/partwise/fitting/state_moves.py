"""Moves of the states of parts whose columns are given: split, begun again, begun by trees of rows.

All parts are tried in the same EM iterations, and each is judged by its own terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from partwise.contracts import Array
from partwise.fitting.state_trials import SPLIT_EM, Trials
from partwise.models.sizes import Judge, Part, assembled

# Times that states of a part are begun again by some of its columns, if cells are few and if not.
TRIALS = (4, 1)

# At the end of a search of few cells, states of a part are begun by trees of rows, once for each of
# these numbers of states above the number found: by all columns, and by some, one at a time.
TREE_OF_ALL, TREE_OF_ONE = (1, 2, 4), (1, 3)
TREE_COLUMNS = 8

# Then some of its states are added up though that loses, and EM decides: so many fewer each time.
FEWER = (1, 2)

# EM iterations of these trials before states are merged, after, and of those that are near; and the
# gain per row that ends them.
TREE_EM, TREE_NEAR_EM = 30, 200
TREE_TOL, TREE_NEAR_TOL = 1e-4, 1e-5

# States that are less than so many nats worse than before get more EM iterations before they are
# given up.
NEAR = 10.0
NEAR_EM = 20

# States that are less than so many nats worse are the same but for some EM iterations.
SAME = 0.01

# Moves that were tried without success, by what they would change.
Tried: TypeAlias = set[str]


@dataclass(frozen=True)
class StateMoves:
    """Moves of states; ``late()`` says whether time is up, ``note`` notes a move, if given."""

    on: Trials
    late: Callable[[], bool] = bool
    note: Callable[[str, tuple[int, ...], float, list[Part] | None], None] | None = None

    def grown(self, parts: list[Part], doublings: int) -> list[Part]:
        """Parts with their states split while that gains."""
        tried: Tried = set()
        for _ in range(doublings):
            before = self.on.evidence(parts)
            parts = self.split(parts, tried, noted=False)
            if self.late() or self.on.evidence(parts) <= before:
                break
        return parts

    def split(self, parts: list[Part], tried: Tried, noted: bool = True) -> list[Part]:
        """Split all states of all parts, and merge them again where that gains."""
        return self._restated(parts, tried, "states", self.on.halves, noted)

    def regrouped(self, parts: list[Part]) -> list[Part]:
        """Split all states of all parts, and merge them to as many as there were."""
        propose = self.on.halves
        return self._restated(parts, set(), "regroup", propose, keep_sizes=True)

    def begin_again(self, parts: list[Part], tried: Tried) -> list[Part]:
        """Split states, or begin with as many new ones, by some columns of each part."""
        for i in range(TRIALS[0] if self.on.few else TRIALS[1]):
            if self.late():
                break
            parts = self._restated(parts, tried, f"again {i}", self._loose if i % 2 else self._new)
        return parts

    def _loose(self, part: Part, kind: Array) -> Array:
        """Kinds (n,) of the sample's rows, each split in two by some of the part's columns."""
        return self.on.halves(part, kind, some=True)

    def _new(self, part: Part, kind: Array) -> Array:
        """New kinds (n,) of the sample's rows, as many or more, by some of the part's columns."""
        J = part.n_states + int(self.on.rng.integers(part.n_states + 3))
        return self.on.halves(part, np.zeros_like(kind), max(J, 2), some=True)

    def from_trees(self, parts: list[Part], tried: Tried, single: bool = True) -> list[Part]:
        """Begin states by trees of rows, by all columns of a part.

        If asked, also by single ones, and with some of the states there are added up.
        """
        for more in TREE_OF_ALL:
            propose = partial(self._by_tree, more=more, place=None)
            parts = self._restated(parts, tried, f"tree {more}", propose, patient=True)
        for fewer in FEWER if single else ():
            which = [k for k, part in enumerate(parts) if part.n_states > fewer + 1]
            propose, way = partial(self._fewer, fewer=fewer), f"fewer {fewer}"
            parts = self._restated(parts, tried, way, propose, patient=True, which=which)
        for more in TREE_OF_ONE if single else ():
            for place in range(TREE_COLUMNS):
                which = [k for k, part in enumerate(parts) if place < len(part.columns)]
                if self.late() or not which:
                    break
                propose = partial(self._by_tree, more=more, place=place)
                way = f"tree {more} of {place}"
                parts = self._restated(parts, tried, way, propose, patient=True, which=which)
        return parts

    def _fewer(self, part: Part, kind: Array, fewer: int) -> Array:
        """Kinds (n,) of the sample's rows, the states added up that lose least by it."""
        groups = Judge.of(self.on.core, part.columns).groups(part, 1, part.n_states - fewer)
        place = np.empty(part.n_states, int)
        for new, old in enumerate(groups):
            place[old] = new
        return place[kind]

    def _by_tree(self, part: Part, kind: Array, more: int, place: int | None) -> Array:
        """Kinds (n,) of the sample's rows, ``more`` than now; ``place`` is a column's, None all.

        Columns are numbered by their ties to the part's others, the closest first.
        """
        if place is None:
            return self.on.linked(part, part.n_states + more)
        own = np.flatnonzero(np.isin(self.on.found.columns, part.columns))
        ties = self.on.found.affinity[np.ix_(own, own)].sum(axis=1)
        columns = self.on.found.columns[own[np.argsort(-ties, kind="stable")]]
        if len(columns) == 0:  # none of them tells rows apart
            return kind
        return self.on.linked(part, part.n_states + more, int(columns[place % len(columns)]))

    def _restated(
        self,
        parts: list[Part],
        tried: Tried,
        way: str,
        propose: Callable[[Part, Array], Array],
        noted: bool = True,
        patient: bool = False,
        which: Sequence[int] | None = None,
        keep_sizes: bool = False,
    ) -> list[Part]:
        """Parts with the states that ``propose`` begins, merged and fitted, where that gains.

        ``propose(part, kind)`` gives new kinds of the sample's rows from those that they are, (n,);
        ``which`` are the parts to try. A patient trial takes more EM iterations. ``keep_sizes``
        merges to the number of states before.
        """
        keys = [move_key(way, part.columns, part.n_states) for part in parts]
        which = range(len(parts)) if which is None else which
        which = [k for k in which if keys[k] not in tried and len(parts[k].columns)]
        if not which or self.late():
            return parts
        before = [parts[k] for k in which]
        kinds = list(map(propose, before, self._kinds(before)))
        begun = self.on.begun([part.columns for part in before], kinds)
        if patient:
            after = self.on.fitted(begun, TREE_EM, TREE_TOL)
            after = [self.on.merged_states(part) for part in after]
            after = self.on.fitted(after, TREE_EM, TREE_TOL)
        else:
            sizes = [part.n_states for part in before] if keep_sizes else None
            after = self.on.merged(self.on.fitted(begun, SPLIT_EM), sizes)
            after = self.on.merged(after, sizes)
        near = [
            i
            for i, (old, new) in enumerate(zip(before, after, strict=True))
            if -NEAR < self.on.worth(new) - self.on.worth(old) <= 0
        ]
        more = (TREE_NEAR_EM, TREE_NEAR_TOL) if patient else (NEAR_EM, None)
        for i, new in zip(near, self.on.fitted([after[i] for i in near], *more), strict=True):
            after[i] = new
        after = self._crossed(before, after) if patient else after
        parts = list(parts)
        for k, old, new in zip(which, before, after, strict=True):
            gain = self.on.worth(new) - self.on.worth(old)
            if gain > 0:
                parts[k] = new
            else:
                tried.add(keys[k])
            if noted and self.note is not None:
                fewer = gain > 0 and new.n_states < old.n_states
                kind = "merge states" if fewer else "split states"
                self.note(kind, (k,), gain, list(parts) if gain > 0 else None)
        return parts

    def _crossed(self, before: Sequence[Part], after: list[Part]) -> list[Part]:
        """Parts after a trial; what is near but not better begins again with pairs of states.

        Of two ends one may be better in some rows and the other in others. A pair is a state before
        and one after, and pairs are merged where that gains.
        """
        near = [
            i
            for i, (old, new) in enumerate(zip(before, after, strict=True))
            if -NEAR < self.on.worth(new) - self.on.worth(old) < -SAME
        ]
        if not near:
            return after
        old, new = [before[i] for i in near], [after[i] for i in near]
        kinds = [
            np.unique(np.stack(pair), axis=1, return_inverse=True)[1].ravel()
            for pair in zip(self._kinds(old), self._kinds(new), strict=True)
        ]
        crossed = self.on.fitted(self.on.begun([part.columns for part in old], kinds), SPLIT_EM)
        crossed = [self.on.merged_states(part) for part in crossed]
        after = list(after)
        for i, part in zip(near, self.on.fitted(crossed, TREE_EM, TREE_TOL), strict=True):
            after[i] = max(after[i], part, key=self.on.worth)
        return after

    def _kinds(self, parts: Sequence[Part]) -> list[Array]:
        """Likeliest state of every part in the sample's rows, (n,) each."""
        model, params = assembled(self.on.core, parts, self.on.every)
        m = np.concatenate([model.expect(params, b)[0] for b in self.on.some.blocks()], axis=1)
        spans = list(pairwise(model.core.first))[: len(parts)]
        return [m[lo:hi].argmax(axis=0) for lo, hi in spans]


def move_key(way: str, *what: Array | list[int] | int) -> str:
    """Name of a move by what it would change."""
    told = [one.tolist() if isinstance(one, np.ndarray) else one for one in what]
    return hashlib.sha1(f"{way} {told}".encode()).hexdigest()
