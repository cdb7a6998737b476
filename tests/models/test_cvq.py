"""CVQ's two steps against loops over rows and columns, its bound, and the likelihood of a row."""

import itertools
from dataclasses import astuple, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from partwise.data import BlockSource, learn_columns
from partwise.likelihoods import Dirichlet, Prior
from partwise.models import cvq
from tests.common.helpers import (
    assert_never_falls,
    climb_from,
    punch_holes,
    random_entries,
    random_posteriors,
    sweep,
)

C, D, K, J = 40, 5, 3, 2
STRONG = {"ridge": 0.3, "noise_rows": 1.5, "noise_guess": 0.2, "state_prior": Dirichlet(0.7)}
FLAT = {"ridge": 1e-8, "noise_rows": 0.0, "noise_guess": 0.0, "state_prior": Dirichlet(0.0)}


def problem(holes=0.3, prior=STRONG, seed=0, sizes=(K, J), n_rows=C, max_rows=None):
    """Model, source, first parameters and posteriors."""
    rng = np.random.default_rng(seed)
    X = random_entries("gaussian", (n_rows, D), rng)
    X = punch_holes(X, holes, rng) if holes else X
    weight = rng.uniform(0.3, 2.0, n_rows)
    columns = learn_columns(X, "gaussian", weight, False, Prior())
    source = BlockSource(X, columns, weight, max_rows=max_rows)
    model = cvq.CVQ(*sizes, **prior)
    S = sizes[0] * sizes[1]
    counts = rng.uniform(1, 10, S)
    theta = model.start(rng.normal(size=(S, D)), rng.uniform(0.2, 1.0, D), counts)
    return model, source, theta, random_posteriors([sizes[1]] * sizes[0], n_rows, rng)


def rows_of(source):
    """Rows in model units, NaN missing."""
    return source.columns[0].encode(source.X, np.arange(source.X.shape[1]))


def slow_row(model, theta, x, m, n_rounds):
    """Mean field of one row, state by state; m and its bound, without the units of the columns."""
    K, J = model.n_parts, model.n_states
    mu, psi, m = theta.mu.reshape(K, J, -1), theta.psi, m.reshape(K, J).copy()
    log_b = theta.log_b.reshape(K, J)
    seen = np.flatnonzero(~np.isnan(x))
    for _ in range(n_rounds):
        for k in range(K):
            logits = np.empty(J)
            for j in range(J):
                logits[j] = log_b[k, j]
                for d in seen:
                    others = sum(m[i] @ mu[i, :, d] for i in range(K) if i != k)
                    logits[j] += mu[k, j, d] * (x[d] - others) / psi[d]
                    logits[j] -= 0.5 * mu[k, j, d] ** 2 / psi[d]
            p = np.exp(logits - logits.max())
            m[k] = p / p.sum()
    bound = sum(m[k, j] * (log_b[k, j] - np.log(m[k, j])) for k in range(K) for j in range(J))
    for states in itertools.product(range(J), repeat=K):  # the expected log density, by all states
        q = np.prod([m[k, j] for k, j in enumerate(states)])
        mean = sum(mu[k, j] for k, j in enumerate(states))
        bound += q * stats.norm.logpdf(x[seen], mean[seen], np.sqrt(psi[seen])).sum()
    return m.ravel(), bound


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_e_step_is_mean_field_part_after_part(holes):
    model, source, theta, m = problem(holes)
    (found,), sums = sweep(model, theta, source, [m])
    Z, total = rows_of(source), 0.0
    for c in range(C):
        expected, bound = slow_row(model, theta, Z[c], m[:, c], cvq.ROUNDS)
        assert_allclose(found[:, c], expected, rtol=1e-8, atol=1e-12)
        seen = ~np.isnan(Z[c])
        total += source.weight[c] * (bound - source.columns[0].log_scale[seen].sum())
    assert_allclose(sums.bound, total, rtol=1e-10)


