"""What every law promises, asked of all that the registry has."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from partwise.likelihoods import LAWS, Conjugate, Flat, Prior, law_state, restore_law
from partwise.likelihoods.predictive import GammaPoisson

# Levels of laws that find theirs in the data.
V = 4

# Families, which have everything; a law of latent numbers has the family of these.
NAMES = [name for name, law in LAWS.items() if not law.latent]


def family(name):
    return LAWS[name].make(Prior(), V).family


def draws(name, n=40, seed=0):
    """Entries in model units such as the law could have made."""
    law, rng = LAWS[name], np.random.default_rng(seed)
    if law.has_levels:
        return rng.integers(V, size=n).astype(float)
    if law.own_levels is not None:
        return rng.choice(law.own_levels, size=n)
    if law.counts:
        return rng.poisson(rng.gamma(1.0, 3.0, size=n)).astype(float)
    return np.clip(rng.normal(0.3, 0.8, size=n), -3.0, 3.0)


def prior_sums(name, D=1):
    own = family(name)
    x = np.stack([draws(name, seed=d) for d in range(D)], axis=1)
    moments = own.smoothed(own.statistics(x).sum(axis=1))
    return own.pseudo_sums(moments, own.strength(Prior()))


def posteriors(name):
    """chi (P, S, D) after no, one, few and many entries, of two columns."""
    own, start = family(name), prior_sums(name, 2)
    x = np.stack([draws(name, seed=5), draws(name, seed=6)], axis=1)
    T = own.statistics(x)  # (P, n, D)
    return np.stack([start + T[:, :n].sum(axis=1) for n in (0, 1, 6, 40)], axis=1)


def values_of(name, told):
    """All values that have mass, or a fine grid with the width of its cells."""
    law = LAWS[name]
    if law.has_levels or law.own_levels is not None:
        return np.arange(float(V if law.has_levels else len(law.own_levels))), 1.0
    if law.counts:
        return np.arange(6000.0), 1.0
    edges = np.linspace(-math.pi, math.pi, 20001)
    return 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]


@pytest.mark.parametrize("name", NAMES)
def test_natural_parameters_are_the_gradient_of_the_log_partition(name):
    own, chi = family(name), posteriors(name)[:, 2:]
    natural = own.natural(chi)
    for p in range(len(chi)):
        step = np.zeros_like(chi)
        step[p] = 1e-5 * np.maximum(1.0, np.abs(chi[p]))
        slope = (own.log_partition(chi + step) - own.log_partition(chi - step)) / (2 * step[p])
        assert_allclose(natural[p], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_predictive_is_the_ratio_of_partitions(name):
    own, chi = family(name), posteriors(name)
    told = own.predictive(chi)
    for x in draws(name)[:4]:
        T = own.statistics(np.full(chi.shape[1:], x))
        ratio = own.log_partition(chi + T) - own.log_partition(chi)
        # The resolution of numbers is no part of a new entry's density.
        assert_allclose(told.log_density(np.full(chi.shape[1:], x)), ratio, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["posterior", "point"])
@pytest.mark.parametrize("name", NAMES)
def test_predictive_normalises_and_has_its_moments(name, kind):
    own = family(name)
    chi = posteriors(name)[:, 2:]
    told = own.predictive(chi) if kind == "posterior" else own.point_predictive(chi)
    x, width = values_of(name, told)
    mass = np.exp(told.log_density(x[:, None, None]) + own.base(x)[:, None, None]) * width
    if not LAWS[name].scaled:
        assert_allclose(mass.sum(axis=0), 1.0, rtol=1e-6)
        assert_allclose(np.log((mass / width).max(axis=0)), told.peak, atol=1e-3)
    if LAWS[name].counts:
        mean = (x[:, None, None] * mass).sum(axis=0)
        assert_allclose(told.mean, mean, rtol=1e-4)
        spread = ((x[:, None, None] - mean) ** 2 * mass).sum(axis=0)
        assert_allclose(told.variance[1:], spread[1:], rtol=2e-2)
        near = x[:200]
        below = np.cumsum(mass, axis=0)[:200]
        assert_allclose(told.cdf(near[:, None, None]), below, atol=1e-5)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", NAMES)
def test_quantiles_invert_the_distribution_function(name, p):
    told = family(name).predictive(posteriors(name))
    q = told.quantile(p)
    if told.whole:
        assert np.all(told.cdf(q) >= p * (1 - 1e-9))
        assert np.all((told.cdf(q - 1) < p) | (q == 0))
    else:
        assert_allclose(told.cdf(q), p, atol=1e-6)
    # The mixture of one state is that state.
    m, gates, part_of = np.ones((1, 3)), np.ones((1, 2)), np.zeros(1, int)
    one = told.at((np.array([[3, 3]]), np.array([[0, 1]])))
    found = one.mixture_quantile(m, gates, part_of, np.full(2, p))
    assert_allclose(found, np.repeat(one.quantile(p), 3, axis=0), atol=5e-3)


@pytest.mark.parametrize("name", NAMES)
def test_tails_are_the_mass_of_values_at_most_as_likely(name):
    own = family(name)
    told = own.predictive(posteriors(name)[:, 2:])
    x, width = values_of(name, told)
    if LAWS[name].scaled:  # the tails of Student's t are long
        x = np.tan(0.5 * x)
        width = np.gradient(x)[:, None, None]
    mass = np.exp(told.log_density(x[:, None, None]) + own.base(x)[:, None, None]) * width
    density = mass / width
    for i in np.linspace(0, len(x) - 1, 7).astype(int) if len(x) < 6000 else (0, 3, 30, 9000):
        if i >= len(x):
            continue
        if LAWS[name].counts or own.ordered:  # both tails taken as equal
            ends = np.minimum(mass[: i + 1].sum(axis=0), mass[i:].sum(axis=0))
            expected = np.minimum(2.0 * ends, 1.0)
        else:
            expected = np.where(density <= density[i] * (1 + 1e-9), mass, 0.0).sum(axis=0)
        assert_allclose(told.tail(np.full(told.mean.shape, x[i])), expected, rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("kind", ["posterior", "point"])
@pytest.mark.parametrize("name", [name for name in NAMES if LAWS[name].counts])
def test_far_upper_tails_of_counts_are_sums_of_their_mass(name, kind):
    own, chi = family(name), posteriors(name)[:, 2:]
    told = own.predictive(chi) if kind == "posterior" else own.point_predictive(chi)
    x = np.arange(5000.0)[:, None, None]
    mass = np.exp(told.log_density(x) + own.base(x))
    for least in (25, 60, 90, 135, 180):
        expected = 2.0 * mass[least:].sum(axis=0)
        found = told.tail(np.full(told.mean.shape, float(least)))
        # Sums end at 5000: tails that fall slowly are the rest short.
        sure = (expected > 1e-290) & (mass[-1] * len(x) < 1e-4 * expected)
        assert_allclose(found[sure], np.minimum(expected, 1.0)[sure], rtol=2e-3)
        assert sure.any()


@pytest.mark.parametrize("mean", [0.3, 5.0, 60.0, 4000.0])
def test_tails_of_counts_are_survival_functions(mean):
    x = np.unique(np.rint(mean + np.sqrt(mean) * np.linspace(0.0, 40.0, 41)))
    for shape in (0.5, 8.0, 500.0):
        told = GammaPoisson(np.full(len(x), shape), np.full(len(x), shape / mean))
        above = stats.nbinom.sf(x - 1, shape, shape / (shape + mean))
        below = stats.nbinom.cdf(x, shape, shape / (shape + mean))
        expected = np.minimum(2.0 * np.minimum(above, below), 1.0)
        assert_allclose(told.tail(x), expected, rtol=1e-8)
    told = GammaPoisson(np.full(len(x), mean), np.full(len(x), np.inf))
    above, below = stats.poisson.sf(x - 1, mean), stats.poisson.cdf(x, mean)
    expected = np.minimum(2.0 * np.minimum(above, below), 1.0)
    assert_allclose(told.tail(x), expected, rtol=1e-8, atol=1e-300)


def test_tails_of_angles_are_equal_on_both_sides():
    own = family("circular")
    x = np.random.default_rng(0).normal(0.4, 0.05, size=(400, 1))
    told = own.predictive(prior_sums("circular")[:, None] + own.statistics(x).sum(axis=1)[:, None])
    for away in (0.2, 0.6, 1.0):
        low, high = (told.tail(told.mean + sign * away) for sign in (-1.0, 1.0))
        assert_allclose(low, high, rtol=1e-6)
        assert np.all(high > 0.0)
    assert np.all(told.tail(told.mean + 1.0) < 1e-17)


@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_distribution_function(name):
    told = family(name).predictive(posteriors(name))
    at = np.full(4000, 3), np.zeros(4000, int)
    found = np.sort(told.at(at).sample(np.random.default_rng(0)))
    one = told.at((np.array([3]), np.array([0])))
    x = np.unique(found)
    below = np.searchsorted(found, x, side="right") / 4000
    if name == "circular":  # the turn begins opposite the direction
        turned = np.sort((found - one.mean + np.pi) % (2 * np.pi))
        x, below = turned + one.mean - np.pi, np.arange(1, 4001) / 4000
    # Kolmogorov: a gap above 2.2 / sqrt(n) comes once in 10^4 draws.
    assert np.max(np.abs(below - one.cdf(x))) < 2.2 / math.sqrt(4000)


@pytest.mark.parametrize("name", NAMES)
def test_maximum_likelihood_is_a_maximum(name):
    own, x = family(name), draws(name)
    T = own.statistics(x)
    sums = T.sum(axis=1)[:, None, None]
    best = float((own.point_natural(sums)[:, 0, 0] @ T).sum())
    rng = np.random.default_rng(0)
    for _ in range(30):
        other = own.statistics(rng.choice(x, size=len(x))).sum(axis=1)[:, None, None]
        assert float((own.point_natural(other)[:, 0, 0] @ T).sum()) <= best + 1e-9
    told = own.point_predictive(sums)
    assert_allclose(told.log_density(x[:, None, None]).sum(), best, rtol=1e-9)
    for few in (np.zeros_like(sums), T[:, :1, None] * 3.0):
        assert np.all(np.isfinite(Flat(own).natural(few)))


@pytest.mark.parametrize("name", NAMES)
def test_divergence_is_zero_at_the_prior_and_positive_elsewhere(name):
    own, start = family(name), prior_sums(name, 2)
    prior = Conjugate(own, start)
    same = start[:, None]
    assert_allclose(prior.learned(same)[1], 0.0, atol=1e-9)
    chi = posteriors(name)[:, 1:]
    assert np.all(prior.learned(chi)[1] > -1e-9)


@pytest.mark.parametrize("name", LAWS)
def test_a_law_comes_back_from_a_file(name):
    law = LAWS[name].make(Prior(), V)
    state = law_state(law)
    may = {"resolution"} if name == "gaussian" else set()  # which older files lack
    assert set(state) == {"law", *law.saved} | may
    assert restore_law(state, Prior(), V) == law
    moments = np.ones((V if law.has_levels else law.family.n_statistics, 2))
    assert law.misfit(state, moments) is None
    for entry in law.saved:
        lacking = {key: value for key, value in state.items() if key != entry}
        assert "no entry" in law.misfit(lacking, moments)
    for chi in (posteriors(name),) if name in NAMES else ():
        assert law.family.is_proper(chi, 1e-12, 1e15)
        assert not law.family.is_proper(-chi - 1.0, 1e-12, 1e15)


@pytest.mark.parametrize("name", [name for name in NAMES if LAWS[name].counts])
def test_counts_are_checked(name):
    assert LAWS[name].check(np.array([0.0, 3.0, np.nan])) is None
    assert "-1" in LAWS[name].check(np.array([2.0, -1.0]))
    assert name in LAWS[name].check(np.array([2.5]))


@pytest.mark.parametrize("name", NAMES)
def test_absent_zeros_score_nothing_but_the_constant(name):
    """Where sparse zeros make sense, views skip them: all of T(0) but the first is 0."""
    law = LAWS[name]
    if law.takes_zeros and not law.has_levels:
        T = family(name).statistics(np.zeros(1))
        assert_allclose(T[:, 0], [1.0] + [0.0] * (len(T) - 1), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_the_page_are_the_law(name):
    """On the grid the page has what a value says, and its density."""
    own, chi = family(name), posteriors(name)
    told, natural = own.predictive(chi), own.natural(chi)
    page = own.page(told, natural)
    if page["law"] != "tabulated":
        return
    grid = np.array(page["grid"])
    assert np.all(np.diff(grid) > 0)
    v = len(grid) // 3
    x = np.full(chi.shape[1:], grid[v])
    says = page["says"].reshape(*x.shape, len(grid))[..., v]
    truth = np.sum(natural * own.statistics(x), axis=0) + own.base(x)
    assert_allclose(says, truth, rtol=1e-9, atol=1e-9)
    density = page["density"].reshape(*x.shape, len(grid))[..., v]
    assert_allclose(density, told.log_density(x) + own.base(x), rtol=1e-9, atol=1e-9)


def test_evidence_of_negative_binomials_is_an_integral_over_their_parameters():
    """Brute force: a sum over r and an integral over q of the probability of all entries."""
    from partwise.likelihoods.negative_binomial import SHAPES

    own, x = family("negative_binomial"), np.array([0.0, 3.0, 7.0, 1.0, 12.0])
    chi0 = prior_sums("negative_binomial")
    sums = own.statistics(x).sum(axis=1)[:, None, None]
    found = Conjugate(own, chi0).evidence(sums).item()

    def total(chi):
        """Sum over r of the integral over q of exp(chi . eta) dq / q."""
        out = 0.0
        for g, r in enumerate(SHAPES):
            # u = log q
            f = integrate.quad(
                lambda u, r=r: math.exp(chi[1] * u + r * chi[0] * math.log(-math.expm1(u))),
                -60, -1e-12, points=[-8, -2, -0.3, -0.03, -0.003], limit=400, epsabs=0,
            )[0]  # fmt: skip
            out += f * math.exp(chi[2 + g])
        return math.log(out)

    assert_allclose(found, total((chi0 + sums[:, 0])[:, 0]) - total(chi0[:, 0]), rtol=1e-6)


def test_evidence_of_zero_inflated_counts_is_an_integral_over_their_parameters():
    own, x = family("zero_inflated"), np.array([0.0, 3.0, 7.0, 1.0, 0.0])
    chi0 = prior_sums("zero_inflated")
    sums = own.statistics(x).sum(axis=1)[:, None, None]
    found = Conjugate(own, chi0).evidence(sums).item()

    def total(chi):
        share = integrate.quad(
            lambda p: 1.0, 0, 1, weight="alg", wvar=(chi[1] - 1, chi[0] - chi[1] - 1)
        )[0]
        rate = integrate.quad(
            lambda t: t ** chi[2] * math.expm1(t) ** -chi[1], 0, 60, points=[1, 5], limit=400
        )[0]
        return math.log(share * rate)

    assert_allclose(found, total((chi0 + sums[:, 0])[:, 0]) - total(chi0[:, 0]), rtol=1e-6)


def test_evidence_of_angles_is_an_integral_over_their_parameters():
    from partwise.likelihoods.circular import CONCENTRATIONS

    own, x = family("circular"), np.array([0.4, 0.9, 0.7, -0.2])
    sums = own.statistics(x).sum(axis=1)[:, None, None]
    found = Conjugate(own, prior_sums("circular")).evidence(sums).item()

    def given(kappa):
        constant = math.log(2 * math.pi * np.i0(kappa))

        def likelihood(mu):
            return math.exp(sum(kappa * math.cos(a - mu) - constant for a in x)) / (2 * math.pi)

        return integrate.quad(likelihood, -math.pi, math.pi, points=[0.45], limit=200)[0]

    # i0 of larger ones overflows, and they give these entries no probability.
    live = CONCENTRATIONS[CONCENTRATIONS < 500]
    truth = math.log(sum(given(kappa) for kappa in live) / len(CONCENTRATIONS))
    assert_allclose(found, truth, rtol=1e-6)


def test_a_hurdle_is_a_zero_inflated_poisson():
    """Zero with probability p, else Poisson: the hurdle of its shares has the same mass."""
    from scipy import stats

    own, p, rate = family("zero_inflated"), 0.3, 2.5
    share = (1 - p) * -math.expm1(-rate)
    sums = np.array([1.0, share, (1 - p) * rate]) * 1e6
    told = own.point_predictive(sums[:, None, None])
    x = np.arange(12.0)
    mass = np.exp(told.log_density(x[:, None, None]).ravel() + own.base(x))
    assert_allclose(mass, (1 - p) * stats.poisson.pmf(x, rate) + p * (x == 0), rtol=1e-9)


def test_large_counts_are_tabulated_too():
    """Beyond single counts the distribution function is summed by quadrature."""
    from scipy import stats

    own = family("negative_binomial")
    x = stats.nbinom.rvs(4, 4 / 3004, size=3000, random_state=0).astype(float)
    sums = own.statistics(x).sum(axis=1)[:, None, None]
    told = own.point_predictive(sums)
    true = stats.nbinom(4, 4 / (4 + x.mean()))
    at = np.array([300.0, 1000.0, 3000.0, 9000.0])
    assert_allclose(told.cdf(at[:, None, None]).ravel(), true.cdf(at), atol=2e-4)
    for p in (0.1, 0.5, 0.99):
        assert_allclose(told.quantile(p).item(), true.ppf(p), rtol=2e-3)


def test_angles_are_given_in_radians_and_wrapped():
    law = LAWS["circular"]
    assert "deg2rad" in law.check(np.array([0.1, 270.0]))
    assert law.check(np.array([-6.2, 6.28, np.nan])) is None
    assert_allclose(law().encode(np.array([0.5, 0.5 + 2 * np.pi, 0.5 - 2 * np.pi])), 0.5)
    assert_allclose(law.shifts(np.array([0.0, -0.1, np.inf])), [np.pi, 0.0, 0.0])


def test_expected_angles_are_directions():
    """The mean of angles on both sides of the cut is the cut, not its opposite."""
    own = family("circular")
    x = np.array([np.pi - 0.1, -np.pi + 0.1])
    sums = 50 * own.statistics(x)[:, :, None]  # two states
    told = own.predictive(sums)
    found = own.expected(told, lambda v: v.mean(axis=0, keepdims=True), lambda v: v)
    assert_allclose(np.abs(found), np.pi, atol=1e-6)
    # So are those of several fits, here of a column from 0 to 2 pi.
    fits = np.array([0.1, 2 * np.pi - 0.3])[:, None, None]
    assert_allclose(own.joined(fits, np.array([np.pi])), 2 * np.pi - 0.1)
    m, gates, part_of = np.full((2, 1), 0.5), np.ones((1, 1)), np.zeros(2, int)
    low = told.mixture_quantile(m, gates, part_of, np.array([0.05])).item()
    high = told.mixture_quantile(m, gates, part_of, np.array([0.95])).item()
    assert 0.2 < high - low < 1.0
