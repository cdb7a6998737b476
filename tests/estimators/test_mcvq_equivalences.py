"""Special cases, invariances and recovery: what MCVQ must not depend on, and what it must find."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import partwise
from partwise import MCVQ
from partwise.answers.rows import source_of
from partwise.data import BlockSource
from partwise.fitted import fitted_of
from partwise.fitting.course import bound_of_samples
from partwise.likelihoods import Prior
from partwise.models import predict
from partwise.models.gating import Standard, Tied
from partwise.models.rowwise import Rowwise
from partwise.models.selection import Expected
from tests.common.helpers import (
    assert_goes_on,
    assert_never_falls,
    build,
    climb_from,
    punch_holes,
    quietly,
    random_entries,
    random_gates,
    random_posteriors,
    start_from,
)

LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "categorical"]
GATINGS = {"tied": Tied(), "standard": Standard(), "factorised": Standard()}


def drawn(likelihood, rng, n_rows=200, n_states=(3, 3), width=6, missing=0.1):
    """Rows of the model itself, with the true part of each column and states of each row."""
    D = width * len(n_states)
    parts = rng.permutation(np.repeat(np.arange(len(n_states)), width))
    states = np.stack([rng.integers(J, size=n_rows) for J in n_states], axis=1)
    X = np.empty((n_rows, D))
    for d in range(D):
        k = parts[d]
        kinds = rng.permutation(4)[: n_states[k]]  # what a state means in this column
        kind = kinds[states[:, k]]
        if likelihood == "gaussian":
            X[:, d] = 10.0 ** rng.uniform(-2, 2) * (kind + 0.15 * rng.normal(size=n_rows))
        elif likelihood == "bernoulli":
            X[:, d] = rng.random(n_rows) < np.array([0.03, 0.97, 0.1, 0.9])[kind]
        elif likelihood == "poisson":
            X[:, d] = rng.poisson(np.array([0.5, 4.0, 12.0, 25.0])[kind])
        else:
            X[:, d] = np.where(rng.random(n_rows) < 0.1, rng.integers(4, size=n_rows), kind)
    return punch_holes(X, missing, rng), parts, states


# --- special cases ---


def test_one_part_at_maximum_likelihood_is_a_gaussian_mixture():
    rng = np.random.default_rng(0)
    J, D, n_steps = 3, 4, 12
    X = rng.normal(size=(90, D)) * [1, 10, 0.1, 3] + [0, 50, -1, 2]
    X[:30] += [3, 20, 0.2, 0]
    m = random_posteriors((J,), 90, rng, 3)

    core, source = build(X, np.ones(90), (J,), "gaussian", Standard(), None)
    theta = start_from(core, source, m, np.ones((1, D)))
    theta, trace = climb_from(core, theta, source, n_steps)
    assert len(trace) == n_steps + 1
    law = core.priors[0].predictive(theta.chi[0])
    (group,) = source.columns
    weights = core.state_prior.mean(theta.state_counts[0])
    found = predict.row_likelihood(
        source.block(0),
        m[None],
        [law],
        core.columns,
        theta.gates,
        np.log(weights)[None],
        core.first,
        1,
    )

    share = m / m.sum(axis=1, keepdims=True)
    means = share @ X
    variances = np.stack([share[j] @ (X - means[j]) ** 2 for j in range(J)])
    mixture = GaussianMixture(
        J, covariance_type="diag", reg_covar=0.0, tol=0.0, max_iter=n_steps, init_params="random",
        weights_init=m.mean(axis=1), means_init=means, precisions_init=1 / variances,
        random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning):
        mixture.fit(X)
    assert_allclose(group.decode(law.mean), mixture.means_, rtol=1e-8, atol=1e-10)
    assert_allclose(law.variance * group.scale**2, mixture.covariances_, rtol=1e-8)
    assert_allclose(weights, mixture.weights_, rtol=1e-8)
    assert_allclose(found.log_likelihood[0], mixture.score_samples(X), rtol=1e-8, atol=1e-8)
    # With one part the bound is the log-likelihood itself.
    assert_allclose(trace[-1], mixture.score_samples(X).sum(), rtol=1e-10)


# --- invariances of the model: the same start, the same steps ---


def run(X, weight, n_states, m, gates, *, likelihood, gating, prior=None, n_steps=8, **options):
    core, source = build(X, weight, n_states, likelihood, GATINGS[gating], prior, **options)
    model = core if gating != "factorised" else Rowwise(core, Expected())
    theta = start_from(core, source, m, gates)
    return climb_from(model, theta, source, n_steps)


def problem(likelihood, seed=0, n_rows=40, D=6, n_states=(3, 2)):
    rng = np.random.default_rng(seed)
    X = punch_holes(random_entries(likelihood, (n_rows, D), rng), 0.2, rng)
    m = random_posteriors(n_states, n_rows, rng)
    return X, m, random_gates(len(n_states), D, rng), rng


def assert_same(a, b, rtol=1e-9):
    (theta, trace), (other, other_trace) = a, b
    assert_allclose(other_trace, trace, rtol=rtol)
    assert_allclose(other.gates, theta.gates, atol=1e-8)
    assert_allclose(other.state_counts, theta.state_counts, rtol=1e-7, atol=1e-7)
    scale = np.abs(theta.chi[0]).max()
    assert_allclose(other.chi[0], theta.chi[0], rtol=1e-7, atol=1e-8 * scale)


@pytest.mark.parametrize("prior", [Prior(), None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_weight_is_a_repetition(likelihood, gating, prior):
    X, m, gates, rng = problem(likelihood)
    times = rng.integers(1, 4, len(X))
    how = {"likelihood": likelihood, "gating": gating, "prior": prior}
    weighted = run(X, times.astype(float), (3, 2), m, gates, **how)
    repeated = run(
        np.repeat(X, times, axis=0), np.ones(times.sum()), (3, 2), np.repeat(m, times, axis=1),
        gates, **how,
    )  # fmt: skip
    assert_same(weighted, repeated)


@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_order_of_rows_and_columns_means_nothing(likelihood, gating):
    X, m, gates, rng = problem(likelihood, seed=1)
    weight = rng.uniform(0.5, 2, len(X))
    how = {"likelihood": likelihood, "gating": gating, "prior": Prior()}
    plain = run(X, weight, (3, 2), m, gates, **how)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    shuffled, trace = run(
        X[rows][:, columns], weight[rows], (3, 2), m[:, rows], gates[:, columns], **how
    )
    back = np.argsort(columns)
    unshuffled = replace(
        shuffled,
        gate=replace(shuffled.gate, g=shuffled.gates[:, back]),
        chi=(shuffled.chi[0][:, :, back],),
    )
    assert_same(plain, (unshuffled, trace))


@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_names_of_parts_and_states_mean_nothing(likelihood, gating):
    X, m, gates, _ = problem(likelihood, seed=2)
    weight = np.ones(len(X))
    how = {"likelihood": likelihood, "gating": gating, "prior": Prior()}
    plain = run(X, weight, (3, 2), m, gates, **how)
    new = np.array([4, 3, 1, 2, 0])  # the second part first, and states in another order
    other, trace = run(X, weight, (2, 3), m[new], gates[::-1], **how)
    back = np.argsort(new)
    renamed = replace(
        other, gate=replace(other.gate, g=other.gates[::-1]), chi=(other.chi[0][:, back],),
        state_counts=other.state_counts[:, back],
    )  # fmt: skip
    assert_same(plain, (renamed, trace))


@pytest.mark.parametrize("prior", [Prior(), None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("gating", GATINGS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_full_mask_is_no_mask(likelihood, gating, prior):
    """A row of holes without weight turns complete rows into masked ones."""
    rng = np.random.default_rng(3)
    X = random_entries(likelihood, (40, 6), rng)
    m, gates = random_posteriors((3, 2), 40, rng), random_gates(2, 6, rng)
    how = {"likelihood": likelihood, "gating": gating, "prior": prior}
    plain = run(X, np.ones(40), (3, 2), m, gates, **how)
    longer = np.vstack([X, np.full(6, np.nan)])
    masked = run(
        longer, np.append(np.ones(40), 0.0), (3, 2), np.column_stack([m, m[:, 0]]), gates, **how
    )
    assert_same(plain, masked)


@pytest.mark.parametrize("gating", GATINGS)
def test_units_of_numbers_mean_nothing(gating):
    """Other units shift the bound by their logarithm, an entry, and change nothing else."""
    X, m, gates, _ = problem("gaussian", seed=4)
    how = {"likelihood": "gaussian", "gating": gating, "prior": Prior()}
    theta, trace = run(X, np.ones(40), (3, 2), m, gates, **how)
    for unit in (1e-25, 3.0, 1e25):
        other, other_trace = run(X * unit, np.ones(40), (3, 2), m, gates, **how)
        lost = np.count_nonzero(~np.isnan(X)) * np.log(unit)
        assert_allclose(other_trace + lost, trace, rtol=1e-9)
        assert_allclose(other.gates, theta.gates, atol=1e-8)


# --- invariances of the estimator: the same seed ---


def outputs(model, X):
    """What a fitted model says, all of it."""
    lower, upper = model.predict_interval(X)
    found = {
        "bounds": model.lower_bounds_,
        "gates": model.gates_,
        "means": model.means_,
        "variances": model.variances_,
        "state_priors": model.state_priors_,
        "transform": model.transform(X),
        "states": model.predict_states(X),
        "reconstruct": model.reconstruct(X),
        "impute": model.impute(X),
        "lower": lower,
        "upper": upper,
        "score": model.score_samples(X),
        "anomaly": model.anomaly_scores(X),
    }
    rows, states = model.sample(7, random_state=3)
    return found | {"rows": rows, "drawn": states}


def assert_same_outputs(a, b, rtol=1e-9):
    for name in a:
        scale = np.nanmax(np.abs(a[name]))
        assert_allclose(b[name], a[name], rtol=rtol, atol=rtol * scale, err_msg=name)


FITS = {
    "gaussian": {"likelihood": "gaussian"},
    "gaussian-standard": {"likelihood": "gaussian", "gating": "standard"},
    "gaussian-factorised": {"likelihood": "gaussian", "gating": "factorised"},
    "bernoulli-tied": {"likelihood": "bernoulli", "gating": "tied"},
    "poisson": {"likelihood": "poisson", "prior": None},
    "categorical": {"likelihood": "categorical"},
}


@pytest.mark.parametrize("name", FITS)
def test_block_size_and_threads_change_nothing(name, monkeypatch):
    X, *_ = drawn(FITS[name]["likelihood"], np.random.default_rng(5), n_rows=260)
    how = {"n_parts": 2, "n_states": 3, "max_iter": 15, "random_state": 0, **FITS[name]}
    whole = quietly(MCVQ(**how, n_jobs=1), X)
    assert BlockSource(X, fitted_of(whole).columns, np.ones(260)).n_blocks == 1
    expected = outputs(whole, X)
    monkeypatch.setattr(partwise.data.source, "BLOCK_BYTES", 1)
    monkeypatch.setattr(partwise.data.source, "BLOCK_ENTRIES", 1)
    assert BlockSource(X, fitted_of(whole).columns, np.ones(260)).n_blocks == 5
    for n_jobs in (1, 2, 3):
        cut = quietly(MCVQ(**how, n_jobs=n_jobs), X)
        assert_same_outputs(expected, outputs(cut, X), rtol=1e-8)


def as_sparse(X, kind, keep_zeros):
    kept = ~np.isnan(X) if keep_zeros else ~np.isnan(X) & (X != 0)
    rows, columns = np.nonzero(kept)
    return kind((X[rows, columns], (rows, columns)), shape=X.shape)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array], ids=["matrix", "array"])
@pytest.mark.parametrize("absent", ["unobserved", "zero"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_dense_as_sparse(likelihood, absent, kind):
    """Holes as entries not stored, or zeros as entries not stored: the same model and answers."""
    missing = 0.15 if absent == "unobserved" else 0.0
    X, *_ = drawn(likelihood, np.random.default_rng(6), n_rows=150, missing=missing)
    if absent == "zero":
        X = np.where(np.median(X, axis=0) > X, 0.0, X)
    other = as_sparse(X, kind, keep_zeros=absent == "unobserved")
    how = {"n_parts": 2, "n_states": 3, "likelihood": likelihood, "max_iter": 10}
    a = quietly(MCVQ(**how, random_state=0), X)
    b = quietly(MCVQ(**how, random_state=0, sparse_absent=absent), other)
    expected, found = outputs(a, X), outputs(b, other)
    assert_same_outputs(expected, found, rtol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_rows_without_weight_are_not_there(likelihood):
    X, *_ = drawn(likelihood, np.random.default_rng(7), n_rows=80)
    extra = np.vstack([X[:40], np.full((3, X.shape[1]), np.nan), X[5:9], X[40:]])
    weight = np.ones(len(extra))
    weight[40:47] = 0.0
    how = {"n_parts": 2, "n_states": 3, "likelihood": likelihood, "random_state": 0}
    a = quietly(MCVQ(**how, max_iter=5), X)
    b = quietly(MCVQ(**how, max_iter=5), extra, sample_weight=weight)
    assert_same_outputs(outputs(a, X), outputs(b, X), rtol=1e-12)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_saved_and_loaded_models_say_the_same(name, dtype, tmp_path):
    X, *_ = drawn(FITS[name]["likelihood"], np.random.default_rng(8), n_rows=70)
    X = X.astype(dtype)
    model = quietly(MCVQ(2, (3, 2), max_iter=4, random_state=0, **FITS[name]), X)
    model.save(tmp_path / "model.safetensors")
    again = partwise.load(tmp_path / "model.safetensors")
    expected, found = outputs(model, X), outputs(again, X)
    for key in expected:
        assert_array_equal(found[key], expected[key], err_msg=key)
        assert found[key].dtype == expected[key].dtype


# --- recovery ---


@pytest.mark.parametrize("gating", ["annealed", "tied", "standard", "factorised"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_data_drawn_from_the_model_recover_its_parts(likelihood, gating):
    X, parts, states = drawn(
        likelihood, np.random.default_rng(9), n_rows=300, n_states=(3, 3, 3), width=8
    )
    model = quietly(
        MCVQ(3, (3, 3, 3), likelihood=likelihood, gating=gating, random_state=0, max_iter=60), X
    )
    assert adjusted_rand_score(parts, model.parts_) == 1.0
    found = model.predict_states(X)
    # The model's part k is the true part of the columns it took.
    for k in range(3):
        true = parts[model.parts_ == k][0]
        assert adjusted_rand_score(states[:, true], found[:, k]) > 0.85
    assert_never_falls(model.lower_bounds_)


# --- going on from a fit ---


@pytest.mark.parametrize("gating", ["annealed", "tied", "standard", "factorised"])
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_a_warm_start_goes_on(likelihood, gating):
    X, *_ = drawn(likelihood, np.random.default_rng(10), n_rows=100)
    model = MCVQ(2, 3, likelihood=likelihood, gating=gating, init="random", random_state=0,
                 max_iter=4, tol=0.0, warm_start=True)  # fmt: skip
    quietly(model, X)
    before = model.lower_bound_
    for _ in range(2):
        quietly(model, X)
        # Rows of the factorised model begin anew, and may settle otherwise at first.
        reached = model.lower_bounds_[-1 if gating == "factorised" else 0]
        assert reached >= before - 1e-9 * abs(before)
        assert_never_falls(model.lower_bounds_)
        before = model.lower_bound_


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_factorised_fit_goes_on_from_a_tied_one_that_was_cut_short(likelihood):
    """However the tied climb ended, with columns decided or not."""
    X, parts, _ = drawn(likelihood, np.random.default_rng(10), n_rows=100)
    for max_iter in (1, 5, 30):
        model = MCVQ(2, 3, likelihood=likelihood, gating="factorised", max_iter=max_iter, tol=0.0,
                     random_state=0)  # fmt: skip
        quietly(model, X)
        assert_never_falls(model.lower_bounds_)
        assert adjusted_rand_score(parts, model.parts_) == 1.0


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_fresh_rows_settle_as_well_as_remembered_ones(likelihood):
    """Posteriors of the training rows, asked for anew, reach the bound that the fit reached."""
    X, *_ = drawn(likelihood, np.random.default_rng(10), n_rows=100)
    model = quietly(MCVQ(2, 3, likelihood=likelihood, gating="factorised", random_state=0), X)
    again = bound_of_samples(fitted_of(model), source_of(fitted_of(model).columns, X)) / len(X)
    assert again >= model.lower_bound_ - 0.1


def test_a_warm_start_is_the_same_climb():
    X, *_ = drawn("gaussian", np.random.default_rng(11), n_rows=100)
    model = MCVQ(2, 3, gating="standard", init="random", random_state=0)
    assert_goes_on(model, X, 4, "means_", rtol=1e-7)


def test_a_warm_start_takes_rows_of_another_storage():
    """Absent entries of sparse counts are zeros, however the rows before were stored."""
    X = np.nan_to_num(drawn("poisson", np.random.default_rng(11), n_rows=100)[0])
    found = []
    for first, then in [(X, X), (X, sparse.csr_array(X)), (sparse.csr_array(X), X)]:
        model = MCVQ(2, 3, likelihood="poisson", random_state=0, warm_start=True, max_iter=2)
        quietly(model, first[:50])
        found.append(quietly(model, then).lower_bounds_)
    assert_allclose(found[1], found[0], rtol=1e-9)
    assert_allclose(found[2], found[0], rtol=1e-9)


@pytest.mark.parametrize(("before", "after"), [("tied", "standard"), ("standard", "tied")])
def test_a_warm_start_may_change_the_gating(before, after):
    X, parts, _ = drawn("gaussian", np.random.default_rng(12), n_rows=150)
    model = quietly(MCVQ(2, 3, gating=before, random_state=0, warm_start=True), X)
    quietly(model.set_params(gating=after), X)
    assert_never_falls(model.lower_bounds_)
    assert adjusted_rand_score(parts, model.parts_) == 1.0
