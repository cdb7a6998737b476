"""Small MCFA problems, put together as the estimator does, without its start and its loop."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from partwise.data import BlockSource, learn_columns
from partwise.likelihoods import Dirichlet
from partwise.models.class_variable import ClassVariable
from partwise.models.gating import Chooser, Tied
from partwise.models.loadings import Loadings, PointLoadings, Relevant
from partwise.models.mcfa import MCFA


def build_factors(X, weight, n_factors, gating=None, prior=None, absent_zero=False, n_powers=2,
                  n_classes=1, labels=None, gate_entropy=0.0):  # fmt: skip
    """Model and source."""
    columns = learn_columns(X, "gaussian", weight, absent_zero, prior)
    source = BlockSource(X, columns, weight, labels=labels, n_powers=n_powers)
    chooser = Chooser(
        Tied() if gating is None else gating,
        Dirichlet(prior.gates if prior else 0.0),
        gate_entropy,
        columns[0].weight,
    )
    how = Relevant(prior.entries, prior.spread, prior.shape) if prior else PointLoadings()
    strength = prior.states if prior else 0.0
    classes = ClassVariable(n_classes, Dirichlet(strength))
    totals = np.sum([b.groups[0].totals(b.weight) for b in source.blocks()], axis=0)
    return MCFA(tuple(n_factors), how, chooser, classes, strength, totals, X.dtype), source


def random_loadings(core, rng, flat, size=0.7):
    """Loadings of every part with offsets, widths and noise, in model units."""
    D, out = core.n_columns, []
    for J in core.n_factors:
        mean = size * rng.normal(size=(D, J + 1))
        cov = np.zeros((D, J + 1, J + 1))
        shape = np.full(D, 1e300)
        if not flat:
            half = 0.3 * rng.normal(size=(D, J + 1, J + 3))
            cov, shape = half @ half.transpose(0, 2, 1), rng.uniform(2, 9, D)
        log_det = np.linalg.slogdet(cov)[1] if np.any(cov) else np.zeros(D)
        out.append(Loadings(mean, cov, log_det, shape, shape * rng.uniform(0.2, 0.8, D)))
    return tuple(out)


def start_factors(core, loadings, gates, relevance=None):
    """First parameters with these loadings, gates and relevances."""
    theta = core.start([w.mean[:, :-1] for w in loadings], gates)
    theta = replace(theta, loadings=tuple(loadings))
    if relevance is not None:
        theta = replace(theta, relevance=tuple(relevance))
    return theta


def with_classes(core, theta, rng, spread=0.5):
    """The same parameters, with classes of the core's number that differ."""
    N = core.classes.n_classes
    counts = 10.0 * rng.dirichlet(np.full(N, 5.0))
    etas, sigmas = [], []
    for J in core.n_factors:
        half = rng.normal(size=(N, J, J + 2)) / np.sqrt(J + 2)
        etas.append(spread * rng.normal(size=(N, J)))
        sigmas.append(half @ half.transpose(0, 2, 1) + 0.2 * np.eye(J))
    return replace(theta, class_counts=counts, log_beta=core.classes.learn(counts), eta=tuple(etas),
        sigma=tuple(sigmas),
    )  # fmt: skip


def stored(X, keep_zeros=True):
    """Observed entries (those not zero, if zeros are not kept) as a sparse array."""
    kept = ~np.isnan(X) if keep_zeros else X != 0
    rows, columns = np.nonzero(kept)
    return sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)


def drawn_factors(rng, n_rows=150, n_factors=(2, 2), width=6, noise=0.3, missing=0.0, units=True):
    """Rows of the model itself: X, part of each column, factors (a list, one array a part)."""
    K = len(n_factors)
    parts = rng.permutation(np.repeat(np.arange(K), width))
    factors = [rng.normal(size=(n_rows, J)) for J in n_factors]
    X = np.empty((n_rows, len(parts)))
    for d, k in enumerate(parts):
        loading = rng.normal(size=n_factors[k])
        loading *= rng.uniform(0.8, 1.5) / np.linalg.norm(loading)
        X[:, d] = factors[k] @ loading + noise * rng.normal(size=n_rows)
    if units:
        X = X * 10.0 ** rng.uniform(-1, 1, len(parts)) + rng.normal(size=len(parts))
    X[rng.random(X.shape) < missing] = np.nan
    return X, parts, factors
