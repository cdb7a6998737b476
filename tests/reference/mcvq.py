"""MCVQ by loops over rows, columns, parts and states; nothing here is fast, and nothing clever.

Everything is in the user's own units: no scaling, no sufficient statistics, no packed layouts. An
update changes one group of arguments of the bound, and `bound` is written out term by term from the
definition, so the two check each other.
"""

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import integrate, optimize, special, stats

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

# --- expectations over posteriors, by quadrature ---


def expect_beta(f, alpha, beta):
    """E[f(p, 1 - p)] for p ~ Beta(alpha, beta), over u = log p / (1 - p)."""
    log_b = special.betaln(alpha, beta)

    def integrand(u):
        log_p, log_q = special.log_expit(u), special.log_expit(-u)
        return f(math.exp(log_p), math.exp(log_q)) * math.exp(alpha * log_p + beta * log_q - log_b)

    center = math.log(alpha / beta)
    width = math.sqrt(1 / alpha + 1 / beta)
    points = [center - 40 / alpha - 5 * width, center - 3 * width, center, center + 3 * width]
    points.append(center + 40 / beta + 5 * width)
    pieces = itertools.pairwise(points)
    return sum(integrate.quad(integrand, a, b, epsabs=1e-12, limit=200)[0] for a, b in pieces)


def expect_gamma(f, shape, rate):
    """E[f(t)] for t ~ Gamma(shape, rate), over u = log t."""
    center, width = math.log(shape / rate), 1.0 / math.sqrt(shape)

    def integrand(u):
        log_q = shape * (u + math.log(rate)) - rate * math.exp(u) - special.gammaln(shape)
        return f(math.exp(u)) * math.exp(log_q)

    # The left tail falls as exp(shape u), the right one much faster.
    points = [center - 60 / shape, center - 5 * width, center, center + 4 * width]
    points.append(center + math.log(60 + 60 / shape) + 4 * width)
    pieces = itertools.pairwise(points)
    return sum(integrate.quad(integrand, a, b, epsabs=1e-12, limit=200)[0] for a, b in pieces)


def expect_normal_gamma(f, mu, kappa, alpha, beta):
    """E[f(mean, precision)]: precision ~ Gamma(alpha, beta), mean ~ N(mu, 1 / kappa precision)."""

    def given(tau):
        sd = 1.0 / math.sqrt(kappa * tau)

        def integrand(z):
            return f(mu + sd * z, tau) * math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)

        return integrate.quad(integrand, -12, 12, epsabs=1e-10, epsrel=1e-10)[0]

    return expect_gamma(given, alpha, beta)


# --- the law of a column's entries: how it learns, what it expects, what it costs ---


