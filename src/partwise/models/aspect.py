"""The aspect model of ratings (Hofmann 2001): truncated Gaussians, tempered EM.

=======  =========  =========  ====================================================  ==============
symbol   code       shape      meaning                                               equation
=======  =========  =========  ====================================================  ==============
t        nodes      (V,)       levels of the scale, put between -1 and 1             docs/aspect.md
p(z|u)   pi         (n, Z)     how much a row takes of each aspect                   docs/aspect.md
eta      eta        (2, D, Z)  mu / sigma^2 and -1 / (2 sigma^2)                     docs/aspect.md
p(r|iz)  table      (D, V, Z)  probability of each level of a column in an aspect    docs/aspect.md
q(z)     -          -          posterior of the aspect behind one rating             docs/aspect.md
beta     beta       number     inverse temperature                                   docs/aspect.md
nu       strength   number     ratings at the column's own moments in every aspect   docs/aspect.md
a        mixing     number     ratings of every aspect that a row has beforehand     docs/aspect.md
=======  =========  =========  ====================================================  ==============

Truncated to the scale means: a Gaussian's density at the levels, divided by its sum over them. A
missing rating is ignored. Departures from the paper: truncation is part of the M-step,
which is so exact, and the bound never falls at any temperature; both kinds of parameters have a
prior made of pseudo-ratings (the smoothing), with maximum likelihood as its limit.

What a row takes of the aspects belongs to the row: it is remembered from sweep to sweep during a
fit and found again, with the columns held, for any other row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from partwise._compiled import check_sizes, compiled
from partwise.contracts import Array, Block, Entries
from partwise.sampling.importance import RowLikelihood, summarize_weights

# A Gaussian's standard deviation in units of half the scale: at most twice the scale, when it is
# as good as flat; at least a quarter of the smallest step, when a level has it all to itself, and
# no less than what keeps the other end of the scale above what a number can hold.
WIDEST = 4.0
LEAST_STEPS = 0.25
NARROWEST = 1.0 / 15.0

# Pseudo-ratings of maximum likelihood: enough that a Gaussian stays finite where all agree.
LEAST_STRENGTH = 1e-3

# Rounds in which a new row settles, and the change of its shares at which it has.
MOST_FOLD_ROUNDS = 200
SHARES_SETTLED = 1e-7

# Steps of Newton's method for a Gaussian, from where it was; most need three.
NEWTON_STEPS = 30


class AspectParams(NamedTuple):
    """What is learned of the columns."""

    eta: Array  # (2, D, Z)


class AspectPrepared(NamedTuple):
    """Parameters, and what they make of every level."""

    params: AspectParams
    table: Array  # (D, V, Z)


@dataclass(frozen=True, eq=False)
class AspectSums:
    """Sums over rows; they start at zero and add, and hold no prior."""

    bound: float  # the rows' share of the bound
    held: float  # log density of held-out ratings
    moments: Array  # q, q t and q t^2, (3, D, Z)

    def __add__(self, other: AspectSums) -> AspectSums:
        return AspectSums(
            self.bound + other.bound, self.held + other.held, self.moments + other.moments
        )

    @staticmethod
    def total(results: Iterable[AspectSums]) -> AspectSums:
        """Sum of all, in their order."""
        return reduce(add, results)


@dataclass(frozen=True, eq=False)
class Aspect:
    """The model.

    Parameters
    ----------
    n_aspects : int
        Z.
    nodes : ndarray of shape (V,)
    moments : ndarray of shape (2, D)
        Mean of t and t^2 of every column, smoothed: where its prior sits.
    strength, mixing : float
        nu and a.
    beta : float
    judged : bool
        The engine gets the log density of held-out ratings instead of the bound. These are a
        second column group of the blocks.
    """

    n_aspects: int
    nodes: Array
    moments: Array
    strength: float
    mixing: float
    beta: float = 1.0
    judged: bool = False
    needs: ClassVar[tuple[type, ...]] = (Entries,)
    remembers: ClassVar[bool] = True

    @cached_property
    def curvature(self) -> tuple[float, float]:
        """Lowest and highest -1 / (2 sigma^2)."""
        step = np.diff(self.nodes).min(initial=np.inf)
        least = max(LEAST_STEPS * step, NARROWEST) if np.isfinite(step) else 1.0
        return -0.5 / least**2, -0.5 / WIDEST**2

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """No shares yet."""
        return

    def expect(
        self, prepared: AspectPrepared, block: Block[Entries], memory: Array | None
    ) -> tuple[Array, AspectSums]:
        """Shares of the aspects in the rows, one step on from where they were, and sums."""
        pi = self.infer(prepared, block) if memory is None else memory
        entries = self._entries(block)
        self._check_sizes(prepared, pi, block.n_rows)
        moments = np.zeros((prepared.table.shape[0], 3, self.n_aspects))
        counts, log_p = np.zeros_like(pi), np.zeros(len(pi))
        _expect(
            *entries, block.weight, pi**self.beta, prepared.table**self.beta, self.nodes, moments,
            counts, log_p,
        )  # fmt: skip
        row_bound = log_p / self.beta
        if self.mixing > 0:
            row_bound += self.mixing * np.log(pi).sum(axis=1)
        held = 0.0
        if self.judged:
            indptr, *cells = self._entries(block, 1)
            rows = np.repeat(np.arange(block.n_rows), np.diff(indptr))
            held = float(block.weight[rows] @ self.log_density(prepared, pi, rows, *cells))
        bound = float(block.weight @ (row_bound + block.base))
        sums = AspectSums(bound, held, moments.transpose(1, 0, 2))
        return self._shares(counts), sums

    def infer(self, prepared: AspectPrepared, block: Block[Entries]) -> Array:
        """Shares (n, Z) of rows that remember nothing, with the columns held."""
        pi = np.full((block.n_rows, self.n_aspects), 1.0 / self.n_aspects)
        self._check_sizes(prepared, pi, block.n_rows)
        _fold_in(*self._entries(block), prepared.table**self.beta, self.beta, self.mixing, pi)
        return pi

    def _entries(self, block: Block[Entries], group: int = 0) -> tuple[Array, Array, Array]:
        """Where rows begin, columns and numbers of the levels."""
        everything = np.arange(self.moments.shape[1])
        indptr, columns, codes = block.groups[group].entries(everything)
        return indptr, columns, codes.astype(np.int64)

    def _check_sizes(self, prepared: AspectPrepared, pi: Array, n_rows: int) -> None:
        """Columns of entries are below D and codes below V; the table must have as many."""
        D, V, Z = prepared.table.shape
        check_sizes(rows=(len(pi), n_rows), aspects=(self.n_aspects, pi.shape[1], Z))
        check_sizes(columns=(self.moments.shape[1], D), levels=(len(self.nodes), V))

    def _shares(self, counts: Array) -> Array:
        """Expected ratings of each aspect as shares; all alike for a row without any."""
        counts = counts + self.mixing
        total = counts.sum(axis=1, keepdims=True)
        return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / self.n_aspects)

    # --- M-step ---

    def start(self, counts: Array) -> AspectParams:
        """First parameters from how often each level stands in each aspect, (V, Z, D)."""
        t = np.stack([np.ones_like(self.nodes), self.nodes, self.nodes**2])
        moments = np.einsum("pv,vzd->pdz", t, counts)
        return self._matched(np.zeros((2, *moments.shape[1:])), moments)

    def prepare(self, params: AspectParams) -> AspectPrepared:
        """Probabilities of the levels."""
        t, eta = self.nodes[:, None], params.eta
        table = eta[0][:, None] * t + eta[1][:, None] * t**2  # (D, V, Z)
        table = np.exp(table - table.max(axis=1, keepdims=True))
        return AspectPrepared(params, table / table.sum(axis=1, keepdims=True))

    def begin(self, params: AspectParams) -> AspectPrepared:
        """Probabilities of the levels."""
        return self.prepare(params)

    def thorough(self, prepared: AspectPrepared) -> None:
        """No step takes a short cut."""
        return

    def maximize(self, prepared: AspectPrepared, stats: AspectSums) -> AspectPrepared:
        """Gaussians with the moments of the ratings, pseudo-ratings among them."""
        return self.prepare(self._matched(prepared.params.eta, stats.moments))

    def _matched(self, begin: Array, moments: Array) -> AspectParams:
        """Parameters from moments of the ratings, found from where ``begin`` is."""
        n, s, ss = moments
        total = n + self.strength
        own = self.strength * self.moments[:, :, None]
        eta = begin.copy()
        mean, square = (np.ascontiguousarray(of / total) for of in (s + own[0], ss + own[1]))
        _match(mean, square, self.nodes, *self.curvature, eta)
        return AspectParams(eta)

    def bound(self, prepared: AspectPrepared, stats: AspectSums) -> float:
        """Tempered log-likelihood and log density of the pseudo-ratings; or what judges."""
        if self.judged:
            return stats.held
        t, eta = np.stack([self.nodes, self.nodes**2]), prepared.params.eta
        log_z = special.logsumexp(eta.transpose(1, 2, 0) @ t, axis=2)
        prior = np.einsum("pdz,pd->", eta, self.moments) - log_z.sum()
        return stats.bound + self.strength * float(prior)

    # --- what it says of ratings ---

    def log_density(
        self, prepared: AspectPrepared, pi: Array, rows: Array, columns: Array, codes: Array
    ) -> Array:
        """Log probability of the levels of chosen cells, given the rows' shares (n, Z)."""
        out = np.empty(len(rows))
        self._check_sizes(prepared, pi, len(pi))
        check_sizes(cells=(len(rows), len(columns), len(codes)))
        _mix(rows, columns, codes, pi, prepared.table, out)
        return np.log(out)

    def expectation(self, prepared: AspectPrepared, values: Array) -> Array:
        """Expected value in every aspect and column, (Z, D), of levels worth ``values``."""
        return np.einsum("dvz,v->zd", prepared.table, values)

    def quantile(self, prepared: AspectPrepared, pi: Array, p: float | Array) -> Array:
        """Number of the first level at which a cell's distribution reaches p, (n, D)."""
        reached = np.zeros((len(pi), len(prepared.table)))
        level = np.zeros(reached.shape, np.int64)
        for v in range(len(self.nodes) - 1):
            reached += pi @ prepared.table[:, v].T
            level += reached < p * (1 - 1e-12)
        return level

    def row_likelihood(
        self, prepared: AspectPrepared, block: Block[Entries], n_draws: int, seed: int = 0
    ) -> RowLikelihood:
        """Log-likelihood of the rows, fields (n,): shares are sampled near their posterior."""
        pi = replace(self, beta=1.0).infer(prepared, block)
        indptr, columns, codes = self._entries(block)
        prior = np.full(self.n_aspects, 1.0 + self.mixing)
        found = np.empty((block.n_rows, n_draws))
        for r, (lo, hi) in enumerate(pairwise(indptr)):
            p = prepared.table[columns[lo:hi], codes[lo:hi]]  # (ratings of the row, Z)
            q = p * pi[r]
            proposal = prior + (q / q.sum(axis=1, keepdims=True)).sum(axis=0)
            # The same for a row whatever its block.
            drawn = np.random.default_rng(seed).standard_gamma(proposal, (n_draws, len(prior)))
            drawn /= drawn.sum(axis=1, keepdims=True)
            away = np.log(drawn) @ (prior - proposal) + _log_beta(proposal) - _log_beta(prior)
            found[r] = np.log(p @ drawn.T).sum(axis=0) + away
        result = summarize_weights(found)
        return result.shifted(block.base)


