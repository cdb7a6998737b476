"""MCFA by loops over rows, columns and parts, with dense algebra of a part's factors at most.

Everything is in the user's own units: no scaling, no sums, no packed matrices. An update changes
one group of arguments of the bound, and `bound` is the sum of its terms as they stand in the
definition, so the two check each other.

x_cd = w_dk . (s_ck, 1) + noise of precision tau_dk, where r_cd = k (or r_d = k, tied). With a prior
w | tau, alpha ~ N(center, (tau diag(alpha, kappa))^-1), tau ~ Gamma(shape, rate), and
alpha ~ Gamma(1e-3, 1e-3); its posterior is N(mean, cov / tau) times Gammas. Without, w and tau are
points, ``cov`` is None and nothing is paid for them.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from tests.reference.choices import (
    dirichlet_divergence,
    gamma_divergence,
    gate,
    log_choice,
    relative,
    selections,
    softmax,
)
from tests.reference.choices import update_a as update_a  # one of the updates

RELEVANCE = 1e-3  # shape and rate of the relevances' prior
FLOOR = 1e-6  # least noise at maximum likelihood, as a share of the column's variance


@dataclass(frozen=True)
class Prior:
    """Strengths: rows that the offset's center weighs; noise as a share of the column's variance
    and how many rows that weighs; Dirichlet count of the gates."""

    kappa: float
    spread: float
    strength: float
    gates: float


@dataclass(frozen=True)
class Problem:
    """Data (NaN missing), weights, sizes, and the prior or None.

    ``center`` and ``variance`` are what the prior takes for a column's own.
    """

    X: np.ndarray
    weights: np.ndarray
    n_factors: tuple
    gating: str  # "standard", "tied" or "factorised"
    prior: Prior | None
    center: np.ndarray
    variance: np.ndarray

    def seen(self, c, d):
        return not math.isnan(self.X[c, d])

    def observed_weight(self, d):
        return sum(self.weights[c] for c in self.rows if self.seen(c, d))

    @property
    def rows(self):
        return range(self.X.shape[0])

    @property
    def columns(self):
        return range(self.X.shape[1])

    @property
    def parts(self):
        return range(len(self.n_factors))


@dataclass(frozen=True)
class Column:
    """What is known of one column in one part: w ~ N(mean, cov / tau), tau ~ Gamma(shape, rate).

    At maximum likelihood ``cov`` is None, and tau is shape / rate.
    """

    mean: np.ndarray
    cov: np.ndarray | None
    shape: float
    rate: float

    @property
    def tau(self):
        return self.shape / self.rate

    @property
    def log_tau(self):
        if self.cov is None:
            return math.log(self.tau)
        return special.digamma(self.shape) - math.log(self.rate)

    @property
    def tau_ww(self):
        """E[tau w w']."""
        outer = self.tau * np.outer(self.mean, self.mean)
        return outer if self.cov is None else outer + self.cov


@dataclass(frozen=True)
class Fit:
    """Arguments of the bound. ``g`` is [d][k], or [c][d][k] if factorised."""

    m: list  # [c][k], (J,)
    V: list  # [c][k], (J, J)
    g: list
    w: list  # [d][k], Column
    alpha: list  # [k], (shapes (J,), rates (J,))
    gate_counts: list  # [d][k]


def log_gates(p, f, d):
    """Expected log prior of a column's parts."""
    return log_choice(f.gate_counts[d], 0.0 if p.prior is None else p.prior.gates)


# --- updates ---


def update_s(p, f):
    """Posterior of every row's factors in every part."""
    means, covs = [], []
    for c in p.rows:
        of_row, widths = [], []
        for k in p.parts:
            J = p.n_factors[k]
            precision, pull = np.eye(J), np.zeros(J)
            for d in p.columns:
                if p.seen(c, d):
                    w, g = f.w[d][k], gate(p, f, c, d, k)
                    precision += g * w.tau_ww[:J, :J]
                    pull += g * (w.tau * w.mean[:J] * p.X[c, d] - w.tau_ww[:J, J])
            V = np.linalg.inv(precision)
            of_row.append(V @ pull)
            widths.append(V)
        means.append(of_row)
        covs.append(widths)
    return replace(f, m=means, V=covs)


def regressors(f, c, k):
    """Mean and second moment of (s, 1)."""
    mean = np.append(f.m[c][k], 1.0)
    second = np.outer(mean, mean)
    J = len(f.m[c][k])
    second[:J, :J] += f.V[c][k]
    return mean, second


def relevances(p, f, k):
    """Expected precision of a part's loadings, then of the offset."""
    shape, rate = f.alpha[k]
    return np.append(shape / rate, p.prior.kappa)


def noise_prior(p, d):
    """Shape and rate of a column's precision."""
    shape = 0.5 * p.prior.strength
    return shape, shape * p.prior.spread * p.variance[d]


def prior_center(p, d, k):
    """Loadings are expected at 0, the offset at the column's center."""
    return np.append(np.zeros(p.n_factors[k]), p.center[d])


def update_w(p, f):
    """Loadings, offset and noise, with the weights that the gating asks for."""
    return replace(f, w=[[_learn_column(p, f, d, k) for k in p.parts] for d in p.columns])


def _learn_column(p, f, d, k):
    J = p.n_factors[k]
    seen = [c for c in p.rows if p.seen(c, d)]
    weights = {c: p.weights[c] for c in seen}
    if p.gating != "tied":
        weights = {c: p.weights[c] * gate(p, f, c, d, k) for c in seen}
    n = sum(weights.values())
    precision, pull = np.zeros((J + 1, J + 1)), np.zeros(J + 1)
    for c in seen:
        mean, second = regressors(f, c, k)
        precision += weights[c] * second
        pull += weights[c] * mean * p.X[c, d]
    if p.prior is None and n == 0:
        return Column(np.append(np.zeros(J), p.center[d]), None, 1.0, p.variance[d])
    if p.prior is None:
        mean = np.linalg.solve(precision, pull)
        variance = _squares(p, f, d, k, mean, weights) / n
        return Column(mean, None, 1.0, max(variance, FLOOR * p.variance[d]))
    A, center = relevances(p, f, k), prior_center(p, d, k)
    cov = np.linalg.inv(precision + np.diag(A))
    mean = cov @ (pull + A * center)
    shape, rate = noise_prior(p, d)
    rate += 0.5 * _squares(p, f, d, k, mean, weights) + 0.5 * (A * (mean - center) ** 2).sum()
    return Column(mean, cov, shape + 0.5 * n, rate)


def _squares(p, f, d, k, w, weights):
    """Expected squared error of a column whose w is known, over the factors only."""
    J = p.n_factors[k]
    total = 0.0
    for c, weight in weights.items():
        error = p.X[c, d] - w[:J] @ f.m[c][k] - w[J]
        total += weight * (error**2 + w[:J] @ f.V[c][k] @ w[:J])
    return total


def update_alpha(p, f):
    """Relevance of every direction; a tied column counts as far as it chose the part."""
    if p.prior is None:
        return f
    alpha = []
    for k in p.parts:
        J = p.n_factors[k]
        shape, rate = np.full(J, RELEVANCE), np.full(J, RELEVANCE)
        for d in p.columns:
            stake = f.g[d][k] if p.gating == "tied" else 1.0
            shape += 0.5 * stake
            rate += 0.5 * stake * np.diag(f.w[d][k].tau_ww)[:J]
        alpha.append((shape, rate))
    return replace(f, alpha=alpha)


def expected_log(p, f, c, d, k):
    """E[log p(x_cd | r = k)] over factors, loadings and noise."""
    w, J = f.w[d][k], p.n_factors[k]
    mean, second = regressors(f, c, k)
    error = w.tau * ((p.X[c, d] - w.mean @ mean) ** 2 + w.mean[:J] @ f.V[c][k] @ w.mean[:J])
    if w.cov is not None:
        error += np.trace(w.cov @ second)
    return 0.5 * (w.log_tau - math.log(2 * math.pi) - error)


def gain(p, f, d, k):
    return sum(p.weights[c] * expected_log(p, f, c, d, k) for c in p.rows if p.seen(c, d))


def update_g(p, f):
    """The line in which the gatings differ; a column never observed keeps its gates."""
    if p.gating == "factorised":
        return replace(f, g=selections(p, f, log_gates, expected_log))
    g = []
    for d in p.columns:
        C_d, log_a = p.observed_weight(d), log_gates(p, f, d)
        if C_d == 0:
            g.append(f.g[d])
        elif p.gating == "standard":
            g.append(softmax([log_a[k] + gain(p, f, d, k) / C_d for k in p.parts]))
        else:
            evidence = [gain(p, f, d, k) - kl_column(p, f, d, k) for k in p.parts]
            g.append(softmax([log_a[k] + evidence[k] for k in p.parts]))
    return replace(f, g=g)


# --- the bound ---


def kl_factors(m, V):
    """KL(N(m, V) || N(0, I))."""
    return 0.5 * (np.trace(V) + m @ m - len(m) - np.linalg.slogdet(V)[1])


def kl_column(p, f, d, k):
    """E over alpha of KL(q(w, tau) || p(w, tau | alpha))."""
    if p.prior is None:
        return 0.0
    w, J = f.w[d][k], p.n_factors[k]
    shape, rate = f.alpha[k]
    A, away = relevances(p, f, k), w.mean - prior_center(p, d, k)
    log_A = sum(special.digamma(shape) - np.log(rate)) + math.log(p.prior.kappa)
    of_w = w.tau * (A * away**2).sum() + (A * np.diag(w.cov)).sum()
    of_w = 0.5 * (of_w - np.linalg.slogdet(w.cov)[1] - log_A - (J + 1))
    return of_w + gamma_divergence(w.shape, w.rate, *noise_prior(p, d))


def bound(p, f):
    """E log p(x | s, w, tau, r) - KL(s) - KL(w, tau) - KL(alpha) - KL(r) - KL(a)."""
    total = 0.0
    for c in p.rows:
        for d in p.columns:
            if p.seen(c, d):
                for k in p.parts:
                    total += p.weights[c] * gate(p, f, c, d, k) * expected_log(p, f, c, d, k)
        for k in p.parts:
            total -= p.weights[c] * kl_factors(f.m[c][k], f.V[c][k])
    for d in p.columns:
        for k in p.parts:
            total -= (f.g[d][k] if p.gating == "tied" else 1.0) * kl_column(p, f, d, k)
        log_a = log_gates(p, f, d)
        if p.gating == "tied":
            total -= relative(f.g[d], log_a)
        elif p.gating == "standard":
            total -= p.observed_weight(d) * relative(f.g[d], log_a)
        else:
            for c in p.rows:
                if p.seen(c, d):
                    total -= p.weights[c] * relative(f.g[c][d], log_a)
        if p.prior is not None:
            alpha0 = [p.prior.gates] * len(log_a)
            alpha = [n + a for n, a in zip(f.gate_counts[d], alpha0, strict=True)]
            total -= dirichlet_divergence(alpha, alpha0)
    if p.prior is not None:
        for shapes, rates in f.alpha:
            for shape, rate in zip(shapes, rates, strict=True):
                total -= gamma_divergence(shape, rate, RELEVANCE, RELEVANCE)
    return total
