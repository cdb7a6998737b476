"""Filling the holes of a table inside a scikit-learn Pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from partwise.contracts import Array
from partwise.estimators.mcvq import MCVQ


class PartsImputer(TransformerMixin, BaseEstimator):
    """Fill missing entries of a table by what the parts of its columns tell.

    An `MCVQ` as a transformer: `transform` gives the table it is given, filled. For intervals,
    probabilities, several completed tables or odd cells, ask ``model_``.

    Parameters
    ----------
    n_parts, n_states : int, sequence of int or "auto", default="auto"
        As of `MCVQ`; "auto" finds them by the evidence.
    likelihood : str, mapping or sequence, default="auto"
        What columns are; see `MCVQ`.
    add_states : bool, default=False
        Append the row's state of each part as columns part0, part1, ...
    n_jobs : int or None, default=None
    random_state : int, Generator, RandomState or None, default=None

    Attributes
    ----------
    model_ : MCVQ
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PartsImputer, make_survey
    >>> table = make_survey(300, n_parts=2, columns_a_kind=1, random_state=0).frame
    >>> imputer = PartsImputer(random_state=0)
    >>> int(imputer.fit_transform(table).isna().sum().sum())
    0
    >>> imputer.model_.n_parts_
    2
    """

    def __init__(
        self,
        n_parts: int | str = "auto",
        n_states: int | str | Sequence[int] = "auto",
        *,
        likelihood: Any = "auto",
        add_states: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.likelihood = likelihood
        self.add_states = add_states
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PartsImputer:
        """Learn parts and states.

        Parameters
        ----------
        X : array-like or DataFrame of shape (C, D)
            NaN and None are missing.
        y : ignored
        sample_weight : array-like of shape (C,), optional

        Returns
        -------
        self
        """
        self.model_ = self._model().fit(X, sample_weight=sample_weight)
        return self

    def _model(self) -> MCVQ:
        names = ("n_parts", "n_states", "likelihood", "n_jobs", "random_state")
        return MCVQ(**{name: getattr(self, name) for name in names})

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        check_is_fitted(self)
        return int(self.model_.n_features_in_)

    @property
    def feature_names_in_(self) -> Array:
        """Names of the columns."""
        check_is_fitted(self)
        return self.model_.feature_names_in_

    def transform(self, X: Any) -> Any:
        """Fill missing entries; observed ones stay as they are.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)

        Returns
        -------
        filled : ndarray or DataFrame of shape (n, D), with states (n, D + K)
        """
        check_is_fitted(self)
        filled = self.model_.impute(X)
        return self.model_.with_states(X, filled) if self.add_states else filled

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: those of X, then part0, part1, ... if asked for.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (D,) or (D + K,)
        """
        check_is_fitted(self)
        names = [self.model_._column_name(d) for d in range(self.n_features_in_)]
        if not hasattr(self.model_, "feature_names_in_"):
            names = [f"x{name}" for name in names]
        states = [f"part{k}" for k in range(self.model_.n_parts_)] if self.add_states else []
        return np.asarray([*names, *states], dtype=object)

    def save(self, path: Any) -> None:
        """Write the fitted imputer to one safetensors file; `partwise.load` reads it.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.io import save

        check_is_fitted(self)
        save(self, path)

    def _state(self) -> dict[str, Any]:
        return {"model": self.model_._state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.model_ = self._model()
        self.model_._restore(state["model"])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
