"""The aspect model by plain loops over ratings, columns and aspects."""

import numpy as np
from scipy import optimize


def law(eta, nodes):
    """Probabilities of the levels of a Gaussian truncated to them."""
    density = np.exp(eta[0] * nodes + eta[1] * nodes**2)
    return density / density.sum()


def posterior(pi, laws, beta):
    """Aspect behind one rating: laws (Z,) are the probabilities of its level."""
    q = (pi * laws) ** beta
    return q / q.sum()


def bound(X, pi, eta, nodes, moments, strength, mixing, beta, weight):
    """Tempered log-likelihood of codes X (NaN missing), and pseudo-ratings."""
    total = 0.0
    for c, row in enumerate(X):
        for d in np.flatnonzero(~np.isnan(row)):
            p = np.array([law(eta[:, d, z], nodes)[int(row[d])] for z in range(pi.shape[1])])
            total += weight[c] * np.log(np.sum((pi[c] * p) ** beta)) / beta
        if mixing:
            total += weight[c] * mixing * np.log(pi[c]).sum()
    for d in range(eta.shape[1]):
        for z in range(eta.shape[2]):
            p = law(eta[:, d, z], nodes)
            log_z = eta[0, d, z] * nodes[0] + eta[1, d, z] * nodes[0] ** 2 - np.log(p[0])
            total += strength * (eta[:, d, z] @ moments[:, d] - log_z)
    return total


def step(X, pi, eta, nodes, moments, strength, mixing, beta, weight, curvature):
    """New shares and natural parameters after one E-step; a general optimiser for the M-step."""
    C, D = X.shape
    Z = pi.shape[1]
    counts = np.full((C, Z), float(mixing))
    sums = np.zeros((3, D, Z))
    for c in range(C):
        for d in np.flatnonzero(~np.isnan(X[c])):
            t = nodes[int(X[c, d])]
            p = np.array([law(eta[:, d, z], nodes)[int(X[c, d])] for z in range(Z)])
            q = posterior(pi[c], p, beta)
            counts[c] += q
            sums[:, d] += weight[c] * q * np.array([1.0, t, t * t])[:, None]
    new = np.empty_like(eta)
    for d in range(D):
        for z in range(Z):
            target = sums[1:, d, z] + strength * moments[:, d]
            n = sums[0, d, z] + strength

            def cost(e, target=target, n=n):
                log_z = np.log(np.exp(e[0] * nodes + e[1] * nodes**2).sum())
                p = law(e, nodes)
                gradient = n * np.array([p @ nodes, p @ nodes**2]) - target
                return n * log_z - e @ target, gradient

            found = optimize.minimize(
                cost, eta[:, d, z], jac=True, method="L-BFGS-B", bounds=[(None, None), curvature],
                options={"ftol": 1e-15, "gtol": 1e-10},
            )  # fmt: skip
            new[:, d, z] = found.x
    return counts / counts.sum(axis=1, keepdims=True), new
