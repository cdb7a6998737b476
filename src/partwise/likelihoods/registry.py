"""All laws. A new one needs its own file, and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from partwise.likelihoods.base import Law
from partwise.likelihoods.bernoulli import Bernoulli
from partwise.likelihoods.categorical import Categorical
from partwise.likelihoods.circular import Circular, Degrees
from partwise.likelihoods.gaussian import Gaussian
from partwise.likelihoods.negative_binomial import NegativeBinomial
from partwise.likelihoods.ordinal import Ordinal
from partwise.likelihoods.poisson import Poisson
from partwise.likelihoods.predictive import PlainValue
from partwise.likelihoods.prior import Prior
from partwise.likelihoods.zero_inflated import ZeroInflated

LAWS: dict[str, type[Law]] = {
    law.name: law
    for law in (
        Gaussian,
        Bernoulli,
        Poisson,
        Categorical,
        Ordinal,
        NegativeBinomial,
        ZeroInflated,
        Circular,
        Degrees,
    )
}

# Levels with an order that a model of states has, whose name in files is that of all levels.
ORDERED = "ordered"


def law_class(name: str) -> type[Law]:
    """The class of a law by name."""
    return Categorical if name == ORDERED else LAWS[name]


def make_law(name: str, prior: Prior | None, n_levels: int = 0) -> Law:
    """A law by name, under a prior, of so many levels if it has any."""
    return (
        Categorical(n_levels, ordered=True) if name == ORDERED else LAWS[name].make(prior, n_levels)
    )


def zero_if_absent(likelihood: object) -> bool:
    """Whether entries that a sparse matrix does not store are zero unless the user says so."""
    return isinstance(likelihood, str) and likelihood in LAWS and LAWS[likelihood].absent_zero


def law_state(law: Law) -> dict[str, PlainValue]:
    """A law as plain values, for a model file; `restore_law` reads them."""
    return {"law": law.name, **law.state()}


def restore_law(state: Mapping[str, PlainValue], prior: Prior | None, n_levels: int) -> Law:
    """What `law_state` describes, under a prior, of so many levels if it has any."""
    return LAWS[str(state["law"])].restore(state, prior, n_levels)