@pytest.mark.parametrize("prior", [STRONG, FLAT], ids=["prior", "flat"])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_m_step_is_least_squares_with_pseudo_rows(holes, prior):
    model, source, theta, m = problem(holes, prior)
    found = model.maximize(model.begin(theta), model.collect(source.block(0), m)).params
    Z, S = rows_of(source), K * J
    for d in range(D):
        A, b, squares, rows = np.zeros((S, S)), np.zeros(S), 0.0, 0.0
        for c in np.flatnonzero(~np.isnan(Z[:, d])):
            both = np.outer(m[:, c], m[:, c])
            for k in range(K):
                own = slice(k * J, (k + 1) * J)
                both[own, own] = np.diag(m[own, c])
            A += source.weight[c] * both
            b += source.weight[c] * m[:, c] * Z[c, d]
            squares += source.weight[c] * Z[c, d] ** 2
            rows += source.weight[c]
        A += model.ridge * np.eye(S)
        mu = np.linalg.lstsq(A, b, rcond=1e-9)[0]
        assert_allclose(found.mu[:, d], mu, rtol=1e-5, atol=1e-7)
        left = squares - 2 * mu @ b + mu @ A @ mu + model.noise_rows * model.noise_guess
        assert_allclose(found.psi[d], left / (rows + model.noise_rows + model.ridge * S), rtol=1e-6)
    counts = m @ source.weight
    assert_allclose(found.counts, counts)
    log_b = [model.state_prior.expected_log(counts[k * J : (k + 1) * J]) for k in range(K)]
    assert_allclose(found.log_b, np.concatenate(log_b))


def test_parts_share_one_average_of_their_states():
    model, source, theta, m = problem(prior=FLAT)
    found = model.maximize(model.begin(theta), model.collect(source.block(0), m)).params
    averages = found.mu.reshape(K, J, D).mean(axis=1)
    assert_allclose(averages, np.broadcast_to(averages[0], averages.shape), atol=1e-6)


@pytest.mark.parametrize("prior", [STRONG, FLAT], ids=["prior", "flat"])
@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_never_falls(holes, prior, seed):
    model, source, theta, _ = problem(holes, prior, seed, sizes=(3, 4), n_rows=60)
    _, trace = climb_from(model, theta, source, 40)
    assert len(trace) == 41
    assert_never_falls(trace)


def test_beginning_anew_never_lowers_the_bound():
    model, source, theta, m = problem(0.2, sizes=(3, 4))
    _, plain = sweep(model, theta, source, [m])
    anew = model.thorough(model.begin(theta))
    _, better = sweep(model, anew, source, [m])
    assert better.bound >= plain.bound
    assert model.thorough(model.maximize(anew, better)) is None


@pytest.mark.parametrize("holes", ["none", "everywhere", "in one block"])
def test_blocks_change_nothing(holes):
    share = 0.3 if holes == "everywhere" else 0.0
    model, whole, theta, m = problem(share, n_rows=90)
    if holes == "in one block":
        whole.X[:5, 1] = np.nan
    cut = BlockSource(whole.X, whole.columns, whole.weight, max_rows=17)
    _, one = sweep(model, theta, whole, [m])
    _, many = sweep(model, theta, cut, [m[:, lo:hi] for lo, hi in cut.bounds])
    assert cut.n_blocks > 3
    assert_allclose(many.bound, one.bound, rtol=1e-12)
    learned = [model.maximize(model.begin(theta), sums).params for sums in (one, many)]
    for a, b in zip(*map(astuple, learned), strict=True):
        assert_allclose(b, a, rtol=1e-7, atol=1e-10)


def test_a_full_mask_is_no_mask():
    """An extra row with a hole and no weight sends all others the way of rows with holes."""
    model, source, theta, m = problem(0.0)
    X = np.vstack([source.X, np.where(np.arange(D) < 2, np.nan, 0.0)])
    masked = BlockSource(X, source.columns, np.append(source.weight, 0.0))
    (one,), plain = sweep(model, theta, source, [m])
    (other,), holed = sweep(model, theta, masked, [np.hstack([m, m[:, :1]])])
    assert_allclose(other[:, :-1], one, rtol=1e-9, atol=1e-13)
    assert_allclose(holed.bound, plain.bound, rtol=1e-12)
    learned = [model.maximize(model.begin(theta), sums).params for sums in (plain, holed)]
    for a, b in zip(*map(astuple, learned), strict=True):
        assert_allclose(b, a, rtol=1e-8, atol=1e-10)