@dataclass(frozen=True)
class Gaussian:
    """Prior (mu0, kappa0, alpha0, beta0), or None and the column's mean and variance."""

    prior: tuple | None
    mean: float
    variance: float

    def learn(self, xs, ws):
        n = sum(ws)
        if self.prior is None and n == 0:
            return self.mean, self.variance
        average = sum(w * x for x, w in zip(xs, ws, strict=True)) / n if n > 0 else 0.0
        squares = sum(w * (x - average) ** 2 for x, w in zip(xs, ws, strict=True))
        if self.prior is None:
            return average, max(squares / n, 1e-6 * self.variance)
        mu0, kappa0, alpha0, beta0 = self.prior
        kappa = kappa0 + n
        mu = (kappa0 * mu0 + n * average) / kappa
        beta = beta0 + squares / 2 + kappa0 * n * (average - mu0) ** 2 / (2 * kappa)
        return mu, kappa, alpha0 + n / 2, beta

    def log(self, x, parameters):
        if self.prior is None:
            mean, variance = parameters
            return -0.5 * math.log(2 * math.pi * variance) - (x - mean) ** 2 / (2 * variance)
        mu, kappa, alpha, beta = parameters
        log_tau = special.digamma(alpha) - math.log(beta)
        square = alpha / beta * (x - mu) ** 2 + 1 / kappa
        return 0.5 * (log_tau - math.log(2 * math.pi)) - 0.5 * square

    def divergence(self, parameters):
        if self.prior is None:
            return 0.0
        mu, kappa, alpha, beta = parameters
        mu0, kappa0, alpha0, beta0 = self.prior
        of_mean = 0.5 * (
            math.log(kappa / kappa0) - 1 + kappa0 / kappa + kappa0 * alpha / beta * (mu - mu0) ** 2
        )
        return of_mean + gamma_divergence(alpha, beta, alpha0, beta0)

    def predict(self, x, parameters):
        if self.prior is None:
            return math.exp(self.log(x, parameters))

        def density(mean, tau):
            return math.sqrt(tau / (2 * math.pi)) * math.exp(-0.5 * tau * (x - mean) ** 2)

        return expect_normal_gamma(density, *parameters)

    def log_predict(self, x, parameters):
        if self.prior is None:
            return self.log(x, parameters)
        mu, kappa, alpha, beta = parameters
        scale = math.sqrt(beta * (kappa + 1) / (alpha * kappa))
        return float(stats.t.logpdf(x, 2 * alpha, loc=mu, scale=scale))


@dataclass(frozen=True)
class Bernoulli:
    """Prior (alpha0, beta0) or None."""

    prior: tuple | None

    def learn(self, xs, ws):
        n = sum(ws)
        ones = sum(w * x for x, w in zip(xs, ws, strict=True))
        if self.prior is None:
            return (min(max(ones / n, 1e-10), 1 - 1e-10) if n > 0 else 0.5,)
        return self.prior[0] + ones, self.prior[1] + n - ones

    def log(self, x, parameters):
        if self.prior is None:
            return math.log(parameters[0] if x == 1 else 1 - parameters[0])
        alpha, beta = parameters
        return special.digamma(alpha if x == 1 else beta) - special.digamma(alpha + beta)

    def divergence(self, parameters):
        return 0.0 if self.prior is None else dirichlet_divergence(parameters, self.prior)

    def predict(self, x, parameters):
        if self.prior is None:
            return math.exp(self.log(x, parameters))
        return expect_beta(lambda p, q: p if x == 1 else q, *parameters)

    def log_predict(self, x, parameters):
        if self.prior is None:
            return self.log(x, parameters)
        return math.log(parameters[0 if x == 1 else 1] / sum(parameters))


@dataclass(frozen=True)
class Poisson:
    """Prior (shape, rate) or None."""

    prior: tuple | None

    def learn(self, xs, ws):
        n = sum(ws)
        total = sum(w * x for x, w in zip(xs, ws, strict=True))
        if self.prior is None:
            return (max(total / n, 1e-10) if n > 0 else 1.0,)
        return self.prior[0] + total, self.prior[1] + n

    def log(self, x, parameters):
        if self.prior is None:
            return x * math.log(parameters[0]) - parameters[0] - special.gammaln(x + 1)
        shape, rate = parameters
        log_mean = special.digamma(shape) - math.log(rate)
        return x * log_mean - shape / rate - special.gammaln(x + 1)

    def divergence(self, parameters):
        return 0.0 if self.prior is None else gamma_divergence(*parameters, *self.prior)

    def predict(self, x, parameters):
        if self.prior is None:
            return math.exp(self.log(x, parameters))
        return expect_gamma(lambda rate: stats.poisson.pmf(x, rate), *parameters)

    def log_predict(self, x, parameters):
        if self.prior is None:
            return self.log(x, parameters)
        shape, rate = parameters
        return float(stats.nbinom.logpmf(x, shape, rate / (1 + rate)))


