"""Generative vector quantisation by full enumeration: slow and obvious."""

import numpy as np


def codes(n_features, n_values=2):
    """Every code, (n_values^n_features, n_features)."""
    return np.indices((n_values,) * n_features).reshape(n_features, -1).T


def decode(values, features, origin=0.0):
    """Rows that codes stand for; features are (K, J - 1, D)."""
    K, _, D = features.shape
    with_off = np.concatenate([np.zeros((K, 1, D)), features], axis=1)
    return origin + sum(with_off[k, values[:, k]] for k in range(K))


def errors(x, features, origin=0.0, penalty=0.0):
    """Squared error of every code of one row over its observed entries, and the penalty."""
    K, Q, _ = features.shape
    every = codes(K, Q + 1)
    away = decode(every, features, origin) - x
    return np.nansum(away**2, axis=1) + penalty * (every > 0).sum(axis=1)


def best_error(x, sets, penalty=0.0):
    """Least error of a row over sets, pairs of features and an origin."""
    return min(errors(x, features, origin, penalty).min() for features, origin in sets)
