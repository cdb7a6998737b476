"""What a fitted model says of rows that have undergone unknown transformations.

Given a transformation a row is a row of the canvas, for which the model of the canvas answers;
answers are averages over the posterior of the transformations. `MovedAnswers` has the functions of
the module that answers for the canvas, by the same names, and those that only such rows need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import TypeAlias, cast

import numpy as np

from partwise.answers import tables
from partwise.answers.rows import score_cells
from partwise.contracts import Array
from partwise.data.moved import MovableBlock, MovingSource
from partwise.fitted import AnyFitted, AnyParts, Fitted
from partwise.models.moving import Moving, MovingParams, MovingPrepared, likely
from partwise.models.transformations import Transformations
from partwise.runners import runner_of
from partwise.sampling.importance import RowLikelihood
from partwise.starts.congeal import on_canvas
from partwise.typing import Value

FittedMoving: TypeAlias = Fitted[Moving, MovingParams, MovingPrepared]


def is_moving(fitted: AnyFitted) -> bool:
    """Whether rows have undergone unknown transformations."""
    return isinstance(fitted.model, Moving)


def plain(fitted: FittedMoving) -> AnyParts:
    """The model of the canvas."""
    canvas: AnyParts = cast(AnyParts, fitted)
    model, params = fitted.model.canvas.in_place(), fitted.params.canvas
    return replace(canvas, model=model, params=params, n_columns=model.n_columns, names=None)


def transformations(fitted: FittedMoving) -> Transformations:
    """Those that rows may have undergone."""
    return fitted.model.transformations


def shares(fitted: FittedMoving) -> Array:
    """Posterior mean of the prior of the transformations, (T,)."""
    return fitted.model.prior.mean(fitted.params.counts)


def _source(fitted: FittedMoving, X: Array, max_rows: int | None = None) -> MovingSource:
    of = fitted.columns, np.ones(len(X)), fitted.model.maps
    return MovingSource(X, *of, keep=False, max_rows=max_rows)


def by_block(
    fitted: FittedMoving,
    X: Array,
    on_block: Callable[[MovableBlock, Array], Array],
    n_jobs: int | None = None,
) -> Array:
    """``on_block(block, q)`` of every block of rows, one below the other; q is (T, n)."""
    model, prepared = fitted.model, fitted.prepared

    def with_posterior(block: MovableBlock) -> Array:
        return on_block(block, model.posterior(prepared, block)[0])

    source = _source(fitted, X)
    with runner_of(n_jobs, source) as runner:
        return np.concatenate(list(runner.map(with_posterior, source)))


def posterior(fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
    """Posterior of the transformations, (n, T)."""
    return by_block(fitted, X, lambda block, q: q.T, n_jobs)


def best(fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
    """Number of each row's most probable transformation, (n,)."""
    return by_block(fitted, X, lambda block, q: q.argmax(axis=0), n_jobs)


def placed(fitted: FittedMoving, X: Array, t: Array) -> Array:
    """Rows on the canvas under transformations t (n,), NaN where nothing was seen."""
    return on_canvas(X, fitted.model.maps[t], fitted.model.canvas.n_columns)


def draw(
    fitted: FittedMoving,
    X: Array,
    generators: Sequence[np.random.Generator],
    n_jobs: int | None = None,
) -> Iterator[Array]:
    """Rows with missing values sampled given the observed ones, once per generator.

    The transformation of a row is sampled from its posterior, then states and values under it.
    """
    above, canvas = np.cumsum(posterior(fitted, X, n_jobs), axis=1, dtype=float), plain(fitted)
    for rng in generators:
        u = rng.random((len(X), 1)) * above[:, -1:]
        t = np.minimum((above <= u).sum(axis=1), above.shape[1] - 1)
        (rows,) = tables.draw(canvas, placed(fitted, X, t), [rng], n_jobs)
        yield np.take_along_axis(rows, fitted.model.maps[t], axis=1)


