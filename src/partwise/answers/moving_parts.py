"""What a fitted model of parts that move on their own says of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from partwise.answers.rows import map_rows
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.fitting.moving_parts import FittedMovingParts
from partwise.models.moving_parts import Assignment, rows_of
from partwise.sampling.importance import RowLikelihood


def _each(
    fitted: FittedMovingParts,
    X: Array,
    function: Callable[[Array, Array, Assignment], Array],
    n_jobs: int | None,
) -> Array:
    """``function`` of the entries, which are seen, and the assignments of every block's rows."""

    def on_block(block: RowBlock) -> Array:
        x, seen = rows_of(block)
        return function(x, seen, fitted.model.begun(fitted.params, x, seen))

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs))


class PartsAnswers:
    """Answers for rows whose parts move on their own; what it lacks is refused by name."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(
            f"{name} is not available for parts that move on their own; "
            'use Translations(by="row"), under which it is.'
        )

    def attributes(self, fitted: FittedMovingParts) -> Mapping[str, object]:
        """Templates, masks and background, in the user's units."""
        params, group = fitted.params, fitted.columns[0]
        shift, scale = float(group.shift[0]), float(group.scale[0])
        return {
            "n_states_": np.full(fitted.model.n_parts, fitted.model.n_states),
            "masks_": params.odds / (1.0 + params.odds),
            "means_": params.mean * scale + shift,
            "variances_": params.var * scale**2,
            "background_": params.back_mean * scale + shift,
            "transformation_priors_": np.exp(params.log_rho),
            "state_priors_": np.exp(params.log_b),
            "canvas_shape_": fitted.model.transformations.canvas_shape,
        }

    def n_outputs(self, fitted: FittedMovingParts) -> int:
        """Columns of `transform`."""
        return fitted.model.n_parts * fitted.model.n_states

    def names_out(self, fitted: FittedMovingParts, names: Sequence[str]) -> list[str]:
        """Their names; ``names`` are those of the parts."""
        return [f"{name}_state{j}" for name in names for j in range(fitted.model.n_states)]

    def shifts(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """Shift of every part, (n, K, 2)."""
        values = fitted.model.transformations.values
        return _each(fitted, X, lambda x, seen, found: values[found.t], n_jobs)

    def predict_states(
        self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None
    ) -> Array:
        """State of every part, (n, K)."""
        return _each(fitted, X, lambda x, seen, found: found.s, n_jobs)

    def transform(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """States as one-hot columns, (n, S)."""
        s = self.predict_states(fitted, X, n_jobs)
        return np.eye(fitted.model.n_states)[s].reshape(len(s), -1).astype(fitted.dtype)

    def reconstruct(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """What is expected of each row given its parts' places, (n, D)."""
        model, params = fitted.model, fitted.params

        def on_rows(x: Array, seen: Array, found: Assignment) -> Array:
            total, Z = np.repeat(params.back_mean[None], len(x), axis=0), np.ones(x.shape)
            for k in range(model.n_parts):
                place = model.maps[found.t[:, k]]
                odds = params.odds[k][place]
                total += odds * params.mean[k][found.s[:, k][:, None], place]
                Z += odds
            return fitted.columns[0].decode(total / Z)

        return _each(fitted, X, on_rows, n_jobs)

    impute = reconstruct

    def likelihoods(
        self, fitted: FittedMovingParts, X: Array, n_draws: int, n_jobs: int | None = None
    ) -> RowLikelihood:
        """Lower bound of the likelihood of rows: that of their best places; fields (1, n)."""
        model, params = fitted.model, fitted.params
        log_scale = float(fitted.columns[0].log_scale[0])

        def on_rows(x: Array, seen: Array, found: Assignment) -> Array:
            bound = model.row_bounds(params, x, seen, found, range(model.n_parts))
            return np.asarray(bound - log_scale * seen.sum(axis=1))

        found = _each(fitted, X, on_rows, n_jobs)[None]
        return RowLikelihood(found, np.zeros_like(found), np.full_like(found, np.inf))

    def class_shares(self, fitted: FittedMovingParts) -> Array:
        """One class."""
        return np.ones(1)
