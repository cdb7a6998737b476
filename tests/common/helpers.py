"""Checks and small problems that several tests use."""

import numpy as np


def assert_never_falls(trace, rtol=1e-9):
    """The bound may stand still, up to rounding, but not fall."""
    trace = np.asarray(trace, dtype=float)
    assert len(trace) > 1, "a trace of one value shows nothing"
    worst = np.diff(trace).min()
    assert worst >= -rtol * np.abs(trace).max(), f"bound fell by {-worst:.3g}"


def random_entries(likelihood, shape, rng):
    """Entries that the likelihood could have made, in units that differ between columns."""
    n, D = shape
    if likelihood == "gaussian":
        scale = 10.0 ** rng.uniform(-2, 2, D)
        return rng.normal(size=shape) * scale + 5 * scale * rng.normal(size=D)
    if likelihood == "bernoulli":
        return (rng.random(shape) < rng.uniform(0.2, 0.8, D)).astype(float)
    if likelihood == "poisson":
        return rng.poisson(rng.uniform(0.5, 6, D), shape).astype(float)
    return rng.choice([-1.0, 0.0, 2.0, 5.0], size=shape)


def punch_holes(X, share, rng):
    """A copy with about this share of the entries missing, none of the columns wholly."""
    X = X.copy()
    holes = rng.random(X.shape) < share
    holes[rng.integers(len(X), size=X.shape[1]), np.arange(X.shape[1])] = False
    X[holes] = np.nan
    return X
