"""Multi-stage search (Barnes and Frost 1993): feature after feature, a few partial codes kept.

A sum of features is a direct-sum codebook: every feature is a stage, which brings what has been
summed nearer to the row. Undecided features count at the mean of their values, so that each stage
works on what the earlier ones left, as in residual quantization; the longest come first. With one
partial code kept this is sequential search, with J^(K - 1) of them it is exhaustive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.association import kernels
from partwise.association.base import Codes, Problem

# Partial codes kept at every stage.
KEPT = 16


@dataclass(frozen=True)
class MultiStage:
    """Multi-stage association.

    Parameters
    ----------
    kept : int
        Partial codes that are kept at every stage.
    """

    kept: int = KEPT
    most_values: ClassVar[int | None] = None
    most_features: ClassVar[int | None] = None

    def associate(self, problem: Problem) -> Codes:
        """Codes of all rows."""
        K, J = problem.n_groups, problem.n_values
        if K == 0 or problem.n_rows == 0:
            return Codes.single(problem, K)
        lengths = np.einsum("ad,ad->a", problem.features, problem.features)
        stages = np.argsort(-lengths.reshape(K, J - 1).max(axis=1), kind="stable")
        values = kernels.multistage(
            problem.grams, problem.of, problem.linear, stages, J, int(self.kept)
        )
        return Codes.unproven(problem, values)
