"""What an imputer has learned, and what it answers about tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.answers import imputations as listing
from partwise.answers import states, tables
from partwise.answers.states import FittedStates
from partwise.contracts import Array
from partwise.data.frames import index_of
from partwise.fitting.factor_blend import Answers, Blend
from partwise.fitting.number_columns import NumberColumns
from partwise.typing import DataLike, Frame, Matrix


class FittedImputer(NamedTuple):
    """All that an imputer has learned: models of states, and their blend with others, if any."""

    fits: tuple[FittedStates, ...]
    blend: Blend | None

    def asked(self, coded: Array, n_jobs: int | None) -> Answers:
        """What the models say about the missing cells of coded rows (n, D)."""
        blend = self.blend
        if blend is None:
            blend = Blend.of_states(NumberColumns.of(self.fits[0]))
        return blend.asked(self.fits, coded, n_jobs)

    def imputed(self, X: DataLike, answers: Answers, loss: str) -> Matrix | Frame:
        """The table with its missing values imputed."""
        return tables.fill(self.fits[0], X, answers.coded, answers.values(loss))

    def encoded(self, answers: Answers, loss: str, with_states: bool, n_jobs: int | None) -> Array:
        """The imputed table as numbers, and the states of rows if asked for."""
        coded, fitted = answers.coded, self.fits[0]
        known = np.where(np.isnan(coded), answers.values(loss), coded)
        blocks = [NumberColumns.of(fitted).spread(known)]
        if with_states:
            blocks.append(states.predict_states(fitted, coded, n_jobs))
        return np.hstack(blocks).astype(fitted.dtype, copy=False)

    def encoded_names(self) -> list[str]:
        """A name per column of numbers: that of its column, with the level where it has one."""
        fitted, out = self.fits[0], []
        for d, n_levels in enumerate(NumberColumns.of(fitted).levels):
            name = fitted.column_name(d)
            if n_levels > 0:
                assert fitted.schema is not None
                out += [f"{name}_{level}" for level in fitted.schema.columns[d].levels]
            elif n_levels == 0:
                out.append(str(name))
        return out

    def interval(
        self, X: DataLike, answers: Answers, coverage: float
    ) -> tuple[Matrix | Frame, Matrix | Frame]:
        """Tables of the lower and upper ends of intervals of missing values."""
        coded, fitted = answers.coded, self.fits[0]
        lower, upper = answers.interval(0.5 * (1.0 - coverage))
        if fitted.schema is not None:
            lower, upper = fitted.schema.inward(lower, upper)
        ends = [np.where(np.isnan(coded), end, coded) for end in (lower, upper)]
        if fitted.schema is None:
            return ends[0].astype(fitted.dtype), ends[1].astype(fitted.dtype)
        index = index_of(X)
        first, second = (
            fitted.schema.decode(end, index, predicted=np.isnan(coded)) for end in ends
        )
        return first, second

    def imputations(self, X: DataLike, answers: Answers, loss: str, coverage: float) -> Frame:
        """The missing values of a table, one row per missing cell."""
        found = self.imputed(X, answers, loss), *self.interval(X, answers, coverage)
        shares, fitted, coded = answers.shares(), self.fits[0], answers.coded
        word = listing.NUMBERS if loss == "squared" else listing.MEDIANS
        how = listing.how_by_row(fitted, coded, shares, word)
        return listing.imputations(fitted, X, coded, found, shares, how)
