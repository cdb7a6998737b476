"""Mixtures of Bayesian principal component analyzers (Bishop & Winn 2000).

=========  ============  ==============  ===================================================  ======
symbol     code          shape           meaning                                              paper
=========  ============  ==============  ===================================================  ======
W, mu      mean          (M, D, q + 1)   posterior mean of (W_m, mu_m), a row for each column  23-24
Sigma      cov           (M, ., p, p)    its covariance, a column of the data, or one for all  32,34
tau        tau           (2,)            precision of the noise, Gamma (shape, rate)          26
alpha      alpha         (2, [M,] q)     relevance of a direction, shared by components or not  25
h          leverage      (D,)            share of each column that is in the components' space  -
pi         counts        (M,)            expected rows of each component; Dirichlet posterior  27
x          m, cov_x      (q, n)          posterior of a row's position given its component    29-30
s          r             (M, n)          posterior of a row's component                       38-39
=========  ============  ==============  ===================================================  ======

t = W_m x + mu_m + noise, x ~ N(0, I), with p = q + 1 and x~ = (x, 1), so that a row's sums are
those of a regression on x~. Missing entries are ignored; rows that miss the same entries
share cov_x, and complete columns share Sigma.

Departures from the paper: W and mu have one posterior together, not one each, which can only
tighten the bound; one alpha is shared by all components, as its text and Figure 5 say, though Eqs.
(25) and (35) print one each, which is an option; mu's prior has its center at the columns' means
and all priors are in units of the columns' mean variance, so that neither the origin nor the unit
of the data matters;
after each step the positions of each component are brought to mean 0 and covariance I and its
directions to the principal ones, the largest first, whenever that raises the bound: the paper's
updates approach this slowly; and a new row may come from a component not seen so far, which counts
in its density alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import linalg, special

from partwise.contracts import Additive, Array, Block, Source, Span, SumView
from partwise.likelihoods import Dirichlet
from partwise.models.principal_params import (
    LEAST_NOISE,
    BayesianPCAParams,
    BayesianPCASums,
    Broad,
    PointValues,
    sure_noise,
)
from partwise.models.scatter_updates import Principal, Scatter, leap, log_joint, turns

_LOG_2PI = float(np.log(2 * np.pi))

# A direction of whose expected squared loadings less than this share is in their mean is idle.
IDLE = 0.1

# A component of fewer rows keeps its positions' scale, which so few cannot tell.
LEAST_RESCALED_ROWS = 1e-3


class Found(NamedTuple):
    """Posterior of some rows."""

    r: Array  # (M, n)
    log_r: Array  # its logarithm, which tells components apart where r is 0, (M, n)
    log_z: Array  # log normalizer, (n,)
    m: list[Array]  # a component: (q, n)
    cov_x: list[Array]  # a component: (U, q, q), U patterns of missing entries


@dataclass(frozen=True, eq=False)
class BayesianPCA:
    """The model; one component is Bayesian PCA.

    Parameters
    ----------
    prior : Broad or PointValues
    shares : Dirichlet
        Prior of pi.
    totals : ndarray of shape (3, D)
        BayesianPCASums of 1, t and t^2 over the observed entries.
    outside : tuple of two float
        Number of entries that only noise explains, and the sum of their squares: what rows have
        outside of the subspace that the columns here span.
    units : float
        Log units of all entries, which densities of the user's values lose, where rows come without
        their own.
    holds : frozenset of {"noise", "relevances"}
        What stays as it is: both while components are tried on some of the rows, the noise where
        several mixtures share it.
    directions : int or None
        Most directions that a leap may take up.
    leaps : bool
        Whether to take sums of t t' and leap (see `leaps`): for complete rows of few columns.
    """

    prior: Broad | PointValues
    shares: Dirichlet
    totals: Array
    outside: tuple[float, float] = (0.0, 0.0)
    units: float = 0.0
    holds: frozenset[str] = frozenset()
    directions: int | None = None
    leaps: bool = False
    needs: ClassVar[tuple[type, ...]] = (Additive,)
    remembers: ClassVar[bool] = False

    @property
    def _entries(self) -> tuple[float, float]:
        """Number of observed entries, and the sum of their squares."""
        n, _, squares = self.totals.sum(axis=1)
        return n + self.outside[0], squares + self.outside[1]

    # --- E-step ---

    def fresh_memory(self, index: int) -> None:
        """Rows keep nothing from one sweep to the next."""
        return

    def expect(
        self, params: BayesianPCAParams, block: Block[Additive], memory: object
    ) -> tuple[None, BayesianPCASums | Scatter]:
        """Sums of the rows' posterior; rows remember nothing."""
        total: BayesianPCASums | None = None
        if self.leaps:
            return None, self._scatter(params, block)
        for rows, view in pieces(params, block):
            weight = block.weight[rows]
            found = self.infer(params, view)
            sums = collect(found, view, weight, float(weight @ (found.log_z + block.base[rows])))
            total = sums if total is None else total + sums
        assert total is not None
        return None, total

    def _scatter(self, params: BayesianPCAParams, block: Block[Additive]) -> Scatter:
        x, weight = block.groups[0].additive().x, block.weight
        log_r = log_joint(params, x)
        log_r += self.shares.expected_log(params.counts)[:, None]
        highest = log_r.max(axis=0)
        r = np.exp(log_r - highest)
        sums = r.sum(axis=0)
        r *= weight / sums
        units = float(weight @ block.base)
        bound = float(weight @ (highest + np.log(sums)))
        return Scatter.of(x, r, bound + units, bound + units - float(np.vdot(r, log_r)))

    def infer(self, params: BayesianPCAParams, view: SumView) -> Found:
        """Posterior of some rows; its normalizer lacks what only the noise decides."""
        precision = np.full(params.mean.shape[:2], params.precision)
        return infer(params, precision, self.shares.expected_log(params.counts), view)

    def predictive(self, params: BayesianPCAParams, view: SumView) -> tuple[Found, Array]:
        """Posterior of some rows with parameters at their expectation, and the noise (M, D).

        The parameters' uncertainty, given positions of the prior, is so much more noise. The
        normalizer is the rows' log density under the components, without their units.
        """
        a, b = params.tau
        noise = b / max(a - 1.0, 0.5 * a)
        noise = noise + np.trace(params.cov, axis1=2, axis2=3) * params.leverage  # (M, D)
        sure = replace(params, cov=np.zeros_like(params.cov[:, :1]))
        alone = [view.squares(-0.5 * np.log(2 * np.pi * psi), -0.5 / psi) for psi in noise]
        prior = np.log(self.shares.mean(params.counts))
        return infer(sure, 1.0 / noise, prior[:, None] + np.stack(alone), view), noise

    def log_density(self, params: BayesianPCAParams, view: SumView) -> Array:
        """Log density of rows, without their units, (n,).

        Besides the components there may be one that no row has come from yet. It has the share that
        the Dirichlet leaves it, about one row's; of where it lies nothing is known but the columns'
        means and mean variance. Without it, columns that never vary in training leave next to no
        noise, and one new row that differs in them would decide any mean of densities.
        """
        log_z = self.predictive(params, view)[0].log_z
        if self.shares.concentration == 0.0:  # maximum likelihood
            return log_z
        unseen = self.shares.mean(np.append(params.counts, 0.0))[-1]
        ones = np.ones(params.mean.shape[1])
        stray = view.squares(-0.5 * _LOG_2PI * ones, -0.5 * ones)
        return np.asarray(np.logaddexp(np.log1p(-unseen) + log_z, np.log(unseen) + stray))

    def below(self, params: BayesianPCAParams, view: SumView) -> Array:
        """Probability that each entry would be less, given the row's other entries, (D, n).

        An entry given the others is Gaussian with precision K_dd and mean t_d - (K (t - mu))_d /
        K_dd, where K is the inverse covariance of the row under a component.
        """
        found, noise = self.predictive(params, view)
        z, log_r = [], []
        for k, psi in enumerate(noise[:, :, None]):
            W, mu = params.mean[k, :, :-1], params.mean[k, :, -1:]
            pull = (view.x - mu - W @ found.m[k]) / psi
            K = 1.0 / psi - view.patterns.spread(_quadratic(W, found.cov_x[k])) / psi**2
            K = np.maximum(K, LEAST_NOISE / psi)  # where an entry is missing it means nothing
            z.append(pull / np.sqrt(K))
            log_r.append(found.log_r[k] + 0.5 * (z[k] ** 2 - np.log(K)))
        return np.asarray((special.softmax(log_r, axis=0) * special.ndtr(z)).sum(axis=0))

    def entries(
        self, params: BayesianPCAParams, view: SumView, found: Found
    ) -> tuple[Array, Array]:
        """Mean and variance of new entries under every component, each (M, D, n)."""
        a, b = params.tau
        means, variances = [], []
        for k, m in enumerate(found.m):
            x = np.vstack([m, np.ones(m.shape[1])])
            means.append(params.mean[k] @ x)
            cov, own = params.cov[k], found.cov_x[k]
            wide = np.einsum("in,dij,jn->dn", x, cov, x, optimize=True)
            wide += view.patterns.spread(np.einsum("dij,uij->du", cov[:, :-1, :-1], own))
            spread = view.patterns.spread(_quadratic(params.mean[k, :, :-1], own))
            noise = b / max(a - 1.0, 0.5 * a)
            variances.append(noise + spread + params.leverage[:, None] * wide)
        return np.stack(means), np.stack(variances)

    # --- M-step ---

    def start(self, mean: Array, noise: float, counts: Array) -> BayesianPCAParams:
        """Parameters without width, (W, mu) being ``mean`` (M, D, p): to take the first sums with.

        Relevances are as if the directions were known.
        """
        M, D, p = mean.shape
        squares = (mean[:, :, :-1] ** 2).sum(axis=1)
        own = self.prior.by_component
        rate = 0.5 * np.maximum(squares if own else squares.sum(axis=0), LEAST_NOISE)
        alpha = np.stack([np.full(rate.shape, 0.5 * (D if own else M * D)), rate])
        tau = sure_noise(noise)
        width = np.zeros((M, 1, p, p)), np.zeros((M, 1)), np.ones(D)
        return BayesianPCAParams(mean, *width, tau, alpha, counts)

    def with_noise(self, params: BayesianPCAParams, noise: float) -> BayesianPCAParams:
        """The same as if all entries had shown this noise."""
        return replace(params, tau=self.noise_of(noise))

    def noise_of(self, noise: float) -> Array:
        """Posterior of tau as if all entries had shown this noise."""
        n, _ = self._entries
        return self.prior.noise(n, n * noise)

    def maximize(
        self, params: BayesianPCAParams, stats: BayesianPCASums | Scatter
    ) -> BayesianPCAParams:
        """All posteriors of what rows share, one after another."""
        if isinstance(stats, Scatter):
            return self._leap(params, stats)
        params = self._learn(replace(params, counts=stats.counts), stats)
        if "relevances" in self.holds:
            return params
        params, stats = self.shed(params, stats)
        return self.rescale(params, stats)

    def _leap(self, params: BayesianPCAParams, scatter: Scatter) -> BayesianPCAParams:
        """The best posteriors given the rows' components, unless those before are better."""
        new, worth = self.leap(self._principal(scatter, params), params.tau, params.alpha)
        if worth + scatter.entropy - self.units >= self.bound(params, scatter):
            return new
        return replace(params, counts=scatter.counts)

    def _principal(self, scatter: Scatter, params: BayesianPCAParams) -> Principal:
        """Principal directions, as many as there may be."""
        if "relevances" in self.holds or not self.prior.relevance:
            return scatter.principal(params.n_directions)
        M, D = scatter.first.shape
        return scatter.principal(max(min(self.directions or D, D - (M > 1)), 1))

    def leap(
        self, rows: Principal, tau: Array | None = None, alpha: Array | None = None
    ) -> tuple[BayesianPCAParams, float]:
        """Parameters from the components' principal directions, and what the bound has of them.

        Noise and relevances are those given if they are held; otherwise the noise given is begun
        with, or several.
        """
        noise = None if tau is None else float(tau[1] / tau[0])
        held = tau if "noise" in self.holds else None
        given = alpha if "relevances" in self.holds else None
        assert isinstance(self.prior, Broad)
        found = leap(self.prior, rows, given, held, noise, self._entries)
        (M, D), counts = rows.mean.shape, rows.counts
        p = found.variances.shape[1]
        cov = np.zeros((M, 1, p, p))
        cov[:, 0, np.arange(p), np.arange(p)] = found.variances
        log_det = np.log(found.variances).sum(axis=1)[:, None]
        new = BayesianPCAParams(
            found.mean, cov, log_det, np.ones(D), found.tau, found.alpha, counts
        )
        shares = float(counts @ self.shares.expected_log(counts))
        return new, found.worth + shares - self.shares.divergence(counts)

    def from_shares(
        self, r: Array, source: Source, params: BayesianPCAParams
    ) -> tuple[float, BayesianPCAParams]:
        """Parameters of components with shares r (M, C) in rows, and a bound that they have.

        Noise and relevances are begun with as in ``params``, or held.
        """
        blocks, lo = [], 0
        for block in source.blocks():
            own = r[:, lo : lo + block.n_rows]
            lo += block.n_rows
            entropy = special.entr(own).sum(axis=0) + block.base
            weight = own * block.weight
            x = block.groups[0].additive().x
            blocks.append(Scatter.of(x, weight, entropy=float(block.weight @ entropy)))
        scatter = Scatter.total(blocks)
        new, worth = self.leap(self._principal(scatter, params), params.tau, params.alpha)
        return worth + scatter.entropy - self.units, new

    def _learn(self, params: BayesianPCAParams, stats: BayesianPCASums) -> BayesianPCAParams:
        """W and mu, then noise, then relevances, unless they are held."""
        params = self.learn_loadings(params, stats)
        if "noise" not in self.holds:
            params = self.learn_noise(params, stats)
        return params if "relevances" in self.holds else self.learn_relevances(params)

    def learn_loadings(
        self, params: BayesianPCAParams, stats: BayesianPCASums
    ) -> BayesianPCAParams:
        """W and mu given the rest."""
        mean, cov, log_det = self.prior.loadings(stats.second, stats.first, params)
        leverage = np.ones_like(params.leverage)
        return replace(params, mean=mean, cov=cov, log_det=log_det, leverage=leverage)

    def learn_noise(self, params: BayesianPCAParams, stats: BayesianPCASums) -> BayesianPCAParams:
        """Noise given the rest."""
        n, squares = self._entries
        return replace(params, tau=self.prior.noise(n, squares + self._error(params, stats)))

    def learn_relevances(self, params: BayesianPCAParams) -> BayesianPCAParams:
        """Relevances given the rest."""
        return replace(params, alpha=self.prior.relevances(params))

    @staticmethod
    def _error(params: BayesianPCAParams, stats: BayesianPCASums) -> float:
        """Expected squared error of all entries, less sum t^2."""
        error = -2.0 * np.vdot(params.mean, stats.first)
        if stats.second.shape[1] == 1:
            outer = np.swapaxes(params.mean, 1, 2) @ params.mean + params.spread
            return float(error + np.vdot(outer, stats.second[:, 0]))
        spread = np.einsum("mdi,mdij,mdj->", params.mean, stats.second, params.mean, optimize=True)
        return float(error + spread + (params.cov * stats.second).sum())

    def shed(
        self, params: BayesianPCAParams, stats: BayesianPCASums
    ) -> tuple[BayesianPCAParams, BayesianPCASums]:
        """Leave out directions that are nothing but uncertain, if the bound gains by it.

        The remaining posterior of the positions costs no more than the whole, so the bound gains at
        least what `expected` does. Of a direction without loadings that is more than nothing.
        """
        if not self.prior.relevance:
            return params, stats
        squares = params.squares.sum(axis=0)
        known = (params.mean[:, :, :-1] ** 2).sum(axis=(0, 1)) / squares
        strongest = np.arange(len(known)) == squares.argmax()
        for gone in (known < IDLE, squares == squares.min()):
            kept = ~gone | strongest
            if len(kept) == params.n_directions and not kept.all():
                less, sums = _without(params, stats, np.append(kept, True))
                less = self._learn(less, sums)  # the others take over what they can
                if self.expected(less, sums) >= self.expected(params, stats):
                    params, stats = less, sums
        return params, stats

    def rescale(self, params: BayesianPCAParams, stats: BayesianPCASums) -> BayesianPCAParams:
        """Positions of mean 0 and covariance I, directions principal, if the bound gains by it.

        With x = L x' + c the densities of entries stay what they are. What changes is the cost of
        the loadings, and that of the positions' posterior against their prior.
        """
        q = params.n_directions
        mean, cov, log_det = params.mean.copy(), params.cov.copy(), params.log_det.copy()
        gain = 0.0
        for k, S in enumerate(stats.moments):
            n = S[q, q]
            if n < LEAST_RESCALED_ROWS:
                continue
            c = S[:q, q] / n
            V = S[:q, :q] / n - np.outer(c, c)
            scale = linalg.cholesky(V, lower=True)
            moment = mean[k].T @ mean[k] + params.spread[k]
            _, turn = linalg.eigh(scale.T @ moment[:q, :q] @ scale)
            turn = turn[:, ::-1]
            # A direction and its opposite are equally good; the largest loading shall be positive.
            W = mean[k, :, :q] @ scale @ turn
            turn = np.where(W[np.abs(W).argmax(axis=0), np.arange(q)] < 0, -turn, turn)
            T = np.eye(q + 1)
            T[:q, :q], T[q, :q] = (scale @ turn).T, c
            log_scale = np.log(np.diagonal(scale)).sum()
            gain += 0.5 * n * (np.trace(S[:q, :q]) / n - q) - n * log_scale
            mean[k] = mean[k] @ T.T
            cov[k] = T @ cov[k] @ T.T
            log_det[k] += np.where(log_det[k] == 0.0, 0.0, 2.0 * log_scale)
        moved = self.learn_relevances(replace(params, mean=mean, cov=cov, log_det=log_det))
        gain += self.prior.cost(params) - self.prior.cost(moved)
        return moved if gain >= 0.0 else params

    def prepare(self, params: BayesianPCAParams) -> BayesianPCAParams:
        """Blocks take them as they are."""
        return params

    def begin(self, params: BayesianPCAParams) -> BayesianPCAParams:
        """Blocks take them as they are."""
        return params

    def thorough(self, params: BayesianPCAParams) -> None:
        """No step takes a short cut."""
        return

    # --- bound ---

    def bound(self, params: BayesianPCAParams, stats: BayesianPCASums | Scatter) -> float:
        """Lower bound of the log evidence, given the sums taken with these parameters.

        What leaps raise is more: the bound of a posterior that knows all turns of directions.
        """
        n, squares = self._entries
        noise = 0.5 * n * (self.prior.log_tau(params.tau) - _LOG_2PI)
        noise -= 0.5 * params.precision * squares
        cost = self.prior.cost(params) + self.shares.divergence(params.counts)
        return stats.bound + noise - self.units - cost + self.counted_turns(params)

    def counted_turns(self, params: BayesianPCAParams) -> float:
        """What `bound` counts of `turns`."""
        return self.turns(params) if self.leaps else 0.0

    def turns(self, params: BayesianPCAParams) -> float:
        """Nats that the bound lacks, since it knows one turn of each component's directions."""
        if not self.prior.relevance or "relevances" in self.holds:
            return 0.0
        length = np.sqrt((params.mean[:, :, :-1] ** 2).sum(axis=1))
        width = np.diagonal(params.cov.mean(axis=1), axis1=1, axis2=2)[:, :-1]
        shared = np.broadcast_to(params.alpha[0] / params.alpha[1], length.shape)
        on = np.ones(params.n_directions, bool)
        each = zip(length[:, None], width[:, None].copy(), shared.copy(), strict=True)
        return float(sum(turns(w, s, A, on).sum() for w, s, A in each))

    def expected(self, params: BayesianPCAParams, stats: BayesianPCASums) -> float:
        """What the bound has of ``params``, given sums that any parameters may have given.

        With these sums held, the bounds of two parameters differ by as much as this does.
        """
        n, squares = self._entries
        out = 0.5 * n * (self.prior.log_tau(params.tau) - _LOG_2PI)
        out -= 0.5 * params.precision * (squares + self._error(params, stats))
        out += float(stats.counts @ self.shares.expected_log(params.counts))
        return out - self.prior.cost(params) - self.shares.divergence(params.counts)


