"""What MCVQ and MCFA share: fitting, streaming, and methods on rows."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from types import ModuleType
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions, fit_context
from partwise.answers.classes import draw_classes
from partwise.answers.drift import learn_reference
from partwise.contracts import Array
from partwise.data import RowBlock
from partwise.data.columns import Kind
from partwise.data.table import Schema
from partwise.estimators._base import adopted
from partwise.estimators._sequences import SequenceRows
from partwise.fitted import OwnFitted
from partwise.fitting.add_columns import with_new_columns
from partwise.fitting.checkpoint import Checkpoint
from partwise.fitting.class_groups import check_groups
from partwise.fitting.course import fit_parts
from partwise.fitting.family import Family
from partwise.fitting.options import Annealing, PartsOptions, SizeOptions, TrainingRows
from partwise.fitting.saved import restored, saved
from partwise.fitting.sequences import with_sequences
from partwise.fitting.stream import StreamingOptions, learn_rows, refused
from partwise.fitting.tied_draws import fit_tied_draws
from partwise.likelihoods import Prior, zero_if_absent
from partwise.sampling.importance import RowLikelihood
from partwise.sampling.randomness import as_generator
from partwise.typing import Classes, DataLike, Hybrid, Matrix, PartNames, PathLike, SavedState, Seed

# Constraints of the arguments: sizes of parts, and what both estimators have.
SIZE = [
    Interval(Integral, 1, None, closed="left"),
    StrOptions({"auto"}),
    list,
    tuple,
    np.ndarray,
]
CONSTRAINTS: dict[str, list[object]] = {
    "n_parts": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "gating": [StrOptions({"annealed", "tied", "standard", "factorised"}), Annealing],
    "class_chain": ["boolean"],
    "prior": [StrOptions({"conjugate"}), Prior, None],
    "gate_entropy": [Interval(Real, 0, None, closed="left")],
    "sparse_absent": [StrOptions({"auto", "unobserved", "zero"})],
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose"],
    "warm_start": ["boolean"],
    "sizes": [SizeOptions, None],
    "streaming": [StreamingOptions, None],
    "part_names": [list, tuple, np.ndarray, dict, None],
}


Gated = TypeVar("Gated", bound="GatedEstimator")


def read_part_names(given: PartNames | None, n_parts: int) -> list[str]:
    """Names of all parts, from a sequence of all or a mapping of some; others are part0, ..."""
    names = [f"part{k}" for k in range(n_parts)]
    if given is None:
        return names
    given = given.tolist() if isinstance(given, np.ndarray) else given
    pairs = dict(given) if isinstance(given, Mapping) else dict(enumerate(given))
    if not set(pairs) <= set(range(n_parts)) or (
        not isinstance(given, Mapping) and len(pairs) != n_parts
    ):
        raise ValueError(
            f"part_names={given!r} must have a name for each of {n_parts} parts, or map numbers "
            f"from 0 to {n_parts - 1} to names."
        )
    for k, name in pairs.items():
        names[k] = str(name)
    if len(set(names)) < n_parts:
        raise ValueError(f"part_names={given!r} must be different names; give each part its own.")
    return names


def absent_is_zero(likelihood: object, sparse_absent: str) -> bool:
    """Whether entries that sparse rows do not store are zeros, by the arguments."""
    return zero_if_absent(likelihood) if sparse_absent == "auto" else sparse_absent == "zero"


def _can_stream(estimator: GatedEstimator) -> bool:
    """Whether the parameters follow from sums over rows, so that rows need not be kept."""
    reason = refused(estimator._family(), getattr(estimator, "_fitted", None))
    if reason is not None:
        raise AttributeError(f"partial_fit does not support {reason}.")
    return True


class GatedEstimator(SequenceRows):
    """Base of MCVQ and MCFA.

    A subclass names its kind of parts (``_kind``, a `Family`) and the module with its answers
    (``_answers``), and may define the meaning of ``prior="conjugate"`` (``_usual_prior``).
    """

    _kind: ClassVar[type[Family]]

    # --- fitting ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        checkpoint: PathLike | Checkpoint | None = None,
    ) -> Self:
        """Learn the parts, and the states or factors of each.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or sparse array of shape (C, D)
            Training rows; NaN is a missing value. See ``sparse_absent`` for sparse input, and
            ``likelihood`` of `MCVQ` for tables with columns of several kinds.
        y : array-like of shape (C,), optional
            Class labels; -1 (None, for strings) if unknown. If ``n_classes`` is None, numbers with
            fractions and labels that hardly repeat are ignored.
        sample_weight : array-like of shape (C,), optional
            An integer weight w is equivalent to repeating the row w times.
        lengths : array-like of shape (Q,), optional
            With ``class_chain``, the number of rows of each sequence, in order; by default all rows
            are one sequence.
        checkpoint : path or Checkpoint, optional
            File that is written during the fit and removed at its end. After a crash, the same call
            continues from the file and returns the same result.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.parts_.shape
        (4,)
        """
        self._check_form()
        rows = self._training_rows(X, sample_weight)
        family = self._family(rows.schema)
        rows = with_sequences(rows, lengths, family.options, family.has_latent)
        check_groups(family.options, family.has_latent)
        self._adopt(self._fitted_to(rows, y, checkpoint))
        return self._adopt_reference(rows)

    def _fitted_to(
        self,
        rows: TrainingRows,
        y: ArrayLike | None,
        checkpoint: PathLike | Checkpoint | None,
    ) -> OwnFitted:
        """What is learned from checked rows."""
        last = self._fitted if self.warm_start and hasattr(self, "_fitted") else None
        family = self._family(rows.schema)
        fit = fit_tied_draws if family.options.samples_columns else fit_parts
        return fit(family, rows, y, self._listen, last, checkpoint)

    def _adopt_reference(self, rows: TrainingRows) -> Self:
        """Keep the distribution of dense rows, for `partwise.drift`."""
        fitted, answers = self._fitted, self._asked
        if not isinstance(rows.X, np.ndarray) or not isinstance(answers, ModuleType):
            return self
        # Scores are held out by sums without some rows, which must be sums without labels.
        plain = fitted.classes is None and refused(self._family(rows.schema), None) is None
        scores = answers.anomaly_scores if plain else None
        reference = learn_reference(fitted, rows.X, rows.weight, scores)
        return self._adopt(replace(fitted, reference=reference))

    @fit_context(prefer_skip_nested_validation=True)
    def _rows_for_fits(self, X: DataLike, sample_weight: ArrayLike | None) -> TrainingRows:
        """Rows to learn from, with the arguments checked."""
        return self._training_rows(X, sample_weight)

    def _fit_coded(self, rows: TrainingRows, again: bool, quick: bool) -> Self:
        """Learn from coded rows, without calibrating intervals."""
        family = self._family(rows.schema)
        family = type(family)(replace(family.options, calibrated=False, quick_start=quick))
        last = self._fitted if again else None
        return self._adopt(fit_parts(family, rows, None, self._listen, last))

    @available_if(_can_stream)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: DataLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Learn from more rows, of a stream or of data that do not fit in memory.

        Continues from the rows of `fit` and of earlier calls, as ``streaming`` controls. Not
        available with ``gating="factorised"``, ``inference="gibbs"`` and ordinal `MCFA`.

        Parameters
        ----------
        X : array-like, DataFrame, sparse matrix or sparse array of shape (n, D)
            Rows with the columns, and categories, of the first call. Rows in memory are one step;
            files and other sources of rows are read 16,384 rows at a time, a step for each.
        y : array-like of shape (n,), optional
            Class labels; -1 (None, for strings) if unknown.
        sample_weight : array-like of shape (n,), optional
            An integer weight w is equivalent to repeating the row w times.
        classes : array-like, optional
            All class labels, in the first call, if its rows do not have all of them.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=1, n_states=3, random_state=0)
        >>> for start in range(0, 150, 50):
        ...     model = model.partial_fit(X[start : start + 50])
        >>> model.n_samples_seen_
        150
        """
        self._check_form()
        last = getattr(self, "_fitted", None)
        rows = self._training_rows(X, sample_weight, reset=last is None)
        how, family = self.streaming or StreamingOptions(), self._family(rows.schema)
        return self._adopt(learn_rows(family, how, rows, y, classes, self._listen, last))

    def _check_form(self) -> None:
        """Raise an error for arguments that exclude each other, before rows are read."""

    def _family(self, schema: Schema | None = None) -> Family:
        """The kind of parts, with the options that the arguments set."""
        annealing = self.gating if isinstance(self.gating, Annealing) else None
        return self._kind(
            PartsOptions(
                n_parts=self.n_parts,
                size=getattr(self, self._kind.size_name),
                likelihood=self._law(schema),
                gating="annealed" if annealing else self.gating,
                annealing=annealing,
                inference=getattr(self, "inference", "variational"),
                n_classes=self.n_classes,
                class_chain=bool(getattr(self, "class_chain", False)),
                part_groups=getattr(self, "part_groups", None),
                n_group_classes=getattr(self, "n_group_classes", None),
                prior=self._prior_strengths(),
                gate_entropy=float(self.gate_entropy),
                absent_zero=self._absent_zero(),
                init=self.init,
                random_state=self.random_state,
                ascent=self._ascent_options(),
                arguments=self._arguments(),
                sizes=self.sizes or SizeOptions(),
                usual_prior=isinstance(self.prior, str),
            )
        )

    def _absent_zero(self) -> bool:
        return absent_is_zero(self.likelihood, self.sparse_absent)

    def _law(self, schema: Schema | None) -> str | tuple[Kind, ...]:
        """Distribution of all columns, or the kind of each."""
        return self.likelihood

    def _attributes(self) -> Mapping[str, object]:
        return self._asked.attributes(self._fitted)

    def __partwise_state__(self) -> dict[str, object]:
        check_is_fitted(self)
        return saved(self._family(self._fitted.schema), self._fitted)

    def __partwise_restore__(self, state: SavedState) -> None:
        schema = state.get("schema")  # of a table
        family = self._family(None if schema is None else Schema.restore(schema))
        self._adopt(restored(family, state))

    def _widened(self, X: Matrix, own: Array, place: Array) -> Self:
        """A copy with the columns of X (CSR): those at ``place`` are ``own`` of the fit."""
        wide = with_new_columns(self._family(), self._fitted, X, own, place)
        return adopted(copy(self), wide)

    # --- answers for checked rows ---

    @property
    def part_names_(self) -> list[str]:
        """Names of the K parts: ``part_names``, or part0, part1, ..."""
        check_is_fitted(self)
        return read_part_names(self.part_names, int(self.n_parts_))

    @property
    def _n_features_out(self) -> int:
        return int(self._asked.n_outputs(self._fitted))

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: part0_state0 or part0_factor0, and so on.

        Parameters
        ----------
        input_features : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        names : ndarray of shape (n_outputs,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.get_feature_names_out()[:2]
        array(['part0_state0', 'part0_state1'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray(self._asked.names_out(self._fitted, self.part_names_), dtype=object)

    def _reconstruct(self, X: Matrix) -> Array:
        return self._asked.reconstruct(self._fitted, X, self.n_jobs)

    def _impute(self, X: Matrix) -> Array:
        return self._asked.impute(self._fitted, X, self.n_jobs)

    def _interval(self, X: Matrix, tail: float) -> tuple[Array, Array]:
        return self._asked.interval(self._fitted, X, tail, self.n_jobs)

    def _anomaly_scores(self, X: Matrix) -> Array:
        return self._asked.anomaly_scores(self._fitted, X, self.n_jobs)

    def _likelihoods(self, X: Matrix, n_draws: int) -> RowLikelihood:
        return self._asked.likelihoods(self._fitted, X, n_draws, self.n_jobs)

    def _cell_densities(
        self, block: RowBlock, g: int, rows: Array, columns: Array, values: Array
    ) -> Array:
        answers = self._asked if isinstance(self._asked, ModuleType) else self._answers
        return answers.cell_densities(self._fitted, block, g, rows, columns, values)

    def _class_shares(self) -> Array:
        return self._asked.class_shares(self._fitted)

    def _n_parameters(self) -> float:
        return self._asked.n_parameters(self._fitted)

    def _draw(
        self,
        n_samples: int,
        states: ArrayLike | None,
        classes: Classes | None,
        hybrid: Hybrid | None,
        random_state: Seed,
    ) -> tuple[Array, Array]:
        """New rows as numbers, and their classes, states or factors."""
        check_is_fitted(self)
        if states is not None and (classes is not None or hybrid is not None):
            raise ValueError("Pass either states, or classes and hybrid, not both.")
        answers, fitted = self._asked, self._fitted
        rng = as_generator(self.random_state if random_state is None else random_state)
        shares = answers.class_shares(fitted)
        labels, sources = draw_classes(fitted, shares, n_samples, classes, hybrid, rng)
        by_class = fitted.classes is not None and states is None and hybrid is None
        if states is None:
            states = answers.draw_states(fitted, sources, rng)
        checked: Array = answers.checked_states(fitted, states, n_samples)
        rows = answers.draw_rows(fitted, checked, rng)
        if by_class:
            return rows, np.asarray(fitted.classes)[labels]
        return rows, (checked.astype(fitted.dtype) if checked.dtype.kind == "f" else checked)


def fit_coded(
    estimator: Gated, rows: TrainingRows, again: bool = False, quick: bool = False
) -> Gated:
    """Fit an estimator to coded rows, or go on with its fit, without calibrating intervals.

    A ``quick`` start serves fits of few EM iterations.
    """
    return estimator._fit_coded(rows, again, quick)


def training_rows(
    estimator: GatedEstimator, X: DataLike, sample_weight: ArrayLike | None
) -> TrainingRows:
    """Checked and coded rows for `fit_coded`, which may serve several fits."""
    return estimator._rows_for_fits(X, sample_weight)