@dataclass(frozen=True)
class Categorical:
    """Prior (alpha of each level) or None."""

    prior: tuple | None
    levels: tuple

    def learn(self, xs, ws):
        pairs = list(zip(xs, ws, strict=True))
        counts = [sum(w for x, w in pairs if x == level) for level in self.levels]
        if self.prior is not None:
            return tuple(a + n for a, n in zip(self.prior, counts, strict=True))
        total, V = sum(counts), len(self.levels)
        shares = [max(n / total, 1e-10) if total > 0 else 1 / V for n in counts]
        return tuple(p / sum(shares) for p in shares)

    def log(self, x, parameters):
        own = parameters[self.levels.index(x)]
        if self.prior is None:
            return math.log(own)
        return special.digamma(own) - special.digamma(sum(parameters))

    def divergence(self, parameters):
        return 0.0 if self.prior is None else dirichlet_divergence(parameters, self.prior)

    def predict(self, x, parameters):
        if self.prior is None:
            return math.exp(self.log(x, parameters))
        own = parameters[self.levels.index(x)]
        return expect_beta(lambda p, _: p, own, sum(parameters) - own)

    def log_predict(self, x, parameters):
        if self.prior is None:
            return self.log(x, parameters)
        return math.log(parameters[self.levels.index(x)] / sum(parameters))


def column_laws(X, weights, likelihood, prior):
    """The law of every column with its default prior.

    ``prior`` is None or a mapping with ``entries`` (``counts``, if discrete), ``spread`` and
    ``shape``: how many rows the
    column's average weighs, the guess of a state's variance as a share of the column's, and how
    many rows more that guess weighs.
    """
    levels = tuple(sorted({float(x) for x in X.ravel() if not math.isnan(x)}))
    laws = []
    for d in range(X.shape[1]):
        seen = [(X[c, d], weights[c]) for c in range(len(X)) if not math.isnan(X[c, d])]
        n = sum(w for _, w in seen)
        mean = sum(w * x for x, w in seen) / n if n > 0 else 0.0
        variance = sum(w * (x - mean) ** 2 for x, w in seen) / n if n > 0 else 1.0
        strength = prior and prior["entries" if likelihood == "gaussian" else "counts"]
        smooth = (n * mean + 0.5) / (n + 1)  # half an entry of each kind
        if likelihood == "gaussian":
            alpha0 = prior and (strength + prior["shape"]) / 2
            beta0 = prior and alpha0 * prior["spread"] * variance
            known = prior and (mean, strength, alpha0, beta0)
            laws.append(Gaussian(known, mean, variance))
        elif likelihood == "bernoulli":
            laws.append(Bernoulli(prior and (strength * smooth, strength * (1 - smooth))))
        elif likelihood == "poisson":
            laws.append(Poisson(prior and (strength * smooth, strength)))
        else:
            V = len(levels)
            counts = [sum(w for x, w in seen if x == level) for level in levels]
            alpha0 = prior and tuple(strength * V * (k + 1 / V) / (n + 1) for k in counts)
            laws.append(Categorical(alpha0, levels))
    return laws


# --- the model ---


@dataclass(frozen=True)
class Problem:
    """Data, sizes and priors. ``alpha_b`` and ``alpha_a`` 0 are maximum likelihood."""

    X: np.ndarray
    weights: np.ndarray
    n_states: tuple
    laws: list
    gating: str  # "standard", "tied" or "factorised"
    alpha_b: float = 0.0
    alpha_a: float = 0.0
    gamma: float = 0.0  # strength of the entropic prior
    beta: float = 1.0  # inverse temperature of the tied gates

    def seen(self, c, d):
        return not math.isnan(self.X[c, d])

    def observed_weight(self, d):
        return sum(self.weights[c] for c in range(len(self.X)) if self.seen(c, d))

    @property
    def rows(self):
        return range(self.X.shape[0])

    @property
    def columns(self):
        return range(self.X.shape[1])

    @property
    def parts(self):
        return range(len(self.n_states))

    def states(self, k):
        return range(self.n_states[k])


