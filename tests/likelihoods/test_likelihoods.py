"""Closed forms of every likelihood against integrals over its posterior, and against each other."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from partwise.likelihoods import Bernoulli, Categorical, Conjugate, Dirichlet, Flat, Gaussian
from partwise.likelihoods import Poisson as PoissonLaw
from partwise.likelihoods.predictive import GammaPoisson
from tests.reference import mcvq as reference

GAUSSIAN = Gaussian(offset=1.7, spread=0.1)

# chi with the statistic first, then three states and two columns: posteriors broad and narrow.
CHI = {
    "gaussian": np.array(
        [
            [[0.8, 3.0], [12.0, 40.0], [1.5, 2.5]],
            [[0.3, -4.0], [24.0, 2.0], [-3.0, 0.0]],
            [[1.9, 8.0], [55.0, 31.0], [7.0, 0.4]],
        ]
    ),
    "bernoulli": np.array([[[1.3, 3.0], [12.0, 40.0], [5.5, 2.0]], [[0.6, 2.2], [1, 20], [5, 1]]]),
    "poisson": np.array([[[0.5, 3.0], [12.0, 40.0], [1.5, 2.5]], [[0.9, 2.0], [50, 4], [6, 1]]]),
    "categorical": np.array(
        [
            [[0.7, 3.0], [12.0, 4.0], [1.5, 2.5]],
            [[1.2, 0.6], [2.0, 9.0], [1.0, 1.0]],
            [[0.9, 5.0], [0.8, 1.0], [3.0, 6.0]],
        ]
    ),
}
# Pseudo-sums of the prior, (P, D).
CHI0 = {
    "gaussian": np.array([[0.5, 1.2], [0.2, -0.4], [1.1, 2.0]]),
    "bernoulli": np.array([[1.1, 2.0], [0.5, 1.2]]),
    "poisson": np.array([[0.4, 2.0], [0.8, 1.5]]),
    "categorical": np.array([[0.6, 1.0], [0.9, 0.7], [0.8, 2.0]]),
}
LIKELIHOODS = {
    "gaussian": GAUSSIAN,
    "bernoulli": Bernoulli(),
    "poisson": PoissonLaw(),
    "categorical": Categorical(3),
}
NAMES = list(LIKELIHOODS)
CELLS = [(s, d) for s in range(3) for d in range(2)]


def cells(name):
    """States and columns to look at: few where integrals are double ones."""
    return [(0, 0), (1, 1), (2, 0)] if name == "gaussian" else CELLS


def expect(name, chi, f):
    """E[f(eta)] of one entry's posterior, by quadrature."""
    if name == "gaussian":
        kappa, mean = chi[0], chi[1] / chi[0]
        alpha, beta = (kappa + GAUSSIAN.offset) / 2, (chi[2] - chi[1] ** 2 / kappa) / 2
        return reference.expect_normal_gamma(
            lambda mu, tau: f(
                [0.5 * math.log(tau / (2 * math.pi)) - tau * mu**2 / 2, tau * mu, -tau / 2]
            ),
            mean,
            kappa,
            alpha,
            beta,
        )
    if name == "bernoulli":
        return reference.expect_beta(
            lambda p, q: f([math.log(q), math.log(p) - math.log(q)]), chi[1], chi[0] - chi[1]
        )
    assert name == "poisson"
    return reference.expect_gamma(lambda t: f([-t, math.log(t)]), chi[1], chi[0])


def expect_level(chi, v, f):
    """E[f(p_v)] of a Dirichlet: one share of it is Beta."""
    return reference.expect_beta(f, chi[v], chi.sum() - chi[v])


@pytest.mark.parametrize("name", NAMES)
def test_natural_is_the_posterior_mean(name):
    natural = LIKELIHOODS[name].natural(CHI[name])
    for s, d in cells(name):
        chi = CHI[name][:, s, d]
        for p in range(len(chi)):
            if name == "categorical":
                found = expect_level(chi, p, lambda p, _: math.log(p))
            else:
                found = expect(name, chi, lambda eta, p=p: eta[p])
            assert_allclose(natural[p, s, d], found, rtol=1e-6, atol=1e-7)