def total(
    model: BayesianPCA, params: BayesianPCAParams, source: Source
) -> BayesianPCASums | Scatter:
    """Sums over all rows, those that the model asks for."""
    return reduce(add, source.each(lambda block: model.expect(params, block, None)[1]))


def pieces(params: BayesianPCAParams, block: Block[Additive]) -> Iterable[tuple[Span, SumView]]:
    """Views of some rows of a block at a time, and which rows they are."""
    return block.groups[0].additive().pieces(params.mean.shape[2])


def infer(params: BayesianPCAParams, precision: Array, log_pi: Array, view: SumView) -> Found:
    """Posterior of rows, with a precision of the noise for every component and column (M, D).

    ``log_pi`` is what else speaks for a component, (M,) or (M, n).
    """
    mean, cov = params.mean, params.cov
    M, _, p = mean.shape
    q = p - 1
    linear = mean * precision[:, :, None]  # (M, D, p)
    wide = precision * params.leverage  # (M, D)
    constant = -(linear * mean[:, :, q:] + wide[:, :, None] * cov[:, :, :, q])
    constant[:, :, q] *= 0.5
    rows = view.project(_stacked(linear), _stacked(constant))  # (M p, n)
    log_r, m, cov_x = np.empty((M, rows.shape[1])), [], []
    for k in range(M):
        b = rows[k * p : k * p + q]
        pull = view.second_moments(mean[k], cov[k], precision[k], wide[k])[:, :q, :q]
        own, log_det = _inverses(pull + np.eye(q))
        spread = view.patterns.spread
        if len(own) == 1:
            m.append(own[0] @ b)
        else:
            of = own if view.patterns.pattern_of is None else own[view.patterns.pattern_of]
            m.append(np.einsum("nij,jn->in", of, b))
        cov_x.append(own)
        log_r[k] = 0.5 * np.einsum("in,in->n", b, m[k]) - 0.5 * spread(log_det[None])[0]
        log_r[k] += rows[k * p + q] + log_pi[k]
    if M == 1:
        return Found(np.ones_like(log_r), np.zeros_like(log_r), log_r[0], m, cov_x)
    log_z = special.logsumexp(log_r, axis=0)
    log_r -= log_z
    return Found(np.exp(log_r), log_r, log_z, m, cov_x)


