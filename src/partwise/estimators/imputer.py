"""Imputation of a table's missing values inside a scikit-learn Pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from partwise.answers import tables
from partwise.contracts import Array
from partwise.estimators._base import checked_rows
from partwise.estimators._fitted_imputer import FittedImputer
from partwise.estimators._imputer_fits import ImputerFits
from partwise.estimators._rows import by_rows
from partwise.estimators._verbs import check_coverage
from partwise.estimators.mcvq import MCVQ
from partwise.fitted import fitted_of
from partwise.fitting.factor_blend import Answers, Blend
from partwise.fitting.number_columns import NumberColumns
from partwise.fitting.options import SizeOptions
from partwise.fitting.residual import Regressor
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, Likelihoods, Matrix, Name, PathLike, SavedState, Seed


class PartsImputer(TransformerMixin, BaseEstimator):
    """Impute the missing values of a table by the parts of its columns.

    `transform` returns the table with its missing values imputed. Every column blends the state
    model (`MCVQ`) with a factor model of all columns (`MCFA`), since rows in the same states still
    differ, and with a quadratic regression on all other columns, a logistic one for levels. All
    weights are chosen for each column on held-out cells. The blend is one predictive distribution
    of every missing cell: imputed values, `predict_proba_columns`, `predict_interval` and the
    samples of `impute` come from it.

    Parameters
    ----------
    n_parts, n_states : int, sequence of int or "auto", default="auto"
        As of `MCVQ`, but "auto" does not search: it is 2 parts of 16 states or, while the ELBO of
        a short fit rises, more parts of 8; states that are not needed stay empty. Such parts
        impute well but need not be those of the table; ``sizes=SizeOptions()`` selects sizes.
    likelihood : str, mapping or sequence, default="auto"
        What columns are; see `MCVQ`. With "auto", numbers of more than ten values are never
        levels.
    n_factors : int, default=16
        Maximum number of factors; unneeded factors vanish. 0: states alone, whose intervals are not
        calibrated.
    copula : bool, default=False
        Blend a factor model through a Gaussian copula, too (``MCFA(likelihood="auto")``). It helps
        where numbers are skewed or heavy-tailed, and takes about as long as all the rest.
    loss : {"squared", "absolute"}, default="squared"
        Error of numbers that imputed values minimize: expectations, or medians.
    residual : scikit-learn regressor or None, default=None
        Regression of every number on all other columns, for curved dependence that states,
        factors and quadratic terms leave, for example
        ``ExtraTreesRegressor(50, min_samples_leaf=3)``; its weight is chosen for each column on
        held-out cells. It is fitted twice for each column of numbers, without ``sample_weight``,
        and takes several times as long as all the rest. Seeds that it leaves open follow from
        ``random_state``. Needs ``n_factors`` of at least 1; such an imputer is kept by pickle,
        joblib or skops, not by `save`.
    n_fits : int, default=1
        Number of fits whose predictions are averaged: the first to X unchanged; the others from
        other starts, with random row weights (the Bayesian bootstrap) and, where the ELBO selected
        the number of states, twice as many. Averaging improves the probabilities most.
    sizes : SizeOptions or None, default=None
        Select sizes that are "auto" by the ELBO, as `MCVQ` does, for example
        ``sizes=SizeOptions()``.
    add_states : bool, default=False
        Append the row's state of each part as columns part0, part1, ...
    encode : bool, default=False
        Return numbers for the next estimator of a pipeline: unordered levels as a column of 0 and 1
        each, named column_level; ordered levels and booleans as 0, 1, ...; dates as days. Numbers
        are expectations, not rounded. Columns that the model ignores are dropped.
    n_jobs : int or None, default=None
    random_state : int, Generator, RandomState or None, default=None

    Attributes
    ----------
    model_ : MCVQ
        The first of ``models_``.
    models_ : list of MCVQ
        All that are averaged.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (D,)
        Where X had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PartsImputer, make_survey
    >>> table = make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame
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
        likelihood: Likelihoods = "auto",
        n_factors: int = 16,
        copula: bool = False,
        loss: str = "squared",
        residual: Regressor | None = None,
        n_fits: int = 1,
        sizes: SizeOptions | None = None,
        add_states: bool = False,
        encode: bool = False,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_parts = n_parts
        self.n_states = n_states
        self.likelihood = likelihood
        self.n_factors = n_factors
        self.copula = copula
        self.loss = loss
        self.residual = residual
        self.n_fits = n_fits
        self.sizes = sizes
        self.add_states = add_states
        self.encode = encode
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: DataLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> PartsImputer:
        """Learn parts, states and factors.

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
        self._learn(X, sample_weight)
        return self

    def fit_transform(
        self, X: DataLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Matrix | Frame:
        """`fit`, then `transform` of the same rows, in less time than separately.

        Parameters are those of `fit`, the table is that of `transform`.
        """
        self._answers = self._learn(X, sample_weight)
        try:
            return self.transform(X)
        finally:
            del self._answers

    def _learn(self, X: DataLike, sample_weight: ArrayLike | None) -> Answers | None:
        """Fit to rows; what is known about them, if anything."""
        models, blend, answers = self._fits().learn(X, sample_weight, self.random_state)
        self._adopt(models, blend)
        return answers

    def _fits(self) -> ImputerFits:
        sizes = self.n_parts, self.n_states, self.sizes
        blend = self.n_factors, self.copula, self.loss
        return ImputerFits(*sizes, self.likelihood, *blend, self.residual, self.n_fits, self.n_jobs)

    def _adopt(self, models: list[MCVQ], blend: Blend | None) -> PartsImputer:
        self.models_ = models
        self._fitted = FittedImputer(tuple(fitted_of(model) for model in models), blend)
        return self

    _is_table = True  # `by_rows` reads frames

    @property
    def model_(self) -> MCVQ:
        """The first fit."""
        check_is_fitted(self)
        return self.models_[0]

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

    @by_rows
    def transform(self, X: DataLike) -> Matrix | Frame:
        """Impute missing values; observed ones stay unchanged.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)

        Returns
        -------
        filled : ndarray or DataFrame of shape (n, D), with states (n, D + K)
            With ``encode=True`` an array of floats, named by `get_feature_names_out`.
        """
        check_is_fitted(self)
        if sparse.issparse(X):
            return self.model_.impute(X)
        answers = self._asked(checked_rows(self.model_, X))
        if self.encode:
            return self._fitted.encoded(answers, self.loss, self.add_states, self.n_jobs)
        table = self._fitted.imputed(X, answers, self.loss)
        return self.model_.add_states(X, table) if self.add_states else table

    def _asked(self, coded: Array) -> Answers:
        """What the models say about the missing cells of coded rows."""
        known = getattr(self, "_answers", None)
        if known is not None and np.array_equal(known.coded, coded, equal_nan=True):
            return known
        return self._fitted.asked(coded, self.n_jobs)

    @by_rows
    def predict_interval(
        self, X: DataLike, coverage: float = 0.9
    ) -> tuple[Matrix | Frame, Matrix | Frame]:
        """Interval that contains a missing value with probability ``coverage``.

        Tail probabilities of numbers are calibrated by those of held-out cells. The ends of numbers
        that have a resolution (whole numbers, decimals) are the first and last possible values
        inside the interval.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        coverage : float, default=0.9

        Returns
        -------
        lower, upper : ndarray or DataFrame of shape (n, D)
            Both ends are the value itself where it is observed, and missing for levels without
            order and for angles, whose intervals only `MCVQ` has.

        Examples
        --------
        >>> from partwise import PartsImputer, make_survey
        >>> table = make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame
        >>> imputer = PartsImputer(random_state=0).fit(table)
        >>> lower, upper = imputer.predict_interval(table, coverage=0.8)
        >>> lower.shape == table.shape
        True
        """
        check_is_fitted(self)
        check_coverage(coverage)
        if sparse.issparse(X):
            return self.model_.predict_interval(X, coverage)
        answers = self._asked(checked_rows(self.model_, X))
        return self._fitted.interval(X, answers, float(coverage))

    def imputations(self, X: DataLike, coverage: float = 0.9) -> Frame:
        """Every missing value with what is imputed, as a tidy table.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        coverage : float, default=0.9
            Coverage of the intervals.

        Returns
        -------
        imputed : DataFrame, one row per missing cell
            The fields of `MCVQ.imputations`: ``row`` (its label) and ``column``, ``value`` as of
            `transform`, ``lower`` and ``upper`` as of `predict_interval`, ``probability`` of a
            level as of `predict_proba_columns`, and ``how``: "expected value", "median", "most
            probable level" or "median level". It says so if no value of the row is observed.

        Examples
        --------
        >>> from partwise import PartsImputer, make_survey
        >>> table = make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame
        >>> imputer = PartsImputer(random_state=0).fit(table)
        >>> listed = imputer.imputations(table, coverage=0.8)
        >>> len(listed) == int(table.isna().sum().sum())
        True
        """
        check_is_fitted(self)
        check_coverage(coverage)
        if sparse.issparse(X):
            raise ValueError("imputations needs dense X; pass X.toarray(), with NaN where missing.")
        answers = self._asked(checked_rows(self.model_, X))
        return self._fitted.imputations(X, answers, self.loss, float(coverage))

    def impute(
        self, X: DataLike, n_imputations: int | None = None, *, random_state: Seed = None
    ) -> Matrix | Frame | list[Matrix | Frame]:
        """The table of `transform`, or completed tables with sampled values.

        Values are sampled from the same predictive distributions as those of `transform`; within a
        row they depend on each other as in the state model. `partwise.metrics.pool_estimates`
        combines estimates from the completed tables.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
        n_imputations : int, optional
            Number of completed tables to sample, for multiple imputation.
        random_state : int, Generator, RandomState or None, default=None
            Random seed of the samples; None uses the ``random_state`` of the imputer.

        Returns
        -------
        imputed : ndarray or DataFrame of shape (n, D), or a list of ``n_imputations`` of these

        Examples
        --------
        >>> from partwise import PartsImputer, make_survey
        >>> table = make_survey(300, n_parts=2, n_columns_per_kind=1, random_state=0).frame
        >>> imputer = PartsImputer(random_state=0).fit(table)
        >>> len(imputer.impute(table, n_imputations=3, random_state=0))
        3
        """
        check_is_fitted(self)
        if n_imputations is None:
            return self.transform(X)
        if not isinstance(n_imputations, Integral) or n_imputations < 1:
            raise ValueError(
                f"n_imputations={n_imputations!r} must be a whole number of at least 1."
            )
        coded, fitted = checked_rows(self.model_, X), self._fitted.fits[0]
        rng = as_generator(self.random_state if random_state is None else random_state)
        generators = rng.spawn(int(n_imputations))
        return [
            tables.fill(fitted, X, coded, drawn, sampled=True)
            for drawn in self._asked(coded).samples(generators)
        ]

    def predict_proba_columns(self, X: DataLike) -> dict[Name, Array]:
        """Probability of every level of yes-or-no, categorical and ordered columns.

        Those of an observed cell are given the whole row, the cell included.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)

        Returns
        -------
        probabilities : dict
            For each column, by name, an array of shape (n, V); its levels are in the order of
            ``model_.column_levels_``.
        """
        check_is_fitted(self)
        if sparse.issparse(X):
            return self.model_.predict_proba_columns(X)
        coded, fits = checked_rows(self.model_, X), self._fitted.fits
        found = self._asked(coded).shares()
        return {tables.name_of(fits[0], d): found[d] for d in sorted(found)}

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Names of the columns of `transform`: those of X, then part0, part1, ... if asked for.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of shape (D,) or (D + K,)
        """
        check_is_fitted(self)
        names = [self._fitted.fits[0].column_name(d) for d in range(self.n_features_in_)]

        if self.encode:
            names = self._fitted.encoded_names()
        parts = [f"part{k}" for k in range(self.model_.n_parts_)] if self.add_states else []
        return np.asarray([*names, *parts], dtype=object)

    def save(self, path: PathLike) -> None:
        """Write the fitted imputer to one safetensors file; `partwise.load` reads it.

        Parameters
        ----------
        path : str or path-like
        """
        from partwise.files.model import save

        check_is_fitted(self)
        save(self, path)

    def __partwise_state__(self) -> SavedState:
        blend = self._fitted.blend
        if self.residual is not None or (blend is not None and blend.regressions):
            raise ValueError(
                "An imputer with a regressor, residual=, is not saved, since model files hold no "
                "pickled objects; use pickle, joblib or skops."
            )
        return {
            "models": [model.__partwise_state__() for model in self.models_],
            "factors": None if blend is None else blend.state(),
        }

    def __partwise_restore__(self, state: SavedState) -> None:
        models = [self._fits().model(self.n_parts, self.n_states, None) for _ in state["models"]]
        for model, own in zip(models, state["models"], strict=True):
            model.__partwise_restore__(own)
        saved = state["factors"]
        columns = NumberColumns.of(fitted_of(models[0]))
        self._adopt(models, None if saved is None else Blend.restored(saved, columns))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