def _log_beta(counts: Array) -> float:
    """Log normalizer of a Dirichlet distribution."""
    return float(special.gammaln(counts).sum() - special.gammaln(counts.sum()))


# ---------------------------------------------------------------- compiled


@compiled(fastmath={"contract", "reassoc"})
def _expect(indptr, columns, codes, weight, pi, table, nodes, moments, counts, log_p):  # type: ignore[no-untyped-def]  # compiled
    """Posterior of every rating's aspect: sums by column (D, 3, Z), by row (n, Z), log norm (n,).

    ``pi`` and ``table`` come with their power of beta.
    """
    Z = pi.shape[1]
    q = np.empty(Z)
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            d, t = columns[e], nodes[codes[e]]
            p = table[d, codes[e]]
            total = 0.0
            for z in range(Z):
                q[z] = pi[r, z] * p[z]
                total += q[z]
            log_p[r] += np.log(total)
            scale = 1.0 / total
            for z in range(Z):
                share = q[z] * scale
                counts[r, z] += share
                share *= weight[r]
                moments[d, 0, z] += share
                moments[d, 1, z] += share * t
                moments[d, 2, z] += share * t * t


@compiled(fastmath={"contract", "reassoc"})
def _fold_in(indptr, columns, codes, table, beta, mixing, pi):  # type: ignore[no-untyped-def]  # compiled
    """Settle the shares of every row, in place; ``table`` comes with its power of beta."""
    Z = pi.shape[1]
    counts, powered = np.empty(Z), np.empty(Z)
    for r in range(len(indptr) - 1):
        n = indptr[r + 1] - indptr[r]
        if n == 0:
            continue
        for _ in range(MOST_FOLD_ROUNDS):
            for z in range(Z):
                powered[z] = pi[r, z] ** beta
                counts[z] = mixing
            for e in range(indptr[r], indptr[r + 1]):
                p = table[columns[e], codes[e]]
                total = 0.0
                for z in range(Z):
                    total += powered[z] * p[z]
                scale = 1.0 / total
                for z in range(Z):
                    counts[z] += powered[z] * p[z] * scale
            change = 0.0
            for z in range(Z):
                share = counts[z] / (n + mixing * Z)
                change = max(change, abs(share - pi[r, z]))
                pi[r, z] = share
            if change < SHARES_SETTLED:
                break


