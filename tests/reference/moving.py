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
