"""Select the number of components: starts of several sizes, then moves accepted by the bound.

Births, deaths, splits and merges are proposed as other shares of components in rows. Parameters
that follow from the shares, and their bound, rank the proposals of a kind. The bound is maximized
from the best ones, and a move is accepted if it ends above the bound before.

One rule for sizes: a mixture of M components is as good as its bound plus log M!, since the bound
knows one order of the components and there are M! that are equally good. So it is with turns of
each component's directions (see `leaps`), which count in every bound here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.data import BlockSource
from partwise.models.bayesian_pca import BayesianPCA, BayesianPCAParams, pieces, total
from partwise.models.mcfa import column_totals

# Directions along which a component is split, the strongest first.
CUTS = 2

# Proposals of a kind from which the bound is maximized, the most promising first.
TRIES = 2

# Steps that a component of new shares is learned in where no leap is possible.
REFIT_STEPS = 2

# Rows of which a component explains less are not looked at for it.
LEAST_SHARE = 1e-2

# Components that explain fewer rows than this are not split, and none begins with fewer.
LEAST_COMPONENT_ROWS = 4.0

# Share of the rows, the least likely ones, that a new component begins with.
BIRTH_SHARE = 0.03

# EM towards a required bound stops once so many more steps like the last would not reach it, but
# not before components have had some steps to separate. Leaps go further per step.
PATIENCE, LEAPING_PATIENCE = 20.0, 5.0
FIRST_STEPS, FIRST_LEAPS = 4, 2

# Most rounds of all kinds of moves; each but the last has made at least one.
MOST_ROUNDS = 50

# Sizes doubled in a row without a better bound before no larger one is begun with.
MISSES = 2


def giving_up(aim: float, leaps: bool) -> Callable[[int, float], bool]:
    """A monitor's callback that stops when ``aim`` is out of reach."""
    before = [np.inf]
    patience, first = (LEAPING_PATIENCE, FIRST_LEAPS) if leaps else (PATIENCE, FIRST_STEPS)

    def hopeless(n_iter: int, bound: float) -> bool:
        step, before[0] = bound - before[0], bound
        return n_iter >= first and bound + patience * step < aim

    return hopeless


def orders(n_components: int) -> float:
    """Log of the number of orders of components: what a bound lacks, knowing one of them."""
    return float(special.gammaln(n_components + 1.0))


def size_posterior(bounds: dict[int, float]) -> Array:
    """Probability of every number of components that was looked at, the others having none."""
    sizes = np.array(list(bounds))
    log_p = [bound + orders(M) for M, bound in bounds.items()]
    out = np.zeros(sizes.max() + 1)
    out[sizes] = special.softmax(log_p)
    return out


@dataclass(frozen=True)
class Move:
    """A change of the number of components, tried."""

    kind: str  # "birth", "death", "split" or "merge"
    components: tuple[int, ...]  # whom it changes, or becomes
    gain: float  # nats that the bound, and log M!, gains by it
    accepted: bool
    n_components: int  # once it is made


class Proposal(NamedTuple):
    """Shares (M, C) of components that stay and of those that come, each beginning as another."""

    components: tuple[int, ...]
    rest: list[int]
    parents: list[int]
    r: Array


class Posterior(NamedTuple):
    """Posteriors of the rows under some parameters."""

    r: Array  # (M, C)
    log_z: Array  # (C,)
    positions: list[Array]  # a component: (q, C)
    alone: Array  # log density of rows that no component explains, but for a constant, (C,)


