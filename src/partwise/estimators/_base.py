"""What all estimators share: checking input, walking rows, climbing with restarts, saving."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import CallbackSupportMixin, check_sample_weight
from partwise.contracts import Array
from partwise.data import ColumnGroup, MemorySource, RowBlock
from partwise.engine import Monitor, climb
from partwise.engine.progress import ProgressBar
from partwise.runners import runner_for


class PartsEstimator(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators: data in and out, and the driving of the engine.

    A child defines ``fit`` and the verbs of its model; it keeps its parameters in ``_theta``, its
    model in ``_model`` and what it knows of the columns in ``_columns``.
    """

    _columns: tuple[ColumnGroup, ...]
    _theta: Any
    _model: Any

    # --- input ---

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Finite floats, dense with NaN for missing entries or CSR, in the fit's dtype."""
        dtype = [np.float64, np.float32] if reset else self._dtype
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=dtype,
            ensure_all_finite=False,
        )
        values = X.data if sparse.issparse(X) else X
        if np.isinf(values).any():
            raise ValueError(
                "Input X contains infinity or a value too large for its dtype; replace such "
                "entries by NaN to treat them as missing."
            )
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if not reset and sparse.issparse(X) and self._absent_zero() != self._columns[0].absent_zero:
            X = X.toarray()  # fitted dense: what X does not store is a zero there too
        return X

    def _check_fit_rows(self, X: Any, sample_weight: Any) -> tuple[Any, Array]:
        """Rows and their weights; rows without weight are left out, as if never given."""
        X = self._check_rows(X, reset=True)
        weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise ValueError("sample_weight is zero for every row; give some row a weight.")
        kept = weight > 0
        if not kept.all():
            X, weight = X[kept], weight[kept]
        return X, weight

    def _warn_of_holes(self, columns: tuple[ColumnGroup, ...]) -> None:
        empty = np.concatenate([group.weight for group in columns]) <= 0
        if empty.any():
            warnings.warn(
                f"{empty.sum()} of {len(empty)} columns have no observed entry "
                f"(first: {self._column_name(int(empty.argmax()))}); the model learns nothing "
                "about them, and fills them with zero or the first level.",
                UserWarning,
                stacklevel=4,
            )

    def _column_name(self, d: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(d) if names is None else str(names[d])

    # --- rows in blocks ---

    def _source(self, X: Any, most_rows: int | None = None) -> MemorySource:
        weight = np.ones(X.shape[0])
        return MemorySource(X, self._columns, weight, keep=False, most_rows=most_rows)

    def _map_rows(
        self,
        X: Any,
        function: Callable[[RowBlock, int], Any],
        most_rows: int | None = None,
    ) -> list[Any]:
        """``function(block, index)`` of every block of new rows, in order."""
        source = self._source(X, most_rows)
        with runner_for(self.n_jobs, source.n_blocks) as runner:
            return list(runner.map(function, source.blocks(), range(source.n_blocks)))

    # --- fitting ---

    def _climb_best(
        self,
        source: MemorySource,
        begin: Callable[
            [np.random.Generator], tuple[Sequence[tuple[Any, Sequence[Any], int]], Any]
        ],
        rng: np.random.Generator,
        X: Any,
        n_init: int,
    ) -> tuple[Any, Any, Monitor]:
        """Climb from ``n_init`` starts and keep the best.

        ``begin(rng)`` gives the legs of a climb, each a model, its warm-up stages and the window of
        its monitor, and the first parameters; a later leg goes on from the one before.
        """
        deadline = float("inf") if self.max_time is None else time.monotonic() + self.max_time
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self, X=X)
        best: tuple[Any, Any, Monitor] | None = None
        name = type(self).__name__
        with (
            ProgressBar(name, self.max_iter, bool(self.verbose)) as bar,
            runner_for(self.n_jobs, source.n_blocks) as runner,
        ):
            for i, child in enumerate(rng.spawn(n_init)):
                legs, theta = begin(child)
                for model, stages, window in legs:

                    def on_step(n_iter: int, bound: float, i: int = i) -> bool:
                        bar.update(n_iter, bound, f"{name} start {i + 1}/{n_init}")
                        step = root.subcontext(task_name="sweep")
                        step.call_on_fit_task_begin(estimator=self, X=X)
                        return bool(step.call_on_fit_task_end(estimator=self, X=X))

                    monitor = Monitor(
                        self.max_iter,
                        self.tol,
                        float(source.weight.sum()),
                        deadline,
                        window,
                        on_step,
                    )
                    theta = climb(model, theta, source, runner, monitor, stages)
                if best is None or monitor.trace[-1] > best[2].trace[-1]:
                    best = model, theta, monitor
                if monitor.out_of_time or monitor.interrupted:
                    break
        assert best is not None
        self._warn_of_end(best[2])
        root.call_on_fit_task_end(estimator=self, X=X)
        return best

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
        warnings.warn(text, ConvergenceWarning, stacklevel=5)  # the line that called fit

    # --- saving ---

    def save(self, path: Any) -> None:
        """Write the fitted model to one safetensors file, atomically; `partwise.load` reads it.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.io import save

        check_is_fitted(self)
        save(self, path)
