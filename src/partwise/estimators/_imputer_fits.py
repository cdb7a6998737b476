"""Fits of `PartsImputer`: sizes that suffice, several fits, and their blend with factors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from partwise.data import RowSource
from partwise.data.kinds import MAX_ANSWERS
from partwise.data.rows import Rows
from partwise.data.table import Likelihood
from partwise.estimators._gated import fit_coded, training_rows
from partwise.estimators._residual import copies_of
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of
from partwise.fitting.factor_blend import (
    MORE_ITERATIONS,
    MOST_COMPARED_ROWS,
    Answers,
    Blend,
)
from partwise.fitting.held_out import hidden_cells
from partwise.fitting.options import SizeOptions, TrainingRows
from partwise.fitting.residual import Regressor
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Likelihoods, Seed

# Sizes and EM iterations that impute about as well as selected sizes in a tenth of the time, chosen
# on the tables `CHOSEN_ON` of the benchmark `tables_rivals`.
QUICK_PARTS, QUICK_STATES, QUICK_ITERATIONS = 2, 16, 4

# More parts are tried with fewer states, if each has so many columns on average.
FEWER_STATES = 8
LEAST_COLUMNS = 3


class Learned(NamedTuple):
    """Models whose predictions are averaged, how others are blended with them, and the answers.

    The answers are for rows that the last step has asked for, if any.
    """

    models: list[MCVQ]
    blend: Blend | None
    answers: Answers | None


@dataclass(frozen=True)
class ImputerFits:
    """Arguments of an imputer, and the fits that follow from them."""

    n_parts: int | str
    n_states: int | str | Sequence[int]
    sizes: SizeOptions | None
    likelihood: Likelihoods
    n_factors: int
    copula: bool
    loss: str
    residual: Regressor | None
    n_fits: int
    n_jobs: int | None

    def check(self) -> None:
        """Raise an error for arguments that are wrong."""
        for name, least in (("n_factors", 0), ("n_fits", 1)):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < least:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} must be a whole number of at least {least}."
                )
        if not isinstance(self.copula, bool | np.bool_):
            raise ValueError(f"copula={self.copula!r} must be True or False.")
        if self.loss not in ("squared", "absolute"):
            raise ValueError(f"loss={self.loss!r} must be 'squared' or 'absolute'.")
        if self.residual is not None and self.n_factors == 0:
            raise ValueError("residual needs n_factors of at least 1; raise n_factors.")
        if self.residual is not None and not (
            hasattr(self.residual, "__sklearn_tags__") and is_regressor(self.residual)
        ):
            raise ValueError(
                f"residual={self.residual!r} must be a scikit-learn regressor, or None."
            )

    def learn(self, X: DataLike, sample_weight: ArrayLike | None, seed: Seed) -> Learned:
        """All that is learned from rows, once the arguments are checked."""
        self.check()
        first = self.model(self.n_parts, self.n_states, seed)
        rows = self._as_numbers(training_rows(first, X, sample_weight))
        rng, *others = later_generator(seed).spawn(self.n_fits)
        with warnings.catch_warnings():
            if self._is_quick:
                warnings.simplefilter("ignore", ConvergenceWarning)  # few EM iterations suffice
            return self._learn(self._sized(first, rows), rows, rng, others)

    def _as_numbers(self, rows: TrainingRows) -> TrainingRows:
        """The rows with angles, and numbers of many values, as numbers, not as rare levels."""
        if rows.schema is None:
            return rows
        asked = cast("Likelihood", self.likelihood)
        rows = replace(rows, schema=rows.schema.without_angles(asked))
        assert rows.schema is not None
        schema, rescaled = rows.schema.without_many_levels(asked, MAX_ANSWERS)
        if schema is rows.schema:
            return rows
        if isinstance(rows.X, RowSource):
            width = rows.X.shape[1]
            X: Rows = rows.X.mapped(lambda some: rescaled(np.asarray(some)), width)
            return replace(rows, X=X, schema=schema)
        coded = rescaled(np.asarray(rows.X))
        return replace(rows, X=coded, schema=schema.with_twins(coded))

    @property
    def _is_quick(self) -> bool:
        """Whether some sizes are neither given nor to be selected."""
        return "auto" in (self.n_parts, self.n_states) and self.sizes is None

    def _learn(
        self,
        first: MCVQ,
        rows: TrainingRows,
        rng: np.random.Generator,
        others: Sequence[np.random.Generator],
    ) -> Learned:
        """Fit all models; where rows are few, without the cells on which they are compared."""
        if isinstance(rows.X, RowSource) and rows.X.shape[0] <= MOST_COMPARED_ROWS:
            rows = replace(rows, X=rows.X[0 : rows.X.shape[0]])  # as rows given in memory
        blends = self.n_factors > 0 and not sparse.issparse(rows.X)
        hides = blends and isinstance(rows.X, np.ndarray) and len(rows.X) <= MOST_COMPARED_ROWS
        hidden, shown = None, rows
        if hides:
            complete = np.asarray(rows.X)
            hidden = hidden_cells(complete, rng)
            shown = replace(rows, X=np.where(hidden, np.nan, complete))
        weights = [rows.weight]
        weights += [rows.weight * rng.exponential(size=len(rows.kept))[rows.kept] for rng in others]
        quick = self._is_quick
        first = self._with_more_parts(fit_coded(first, shown, quick=quick), shown)
        models = [first]
        # The first fit has already warned about the columns.
        warnings.simplefilter("ignore", UserWarning)
        for other, weight in zip(others, weights[1:], strict=True):
            model = self.model(*self._sizes_of_others(first, len(rows.weight)), other)
            own = replace(shown, weight=weight)
            models.append(fit_coded(self._sized(model, rows), own, quick=quick))
        if not blends:
            return Learned(models, None, None)
        fits = [fitted_of(model) for model in models]
        blend = Blend.fitted_to(fits, shown, self.n_factors, self.copula, rng, self.n_jobs)
        which = np.sort(rng.permutation(len(rows.weight))[:MOST_COMPARED_ROWS])
        some = np.asarray(rows.X[which])
        held = hidden_cells(some, rng) if hidden is None else hidden[which]
        blend = blend.weighted(fits, some, held, rows.weight[which], self.loss)
        residual = None if self.residual is None else copies_of(self.residual, rng)
        if residual is not None:
            args = fits, some, held, rows.weight[which], self.loss
            blend = blend.with_regressions(residual, *args)
        if hides:
            for model, weight in zip(models, weights, strict=True):
                model.set_params(max_iter=MORE_ITERATIONS)
                fit_coded(model, replace(rows, weight=weight), again=True)
            blend = blend.continued(rows)
        if blend.curves is None and residual is None:
            return Learned(models, blend, None)
        answers = blend.asked([fitted_of(model) for model in models], some, self.n_jobs)
        blend = blend.refitted(answers, rows.weight[which])
        if residual is not None:
            blend = blend.with_refits(residual, answers)
        return Learned(models, blend, answers.with_blend(blend))

    def _with_more_parts(self, model: MCVQ, rows: TrainingRows) -> MCVQ:
        """The quick fit, or one with more parts of fewer states, while the ELBO rises."""
        n_rows, n_columns = rows.X.shape
        while self.sizes is None and isinstance(self.n_parts, str):
            n_parts = int(model.n_parts) + max(int(model.n_parts) // 2, 2)
            if n_parts * LEAST_COLUMNS > n_columns:
                break
            other = copy(model).set_params(n_parts=n_parts)
            if isinstance(self.n_states, str):
                other.set_params(n_states=min(FEWER_STATES, n_rows))
            if fit_coded(other, rows, quick=True).lower_bound_ <= model.lower_bound_:
                break
            model = other
        return model

    def _sized(self, model: MCVQ, rows: TrainingRows) -> MCVQ:
        """The model with sizes that suffice, where they are neither given nor to be selected."""
        if self.sizes is not None or "auto" not in (model.n_parts, model.n_states):
            return model
        n_rows, n_columns = rows.X.shape
        quick: dict[str, object] = {"gating": "tied", "max_iter": QUICK_ITERATIONS}
        if isinstance(model.n_parts, str):
            quick["n_parts"] = min(QUICK_PARTS, n_columns)
        if isinstance(model.n_states, str):
            quick["n_states"] = min(QUICK_STATES, n_rows)
        return model.set_params(**quick)

    def model(
        self, n_parts: int | str, n_states: int | str | Sequence[int], random_state: Seed
    ) -> MCVQ:
        """A model of these sizes, not fitted."""
        return MCVQ(
            n_parts,
            n_states,
            likelihood=self.likelihood,
            sizes=self.sizes,
            n_jobs=self.n_jobs,
            random_state=random_state,
        )

    def _sizes_of_others(
        self, first: MCVQ, n_rows: int
    ) -> tuple[int | str, int | str | Sequence[int]]:
        """Sizes of all fits but the first: those given, or by those that the first has found."""
        if self.sizes is None:
            return int(first.n_parts), first.n_states
        if "auto" not in (self.n_parts, self.n_states):
            return self.n_parts, self.n_states
        times = 2 if isinstance(self.n_states, str) else 1
        n_states = [min(times * int(J), n_rows) for J in first.n_states_]
        return first.n_parts_, n_states


def later_generator(seed: Seed) -> np.random.Generator:
    """Random numbers of everything after the first fit, whose seed is a whole number."""
    if isinstance(seed, Integral):
        return np.random.default_rng([int(seed), 1])
    return as_generator(seed)
