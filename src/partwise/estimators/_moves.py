"""Finding the number of components: starts of several sizes, then moves that the bound accepts.

Births, deaths, splits and merges change a few components. A split or merge is tried on the rows
that these explain, with noise and relevances as they are and every other component untouched, so
that what it does to the whole bound is known from these rows alone. A move that gains is made, all
components are then climbed together, and what this reaches must lie above what was, or the move is
undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data import RowSource
from partwise.engine import Monitor, climb
from partwise.models.bayesian_pca import BayesianPCA, Sums, Theta, pieces
from partwise.models.mcfa import column_totals
from partwise.runners import Serial

# Directions along which a component is tried to be cut in two, the strongest first, and how far
# apart the halves begin, in deviations: the halves of a Gaussian have their means at 0.8.
CUTS = 2
HALF = 0.8

# Sweeps over a move's own rows: enough that a good one shows, few enough to try many.
TRIAL_SWEEPS = 15

# Rows of which a move's components explain less stay out of its trial.
LEAST_SHARE = 1e-2

# Components that explain fewer rows than this are not cut, and none begins with fewer.
LEAST_ROWS = 4.0

# Share of the rows, the least likely ones, that a new component begins with.
ODD_ROWS = 0.03

# A climb that has to reach a bound is given up once so many steps like the last would not do it,
# but not before components have had some steps to part.
PATIENCE = 20.0
FIRST_STEPS = 4

# Most rounds of all kinds of moves; each but the last has made at least one.
MOST_ROUNDS = 20

# Sizes doubled in a row without a better bound before no larger one is begun with.
MISSES = 2

# While a move is tried, all that components share stays as it is.
HELD = frozenset(["noise", "relevances"])


def giving_up(aim: float) -> Callable[[int, float], bool]:
    """For a monitor: whether a climb will hardly reach a bound."""
    before = [np.inf]

    def hopeless(n_iter: int, bound: float) -> bool:
        step, before[0] = bound - before[0], bound
        return n_iter >= FIRST_STEPS and bound + PATIENCE * step < aim

    return hopeless


class Move(NamedTuple):
    """A change of the number of components, tried."""

    kind: str  # "birth", "death", "split" or "merge"
    components: tuple[int, ...]  # whom it changes, or becomes
    gain: float  # nats that the bound gains by it
    accepted: bool
    n_components: int  # once it is made


# What came of looking for moves: the changed parameters and what was done to them.
Proposal: TypeAlias = "tuple[Theta, list[Move]] | None"


@dataclass
class Search:
    """Moves between mixtures on one source.

    ``begin(M)`` gives parameters of M components; ``settle(theta, aim)`` climbs with all components
    unless ``aim`` is out of reach, and gives parameters and bound; ``spent()`` says whether time is
    up; ``most`` is the largest number of components.
    """

    model: BayesianPCA
    source: RowSource
    begin: Callable[[int], Theta]
    settle: Callable[[Theta, float], tuple[Theta, float]]
    spent: Callable[[], bool]
    most: int
    moves: list[Move] = field(default_factory=list)
    bounds: dict[int, float] = field(default_factory=dict)  # best of each number of components

    def run(self) -> Theta:
        """As many components as the bound wants."""
        theta, bound = self._best_start()
        for _ in range(MOST_ROUNDS):
            before = bound
            for propose in (self._splits, self._merges, self._births, self._deaths):
                if self.spent():
                    return theta
                found = propose(theta)
                if found is not None:
                    theta, bound = self._make(theta, bound, *found)
            if bound <= before:
                break
        return theta

    def _best_start(self) -> tuple[Theta, float]:
        """Best of 1, 2, 4, ... components, until more of them no longer help."""
        best, bound = self._settle(self.begin(1), -np.inf)
        M, misses, highest = 2, 0, -np.inf
        while self.most >= M and misses < MISSES and not self.spent():
            theta, reached = self._settle(self.begin(M), highest)
            if reached > bound:
                best, bound = theta, reached
            # One component may fill the space, and several not: they are held against each other.
            misses = 0 if reached > highest else misses + 1
            highest = max(highest, reached)
            M *= 2
        return best, bound

    def _settle(self, theta: Theta, aim: float) -> tuple[Theta, float]:
        theta, bound = self.settle(theta, aim)
        M = len(theta.counts)
        self.bounds[M] = max(bound, self.bounds.get(M, -np.inf))
        return theta, bound

    def _make(
        self, theta: Theta, bound: float, changed: Theta, tried: list[Move]
    ) -> tuple[Theta, float]:
        """Climb after moves; if the bound is not above what it was, they are refused."""
        new, reached = self._settle(changed, bound)
        better = reached > bound
        self.moves += [move._replace(accepted=better) for move in tried]
        return (new, reached) if better else (theta, bound)

    def _judged(self, kind: str, who: tuple[int, ...], gain: float, size: int) -> Move | None:
        """A move that gains; one that does not is noted as refused."""
        move = Move(kind, who, float(gain), bool(gain > 0), size)
        if move.accepted:
            return move
        self.moves.append(move)
        return None

    # --- trials ---

    def _posterior(self, theta: Theta) -> tuple[Array, Array]:
        """Components of all rows (M, C), and the rows' log normalisers (C,)."""
        found = [
            self.model.infer(theta, view)
            for block in self.source.blocks()
            for _, view in pieces(theta, block)
        ]
        r = np.concatenate([rows.r for rows in found], axis=1)
        return r, np.concatenate([rows.log_z for rows in found])

    def _trial(self, share: Array) -> tuple[BayesianPCA, RowSource]:
        """A model and a source of the rows that some components explain, (C,)."""
        rows = np.flatnonzero(share > LEAST_SHARE)
        some = self.source.of_rows(rows, self.source.weight[rows] * share[rows])
        return replace(self.model, totals=column_totals(some), holds=HELD), some

    @staticmethod
    def _climb(model: BayesianPCA, theta: Theta, source: RowSource, aim: float = -np.inf) -> Theta:
        weight, stop = float(source.weight.sum()), giving_up(aim)
        monitor = Monitor(TRIAL_SWEEPS, 1e-3, weight, on_step=stop)
        return climb(model, theta, source, Serial(), monitor)

    def _refitted(
        self, model: BayesianPCA, theta: Theta, source: RowSource, aim: float = -np.inf
    ) -> Theta:
        """Components climbed from the rows of a source, wherever they were before."""
        theta = model.maximise(theta, _total(model, theta, source))
        return self._climb(model, theta, source, aim)

    def _worth(self, model: BayesianPCA, theta: Theta, source: RowSource) -> tuple[float, Array]:
        """Bound on some rows, the choice of components aside, and the components' counts."""
        stats = _total(model, theta, source)
        log_pi = model.shares.expected_log(theta.counts)
        chosen = float(stats.counts @ log_pi) - model.shares.divergence(theta.counts)
        return model.bound(theta, stats) - chosen, stats.counts

    def _choice(self, counts: Array) -> float:
        """Log probability of a choice of components, their shares integrated out."""
        return self.model.shares.evidence(counts)

    # --- moves ---

    def _splits(self, theta: Theta) -> Proposal:
        """Cut every component in two along its strongest directions; all that gain are made."""
        r, _ = self._posterior(theta)
        made: list[Move] = []
        kept, halves = list(range(len(r))), list[Theta]()
        counts = r @ self.source.weight
        for k in np.argsort(-counts):
            after = len(kept) + 2 * len(halves) + 1
            if counts[k] < LEAST_ROWS or after > self.most or self.spent():
                continue
            model, some = self._trial(r[k])
            alone, _ = self._worth(model, theta.take([k]), some)
            worth, pair, sizes = self._cut(model, theta, int(k), some, alone)
            now = np.concatenate([counts[kept], *(half.counts for half in halves)])
            then = np.append(np.delete(now, kept.index(k)), sizes)
            gain = worth - alone + self._choice(then) - self._choice(now)
            move = self._judged("split", (int(k),), gain, after)
            if move is not None:
                made.append(move)
                kept.remove(k)
                halves.append(pair._replace(counts=sizes))
        return (_joined(theta.take(kept), *halves), made) if made else None

    def _cut(
        self, model: BayesianPCA, theta: Theta, k: int, some: RowSource, aim: float
    ) -> tuple[float, Theta, Array]:
        """Best pair of halves: what they are worth, parameters, counts."""
        found = []
        strength = (theta.mean[k, :, :-1] ** 2).sum(axis=0)
        for i in np.argsort(-strength)[:CUTS]:
            pair = theta.take([k, k])
            mean = pair.mean.copy()
            mean[:, :, -1] += np.outer([HALF, -HALF], theta.mean[k, :, i])
            pair = pair._replace(mean=mean, counts=np.full(2, 0.5 * theta.counts[k]))
            pair = self._climb(model, pair, some, aim)
            worth, sizes = self._worth(model, pair, some)
            found.append((worth, pair, sizes))
        return max(found, key=lambda tried: tried[0])

    def _merges(self, theta: Theta) -> Proposal:
        """Put the two components into one that gain most, of those that share most rows."""
        r, _ = self._posterior(theta)
        M, weighted = len(r), r * self.source.weight
        counts = weighted.sum(axis=1)
        alike = (weighted @ r.T) / np.sqrt(np.outer(counts, counts) + 1e-300)
        pairs = sorted(combinations(range(M), 2), key=lambda pair: -alike[pair])
        best: tuple[Move, Theta] | None = None
        for i, j in pairs[:M]:
            if self.spent():
                break
            model, some = self._trial(r[i] + r[j])
            apart, _ = self._worth(model, theta.take([i, j]), some)
            larger = theta.take([i if counts[i] > counts[j] else j])
            one = self._refitted(model, larger, some, apart)
            worth, both = self._worth(model, one, some)
            rest = [k for k in range(M) if k not in (i, j)]
            gain = worth - apart + self._choice(np.append(counts[rest], both))
            move = self._judged("merge", (i, j), gain - self._choice(counts), M - 1)
            if move is not None and (best is None or move.gain > best[0].gain):
                best = move, _joined(theta.take(rest), one._replace(counts=both))
        return None if best is None else (best[1], [best[0]])

    def _births(self, theta: Theta) -> Proposal:
        """Begin a component with the rows that the others explain worst."""
        M, weight = len(theta.counts), self.source.weight
        n_odd = max(ODD_ROWS * weight.sum(), LEAST_ROWS)
        if self.most <= M or 2.0 * n_odd > weight.sum():
            return None
        _, log_z = self._posterior(theta)
        order = np.argsort(log_z + self._alone(theta), kind="stable")
        odd = np.zeros(len(weight))
        odd[order[np.cumsum(weight[order]) <= n_odd]] = 1.0
        if odd @ weight < LEAST_ROWS:
            return None
        model, some = self._trial(odd)
        new = self._refitted(model, theta.take([int(theta.counts.argmax())]), some)
        joined = _joined(theta, new._replace(counts=np.array([odd @ weight])))
        return self._whole("birth", (M,), theta, joined)

    def _alone(self, theta: Theta) -> Array:
        """Log density of rows that no component explains, but for a constant, (C,)."""
        nothing = np.zeros(theta.mean.shape[1])
        views = [view for block in self.source.blocks() for _, view in pieces(theta, block)]
        half = np.full_like(nothing, -0.5 * theta.precision)
        return np.concatenate([view.squares(nothing, half) for view in views])

    def _deaths(self, theta: Theta) -> Proposal:
        """Take the smallest component away, its rows going to the others."""
        M, k = len(theta.counts), int(theta.counts.argmin())
        if M == 1:
            return None
        return self._whole("death", (k,), theta, theta.take([m for m in range(M) if m != k]))

    def _whole(self, kind: str, who: tuple[int, ...], before: Theta, after: Theta) -> Proposal:
        """Judge a move by a few sweeps over all rows."""
        worth, counts = self._worth(self.model, before, self.source)
        aim = worth + self._choice(counts)
        after = self._climb(replace(self.model, holds=HELD), after, self.source, aim)
        reached, new = self._worth(self.model, after, self.source)
        gain = reached + self._choice(new) - aim
        move = self._judged(kind, who, gain, len(new))
        return None if move is None else (after, [move])


def size_posterior(bounds: dict[int, float]) -> Array:
    """Probability of every number of components that was looked at, the others having none.

    The bound of a mixture knows one order of its components; each of the M! is as good.
    """
    sizes = np.array(list(bounds))
    log_p = np.array(list(bounds.values())) + special.gammaln(sizes + 1.0)
    out = np.zeros(sizes.max() + 1)
    out[sizes] = special.softmax(log_p)
    return out


def _total(model: BayesianPCA, theta: Theta, source: RowSource) -> Any:
    return Sums.total(model.expect(theta, block, None)[1] for block in source.blocks())


def _joined(theta: Theta, *more: Theta) -> Theta:
    """Components of all; those of complete rows have one covariance for all columns."""
    every = (theta, *more)
    wide = max(t.cov.shape[1] for t in every)

    def join(field: str) -> Array:
        values = [getattr(t, field) for t in every]
        if field in ("cov", "log_det"):
            values = [v if v.shape[1] == wide else np.repeat(v, wide, axis=1) for v in values]
        return np.concatenate(values)

    return theta._replace(**{field: join(field) for field in ("mean", "cov", "log_det", "counts")})
