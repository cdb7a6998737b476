"""Mixtures of Bayesian PCA by loops over rows, columns and components.

Every term of the bound stands as in its definition, so updates and bound check each other. Data are
in model units; q(w~_md) = N(mean[m][d], cov[m][d]) for w~ = (w, mu), q(x_n | m) = N(m, S), q(s_n),
q(tau), q(alpha) and q(pi) as in the paper.
"""

import math

import numpy as np
from scipy import special


def rows_given(X, mean, cov, tau, log_pi):
    """q(x | m) and q(s) of every row: positions [n][m], covariances, r (M, n), log normalizers."""
    M, _, p = mean.shape
    q = p - 1
    positions, covs, r, log_z = [], [], np.empty((M, len(X))), np.empty(len(X))
    for n, t in enumerate(X):
        seen = [d for d in range(len(t)) if not math.isnan(t[d])]
        own_m, own_S, logits = [], [], []
        for m in range(M):
            precision, pull, log_density = np.eye(q), np.zeros(q), log_pi[m]
            for d in seen:
                w, mu, C = mean[m, d, :q], mean[m, d, q], cov[m][d]
                precision = precision + tau * (np.outer(w, w) + C[:q, :q])
                pull = pull + tau * (w * t[d] - w * mu - C[:q, q])
                log_density -= 0.5 * tau * (mu**2 + C[q, q] - 2 * mu * t[d])
            S = np.linalg.inv(precision)
            x = S @ pull
            logits.append(log_density + 0.5 * np.linalg.slogdet(S)[1] + 0.5 * x @ precision @ x)
            own_m.append(x)
            own_S.append(S)
        log_z[n] = special.logsumexp(logits)
        r[:, n] = np.exp(np.array(logits) - log_z[n])
        positions.append(own_m)
        covs.append(own_S)
    return positions, covs, r, log_z


def moment(x, S):
    """<x~ x~'>."""
    full = np.zeros((len(x) + 1, len(x) + 1))
    full[:-1, :-1] = S
    return full + np.outer(np.append(x, 1.0), np.append(x, 1.0))


def column_given(X, weight, positions, covs, r, m, d, tau, precisions):
    """q(w~_md): mean and covariance."""
    A, b = np.diag(precisions), np.zeros(len(precisions))
    for n in range(len(X)):
        if not math.isnan(X[n, d]):
            share = weight[n] * r[m, n]
            A = A + tau * share * moment(positions[n][m], covs[n][m])
            b = b + tau * share * np.append(positions[n][m], 1.0) * X[n, d]
    C = np.linalg.inv(A)
    return C @ b, C


def squared_error(X, weight, positions, covs, r, mean, cov):
    """Number of entries, and their expected squared error."""
    entries, error = 0.0, 0.0
    for n, t in enumerate(X):
        for d in range(len(t)):
            if math.isnan(t[d]):
                continue
            entries += weight[n]
            for m in range(len(mean)):
                second = moment(positions[n][m], covs[n][m])
                x, w = np.append(positions[n][m], 1.0), mean[m, d]
                away = t[d] ** 2 - 2 * t[d] * w @ x
                away += np.sum((np.outer(w, w) + cov[m][d]) * second)
                error += weight[n] * r[m, n] * away
    return entries, error


def gamma_kl(a, b, a0, b0):
    """KL of Gamma(a, b) from Gamma(a0, b0), term by term."""
    log_x, x = special.digamma(a) - math.log(b), a / b
    own = a * math.log(b) - special.gammaln(a) + (a - 1) * log_x - b * x
    prior = a0 * math.log(b0) - special.gammaln(a0) + (a0 - 1) * log_x - b0 * x
    return own - prior


def bound(X, weight, positions, covs, r, mean, cov, tau, alpha, counts, s, u):
    """The whole lower bound; ``s`` the strength of all Gammas and of mu's prior, ``u`` of pi's."""
    M, D, p = mean.shape
    q = p - 1
    mean_tau, log_tau = tau[0] / tau[1], special.digamma(tau[0]) - math.log(tau[1])
    entries, error = squared_error(X, weight, positions, covs, r, mean, cov)
    out = 0.5 * entries * (log_tau - math.log(2 * math.pi)) - 0.5 * mean_tau * error
    post = counts + u
    log_pi = special.digamma(post) - special.digamma(post.sum())
    for n in range(len(X)):
        for m in range(M):
            x, S = positions[n][m], covs[n][m]
            kl = 0.5 * (np.trace(S) + x @ x - q - np.linalg.slogdet(S)[1])
            if r[m, n] > 0:
                out += weight[n] * r[m, n] * (log_pi[m] - math.log(r[m, n]) - kl)
    own = alpha if alpha.ndim == 3 else np.repeat(alpha[:, None], M, axis=1)
    for m in range(M):
        log_alpha = special.digamma(own[0, m]) - np.log(own[1, m])
        A = np.append(own[0, m] / own[1, m], s)
        for d in range(D):
            C, w = cov[m][d], mean[m, d]
            kl = 0.5 * (np.sum(A * (w**2 + np.diag(C))) - p - np.linalg.slogdet(C)[1])
            out -= kl - 0.5 * (log_alpha.sum() + math.log(s))
    out -= gamma_kl(*tau, s, s)
    out -= sum(gamma_kl(a, b, s, s) for a, b in alpha.reshape(2, -1).T)
    log_beta = special.gammaln(post).sum() - special.gammaln(post.sum())
    flat = M * special.gammaln(u) - special.gammaln(M * u)
    return out - ((post - u) @ log_pi - log_beta + flat)
