"""Log-likelihood of rows: exact where it says so, and honest about its error where it is drawn."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special

from partwise import MCVQ
from partwise.likelihoods import Prior
from partwise.models import predict
from partwise.models.gating import Standard
from tests.common.helpers import (
    build,
    punch_holes,
    random_entries,
    random_gates,
    random_posteriors,
    start_from,
    sweep,
)
from tests.reference import mcvq as reference

LIKELIHOODS = ["gaussian", "bernoulli", "poisson", "categorical"]
N_STATES = (2, 3, 2)
C, D = 9, 6
PRIOR = Prior(entries=0.3, counts=0.4, spread=0.2, shape=1.5, states=0.7, gates=1.3)
CLOSED = {
    "open": [],
    "closed": list(range(D)),
    "mixed": [0, 2, 5],
}


class Case:
    """A small model with known parameters, and the rows it is asked about."""

    def __init__(self, likelihood, closed, prior=PRIOR, storage="dense", seed=0, n_states=N_STATES):
        rng = np.random.default_rng(seed)
        X = random_entries(likelihood, (C, D), rng)
        if storage == "zeros":
            X[rng.random(X.shape) < 0.4] = 0.0
        else:
            X = punch_holes(X, 0.3, rng)
        K = len(n_states)
        gates = random_gates(K, D, rng)
        gates[:, closed] = np.eye(K)[rng.integers(K, size=len(closed))].T
        m = random_posteriors(n_states, C, rng)
        data = X
        if storage == "zeros":
            data = sparse.csr_array(X)
        elif storage == "sparse":
            rows, columns = np.nonzero(~np.isnan(X))
            data = sparse.csr_array((X[rows, columns], (rows, columns)), shape=X.shape)
        ones = np.ones(C)
        self.core, self.source = build(
            data, ones, n_states, likelihood, Standard(), prior, absent_zero=storage == "zeros"
        )
        theta = self.theta = start_from(self.core, self.source, m, gates)
        (self.m,), _ = sweep(self.core, theta, self.source)
        self.laws = [self.core.priors[0].predictive(theta.chi[0])]
        bounds = list(itertools.pairwise(self.core.first))
        means = [self.core.state_prior.mean(theta.state_counts[0, lo:hi]) for lo, hi in bounds]
        self.log_prior = np.log(np.concatenate(means))

        known = prior and {k: getattr(prior, k) for k in ("entries", "counts", "spread", "shape")}
        problem = reference.Problem(
            X, ones, n_states, reference.column_laws(X, ones, likelihood, known), "standard"
        )
        nested = [[m[lo:hi, c].tolist() for lo, hi in bounds] for c in range(C)]
        fit = reference.Fit(nested, gates.T.tolist(), None, None, None)
        fit = reference.update_b(problem, reference.update_parameters(problem, fit))
        alpha = prior.states if prior else 0.0
        shares = [np.add(n, alpha) / np.sum(np.add(n, alpha)) for n in fit.state_counts]
        self.truth = []
        for c in range(C):
            seen = [d for d in range(D) if problem.seen(c, d)]
            density = [
                [
                    [
                        problem.laws[d].log_predict(X[c, d], fit.parameters[d][k][j])
                        for j in problem.states(k)
                    ]
                    for k in problem.parts
                ]
                for d in seen
            ]
            self.truth.append(
                reference.row_log_likelihood(density, [gates[:, d] for d in seen], shares)
            )
        self.problem, self.fit = problem, fit

    def ask(self, n_draws=200, seed=0, from_prior=False):
        found = predict.row_likelihood(
            self.source.block(0), self.m[None], self.laws, self.core.columns, self.theta.gates,
            self.log_prior[None], self.core.first, n_draws, seed, from_prior,
        )  # fmt: skip
        return type(found)(*(field[0] for field in found))


@pytest.mark.parametrize("prior", [PRIOR, None], ids=["conjugate", "flat"])
@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_exact_paths_equal_enumeration(likelihood, closed, prior):
    case = Case(likelihood, CLOSED[closed], prior)
    found = case.ask()
    assert_allclose(found.log_likelihood, case.truth, rtol=1e-9)
    assert np.all(found.standard_error == 0)
    assert np.all(np.isinf(found.effective_draws))


@pytest.mark.parametrize("storage", ["sparse", "zeros"])
@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_sparse_rows_equal_enumeration(likelihood, closed, storage):
    case = Case(likelihood, CLOSED[closed], storage=storage, seed=1)
    assert_allclose(case.ask().log_likelihood, case.truth, rtol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_laws_of_entries_are_integrals_over_the_posterior(likelihood):
    """Predictive densities in the user's units, by quadrature."""
    case = Case(likelihood, [], seed=2)
    p, f = case.problem, case.fit
    (group,) = case.source.columns
    for c, d in [(0, 1), (3, 2), (5, 0), (6, 4)]:
        if not p.seen(c, d):
            continue
        z = group.encode(p.X[c, [d]], np.array([d]))
        log_base = group.base(z, np.array([d])).item()
        for k in range(2):
            s = case.core.first[k]
            found = case.laws[0].at((np.array([s]), np.array([d]))).log_density(z).item()
            truth = p.laws[d].predict(p.X[c, d], f.parameters[d][k][0])
            assert_allclose(np.exp(found + log_base), truth, rtol=1e-6)
            closed_form = p.laws[d].log_predict(p.X[c, d], f.parameters[d][k][0])
            assert_allclose(np.exp(closed_form), truth, rtol=1e-6)


