"""GVQ's two steps against enumeration and least squares, over sets, holes, weights and budgets."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from partwise.association import Exact, exact
from partwise.data import BlockSource, learn_columns
from partwise.models import gvq
from partwise.models.gvq_binary import BinaryGVQ
from tests.common.helpers import punch_holes, sweep
from tests.reference import gvq as reference


def problem(rng, M, K, J, d, n_rows=3, holes=0.0, penalty=0.0, max_rows=None):
    """Model, source and random parameters; columns are not scaled."""
    X = rng.normal(size=(n_rows, d)) * 2
    X = punch_holes(X, holes, rng) if holes and n_rows > 1 else X
    weight = rng.uniform(0.5, 2.0, n_rows)
    (group,) = learn_columns(X, "gaussian", weight, False, None)
    group = replace(group, shift=np.zeros(d), scale=np.ones(d))
    source = BlockSource(X, (group,), weight, max_rows=max_rows, n_powers=2)
    model = gvq.GVQ(M, K, J, penalty, Exact())
    theta = model.start(rng.normal(size=(M, K * (J - 1), d)), rng.normal(size=(M, d)))
    return model, source, theta


def least_errors(model, theta, X):
    shape = (model.n_components, model.n_values - 1, X.shape[1])
    sets = [(f.reshape(shape), o) for f, o in zip(theta.features, theta.origins, strict=True)]
    return np.array([reference.best_error(x, sets, model.penalty) for x in X])


@pytest.mark.parametrize("max_nodes", [1, 20, 10**6])
def test_codes_of_sets_equal_enumeration_and_certificates_hold(max_nodes, monkeypatch):
    monkeypatch.setattr(exact, "MOST_CODES", 1)
    rng = np.random.default_rng(max_nodes)
    unproven = 0
    for _ in range(120):
        K, J = rng.integers(2, 9), 2
        if rng.random() < 0.3:
            K, J = rng.integers(1, 4), 3
        model, source, theta = problem(
            rng, rng.integers(1, 4), K, J, rng.integers(1, 12), 4,
            rng.choice([0.0, 0.3]), rng.choice([0.0, 1.0]),
        )  # fmt: skip
        model = replace(model, association=Exact(max_nodes))
        found = model.codes(model.prepare(theta), source.block(0))
        least = least_errors(model, theta, source.X)
        assert np.all(found.lower <= least + 1e-9)
        assert np.all(found.error >= least - 1e-9)
        assert_allclose(found.error[found.proven], least[found.proven], atol=1e-9)
        unproven += np.sum(~found.proven)
    assert (unproven == 0) == (max_nodes == 10**6)


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_m_step_is_least_squares(holes):
    rng = np.random.default_rng(0)
    model, source, theta = problem(rng, 2, 3, 3, 5, 80, holes, max_rows=17)
    codes, stats = sweep(model, model.prepare(theta), source)
    new = model.maximize(model.prepare(theta), stats).params
    values = np.concatenate([found.values for found in codes])
    sets = np.concatenate([found.sets for found in codes])
    S = model.design(values).T
    for m in range(2):
        own = sets == m
        root = np.sqrt(source.weight[own])[:, None]
        for d in range(5):
            seen = ~np.isnan(source.X[own, d])
            answer = np.linalg.lstsq(
                (root * S[own])[seen], (root[:, 0] * source.X[own, d])[seen], rcond=1e-9
            )[0]
            assert_allclose(new.features[m, :, d], answer[:-1], atol=1e-8)
            assert_allclose(new.origins[m, d], answer[-1], atol=1e-8)
    whole = BlockSource(source.X, source.columns, source.weight, n_powers=2)
    again = model.maximize(
        model.prepare(theta), sweep(model, model.prepare(theta), whole)[1]
    ).params
    assert_allclose(again.features, new.features, atol=1e-12)


def test_an_empty_set_stays_where_it_is():
    model, source, theta = problem(np.random.default_rng(0), 2, 2, 2, 3, 20)
    theta = replace(theta, origins=theta.origins + np.array([[0.0], [1e6]]))
    prepared = model.prepare(theta)
    new = model.maximize(prepared, sweep(model, prepared, source)[1]).params
    assert_array_equal(new.origins[1], theta.origins[1])


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_binary_steps(holes):
    rng = np.random.default_rng(0)
    X = (rng.random((50, 6)) < 0.4).astype(float)
    X = punch_holes(X, holes, rng)
    weight = rng.uniform(0.5, 2.0, 50)
    columns = learn_columns(X, "bernoulli", weight, False, None)
    source = BlockSource(X, columns, weight, max_rows=13, n_powers=2)
    model = BinaryGVQ(2, 3, 2, 0.1, Exact(), 4.5)
    theta = model.start(rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 6)))
    codes, stats = sweep(model, model.prepare(theta), source)
    error = np.concatenate([found.error for found in codes])

    def errors(theta):
        every = reference.codes(3)
        out = []
        for m in range(2):
            F, o = model.squashed(theta, m)
            y = 1 / (1 + np.exp(-4.5 * (every @ F + o - 0.5)))
            away = np.nansum((X[:, None] - y) ** 2, axis=2) + 0.1 * every.sum(axis=1)
            out.append(away)
        return np.concatenate(out, axis=1)  # (n, 2 * 8)

    assert_allclose(error, errors(theta).min(axis=1))
    best = errors(theta).argmin(axis=1)
    new = model.maximize(model.prepare(theta), stats).params
    row = np.arange(50)
    assert weight @ errors(new)[row, best] < weight @ errors(theta)[row, best]


def test_coordinate_descent_ends_where_no_bit_helps():
    rng = np.random.default_rng(0)
    X = (rng.random((20, 15)) < 0.5).astype(float)
    weight = np.ones(20)
    source = BlockSource(X, learn_columns(X, "bernoulli", weight, False, None), weight, n_powers=2)
    model = BinaryGVQ(1, 18, 2, 0.05, Exact(), 4.5)
    theta = model.start(rng.normal(-3, 2, size=(1, 18, 15)), np.full((1, 15), -2.0))
    found = model.codes(model.prepare(theta), source.block(0))
    F, o = model.squashed(theta, 0)

    def error(values):
        y = 1 / (1 + np.exp(-4.5 * (values @ F + o - 0.5)))
        return ((X - y) ** 2).sum(axis=1) + 0.05 * values.sum(axis=1)

    assert_allclose(found.error, error(found.values))
    for k in range(18):
        other = found.values.copy()
        other[:, k] = 1 - other[:, k]
        assert np.all(error(other) >= found.error - 1e-9)
    some = rng.integers(2, size=(20, 18))
    assert np.all(found.lower <= error(some))
