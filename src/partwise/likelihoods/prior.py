"""Priors as parts: conjugate or flat, for entries and (`Dirichlet`) for choices.

A model asks its prior three things: the posterior from sums, its expected natural parameters, and
what the posterior costs (its divergence from the prior). Maximum likelihood is the flat answer to
the same three, so no model knows which of the two it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import special

from partwise.contracts import Array
from partwise.likelihoods.base import Family
from partwise.likelihoods.predictive import Predictive

# Least strength of a prior: counts far below have no Gamma function in floating point.
WEAKEST = 1e-30


@dataclass(frozen=True)
class Prior:
    """Strengths of the conjugate priors, in rows of pseudo-data.

    Parameters
    ----------
    entries : float, default=0.02
        Gaussian: how many rows the column's own mean weighs in every state.
    counts : float, default=1.0
        Discrete columns: how many rows (per level) the column's own shares or mean weigh in every
        state.
    spread : float, default=0.03
        Gaussian only: prior guess of a state's variance, in units of the column's variance.
    shape : float, default=2.0
        Gaussian only: how many rows that guess weighs.
    resolution : float, default=0.0
        Gaussian only: variance to within which an entry is known, in units of the column's
        variance. Above 0, states of equal rows do not compete in how equal they are: without
        noise, few states of many rows would otherwise have more evidence than the states that made
        the data.
    states : float, default=1.0
        Dirichlet count of every state of a part; with a class variable it is shared by the states
        of a part in every class.
    gates : float, default=1.0
        Dirichlet count of every part of a column.

    Examples
    --------
    >>> from partwise.likelihoods import Prior
    >>> Prior(states=0.1).states
    0.1
    """

    entries: float = 0.02
    counts: float = 1.0
    spread: float = 0.03
    shape: float = 2.0
    resolution: float = 0.0
    states: float = 1.0
    gates: float = 1.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0 or (value == 0 and name != "resolution"):
                raise ValueError(f"Prior({name}={value!r}): must be a positive number.")
            if value and not WEAKEST <= value <= 1.0 / WEAKEST:
                raise ValueError(
                    f"Prior({name}={value!r}): must be between {WEAKEST:g} and {1 / WEAKEST:g}."
                )


class EntryPrior(Protocol):
    """How sums become parameters of one column group."""

    @property
    def likelihood(self) -> Family:
        """The entries' likelihood."""
        ...

    def take(self, columns: Array) -> EntryPrior:
        """The prior of some of the columns."""
        ...

    def posterior(self, sums: Array) -> Array:
        """Parameters (P, S, D) from sums of that shape."""
        ...

    def sums(self, chi: Array) -> Array:
        """Sums that give parameters (P, S, D)."""
        ...

    def learned(self, chi: Array) -> tuple[Array, Array]:
        """Natural parameters to score with (P, S, D), and KL from the prior, (S, D)."""
        ...

    def evidence(self, sums: Array) -> Array:
        """Log probability of entries with these sums (P, S, D) of statistics; (S, D)."""
        ...

    def predictive(self, chi: Array) -> Predictive:
        """Distribution of a new entry."""
        ...


