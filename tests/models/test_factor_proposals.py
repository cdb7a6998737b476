"""Modes of a row's factors whose columns have no one part, and their curvature."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import optimize, special

from partwise.contracts import EntryList
from partwise.models import factor_proposals
from partwise.models.factor_proposals import OpenColumns, propose

START = np.array([0, 2, 3])  # parts of two factors and of one


def case(rng, n=3, D=9):
    """Some rows, and columns that two parts share."""
    slope = rng.normal(size=(2, D, 2))
    slope[1, :, 1] = 0.0  # padding
    offset, precision = 0.3 * rng.normal(size=(2, D)), rng.uniform(1, 4, (2, D))
    gates = rng.dirichlet([2, 2], D).T
    columns = OpenColumns(slope, offset, precision, np.log(gates) + 0.5 * np.log(precision))
    entries = EntryList(np.arange(n + 1) * D, np.tile(np.arange(D), n), rng.normal(size=n * D))
    half = rng.normal(size=(n, 2, 2, 3))
    prior = half @ half.transpose(0, 1, 3, 2) + np.eye(2)
    prior[:, 1] = prior[:, 1, 0, 0][:, None, None] * np.eye(2)
    return entries, columns, prior, rng.normal(size=(n, 2, 2))


def log_density(s, entries, columns, prior, pull, r):
    """What is maximized, written out."""
    parts = [s[:2], np.array([s[2], 0.0])]
    total = sum(pull[r, k] @ own - 0.5 * own @ prior[r, k] @ own for k, own in enumerate(parts))
    for e in range(entries.indptr[r], entries.indptr[r + 1]):
        d = entries.columns[e]
        away = [
            entries.values[e] - columns.offset[k, d] - columns.slope[k, d] @ parts[k]
            for k in range(2)
        ]
        terms = columns.constant[:, d] - 0.5 * columns.precision[:, d] * np.square(away)
        total += special.logsumexp(terms)
    return total


def test_modes_and_curvature_are_those_of_the_density(monkeypatch):
    monkeypatch.setattr(factor_proposals, "LEAST_PRECISION", 0.0)
    entries, columns, prior, pull = case(np.random.default_rng(0))
    s, curvature = np.zeros((3, 3)), np.zeros((3, 3, 3))
    factor_proposals._climb(*entries, *columns, START, prior, pull, s, curvature)
    for r in range(3):
        of = (entries, columns, prior, pull, r)
        assert_allclose(optimize.approx_fprime(s[r], log_density, 1e-6, *of), 0.0, atol=0.03)
        steps = 1e-4 * np.eye(3)
        numeric = [
            [
                sum(
                    sign * -log_density(s[r] + a * i + b * j, *of)
                    for sign, a, b in ((1, 1, 1), (-1, 1, -1), (-1, -1, 1), (1, -1, -1))
                )
                / 4e-8
                for j in steps
            ]
            for i in steps
        ]
        assert_allclose(curvature[r], numeric, atol=1e-4)


def test_samples_have_the_density_that_they_say():
    """The mean of 1 / q over samples of q, within a box, is the box's volume."""
    entries, columns, prior, pull = case(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    draws, log_q = propose(entries, columns, START, prior, pull, np.zeros((3, 3)), 200_000, rng)
    middle = np.median(draws, axis=1)
    inside = np.all(np.abs(draws - middle[:, None]) < 0.3, axis=2)
    assert_allclose(np.mean(inside * np.exp(-log_q), axis=1), 0.6**3, rtol=0.05)
