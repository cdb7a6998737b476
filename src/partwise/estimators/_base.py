"""What all estimators share: checking input, walking rows, climbing with restarts, shared verbs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse, special
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise._compat import CallbackSupportMixin, check_columns
from partwise._warnings import warn
from partwise.contracts import Array
from partwise.data import BlockSource, ColumnGroup, ObservedCells, RowBlock, RowSource, by_column
from partwise.data.cells import cells_of_block, check_cells
from partwise.data.frames import as_numbers, frame_of
from partwise.data.indices import check_indices
from partwise.data.rows import check_finite, is_sparse, out_of_memory
from partwise.engine import Monitor, climb
from partwise.engine.progress import ProgressBar
from partwise.engine.randomness import as_generator
from partwise.estimators._rows import by_rows
from partwise.fitted import Fitted, shared_attributes
from partwise.fitting.checkpoint import FitLog
from partwise.fitting.labels import class_numbers, classes_of_rows
from partwise.fitting.restarts import Stage
from partwise.fitting.weights import read_weights
from partwise.likelihoods import Prior
from partwise.runners import placed, runner_of
from partwise.sampling.importance import RowLikelihood, mix_classes

# Draws a row where classes are told by importance sampling.
CLASS_DRAWS = 200


def has_classes(estimator: Any) -> bool:
    """Whether there is, or will be after fit, a class variable."""
    if getattr(estimator, "n_classes", None) is None and not hasattr(estimator, "classes_"):
        how = "set n_classes, or fit" if hasattr(estimator, "n_classes") else "fit"
        raise AttributeError(f"There are no classes; {how} with labels.")
    return True


def _number(value: Any) -> float:
    """A weight, NaN if it is none."""
    return float(value) if isinstance(value, Real) else np.nan


def _can(hook: str) -> Callable[[Any], bool]:
    """Whether the model defines what a verb needs."""
    return lambda estimator: hasattr(type(estimator), hook)


class _OfFitted:
    """A field of ``_fitted`` by another name, for estimators that set it themselves until then."""

    def __init__(self, field: str) -> None:
        self.field = field

    def __get__(self, estimator: Any, _: type | None = None) -> Any:
        return self if estimator is None else getattr(estimator._fitted, self.field)


class PartsEstimator(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators: data in and out, and the driving of the engine.

    A child defines ``fit`` and the verbs of its model. What is learned is one value, ``_fitted``
    (`partwise.fitted.Fitted`): ``fit`` makes it and hands it to ``_adopt``, which alone sets public
    attributes, those that all estimators share and what the child's ``_attributes`` gives. A model
    file holds what ``_state`` makes of it; ``_restore`` makes a `Fitted` of that (its record by
    `partwise.fitted.restored_fields`) and adopts it. The child answers
    ``_likelihoods(X, n_draws)``, the rows' likelihood under every class (N, n) with its error,
    ``_class_shares()`` (N,), ``_n_parameters()``, and for checked rows ``_reconstruct``,
    ``_impute``, and where they make sense ``_interval``, ``_anomaly_scores`` and
    ``_cell_densities``.
    """

    _fitted: Fitted[Any, Any]
    _columns: Any = _OfFitted("columns")
    _theta: Any = _OfFitted("params")
    _prepared: Any = _OfFitted("prepared")
    _model: Any = _OfFitted("model")
    _dtype: Any = _OfFitted("dtype")
    _calibration: Any = _OfFitted("calibration")

    def _adopt(self, fitted: Fitted[Any, Any]) -> Self:
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
        dtype = [np.float64, np.float32] if reset else self._dtype
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
        if not reset and sparse.issparse(X) and self._absent_zero() != self._columns[0].absent_zero:
            X = X.toarray()  # fitted dense: what X does not store is a zero there too
        return X

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
        weights = [group.weight for group in columns]
        empty = by_column(columns, weights, self.n_features_in_) <= 0
        if empty.any():
            warn(
                f"{empty.sum()} of {len(empty)} columns have no observed entry "
                f"(first: {self._column_name(int(empty.argmax()))}); the model learns nothing "
                "about them, and fills them with zero or the first level."
            )

    def _column_name(self, d: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(d) if names is None else str(names[d])

    def _place_of(self, name: Any) -> int:
        """Place of a column by its name, or its number where columns have no names."""
        names = [self._column_name(d) for d in range(self.n_features_in_)]
        if str(name) not in names:
            known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ValueError(f"There is no column {name!r}; columns are {known}.")
        return names.index(str(name))

    @property
    def _usual_prior(self) -> Prior:
        """What ``prior="conjugate"`` is."""
        return Prior()

    def _modelled(self, core: Any, columns: tuple[ColumnGroup, ...]) -> Any:
        """What is climbed with: the core, or more on top of it."""
        return core

    def _check_transformed(self, X: Any, what: str, dtype: Any = float) -> Array:
        """What `inverse_transform` is given: a column for every ``what``."""
        codes, n = np.asarray(X, dtype=dtype), self._n_features_out
        if codes.ndim != 2 or codes.shape[1] != n:
            raise ValueError(
                f"X has shape {codes.shape}, but inverse_transform needs (n, {n}), a column for "
                f"every {what}, as transform gives."
            )
        return codes

    # --- rows in blocks ---

    def _source(self, X: Any, max_rows: int | None = None) -> BlockSource:
        weight = np.ones(X.shape[0])
        return BlockSource(X, self._columns, weight, keep=False, max_rows=max_rows)

    def _map_rows(
        self,
        X: Any,
        function: Callable[[RowBlock, int], Any],
        max_rows: int | None = None,
    ) -> list[Any]:
        """``function(block, index)`` of every block of new rows, in order."""
        source = self._source(X, max_rows)
        with runner_of(self.n_jobs, source) as runner:
            return list(runner.map(function, source, range(source.n_blocks)))

    def _likelihood_of_rows(
        self,
        X: Any,
        on_block: Callable[[RowBlock, int], RowLikelihood],
        max_rows: int | None = None,
    ) -> RowLikelihood:
        """Likelihoods of every block's rows under every class, side by side."""
        fields = zip(*self._map_rows(X, on_block, max_rows), strict=True)
        return RowLikelihood(*(np.concatenate(field, axis=1) for field in fields))

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
        begin: Callable[[int, np.random.Generator], tuple[Sequence[Stage], Any]],
        rng: np.random.Generator,
        X: Any,
        n_init: int,
        deadline: float | None = None,
        log: FitLog | None = None,
    ) -> tuple[Any, Any, Monitor]:
        """Climb from ``n_init`` starts and keep the best.

        ``begin(i, rng)`` gives the stages of start i and its first parameters; a later stage goes
        on from the one before. ``max_time`` begins to run here unless a ``deadline`` is given. What
        the ``log`` records as done is not done again.
        """
        log = FitLog(self, None) if log is None else log
        deadline = self._deadline() if deadline is None else deadline
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self, X=X)
        name, weight = type(self).__name__, float(source.weight.sum())
        best = log.best(partial(Monitor, self.max_iter, self.tol, weight))
        with (
            ProgressBar(name, self.max_iter, bool(self.verbose)) as bar,
            runner_of(self.n_jobs, source) as runner,
        ):
            for i, child in log.starts(rng.spawn(n_init)):
                stages, theta = begin(i, child)
                for stage, begun in log.stages(stages):
                    theta = theta if stage.enter is None or begun else stage.enter(theta)

                    def on_step(n_iter: int, bound: float, i: int = i) -> bool:
                        bar.update(n_iter, bound, f"{name} start {i + 1}/{n_init}")
                        step = root.subcontext(task_name="sweep")
                        step.call_on_fit_task_begin(estimator=self, X=X)
                        return bool(step.call_on_fit_task_end(estimator=self, X=X))

                    monitor = Monitor(
                        self.max_iter,
                        self.tol,
                        weight,
                        deadline,
                        stage.window,
                        on_step,
                        enough=stage.enough,
                        halted=lambda: self._halted,
                    )
                    theta = climb(
                        stage.model,
                        theta,
                        source,
                        runner,
                        monitor,
                        stage.annealing,
                        stage.probe,
                        log,
                    )
                if best is None or monitor.trace[-1] > best[1].trace[-1]:
                    best = theta, monitor
                    log.note_best(*best)
                if monitor.out_of_time or monitor.interrupted:
                    break
        assert best is not None
        self._warn_of_end(best[1])
        root.call_on_fit_task_end(estimator=self, X=X)
        return stage.model, *best

    def _keep(self, model: Any, params: Any) -> None:
        """Set the model and what it learned, prepared for new rows."""
        self._model, self._theta, self._prepared = model, params, model.prepare(params)

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
        return self._as_given(rows.astype(self._dtype, copy=False), X)

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
        filled = self._impute(X).astype(self._dtype, copy=False)
        if not sparse.issparse(X):
            return np.where(np.isnan(X), filled, X)
        X = X.tocoo()
        filled = np.zeros_like(filled) if self._absent_zero() else filled.copy()
        seen = ~np.isnan(X.data)
        filled[X.row[seen], X.col[seen]] = X.data[seen]
        return filled

    @available_if(_can("_interval"))
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
        lower, upper = (self._as_given(end.astype(self._dtype, copy=False), X) for end in ends)
        return lower, upper

    @available_if(_can("_anomaly_scores"))
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
                row[0, self._place_of(name)] = value
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

    def _telling(
        self, row: Any, columns: Array, expected: Array, evidence: Array, most: int
    ) -> list[dict[str, Any]]:
        """The columns whose entries speak loudest for what the model sees in a row."""
        values = row.toarray()[0] if sparse.issparse(row) else row[0]
        return [
            {
                "column": self._column_name(int(columns[i])),
                "value": float(values[columns[i]]),
                "expected": float(expected[i]),
                "evidence": float(evidence[i]),
            }
            for i in np.argsort(-evidence, kind="stable")[:most]
        ]

    # --- densities ---

    @available_if(_can("_likelihoods"))
    def bic(self, X: Any) -> float:
        """Bayesian information criterion; lower is better.

        Counts the parameters of each column under its own part, the priors and the gates.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        bic : float
        """
        log_likelihood = np.asarray(self.score_samples(X))
        penalty = self._n_parameters() * np.log(len(log_likelihood))
        return float(penalty - 2.0 * log_likelihood.sum())

    @available_if(_can("_likelihoods"))
    @by_rows
    def row_likelihood(self, X: Any, n_draws: int = 200) -> RowLikelihood:
        """Log-likelihood of each row with its error.

        Exact where every column has one part, or where the combinations of states are few; else by
        importance sampling of the states, the selections of parts summed out.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
        n_draws : int, default=200
            Draws a row where sampling is needed.

        Returns
        -------
        result : RowLikelihood
            Fields ``log_likelihood``, ``standard_error`` (0 where exact) and ``effective_draws``
            (infinite where exact), each of shape (n,).
        """
        check_is_fitted(self)
        if n_draws < 1:
            raise ValueError(f"n_draws={n_draws!r} must be at least 1.")
        found = self._likelihoods(self._check_rows(X, reset=False), n_draws)
        return mix_classes(found, np.log(self._class_shares()))

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        log_likelihood : ndarray of shape (n,)
            See `row_likelihood` for its error where it is an estimate.
        """
        return self.row_likelihood(X).log_likelihood

    @available_if(_can("_cell_densities"))
    def score_cells(self, X: Any, rows: Any, columns: Any, values: Any) -> Array:
        """Log predictive density of single cells, each given what X holds of its row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)
            What is known; a cell asked for should be missing here.
        rows, columns : array-like of shape (n_cells,), int
            Places of the cells, in any order.
        values : array-like of shape (n_cells,)
            What stands there.

        Returns
        -------
        log_density : ndarray of shape (n_cells,)
            In nats, for the units of X; of counts and categories the log probability.
        """
        check_is_fitted(self)
        return self._score_cells(self._check_rows(X, reset=False), rows, columns, values)

    def _score_cells(self, X: Any, rows: Any, columns: Any, values: Any) -> Array:
        """The same of checked rows and values as these have them."""
        cells = check_cells(X.shape, rows, columns, values)
        order = np.argsort(cells[0], kind="stable")
        row, column, value = (field[order] for field in cells)
        source, found = self._source(X), np.empty(len(row))

        def on_block(block: RowBlock, i: int) -> None:
            bounds = source.bounds[i]
            for g, which, r, d, coded in cells_of_block(self._columns, bounds, row, column, value):
                density = self._cell_densities(block, g, r, d, coded)
                found[order[which]] = density + self._columns[g].base(coded, d)

        self._map_rows(X, on_block)
        return found

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood of the rows, or mean log predictive density of held-out cells.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D), or ObservedCells
            Each of `partwise.ObservedCells` that were chosen from a table is judged given its
            row's others: see `score_cells`.
        y : ignored
        sample_weight : array-like of shape (n,), optional
            Weights of the rows; a cell has that of its row.

        Returns
        -------
        score : float
        """
        if isinstance(X, ObservedCells):
            found = self.score_cells(X.others(), X.rows, X.columns, X.values)
            weight = read_weights(sample_weight, X.n_rows)[X.rows]
        else:
            found = np.asarray(self.score_samples(X))
            weight = read_weights(sample_weight, len(found))
        return float(np.average(found, weights=weight))

    # --- classes ---

    @available_if(has_classes)
    @by_rows
    def predict_proba(self, X: Any) -> Array:
        """Probability of every class.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        probability : ndarray of shape (n, N)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._class_proba(self._check_rows(X, reset=False))

    def _class_proba(self, X: Any) -> Array:
        """Probability of every class of checked rows, (n, N)."""
        found = self._likelihoods(X, CLASS_DRAWS)
        joint = found.log_likelihood.T + np.log(self._class_shares())
        return special.softmax(joint, axis=1)

    @available_if(has_classes)
    @by_rows
    def predict(self, X: Any) -> Array:
        """Most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse of shape (n, D)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _draw_parts(self, n_samples: int, rng: np.random.Generator) -> Array:
        """Part that each entry of new rows selects, (n, D)."""
        gates = np.cumsum(self._theta.gates, axis=0)
        u = rng.random((n_samples, gates.shape[1])) * gates[-1]
        return np.minimum((gates[:, None, :] <= u).sum(axis=0), len(gates) - 1)

    def _draw_classes(
        self, n_samples: int, states: Any, classes: Any, hybrid: Any, random_state: Any
    ) -> tuple[Array, Array, np.random.Generator]:
        """Class of each new row (n,), class whose prior each of its parts takes (n, K), and rng."""
        if states is not None and (classes is not None or hybrid is not None):
            raise ValueError("Give either states, or classes and hybrid to draw them from.")
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number of at least 1.")
        if not isinstance(hybrid, dict | None):
            raise ValueError(f"hybrid={hybrid!r} must map parts to classes, as {{0: 'smile'}}.")
        rng = as_generator(self.random_state if random_state is None else random_state)
        if not hasattr(self, "classes_"):
            if classes is not None or hybrid is not None:
                raise ValueError(
                    "classes and hybrid need a class variable; set n_classes, or fit with labels."
                )
            return np.zeros(n_samples, int), np.zeros((n_samples, self.n_parts_), int), rng
        shares = self._class_shares()
        if classes is None:
            rows = rng.choice(len(shares), n_samples, p=shares / shares.sum())
        else:
            rows = classes_of_rows(classes, self.classes_, n_samples)
        by_part = np.repeat(rows[:, None], self.n_parts_, axis=1)
        for part, wanted in (hybrid or {}).items():
            if isinstance(part, bool) or part not in range(self.n_parts_):
                raise ValueError(
                    f"hybrid names part {part!r}, but parts are 0 to {self.n_parts_ - 1}."
                )
            mixture = wanted.items() if isinstance(wanted, dict) else [(wanted, 1.0)]
            numbers = class_numbers([name for name, _ in mixture], self.classes_, "hybrid")
            weights = np.array([_number(weight) for _, weight in mixture])
            if numbers.ndim != 1 or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
                raise ValueError(
                    f"hybrid[{part!r}]={wanted!r} must be one class, or map classes to positive "
                    "weights."
                )
            by_part[:, int(part)] = rng.choice(numbers, n_samples, p=weights / weights.sum())
        return rows, by_part, rng

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
        return hasattr(self, "_fitted") or "_theta" in vars(self)

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
