"""The class of a row, upon which the states of its parts depend: a component that models take.

======  =========  ========  ===============================================  ==========
symbol  code       shape     meaning                                          equation
======  =========  ========  ===============================================  ==========
beta    log_beta   (N,)      prior of a row's class, expected logarithm       JMLR 4.1
z       z          (N, n)    posterior of the rows' classes                   JMLR 4.2
y       labels     (n,)      known class of each row, -1 where unknown        JMLR 4.3
======  =========  ========  ===============================================  ==========

A model without classes is the model with one. What the class does to the states is the model's own
affair (a table of state priors for MCVQ, Gaussians for MCFA): it hands over how well each class
explains each row and gets z. A known class fixes z, so one fit serves labeled rows, unlabeled
rows, and both together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.contracts import Array
from partwise.likelihoods import Dirichlet

_FLAT = Dirichlet(0.0)


@dataclass(frozen=True)
class ClassVariable:
    """N classes with a Dirichlet prior on their shares."""

    n_classes: int = 1
    prior: Dirichlet = _FLAT

    def posterior(self, evidence: Array, labels: Array | None) -> tuple[Array, Array]:
        """z (N, n) from log beta + log p(row | class), and its log normalizer (n,).

        ``labels`` are known classes (n,), or (n, N) what the rows' neighbors in a sequence say of
        their classes, as logarithms to add (`partwise.models.class_chain`).
        """
        if labels is not None and labels.ndim == 2:
            evidence = evidence + labels.T
        elif labels is not None and self.n_classes > 1:  # parts are learned before their classes
            known = (labels >= 0) & (labels != np.arange(self.n_classes)[:, None])
            evidence = np.where(known, -np.inf, evidence)
        top = evidence.max(axis=0)
        z = np.exp(evidence - top)
        total = z.sum(axis=0)
        return z / total, top + np.log(total)

    def learn(self, counts: Array) -> Array:
        """Expected log prior of the classes from the summed weight of their rows, (N,)."""
        return self.prior.expected_log(counts)

    def cost(self, counts: Array) -> float:
        """What the prior takes off the bound."""
        return self.prior.divergence(counts)
