"""Rows near a curve and near a sphere (Bishop and Winn, Figure 4), also in a larger space."""

import numpy as np


def near_curve(n, rng, noise=0.1):
    t = rng.uniform(-np.pi, np.pi, n)
    return np.stack([t, 2 * np.sin(t)], axis=1) + noise * rng.normal(size=(n, 2))


def near_sphere(n, rng, noise=0.1):
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True) + noise * rng.normal(size=(n, 3))


def embedded(X, rng, noise=0.1, n_columns=20):
    """The same rows, turned at random in a larger space with noise."""
    turn = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]
    return X @ turn[: X.shape[1]] + noise * rng.normal(size=(len(X), n_columns))


def gaussian(rng, n=300):
    """Figure 1: three of ten directions have deviation 1, the others 0.5."""
    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    return (rng.normal(size=(n, 10)) * np.repeat([1.0, 0.5], [3, 7])) @ turn