@dataclass(frozen=True)
class Fit:
    """Arguments of the bound. ``g`` is [d][k], or [c][d][k] if factorised."""

    m: list  # [c][k][j]
    g: list
    parameters: list  # [d][k][j]
    gate_counts: list  # [d][k]
    state_counts: list  # [k][j]


def log_gates(p, f, d):
    counts = f.gate_counts[d]
    if p.gamma > 0:
        shares = entropic_shares(tuple(n + p.alpha_a for n in counts), p.gamma)
        return [math.log(max(a, 1e-300)) for a in shares]
    return log_choice(counts, p.alpha_a)


def update_m(p, f):
    """E-step: log m = log b + sum_d o g <log p(x)>."""
    m = []
    for c in p.rows:
        row = []
        for k in p.parts:
            log_b = log_choice(f.state_counts[k], p.alpha_b)
            logits = []
            for j in p.states(k):
                total = log_b[j]
                for d in p.columns:
                    if p.seen(c, d):
                        law = p.laws[d].log(p.X[c, d], f.parameters[d][k][j])
                        total += gate(p, f, c, d, k) * law
                logits.append(total)
            row.append(softmax(logits))
        m.append(row)
    return replace(f, m=m)


def update_parameters(p, f):
    """Posterior of every entry's law, with the weights its gating asks for."""
    out = []
    for d in p.columns:
        rows = [c for c in p.rows if p.seen(c, d)]
        values = [p.X[c, d] for c in rows]
        of_column = []
        for k in p.parts:
            of_part = []
            for j in p.states(k):
                weights = [p.weights[c] * f.m[c][k][j] for c in rows]
                if p.gating != "tied":
                    pairs = zip(rows, weights, strict=True)
                    weights = [gate(p, f, c, d, k) * w for c, w in pairs]
                of_part.append(p.laws[d].learn(values, weights))
            of_column.append(of_part)
        out.append(of_column)
    return replace(f, parameters=out)


def expected_log(p, f, c, d, k):
    """sum_j m <log p(x_cd)>."""
    terms = (f.m[c][k][j] * p.laws[d].log(p.X[c, d], f.parameters[d][k][j]) for j in p.states(k))
    return sum(terms)


def gain(p, f, d, k):
    """Minus E_dk."""
    return sum(p.weights[c] * expected_log(p, f, c, d, k) for c in p.rows if p.seen(c, d))


def divergence(p, f, d, k):
    return sum(p.laws[d].divergence(f.parameters[d][k][j]) for j in p.states(k))


def update_g(p, f):
    """The line in which the gatings differ; a column never observed keeps its gates."""
    if p.gating == "factorised":
        return replace(f, g=selections(p, f, log_gates, expected_log))
    g = []
    for d in p.columns:
        C_d = p.observed_weight(d)
        if C_d == 0:
            g.append(f.g[d])
            continue
        log_a = log_gates(p, f, d)
        logits = []
        for k in p.parts:
            if p.gating == "standard":
                logits.append(log_a[k] + gain(p, f, d, k) / C_d)
            else:
                logits.append(log_a[k] + p.beta * (gain(p, f, d, k) - divergence(p, f, d, k)))
        g.append(softmax(logits))
    return replace(f, g=g)


def update_b(p, f):
    counts = [
        [sum(p.weights[c] * f.m[c][k][j] for c in p.rows) for j in p.states(k)] for k in p.parts
    ]
    return replace(f, state_counts=counts)


