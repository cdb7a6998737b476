"""What a likelihood offers, stated once.

``chi`` has the statistic on its first axis, (P, ...); the other axes (states, columns) are free,
and every function works entry by entry.
"""

from typing import ClassVar, Protocol

from partwise.contracts import Array
from partwise.likelihoods.predictive import Predictive


class Likelihood(Protocol):
    """An exponential family with its conjugate prior."""

    name: ClassVar[str]

    @property
    def n_statistics(self) -> int:
        """P, the number of sufficient statistics."""
        ...

    @property
    def powers(self) -> bool:
        """Whether T(x) = (1, x, x^2, ...); otherwise T is one-hot over levels."""
        ...

    def pseudo_sums(self, moments: Array, strength: float) -> Array:
        """Prior pseudo-sums (P, D) worth ``strength`` rows at the columns' mean T(x), (P, D)."""
        ...

    def natural(self, chi: Array) -> Array:
        """Posterior mean of the natural parameters, E[eta]."""
        ...

    def log_partition(self, chi: Array) -> Array:
        """Log normaliser of the conjugate density with pseudo-sums ``chi``."""
        ...

    def predictive(self, chi: Array) -> Predictive:
        """Density of a new entry, the parameters integrated out."""
        ...

    def point_natural(self, sums: Array) -> Array:
        """Natural parameters of maximum likelihood."""
        ...

    def point_predictive(self, sums: Array) -> Predictive:
        """Density of a new entry at the maximum of the likelihood."""
        ...
