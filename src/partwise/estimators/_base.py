"""What all estimators share: checking input, walking rows, climbing with restarts, shared verbs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import CallbackSupportMixin, check_columns
from partwise._warnings import warn
from partwise.contracts import Array, Params
from partwise.data import BlockSource, ColumnGroup, ObservedCells, RowSource
from partwise.data.frames import as_numbers, frame_of
from partwise.data.indices import check_indices
from partwise.data.rows import check_finite, is_sparse, out_of_memory
from partwise.engine import Monitor
from partwise.estimators._rows import by_rows
from partwise.estimators._verbs import ClassMixin, DensityMixin, can
from partwise.fitted import Fitted, shared_attributes
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.course import warn_of_holes
from partwise.fitting.options import AscentOptions, Listener
from partwise.fitting.restarts import Begun, ModelT, climb_best
from partwise.fitting.weights import read_weights
from partwise.likelihoods import Prior
from partwise.runners import placed


def prior_of(estimator: BaseEstimator) -> Prior | None:
    """Strengths of the priors, None for maximum likelihood."""
    return estimator._usual_prior if isinstance(estimator.prior, str) else estimator.prior


class PartsEstimator(
    DensityMixin, ClassMixin, CallbackSupportMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators: data in and out, and the driving of the engine.

    A child defines ``fit`` and the verbs of its model. What is learned is one value, ``_fitted``
    (`partwise.fitted.Fitted`): ``fit`` makes it and hands it to ``_adopt``, which alone sets public
    attributes, those that all estimators share and what the child's ``_attributes`` gives. A model
    file holds what ``__partwise_state__`` makes of it; ``__partwise_restore__`` makes a `Fitted` of
    that (its record by `partwise.fitted.restored_fields`) and adopts it. The child answers
    ``_likelihoods(X, n_draws)``, the rows' likelihood under every class (N, n) with its error,
    ``_class_shares()`` (N,), ``_n_parameters()``, and for checked rows ``_reconstruct``,
    ``_impute``, and where they make sense ``_interval``, ``_anomaly_scores`` and
    ``_cell_densities``.
    """

    _fitted: Fitted[Any, Any, Any]

    def _adopt(self, fitted: Fitted[Any, Any, Any]) -> Self:
        """Make a fitted model this estimator's own; nothing else sets learned attributes."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)  # of a fit before
        self._fitted = fitted
        for name, value in {**shared_attributes(fitted), **self._attributes()}.items():
            setattr(self, name, value)
        return self

    def _attributes(self) -> dict[str, Any]:
        """Learned attributes of this model alone, in the user's units, by name."""
        raise NotImplementedError

    # Why sparse rows are refused, if they are.
    _dense_since: ClassVar[str | None] = None

    # --- input ---

    def _check_rows(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Any:
        """Finite floats, dense with NaN for missing entries or CSR, in the fit's dtype.

        Rows that are not in memory come as they are: what they hold is checked as it is read.
        ``sample_weight`` tells which rows of a table its columns' kinds are learned from.
        """
        X = out_of_memory(X)
        if is_sparse(X) and self._dense_since is not None:
            raise TypeError(
                f"{type(self).__name__} takes dense X only, not sparse: {self._dense_since}; pass "
                "X.toarray(), with NaN for entries that are missing."
            )
        if isinstance(X, RowSource):
            if not reset:
                raise TypeError("X must be in memory here; pass X[lo:hi] of some rows at a time.")
            check_columns(self, X, X.names, reset=True)
            return X
        if isinstance(X, ObservedCells):
            if X.is_sparse and self._absent_zero():
                raise ValueError(
                    "Entries that sparse X does not store are zeros here, and could not be told "
                    'from cells held out; pass ObservedCells(X, sparse_absent="zero").'
                )
            X = X.table()
        dtype = [np.float64, np.float32] if reset else self._fitted.dtype
        check_indices(X)
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
        # Fitted dense, what X does not store is a zero there too.
        return X if self._absent_zero() == self._fitted.columns[0].absent_zero else X.toarray()

    def _check_fit_rows(
        self, X: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Any, Array, Array]:
        """Rows with weight, their weights, and which they are: the others are as if never given."""
        self._halted = False
        X = placed(self._check_rows(X, reset=reset, sample_weight=sample_weight))
        if isinstance(X, RowSource):
            X.look(absent_zero=self._absent_zero())
        weight = read_weights(sample_weight, X.shape[0])
        kept = weight > 0
        if not kept.all():
            X, weight = X.some(kept) if isinstance(X, RowSource) else X[kept], weight[kept]
        return X, weight, kept

    def _as_given(self, values: Array, X: Any = None) -> Any:
        """Rows that the model made, as a table of the user's kind, that of X if there is one."""
        return values

    def _warn_of_holes(self, columns: tuple[ColumnGroup, ...]) -> None:
        warn_of_holes(columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    @property
    def _usual_prior(self) -> Prior:
        """What ``prior="conjugate"`` is."""
        return Prior()

    def _check_transformed(self, X: Any, what: str, dtype: Any = float) -> Array:
        """What `inverse_transform` is given: a column for every ``what``."""
        codes, n = np.asarray(X, dtype=dtype), self._n_features_out
        if codes.ndim != 2 or codes.shape[1] != n:
            raise ValueError(
                f"X has shape {codes.shape}, but inverse_transform needs (n, {n}), a column for "
                f"every {what}, as transform gives."
            )
        return codes

    # --- fitting ---

    _halted = False

    def stop(self) -> None:
        """End the fit that is under way at its next sweep; the best parameters so far are kept.

        For signal handlers and other threads: `fit` itself returns, a little later.
        """
        self._halted = True

    def _deadline(self) -> float:
        """Value of ``time.monotonic()`` at which ``max_time``, beginning now, is over."""
        return float("inf") if self.max_time is None else time.monotonic() + self.max_time

    def _climb_best(
        self,
        source: BlockSource,
        begin: Callable[[int, np.random.Generator], Begun[ModelT, Params]],
        rng: np.random.Generator,
        X: Any,
        n_init: int,
        deadline: float | None = None,
        log: FitLog | None = None,
    ) -> tuple[ModelT, Params, Monitor]:
        """Climb from ``n_init`` starts and keep the best.

        ``begin(i, rng)`` gives the stages of start i and its first parameters; a later stage goes
        on from the one before. ``max_time`` begins to run here unless a ``deadline`` is given. What
        the ``log`` records as done is not done again.
        """
        name, verbose = type(self).__name__, bool(self.verbose)
        limits = n_init, self.max_iter, self.tol, self.max_time
        ascent = AscentOptions(name, *limits, self.n_jobs, verbose)
        log = FitLog(self.random_state) if log is None else log
        deadline = ascent.deadline() if deadline is None else deadline
        with self._listen(X) as listener:
            return climb_best(source, begin, rng, ascent, log, listener, deadline)

    def _log(self, checkpoint: Any, *rows: Any) -> FitLog:
        """What a fit to these rows (X, weights, labels) has done so far."""
        return FitLog(self.random_state, checkpoint, self._arguments(), *rows)

    def _arguments(self) -> dict[str, Any]:
        """Arguments of the estimator, and its name, which a checkpoint is compared with."""
        return {"model": type(self).__name__, **self.get_params(deep=False)}

    @contextmanager
    def _listen(self, X: Any) -> Iterator[Listener]:
        """Tell scikit-learn's callbacks of an ascent on rows X while it lasts."""
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
            text = f"max_time={self.max_time} ran out; the best parameters so far are kept."
        elif not monitor.converged and not monitor.interrupted:
            text = (
                f"max_iter={self.max_iter} sweeps were not enough to converge to tol={self.tol}; "
                "raise max_iter or tol."
            )
        else:
            return
        warn(text, ConvergenceWarning)

    # --- entries ---

    @by_rows
    def reconstruct(self, X: Any) -> Array:
        """What the model expects of each row, observed entries included.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        rows : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        rows = self._reconstruct(self._check_rows(X, reset=False))
        return self._as_given(rows.astype(self._fitted.dtype, copy=False), X)

    @by_rows
    def impute(self, X: Any) -> Array:
        """Fill missing entries; observed ones stay as they are.

        Numbers get their expectation, categories and yes-or-no entries the most probable value.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        filled : ndarray of shape (n, D)
            Dense also for sparse X.
        """
        check_is_fitted(self)
        X = self._check_rows(X, reset=False)
        filled = self._impute(X).astype(self._fitted.dtype, copy=False)
        if not sparse.issparse(X):
            return np.where(np.isnan(X), filled, X)
        X = X.tocoo()
        filled = np.zeros_like(filled) if self._absent_zero() else filled.copy()
        seen = ~np.isnan(X.data)
        filled[X.row[seen], X.col[seen]] = X.data[seen]
        return filled

    @available_if(can("_interval"))
    @by_rows
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Interval that should hold an entry with probability ``coverage``.

        For an observed cell it is what the model expects from the row's other cells and itself.
        Numbers: the model's tail probabilities are corrected by how often cells hidden from it in
        `fit` lay beyond them, so that intervals hold where its distributions do not.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray of shape (n, D)
        """
        check_is_fitted(self)
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r} must lie above 0 and below 1, as 0.9.")
        ends = self._interval(self._check_rows(X, reset=False), 0.5 * (1.0 - coverage))
        dtype = self._fitted.dtype
        lower, upper = (self._as_given(end.astype(dtype, copy=False), X) for end in ends)
        return lower, upper

    @available_if(can("_anomaly_scores"))
    @by_rows
    def anomaly_scores(self, X: Any) -> Array:
        """How odd each part of each row is: minus the log-likelihood of the part's entries.

        Where every column has one part, and without classes, the scores of a row sum to minus its
        log-likelihood, that of background columns aside.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        scores : ndarray of shape (n, K)
            In nats; a part without observed entries scores 0.
        """
        check_is_fitted(self)
        return self._anomaly_scores(self._check_rows(X, reset=False))

    def _one_row(self, x: Any) -> Any:
        """A single row, checked."""
        check_is_fitted(self)
        if isinstance(x, Mapping):
            row = np.full((1, self.n_features_in_), np.nan, dtype=object)
            for name, value in x.items():
                row[0, self._fitted.place_of(name)] = value
        elif sparse.issparse(x) or frame_of(x) != "array":
            row = x
        else:
            row = np.atleast_2d(np.asarray(x))
        with warnings.catch_warnings():
            # A single row has lost its column names; their order is all there is to go by.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            row = self._check_rows(row, reset=False)
        if row.shape[0] != 1:
            raise ValueError(f"x must be one row, but has {row.shape[0]}; call explain(X[i]).")
        return row

    # --- showing, saving, and what scikit-learn asks ---

    def show(
        self,
        data: Any = None,
        *,
        image_shape: Sequence[int] | None = None,
        row_names: Sequence[Any] | None = None,
        column_names: Sequence[Any] | None = None,
        title: str | None = None,
        height: int = 900,
    ) -> None:
        """Display the explorer of the fitted model in a notebook.

        `partwise.report.write_report` writes the same page to a file.

        Parameters
        ----------
        data : array-like, frame or sparse of shape (n, D), optional
            Rows to look at.
        image_shape : two int, optional
            Height and width, if the columns are the pixels of an image.
        row_names, column_names : sequence, optional
            What rows and columns are called; those of frames if not given.
        title : str, optional
        height : int, default=900
            In pixels.
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

    def _learned(self, *more: str) -> dict[str, Any]:
        """Learned attributes that are not made from the parameters, those of fit among them."""
        always = ("lower_bound_", "lower_bounds_", "n_iter_", "converged_", "n_features_in_")
        more = (*more, "n_samples_seen_", "weight_seen_")
        names = getattr(self, "feature_names_in_", None)
        learned = {name: getattr(self, name) for name in (*always, *more) if hasattr(self, name)}
        if names is not None:
            learned["feature_names_in_"] = np.asarray([str(n) for n in names], dtype=object)
        return learned

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self._dense_since is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.classifier_tags = ClassifierTags()  # fitted with labels, it predicts
        return tags

    def save(self, path: Any) -> None:
        """Write the fitted model to one safetensors file, atomically; `partwise.load` reads it.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.files.model import save

        check_is_fitted(self)
        save(self, path)
