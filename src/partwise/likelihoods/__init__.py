"""Per-entry densities: sufficient statistics, conjugate priors, predictive distributions.

Every likelihood is an exponential family log p(x | eta) = log h(x) + sum_p T_p(x) eta_p whose
conjugate posterior is given by *pseudo-sums* chi = prior pseudo-sums + data sums, of the same shape
(P, S, D) as the sums themselves. So one M-step, one KL and one gating serve them all.
"""

from partwise.likelihoods.base import Family, Law
from partwise.likelihoods.bernoulli import Bernoulli
from partwise.likelihoods.categorical import Categorical
from partwise.likelihoods.gaussian import Gaussian
from partwise.likelihoods.ordinal import Ordinal
from partwise.likelihoods.poisson import Poisson
from partwise.likelihoods.prior import Conjugate, Dirichlet, Flat, Prior
from partwise.likelihoods.registry import (
    LAWS,
    ORDERED,
    law_class,
    law_state,
    make_law,
    restore_law,
    zero_if_absent,
)

__all__ = [
    "LAWS",
    "ORDERED",
    "Bernoulli",
    "Categorical",
    "Conjugate",
    "Dirichlet",
    "Family",
    "Flat",
    "Gaussian",
    "Law",
    "Ordinal",
    "Poisson",
    "Prior",
    "law_class",
    "law_state",
    "make_law",
    "restore_law",
    "zero_if_absent",
]
