"""Methods on rows that may follow each other, their classes being a Markov chain."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from copy import copy
from functools import wraps
from types import ModuleType
from typing import ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.answers.classes import chain_of, linked, smoothed
from partwise.answers.moving import MovedAnswers, is_moving
from partwise.answers.moving_parts import PartsAnswers
from partwise.answers.rows import CLASS_DRAWS
from partwise.contracts import Array
from partwise.data import ObservedCells
from partwise.data.dask import is_dask
from partwise.data.frame_sources import frames_of
from partwise.data.rows import RowSource, out_of_memory
from partwise.estimators._base import PartsEstimator, adopted
from partwise.estimators._rows import by_rows
from partwise.estimators._verbs import has_classes
from partwise.fitting.sequences import read_lengths
from partwise.fitting.weights import read_weights
from partwise.models.moving_parts import MovingParts
from partwise.sampling.importance import RowLikelihood, mix_classes
from partwise.typing import DataLike, Matrix

Method = TypeVar("Method", bound=Callable[..., object])

_LENGTHS = """lengths : array-like of shape (Q,), optional
    With ``class_chain``, the number of rows of each sequence; by default all are one."""


def with_lengths(base: Callable[..., object], note: str = "") -> Callable[[Method], Method]:
    """Document a method as ``base``, of rows one by one, with ``lengths`` and a ``note`` on it."""

    def documented(method: Method) -> Method:
        text = re.sub(r"\s+", " ", note)
        words = textwrap.fill(text, 88, initial_indent=" " * 4, subsequent_indent=" " * 4)
        entry = _LENGTHS + ("\n" + words if note else "")

        def inserted(found: re.Match[str]) -> str:
            return "\n" + textwrap.indent(entry, found[1]) + found[0]

        method.__doc__ = re.sub(r"\n\n( *)Returns\n", inserted, base.__doc__ or "", count=1)
        return method

    return documented


def in_sequence(base: Method) -> Method:
    """A method that takes ``lengths``: with a chain of classes, rows are seen in sequence."""
    lengths = inspect.Parameter("lengths", inspect.Parameter.KEYWORD_ONLY, default=None)

    @wraps(base)
    def on_sequences(
        self: SequenceRows,
        X: DataLike,
        *args: object,
        lengths: ArrayLike | None = None,
        **kwargs: object,
    ) -> object:
        return base(self._linked(X, lengths), X, *args, **kwargs)

    given = inspect.signature(base)
    own = given.replace(parameters=[*given.parameters.values(), lengths])
    on_sequences.__signature__ = own  # type: ignore[attr-defined]  # of functions
    note = "Each row is then seen given its whole sequence."
    return cast(Method, with_lengths(base, note)(on_sequences))


class SequenceRows(PartsEstimator):
    """Likelihoods and classes of rows: one by one or, with ``class_chain``, in sequence."""

    _answers: ClassVar[ModuleType]  # of partwise.answers: states or factors

    @property
    def _asked(self) -> ModuleType | MovedAnswers | PartsAnswers:
        """What answers: the module of the kind of parts, or its answers over transformations."""
        if hasattr(self, "_fitted") and isinstance(self._fitted.model, MovingParts):
            return PartsAnswers()
        moving = hasattr(self, "_fitted") and is_moving(self._fitted)
        return MovedAnswers(self._answers) if moving else self._answers

    def _by_prior(self, X: Matrix, n_draws: int) -> RowLikelihood:
        """As ``_likelihoods``, from samples of the prior."""
        if self._asked is not self._answers:
            raise ValueError(
                'proposal="prior" supports neither transformations nor tables of MCFA; use '
                'proposal="posterior".'
            )
        return self._answers.likelihoods(self._fitted, X, n_draws, self.n_jobs, True)

    @by_rows
    def _prior_likelihood(self, X: DataLike, n_draws: int) -> RowLikelihood:
        """`row_likelihood` of rows one by one, from samples of the prior."""
        found = self._by_prior(self._checked(X), n_draws)
        return mix_classes(found, np.log(self._class_shares()))

    def _in_sequence(
        self,
        X: DataLike,
        lengths: ArrayLike | None,
        n_draws: int,
        proposal: str = "posterior",
    ) -> tuple[RowLikelihood, Array] | None:
        """What `smoothed` says of rows in sequence; None for rows one by one."""
        found = self._rows_in_sequence(X, lengths)
        if found is None:
            return None
        likelihoods = self._by_prior if proposal == "prior" else self._likelihoods
        return smoothed(self._fitted, likelihoods(found[0], n_draws), found[1])

    def _rows_in_sequence(
        self, X: DataLike, lengths: ArrayLike | None
    ) -> tuple[Matrix, Array] | None:
        """Checked rows and the bounds of their sequences; None for rows one by one."""
        check_is_fitted(self)
        chained = chain_of(self._fitted) is not None
        if not chained:
            read_lengths(lengths, 0, chained=False)  # refuses them
            return None
        elsewhere = is_dask(X) or isinstance(out_of_memory(X), RowSource)
        if elsewhere or (getattr(self, "_is_table", False) and frames_of(X) is not None):
            raise ValueError(
                "Rows in sequence (class_chain=True) must be in memory; pass an array, a sparse "
                "matrix or a DataFrame, sequence by sequence if they are many."
            )
        checked = self._checked(X)
        bounds = read_lengths(lengths, checked.shape[0], chained=True)
        assert bounds is not None
        return checked, bounds

    def _linked(self, X: DataLike, lengths: ArrayLike | None) -> Self:
        """The estimator for answers about these rows in sequence; itself for rows one by one."""
        if hasattr(self, "_fitted") and self._fitted.told is not None:
            return self  # by another method
        found = self._rows_in_sequence(X, lengths)
        if found is None:
            return self
        return adopted(copy(self), linked(self._fitted, *found, self.n_jobs))

    reconstruct = in_sequence(PartsEstimator.reconstruct)
    predict_interval = in_sequence(PartsEstimator.predict_interval)

    def row_likelihood(
        self,
        X: DataLike,
        n_draws: int = 200,
        *,
        proposal: str = "posterior",
        lengths: ArrayLike | None = None,
    ) -> RowLikelihood:
        """Log-likelihood of each row with its standard error.

        Exact if every column has one part, or if there are few combinations of states; otherwise
        estimated by importance sampling of the states. With ``class_chain`` it is that of a row
        given the rows before it in its sequence; their sum is that of the sequence.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Number of samples per row, if sampling is needed.
        proposal : {"posterior", "prior"}, default="posterior"
            Distribution of the samples. "posterior": near the posterior of the row. "prior": the
            prior of states or factors, the rule of the papers, which needs very many samples if
            there are many columns; the likelihood is then always estimated.
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence; by default all are one.

        Returns
        -------
        result : RowLikelihood
            Fields ``log_likelihood``, ``standard_error`` (0 if exact) and ``effective_draws``
            (the effective sample size, infinite if exact), each of shape (n,).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> result = model.row_likelihood(X)
        >>> result.log_likelihood.shape, float(result.standard_error.max())
        ((150,), 0.0)
        """
        if proposal not in ("posterior", "prior"):
            raise ValueError(f'proposal={proposal!r} must be "posterior" or "prior".')
        if n_draws < 1:
            raise ValueError(f"n_draws={n_draws!r} must be at least 1.")
        found = self._in_sequence(X, lengths, n_draws, proposal)
        if found is not None:
            return found[0]
        if proposal == "prior":
            return self._prior_likelihood(X, n_draws)
        return super().row_likelihood(X, n_draws)

    @with_lengths(
        PartsEstimator.score_samples, "A row's likelihood is then that given the rows before it."
    )
    def score_samples(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        return self.row_likelihood(X, lengths=lengths).log_likelihood

    @with_lengths(PartsEstimator.score)
    def score(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
    ) -> float:
        if lengths is None or isinstance(X, ObservedCells):
            return super().score(X, y, sample_weight)
        found = self.score_samples(X, lengths=lengths)
        return float(np.average(found, weights=read_weights(sample_weight, len(found))))

    @available_if(has_classes)
    @with_lengths(
        PartsEstimator.predict_proba, "The probabilities are then those given the whole sequence."
    )
    def predict_proba(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        found = self._in_sequence(X, lengths, CLASS_DRAWS)
        return super().predict_proba(X) if found is None else found[1]

    @available_if(has_classes)
    @with_lengths(PartsEstimator.predict)
    def predict(self, X: DataLike, *, lengths: ArrayLike | None = None) -> Array:
        if lengths is None and chain_of(self._fitted) is None:
            return super().predict(X)
        return self.classes_[self.predict_proba(X, lengths=lengths).argmax(axis=1)]