@compiled(fastmath={"contract", "reassoc"})
def _mix(rows, columns, codes, pi, table, out):  # type: ignore[no-untyped-def]  # compiled
    """out = sum_z pi[row, z] table[column, code, z] of every cell."""
    for e in range(len(rows)):
        share, p = pi[rows[e]], table[columns[e], codes[e]]
        total = 0.0
        for z in range(len(p)):
            total += share[z] * p[z]
        out[e] = total


@compiled()
def _match(mean, square, nodes, lowest, highest, eta):  # type: ignore[no-untyped-def]  # compiled
    """Natural parameters, in place, whose law has given moments of t and t^2, all (D, Z).

    Newton's method on eta . moments - log Z(eta), which is concave; a step is halved until it
    rises. Where the curvature eta[1] meets a limit, it stays there and eta[0] goes on alone.
    """
    V = len(nodes)
    p = np.empty(V)
    for d in range(mean.shape[0]):
        for z in range(mean.shape[1]):
            m, mm = mean[d, z], square[d, z]
            a, b = eta[0, d, z], min(max(eta[1, d, z], lowest), highest)
            value = a * m + b * mm - _law(a, b, nodes, p)
            for _ in range(NEWTON_STEPS):
                e1, e2, e3, e4 = 0.0, 0.0, 0.0, 0.0
                for v in range(V):
                    t = nodes[v]
                    e1 += p[v] * t
                    e2 += p[v] * t * t
                    e3 += p[v] * t * t * t
                    e4 += p[v] * t * t * t * t
                g1, g2 = m - e1, mm - e2
                # The ridge is for scales of two levels, whose squares are all the same.
                h11, h12, h22 = e2 - e1 * e1 + 1e-12, e3 - e1 * e2, e4 - e2 * e2 + 1e-12
                det = h11 * h22 - h12 * h12
                da, db = (h22 * g1 - h12 * g2) / det, (h11 * g2 - h12 * g1) / det
                if (b <= lowest and db < 0) or (b >= highest and db > 0) or not det > 0:
                    da, db = g1 / h11, 0.0
                if da * g1 + db * g2 < 1e-14:
                    break
                size = 1.0
                while size > 1e-6:
                    a2 = a + size * da
                    b2 = min(max(b + size * db, lowest), highest)
                    value2 = a2 * m + b2 * mm - _law(a2, b2, nodes, p)
                    if value2 > value:
                        break
                    size *= 0.5
                if value2 <= value:
                    break
                a, b, value = a2, b2, value2
            eta[0, d, z], eta[1, d, z] = a, b


@compiled()
def _law(a, b, nodes, p):  # type: ignore[no-untyped-def]  # compiled
    """Log normalizer of exp(a t + b t^2) over the levels, whose probabilities go to ``p``."""
    top = -np.inf
    for v in range(len(nodes)):
        p[v] = (a + b * nodes[v]) * nodes[v]
        top = max(top, p[v])
    total = 0.0
    for v in range(len(nodes)):
        p[v] = np.exp(p[v] - top)
        total += p[v]
    for v in range(len(nodes)):
        p[v] /= total
    return top + np.log(total)