@dataclass(frozen=True, eq=False)
class Conjugate:
    """Posterior = prior pseudo-sums + sums; ``chi0`` is (P, D), ``log_z0`` its log Z, if known."""

    likelihood: Family
    chi0: Array
    log_z0: Array | None = None

    def take(self, columns: Array) -> Conjugate:
        """The prior of some of the columns."""
        return Conjugate(self.likelihood, self.chi0[:, columns], self._log_partition[columns])

    @cached_property
    def _log_partition(self) -> Array:
        """Log Z(chi0), (D,)."""
        known = self.log_z0
        return self.likelihood.log_partition(self.chi0) if known is None else known

    def posterior(self, sums: Array) -> Array:
        """Pseudo-sums of the posterior."""
        return self.chi0[:, None, :] + sums

    def sums(self, chi: Array) -> Array:
        """The posterior's pseudo-sums less the prior's."""
        return chi - self.chi0[:, None, :]

    def learned(self, chi: Array) -> tuple[Array, Array]:
        """E_q[eta], and KL(q || p) = E_q[eta] . (chi - chi0) - log Z(chi) + log Z(chi0)."""
        if chi.size == 0:
            return chi, np.zeros(chi.shape[1:])
        natural, log_z = self.likelihood.learned(chi)
        gain = np.einsum("psd,psd->sd", natural, chi - self.chi0[:, None, :])
        return natural, gain - log_z + self._log_partition

    def evidence(self, sums: Array) -> Array:
        """Log probability of entries with these sums (P, S, D), but for their base measure; (S, D).

        The parameters are integrated out.
        """
        return self.likelihood.log_partition(self.posterior(sums)) - self._log_partition

    def predictive(self, chi: Array) -> Predictive:
        """New entry with the parameters integrated out."""
        return self.likelihood.predictive(chi)


@dataclass(frozen=True, eq=False)
class Flat:
    """Maximum likelihood: the parameters are the sums themselves."""

    likelihood: Family

    def take(self, columns: Array) -> Flat:
        """The same for every column."""
        return self

    def posterior(self, sums: Array) -> Array:
        """The sums."""
        return sums

    def sums(self, chi: Array) -> Array:
        """The parameters."""
        return chi

    def natural(self, chi: Array) -> Array:
        """Natural parameters at the maximum."""
        return self.likelihood.point_natural(chi)

    def learned(self, chi: Array) -> tuple[Array, Array]:
        """Natural parameters at the maximum; there is no prior to differ from."""
        return self.natural(chi), np.zeros(chi.shape[1:])

    def evidence(self, sums: Array) -> Array:
        """Log-likelihood at its maximum."""
        return np.einsum("psd,psd->sd", self.natural(sums), sums)

    def predictive(self, chi: Array) -> Predictive:
        """New entry at the maximum."""
        return self.likelihood.point_predictive(chi)


@dataclass(frozen=True)
class Dirichlet:
    """Prior of a choice (of a state, of a part); ``concentration`` 0 is maximum likelihood.

    Counts have the choices on their first axis.
    """

    concentration: float

    def expected_log(self, counts: Array) -> Array:
        """E[log p] under the posterior; log shares at maximum likelihood."""
        if self.concentration > 0:
            a = counts + self.concentration
            return special.digamma(a) - special.digamma(a.sum(axis=0))
        # A choice that nothing takes keeps a probability of 1e-300 instead of none, so that no
        # product meets infinity.
        share = counts / np.maximum(counts.sum(axis=0), np.finfo(float).tiny)
        return np.log(np.maximum(share, 1e-300))

    def mean(self, counts: Array) -> Array:
        """Posterior mean of the probabilities."""
        a = counts + max(self.concentration, np.finfo(float).tiny)
        return a / a.sum(axis=0)

    def evidence(self, counts: Array) -> float:
        """Log probability of choices with these counts (J,), their probabilities integrated out."""
        c, J = self.concentration, len(counts)
        chosen = special.gammaln(counts + c).sum() - J * special.gammaln(c)
        return float(chosen - special.gammaln(counts.sum() + J * c) + special.gammaln(J * c))

    def divergence(self, counts: Array) -> float:
        """KL of the posterior from the prior, summed over all but the first axis."""
        if self.concentration <= 0:
            return 0.0
        a = counts + self.concentration
        n = len(a)
        kl = special.gammaln(a.sum(axis=0)) - special.gammaln(a).sum(axis=0)
        kl = kl - special.gammaln(n * self.concentration)
        kl = kl + n * special.gammaln(self.concentration)
        return float(np.sum(kl + (counts * self.expected_log(counts)).sum(axis=0)))
