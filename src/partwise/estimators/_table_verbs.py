"""Methods for tables that models with states and with factors share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from partwise.answers import tables
from partwise.contracts import Array
from partwise.estimators._rows import by_rows
from partwise.estimators._sequences import in_sequence
from partwise.estimators._table_rows import TableRows
from partwise.sampling.randomness import as_generator
from partwise.typing import DataLike, Frame, Given, Name, Seed


class TableVerbs(TableRows):
    """Predictions of cells and columns, in the user's terms."""

    def _level_probabilities(self, coded: Array, places: Sequence[int]) -> dict[int, Array]:
        """Probability of the levels of some columns in every row, (n, V) each."""
        return tables.predict_proba_columns(self._fitted, coded, places, self.n_jobs)

    def _drawn(self, coded: Array, generators: Sequence[np.random.Generator]) -> Iterator[Array]:
        """Rows with missing values sampled given the observed ones, once per generator."""
        return tables.draw(self._fitted, coded, generators, self.n_jobs)

    @in_sequence
    @by_rows
    def impute(
        self, X: DataLike, n_imputations: int | None = None, *, random_state: Seed = None
    ) -> Array | Frame | list[Array | Frame]:
        """Impute missing values; observed values are unchanged.

        Numbers are imputed by their expectation, categories and booleans by the most probable
        value, ordered categories by the median.

        Parameters
        ----------
        X : array-like, DataFrame or sparse of shape (n, D)
        n_imputations : int, optional
            Number of completed tables to sample, for multiple imputation. In each table, a row's
            states (or factors) are sampled given its observed values, and its missing values given
            these. `MCFA` has them with ``likelihood="auto"``.
        random_state : int, Generator, RandomState or None, default=None
            Random seed of the samples; None uses the ``random_state`` of the estimator.

        Returns
        -------
        imputed : ndarray or DataFrame of shape (n, D), or a list of ``n_imputations`` of these
            A DataFrame keeps its index, categories and types.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> X = load_iris().data
        >>> model = MCVQ(n_parts=2, n_states=3, random_state=0).fit(X)
        >>> X[0, 2] = float("nan")
        >>> bool(model.impute(X)[0, 2] < 2)
        True
        >>> tables = model.impute(X, n_imputations=5)
        >>> len(tables), tables[0].shape
        (5, (150, 4))
        """
        check_is_fitted(self)
        if n_imputations is None and self._fitted.schema is None:
            return super().impute(X)
        coded = self._checked(X)
        if n_imputations is None:
            return tables.fill(self._fitted, X, coded, self._impute(coded))
        if not isinstance(n_imputations, Integral) or n_imputations < 1 or sparse.issparse(coded):
            raise ValueError(
                f"n_imputations={n_imputations!r} must be an integer of at least 1, with dense X."
            )
        rng = as_generator(self.random_state if random_state is None else random_state)
        generators, schema = rng.spawn(int(n_imputations)), self._fitted.schema
        drawn = list(self._drawn(coded, generators))
        if schema is not None:
            known = ~np.isnan(coded)
            drawn = [
                schema.sampled_together(*of, known) for of in zip(drawn, generators, strict=True)
            ]
        return [tables.fill(self._fitted, X, coded, values, sampled=True) for values in drawn]

    @in_sequence
    def score_cells(
        self, X: DataLike, rows: ArrayLike, columns: Sequence[Name] | Array, values: ArrayLike
    ) -> Array:
        """Log predictive density of single cells, each given the observed values of its row.

        Parameters
        ----------
        X : array-like, DataFrame or sparse of shape (n, D)
            Rows with observed values; the cells to score should be missing.
        rows, columns : array-like of shape (n_cells,)
            Positions of the cells, in any order; columns of a table also by name.
        values : array-like of shape (n_cells,)
            Values of the cells, as in X.

        Returns
        -------
        log_density : ndarray of shape (n_cells,)
            In nats, in the units of X; for counts and categories the log probability.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> table.loc[0, "species"] = None
        >>> columns, values = ["species", "species"], ["setosa", "virginica"]
        >>> found = model.score_cells(table, [0, 0], columns, values)
        >>> bool(found[0] > found[1])
        True
        """
        check_is_fitted(self)
        schema = self._fitted.schema
        if schema is None:
            return super().score_cells(X, rows, columns, values)
        places = np.array([schema.place(name) for name in columns], dtype=np.int64)
        coded = schema.encode_cells(places, list(np.asarray(values, dtype=object)))
        return self._score_cells(self._checked(X), rows, places, coded)

    @in_sequence
    def predict_proba_columns(
        self, X: DataLike, columns: Sequence[Name] | None = None
    ) -> dict[Name, Array]:
        """Probability of every level of boolean, categorical and ordered columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D)
            For an observed cell, the probabilities are conditional on the whole row, the cell
            included.
        columns : list of names or positions, optional
            By default all columns that have levels.

        Returns
        -------
        probabilities : dict
            For each column, by name, an array of shape (n, V), with levels in the order of
            ``column_levels_``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> model.column_levels_["species"]
        ('setosa', 'versicolor', 'virginica')
        >>> model.predict_proba_columns(table, ["species"])["species"].shape
        (150, 3)
        """
        coded = self._checked(X)
        names = range(self.n_features_in_) if columns is None else columns
        places = [tables.place_of(self._fitted, name) for name in names]
        found = self._level_probabilities(coded, places)
        return {tables.name_of(self._fitted, d): values for d, values in found.items()}

    def predict_columns(
        self,
        X: DataLike | None = None,
        columns: Name | Sequence[Name] | None = None,
        *,
        given: Given | None = None,
    ) -> Array | Frame:
        """Predict some columns from the others.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, D), optional
            Rows; a DataFrame may lack some of the columns.
        columns : str, int or sequence of these
            Names (or positions) of the columns to predict. Their values in X are not used.
        given : mapping or DataFrame, optional
            Instead of X: one row as a mapping of columns to values, or rows.

        Returns
        -------
        predicted : ndarray or DataFrame of shape (n, len(columns))
            Expectation of numbers, most probable category, median of ordered categories.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from partwise import MCVQ
        >>> iris = load_iris(as_frame=True)
        >>> table = iris.data.assign(species=iris.target_names[iris.target])
        >>> model = MCVQ(n_parts=1, n_states=3, likelihood="auto", random_state=0).fit(table)
        >>> known = {"petal length (cm)": 1.4}
        >>> model.predict_columns(given=known, columns="species")["species"].item()
        'setosa'
        """
        check_is_fitted(self)
        if (X is None) == (given is None) or columns is None:
            raise ValueError(
                "predict_columns needs the columns to predict and either X or given, as in "
                "predict_columns(X, ['age']) or predict_columns(given={'height': 180}, "
                "columns=['age'])."
            )
        asked = list(columns) if isinstance(columns, Sequence | np.ndarray) else [columns]
        asked = [columns] if isinstance(columns, str) else asked
        places = [tables.place_of(self._fitted, name) for name in asked]
        given_rows, index = self._read_given(given if X is None else X)
        coded = given_rows.copy()  # rows of numbers are X itself
        coded[:, places] = np.nan
        filled = self._impute(coded)
        if self._fitted.schema is None:
            return filled[:, places]
        return self._fitted.schema.decode(filled, index, places, predicted=True)
