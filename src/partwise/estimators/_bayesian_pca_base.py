"""What Bayesian PCA and its mixtures share: input and methods."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise._compat import Interval, StrOptions
from partwise.answers import components
from partwise.answers.results import Explanation
from partwise.contracts import Array
from partwise.data import ColumnGroup, learn_columns
from partwise.estimators._base import PartsEstimator
from partwise.fitted import FittedComponents, fields_of, restored_fields
from partwise.fitting.ascent import Ascent
from partwise.fitting.component_space import ComponentOptions, shares_prior
from partwise.fitting.options import Rows, TrainingRows
from partwise.likelihoods import Gaussian
from partwise.models.bayesian_pca import BayesianPCA, BayesianPCAParams, Broad, PointValues
from partwise.models.calibration import Calibration
from partwise.sampling.importance import RowLikelihood
from partwise.sampling.randomness import as_generator
from partwise.starts.principal import isotropic
from partwise.typing import DataLike, Given, Matrix, SavedState, Seed

# Shape and rate of the Gamma priors and precision of the means, as in the paper.
STRENGTH = 1e-3

SIZE = [Interval(Integral, 1, None, closed="left"), None]

SHARED: dict[str, list[object]] = {
    "prior": [StrOptions({"conjugate"}), Interval(Real, 0, None, closed="neither"), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_time": [Interval(Real, 0, None, closed="neither"), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose"],
}


def restored_params(saved: list[SavedState]) -> tuple[BayesianPCAParams, ...]:
    """The mixtures of a state's ``theta``, one per class."""
    return tuple(BayesianPCAParams(**params) for params in saved)


class ComponentEstimator(PartsEstimator):
    """Base of Bayesian PCA and its mixtures."""

    _fitted: FittedComponents
    _size_name: ClassVar[str]  # argument that limits the number of directions
    _kept: ClassVar[tuple[str, ...]]  # attributes that files hold

    # --- input ---

    _dense_since = "every direction adds to every entry"

    def _check_size(self, X: Rows) -> None:
        """Raise an error for too few rows or columns."""
        n_rows, n_columns = X.shape
        if n_rows < 2:
            raise ValueError(f"n_samples={n_rows}: {type(self).__name__} needs at least 2 rows.")
        if n_columns < 2:
            raise ValueError(
                f"n_features={n_columns}: {type(self).__name__} needs at least 2 columns: it has "
                "fewer directions than columns."
            )
        asked = getattr(self, self._size_name)
        if asked is not None and asked >= n_columns:
            raise ValueError(
                f"{self._size_name}={asked} must be at most {n_columns - 1}, one less "
                "than the number of columns."
            )

    def _read(
        self, X: DataLike, sample_weight: ArrayLike | None
    ) -> tuple[TrainingRows, ColumnGroup]:
        """Checked rows, and the columns."""
        rows = self._training_rows(X, sample_weight)
        self._check_size(rows.X)
        columns = learn_columns(rows.X, "gaussian", rows.weight, False, None)
        if not columns[0].weight.any():
            raise ValueError("X has no observed values, all are NaN; pass rows with some values.")
        self._warn_of_missing(columns)
        return rows, isotropic(columns[0])

    def _prior(self) -> Broad | PointValues:
        if self.prior is None:
            return PointValues()
        strength = STRENGTH if isinstance(self.prior, str) else float(self.prior)
        return Broad(strength, bool(getattr(self, "relevance", True)))

    def _options(self, n_components: int | None, ascent: Ascent) -> ComponentOptions:
        asked = getattr(self, self._size_name)
        return ComponentOptions(
            self._prior(),
            n_components,
            None if asked is None else int(asked),
            self.max_iter,
            self.tol,
            ascent.deadline,
            self.n_jobs,
        )

    def _absent_zero(self) -> bool:
        return False

    # --- rows ---

    def _reconstruct(self, X: Matrix) -> Array:
        return components.reconstruct(self._fitted, X, self.n_jobs)

    def _impute(self, X: Matrix) -> Array:
        return self._reconstruct(X)

    def _interval(self, X: Matrix, tail: float) -> tuple[Array, Array]:
        return components.interval(self._fitted, X, tail, self.n_jobs)

    def _anomaly_scores(self, X: Matrix) -> Array:
        """All columns are one part, (n, 1)."""
        return -np.asarray(self.score_samples(X))[:, None]

    def explain(self, x: Given, n_columns: int = 5) -> Explanation:
        """Explain one row: its components, and the columns that support its position in them.

        Parameters
        ----------
        x : array-like of shape (D,) or (1, D), or mapping of columns to values
        n_columns : int, default=5
            Maximum number of columns per component.

        Returns
        -------
        components : Explanation, a list of dict
            For every component of at least 1 % probability (one, for `BayesianPCA`), the most
            probable first: ``component``, ``class`` if there are classes, ``probability``, the
            row's ``factors`` in it, and ``columns``: the columns with the most evidence for the
            factors, each with ``column``, ``value``, ``expected`` at these factors, and
            ``evidence``, the log-likelihood ratio in nats of the value at these factors and in the
            whole component.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import BayesianPCA
        >>> X = load_iris().data
        >>> model = BayesianPCA().fit(X)
        >>> model.explain(X[0])[0]["columns"][0]["column"]
        'x2'
        """
        row = self._one_row(x)
        return Explanation(components.explain(self._fitted, row, n_columns, self.n_jobs))

    # --- densities ---

    def _likelihoods(self, X: Matrix, n_draws: int) -> RowLikelihood:
        return components.likelihoods(self._fitted, X, self.n_jobs)

    def _class_shares(self) -> Array:
        return self._fitted.shares

    def _n_parameters(self) -> float:
        return components.n_parameters(self._fitted)

    def _draw(self, n_samples: int, random_state: Seed) -> np.random.Generator:
        """Generator for new rows; checks their number."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be an integer of at least 1.")
        return as_generator(self.random_state if random_state is None else random_state)

    # --- saving ---

    def __partwise_state__(self) -> dict[str, object]:
        check_is_fitted(self)
        fitted = self._fitted
        assert fitted.calibration is not None
        return {
            "theta": [fields_of(params) for params in fitted.params],
            "columns": fitted.columns[0].fields(),
            "calibration": fields_of(fitted.calibration),
            "dtype": np.dtype(fitted.dtype).name,
            "learned": self._learned(*self._kept),
        }

    def _restored(self, state: SavedState, more: SavedState | None = None) -> FittedComponents:
        """The fitted model of a state, with ``more`` fields of some estimators."""
        prior = self._prior()
        fields: SavedState = restored_fields(state["learned"])
        return FittedComponents(
            BayesianPCA(prior, shares_prior(prior), np.zeros((3, 1))),
            restored_params(state["theta"]),
            (ColumnGroup(likelihood=Gaussian(), **state["columns"]),),
            dtype=np.dtype(state["dtype"]),
            calibration=Calibration(**state["calibration"]),
            n_directions=state["learned"]["n_directions_"],
            **(more or {}),
            **fields,
        )

    def __partwise_restore__(self, state: SavedState) -> None:
        self._adopt(self._restored(state))
