"""A factor analysis with one part, fitted to rows beside other models of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from partwise.data.columns import Kind
from partwise.data.rows import Rows
from partwise.data.table import Schema
from partwise.fitting.course import fit_parts
from partwise.fitting.factors import Factors, FittedFactors
from partwise.fitting.options import AscentOptions, Listener, PartsOptions, TrainingRows
from partwise.fitting.saved import restored, saved
from partwise.likelihoods import Prior
from partwise.typing import SavedState


@dataclass(frozen=True, eq=False)
class OnePart:
    """A fitted factor analysis, and how it was fitted."""

    family: Factors
    fitted: FittedFactors

    @classmethod
    def fitted_to(
        cls, rows: TrainingRows, n_factors: int, init: str, max_iter: int,
        rng: np.random.Generator, n_jobs: int | None,
    ) -> OnePart:  # fmt: skip
        """Learned from coded rows: of latent numbers, if these are of a table with a schema."""
        family = _family(n_factors, _kinds(rows.schema), init, max_iter, rng, n_jobs)
        return cls(family, fit_parts(family, rows, None, _unheard))

    def continued(self, rows: TrainingRows, max_iter: int) -> OnePart:
        """The same after more EM iterations with these rows."""
        options = self.family.options
        ascent = replace(options.ascent, max_iter=max_iter)
        family = Factors(replace(options, ascent=ascent))
        return OnePart(family, fit_parts(family, rows, None, _unheard, self.fitted))

    @property
    def n_factors(self) -> int:
        """The number of factors."""
        size = self.family.options.size
        assert isinstance(size, int)
        return size

    def state(self) -> dict[str, object]:
        """What a file holds."""
        return saved(self.family, self.fitted)

    @classmethod
    def restored(cls, state: SavedState, n_factors: int) -> OnePart:
        """The same from what `state` gave."""
        schema = state.get("schema")
        kinds = _kinds(None if schema is None else Schema.restore(schema))
        family = _family(n_factors, kinds, "dependence", 1, None, None)
        return cls(family, restored(family, state))


def _kinds(schema: Schema | None) -> str | Sequence[Kind]:
    return "gaussian" if schema is None else schema.kinds


def _family(
    n_factors: int, kinds: str | Sequence[Kind], init: str, max_iter: int,
    rng: np.random.Generator | None, n_jobs: int | None,
) -> Factors:  # fmt: skip
    return Factors(
        PartsOptions(
            n_parts=1,
            size=n_factors,
            likelihood=kinds,
            gating="annealed",
            inference="variational",
            n_classes=None,
            prior=Prior(),
            gate_entropy=0.0,
            absent_zero=False,
            init=init,
            random_state=rng,
            ascent=AscentOptions("MCFA", max_iter=max_iter, n_jobs=n_jobs),
            arguments={},
            calibrated=False,
            usual_prior=True,
        )
    )


@contextmanager
def _unheard(X: Rows) -> Iterator[Listener]:
    """Nobody listens to the fit."""
    yield Listener(lambda n_iter, bound: False, lambda: False, lambda monitor: None)