@dataclass(frozen=True)
class MovedAnswers:
    """Answers for rows, from those for rows of the canvas (``core``, a module)."""

    core: ModuleType

    # --- what was learned: of the canvas ---

    def attributes(self, fitted: FittedMoving) -> dict[str, object]:
        """Learned attributes of the estimator, by name."""
        own = {"transformation_priors_": shares(fitted), "canvas_shape_": self._shape(fitted)}
        return {**self.core.attributes(plain(fitted)), **own}

    def _shape(self, fitted: FittedMoving) -> tuple[int, ...]:
        return transformations(fitted).canvas_shape

    def n_outputs(self, fitted: FittedMoving) -> int:
        """Columns of `transform`."""
        return int(self.core.n_outputs(plain(fitted)))

    def names_out(self, fitted: FittedMoving, names: Sequence[str]) -> list[str]:
        """Their names; ``names`` are those of the parts."""
        found: list[str] = self.core.names_out(plain(fitted), names)
        return found

    def n_parameters(self, fitted: FittedMoving) -> float:
        """Those of the canvas and of the prior of the transformations."""
        return float(self.core.n_parameters(plain(fitted))) + len(fitted.model.maps) - 1

    def class_shares(self, fitted: FittedMoving) -> Array:
        """Posterior mean of the classes' shares, (N,)."""
        return np.asarray(self.core.class_shares(plain(fitted)))

    # --- rows ---

    def shifts(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Most probable transformation of every row, (n, q)."""
        return transformations(fitted).values[best(fitted, X, n_jobs)]

    def shift_proba(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Posterior of the transformations, (n, T)."""
        return posterior(fitted, X, n_jobs)

    def aligned(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Rows on the canvas under their most probable transformations."""
        return placed(fitted, X, best(fitted, X, n_jobs))

    def _averaged(
        self,
        fitted: FittedMoving,
        X: Array,
        function: Callable[[Array, Array], Array],
        n_jobs: int | None,
    ) -> Array:
        """Average over transformations of ``function(m, place)``, of posteriors m (n, S)."""
        model, prepared = fitted.model, fitted.prepared

        def on_block(block: MovableBlock, q: Array) -> Array:
            total = None
            for t, rows in likely(q):
                m = model.canvas.infer(prepared.canvas, block.moved(t, rows))[0].T
                found = function(m, model.maps[t])
                total = np.zeros((block.n_rows, found.shape[1])) if total is None else total
                total[rows] += q[t, rows, None] * found
            assert total is not None
            return total

        return by_block(fitted, X, on_block, n_jobs).astype(fitted.dtype, copy=False)

    def posteriors(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Posterior of every state, background included; (n, S)."""
        return self._averaged(fitted, X, lambda m, place: m, n_jobs)

    def transform(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Posterior of every state, (n, S), or posterior mean of every factor."""
        found = self.posteriors(fitted, X, n_jobs)
        return np.asarray(self.core.outputs_of(plain(fitted), found))

    def predict_states(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Most probable state of each part, (n, K)."""
        found = self.posteriors(fitted, X, n_jobs)
        return np.asarray(self.core.states_of(plain(fitted), found))

    def inverse_transform(self, fitted: FittedMoving, m: Array) -> Array:
        """Expected rows of the canvas given posteriors (n, S)."""
        return np.asarray(self.core.inverse_transform(plain(fitted), m))

    def reconstruct(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """What is expected of each row, (n, D)."""
        canvas = plain(fitted)
        return self._averaged(
            fitted, X, lambda m, place: self.core.expected_rows(canvas, m)[:, place], n_jobs
        )

    def impute(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Imputed value of every entry, (n, D)."""
        found = self.reconstruct(fitted, X, n_jobs)
        yes_or_no = fitted.columns[0].known_levels is not None
        return np.rint(found) if yes_or_no else found

    def interval(
        self, fitted: FittedMoving, X: Array, tail: float, n_jobs: int | None = None
    ) -> tuple[Array, Array]:
        """Ends of the intervals under the most probable transformation, (n, D) each."""
        t = best(fitted, X, n_jobs)
        ends = self.core.interval(plain(fitted), placed(fitted, X, t), tail, n_jobs)
        lower, upper = (np.take_along_axis(end, fitted.model.maps[t], axis=1) for end in ends)
        return lower, upper

    # --- densities ---

    def likelihoods(
        self, fitted: FittedMoving, X: Array, n_draws: int, n_jobs: int | None = None
    ) -> RowLikelihood:
        """Likelihood of rows under every class, transformations summed out; fields (N, n)."""
        on_moved, max_rows = self.core.block_likelihoods(plain(fitted), n_draws)
        log_shares = np.log(shares(fitted))

        def on_block(block: MovableBlock) -> RowLikelihood:
            found = [on_moved(block.moved(t)) for t in range(len(log_shares))]
            log_p = np.stack([one.log_likelihood for one in found]) + log_shares[:, None, None]
            total = np.logaddexp.reduce(log_p, axis=0)
            # Errors are relative to the likelihood, of which each transformation has a share.
            errors = np.exp(log_p - total) * np.stack([one.standard_error for one in found])
            draws = np.min([one.effective_draws for one in found], axis=0)
            return RowLikelihood(total, np.sqrt(np.sum(errors**2, axis=0)), draws)

        source = _source(fitted, X, max_rows)
        with runner_of(n_jobs, source) as runner:
            fields = zip(*runner.map(on_block, source), strict=True)
            return RowLikelihood(*(np.concatenate(field, axis=1) for field in fields))

    def score_cells(
        self,
        fitted: FittedMoving,
        X: Array,
        cells: tuple[Array, Array, Array],
        n_jobs: int | None = None,
    ) -> Array:
        """Log predictive density of cells (rows, columns, values), in the units of X."""
        q, canvas = posterior(fitted, X, n_jobs).T, plain(fitted)
        row, column, value = (np.asarray(field) for field in cells)
        out = np.full(len(row), -np.inf)
        densities = partial(self.core.cell_densities, canvas)
        for t, rows in likely(q):
            asked = np.flatnonzero(np.isin(row, rows))
            if not len(asked):
                continue
            Y = placed(fitted, X[rows], np.full(len(rows), t))
            own = np.searchsorted(rows, row[asked])
            places = own, fitted.model.maps[t][column[asked]], value[asked]
            found = score_cells(canvas.columns, Y, places, densities, n_jobs)
            out[asked] = np.logaddexp(out[asked], found + np.log(q[t, row[asked]]))
        return out

    def anomaly_scores(self, fitted: FittedMoving, X: Array, n_jobs: int | None = None) -> Array:
        """Minus the log-likelihood of each part's entries, averaged; (n, K)."""
        q, canvas, out = posterior(fitted, X, n_jobs).T, plain(fitted), None
        for t, rows in likely(q):
            Y = placed(fitted, X[rows], np.full(len(rows), t))
            found = self.core.anomaly_scores(canvas, Y, n_jobs)
            out = np.zeros((len(X), found.shape[1])) if out is None else out
            out[rows] += q[t, rows, None] * found
        assert out is not None
        return out

    # --- one row, and new rows ---

    def explain(
        self,
        fitted: FittedMoving,
        row: Array,
        n_columns: int,
        n_jobs: int | None = None,
        given: Mapping[str, Value] | None = None,
    ) -> list[dict[str, object]]:
        """Explanation of one row (1, D) under its most probable transformation, part by part.

        ``given``, values as the user gave them, is empty for images.
        """
        q = posterior(fitted, row, n_jobs)[0]
        t = int(q.argmax())
        found: list[dict[str, object]] = self.core.explain(
            plain(fitted), placed(fitted, row, np.array([t])), n_columns, n_jobs
        )
        canvas = plain(fitted)
        shown = {canvas.column_name(place): d for d, place in enumerate(fitted.model.maps[t])}
        value = transformations(fitted).values[t]
        for part in found:
            part["transformation"] = [float(number) for number in value]
            part["transformation_probability"] = float(q[t])
            for column in part["columns"]:  # type: ignore[attr-defined]  # a list of dicts
                column["column"] = fitted.column_name(shown[column["column"]])
        return found

    def draw_states(self, fitted: FittedMoving, sources: Array, rng: np.random.Generator) -> Array:
        """States from their priors."""
        return np.asarray(self.core.draw_states(plain(fitted), sources, rng))

    def checked_states(self, fitted: FittedMoving, states: object, n_samples: int) -> Array:
        """States that there are."""
        return np.asarray(self.core.checked_states(plain(fitted), states, n_samples))

    def draw_rows(self, fitted: FittedMoving, states: Array, rng: np.random.Generator) -> Array:
        """Rows (n, D) of checked states, each under a transformation sampled from the prior."""
        rows = self.core.draw_rows(plain(fitted), states, rng)
        t = rng.choice(len(fitted.model.maps), size=len(rows), p=shares(fitted))
        return np.take_along_axis(rows, fitted.model.maps[t], axis=1)