def _without(
    params: BayesianPCAParams, stats: BayesianPCASums, kept: Array
) -> tuple[BayesianPCAParams, BayesianPCASums]:
    """Parameters and sums of some of (x, 1) alone, ``kept`` (p,)."""
    cov = params.cov[:, :, kept][:, :, :, kept]
    less = replace(
        params,
        mean=params.mean[:, :, kept],
        cov=cov,
        log_det=np.linalg.slogdet(cov)[1],
        alpha=params.alpha[..., kept[:-1]],
    )
    sums = replace(
        stats,
        moments=stats.moments[:, kept][:, :, kept],
        second=stats.second[:, :, kept][:, :, :, kept],
        first=stats.first[:, :, kept],
    )
    return less, sums


def _quadratic(W: Array, cov_x: Array) -> Array:
    """w_d' cov_x w_d of every column and pattern, (D, U)."""
    return np.stack([np.einsum("di,di->d", W @ S, W) for S in cov_x], axis=1)


def _stacked(values: Array) -> Array:
    """(M, D, p) as (M p, D)."""
    return np.swapaxes(values, 1, 2).reshape(-1, values.shape[1])


def _inverses(matrices: Array) -> tuple[Array, Array]:
    """Inverses of positive definite matrices (U, q, q), and their log determinants (U,)."""
    try:
        L = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:  # rounding took the smallest eigenvalues
        values, vectors = np.linalg.eigh(matrices)
        values = np.maximum(values, np.finfo(values.dtype).eps * values[:, -1:])
        inverses = (vectors / values[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return inverses, np.log(values).sum(axis=1)
    log_det = 2.0 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    half = np.linalg.inv(L)
    return np.swapaxes(half, 1, 2) @ half, log_det


def collect(found: Found, view: SumView, weight: Array, bound: float) -> BayesianPCASums:
    """Sums of rows' posteriors."""
    M, q, n = len(found.r), len(found.m[0]), found.r.shape[1]
    stacked = np.empty((M, q + 1, n))
    moments, second = [], []
    for k, (m, cov_x) in enumerate(zip(found.m, found.cov_x, strict=True)):
        wr = weight * found.r[k]
        x = np.vstack([m, np.ones(n)])
        cov = np.zeros((len(cov_x), q + 1, q + 1))
        cov[:, :q, :q] = cov_x
        second.append(view.collect_moments(x, wr, cov))
        stacked[k] = x * wr
        if len(second[k]) == 1:
            moments.append(second[k][0])
        else:
            rows = view.patterns.gather(wr[None])[0]  # of each pattern
            moments.append(stacked[k] @ x.T + np.tensordot(rows, cov, 1))
    first = stacked.reshape(-1, n) @ view.x.T  # (M p, D)
    first = np.swapaxes(first.reshape(M, q + 1, -1), 1, 2)
    return BayesianPCASums(bound, np.stack(moments), np.stack(second), np.ascontiguousarray(first))