@dataclass
class Search:
    """Moves between mixtures on one source.

    ``begin(M)`` gives parameters of M components; ``settle(theta, aim)`` maximizes the bound
    unless ``aim`` is out of reach, and gives parameters and bound; ``spent()`` says whether time is
    up; ``most`` is the largest number of components.
    """

    model: BayesianPCA
    source: BlockSource
    begin: Callable[[int], BayesianPCAParams]
    settle: Callable[[BayesianPCAParams, float], tuple[BayesianPCAParams, float]]
    spent: Callable[[], bool]
    most: int
    moves: list[Move] = field(default_factory=list)
    bounds: dict[int, float] = field(default_factory=dict)  # best of each number of components

    def run(self) -> BayesianPCAParams:
        """Components whose number the bound selects."""
        theta, bound = self._best_start()
        kinds = {
            "split": self._splits, "merge": self._merges, "birth": self._births,
            "death": self._deaths,
        }  # fmt: skip
        for _ in range(MOST_ROUNDS):
            before = theta
            for kind, propose in kinds.items():
                if self.spent():
                    return theta
                theta, bound = self._try(kind, propose(theta, self._posterior(theta)), theta, bound)
            if theta is before:
                break
        return theta

    def _best_start(self) -> tuple[BayesianPCAParams, float]:
        """Best of 1, 2, 4, ... components, until more of them no longer help."""
        best, bound = self._settle(self.begin(1), -np.inf)
        value, M, misses, highest = bound, 2, 0, -np.inf
        while self.most >= M and misses < MISSES and not self.spent():
            theta, reached = self._settle(self.begin(M), highest - orders(M))
            new = reached + orders(len(theta.counts))
            if new > value:
                best, bound, value = theta, reached, new
            # One component may fill the space, and several not: they are held against each other.
            misses = 0 if new > highest else misses + 1
            highest = max(highest, new)
            M *= 2
        return best, bound

    def _turns(self, theta: BayesianPCAParams) -> float:
        """What equivalent rotations of directions add to the bound, where it lacks them."""
        return self.model.turns(theta) - self.model.counted_turns(theta)

    def _settle(self, theta: BayesianPCAParams, aim: float) -> tuple[BayesianPCAParams, float]:
        theta, bound = self.settle(theta, aim - self._turns(theta))
        bound += self._turns(theta)
        self._note(len(theta.counts), bound)
        return theta, bound

    def _note(self, M: int, bound: float) -> None:
        self.bounds[M] = max(bound, self.bounds.get(M, -np.inf))

    def _try(
        self, kind: str, proposals: Iterator[Proposal], theta: BayesianPCAParams, bound: float
    ) -> tuple[BayesianPCAParams, float]:
        """Maximize the bound from the most promising proposals, until one is accepted."""
        now = bound + orders(len(theta.counts))
        tried = []
        for proposal in proposals:
            tried.append((*self._changed(theta, proposal), proposal.components))
            self._note(len(tried[-1][1].counts), tried[-1][0])
            if self.spent():
                break
        tried.sort(key=lambda one: -one[0])
        best = theta, bound
        for i, (reached, new, components) in enumerate(tried):
            M = len(new.counts)
            if i < TRIES and best[0] is theta and not self.spent():
                new, reached = self._settle(new, now - orders(M))
            gain = reached + orders(M) - now
            made = bool(gain > 0) and best[0] is theta
            self.moves.append(Move(kind, components, float(gain), made, M))
            if made:
                best = new, reached
        return best

    # --- what shares lead to ---

    def _posterior(self, theta: BayesianPCAParams) -> Posterior:
        nothing = np.zeros(theta.mean.shape[1])
        half = np.full_like(nothing, -0.5 * theta.precision)
        found, alone = [], []
        for block in self.source.blocks():
            for _, view in pieces(theta, block):
                found.append(self.model.infer(theta, view))
                alone.append(view.squares(nothing, half))
        return Posterior(
            np.concatenate([rows.r for rows in found], axis=1),
            np.concatenate([rows.log_z for rows in found]),
            [np.concatenate(m, axis=1) for m in zip(*(rows.m for rows in found), strict=True)],
            np.concatenate(alone),
        )

    def _changed(
        self, theta: BayesianPCAParams, proposal: Proposal
    ) -> tuple[float, BayesianPCAParams]:
        """Parameters that follow from a proposal, and a bound that they have at least."""
        _, rest, parents, r = proposal
        if self.model.leaps:
            return self.model.from_shares(r, self.source, theta)
        if any(share.max() <= LEAST_SHARE for share in r[len(rest) :]):
            return -np.inf, theta  # no row would belong to a new component
        came = [
            self._refitted(theta.take([parent]), share)
            for parent, share in zip(parents, r[len(rest) :], strict=True)
        ]
        new = _joined(theta.take(rest), *came)
        bound = self.model.bound(new, total(self.model, new, self.source))
        return bound + self._turns(new), new

    def _refitted(self, theta: BayesianPCAParams, share: Array) -> BayesianPCAParams:
        """A component learned from other rows, noise and relevances being what they are."""
        rows = np.flatnonzero(share > LEAST_SHARE)
        some = self.source.of_rows(rows, self.source.weight[rows] * share[rows])
        held = frozenset(["noise", "relevances"])
        model = replace(self.model, totals=column_totals(some), holds=held)
        for _ in range(REFIT_STEPS):
            theta = model.maximize(theta, total(model, theta, some))
        return theta

    # --- moves ---

    def _splits(self, theta: BayesianPCAParams, rows: Posterior) -> Iterator[Proposal]:
        """Split a component across one of its strongest directions."""
        M, counts = len(theta.counts), rows.r @ self.source.weight
        if self.most <= M:
            return
        strength = (theta.mean[:, :, :-1] ** 2).sum(axis=1)
        for k in range(M):
            if counts[k] < 2.0 * LEAST_COMPONENT_ROWS:
                continue
            rest = [m for m in range(M) if m != k]
            for i in np.argsort(-strength[k])[:CUTS]:
                above = rows.positions[k][i] > 0
                r = np.concatenate([rows.r[rest], rows.r[k] * np.stack([above, ~above])])
                yield Proposal((k,), rest, [k, k], r)

    def _merges(self, theta: BayesianPCAParams, rows: Posterior) -> Iterator[Proposal]:
        """Put two components into one, those that share most rows."""
        M, weighted = len(rows.r), rows.r * self.source.weight
        counts = weighted.sum(axis=1)
        alike = (weighted @ rows.r.T) / np.sqrt(np.outer(counts, counts) + 1e-300)
        pairs = sorted(combinations(range(M), 2), key=lambda pair: -alike[pair])
        for i, j in pairs[:M]:
            rest = [k for k in range(M) if k not in (i, j)]
            larger = i if counts[i] > counts[j] else j
            r = np.concatenate([rows.r[rest], rows.r[[i]] + rows.r[[j]]])
            yield Proposal((i, j), rest, [larger], r)

    def _births(self, theta: BayesianPCAParams, rows: Posterior) -> Iterator[Proposal]:
        """Begin a component with the rows that the others explain worst."""
        M, weight = len(theta.counts), self.source.weight
        n_rows = max(BIRTH_SHARE * weight.sum(), LEAST_COMPONENT_ROWS)
        if self.most <= M or 2.0 * n_rows > weight.sum():
            return
        order = np.argsort(rows.log_z + rows.alone, kind="stable")
        worst = np.zeros(len(weight))
        worst[order[np.cumsum(weight[order]) <= n_rows]] = 1.0
        if worst @ weight >= LEAST_COMPONENT_ROWS:
            r = np.concatenate([rows.r * (1.0 - worst), worst[None]])
            yield Proposal((M,), list(range(M)), [int(theta.counts.argmax())], r)

    def _deaths(self, theta: BayesianPCAParams, rows: Posterior) -> Iterator[Proposal]:
        """Take the smallest component away, its rows going to the others."""
        M, k = len(theta.counts), int(theta.counts.argmin())
        if M > 1:
            rest = [m for m in range(M) if m != k]
            yield Proposal((k,), rest, [], self._posterior(theta.take(rest)).r)


def _joined(theta: BayesianPCAParams, *more: BayesianPCAParams) -> BayesianPCAParams:
    """Components of all; those of complete rows have one covariance for all columns."""
    every = (theta, *more)
    wide = max(t.cov.shape[1] for t in every)

    def join(field: str) -> Array:
        values = [getattr(t, field) for t in every]
        if field in ("cov", "log_det"):
            values = [v if v.shape[1] == wide else np.repeat(v, wide, axis=1) for v in values]
        return np.concatenate(values)

    joined = {field: join(field) for field in ("mean", "cov", "log_det", "counts")}
    if theta.alpha.ndim == 3:
        joined["alpha"] = np.concatenate([t.alpha for t in every], axis=1)
    return replace(theta, **joined)
