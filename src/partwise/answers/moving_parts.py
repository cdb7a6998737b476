"""What a fitted model of parts that move on their own says of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from partwise.answers.rows import likelihood_of_rows, map_rows, score_cells, telling
from partwise.answers.states import states_in_range
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.fitting.moving_parts import FittedMovingParts
from partwise.models.moving_parts import Assignment, PartRows, rows_of
from partwise.models.predict_parts import Components, class_bounds, components, posteriors
from partwise.sampling.importance import RowLikelihood
from partwise.starts.congeal import on_canvas
from partwise.typing import Value


def _each(
    fitted: FittedMovingParts,
    X: Array,
    function: Callable[[PartRows, Assignment], Array],
    n_jobs: int | None,
) -> Array:
    """``function`` of the rows of every block, and of their assignments."""

    def on_block(block: RowBlock) -> Array:
        rows = rows_of(block)
        return function(rows, fitted.model.begun(fitted.params, rows))

    return np.concatenate(map_rows(fitted.columns, X, on_block, n_jobs))


def _components(fitted: FittedMovingParts, found: Assignment) -> Components:
    return components(fitted.model, fitted.params, found)


def _log_scale(fitted: FittedMovingParts) -> float:
    return float(fitted.columns[0].log_scale[0])


class PartsAnswers:
    """Answers for rows whose parts move on their own; what it lacks is refused by name."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:  # type: ignore[explicit-any]  # whatever was asked
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(
            f"{name} is not available for parts that move on their own; "
            'use Translations(by="row"), under which it is.'
        )

    # --- what was learned ---

    def attributes(self, fitted: FittedMovingParts) -> Mapping[str, object]:
        """Templates, masks and background, in the user's units."""
        params, group = fitted.params, fitted.columns[0]
        shift, scale = float(group.shift[0]), float(group.scale[0])
        priors, out = np.exp(params.log_b), {}
        if fitted.classes is not None:
            out["class_priors_"] = self.class_shares(fitted)
        return {
            "n_states_": np.full(fitted.model.n_parts, fitted.model.n_states),
            "masks_": params.odds / (1.0 + params.odds),
            "means_": params.mean * scale + shift,
            "variances_": params.var * scale**2,
            "background_": params.back_mean * scale + shift,
            "transformation_priors_": np.exp(params.log_rho),
            "state_priors_": priors[0] if fitted.classes is None else priors,
            "canvas_shape_": fitted.model.transformations.canvas_shape,
            **out,
        }

    def n_outputs(self, fitted: FittedMovingParts) -> int:
        """Columns of `transform`."""
        return fitted.model.n_parts * fitted.model.n_states

    def names_out(self, fitted: FittedMovingParts, names: Sequence[str]) -> list[str]:
        """Their names; ``names`` are those of the parts."""
        return [f"{name}_state{j}" for name in names for j in range(fitted.model.n_states)]

    def n_parameters(self, fitted: FittedMovingParts) -> float:
        """Masks, means and variances of the templates, priors, and the background."""
        (K, T), (N, _, J) = fitted.params.log_rho.shape, fitted.params.log_b.shape
        pixels = int((fitted.params.odds > 0).sum())
        priors = K * (T - 1) + N * K * (J - 1) + N - 1
        return float(pixels * (1 + 2 * J) + priors + 2 * fitted.n_columns + 1)

    def class_shares(self, fitted: FittedMovingParts) -> Array:
        """Shares of the classes, (N,)."""
        return np.exp(fitted.params.log_beta)

    # --- rows ---

    def shifts(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """Shift of every part, (n, K, 2)."""
        values = fitted.model.transformations.values
        return _each(fitted, X, lambda rows, found: values[found.t], n_jobs)

    def shift_proba(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """Posterior of every part's shift given the other parts, (n, K, T)."""

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            own = posteriors(fitted.model, fitted.params, rows, found)
            return np.stack([q.sum(axis=2) for q in own], axis=1)

        return _each(fitted, X, on_rows, n_jobs)

    def aligned(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """Rows on the canvas of every part, NaN where nothing was seen; (n, K, D_c)."""
        model = fitted.model
        t = _each(fitted, X, lambda rows, found: found.t, n_jobs)
        n_canvas = model.transformations.n_canvas
        views = [on_canvas(X, model.maps[t[:, k]], n_canvas) for k in range(model.n_parts)]
        return np.stack(views, axis=1)

    def transform(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """Posterior of every part's state given the other parts, (n, S)."""

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            own = posteriors(fitted.model, fitted.params, rows, found)
            return np.concatenate([q.sum(axis=1) for q in own], axis=1)

        return _each(fitted, X, on_rows, n_jobs).astype(fitted.dtype)

    def predict_states(
        self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None
    ) -> Array:
        """State of every part, (n, K)."""
        m = self.transform(fitted, X, n_jobs)
        return m.reshape(len(m), fitted.model.n_parts, -1).argmax(axis=2)

    def reconstruct(self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None) -> Array:
        """What is expected of each row given its parts' places, (n, D)."""

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            return fitted.columns[0].decode(_components(fitted, found).expected)

        return _each(fitted, X, on_rows, n_jobs)

    impute = reconstruct

    def interval(
        self, fitted: FittedMovingParts, X: Array, tail: float, n_jobs: int | None = None
    ) -> tuple[Array, Array]:
        """Ends of the intervals given the parts' places, (n, D) each; not calibrated."""

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            own, group = _components(fitted, found), fitted.columns[0]
            return np.stack([group.decode(own.quantile(p)) for p in (tail, 1.0 - tail)], axis=1)

        ends = _each(fitted, X, on_rows, n_jobs)
        return ends[:, 0], ends[:, 1]

    # --- densities ---

    def likelihoods(
        self, fitted: FittedMovingParts, X: Array, n_draws: int, n_jobs: int | None = None
    ) -> RowLikelihood:
        """Lower bound of the rows' likelihood in every class, that of their best places; (N, n)."""
        model, params = fitted.model, fitted.params

        def on_block(block: RowBlock) -> RowLikelihood:
            rows = rows_of(block)
            bound = class_bounds(model, params, rows, model.begun(params, rows))
            bound -= _log_scale(fitted) * rows.seen.sum(axis=1)
            return RowLikelihood(bound, np.zeros_like(bound), np.full_like(bound, np.inf))

        return likelihood_of_rows(fitted.columns, X, on_block, n_jobs)

    def score_cells(
        self,
        fitted: FittedMovingParts,
        X: Array,
        cells: tuple[Array, Array, Array],
        n_jobs: int | None = None,
    ) -> Array:
        """Log predictive density of cells (rows, columns, values), in the units of X."""
        model, params = fitted.model, fitted.params

        def densities(block: RowBlock, g: int, row: Array, column: Array, value: Array) -> Array:
            own = _components(fitted, model.begun(params, rows_of(block)))
            at = np.s_[:, row, column]
            return Components(*(field[at][:, None] for field in own)).log_density(value)[0]

        return score_cells(fitted.columns, X, cells, densities, n_jobs)

    def anomaly_scores(
        self, fitted: FittedMovingParts, X: Array, n_jobs: int | None = None
    ) -> Array:
        """Minus the log-likelihood of the entries, each shared by the parts' masks; (n, K)."""

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            own = _components(fitted, found)
            density = (own.log_density(rows.x) - _log_scale(fitted)) * rows.seen
            return -np.einsum("knd,nd->nk", own.of_parts, density)

        return _each(fitted, X, on_rows, n_jobs)

    # --- one row, and new rows ---

    def explain(
        self,
        fitted: FittedMovingParts,
        row: Array,
        n_columns: int,
        n_jobs: int | None = None,
        given: Mapping[str, Value] | None = None,
    ) -> list[dict[str, object]]:
        """Explanation of one row (1, D): where each part is, and the pixels that support it.

        ``given``, values as the user gave them, is empty for images.
        """
        model, params, group = fitted.model, fitted.params, fitted.columns[0]
        scores = self.anomaly_scores(fitted, row, n_jobs)[0]
        out: list[dict[str, object]] = []

        def on_rows(rows: PartRows, found: Assignment) -> Array:
            parts = range(model.n_parts)
            total, Z = model.explained(params, rows.x, found, parts)
            for k, q in enumerate(posteriors(model, params, rows, found)):
                t, s = int(found.t[0, k]), int(found.s[0, k])
                rest, less = model.explained(params, rows.x, found, [j for j in parts if j != k])
                evidence = ((total - np.log(Z)) - (rest - np.log(less)))[0]
                own = np.flatnonzero((params.odds[k][model.maps[t]] > 0) & (rows.seen[0] > 0))
                expected = group.decode(params.mean[k][s][model.maps[t]][None])[0]
                out.append(
                    {
                        "part": k,
                        "state": s,
                        "probability": float(q[0, :, s].sum()),
                        "transformation": [float(v) for v in model.transformations.values[t]],
                        "transformation_probability": float(q[0, t].sum()),
                        "log_likelihood": -float(scores[k]),
                        "columns": telling(
                            fitted, row, own, expected[own], evidence[own], n_columns
                        ),
                    }
                )
            return found.t

        _each(fitted, row, on_rows, 1)
        return out

    def draw_states(
        self, fitted: FittedMovingParts, sources: Array, rng: np.random.Generator
    ) -> Array:
        """States (n, K), each from its prior in a class, which ``sources`` (n, K) has."""
        above = np.cumsum(np.exp(fitted.params.log_b), axis=2)[..., :-1]
        own = above[sources, np.arange(fitted.model.n_parts)]  # (n, K, J - 1)
        return np.asarray((own <= rng.random((*sources.shape, 1))).sum(axis=2))

    def checked_states(self, fitted: FittedMovingParts, states: ArrayLike, n_samples: int) -> Array:
        """States that there are."""
        return states_in_range(states, n_samples, [fitted.model.n_states] * fitted.model.n_parts)

    def draw_rows(
        self, fitted: FittedMovingParts, states: Array, rng: np.random.Generator
    ) -> Array:
        """Rows (n, D) of checked states, each part under a shift sampled from its prior."""
        shares, n = np.exp(fitted.params.log_rho), len(states)
        t = np.stack([rng.choice(len(own), n, p=own / own.sum()) for own in shares], axis=1)
        drawn = _components(fitted, Assignment(t, states)).draw(rng)
        return fitted.columns[0].decode(drawn).astype(fitted.dtype, copy=False)