def log_normalizer(name, chi):
    """log of the integral of exp(chi . eta) over the parameters, with the family's own measure."""
    if name == "gaussian":
        # measure tau^(offset/2 - 1/2) / sqrt(2 pi); the mean first, with tau = exp(u)
        kappa = chi[0]
        mean, rest = chi[1] / kappa, chi[2] - chi[1] ** 2 / kappa

        def of_mean(mu, u):
            tau = math.exp(u)
            log_f = kappa / 2 * math.log(tau / (2 * math.pi))
            log_f -= tau / 2 * (kappa * mu**2 - 2 * chi[1] * mu + chi[2])
            log_f += (GAUSSIAN.offset / 2 - 0.5) * u - 0.5 * math.log(2 * math.pi)
            return math.exp(log_f + u)

        center = math.log((kappa + GAUSSIAN.offset) / rest)
        half = 12 / math.sqrt(kappa)
        value, _ = integrate.dblquad(
            of_mean,
            center - 25,
            center + 4,
            lambda u: mean - half * math.exp(-u / 2),
            lambda u: mean + half * math.exp(-u / 2),
            epsabs=0,
            epsrel=1e-7,
        )
        return math.log(value)
    if name == "bernoulli":
        powers = (chi[1] - 1, chi[0] - chi[1] - 1)
        return math.log(integrate.quad(lambda p: 1.0, 0, 1, weight="alg", wvar=powers)[0])
    if name == "poisson":
        value, _ = integrate.quad(
            lambda u: math.exp(-chi[0] * math.exp(u) + chi[1] * u), -60, 8, points=[-5, 0, 3]
        )
        return math.log(value)
    # Three levels: p0, then the share q of what is left.
    rest = chi[1] + chi[2]
    outer = integrate.quad(lambda p: 1.0, 0, 1, weight="alg", wvar=(chi[0] - 1, rest - 1))[0]
    inner = integrate.quad(lambda q: 1.0, 0, 1, weight="alg", wvar=(chi[1] - 1, chi[2] - 1))[0]
    return math.log(outer * inner)


