"""Per-entry densities: sufficient statistics, conjugate priors, predictive distributions.

Every likelihood is an exponential family log p(x | eta) = log h(x) + sum_p T_p(x) eta_p whose
conjugate posterior is told by *pseudo-sums* chi = prior pseudo-sums + data sums, of the same shape
(P, S, D) as the sums themselves. So one M-step, one KL and one gating serve them all.
"""

from partwise.likelihoods.bernoulli import Bernoulli
from partwise.likelihoods.categorical import Categorical
from partwise.likelihoods.gaussian import Gaussian
from partwise.likelihoods.ordinal import Ordinal
from partwise.likelihoods.poisson import Poisson
from partwise.likelihoods.prior import Conjugate, Dirichlet, Flat, Prior

LIKELIHOODS = {
    "gaussian": Gaussian,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "categorical": Categorical,
}

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Categorical",
    "Conjugate",
    "Dirichlet",
    "Flat",
    "Gaussian",
    "Ordinal",
    "Poisson",
    "Prior",
]
