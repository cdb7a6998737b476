"""Methods for tables that models with states and with factors share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from partwise.answers import tables
from partwise.contracts import Array
from partwise.estimators._table_rows import TableRows
from partwise.typing import DataLike, Frame, Given, Name


class TableVerbs(TableRows):
    """Predictions of cells and columns, in the user's terms."""

    def _level_probabilities(self, coded: Array, places: Sequence[int]) -> dict[int, Array]:
        """Probability of the levels of some columns in every row, (n, V) each."""
        return tables.predict_proba_columns(self._fitted, coded, places, self.n_jobs)

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
        coded, index = self._read_given(given if X is None else X)
        coded[:, places] = np.nan
        filled = self._impute(coded)
        if self._fitted.schema is None:
            return filled[:, places]
        return self._fitted.schema.decode(filled, index, places, predicted=True)