@pytest.mark.parametrize("name", NAMES)
def test_log_partition_is_the_integral(name):
    found = LIKELIHOODS[name].log_partition(CHI[name])
    for s, d in cells(name):
        assert_allclose(found[s, d], log_normalizer(name, CHI[name][:, s, d]), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_divergence_is_the_integral_and_never_negative(name):
    likelihood = LIKELIHOODS[name]
    prior = Conjugate(likelihood, CHI0[name])
    chi = CHI[name]
    found = prior.learned(chi)[1]
    assert np.all(found >= 0)
    for s, d in cells(name):
        step = chi[:, s, d] - CHI0[name][:, d]
        if name == "categorical":
            gain = sum(
                step[v] * expect_level(chi[:, s, d], v, lambda p, _: math.log(p)) for v in range(3)
            )
        else:
            gain = expect(name, chi[:, s, d], lambda eta, step=step: float(np.dot(step, eta)))
        shift = special_log_ratio(name, chi[:, s, d], CHI0[name][:, d])
        assert_allclose(found[s, d], gain - shift, rtol=1e-6, atol=1e-6)
    same = prior.learned(CHI0[name][:, None])[1]
    assert_allclose(same, 0.0, atol=1e-12)


def special_log_ratio(name, chi, chi0):
    """log normalizer of the posterior less that of the prior, from scipy's own densities."""
    if name == "gaussian":

        def log_z(chi):
            kappa, alpha = chi[0], (chi[0] + GAUSSIAN.offset) / 2
            beta = (chi[2] - chi[1] ** 2 / kappa) / 2
            # density at mean 0 and precision 1 is exp(chi . eta) / Z, times the measure
            log_q = stats.gamma.logpdf(1.0, alpha, scale=1 / beta)
            log_q += stats.norm.logpdf(0.0, chi[1] / kappa, kappa**-0.5)
            eta = np.array([-0.5 * math.log(2 * math.pi), 0.0, -0.5])
            return float(chi @ eta) - log_q

        return log_z(chi) - log_z(chi0)
    if name == "bernoulli":

        def log_z(chi):
            log_q = stats.beta.logpdf(0.5, chi[1], chi[0] - chi[1]) + math.log(0.25)
            return float(chi @ [math.log(0.5), 0.0]) - log_q

        return log_z(chi) - log_z(chi0)
    if name == "poisson":

        def log_z(chi):
            return -chi[0] - stats.gamma.logpdf(1.0, chi[1], scale=1 / chi[0])

        return log_z(chi) - log_z(chi0)

    def log_z(chi):
        log_q = stats.dirichlet.logpdf(np.full(3, 1 / 3), chi) - 3 * math.log(3)
        return -chi.sum() * math.log(3) - log_q

    return log_z(chi) - log_z(chi0)


def statistics(name, x):
    if name == "categorical":
        return np.eye(3)[int(x)]
    return np.array([1.0, x, x * x])[: 3 if name == "gaussian" else 2]


def log_base(name, x):
    return -special.gammaln(x + 1.0) if name == "poisson" else 0.0 * x


DRAWS = {
    "gaussian": [0.3, -1.2, 2.5, 0.1],
    "bernoulli": [1.0, 0.0, 1.0, 1.0],
    "poisson": [3.0, 0.0, 7.0, 1.0],
    "categorical": [2.0, 0.0, 2.0, 1.0],
}


@pytest.mark.parametrize("name", NAMES)
def test_evidence_is_the_product_of_predictions(name):
    """log Z(chi) - log Z(chi0) = sum of each entry's log density given those before it."""
    likelihood = LIKELIHOODS[name]
    chi = CHI0[name][:, :1].copy()
    chain = 0.0
    for x in DRAWS[name]:
        chain += likelihood.predictive(chi).log_density(np.array([x])).item()
        chi = chi + statistics(name, x)[:, None]
    gain = likelihood.log_partition(chi) - likelihood.log_partition(CHI0[name][:, :1])
    assert_allclose(gain.item(), chain, rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_predictive_is_the_integral_over_the_posterior(name):
    law = LIKELIHOODS[name].predictive(CHI[name])
    for x in DRAWS[name][:2]:
        found = law.log_density(np.full((3, 2), x)) + log_base(name, x)
        for s, d in cells(name):
            chi = CHI[name][:, s, d]
            if name == "categorical":
                truth = expect_level(chi, int(x), lambda p, _: p)
            else:
                T = statistics(name, x)
                truth = expect(name, chi, lambda eta, T=T: math.exp(float(np.dot(T, eta))))
                truth *= math.exp(log_base(name, x))
            assert_allclose(math.exp(found[s, d]), truth, rtol=1e-6)


def laws(name):
    """Predictive laws of posteriors, and of maximum likelihood."""
    likelihood = LIKELIHOODS[name]
    sums = CHI[name]
    return {"posterior": likelihood.predictive(sums), "point": likelihood.point_predictive(sums)}


@pytest.mark.parametrize("kind", ["posterior", "point"])
@pytest.mark.parametrize("name", NAMES)
def test_predictive_normalises(name, kind):
    law = laws(name)[kind]
    if name == "gaussian":
        for s, d in CELLS:
            one = law.at((np.array([s]), np.array([d])))
            center, scale = one.mean.item(), one.scale.item()
            total, _ = integrate.quad(
                lambda u, one=one, c=center, w=scale: (
                    math.exp(one.log_density(np.array([c + w * math.sinh(u)])).item())
                    * w
                    * math.cosh(u)
                ),
                -25 if kind == "posterior" else -6,
                25 if kind == "posterior" else 6,
                points=[-2, 0, 2],
                limit=200,
            )
            assert_allclose(total, 1.0, rtol=1e-6)
        return
    top = {"bernoulli": 2, "poisson": 4000, "categorical": 3}[name]
    x = np.arange(float(top))[:, None, None]
    density = np.exp(law.log_density(x) + log_base(name, x))
    assert_allclose(density.sum(axis=0), 1.0, rtol=1e-6)
    mean = (x * density).sum(axis=0)
    assert_allclose(law.mean, mean, rtol=1e-4)
    if name != "poisson" or kind == "point":
        assert_allclose(law.variance, (x**2 * density).sum(axis=0) - mean**2, rtol=1e-6)
    assert_allclose(law.cdf(x), np.cumsum(density, axis=0), atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_bins_of_states_that_do_not_matter_are_those_of_all(name):
    law = laws(name)["posterior"]
    assert_allclose(law.bins(0, np.arange(0)), law.bins(0, np.arange(3)))


@pytest.mark.parametrize("kind", ["posterior", "point"])
def test_cdf_of_numbers_is_the_integral_of_the_density(kind):
    law = laws("gaussian")[kind]
    low, high = law.mean - 0.7 * law.scale, law.mean + 1.3 * law.scale
    nodes, weights = np.polynomial.legendre.leggauss(60)
    half = (high - low) / 2
    x = low + half * (1 + nodes[:, None, None])
    mass = (weights[:, None, None] * np.exp(law.log_density(x)) * half).sum(axis=0)
    assert_allclose(law.cdf(high) - law.cdf(low), mass, rtol=1e-10)
    assert_allclose(law.cdf(law.mean), 0.5, rtol=1e-12)


@pytest.mark.parametrize("p", [0.001, 0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["posterior", "point"])
@pytest.mark.parametrize("name", NAMES)
def test_quantile_inverts_the_cdf(name, kind, p):
    law = laws(name)[kind]
    q = law.quantile(p)
    if name == "gaussian":
        assert_allclose(law.cdf(q), p, rtol=1e-8)
        return
    assert np.all(law.cdf(q) >= p * (1 - 1e-9))
    assert np.all(law.cdf(q - 1) < p)


@pytest.mark.parametrize("rate", [5.0, np.inf])
def test_quantiles_of_counts_that_a_float_cannot_tell_apart(rate):
    """Neighbors of 1e20 are 16384 apart; a bisection to the next whole number would not end."""
    law = GammaPoisson(np.array([[1e20], [2e20]]), np.full((2, 1), rate))
    assert_allclose(law.quantile(0.9), law.mean, rtol=1e-6)
    m, gates, part_of = np.full((2, 1), 0.5), np.ones((1, 1)), np.zeros(2, int)
    found = law.mixture_quantile(m, gates, part_of, np.array([0.9]))
    assert_allclose(found, law.mean[1:], rtol=1e-6)


@pytest.mark.parametrize("kind", ["posterior", "point"])
@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_cdf(name, kind):
    law = laws(name)[kind]
    many = law.at((np.tile([[0, 1, 2]], (4000, 1)), np.tile([[0, 1, 1]], (4000, 1))))
    draws = many.sample(np.random.default_rng(0))
    assert draws.shape == (4000, 3)
    for place, (s, d) in enumerate([(0, 0), (1, 1), (2, 1)]):
        one = law.at((np.array([s]), np.array([d])))
        x = np.unique(draws[:, place])
        below = np.searchsorted(np.sort(draws[:, place]), x, side="right") / 4000
        # Kolmogorov: a gap above 2.2 / sqrt(n) comes once in 10^4 draws.
        assert np.max(np.abs(below - one.cdf(x))) < 2.2 / math.sqrt(4000)


# --- maximum likelihood ---

DATA = {
    "gaussian": np.array([0.4, -1.0, 2.2, 0.3, 1.1]),
    "bernoulli": np.array([1.0, 0, 1, 1, 0]),
    "poisson": np.array([3.0, 0, 7, 1, 2]),
    "categorical": np.array([2.0, 0, 2, 1, 1]),
}


@pytest.mark.parametrize("name", NAMES)
def test_point_is_the_limit_of_many_rows(name):
    """Posterior and maximum likelihood meet when the sums are large."""
    likelihood = LIKELIHOODS[name]
    sums = sum(statistics(name, x) for x in DATA[name])[:, None, None] * 1e7
    posterior = Conjugate(likelihood, CHI0[name][:, :1]).posterior(sums)
    assert_allclose(likelihood.natural(posterior), likelihood.point_natural(sums), rtol=1e-5)
    a, b = likelihood.predictive(posterior), likelihood.point_predictive(sums)
    for x in DRAWS[name]:
        x = np.array([[x]])
        assert_allclose(a.log_density(x), b.log_density(x), rtol=1e-5, atol=1e-6)
    for p in (0.1, 0.7):
        assert_allclose(a.quantile(p), b.quantile(p), rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_point_maximizes_the_likelihood(name):
    """No nearby sums, read as parameters, give the data more density."""
    likelihood = LIKELIHOODS[name]
    sums = sum(statistics(name, x) for x in DATA[name])

    def log_likelihood(sums):
        eta = likelihood.point_natural(sums[:, None, None])[:, 0, 0]
        return sum(float(statistics(name, x) @ eta) for x in DATA[name])

    best = log_likelihood(sums)
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = sums * (1 + 0.05 * rng.normal(size=len(sums)))
        assert log_likelihood(other) <= best + 1e-12
    density = [likelihood.point_predictive(sums[:, None, None]).log_density(np.array([[x]]))
               for x in DATA[name]]  # fmt: skip
    assert_allclose(np.sum(density), best, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_flat_prior_stays_finite_without_rows_and_without_spread(name):
    likelihood = LIKELIHOODS[name]
    prior = Flat(likelihood)
    nothing = np.zeros((likelihood.n_statistics, 1, 1))
    one_kind = 4 * statistics(name, 1.0)[:, None, None]
    for sums in (nothing, one_kind):
        eta = prior.natural(prior.posterior(sums))
        assert np.all(np.isfinite(eta))
        assert np.isfinite(prior.predictive(sums).log_density(np.array([[1.0]]))).all()
        assert_allclose(prior.learned(sums)[1], 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_default_prior_is_worth_its_strength(name):
    """Pseudo-sums are those of ``strength`` rows at the column's average."""
    likelihood = LIKELIHOODS[name]
    if name == "gaussian":
        moments = np.array([[1.0, 1.0], [0.0, 1.5], [1.0, 3.25]])
        chi = likelihood.pseudo_sums(moments, 0.4)
        assert_allclose(chi[0], 0.4)
        assert_allclose(chi[1] / chi[0], moments[1])
        alpha, beta = (chi[0] + GAUSSIAN.offset) / 2, (chi[2] - chi[1] ** 2 / chi[0]) / 2
        assert_allclose(beta / alpha, GAUSSIAN.spread)
        return
    if name == "categorical":
        moments = np.array([[0.2, 0.5], [0.7, 0.25], [0.1, 0.25]])
        assert_allclose(likelihood.pseudo_sums(moments, 0.4).sum(axis=0), 0.4 * 3)
    else:
        moments = np.array([[1.0, 1.0], [0.3, 0.8]])
        assert_allclose(likelihood.pseudo_sums(moments, 0.4)[0], 0.4)
    chi = likelihood.pseudo_sums(moments, 0.4)
    mean = likelihood.predictive(chi)
    if name == "categorical":
        assert_allclose(mean.probability, moments)
    else:
        assert_allclose(mean.mean, moments[1])


# --- choices ---


@pytest.mark.parametrize("alpha", [0.1, 1.0, 4.0])
def test_dirichlet_of_choices(alpha):
    counts = np.array([[3.0, 0.0], [0.2, 0.0], [11.0, 0.5]])
    prior = Dirichlet(alpha)
    log_p = prior.expected_log(counts)
    for column in range(2):
        a = counts[:, column] + alpha
        for k in range(3):
            truth = reference.expect_beta(lambda p, _: math.log(p), a[k], a.sum() - a[k])
            assert_allclose(log_p[k, column], truth, rtol=1e-7)
        assert_allclose(prior.mean(counts)[:, column], a / a.sum())
    truth = sum(
        reference.dirichlet_divergence(list(counts[:, c] + alpha), [alpha] * 3) for c in range(2)
    )
    assert_allclose(prior.divergence(counts), truth, rtol=1e-10)
    assert prior.divergence(counts) > 0
    assert_allclose(prior.divergence(np.zeros((3, 2))), 0.0, atol=1e-12)


def test_flat_dirichlet_is_the_share():
    counts = np.array([[3.0, 0.0], [1.0, 5.0]])
    prior = Dirichlet(0.0)
    assert_allclose(prior.mean(counts), [[0.75, 0.0], [0.25, 1.0]], atol=1e-200)
    assert_allclose(np.exp(prior.expected_log(counts)), [[0.75, 0.0], [0.25, 1.0]], atol=1e-200)
    assert np.all(np.isfinite(prior.expected_log(counts)))
    assert prior.divergence(counts) == 0.0
