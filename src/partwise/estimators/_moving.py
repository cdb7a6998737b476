"""Methods of models whose rows may have undergone unknown transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import ClassVar, Concatenate, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.answers import moving, tables
from partwise.answers.moving_parts import PartsAnswers
from partwise.contracts import Array
from partwise.data.table import Schema
from partwise.estimators._base import adopted
from partwise.estimators._gated import GatedEstimator
from partwise.estimators._rows import by_rows
from partwise.estimators._state_rows import StateRows
from partwise.fitted import OwnFitted
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.family import Family
from partwise.fitting.moving_parts import fit_moving_parts, restored_parts, saved_parts
from partwise.fitting.moving_states import MovingStates
from partwise.fitting.options import TrainingRows
from partwise.models.transformations import Transformations
from partwise.typing import DataLike, Frame, Given, Matrix, PathLike, SavedState, Seed

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _moves(estimator: TransformedRows) -> bool:
    if estimator.transformations is None:
        raise AttributeError(
            "Rows have no transformations; set transformations, such as Translations(image_shape)."
        )
    return True


def _by_part(estimator: TransformedRows) -> bool:
    """Whether parts move on their own."""
    return getattr(estimator.transformations, "by", "row") == "part"


def _by_row(estimator: TransformedRows) -> bool:
    """Whether rows are transformed as a whole."""
    return _moves(estimator) and not _by_part(estimator)


def _in_place(
    plain: Callable[Concatenate[MovingEstimator, Arguments], Found],
) -> Callable[Concatenate[MovingEstimator, Arguments], Found]:
    """A method that describes columns, or rows by them: refused where rows are transformed."""

    @wraps(plain)
    def method(
        self: MovingEstimator, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Found:
        self._refuse_moving(plain.__name__)
        return plain(self, *arguments, **named)

    return method


def refusal(by_part: bool) -> str:
    """Why a method or a page is refused, and what to do instead."""
    if by_part:
        return (
            'is not available for parts that move on their own; use Translations(by="row") and '
            "its canvas_model()."
        )
    return (
        "is not available for rows with transformations; use canvas_model(), a model of the "
        "canvas, with the rows that align(X) gives."
    )


class TransformedRows(GatedEstimator):
    """A model of parts, of rows that may have been transformed."""

    transformations: Transformations | None
    _moving_kind: ClassVar[type[Family]]  # the kind of parts where rows are transformed

    def _family(self, schema: Schema | None = None) -> Family:
        family = super()._family(schema)
        if self.transformations is None:
            return family
        moves = self.transformations
        return self._moving_kind(replace(family.options, transformations=moves, calibrated=False))

    def _refuse_moving(self, what: str) -> None:
        """Refuse a method where rows are transformed."""
        if self.transformations is not None:
            raise ValueError(f"{what} {refusal(_by_part(self))}")

    def _score_cells(
        self, X: Matrix, rows: ArrayLike, columns: ArrayLike, values: ArrayLike
    ) -> Array:
        if self.transformations is None:
            return super()._score_cells(X, rows, columns, values)
        cells = np.asarray(rows), np.asarray(columns), np.asarray(values)
        return np.asarray(self._asked.score_cells(self._fitted, X, cells, self.n_jobs))

    @available_if(_by_row)
    def canvas_model(self) -> Self:
        """The model of the canvas, for rows in place such as `align` gives.

        All methods, displays and the report work with it; its columns are those of the canvas.

        Returns
        -------
        model : MCVQ or MCFA
            Fitted, without transformations.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import MCVQ, Translations
        >>> rng = np.random.default_rng(0)
        >>> pulse = np.r_[np.zeros(6), np.ones(3), np.zeros(6)]
        >>> X = np.stack([pulse[s : s + 11] for s in rng.integers(5, size=50)])
        >>> X += 0.1 * rng.normal(size=X.shape)
        >>> shifts = Translations((1, 11), max_shift=(0, 2))
        >>> model = MCVQ(1, 1, transformations=shifts, random_state=0).fit(X)
        >>> model.canvas_model().impute(model.align(X)).shape
        (50, 15)
        """
        check_is_fitted(self)
        plain = clone(self).set_params(transformations=None)
        return adopted(plain, moving.plain(self._fitted))

    @available_if(_moves)
    @by_rows
    def shifts(self, X: DataLike) -> Array:
        """Most probable transformation of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        shifts : ndarray of shape (n, q)
            Of `Translations` the shift in pixels, rows then columns: negative where the content
            stands further down or to the right than in the template. Of `Rotations` the angle, of
            `Scalings` the factor. One common shift of all rows is not identified; the fit
            begins with a mean shift of about 0. With ``by="part"`` the shifts of all parts, of
            shape (n, K, 2), each up to a constant.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import MCVQ, Translations
        >>> rng = np.random.default_rng(0)
        >>> pulse, starts = np.r_[np.zeros(6), np.ones(3), np.zeros(6)], rng.integers(5, size=50)
        >>> X = np.stack([pulse[s : s + 11] for s in starts]) + 0.1 * rng.normal(size=(50, 11))
        >>> moves = Translations((1, 11), max_shift=(0, 2))
        >>> model = MCVQ(1, 1, transformations=moves, random_state=0).fit(X)
        >>> bool(np.all(np.ptp(model.shifts(X)[:, 1] - starts) == 0))  # up to a constant
        True
        """
        return np.asarray(self._asked.shifts(self._fitted, self._checked(X), self.n_jobs))

    @available_if(_moves)
    @by_rows
    def shift_proba(self, X: DataLike) -> Array:
        """Posterior probability of every transformation of each row.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, T)
            In the order of ``transformations.values``. With ``by="part"`` of shape (n, K, T): of
            every part, given the most probable places of the others.
        """
        return np.asarray(self._asked.shift_proba(self._fitted, self._checked(X), self.n_jobs))

    @available_if(_moves)
    @by_rows
    def align(self, X: DataLike) -> Array:
        """Rows on the canvas, under their most probable transformations.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        rows : ndarray of shape (n, D of the canvas)
            NaN where the row shows nothing; reshape to ``canvas_shape_`` for images. With
            ``by="part"`` of shape (n, K, D of the canvas): the row as each part sees it.
        """
        return np.asarray(self._asked.aligned(self._fitted, self._checked(X), self.n_jobs))


class MovingEstimator(TransformedRows, StateRows):
    """A model of parts with states, of rows that may have been transformed."""

    _moving_kind: ClassVar[type[Family]] = MovingStates

    predict_proba_columns = _in_place(StateRows.predict_proba_columns)
    dependence = _in_place(StateRows.dependence)
    summary = _in_place(StateRows.summary)
    state_profiles = _in_place(StateRows.state_profiles)
    state_tree = _in_place(StateRows.state_tree)
    anomalous_cells = _in_place(StateRows.anomalous_cells)
    add_states = _in_place(StateRows.add_states)
    imputations = _in_place(StateRows.imputations)
    predict_columns = _in_place(StateRows.predict_columns)

    def _drawn(self, coded: Array, generators: Sequence[np.random.Generator]) -> Iterator[Array]:
        if _by_part(self):
            self._refuse_moving("impute(n_imputations=)")
        draw = tables.draw if self.transformations is None else moving.draw
        return draw(self._fitted, coded, generators, self.n_jobs)

    def inverse_transform(self, X: ArrayLike) -> Array | Frame:
        """Expected rows given posterior probabilities of states.

        Parameters
        ----------
        X : array-like of shape (n, S)
            As `transform` returns.

        Returns
        -------
        rows : ndarray or DataFrame of shape (n, D)
            With ``transformations`` rows of the canvas; not available with ``by="part"``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (150, 4)
        """
        if _by_part(self):
            raise ValueError(
                "inverse_transform is not available for parts that move on their own, because "
                "states do not say where parts are; use reconstruct(X) or sample(states=)."
            )
        return super().inverse_transform(X)

    def _sample_given(
        self, n_samples: int, given: Given, random_state: Seed
    ) -> tuple[Array | Frame, Array]:
        self._refuse_moving("sample(given=)")
        return super()._sample_given(n_samples, given, random_state)

    def _fitted_to(
        self,
        rows: TrainingRows,
        y: ArrayLike | None,
        checkpoint: PathLike | Checkpoint | None,
    ) -> OwnFitted:
        if not _by_part(self):
            return super()._fitted_to(rows, y, checkpoint)
        options, last = self._family(rows.schema).options, None
        if self.warm_start and isinstance(self._asked, PartsAnswers):
            last = self._fitted
        return fit_moving_parts(options, rows, y, self._listen, last, checkpoint)

    def __partwise_state__(self) -> dict[str, object]:
        check_is_fitted(self)
        return saved_parts(self._fitted) if _by_part(self) else super().__partwise_state__()

    def __partwise_restore__(self, state: SavedState) -> None:
        if not _by_part(self):
            return super().__partwise_restore__(state)
        self._adopt(restored_parts(self._family().options, state))
        return None
