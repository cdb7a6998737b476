"""What all estimators share: input checks, the ascent from several starts, shared methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import CallbackSupportMixin, check_columns
from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data import ColumnGroup, ObservedCells, RowSource
from partwise.data.frames import as_numbers, frame_of
from partwise.data.indices import check_indices
from partwise.data.rows import check_finite, is_sparse, out_of_memory
from partwise.engine import Monitor
from partwise.estimators._verbs import ClassMixin, DensityMixin, EntryMixin
from partwise.fitted import OwnFitted, shared_attributes
from partwise.fitting.ascent import Ascent
from partwise.fitting.checkpoint import Checkpoint, FitLog
from partwise.fitting.course import warn_of_holes
from partwise.fitting.options import AscentOptions, Listener, Rows, TrainingRows
from partwise.fitting.weights import read_weights, warn_of_shares
from partwise.likelihoods import Prior
from partwise.runners import placed
from partwise.typing import DataLike, Frame, Given, Matrix, PathLike, Seed

EstimatorT = TypeVar("EstimatorT", bound="PartsEstimator")


class PartsEstimator(
    EntryMixin, DensityMixin, ClassMixin, CallbackSupportMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators: data in and out, and the driving of the engine.

    A subclass defines ``fit`` and the methods of its model. What is learned is one value,
    ``_fitted`` (`partwise.fitted.Fitted`). ``fit`` creates it and passes it to ``_adopt``, which
    alone sets public attributes: those that all estimators share and the result of the subclass's
    ``_attributes``. A model file contains the result of ``__partwise_state__``, from which
    ``__partwise_restore__`` creates a `Fitted` (its record by `partwise.fitted.restored_fields`)
    and adopts it. The subclass implements ``_likelihoods(X, n_samples)``, the rows' likelihood
    under every class (N, n) with its error, ``_class_shares()`` (N,), ``_n_parameters()``, and for
    checked rows ``_reconstruct``, ``_impute`` and, where they apply, ``_interval``,
    ``_anomaly_scores`` and ``_cell_densities``.
    """

    _fitted: OwnFitted  # subclasses narrow it

    def _adopt(self, fitted: OwnFitted) -> Self:
        """Take over a fitted model; nothing else sets learned attributes."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)  # of the last fit
        self._fitted = fitted
        for name, value in {**shared_attributes(fitted), **self._attributes()}.items():
            setattr(self, name, value)
        return self

    def _attributes(self) -> Mapping[str, object]:
        """Learned attributes that only this model has, in the user's units, by name."""
        raise NotImplementedError

    # Why sparse rows are not supported, None where they are.
    _dense_since: ClassVar[str | None] = None

    # --- input ---

    def _check_rows(self, X: DataLike, *, reset: bool) -> Rows:
        """Finite floats, dense with NaN for missing values or CSR, in the dtype of the fit.

        Rows that are not in memory are returned unchanged and are checked when they are read.
        """
        X = out_of_memory(X)
        if is_sparse(X) and self._dense_since is not None:
            raise TypeError(
                f"{type(self).__name__} does not support sparse X, because {self._dense_since}; "
                "pass X.toarray(), with NaN for missing values."
            )
        if isinstance(X, RowSource):
            if not reset:
                raise TypeError("X must be in memory here; pass X[lo:hi] of some rows at a time.")
            check_columns(self, X, X.names, reset=True)
            return X
        if isinstance(X, ObservedCells):
            if X.is_sparse and self._absent_zero():
                raise ValueError(
                    "Entries that sparse X does not store are zeros here, the same as held-out "
                    'cells; pass ObservedCells(X, sparse_absent="zero").'
                )
            X = X.table()
        dtype = [np.float64, np.float32] if reset else self._fitted.dtype
        check_indices(X)
        if getattr(getattr(X, "dtype", None), "kind", None) == "c":
            raise ValueError(
                "Complex data not supported; pass X.real, or real and imaginary parts as columns."
            )
        # What the dtype cannot represent is refused below.
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(
                self,
                X if sparse.issparse(X) else as_numbers(X),
                reset=reset,
                accept_sparse="csr",
                dtype=dtype,
                ensure_all_finite=False,
            )
        values = X.data if sparse.issparse(X) else X
        check_finite(values)
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if reset or not sparse.issparse(X):
            return X
        # For a model fitted to dense rows, entries that X does not store are zeros.
        return X if self._absent_zero() == self._fitted.columns[0].absent_zero else X.toarray()

    def _checked(self, X: DataLike) -> Matrix:
        """Rows in memory, checked against the fit; `checked_rows` for other modules."""
        check_is_fitted(self)
        return cast(Matrix, self._check_rows(X, reset=False))

    def _check_fit_rows(
        self, X: DataLike, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> tuple[Rows, Array, Array]:
        """Rows of positive weight, their weights, and which rows they are; others are dropped."""
        self._halted = False
        X = X if reset else out_of_memory(X)
        if isinstance(X, RowSource) and not reset:
            check_columns(self, X, X.names, reset=False)
        else:
            X = self._check_rows(X, reset=reset)
        X = placed(X)
        if isinstance(X, RowSource):
            X.check(absent_zero=self._absent_zero())
        weight = read_weights(sample_weight, X.shape[0])
        kept = weight > 0
        if not kept.all():
            X, weight = X.some(kept) if isinstance(X, RowSource) else X[kept], weight[kept]
        if getattr(self, "prior", None) is not None:
            warn_of_shares(weight)
        return X, weight, kept

    def _as_given(
        self, values: Array, X: DataLike | None = None, sampled: bool = False
    ) -> Array | Frame:
        """Rows that the model made, as a table like the user's, like X where it is given."""
        return values

    def _sampled_together(self, rows: Array, random_state: Seed) -> Array:
        """Sampled rows whose near-duplicate columns agree, where a table has such columns."""
        return rows

    def _warn_of_missing(self, columns: tuple[ColumnGroup, ...]) -> None:
        warn_of_holes(columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    @property
    def _usual_prior(self) -> Prior:
        """The meaning of ``prior="conjugate"``."""
        return Prior()

    def _prior_strengths(self) -> Prior | None:
        """Strengths of the priors, None for maximum likelihood."""
        return self._usual_prior if isinstance(self.prior, str) else self.prior

    def _check_transformed(self, X: ArrayLike, what: str, dtype: DTypeLike = float) -> Array:
        """Input of `inverse_transform`: a column for every ``what``."""
        codes, n = np.asarray(X, dtype=dtype), self._n_features_out
        if codes.ndim != 2 or codes.shape[1] != n:
            raise ValueError(
                f"X has shape {codes.shape}, but inverse_transform needs (n, {n}), a column for "
                f"every {what}, as transform returns."
            )
        return codes

    # --- fitting ---

    _halted = False

    def stop(self) -> None:
        """Stop a running fit after its current EM iteration and keep the best parameters so far.

        Call it from a callback, a signal handler or another thread; `fit` then returns normally.

        Examples
        --------
        >>> import threading
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> model = MCVQ(n_parts=1, n_states=3, random_state=0)
        >>> timer = threading.Timer(60, model.stop)  # at most a minute
        >>> timer.start()
        >>> model = model.fit(load_iris().data)
        >>> timer.cancel()
        """
        self._halted = True

    def _training_rows(
        self, X: DataLike, sample_weight: ArrayLike | None, *, reset: bool = True
    ) -> TrainingRows:
        """Rows to learn from, checked."""
        found = self._check_fit_rows(X, sample_weight, reset=reset)
        return TrainingRows(*found, getattr(self, "feature_names_in_", None))

    def _ascent_options(self) -> AscentOptions:
        """How the bound is maximized."""
        limits = getattr(self, "n_init", 1), self.max_iter, self.tol, self.max_time
        return AscentOptions(type(self).__name__, *limits, self.n_jobs, bool(self.verbose))

    def _ascent(
        self, rows: TrainingRows, checkpoint: PathLike | Checkpoint | None = None
    ) -> Ascent:
        """A fit to rows, whose ``max_time`` begins now."""
        seed, arguments, options = self.random_state, self._arguments(), self._ascent_options()
        log = FitLog(seed, checkpoint, arguments, rows.X, rows.weight)
        return Ascent(rows, options, log, self._listen, options.deadline())

    def _finish(self, ascent: Ascent, fitted: OwnFitted) -> Self:
        """Take over what a fit has learned; its checkpoint is no longer needed."""
        self._adopt(fitted)
        ascent.log.finish()
        return self

    def _arguments(self) -> dict[str, object]:
        """Name and arguments of the estimator, with which a checkpoint is compared."""
        return {"model": type(self).__name__, **self.get_params(deep=False)}

    @contextmanager
    def _listen(self, X: Rows) -> Iterator[Listener]:
        """Report an ascent on rows X to scikit-learn's callbacks while it lasts."""
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self, X=X)

        def on_step(n_iter: int, bound: float) -> bool:
            step = root.subcontext(task_name="sweep")
            step.call_on_fit_task_begin(estimator=self, X=X)
            return bool(step.call_on_fit_task_end(estimator=self, X=X))

        yield Listener(on_step, lambda: self._halted, self._warn_of_end)
        root.call_on_fit_task_end(estimator=self, X=X)

    def _warn_of_end(self, monitor: Monitor) -> None:
        if monitor.out_of_time:
            text = f"The fit reached max_time={self.max_time}; the best parameters so far are kept."
        elif not monitor.converged and not monitor.interrupted:
            text = (
                f"The fit did not converge to tol={self.tol} within max_iter={self.max_iter} EM "
                "iterations; raise max_iter or tol."
            )
        else:
            return
        warn(text, ConvergenceWarning)

    # --- entries ---

    def _one_row(self, x: Given) -> Matrix:
        """A single row, checked."""
        check_is_fitted(self)
        if isinstance(x, Mapping):
            cells = np.full((1, self.n_features_in_), np.nan, dtype=object)
            for name, value in x.items():
                cells[0, self._fitted.place_of(name)] = value
            row: DataLike = cells
        elif sparse.issparse(x) or frame_of(x) != "array":
            row = x
        else:
            row = np.atleast_2d(np.asarray(x))
        with warnings.catch_warnings():
            # A single row has no column names; columns are in the order of the fit.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            checked = self._checked(row)
        if checked.shape[0] != 1:
            raise ValueError(
                f"x must be one row, but has {checked.shape[0]} rows; call explain(X[i])."
            )
        return checked

    # --- display, files, and scikit-learn's protocol ---

    def show(
        self,
        data: DataLike | None = None,
        *,
        image_shape: Sequence[int] | None = None,
        row_names: Sequence[object] | None = None,
        column_names: Sequence[object] | None = None,
        title: str | None = None,
        height: int = 900,
    ) -> None:
        """Display the explorer of the fitted model in a notebook.

        `partwise.report.write_report` writes the same page to a file.

        Parameters
        ----------
        data : array-like, frame or sparse of shape (n, D), optional
            Rows to show.
        image_shape : two int, optional
            Height and width, if the columns are the pixels of an image.
        row_names, column_names : sequence, optional
            Names of rows and columns; by default those of the frame.
        title : str, optional
        height : int, default=900
            In pixels.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> model.show(X)  # doctest: +SKIP
        """
        from partwise.report import show

        show(
            self,
            height,
            data=data,
            image_shape=image_shape,
            row_names=row_names,
            column_names=column_names,
            title=type(self).__name__ if title is None else title,
        )

    def _learned(self, *more: str) -> dict[str, object]:
        """Learned attributes that do not follow from the parameters."""
        always = ("lower_bound_", "lower_bounds_", "n_iter_", "converged_", "n_features_in_")
        more = (*more, "n_samples_seen_", "weight_seen_")
        names = getattr(self, "feature_names_in_", None)
        learned = {name: getattr(self, name) for name in (*always, *more) if hasattr(self, name)}
        if names is not None:
            learned["feature_names_in_"] = np.asarray([str(n) for n in names], dtype=object)
        return learned

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._dense_since is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.classifier_tags = ClassifierTags()  # fitted with labels, it predicts classes
        if getattr(self, "n_classes", None) is not None or hasattr(self, "classes_"):
            tags.estimator_type = "classifier"
        return tags

    def save(self, path: PathLike) -> None:
        """Write the fitted model to one safetensors file, atomically; read it with `partwise.load`.

        Parameters
        ----------
        path : str or path-like

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> import os, tempfile
        >>> import partwise
        >>> path = os.path.join(tempfile.mkdtemp(), "iris.safetensors")
        >>> model.save(path)
        >>> partwise.load(path)
        MCVQ(n_parts=2, n_states=3, random_state=0)
        """
        from partwise.files.model import save

        check_is_fitted(self)
        save(self, path)


def adopted(estimator: EstimatorT, fitted: OwnFitted) -> EstimatorT:
    """An estimator with what another fit has learned."""
    return estimator._adopt(fitted)


def checked_rows(estimator: PartsEstimator, X: DataLike) -> Matrix:
    """Rows in memory, checked against a fitted estimator and coded as its model has them."""
    return estimator._checked(X)
