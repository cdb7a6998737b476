"""Checks and small problems that several tests use."""

import warnings
from functools import reduce
from operator import add

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from partwise.contracts import Layout, Stats
from partwise.data import BlockSource, by_column, learn_columns
from partwise.engine import Monitor, climb
from partwise.likelihoods import Dirichlet
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.models.mcvq import MCVQ
from partwise.runners import Serial


def assert_never_falls(trace, rtol=1e-9):
    """The bound may stand still, up to rounding, but not fall."""
    trace = np.asarray(trace, dtype=float)
    assert len(trace) > 1, "a trace of one value shows nothing"
    worst = np.diff(trace).min()
    assert worst >= -rtol * np.abs(trace).max(), f"bound fell by {-worst:.3g}"


def random_entries(likelihood, shape, rng):
    """Entries that the likelihood could have made, in units that differ between columns."""
    D = shape[1]
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


def build(X, weight, n_states, likelihood="gaussian", gating=None, prior=None, gate_entropy=0.0,
          absent_zero=False, classes=None):  # fmt: skip
    """Model and source, put together as the estimator does, without its start and its loop."""
    columns = learn_columns(X, likelihood, weight, absent_zero, prior)
    core = MCVQ(
        tuple(n_states),
        tuple(group.entry_prior(prior) for group in columns),
        tuple(group.index for group in columns),
        Chooser(
            Tied() if gating is None else gating,
            Dirichlet(prior.gates if prior else 0.0),
            gate_entropy,
            by_column(columns, [group.weight for group in columns], X.shape[1]),
        ),
        Dirichlet(prior.states if prior else 0.0),
        ClassVariable() if classes is None else classes,
        X.dtype,
    )
    return core, BlockSource(X, columns, weight)


def start_from(core, source, m, gates):
    """First parameters from posteriors m (S, C) of all rows and gates (K, D)."""
    layouts = [Layout(np.full(len(index), -1), core.n_states) for index in core.columns]
    total = None
    for (lo, hi), block in zip(source.bounds, source.blocks(), strict=True):
        wm = m[:, lo:hi] * block.weight
        stats = Stats(0.0, wm.sum(axis=1)[None], block.collect(wm.astype(block.dtype), layouts))
        total = stats if total is None else total + stats
    return core.start(total, gates)


def random_posteriors(n_states, C, rng, sharpness=1.0):
    """m (S, C): a distribution over each part's states for every row."""
    return np.concatenate([rng.dirichlet(np.full(J, 1 / sharpness), C).T for J in n_states])


def random_gates(K, D, rng):
    """Gates (K, D), none of them closed."""
    return rng.dirichlet(np.full(K, 2.0), D).T


def prepared(model, params):
    """Parameters to begin with, prepared unless they are."""
    return params if hasattr(params, "params") else model.begin(params)


def sweep(model, params, source, memory=None):
    """Posteriors and total sums of one pass over the rows, with parameters, prepared or not."""
    ready = prepared(model, params)
    memory = [model.fresh_memory(i) for i in range(source.n_blocks)] if memory is None else memory
    results = [
        model.expect(ready, b, kept) for b, kept in zip(source.blocks(), memory, strict=True)
    ]
    kept = [result[0] for result in results]
    return kept, reduce(add, [result[1] for result in results])


def climb_from(model, params, source, max_iter, tol=-np.inf):
    """Parameters and trace after ``max_iter`` steps (fewer if ``tol`` is given and met)."""
    monitor = Monitor(max_iter, tol, float(source.weight.sum()))
    params = climb(model, params, source, Serial(), monitor)
    return params, np.asarray(monitor.trace)


def quietly(model, *data, **options):
    """Fit a model that need not converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **options)


def assert_goes_on(model, X, n_steps, attribute, rtol):
    """A fit of ``n_steps`` and a warm start of as many are one fit of both."""
    model = clone(model).set_params(tol=0.0)
    whole = quietly(clone(model).set_params(max_iter=2 * n_steps), X)
    parts = quietly(model.set_params(max_iter=n_steps, warm_start=True), X)
    first = parts.lower_bounds_
    quietly(parts, X)
    assert_allclose(np.append(first, parts.lower_bounds_[1:]), whole.lower_bounds_, rtol=1e-9)
    assert_allclose(getattr(parts, attribute), getattr(whole, attribute), rtol=rtol)


def assert_same_outputs(a, b, rtol):
    """Arrays by name: numbers to a relative tolerance of the largest, others exactly."""
    assert a.keys() == b.keys()
    for name in a:
        if a[name].dtype.kind not in "fc":
            assert_array_equal(b[name], a[name], err_msg=name)
            continue
        atol = rtol * np.abs(a[name]).max()
        assert_allclose(b[name], a[name], rtol=rtol, atol=atol, err_msg=name)
