"""Rows under unknown transformations, by going through transformations and states one by one."""

import itertools
import math

import numpy as np


def log_sum(terms):
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def statistics(x, n_statistics):
    return [x**p for p in range(n_statistics)]


def row(x, natural, gates, log_b, first, log_rho, maps):
    """Log normalizer, and the posterior of (t, states of all parts) as a dict.

    ``natural`` is (P, S, D) of the canvas, ``gates`` (K, D), ``log_b`` (S,), ``maps`` (T, D of x).
    """
    P, parts = len(natural), range(len(gates))
    joint = {}
    for t, place in enumerate(maps):
        for states in itertools.product(*(range(first[k], first[k + 1]) for k in parts)):
            total = log_rho[t] + sum(log_b[s] for s in states)
            for value, d in zip(x, place, strict=True):
                if math.isnan(value):
                    continue
                T = statistics(value, P)
                for k, s in enumerate(states):
                    total += gates[k, d] * sum(natural[p, s, d] * T[p] for p in range(P))
            joint[t, states] = total
    log_z = log_sum(list(joint.values()))
    return log_z, {key: math.exp(value - log_z) for key, value in joint.items()}


def sums(X, weight, natural, gates, log_b, first, log_rho, maps):
    """Bound of the rows, counts of states (S,), of transformations (T,), and sums (P, S, D)."""
    P, S, D = natural.shape
    bound, states, moves, total = 0.0, np.zeros(S), np.zeros(len(maps)), np.zeros((P, S, D))
    for x, w in zip(X, weight, strict=True):
        log_z, posterior = row(x, natural, gates, log_b, first, log_rho, maps)
        bound += w * log_z
        for (t, chosen), q in posterior.items():
            moves[t] += w * q
            for s in chosen:
                states[s] += w * q
                for value, d in zip(x, maps[t], strict=True):
                    if not math.isnan(value):
                        total[:, s, d] += w * q * np.array(statistics(value, P))
    return bound, states, moves, total


def log_likelihood(x, log_density, state_shares, first, parts, move_shares, maps):
    """Log of the sum over transformations and states of p(x, t, states).

    ``log_density(s, d, value)`` is that of an entry, ``parts`` (D,) the part of each column.
    """
    terms = []
    for t, place in enumerate(maps):
        term = math.log(move_shares[t])
        for k in range(len(first) - 1):
            own = [
                math.log(state_shares[s])
                + sum(
                    log_density(s, d, value)
                    for value, d in zip(x, place, strict=True)
                    if parts[d] == k and not math.isnan(value)
                )
                for s in range(first[k], first[k + 1])
            ]
            term += log_sum(own)
        terms.append(term)
    return log_sum(terms)


def factor_part(x, place, g, mean, outer, tau, log_tau):
    """Log normalizer, posterior mean and covariance of one part's factors of a row.

    ``g`` (D,), ``mean`` (D, J + 1), ``outer`` (D, J + 1, J + 1), ``tau`` and ``log_tau`` (D,) are
    those of the canvas: expected loadings, their products times the precision, and the precision.
    """
    J = mean.shape[1] - 1
    A, b, constant = np.eye(J), np.zeros(J), 0.0
    for value, d in zip(x, place, strict=True):
        if math.isnan(value):
            continue
        constant += 0.5 * g[d] * (log_tau[d] - math.log(2 * math.pi))
        constant -= 0.5 * g[d] * (tau[d] * value**2 - 2 * tau[d] * value * mean[d, J])
        constant -= 0.5 * g[d] * outer[d, J, J]
        A += g[d] * outer[d, :J, :J]
        b += g[d] * (tau[d] * value * mean[d, :J] - outer[d, :J, J])
    cov = np.linalg.inv(A)
    m = cov @ b
    return constant + 0.5 * b @ m - 0.5 * math.log(np.linalg.det(A)), m, cov


def factor_sums(X, weight, gates, parts, log_rho, maps):
    """Bound, counts of transformations, and sums by column of the canvas.

    ``parts`` has (mean, outer, tau, log_tau) of every part. Sums are those of s (one array (D, J)
    a part), s s' (D, J, J), s x (D, J), and 1, x and x^2 (3, D).
    """
    D = gates.shape[1]
    sizes = [mean.shape[1] - 1 for mean, *_ in parts]
    s, sx = [np.zeros((D, J)) for J in sizes], [np.zeros((D, J)) for J in sizes]
    ss, totals = [np.zeros((D, J, J)) for J in sizes], np.zeros((3, D))
    bound, counts = 0.0, np.zeros(len(maps))
    for x, w in zip(X, weight, strict=True):
        found = [
            [factor_part(x, place, g, *part) for g, part in zip(gates, parts, strict=True)]
            for place in maps
        ]
        joint = [r + sum(one[0] for one in own) for r, own in zip(log_rho, found, strict=True)]
        log_z = log_sum(joint)
        bound += w * log_z
        for t, (place, own) in enumerate(zip(maps, found, strict=True)):
            q = w * math.exp(joint[t] - log_z)
            counts[t] += q
            for value, d in zip(x, place, strict=True):
                if math.isnan(value):
                    continue
                totals[:, d] += q * np.array([1.0, value, value**2])
                for k, (_, m, cov) in enumerate(own):
                    s[k][d] += q * m
                    sx[k][d] += q * m * value
                    ss[k][d] += q * (np.outer(m, m) + cov)
    return bound, counts, s, ss, sx, totals