@pytest.mark.parametrize("gates", ["open", "half"])
def test_a_row_that_fits_no_combination_of_states(gates):
    """Three kinds of entries, but two parts to explain them: the density is tiny, yet not zero."""
    rng = np.random.default_rng(0)
    s = np.repeat([0, 1, 2], 20)
    X = s[:, None] + 1e-3 * rng.normal(size=(60, 4))
    odd = np.array([[0.0, 1.0, 2.0, 0.0], [0.0, 2.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    core, source = build(X, np.ones(60), (3, 3), "gaussian", Standard(), None)
    m = np.tile((s == [[0], [1], [2]]).astype(float), (2, 1))
    share = np.array([[0.5, 0.3, 0.6, 0.8], [0.5, 0.7, 0.4, 0.2]])
    if gates == "half":
        share[:, 0] = [1.0, 0.0]
    theta = start_from(core, source, m, share)
    block = type(source)(odd, source.columns, np.ones(3)).block(0)
    found = predict.row_likelihood(
        block, np.full((1, 6, 3), 1 / 3), [core.priors[0].predictive(theta.chi[0])], core.columns,
        theta.gates, np.log(np.full((1, 6), 1 / 3)), core.first, 10,
    )  # fmt: skip
    mean = np.array([X[s == j].mean(axis=0) for j in range(3)])
    var = np.array([X[s == j].var(axis=0) for j in range(3)]).clip(1e-6 * X.var(axis=0))
    for row, value in zip(odd, found.log_likelihood[0], strict=True):
        log_p = -0.5 * np.log(2 * np.pi * var) - (row - mean) ** 2 / (2 * var)  # (J, D)
        density = [[log_p[:, d].tolist()] * 2 for d in range(4)]
        truth = reference.row_log_likelihood(density, share.T, [[1 / 3] * 3] * 2)
        assert_allclose(value, truth, rtol=1e-6)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_quantiles_of_cells_invert_their_mixture(likelihood, p):
    """A cell is a mixture over parts and states: weights g m, laws those of the states."""
    case = Case(likelihood, [1, 4], seed=8)
    (law,), gates, part = case.laws, case.theta.gates, case.core.part_of
    discrete = likelihood != "gaussian"
    found = predict.quantile(law, case.m, gates, part, p)
    assert found.shape == (C, D)
    weight = case.m[:, :, None] * gates[part][:, None, :]  # (S, n, D)

    def reached(x):
        return np.sum(weight * law_cdf(law, x), axis=0)

    if discrete:
        assert np.all(reached(found) >= p - 1e-4)
        assert np.all(reached(found - 1) < p + 1e-4)
    else:
        assert_allclose(reached(found), p, atol=1e-4)


def law_cdf(law, x):
    """Distribution function of every state's law at x (n, D); (S, n, D)."""
    S = 7
    columns = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    return np.stack([law.at((np.full(x.shape, s), columns)).cdf(x) for s in range(S)])


# --- importance sampling ---


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("closed", ["open", "mixed"])
def test_sampling_agrees_within_its_error(likelihood, closed, monkeypatch):
    case = Case(likelihood, CLOSED[closed], seed=3)
    monkeypatch.setattr(predict, "MOST_COMBINATIONS", 0)
    found = case.ask(n_draws=4000)
    error = found.standard_error
    assert np.all(error > 0)
    assert np.all(error < 0.2)
    assert np.all(np.abs(found.log_likelihood - case.truth) < 4.5 * error)
    assert np.all((found.effective_draws >= 1) & (found.effective_draws <= 4000))
    # A draw's weight has relative variance T/ESS - 1, and that over T is the squared error.
    assert_allclose(error**2, 1 / found.effective_draws - 1 / 4000, rtol=1e-6)


@pytest.mark.parametrize("closed", CLOSED)
def test_samples_of_the_prior_agree_within_their_error(closed):
    """The rule of the papers, here also where the exact sum is known."""
    case = Case("gaussian", CLOSED[closed], seed=3)
    found = case.ask(n_draws=20_000, from_prior=True)
    assert np.all(found.standard_error > 0)
    assert np.all(np.abs(found.log_likelihood - case.truth) < 4.5 * found.standard_error)
    assert np.median(found.standard_error) < 0.05


def test_the_error_is_as_large_as_it_says(monkeypatch):
    """Over many seeds estimates spread by about their standard error, around the truth."""
    case = Case("gaussian", [], seed=4)
    monkeypatch.setattr(predict, "MOST_COMBINATIONS", 0)
    runs = [case.ask(n_draws=400, seed=seed) for seed in range(60)]
    values = np.array([r.log_likelihood for r in runs])
    errors = np.array([r.standard_error for r in runs])
    ratio = values.std(axis=0) / errors.mean(axis=0)
    assert np.all((ratio > 0.6) & (ratio < 1.6))
    mean = special.logsumexp(values, axis=0) - np.log(60)  # the estimate itself is unbiased
    assert np.all(np.abs(mean - case.truth) < 4.5 * errors.mean(axis=0) / np.sqrt(60))
    few = case.ask(n_draws=100).standard_error
    many = case.ask(n_draws=6400).standard_error
    assert 5 < np.median(few / many) < 12  # 1 / sqrt(draws) would be 8


def test_a_row_does_not_depend_on_its_company(monkeypatch):
    case = Case("gaussian", [], seed=5)
    monkeypatch.setattr(predict, "MOST_COMBINATIONS", 0)
    together = case.ask(n_draws=50).log_likelihood
    X, columns = case.problem.X, case.source.columns
    source = type(case.source)(X[3:4], columns, np.ones(1))
    alone = predict.row_likelihood(
        source.block(0), case.m[None, :, 3:4], case.laws, case.core.columns, case.theta.gates,
        case.log_prior[None], case.core.first, 50,
    )  # fmt: skip
    assert_allclose(alone.log_likelihood[0], together[3], rtol=1e-12)


# --- through the estimator ---


def fitted(likelihood, gating, **options):
    rng = np.random.default_rng(6)
    X = punch_holes(random_entries(likelihood, (80, 5), rng), 0.1, rng)
    model = MCVQ(2, (2, 3), likelihood=likelihood, gating=gating, init="random", max_iter=5,
                 tol=0.0, random_state=0, **options)  # fmt: skip
    with pytest.warns(match="did not converge"):
        return model.fit(X), X


@pytest.mark.parametrize("gating", ["standard", "tied", "factorised"])
@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
@pytest.mark.parametrize("prior", ["conjugate", None])
def test_probabilities_of_all_rows_sum_to_one(likelihood, gating, prior):
    model, _ = fitted(likelihood, gating, prior=prior)
    values = [0.0, 1.0] if likelihood == "bernoulli" else [-1.0, 0.0, 2.0, 5.0]
    every = np.array(list(itertools.product(values, repeat=5)))
    assert_allclose(np.exp(model.score_samples(every)).sum(), 1.0, rtol=1e-9)


@pytest.mark.parametrize("gating", ["standard", "tied", "factorised"])
def test_drawn_rows_have_the_probabilities_they_are_given(gating):
    model, _ = fitted("bernoulli", gating)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    expected = np.exp(model.score_samples(every)) * 20_000
    rows, _ = model.sample(20_000, random_state=1)
    counts = np.bincount((rows @ [16, 8, 4, 2, 1]).astype(int), minlength=32)
    assert np.sum((counts - expected) ** 2 / expected) < 80  # chi-squared of 31: once in 10^6


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_a_missing_entry_is_summed_out(likelihood):
    model, X = fitted(likelihood, "standard")
    rows = np.nan_to_num(X[:5])
    rows[1, 4] = np.nan
    holes = rows.copy()
    holes[:, 2] = np.nan
    total = np.full(5, -np.inf)
    for value in range(2 if likelihood == "bernoulli" else 120):
        rows[:, 2] = value
        total = np.logaddexp(total, model.score_samples(rows))
    assert_allclose(model.score_samples(holes), total, rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_score_from_the_learned_attributes(likelihood):
    """At maximum likelihood the public attributes say everything."""
    model, X = fitted(likelihood, "standard", prior=None)
    shares = [model.state_priors_[k, :J] for k, J in enumerate((2, 3))]
    for row, found in zip(X[:6], model.score_samples(X[:6]), strict=True):
        density, gates = [], []
        for d in np.flatnonzero(~np.isnan(row)):
            per_part = []
            for k, J in enumerate((2, 3)):
                mean, var = model.means_[k, :J, d], model.variances_[k, :J, d]
                if likelihood == "gaussian":
                    log_p = -0.5 * np.log(2 * np.pi * var) - (row[d] - mean) ** 2 / (2 * var)
                elif likelihood == "bernoulli":
                    log_p = np.log(np.where(row[d] == 1, mean, 1 - mean))
                else:
                    log_p = row[d] * np.log(mean) - mean - special.gammaln(row[d] + 1)
                per_part.append(log_p.tolist())
            density.append(per_part)
            gates.append(model.gates_[d])
        assert_allclose(found, reference.row_log_likelihood(density, gates, shares), rtol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_scores_of_parts_add_up_where_gates_are_closed(likelihood):
    rng = np.random.default_rng(7)
    s = rng.integers(2, size=(150, 2))
    X = np.repeat(s, 3, axis=1).astype(float)
    if likelihood == "gaussian":
        X += 0.1 * rng.normal(size=X.shape)
    X = punch_holes(X, 0.1, rng)
    model = MCVQ(2, 2, likelihood=likelihood, gating="tied", random_state=0).fit(X)
    assert np.all(model.gates_.max(axis=1) == 1.0)
    assert_allclose(-model.anomaly_scores(X).sum(axis=1), model.score_samples(X), rtol=1e-9)