def test_one_part_at_maximum_likelihood_is_a_mixture_with_shared_noise():
    n_steps = 15
    model, source, theta, _ = problem(0.0, FLAT, sizes=(1, 3), n_rows=80)
    Z, weight = rows_of(source), source.weight
    mu, psi, b = theta.mu, theta.psi, np.exp(theta.log_b)
    b = b / b.sum()
    theta = replace(theta, log_b=np.log(b))
    found, trace = climb_from(model, theta, source, n_steps)
    expected = []
    for step in range(n_steps + 1):
        logs = np.log(b) + np.stack(
            [stats.norm.logpdf(Z, mu[j], np.sqrt(psi)).sum(axis=1) for j in range(3)], axis=1
        )
        log_px = np.logaddexp.reduce(logs, axis=1)
        units = source.columns[0].log_scale.sum()
        expected.append(weight @ (log_px - units))
        if step == n_steps:
            break
        r = weight[:, None] * np.exp(logs - log_px[:, None])
        b = r.sum(axis=0) / weight.sum()
        mu = (r.T @ Z) / r.sum(axis=0)[:, None]
        psi = sum(r[:, j] @ (Z - mu[j]) ** 2 for j in range(3)) / weight.sum()
    assert_allclose(trace, expected, rtol=1e-7)
    assert_allclose(found.mu, mu, rtol=1e-5, atol=1e-6)
    assert_allclose(found.psi, psi, rtol=1e-6)
    assert_allclose(np.exp(found.log_b), b, rtol=1e-6)


# --- likelihood of a row ---


def by_enumeration(model, theta, source):
    """Log-likelihood of every row from scipy's normal density and all states."""
    Z, prior = rows_of(source), model.shares(theta).reshape(model.n_parts, -1)
    mu = theta.mu.reshape(model.n_parts, model.n_states, -1)
    out = []
    for x in Z:
        seen = ~np.isnan(x)
        terms = []
        for states in itertools.product(range(model.n_states), repeat=model.n_parts):
            mean = sum(mu[k, j] for k, j in enumerate(states))
            density = stats.norm.logpdf(x, mean, np.sqrt(theta.psi))[seen].sum()
            terms.append(density + sum(np.log(prior[k, j]) for k, j in enumerate(states)))
        out.append(np.logaddexp.reduce(terms) - source.columns[0].log_scale[seen].sum())
    return np.array(out)


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_few_combinations_are_enumerated(holes):
    model, source, theta, _ = problem(holes)
    found = model.row_likelihood(model.prepare(theta), source.block(0), np.empty((0, K)))
    assert_allclose(found.log_likelihood, by_enumeration(model, theta, source), rtol=1e-9)
    assert_array_equal(found.standard_error, 0)
    theta = replace(theta, log_b=np.log(model.shares(theta)))
    _, bound = model.infer(model.prepare(theta), source.block(0))
    assert (bound + source.block(0).base <= found.log_likelihood + 1e-9).all()


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_draws_agree_with_enumeration_within_their_error(holes, monkeypatch):
    model, source, theta, _ = problem(holes)
    monkeypatch.setattr(cvq, "MOST_COMBINATIONS", 1)
    uniforms = np.random.default_rng(0).random((20000, K))
    found = model.row_likelihood(model.prepare(theta), source.block(0), uniforms)
    z = (found.log_likelihood - by_enumeration(model, theta, source)) / found.standard_error
    assert np.abs(z).max() < 5
    assert np.sqrt(np.mean(z**2)) < 2
    assert (found.standard_error > 0).all()
    assert (found.effective_draws <= 20000 * (1 + 1e-9)).all()