def bound(p, f):
    """Lower bound of the log evidence, or log-likelihood, from its definition."""
    total = 0.0
    for c in p.rows:
        for k in p.parts:
            log_b = log_choice(f.state_counts[k], p.alpha_b)
            total -= p.weights[c] * relative(f.m[c][k], log_b)
    for c in p.rows:
        for d in p.columns:
            if p.seen(c, d):
                for k in p.parts:
                    total += p.weights[c] * gate(p, f, c, d, k) * expected_log(p, f, c, d, k)
    for d in p.columns:
        log_a = log_gates(p, f, d)
        if p.gating == "tied":
            total -= relative(f.g[d], log_a) / p.beta
            total -= sum(f.g[d][k] * divergence(p, f, d, k) for k in p.parts)
        else:
            total -= sum(divergence(p, f, d, k) for k in p.parts)
        if p.gating == "standard":
            total -= p.observed_weight(d) * relative(f.g[d], log_a)
        if p.gating == "factorised":
            for c in p.rows:
                if p.seen(c, d):
                    total -= p.weights[c] * relative(f.g[c][d], log_a)
        if p.gamma > 0:
            a = [math.exp(v) for v in log_a]
            total += p.gamma * sum(x * v for x, v in zip(a, log_a, strict=True))
            total += p.alpha_a * sum(log_a)
        elif p.alpha_a > 0:
            posterior = [n + p.alpha_a for n in f.gate_counts[d]]
            total -= dirichlet_divergence(posterior, [p.alpha_a] * len(posterior))
    if p.alpha_b > 0:
        for k in p.parts:
            posterior = [n + p.alpha_b for n in f.state_counts[k]]
            total -= dirichlet_divergence(posterior, [p.alpha_b] * len(posterior))
    return total


def entropic_objective(shares, counts, strength):
    """sum_k counts log a + strength a log a."""
    return float(np.sum(special.xlogy(counts, shares) + strength * special.xlogy(shares, shares)))


@functools.cache
def entropic_shares(counts, strength):
    """Best point of the simplex: the objective climbed numerically from several starts."""
    counts = np.asarray(counts, dtype=float)
    K = len(counts)
    if K == 1:
        return np.ones(1)
    starts = [np.full(K, 1 / K), (counts + 1e-3) / (counts + 1e-3).sum()]
    starts += [np.where(np.arange(K) == k, 0.9, 0.1 / (K - 1)) for k in range(K)]

    def at(logits):
        return special.softmax(np.append(logits, 0.0))

    def slope(logits):
        a = at(logits)
        # d/d logits of the objective, chained through the softmax
        grad = counts + strength * a * (1 + np.log(a))
        return -(grad - a * grad.sum())[:-1]

    best, best_value = None, -np.inf
    for start in starts:
        logits = np.log(start)
        found = optimize.minimize(
            lambda v: -entropic_objective(at(v), counts, strength),
            logits[:-1] - logits[-1],
            jac=slope,
            method="BFGS",
            options={"gtol": 1e-12, "maxiter": 500},
        )
        # BFGS stops where the values no longer differ; the slope's root is sharper.
        polished = optimize.root(slope, found.x, method="hybr", options={"xtol": 1e-14})
        for logits in (found.x, polished.x):
            value = entropic_objective(at(logits), counts, strength)
            if value > best_value:
                best, best_value = at(logits), value
    return best


# --- likelihood of a row ---


def log_sum(logs):
    """log sum exp of a few numbers, for which the function of scipy takes 80 times as long."""
    most = max(logs)
    return most + math.log(math.fsum(math.exp(one - most) for one in logs))


def row_log_likelihood(log_density, gates, shares):
    """log sum over all states of prod_k b prod_d sum_k a p(x_d | state of part k).

    ``log_density[d][k][j]`` are those of the row's observed columns, ``gates[d][k]`` theirs, and
    ``shares[k][j]`` the probabilities of states. Nothing under- or overflows: all in logarithms.
    """
    sizes = [range(len(b)) for b in shares]
    terms = []
    for states in itertools.product(*sizes):
        total = sum(math.log(shares[k][j]) for k, j in enumerate(states))
        for of_column, a in zip(log_density, gates, strict=True):
            choices = [math.log(a[k]) + of_column[k][j] for k, j in enumerate(states) if a[k] > 0]
            total += log_sum(choices)
        terms.append(total)
    return log_sum(terms)
