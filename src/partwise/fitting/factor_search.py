"""Finding the numbers of parts and factors: parts begun, split, merged and dropped by the ELBO.

Where every column has one part, the bound splits: each part is a factor analysis of its own columns
and the background one without factors; beyond that, columns pay for choosing among so many parts.
So a part's worth depends on its columns alone, is found once, and moves compare sums of worths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.contracts import Array, Runner
from partwise.data import BlockSource
from partwise.engine import Monitor, climb
from partwise.fitting.checkpoint import SizePath
from partwise.fitting.options import SearchLimits
from partwise.models.gated import ColumnModel
from partwise.models.mcfa import MCFA, MCFAParams, MCFAPrepared
from partwise.models.sizes import column_cost
from partwise.starts.dependence import dependence, group_columns, labeled_columns
from partwise.starts.factors import principal_loadings

FactorModel: TypeAlias = ColumnModel[MCFAParams, MCFAPrepared]

# Numbers of groups of columns to begin with, as long as groups have so many columns on average.
FIRST_PARTS = (1, 2, 4, 8, 16, 32)
LEAST_COLUMNS = 3

# Most factors of a part.
MOST_FACTORS = 64

# Most EM iterations of one part, and of all parts together to place columns.
PART_STEPS = 60
PLACING_STEPS = 4

MOST_ROUNDS = 20


# A direction counts as a factor of its part if its loadings carry this share of the largest's.
FACTOR_SHARE = 0.01


def needed_factors(params: MCFAParams) -> Array:
    """Directions of every part that its columns need, (K,)."""
    counts = []
    for g, w in zip(params.gates, params.loadings, strict=True):
        variance = np.diagonal(w.cov, axis1=1, axis2=2) * w.noise[:, None]
        energy = g @ (w.mean**2 + variance)[:, :-1]
        counts.append(int(np.sum(energy > FACTOR_SHARE * energy.max(initial=0.0))))
    return np.array(counts)


class Analyzed(NamedTuple):
    """A part by itself: its worth in nats, and its loadings (H, J) in model units."""

    worth: float
    loadings: Array


@dataclass
class FactorSearch:
    """Sizes of an MCFA on one source.

    ``make(source, sizes)`` gives the core and the model to fit for some columns;
    ``n_parts`` and ``n_factors`` are None where they are sought; ``late()`` says whether time is
    up; a round that gains less than ``tol`` per row is the last.
    """

    make: Callable[[BlockSource, tuple[int, ...]], tuple[MCFA, FactorModel]]
    source: BlockSource
    runner: Runner
    rng: np.random.Generator
    late: Callable[[], bool]
    limits: SearchLimits
    path: SizePath = field(default_factory=list)

    def run(self) -> tuple[tuple[int, ...], list[Array], Array]:
        """Factors of every part, then 0 of the background; their loadings (D, J); gates (K, D)."""
        self._weight = float(self.source.weight.sum())
        self._found = dependence(self.source, self.rng)
        self._known: dict[tuple[bytes, bool], Analyzed] = {}
        whole, _ = self.make(self.source, (1, 0))
        self._chooser, D = whole.chooser, whole.n_columns
        parts = self._begun(D)
        self._note("start", tuple(range(len(parts))), 0.0, parts)
        for _ in range(MOST_ROUNDS):
            before = self.evidence(parts)
            for move in self._moves():
                if not self.late():
                    parts = move(parts)
            if self.late() or self.evidence(parts) - before < self.limits.tol * self._weight:
                break
        parts = sorted(parts, key=lambda columns: int(columns.min())) or [np.empty(0, int)]
        return self._assembled(parts)

    def _moves(self) -> list[Callable[[list[Array]], list[Array]]]:
        """Kinds of moves, in the order of a round."""
        if self.limits.n_parts is not None:
            return [self._place]
        return [self._merge, self._place, self._split, self._drop, self._birth]

    # --- evidence ---

    def evidence(self, parts: Sequence[Array]) -> float:
        """Bound of the model of these parts."""
        choice = self._chooser.weight.size * column_cost(self._chooser, max(len(parts), 1) + 1)
        own = sum(self._analyzed(columns).worth for columns in parts)
        return own + self._analyzed(self._rest(parts), background=True).worth - choice

    def _rest(self, parts: Sequence[Array]) -> Array:
        """Columns of no part."""
        return np.setdiff1d(np.arange(self._chooser.weight.size), np.concatenate([[], *parts]))

    def _analyzed(self, columns: Array, background: bool = False) -> Analyzed:
        """Some columns as one part, or as background."""
        key = columns.astype(np.int64).tobytes(), background
        if key not in self._known:
            self._known[key] = self._analyze(columns.astype(np.int64), background)
        return self._known[key]

    def _analyze(self, columns: Array, background: bool) -> Analyzed:
        if not len(columns):
            return Analyzed(0.0, np.zeros((0, 0)))
        most = min(len(columns), self.limits.max_size or MOST_FACTORS)
        J = 0 if background else min(self.limits.size or 1, most)
        best, theta = self._fit(columns, J)
        step = 1 if J and self.limits.size is None else 0
        grows = True  # steps double while more factors gain, then they are halved
        while step:
            wider = (-np.inf, theta) if J + step > most else self._fit(columns, J + step)
            grows &= wider[0] > best
            if wider[0] > best:
                (best, theta), J = wider, J + step
            step = 2 * step if grows else step // 2
        while self.limits.size is None and J > 1 and (fewer := self._fit(columns, J - 1))[0] > best:
            (best, theta), J = fewer, J - 1
        return Analyzed(best, theta.loadings[0].mean[:, :-1])

    def _fit(self, columns: Array, J: int) -> tuple[float, MCFAParams]:
        """Bound and parameters of some columns as one part of J factors."""
        source = self.source.of_columns(columns)
        core, model = self.make(source, (J,))
        where = np.searchsorted(self._found.columns, columns)
        seen = np.isin(columns, self._found.columns)  # none, where no column varies
        sample = np.full((len(self._found.sample), len(columns)), np.nan)
        sample[:, seen] = self._found.sample[:, where[seen]]
        every = np.ones(len(columns), bool)
        start = principal_loadings(sample, self._found.weight, every, J, self.rng)
        monitor = Monitor(PART_STEPS, self.limits.tol, self._weight)
        theta = core.start([start], np.ones((1, len(columns))))
        theta = climb(model, theta, source, self.runner, monitor)
        return monitor.trace[-1], theta

    # --- where it begins, and how it ends ---

    def _begun(self, n_columns: int) -> list[Array]:
        """Best of several numbers of groups of columns by their dependence."""
        most = int(self._found.of_more_than_chance().sum()) // LEAST_COLUMNS
        sizes = (
            [self.limits.n_parts]
            if self.limits.n_parts
            else [n for n in FIRST_PARTS if n <= max(most, 1)]
        )
        best: list[Array] = []
        for n in sizes:
            labels = labeled_columns(self._found, n, True, self.rng)
            groups = [self._found.columns[labels == k] for k in range(n)]
            parts = [columns for columns in groups if len(columns)]
            if self.limits.n_parts or self.evidence(parts) > self.evidence(best):
                best = parts
            if self.late():
                break
        return best

    def _assembled(self, parts: Sequence[Array]) -> tuple[tuple[int, ...], list[Array], Array]:
        """Sizes, loadings of all columns and gates of the model of these parts."""
        D = self._chooser.weight.size
        every = [self._analyzed(columns).loadings for columns in parts]
        loadings = [np.zeros((D, max(own.shape[1], 1))) for own in every] + [np.zeros((D, 0))]
        gates = np.zeros((len(loadings), D))
        gates[-1] = 1.0
        for k, (columns, own) in enumerate(zip(parts, every, strict=True)):
            loadings[k][columns, : own.shape[1]] = own
            gates[:, columns] = 0.0
            gates[k, columns] = 1.0
        return tuple(Lambda.shape[1] for Lambda in loadings), loadings, gates

    # --- moves ---

    def _note(self, kind: str, who: tuple[int, ...], gain: float, parts: list[Array]) -> None:
        sizes = tuple(self._analyzed(columns).loadings.shape[1] for columns in parts)
        self.path.append(
            {
                "kind": kind,
                "parts": who,
                "gain": float(gain),
                "accepted": not self.path or gain > 0,
                "n_parts": len(parts),
                "n_factors": sizes,
                "evidence": self.evidence(parts),
            }
        )

    def _tried(
        self, kind: str, who: tuple[int, ...], parts: list[Array], new: Sequence[Array]
    ) -> list[Array]:
        """Parts with some of them replaced, if that gains."""
        kept = [columns for k, columns in enumerate(parts) if k not in who]
        after = kept + [np.sort(columns) for columns in new if len(columns)]
        gain = self.evidence(after) - self.evidence(parts)
        parts = after if gain > 0 else parts
        self._note(kind, who, gain, parts)
        return parts

    def _once(self, *key: object) -> bool:
        """Whether this is tried for the first time."""
        if not hasattr(self, "_seen"):
            self._seen: set[tuple[object, ...]] = set()
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _tie(self, one: Array, other: Array) -> float:
        """Mean affinity of two sets of columns."""
        found = self._found
        a, b = np.isin(found.columns, one), np.isin(found.columns, other)
        return float(found.affinity[np.ix_(a, b)].mean()) if a.any() and b.any() else 0.0

    def _merge(self, parts: list[Array]) -> list[Array]:
        """Join two parts, those first whose columns depend most on each other."""
        again = True
        while again and not self.late():
            again = False
            pairs = sorted(
                combinations(range(len(parts)), 2),
                key=lambda p: -self._tie(parts[p[0]], parts[p[1]]),
            )
            # Parts that none of the first so many pairs join are hardly joined by a later one.
            for a, b in pairs[: len(parts)]:
                if not self._once("merge", parts[a].tobytes(), parts[b].tobytes()):
                    continue
                before = len(parts)
                both = np.concatenate([parts[a], parts[b]])
                parts = self._tried("merge", (a, b), parts, [both])
                if len(parts) < before:
                    again = True
                    break
        return parts

    def _split(self, parts: list[Array]) -> list[Array]:
        """Cut the columns of each part in two by their dependence."""
        for columns in list(parts):
            own = np.isin(self._found.columns, columns)
            if own.sum() < 4 or self.late() or not self._once("split", columns.tobytes()):
                continue
            labels = group_columns(self._found.affinity[np.ix_(own, own)], 2, self.rng)
            one = self._found.columns[own][labels == 1]
            k = next(k for k, other in enumerate(parts) if other is columns)
            parts = self._tried("split", (k,), parts, [one, np.setdiff1d(columns, one)])
        return parts

    def _drop(self, parts: list[Array]) -> list[Array]:
        """Give the columns of a part to the background."""
        for columns in list(parts):
            if self._once("death", columns.tobytes(), len(parts)):
                k = next(k for k, other in enumerate(parts) if other is columns)
                parts = self._tried("death", (k,), parts, [])
        return parts

    def _birth(self, parts: list[Array]) -> list[Array]:
        """Begin a part with columns of the background that depend on each other."""
        free = np.isin(self._found.columns, self._rest(parts)) & self._found.of_more_than_chance()
        columns = self._found.columns[free]
        if len(columns) < 2 or not self._once("birth", columns.tobytes()):
            return parts
        return self._tried("birth", (), parts, [columns])

    def _place(self, parts: list[Array]) -> list[Array]:
        """Let every column choose its part again."""
        if not parts or not self._once("place", *(columns.tobytes() for columns in parts)):
            return parts
        sizes, loadings, gates = self._assembled(parts)
        core, model = self.make(self.source, sizes)
        monitor = Monitor(PLACING_STEPS, self.limits.tol, self._weight)
        theta = climb(model, core.start(loadings, gates), self.source, self.runner, monitor)
        chosen = theta.gates.argmax(axis=0)
        new = [np.flatnonzero(chosen == k) for k in range(len(parts))]
        if all(np.array_equal(a, b) for a, b in zip(parts, new, strict=True)):
            return parts
        return self._tried("place", tuple(range(len(parts))), parts, new)
